//! Confirms a failure under the reference engine.
//!
//! Storms run under turmoil; the event engine only screens them. A finding of the
//! event engine is told with what turmoil says of the same plan: confirmed, not
//! confirmed, or that turmoil has no means for a part of the plan.
//!
//! Turmoil's millisecond ticks move every event a little, so whether two clients meet
//! in a window of some milliseconds is another draw there. The first try keeps all of
//! the plan's own draws; the second is half as long again (rounds take longer there, and
//! a fault may wait for a late one); each further one keeps its faults, anchors, topology
//! and options, and draws think times, work and latencies anew. Where that shows nothing,
//! our own engine says whether it could: it runs the same draws, heals as turmoil does and
//! moves messages in whole milliseconds. Those draws under which it still shows the failure
//! are tried further; if there are none, the failure hangs on when a kernel retransmits, or
//! on messages faster than a tick, for which turmoil has no means. How many tries it took
//! is told, and so is a plan that never showed it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::locks::LockFactory;
use super::{Run, run_with};
use crate::check::{Kind, Verdict};
use crate::draw::Draw;
use crate::engine::Engine;
use crate::engine::event::{CoarseEventEngine, EventEngine, PromptEventEngine};
use crate::engine::turmoil::Turmoil;
use crate::plan::{Micros, Plan, Seed};

/// How often a plan is tried, with other draws each time.
pub const TRIES: u32 = 24;
/// How often it is tried further, with those of the draws under which our own engine
/// shows the failure although it is as coarse as turmoil.
pub const DIRECTED_TRIES: u32 = 72;

/// What the reference engine says of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "confirmation")]
pub enum Confirmation {
    /// The same kind of violation happens there.
    Confirmed {
        /// At the how-manieth try, from 1; at most [`TRIES`] + [`DIRECTED_TRIES`].
        tries: u32,
    },
    /// The gravest kind did not come there, but another violation of the same run did.
    ConfirmedInPart {
        /// At the how-manieth try, from 1.
        tries: u32,
        /// What came.
        kind: Kind,
        /// What did not.
        missing: Kind,
    },
    /// It did not happen there in [`TRIES`] tries and those that follow them.
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
                write!(formatter, "{title}: confirmed (try {tries})")
            }
            Confirmation::ConfirmedInPart { tries, kind, missing } => {
                let (kind, missing) = (kind.id(), missing.id());
                write!(formatter, "{title}: {kind} confirmed (try {tries}), {missing} did not come")
            }
            Confirmation::NotConfirmed { instead } => {
                write!(formatter, "{title}: not confirmed (the last try was {instead})")
            }
            Confirmation::NotExpressible { clause } => {
                write!(formatter, "{title}: cannot express {clause}")
            }
        }
    }
}

/// Asks turmoil about a violation that `run` found: about the gravest kind, and if that
/// does not come, about the others.
pub fn confirm(run: &Run, factory: &LockFactory) -> Confirmation {
    let Some(gravest) = run.judgement.gravest() else {
        return confirm_verdict(&run.plan, run.judgement.verdict, factory);
    };
    let others = run.judgement.kinds().into_iter();
    let others: Vec<Kind> =
        others.filter(|kind| *kind != gravest && run.judgement.has_violation(*kind)).collect();
    let mut part = None;
    let confirmation = try_under_turmoil(&run.plan, factory, |there, tries| {
        let kind = others.iter().find(|kind| there.judgement.has_violation(**kind));
        if let (None, Some(kind), Some(tries)) = (&part, kind, tries) {
            part = Some(Confirmation::ConfirmedInPart { tries, kind: *kind, missing: gravest });
        }
        there.judgement.has_violation(gravest)
    });
    match (confirmation, part) {
        (Confirmation::NotConfirmed { .. }, Some(part)) => part,
        (confirmation, _) => confirmation,
    }
}

/// Asks turmoil whether `plan` shows this kind of violation.
pub fn confirm_kind(plan: &Plan, kind: Kind, factory: &LockFactory) -> Confirmation {
    try_under_turmoil(plan, factory, |run, _| run.judgement.has_violation(kind))
}

/// Asks turmoil whether `plan` gives this verdict.
pub fn confirm_verdict(plan: &Plan, verdict: Verdict, factory: &LockFactory) -> Confirmation {
    try_under_turmoil(plan, factory, |run, _| run.judgement.verdict == verdict)
}

