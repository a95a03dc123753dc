//! Brute force over random histories: who waits too long for a lock that nobody holds,
//! and whether a record is in the way.

use proptest::prelude::*;

use super::super::interval::{Interval, Moment};
use super::super::sample::KEY;
use super::oracle::{cases, is_believed, reply, sets};
use super::*;
use crate::history::What;

const BOUND_US: u64 = 200_000;

/// Four clients that ask for one lock, wait, are granted it and give it back; some forget
/// to remove the record. Each client has one attempt at a time.
fn queue() -> impl Strategy<Value = History> {
    let step = (0_usize..4, 0_usize..9, prop::sample::select(&[0, 1, 90, 150, 201][..]));
    prop::collection::vec(step, 0..30).prop_map(|steps| {
        let (mut now, mut sample) = (0, Sample::new());
        let mut attempts = [0_u32; 4];
        // Who waits, and who holds.
        let mut at_work = [const { None::<(String, bool)> }; 4];
        for (client, what, wait_ms) in steps {
            now += wait_ms;
            sample = sample.at(now);
            let node = format!("app-{client}");
            sample = match (what, at_work[client].take()) {
                (0..3, None) => {
                    attempts[client] += 1;
                    let who = format!("{node}/{}", attempts[client]);
                    at_work[client] = Some((who.clone(), false));
                    sample.ask(&who).waits(&who, KEY)
                }
                (3 | 4, Some((who, false))) => {
                    at_work[client] = Some((who.clone(), true));
                    sample.set_lease("redis-1", &who, None).granted(&who)
                }
                (5, Some((who, true))) => sample.let_go(&who),
                (6, Some((who, true))) => sample.release(&who),
                (7, _) if now % 3 == 0 => sample.crash(&node),
                (8, still) => {
                    at_work[client] = still;
                    sample.healed()
                }
                (_, still) => {
                    at_work[client] = still;
                    sample
                }
            };
        }
        sample.at(now + 50).end()
    })
}

/// Held from the application that is told of until the belief ends.
fn is_held(history: &History, at: Moment) -> bool {
    attempts(history).iter().any(|who| {
        let Some(reply) = reply(history, who) else { return false };
        let told = sets(history, who).into_iter().rfind(|set| *set < reply).unwrap_or(reply);
        (told <= at && at < reply) || is_believed(history, who, at)
    })
}

fn attempts(history: &History) -> Vec<String> {
    let asked = history.iter().filter_map(|event| match &event.what {
        What::AcquireInvoked { attempt, .. } => Some(attempt.to_string()),
        _ => None,
    });
    asked.collect()
}

/// The stretches after the healing in which, asked event by event, nobody holds the lock
/// and nobody is being granted it.
fn closed(history: &History) -> Vec<Interval> {
    let Some(healed) = history.iter().find(|event| event.what == What::Healed) else {
        return Vec::new();
    };
    let (mut closed, mut since) = (Vec::new(), None);
    for event in &history.events[usize::try_from(healed.id.0).unwrap()..] {
        let at = Moment::of(event);
        let is_free = !is_held(history, at);
        if !is_free || matches!(event.what, What::RecordSet { .. }) {
            closed.extend(since.take().map(|since| Interval::new(since, at)));
        }
        if is_free {
            since.get_or_insert(at);
        }
    }
    let end = Moment::end_of(history.ended_us);
    closed.extend(since.map(|since| Interval::new(since, end)));
    closed
}

/// From the ask to the answer, the crash of the client or the end of the run.
fn wait_of(history: &History, who: &str) -> Interval {
    let client = who.split('/').next().unwrap_or_default();
    let asked = history.iter().find(|event| match &event.what {
        What::AcquireInvoked { attempt, .. } => attempt.to_string() == who,
        _ => false,
    });
    let from = asked.map_or(Moment::START, Moment::of);
    let ends = history.iter().find(|event| match &event.what {
        What::AcquireReturned { attempt, .. } => attempt.to_string() == who,
        What::NodeCrashed { .. } => &*event.node == client && Moment::of(event) > from,
        _ => false,
    });
    Interval::new(from, ends.map_or(Moment::end_of(history.ended_us), Moment::of))
}

/// Whether the record that was set last before `at` is still there just before it.
fn has_record(history: &History, at: Moment) -> bool {
    let before = || history.iter().filter(|event| Moment::of(event) < at);
    let last = before().rfind(|event| matches!(event.what, What::RecordSet { .. }));
    let Some(What::RecordSet { owner: last, .. }) = last.map(|event| &event.what) else {
        return false;
    };
    // Each owner's record is set once.
    !before()
        .any(|event| matches!(&event.what, What::RecordReleased { owner, .. } if owner == last))
}

/// Whether anybody waits for too long with nothing, and with a record, in the way: of
/// each wait the first closure that is too long counts.
fn waits_too_long(history: &History) -> (bool, bool) {
    let (mut stuck, mut leaked) = (false, false);
    let closed = closed(history);
    for who in attempts(history) {
        let wait = wait_of(history, &who);
        let too_long = closed.iter().find(|closure| {
            let waited = closure.overlap(wait);
            waited.is_some_and(|waited| waited.to.at_us - waited.from.at_us > BOUND_US)
        });
        if let Some(closure) = too_long {
            match has_record(history, closure.to) {
                true => leaked = true,
                false => stuck = true,
            }
        }
    }
    (stuck, leaked)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn nobody_waits_for_a_lock_that_is_free(history in queue()) {
        let bound = Setting { takeover_bound_us: Some(BOUND_US), ..setting(0) };
        let judgement = judge(&history, &bound);
        prop_assert_eq!(&judgement.failed, &[]);
        // Whoever waits behind a holder that waits itself is another oracle's.
        let not_woken = |finding: &&Finding| match &finding.detail {
            Detail::StuckWaiter { chain, .. } => chain.iter().all(|link| link.held_by.is_none()),
            _ => false,
        };
        let (stuck, leaked) = waits_too_long(&history);
        prop_assert_eq!(judgement.findings.iter().any(|f| not_woken(&f)), stuck);
        prop_assert!(judgement.found(Kind::LeakedLock) || !leaked);
    }
}
