//! The stock from another machine: asks, waits a limited time, and connects again
//! after whatever went wrong.

use std::time::Duration;

use super::Level;
use super::fence::Shown;
use super::wire::{Lines, ReadError, Reply, Request};
use crate::host::Host;

/// Why an operation has no answer, or not the one hoped for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StockError {
    /// The stock said no: nothing was done.
    #[error("the stock refused: {reason}")]
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// The stock could not be asked: nothing was done.
    #[error("the stock cannot be reached: {reason}")]
    Unreachable {
        /// What went wrong, for people.
        reason: String,
    },
    /// It was, or may have been, asked, and no answer came: a sale may stand. Asking
    /// again for the same order is safe and tells.
    #[error("the stock did not answer: {reason}")]
    Indeterminate {
        /// What went wrong, for people.
        reason: String,
    },
}

/// A client of one stock. It keeps a connection between operations.
#[derive(Debug)]
pub struct StockClient {
    host: Host,
    address: String,
    limit: Duration,
    /// Taken out while an operation is under way, so that one which is given up
    /// half-way never leaves its reply to the next.
    lines: Option<Lines>,
}

impl StockClient {
    /// A client of the stock at `address` (`name:port`). Connecting, and separately
    /// each operation, may take `limit` of the host's monotonic time.
    pub fn new(host: Host, address: impl Into<String>, limit: Duration) -> Self {
        StockClient { host, address: address.into(), limit, lines: None }
    }

    /// Which units are left, asked under the grant of `shown`.
    ///
    /// # Errors
    /// Any [`StockError`].
    pub async fn read(&mut self, shown: &Shown) -> Result<Level, StockError> {
        match self.ask(&Request::read(shown)).await? {
            Reply::Level { left, next_unit } => Ok(Level { left, next_unit }),
            other => Err(self.surprised(&other)),
        }
    }

    /// Sells `unit` under `order`. The same order may be asked for again.
    ///
    /// # Errors
    /// Any [`StockError`].
    pub async fn sell(&mut self, shown: &Shown, unit: u32, order: &str) -> Result<(), StockError> {
        match self.ask(&Request::sell(shown, unit, order)).await? {
            Reply::Sold => Ok(()),
            other => Err(self.surprised(&other)),
        }
    }

    async fn ask(&mut self, request: &Request) -> Result<Reply, StockError> {
        let mut lines = match self.lines.take() {
            Some(lines) => lines,
            None => self.connect().await?,
        };
        let exchange = async {
            lines.write(request).await.map_err(|error| error.to_string())?;
            match lines.read::<Reply>().await {
                Ok(Some(reply)) => Ok(reply),
                Ok(None) => Err("the connection was closed".to_owned()),
                Err(ReadError::Io(error)) => Err(error.to_string()),
                Err(ReadError::Malformed(reason)) => Err(format!("no reply: {reason}")),
            }
        };
        match self.host.timeout(self.limit, exchange).await {
            Ok(Ok(Reply::Refused { reason })) => {
                self.lines = Some(lines);
                Err(StockError::Refused { reason })
            }
            // The server closes after this.
            Ok(Ok(Reply::Error { reason })) => Err(StockError::Refused { reason }),
            Ok(Ok(reply)) => {
                self.lines = Some(lines);
                Ok(reply)
            }
            Ok(Err(reason)) => Err(StockError::Indeterminate { reason }),
            Err(_) => Err(StockError::Indeterminate {
                reason: format!("no reply within {:?}", self.limit),
            }),
        }
    }

    async fn connect(&self) -> Result<Lines, StockError> {
        let reason = match self.host.timeout(self.limit, self.host.connect(&self.address)).await {
            Ok(Ok(stream)) => return Ok(Lines::new(stream)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no connection to {} within {:?}", self.address, self.limit),
        };
        Err(StockError::Unreachable { reason })
    }

    /// A reply that belongs to another question: nothing on this connection can be trusted.
    fn surprised(&mut self, reply: &Reply) -> StockError {
        self.lines = None;
        StockError::Indeterminate { reason: format!("an answer that makes no sense: {reply:?}") }
    }
}
