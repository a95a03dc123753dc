//! Brute force over random histories: grants, beliefs, effects, leaks.
//!
//! The oracles ask the definitions point by point: is this owner promised at this
//! event? Do these three effects come in turns? They share with the checkers the
//! order of moments and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::lock::Release;
use proptest::prelude::*;

use super::super::grants::Grants;
use super::super::interval::Moment;
use super::super::sample::MARGIN_MS;
use super::*;
use crate::history::{Event, EventId, What};

const OWNERS: [&str; 5] = ["app-1/1", "app-1/2", "app-2/1", "app-3/1", "stranger"];
const MARGIN_US: u64 = MARGIN_MS * 1_000;

/// A history of anything: most of it could never happen, and all of it is judged.
fn soup() -> impl Strategy<Value = History> {
    let step =
        (0_usize..23, 0_usize..5, 0_usize..5, prop::sample::select(&[0, 1, 5, 400, 995][..]));
    prop::collection::vec(step, 0..40).prop_map(|steps| {
        let mut now = 0;
        let mut sample = Sample::new();
        for (what, who, other, wait_ms) in steps {
            now += wait_ms;
            sample = stir(sample.at(now), what, OWNERS[who], OWNERS[other]);
        }
        sample.at(now + 3).end()
    })
}

fn stir(sample: Sample, what: usize, who: &str, other: &str) -> Sample {
    // What the client's side tells, no stranger does.
    let client = if who == "stranger" { "app-3/1" } else { who };
    let node = client.split('/').next().unwrap_or_default();
    match what {
        0 => sample.ask(client),
        1..4 => sample.set(who),
        4..7 => sample.granted(client),
        7 => sample.indeterminate(client),
        8 => sample.release(client),
        9 => sample.released(who),
        10 => sample.extended(who),
        11 => sample.expired(who),
        12 => sample.lost("redis-1", who, RecordLoss::Crash),
        13 => sample.belief_ends(client, BeliefEnd::Told),
        14 => sample.belief_ends(client, BeliefEnd::Deadline),
        15 => sample.release_returned(client, Release::NotHeld),
        16 => sample.crash(node),
        // A stranger's sections are told apart by its grants, not by its name.
        17 => sample.read(client, 1),
        18 => sample.refused(who, other),
        19 => sample.ask_for(client, super::super::sample::KEY, true),
        20 => sample.session_expired(who),
        21 => sample.grant_shared(client),
        _ => sample.healed(),
    }
}

/// Whether the history has the client's side of this owner.
pub(super) fn witnessed(history: &History, who: &str) -> bool {
    history.iter().any(|event| match &event.what {
        What::AcquireInvoked { attempt, .. }
        | What::AcquireReturned { attempt, .. }
        | What::BeliefEnded { attempt, .. }
        | What::ReleaseInvoked { attempt }
        | What::ReleaseReturned { attempt, .. }
        | What::RenewInvoked { attempt }
        | What::RenewReturned { attempt, .. } => attempt.to_string() == who,
        _ => false,
    })
}

pub(super) fn reply(history: &History, who: &str) -> Option<Moment> {
    let granted = history.iter().find(|event| match &event.what {
        What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. } => {
            attempt.to_string() == who
        }
        _ => false,
    });
    granted.map(Moment::of)
}

pub(super) fn sets(history: &History, who: &str) -> Vec<Moment> {
    let set =
        |event: &&Event| matches!(&event.what, What::RecordSet { owner, .. } if **owner == *who);
    history.iter().filter(set).map(Moment::of).collect()
}

/// Where the owner's promise ends, and where its belief does: nested acquires are given
/// back by as many releases.
pub(super) fn ends(history: &History, who: &str) -> (Vec<Moment>, Vec<Moment>) {
    let client = witnessed(history, who);
    let (mut promise, mut belief) = (Vec::new(), Vec::new());
    let mut held = 0_u32;
    for event in history.iter() {
        let at = Moment::of(event);
        let is_own = |attempt: &crate::history::Attempt| client && attempt.to_string() == who;
        match &event.what {
            What::RecordReleased { owner, .. } if **owner == *who => promise.push(at),
            What::SessionExpired { records, .. } if records.iter().any(|(_, o)| **o == *who) => {
                promise.push(at);
            }
            What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. }
                if is_own(attempt) =>
            {
                held += 1;
            }
            What::BeliefEnded { attempt, reason } if is_own(attempt) => {
                belief.push(at);
                if *reason == BeliefEnd::Told {
                    promise.push(at);
                }
            }
            What::ReleaseInvoked { attempt } if is_own(attempt) => {
                held = held.saturating_sub(1);
                if held == 0 {
                    belief.push(at);
                    promise.push(at);
                }
            }
            What::ReleaseReturned { attempt, release }
                if is_own(attempt) && (*release == Release::NotHeld || held == 0) =>
            {
                promise.push(at);
            }
            _ => {}
        }
    }
    (promise, belief)
}

