//! The durable truth of the stock, once everything is quiet, and the sales that led
//! to it: what the checkers of the stock look up.

use std::collections::{BTreeMap, BTreeSet};

use super::blame::{self, Blame};
use super::case::Case;
use super::interval::Moment;
use crate::history::{Event, EventId, History, Name, OrderAnswer, StockOperation, What};

/// Books as they were read: the event, how many units there were, each sale.
pub(super) type Ledger<'a> = (&'a Event, u32, &'a [(u32, Name)]);

/// What is known of the stock.
#[derive(Debug, Default)]
pub(super) struct Books<'a> {
    /// The last books.
    pub ledger: Option<Ledger<'a>>,
    /// The last count: event, units, left, reserved.
    pub count: Option<(&'a Event, u32, i64, u32)>,
    /// What buyers were told, in order.
    pub answers: Vec<(&'a Event, &'a str, OrderAnswer)>,
}

impl<'a> Books<'a> {
    /// Reads them.
    fn read(history: &'a History) -> Books<'a> {
        let mut books = Books::default();
        for event in history.iter() {
            match &event.what {
                What::Ledger { units, sales } => books.ledger = Some((event, *units, sales)),
                What::StockCounted { units, left, reserved } => {
                    books.count = Some((event, *units, *left, *reserved));
                }
                What::OrderReturned { order, answer } => {
                    books.answers.push((event, order, *answer));
                }
                _ => {}
            }
        }
        books
    }

    /// The orders that were answered so, each once.
    pub fn answered(&self, answer: OrderAnswer) -> BTreeSet<&'a str> {
        let answered = self.answers.iter().filter(|(_, _, given)| *given == answer);
        answered.map(|(_, order, _)| *order).collect()
    }

    /// Whether anything at all tells how many were sold.
    pub fn tell_of_sales(&self, case: &Case<'_>) -> bool {
        self.ledger.is_some() || !self.answers.is_empty() || !case.sales().is_empty()
    }

    /// At least and at most so many units were sold, by the books, else by what buyers
    /// were told, else by what the resource accepted.
    pub fn sold(&self, case: &Case<'_>) -> (u64, u64) {
        if let Some((_, _, sales)) = self.ledger {
            // A unit under two orders is one unit gone and two orders taken: a counter may
            // count either, and `oversell` tells of it.
            let units: BTreeSet<u32> = sales.iter().map(|(unit, _)| *unit).collect();
            let orders: BTreeSet<&(u32, Name)> = sales.iter().collect();
            return (units.len() as u64, orders.len() as u64);
        }
        if self.answers.is_empty() {
            let sold = case.sales().len() as u64;
            return (sold, sold);
        }
        let accepted = self.answered(OrderAnswer::Accepted);
        let maybe = self.answered(OrderAnswer::Indeterminate);
        let maybe = maybe.difference(&accepted).count();
        (accepted.len() as u64, (accepted.len() + maybe) as u64)
    }
}

/// The first accepted sale of a unit under an order.
#[derive(Debug)]
pub(super) struct Sale {
    pub event: EventId,
    pub moment: Moment,
    pub row: Option<usize>,
}

/// The first accepted sale of each unit under each order.
pub(super) type Sales<'a> = BTreeMap<(u32, &'a str), Sale>;

impl<'a> Case<'a> {
    /// The books.
    pub(super) fn books(&self) -> &Books<'a> {
        self.books.get_or_init(|| Books::read(self.history))
    }

    /// The accepted sales.
    pub(super) fn sales(&self) -> &Sales<'a> {
        self.sales.get_or_init(|| accepted_sales(self))
    }
}

fn accepted_sales<'a>(case: &Case<'a>) -> Sales<'a> {
    let mut sales = BTreeMap::new();
    for event in case.history.iter() {
        let What::Effect {
            operation: StockOperation::Sell { unit, order }, accepted: true, ..
        } = &event.what
        else {
            continue;
        };
        let row = case.grants.of_act(event.id);
        let sale = Sale { event: event.id, moment: Moment::of(event), row };
        sales.entry((*unit, &**order)).or_insert(sale);
    }
    sales
}

/// The first pair of sellers that stood in each other's way.
pub(super) fn blame_pair(case: &Case<'_>, rows: &[usize], until: Moment) -> Blame {
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
