//! A running server: recovery, its port, its tasks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::{Listener, Stream};

use super::observe::{Observation, Observer};
use super::replication;
use super::session;
use super::session::block::flush;
use super::settings::Settings;
use super::state::{Shared, kept_rows, rows_of};
use super::wal;
use lockstorm_machine::disk::Files;

/// How long a listener that failed is left alone.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// The file whose presence makes a server a standby.
pub(super) const STANDBY_SIGNAL: &str = "standby.signal";

/// A PostgreSQL server that has not been started.
pub struct Server(Arc<Shared>);

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Server").field(&self.0.host).finish()
    }
}

/// A door to a running server, for whoever fails it over.
#[derive(Clone)]
pub struct Control(Arc<Shared>);

impl std::fmt::Debug for Control {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Control").field(&self.0.host).finish()
    }
}

impl Control {
    /// Makes a standby a primary, as `pg_promote()` and `pg_ctl promote` do: it stops
    /// following, and takes writes once it has replayed what it has. False: it is no standby.
    pub fn promote(&self) -> bool {
        self.0.ask_for_promotion()
    }

    /// Whether it follows a primary.
    pub fn is_standby(&self) -> bool {
        self.0.is_standby()
    }

    /// The end of its log, bytes: of a standby, what it has replayed.
    pub fn position(&self) -> u64 {
        let state = self.0.lock();
        if state.is_standby { state.replayed } else { state.wal.end() }
    }

    /// The rows of a table that have been committed, their columns as text; none if there is
    /// no such table.
    pub fn rows(&self, table: &str) -> Vec<Vec<(String, Option<String>)>> {
        rows_of(&self.0.lock(), table)
    }

    /// Its timeline: each promotion begins another.
    pub fn timeline(&self) -> u64 {
        self.0.lock().wal.timeline
    }

    /// From now on it is only looked at, by [visitors](Control::visit): its world stands still at
    /// this `instant`, a clause for people (`behind event 834`).
    pub fn freeze(&self, instant: &str) {
        let _ = self.0.frozen.set(instant.into());
    }

    /// Serves a visitor until either side ends it. Writes are refused with 25006, whatever waits
    /// with 55P03.
    pub async fn visit(self, stream: Stream) {
        session::serve(self.0, stream).await;
    }

    /// Whether the server has ended, by itself or with its program.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// Whether it has read its log, and takes clients.
    pub fn is_ready(&self) -> bool {
        self.0.lock().is_ready
    }

    /// How many standbys follow it, by its own account.
    pub fn standbys(&self) -> usize {
        self.0.lock().standbys.len()
    }

    /// How many sessions it has.
    pub fn sessions(&self) -> usize {
        self.0.lock().backends.len()
    }
}

