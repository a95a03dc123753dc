//! What a server keeps on its machine's disk: snapshots (RDB) and the append-only file
//! (AOF), as Redis 7.0 keeps them, under the same file names.
//!
//! Order of things: what is decided before a server starts ([`Persistence`]); [`Kept`], what
//! it knows of its files while it runs; [`Thread`], the one thread that waits for a disk;
//! [`settle`], what is done at the end of each turn, before anybody is answered, and
//! [`tend`], ten times a second. In [`append`]: writing and synchronising the append-only
//! file; in [`snapshot`]: `SAVE`, `BGSAVE` and the rules; in [`rewrite`]: `BGREWRITEAOF`; in
//! [`manifest`]: which files make up the append-only file; in [`load`]: what a server does
//! before it serves.
//!
//! # What is lost when
//! A process crash loses what was not yet written: nothing of the append-only file (it is
//! written before the replies are), unless a write was put off because a synchronisation
//! takes long; of snapshots everything since the last. A machine crash loses besides what
//! was written and not synchronised: nothing answered under `always`, about a second and at
//! most two under `everysec`, what the kernel has had for less than half a minute
//! under `no`.
//!
//! Forking costs nothing here, loading takes as long as the disk's reads, and nobody is
//! answered meanwhile, as with a data set below 2 MB in Redis: `LOADING` is never said.

pub(super) mod append;
pub(super) mod load;
mod manifest;
mod reload;
pub(super) mod rewrite;
pub(super) mod snapshot;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

pub(super) use self::reload::{load_append_only, reload, sleep};

use self::append::{AppendFile, Phase};
use self::snapshot::Snapshots;
use super::blocking::{Blocked, block, refuse, unblock};
use super::command::is_word;
use super::state::{Client, Next, Shared, State};
use lockstorm_machine::disk::Files;

/// When the append-only file is synchronised (`appendfsync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFsync {
    /// Before every reply.
    Always,
    /// Once a second, beside the service.
    EverySecond,
    /// When the kernel likes.
    No,
}

impl AppendFsync {
    const ALL: [AppendFsync; 3] = [AppendFsync::Always, AppendFsync::EverySecond, AppendFsync::No];

    /// As `CONFIG GET` tells it.
    pub fn name(self) -> &'static str {
        match self {
            AppendFsync::Always => "always",
            AppendFsync::EverySecond => "everysec",
            AppendFsync::No => "no",
        }
    }

    /// As `CONFIG SET` is told.
    pub(super) fn find(name: &[u8]) -> Option<AppendFsync> {
        AppendFsync::ALL.into_iter().find(|policy| is_word(name, policy.name()))
    }
}

/// A snapshot is taken once more than `after_s` seconds have gone by since the last, and so
/// many changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveRule {
    /// Seconds.
    pub after_s: i64,
    /// Changed keys. (Redis counts changed elements.)
    pub changes: u64,
}

/// The rules of Redis 7.0, where its configuration file says nothing.
pub const SAVE_RULES: [SaveRule; 3] = [
    SaveRule { after_s: 3_600, changes: 1 },
    SaveRule { after_s: 300, changes: 100 },
    SaveRule { after_s: 60, changes: 10_000 },
];

/// What a server keeps, from its start; `CONFIG SET` changes it for as long as it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persistence {
    /// Whether there is an append-only file (`appendonly`).
    pub append_only: bool,
    /// When it is synchronised.
    pub append_fsync: AppendFsync,
    /// When snapshots are taken (`save`). With none there are those that are asked for.
    pub save: Vec<SaveRule>,
    /// Whether a torn end of the append-only file is cut off (`aof-load-truncated`), or the
    /// server refuses to start.
    pub load_truncated: bool,
}

impl Persistence {
    /// Nothing: a server that starts again is empty, unless somebody asked for a snapshot.
    pub fn none() -> Self {
        Persistence {
            append_only: false,
            append_fsync: AppendFsync::EverySecond,
            save: Vec::new(),
            load_truncated: true,
        }
    }

    /// Snapshots by the rules of Redis 7.0.
    pub fn snapshots() -> Self {
        Persistence { save: SAVE_RULES.to_vec(), ..Persistence::none() }
    }

    /// An append-only file.
    pub fn append_only(append_fsync: AppendFsync) -> Self {
        Persistence { append_only: true, append_fsync, ..Persistence::none() }
    }
}

impl Default for Persistence {
    fn default() -> Self {
        Persistence::none()
    }
}

/// What runs beside the service: a server has one child at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    Snapshot,
    Rewrite,
}

/// What a running server knows of its files.
#[derive(Debug)]
pub(super) struct Kept {
    /// None: it has no disk.
    pub(super) files: Option<Files>,
    pub(super) append: AppendFile,
    pub(super) snapshots: Snapshots,
    pub(super) child: Option<Child>,
}

impl Kept {
    pub(super) fn new(settings: &Persistence, now_s: i64) -> Kept {
        Kept {
            files: None,
            append: AppendFile::new(settings),
            snapshots: Snapshots::new(settings, now_s),
            child: None,
        }
    }

    /// Whether what is executed is to be appended.
    pub(super) fn is_appending(&self) -> bool {
        match self.append.phase {
            Phase::Off => false,
            Phase::Waiting => self.child == Some(Child::Rewrite),
            Phase::On => true,
        }
    }

    /// Why writes are refused, if they are: what was written before may not have been kept.
    pub(super) fn refusal(&self) -> Option<String> {
        self.snapshots.refusal().map(str::to_owned).or_else(|| {
            let why = self.append.failure()?;
            Some(format!("MISCONF Errors writing to the AOF file: {why}"))
        })
    }
}

