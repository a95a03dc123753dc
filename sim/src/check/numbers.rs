//! What is measured on the way, whatever the verdict: delays, waits, fairness, and what
//! dead waiters and double work cost. Whole microseconds and per mille, no floats.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::case::Case;
use super::interval::{Interval, Moment, overlapping_pairs};
use super::unfair::bypasses;
use super::waits::Ended;

/// How long something took, over all times that it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Delays {
    /// How often it happened.
    pub count: usize,
    /// Half of them took no longer, µs.
    pub median_us: u64,
    /// 99 of 100 took no longer, µs.
    pub p99_us: u64,
    /// The longest, µs.
    pub most_us: u64,
}

impl Delays {
    /// Of all times that it took, µs.
    pub fn of(mut all_us: Vec<u64>) -> Delays {
        all_us.sort_unstable();
        let Some(most_us) = all_us.last().copied() else { return Delays::default() };
        // The nearest rank.
        let rank = |per_cent: usize| all_us[(all_us.len() * per_cent).div_ceil(100).max(1) - 1];
        Delays { count: all_us.len(), median_us: rank(50), p99_us: rank(99), most_us }
    }
}

/// The numbers of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Numbers {
    /// Grants that somebody was told of.
    pub grants: usize,
    /// From a grant's loss until its holder knew.
    pub loss_notice: Delays,
    /// From the end of a hold until the next grant, where somebody waited.
    pub takeover: Delays,
    /// From the ask to the grant.
    pub waits: Delays,
    /// How often waiters were passed over, in all.
    pub bypasses: u64,
    /// How often the one that was passed over most often was.
    pub most_bypasses: u64,
    /// Jain's index of the grants of those who asked, per mille: 1,000 is even.
    pub jain_per_mille: Option<u64>,
    /// For how long locks were free while a waiter that had died was next in line, µs.
    pub dead_waiter_us: u64,
    /// Operations that the resource accepted of a holder while another believed to hold
    /// the lock.
    pub double_work: u64,
}

impl Numbers {
    /// Measures.
    pub fn of(case: &Case<'_>) -> Numbers {
        let passed = bypasses(case);
        let granted = case.waits.iter().filter(|wait| wait.ended == Ended::Granted);
        let waits = granted.map(|wait| wait.span.to.at_us - wait.span.from.at_us).collect();
        let (takeover, dead_waiter_us) = takeovers(case);
        Numbers {
            grants: case.grants.rows().iter().filter(|grant| grant.is_told()).count(),
            loss_notice: Delays::of(loss_notices(case)),
            takeover: Delays::of(takeover),
            waits: Delays::of(waits),
            bypasses: passed.values().sum(),
            most_bypasses: passed.values().max().copied().unwrap_or(0),
            jain_per_mille: jain(case),
            dead_waiter_us,
            double_work: double_work(case),
        }
    }
}

fn loss_notices(case: &Case<'_>) -> Vec<u64> {
    let rows = case.grants.rows();
    let told = case.losses.iter().filter_map(|(row, loss)| {
        let end = rows[*row].belief?.to;
        let known = end != Moment::NEVER && end >= loss.moment;
        known.then(|| end.at_us - loss.moment.at_us)
    });
    told.collect()
}

/// The gaps between holds in which somebody waited, and how much of them a dead waiter
/// that was next in line took.
fn takeovers(case: &Case<'_>) -> (Vec<u64>, u64) {
    let rows = case.grants.rows();
    let mut waits: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (n, wait) in case.waits.iter().enumerate() {
        waits.entry(wait.key).or_default().push(n);
    }
    let (mut gaps, mut dead_us) = (Vec::new(), 0_u64);
    for (key, of_key) in case.grants.by_key() {
        let waits = waits.get(key).map_or(&[][..], Vec::as_slice);
        let mut asked = waits.iter().peekable();
        // Those that have asked and still wait, by their end; the dead by their arrival.
        let mut waiting: BTreeSet<(Moment, usize)> = BTreeSet::new();
        let mut dead: BTreeSet<Moment> = BTreeSet::new();
        let mut free_from: Option<Moment> = None;
        for grant in of_key.iter().map(|row| &rows[*row]).filter(|grant| grant.is_told()) {
            case.steps.take(1);
            let start = grant.start();
            if let Some(from) = free_from.filter(|from| *from < start) {
                while let Some(n) = asked.next_if(|n| case.waits[**n].span.from < from) {
                    let wait = &case.waits[*n];
                    waiting.insert((wait.span.to, *n));
                    if wait.ended == Ended::Died {
                        dead.extend(wait.arrived);
                    }
                }
                while waiting.first().is_some_and(|(to, _)| *to <= from) {
                    waiting.pop_first();
                }
                if !waiting.is_empty()
                    || grant.invoked.is_some_and(|event| is_before(case, event, from))
                {
                    gaps.push(start.at_us - from.at_us);
                }
                if dead.first().is_some_and(|arrived| *arrived < from) {
                    dead_us = dead_us.saturating_add(start.at_us - from.at_us);
                }
                // Whoever comes after them has been served.
                dead.clear();
            }
            let end = match (grant.promise_end(), grant.belief) {
                (Some(promised), _) => promised,
                (None, Some(belief)) => belief.to,
                (None, None) => start,
            };
            free_from = Some(free_from.map_or(end, |from| from.max(end)));
        }
    }
    (gaps, dead_us)
}

fn is_before(case: &Case<'_>, event: crate::history::EventId, moment: Moment) -> bool {
    case.history.get(event).is_some_and(|event| Moment::of(event) < moment)
}

/// (Σx)² / (n · Σx²), over the grants of each client that ever asked.
fn jain(case: &Case<'_>) -> Option<u64> {
    let mut grants: BTreeMap<&str, u128> = BTreeMap::new();
    for wait in &case.waits {
        let count = grants.entry(wait.who.actor()).or_default();
        *count += u128::from(wait.ended == Ended::Granted);
    }
    let (sum, squares) =
        grants.values().fold((0, 0), |(sum, squares), x| (sum + x, squares + x * x));
    let under = grants.len() as u128 * squares;
    (under > 0).then(|| u64::try_from(1_000 * sum * sum / under).unwrap_or(u64::MAX))
}

fn double_work(case: &Case<'_>) -> u64 {
    let rows = case.grants.rows();
    let mut work: BTreeSet<crate::history::EventId> = BTreeSet::new();
    for of_key in case.grants.by_key().values() {
        let held: Vec<(usize, Interval)> =
            of_key.iter().filter_map(|row| Some((*row, rows[*row].belief?))).collect();
        let intervals: Vec<Interval> = held.iter().map(|(_, belief)| *belief).collect();
        let shared = |n: usize| rows[held[n].0].shared;
        let conflict = |a: usize, b: usize| rows[held[a].0].conflicts_with(&rows[held[b].0]);
        for (a, b) in overlapping_pairs(&intervals, MOST_PAIRS, shared, conflict, &case.steps) {
            let Some(both) = intervals[a].overlap(intervals[b]) else { continue };
            for row in [held[a].0, held[b].0] {
                let acts = rows[row].acts.iter().filter(|act| act.accepted);
                work.extend(acts.filter(|act| both.contains(act.moment)).map(|act| act.event));
            }
        }
    }
    work.len() as u64
}

/// Pairs of holders that are looked at for double work.
const MOST_PAIRS: usize = 10_000;
