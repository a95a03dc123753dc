//! `deadlock`: after the healing holders wait for each other in a circle, for longer
//! than the lock's takeover bound (within it, leases or the server's own detector may
//! break the circle).
//!
//! Each wait that is long enough is asked at the moment at which it becomes due: is its
//! holder waiting too, for whom, and so on, through links that have lasted for the
//! whole bound? The wait that closed the circle finds it.

use std::collections::{BTreeMap, BTreeSet};

use super::blame::{Blame, Parted};
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::{Detail, Waiting};
use super::finding::{Finding, Kind};
use super::interval::{Interval, Moment};
use super::unfair::party;
use super::waits::Wait;
use crate::history::What;

/// A wait for a holder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// The position of the wait.
    pub wait: usize,
    /// The row of the grant that is in its way.
    pub holder: usize,
}

/// Who waits for whom, from a wait on.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// The links, the asking wait's first.
    pub links: Vec<Link>,
    /// Where in `links` the circle begins.
    pub circle: usize,
}

/// Intervals in order of their beginning, to be stabbed.
#[derive(Default)]
struct Stabbed {
    intervals: Vec<(Interval, usize)>,
    /// The latest end of the intervals up to each position.
    latest: Vec<Moment>,
}

impl Stabbed {
    fn of(mut intervals: Vec<(Interval, usize)>) -> Stabbed {
        intervals.sort_unstable();
        let mut latest = Vec::with_capacity(intervals.len());
        for (interval, _) in &intervals {
            latest.push(latest.last().copied().unwrap_or(Moment::START).max(interval.to));
        }
        Stabbed { intervals, latest }
    }

    /// Those that last from `from` until after `until`.
    fn across<'s>(
        &'s self,
        case: &'s Case<'_>,
        from: Moment,
        until: Moment,
    ) -> impl Iterator<Item = usize> + 's {
        let begun = self.intervals.partition_point(|(interval, _)| interval.from <= from);
        let still = move |n: &usize| self.latest[*n] > until;
        (0..begun).rev().take_while(still).filter_map(move |n| {
            case.steps.take(1);
            let (interval, value) = self.intervals[n];
            (interval.to > until).then_some(value)
        })
    }
}

/// Who holds and who waits.
struct Graph<'c, 'a> {
    case: &'c Case<'a>,
    held: BTreeMap<&'c str, Stabbed>,
    waiting: BTreeMap<&'c str, Stabbed>,
}

/// The chains that end in a circle, of each wait that lasts for longer than the bound
/// after the healing.
pub(super) fn chains(case: &Case<'_>) -> Vec<Chain> {
    let Some(bound_us) = case.setting.takeover_bound_us else { return Vec::new() };
    let Some(healed) = healed(case) else { return Vec::new() };
    let since = |wait: &Wait<'_>| wait.span.from.max(healed);
    let due = |from: Moment| Moment::end_of(from.at_us.saturating_add(bound_us));
    let is_long = |wait: &Wait<'_>| due(since(wait)) < wait.span.to;
    if !case.waits.iter().any(is_long) {
        return Vec::new();
    }
    let graph = Graph::of(case);
    let mut chains = Vec::new();
    for (n, wait) in case.waits.iter().enumerate().filter(|(_, wait)| is_long(wait)) {
        case.steps.take(1);
        let from = since(wait);
        let due = due(from);
        let mut links = Vec::new();
        let mut seen = BTreeMap::new();
        if let Some(circle) = graph.follow(n, (from, due), &mut links, &mut seen) {
            chains.push(Chain { links, circle });
        }
    }
    chains
}

/// The healing.
pub(super) fn healed(case: &Case<'_>) -> Option<Moment> {
    let healed = case.history.iter().find(|event| matches!(event.what, What::Healed));
    healed.map(Moment::of)
}

