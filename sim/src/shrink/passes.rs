//! What is taken away, in which order.
//!
//! What makes later candidates quick and few comes first: faults, then everything before
//! the failure, then everything around it; numbers last. Each step only ever makes a plan
//! simpler by its own measure, so the rounds come to an end.

mod operations;
mod settings;
mod strikes;

use std::ops::Range;

use super::Without;
use super::replay::Search;
use super::signature::told;
use crate::plan::Plan;

/// So many rounds at most; the second mostly finds nothing more.
const ROUNDS: usize = 4;

/// All passes, until nothing gives.
pub(super) fn all(search: &mut Search<'_>) {
    for _ in 0..ROUNDS {
        let before = search.plan().clone();
        drop_faults(search);
        // Early: what is left to try then takes less time.
        operations::shorter(search);
        drop_list(search, |plan| plan.clocks.len(), |plan, range| drop(plan.clocks.drain(range)));
        operations::earlier(search);
        operations::fewer_units(search);
        operations::shorter(search);
        settings::fewer_clients(search);
        settings::fewer_servers(search);
        settings::defaults(search);
        strikes::simpler(search);
        // What gave nothing this time gives nothing the next.
        if *search.plan() == before || search.gives_up() {
            return;
        }
    }
}

/// Only what is blamed, if that is enough; then by delta debugging.
fn drop_faults(search: &mut Search<'_>) {
    let blamed: Vec<usize> = told(&search.best.judgement)
        .map(|finding| finding.blame.faults.iter().map(|fault| fault.fault).collect())
        .unwrap_or_default();
    if !blamed.is_empty() {
        search.accept_with(|plan| {
            let mut position = 0..;
            plan.faults.retain(|_| position.next().is_some_and(|n| blamed.contains(&n)));
        });
    }
    drop_list(search, |plan| plan.faults.len(), |plan, range| drop(plan.faults.drain(range)));
}

/// Takes away as many entries of a list as it can: first all at once, then halves, and so
/// on, and at the end one by one until none can go.
fn drop_list(
    search: &mut Search<'_>,
    length: fn(&Plan) -> usize,
    remove: fn(&mut Plan, Range<usize>),
) {
    let mut chunk = length(search.plan());
    while chunk > 0 {
        let mut removed = false;
        // From the end: what comes late seldom matters.
        let mut end = length(search.plan());
        while end > 0 {
            let start = end.saturating_sub(chunk);
            removed |= search.accept_with(|plan| remove(plan, start..end));
            end = start;
        }
        if chunk > 1 || !removed {
            chunk /= 2;
        }
    }
}

/// Runs the plan without each of its faults. Where it fails all the same, the fault goes.
pub(super) fn necessity(search: &mut Search<'_>) -> Vec<Without> {
    loop {
        let faults = search.plan().faults.len();
        let gone = (0..faults).rev().any(|n| {
            search.accept_with(|plan| {
                plan.faults.remove(n);
            })
        });
        if !gone {
            return without_each(search);
        }
    }
}

/// What comes of the plan without each of its faults.
pub(super) fn without_each(search: &mut Search<'_>) -> Vec<Without> {
    let plan = search.plan().clone();
    let without = |fault| {
        let mut without = plan.clone();
        without.faults.remove(fault);
        let seen = search.see(&without);
        let signature = seen.as_ref().and_then(|seen| seen.signature.clone());
        Without { fault, verdict: seen.map(|seen| seen.verdict), signature }
    };
    (0..plan.faults.len()).map(without).collect()
}
