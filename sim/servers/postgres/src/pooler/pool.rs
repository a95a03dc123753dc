//! The sessions of one user at one database, and who waits for one.
//!
//! All wait in one queue, in order of asking, for whichever session is free first. One
//! connection is opened at a time, by nobody's task: who waits is refused only if it failed
//! while there is no other session that could come free.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lockstorm::Host;
use tokio::sync::oneshot;

use super::PoolerSettings;
use super::backend::Backend;
use crate::codec;
use crate::error::SqlError;

/// What a client is told for good: an error as a server sends it.
pub(super) type Refusal = Vec<u8>;

/// The pooler's own.
pub(super) fn refusal(told: &str) -> Refusal {
    let mut bytes = Vec::new();
    codec::error(&mut bytes, &SqlError::fatal("08P01", told), "");
    bytes
}

#[derive(Debug)]
pub(super) struct Pool {
    host: Host,
    settings: PoolerSettings,
    user: String,
    database: String,
    sessions: Mutex<Sessions>,
    /// What the first session reported of its parameters.
    reported: OnceLock<BTreeMap<String, String>>,
}

#[derive(Debug, Default)]
struct Sessions {
    /// In nobody's use, the last used last.
    idle: Vec<Backend>,
    /// How many there are, those in use with them.
    open: usize,
    is_dialling: bool,
    waiters: VecDeque<oneshot::Sender<Result<Lent, Refusal>>>,
}

/// A session in a client's use. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Lent {
    /// `None` once it is given back.
    backend: Option<Backend>,
    pool: Arc<Pool>,
}

/// Who waits for a session. One that has come when it leaves is as it came.
struct Waiting(oneshot::Receiver<Result<Lent, Refusal>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.close();
        if let Ok(Ok(lent)) = self.0.try_recv() {
            lent.give_back();
        }
    }
}

impl Pool {
    pub(super) fn new(
        host: Host,
        settings: PoolerSettings,
        user: &str,
        database: &str,
    ) -> Arc<Pool> {
        let (user, database) = (user.to_owned(), database.to_owned());
        let (sessions, reported) = (Mutex::default(), OnceLock::new());
        Arc::new(Pool { host, settings, user, database, sessions, reported })
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a client is told of the server's parameters; the first one waits for a session.
    pub(super) async fn welcome(self: &Arc<Self>) -> Result<BTreeMap<String, String>, Refusal> {
        if let Some(reported) = self.reported.get() {
            return Ok(reported.clone());
        }
        let mut lent = self.lend().await?;
        let parameters = lent.backend().map(|backend| backend.parameters.clone());
        let reported = self.reported.get_or_init(|| parameters.unwrap_or_default()).clone();
        lent.give_back();
        Ok(reported)
    }

    /// A session, in order of asking: the one that was used last, or a new one.
    pub(super) async fn lend(self: &Arc<Self>) -> Result<Lent, Refusal> {
        let (waiter, answer) = oneshot::channel();
        let mut waiting = Waiting(answer);
        self.sessions().waiters.push_back(waiter);
        self.advance();
        match self.host.timeout(self.settings.wait_timeout, &mut waiting.0).await {
            Ok(Ok(lent)) => lent,
            // Nobody drops a waiter who still waits.
            Ok(Err(_)) => Err(refusal("the pooler is shut down")),
            Err(_) => Err(refusal("query_wait_timeout")),
        }
    }

    /// Gives what is free to those who wait; if nothing is, opens a connection.
    fn advance(self: &Arc<Self>) {
        loop {
            let mut sessions = self.sessions();
            sessions.waiters.retain(|waiter| !waiter.is_closed());
            if sessions.waiters.is_empty() {
                return;
            }
            let Some(mut backend) = sessions.idle.pop() else {
                if !sessions.is_dialling && sessions.open < self.settings.pool_size {
                    sessions.is_dialling = true;
                    drop(sessions);
                    self.dial();
                }
                return;
            };
            if !backend.is_alive() {
                sessions.open -= 1;
                continue;
            }
            let Some(waiter) = sessions.waiters.pop_front() else { return };
            drop(sessions);
            let lent = Lent { backend: Some(backend), pool: self.clone() };
            if let Err(Ok(mut lent)) = waiter.send(Ok(lent)) {
                // It has left this moment.
                self.sessions().idle.extend(lent.backend.take());
            }
        }
    }

    fn dial(self: &Arc<Self>) {
        let pool = self.clone();
        self.host.spawn("pooler-server", async move {
            let dialled = Backend::dial(&pool.host, &pool.settings, &pool.user, &pool.database);
            let dialled = pool.host.timeout(pool.settings.connect_timeout, dialled).await;
            let late = |_| Err(refusal("pgbouncer cannot connect to server"));
            pool.dialled(dialled.unwrap_or_else(late));
        });
    }

    fn dialled(self: &Arc<Self>, dialled: Result<Backend, Refusal>) {
        let mut sessions = self.sessions();
        sessions.is_dialling = false;
        match dialled {
            Ok(backend) => {
                sessions.open += 1;
                sessions.idle.push(backend);
                drop(sessions);
                self.advance();
            }
            Err(told) if sessions.open == 0 => {
                let waiters = std::mem::take(&mut sessions.waiters);
                drop(sessions);
                for waiter in waiters {
                    // Whoever has left needs no answer.
                    let _ = waiter.send(Err(told.clone()));
                }
            }
            // The sessions in use come free, or their ends have others opened.
            Err(_) => {}
        }
    }
}

impl Lent {
    pub(super) fn backend(&mut self) -> Option<&mut Backend> {
        self.backend.as_mut()
    }

    /// Between transactions: the next client may have it.
    pub(super) fn give_back(mut self) {
        if let Some(backend) = self.backend.take() {
            self.pool.sessions().idle.push(backend);
            self.pool.advance();
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(backend) = self.backend.take() {
            // It ends before another is opened in its place.
            drop(backend);
            self.pool.sessions().open -= 1;
            self.pool.advance();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    #[test]
    fn a_session_that_comes_for_somebody_who_leaves_is_free() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let host = Host::tokio("pooler-1");
            let server = host.listen(0).await.unwrap();
            let stream = host.connect(&format!("127.0.0.1:{}", server.port())).await.unwrap();
            let _accepted = server.accept().await.unwrap();
            let (input, parameters) = (Vec::new(), BTreeMap::new());
            let backend = Backend { stream, input, parameters, key: (7, 7) };
            let pool = Pool::new(host, PoolerSettings::default(), "one", "one");
            *pool.sessions() =
                Sessions { idle: vec![backend], open: 1, is_dialling: true, ..Sessions::default() };
            let lent = pool.lend().await.unwrap();
            let mut waits = Box::pin(pool.lend());
            assert!(
                poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_pending())).await
            );
            lent.give_back();
            drop(waits);
            let sessions = pool.sessions();
            assert_eq!((sessions.open, sessions.idle.len()), (1, 1));
        });
    }
}
