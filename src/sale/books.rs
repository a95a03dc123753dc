//! The books: where an order is durable, once. Those of a sale are PostgreSQL's
//! ([`OrderBooks`](super::orders::OrderBooks)); here is what a writer asks of any.
//!
//! Orders come from a queue that delivers at least once, so the books must know an order
//! by its name: writing it twice is writing it once. And they know each buyer's unit of a
//! sku, which is the last line against selling to one buyer twice.

use std::sync::Arc;

use super::Wish;
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
    /// It has no unit: when it came, all were sold.
    SoldOut,
    /// It had a unit, and nobody paid for it in time.
    Lapsed,
}

impl Recorded {
    /// Whether the order has a unit: whoever kept one for it must keep it.
    pub fn has_unit(self) -> bool {
        matches!(self, Recorded::Now | Recorded::Already)
    }
}

/// Why an order is not in the books, as far as anybody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the books did not answer: {reason}")]
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
}

impl<B: Books + ?Sized> Books for Arc<B> {
    fn record<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Recorded, BooksError>> {
        (**self).record(wish)
    }
}
