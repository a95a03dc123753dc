//! Brute force over random histories: what becomes of records and what holders are told
//! of it, who releases what, and whom the fence refuses.
//!
//! Each oracle asks the definition of its kind event by event; of the promise it asks
//! what [`oracle`](super::oracle) asks, point by point.

use proptest::prelude::*;

use super::super::interval::Moment;
use super::super::sample::{KEY, MARGIN_MS};
use super::oracle::{cases, crashes, ends, is_promised, reply, sets, witnessed};
use super::*;
use crate::history::{Event, Renewal, StockOperation, What};
use lockstorm::lock::Release;

const WHO: [&str; 4] = ["app-1/1", "app-1/2", "app-2/1", "app-3/1"];
const NODES: [&str; 2] = ["redis-1", "redis-2"];
const NOTICE_US: u64 = 200_000;

/// What may become of records on two servers, most of which could never happen.
fn fates() -> impl Strategy<Value = History> {
    let step = (0_usize..26, 0_usize..4, 0_usize..2, 0_usize..16, waits());
    prop::collection::vec(step, 0..30).prop_map(|steps| {
        let (mut now, mut sample) = (0, Sample::new());
        for (what, who, node, some, wait_ms) in steps {
            now += wait_ms;
            sample = befall(sample.at(now), what, WHO[who], (NODES[node], some));
        }
        sample.at(now + 3).end()
    })
}

fn waits() -> impl Strategy<Value = u64> {
    prop::sample::select(&[0, 1, 5, 150, 400][..])
}

fn befall(sample: Sample, what: usize, who: &str, (node, some): (&str, usize)) -> Sample {
    let client = who.split('/').next().unwrap_or_default();
    match what {
        0..5 => sample.ask(who).set_on(node, who).granted(who),
        5 => sample.set_on(node, who),
        6 => sample.granted(who),
        7 => sample.release(who),
        8 => sample.released(who),
        9 => sample.extended(who),
        10 => sample.event(node, What::RecordExpired { key: KEY.into(), owner: who.into() }),
        11 => sample.lost(node, who, RecordLoss::Crash),
        12 | 13 => sample.lost(node, who, RecordLoss::Deleted),
        14 | 15 => {
            let has = (0..4).filter(|n| some >> n & 1 == 1).map(|n| WHO[n]);
            sample.promoted(node, &has.collect::<Vec<_>>())
        }
        16 => sample.session_expired(who),
        17 | 18 => sample.release_returned(who, Release::Released),
        19 => sample.release_returned(who, Release::NotHeld),
        20 => sample.renew(who),
        21 | 22 => sample.renewed(who, Renewal::Renewed),
        23 => sample.belief_ends(who, BeliefEnd::Deadline),
        24 => sample.crash(client),
        _ => sample.healed(),
    }
}

/// When the grants of this owner were applied, each with when the next one was: of a
/// client, the application that it was told of; of a foreigner, each that follows the end
/// of its record.
fn applied(history: &History, who: &str) -> Vec<(Moment, Moment)> {
    let mut applied = Vec::new();
    if witnessed(history, who) {
        let told = reply(history, who).into_iter();
        applied.extend(
            told.filter_map(|told| sets(history, who).into_iter().rfind(|set| *set < told)),
        );
    } else {
        let mut is_over = true;
        for event in history.iter().filter(|event| concerns(event, who)) {
            match &event.what {
                What::RecordExtended { .. } => {}
                What::RecordSet { .. } => {
                    if std::mem::take(&mut is_over) {
                        applied.push(Moment::of(event));
                    }
                }
                _ => is_over = true,
            }
        }
    }
    let next = applied.iter().skip(1).copied().chain([Moment::NEVER]);
    applied.iter().copied().zip(next).collect()
}

/// When promised records of this owner were lost.
fn losses(history: &History, who: &str) -> Vec<Moment> {
    let applied = applied(history, who);
    applied.into_iter().filter_map(|(from, to)| lost(history, who, from, to)).collect()
}