/// Asks turmoil whether some run of `plan` shows what `shows` looks for.
pub fn confirm_shown(
    plan: &Plan,
    factory: &LockFactory,
    shows: impl Fn(&Run) -> bool,
) -> Confirmation {
    try_under_turmoil(plan, factory, |run, _| shows(run))
}

/// Storms shorter than this are made longer for a further try, µs.
const SHORT_US: u64 = 40_000_000;

/// The plan as it is for try 0, longer for try 1, longer and with other draws after it.
pub(super) fn with_other_draws(plan: &Plan, try_number: u32) -> Plan {
    // Rounds take longer there, so a client's 20th comes later: half as long again, but
    // not so long that the plan becomes one that turmoil does not run.
    let longer = Micros(plan.duration.0 + plan.duration.0 / 2);
    let duration = if plan.duration.0 < SHORT_US { longer } else { plan.duration };
    let seed = || Seed(Draw::new(plan.seed.0, "confirmation", &try_number.to_string()).bits());
    match try_number {
        0 => plan.clone(),
        1 => Plan { duration, ..plan.clone() },
        _ => Plan { seed: seed(), duration, ..plan.clone() },
    }
}

/// The plan up to twice as long, by the number of the try. The end of a storm heals every
/// fault, and a failure may hang on how soon after its fault that is.
fn stretched(plan: &Plan, try_number: u32) -> Plan {
    let sixteenths = u64::from(try_number % 17);
    let longer = Micros(plan.duration.0 + plan.duration.0 / 16 * sixteenths);
    let duration = if plan.duration.0 < SHORT_US { longer } else { plan.duration };
    Plan { duration, ..plan.clone() }
}

/// Tries until a run `agrees`, which is told the number of the try, from 1, or `None`
/// for runs of our own engine.
fn try_under_turmoil(
    plan: &Plan,
    factory: &LockFactory,
    mut agrees: impl FnMut(&Run, Option<u32>) -> bool,
) -> Confirmation {
    if let Some(clause) = Turmoil::default().cannot_express(plan) {
        return Confirmation::NotExpressible { clause };
    }
    let on =
        |engine: &dyn Engine, draws: u32| run_with(&with_other_draws(plan, draws), engine, factory);
    let under_turmoil = |plan: &Plan, number: u32| {
        let engine = Turmoil { reseed: u64::from(number), ..Turmoil::default() };
        run_with(plan, &engine, factory)
    };
    let mut instead = Verdict::Unknown;
    for number in 0..TRIES {
        let run = under_turmoil(&with_other_draws(plan, number), number);
        if agrees(&run, Some(number + 1)) {
            return Confirmation::Confirmed { tries: number + 1 };
        }
        instead = run.judgement.verdict;
    }
    // Draws under which our own engine shows it when it is as coarse as turmoil.
    let promising: Vec<u32> =
        (0..TRIES).filter(|number| agrees(&on(&CoarseEventEngine, *number), None)).collect();
    if promising.is_empty()
        && let Some(clause) = beyond(|engine, draws| agrees(&on(engine, draws), None))
    {
        return Confirmation::NotExpressible { clause: clause.to_owned() };
    }
    for (draws, number) in promising.iter().cycle().zip(TRIES..TRIES + DIRECTED_TRIES) {
        let stretched = stretched(&with_other_draws(plan, *draws), number);
        let run = under_turmoil(&stretched, number);
        if agrees(&run, Some(number + 1)) {
            return Confirmation::Confirmed { tries: number + 1 };
        }
        instead = run.judgement.verdict;
    }
    Confirmation::NotConfirmed { instead }
}

/// What turmoil has no means for in a plan whose failure hangs on it: it goes away on
/// our own engine, under all the same draws, as soon as what a cut held arrives with the
/// heal, as it does under turmoil.
pub const LATE_RETRANSMISSION: &str =
    "a cut after whose heal data arrives when its retransmission is due, and not at once";

/// The same for a failure that goes away when messages take whole milliseconds besides.
pub const FAST_MESSAGES: &str = "messages that are faster than its tick of 1 ms";

/// What turmoil lacks for a failure that our own engine shows, and no longer shows when it
/// is as coarse as turmoil. Without a cut there is no heal, and the first answers for it.
fn beyond(mut shows: impl FnMut(&dyn Engine, u32) -> bool) -> Option<&'static str> {
    let mut shows_at_all = |engine: &dyn Engine| (0..TRIES).any(|draws| shows(engine, draws));
    if shows_at_all(&PromptEventEngine) {
        Some(FAST_MESSAGES)
    } else {
        shows_at_all(&EventEngine).then_some(LATE_RETRANSMISSION)
    }
}