fn last_reply(history: &History, who: &str) -> Moment {
    let granted = history.iter().rfind(|event| match &event.what {
        What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. } => {
            attempt.to_string() == who
        }
        _ => false,
    });
    granted.map_or(Moment::START, Moment::of)
}

fn is_shared(history: &History, who: &str) -> bool {
    history.iter().any(|event| match &event.what {
        What::AcquireInvoked { attempt, shared, .. } => *shared && attempt.to_string() == who,
        What::RecordSet { owner, shared, .. } => *shared && **owner == *who,
        _ => false,
    })
}

fn may_share(history: &History, one: &str, other: &str) -> bool {
    is_shared(history, one) && is_shared(history, other)
}

/// DESIGN's promise, asked of one moment.
pub(super) fn is_promised(history: &History, who: &str, at: Moment) -> bool {
    let client = witnessed(history, who);
    let reply = reply(history, who);
    let (begin, margin_us) = match (client, reply) {
        (true, None) => return false,
        (true, Some(reply)) => {
            let told = sets(history, who).into_iter().rfind(|set| *set < reply);
            (told.unwrap_or(reply), MARGIN_US)
        }
        (false, _) => {
            let (ended, _) = ends(history, who);
            let released = ended.into_iter().rfind(|end| *end <= at).unwrap_or(Moment::START);
            let again = sets(history, who).into_iter().find(|set| *set > released);
            let Some(begin) = again else { return false };
            (begin, 0)
        }
    };
    if at < begin {
        return false;
    }
    if ends(history, who).0.iter().any(|end| *end > begin && *end <= at) {
        return false;
    }
    let last = last_reply(history, who);
    let mut base = begin;
    for event in history.iter() {
        let moment = Moment::of(event);
        if moment <= begin || moment > at {
            continue;
        }
        let renews = match &event.what {
            What::RecordExtended { owner, .. } => **owner == *who,
            // Nested: between the first reply and the last.
            What::RecordSet { owner, .. } => {
                let nested = reply.is_some_and(|reply| reply < moment) && moment < last;
                **owner == *who && (!client || nested)
            }
            _ => false,
        };
        if renews {
            base = moment;
        }
    }
    at < Moment::at(base.at_us + LEASE_MS * 1_000 - margin_us)
}

pub(super) fn is_believed(history: &History, who: &str, at: Moment) -> bool {
    let Some(reply) = reply(history, who).filter(|reply| *reply <= at) else { return false };
    let ends = ends(history, who).1.into_iter().chain(crashes(history, who));
    !ends.into_iter().any(|end| end > reply && end <= at)
}

/// When the node of this owner's client crashed.
pub(super) fn crashes(history: &History, who: &str) -> Vec<Moment> {
    let node = who.split('/').next().unwrap_or_default();
    let crashed =
        |event: &&Event| matches!(event.what, What::NodeCrashed { .. }) && &*event.node == node;
    history.iter().filter(crashed).map(Moment::of).collect()
}

type Pairs = BTreeSet<(String, String)>;

fn pair(one: &str, other: &str) -> (String, String) {
    (one.min(other).to_owned(), one.max(other).to_owned())
}

fn pairs_of(judgement: &Judgement, kind: Kind) -> Pairs {
    let found = judgement.findings.iter().filter(|finding| finding.kind == kind);
    found.map(|finding| pair(&finding.parties[0].owner, &finding.parties[1].owner)).collect()
}

/// Every overlap begins at an event.
fn promised_together(history: &History) -> Pairs {
    let mut pairs = Pairs::new();
    for event in history.iter() {
        let at = Moment::of(event);
        let now: Vec<&str> =
            OWNERS.into_iter().filter(|who| is_promised(history, who, at)).collect();
        for (n, one) in now.iter().enumerate() {
            let others = now[..n].iter().filter(|other| !may_share(history, one, other));
            pairs.extend(others.map(|other| pair(one, other)));
        }
    }
    pairs
}

/// Whoever acts, by the grant under which it acts: a foreign owner that is granted the
/// lock anew, after its record was gone, acts under a new grant.
fn in_turns(history: &History) -> Pairs {
    let mut over = BTreeSet::new();
    let mut grants: BTreeMap<&str, u32> = BTreeMap::new();
    let mut acts: Vec<(&str, u32)> = Vec::new();
    for event in history.iter() {
        match &event.what {
            What::RecordReleased { owner, .. }
            | What::RecordExpired { owner, .. }
            | What::RecordLost { owner, .. } => {
                over.insert(&**owner);
            }
            What::SessionExpired { records, .. } => {
                over.extend(records.iter().map(|(_, owner)| &**owner));
            }
            What::RecordSet { owner, .. }
                if over.remove(&**owner) && !witnessed(history, owner) =>
            {
                *grants.entry(owner).or_default() += 1;
            }
            What::Effect { owner, accepted: true, .. } => {
                acts.push((owner, grants.get(&**owner).copied().unwrap_or(0)));
            }
            _ => {}
        }
    }
    let mut pairs = Pairs::new();
    for i in 0..acts.len() {
        for j in i + 1..acts.len() {
            for k in j + 1..acts.len() {
                if acts[i] == acts[k]
                    && acts[i].0 != acts[j].0
                    && !may_share(history, acts[i].0, acts[j].0)
                {
                    pairs.insert(pair(acts[i].0, acts[j].0));
                }
            }
        }
    }
    pairs
}

