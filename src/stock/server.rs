//! The stock on the network: one task for the port, one for each connection, one
//! [`Stock`] behind them all.
//!
//! The stock is outside of the server, so it survives the server's death as a
//! database survives its client library's; whoever wants it to die keeps no handle.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::fence::Shown;
use super::wire::{Lines, ReadError, Reply, Request};
use super::{Level, Sold, Stock};
use crate::host::{Host, Listener, Stream};

/// How many connections are served at once; more are told so and closed.
pub const MAX_CONNECTIONS: usize = 1024;

/// What the stock decided about one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Who asked, under which token.
    pub shown: &'a Shown,
    /// What was asked, and answered if it was accepted.
    pub operation: Decided<'a>,
    /// Why not, if it was refused.
    pub refusal: Option<String>,
}

impl Decision<'_> {
    /// Whether the operation was done.
    pub fn accepted(&self) -> bool {
        self.refusal.is_none()
    }
}

/// An operation with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided<'a> {
    /// A read, and what it saw; `None` if it was refused.
    Read(Option<Level>),
    /// A sale.
    Sell {
        /// The unit asked for.
        unit: u32,
        /// The order's name.
        order: &'a str,
        /// The order had this unit already: an answer from the books, no new effect.
        repeated: bool,
    },
}

/// Whoever watches a stock's server.
pub trait StockObserver: Send + Sync {
    /// Called at the instant at which an operation is decided, before its reply is
    /// written, while the stock is held: an observer must not call the stock.
    fn decided(&self, decision: &Decision<'_>);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl StockObserver for Unobserved {
    fn decided(&self, _decision: &Decision<'_>) {}
}

/// Serves a stock. Cloning gives another server of the same stock.
#[derive(Clone)]
pub struct StockServer {
    host: Host,
    port: u16,
    stock: Arc<Mutex<Stock>>,
    observer: Arc<dyn StockObserver>,
    connections: Arc<AtomicUsize>,
}

impl StockServer {
    /// A server of `stock` on `port` of `host`, watched by `observer`.
    pub fn new(
        host: Host,
        port: u16,
        stock: Arc<Mutex<Stock>>,
        observer: Arc<dyn StockObserver>,
    ) -> Self {
        StockServer { host, port, stock, observer, connections: Arc::default() }
    }

    /// Listens and serves, until it is dropped; connections that are open then are
    /// served to their end, as tasks of the host.
    ///
    /// # Errors
    /// When the port cannot be listened on.
    pub async fn run(&self) -> io::Result<()> {
        let listener = self.host.listen(self.port).await?;
        self.serve(&listener).await;
        Ok(())
    }

    /// Serves what `listener` accepts, for ever.
    pub async fn serve(&self, listener: &Listener) {
        loop {
            match listener.accept().await {
                Ok(stream) => {
                    let server = self.clone();
                    self.host.spawn("stock-connection", async move { server.attend(stream).await });
                }
                // Usually a lack of descriptors: trying at once would only spin.
                Err(_) => self.host.sleep(Duration::from_millis(10)).await,
            }
        }
    }

    async fn attend(&self, stream: Stream) {
        let mut lines = Lines::new(stream);
        let place = Place::take(&self.connections);
        let end = match place {
            Some(_) => self.converse(&mut lines).await,
            None => Err(ReadError::Malformed("too many connections".to_owned())),
        };
        if let Err(ReadError::Malformed(reason)) = end {
            // The peer may be gone; then there is nobody to tell.
            let _ = lines.write(&Reply::Error { reason }).await;
        }
        let _ = lines.finish().await;
    }

    /// Answers requests until the peer closes or makes no sense.
    async fn converse(&self, lines: &mut Lines) -> Result<(), ReadError> {
        while let Some(request) = lines.read::<Request>().await? {
            let reply = self.decide(&request);
            lines.write(&reply).await.map_err(ReadError::Io)?;
        }
        Ok(())
    }

    /// Does what is asked, tells the observer, and makes the reply.
    fn decide(&self, request: &Request) -> Reply {
        let shown = request.shown();
        // The stock's own methods leave the books whole wherever they may panic.
        let mut stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        let (operation, outcome) = match request {
            Request::Read { .. } => {
                let level = stock.read(&shown);
                let reply = level
                    .as_ref()
                    .map(|level| Reply::Level { left: level.left, next_unit: level.next_unit });
                (Decided::Read(level.as_ref().ok().copied()), reply.map_err(ToString::to_string))
            }
            Request::Sell { unit, order, .. } => {
                let sold = stock.sell(&shown, *unit, order);
                let repeated = sold == Ok(Sold::Already);
                let operation = Decided::Sell { unit: *unit, order, repeated };
                (operation, sold.map(|_| Reply::Sold).map_err(|refusal| refusal.to_string()))
            }
        };
        let refusal = outcome.as_ref().err().cloned();
        self.observer.decided(&Decision { shown: &shown, operation, refusal });
        drop(stock);
        outcome.unwrap_or_else(|reason| Reply::Refused { reason })
    }
}

impl std::fmt::Debug for StockServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StockServer").field("stock", &self.stock).finish_non_exhaustive()
    }
}

/// One of the [`MAX_CONNECTIONS`], given back when dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(connections: &Arc<AtomicUsize>) -> Option<Place> {
        let before = connections.fetch_add(1, Ordering::Relaxed);
        // Made before the check, so that a refusal gives its count back too.
        Some(Place(connections.clone())).filter(|_| before < MAX_CONNECTIONS)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
