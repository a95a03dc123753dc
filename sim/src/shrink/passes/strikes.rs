//! Simpler faults: anchored where they were timed, at once where they were delayed, round
//! where they were crooked, of fewer nodes.

use crate::plan::{Anchor, Micros, StruckMut, When};
use crate::shrink::dial::{Dial, rounder};
use crate::shrink::replay::Search;
use crate::storm::anchors;

/// Makes each fault simpler.
pub(super) fn simpler(search: &mut Search<'_>) {
    for fault in 0..search.plan().faults.len() {
        anchored(search, fault);
        at_once(search, fault);
        to_the_end(search, fault);
        for dial in Dial::ALL {
            round(search, fault, dial);
        }
        fewer_nodes(search, fault);
    }
}

/// A time becomes the operation before it: at once, or else as long after it as it was.
fn anchored(search: &mut Search<'_>, fault: usize) {
    /// So many operations back are tried.
    const BACK: usize = 3;
    let When::At(at) = search.plan().faults[fault].when else { return };
    let before: Vec<(Anchor, u64)> = search
        .best
        .history
        .iter()
        .take_while(|event| event.at_us <= at.0)
        .filter_map(|event| {
            let (client, ordinal, operation, phase) = anchors::position(event)?;
            Some((Anchor::new(client, operation, ordinal, phase), event.at_us))
        })
        .collect();
    let nearest: Vec<&(Anchor, u64)> = before.iter().rev().take(BACK).collect();
    let at_once = nearest.iter().map(|(anchor, _)| (anchor, 0));
    let as_it_was = nearest.first().map(|(anchor, at_us)| (anchor, at.0 - at_us));
    for (anchor, delay_us) in at_once.chain(as_it_was) {
        let when = When::After { anchor: anchor.clone(), delay: Micros(delay_us) };
        if search.accept_with(|plan| plan.faults[fault].when = when) {
            return;
        }
    }
}

fn at_once(search: &mut Search<'_>, fault: usize) {
    for dial in [Dial::Delay, Dial::CancelDelay] {
        if dial.get(&search.plan().faults[fault]).is_some_and(|delay| delay > 0) {
            search.accept_with(|plan| dial.set(&mut plan.faults[fault], 0));
        }
    }
}

fn to_the_end(search: &mut Search<'_>, fault: usize) {
    if search.plan().faults[fault].lasts.is_some() {
        search.accept_with(|plan| plan.faults[fault].lasts = None);
    }
}

fn round(search: &mut Search<'_>, fault: usize, dial: Dial) {
    let Some(value) = dial.get(&search.plan().faults[fault]) else { return };
    rounder(value)
        .into_iter()
        .any(|rounder| search.accept_with(|plan| dial.set(&mut plan.faults[fault], rounder)));
}

fn fewer_nodes(search: &mut Search<'_>, fault: usize) {
    for of_from in [true, false] {
        let mut position = 0;
        loop {
            let mut candidate = search.plan().clone();
            let StruckMut::Sides(from, to) = candidate.faults[fault].kind.struck_mut() else {
                return;
            };
            let side = if of_from { from } else { to };
            if side.len() < 2 || position >= side.len() {
                break;
            }
            side.remove(position);
            if !search.accept(candidate) {
                position += 1;
            }
        }
    }
}
