//! Takes orders from the queue and writes them into the books: at least once delivered,
//! once written.
//!
//! An order is acknowledged only after the books have it. A writer that dies in between
//! leaves it to the next, whose writing changes nothing ([`Recorded::Already`]). The unit of an
//! order that the books do not take goes back on the shelf before that.

use std::time::Duration;

use super::books::{Books, BooksError, Recorded};
use super::funnel::{Funnel, Step};
use super::queue::{Entry, OrderQueue};
use super::shelf::{Shelf, ShelfError};
use crate::host::Host;

/// How a writer works.
#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// How many orders it takes at once, at least 1.
    pub batch: usize,
    /// How long it waits when there are none, or when something went wrong.
    pub pause: Duration,
    /// Whether it acknowledges only what the books have. Without it an order is
    /// acknowledged as it is taken, and one that the books then refuse, or whose writer
    /// dies, is lost: how it must not be done.
    pub acknowledges_late: bool,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions { batch: 16, pause: Duration::from_millis(20), acknowledges_late: true }
    }
}

/// Why a step did not go to its end. What was not acknowledged comes again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriterError {
    /// The queue.
    #[error(transparent)]
    Queue(#[from] ShelfError),
    /// The books.
    #[error(transparent)]
    Books(#[from] BooksError),
}

/// Writes orders into the books.
#[derive(Debug)]
pub struct OrderWriter<B> {
    host: Host,
    shelf: Shelf,
    queue: OrderQueue,
    books: B,
    funnel: Funnel,
    options: WriterOptions,
}

impl<B: Books> OrderWriter<B> {
    /// From `queue`, which is beside `shelf`, into `books`.
    pub fn new(
        shelf: Shelf,
        queue: OrderQueue,
        books: B,
        funnel: Funnel,
        options: WriterOptions,
    ) -> Self {
        let host = shelf.host().clone();
        OrderWriter { host, shelf, queue, books, funnel, options }
    }

    /// Writes until the task is dropped.
    pub async fn run(mut self) {
        let mut is_open = false;
        loop {
            let written = match is_open {
                true => self.step().await,
                false => self.queue.open().await.map(|()| 0).map_err(WriterError::from),
            };
            match written {
                Ok(1..) => continue,
                Ok(0) if !is_open => is_open = true,
                Ok(0) => self.host.sleep(self.options.pause).await,
                // A server that lost its memory has lost the group.
                Err(_) => {
                    is_open = false;
                    self.host.sleep(self.options.pause).await;
                }
            }
        }
    }

    /// Takes one batch and writes it. How many orders.
    ///
    /// # Errors
    /// Any [`WriterError`].
    pub async fn step(&mut self) -> Result<usize, WriterError> {
        let batch = self.queue.next(self.options.batch.max(1)).await?;
        for entry in &batch {
            if !self.options.acknowledges_late {
                self.queue.acknowledge(entry).await?;
            }
            self.write(entry).await?;
            if self.options.acknowledges_late {
                self.queue.acknowledge(entry).await?;
            }
        }
        Ok(batch.len())
    }

    async fn write(&self, entry: &Entry) -> Result<(), WriterError> {
        let recorded = self.books.record(&entry.wish).await?;
        self.funnel.count(match recorded {
            Recorded::Now => Step::Written,
            Recorded::Already | Recorded::Lapsed => Step::Rewritten,
            Recorded::OtherOrder | Recorded::SoldOut => Step::Unwritten,
        });
        if !recorded.has_unit() {
            self.shelf.give_back(&entry.wish).await?;
        }
        Ok(())
    }
}