/// The first moment at which the promised record that was applied at `from` was lost:
/// followed from the server that applied it to each master that has it.
fn lost(history: &History, who: &str, from: Moment, to: Moment) -> Option<Moment> {
    let mut authority = None;
    let meanwhile = |event: &&Event| from <= Moment::of(event) && Moment::of(event) < to;
    for event in history.iter().filter(meanwhile) {
        let at = Moment::of(event);
        let here = authority.is_none_or(|node: &str| *node == *event.node);
        match &event.what {
            What::RecordSet { .. } if at == from => authority = Some(&*event.node),
            What::Promoted { records, .. } => {
                if records.iter().any(|(_, owner)| **owner == *who) {
                    authority = Some(&*event.node);
                } else if is_promised(history, who, at) {
                    return Some(at);
                }
            }
            What::RecordExpired { owner, .. } | What::RecordLost { owner, .. }
                if **owner == *who && here && is_promised(history, who, at) =>
            {
                return Some(at);
            }
            _ => {}
        }
    }
    None
}

type Told = Vec<(String, u64)>;

/// Of whom, and from when, by what was found.
fn told_of(judgement: &Judgement, kind: Kind) -> Told {
    let found = judgement.findings.iter().filter(|finding| finding.kind == kind);
    let mut told: Told =
        found.map(|finding| (finding.parties[0].owner.clone(), finding.from_us)).collect();
    told.sort();
    told
}

fn sorted(mut told: Told) -> Told {
    told.sort();
    told
}

/// Deletions of a promised record by somebody else.
fn deleted(history: &History) -> Told {
    let deletion = |event: &Event| match &event.what {
        What::RecordLost { owner, how: RecordLoss::Deleted, .. } => {
            let promised = is_promised(history, owner, Moment::of(event));
            promised.then(|| (owner.to_string(), event.at_us))
        }
        _ => None,
    };
    history.iter().filter_map(deletion).collect()
}

/// When those who never asked were told "released" while another was promised the lock
/// all the time from their ask on.
fn released_by_strangers(history: &History) -> Vec<u64> {
    let asked = |who: &str| {
        let asks = |event: &Event| match &event.what {
            What::AcquireInvoked { attempt, .. } => attempt.to_string() == who,
            _ => false,
        };
        history.iter().any(asks)
    };
    let mut told = Vec::new();
    for (n, event) in history.iter().enumerate() {
        let What::ReleaseReturned { attempt, release: Release::Released } = &event.what else {
            continue;
        };
        let stranger = attempt.to_string();
        // Back to the ask that has no such answer yet.
        let mut from = None;
        for before in &history.events[..n] {
            match &before.what {
                What::ReleaseInvoked { attempt: by } if by == attempt => from = Some(before),
                What::ReleaseReturned { attempt: by, release: Release::Released }
                    if by == attempt =>
                {
                    from = None;
                }
                _ => {}
            }
        }
        let Some(from) = from.map(Moment::of).filter(|_| !asked(&stranger)) else { continue };
        // Whoever is promised the lock without a break is so at each event and at the end
        // of each lease: of a client's, less the margin, and of a foreigner's.
        let leases_us = [LEASE_MS * 1_000, (LEASE_MS - MARGIN_MS) * 1_000];
        let moments = || {
            let leases = leases_us.into_iter();
            let ends = leases.flat_map(|us| history.iter().map(move |e| Moment::at(e.at_us + us)));
            let moments = history.iter().map(Moment::of).chain(ends);
            moments.filter(|at| from <= *at && *at < Moment::of(event))
        };
        let holds =
            |who: &&str| **who != *stranger && moments().all(|at| is_promised(history, who, at));
        if WHO.iter().any(holds) {
            told.push(event.at_us);
        }
    }
    told
}

fn concerns(event: &Event, who: &str) -> bool {
    match &event.what {
        What::RecordSet { owner, .. }
        | What::RecordExtended { owner, .. }
        | What::RecordReleased { owner, .. }
        | What::RecordExpired { owner, .. }
        | What::RecordLost { owner, .. } => **owner == *who,
        What::SessionExpired { records, .. } => records.iter().any(|(_, owner)| **owner == *who),
        _ => false,
    }
}

