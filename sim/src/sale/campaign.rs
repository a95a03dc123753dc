//! Many sales, one for each seed, and what they come to together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use lockstorm::sale::funnel::Step;

use super::{SaleRun, SaleStorm, Setup};
use crate::check::Verdict;
use crate::check::blame::family_id;
use crate::engine::Engine;
use crate::history::{History, What};
use crate::plan::Seed;
use crate::storm::abreast::spread;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// What the sale is like.
    pub setup: Setup,
    /// The first seed.
    pub first: Seed,
    /// How many.
    pub seeds: u64,
    /// Whether something goes wrong.
    pub has_faults: bool,
    /// How many at once.
    pub jobs: usize,
}

/// What is kept of a run.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its seed.
    pub seed: Seed,
    /// Its verdict.
    pub verdict: Verdict,
    /// How many units were sold and paid for.
    pub sold: u64,
    /// What was wrong, as (kind, in words).
    pub broken: Vec<(&'static str, String)>,
    /// Why nothing can be said, if so.
    pub unknown: Option<String>,
    /// How many faults it had.
    pub faults: usize,
    /// The trace's hash.
    pub trace: String,
    /// The families of the faults that had an effect, and whether a master of Redis was replaced.
    pub touched: BTreeSet<&'static str>,
    /// How many left each layer.
    pub funnel: Vec<(Step, u64)>,
}

/// What many sales came to.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// What was asked for.
    pub request: Request,
    /// On which engine.
    pub engine: &'static str,
    /// Each run, in the order of the seeds.
    pub lines: Vec<Line>,
}

impl Line {
    fn of(run: &SaleRun) -> Line {
        let judged = &run.judged;
        let stuck = run.run.ending.told();
        Line {
            seed: run.storm.plan.seed,
            verdict: judged.verdict,
            sold: judged.sold,
            broken: judged.broken.iter().map(|one| (one.kind(), one.to_string())).collect(),
            unknown: stuck.or_else(|| judged.unknown.map(str::to_owned)),
            faults: run.storm.plan.faults.len(),
            trace: run.run.trace_hash.to_string(),
            touched: touched(&run.run.history),
            funnel: run.facts.funnel.all(),
        }
    }
}

/// The families of the faults that had an effect, and failovers.
fn touched(history: &History) -> BTreeSet<&'static str> {
    let mut families = BTreeMap::new();
    let mut touched = BTreeSet::new();
    for event in history.iter() {
        match &event.what {
            What::FaultBegan { fault, family, .. } => drop(families.insert(*fault, *family)),
            What::FaultTouched { fault, .. } => {
                touched.extend(families.get(fault).map(|family| family_id(*family)));
            }
            What::MasterSwitched { .. } => drop(touched.insert("redis-failover")),
            _ => {}
        }
    }
    touched
}

impl Request {
    /// The sale of this seed.
    pub fn storm(&self, seed: Seed) -> SaleStorm {
        match self.has_faults {
            true => SaleStorm::drawn(self.setup.clone(), seed),
            false => SaleStorm::calm(self.setup.clone(), seed),
        }
    }

    /// Runs them all; `done` is told after each.
    pub fn run(&self, engine: &dyn Engine, done: impl Fn() + Sync) -> Campaign {
        let seeds: Vec<u64> = (0..self.seeds).map(|n| self.first.0.wrapping_add(n)).collect();
        let lines = spread(&seeds, self.jobs, |seed| {
            let line = Line::of(&self.storm(Seed(*seed)).run(engine));
            done();
            line
        });
        Campaign { request: self.clone(), engine: engine.title(), lines }
    }
}

impl Campaign {
    /// How many runs came to each verdict.
    pub fn verdicts(&self) -> BTreeMap<Verdict, u64> {
        let mut counts = BTreeMap::new();
        for line in &self.lines {
            *counts.entry(line.verdict).or_default() += 1;
        }
        counts
    }

    /// In how many runs each kind of wrong was found.
    pub fn kinds(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for line in &self.lines {
            let mut kinds: Vec<&str> = line.broken.iter().map(|(kind, _)| *kind).collect();
            kinds.dedup();
            for kind in kinds {
                *counts.entry(kind).or_default() += 1;
            }
        }
        counts
    }

    /// How many left each layer, in all runs together.
    pub fn funnel(&self) -> BTreeMap<Step, u64> {
        let mut counts = BTreeMap::new();
        for (step, count) in self.lines.iter().flat_map(|line| &line.funnel) {
            *counts.entry(*step).or_default() += count;
        }
        counts
    }

    /// In how many runs each family of faults had an effect.
    pub fn touched(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for family in self.lines.iter().flat_map(|line| &line.touched) {
            *counts.entry(*family).or_default() += 1;
        }
        counts
    }

    /// In how many runs exactly so many units were sold as there were.
    pub fn exact(&self) -> u64 {
        let units = u64::from(self.request.setup.units);
        self.lines.iter().filter(|line| line.sold == units).count() as u64
    }

    /// The verdict on all.
    pub fn verdict(&self) -> Verdict {
        Verdict::merge_drawn(self.lines.iter().map(|line| line.verdict))
    }

