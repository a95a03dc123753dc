//! `duplicate-order`: one order that bought several units, in the books, or by what the
//! resource accepted where there are no books. (The same order for the same unit again
//! is the same sale.)

use std::collections::{BTreeMap, BTreeSet};

use super::books::blame_pair;
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::Detail;
use super::finding::{Finding, Kind, Party};
use super::interval::{Interval, Moment};

/// Finds `duplicate-order`.
pub(super) fn duplicate_order(case: &Case<'_>) -> Vec<Finding> {
    let books = case.books();
    let mut units_of: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    match books.ledger {
        Some((_, _, sales)) => {
            for (unit, order) in sales {
                units_of.entry(order).or_default().insert(*unit);
            }
        }
        None => {
            for (unit, order) in case.sales().keys() {
                units_of.entry(order).or_default().insert(*unit);
            }
        }
    }
    let table = case.grants.rows();
    let mut found: Vec<Finding> = Vec::new();
    for (order, units) in units_of.into_iter().filter(|(_, units)| units.len() > 1) {
        let sales: Vec<_> =
            units.iter().filter_map(|unit| case.sales().get(&(*unit, order))).collect();
        let read = books.ledger.map(|(event, ..)| event);
        let rows: BTreeSet<usize> = sales.iter().filter_map(|sale| sale.row).collect();
        let rows: Vec<usize> = rows.into_iter().collect();
        let end = read.map_or(Moment::NEVER, Moment::of);
        let first = sales.iter().map(|sale| sale.moment).min().unwrap_or(end);
        let last = sales.iter().map(|sale| sale.moment).max().unwrap_or(end);
        let detail =
            Detail::DuplicateOrder { order: order.to_owned(), units: units.into_iter().collect() };
        let interval = Interval::new(first, last);
        let mut finding = Finding::new(case.history, Kind::DuplicateOrder, &[], interval, detail)
            .proved_by(sales.iter().map(|sale| sale.event))
            .proved_by(read.map(|event| event.id))
            .blamed(blame_pair(case, &rows, last));
        finding.parties = rows.iter().map(|row| Party::from(&table[*row])).collect();
        finding.key = rows.first().map(|row| table[*row].key.to_string()).unwrap_or_default();
        found.push(finding);
    }
    found.sort_by_key(|finding| finding.from_us);
    found.truncate(MOST_OF_A_KIND);
    found
}
