//! The books: where an order is durable, once.
//!
//! Orders come from a queue that delivers at least once, so the books must know an order
//! by its name: writing it twice is writing it once. And they know each buyer's unit of a
//! sku, which is the last line against selling to one buyer twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Buyer, OrderName, Sku, Wish};
use crate::host::BoxFuture;

/// How an order got into the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is there now.
    Now,
    /// It was there before.
    Already,
    /// It is not, and never will be: the buyer has this sku under another order.
    OtherOrder,
}

/// Why an order is not in the books, as far as anybody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the books took no order: {reason}")]
pub struct BooksError {
    /// What went wrong, for people.
    pub reason: String,
}

/// Books of a sale.
pub trait Books: Send + Sync {
    /// Writes the order down. Whoever is told that it went wrong asks again: it may be in
    /// the books.
    ///
    /// # Errors
    /// [`BooksError`].
    fn record<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Recorded, BooksError>>;

    /// Takes the order out again, because nobody paid for it; no error where it is not there.
    ///
    /// # Errors
    /// [`BooksError`].
    fn strike<'a>(&'a self, order: &'a OrderName) -> BoxFuture<'a, Result<(), BooksError>>;
}

/// Books in memory; clones are the same ones.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    orders: BTreeMap<OrderName, (Buyer, Sku)>,
    of_buyer: BTreeMap<(Buyer, Sku), OrderName>,
}

impl Ledger {
    /// All orders, by name.
    pub fn orders(&self) -> Vec<Wish> {
        let wish = |(order, (buyer, sku)): (&OrderName, &(Buyer, Sku))| Wish {
            order: order.clone(),
            buyer: buyer.clone(),
            sku: sku.clone(),
        };
        self.written().orders.iter().map(wish).collect()
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books for Ledger {
    fn record<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Recorded, BooksError>> {
        let mut written = self.written();
        let whose = (wish.buyer.clone(), wish.sku.clone());
        let recorded = match written.of_buyer.get(&whose) {
            Some(order) if *order == wish.order => Recorded::Already,
            Some(_) => Recorded::OtherOrder,
            None => {
                written.orders.insert(wish.order.clone(), whose.clone());
                written.of_buyer.insert(whose, wish.order.clone());
                Recorded::Now
            }
        };
        drop(written);
        Box::pin(std::future::ready(Ok(recorded)))
    }

    fn strike<'a>(&'a self, order: &'a OrderName) -> BoxFuture<'a, Result<(), BooksError>> {
        let mut written = self.written();
        if let Some(whose) = written.orders.remove(order) {
            written.of_buyer.remove(&whose);
        }
        drop(written);
        Box::pin(std::future::ready(Ok(())))
    }
}
