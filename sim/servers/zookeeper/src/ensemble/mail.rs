//! Connections between the members for elections (`QuorumCnxManager`).
//!
//! Two members have one connection: the one with the larger number opens it. A member with
//! the smaller number that has something to say connects, says who it is, and is called
//! back. A message that has not been sent when the next comes is replaced by it; a new
//! connection begins with the newest message, for nobody knows whether it arrived.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::host::{Listener, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::Notify;

use super::super::codec::Writer;
use super::super::settings::ServerId;
use super::super::snapshot::malformed;
use super::super::state::{Role, Shared, State};
use super::vote::{Doing, Notification, Vote};

/// The first words of a connection (`PROTOCOL_VERSION_V1`).
const GREETING: i64 = -65_536;
/// How long a connection may take to come about (`zookeeper.cnxTimeout`).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest message (`PACKETMAXSIZE`), bytes.
const MESSAGE_LIMIT_BYTES: usize = 512 * 1024;
/// The longest address in a greeting, bytes.
const ADDRESS_LIMIT_BYTES: usize = 2_048;
/// How many messages wait to be looked at; what comes then is dropped, and said again.
const INBOX_LIMIT: usize = 1_000;
/// How long a listener that failed is left alone.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What is between this member and one other.
#[derive(Debug, Default)]
struct Peer {
    unsent: Option<Arc<[u8]>>,
    last: Option<Arc<[u8]>>,
    link: Option<Link>,
    is_connecting: bool,
}

#[derive(Debug)]
struct Link {
    number: u64,
    wake: Arc<Notify>,
    writer: u64,
}

/// All of it, and what has come.
#[derive(Debug, Default)]
pub(in super::super) struct Mail {
    peers: BTreeMap<ServerId, Peer>,
    pub(super) inbox: VecDeque<Notification>,
}

impl Mail {
    /// Whether anything that was to be sent is on its way.
    pub(super) fn has_delivered(&self) -> bool {
        self.peers.values().any(|peer| peer.unsent.is_none())
    }
}

/// Tells `to` this member's vote.
pub(super) fn send(
    shared: &Arc<Shared>,
    state: &mut State,
    to: ServerId,
    doing: Doing,
    vote: Vote,
) {
    let said = Notification { from: shared.ensemble.me, doing, vote };
    if to == shared.ensemble.me {
        receive(shared, state, said);
        return;
    }
    let message: Arc<[u8]> = said.write(&shared.ensemble.config_text()).into();
    let peer = state.mail.peers.entry(to).or_default();
    peer.unsent = Some(message);
    match &peer.link {
        Some(link) => link.wake.notify_one(),
        None => connect(shared, state, to),
    }
}

/// Opens a connection to `to`, if there is none.
pub(super) fn connect(shared: &Arc<Shared>, state: &mut State, to: ServerId) {
    let Some(member) = shared.ensemble.members.get(&to) else { return };
    let peer = state.mail.peers.entry(to).or_default();
    if peer.link.is_some() || peer.is_connecting || to == shared.ensemble.me {
        return;
    }
    peer.is_connecting = true;
    let address = format!("{}:{}", member.host, member.election_port);
    let shared_too = shared.clone();
    shared.spawn("zookeeper-election", async move {
        let shared = shared_too;
        let opened = shared.host.timeout(CONNECT_TIMEOUT, greet(&shared, &address)).await;
        let state = &mut *shared.lock();
        state.mail.peers.entry(to).or_default().is_connecting = false;
        // Whoever has the larger number calls back.
        if let Ok(Ok(stream)) = opened
            && to < shared.ensemble.me
        {
            begin(&shared, state, to, stream);
        }
    });
}

async fn greet(shared: &Shared, address: &str) -> io::Result<Stream> {
    let mut stream = shared.host.connect(address).await?;
    let mut writer = Writer::new();
    let me = shared.ensemble.me;
    let member = shared.ensemble.members.get(&me);
    let own = member.map(|member| format!("{}:{}", member.host, member.election_port));
    writer.long(GREETING).long(i64::from(me)).text(&own.unwrap_or_default());
    stream.write_all(writer.bytes()).await?;
    Ok(stream)
}

/// Takes connections of other members.
pub(super) async fn listen(shared: &Arc<Shared>, listener: &Listener) {
    loop {
        let Ok(stream) = listener.accept().await else {
            shared.host.sleep(ACCEPT_RETRY).await;
            continue;
        };
        let shared_too = shared.clone();
        shared.spawn("zookeeper-election", async move {
            let shared = shared_too;
            let mut stream = stream;
            let said = shared.host.timeout(CONNECT_TIMEOUT, hear_greeting(&mut stream)).await;
            let Ok(Ok(from)) = said else { return };
            welcome(&shared, from, stream);
        });
    }
}

