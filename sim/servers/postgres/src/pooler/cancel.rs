//! Requests to cancel: handed on to the session that the client has, and to nobody else's.
//!
//! The connection for the request takes its time, and the statement may be over by then. So the
//! link is looked at again once the connection is there, and from then on the session is kept
//! from other clients until the server has closed that connection. If that is not seen in time,
//! nobody knows when the request will strike: the session ends.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Shared;
use super::pool::Lent;

/// A session in a client's use, as others see it.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// No other link has it.
    pub(super) serial: u64,
    /// Process and secret of the session.
    pub(super) key: (i32, i32),
    pub(super) cancels: Arc<Cancels>,
}

/// The requests that are on their way to a session.
#[derive(Debug, Default)]
pub(super) struct Cancels(Mutex<Under>);

#[derive(Debug, Default)]
struct Under {
    count: usize,
    /// One of them may still strike, whenever it gets there.
    is_astray: bool,
    /// The session, of which its client has no more need.
    kept: Option<Lent>,
}

/// One of these requests, until it is dropped.
struct Cancelling {
    cancels: Arc<Cancels>,
    /// The server has closed its connection.
    is_through: bool,
}

impl Cancels {
    fn under(&self) -> MutexGuard<'_, Under> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the session back, now or when the last request is through; ends it if one has
    /// gone astray.
    pub(super) fn give_back(&self, lent: Lent) {
        self.under().kept = Some(lent);
        self.settle();
    }

    fn settle(&self) {
        let mut under = self.under();
        let (is_astray, is_free) = (under.is_astray, under.count == 0);
        let kept = if is_astray || is_free { under.kept.take() } else { None };
        drop(under);
        match kept {
            Some(lent) if is_astray => drop(lent),
            Some(lent) => lent.give_back(),
            None => {}
        }
    }
}

impl Drop for Cancelling {
    fn drop(&mut self) {
        let mut under = self.cancels.under();
        under.count -= 1;
        under.is_astray |= !self.is_through;
        drop(under);
        self.cancels.settle();
    }
}

fn link(shared: &Shared, pid: i32, secret: i32) -> Option<Link> {
    let state = shared.state();
    let key = state.clients.get(&pid).filter(|key| key.secret == secret)?;
    key.link.clone()
}

/// Hands a client's request on, if it has a session by then.
pub(super) async fn cancel(shared: &Shared, pid: i32, secret: i32) {
    let Some(Link { serial, .. }) = link(shared, pid, secret) else { return };
    let connecting = shared.host.connect(&shared.settings.server);
    let connected = shared.host.timeout(shared.settings.connect_timeout, connecting).await;
    let Ok(Ok(mut stream)) = connected else { return };
    let (key, mut cancelling) = {
        // Who gives a session back takes the link away first.
        let state = shared.state();
        let key = state.clients.get(&pid).filter(|key| key.secret == secret);
        let link = key.and_then(|key| key.link.as_ref()).filter(|link| link.serial == serial);
        let Some(Link { key, cancels, .. }) = link else { return };
        cancels.under().count += 1;
        (*key, Cancelling { cancels: cancels.clone(), is_through: false })
    };
    let handed = shared.host.timeout(shared.settings.connect_timeout, hand_over(&mut stream, key));
    cancelling.is_through = matches!(handed.await, Ok(Ok(())));
}

/// Hands the request over. The server closes once it has done it; whether it did nobody is told.
async fn hand_over(stream: &mut Stream, key: (i32, i32)) -> io::Result<()> {
    let mut request = Vec::new();
    for number in [16, (1_234 << 16) | 5_678, key.0, key.1] {
        request.extend_from_slice(&i32::to_be_bytes(number));
    }
    stream.write_all(&request).await?;
    stream.flush().await?;
    while stream.read(&mut [0; 64]).await? > 0 {}
    Ok(())
}
