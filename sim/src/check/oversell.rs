//! `oversell`: one unit under two orders, or a unit that there never was. Judged on
//! the books once everything is quiet; the accepted sales tell how it came about.
//!
//! More sales than units always shows as one of the two, and judging per unit also
//! sees what a sum would hide: one unit sold twice and another not at all.

use std::collections::{BTreeMap, BTreeSet};

use super::blame::{self, Blame};
use super::case::{Case, MOST_OF_A_KIND};
use super::finding::{Detail, Finding, Kind, Party};
use super::interval::{Interval, Moment};
use crate::history::{Event, EventId, StockOperation, What};

/// The first accepted sale of a unit under an order.
struct Sale {
    event: EventId,
    moment: Moment,
    row: Option<usize>,
}

/// Finds `oversell`.
pub(super) fn oversell(case: &Case<'_>) -> Vec<Finding> {
    // The last books: they are read when everything is quiet.
    let books = case.history.events.iter().rev().find_map(|event| match &event.what {
        What::Ledger { units, sales } => Some((event, *units, sales)),
        _ => None,
    });
    let Some((books, units, sales)) = books else { return Vec::new() };
    let mut orders: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for (unit, order) in sales {
        orders.entry(*unit).or_default().insert(order);
    }
    let told = accepted_sales(case);
    let mut found = Vec::new();
    for (unit, orders) in orders {
        let exists = (1..=units).contains(&unit);
        if exists && orders.len() < 2 {
            continue;
        }
        found.push(unit_sold(case, books, &told, (unit, units), &orders));
        if found.len() == MOST_OF_A_KIND {
            break;
        }
    }
    found.sort_by_key(|finding| finding.from_us);
    found
}

fn accepted_sales<'a>(case: &'a Case<'_>) -> BTreeMap<(u32, &'a str), Sale> {
    let rows = case.grants.by_act();
    let mut sales = BTreeMap::new();
    for event in case.history.iter() {
        let What::Effect {
            operation: StockOperation::Sell { unit, order }, accepted: true, ..
        } = &event.what
        else {
            continue;
        };
        let row = rows.get(&event.id).copied();
        let sale = Sale { event: event.id, moment: Moment::of(event), row };
        sales.entry((*unit, order.as_str())).or_insert(sale);
    }
    sales
}

/// Tells of one unit.
fn unit_sold(
    case: &Case<'_>,
    books: &Event,
    told: &BTreeMap<(u32, &str), Sale>,
    (unit, units): (u32, u32),
    orders: &BTreeSet<&str>,
) -> Finding {
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
    finding.key = rows.first().map(|row| table[*row].key.clone()).unwrap_or_default();
    finding
}

/// The first pair of sellers that stood in each other's way.
fn blame_pair(case: &Case<'_>, rows: &[usize], until: Moment) -> Blame {
    let table = case.grants.rows();
    let mut fallback = Blame::default();
    for (n, later) in rows.iter().enumerate() {
        for earlier in &rows[..n] {
            if !table[*earlier].conflicts_with(&table[*later]) {
                continue;
            }
            let blame = blame::pair(case, (*earlier, *later), until);
            if blame.is_lock_bug() {
                return blame;
            }
            if fallback == Blame::default() {
                fallback = blame;
            }
        }
    }
    fallback
}
