//! Streaming replication: a primary ships its log, a standby replays it.
//!
//! The standby connects with `replication=true` and says how far it has got; both sides
//! speak in CopyData messages: `w` carries log, `k` asks whether the standby lives, `r`
//! tells how much it has written, flushed and replayed. Only what is on the primary's disk
//! is shipped. What the primary acknowledged and had not shipped is lost at a promotion;
//! the old primary goes on serving, and a standby that has log which its primary has not is
//! refused: it would have to be rewound.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::codec;
use super::observe::Observation;
use super::server::STANDBY_SIGNAL;
use super::session::block::flush;
use super::state::{Shared, Standby, kept_rows};
use super::wal::{self, Record};

/// How often a side that has nothing to say says so (`wal_receiver_status_interval`).
const STATUS: Duration = Duration::from_secs(10);
/// So much log goes into one message.
const CHUNK: u64 = 128 * 1024;

fn copy_data(to: &mut Vec<u8>, kind: u8, numbers: &[u64], bytes: &[u8]) {
    codec::message(to, b'd', |to| {
        to.push(kind);
        numbers.iter().for_each(|number| to.extend_from_slice(&number.to_be_bytes()));
        to.extend_from_slice(bytes);
    });
}

/// The numbers and the rest of such a message.
fn read_copy(body: &[u8], count: usize) -> Option<(u8, Vec<u64>, &[u8])> {
    let (kind, mut rest) = body.split_first()?;
    let mut numbers = Vec::new();
    for _ in 0..count {
        let (number, after) = rest.split_first_chunk::<8>()?;
        numbers.push(u64::from_be_bytes(*number));
        rest = after;
    }
    Some((*kind, numbers, rest))
}

/// Serves a standby until either side ends it.
pub(crate) async fn send(shared: Arc<Shared>, mut stream: Stream, input: Vec<u8>, name: String) {
    let (id, pid) = {
        let mut state = shared.lock();
        (state.draw_task(), state.draw_pid())
    };
    // The standby will connect again.
    let _ = stream_log(&shared, &mut stream, input, &name, (id, pid)).await;
    shared.lock().standbys.remove(&id);
    shared.progress.notify_waiters();
}

async fn stream_log(
    shared: &Arc<Shared>,
    stream: &mut Stream,
    mut input: Vec<u8>,
    name: &str,
    (id, pid): (u64, i32),
) -> std::io::Result<()> {
    let mut sent: Option<u64> = None;
    let mut heard = shared.host.monotonic();
    loop {
        while let Some((kind, length)) =
            codec::frame(&input, shared.settings.message_bytes).map_err(std::io::Error::other)?
        {
            let body: Vec<u8> = input[5..length].to_vec();
            input.drain(..length);
            heard = shared.host.monotonic();
            match (kind, read_copy(&body, 3)) {
                (b'd', Some((b'r', numbers, _))) => {
                    let [written, flushed, applied] = numbers[..] else { continue };
                    let name = name.to_owned();
                    let standby = Standby { name, pid, written, flushed, applied };
                    let end = shared.lock().wal.flushed;
                    if sent.is_none() && written > end {
                        return Err(std::io::Error::other("the standby is ahead of its primary"));
                    }
                    sent.get_or_insert(written);
                    shared.lock().standbys.insert(id, standby);
                    shared.progress.notify_waiters();
                }
                (b'X', _) => return Ok(()),
                _ => {}
            }
        }
        let mut output = Vec::new();
        if let Some(from) = sent {
            let state = shared.lock();
            let to = state.wal.flushed.min(from + CHUNK);
            if to > from {
                copy_data(
                    &mut output,
                    b'w',
                    &[from, state.wal.timeline],
                    state.wal.between(from, to),
                );
                sent = Some(to);
            }
        }
        if !output.is_empty() {
            stream.write_all(&output).await?;
            stream.flush().await?;
            continue;
        }
        match something(shared, stream, &mut input, STATUS).await? {
            Happened::Closed => return Ok(()),
            Happened::Time => {
                if shared.host.monotonic().saturating_sub(heard)
                    > shared.settings.replication_timeout
                {
                    return Ok(());
                }
                copy_data(&mut output, b'k', &[], b"");
                stream.write_all(&output).await?;
                stream.flush().await?;
            }
            Happened::Progress | Happened::Read => {}
        }
    }
}

enum Happened {
    Read,
    Closed,
    Progress,
    Time,
}

/// The next thing that a link has to do.
async fn something(
    shared: &Arc<Shared>,
    stream: &mut Stream,
    input: &mut Vec<u8>,
    limit: Duration,
) -> std::io::Result<Happened> {
    let mut progress = std::pin::pin!(shared.progress.notified());
    let mut sleep = shared.host.sleep(limit);
    let mut read = std::pin::pin!(stream.read_buf(input));
    std::future::poll_fn(|context| {
        use std::task::Poll;
        if progress.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(Happened::Progress));
        }
        if let Poll::Ready(count) = read.as_mut().poll(context) {
            return Poll::Ready(count.map(|count| match count {
                0 => Happened::Closed,
                _ => Happened::Read,
            }));
        }
        sleep.as_mut().poll(context).map(|()| Ok(Happened::Time))
    })
    .await
}

/// A standby's life: it follows its primary until it is promoted.
pub(crate) async fn follow(shared: Arc<Shared>) {
    let Some(primary) = shared.settings.primary.clone() else {
        wait_for_promotion(&shared).await;
        promote(&shared).await;
        return;
    };
    let address = format!("{}:{}", primary.host, primary.port);
    while !shared.is_promoting() {
        // Whatever ended it, it is tried again.
        let _ = receive(&shared, &address).await;
        if shared.is_promoting() || shared.lock().has_failed {
            break;
        }
        let _ = shared
            .host
            .timeout(shared.settings.replication_retry, wait_for_promotion(&shared))
            .await;
    }
    promote(&shared).await;
}

