//! A bug that hangs on the order of two tasks of one node which one instant wakes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockstorm::lock::{Lock, Release};
use tokio::sync::{Notify, oneshot};

use super::Half;
use super::desk::{Ask, Desk};
use super::recipe::{Held, Recipe, lock};
use super::renewal::{Renewal, Renewer};

/// A release is passed on by two clerks: the bookkeeper enters it among those that are to be
/// sent, the sender sends what is entered there. One call wakes both. As long as they run in
/// the order in which they began to wait, all is well; the other way round, the sender finds
/// nothing and waits for the next release, which never comes, for the record is renewed until
/// it is sent. In the twin the bookkeeper wakes the sender.
pub(super) fn lost_hand_over(desk: Desk, half: Half) -> Arc<dyn Lock> {
    let office = Arc::new(Office { half, ..Office::default() });
    let (books, sending, at) = (office.clone(), office.clone(), desk.clone());
    desk.host.spawn("bookkeeper", async move { books.keep_books().await });
    desk.host.spawn("sender", async move { sending.send_what_is_entered(&at).await });
    lock(desk, Passed(office))
}

/// A release on its way.
struct Order {
    ask: Ask,
    renewal: Arc<Renewal>,
    done: oneshot::Sender<Release>,
}

struct Office {
    half: Half,
    /// Given by those who release.
    given: Mutex<Vec<Order>>,
    /// Entered by the bookkeeper.
    entered: Mutex<Vec<Order>>,
    was_given: Notify,
    was_entered: Notify,
}

impl Default for Office {
    fn default() -> Self {
        Office {
            half: Half::Planted,
            given: Mutex::default(),
            entered: Mutex::default(),
            was_given: Notify::new(),
            was_entered: Notify::new(),
        }
    }
}

impl Office {
    async fn keep_books(&self) {
        loop {
            self.was_given.notified().await;
            let given = taken(&self.given);
            self.entered.lock().unwrap_or_else(PoisonError::into_inner).extend(given);
            if self.half.is_mended() {
                self.was_entered.notify_one();
            }
        }
    }

    async fn send_what_is_entered(&self, desk: &Desk) {
        loop {
            match self.half {
                Half::Planted => self.was_given.notified().await,
                Half::Mended => self.was_entered.notified().await,
            }
            for Order { ask, renewal, done } in taken(&self.entered) {
                let release = desk.give_back(&ask).await;
                renewal.end();
                // Whoever does not wait any more need not know.
                let _ = done.send(release);
            }
        }
    }

    fn give(&self, order: Order) {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        self.was_given.notify_waiters();
    }
}

fn taken(orders: &Mutex<Vec<Order>>) -> Vec<Order> {
    std::mem::take(&mut *orders.lock().unwrap_or_else(PoisonError::into_inner))
}

struct Passed(Arc<Office>);

impl Recipe for Passed {
    fn held(&self, desk: &Desk, ask: &Ask, asked_at: Duration) -> Held {
        let renewal = Renewal::begin(desk, ask, asked_at, Renewer::default(), || {});
        let (office, at, asked, renewing) =
            (self.0.clone(), desk.clone(), ask.clone(), renewal.clone());
        let given_back = Held::given_back_by(desk, move || {
            let (done, heard) = oneshot::channel();
            let (ask, renewal) = (asked.clone(), renewing.clone());
            let (office, desk) = (office.clone(), at.clone());
            Box::pin(async move {
                office.give(Order { ask, renewal, done });
                let patience = 4 * desk.lock.command_timeout.to_duration();
                match desk.host.timeout(patience, heard).await {
                    Ok(Ok(release)) => release,
                    _ => Release::Indeterminate { reason: "the sender says nothing".to_owned() },
                }
            })
        });
        Held { renewal: Some(renewal), renewal_ends: false, ..given_back }
    }
}
