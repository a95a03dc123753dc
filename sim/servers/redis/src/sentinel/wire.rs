//! Carries one connection to a server or to another sentinel: opens it, writes what the
//! state machine has for it, hands over what comes.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWrite};

use super::Shared;
use super::core::Opening;
use crate::codec::ReplyDecoder;

/// Replies to what a sentinel asks are small; INFO is the longest.
const REPLY_MAX_BYTES: usize = 1024 * 1024;

/// Carries the connection until either side ends it.
pub(super) async fn carry(shared: Arc<Shared>, opening: Opening) {
    let number = opening.number;
    if let Some(stream) = open(&shared, &opening).await {
        let wire = Wire {
            shared: shared.clone(),
            number,
            stream,
            replies: ReplyDecoder::new(REPLY_MAX_BYTES),
            unsent: Vec::new(),
            written: 0,
        };
        // A connection that failed is a connection that ended.
        let _ = wire.run().await;
    }
    shared.with(|state, _| state.core.failed(number));
}

/// `None`: it could not be opened, or nobody wants it any more.
async fn open(shared: &Shared, opening: &Opening) -> Option<Stream> {
    let mut connecting = pin!(shared.host.connect(&opening.address));
    std::future::poll_fn(|context: &mut Context<'_>| {
        match shared.lock().core.connection(opening.number) {
            None => return Poll::Ready(None),
            Some(connection) => remember(&mut connection.waker, context.waker()),
        }
        connecting.as_mut().poll(context).map(Result::ok)
    })
    .await
}

/// Keeps the waker of the task that is to hear of news.
pub(super) fn remember(kept: &mut Option<Waker>, waker: &Waker) {
    if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
        *kept = Some(waker.clone());
    }
}

/// Writes as much of `unsent` from `written` on as the kernel takes; all of it written
/// empties it.
pub(super) fn write_out(
    stream: &mut Stream,
    unsent: &mut Vec<u8>,
    written: &mut usize,
    context: &mut Context<'_>,
) -> io::Result<()> {
    while *written < unsent.len() {
        match Pin::new(&mut *stream).poll_write(context, &unsent[*written..]) {
            Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(count) => *written += count?,
            Poll::Pending => return Ok(()),
        }
    }
    unsent.clear();
    *written = 0;
    Ok(())
}

struct Wire {
    shared: Arc<Shared>,
    number: u64,
    stream: Stream,
    replies: ReplyDecoder,
    unsent: Vec<u8>,
    written: usize,
}

impl Wire {
    async fn run(mut self) -> io::Result<()> {
        while self.received().await? {
            loop {
                let reply = self.replies.decode();
                let reply =
                    reply.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                let Some(reply) = reply else { break };
                self.shared.with(|state, now| state.core.received(self.number, &reply, now));
            }
            self.shared.settle().await;
        }
        Ok(())
    }

    /// Writes what there is to write until something comes. False: the connection is over.
    async fn received(&mut self) -> io::Result<bool> {
        let Wire { shared, number, stream, replies, unsent, written } = self;
        std::future::poll_fn(|context: &mut Context<'_>| {
            {
                let state = &mut *shared.lock();
                let is_unsaved = state.is_unsaved();
                let Some(connection) = state.core.connection(*number) else {
                    return Poll::Ready(Ok(false));
                };
                remember(&mut connection.waker, context.waker());
                if !is_unsaved && !connection.outgoing.is_empty() {
                    if unsent.is_empty() {
                        std::mem::swap(unsent, &mut connection.outgoing);
                    } else {
                        unsent.append(&mut connection.outgoing);
                    }
                }
            }
            write_out(stream, unsent, written, context)?;
            pin!(stream.read_buf(replies.buffer_mut())).poll(context).map_ok(|count| count > 0)
        })
        .await
    }
}
