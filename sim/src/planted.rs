//! Locks with bugs planted in them, and of each a mended twin that differs by the mend
//! alone.
//!
//! Each bug follows what the code of a public report did (docs/bugs.md maps the reports);
//! it is real code that talks to the servers through the real clients. A plan names
//! one as `planted/bare-del`, its twin as `mended/bare-del`. They measure how well hunts
//! find bugs, and show that each checker catches what it is for; they are not among the
//! product's locks.
//!
//! Order of things: [`Bug`] is what is known of one, [`BUGS`] are all; the `desk` is the
//! connection with the sound steps of a lock, the `recipe` is a lock made of steps of which
//! a bug replaces one, `renewal` keeps a record alive, the `ensemble` is a session with
//! ZooKeeper and a place in a queue there, the `database` a connection to PostgreSQL, `patience`
//! what waits until a lock is granted; then one file a family of bugs. [`Checkout`] is a bug of
//! how a sale stands to its lock, which is another's. It knows no history and no hunt.

mod answers;
mod bugs;
mod checkout;
mod clocks;
mod counted;
mod database;
mod desk;
mod ensemble;
mod identity;
mod lease;
mod line;
mod open;
mod order;
mod patience;
mod queue;
mod quorum;
mod recipe;
mod release;
mod renewal;
mod table;
mod taking;
mod tokens;
mod wakeups;
mod watchdog;

use std::sync::Arc;

use lockstorm::Host;
use lockstorm::lock::Lock;

use crate::plan::{Fence, Plan};
use crate::storm::locks;
use desk::Desk;

pub use bugs::{BUGS, OF_ORDER, WASTES};
pub use checkout::Checkout;

/// Which of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// With the bug.
    Planted,
    /// With the mend.
    Mended,
}

impl Half {
    /// Whether it is the mended one.
    pub fn is_mended(self) -> bool {
        self == Half::Mended
    }

    fn prefix(self) -> &'static str {
        match self {
            Half::Planted => "planted/",
            Half::Mended => "mended/",
        }
    }
}

/// What a bug is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Strategies may be tuned on it.
    Tuning,
    /// Strategies are measured on it, and nothing is tuned.
    HeldOut,
}

/// A planted bug: what it is, and the storm in which it can be found.
#[derive(Clone, Copy)]
pub struct Bug {
    /// Its name, without `planted/`.
    pub name: &'static str,
    /// The kinds of the reports that it follows, as docs/bugs.md numbers them.
    pub report_kinds: &'static [&'static str],
    /// The stable names of the kinds of finding that show it, any of them.
    pub shows: &'static [&'static str],
    /// The scenario.
    pub scenario: &'static str,
    /// How much of the fence.
    pub fence: Fence,
    /// What the scenario's plan is changed by, as `--set` writes it.
    pub settings: &'static [(&'static str, &'static str)],
    /// What it is for.
    pub purpose: Purpose,
    /// Whether it promises that tokens grow from grant to grant.
    pub ordered_tokens: bool,
    build: Build,
}

/// How the lock is built: of its connection to the one master, or of the whole plan; or how
/// the sale is, under a lock that is none of ours.
#[derive(Clone, Copy)]
enum Build {
    AtTheMaster(fn(Desk, Half) -> Arc<dyn Lock>),
    Anywhere(fn(&Host, &Plan, Half) -> Arc<dyn Lock>),
    Sale { lock: &'static str, checkout: fn(&Host, &Plan, Half) -> Checkout },
}

impl Bug {
    /// The lock's name in a plan.
    pub fn lock_name(&self, half: Half) -> String {
        format!("{}{}", half.prefix(), self.name)
    }
}

impl std::fmt::Debug for Bug {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Bug").field(&self.name).finish()
    }
}

/// The bug of a lock's name in a plan, and which half of the pair; `None` for other locks.
pub fn find(lock_name: &str) -> Option<(&'static Bug, Half)> {
    [Half::Planted, Half::Mended].into_iter().find_map(|half| {
        let name = lock_name.strip_prefix(half.prefix())?;
        let mut all = BUGS.iter().chain(WASTES).chain(OF_ORDER);
        Some((all.find(|bug| bug.name == name)?, half))
    })
}

/// Builds the planted lock, or twin, that `plan` names; `None` if it names another lock.
///
/// # Errors
/// When the options of the lock that a planted sale goes by contradict each other.
pub fn build(host: &Host, plan: &Plan) -> Option<Result<Arc<dyn Lock>, String>> {
    let (bug, half) = find(&plan.lock.name)?;
    Some(match bug.build {
        Build::AtTheMaster(build) => Ok(build(Desk::new(host.clone(), plan), half)),
        Build::Anywhere(build) => Ok(build(host, plan, half)),
        Build::Sale { lock, .. } => locks::build_named(host, plan, lock),
    })
}

/// How the clients of `plan` sell, if the bug that it names is in that.
pub fn checkout(host: &Host, plan: &Plan) -> Option<Checkout> {
    let (bug, half) = find(&plan.lock.name)?;
    match bug.build {
        Build::Sale { checkout, .. } => Some(checkout(host, plan, half)),
        Build::AtTheMaster(_) | Build::Anywhere(_) => None,
    }
}

#[cfg(test)]
mod tests;