async fn wait_for_promotion(shared: &Arc<Shared>) {
    loop {
        let mut progress = std::pin::pin!(shared.progress.notified());
        progress.as_mut().enable();
        if shared.is_promoting() {
            return;
        }
        progress.await;
    }
}

async fn receive(shared: &Arc<Shared>, address: &str) -> std::io::Result<()> {
    let connecting =
        shared.host.timeout(shared.settings.replication_timeout, shared.host.connect(address));
    let mut stream = {
        let mut connecting = std::pin::pin!(connecting);
        let mut promoted = std::pin::pin!(wait_for_promotion(shared));
        std::future::poll_fn(|context| {
            if promoted.as_mut().poll(context).is_ready() {
                return std::task::Poll::Ready(None);
            }
            connecting.as_mut().poll(context).map(Some)
        })
        .await
        .ok_or_else(|| std::io::Error::other("promoted"))?
        .map_err(std::io::Error::other)??
    };
    let mut output = Vec::new();
    let startup = |to: &mut Vec<u8>| {
        to.extend_from_slice(&196_608u32.to_be_bytes());
        for (name, value) in [
            ("user", "postgres"),
            ("replication", "true"),
            ("application_name", shared.settings.name.as_str()),
        ] {
            codec::text(to, name);
            codec::text(to, value);
        }
        to.push(0);
    };
    output.extend_from_slice(&[0; 4]);
    startup(&mut output);
    let length = output.len() as u32;
    output[..4].copy_from_slice(&length.to_be_bytes());
    status(shared, &mut output);
    stream.write_all(&output).await?;
    stream.flush().await?;
    let mut input = Vec::new();
    let mut heard = shared.host.monotonic();
    loop {
        while let Some((kind, length)) =
            codec::frame(&input, shared.settings.message_bytes).map_err(std::io::Error::other)?
        {
            let body: Vec<u8> = input[5..length].to_vec();
            input.drain(..length);
            heard = shared.host.monotonic();
            if kind != b'd' {
                continue;
            }
            let mut output = Vec::new();
            if let Some((b'w', numbers, bytes)) = read_copy(&body, 2)
                && body[0] == b'w'
            {
                if shared.is_promoting() {
                    // What comes after the decision comes too late.
                    return Ok(());
                }
                take(shared, numbers[0], bytes, &mut stream).await?;
            }
            status(shared, &mut output);
            stream.write_all(&output).await?;
            stream.flush().await?;
        }
        match something(shared, &mut stream, &mut input, STATUS).await? {
            Happened::Closed => return Ok(()),
            Happened::Time => {
                if shared.host.monotonic().saturating_sub(heard)
                    > shared.settings.replication_timeout
                {
                    return Ok(());
                }
                let mut output = Vec::new();
                status(shared, &mut output);
                stream.write_all(&output).await?;
                stream.flush().await?;
            }
            Happened::Progress if shared.is_promoting() => return Ok(()),
            Happened::Progress | Happened::Read => {}
        }
    }
}

fn status(shared: &Shared, output: &mut Vec<u8>) {
    let state = shared.lock();
    let numbers = [state.wal.end(), state.wal.flushed, state.replayed];
    copy_data(output, b'r', &numbers, b"");
}

/// Writes, flushes and replays what came.
async fn take(
    shared: &Arc<Shared>,
    from: u64,
    bytes: &[u8],
    stream: &mut Stream,
) -> std::io::Result<()> {
    let end = {
        let mut state = shared.lock();
        if from != state.wal.end() {
            return Err(std::io::Error::other("the log has a gap"));
        }
        state.wal.append_bytes(bytes)
    };
    // What is received is told before it is on the disk: `remote_write`.
    let mut output = Vec::new();
    status(shared, &mut output);
    stream.write_all(&output).await?;
    stream.flush().await?;
    flush(shared, end).await.map_err(std::io::Error::other)?;
    replay(shared);
    Ok(())
}

/// Replays what is whole of the log.
fn replay(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        let at = state.replayed;
        let Some((record, length)) = state.wal.read(at) else { return };
        state.replayed += length as u64;
        let xid = match &record {
            Record::Commit { xid, .. } => Some(*xid),
            _ => None,
        };
        state.replay(record);
        if let Some(xid) = xid {
            let position = state.replayed;
            shared.observer.observe(&Observation::Replayed { position, xid });
        }
    }
}

/// The standby becomes a primary: what it has not replayed it never will.
async fn promote(shared: &Arc<Shared>) {
    replay(shared);
    let (at, timeline) = {
        let mut state = shared.lock();
        let at = state.replayed;
        state.wal.cut(at);
        (at, state.wal.timeline + 1)
    };
    let cut = shared.files.truncate(wal::FILE, at);
    let end = {
        let mut state = shared.lock();
        state.wal.written = state.wal.written.min(at);
        state.wal.flushed = state.wal.flushed.min(at);
        state.wal.timeline = timeline;
        state.wal.append(&Record::Promotion { timeline })
    };
    let _ = shared.files.remove(STANDBY_SIGNAL);
    let is_durable =
        cut.is_ok() && flush(shared, end).await.is_ok() && shared.files.sync_names().await.is_ok();
    if !is_durable {
        shared.panic();
        return;
    }
    let mut state = shared.lock();
    shared.set_standby(&mut state, false);
    let rows = kept_rows(&shared.settings, &state);
    shared.observer.observe(&Observation::Promoted { position: end, timeline, rows: &rows });
    drop(state);
    shared.progress.notify_waiters();
}
