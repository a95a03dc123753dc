//! Confirms a failure under the reference engine.
//!
//! Storms run under turmoil; the event engine only screens them. A finding of the
//! event engine is told with what turmoil says of the same plan: confirmed, not
//! confirmed, or that turmoil has no means for a part of the plan. Turmoil draws its
//! own latencies, so the same plan is tried under a few of its seeds; how many it
//! took is told.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::locks::LockFactory;
use super::{Run, run_with};
use crate::check::{Kind, Verdict};
use crate::engine::Engine;
use crate::engine::turmoil::Turmoil;
use crate::plan::Plan;

/// Under how many of turmoil's seeds a plan is tried.
pub const TRIES: u32 = 8;

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
        let run = run_with(plan, &engine, factory);
        if agrees(&run) {
            return Confirmation::Confirmed { tries: reseed + 1 };
        }
        instead = run.judgement.verdict;
    }
    Confirmation::NotConfirmed { instead }
}
