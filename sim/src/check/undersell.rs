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
    let books = case.books();
    let (takings, refusals) = watch(case);
    let Some(free) = Free::of(books, &takings) else { return Vec::new() };
    let (read, units) = (free.read, free.units);
    let mut found: Vec<Finding> = Vec::new();
    for refusal in refusals {
        let Some((unit, free)) = free.at(Moment::of(refusal)) else { continue };
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
                StockOperation::Read { .. } | StockOperation::Act { .. } => {}
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

/// What is free in the end, and since when it has been.
struct Free<'a> {
    /// Where the end is read.
    read: &'a Event,
    /// How many units there were.
    units: u32,
    /// Units by the time at which they were first taken, and the smallest unit from each
    /// place on. Empty where units have no names.
    untaken: Vec<(Moment, u32)>,
    smallest: Vec<u32>,
    /// So many of them may be set aside, nobody knows which.
    nameless: usize,
    /// Where units have no names: how many are left.
    left: u32,
}

impl<'a> Free<'a> {
    fn of(books: &Books<'a>, takings: &Takings) -> Option<Free<'a>> {
        let Some((read, units, sales)) = books.ledger else {
            let (read, units, left, reserved) = books.count?;
            let left = u32::try_from(left).ok().filter(|left| *left > 0)?;
            let (untaken, smallest) = (Vec::new(), Vec::new());
            let is_known = !takings.has_reservations && reserved == 0;
            return is_known.then_some(Free { read, units, untaken, smallest, nameless: 0, left });
        };
        let sold: BTreeSet<u32> = sales.iter().map(|(unit, _)| *unit).collect();
        let bound = 1 + sold.len() as u64 + takings.first.len() as u64 + NAMELESS;
        let looked_at = 1..=units.min(u32::try_from(bound).unwrap_or(u32::MAX));
        let free = looked_at.filter(|u| !sold.contains(u) && !takings.reserved.contains(u));
        let first = |unit: &u32| takings.first.get(unit).copied().unwrap_or(Moment::NEVER);
        let mut untaken: Vec<(Moment, u32)> = free.map(|unit| (first(&unit), unit)).collect();
        untaken.sort_unstable();
        let mut smallest: Vec<u32> = untaken.iter().map(|(_, unit)| *unit).collect();
        for n in (1..smallest.len()).rev() {
            smallest[n - 1] = smallest[n - 1].min(smallest[n]);
        }
        let set_aside = books.count.map_or(0, |(.., reserved)| reserved) as usize;
        let nameless = set_aside.saturating_sub(takings.reserved.len());
        Some(Free { read, units, untaken, smallest, nameless, left: 0 })
    }

    /// A unit that was free until `moment` and is free in the end, where units have
    /// names, and how many there are.
    fn at(&self, moment: Moment) -> Option<(Option<u32>, u32)> {
        if self.left > 0 {
            return Some((None, self.left));
        }
        let later = self.untaken.partition_point(|(taken, _)| *taken <= moment);
        let free = self.untaken.len() - later;
        let unit = self.smallest.get(later).filter(|_| free > self.nameless)?;
        Some((Some(*unit), u32::try_from(free).unwrap_or(u32::MAX)))
    }
}

/// So many units beyond those that were ever touched are looked at: units that are
/// set aside without names are hardly more.
const NAMELESS: u64 = 1_000;