/// Answers that were not so, each asked by looking back from it.
fn wrong_answers(history: &History) -> Told {
    let mut told = Told::new();
    for (n, event) in history.iter().enumerate() {
        let (attempt, is_release) = match &event.what {
            What::ReleaseReturned { attempt, release: Release::Released } => (attempt, true),
            What::RenewReturned { attempt, renewal: Renewal::Renewed } => (attempt, false),
            _ => continue,
        };
        let who = attempt.to_string();
        // Whoever was never granted anything, and has no record, holds nothing.
        if reply(history, &who).is_none() && sets(history, &who).is_empty() {
            continue;
        }
        let of_it = || history.events[..n].iter().filter(|event| concerns(event, &who));
        let is_there = |event: &Event| {
            matches!(event.what, What::RecordSet { .. } | What::RecordExtended { .. })
        };
        let since = of_it().rfind(|event| is_there(event)).map_or(Moment::START, Moment::of);
        let is_gone =
            |event: &&Event| !is_there(event) && !matches!(event.what, What::RecordReleased { .. });
        let gone = of_it().find(|event| is_gone(event) && Moment::of(event) > since);
        let Some(gone) = gone else { continue };
        let is_served = if is_release {
            of_it().any(|event| matches!(event.what, What::RecordReleased { .. }))
        } else {
            let asked = history.events[..n].iter().rfind(
                |event| matches!(&event.what, What::RenewInvoked { attempt: by } if by == attempt),
            );
            let Some(asked) = asked.map(Moment::of) else { continue };
            of_it().any(|event| !is_gone(&event) && Moment::of(event) > asked)
        };
        if !is_served {
            told.push((who, gone.at_us));
        }
    }
    told
}

/// Holders that believe on for longer than the bound after their loss and the healing.
fn never_told(history: &History) -> Told {
    let healed = history.iter().find(|event| event.what == What::Healed);
    let healed = healed.map_or(Moment::START, Moment::of);
    let mut told = Told::new();
    for who in WHO {
        let Some(from) = reply(history, who) else { continue };
        let session = history.iter().find(|event| {
            matches!(event.what, What::SessionExpired { .. }) && concerns(event, who)
        });
        let gone = losses(history, who).into_iter().chain(session.map(Moment::of)).min();
        let Some(gone) = gone.filter(|gone| *gone >= from) else { continue };
        let over = ends(history, who).1.into_iter().chain(crashes(history, who));
        let over = over.filter(|end| *end > from).min();
        let over_us = over.map_or(history.ended_us, |end| end.at_us);
        if over_us > gone.max(healed).at_us + NOTICE_US {
            told.push((who.to_owned(), gone.at_us));
        }
    }
    told
}

/// Grants with tokens, and what their holders and others ask of a fenced resource.
fn fenced() -> impl Strategy<Value = History> {
    let step = (0_usize..8, 0_usize..4, 1_u64..5, any::<bool>(), waits());
    prop::collection::vec(step, 0..24).prop_map(|steps| {
        let (mut now, mut sample) = (0, Sample::new());
        for (what, who, token, accepted, wait_ms) in steps {
            now += wait_ms;
            let who = WHO[who];
            let at = sample.at(now);
            let sell = StockOperation::Sell { unit: 1, order: "an order".into() };
            sample = match what {
                0 | 1 => at.grant_token(who, token),
                2 | 3 => at.fenced_read(who, token, accepted),
                4 => at.effect(who, Some(token), sell, accepted),
                5 => at.effect(who, None, sell, accepted),
                6 => at.release(who),
                _ => at.extended(who),
            };
        }
        sample.at(now + 3).end()
    })
}

/// What the fence is shown: when, by whom, which token; and whether it was accepted.
type Shown<'a> = (Moment, &'a str, Option<u64>, bool);

fn shown(event: &Event, fence: Fence) -> Option<Shown<'_>> {
    let What::Effect { owner, token, operation, accepted, .. } = &event.what else { return None };
    let is_read = matches!(operation, StockOperation::Read { .. });
    let is_fenced = fence == Fence::Full || (fence == Fence::Write && !is_read);
    is_fenced.then(|| (Moment::of(event), &**owner, *token, *accepted))
}

