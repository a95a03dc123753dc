//! `undersell`: a buyer was told that nothing is left while a unit was neither sold nor
//! reserved. Judged on the quiesced truth: the unit is free in the end and was never
//! taken before the refusal, so it was free all the time. (A reservation that was given
//! back later excuses a refusal.)

use std::collections::{BTreeMap, BTreeSet};

use super::blame;
use super::books::Books;
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::Detail;
use super::finding::{Finding, Kind};
use super::interval::{Interval, Moment};
use crate::history::{Event, OrderAnswer, StockOperation, What};

/// What the resource accepted of reservations and sales.
#[derive(Default)]
struct Takings {
    /// When each unit was first sold or set aside.
    first: BTreeMap<u32, Moment>,
    /// What is set aside in the end.
    reserved: BTreeSet<u32>,
    /// Whether anything was ever set aside.
    has_reservations: bool,
}

/// Finds `undersell`.
pub(super) fn undersell(case: &Case<'_>) -> Vec<Finding> {
    let books = Books::of(case.history);
    let (takings, refusals) = watch(case);
    let mut found: Vec<Finding> = Vec::new();
    for refusal in refusals {
        let Some((unit, units, free, read)) = free_at(&books, &takings, Moment::of(refusal)) else {
            continue;
        };
        let interval = Interval::new(Moment::of(refusal), Moment::of(read));
        let detail = Detail::Undersell { unit, units, free };
        let blame = blame::first_together(case, interval.to);
        let finding = Finding::new(case.history, Kind::Undersell, &[], interval, detail);
        found.push(finding.proved_by([refusal.id, read.id]).blamed(blame));
        if found.len() == MOST_OF_A_KIND {
            break;
        }
    }
    found
}

fn watch<'a>(case: &Case<'a>) -> (Takings, Vec<&'a Event>) {
    let mut takings = Takings::default();
    let mut refusals = Vec::new();
    for event in case.history.iter() {
        match &event.what {
            What::OrderReturned { answer: OrderAnswer::SoldOut, .. } => refusals.push(event),
            What::Effect { operation, accepted: true, .. } => match operation {
                StockOperation::Read { left: 0, .. } => refusals.push(event),
                StockOperation::Read { .. } => {}
                StockOperation::Sell { unit, .. } => takings.take(*unit, event, false),
                StockOperation::Reserve { unit, .. } => takings.take(*unit, event, true),
                StockOperation::Cancel { unit, .. } => {
                    takings.reserved.remove(unit);
                }
            },
            _ => {}
        }
    }
    (takings, refusals)
}

impl Takings {
    fn take(&mut self, unit: u32, event: &Event, reserve: bool) {
        self.first.entry(unit).or_insert(Moment::of(event));
        self.has_reservations |= reserve;
        if reserve {
            self.reserved.insert(unit);
        }
    }
}

/// A unit that was free until `moment` and is free in the end: unit, units, how many
/// are free, and where that is read.
fn free_at<'a>(
    books: &Books<'a>,
    takings: &Takings,
    moment: Moment,
) -> Option<(Option<u32>, u32, u32, &'a Event)> {
    if let Some((read, units, sales)) = books.ledger {
        let sold: BTreeSet<u32> = sales.iter().map(|(unit, _)| *unit).collect();
        let untouched = |unit: &u32| {
            !sold.contains(unit)
                && !takings.reserved.contains(unit)
                && takings.first.get(unit).is_none_or(|taken| *taken > moment)
        };
        let bound = 1 + sold.len() as u64 + takings.first.len() as u64 + NAMELESS;
        let looked_at = 1..=units.min(u32::try_from(bound).unwrap_or(u32::MAX));
        let free: Vec<u32> = looked_at.filter(untouched).collect();
        // Units set aside without their names may be any.
        let set_aside = books.count.map_or(0, |(.., reserved)| reserved) as usize;
        let nameless = set_aside.saturating_sub(takings.reserved.len());
        let unit = free.first().filter(|_| free.len() > nameless)?;
        return Some((Some(*unit), units, free.len() as u32, read));
    }
    let (read, units, left, reserved) = books.count?;
    let free = u32::try_from(left).ok().filter(|left| *left > 0)?;
    (!takings.has_reservations && reserved == 0).then_some((None, units, free, read))
}

/// So many units beyond those that were ever touched are looked at: units that are
/// set aside without names are hardly more.
const NAMELESS: u64 = 1_000;
