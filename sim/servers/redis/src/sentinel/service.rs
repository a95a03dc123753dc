//! Clients of a sentinel: who is connected, what they subscribe to, and one connection.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockstorm::host::{Listener, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::wire::{remember, write_out};
use super::{CLIENT_GROUP, Shared, command};
use crate::codec::{Protocol, ReplyEncoder, RequestDecoder, RequestLimits};
use crate::glob;

/// How many clients are served at once; more are told so and closed.
const MAX_CLIENTS: usize = 10_000;

/// A sentinel's clients send short commands: more is hostile.
pub(super) const LIMITS: RequestLimits =
    RequestLimits { arguments: 1_024, argument_bytes: 16 * 1024, buffered_bytes: 64 * 1024 };

/// How much may wait for a client that does not read, bytes; then it is closed.
const OUTPUT_LIMIT_BYTES: usize = 8 * 1024 * 1024;

/// How long a listener that failed is left alone.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A client.
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) address: SocketAddr,
    pub(super) name: Vec<u8>,
    pub(super) channels: BTreeSet<Vec<u8>>,
    pub(super) patterns: BTreeSet<Vec<u8>>,
    /// What it is to be sent.
    pub(super) reply: ReplyEncoder,
    /// It is sent what is there, and closed.
    pub(super) closes: bool,
    waker: Option<Waker>,
}

impl Client {
    pub(super) fn new(id: u64, address: SocketAddr) -> Self {
        Client {
            id,
            address,
            name: Vec::new(),
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            reply: ReplyEncoder::new(Protocol::Resp2),
            closes: false,
            waker: None,
        }
    }

    /// How many subscriptions it has.
    pub(super) fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Sends something that was not asked for, and lets its task know.
    fn push(&mut self, words: &[&[u8]]) {
        self.reply.push(words.len());
        for word in words {
            self.reply.bulk(word);
        }
        if self.reply.bytes().len() > OUTPUT_LIMIT_BYTES {
            self.reply.clear();
            self.closes = true;
        }
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

/// All clients, by id.
#[derive(Default)]
pub(super) struct Clients {
    pub(super) all: BTreeMap<u64, Client>,
    last_id: u64,
    pub(super) is_closed: bool,
}

impl Clients {
    /// Sends a message to all who subscribe to its channel. How many there were.
    pub(super) fn publish(&mut self, channel: &[u8], text: &[u8]) -> usize {
        let mut receivers = 0;
        for client in self.all.values_mut().filter(|client| client.subscriptions() > 0) {
            if client.channels.contains(channel) {
                client.push(&[b"message", channel, text]);
                receivers += 1;
            }
            let matching = |pattern: &&Vec<u8>| glob::matches(pattern, channel, false);
            let patterns: Vec<Vec<u8>> = client.patterns.iter().filter(matching).cloned().collect();
            for pattern in patterns {
                client.push(&[b"pmessage", &pattern, channel, text]);
                receivers += 1;
            }
        }
        receivers
    }

    /// Ends every connection.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        for client in std::mem::take(&mut self.all).into_values() {
            if let Some(waker) = client.waker {
                waker.wake();
            }
        }
    }

    /// The new client's id; `None`: there are too many.
    pub(super) fn enter(&mut self, address: SocketAddr) -> Option<u64> {
        if self.is_closed || self.all.len() >= MAX_CLIENTS {
            return None;
        }
        self.last_id += 1;
        self.all.insert(self.last_id, Client::new(self.last_id, address));
        Some(self.last_id)
    }
}

/// Accepts clients for ever.
pub(super) async fn accept(shared: &Arc<Shared>, listener: &Listener) {
    loop {
        match listener.accept().await {
            Ok(stream) => {
                shared.host.spawn(CLIENT_GROUP, serve(shared.clone(), stream));
            }
            // Usually a lack of descriptors: trying at once would only spin.
            Err(_) => shared.host.sleep(ACCEPT_RETRY).await,
        }
    }
}

async fn serve(shared: Arc<Shared>, mut stream: Stream) {
    let entered = shared.lock().clients.enter(stream.peer_addr());
    let Some(id) = entered else {
        // Whether it hears the reason is up to it.
        let _ = stream.write_all(b"-ERR max number of clients reached\r\n").await;
        return;
    };
    let mut connection = Connection {
        shared: shared.clone(),
        id,
        stream,
        requests: RequestDecoder::new(LIMITS),
        unsent: Vec::new(),
        written: 0,
    };
    // A connection that failed is a connection that ended.
    if matches!(connection.run().await, Ok(())) {
        let _ = connection.stream.shutdown().await;
    }
    shared.lock().clients.all.remove(&id);
}

struct Connection {
    shared: Arc<Shared>,
    id: u64,
    stream: Stream,
    requests: RequestDecoder,
    unsent: Vec<u8>,
    written: usize,
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        while self.read().await? {
            let Connection { shared, id, requests, .. } = self;
            shared.with(|state, now| {
                let Some(mut client) = state.clients.all.remove(id) else { return };
                while !client.closes {
                    match requests.decode() {
                        Ok(Some(arguments)) => command::execute(state, &mut client, arguments, now),
                        Ok(None) => break,
                        Err(error) => {
                            if let Some(text) = error.reply() {
                                client.reply.error(&text);
                            }
                            client.closes = true;
                        }
                    }
                }
                state.clients.all.insert(*id, client);
            });
            self.shared.settle().await;
        }
        Ok(())
    }

    /// Writes what there is to write until something comes. False: the connection is over.
    async fn read(&mut self) -> io::Result<bool> {
        let Connection { shared, id, stream, requests, unsent, written } = self;
        std::future::poll_fn(|context: &mut Context<'_>| {
            let closes = {
                let mut state = shared.lock();
                let Some(client) = state.clients.all.get_mut(id) else {
                    return Poll::Ready(Ok(false));
                };
                remember(&mut client.waker, context.waker());
                unsent.extend_from_slice(client.reply.bytes());
                client.reply.bytes_mut().clear();
                client.closes
            };
            if unsent.len() - *written > OUTPUT_LIMIT_BYTES {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            write_out(stream, unsent, written, context)?;
            if closes {
                return if unsent.is_empty() { Poll::Ready(Ok(false)) } else { Poll::Pending };
            }
            pin!(stream.read_buf(requests.buffer_mut())).poll(context).map_ok(|count| count > 0)
        })
        .await
    }
}
