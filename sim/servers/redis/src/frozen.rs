//! A server whose world stands still: what is in its memory at that instant, shown to visitors
//! over the protocol, and nothing of it changed.
//!
//! A visitor's commands run through the very code that clients' commands run through, on the
//! state that the run left. What is different: whatever would change something that another
//! visitor could see is refused with `-READONLY`, a key whose time has come stays where it is,
//! and nobody waits: what a command would wait for does not come while time stands still, so it
//! answers at once as it does when its time is over. Visitors are counted and listed as clients
//! (`INFO`, `CLIENT LIST`), beside those of the storm.

use std::io;
use std::sync::Arc;

use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::blocking::{time_out, unblock};
use super::codec::{Arguments, ReplyEncoder, RequestDecoder};
use super::command::{execute, refuse_unrun};
use super::observe::Origin;
use super::state::{Client, Next, Role, Shared, State};

/// What is seen of a server from outside of its world.
#[derive(Clone)]
pub struct Window(Arc<Shared>);

impl std::fmt::Debug for Window {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Window").field(&self.0.host).finish()
    }
}

/// As what a server stands, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whom it follows, `name:port`, and the state of its link as `ROLE` tells it; `None`: it is
    /// a master.
    pub follows: Option<(String, &'static str)>,
    /// Its replication offset, bytes.
    pub offset: u64,
    /// Its replicas, how much each has acknowledged, and how many bytes wait for it in the
    /// program's memory.
    pub replicas: Vec<(String, u64, u64)>,
}

/// A key of database 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The key.
    pub key: Vec<u8>,
    /// Its value, or what is first in it; `None` for a stream.
    pub value: Option<Vec<u8>>,
    /// How long it still lives by the server's clock, ms; 0 if its time has come and it was
    /// not yet deleted; `None` if it does not expire.
    pub remaining_ms: Option<u64>,
}

impl Window {
    pub(super) fn of(shared: Arc<Shared>) -> Window {
        Window(shared)
    }

    /// From now on nothing of it is changed. `instant` says where the world stands, as a clause
    /// for people (`behind event 834`).
    pub fn freeze(&self, instant: &str) {
        let refusal = format!("READONLY lockstorm: the world stands still {instant}");
        self.0.lock().frozen = Some(format!("{refusal}; nothing is written").into());
    }

    /// Whether the server has ended, by itself or with its program.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// As what it stands.
    pub fn standing(&self) -> Standing {
        let state = self.0.lock();
        let follows = match &state.role {
            Role::Master => None,
            Role::Replica { master, link } => {
                Some((format!("{}:{}", master.host, master.port), link.state_name()))
            }
        };
        let replicas = state.replication.replicas.values();
        let replicas =
            replicas.map(|replica| (replica.ip.clone(), replica.acked, replica.held_bytes()));
        Standing { follows, offset: state.replication.offset, replicas: replicas.collect() }
    }

    /// The keys of database 0, at most so many, in byte order, and how many there are.
    pub fn keys(&self, most: usize) -> (Vec<Kept>, usize) {
        let now_ms = self.0.wall_ms();
        let state = self.0.lock();
        let Some(database) = state.databases.first() else { return (Vec::new(), 0) };
        let mut keys: Vec<Kept> = database
            .iter()
            .map(|(key, entry)| Kept {
                key: key.to_vec(),
                value: entry.value.told().map(<[u8]>::to_vec),
                remaining_ms: entry
                    .expires_at_ms
                    .map(|at_ms| u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or(0)),
            })
            .collect();
        let count = keys.len();
        keys.sort_by(|one, other| one.key.cmp(&other.key));
        keys.truncate(most);
        (keys, count)
    }

    /// Serves a visitor until either side ends it.
    pub async fn serve(self, stream: Stream) {
        let shared = self.0;
        let peer = stream.peer_addr();
        let id = {
            let mut state = shared.lock();
            let id = state.draw_id();
            let client = Client::new(id, Origin::Client(peer), peer, shared.host.monotonic());
            state.clients.insert(id, Box::new(client));
            id
        };
        let visit = Visit {
            decoder: RequestDecoder::new(shared.settings.requests),
            reply: ReplyEncoder::default(),
            shared: shared.clone(),
            stream,
            id,
        };
        // A connection that failed is a connection that ended.
        let _ = visit.run().await;
        let mut state = shared.lock();
        if let Some(mut client) = state.clients.remove(&id) {
            state.unwatch(&mut client);
            state.subscribers.leave(&mut client);
            unblock(&mut state.waiting, &mut client);
        }
    }
}