fn overstayers(history: &History) -> BTreeSet<String> {
    let mut stayed = BTreeSet::new();
    for who in OWNERS {
        // Beyond the promise begins at an event, or at the end of a lease.
        let lease_us = LEASE_MS * 1_000 - MARGIN_US;
        let moments = history
            .iter()
            .flat_map(|event| [Moment::of(event), Moment::at(event.at_us + lease_us)]);
        let mut moments = moments.filter(|at| at.at_us <= history.ended_us);
        if moments.any(|at| is_believed(history, who, at) && !is_promised(history, who, at)) {
            stayed.insert(who.to_owned());
        }
    }
    stayed
}

/// Held, as far as a leak is concerned: from the application that is told of.
fn is_held(history: &History, at: Moment) -> bool {
    OWNERS.into_iter().any(|who| {
        let Some(reply) = reply(history, who) else {
            return !witnessed(history, who) && is_promised(history, who, at);
        };
        let told = sets(history, who).into_iter().rfind(|set| *set < reply).unwrap_or(reply);
        (told <= at && at < reply) || is_believed(history, who, at)
    })
}

/// Refusals after the bound, each found by looking back from it.
fn refused_too_late(history: &History, bound_us: u64) -> bool {
    let healed = history.iter().find(|event| matches!(event.what, What::Healed));
    let Some(healed) = healed.map(Moment::of) else { return false };
    history.iter().any(|event| {
        let at = Moment::of(event);
        if !matches!(event.what, What::RecordRefused { .. }) || at.at_us < bound_us {
            return false;
        }
        // Closed at every moment of the last `bound` and a bit.
        let from = Moment::at(at.at_us - bound_us);
        let (mut closed, mut moments) = (healed < from, vec![from, at]);
        for event in history.iter() {
            let moment = Moment::of(event);
            if moment >= from && moment <= at {
                moments.push(moment);
                closed &= !matches!(event.what, What::RecordSet { .. });
            }
        }
        closed && !moments.iter().any(|moment| is_held(history, *moment))
    })
}

/// 2,000, or as many as a campaign asks for (`PROPTEST_CASES`).
pub(super) fn cases() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 2_000;
    }
    config
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn the_sweeps_agree_with_the_definitions(history in soup()) {
        let judgement = judge(&history, &setting(0));
        prop_assert_eq!(&judgement.failed, &[]);
        prop_assert_eq!(pairs_of(&judgement, Kind::DoubleGrant), promised_together(&history));
        prop_assert_eq!(pairs_of(&judgement, Kind::EffectInterleaved), in_turns(&history));
        let stayed: BTreeSet<String> = judgement
            .findings
            .iter()
            .filter(|finding| finding.kind == Kind::Overstay)
            .map(|finding| finding.parties[0].owner.clone())
            .collect();
        prop_assert_eq!(stayed, overstayers(&history));
    }

    #[test]
    fn a_leak_shown_by_a_refusal_is_found_by_looking_back(history in soup()) {
        // Asks and endless records show leaks, too: leave them out.
        let mut events = history.events;
        events.retain(|event| !matches!(event.what, What::AcquireInvoked { .. }));
        let history = renumbered(events);
        let bound_us = 300_000;
        let judgement =
            judge(&history, &Setting { takeover_bound_us: Some(bound_us), ..setting(0) });
        prop_assert_eq!(
            judgement.found(Kind::LeakedLock),
            refused_too_late(&history, bound_us)
        );
    }

    #[test]
    fn pieces_of_a_promise_are_in_order_and_apart(history in soup()) {
        for grant in Grants::of(&history, true, 1).rows() {
            prop_assert!(grant.promise.iter().all(|piece| !piece.is_empty()));
            prop_assert!(grant.promise.windows(2).all(|two| two[0].to <= two[1].from));
        }
    }
}

pub(super) fn renumbered(events: Vec<Event>) -> History {
    let mut history = History { events, ..History::default() };
    for (n, event) in history.events.iter_mut().enumerate() {
        event.id = EventId(n as u64);
        history.ended_us = history.ended_us.max(event.at_us);
    }
    history
}
