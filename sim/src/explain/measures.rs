//! What might help, measured: the same plan with one thing changed, over the same draws.

use super::{Draws, Watch, other_seeds};
use crate::check::Verdict;
use crate::engine::event::EventEngine;
use crate::plan::scenario::{self, LOCKS};
use crate::plan::{Fence, Micros, Plan, Seed};
use crate::storm::abreast::abreast;
use crate::storm::locks::LockFactory;
use crate::storm::run_with;

/// A change, and how many runs then ended how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The flags that make the change; empty for the plan as it is.
    pub flags: String,
    /// Runs that failed.
    pub violations: u32,
    /// Runs that were safe, or safe by the fence.
    pub safe: u32,
    /// Runs that say nothing.
    pub inconclusive: u32,
    /// How it ends with the plan's own draws: where a failure hangs on those, other draws show
    /// nothing of what helps.
    pub own: Verdict,
}

/// The plan as it is, then each measure that is possible and not taken already.
pub fn all(plan: &Plan, draws: u32, factory: &LockFactory, watch: &dyn Watch) -> Vec<Measure> {
    let measured = |(flags, plan): (String, Plan)| {
        let others = other_seeds(&plan, draws, Draws::Same);
        let seeds: Vec<Seed> = [plan.seed].into_iter().chain(others).collect();
        let verdicts = abreast(&seeds, |seed| {
            let plan = Plan { seed: *seed, ..plan.clone() };
            let verdict = run_with(&plan, &EventEngine, factory).judgement.verdict;
            watch.done();
            verdict
        });
        let own = verdicts.first().copied().unwrap_or(Verdict::Unknown);
        let mut measure = Measure { flags, violations: 0, safe: 0, inconclusive: 0, own };
        for verdict in verdicts.into_iter().skip(1) {
            match verdict {
                Verdict::Violation => measure.violations += 1,
                verdict if verdict.is_safe() => measure.safe += 1,
                _ => measure.inconclusive += 1,
            }
        }
        measure
    };
    let as_it_is = (String::new(), plan.clone());
    [as_it_is].into_iter().chain(changes(plan)).map(measured).collect()
}

/// How many runs [`all`] makes.
pub(super) fn runs(plan: &Plan, draws: u32) -> u64 {
    (changes(plan).len() as u64 + 1) * (u64::from(draws) + 1)
}

/// The measures, each with the flags that take it.
fn changes(plan: &Plan) -> Vec<(String, Plan)> {
    const MARGIN_PPM: u32 = 200_000;
    let mut changes: Vec<(String, Plan)> = Vec::new();
    let mut set = |key: &str, value: String| {
        if let Ok(changed) = plan.clone().with_set(key, &value) {
            changes.push((format!("--set {key}={value}"), changed));
        }
    };
    if plan.lock.margin_ppm < MARGIN_PPM {
        set("lock.margin", "20%".to_owned());
    }
    set("workload.deadline-check", "true".to_owned());
    set("lock.lease", Micros(plan.lock.lease.0 * 2).to_string());
    set("lock.lease", Micros(plan.lock.lease.0 / 2 / 1_000 * 1_000).to_string());
    if plan.topology.sentinels > 0 {
        // Beyond the lease nobody who was granted it before a failover still holds it.
        set("topology.down-after", Micros(plan.lock.lease.0 / 10 * 12).to_string());
    }
    for fence in [Fence::Write, Fence::Full] {
        let tokens = scenario::find_lock(&plan.lock.name).is_ok_and(|lock| lock.tokens);
        if tokens && fence > plan.fence {
            changes.extend(
                plan.clone()
                    .with_changes(None, Some(fence), &[])
                    .map(|plan| (format!("--fence {fence}"), plan)),
            );
        }
    }
    for lock in LOCKS.iter().filter(|lock| lock.records && lock.name != plan.lock.name) {
        let changed = plan.clone().with_changes(Some(lock.name), None, &[]);
        changes.extend(changed.map(|plan| (format!("--lock {}", lock.name), plan)));
    }
    changes.retain(|(_, changed)| changed != plan && changed.check().is_ok());
    changes
}
