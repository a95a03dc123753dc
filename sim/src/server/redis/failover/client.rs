//! A small client of one Redis server: commands one after the other, each with its
//! time limit. A connection that fails once is of no more use.

use std::io;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::redis::codec::{Reply, ReplyDecoder, append_command};

/// Replies to what a controller asks are small; INFO is the longest.
const REPLY_MAX_BYTES: usize = 256 * 1024;

/// An open connection.
pub(super) struct Client {
    host: Host,
    stream: Stream,
    replies: ReplyDecoder,
    limit: Duration,
}

impl Client {
    /// Connects to `address` within `limit`, which then holds for each command.
    pub(super) async fn connect(host: &Host, address: &str, limit: Duration) -> io::Result<Self> {
        let stream = within(host, limit, host.connect(address)).await?;
        Ok(Client {
            host: host.clone(),
            stream,
            replies: ReplyDecoder::new(REPLY_MAX_BYTES),
            limit,
        })
    }

    /// Sends a command and awaits its reply, error replies included.
    pub(super) async fn ask(&mut self, command: &[&[u8]]) -> io::Result<Reply> {
        let mut bytes = Vec::new();
        append_command(&mut bytes, command.iter().copied());
        let (stream, replies) = (&mut self.stream, &mut self.replies);
        within(&self.host, self.limit, async {
            stream.write_all(&bytes).await?;
            stream.flush().await?;
            loop {
                let reply = replies
                    .decode()
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                if let Some(reply) = reply {
                    return Ok(reply);
                }
                if stream.read_buf(replies.buffer_mut()).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        })
        .await
    }
}

async fn within<T>(
    host: &Host,
    limit: Duration,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    match host.timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
