//! What a server has in memory, and who shares it.
//!
//! One mutex guards all of it. It is never held across an await.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Task;
use tokio::sync::Notify;

use super::ensemble::{Following, Leading, Looking, Mail, Vote};
use super::observe::{Observation, Observer};
use super::pipeline::Pipeline;
use super::prepare::Outstanding;
use super::records::Identity;
use super::session::{Tracker, first_session};
use super::settings::{Ensemble, Settings};
use super::store::Store;
use super::transaction::Transaction;
use super::tree::Tree;
use super::watch::Watches;

/// What every task of a server shares.
pub(super) struct Shared {
    pub(super) host: Host,
    pub(super) settings: Settings,
    pub(super) ensemble: Ensemble,
    pub(super) store: Store,
    pub(super) observer: Arc<dyn Observer>,
    state: Mutex<State>,
    /// Something that tasks wait for may have come about: a quorum, an idle log, the end of
    /// a role.
    pub(super) changed: Notify,
    /// There is something to log.
    pub(super) to_log: Notify,
    tasks: Mutex<Option<BTreeMap<u64, Task>>>,
    next_task: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        host: Host,
        settings: Settings,
        ensemble: Ensemble,
        store: Store,
        observer: Arc<dyn Observer>,
    ) -> Arc<Shared> {
        let state = State::new(first_session(ensemble.me, host.monotonic()));
        Arc::new(Shared {
            host,
            settings,
            ensemble,
            store,
            observer,
            state: Mutex::new(state),
            changed: Notify::new(),
            to_log: Notify::new(),
            tasks: Mutex::new(Some(BTreeMap::new())),
            next_task: AtomicU64::new(1),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, observation: &Observation<'_>) {
        self.observer.observe(observation);
    }

    /// The wall clock, Unix milliseconds.
    pub(super) fn wall_ms(&self) -> i64 {
        i64::try_from(self.host.wall().as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns once `condition` says something about the state. It is asked again whenever
    /// [`changed`](Shared::changed) is told.
    pub(super) async fn until<T>(&self, mut condition: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = condition(&mut self.lock()) {
                return found;
            }
            changed.await;
        }
    }

    /// Spawns a task that ends with the server, and tells its number.
    pub(super) fn spawn(
        self: &Arc<Self>,
        group: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> u64 {
        let id = self.next_task.fetch_add(1, Ordering::Relaxed);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // None: the server is ending.
        let Some(tasks) = tasks.as_mut() else { return id };
        let shared = self.clone();
        let task = self.host.spawn(group, async move {
            future.await;
            let mut tasks = shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(tasks) = tasks.as_mut() {
                tasks.remove(&id);
            }
        });
        tasks.insert(id, task);
        id
    }

    /// Ends one task at its next suspension.
    pub(super) fn stop(&self, id: u64) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let task = tasks.as_mut().and_then(|tasks| tasks.remove(&id));
        drop(tasks);
        if let Some(task) = task {
            task.abort();
        }
    }

    /// Whether the server has ended.
    pub(super) fn is_over(&self) -> bool {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Ends every task of this server.
    pub(super) fn end(&self) {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        for task in tasks.into_iter().flatten() {
            task.1.abort();
        }
    }

    /// The server cannot go on: its disk failed. As ZooKeeper's process does, it ends.
    pub(super) fn fail(&self, error: io::Error) {
        self.lock().failure.get_or_insert(error);
        self.changed.notify_waiters();
    }
}

/// What a server is at the moment.
pub(super) enum Role {
    /// It reads its disk.
    Starting,
    /// It stands alone.
    Alone,
    /// It looks for a leader.
    Looking(Box<Looking>),
    /// It leads, or is about to.
    Leading(Box<Leading>),
    /// It follows, or is about to.
    Following(Box<Following>),
}

/// What is to be written to the log.
#[derive(Debug, Default)]
pub(super) struct LogQueue {
    pub(super) queue: VecDeque<Arc<Transaction>>,
    /// A batch is on its way to the disk.
    pub(super) is_writing: bool,
    /// The next batch begins a new file.
    pub(super) rolls: bool,
}

impl LogQueue {
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.is_writing
    }
}

/// Counters that the four-letter words tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Statistics {
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) latency_sum_ms: u64,
    pub(super) latency_least_ms: u64,
    pub(super) latency_most_ms: u64,
}

pub(super) struct State {
    pub(super) role: Role,
    /// Clients are served.
    pub(super) serving: bool,
    pub(super) failure: Option<io::Error>,
    pub(super) tree: Tree,
    pub(super) watches: Watches,
    pub(super) clients: BTreeMap<u64, Client>,
    /// Which connection serves a session here.
    pub(super) attached: BTreeMap<i64, u64>,
    pub(super) per_address: BTreeMap<IpAddr, usize>,
    /// What is prepared and not applied; where requests are prepared.
    pub(super) outstanding: Outstanding,
    /// Where it is decided when sessions end.
    pub(super) tracker: Option<Tracker>,
    /// Sessions that were heard of here since the leader asked last, with timeouts, ms.
    pub(super) touched: BTreeMap<i64, i32>,
    pub(super) pipeline: Pipeline,
    /// How many requests of clients of this server are unanswered.
    pub(super) in_process: usize,
    pub(super) log: LogQueue,
    /// What is logged, or about to be, and not known to be decided.
    pub(super) undecided: BTreeMap<i64, Arc<Transaction>>,
    /// The newest decided transactions, for followers that come back.
    pub(super) commit_log: VecDeque<Arc<Transaction>>,
    /// The newest transaction that was prepared here.
    pub(super) last_proposed: i64,
    pub(super) accepted_epoch: i64,
    pub(super) current_epoch: i64,
    /// Votes on their way.
    pub(super) mail: Mail,
    /// What the last election came to.
    pub(super) vote: Vote,
    /// The how-manieth election this is.
    pub(super) round: i64,
    pub(super) next_session: i64,
    next_id: u64,
    pub(super) client_port: u16,
    pub(super) statistics: Statistics,
    /// Until when the processor works on what came before.
    pub(super) busy_until: Duration,
}

