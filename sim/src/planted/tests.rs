use std::collections::BTreeSet;

use super::*;
use crate::check::Kind;
use crate::plan::scenario::PLANTED;

#[test]
fn plans_know_exactly_the_planted_bugs() {
    let all = BUGS.iter().chain(WASTES).chain(OF_ORDER);
    let names = all.flat_map(|bug| [Half::Planted, Half::Mended].map(|h| bug.lock_name(h)));
    let built: BTreeSet<String> = names.collect();
    let known: BTreeSet<String> = PLANTED.iter().map(|lock| lock.name.to_owned()).collect();
    assert_eq!(built, known);
    assert_eq!(built.len(), PLANTED.len(), "a name twice");
    for lock in PLANTED {
        let (bug, _) = find(lock.name).unwrap();
        assert_eq!(bug.fence != Fence::Off, lock.tokens, "{}", lock.name);
    }
}

#[test]
fn what_shows_a_bug_is_a_kind_of_finding() {
    for bug in BUGS {
        for kind in bug.shows {
            assert!(Kind::ALL.iter().any(|known| known.id() == *kind), "{}: {kind}", bug.name);
        }
    }
}

#[test]
fn the_bugs_are_of_many_kinds() {
    let reports: BTreeSet<&str> = BUGS.iter().flat_map(|bug| bug.report_kinds).copied().collect();
    let held_out = BUGS.iter().filter(|bug| bug.purpose == Purpose::HeldOut).count();
    assert!(BUGS.len() >= 12 && reports.len() >= 8, "{} of {reports:?}", BUGS.len());
    assert!(held_out * 2 >= BUGS.len(), "{held_out} of {} are held out", BUGS.len());
}
