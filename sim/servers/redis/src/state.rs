//! What a server has in memory, and who shares it.
//!
//! One mutex guards all of it; a command runs to its end while holding it. So does
//! Redis' one thread. It is never held across an await.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lockstorm::Host;
use lockstorm::host::Task;
use tokio::sync::Notify;

use super::blocking::{Blocked, Waiting};
use super::codec::{OwnedArguments, Protocol, ReplyEncoder};
use super::command::Failure;
use super::gate::ReplicationGate;
use super::keyspace::{Database, Key};
use super::observe::{Observation, Observer, Origin};
use super::persistence::{Kept, Thread};
use super::pubsub::{Subscribers, Subscriptions};
use super::replication::{FollowerLink, Replication};
use super::script::Engine;
use super::script::functions::Functions;
use super::settings::{ConfigFile, Master, Settings};
use super::statistics::{Place, Statistics};

/// How many databases there are (`databases`).
pub(super) const DATABASES: usize = 16;

/// What every task of a server shares.
pub(super) struct Shared {
    pub(super) host: Host,
    pub(super) settings: Settings,
    pub(super) config: ConfigFile,
    pub(super) gate: ReplicationGate,
    pub(super) observer: Arc<dyn Observer>,
    /// When the server started, on the machine's monotonic clock.
    pub(super) started: Duration,
    pub(super) run_id: String,
    pub(super) thread: Thread,
    state: Mutex<State>,
    /// The tasks of connections and links, by client id: what ends with the server.
    tasks: Mutex<Option<BTreeMap<u64, Task>>>,
}