impl State {
    fn new(next_session: i64) -> Self {
        State {
            role: Role::Starting,
            serving: false,
            failure: None,
            tree: Tree::new(),
            watches: Watches::default(),
            clients: BTreeMap::new(),
            attached: BTreeMap::new(),
            per_address: BTreeMap::new(),
            outstanding: Outstanding::default(),
            tracker: None,
            touched: BTreeMap::new(),
            pipeline: Pipeline::default(),
            in_process: 0,
            log: LogQueue::default(),
            undecided: BTreeMap::new(),
            commit_log: VecDeque::new(),
            last_proposed: 0,
            accepted_epoch: 0,
            current_epoch: 0,
            mail: Mail::default(),
            vote: Vote::default(),
            round: 0,
            next_session,
            next_id: 1,
            client_port: 0,
            statistics: Statistics::default(),
            busy_until: Duration::ZERO,
        }
    }

    /// A number for a client or a link.
    pub(super) fn draw_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// A number for a session.
    pub(super) fn draw_session(&mut self) -> i64 {
        loop {
            let session = self.next_session;
            self.next_session += 1;
            if session != 0 && !self.tree.sessions.contains_key(&session) {
                return session;
            }
        }
    }

    /// Whether requests are prepared here.
    pub(super) fn decides(&self) -> bool {
        self.tracker.is_some()
    }

    /// The mode that `srvr` tells.
    pub(super) fn mode(&self) -> &'static str {
        match &self.role {
            Role::Alone => "standalone",
            Role::Leading(_) => "leader",
            Role::Following(_) => "follower",
            Role::Starting | Role::Looking(_) => "looking",
        }
    }

    /// Ends every client's connection and forgets what was under way for them.
    pub(super) fn stop_serving(&mut self) {
        self.serving = false;
        for client in self.clients.values_mut() {
            client.kill();
        }
        self.attached.clear();
        self.pipeline = Pipeline::default();
        self.outstanding = Outstanding::default();
        self.tracker = None;
        self.touched.clear();
        self.in_process = 0;
    }
}

/// How far a client's connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has said nothing yet.
    Fresh,
    /// It waits to hear whether it has a session.
    Connecting,
    /// It has one.
    Ready,
}

/// One client's connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) peer: SocketAddr,
    pub(super) session: i64,
    pub(super) timeout_ms: i32,
    pub(super) stage: Stage,
    /// It knows of servers that only read, and is told that this one does not.
    pub(super) knows_read_only: bool,
    pub(super) identities: Arc<[Identity]>,
    /// What it is to hear. Its connection takes it.
    pub(super) output: Vec<u8>,
    /// Wakes its connection.
    pub(super) signal: Arc<Notify>,
    /// Its connection is to close at once.
    pub(super) killed: bool,
    /// Its connection is to close once everything is written.
    pub(super) closing: bool,
    /// How many of its requests are unanswered.
    pub(super) unanswered: usize,
    /// It is not read from until some are answered.
    pub(super) throttled: bool,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) since_ms: i64,
    pub(super) last_operation: &'static str,
    pub(super) last_xid: i32,
    pub(super) last_zxid: i64,
}

impl Client {
    pub(super) fn new(peer: SocketAddr, since_ms: i64) -> Self {
        Client {
            peer,
            session: 0,
            timeout_ms: 0,
            stage: Stage::Fresh,
            knows_read_only: false,
            identities: Arc::from([Identity::new("ip", peer.ip().to_string())]),
            output: Vec::new(),
            signal: Arc::new(Notify::new()),
            killed: false,
            closing: false,
            unanswered: 0,
            throttled: false,
            received: 0,
            sent: 0,
            since_ms,
            last_operation: "NA",
            last_xid: -1,
            last_zxid: 0,
        }
    }

    /// Has its connection close at once.
    pub(super) fn kill(&mut self) {
        self.killed = true;
        self.signal.notify_one();
    }

    /// Has its connection close once everything is written.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.signal.notify_one();
    }

    /// Whether its next request is looked at.
    pub(super) fn may_ask(&self) -> bool {
        self.stage != Stage::Connecting && !self.throttled && !self.closing && !self.killed
    }

    /// Puts a frame into its output. One who lets it fill up is closed.
    pub(super) fn push(&mut self, body: &[u8], limit_bytes: usize) {
        if self.closing || self.killed {
            return;
        }
        if self.output.len() + body.len() > limit_bytes {
            self.killed = true;
        } else {
            // Nothing of two gigabytes passes the limit.
            let length = i32::try_from(body.len()).unwrap_or(i32::MAX);
            self.output.extend_from_slice(&length.to_be_bytes());
            self.output.extend_from_slice(body);
            self.sent += 1;
        }
        self.signal.notify_one();
    }
}
