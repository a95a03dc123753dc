//! The nearest plan that passes: one number of one fault, changed as little as it takes.
//!
//! Of each number the end that passes is tried, and then the way to it is halved. What
//! neither fails in the same way nor passes counts as failing: it is not what one looks
//! for.

use super::dial::Dial;
use super::replay::Search;
use super::{Signature, Without};
use crate::check::Verdict;
use crate::plan::{Fault, Plan, When};

/// A plan that passes, and what parts it from the one that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// It.
    pub plan: Plan,
    /// What was changed, such as `fault 2: for 2s → 1.4s`; faults are counted from 1.
    pub change: String,
    /// What it gives.
    pub verdict: Verdict,
}

/// A way is halved no further than to this part of it …
const FINEST_PART: i64 = 128;
/// … and a time no further than to this, µs.
const FINEST_US: i64 = 1_000;

/// A candidate: how far it is from the plan that fails.
struct Found {
    distance: i64,
    nearest: Nearest,
}

/// The nearest plan that passes.
pub(super) fn find(search: &mut Search<'_>, without: &[Without]) -> Option<Nearest> {
    let plan = search.plan().clone();
    let mut found: Vec<Found> = Vec::new();
    for (position, fault) in plan.faults.iter().enumerate() {
        for (dial, value, end) in ways(&plan, fault) {
            let removed = without.get(position).and_then(|without| without.verdict);
            // At nothing the fault is gone, and that was tried.
            let is_nothing = matches!(dial, Dial::Lasts | Dial::Extra | Dial::Rate | Dial::By);
            let known = removed.filter(|_| is_nothing);
            found.extend(halve(search, &plan, position, dial, (value, end), known));
        }
    }
    let nearest = found.into_iter().min_by_key(|found| found.distance);
    nearest.map(|found| found.nearest).or_else(|| removal(&plan, without))
}

/// Without one of the faults, where no number helps.
fn removal(plan: &Plan, without: &[Without]) -> Option<Nearest> {
    let passes = |without: &&Without| without.verdict.is_some_and(Verdict::is_safe);
    let without = without.iter().find(passes)?;
    let mut plan = plan.clone();
    plan.faults.remove(without.fault);
    let change = format!("without fault {}", without.fault + 1);
    Some(Nearest { plan, change, verdict: without.verdict? })
}

/// The numbers of a fault: the value, and the end towards which it may pass.
fn ways(plan: &Plan, fault: &Fault) -> Vec<(Dial, i64, i64)> {
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

/// Halves the way from `value`, which fails, to `end`, if that passes.
fn halve(
    search: &mut Search<'_>,
    plan: &Plan,
    position: usize,
    dial: Dial,
    (value, end): (i64, i64),
    known: Option<Verdict>,
) -> Option<Found> {
    let with = |value: i64| {
        let mut plan = plan.clone();
        dial.set(&mut plan.faults[position], value);
        plan
    };
    let target: Signature = search.target.clone();
    let mut passes = |value: i64| {
        let seen = search.see(&with(value))?;
        let fails = seen.signature.as_ref() == Some(&target);
        Some(seen.verdict).filter(|verdict| !fails && verdict.is_safe())
    };
    // A number at nothing is not a plan; that the plan passes without the fault is as good.
    let mut verdict = match known {
        Some(verdict) if verdict.is_safe() => None,
        Some(_) => return None,
        None => Some(passes(end)?),
    };
    let finest =
        ((value - end).abs() / FINEST_PART).max(if dial.is_time() { FINEST_US } else { 1 });
    let (mut failing, mut passing) = (value, end);
    while (failing - passing).abs() > finest {
        let middle = passing + (failing - passing) / 2;
        let middle = if dial.is_time() { middle / FINEST_US * FINEST_US } else { middle };
        if middle == passing || middle == failing {
            break;
        }
        match passes(middle) {
            Some(passed) => (verdict, passing) = (Some(passed), middle),
            None => failing = middle,
        }
    }
    let was = match dial.get(&plan.faults[position]) {
        Some(value) => dial.show(value),
        None => "to the end".to_owned(),
    };
    let change = format!("fault {}: {} {was} → {}", position + 1, dial.name(), dial.show(passing));
    let nearest = Nearest { plan: with(passing), change, verdict: verdict? };
    Some(Found { distance: (value - passing).abs(), nearest })
}
