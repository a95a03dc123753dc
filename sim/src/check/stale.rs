//! `stale-effect`: whole sections against the order of their grants, only of a lock that
//! promises ordered tokens. (Sections in turns are `effect-interleaved`.)
//!
//! A sweep over the sections in order of their beginning keeps, of those that have
//! ended, the newest grant and the newest of another owner, apart for exclusive and
//! shared ones.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::blame;
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::Detail;
use super::finding::{Finding, Kind};
use super::interval::{Interval, Moment};
use super::sections::{Section, sections};
use crate::history::Name;

/// The newest section, and the newest of another owner, as positions.
#[derive(Clone, Copy, Default)]
struct Newest(Option<usize>, Option<usize>);

/// Finds `stale-effect`.
pub(super) fn stale(case: &Case<'_>) -> Vec<Finding> {
    if !case.setting.ordered_tokens {
        return Vec::new();
    }
    let mut found = Vec::new();
    for ((_, resource), sections) in sections(case) {
        for (newer, older) in against_order(case, &sections) {
            if is_uncertain(case, sections[older].row, sections[newer].row) {
                case.leave_undecided();
                continue;
            }
            found.push(tell(case, resource, &sections[newer], &sections[older]));
        }
    }
    found.sort_by_key(|finding| finding.to_us);
    found.truncate(MOST_OF_A_KIND);
    found
}

/// Pairs of sections, the newer grant's first, which came first.
fn against_order(case: &Case<'_>, sections: &[Section<'_>]) -> Vec<(usize, usize)> {
    let rows = case.grants.rows();
    let owner = |n: usize| &*rows[sections[n].row].owner;
    let row = |n: &usize| sections[*n].row;
    let mut ending: BinaryHeap<Reverse<(Moment, usize)>> = BinaryHeap::new();
    let mut ended = [Newest::default(); 2];
    let mut pairs = Vec::new();
    for (n, section) in sections.iter().enumerate() {
        case.steps.take(1);
        let begins = section.acts[0].moment;
        while let Some(Reverse((last, done))) = ending.peek().copied() {
            if last >= begins {
                break;
            }
            ending.pop();
            let Newest(first, second) = &mut ended[usize::from(rows[sections[done].row].shared)];
            match *first {
                Some(newest) if row(&newest) >= row(&done) => {
                    if owner(newest) != owner(done) && second.is_none_or(|s| row(&s) < row(&done)) {
                        *second = Some(done);
                    }
                }
                Some(newest) if owner(newest) != owner(done) => {
                    (*first, *second) = (Some(done), Some(newest));
                }
                _ => *first = Some(done),
            }
        }
        let looked_at = if rows[section.row].shared { &ended[..1] } else { &ended[..] };
        let newer = looked_at.iter().flat_map(|Newest(first, second)| [*first, *second]);
        let newer = newer.flatten().filter(|newer| row(newer) > section.row);
        let newer = newer.filter(|newer| rows[row(newer)].conflicts_with(&rows[section.row]));
        if let Some(newer) = newer.max_by_key(row)
            && rows[section.row].is_told()
            && rows[row(&newer)].is_told()
            && pairs.len() < MOST_OF_A_KIND
        {
            pairs.push((newer, n));
        }
        ending.push(Reverse((section.last().moment, n)));
    }
    pairs
}

/// Whether neither clocks nor tokens say which grant came first.
fn is_uncertain(case: &Case<'_>, older: usize, newer: usize) -> bool {
    let rows = case.grants.rows();
    let (older, newer) = (&rows[older], &rows[newer]);
    let apart_us = newer.start().at_us.saturating_sub(older.start().at_us);
    let unsure_us = older.uncertainty_us.saturating_add(newer.uncertainty_us);
    let by_token = older.token().zip(newer.token()).is_some_and(|(older, newer)| older < newer);
    unsure_us > 0 && apart_us <= unsure_us && !by_token
}

fn tell(case: &Case<'_>, resource: &Name, newer: &Section<'_>, older: &Section<'_>) -> Finding {
    let rows = case.grants.rows();
    let pair = (older.row, newer.row);
    let grants = [&rows[pair.0], &rows[pair.1]];
    let (before, after) = (newer.last(), older.acts[0]);
    let interval = Interval::new(before.moment, after.moment);
    let detail = Detail::StaleEffect { resource: resource.clone() };
    Finding::new(case.history, Kind::StaleEffect, &grants, interval, detail)
        .proved_by([before.event, after.event])
        .blamed(blame::pair(case, pair, after.moment))
}
