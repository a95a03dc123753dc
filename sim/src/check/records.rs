//! What became of promised records: `grant-lost` (advisory).
//!
//! A promised record is followed from the server that applied it (its *authority*)
//! to each server that becomes master with it. It is lost when its authority expires
//! it before its promise has ended, or loses it otherwise, or when a server becomes
//! master without it. What a deposed master does with its copy is of no interest.

use std::collections::{BTreeMap, BTreeSet};

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
pub(super) fn losses(
    history: &History,
    grants: &Grants,
    quorum: u16,
    steps: &Steps,
) -> BTreeMap<usize, Loss> {
    if quorum > 1 {
        return losses_of_quorums(history, grants, usize::from(quorum));
    }
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
                let how = vanished(&event.what);
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
                let has: BTreeSet<(&str, &str)> =
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

/// How a record has gone that expired or was lost.
fn vanished(what: &What) -> Vanished {
    match what {
        What::RecordLost { how: RecordLoss::Resync, .. } => Vanished::Resync,
        What::RecordLost { how: RecordLoss::Crash, .. } => Vanished::Crash,
        What::RecordLost { how: RecordLoss::Deleted, .. } => Vanished::Deleted,
        What::RecordLost { how: RecordLoss::Overwritten, .. } => Vanished::Overwritten,
        _ => Vanished::ExpiredEarly,
    }
}

/// Likewise for grants that stand on records at several servers, none of which takes
/// another's place: one is lost when a server loses its record and too few are left.
fn losses_of_quorums(history: &History, grants: &Grants, quorum: usize) -> BTreeMap<usize, Loss> {
    let rows = grants.rows();
    // Of each owner of a lock: its row, and the servers that have its record.
    let mut records: BTreeMap<(&str, &str), (usize, BTreeSet<&Name>)> = BTreeMap::new();
    for (row, grant) in rows.iter().enumerate() {
        records.insert((&grant.key, &grant.owner), (row, BTreeSet::new()));
    }
    let mut losses: BTreeMap<usize, Loss> = BTreeMap::new();
    for event in history.iter() {
        let (What::RecordSet { key, owner, .. }
        | What::RecordReleased { key, owner }
        | What::RecordExpired { key, owner }
        | What::RecordLost { key, owner, .. }) = &event.what
        else {
            continue;
        };
        let Some((row, servers)) = records.get_mut(&(&**key, &**owner)) else {
            continue;
        };
        if matches!(event.what, What::RecordSet { .. }) {
            servers.insert(&event.node);
            continue;
        }
        let moment = Moment::of(event);
        let broken = servers.remove(&event.node) && servers.len() + 1 == quorum;
        let lost = broken && !matches!(event.what, What::RecordReleased { .. });
        if lost && rows[*row].is_promised(moment) {
            let (node, how) = (event.node.clone(), vanished(&event.what));
            let authority = node.clone();
            let loss = Loss { event: event.id, moment, node, authority, how };
            losses.entry(*row).or_insert(loss);
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
