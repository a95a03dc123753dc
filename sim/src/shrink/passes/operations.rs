//! Fewer operations: what the failure waits for happens earlier, less is in stock, the
//! storm ends sooner.

use std::collections::BTreeSet;

use crate::check::Detail;
use crate::history::{Event, What};
use crate::plan::{FaultKind, Micros, Plan, When};
use crate::shrink::dial::rounded;
use crate::shrink::replay::Search;
use crate::shrink::signature::told;

/// Anchors at earlier operations: of all clients at once, then of each.
pub(super) fn earlier(search: &mut Search<'_>) {
    let late: Vec<(String, u32)> =
        operations(search.plan()).into_iter().filter(|(_, ordinal)| *ordinal > 1).collect();
    if late.len() > 1 {
        let mut candidate = search.plan().clone();
        for (client, ordinal) in &late {
            moved(&mut candidate, client, *ordinal, 1);
        }
        search.accept(candidate);
    }
    for (client, ordinal) in operations(search.plan()) {
        let to =
            [1, 2, ordinal / 4, ordinal / 2].into_iter().filter(|to| (1..ordinal).contains(to));
        let mut to: Vec<u32> = to.collect();
        to.sort_unstable();
        to.dedup();
        to.into_iter().any(|to| search.accept_with(|plan| moved(plan, &client, ordinal, to)));
    }
}

/// The operations that faults wait for: client and ordinal.
fn operations(plan: &Plan) -> BTreeSet<(String, u32)> {
    let anchor = |when: &When| match when {
        When::After { anchor, .. } => Some((anchor.client.clone(), anchor.ordinal)),
        When::At(_) => None,
    };
    plan.faults.iter().filter_map(|fault| anchor(&fault.when)).collect()
}

fn moved(plan: &mut Plan, of: &str, from: u32, to: u32) {
    for fault in &mut plan.faults {
        if let FaultKind::Cancel { node, ordinal, .. } = &mut fault.kind
            && node == of
            && *ordinal == from
        {
            *ordinal = to;
        }
        if let When::After { anchor, .. } = &mut fault.when
            && anchor.client == of
            && anchor.ordinal == from
        {
            anchor.ordinal = to;
        }
    }
}

/// One unit; else as many as it takes to sell the one that was sold twice; else few.
pub(super) fn fewer_units(search: &mut Search<'_>) {
    const FEW: u32 = 10;
    let unit = told(&search.best.judgement).and_then(|finding| match finding.detail {
        Detail::Oversell { unit, .. } => Some(unit),
        _ => None,
    });
    for units in [Some(1), unit, Some(FEW)].into_iter().flatten() {
        if units < search.plan().workload.units
            && search.accept_with(|plan| plan.workload.units = units)
        {
            return;
        }
    }
}

/// A storm that ends soon after the failure is complete.
pub(super) fn shorter(search: &mut Search<'_>) {
    const SHORTEST_US: i64 = 100_000;
    let run = &search.best;
    let Some(finding) = told(&run.judgement) else { return };
    // The books are read at the end, however early that is.
    let is_of_the_storm =
        |event: &&Event| !matches!(event.what, What::Ledger { .. } | What::StockCounted { .. });
    let events = finding.events.iter().filter_map(|id| run.history.get(*id));
    let Some(last_us) = events.filter(is_of_the_storm).map(|event| event.at_us).max() else {
        return;
    };
    let last_us = i64::try_from(last_us).unwrap_or(i64::MAX).max(SHORTEST_US);
    for digits in [1, 2] {
        let duration = Micros(rounded(last_us, digits, true).unsigned_abs());
        if duration < search.plan().duration && search.accept_with(|plan| cut(plan, duration)) {
            return;
        }
    }
}

/// Ends the storm there, and with it what would go on.
fn cut(plan: &mut Plan, duration: Micros) {
    plan.duration = duration;
    for fault in &mut plan.faults {
        let begins = match &fault.when {
            When::At(at) => *at,
            When::After { delay, .. } => *delay,
        };
        if fault.lasts.is_some_and(|lasts| begins.0.saturating_add(lasts.0) > duration.0) {
            fault.lasts = None;
        }
    }
}
