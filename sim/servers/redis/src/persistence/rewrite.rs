//! Rewrites of the append-only file: a snapshot becomes its base, and what was appended
//! before is dropped.
//!
//! Order of things: [`begin`] has the thread open another file to append to, and name it in
//! the manifest; a child writes the base; once it is there a new manifest takes the place of
//! the old. At each step the files that the manifest on the disk names are whole.

use std::io;
use std::sync::Arc;

use super::super::rdb;
use super::super::state::{Client, Shared, State};
use super::append::Phase;
use super::manifest::{self, Manifest, Part};
use super::{Answer, Child, now_s, occupy, write_whole};
use lockstorm_machine::disk::Files;

/// Where the base is written before it takes its name.
const BESIDE: &str = "temp-rewriteaof-bg-1.aof";

/// A file that has grown by so much since the last rewrite is rewritten
/// (`auto-aof-rewrite-percentage`), if it is so large (`auto-aof-rewrite-min-size`).
const GROWTH_PERCENT: u64 = 100;
const LEAST_BYTES: u64 = 64 << 20;

const STARTED: &str = "Background append only file rewriting started";
const FAILED: &str = "ERR Can't execute an AOF background rewriting. Please check the server \
    logs for more information.";

/// Puts a manifest in the place of the one before, durably.
pub(super) async fn keep(files: &Files, manifest: &Manifest) -> io::Result<()> {
    let text = manifest.text();
    write_whole(files, &manifest::path_beside(), &manifest::path(), text.as_bytes()).await?;
    files.sync_names().await
}

/// Begins a rewrite (`BGREWRITEAOF`); `client` is told. Whoever calls this has seen that
/// there is no other child. False: this server has no disk.
pub(in super::super) fn begin(
    shared: &Arc<Shared>,
    state: &mut State,
    client: Option<&mut Client>,
) -> bool {
    let Some(files) = state.kept.files.clone() else { return false };
    state.kept.child = Some(Child::Rewrite);
    state.kept.append.rewrite_scheduled = false;
    if state.kept.append.phase == Phase::On {
        super::append::write(shared, state);
    }
    let (own, base) = (shared.clone(), rdb::write_base(&state.databases, &state.libraries()));
    occupy(shared, state, client, async move { start(&own, files, base).await });
    true
}

/// The thread's part: nothing is executed until it is over, so that the snapshot is of the
/// instant at which the new file begins.
async fn start(shared: &Arc<Shared>, files: Files, base: Vec<u8>) -> Answer {
    let opened = open_next(shared, &files).await;
    let mut state = shared.lock();
    if opened.is_err() {
        state.kept.child = None;
        state.kept.append.last_rewrite_failed = true;
        return Err(FAILED.to_owned());
    }
    state.kept.append.rewrites += 1;
    let (own, id) = (shared.clone(), state.draw_id());
    shared.spawn("redis-child", id, async move {
        let written = finish(&own, &files, &base).await;
        let mut state = own.lock();
        let append = &mut state.kept.append;
        append.last_rewrite_failed = written.is_err();
        if append.phase == Phase::Waiting {
            append.drop_waiting();
        }
        // It must not end without a file that is to be there.
        append.rewrite_scheduled |= append.phase == Phase::Waiting;
        state.kept.child = None;
    });
    Ok(STARTED)
}

/// Opens the file that is appended to from now on.
async fn open_next(shared: &Arc<Shared>, files: &Files) -> io::Result<()> {
    let (phase, mut wanted, old) = {
        let state = shared.lock();
        let append = &state.kept.append;
        (append.phase, append.manifest.clone(), append.file.clone())
    };
    let path = match phase {
        Phase::Off => return Ok(()),
        Phase::Waiting => {
            let path = manifest::path_waiting();
            // Left by a rewrite that failed.
            let _ = files.remove(&path);
            files.append(&path, &[])?;
            path
        }
        Phase::On => {
            let path = wanted.add_increment().path();
            files.append(&path, &[])?;
            keep(files, &wanted).await?;
            path
        }
    };
    let mut state = shared.lock();
    let append = &mut state.kept.append;
    append.earlier_bytes += append.written;
    append.open(path, 0, now_s(shared));
    append.manifest = wanted;
    let id = state.draw_id();
    if phase == Phase::On {
        let files = files.clone();
        shared.spawn("redis-disk", id, async move {
            // As Redis closes it: synchronised once more, and nobody hears of a failure.
            let _ = files.sync(&old).await;
        });
    }
    Ok(())
}