impl<'c, 'a> Graph<'c, 'a> {
    fn of(case: &'c Case<'a>) -> Graph<'c, 'a> {
        let mut held: BTreeMap<&str, Vec<(Interval, usize)>> = BTreeMap::new();
        for (row, grant) in case.grants.rows().iter().enumerate() {
            let pieces = match case.setting.lock_has_records {
                true => grant.promise.as_slice(),
                false => grant.belief.as_slice(),
            };
            let pieces = pieces.iter().map(|piece| (*piece, row));
            held.entry(&grant.key).or_default().extend(pieces);
        }
        let mut waiting: BTreeMap<&str, Vec<(Interval, usize)>> = BTreeMap::new();
        for (n, wait) in case.waits.iter().enumerate() {
            waiting.entry(wait.who.actor()).or_default().push((wait.span, n));
        }
        let stabbed = |of: BTreeMap<&'c str, Vec<(Interval, usize)>>| {
            of.into_iter().map(|(name, all)| (name, Stabbed::of(all))).collect()
        };
        Graph { case, held: stabbed(held), waiting: stabbed(waiting) }
    }

    /// Follows `wait` to a circle; `links` is then the way there and round. `seen` has
    /// the waits that were followed, with their place on the way, if they are on it.
    fn follow(
        &self,
        wait: usize,
        (from, due): (Moment, Moment),
        links: &mut Vec<Link>,
        seen: &mut BTreeMap<usize, Option<usize>>,
    ) -> Option<usize> {
        // By hand, not by recursion: a chain may be as long as there are waits.
        let mut stack: Vec<(usize, Vec<Link>)> = vec![(wait, self.links(wait, from, due))];
        seen.insert(wait, Some(0));
        while let Some((wait, next)) = stack.last_mut() {
            let Some(link) = next.pop() else {
                seen.insert(*wait, None);
                stack.pop();
                links.pop();
                continue;
            };
            links.push(link);
            let actor = self.actor(link.holder);
            let waiting = self.waiting.get(actor);
            let waiting: Vec<usize> =
                waiting.into_iter().flat_map(|w| w.across(self.case, from, due)).collect();
            let mut deeper = None;
            for wait in waiting {
                match seen.get(&wait) {
                    Some(Some(place)) => return Some(*place),
                    Some(None) => {}
                    None => deeper = Some(wait),
                }
            }
            match deeper {
                Some(wait) => {
                    seen.insert(wait, Some(links.len()));
                    stack.push((wait, self.links(wait, from, due)));
                }
                None => {
                    links.pop();
                }
            }
        }
        None
    }

    /// Who is in the way of `wait` all the time.
    fn links(&self, wait: usize, from: Moment, due: Moment) -> Vec<Link> {
        let waits = &self.case.waits[wait];
        let rows = self.case.grants.rows();
        let holders = self.held.get(waits.key).into_iter();
        let holders = holders.flat_map(|held| held.across(self.case, from, due));
        let holders = holders.filter(|row| !(waits.shared && rows[*row].shared));
        holders.map(|holder| Link { wait, holder }).collect()
    }

    /// The strand of work that holds a grant.
    fn actor(&self, row: usize) -> &'c str {
        let grant = &self.case.grants.rows()[row];
        grant.attempt.as_ref().map_or(&grant.owner, |attempt| &attempt.client)
    }
}

/// The links as they are told.
pub(super) fn told(case: &Case<'_>, links: &[Link]) -> Vec<Waiting> {
    let told = links.iter().map(|link| Waiting {
        owner: case.waits[link.wait].who.to_string(),
        key: case.waits[link.wait].key.to_owned(),
        held_by: Some(case.grants.rows()[link.holder].owner.to_string()),
    });
    told.collect()
}

/// Finds `deadlock`: each circle once.
pub(super) fn deadlock(case: &Case<'_>) -> Vec<Finding> {
    let Some(bound_us) = case.setting.takeover_bound_us else { return Vec::new() };
    let mut seen: BTreeSet<Vec<usize>> = BTreeSet::new();
    let mut found = Vec::new();
    for chain in chains(case) {
        let circle = &chain.links[chain.circle..];
        let mut members: Vec<usize> = circle.iter().map(|link| link.wait).collect();
        members.sort_unstable();
        if found.len() < MOST_OF_A_KIND && seen.insert(members) {
            found.push(tell(case, circle, bound_us));
        }
    }
    found.sort_by_key(|finding: &Finding| finding.from_us);
    found
}

fn tell(case: &Case<'_>, circle: &[Link], bound_us: u64) -> Finding {
    let rows = case.grants.rows();
    // From the earliest on, so that one circle is told in one way.
    let first = (0..circle.len()).min_by_key(|n| circle[*n].wait).unwrap_or(0);
    let circle: Vec<Link> = circle[first..].iter().chain(&circle[..first]).copied().collect();
    let waits = || circle.iter().map(|link| &case.waits[link.wait]);
    let from = waits().map(|wait: &Wait<'_>| wait.span.from).max().unwrap_or(Moment::START);
    let to = waits().map(|wait| wait.span.to).min().unwrap_or(Moment::NEVER);
    let detail = Detail::Deadlock { bound_us, cycle: told(case, &circle) };
    let events = waits().map(|wait| wait.event);
    let events = events.chain(circle.iter().flat_map(|link| rows[link.holder].evidence()));
    let blame = Blame {
        parted: Parted::CircularWait,
        owners: circle.iter().map(|link| rows[link.holder].owner.to_string()).collect(),
        ..Blame::default()
    };
    let interval = Interval::new(from, to);
    let mut finding = Finding::new(case.history, Kind::Deadlock, &[], interval, detail)
        .proved_by(events)
        .blamed(blame);
    finding.parties = waits().map(party).collect();
    finding.key = waits().next().map(|wait| wait.key.to_owned()).unwrap_or_default();
    finding
}
