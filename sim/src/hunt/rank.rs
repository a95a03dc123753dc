//! In which order single faults are tried: what is likely to tell most comes first.
//!
//! A fault that breaks a lock mostly does so at many moments, and one that does not does so at
//! none; so every fault has its turn once before any has it again, each at another moment. In
//! a turn the faults come first that take the holder from its work for longer than its lease,
//! or cut an operation of its in half: what leases, renewals and releases are there for. Then
//! the master's, then those that a lock is built to bear: short ones, and those of nodes that
//! are not asked. Moments at which the lock is held come before those at which it is not.
//!
//! Within that the order is drawn. It is the same whatever comes of it.

use std::collections::BTreeMap;

use super::certificate::Trial;
use crate::draw::Draw;
use crate::plan::{FaultKind, Operation, Phase, Seed};

/// The positions of `trials` in the order in which they are tried.
pub fn order(trials: &[Trial], seed: Seed) -> Vec<usize> {
    let draw = |index: usize| {
        let (moment, fault) = trials[index].key();
        Draw::new(seed.0, "hunt/singles", &format!("{moment} | {fault}")).bits()
    };
    let mut of_fault: BTreeMap<&str, Vec<(u8, u64, usize)>> = BTreeMap::new();
    for (index, trial) in trials.iter().enumerate() {
        let place = (tier_of_moment(trial), draw(index), index);
        of_fault.entry(&trial.single.name).or_default().push(place);
    }
    let mut ranked: Vec<(usize, u8, u64, usize)> = Vec::new();
    for places in of_fault.values_mut() {
        places.sort_unstable();
        let turns = places.iter().enumerate();
        ranked.extend(
            turns.map(|(turn, (_, draw, index))| {
                (turn, tier_of_fault(&trials[*index]), *draw, *index)
            }),
        );
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, _, _, index)| index).collect()
}

/// 0 while the lock is held, or on its way to or from its holder.
fn tier_of_moment(trial: &Trial) -> u8 {
    let anchor = &trial.moment.anchor;
    let is_held = match (anchor.operation, anchor.phase) {
        (Operation::Acquire, phase) => phase != Phase::Invoked,
        (Operation::Release, phase) => phase != Phase::Returned,
        _ => true,
    };
    u8::from(!is_held)
}

fn tier_of_fault(trial: &Trial) -> u8 {
    let single = &trial.single;
    let is_short = single.name.ends_with("briefly") || single.name.contains("a little");
    let of_holder = single.name.contains("holder");
    let touches_stock = single.name.contains("stock");
    let is_drift =
        matches!(single.fault.kind, FaultKind::ClockRate { .. } | FaultKind::ClockSlew { .. });
    match (of_holder && !touches_stock, is_short || is_drift) {
        (true, false) => 0,
        (false, false) if decides(&single.name) => 1,
        (true, true) => 1,
        _ => 2,
    }
}

/// Whether the fault of this name strikes who decides.
fn decides(name: &str) -> bool {
    ["master", "one server", "leader", " server,", " server "]
        .iter()
        .any(|role| name.contains(role))
        || name.ends_with(" server")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::engine::event::EventEngine;
    use crate::hunt::certificate::trials;
    use crate::hunt::{Quarry, moments};
    use crate::plan::Fence;

    #[test]
    fn every_fault_has_its_turn_before_any_has_it_again_and_the_holders_come_first() {
        let quarry = Quarry::new("redis-single", "redis", Fence::Off);
        let survey = moments::survey(&quarry, &EventEngine, Seed(7)).unwrap();
        let trials = trials(&survey);
        let order = order(&trials, Seed(7));
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), trials.len());
        let name = |index: &usize| trials[*index].single.name.as_str();
        let names: BTreeSet<&str> = order.iter().map(name).collect();
        let first_turn: BTreeSet<&str> = order.iter().take(names.len()).map(name).collect();
        assert_eq!(first_turn, names);
        let first: Vec<&str> = order.iter().take(12).map(name).collect();
        assert!(first.iter().all(|name| name.contains("holder")), "{first:?}");
    }
}
