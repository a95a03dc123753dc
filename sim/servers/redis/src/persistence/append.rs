//! The append-only file: what is written to it, when it is written, when it is synchronised.
//!
//! Order of things: [`AppendFile`], what a server knows of it; [`flush`], the end of each
//! turn (`flushAppendOnlyFile` in Redis); the synchronisations beside the service; what the
//! kernel does by itself.
//!
//! Under `always` the turn ends with the write and the synchronisation: whoever came in the
//! same turn is served by the same one, and nothing is executed meanwhile. If it fails the
//! server exits, as Redis does. Under `everysec` the write is put off while a
//! synchronisation is under way, for two seconds; then the thread waits in the kernel. Under
//! both of the others a failure to write, or to synchronise, has writes refused until one
//! succeeds.

use std::sync::Arc;
use std::time::Duration;

use super::super::codec::append_command;
use super::manifest::Manifest;
use super::{AppendFsync, Persistence, Shared, State, now_s, reason};

/// The kernel writes back what it has had for so long (`dirty_expire_centisecs`).
const WRITE_BACK: Duration = Duration::from_secs(30);

/// For so many seconds a write is put off.
const PUT_OFF_S: i64 = 2;

/// Whether there is such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Phase {
    Off,
    /// `CONFIG SET appendonly yes`: there will be one once a rewrite has made its base.
    Waiting,
    On,
}

/// What a server knows of its append-only file.
#[derive(Debug)]
pub(in super::super) struct AppendFile {
    pub(in super::super) phase: Phase,
    pub(in super::super) policy: AppendFsync,
    pub(in super::super) load_truncated: bool,
    pub(super) manifest: Manifest,
    /// The file that is written to.
    pub(super) file: String,
    /// What is still to be written.
    buffer: Vec<u8>,
    /// The database that the file's next command would act on.
    pub(in super::super) selected: Option<usize>,
    /// Bytes of the file that is written to.
    pub(in super::super) written: u64,
    /// So much of them some synchronisation has been asked for.
    pub(super) sync_asked: u64,
    /// Bytes of the base and of the files before.
    pub(in super::super) earlier_bytes: u64,
    pub(in super::super) rewritten_bytes: u64,
    last_sync_s: i64,
    put_off_since_s: Option<i64>,
    is_syncing: bool,
    /// The thread waits in the kernel until the synchronisation is over.
    write_waits: bool,
    /// A task that writes and synchronises before the replies is under way.
    is_flushing: bool,
    write_failure: Option<String>,
    sync_failure: Option<String>,
    /// When the oldest bytes were written that nobody has had synchronised.
    unsynced_since: Option<Duration>,
    pub(in super::super) delayed_syncs: u64,
    pub(in super::super) rewrites: u64,
    pub(in super::super) rewrite_scheduled: bool,
    pub(in super::super) last_rewrite_failed: bool,
}

impl AppendFile {
    pub(super) fn new(settings: &Persistence) -> AppendFile {
        AppendFile {
            phase: Phase::Off,
            policy: settings.append_fsync,
            load_truncated: settings.load_truncated,
            manifest: Manifest::default(),
            file: String::new(),
            buffer: Vec::new(),
            selected: None,
            written: 0,
            sync_asked: 0,
            earlier_bytes: 0,
            rewritten_bytes: 0,
            last_sync_s: 0,
            put_off_since_s: None,
            is_syncing: false,
            write_waits: false,
            is_flushing: false,
            write_failure: None,
            sync_failure: None,
            unsynced_since: None,
            delayed_syncs: 0,
            rewrites: 0,
            rewrite_scheduled: false,
            last_rewrite_failed: false,
        }
    }

    /// Whether commands are to be appended.
    pub(in super::super) fn is_on(&self) -> bool {
        self.phase != Phase::Off
    }