impl Shared {
    pub(super) fn new(
        host: Host,
        settings: Settings,
        config: ConfigFile,
        gate: ReplicationGate,
        observer: Arc<dyn Observer>,
    ) -> Arc<Shared> {
        let replication = Replication::new(random_id(&host), settings.backlog_bytes);
        let now_s = i64::try_from(host.wall().as_secs()).unwrap_or(i64::MAX);
        let kept = Kept::new(&settings.persistence, now_s);
        Arc::new(Shared {
            started: host.monotonic(),
            run_id: random_id(&host),
            thread: Thread::default(),
            state: Mutex::new(State::new(settings.port, replication, kept)),
            tasks: Mutex::new(Some(BTreeMap::new())),
            host,
            settings,
            config,
            gate,
            observer,
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The wall clock, Unix milliseconds.
    pub(super) fn wall_ms(&self) -> i64 {
        i64::try_from(self.host.wall().as_millis()).unwrap_or(i64::MAX)
    }

    /// Spawns a task that ends with the server. `id` is a client's, or any other
    /// number that no living task has.
    pub(super) fn spawn(
        self: &Arc<Self>,
        group: &'static str,
        id: u64,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // None: the server is ending.
        let Some(tasks) = tasks.as_mut() else { return };
        let shared = self.clone();
        let task = self.host.spawn(group, async move {
            future.await;
            let mut tasks = shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(tasks) = tasks.as_mut() {
                tasks.remove(&id);
            }
        });
        tasks.insert(id, task);
    }

    /// Ends one task. It may be the calling one; it ends at its next suspension.
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

    /// Appends to the replication stream and lets the replicas' tasks know.
    pub(super) fn feed(&self, state: &mut State, bytes: &[u8]) {
        state.replication.feed(bytes);
        if state.replication.is_fed() {
            self.observer.observe(&Observation::Fed { offset: state.replication.offset });
        }
        self.note_held(state);
    }

    /// Tells the observer, once for each stall, that output is being held.
    pub(super) fn note_held(&self, state: &mut State) {
        if !self.gate.is_stalled() || state.replication.noted_stall == self.gate.epoch() {
            return;
        }
        if let Some(held_bytes) = state.replication.most_held_bytes() {
            state.replication.noted_stall = self.gate.epoch();
            self.observer.observe(&Observation::OutputHeld { held_bytes });
        }
    }
}

/// 160 random bits as 40 hex digits: run ids and replication ids.
pub(super) fn random_id(host: &Host) -> String {
    let mut id = String::with_capacity(48);
    for _ in 0..3 {
        let bits = host.random("redis-id");
        for nibble in 0..16 {
            let digit = (bits >> (nibble * 4)) as u32 & 0xf;
            id.extend(char::from_digit(digit, 16));
        }
    }
    id.truncate(40);
    id
}

/// Whether a server is a master or follows one.
#[derive(Debug)]
pub(super) enum Role {
    Master,
    Replica { master: Master, link: FollowerLink },
}

pub(super) struct State {
    pub(super) port: u16,
    pub(super) databases: Vec<Database>,
    /// All connections but the one whose command is running.
    pub(super) clients: BTreeMap<u64, Box<Client>>,
    pub(super) next_id: u64,
    pub(super) role: Role,
    /// Counts changes of role and master: a link of an older one is void.
    pub(super) role_epoch: u64,
    /// The task of this replica's link to its master.
    pub(super) follower_task: Option<u64>,
    pub(super) replication: Replication,
    /// Absent until the first script, and while one runs.
    pub(super) engine: Option<Engine>,
    /// Libraries of functions; absent until there is one.
    pub(super) functions: Option<Box<Functions>>,
    pub(super) watches: BTreeMap<(usize, Key), Vec<Watcher>>,
    pub(super) subscribers: Subscribers,
    pub(super) waiting: Waiting,
    /// What is told of keyspace events: the bits of [`event`](super::pubsub::event).
    pub(super) notified_events: u16,
    /// What is kept on the disk.
    pub(super) kept: Kept,
    /// Whether keys whose time has come are looked for (`DEBUG SET-ACTIVE-EXPIRE`).
    pub(super) expires_actively: bool,
    /// Values of `CONFIG SET`.
    pub(super) parameters: BTreeMap<&'static str, String>,
    /// The script that has run for too long.
    pub(super) busy: Option<Busy>,
    /// Whether scripts may call what is not for them (`DEBUG SET-DISABLE-DENY-SCRIPTS`).
    pub(super) allows_all_in_scripts: bool,
    /// What is counted of commands and errors.
    pub(super) statistics: Statistics,
    /// The world stands still: what is said to whoever would change something.
    pub(super) frozen: Option<Box<str>>,
}

impl State {
    fn new(port: u16, replication: Replication, kept: Kept) -> Self {
        State {
            port,
            databases: vec![Database::default(); DATABASES],
            clients: BTreeMap::new(),
            next_id: 1,
            role: Role::Master,
            role_epoch: 0,
            follower_task: None,
            replication,
            engine: None,
            functions: None,
            watches: BTreeMap::new(),
            subscribers: Subscribers::default(),
            waiting: Waiting::default(),
            notified_events: 0,
            kept,
            expires_actively: true,
            parameters: BTreeMap::new(),
            busy: None,
            allows_all_in_scripts: false,
            statistics: Statistics::default(),
            frozen: None,
        }
    }

    /// A number for a client or a task.
    pub(super) fn draw_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    pub(super) fn is_replica(&self) -> bool {
        matches!(self.role, Role::Replica { .. })
    }

    /// Fails the transactions of everybody who watches this key, and takes note for those
    /// who wait for it.
    pub(super) fn touch(&mut self, database: usize, key: &[u8]) {
        self.waiting.note_change(database, key);
        self.kept.snapshots.changes += 1;
        if self.watches.is_empty() {
            return;
        }
        let Some(watchers) = self.watches.get_mut(&(database, Key::from(key))) else { return };
        let is_there = self.databases[database].get(key).is_some();
        for watcher in watchers {
            watcher.note_change(is_there);
        }
    }

    /// Ends a client's `WATCH`.
    pub(super) fn unwatch(&mut self, client: &mut Client) {
        let Some(mine) = client.watch.take() else { return };
        for key in std::mem::take(&mut client.watched) {
            if let Entry::Occupied(mut watchers) = self.watches.entry(key) {
                watchers.get_mut().retain(|watcher| !Arc::ptr_eq(&watcher.touched, &mine));
                if watchers.get().is_empty() {
                    watchers.remove();
                }
            }
        }
    }

    /// Fails the transactions of everybody who watches a key of these databases that was
    /// there in `old`, the data set until now, or that is there now.
    pub(super) fn touch_replaced(&mut self, old: &[Database], databases: &Range<usize>) {
        self.waiting.note_all(databases);
        let watches = self.watches.iter_mut();
        for ((database, key), watchers) in watches.filter(|((of, _), _)| databases.contains(of)) {
            let is_there = self.databases[*database].get(key).is_some();
            let was_there = old.get(*database).is_some_and(|old| old.get(key).is_some());
            if is_there || was_there {
                watchers.iter_mut().for_each(|watcher| watcher.note_change(is_there));
            }
        }
    }

    /// Swaps what is in two databases; those who watch keys there are told what changed for
    /// them.
    pub(super) fn swap_databases(&mut self, first: usize, second: usize, now_ms: i64) {
        self.databases.swap(first, second);
        for ((database, key), watchers) in &mut self.watches {
            let other = match *database {
                database if database == first => second,
                database if database == second => first,
                _ => continue,
            };
            let (old, new) = (&self.databases[other], &self.databases[*database]);
            let was_there = old.get(key).is_some();
            let entry = new.get(key);
            let is_expired = entry.is_some_and(|entry| entry.is_expired(now_ms));
            if !was_there && entry.is_none() {
                continue;
            }
            for watcher in watchers {
                match watcher.expired {
                    // It is as good as not there as before.
                    true if is_expired => {}
                    false if !was_there && is_expired => watcher.expired = true,
                    _ => watcher.note_change(entry.is_some()),
                }
            }
        }
        for database in [first, second] {
            self.waiting.note_all(&(database..database + 1));
        }
    }

    /// The sources of all libraries of functions.
    pub(super) fn libraries(&self) -> Vec<Bytes> {
        self.functions.as_ref().map_or(Vec::new(), |functions| functions.sources())
    }

    /// How large the data set is, bytes.
    pub(super) fn used_bytes(&self) -> usize {
        self.databases.iter().map(Database::used_bytes).sum()
    }
}

/// One client's `WATCH` of one key.
#[derive(Debug)]
pub(super) struct Watcher {
    /// The client's: fails its transaction.
    pub(super) touched: Arc<AtomicBool>,
    /// The key was there and its time had come: only what takes its place is a change.
    pub(super) expired: bool,
}

impl Watcher {
    fn note_change(&mut self, is_there: bool) {
        if self.expired && !is_there {
            // Now it is gone in earnest, and may not come back unnoticed.
            self.expired = false;
            return;
        }
        self.touched.store(true, Ordering::Relaxed);
    }
}

/// A script that has used up its budget: it is taken for one that never ends.
#[derive(Debug)]
pub(super) struct Busy {
    /// Who called it.
    pub(super) client: u64,
    /// It is a function of a library.
    pub(super) is_function: bool,
    /// It has changed keys, and can be killed only with the server.
    pub(super) has_written: bool,
    /// What its client hears when it is killed.
    pub(super) failure: Failure,
}

impl Busy {
    /// What others hear meanwhile.
    pub(super) fn refusal(&self) -> &'static str {
        match self.is_function {
            false => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
                 NOSAVE."
            }
            true => {
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN \
                 NOSAVE."
            }
        }
    }
}

/// Whether a client is answered (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Answers {
    /// Always.
    #[default]
    All,
    /// Not to so many commands, this one included.
    Skip(u8),
    /// Never.
    Nothing,
}

