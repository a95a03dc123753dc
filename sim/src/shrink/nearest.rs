//! The nearest plan that passes: one number of one fault, changed as little as it takes.
//!
//! Of each number the end that passes is tried, and then the way to it is halved; of the
//! nearest found, by how much of the number it changes, the way is halved on to the finest
//! step. What neither fails in the same way nor passes is not what one looks for: the way
//! is halved past it, and the last plan known to fail in the same way is kept apart.

use super::Without;
use super::dial::Dial;
use super::replay::Search;
use crate::check::Verdict;
use crate::plan::{Fault, Plan, When};

/// A plan that passes, and what parts it from the one that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// It.
    pub plan: Plan,
    /// The last plan on the way to it that still fails in the same way.
    pub failing: Plan,
    /// What was changed, such as `fault 2: for 2s → 1.4s`; faults are counted from 1.
    pub change: String,
    /// What it gives.
    pub verdict: Verdict,
}

/// At first a way is halved no further than to this part of it.
const FIRST_PART: i64 = 128;
/// A time is halved no further than to this, µs.
const FINEST_US: i64 = 100;

/// A number that was halved down.
struct Way {
    fault: usize,
    dial: Dial,
    value: i64,
    /// Towards which it was halved.
    end: i64,
    /// The last that fails in the same way.
    failing: i64,
    /// The last that does not pass.
    not_passing: i64,
    /// The next that passes.
    passing: i64,
    /// `None` while it is only known that the plan passes without the fault.
    verdict: Option<Verdict>,
}

impl Way {
    /// How far it is, parts in a million of the number: µs and ppm cannot be compared. Of a
    /// number that is nothing, of the end.
    fn change_ppm(&self) -> u128 {
        let change = u128::from(self.value.abs_diff(self.passing));
        let whole = self.value.unsigned_abs().max(self.end.unsigned_abs()).max(1);
        change * 1_000_000 / u128::from(whole)
    }
}

/// The nearest plan that passes.
pub(super) fn find(search: &mut Search<'_>, without: &[Without]) -> Option<Nearest> {
    let plan = search.plan().clone();
    let mut ways: Vec<Way> = Vec::new();
    for (position, fault) in plan.faults.iter().enumerate() {
        for (dial, value, end) in ends(&plan, fault) {
            let removed = without.get(position).and_then(|without| without.verdict);
            // At nothing the fault is gone, and that was tried.
            let is_nothing = matches!(dial, Dial::Lasts | Dial::Extra | Dial::Rate | Dial::By);
            let verdict = match removed.filter(|_| is_nothing) {
                Some(verdict) if verdict.is_safe() => None,
                Some(_) => continue,
                None => match try_it(search, &plan, (position, dial), end) {
                    Tried::Passes(passed) => Some(passed),
                    _ => continue,
                },
            };
            let mut way = Way {
                fault: position,
                dial,
                value,
                end,
                failing: value,
                not_passing: value,
                passing: end,
                verdict,
            };
            halve(search, &plan, &mut way, (value - end).abs() / FIRST_PART);
            ways.push(way);
        }
    }
    // Last those of which only the plan without the fault is known to pass.
    ways.sort_by_key(|way| (way.verdict.is_none(), way.change_ppm()));
    let nearest = ways.into_iter().find_map(|mut way| {
        halve(search, &plan, &mut way, 0);
        told(&plan, &way)
    });
    nearest.or_else(|| removal(&plan, without))
}

/// Without one of the faults, where no number helps.
fn removal(plan: &Plan, without: &[Without]) -> Option<Nearest> {
    let passes = |without: &&Without| without.verdict.is_some_and(Verdict::is_safe);
    let without = without.iter().find(passes)?;
    let failing = plan.clone();
    let mut plan = plan.clone();
    plan.faults.remove(without.fault);
    let change = format!("without fault {}", without.fault + 1);
    Some(Nearest { plan, failing, change, verdict: without.verdict? })
}

/// The numbers of a fault: the value, and the end towards which it may pass.
fn ends(plan: &Plan, fault: &Fault) -> Vec<(Dial, i64, i64)> {
    let storm = i64::try_from(plan.duration.0).unwrap_or(i64::MAX);
    let begins = match &fault.when {
        When::At(at) => *at,
        When::After { delay, .. } => *delay,
    };
    let begins = i64::try_from(begins.0).unwrap_or(i64::MAX);
    let mut ways = Vec::new();
    for dial in Dial::ALL {
        match (dial, dial.get(fault)) {
            (Dial::Lasts, None) if !fault.kind.ends_by_itself() => {
                // Until the storm is over.
                ways.push((dial, storm - begins, 0));
            }
            (Dial::Delay | Dial::At, Some(value)) => {
                let lasts = fault.lasts.map_or(1, |lasts| lasts.0);
                let latest = storm - i64::try_from(lasts).unwrap_or(i64::MAX);
                ways.push((dial, value, latest.min(value.saturating_add(1_000_000))));
                if value > 0 {
                    ways.push((dial, value, 0));
                }
            }
            (_, Some(value)) => ways.push((dial, value, 0)),
            (_, None) => {}
        }
    }
    ways.retain(|(_, value, end)| value != end);
    ways
}

fn with(plan: &Plan, (fault, dial): (usize, Dial), value: i64) -> Plan {
    let mut plan = plan.clone();
    dial.set(&mut plan.faults[fault], value);
    plan
}

/// What came of a number.
enum Tried {
    Passes(Verdict),
    FailsInTheSameWay,
    Neither,
}

/// What the plan gives with this number.
fn try_it(search: &mut Search<'_>, plan: &Plan, place: (usize, Dial), value: i64) -> Tried {
    match search.see(&with(plan, place, value)) {
        Some(seen) if seen.signature.as_ref() == Some(&search.target) => Tried::FailsInTheSameWay,
        Some(seen) if seen.verdict.is_safe() => Tried::Passes(seen.verdict),
        _ => Tried::Neither,
    }
}

/// Halves the way between what does not pass and what does, down to `finest`.
fn halve(search: &mut Search<'_>, plan: &Plan, way: &mut Way, finest: i64) {
    let grain = if way.dial.is_time() { FINEST_US } else { 1 };
    while (way.not_passing - way.passing).abs() > finest.max(grain) && !search.is_over() {
        let middle = way.passing + (way.not_passing - way.passing) / 2;
        let middle = middle / grain * grain;
        if middle == way.passing || middle == way.not_passing {
            return;
        }
        match try_it(search, plan, (way.fault, way.dial), middle) {
            Tried::Passes(passed) => (way.verdict, way.passing) = (Some(passed), middle),
            Tried::FailsInTheSameWay => (way.failing, way.not_passing) = (middle, middle),
            Tried::Neither => way.not_passing = middle,
        }
    }
}

/// `None` where only the plan without the fault passes.
fn told(plan: &Plan, way: &Way) -> Option<Nearest> {
    let place = (way.fault, way.dial);
    let was = match way.dial.get(&plan.faults[way.fault]) {
        Some(value) => way.dial.show(value),
        None => "to the end".to_owned(),
    };
    let (name, now) = (way.dial.name(), way.dial.show(way.passing));
    let failing = match way.failing == way.value {
        true => plan.clone(),
        false => with(plan, place, way.failing),
    };
    Some(Nearest {
        plan: with(plan, place, way.passing),
        failing,
        change: format!("fault {}: {name} {was} → {now}", way.fault + 1),
        verdict: way.verdict?,
    })
}