/// Ends the server's tasks with the future that runs it.
struct EndOnDrop(Arc<Shared>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Server {
    /// A server on the machine `host`, whose data are in `files`; `observer` is told what
    /// happens inside. With empty files and [`Settings::primary`] it becomes a standby, and
    /// stays one over restarts until it is promoted.
    pub fn new(
        host: Host,
        settings: Settings,
        files: Files,
        observer: Arc<dyn Observer>,
    ) -> Server {
        Server(Shared::new(host, settings, files, observer))
    }

    /// The door to it.
    pub fn control(&self) -> Control {
        Control(self.0.clone())
    }

    /// Recovers, then serves until dropped. Dropping the future ends every connection, and
    /// with it whatever was not in the files: a crash of the process.
    ///
    /// # Errors
    /// When the port cannot be listened on, or the files cannot be read or written.
    pub async fn run(self) -> io::Result<()> {
        let listener = self.0.host.listen(self.0.settings.port).await?;
        self.run_on(listener).await
    }

    /// Serves on a listener that is there already, for callers that chose port 0.
    ///
    /// # Errors
    /// When the files cannot be read or written.
    pub async fn run_on(self, listener: Listener) -> io::Result<()> {
        let shared = self.0;
        let _end = EndOnDrop(shared.clone());
        let accepting = accept(&shared, &listener);
        let working = work(&shared);
        let (mut accepting, mut working) = (std::pin::pin!(accepting), std::pin::pin!(working));
        std::future::poll_fn(|context| {
            // Neither ends but by a failure; whoever comes too early is told so.
            if let std::task::Poll::Ready(ended) = working.as_mut().poll(context) {
                return std::task::Poll::Ready(ended);
            }
            let _: std::task::Poll<()> = accepting.as_mut().poll(context);
            std::task::Poll::Pending
        })
        .await
    }
}

async fn accept(shared: &Arc<Shared>, listener: &Listener) {
    loop {
        match listener.accept().await {
            Ok(stream) => serve(shared, stream),
            // Out of descriptors, or the peer is gone already.
            Err(_) => shared.host.sleep(ACCEPT_RETRY).await,
        }
    }
}

fn serve(shared: &Arc<Shared>, stream: Stream) {
    let id = shared.lock().draw_task();
    shared.spawn("postgres-backend", id, session::serve(shared.clone(), stream));
}

/// Recovery, then what the server does without being asked.
async fn work(shared: &Arc<Shared>) -> io::Result<()> {
    recover(shared).await?;
    let id = shared.lock().draw_task();
    if shared.lock().is_standby {
        shared.spawn("postgres-walreceiver", id, replication::follow(shared.clone()));
    }
    loop {
        let mut asked = std::pin::pin!(shared.writer.notified());
        let mut failed = std::pin::pin!(shared.progress.notified());
        std::future::poll_fn(|context| {
            if asked.as_mut().poll(context).is_ready() || failed.as_mut().poll(context).is_ready() {
                return std::task::Poll::Ready(());
            }
            std::task::Poll::Pending
        })
        .await;
        {
            let state = shared.lock();
            if state.has_failed {
                return Err(io::Error::other("the write-ahead log cannot be written"));
            }
            if state.wal.flushed >= state.wal.end() {
                continue;
            }
        }
        shared.host.sleep(shared.settings.wal_writer_delay).await;
        let end = shared.lock().wal.end();
        if flush(shared, end).await.is_err() {
            return Err(io::Error::other("the write-ahead log cannot be written"));
        }
    }
}

/// Reads the log, up to where it is whole.
async fn recover(shared: &Arc<Shared>) -> io::Result<()> {
    let names = shared.files.names();
    let has = |name: &str| names.iter().any(|known| known == name);
    let bytes = match has(wal::FILE) {
        true => shared.files.read(wal::FILE).await?,
        false => Vec::new(),
    };
    if !has(wal::FILE) && shared.settings.primary.is_some() {
        shared.files.append(STANDBY_SIGNAL, b"\n")?;
        shared.files.sync(STANDBY_SIGNAL).await?;
    }
    let is_standby = shared.files.names().iter().any(|name| name == STANDBY_SIGNAL);
    let (mut at, mut transactions) = (0, 0);
    {
        let mut state = shared.lock();
        state.wal.timeline = 1;
        while let Some((record, length)) = wal::decode(&bytes[at..]) {
            at += length;
            transactions += u64::from(matches!(record, wal::Record::Commit { .. }));
            state.replay(record);
        }
        state.wal.append_bytes(&bytes[..at]);
    }
    let torn_bytes = (bytes.len() - at) as u64;
    if torn_bytes > 0 {
        shared.files.truncate(wal::FILE, at as u64)?;
    }
    if has(wal::FILE) {
        // What the kernel had may not have been on the disk when the process died.
        shared.files.sync(wal::FILE).await?;
    } else {
        shared.files.append(wal::FILE, b"")?;
        shared.files.sync(wal::FILE).await?;
    }
    let mut state = shared.lock();
    state.wal.written = at as u64;
    state.wal.flushed = at as u64;
    state.replayed = at as u64;
    shared.set_standby(&mut state, is_standby);
    state.is_ready = true;
    let rows = kept_rows(&shared.settings, &state);
    let told = Observation::Recovered {
        position: at as u64,
        transactions,
        torn_bytes,
        standby: is_standby,
        rows: &rows,
    };
    shared.observer.observe(&told);
    Ok(())
}
