//! What became of promised records: `grant-lost` (advisory).
//!
//! A promised record is followed from the server that applied it (its *authority*)
//! to each server that becomes master with it. It is lost when its authority expires
//! it before its promise has ended, or loses it otherwise, or when a server becomes
//! master without it. What a deposed master does with its copy is of no interest.

use std::collections::BTreeMap;

use super::blame;
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::{Detail, Vanished};
use super::finding::{Finding, Kind};
use super::grants::Grants;
use super::interval::{Interval, Moment};
use super::steps::Steps;
use crate::history::{EventId, History, Name, RecordLoss, What};

/// The end of a record that was still promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The event that shows it.
    pub event: EventId,
    /// When.
    pub moment: Moment,
    /// Where it shows.
    pub node: Name,
    /// The server that was responsible for the record until then.
    pub authority: Name,
    /// How.
    pub how: Vanished,
}

/// The first loss of each row that has one.
pub(super) fn losses(history: &History, grants: &Grants, steps: &Steps) -> BTreeMap<usize, Loss> {
    let rows = grants.rows();
    let applied: BTreeMap<EventId, usize> = rows
        .iter()
        .enumerate()
        .filter_map(|(row, grant)| Some((grant.applied.as_ref()?.event, row)))
        .collect();
    // The rows that are followed: where their record lives.
    let mut followed: BTreeMap<usize, Name> = BTreeMap::new();
    let mut newest: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut losses: BTreeMap<usize, Loss> = BTreeMap::new();
    for event in history.iter() {
        let moment = Moment::of(event);
        if !matches!(
            event.what,
            What::RecordSet { .. }
                | What::RecordExpired { .. }
                | What::RecordLost { .. }
                | What::Promoted { .. }
        ) {
            continue;
        }
        let mut lose = |row: usize, followed: &mut BTreeMap<usize, Name>, how: Vanished| {
            let Some(authority) = followed.remove(&row) else { return };
            let node = event.node.clone();
            losses.insert(row, Loss { event: event.id, moment, node, authority, how });
        };
        match &event.what {
            What::RecordSet { .. } => {
                if let Some(row) = applied.get(&event.id) {
                    followed.insert(*row, event.node.clone());
                    newest.insert((&rows[*row].key, &rows[*row].owner), *row);
                }
            }
            What::RecordExpired { key, owner } | What::RecordLost { key, owner, .. } => {
                let Some(row) = newest.get(&(&**key, &**owner)).copied() else {
                    continue;
                };
                let how = match &event.what {
                    What::RecordLost { how: RecordLoss::Resync, .. } => Vanished::Resync,
                    What::RecordLost { how: RecordLoss::Crash, .. } => Vanished::Crash,
                    What::RecordLost { how: RecordLoss::Deleted, .. } => Vanished::Deleted,
                    What::RecordLost { how: RecordLoss::Overwritten, .. } => Vanished::Overwritten,
                    _ => Vanished::ExpiredEarly,
                };
                let here = followed.get(&row).is_some_and(|authority| *authority == event.node);
                if here && rows[row].is_promised(moment) {
                    lose(row, &mut followed, how);
                }
            }
            What::Promoted { records, .. } => {
                steps.take(followed.len() as u64);
                let over = |row: &usize| {
                    rows[*row].promise_end().is_none_or(|promised| promised <= moment)
                };
                followed.retain(|row, _| !over(row));
                let has: std::collections::BTreeSet<(&str, &str)> =
                    records.iter().map(|(key, owner)| (&**key, &**owner)).collect();
                for row in followed.keys().copied().collect::<Vec<_>>() {
                    if has.contains(&(&*rows[row].key, &*rows[row].owner)) {
                        followed.insert(row, event.node.clone());
                    } else if rows[row].is_promised(moment) {
                        lose(row, &mut followed, Vanished::Failover);
                    }
                }
            }
            _ => {}
        }
    }
    losses
}

/// Finds `grant-lost`.
pub(super) fn grant_lost(case: &Case<'_>) -> Vec<Finding> {
    let rows = case.grants.rows();
    let mut found: Vec<Finding> = Vec::new();
    for (row, loss) in &case.losses {
        let grant = &rows[*row];
        let left = Interval::new(loss.moment, grant.promise_end().unwrap_or(loss.moment));
        let detail = Detail::GrantLost { node: loss.node.clone(), how: loss.how };
        let finding = Finding::new(case.history, Kind::GrantLost, &[grant], left, detail);
        found.push(finding.blamed(blame::loss(case, grant, loss)));
    }
    found.sort_by_key(|finding| finding.from_us);
    found.truncate(MOST_OF_A_KIND);
    found
}