/// Operations that the fence had to refuse, though they were the newest holder's: the
/// fence has registered the largest token that it was ever shown, and who showed it first.
fn refused_wrongly(history: &History, fence: Fence) -> Vec<u64> {
    let asked = history.iter().filter_map(|event| shown(event, fence));
    let asked: Vec<_> = asked.collect();
    let start = |who: &str| {
        let told = reply(history, who)?;
        Some(sets(history, who).into_iter().rfind(|set| *set < told).unwrap_or(told))
    };
    let mut wrong = Vec::new();
    for (n, (at, owner, token, accepted)) in asked.iter().enumerate() {
        let shown = || asked[..n].iter().filter_map(|(_, by, token, _)| Some(((*token)?, *by)));
        let Some(largest) = shown().map(|(token, _)| token).max() else { continue };
        let first = shown().find(|(token, _)| *token == largest).map(|(_, by)| by);
        let passes = token.is_some_and(|token| {
            token > largest || (token == largest && first.is_some_and(|by| by == *owner))
        });
        let begun = WHO.into_iter().filter_map(|who| Some((start(who)?, who)));
        let newest = begun.filter(|(start, _)| start <= at).max();
        let is_newest = newest.is_some_and(|(_, who)| who == *owner);
        if !accepted && !passes && is_newest && is_promised(history, owner, *at) {
            wrong.push(at.at_us);
        }
    }
    wrong
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn records_are_followed_to_their_loss(history in fates()) {
        let judgement = judge(&history, &setting(0));
        prop_assert_eq!(&judgement.failed, &[]);
        let expected = WHO.into_iter().flat_map(|who| {
            losses(&history, who).into_iter().map(|at| (who.to_owned(), at.at_us))
        });
        prop_assert_eq!(told_of(&judgement, Kind::GrantLost), sorted(expected.collect()));
    }

    #[test]
    fn what_belongs_to_another_is_not_to_be_released(history in fates()) {
        let judgement = judge(&history, &setting(0));
        prop_assert_eq!(&judgement.failed, &[]);
        let found = told_of(&judgement, Kind::WrongRelease);
        let deleted = sorted(deleted(&history));
        prop_assert!(deleted.iter().all(|told| found.contains(told)));
        let mut times: Vec<u64> = found.into_iter().map(|(_, at_us)| at_us).collect();
        let mut expected: Vec<u64> = deleted.into_iter().map(|(_, at_us)| at_us).collect();
        expected.extend(released_by_strangers(&history));
        times.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(times, expected);
    }

    #[test]
    fn holders_are_told_the_truth_of_their_loss(history in fates()) {
        let bound = Setting { loss_notice_bound_us: Some(NOTICE_US), ..setting(0) };
        let judgement = judge(&history, &bound);
        prop_assert_eq!(&judgement.failed, &[]);
        let mut expected = wrong_answers(&history);
        let unbound = judge(&history, &setting(0));
        prop_assert_eq!(told_of(&unbound, Kind::LossNotTold), sorted(expected.clone()));
        expected.extend(never_told(&history));
        prop_assert_eq!(told_of(&judgement, Kind::LossNotTold), sorted(expected));
    }

    #[test]
    fn the_newest_holder_is_let_in(history in fenced(), write in any::<bool>()) {
        let fence = if write { Fence::Write } else { Fence::Full };
        for ordered_tokens in [false, true] {
            let judgement = judge(&history, &Setting { fence, ordered_tokens, ..setting(0) });
            prop_assert_eq!(&judgement.failed, &[]);
            let found = judgement.findings.iter().filter(|f| f.kind == Kind::FalseReject);
            let mut times: Vec<u64> = found.map(|finding| finding.to_us).collect();
            times.sort_unstable();
            prop_assert_eq!(&times, &refused_wrongly(&history, fence));
            prop_assert_eq!(
                judgement.has_violation(Kind::FalseReject),
                ordered_tokens && !times.is_empty()
            );
        }
    }
}
