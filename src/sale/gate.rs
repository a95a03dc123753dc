//! So many at once, and so many more who wait: what keeps a sale from taking all
//! connections of whatever stands behind it.
//!
//! A gate may also look at what stands behind it ([`Gate::closed_beyond`]): while somebody waits
//! there for too long, such as for a connection of a pool, nobody else is let in.
//!
//! Whoever would be one too many is told so at once, and whoever waited too long is told
//! that: a refusal that is quick costs a buyer less than an answer that comes too late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::host::Host;

/// Why somebody does not come through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// As many wait as may.
    #[error("too many wait already")]
    Queue,
    /// What stands behind the gate keeps others waiting for too long already.
    #[error("others wait too long already")]
    Pressed,
    /// Nobody left in time.
    #[error("no turn came in time")]
    Waited,
}

/// How long somebody has waited behind a gate, at present.
pub type Pressure = Arc<dyn Fn() -> Duration + Send + Sync>;

/// A gate; clones are the same one.
#[derive(Clone)]
pub struct Gate {
    host: Host,
    turns: Arc<Semaphore>,
    waiting: Arc<AtomicU32>,
    most_waiting: u32,
    patience: Duration,
    pressure: Option<(Pressure, Duration)>,
}

/// The right to be inside, until it is dropped.
#[derive(Debug)]
pub struct Pass {
    _permit: OwnedSemaphorePermit,
    /// How long it took to get in.
    pub waited: Duration,
}

/// One of those who wait, also where the future is dropped half-way.
struct Place(Arc<AtomicU32>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    /// `inside` at once (at least 1), `most_waiting` more who wait up to `patience`, in the
    /// order in which they came.
    pub fn new(host: Host, inside: u32, most_waiting: u32, patience: Duration) -> Self {
        Gate {
            host,
            turns: Arc::new(Semaphore::new(inside.max(1) as usize)),
            waiting: Arc::default(),
            most_waiting,
            patience,
            pressure: None,
        }
    }

    /// The same gate, closed to whoever comes while `pressure` is `limit` or more.
    #[must_use]
    pub fn closed_beyond(mut self, pressure: Pressure, limit: Duration) -> Self {
        self.pressure = Some((pressure, limit));
        self
    }

    /// How many wait now.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Goes in.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn enter(&self) -> Result<Pass, Full> {
        if self.pressure.as_ref().is_some_and(|(pressure, limit)| pressure() >= *limit) {
            return Err(Full::Pressed);
        }
        if let Ok(permit) = self.turns.clone().try_acquire_owned() {
            return Ok(Pass { _permit: permit, waited: Duration::ZERO });
        }
        let place = Place(self.waiting.clone());
        if place.0.fetch_add(1, Ordering::Relaxed) >= self.most_waiting {
            return Err(Full::Queue);
        }
        let since = self.host.monotonic();
        match self.host.timeout(self.patience, self.turns.clone().acquire_owned()).await {
            Ok(Ok(permit)) => {
                Ok(Pass { _permit: permit, waited: self.host.monotonic().saturating_sub(since) })
            }
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(Full::Waited),
        }
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Gate")
            .field("free", &self.turns.available_permits())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(inside: u32, waiting: u32, patience_ms: u64) -> Gate {
        Gate::new(Host::tokio("app-1"), inside, waiting, Duration::from_millis(patience_ms))
    }

    #[tokio::test(start_paused = true)]
    async fn one_too_many_is_told_at_once_and_one_who_waits_gets_the_turn() {
        let gate = gate(1, 1, 1_000);
        let inside = gate.enter().await.unwrap();
        let waits = tokio::spawn({
            let gate = gate.clone();
            async move { gate.enter().await }
        });
        tokio::task::yield_now().await;
        assert_eq!(gate.waiting(), 1);
        assert_eq!(gate.enter().await.unwrap_err(), Full::Queue);
        assert_eq!(gate.waiting(), 1);
        drop(inside);
        assert!(waits.await.unwrap().is_ok());
        assert_eq!(gate.waiting(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_or_loses_interest_leaves_the_queue() {
        let gate = gate(1, 2, 50);
        let _inside = gate.enter().await.unwrap();
        assert_eq!(gate.enter().await.unwrap_err(), Full::Waited);
        assert_eq!(gate.waiting(), 0);
        let dropped = gate.host.timeout(Duration::from_millis(5), gate.enter()).await;
        assert!(dropped.is_err());
        assert_eq!(gate.waiting(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_while_others_wait_behind_it_is_told_at_once() {
        let waited_ms = Arc::new(AtomicU32::new(0));
        let behind = waited_ms.clone();
        let pressure: Pressure =
            Arc::new(move || Duration::from_millis(behind.load(Ordering::Relaxed).into()));
        let gate = gate(2, 2, 50).closed_beyond(pressure, Duration::from_millis(20));
        assert!(gate.enter().await.is_ok());
        waited_ms.store(20, Ordering::Relaxed);
        assert_eq!(gate.enter().await.unwrap_err(), Full::Pressed);
        waited_ms.store(19, Ordering::Relaxed);
        assert!(gate.enter().await.is_ok());
    }
}
