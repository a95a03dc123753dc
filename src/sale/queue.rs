//! The queue between shelf and books: a stream with a consumer group, in the Redis of the
//! shelf.
//!
//! An entry is delivered at least once: to one consumer of the group, and, when that one
//! has said nothing for a while, to another. Whoever takes from it must therefore know an
//! entry that comes again. Nothing leaves the queue before it was acknowledged, and an
//! entry that makes no sense is put aside (`sale:{SKU}:refused`), not thrown away.
//!
//! It asks again and again instead of blocking, so that one connection serves everybody.

use std::time::Duration;

use redis::Value;
use redis::streams::{StreamAutoClaimReply, StreamId, StreamReadReply};

use super::shelf::{Shelf, ShelfError, key};
use super::{Buyer, OrderName, Sku, Wish};

/// The name of the one group: those who write into the books.
const GROUP: &str = "books";

/// An entry of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the queue; it is acknowledged by it.
    pub id: String,
    /// The order that the books are to have.
    pub wish: Wish,
}

/// The queue of one sku, as one consumer sees it.
#[derive(Clone, Debug)]
pub struct OrderQueue {
    shelf: Shelf,
    sku: Sku,
    consumer: String,
    /// After so much silence the entries of another consumer are taken over.
    abandoned: Duration,
    /// From where abandoned entries are looked for.
    cursor: String,
}

impl OrderQueue {
    /// The queue of `sku` at `shelf`, taken from under the name `consumer`, which should be
    /// the node's: whoever comes back under it finds what it had not finished.
    pub fn new(shelf: Shelf, sku: Sku, consumer: &str, abandoned: Duration) -> Self {
        let (consumer, cursor) = (consumer.to_owned(), "0-0".to_owned());
        OrderQueue { shelf, sku, consumer, abandoned, cursor }
    }

    /// Makes the group where there is none. What is in the queue already is delivered too.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    pub async fn open(&self) -> Result<(), ShelfError> {
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(self.key()).arg(GROUP).arg("0").arg("MKSTREAM");
        match self.shelf.ask::<Value>(&create).await {
            Err(ShelfError::Unreachable { reason }) if reason.contains("BUSYGROUP") => Ok(()),
            other => other.map(drop),
        }
    }

    /// Up to `most` entries that nobody has acknowledged: first those that others have
    /// abandoned, then new ones. None where there are none.
    ///
    /// # Errors
    /// Any [`ShelfError`]. After one the group may be gone with the server's memory: open it
    /// again.
    pub async fn next(&mut self, most: usize) -> Result<Vec<Entry>, ShelfError> {
        let mut claim = redis::cmd("XAUTOCLAIM");
        claim.arg(self.key()).arg(GROUP).arg(&self.consumer);
        claim.arg(u64::try_from(self.abandoned.as_millis()).unwrap_or(u64::MAX));
        claim.arg(&self.cursor).arg("COUNT").arg(most);
        let claimed: StreamAutoClaimReply = self.shelf.ask(&claim).await?;
        self.cursor = claimed.next_stream_id;
        let mut entries = self.understood(claimed.claimed).await?;
        if entries.len() < most {
            let mut read = redis::cmd("XREADGROUP");
            read.arg("GROUP").arg(GROUP).arg(&self.consumer);
            read.arg("COUNT").arg(most - entries.len()).arg("STREAMS").arg(self.key()).arg(">");
            let read: Option<StreamReadReply> = self.shelf.ask(&read).await?;
            let keys = read.map(|read| read.keys).unwrap_or_default();
            let new = keys.into_iter().flat_map(|key| key.ids).collect();
            entries.extend(self.understood(new).await?);
        }
        Ok(entries)
    }

    /// The books have it.
    ///
    /// # Errors
    /// Any [`ShelfError`]: the entry may come again.
    pub async fn acknowledge(&self, entry: &Entry) -> Result<(), ShelfError> {
        let mut ack = redis::cmd("XACK");
        ack.arg(self.key()).arg(GROUP).arg(&entry.id);
        self.shelf.ask::<i64>(&ack).await.map(drop)
    }

    /// How many entries were delivered and not acknowledged, and how many are in all.
    ///
    /// # Errors
    /// Any [`ShelfError`].
    pub async fn depth(&self) -> Result<(u64, u64), ShelfError> {
        let pending: Value =
            self.shelf.ask(redis::cmd("XPENDING").arg(self.key()).arg(GROUP)).await?;
        let pending = match pending {
            Value::Array(parts) => match parts.first() {
                Some(Value::Int(count)) => u64::try_from(*count).unwrap_or_default(),
                _ => 0,
            },
            _ => 0,
        };
        let all: u64 = self.shelf.ask(redis::cmd("XLEN").arg(self.key())).await?;
        Ok((pending, all))
    }

    async fn understood(&self, ids: Vec<StreamId>) -> Result<Vec<Entry>, ShelfError> {
        let mut entries = Vec::with_capacity(ids.len());
        for entry in ids {
            match self.wish(&entry) {
                Some(wish) => entries.push(Entry { id: entry.id, wish }),
                None => self.put_aside(&entry).await?,
            }
        }
        Ok(entries)
    }

    fn wish(&self, entry: &StreamId) -> Option<Wish> {
        let field = |name: &str| entry.get::<String>(name);
        Some(Wish {
            order: OrderName::new(field("order")?).ok()?,
            buyer: Buyer::new(field("buyer")?).ok()?,
            sku: self.sku.clone(),
        })
    }

    /// An entry of nobody's making: kept where people can look at it.
    async fn put_aside(&self, entry: &StreamId) -> Result<(), ShelfError> {
        let mut both = redis::pipe();
        both.atomic().cmd("RPUSH").arg(key(&self.sku, "refused")).arg(&entry.id).ignore();
        both.cmd("XACK").arg(self.key()).arg(GROUP).arg(&entry.id).ignore();
        self.shelf.ask_all(&both).await
    }

    fn key(&self) -> String {
        key(&self.sku, "orders")
    }
}
