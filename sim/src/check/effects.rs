//! `effect-interleaved`: the resource accepted operations of conflicting grants in
//! turns (A … B … A), so two were inside at once. Reads count: a decision taken on
//! what was read is part of the section.
//!
//! The section of a grant at a resource reaches from its first accepted operation to
//! its last. Two sections are in turns exactly when they overlap, so this is the same
//! sweep as for promises.

use super::blame;
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::Detail;
use super::finding::{Finding, Kind};
use super::interval::{Interval, overlapping_pairs};
use super::sections::{Section, sections};
use crate::history::Name;

/// Finds `effect-interleaved`.
pub(super) fn interleaved(case: &Case<'_>) -> Vec<Finding> {
    let rows = case.grants.rows();
    let mut found = Vec::new();
    for ((_, resource), sections) in sections(case) {
        let spans: Vec<Interval> = sections.iter().map(Section::span).collect();
        let conflict =
            |a: usize, b: usize| rows[sections[a].row].conflicts_with(&rows[sections[b].row]);
        let shared = |n: usize| rows[sections[n].row].shared;
        let pairs = overlapping_pairs(&spans, MOST_OF_A_KIND, shared, conflict, &case.steps);
        for (a, b) in pairs {
            found.push(turns(case, resource, &sections[a], &sections[b]));
        }
    }
    found.sort_by_key(|finding| finding.from_us);
    found.truncate(MOST_OF_A_KIND);
    found
}

/// Tells of two sections in turns, of which `outer` began first.
fn turns(case: &Case<'_>, resource: &Name, outer: &Section<'_>, inner: &Section<'_>) -> Finding {
    let rows = case.grants.rows();
    let between = inner.acts[0];
    let after = outer.acts.partition_point(|act| act.moment < between.moment);
    // Both exist: the inner section begins within the outer one's span.
    let before = outer.acts[after.saturating_sub(1)];
    let again = outer.acts[after.min(outer.acts.len() - 1)];
    let pair = (outer.row.min(inner.row), outer.row.max(inner.row));
    let grants = [&rows[pair.0], &rows[pair.1]];
    let interval = Interval::new(between.moment, again.moment);
    let detail = Detail::EffectInterleaved { resource: resource.clone() };
    Finding::new(case.history, Kind::EffectInterleaved, &grants, interval, detail)
        .proved_by([before.event, between.event, again.event])
        .blamed(blame::pair(case, pair, again.moment))
}
