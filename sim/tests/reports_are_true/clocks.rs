//! Preconditions of what is said of clocks.

use lockstorm_sim::history::{Event, What};
use lockstorm_sim::plan::{FaultKind, Micros};

use super::told::*;

/// The early expiry of the first owner's record, and by how much it was early, µs.
pub fn early<'a>(told: &Told<'a>) -> (&'a Event, u64) {
    let (first, owner) = (told.first(), told.owner(0).unwrap());
    let What::RecordSet { lease_us: Some(lease_us), .. } = &first.what else { panic!("a lease") };
    let expiry = told.events().find(|event| {
        event.id > first.id
            && event.at_us < first.at_us + lease_us
            && told.why.contains(&*event.node)
            && matches!(&event.what, What::RecordExpired { owner: of, .. } if **of == *owner)
    });
    let expiry = expiry.expect("an early expiry");
    assert!(told.in_story(expiry) && expiry.id < told.until());
    let step = told.story.steps.iter().find(|step| step.event == Some(expiry.id)).unwrap();
    assert!(step.outcome.contains("clock"), "the story says what was with the clock: {step:?}");
    (expiry, first.at_us + lease_us - expiry.at_us)
}

pub fn rate_ppm(told: &Told<'_>, name: &str, at_us: u64) -> i64 {
    let own = told.plan.clocks.iter().find(|clock| clock.node == name);
    let faults = told.plan.faults.iter().enumerate().rev();
    let by_fault =
        faults.filter(|(n, _)| told.at_work(*n, at_us, at_us)).find_map(|(_, fault)| match &fault
            .kind
        {
            FaultKind::ClockRate { node, ppm } if node == name => Some(*ppm),
            _ => None,
        });
    by_fault.or(own.map(|clock| clock.rate_ppm)).unwrap_or(0)
}

pub fn moved_clock(told: &Told<'_>) {
    let (expiry, early_us) = early(told);
    let first = told.first();
    let promotion = told.promotion(first.id, expiry.id).expect("it moved by a failover");
    assert_eq!(promotion.node, expiry.node);
    told.shows_failover(promotion);
    let offset = |name: &str| {
        let own = told.plan.clocks.iter().find(|clock| clock.node == name);
        let steps =
            told.plan.faults.iter().enumerate().filter_map(|(n, fault)| match &fault.kind {
                FaultKind::ClockStep { node, by_us } if node == name => {
                    told.at_work(n, first.at_us, first.at_us).then_some(*by_us)
                }
                _ => None,
            });
        own.map_or(0, |clock| clock.offset_us) + steps.sum::<i64>()
    };
    let ahead_us = offset(&expiry.node) - offset(&first.node);
    assert!(ahead_us > 0 && ahead_us.unsigned_abs() >= early_us / 2, "{ahead_us} {early_us}");
    let (_, said) = told.why.split_once(" master, is ").unwrap();
    let (said, _) = said.split_once(" ahead of ").unwrap();
    let said: Micros = said.parse().unwrap();
    // Rates of common clocks add a little.
    assert!(said.0.abs_diff(ahead_us.unsigned_abs()) <= 20_000, "{said} {ahead_us}");
}

pub fn stepped_clock(told: &Told<'_>) {
    let (expiry, _) = early(told);
    let first = told.first();
    assert!(told.blames(first.at_us, expiry.at_us, |kind| {
        matches!(kind, FaultKind::ClockStep { node, .. } if **node == *expiry.node)
    }));
}

pub fn fast_clock(told: &Told<'_>) {
    let (expiry, early_us) = early(told);
    let ppm = rate_ppm(told, &expiry.node, expiry.at_us);
    assert!(ppm > 0, "a rate");
    let lasted_us = expiry.at_us - told.first().at_us;
    let gained_us = lasted_us / 1_000_000 * ppm.unsigned_abs() + ppm.unsigned_abs();
    assert!(gained_us * 2 >= early_us, "enough of it: {gained_us} {early_us}");
}
