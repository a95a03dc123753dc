//! Brute force over random histories: who is passed over, who waits in a circle.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::interval::{Interval, Moment};
use super::super::waits::waits;
use super::oracle::cases;
use super::*;
use crate::history::What;

const KEYS: [&str; 3] = ["a", "b", "c"];
const BOUND_US: u64 = 200_000;

/// Five clients that take, ask for, wait for and give back three locks without leases;
/// each client has one attempt at a time.
fn crowd() -> impl Strategy<Value = History> {
    let step = (0_usize..5, 0_usize..6, 0_usize..3, prop::sample::select(&[0, 1, 90, 150][..]));
    prop::collection::vec(step, 0..30).prop_map(|steps| {
        let mut sample = Sample::new().healed();
        let (mut now, mut attempts, mut open) =
            (0, [0_u32; 5], [const { None::<(String, usize)> }; 5]);
        let mut held: Vec<(usize, String)> = Vec::new();
        for (client, what, key, wait_ms) in steps {
            now += wait_ms;
            sample = sample.at(now);
            match (what, open[client].take()) {
                (0 | 1, None) => {
                    attempts[client] += 1;
                    let who = format!("app-{client}/{}", attempts[client]);
                    sample = sample.ask_for(&who, KEYS[key], false).waits(&who, KEYS[key]);
                    open[client] = Some((who, key));
                }
                (2 | 3, Some((who, key))) => {
                    let set = What::RecordSet {
                        key: KEYS[key].into(),
                        owner: (&*who).into(),
                        lease_us: None,
                        shared: false,
                    };
                    let returned = What::AcquireReturned {
                        attempt: crate::history::Attempt::parse(&who).unwrap(),
                        key: KEYS[key].into(),
                        outcome: AcquireOutcome::Granted {
                            token: None,
                            lease_us: crate::history::NO_END,
                            margin_us: 0,
                        },
                    };
                    let node = format!("app-{client}");
                    sample = sample.event("redis-1", set).event(&node, returned);
                    held.push((client, who));
                }
                (4, still) => {
                    open[client] = still;
                    if let Some(at) = held.iter().position(|(by, _)| *by == client) {
                        let (_, who) = held.remove(at);
                        sample = sample.release(&who);
                    }
                }
                (5, still) => {
                    // A client that dies waits no longer; what it holds it keeps.
                    if now % 7 == 0 {
                        sample = sample.crash(&format!("app-{client}"));
                    } else {
                        open[client] = still;
                    }
                }
                (_, still) => open[client] = still,
            }
        }
        sample.at(now + 50).end()
    })
}

/// Grants of a lock after mine arrived and before mine is answered, of requests that
/// arrived after mine.
fn passed_over(history: &History) -> Vec<u64> {
    let all = waits(history, &Steps::default());
    let mut counts = Vec::new();
    for wait in &all {
        let Some(mine) = wait.arrived else { continue };
        let mut count = 0;
        for other in all.iter().filter(|other| other.key == wait.key) {
            let theirs = other.arrived.unwrap_or(other.span.from);
            let granted = history.iter().find(|event| match &event.what {
                What::RecordSet { owner, .. } => **owner == other.who.to_string(),
                _ => false,
            });
            let told = other.ended == super::super::waits::Ended::Granted;
            let Some(granted) = granted.map(Moment::of).filter(|_| told) else { continue };
            count += u64::from(theirs > mine && granted > mine && granted < wait.span.to);
        }
        counts.push(count);
    }
    counts.sort_unstable();
    counts
}

/// Whether some moment has a circle of links that have all lasted for longer than the
/// bound: every moment, every pair, and the closure of the relation.
fn has_circle(history: &History) -> bool {
    let all = waits(history, &Steps::default());
    let end = Moment::end_of(history.ended_us);
    let held: Vec<(Interval, crate::history::Name, String)> =
        super::super::grants::Grants::of(history, true, 1)
            .rows()
            .iter()
            .flat_map(|grant| {
                let client =
                    grant.attempt.as_ref().map_or("", |attempt| &attempt.client).to_owned();
                let key = grant.key.clone();
                grant.promise.iter().map(move |piece| (*piece, key.clone(), client.clone()))
            })
            .collect();
    let moments = history.iter().map(Moment::of).chain([end]);
    for until in moments {
        // Alive at `until`, and since `bound` before the link's latest beginning.
        let mut links: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (n, wait) in all.iter().enumerate() {
            for (hold, key, client) in held.iter().filter(|(_, key, _)| **key == *wait.key) {
                let _ = key;
                let from = wait.span.from.max(hold.from);
                let alive = wait.span.to >= until && hold.to >= until;
                let long = until.at_us > from.at_us.saturating_add(BOUND_US);
                if !(alive && long) {
                    continue;
                }
                let next = all.iter().enumerate().filter(|(_, other)| other.who.actor() == client);
                for (m, other) in next {
                    let theirs = other.span.from;
                    let alive = other.span.to >= until;
                    if alive && until.at_us > theirs.at_us.saturating_add(BOUND_US) {
                        links.insert((n, m));
                    }
                }
            }
        }
        for _ in 0..all.len() {
            let more: Vec<(usize, usize)> = links
                .iter()
                .flat_map(|(a, b)| {
                    links.iter().filter(move |(c, _)| c == b).map(move |(_, d)| (*a, *d))
                })
                .collect();
            links.extend(more);
        }
        if links.iter().any(|(a, b)| a == b) {
            return true;
        }
    }
    false
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn bypasses_are_counted(history in crowd()) {
        let judgement = judge(&history, &Setting { bypass_bound: Some(0), ..setting(0) });
        prop_assert_eq!(&judgement.failed, &[]);
        let counts = passed_over(&history);
        prop_assert_eq!(judgement.numbers.bypasses, counts.iter().sum::<u64>());
        prop_assert_eq!(judgement.numbers.most_bypasses, counts.last().copied().unwrap_or(0));
        let unfair = counts.iter().filter(|count| **count > 0).count();
        let found = judgement.findings.iter().filter(|f| f.kind == Kind::Unfair).count();
        prop_assert_eq!(found, unfair);
    }

    #[test]
    fn circles_are_found(history in crowd()) {
        let bound = Setting { takeover_bound_us: Some(BOUND_US), ..setting(0) };
        let judgement = judge(&history, &bound);
        prop_assert_eq!(&judgement.failed, &[]);
        prop_assert_eq!(judgement.found(Kind::Deadlock), has_circle(&history));
    }
}