/// The one thread of a Redis server, as far as it waits for its disk. Connections look here
/// before they execute and before they write.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// It waits for the disk: nothing is executed.
    is_busy: AtomicBool,
    /// What was executed is to be on the disk before anybody is answered.
    is_withholding: AtomicBool,
    /// It runs a script that does not end.
    is_in_script: AtomicBool,
    /// That has not yet been for so long that others are told.
    is_held_by_script: AtomicBool,
    changed: Notify,
    /// That the process exits, and why, unless it was told to.
    exit: OnceLock<Option<&'static str>>,
    ended: Notify,
}

impl Thread {
    /// Nothing may be executed now.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::SeqCst) || self.is_held_by_script.load(Ordering::SeqCst)
    }

    /// A script has begun that does not end by itself.
    pub(super) fn is_in_script(&self) -> bool {
        self.is_in_script.load(Ordering::SeqCst)
    }

    /// A script does not end: for now nobody is served.
    pub(super) fn begin_script(&self) {
        self.is_in_script.store(true, Ordering::SeqCst);
        self.is_held_by_script.store(true, Ordering::SeqCst);
    }

    /// From now on whoever asks is told that there is a script.
    pub(super) fn tell_of_script(&self) {
        self.is_held_by_script.store(false, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// The script was killed.
    pub(super) fn end_script(&self) {
        self.is_in_script.store(false, Ordering::SeqCst);
        self.tell_of_script();
    }

    /// Completes as soon as no script keeps the thread.
    pub(super) async fn script_ended(&self) {
        while self.is_in_script() {
            let changed = self.changed();
            if self.is_in_script() {
                changed.await;
            }
        }
    }

    /// Nobody may be answered now.
    pub(super) fn is_silent(&self) -> bool {
        self.is_busy() || self.is_withholding.load(Ordering::SeqCst)
    }

    pub(super) fn begin(&self) {
        self.is_busy.store(true, Ordering::SeqCst);
    }

    pub(super) fn withhold(&self) {
        self.is_withholding.store(true, Ordering::SeqCst);
    }

    /// Everybody is served again.
    pub(super) fn go_on(&self) {
        self.is_busy.store(false, Ordering::SeqCst);
        self.is_withholding.store(false, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Completes when it goes on after this call.
    pub(super) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Completes as soon as it serves everybody.
    pub(super) async fn goes_on(&self) {
        while self.is_silent() {
            let changed = self.changed();
            if self.is_silent() {
                changed.await;
            }
        }
    }

    /// The process exits: it was told to, or what it has in memory cannot be kept as was
    /// promised. The first reason is the one.
    pub(super) fn end(&self, failure: Option<&'static str>) {
        let _ = self.exit.set(failure);
        self.ended.notify_waiters();
    }

    /// Completes when the process exits, and says why, unless it was told to.
    pub(super) async fn ended(&self) -> Option<&'static str> {
        loop {
            let ended = self.ended.notified();
            if let Some(failure) = self.exit.get() {
                return *failure;
            }
            ended.await;
        }
    }
}

/// What is said of a failed operation: as the C library says it.
pub(super) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => "No space left on device".to_owned(),
        _ => "Input/output error".to_owned(),
    }
}

/// The wall clock in whole seconds, by which Redis measures everything about its files.
fn now_s(shared: &Shared) -> i64 {
    shared.wall_ms().div_euclid(1_000)
}

/// What follows each turn of the server, before the replies go out.
pub(super) fn settle(shared: &Arc<Shared>, state: &mut State) {
    if state.kept.is_appending() {
        append::flush(shared, state);
    }
}

/// What a server does ten times a second.
pub(super) fn tend(shared: &Arc<Shared>, state: &mut State) {
    if state.kept.files.is_none() {
        return;
    }
    snapshot::tend(shared, state);
    rewrite::tend(shared, state);
    append::tend(shared, state);
}

/// The data set was replaced by a master's: an append-only file begins anew.
pub(super) fn begin_anew(shared: &Arc<Shared>, state: &mut State) {
    if state.kept.append.phase == Phase::Off {
        return;
    }
    state.kept.append.phase = Phase::Off;
    rewrite::turn_on(shared, state);
}

/// What somebody is told at the end of a job: a simple string, or an error.
type Answer = Result<&'static str, String>;

/// Has the one thread do `job`, which waits for the disk: nobody is served meanwhile.
/// `client` is told the answer.
fn occupy(
    shared: &Arc<Shared>,
    state: &mut State,
    client: Option<&mut Client>,
    job: impl Future<Output = Answer> + Send + 'static,
) {
    shared.thread.begin();
    let asked_by = client.map(|client| {
        block(&mut state.waiting, client, Blocked::Disk);
        client.next = Some(Next::Block { timeout: None });
        client.id
    });
    let id = state.draw_id();
    let own = shared.clone();
    shared.spawn("redis-disk", id, async move {
        let answer = job.await;
        let mut state = own.lock();
        let State { clients, waiting, statistics, .. } = &mut *state;
        if let Some(client) = asked_by.and_then(|id| clients.get_mut(&id)) {
            match &answer {
                Ok(text) => client.push(|mail| mail.simple(text.as_bytes())),
                Err(text) => refuse(statistics, client, text.as_bytes()),
            }
            unblock(waiting, client);
        }
        own.thread.go_on();
        settle(&own, &mut state);
    });
}

/// Writes a whole file under a name: beside it first, so that there is never half of one.
async fn write_whole(files: &Files, beside: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    // A former incarnation may have left one.
    let _ = files.remove(beside);
    let written = async {
        files.append(beside, bytes)?;
        files.sync(beside).await?;
        files.rename(beside, name)
    };
    let written = written.await;
    if written.is_err() {
        // Gone already, or of no use: there is nothing else to do about it.
        let _ = files.remove(beside);
    }
    written
}

impl fmt::Display for AppendFsync {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
