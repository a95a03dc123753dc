//! Mutations of clean histories: each is caught.

use proptest::prelude::*;

use super::oracle::renumbered;
use super::*;
use crate::history::{Event, What};

/// Clean critical sections one after the other: work in 0..100 ms, one unit each.
fn clean() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec((1_u64..4, 0_u64..100), 2..8).prop_map(|sections| {
        let mut sample = Sample::new();
        let (mut now, mut sales) = (0, Vec::new());
        for (n, (client, work_ms)) in sections.into_iter().enumerate() {
            let unit = n as u32 + 1;
            // Odd and even in turn: every grant is a handover.
            let who = format!("app-{}/{unit}", 2 * client + n as u64 % 2);
            sample = sample.at(now).grant(&who).at(now + work_ms).read(&who, unit);
            sample = sample.sell(&who, unit).let_go(&who);
            now += work_ms;
            sales.push((unit, who));
        }
        let sales: Vec<(u32, &str)> = sales.iter().map(|(unit, who)| (*unit, &**who)).collect();
        sample.ledger(sales.len() as u32, &sales).end().events
    })
}

/// The positions of the events that are meant.
fn places(events: &[Event], is: impl Fn(&What) -> bool) -> Vec<usize> {
    (0..events.len()).filter(|n| is(&events[*n].what)).collect()
}

proptest! {
    #[test]
    fn a_clean_history_is_safe_and_each_mutation_of_it_is_caught(
        events in clean(),
        place in any::<prop::sample::Index>(),
    ) {
        let judgement = judge(&renumbered(events.clone()), &setting(0));
        prop_assert_eq!(judgement.verdict, Verdict::Safe);
        prop_assert_eq!(kinds(&judgement), Vec::<&str>::new());
        let kinds_of = |events: Vec<Event>| {
            let judgement = judge(&renumbered(events), &setting(0));
            judgement.findings.iter().map(|finding| finding.kind).collect::<Vec<_>>()
        };
        let released = places(&events, |what| matches!(what, What::RecordReleased { .. }));
        // Any section but the last.
        let n = place.index(released.len() - 1);

        // Drop: a release that was never asked for, while the next is granted.
        let asked = places(&events, |what| matches!(what, What::ReleaseInvoked { .. }));
        let mut dropped = events.clone();
        for place in [released[n], asked[n]] {
            dropped.remove(place);
        }
        prop_assert!(kinds_of(dropped).contains(&Kind::DoubleGrant));

        // Retime: the next record is set just before the release is asked for.
        let mut retimed = events.clone();
        let set = places(&events, |what| matches!(what, What::RecordSet { .. }))[n + 1];
        let mut early = retimed.remove(set);
        early.at_us = events[asked[n]].at_us;
        retimed.insert(asked[n], early);
        prop_assert!(kinds_of(retimed).contains(&Kind::DoubleGrant));

        // Swap: a section's sale with the next one's read.
        let acts = places(&events, |what| matches!(what, What::Effect { .. }));
        let mut swapped = events.clone();
        let (sale, read) = (acts[2 * n + 1], acts[2 * n + 2]);
        let what = swapped[sale].what.clone();
        swapped[sale].what = std::mem::replace(&mut swapped[read].what, what);
        prop_assert!(kinds_of(swapped).contains(&Kind::EffectInterleaved));

        // Forge: the books have a unit twice.
        let mut forged = events.clone();
        for event in &mut forged {
            if let What::Ledger { sales, .. } = &mut event.what {
                sales[n + 1].0 = sales[n].0;
            }
        }
        prop_assert_eq!(kinds_of(forged), [Kind::Oversell]);

        // Take away: nobody was told of the grant, and it is none.
        let mut untold = events.clone();
        let told = places(&events, |what| matches!(what, What::AcquireReturned { .. }))[n];
        untold.remove(told);
        untold.retain(|event| !matches!(&event.what, What::RecordReleased { .. }));
        let judgement = judge(&renumbered(untold), &setting(0));
        let Some(What::AcquireReturned { attempt, .. }) = events.get(told).map(|e| &e.what) else {
            unreachable!("that is where it was")
        };
        let involved = judgement.findings.iter().filter(|f| f.kind == Kind::DoubleGrant);
        let attempt = attempt.to_string();
        prop_assert!(!involved.flat_map(owners).any(|owner| owner == attempt));
    }
}

proptest! {
    #[test]
    fn what_happens_twice_is_caught(
        events in clean(),
        place in any::<prop::sample::Index>(),
    ) {
        let kinds_of = |events: Vec<Event>| {
            let judgement = judge(&renumbered(events), &setting(0));
            judgement.findings.iter().map(|finding| finding.kind).collect::<Vec<_>>()
        };
        let sets = places(&events, |what| matches!(what, What::RecordSet { .. }));
        let n = place.index(sets.len() - 1);

        // A grant is told again to another client, while the first holds.
        let granted = places(&events, |what| matches!(what, What::AcquireReturned { .. }))[n];
        let mut twice = events.clone();
        let mut again = twice[granted].clone();
        if let What::AcquireReturned { attempt, .. } = &mut again.what {
            attempt.client = "app-99".into();
        }
        twice.insert(granted + 1, again);
        prop_assert!(kinds_of(twice).contains(&Kind::DoubleGrant));

        // An order is in the books again, with another unit.
        let mut twice = events.clone();
        for event in &mut twice {
            if let What::Ledger { units, sales } = &mut event.what {
                *units += 1;
                sales.push((*units, sales[n].1.clone()));
            }
        }
        prop_assert_eq!(kinds_of(twice), [Kind::DuplicateOrder]);

        // A section's read happens again, late: after the next section's.
        let acts = places(&events, |what| matches!(what, What::Effect { .. }));
        let mut twice = events.clone();
        let again = twice[acts[2 * n]].clone();
        twice.insert(acts[2 * n + 2] + 1, Event { at_us: events[acts[2 * n + 2]].at_us, ..again });
        prop_assert!(kinds_of(twice).contains(&Kind::EffectInterleaved));

        // A counter beside the books counts one of the sales twice.
        let sold = sets.len() as u32;
        let counted = |left: i64| {
            let mut counted = events.clone();
            let last = counted[counted.len() - 1].clone();
            let what = What::StockCounted { units: sold, left, reserved: 0 };
            counted.push(Event { what, ..last });
            kinds_of(counted)
        };
        prop_assert_eq!(counted(0), []);
        prop_assert_eq!(counted(-1), [Kind::StockNotConserved]);
    }
}