/// The child's part, and what follows it.
async fn finish(shared: &Arc<Shared>, files: &Files, base: &[u8]) -> io::Result<()> {
    let (mut wanted, phase) = {
        let state = shared.lock();
        (state.kept.append.manifest.clone(), state.kept.append.phase)
    };
    let old: Vec<Part> = wanted.parts().cloned().collect();
    let newest = wanted.increments.pop();
    wanted.increments.clear();
    let path = wanted.add_base().path();
    write_whole(files, BESIDE, &path, base).await?;
    let increment = match phase {
        Phase::On => {
            wanted.increments.extend(newest);
            None
        }
        Phase::Waiting => {
            let increment = wanted.add_increment().path();
            files.rename(&manifest::path_waiting(), &increment)?;
            // What is written from here on goes to the file under its new name.
            shared.lock().kept.append.file.clone_from(&increment);
            Some(increment)
        }
        Phase::Off => None,
    };
    if let Err(error) = keep(files, &wanted).await {
        for path in std::iter::once(path).chain(increment) {
            // Nothing names it.
            let _ = files.remove(&path);
        }
        return Err(error);
    }
    for part in old.iter().filter(|part| !wanted.parts().any(|kept| kept == *part)) {
        // A file that stays is no harm: the manifest does not name it.
        let _ = files.remove(&part.path());
    }
    let mut state = shared.lock();
    let append = &mut state.kept.append;
    append.manifest = wanted;
    append.earlier_bytes = base.len() as u64;
    append.rewritten_bytes = append.earlier_bytes + append.written;
    if append.phase == Phase::Waiting {
        append.phase = Phase::On;
    }
    Ok(())
}

/// Begins one that somebody asked for while there was another child, or that is due.
pub(super) fn tend(shared: &Arc<Shared>, state: &mut State) {
    if state.kept.child.is_some() || shared.thread.is_busy() {
        return;
    }
    let append = &state.kept.append;
    let bytes = append.earlier_bytes + append.written;
    let grown = bytes.saturating_sub(append.rewritten_bytes) * 100;
    let is_due = append.phase == Phase::On
        && bytes > LEAST_BYTES
        && grown / append.rewritten_bytes.max(1) >= GROWTH_PERCENT;
    if append.rewrite_scheduled || is_due {
        begin(shared, state, None);
    }
}

/// `CONFIG SET appendonly yes`: false if it cannot be.
pub(in super::super) fn turn_on(shared: &Arc<Shared>, state: &mut State) -> bool {
    if state.kept.files.is_none() {
        return false;
    }
    state.kept.append.phase = Phase::Waiting;
    state.kept.append.forgive();
    if state.kept.child.is_some() || shared.thread.is_busy() {
        state.kept.append.rewrite_scheduled = true;
        // Until then what is executed is in the base that is to be.
        return true;
    }
    begin(shared, state, None)
}

/// `CONFIG SET appendonly no`.
pub(in super::super) fn turn_off(shared: &Arc<Shared>, state: &mut State) {
    super::append::write(shared, state);
    let (files, file) = (state.kept.files.clone(), state.kept.append.file.clone());
    state.kept.append.close();
    occupy(shared, state, None, async move {
        if let Some(files) = files {
            // Redis logs a failure and goes on.
            let _ = files.sync(&file).await;
        }
        Ok("OK")
    });
}
