//! What another engine says of a plan: whether it shows the same.
//!
//! The engines agree on plans, not on schedules: the same seed gives each of them other
//! latencies and another order of tasks. So an engine is asked up to [`TRIES`] times, at
//! first with the plan's own draws and then with others, as a confirmation does, and it
//! agrees as soon as one of its runs has the verdict, and of a violation its gravest kind.
//!
//! Where an engine does not agree, the cause may be that it means something else by a part of
//! the plan. [`DIFFERENCES`] lists what is known (docs/engines.md); a plan without such a
//! part, on which an engine does not agree, is unexplained, and to be looked into.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::confirm::{TRIES, with_other_draws};
use super::locks::LockFactory;
use super::run_with;
use crate::check::{Judgement, Kind, Verdict};
use crate::engine::Engine;
use crate::plan::{FaultKind, Plan};

/// What a plan is said to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Claim {
    /// The verdict.
    pub verdict: Verdict,
    /// Of a violation, the kind that it is told by.
    pub gravest: Option<Kind>,
}

impl Claim {
    /// What a run shows.
    pub fn of(judgement: &Judgement) -> Claim {
        Claim { verdict: judgement.verdict, gravest: judgement.gravest() }
    }

    /// Whether a run shows this, whatever else it shows.
    pub fn is_met_by(&self, judgement: &Judgement) -> bool {
        let has_kind = self.gravest.is_none_or(|kind| judgement.has_violation(kind));
        judgement.verdict == self.verdict && has_kind
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gravest {
            Some(kind) => write!(formatter, "{} ({})", self.verdict.id(), kind.id()),
            None => formatter.write_str(self.verdict.id()),
        }
    }
}

/// What an engine says of a claim about a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Opinion {
    /// The engine's name.
    pub engine: String,
    /// Whether it agrees.
    pub agrees: bool,
    /// What its last run showed: what was claimed, if it agrees.
    pub shows: Claim,
    /// How many runs it was asked for.
    pub tries: u32,
    /// Why a run came to no end, or which part of the plan the engine has no means for.
    pub clause: Option<String>,
}

/// Asks `engine` whether `plan` shows this.
pub fn ask(plan: &Plan, engine: &dyn Engine, claim: &Claim, factory: &LockFactory) -> Opinion {
    let mut last = None;
    for number in 0..TRIES {
        let other = engine.reseeded(u64::from(number));
        let engine = other.as_deref().unwrap_or(engine);
        let run = run_with(&with_other_draws(plan, number), engine, factory);
        let shows = Claim::of(&run.judgement);
        let agrees = claim.is_met_by(&run.judgement);
        let opinion = Opinion {
            engine: engine.name().to_owned(),
            agrees,
            shows: if agrees { *claim } else { shows },
            tries: number + 1,
            clause: run.ending.stuck,
        };
        // What an engine has no means for it has no means for with other draws either.
        if agrees || shows.verdict == Verdict::NotExpressible {
            return opinion;
        }
        last = Some(opinion);
    }
    last.unwrap_or_else(|| Opinion {
        engine: engine.name().to_owned(),
        agrees: false,
        shows: Claim { verdict: Verdict::Unknown, gravest: None },
        tries: 0,
        clause: None,
    })
}

/// What an engine means otherwise than the others.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// The engine's name.
    pub engine: &'static str,
    /// What it does, as a clause.
    pub clause: &'static str,
    concerns: fn(&Plan) -> bool,
}

/// The differences between engines that can change what a plan shows. Each is in
/// docs/engines.md, most of them asserted by tests.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        engine: "turmoil",
        clause: "what a cut kept arrives with the heal, not with the kernel's next retransmission",
        concerns: has_cut,
    },
    Difference {
        engine: "madsim",
        clause: "a cut does not catch what is on the wire, and what it kept arrives with madsim's \
                 next try",
        concerns: has_cut,
    },
    Difference {
        engine: "turmoil",
        clause: "messages take whole milliseconds, at least one",
        concerns: has_fast_links,
    },
    Difference {
        engine: "madsim",
        clause: "messages of a connection take at least a millisecond each",
        concerns: has_fast_links,
    },
    Difference {
        engine: "madsim",
        clause: "libraries that ask the C library for the time get the true time, not their node's",
        concerns: has_untrue_clocks,
    },
];

fn has_cut(plan: &Plan) -> bool {
    plan.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Partition { .. }))
}

fn has_fast_links(plan: &Plan) -> bool {
    plan.topology.latency.0 < 1_000
}

fn has_untrue_clocks(plan: &Plan) -> bool {
    use FaultKind::{ClockFreeze, ClockRate, ClockSlew, ClockStep};
    let is_of_a_clock = |kind: &FaultKind| {
        matches!(kind, ClockFreeze { .. } | ClockRate { .. } | ClockSlew { .. } | ClockStep { .. })
    };
    !plan.clocks.is_empty() || plan.faults.iter().any(|fault| is_of_a_clock(&fault.kind))
}

/// The known differences that can be why an engine does not agree on a plan.
pub fn differences(engine: &str, plan: &Plan) -> Vec<&'static str> {
    let known = DIFFERENCES.iter().filter(|known| known.engine == engine);
    known.filter(|known| (known.concerns)(plan)).map(|known| known.clause).collect()
}