async fn hear_greeting(stream: &mut Stream) -> io::Result<i64> {
    if stream.read_i64().await? != GREETING {
        return Err(malformed("an unknown greeting"));
    }
    let from = stream.read_i64().await?;
    let length = usize::try_from(stream.read_i32().await?).unwrap_or(usize::MAX);
    if length > ADDRESS_LIMIT_BYTES {
        return Err(malformed("an address that is too long"));
    }
    let mut address = vec![0; length];
    stream.read_exact(&mut address).await?;
    Ok(from)
}

fn welcome(shared: &Arc<Shared>, from: i64, stream: Stream) {
    let Ok(from) = ServerId::try_from(from) else { return };
    if !shared.ensemble.members.contains_key(&from) || from == shared.ensemble.me {
        return;
    }
    let state = &mut *shared.lock();
    if from > shared.ensemble.me {
        begin(shared, state, from, stream);
        return;
    }
    // It wants to be called back. The connection that there may be is one that it has lost.
    drop(stream);
    if let Some(peer) = state.mail.peers.get_mut(&from)
        && let Some(link) = peer.link.take()
    {
        shared.stop(link.writer);
        shared.stop(link.number);
    }
    connect(shared, state, from);
}

/// A connection to `with` stands, in place of any before.
fn begin(shared: &Arc<Shared>, state: &mut State, with: ServerId, stream: Stream) {
    let (read, write) = tokio::io::split(stream);
    let wake = Arc::new(Notify::new());
    let writer = shared.spawn("zookeeper-election", {
        let (shared, wake) = (shared.clone(), wake.clone());
        async move {
            let _ = write_out(&shared, with, write, &wake).await;
        }
    });
    let number = shared.spawn("zookeeper-election", {
        let shared = shared.clone();
        async move {
            let _ = read_in(&shared, with, read).await;
            let state = &mut *shared.lock();
            if let Some(peer) = state.mail.peers.get_mut(&with)
                && let Some(link) = peer.link.take_if(|link| link.writer == writer)
            {
                shared.stop(link.writer);
            }
        }
    });
    let peer = state.mail.peers.entry(with).or_default();
    if peer.unsent.is_none() {
        peer.unsent = peer.last.clone();
    }
    if let Some(before) = peer.link.replace(Link { number, wake, writer }) {
        shared.stop(before.writer);
        shared.stop(before.number);
    }
}

async fn write_out(
    shared: &Shared,
    to: ServerId,
    mut stream: WriteHalf<Stream>,
    wake: &Notify,
) -> io::Result<()> {
    loop {
        let message = {
            let state = &mut *shared.lock();
            let peer = state.mail.peers.entry(to).or_default();
            let message = peer.unsent.take();
            if message.is_some() {
                peer.last = message.clone();
            }
            message
        };
        let Some(message) = message else {
            wake.notified().await;
            continue;
        };
        let mut writer = Writer::new();
        writer.buffer(Some(&message));
        stream.write_all(writer.bytes()).await?;
    }
}

async fn read_in(shared: &Arc<Shared>, from: ServerId, stream: ReadHalf<Stream>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let length = usize::try_from(stream.read_i32().await?).unwrap_or(usize::MAX);
        if length > MESSAGE_LIMIT_BYTES {
            return Err(malformed("a message that is too long"));
        }
        let mut message = vec![0; length];
        stream.read_exact(&mut message).await?;
        // What says nothing is passed over, as in ZooKeeper.
        if let Ok(said) = Notification::read(from, &message) {
            receive(shared, &mut shared.lock(), said);
        }
    }
}

/// Somebody told a vote. Whoever looks for a leader hears from one who has found one, and
/// whoever is behind hears how far the election is.
fn receive(shared: &Arc<Shared>, state: &mut State, said: Notification) {
    let is_looking = said.doing == Doing::Looking;
    match &state.role {
        Role::Looking(looking) => {
            let proposed = looking.proposed;
            if state.mail.inbox.len() < INBOX_LIMIT {
                state.mail.inbox.push_back(said);
                shared.changed.notify_waiters();
            }
            if is_looking && said.vote.round < proposed.round && said.from != shared.ensemble.me {
                send(shared, state, said.from, Doing::Looking, proposed);
            }
        }
        Role::Leading(_) | Role::Following(_) if is_looking => {
            let leads = matches!(state.role, Role::Leading(_));
            let doing = if leads { Doing::Leading } else { Doing::Following };
            let vote = state.vote;
            send(shared, state, said.from, doing, vote);
        }
        _ => {}
    }
}
