//! The moments at which a certificate strikes: anchors of a fault-free run, each shape
//! of them once.
//!
//! A run has hundreds of lock cycles that differ in nothing that a fault could meet. What
//! tells them apart here: whether the lock was free or was waited for, and whether the
//! section was short or slow (the workload has both). The first cycle of each sort gives
//! its anchors. A shape's name says which event and which sort of cycle, not who and the
//! how-manieth: so certificates of two versions can be compared line by line.
//!
//! Order of things: [`survey`] runs storms without faults from a seed on, until one has
//! every sort of cycle (or takes the one that has most), [`moments_of`] reads one history.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Quarry;
use crate::engine::Engine;
use crate::history::{AcquireOutcome, Attempt, Event, History, What};
use crate::plan::{Anchor, Operation, Phase, Plan, PlanError, Seed};
use crate::storm::{self, Run, anchors};

/// How many seeds are tried at most for a calm run with every sort of cycle.
pub const SEEDS_TRIED: u64 = 16;

/// After so many that show no more than the best it is given up: the storm has no such run.
const WITHOUT_MORE: u64 = 4;

/// A sort of lock cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sort {
    /// Whether the client found the lock held and waited.
    pub waited: bool,
    /// Whether the section was slow.
    pub slow: bool,
}

impl Sort {
    /// All of them, the most telling first.
    pub const ALL: [Sort; 4] = [
        Sort { waited: false, slow: false },
        Sort { waited: false, slow: true },
        Sort { waited: true, slow: true },
        Sort { waited: true, slow: false },
    ];
}

/// What one moment is like, wherever it occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Of which operation …
    pub operation: Operation,
    /// … which phase …
    pub phase: Phase,
    /// … in a section of which length …
    pub slow: bool,
    /// … and for an acquire, whether the lock was waited for. The rest of a cycle is the
    /// same after a wait as without.
    pub waited: Option<bool>,
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operation, phase) = (self.operation.name(), self.phase.name());
        let section = if self.slow { "slow section" } else { "short section" };
        let wait = match self.waited {
            Some(true) => ", after a wait",
            Some(false) => ", at once",
            None => "",
        };
        write!(formatter, "{operation} {phase}, {section}{wait}")
    }
}

/// A shape and the anchor that stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// What it is like.
    pub shape: Shape,
    /// Where it occurs.
    pub anchor: Anchor,
}

/// A fault-free run and its moments.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The plan, without faults.
    pub plan: Plan,
    /// Its run.
    pub run: Run,
    /// One for each shape, in the order of the shapes.
    pub moments: Vec<Moment>,
    /// How many anchors the run has in all.
    pub anchors: u64,
    /// All fault-free runs that were made to find it, in their order.
    pub calm: Vec<Run>,
}

/// Finds the fault-free run of `quarry` that shows most sorts of cycles, from `seed` on.
///
/// # Errors
/// When the quarry names something unknown.
pub fn survey(quarry: &Quarry, engine: &dyn Engine, seed: Seed) -> Result<Survey, PlanError> {
    let mut best = Survey::of(quarry.calm_plan(seed)?, engine);
    let mut calm = vec![best.run.clone()];
    let mut without_more = 0;
    for offset in 1..SEEDS_TRIED {
        if best.has_every_sort() || without_more == WITHOUT_MORE {
            break;
        }
        let seed = Seed(seed.0.wrapping_add(offset));
        let other = Survey::of(quarry.calm_plan(seed)?, engine);
        calm.push(other.run.clone());
        without_more += 1;
        if other.moments.len() > best.moments.len() {
            (best, without_more) = (other, 0);
        }
    }
    Ok(Survey { calm, ..best })
}

impl Survey {
    fn of(plan: Plan, engine: &dyn Engine) -> Survey {
        let run = storm::run(&plan, engine);
        let moments = moments_of(&run.history, &plan);
        let anchors = run.history.iter().filter(|event| anchors::position(event).is_some());
        let anchors = anchors.count() as u64;
        Survey { plan, run, moments, anchors, calm: Vec::new() }
    }

    /// Whether it has short and slow sections, and a wait.
    fn has_every_sort(&self) -> bool {
        let has = |is: &dyn Fn(&Shape) -> bool| self.moments.iter().any(|m| is(&m.shape));
        has(&|shape| shape.slow) && has(&|shape| !shape.slow) && has(&|s| s.waited == Some(true))
    }
}

