//! Confirms a failure under the reference engine.
//!
//! Storms run under turmoil; the event engine only screens them. A finding of the
//! event engine is told with what turmoil says of the same plan: confirmed, not
//! confirmed, or that turmoil has no means for a part of the plan.
//!
//! Turmoil's millisecond ticks move every event a little, so whether two clients meet
//! in a window of some milliseconds is another draw there. The first try keeps all of
//! the plan's own draws; each further one keeps its faults, anchors, topology and
//! options, is half as long again (rounds take longer
//! there), and draws think times, work and latencies anew. How many tries it took is
//! told, and so is a plan that never showed it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::locks::LockFactory;
use super::{Run, run_with};
use crate::check::{Kind, Verdict};
use crate::draw::Draw;
use crate::engine::Engine;
use crate::engine::event::{EventEngine, PromptEventEngine};
use crate::engine::turmoil::Turmoil;
use crate::plan::{Fault, FaultKind, Micros, Plan, Seed};

/// How often a plan is tried, with other draws each time.
pub const TRIES: u32 = 24;

/// What the reference engine says of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "confirmation")]
pub enum Confirmation {
    /// The same kind of violation happens there.
    Confirmed {
        /// At the how-manieth try, from 1.
        tries: u32,
    },
    /// It did not happen there in [`TRIES`] tries.
    NotConfirmed {
        /// What happened instead, the last time.
        instead: Verdict,
    },
    /// Turmoil has no means for a part of the plan.
    NotExpressible {
        /// Which, as a clause for people.
        clause: String,
    },
}

impl Confirmation {
    /// Whether this is good enough to be told as a finding: confirmed, or honestly
    /// out of turmoil's reach.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Confirmation::NotConfirmed { .. })
    }
}

impl fmt::Display for Confirmation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = Turmoil::default().title();
        match self {
            Confirmation::Confirmed { tries: 1 } => write!(formatter, "{title}: confirmed"),
            Confirmation::Confirmed { tries } => {
                write!(formatter, "{title}: confirmed (try {tries} of {TRIES})")
            }
            Confirmation::NotConfirmed { instead } => {
                write!(
                    formatter,
                    "{title}: not confirmed in {TRIES} tries (the last was {instead})"
                )
            }
            Confirmation::NotExpressible { clause } => {
                write!(formatter, "{title}: cannot express {clause}")
            }
        }
    }
}

/// Asks turmoil about a violation that `run` found.
pub fn confirm(run: &Run, factory: &LockFactory) -> Confirmation {
    let Some(kind) = run.judgement.gravest() else {
        return confirm_verdict(&run.plan, run.judgement.verdict, factory);
    };
    confirm_kind(&run.plan, kind, factory)
}

/// Asks turmoil whether `plan` shows this kind of violation.
pub fn confirm_kind(plan: &Plan, kind: Kind, factory: &LockFactory) -> Confirmation {
    try_under_turmoil(plan, factory, |run| run.judgement.has_violation(kind))
}

/// Asks turmoil whether `plan` gives this verdict.
pub fn confirm_verdict(plan: &Plan, verdict: Verdict, factory: &LockFactory) -> Confirmation {
    try_under_turmoil(plan, factory, |run| run.judgement.verdict == verdict)
}

/// Storms shorter than this are made longer for a further try, µs.
const SHORT_US: u64 = 40_000_000;

/// The plan with its own draws for try 0, and with others after it.
fn with_other_draws(plan: &Plan, try_number: u32) -> Plan {
    if try_number == 0 {
        return plan.clone();
    }
    let seed = Seed(Draw::new(plan.seed.0, "confirmation", &try_number.to_string()).bits());
    // Rounds take longer there, so a client's 20th comes later: half as long again, but
    // not so long that the plan becomes one that turmoil does not run.
    let longer = Micros(plan.duration.0 + plan.duration.0 / 2);
    let duration = if plan.duration.0 < SHORT_US { longer } else { plan.duration };
    Plan { seed, duration, ..plan.clone() }
}

fn try_under_turmoil(
    plan: &Plan,
    factory: &LockFactory,
    agrees: impl Fn(&Run) -> bool,
) -> Confirmation {
    if let Some(clause) = Turmoil::default().cannot_express(plan) {
        return Confirmation::NotExpressible { clause };
    }
    let mut instead = Verdict::Unknown;
    for reseed in 0..TRIES {
        let engine = Turmoil { reseed: u64::from(reseed), ..Turmoil::default() };
        let run = run_with(&with_other_draws(plan, reseed), &engine, factory);
        if agrees(&run) {
            return Confirmation::Confirmed { tries: reseed + 1 };
        }
        instead = run.judgement.verdict;
    }
    if hangs_on_late_retransmission(plan, factory, &agrees) {
        return Confirmation::NotExpressible { clause: LATE_RETRANSMISSION.to_owned() };
    }
    Confirmation::NotConfirmed { instead }
}

/// What turmoil has no means for in a plan whose failure hangs on it.
pub const LATE_RETRANSMISSION: &str =
    "a cut after whose heal data arrives when its retransmission is due, and not at once";

/// Whether the failure goes away on our own engine, under all the same draws, as soon
/// as what a cut held arrives with the heal, as it does under turmoil.
fn hangs_on_late_retransmission(
    plan: &Plan,
    factory: &LockFactory,
    agrees: impl Fn(&Run) -> bool,
) -> bool {
    let is_cut = |fault: &Fault| matches!(fault.kind, FaultKind::Partition { .. });
    if !plan.faults.iter().any(is_cut) {
        return false;
    }
    let shows = |engine: &dyn Engine| {
        (0..TRIES).any(|try_number| {
            agrees(&run_with(&with_other_draws(plan, try_number), engine, factory))
        })
    };
    !shows(&PromptEventEngine) && shows(&EventEngine)
}
