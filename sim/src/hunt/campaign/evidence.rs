//! The evidence that a lock is safe: what the claim rests on, in three parts (docs/hunt.md),
//! and what of it is missing.
//!
//! A single run can say `safe` of itself. The *claim* needs a clean certificate, a clean
//! swarm of fresh seeds with its bound, and a planted twin in which the same draws find the
//! bug: a harness that is blind finds nothing anywhere. Where no twin fits, a canary is
//! hunted, which shows only that the checks work; then the claim is not made.

use std::fmt::Write as _;

use super::Identity;
use crate::check::{Language, Verdict};
use crate::hunt::Quarry;
use crate::hunt::book::Book;
use crate::hunt::course::Course;
use crate::plan::{Fence, Seed, StockPlace};
use crate::planted;
use crate::report::layout::{counted, grouped};

/// How often the twin's bug must be found.
pub const TWIN_FINDS: u64 = 10;

/// After how many seeds without it the harness counts as blind.
pub const TWIN_SEEDS: u64 = 1_000;

/// What the hunt of a twin shows, if its bug is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// That the campaign's faults find a bug that needs them.
    PlantedTwin,
    /// That the checks see a lock that fails by itself, and no more.
    Canary,
}

impl Witness {
    /// `planted twin`, `canary`.
    pub fn name(self) -> &'static str {
        match self {
            Witness::PlantedTwin => "planted twin",
            Witness::Canary => "canary",
        }
    }
}

/// The lock planted where no fence can be taken away: it lets in whoever has waited long
/// enough. Only faults make anybody wait so long: of seeds that draw widely one in five
/// shows it, of calm ones none.
const PLANTED: &str = "planted/open-on-timeout";

/// The twin of a hunted storm, which must fail: the same without its fence, or with a
/// planted lock where one fits the scenario; in the end without a lock at all. Seeds draw
/// for it what they draw for the campaign. `None` where the campaign's settings allow none.
pub fn twin(quarry: &Quarry) -> Option<(Quarry, Witness)> {
    let unfenced = Quarry { fence: Fence::Off, ..quarry.clone() };
    let planted = planted::find(PLANTED).filter(|(bug, _)| bug.scenario == quarry.scenario);
    let planted = planted.map(|_| Quarry { lock: PLANTED.to_owned(), ..unfenced.clone() });
    let canary = canary(&unfenced);
    let twin = match (quarry.faults, quarry.fence) {
        (false, _) => None,
        (true, Fence::Off) => planted.filter(|planted| planted.lock != quarry.lock),
        (true, Fence::Write | Fence::Full) => Some(unfenced),
    };
    let twin = twin.map(|twin| (twin, Witness::PlantedTwin));
    let mut twins = [twin, Some((canary, Witness::Canary))].into_iter().flatten();
    twins.find(|(twin, _)| twin.calm_plan(Seed(0)).is_ok())
}

/// The storm without a lock. Where the sale's own transaction locks what it reads, it does not
/// fail without one: the canary sells as all do who leave that to their lock.
fn canary(quarry: &Quarry) -> Quarry {
    let mut canary = Quarry { lock: "none".to_owned(), ..quarry.clone() };
    let place = canary.calm_plan(Seed(0)).map(|plan| plan.workload.stock);
    if matches!(place, Ok(StockPlace::SqlForUpdate | StockPlace::SqlPooled)) {
        canary.settings.retain(|(key, _)| !matches!(&**key, "workload.stock" | "workload.pool"));
        canary.settings.push(("workload.stock".to_owned(), StockPlace::Sql.name().to_owned()));
    }
    canary
}

/// What hunting the twin came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwinHunt {
    /// The twin.
    pub quarry: Quarry,
    /// What it shows.
    pub witness: Witness,
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

    /// `the planted twin (lock redis, fence off) fails in 10 of 12 seeds`.
    pub fn line(&self) -> String {
        format!(
            "the {} (lock {}, fence {}) fails in {} of {}",
            self.witness.name(),
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
    let certificate = match (all, book.singles.runs) {
        (0, _) => (false, "not made by this strategy".to_owned()),
        (all, tried) if tried < all => {
            (false, format!("{} of {} single faults tried", grouped(tried), grouped(all)))
        }
        _ => {
            let untried = match book.singles.untried {
                0 => String::new(),
                untried => {
                    format!(", {} let the lock pass to nobody before they ended", grouped(untried))
                }
            };
            let text = format!(
                "{} single faults at {}, {} of them inert{untried}; {} broke it, {} unknown",
                grouped(all),
                counted(course.survey().map_or(0, |s| s.moments.len() as u64), "moment"),
                grouped(book.singles.ended(Verdict::Inert)),
                grouped(broke),
                grouped(book.singles.unknown()),
            );
            (book.singles.verdict_of_hunt().is_safe(), text)
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
        Some(twin) if twin.witness == Witness::Canary => {
            (false, format!("{}, as it does without any fault", twin.line()))
        }
        Some(twin) => (twin.is_seen(), twin.line()),
        None => (false, "the planted twin was not hunted".to_owned()),
    };
    let witness = twin.map_or(Witness::PlantedTwin, |twin| twin.witness);
    let parts = [("certificate", certificate), ("swarm", swarm), (witness.name(), seen)];
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
    let _ = writeln!(out, "\n{}", claim(book, parts.iter().all(|(_, (holds, _))| *holds)));
    out
}

/// What is claimed; `all_hold` says whether no part is missing.
fn claim(book: &Book, all_hold: bool) -> String {
    let verdict = book.verdict();
    let claim = match (verdict.is_safe(), all_hold) {
        (true, true) => "All three parts hold: the lock is safe as far as this campaign can say.",
        (true, false) => "Nothing was found, and the claim *safe* is not made: a part is missing.",
        _ if book.tally.ended(Verdict::Violation) > 0 => "The lock is not safe here.",
        _ => {
            let word = verdict.word(Language::English);
            return format!("Nothing can be said of the lock: the campaign came to *{word}*.");
        }
    };
    claim.to_owned()
}