/// What a history shows of one attempt.
#[derive(Default)]
struct Cycle {
    invoked_us: u64,
    refused: bool,
    granted_us: Option<u64>,
    release_us: Option<u64>,
    positions: BTreeSet<(Operation, Phase)>,
}

/// The moments of a fault-free history: of each sort of cycle those of its first.
pub fn moments_of(history: &History, plan: &Plan) -> Vec<Moment> {
    let mut cycles: BTreeMap<Attempt, Cycle> = BTreeMap::new();
    for event in history.iter() {
        note(&mut cycles, event);
    }
    let mut first: BTreeMap<Sort, (&Attempt, &Cycle)> = BTreeMap::new();
    for (attempt, cycle) in &cycles {
        let Some(sort) = sort_of(cycle, plan) else { continue };
        let known = first.entry(sort).or_insert((attempt, cycle));
        if cycle.invoked_us < known.1.invoked_us {
            *known = (attempt, cycle);
        }
    }
    let mut moments: BTreeMap<Shape, Moment> = BTreeMap::new();
    let has_slow_wait = first.contains_key(&Sort { waited: true, slow: true });
    for sort in Sort::ALL {
        let Some((attempt, cycle)) = first.get(&sort) else { continue };
        if has_slow_wait && sort.waited && !sort.slow {
            // A slow section shows all that a short one does, and more.
            continue;
        }
        for (operation, phase) in &cycle.positions {
            let (operation, phase) = (*operation, *phase);
            let waited = (operation == Operation::Acquire).then_some(sort.waited);
            let shape = Shape { operation, phase, slow: sort.slow, waited };
            let anchor = Anchor::new(&attempt.client, operation, attempt.ordinal, phase);
            moments.entry(shape).or_insert(Moment { shape, anchor });
        }
    }
    moments.into_values().collect()
}

fn note(cycles: &mut BTreeMap<Attempt, Cycle>, event: &Event) {
    if let What::RecordRefused { owner, .. } | What::WaitBegan { owner, .. } = &event.what
        && let Some(attempt) = Attempt::parse(owner)
    {
        cycles.entry(attempt).or_default().refused = true;
    }
    let Some((client, ordinal, operation, phase)) = anchors::position(event) else { return };
    let attempt = Attempt { client: client.into(), ordinal };
    let cycle = cycles.entry(attempt).or_default();
    cycle.positions.insert((operation, phase));
    match &event.what {
        What::AcquireInvoked { .. } => cycle.invoked_us = event.at_us,
        What::AcquireReturned { outcome: AcquireOutcome::Granted { .. }, .. } => {
            cycle.granted_us = Some(event.at_us);
        }
        What::ReleaseInvoked { .. } => cycle.release_us = Some(event.at_us),
        _ => {}
    }
}

/// `None` for an attempt that was not granted and released, or not in the first half of
/// the storm: nothing could be seen of what becomes of it.
fn sort_of(cycle: &Cycle, plan: &Plan) -> Option<Sort> {
    let (granted_us, release_us) = (cycle.granted_us?, cycle.release_us?);
    if granted_us > plan.duration.0 / 2 {
        return None;
    }
    // Work is drawn from half of its time to one and a half of it.
    let (short_us, slow_us) = (plan.workload.work.0 / 2 * 3, plan.workload.slow_work.0 / 2);
    let slow = slow_us > short_us && release_us - granted_us >= slow_us;
    Some(Sort { waited: cycle.refused, slow })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::event::EventEngine;
    use crate::plan::Fence;

    fn surveyed(scenario: &str, lock: &str) -> Survey {
        let quarry = Quarry::new(scenario, lock, Fence::Off);
        survey(&quarry, &EventEngine, Seed(0)).unwrap()
    }

    fn listed(survey: &Survey) -> String {
        let lines = survey.moments.iter();
        let lines = lines.map(|moment| format!("{}: {}", moment.shape, moment.anchor));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_calm_run_has_each_shape_once() {
        let survey = surveyed("redis-failover", "redis");
        assert!(survey.run.judgement.verdict.is_safe());
        insta::assert_snapshot!(listed(&survey));
    }

    #[test]
    fn a_lock_without_records_has_no_applied_acquire() {
        let survey = surveyed("redis-single", "none");
        assert!(!survey.moments.is_empty());
        let acquires = |moment: &&Moment| moment.shape.operation == Operation::Acquire;
        assert!(survey.moments.iter().filter(acquires).all(|m| m.shape.phase != Phase::Applied));
    }
}
