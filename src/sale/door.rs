//! The door of an application node: buyers ask through it over the network, one JSON object a
//! line, as they do at the [stock](crate::stock::wire).
//!
//! ```text
//! → {"ask":"buy","order":"b7-1","buyer":"b7"}
//! ← {"answer":"served","step":"sold"}
//! → {"ask":"look","order":"b7-1"}
//! ← {"answer":"known","state":"unpaid"}
//! → {"ask":"pay","order":"b7-1"}
//! ← {"answer":"paid","in_time":true}
//! ```
//!
//! Whoever gets no answer may ask again, here or at another node: an order is known by its
//! name, also a payment.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counter::{Counter, Deduction};
use super::funnel::{Funnel, Step};
use super::orders::{OrderBooks, Payment, State};
use super::{Buyer, OrderName, Sku, Wish};
use crate::host::{Host, Stream};
use crate::stock::wire::{Lines, ReadError};

/// What a buyer asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// For a unit.
    Buy {
        /// By this name the order is known everywhere.
        order: OrderName,
        /// Who asks.
        buyer: Buyer,
    },
    /// What became of the order.
    Look {
        /// Which.
        order: OrderName,
    },
    /// To pay for it.
    Pay {
        /// For which.
        order: OrderName,
    },
}

/// What a buyer is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Told {
    /// What became of the request at the counter.
    Served {
        /// One of the steps of an answer.
        step: Step,
    },
    /// The order's state in the books; none where they do not know it (yet).
    Known {
        /// The state.
        state: Option<State>,
    },
    /// Whether the payment was taken.
    Paid {
        /// It was; otherwise there was nothing to pay for any more.
        in_time: bool,
    },
    /// The node could not ask the books: nobody knows.
    NotNow,
}

/// The door of one node.
#[derive(Debug)]
pub struct Door<D> {
    host: Host,
    port: u16,
    counter: Counter<D>,
    books: Arc<OrderBooks>,
    sku: Sku,
    funnel: Funnel,
}

impl<D: Deduction + 'static> Door<D> {
    /// A door on `port`, to `counter` and `books`, where `sku` is sold.
    pub fn new(
        host: Host,
        port: u16,
        counter: Counter<D>,
        books: Arc<OrderBooks>,
        sku: Sku,
        funnel: Funnel,
    ) -> Arc<Self> {
        Arc::new(Door { host, port, counter, books, sku, funnel })
    }

    /// Serves whoever comes, until it is dropped.
    ///
    /// # Errors
    /// When the port cannot be listened on.
    pub async fn run(self: Arc<Self>) -> io::Result<()> {
        let listener = self.host.listen(self.port).await?;
        loop {
            match listener.accept().await {
                Ok(stream) => {
                    let door = self.clone();
                    self.host.spawn("door", async move { door.attend(stream).await });
                }
                // Usually a lack of descriptors: trying at once would only spin.
                Err(_) => self.host.sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Answers until the peer closes or makes no sense.
    async fn attend(&self, stream: Stream) {
        let mut lines = Lines::new(stream);
        while let Ok(Some(ask)) = lines.read::<Ask>().await {
            let told = self.answer(ask).await;
            if lines.write(&told).await.is_err() {
                break;
            }
        }
        let _ = lines.finish().await;
    }

    async fn answer(&self, ask: Ask) -> Told {
        match ask {
            Ask::Buy { order, buyer } => {
                let wish = Wish { order, buyer, sku: self.sku.clone() };
                Told::Served { step: self.counter.serve(&wish).await }
            }
            Ask::Look { order } => match self.books.find(&order).await {
                Ok(state) => {
                    if state == Some(State::Unpaid) {
                        self.funnel.count(Step::Confirmed);
                    }
                    Told::Known { state }
                }
                Err(_) => Told::NotNow,
            },
            Ask::Pay { order } => match self.books.pay(&order).await {
                Ok(payment) => {
                    let in_time = payment == Payment::Taken;
                    if in_time {
                        self.funnel.count(Step::Paid);
                    }
                    Told::Paid { in_time }
                }
                Err(_) => Told::NotNow,
            },
        }
    }
}

/// A buyer's way to the doors. It keeps a connection between questions, and goes to the next
/// node after whatever went wrong.
#[derive(Debug)]
pub struct Caller {
    host: Host,
    doors: Vec<String>,
    /// Which of them is asked.
    at: usize,
    limit: Duration,
    lines: Option<Lines>,
}

impl Caller {
    /// A way to `doors`, each as name:port, of which one is chosen by a draw. An answer may
    /// take `limit`, as may connecting.
    pub fn new(host: Host, doors: Vec<String>, limit: Duration) -> Self {
        let at = usize::try_from(host.random("door") % doors.len().max(1) as u64).unwrap_or(0);
        Caller { host, doors, at, limit, lines: None }
    }

    /// Asks. `None` where no answer came: what was asked may have been done.
    pub async fn ask(&mut self, ask: &Ask) -> Option<Told> {
        let answer = self.exchange(ask).await;
        if answer.is_none() {
            self.lines = None;
            self.at = (self.at + 1) % self.doors.len().max(1);
        }
        answer
    }

    async fn exchange(&mut self, ask: &Ask) -> Option<Told> {
        let mut lines = match self.lines.take() {
            Some(lines) => lines,
            None => {
                let connect = self.host.connect(self.doors.get(self.at)?);
                Lines::new(self.host.timeout(self.limit, connect).await.ok()?.ok()?)
            }
        };
        let exchange = async {
            lines.write(ask).await.map_err(ReadError::Io)?;
            lines.read::<Told>().await
        };
        let told = self.host.timeout(self.limit, exchange).await.ok()?.ok()??;
        self.lines = Some(lines);
        Some(told)
    }
}