/// A visitor's connection.
struct Visit {
    shared: Arc<Shared>,
    stream: Stream,
    decoder: RequestDecoder,
    reply: ReplyEncoder,
    id: u64,
}

impl Visit {
    async fn run(mut self) -> io::Result<()> {
        while self.stream.read_buf(self.decoder.buffer_mut()).await? > 0 {
            let goes_on = self.execute_all();
            self.stream.write_all(self.reply.bytes()).await?;
            self.stream.flush().await?;
            if !goes_on || self.reply.is_full() {
                return self.stream.shutdown().await;
            }
            self.reply.clear();
        }
        Ok(())
    }

    /// Executes everything that has arrived. False: the connection is over.
    fn execute_all(&mut self) -> bool {
        let Visit { shared, decoder, reply, id, .. } = self;
        let mut guard = shared.lock();
        let state = &mut *guard;
        let Some(mut client) = state.clients.remove(id) else { return false };
        client.active_at = shared.host.monotonic();
        reply.set_limit(shared.settings.output_limit_bytes);
        let goes_on = loop {
            reply.set_protocol(client.protocol);
            match decoder.decode() {
                Ok(None) => break true,
                Ok(Some(arguments)) => {
                    if !execute_one(shared, state, &mut client, arguments, reply) || reply.is_full()
                    {
                        break false;
                    }
                }
                Err(error) => {
                    if let Some(text) = error.reply() {
                        reply.error(&text);
                    }
                    break false;
                }
            }
        };
        client.query_bytes = decoder.buffered_bytes();
        state.clients.insert(*id, client);
        goes_on
    }
}

/// False: the connection is over.
fn execute_one(
    shared: &Arc<Shared>,
    state: &mut State,
    client: &mut Client,
    arguments: Arguments<'_>,
    reply: &mut ReplyEncoder,
) -> bool {
    if changes_server(arguments) {
        let refusal = state.frozen.clone().unwrap_or_default();
        refuse_unrun(state, client, arguments, &refusal, reply);
        return true;
    }
    execute(shared, state, client, arguments, reply);
    let next = client.next.take();
    if matches!(next, Some(Next::Block { .. })) {
        time_out(&mut state.waiting, &state.replication, client);
    }
    if !client.mailbox.bytes().is_empty() {
        reply.bytes_mut().extend_from_slice(client.mailbox.bytes());
        client.mailbox.clear();
    }
    !matches!(next, Some(Next::Close | Next::Abort | Next::Follow(_)))
}

/// Commands that are no writes and yet change what others see of the server, or have it do
/// something in its world, beside those that the table of commands knows for it
/// (`MAY_REPLICATE`). `None`: all of the command; else these second words of it.
const CHANGE: &[(&str, Option<&[&str]>)] = &[
    ("bgrewriteaof", None),
    ("bgsave", None),
    ("client", Some(&["kill", "no-evict", "unblock"])),
    ("cluster", None),
    ("config", Some(&["resetstat", "rewrite", "set"])),
    ("debug", None),
    ("function", Some(&["delete", "flush", "kill", "load"])),
    ("psync", None),
    ("replconf", None),
    ("replicaof", None),
    ("save", None),
    ("script", Some(&["flush", "kill", "load"])),
    ("shutdown", None),
    ("slaveof", None),
    ("sync", None),
];

pub(super) fn changes_server(arguments: Arguments<'_>) -> bool {
    let is = |index: usize, word: &str| {
        arguments.get(index).is_some_and(|given| given.eq_ignore_ascii_case(word.as_bytes()))
    };
    let Some((_, words)) = CHANGE.iter().find(|(name, _)| is(0, name)) else { return false };
    words.is_none_or(|words| words.iter().any(|word| is(1, word)))
}