    /// A fingerprint of all runs.
    pub fn trace(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for line in &self.lines {
            hasher.update(line.trace.as_bytes());
        }
        hasher.finalize().to_hex()[..16].to_owned()
    }

    /// It as text.
    pub fn text(&self) -> String {
        let setup = &self.request.setup;
        let mut text = String::new();
        let runs = self.lines.len();
        let without: Vec<&str> = setup.without.iter().map(|part| part.name()).collect();
        let lock = setup.lock.as_ref().map(|lock| format!(" under the lock {lock}"));
        let lock = lock.unwrap_or_default();
        let standby = if setup.has_standby { ", a standby of the database" } else { "" };
        let without = match without.is_empty() {
            true => String::new(),
            false => format!(", without {}", without.join(", ")),
        };
        let way = match setup.way {
            super::Way::Shelf => "the sale",
            super::Way::Naive => "the naive sale",
            super::Way::Pessimistic => "the sale in the database alone",
        };
        let faults =
            if self.request.has_faults { "with drawn faults" } else { "nothing goes wrong" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{way}{lock}{without}{standby}: {} units, {} buyers, {runs} seeds from {}, {faults}, on {}",
            setup.units,
            setup.buyers(),
            self.request.first,
            self.engine
        );
        let verdicts = self.verdicts().into_iter();
        let verdicts: Vec<String> =
            verdicts.map(|(verdict, count)| format!("{} {count}", verdict.id())).collect();
        let _ = writeln!(text, "verdicts  {}", verdicts.join(", "));
        let _ = writeln!(
            text,
            "sold      exactly {} of {} in {} of {runs} runs",
            setup.units,
            setup.units,
            self.exact()
        );
        for (kind, count) in self.kinds() {
            let _ = writeln!(text, "found     {kind} in {count}");
        }
        let touched = self.touched().into_iter();
        let touched: Vec<String> =
            touched.map(|(family, runs)| format!("{family} {runs}")).collect();
        if !touched.is_empty() {
            let _ = writeln!(text, "struck    {}", touched.join(", "));
        }
        let _ = writeln!(text, "trace     {}", self.trace());
        let _ = writeln!(text, "funnel, a run on average");
        let average = |count: u64| count as f64 / runs.max(1) as f64;
        for (step, count) in self.funnel() {
            let _ = writeln!(text, "  {:<17} {:>8.1}", step.name(), average(count));
        }
        self.failures(&mut text);
        text
    }

    /// The first runs that did not go well.
    fn failures(&self, text: &mut String) {
        const SHOWN: usize = 20;
        let is_bad = |line: &&Line| !line.verdict.is_safe() && line.verdict != Verdict::Inert;
        let bad: Vec<&Line> = self.lines.iter().filter(is_bad).collect();
        for line in bad.iter().take(SHOWN) {
            let mut why: Vec<&str> =
                line.broken.iter().map(|(_, told)| told.as_str()).take(3).collect();
            why.extend(line.unknown.as_deref());
            let _ = writeln!(
                text,
                "{} {} ({} sold): {}",
                line.seed,
                line.verdict.id(),
                line.sold,
                why.join("; ")
            );
        }
        if bad.len() > SHOWN {
            let _ = writeln!(text, "and {} more", bad.len() - SHOWN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sale::{Part, Way};

    fn line(seed: u64, verdict: Verdict, sold: u64, broken: &[(&'static str, &str)]) -> Line {
        Line {
            seed: Seed(seed),
            verdict,
            sold,
            broken: broken.iter().map(|(kind, told)| (*kind, (*told).to_owned())).collect(),
            unknown: (verdict == Verdict::Unknown).then(|| "nobody has bought".to_owned()),
            faults: 1,
            trace: format!("{seed:016x}"),
            touched: BTreeSet::from(["pause", "redis-failover"]),
            funnel: vec![(Step::Asked, 40), (Step::Sold, sold)],
        }
    }

    #[test]
    fn a_campaign_is_told() {
        let without = vec![Part::Confirmation, Part::StockGuard];
        let setup = Setup { without, has_standby: true, ..Setup::default() };
        let request = Request { setup, first: Seed(7), seeds: 4, has_faults: true, jobs: 1 };
        let broken = [("oversell", "1 more sold than there were"), ("lost-order", "b1-1: …")];
        let lines = vec![
            line(7, Verdict::Safe, 20, &[]),
            line(8, Verdict::Violation, 21, &broken),
            line(9, Verdict::Unknown, 0, &[]),
            line(10, Verdict::Inert, 20, &[]),
        ];
        let campaign = Campaign { request, engine: "event 0.1.0", lines };
        assert_eq!(campaign.verdict(), Verdict::Violation);
        insta::assert_snapshot!(campaign.text());
        let setup = Setup { way: Way::Naive, ..Setup::default() };
        let request = Request { setup, has_faults: false, ..campaign.request };
        let lines = vec![line(7, Verdict::Safe, 20, &[])];
        let calm = Campaign { request, engine: "event 0.1.0", lines };
        assert!(calm.text().starts_with("the naive sale: 20 units"), "{}", calm.text());
    }
}