/// What comes after a command other than its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Answer, then close.
    Close,
    /// Close at once, also without the answers before.
    Abort,
    /// The client waits ([`Client::blocked`]), for so long at most.
    Block { timeout: Option<Duration> },
    /// `PSYNC`: the connection becomes a replica's link.
    Follow(Position),
}

/// From where a replica would like to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) id: String,
    /// The first byte that it lacks; `None` with an id of `?`.
    pub(super) from: Option<u64>,
    /// It asked by `SYNC`: it never says how far it is.
    pub(super) is_old: bool,
}

/// Commands between `MULTI` and `EXEC`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) commands: Vec<OwnedArguments>,
    pub(super) bytes: usize,
    /// The flags that some of them have, as these were when they were queued.
    pub(super) flags_of_any: u16,
    /// Those that some of them have not.
    pub(super) flags_not_of_all: u16,
    /// A command could not be queued: `EXEC` will refuse.
    pub(super) failed: bool,
}

/// One connection, or the master's stream, or a script.
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) origin: Origin,
    pub(super) peer: SocketAddr,
    pub(super) name: Vec<u8>,
    pub(super) database: usize,
    pub(super) protocol: Protocol,
    pub(super) transaction: Option<Box<Transaction>>,
    /// Set when a watched key was touched; present while keys are watched.
    pub(super) watch: Option<Arc<AtomicBool>>,
    /// The keys that are watched.
    pub(super) watched: BTreeSet<(usize, Key)>,
    /// The master's offset after this client's last command: what `WAIT` waits for.
    pub(super) write_offset: u64,
    pub(super) next: Option<Next>,
    /// What it hears besides the replies to its commands. Its connection takes it.
    pub(super) mailbox: ReplyEncoder,
    pub(super) subscriptions: Subscriptions,
    /// What it waits for.
    pub(super) blocked: Option<Box<Blocked>>,
    /// Wakes its connection: there is mail, or it waits no more, or is to close.
    pub(super) signal: Arc<Notify>,
    /// Its connection is to close at once.
    pub(super) killed: bool,
    /// Its connection is to close once everything is written.
    pub(super) closing: bool,
    pub(super) connected_at: Duration,
    pub(super) active_at: Duration,
    pub(super) last_command: &'static str,
    /// Where that one is counted: it may fail after it has waited.
    pub(super) last_place: Place,
    /// What `REPLCONF` said of the replica that this connection is to become.
    pub(super) listening_port: u16,
    pub(super) announced_ip: Option<String>,
    pub(super) query_bytes: usize,
    pub(super) answers: Answers,
}

