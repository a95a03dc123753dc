//! `double-grant` (two promises at once) and `overstay` (a belief beyond its promise).

use std::collections::BTreeSet;

use super::blame;
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::Detail;
use super::finding::{Finding, Kind};
use super::interval::{Interval, overlapping_pairs};

/// Finds `double-grant`: each pair of conflicting grants whose promises overlap, with
/// its first overlap.
pub(super) fn double_grant(case: &Case<'_>) -> Vec<Finding> {
    let rows = case.grants.rows();
    let mut found = Vec::new();
    for of_key in case.grants.by_key().values() {
        let pieces: Vec<(usize, Interval)> = of_key
            .iter()
            .flat_map(|row| rows[*row].promise.iter().map(|piece| (*row, *piece)))
            .collect();
        let intervals: Vec<Interval> = pieces.iter().map(|(_, piece)| *piece).collect();
        let conflict = |a: usize, b: usize| rows[pieces[a].0].conflicts_with(&rows[pieces[b].0]);
        let mut seen = BTreeSet::new();
        let shared = |n: usize| rows[pieces[n].0].shared;
        let pairs = overlapping_pairs(&intervals, MOST_OF_A_KIND, shared, conflict, &case.steps);
        for (a, b) in pairs {
            let (one, other) = (pieces[a].0, pieces[b].0);
            // The table is in order of grants; a piece of the later one may come first.
            let pair = (one.min(other), one.max(other));
            let surely = |n: usize| pieces[n].1.shrunk(rows[pieces[n].0].uncertainty_us);
            let Some(overlap) = surely(a).overlap(surely(b)) else {
                case.leave_undecided();
                continue;
            };
            if !seen.insert(pair) {
                continue;
            }
            let grants = [&rows[pair.0], &rows[pair.1]];
            let detail = Detail::DoubleGrant;
            let finding = Finding::new(case.history, Kind::DoubleGrant, &grants, overlap, detail);
            found.push(finding.blamed(blame::pair(case, pair, overlap.from)));
        }
    }
    found.sort_by_key(|finding| finding.from_us);
    found.truncate(MOST_OF_A_KIND);
    found
}

/// Finds `overstay`: each stretch of belief that is not promised.
pub(super) fn overstay(case: &Case<'_>) -> Vec<Finding> {
    if !case.setting.lock_has_records {
        return Vec::new();
    }
    let mut found = Vec::new();
    for grant in case.grants.rows() {
        let Some(belief) = grant.belief else { continue };
        let mut from = belief.from;
        let mut beyond = Vec::new();
        for piece in &grant.promise {
            beyond.push(Interval::new(from, piece.from.min(belief.to)));
            from = from.max(piece.to);
        }
        beyond.push(Interval::new(from, belief.to));
        for stretch in beyond {
            let stretch = stretch.shrunk(grant.uncertainty_us);
            if stretch.is_empty() || stretch.from.at_us > case.history.ended_us {
                continue;
            }
            let detail = Detail::Overstay;
            let finding = Finding::new(case.history, Kind::Overstay, &[grant], stretch, detail);
            let blame = blame::overstay(case, grant, "first-holder", stretch.to);
            found.push(finding.blamed(blame));
        }
        if found.len() >= MOST_OF_A_KIND {
            break;
        }
    }
    found.truncate(MOST_OF_A_KIND);
    found
}
