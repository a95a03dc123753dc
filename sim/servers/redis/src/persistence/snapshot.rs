//! Snapshots: the whole data set in one file, `dump.rdb`.
//!
//! Order of things: [`Snapshots`], what a server knows of them; [`save`], which the thread
//! does itself; [`begin`], which a child does from the data set as it was when it began;
//! [`tend`], the rules.

use std::io;
use std::sync::Arc;

use super::super::rdb;
use super::super::state::{Client, Shared, State};
use super::{Child, Persistence, SaveRule, now_s, occupy, write_whole};
use lockstorm_machine::disk::Files;

/// The file (`dbfilename`).
pub(super) const FILE: &str = "dump.rdb";
/// Where it is written before it takes its name.
const BESIDE: &str = "temp-1.rdb";

/// After a failure the rules wait for so many seconds.
const RETRY_S: i64 = 5;

const REFUSAL: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently \
    unable to persist to disk. Commands that may modify the data set are disabled, because this \
    instance is configured to report errors during writes if RDB snapshotting fails \
    (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
    error.";

/// What a server knows of its snapshots.
#[derive(Debug)]
pub(in super::super) struct Snapshots {
    pub(in super::super) rules: Vec<SaveRule>,
    /// Changes since the last.
    pub(in super::super) changes: u64,
    /// When the last was taken, or the server started, Unix seconds.
    pub(in super::super) last_s: i64,
    tried_s: i64,
    pub(in super::super) has_failed: bool,
    /// One is to be taken as soon as there is no other child.
    pub(in super::super) is_scheduled: bool,
    pub(in super::super) stop_writes: bool,
    pub(in super::super) taken: u64,
}

impl Snapshots {
    pub(super) fn new(settings: &Persistence, now_s: i64) -> Snapshots {
        Snapshots {
            rules: settings.save.clone(),
            changes: 0,
            last_s: now_s,
            tried_s: 0,
            has_failed: false,
            is_scheduled: false,
            stop_writes: true,
            taken: 0,
        }
    }

    /// Why writes are refused, if they are.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        (self.stop_writes && self.has_failed && !self.rules.is_empty()).then_some(REFUSAL)
    }

    /// Whether a rule demands one now.
    fn is_due(&self, now_s: i64) -> bool {
        let may = now_s - self.tried_s > RETRY_S || !self.has_failed;
        let demands =
            |rule: &SaveRule| self.changes >= rule.changes && now_s - self.last_s > rule.after_s;
        may && self.rules.iter().any(demands)
    }

    fn note(&mut self, result: &io::Result<()>, changes: u64, now_s: i64) {
        self.has_failed = result.is_err();
        if result.is_ok() {
            self.changes = self.changes.saturating_sub(changes);
            self.last_s = now_s;
            self.taken += 1;
        }
    }
}

async fn write(files: &Files, image: &[u8]) -> io::Result<()> {
    write_whole(files, BESIDE, FILE, image).await?;
    files.sync_names().await
}

/// Takes a snapshot while nobody is served (`SAVE`); `client` is told. False: this server
/// has no disk.
pub(in super::super) fn save(
    shared: &Arc<Shared>,
    state: &mut State,
    client: Option<&mut Client>,
) -> bool {
    let Some(files) = state.kept.files.clone() else { return false };
    let (image, changes) = (rdb::write_file(state), state.kept.snapshots.changes);
    let own = shared.clone();
    occupy(shared, state, client, async move {
        let result = write(&files, &image).await;
        own.lock().kept.snapshots.note(&result, changes, now_s(&own));
        result.map(|()| "OK").map_err(|_| "ERR".to_owned())
    });
    true
}

/// Takes a snapshot, and ends the process (`SHUTDOWN`) unless that failed. False: this server
/// has no disk.
pub(in super::super) fn save_and_end(shared: &Arc<Shared>, state: &mut State) -> bool {
    let Some(files) = state.kept.files.clone() else { return false };
    let image = rdb::write_file(state);
    let own = shared.clone();
    occupy(shared, state, None, async move {
        if write(&files, &image).await.is_ok() {
            own.thread.end(None);
        }
        Ok("OK")
    });
    true
}

/// Has a child take a snapshot (`BGSAVE`). Whoever calls this has seen that there is none.
/// False: this server has no disk.
pub(in super::super) fn begin(shared: &Arc<Shared>, state: &mut State) -> bool {
    let Some(files) = state.kept.files.clone() else { return false };
    let (image, changes) = (rdb::write_file(state), state.kept.snapshots.changes);
    state.kept.child = Some(Child::Snapshot);
    state.kept.snapshots.is_scheduled = false;
    state.kept.snapshots.tried_s = now_s(shared);
    let own = shared.clone();
    let id = state.draw_id();
    shared.spawn("redis-child", id, async move {
        let result = write(&files, &image).await;
        let mut state = own.lock();
        state.kept.child = None;
        state.kept.snapshots.note(&result, changes, now_s(&own));
    });
    true
}

/// Takes one if a rule demands it, or somebody asked for it while there was another child.
pub(super) fn tend(shared: &Arc<Shared>, state: &mut State) {
    if state.kept.child.is_none()
        && (state.kept.snapshots.is_scheduled || state.kept.snapshots.is_due(now_s(shared)))
    {
        begin(shared, state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_want_changes_and_time() {
        let mut snapshots = Snapshots::new(&Persistence::snapshots(), 100);
        snapshots.changes = 100;
        assert!(!snapshots.is_due(400), "more than 300 s");
        assert!(snapshots.is_due(401));
        snapshots.changes = 99;
        assert!(!snapshots.is_due(401) && snapshots.is_due(3_701));
        snapshots.tried_s = 3_700;
        snapshots.note(&Err(io::Error::other("x")), 99, 3_700);
        assert!(!snapshots.is_due(3_705) && snapshots.is_due(3_706), "not again at once");
        snapshots.note(&Ok(()), 99, 3_706);
        assert_eq!((snapshots.changes, snapshots.last_s), (0, 3_706));
    }
}