impl Client {
    pub(super) fn new(id: u64, origin: Origin, peer: SocketAddr, now: Duration) -> Self {
        Client {
            id,
            origin,
            peer,
            name: Vec::new(),
            database: 0,
            protocol: Protocol::default(),
            transaction: None,
            watch: None,
            watched: BTreeSet::new(),
            write_offset: 0,
            next: None,
            mailbox: ReplyEncoder::default(),
            subscriptions: Subscriptions::default(),
            blocked: None,
            signal: Arc::new(Notify::new()),
            killed: false,
            closing: false,
            connected_at: now,
            active_at: now,
            last_command: "NULL",
            last_place: Place::default(),
            listening_port: 0,
            announced_ip: None,
            query_bytes: 0,
            answers: Answers::All,
        }
    }

    /// Whether only commands about subscriptions are taken from it.
    pub(super) fn is_subscriber(&self) -> bool {
        self.protocol == Protocol::Resp2 && !self.subscriptions.is_empty()
    }

    /// Has its connection close at once.
    pub(super) fn kill(&mut self) {
        self.killed = true;
        self.signal.notify_one();
    }

    /// Puts something into its mailbox. One who lets it fill up is closed.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut ReplyEncoder)) {
        self.mailbox.set_protocol(self.protocol);
        write(&mut self.mailbox);
        if self.mailbox.is_full() {
            self.killed = true;
        }
        self.signal.notify_one();
    }
}
