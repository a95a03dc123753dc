//! Orders that are one transaction from the first read to the commit, and how the locks of
//! their items lie to it.

use std::sync::Arc;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::{Guard, Lock};
use lockstorm::stock::sql::{Outcome, Seen, SellError};

use super::client::{Client, Held, KEY, deadline_of};
use super::postgres::SKUS;
use super::shop::refused_by_database;
use crate::history::{BeliefEnd, Name, OrderAnswer, What};

/// One thing of an order, and the lock that guards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The lock.
    pub key: &'static str,
    /// What is bought.
    pub sku: i64,
}

/// What the sale is of.
pub const OF_THE_SALE: Item = Item { key: KEY, sku: SKUS[0] };

/// An order's transaction, as one buyer makes it, one after another.
pub trait Transaction: std::fmt::Debug + Send {
    /// What an order is of, in the order in which locks are taken.
    fn items(&self) -> &'static [Item];

    /// Whether each lock is given back before the transaction is committed.
    fn gives_back_first(&self) -> bool {
        false
    }

    /// Reads an item; the first one begins the transaction.
    ///
    /// # Errors
    /// Any [`SellError`] but `Indeterminate`.
    fn look(&mut self, sku: i64) -> BoxFuture<'_, Result<Seen, SellError>>;

    /// Takes a unit of what was seen.
    ///
    /// # Errors
    /// Any [`SellError`] but `Indeterminate`.
    fn take<'a>(
        &'a mut self,
        seen: &'a Seen,
        order: &'a str,
    ) -> BoxFuture<'a, Result<Outcome, SellError>>;

    /// Commits the order.
    ///
    /// # Errors
    /// Any [`SellError`].
    fn commit(&mut self) -> BoxFuture<'_, Result<(), SellError>>;

    /// Takes back what of the order is not committed.
    fn roll_back(&mut self) -> BoxFuture<'_, ()>;
}

/// What is asked of an order whose transaction is not open, or is no more: nothing is done.
pub fn not_open() -> SellError {
    SellError::Unreachable { reason: "no transaction is open".to_owned() }
}

/// How a line of the order went: the buyer's answer if that is known before the commit, and
/// whether the client believes no longer.
type Line = (Option<OrderAnswer>, Option<BeliefEnd>);

impl Client {
    /// Takes the lock of each item, sells it, and commits all; gives each lock back when its
    /// item is written or when all are committed.
    pub(super) async fn round_of_items(
        &self,
        host: &Host,
        lock: &Arc<dyn Lock>,
        checkout: &mut dyn Transaction,
    ) {
        let mut kept = Vec::new();
        // The order's name, and what its buyer is told if it is not to be committed.
        let (mut order, mut refused) = (None, None);
        for item in checkout.items() {
            let Some(held) = self.take(host, lock.as_ref(), item.key).await else {
                refused = Some(OrderAnswer::Refused);
                break;
            };
            let order = order.get_or_insert_with(|| Name::from(held.attempt.to_string()));
            let (answer, belief_end) = self.line(host, &held.guard, order, *item, checkout).await;
            self.stop_believing(&held, belief_end);
            refused = answer;
            if checkout.gives_back_first() {
                self.give_back(host, held).await;
            } else {
                kept.push(held);
            }
            if refused.is_some() {
                break;
            }
        }
        if refused.is_none() && self.has_lost_any(&kept) {
            refused = Some(OrderAnswer::Refused);
        }
        let answer = ended(refused, checkout).await;
        if let Some(order) = order {
            self.recorder.record(&self.name, What::OrderReturned { order, answer });
        }
        for held in kept.into_iter().rev() {
            self.give_back(host, held).await;
        }
    }

    /// Asks each guard for its own deadline before all is committed, if this client does that:
    /// the first lock was taken long before the last item was worked on.
    fn has_lost_any(&self, kept: &[Held]) -> bool {
        let asked = kept.iter().filter(|_| self.workload.deadline_check);
        let lost = asked.filter(|held| {
            let end = deadline_of(&held.guard);
            self.stop_believing(held, end);
            end.is_some()
        });
        lost.count() > 0
    }

    /// Reads, works, writes.
    async fn line(
        &self,
        host: &Host,
        guard: &Guard,
        order: &Name,
        item: Item,
        checkout: &mut dyn Transaction,
    ) -> Line {
        let seen = match checkout.look(item.sku).await {
            Ok(seen) => seen,
            Err(error) => return (Some(self.undone(guard, order, &[], error)), None),
        };
        if let Some(end) = self.work(host, guard).await {
            return (Some(OrderAnswer::Refused), Some(end));
        }
        let answer = match checkout.take(&seen, order).await {
            Ok(Outcome::Sold { .. }) => None,
            Ok(Outcome::SoldOut { .. }) => Some(OrderAnswer::SoldOut),
            Ok(Outcome::Conflict { .. }) => {
                let why = "it was changed since it was read".to_owned();
                Some(refused_by_database(&self.recorder, guard, order, &[seen], why))
            }
            Ok(Outcome::Busy | Outcome::BoughtBefore { .. }) => Some(OrderAnswer::Refused),
            Err(error) => Some(self.undone(guard, order, &[seen], error)),
        };
        (answer, None)
    }

    /// What the database refuses, only its client knows.
    fn undone(&self, guard: &Guard, order: &Name, seen: &[Seen], error: SellError) -> OrderAnswer {
        match error {
            SellError::RolledBack { code, message } => {
                let why = format!("{code} {message}");
                refused_by_database(&self.recorder, guard, order, seen, why)
            }
            SellError::Unreachable { .. } | SellError::Indeterminate { .. } => OrderAnswer::Refused,
        }
    }
}

/// Commits the order, if every line of it is written; what its buyer is told.
async fn ended(refused: Option<OrderAnswer>, checkout: &mut dyn Transaction) -> OrderAnswer {
    if let Some(answer) = refused {
        checkout.roll_back().await;
        return answer;
    }
    match checkout.commit().await {
        Ok(()) => OrderAnswer::Accepted,
        Err(SellError::Indeterminate { .. }) => OrderAnswer::Indeterminate,
        Err(SellError::Unreachable { .. } | SellError::RolledBack { .. }) => OrderAnswer::Refused,
    }
}
