//! The evidence that a lock is safe: what the claim rests on, in three parts (docs/hunt.md),
//! and what of it is missing.
//!
//! A single run can say `safe` of itself. The *claim* needs a clean certificate, a clean
//! swarm of fresh seeds with its bound, and a planted twin in which the same campaign finds
//! the bug: a harness that is blind finds nothing anywhere.

use std::fmt::Write as _;

use super::Identity;
use crate::check::Verdict;
use crate::hunt::Quarry;
use crate::hunt::book::Book;
use crate::hunt::course::Course;
use crate::plan::{Draws, Fence};
use crate::report::layout::{counted, grouped};

/// How often the twin's bug must be found.
pub const TWIN_FINDS: u64 = 10;

/// After how many seeds without it the harness counts as blind.
pub const TWIN_SEEDS: u64 = 1_000;

/// The planted twin of a hunted storm: the same with its protection taken away. It must
/// fail.
pub fn twin(quarry: &Quarry) -> Quarry {
    let twin = match quarry.fence {
        Fence::Off => Quarry { lock: "none".to_owned(), ..quarry.clone() },
        Fence::Write | Fence::Full => Quarry { fence: Fence::Off, ..quarry.clone() },
    };
    Quarry { faults: true, draws: Draws::Wide, ..twin }
}

/// What hunting the twin came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwinHunt {
    /// The twin.
    pub quarry: Quarry,
    /// Seeds that were run.
    pub seeds: u64,
    /// Seeds that failed.
    pub found: u64,
}

impl TwinHunt {
    /// Whether the harness sees.
    pub fn is_seen(&self) -> bool {
        self.found >= TWIN_FINDS
    }

    /// `lock none, fence off: its bug was found in 10 of 12 seeds`.
    pub fn line(&self) -> String {
        format!(
            "the planted twin (lock {}, fence {}) fails in {} of {}",
            self.quarry.lock,
            self.quarry.fence.name(),
            grouped(self.found),
            counted(self.seeds, "seed")
        )
    }
}

/// The file `evidence.md`.
pub fn evidence(
    identity: &Identity,
    book: &Book,
    course: &Course,
    twin: Option<&TwinHunt>,
) -> String {
    let quarry = &identity.quarry;
    let all = course.trials().len() as u64;
    let broke = book.singles.ended(Verdict::Violation);
    let clean = |tally: &crate::report::table::Tally| {
        tally.runs > 0 && tally.verdicts.keys().all(|v| v.is_safe() || *v == Verdict::Inert)
    };
    let certificate = match (all, book.singles.runs) {
        (0, _) => (false, "not made by this strategy".to_owned()),
        (all, tried) if tried < all => {
            (false, format!("{} of {} single faults tried", grouped(tried), grouped(all)))
        }
        _ => {
            let text = format!(
                "{} single faults at {}, {} of them inert; {} broke it, {} unknown",
                grouped(all),
                counted(course.survey().map_or(0, |s| s.moments.len() as u64), "moment"),
                grouped(book.singles.ended(Verdict::Inert)),
                grouped(broke),
                grouped(book.singles.ended(Verdict::Unknown)),
            );
            (clean(&book.singles), text)
        }
    };
    let swarm = match book.drawn.bound() {
        Some(bound) => (true, bound),
        None if book.drawn.runs == 0 => (false, "no seeds were drawn".to_owned()),
        None => {
            let failed = grouped(book.drawn.ended(Verdict::Violation));
            (false, format!("{failed} of {} failed", counted(book.drawn.runs, "seed")))
        }
    };
    let seen = match twin {
        Some(twin) => (twin.is_seen(), twin.line()),
        None => (false, "the planted twin was not hunted".to_owned()),
    };
    let parts = [("certificate", certificate), ("swarm", swarm), ("planted twin", seen)];
    let mut out = format!(
        "# Evidence: {} in {}, fence {}\n\nlockstorm {}, engine {}, seeds from {}.\n\n",
        quarry.lock,
        quarry.scenario,
        quarry.fence.name(),
        identity.lockstorm,
        quarry.engine,
        identity.seeds.first
    );
    // Writing to a string does not fail.
    let _ = writeln!(out, "| part | holds | what |\n|---|---|---|");
    for (name, (holds, text)) in &parts {
        let _ = writeln!(out, "| {name} | {} | {text} |", if *holds { "yes" } else { "no" });
    }
    let claim = match (parts.iter().all(|(_, (holds, _))| *holds), book.verdict().is_safe()) {
        (true, true) => "All three parts hold: the lock is safe as far as this campaign can say.",
        (false, true) => "Nothing was found, and the claim *safe* is not made: a part is missing.",
        _ => "The lock is not safe here.",
    };
    let _ = writeln!(out, "\n{claim}");
    out
}
