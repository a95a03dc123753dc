//! `oversell`: one unit under two orders, or a unit that there never was. Judged on
//! the books once everything is quiet; the accepted sales tell how it came about.
//!
//! More sales than units always shows as one of the two, and judging per unit also
//! sees what a sum would hide: one unit sold twice and another not at all.

use std::collections::{BTreeMap, BTreeSet};

use super::blame;
use super::books::{Books, Sale, blame_pair};
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::Detail;
use super::finding::{Finding, Kind, Party};
use super::interval::{Interval, Moment};
use crate::history::{Event, OrderAnswer};

/// Finds `oversell`.
pub(super) fn oversell(case: &Case<'_>) -> Vec<Finding> {
    let all = case.books();
    let Some((books, units, sales)) = all.ledger else { return by_count(case, all) };
    let mut orders: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for (unit, order) in sales {
        orders.entry(*unit).or_default().insert(order);
    }
    let mut found = Vec::new();
    for (unit, orders) in orders {
        let exists = (1..=units).contains(&unit);
        if exists && orders.len() < 2 {
            continue;
        }
        found.push(unit_sold(case, books, (unit, units), &orders));
        if found.len() == MOST_OF_A_KIND {
            break;
        }
    }
    found.sort_by_key(|finding| finding.from_us);
    found
}

/// Tells of one unit.
fn unit_sold(
    case: &Case<'_>,
    books: &Event,
    (unit, units): (u32, u32),
    orders: &BTreeSet<&str>,
) -> Finding {
    let told = case.sales();
    let mut sales: Vec<(Option<&Sale>, &str)> =
        orders.iter().map(|order| (told.get(&(unit, *order)), *order)).collect();
    // Sales of which no event tells come last, by their order's name.
    let when = |sale: &Option<&Sale>| sale.map_or(Moment::NEVER, |sale| sale.moment);
    sales.sort_by_key(|(sale, order)| (when(sale), *order));
    let known: Vec<&Sale> = sales.iter().filter_map(|(sale, _)| *sale).collect();
    let rows = known.iter().filter_map(|sale| sale.row);
    // In order of grants, each once.
    let rows: Vec<usize> = rows.collect::<BTreeSet<usize>>().into_iter().collect();
    let table = case.grants.rows();
    let first = known.first().map_or(Moment::of(books), |sale| sale.moment);
    let last = known.last().map_or(Moment::of(books), |sale| sale.moment);
    let detail = Detail::Oversell {
        unit,
        units,
        orders: sales.iter().map(|(_, order)| (*order).to_owned()).collect(),
    };
    let mut finding =
        Finding::new(case.history, Kind::Oversell, &[], Interval::new(first, last), detail)
            .proved_by(rows.iter().flat_map(|row| table[*row].evidence()))
            .proved_by(known.iter().map(|sale| sale.event).chain([books.id]))
            .blamed(blame_pair(case, &rows, last));
    finding.parties = rows.iter().map(|row| Party::from(&table[*row])).collect();
    finding.key = rows.first().map(|row| table[*row].key.to_string()).unwrap_or_default();
    finding
}

/// Without books: more sales than units, by what buyers were told and by the counter.
fn by_count(case: &Case<'_>, books: &Books<'_>) -> Vec<Finding> {
    let Some((count, units, left, _)) = books.count else { return Vec::new() };
    let (sold, _) = books.sold(case);
    if left >= 0 && sold <= u64::from(units) {
        return Vec::new();
    }
    let accepted = books.answers.iter().filter(|(_, _, answer)| *answer == OrderAnswer::Accepted);
    // The sale that was one too many.
    let over = accepted.map(|(event, ..)| *event).nth(units as usize).unwrap_or(count);
    let interval = Interval::new(Moment::of(over), Moment::of(count));
    let detail = Detail::OversellCounted { units, left, sold };
    let blame = blame::first_together(case, interval.to);
    let finding = Finding::new(case.history, Kind::Oversell, &[], interval, detail);
    vec![finding.proved_by([over.id, count.id]).blamed(blame)]
}
