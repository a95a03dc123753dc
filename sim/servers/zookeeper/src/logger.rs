//! The task that writes the log: one batch after another, each synchronised as a whole
//! (`SyncRequestProcessor`), and now and then a snapshot.

use std::io;
use std::sync::Arc;

use super::codec::Writer;
use super::observe::Observation;
use super::pipeline;
use super::snapshot;
use super::state::{Shared, State};
use super::store::Snapshots;
use super::transaction::Transaction;

/// Writes the log until the disk fails.
pub(super) async fn run(shared: Arc<Shared>) {
    if let Err(error) = write(&shared).await {
        shared.fail(error);
    }
}

async fn write(shared: &Arc<Shared>) -> io::Result<()> {
    // The number of the first transaction in the log file.
    let mut file = None;
    let mut since_snapshot = 0;
    let mut snapshot_after = draw(shared);
    loop {
        let (batch, rolls) = take(shared, &mut shared.lock());
        if rolls {
            file = None;
        }
        if batch.is_empty() {
            shared.to_log.notified().await;
            continue;
        }
        let hasty = shared.settings.bugs.acknowledge_before_sync;
        if hasty {
            note(shared, &batch);
        }
        let first = *file.get_or_insert(batch[0].zxid());
        shared.store.append(first, &batch).await?;
        if !hasty {
            note(shared, &batch);
        }
        since_snapshot += batch.len() as u64;
        if since_snapshot > snapshot_after {
            since_snapshot = 0;
            snapshot_after = draw(shared);
            file = None;
            let keeper = shared.clone();
            shared.spawn("zookeeper-snapshot", async move {
                // Too busy: the next one will do (`SyncRequestProcessor.snapThreadMutex`).
                let Some(snapshots) = keeper.store.try_snapshots() else { return };
                if let Err(error) = take_snapshot(&keeper, snapshots).await {
                    keeper.fail(error);
                }
            });
        }
    }
}

/// The next batch; `true`: it begins a new file.
fn take(shared: &Shared, state: &mut State) -> (Vec<Arc<Transaction>>, bool) {
    let count = state.log.queue.len().min(shared.settings.batch_limit.max(1));
    let batch: Vec<_> = state.log.queue.drain(..count).collect();
    state.log.is_writing = !batch.is_empty();
    if batch.is_empty() {
        shared.changed.notify_waiters();
    }
    (batch, std::mem::take(&mut state.log.rolls))
}

fn note(shared: &Shared, batch: &[Arc<Transaction>]) {
    let state = &mut *shared.lock();
    for transaction in batch {
        pipeline::logged(shared, state, transaction);
    }
}

/// Servers of an ensemble should not take their snapshots at the same time.
fn draw(shared: &Shared) -> u64 {
    let half = (shared.settings.snapshot_count / 2).max(1);
    half + shared.host.random("zookeeper-snapshot") % half
}

/// Keeps the tree as it is now.
pub(super) async fn take_snapshot(shared: &Shared, snapshots: Snapshots<'_>) -> io::Result<()> {
    let (zxid, bytes) = {
        let state = shared.lock();
        let mut writer = Writer::new();
        snapshot::write(&state.tree, &mut writer);
        (state.tree.last_zxid, writer.into_bytes())
    };
    snapshots.write(zxid, &bytes).await?;
    shared.tell(&Observation::Snapshot { zxid });
    shared.store.purge()
}
