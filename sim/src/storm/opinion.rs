//! What another engine says of a plan: whether it shows the same.
//!
//! The engines agree on plans, not on schedules: the same seed gives each of them other
//! latencies and another order of tasks. So an engine is asked up to [`TRIES`] times, at
//! first with the plan's own draws and then with others, as a confirmation does, and it
//! agrees as soon as one of its runs has the verdict, and of a violation its gravest kind.
//!
//! Where it does not agree it is asked on, up to [`FURTHER`] times, and our own engine is asked
//! as often. If that one too shows it under fewer than [`RARE`] draws, it hangs on the plan's own.
//! Else the other may mean something else by a part of the plan: [`DIFFERENCES`] lists what is
//! known (docs/engines.md), and our own engine is asked with that one thing as the other has it.
//! If what was claimed goes away there under all draws, that is why. What no difference takes
//! away is unexplained, and to be looked into.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use super::confirm::TRIES;
use super::confirm::with_other_draws;
use super::locks::LockFactory;
use super::run_with;
use crate::check::{Judgement, Kind, Verdict};
use crate::engine::Engine;
use crate::engine::event::{EventEngine, ImitatingEventEngine};
use crate::plan::Plan;

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

/// How often an engine is asked that does not agree at first, and our own with it.
pub const FURTHER: u32 = 240;
/// What our own engine shows under fewer of those draws, another engine need not show.
pub const RARE: u32 = 3;

/// Asks `engine` whether `plan` shows this, with these draws of it, as long as it does not.
pub fn ask(
    plan: &Plan,
    engine: &dyn Engine,
    claim: &Claim,
    draws: Range<u32>,
    factory: &LockFactory,
) -> Opinion {
    let mut opinion = Opinion {
        engine: engine.name().to_owned(),
        agrees: false,
        shows: Claim { verdict: Verdict::Unknown, gravest: None },
        tries: draws.start,
        clause: None,
    };
    for number in draws {
        let other = engine.reseeded(u64::from(number));
        let engine = other.as_deref().unwrap_or(engine);
        let run = run_with(&with_other_draws(plan, number), engine, factory);
        opinion.agrees = claim.is_met_by(&run.judgement);
        opinion.shows = if opinion.agrees { *claim } else { Claim::of(&run.judgement) };
        opinion.tries = number + 1;
        opinion.clause = run.ending.stuck;
        // What an engine has no means for it has no means for with other draws either.
        if opinion.agrees || opinion.shows.verdict == Verdict::NotExpressible {
            break;
        }
    }
    opinion
}

/// What madsim means otherwise than our own engine.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// What it does, as a clause.
    pub clause: &'static str,
    /// Our own engine, with that.
    pub imitation: ImitatingEventEngine,
}

/// The differences of madsim's network that can change what a plan shows, one by one and then
/// together. Each is in docs/engines.md.
pub const DIFFERENCES: [Difference; 3] = [
    Difference {
        clause: "messages of a connection take at least a millisecond each",
        imitation: ImitatingEventEngine { messages: true, cuts: false },
    },
    Difference {
        clause: "a cut does not catch what is on the wire, and what it kept arrives with \
                 madsim's next try",
        imitation: ImitatingEventEngine { messages: false, cuts: true },
    },
    Difference {
        clause: "messages of a connection take at least a millisecond each, and what a cut kept \
                 arrives with madsim's next try",
        imitation: ImitatingEventEngine { messages: true, cuts: true },
    },
];

/// Why madsim does not show what our own engine shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Under how many draws of the plan our own engine was asked.
    pub draws: u32,
    /// Under how many of them it shows it.
    pub shown: u32,
    /// What madsim does otherwise, as a clause. With that, our own engine shows it under none of
    /// them. `None` if it hangs on the plan's own draws.
    pub difference: Option<&'static str>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { draws, shown, difference } = self;
        match difference {
            None => write!(formatter, "it is rare: event shows it in {shown} of {draws} draws"),
            Some(clause) => write!(
                formatter,
                "known difference: {clause}; event shows it in {shown} of {draws} draws, and \
                 with that in none"
            ),
        }
    }
}

/// Why madsim does not show what `plan` is said to show, asked with so many draws of it, which
/// are [`FURTHER`] for whoever tells it; `None` if nothing known is why.
pub fn explain(
    plan: &Plan,
    claim: &Claim,
    draws: u32,
    factory: &LockFactory,
) -> Option<Explanation> {
    let shows = |engine: &dyn Engine, number: u32| {
        claim.is_met_by(&run_with(&with_other_draws(plan, number), engine, factory).judgement)
    };
    let shown = (0..draws).filter(|number| shows(&EventEngine, *number)).count() as u32;
    if shown < RARE {
        return Some(Explanation { draws, shown, difference: None });
    }
    let is_cause = |known: &&Difference| !(0..draws).any(|number| shows(&known.imitation, number));
    let difference = Some(DIFFERENCES.iter().find(is_cause)?.clause);
    Some(Explanation { draws, shown, difference })
}
