//! `wrong-release`: a promised lock was released by somebody to whom it did not belong.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::lock::Release;

use super::blame::{self, Blame, Parted};
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::{Detail, Vanished};
use super::finding::{Finding, Kind};
use super::interval::{Interval, Moment};
use super::records::Loss;
use super::waits::Who;
use crate::history::{Attempt, Event, RecordLoss, What};

/// Finds `wrong-release`.
pub(super) fn wrong_release(case: &Case<'_>) -> Vec<Finding> {
    let mut found = deleted(case);
    found.extend(released_by_a_stranger(case));
    found.sort_by_key(|finding| finding.from_us);
    found.truncate(MOST_OF_A_KIND);
    found
}

/// A record deleted by somebody else while it was promised, wherever that was.
fn deleted(case: &Case<'_>) -> Vec<Finding> {
    let rows = case.grants.rows();
    // Only looked up when somebody's record was deleted.
    let owners = std::cell::LazyCell::new(|| case.grants.by_owner());
    let mut found = Vec::new();
    for event in case.history.iter() {
        let What::RecordLost { key, owner, how: RecordLoss::Deleted } = &event.what else {
            continue;
        };
        let moment = Moment::of(event);
        let of_owner = owners.get(&(&**key, &**owner));
        let promised = of_owner.into_iter().flatten().find(|row| rows[**row].is_promised(moment));
        let Some(grant) = promised.map(|row| &rows[*row]) else { continue };
        let left = Interval::new(moment, grant.promise_end().unwrap_or(moment));
        let detail = Detail::WrongRelease { node: event.node.clone() };
        let loss = Loss {
            event: event.id,
            moment,
            node: event.node.clone(),
            authority: event.node.clone(),
            how: Vanished::Deleted,
        };
        let finding = Finding::new(case.history, Kind::WrongRelease, &[grant], left, detail);
        found.push(finding.blamed(blame::loss(case, grant, &loss)));
        if found.len() == MOST_OF_A_KIND {
            break;
        }
    }
    found
}

/// Somebody who never asked for the lock was told that it released it, while it was
/// promised to another from the ask to the answer.
fn released_by_a_stranger(case: &Case<'_>) -> Vec<Finding> {
    let asked: BTreeSet<&Attempt> = case
        .waits
        .iter()
        .filter_map(|wait| match wait.who {
            Who::Attempt(attempt) => Some(attempt),
            Who::Foreigner(_) => None,
        })
        .collect();
    let mut open: BTreeMap<&Attempt, &Event> = BTreeMap::new();
    let mut spans: Vec<(Interval, &Event, &Attempt)> = Vec::new();
    for event in case.history.iter() {
        match &event.what {
            What::ReleaseInvoked { attempt } if !asked.contains(attempt) => {
                open.insert(attempt, event);
            }
            What::ReleaseReturned { attempt, release: Release::Released } => {
                let Some(invoked) = open.remove(attempt) else { continue };
                spans.push((Interval::new(Moment::of(invoked), Moment::of(event)), event, attempt));
            }
            _ => {}
        }
    }
    let rows = case.grants.rows();
    let mut found = Vec::new();
    // Where there are several locks nobody can tell which one was meant.
    let by_key: Vec<Vec<usize>> = case.grants.by_key().into_values().collect();
    let [of_key] = &by_key[..] else { return found };
    for (span, event, stranger) in spans {
        case.steps.take(of_key.len() as u64);
        let holds = |row: &&usize| {
            let pieces = rows[**row].promise.iter();
            let pieces = pieces.map(|piece| piece.shrunk(rows[**row].uncertainty_us));
            rows[**row].attempt.as_ref() != Some(stranger)
                && pieces.into_iter().any(|piece| piece.from <= span.from && span.to <= piece.to)
        };
        let Some(grant) = of_key.iter().find(holds).map(|row| &rows[*row]) else { continue };
        let left = Interval::new(span.to, grant.promise_end().unwrap_or(span.to));
        let detail = Detail::WrongRelease { node: event.node.clone() };
        let blame = Blame {
            parted: Parted::RecordDeleted,
            owners: vec![grant.owner.to_string()],
            ..Blame::default()
        };
        let finding = Finding::new(case.history, Kind::WrongRelease, &[grant], left, detail);
        found.push(finding.proved_by([event.id]).blamed(blame));
        if found.len() == MOST_OF_A_KIND {
            break;
        }
    }
    found
}
