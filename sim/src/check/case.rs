//! A case: a history, what is known of the lock that made it, and what all checkers
//! look up.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::blame::Faults;
use super::books::{Books, Sales};
use super::goals::Wanted;
use super::grants::Grants;
use super::records::{self, Loss};
use super::steps::Steps;
use super::waits::{Wait, waits};
use crate::history::History;
use crate::plan::Fence;

/// What a judge must know beside the history. In a file it is the header's `setting`;
/// what is left out there is as in [`Setting::default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Setting {
    /// How much of the fence the resource uses.
    pub fence: Fence,
    /// How long, after all faults have healed, the lock may stay closed though nobody
    /// holds it and somebody asks, µs. `None`: the lock declares nothing, and liveness
    /// is not judged.
    pub takeover_bound_us: Option<u64>,
    /// How often a waiter may be passed over by requests that reached the server after
    /// its own. `None`: the lock declares nothing.
    pub bypass_bound: Option<u32>,
    /// How long, after all faults have healed, a holder may go on without being told
    /// that its grant is lost, µs. `None`: the lock declares nothing.
    pub loss_notice_bound_us: Option<u64>,
    /// At how many servers, each for itself, a record must be for the lock to be held:
    /// 1 for a lock on one master, a majority of its servers for Redlock.
    pub quorum: u16,
    /// How many faults the plan has.
    pub faults: usize,
    /// Whether the lock keeps records; `none` does not, and then nothing is promised.
    pub lock_has_records: bool,
    /// Whether the lock promises that tokens grow from grant to grant.
    pub ordered_tokens: bool,
    /// Whether the strategy does without locks (optimistic, conditional): then a
    /// conflict must have happened, not a handover.
    pub lock_free: bool,
    /// What else must have happened for a safe run to mean anything.
    pub goals: Wanted,
}

impl Default for Setting {
    fn default() -> Self {
        Setting {
            fence: Fence::Off,
            takeover_bound_us: None,
            bypass_bound: None,
            loss_notice_bound_us: None,
            quorum: 1,
            faults: 0,
            lock_has_records: true,
            ordered_tokens: false,
            lock_free: false,
            goals: Wanted::default(),
        }
    }
}

impl Setting {
    /// As a file's header has it.
    ///
    /// # Errors
    /// One sentence, when the header has something else.
    pub fn from_header(setting: &Value) -> Result<Setting, String> {
        if setting.is_null() {
            return Ok(Setting::default());
        }
        Setting::deserialize(setting).map_err(|error| format!("`setting`: {error}"))
    }

    /// For a file's header.
    pub fn to_header(self) -> Value {
        // No map with foreign keys, no number out of range: it cannot fail.
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// What every checker is given.
#[derive(Debug)]
pub struct Case<'a> {
    /// What happened.
    pub history: &'a History,
    /// Under which circumstances.
    pub setting: Setting,
    /// The table of grants.
    pub grants: Grants,
    /// The promised records that vanished, by the row of their grant.
    pub losses: BTreeMap<usize, Loss>,
    /// The faults.
    pub faults: Faults,
    /// Who waited.
    pub waits: Vec<Wait<'a>>,
    /// How often each wait was passed over, once somebody has asked.
    pub(super) bypasses: OnceCell<BTreeMap<usize, u64>>,
    /// The books, once somebody has asked.
    pub(super) books: OnceCell<Books<'a>>,
    /// The accepted sales, once somebody has asked.
    pub(super) sales: OnceCell<Sales<'a>>,
    /// How long the checker at work may still think.
    pub steps: Steps,
    /// How many findings hang on clocks that are not known well enough.
    pub undecided: Cell<usize>,
}

impl<'a> Case<'a> {
    /// Looks everything up.
    pub fn new(history: &'a History, setting: Setting) -> Case<'a> {
        let grants = Grants::of(history, setting.lock_has_records, setting.quorum);
        let faults = Faults::of(history);
        let steps = Steps::enough_for(history.events.len());
        let losses = records::losses(history, &grants, setting.quorum, &steps);
        let waits = waits(history, &steps);
        let undecided = Cell::new(0);
        Case {
            history,
            setting,
            losses,
            grants,
            faults,
            waits,
            bypasses: OnceCell::new(),
            books: OnceCell::new(),
            sales: OnceCell::new(),
            steps,
            undecided,
        }
    }

    /// Notes that something can neither be told nor be excluded.
    pub(super) fn leave_undecided(&self) {
        self.undecided.set(self.undecided.get().saturating_add(1));
    }
}

/// Of one kind of finding no more than this are told, the earliest: a broken lock in
/// a long storm breaks at every step, and the first is what matters.
pub(super) const MOST_OF_A_KIND: usize = 50;
