//! `unfair`: a waiter was passed over more often than the lock declares
//! ([`Setting::bypass_bound`](super::Setting)). A bypass is a grant to a request that
//! reached the server after mine while I stood in line.
//!
//! Counting is a sweep: grants enter a Fenwick tree by their arrival in order of their
//! start, and a waiter that ends with the sweep's place asks how many arrived later.

use std::collections::BTreeMap;

use super::blame::{Blame, Parted};
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::Detail;
use super::finding::{Finding, Kind, Party};
use super::interval::Moment;
use super::waits::{Wait, Who};

/// How often each wait that has arrived was passed over, by its position.
pub(super) fn bypasses<'c>(case: &'c Case<'_>) -> &'c BTreeMap<usize, u64> {
    case.bypasses.get_or_init(|| count_all(case))
}

fn count_all(case: &Case<'_>) -> BTreeMap<usize, u64> {
    let arrivals = arrivals(case);
    let mut counted = BTreeMap::new();
    let mut of_key: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (n, wait) in case.waits.iter().enumerate().filter(|(_, wait)| wait.arrived.is_some()) {
        of_key.entry(wait.key).or_default().push(n);
    }
    let by_key = case.grants.by_key();
    for (key, waits) in of_key {
        let rows = case.grants.rows();
        let told = by_key.get(key).map_or(&[][..], Vec::as_slice).iter();
        let told: Vec<usize> = told.copied().filter(|row| rows[*row].is_told()).collect();
        // A reader is not passed over by readers.
        for is_shared in [false, true] {
            let grants: Vec<(Moment, Moment)> = told
                .iter()
                .filter(|row| !(is_shared && rows[**row].shared))
                .map(|row| (rows[*row].start(), arrivals.get(row).copied()))
                .map(|(start, arrived)| (start, arrived.unwrap_or(start)))
                .collect();
            let waits = waits.iter().copied().filter(|n| case.waits[*n].shared == is_shared);
            count(case, &grants, waits.collect(), &mut counted);
        }
    }
    counted
}

/// When the request behind each row reached the server.
fn arrivals(case: &Case<'_>) -> BTreeMap<usize, Moment> {
    let mut asked: BTreeMap<crate::history::EventId, usize> = BTreeMap::new();
    for (row, grant) in case.grants.rows().iter().enumerate() {
        asked.extend(grant.invoked.map(|event| (event, row)));
    }
    let rows = case.waits.iter().filter_map(|wait| Some((*asked.get(&wait.event)?, wait)));
    // Not known: at the earliest when it was asked for.
    rows.map(|(row, wait)| (row, wait.arrived.unwrap_or(wait.span.from))).collect()
}

/// Counts, for each of `waits`, the grants (start, arrival) that started within it and
/// arrived after it.
fn count(
    case: &Case<'_>,
    grants: &[(Moment, Moment)],
    mut waits: Vec<usize>,
    counted: &mut BTreeMap<usize, u64>,
) {
    let mut order: Vec<Moment> = grants.iter().map(|(_, arrived)| *arrived).collect();
    order.sort_unstable();
    let mut tree = Fenwick(vec![0; order.len() + 1]);
    let mut starting: Vec<&(Moment, Moment)> = grants.iter().collect();
    starting.sort_unstable();
    waits.sort_by_key(|n| (case.waits[*n].in_line().to, *n));
    let mut begun = 0;
    for n in waits {
        case.steps.take(1);
        let wait = &case.waits[n];
        while let Some((start, arrived)) = starting.get(begun)
            && *start < wait.in_line().to
        {
            tree.add(order.partition_point(|other| other < arrived));
            begun += 1;
        }
        let Some(arrived) = wait.arrived else { continue };
        let earlier = tree.before(order.partition_point(|other| *other <= arrived));
        counted.insert(n, begun as u64 - earlier);
    }
}

/// Counts of positions below another.
struct Fenwick(Vec<u64>);

impl Fenwick {
    fn add(&mut self, position: usize) {
        let mut at = position + 1;
        while let Some(count) = self.0.get_mut(at) {
            *count += 1;
            at += at & at.wrapping_neg();
        }
    }

    /// How many were added at positions below this.
    fn before(&self, position: usize) -> u64 {
        let (mut at, mut sum) = (position.min(self.0.len() - 1), 0);
        while at > 0 {
            sum += self.0[at];
            at &= at - 1;
        }
        sum
    }
}

/// Finds `unfair`.
pub(super) fn unfair(case: &Case<'_>) -> Vec<Finding> {
    let Some(bound) = case.setting.bypass_bound else { return Vec::new() };
    let counted = bypasses(case).iter().map(|(n, count)| (*n, *count));
    let mut over: Vec<(usize, u64)> = counted.collect();
    over.retain(|(_, count)| *count > u64::from(bound));
    over.sort_by_key(|(n, _)| case.waits[*n].span.from);
    over.truncate(MOST_OF_A_KIND);
    over.into_iter().map(|(n, count)| tell(case, &case.waits[n], count, bound)).collect()
}

fn tell(case: &Case<'_>, wait: &Wait<'_>, bypasses: u64, bound: u32) -> Finding {
    let rows = case.grants.rows();
    // The first of those that went before it, as proof.
    let arrivals = arrivals(case);
    let passed = case.grants.by_key().get(wait.key).cloned().unwrap_or_default();
    let after = wait.arrived.unwrap_or(wait.span.from);
    let passed = passed.into_iter().filter(|row| {
        let arrived = arrivals.get(row).copied().unwrap_or(rows[*row].start());
        rows[*row].is_told() && rows[*row].start() < wait.in_line().to && arrived > after
    });
    let events = passed.take(bound as usize + 1).flat_map(|row| rows[row].evidence());
    let detail = Detail::Unfair { bypasses, bound };
    let blame = Blame { parted: Parted::PassedOver, ..Blame::default() };
    let mut finding = Finding::new(case.history, Kind::Unfair, &[], wait.span, detail)
        .proved_by(events.take(20).chain([wait.event]))
        .blamed(blame);
    finding.parties = vec![party(wait)];
    wait.key.clone_into(&mut finding.key);
    finding
}

/// The waiter as a party.
pub(super) fn party(wait: &Wait<'_>) -> Party {
    let attempt = match wait.who {
        Who::Attempt(attempt) => Some(attempt.clone()),
        Who::Foreigner(_) => None,
    };
    Party { owner: wait.who.to_string(), attempt, token: None }
}