    /// Appends a command to what is to be written, behind the choice of its database.
    pub(in super::super) fn take(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The choice of a database, if it is another than that of the command before.
    pub(in super::super) fn select(&mut self, database: usize, bytes: &mut Vec<u8>) {
        if self.selected != Some(database) {
            self.selected = Some(database);
            let mut number = itoa::Buffer::new();
            append_command(bytes, [&b"SELECT"[..], number.format(database).as_bytes()]);
        }
    }

    /// Bytes that wait to be written.
    pub(in super::super) fn waiting_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Why it is not to be relied on, if so.
    pub(super) fn failure(&self) -> Option<&str> {
        if !self.is_on() {
            return None;
        }
        self.write_failure.as_deref().or(self.sync_failure.as_deref())
    }

    /// Whether all of it so far could be written and synchronised.
    pub(in super::super) fn is_well(&self) -> bool {
        self.write_failure.is_none() && self.sync_failure.is_none()
    }

    /// Whether a synchronisation is under way.
    pub(in super::super) fn is_syncing(&self) -> bool {
        self.is_syncing
    }

    /// From now on `file` is written to, of which the disk has so much.
    pub(super) fn open(&mut self, file: String, written: u64, now_s: i64) {
        self.file = file;
        self.written = written;
        self.sync_asked = written;
        self.selected = None;
        self.last_sync_s = now_s;
        self.put_off_since_s = None;
        self.unsynced_since = None;
    }

    /// Earlier failures are forgotten: what is written from now on is another file.
    pub(super) fn forgive(&mut self) {
        self.write_failure = None;
        self.sync_failure = None;
    }

    /// What waits is in the base that is to be.
    pub(super) fn drop_waiting(&mut self) {
        self.buffer.clear();
    }

    /// There is none any more; the rest was written.
    pub(super) fn close(&mut self) {
        self.phase = Phase::Off;
        self.rewrite_scheduled = false;
        self.buffer = Vec::new();
        self.put_off_since_s = None;
    }
}

/// The end of a turn: what was executed is written, and synchronised as the policy says.
pub(super) fn flush(shared: &Arc<Shared>, state: &mut State) {
    let append = &mut state.kept.append;
    if append.policy == AppendFsync::Always {
        if !append.buffer.is_empty() && !append.is_flushing && !append.write_waits {
            append.is_flushing = true;
            shared.thread.withhold();
            let id = state.draw_id();
            // A task of its own, behind those who have come in this turn.
            shared.spawn("redis-disk", id, flush_and_sync(shared.clone()));
        }
        return;
    }
    let now_s = now_s(shared);
    let every_second = append.policy == AppendFsync::EverySecond;
    let is_due = every_second && now_s > append.last_sync_s;
    if append.buffer.is_empty() {
        if is_due && append.sync_asked != append.written && !append.is_syncing {
            append.last_sync_s = now_s;
            begin_sync(shared, state);
        }
        return;
    }
    if every_second && append.is_syncing {
        if append.write_waits {
            return;
        }
        let since_s = *append.put_off_since_s.get_or_insert(now_s);
        if now_s - since_s < PUT_OFF_S {
            return;
        }
        // It cannot wait any longer. The kernel has it wait for the synchronisation.
        append.delayed_syncs += 1;
        append.write_waits = true;
        shared.thread.begin();
        return;
    }
    if write(shared, state) && is_due {
        state.kept.append.last_sync_s = now_s;
        if !state.kept.append.is_syncing {
            begin_sync(shared, state);
        }
    }
}

/// Writes what is to be written. False if that failed; it is tried again then.
pub(in super::super) fn write(shared: &Shared, state: &mut State) -> bool {
    let Some(files) = &state.kept.files else { return false };
    let append = &mut state.kept.append;
    append.put_off_since_s = None;
    match files.append(&append.file, &append.buffer) {
        Ok(length) => {
            append.written = length;
            append.buffer.clear();
            append.write_failure = None;
            append.unsynced_since.get_or_insert(shared.host.monotonic());
            true
        }
        Err(error) => {
            append.write_failure = Some(reason(&error));
            false
        }
    }
}

/// What the thread does under `always` before it answers. A failure ends the process.
async fn flush_and_sync(shared: Arc<Shared>) {
    let (files, file) = {
        let mut state = shared.lock();
        shared.thread.begin();
        let is_written = write(&shared, &mut state);
        state.kept.append.sync_asked = state.kept.append.written;
        state.kept.append.unsynced_since = None;
        match state.kept.files.clone().filter(|_| is_written) {
            Some(files) => (files, state.kept.append.file.clone()),
            None => return shared.thread.end(Some("its append-only file cannot be written")),
        }
    };
    if files.sync(&file).await.is_err() {
        return shared.thread.end(Some("its append-only file cannot be synchronised"));
    }
    let mut state = shared.lock();
    state.kept.append.is_flushing = false;
    state.kept.append.last_sync_s = now_s(&shared);
    shared.thread.go_on();
    super::settle(&shared, &mut state);
}

/// Synchronises beside the service.
fn begin_sync(shared: &Arc<Shared>, state: &mut State) {
    let Some(files) = state.kept.files.clone() else { return };
    let append = &mut state.kept.append;
    append.is_syncing = true;
    append.sync_asked = append.written;
    append.unsynced_since = None;
    let file = append.file.clone();
    let id = state.draw_id();
    let own = shared.clone();
    shared.spawn("redis-disk", id, async move {
        let synced = files.sync(&file).await;
        let mut state = own.lock();
        let append = &mut state.kept.append;
        append.is_syncing = false;
        if append.file == file {
            append.sync_failure = synced.err().map(|error| reason(&error));
        }
        if std::mem::take(&mut append.write_waits) {
            write(&own, &mut state);
            own.thread.go_on();
        }
        super::settle(&own, &mut state);
    });
}

/// What is done ten times a second besides: the kernel writes back by itself what it has had
/// for long.
pub(super) fn tend(shared: &Arc<Shared>, state: &mut State) {
    if !state.kept.append.is_on() {
        return;
    }
    super::settle(shared, state);
    let append = &state.kept.append;
    let now = shared.host.monotonic();
    let is_old = append.unsynced_since.is_some_and(|since| now.saturating_sub(since) >= WRITE_BACK);
    if append.policy == AppendFsync::No && is_old && !append.is_syncing {
        let Some(files) = state.kept.files.clone() else { return };
        state.kept.append.unsynced_since = None;
        let file = state.kept.append.file.clone();
        let id = state.draw_id();
        shared.spawn("redis-disk", id, async move {
            // The kernel's doing: the program does not hear of it.
            let _ = files.sync(&file).await;
        });
    }
}
