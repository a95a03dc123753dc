//! One client's connection: a four-letter word, or a session's request after the other.
//!
//! Requests are taken as they come; replies and events lie in the client's output, in the
//! server's state, in the order in which they were made, and are written from there. A
//! connection that waits to hear whether it has a session, or that has a request open while
//! too many are, is not read from; what it sends waits in its kernel.
//!
//! Order of things: a connection's life, its first frame, its requests.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::access;
use super::code::{Code, kind};
use super::codec::{Frames, Reader, Writer};
use super::observe::Observation;
use super::pipeline::{self, Request};
use super::records::{Connect, Identity};
use super::session::{Owner, password};
use super::state::{Client, Role, Shared, Stage, State};
use super::{ensemble, reply, words};

/// As who a connection may be known at once; then it is closed.
const MOST_IDENTITIES: usize = 1_000;

/// Serves a connection until either side ends it.
pub(super) async fn serve(shared: Arc<Shared>, stream: Stream) {
    let peer = stream.peer_addr();
    let Some((id, signal)) = enter(&shared, Client::new(peer, shared.wall_ms())) else { return };
    let mut connection = Connection {
        shared: shared.clone(),
        id,
        stream,
        frames: Frames::default(),
        output: Vec::new(),
        written: 0,
        signal,
    };
    // A connection that failed is a connection that ended.
    let _ = connection.run().await;
    leave(&shared, id);
}

/// `None`: its address has too many.
fn enter(shared: &Shared, client: Client) -> Option<(u64, Arc<Notify>)> {
    let state = &mut *shared.lock();
    let most = shared.settings.connections_per_address;
    let count = state.per_address.entry(client.peer.ip()).or_insert(0);
    if most > 0 && *count >= most {
        return None;
    }
    *count += 1;
    let id = state.draw_id();
    let signal = client.signal.clone();
    state.clients.insert(id, client);
    Some((id, signal))
}

fn leave(shared: &Shared, id: u64) {
    let state = &mut *shared.lock();
    let Some(client) = state.clients.remove(&id) else { return };
    state.watches.leave(id);
    let ip = client.peer.ip();
    if let Some(count) = state.per_address.get_mut(&ip) {
        *count -= 1;
        if *count == 0 {
            state.per_address.remove(&ip);
        }
    }
    if state.attached.get(&client.session) == Some(&id) {
        state.attached.remove(&client.session);
    }
    if client.stage == Stage::Ready {
        shared.tell(&Observation::Detached { session: client.session, peer: client.peer });
    }
}

/// What can be done next.
enum Event {
    Read(usize),
    Wrote(usize),
    /// There is output, or requests may be taken again, or the end has come.
    Signalled,
}

/// The end of a connection.
#[derive(Debug)]
pub(super) struct Closed;

struct Connection {
    shared: Arc<Shared>,
    id: u64,
    stream: Stream,
    frames: Frames,
    /// Taken from the client's output, on its way to the kernel.
    output: Vec<u8>,
    written: usize,
    signal: Arc<Notify>,
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        loop {
            match self.event().await? {
                Event::Read(0) => return Ok(()),
                Event::Wrote(count) => self.written += count,
                Event::Read(_) | Event::Signalled => {}
            }
            if self.written == self.output.len() {
                self.output.clear();
                self.written = 0;
            }
            if self.requests().await.is_err() {
                return Ok(());
            }
            if self.take_output()? {
                let rest = &self.output[self.written..];
                self.stream.write_all(rest).await?;
                // What the client still sends must not turn the end into a reset.
                return self.stream.shutdown().await;
            }
        }
    }

    async fn event(&mut self) -> io::Result<Event> {
        let reads = self.shared.lock().clients.get(&self.id).is_some_and(Client::may_ask);
        let Connection { stream, frames, output, written, signal, .. } = self;
        let mut signalled = pin!(signal.notified());
        std::future::poll_fn(|context: &mut Context<'_>| {
            if signalled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Event::Signalled));
            }
            let rest = &output[*written..];
            if !rest.is_empty()
                && let Poll::Ready(count) = Pin::new(&mut *stream).poll_write(context, rest)
            {
                return Poll::Ready(count.map(Event::Wrote));
            }
            if !reads {
                return Poll::Pending;
            }
            pin!(stream.read_buf(frames.buffer_mut())).poll(context).map_ok(Event::Read)
        })
        .await
    }

    /// Takes what is to be written. True: it is the last.
    fn take_output(&mut self) -> io::Result<bool> {
        let mut state = self.shared.lock();
        let client = state.clients.get_mut(&self.id);
        let Some(client) = client.filter(|client| !client.killed) else {
            return Err(io::ErrorKind::ConnectionAborted.into());
        };
        self.output.append(&mut client.output);
        Ok(client.closing)
    }

    /// Takes the requests that are there, as long as it may.
    async fn requests(&mut self) -> Result<(), Closed> {
        loop {
            let work = {
                let shared = self.shared.clone();
                let state = &mut *shared.lock();
                let Some(client) = state.clients.get(&self.id) else { return Err(Closed) };
                if client.killed {
                    return Err(Closed);
                }
                if !client.may_ask() {
                    return Ok(());
                }
                let Some(frame) = self.next(state)? else { return Ok(()) };
                let due = reserve(&self.shared, state, &frame);
                if due.is_zero() {
                    take(&self.shared, state, self.id, frame)?;
                    continue;
                }
                (due, frame)
            };
            let (due, frame) = work;
            self.shared.host.sleep(due).await;
            take(&self.shared, &mut self.shared.lock(), self.id, frame)?;
        }
    }

    /// The next frame. A four-letter word is answered and is the end.
    fn next(&mut self, state: &mut State) -> Result<Option<Bytes>, Closed> {
        let Some(client) = state.clients.get(&self.id) else { return Err(Closed) };
        if client.stage == Stage::Fresh
            && let Some(first) = self.frames.peek()
        {
            if let Some(word) = words::word(first) {
                let answer = words::answer(&self.shared, state, word);
                if let Some(client) = state.clients.get_mut(&self.id) {
                    client.output.extend_from_slice(answer.as_bytes());
                    client.close();
                }
                return Ok(None);
            }
            if !state.serving {
                return Err(Closed);
            }
        }
        self.frames.next(self.shared.settings.request_limit_bytes).map_err(|_| Closed)
    }
}

/// How long a request waits for the processor and keeps it.
fn reserve(shared: &Shared, state: &mut State, frame: &[u8]) -> std::time::Duration {
    let settings = &shared.settings;
    if settings.read_work.is_zero() && settings.write_work.is_zero() {
        return std::time::Duration::ZERO;
    }
    let kind = frame.get(4..8).and_then(|bytes| Reader::new(bytes).int().ok());
    let work = match kind {
        Some(kind) if kind::is_write(kind) => settings.write_work,
        _ => settings.read_work,
    };
    let now = shared.host.monotonic();
    state.busy_until = state.busy_until.max(now) + work;
    state.busy_until - now
}

fn take(shared: &Shared, state: &mut State, id: u64, frame: Bytes) -> Result<(), Closed> {
    let Some(client) = state.clients.get_mut(&id).filter(|client| !client.killed) else {
        return Err(Closed);
    };
    client.received += 1;
    state.statistics.received += 1;
    match client.stage {
        Stage::Fresh => connect(shared, state, id, &frame),
        _ => request(shared, state, id, frame),
    }
}

/// The first frame: a new session, or one that goes on.
fn connect(shared: &Shared, state: &mut State, id: u64, frame: &[u8]) -> Result<(), Closed> {
    let connect = Connect::read(&mut Reader::new(frame)).map_err(|_| Closed)?;
    if !state.serving || connect.last_zxid_seen > state.tree.last_zxid {
        // It has seen what this server has not: it must go to another.
        return Err(Closed);
    }
    let timeout_ms = shared.settings.negotiate(connect.timeout_ms);
    let is_new = connect.session == 0;
    let session = if is_new { state.draw_session() } else { connect.session };
    let before = state.attached.insert(session, id);
    if let Some(before) = before.and_then(|before| state.clients.get_mut(&before)) {
        before.kill();
    }
    let Some(client) = state.clients.get_mut(&id) else { return Err(Closed) };
    client.session = session;
    client.timeout_ms = timeout_ms;
    client.stage = Stage::Connecting;
    client.knows_read_only = connect.read_only.is_some();
    if is_new {
        open(shared, state, id, session, timeout_ms);
    } else if connect.password != password(session) {
        reply::let_in(shared, state, id, false);
    } else {
        renew(shared, state, id, session, timeout_ms);
    }
    Ok(())
}

fn open(shared: &Shared, state: &mut State, id: u64, session: i64, timeout_ms: i32) {
    let now = shared.host.monotonic();
    match &mut state.tracker {
        Some(tracker) => tracker.track(session, timeout_ms, now),
        None => {
            state.touched.insert(session, timeout_ms);
        }
    }
    let mut body = Writer::new();
    body.int(timeout_ms);
    let mut request = Request::internal(session, kind::CREATE_SESSION, body.into_bytes().into());
    request.client = Some(id);
    request.at = now;
    state.in_process += 1;
    pipeline::submit(shared, state, request);
}

fn renew(shared: &Shared, state: &mut State, id: u64, session: i64, timeout_ms: i32) {
    let now = shared.host.monotonic();
    let Some(tracker) = &mut state.tracker else {
        ensemble::revalidate(state, id, session, timeout_ms);
        return;
    };
    let valid = tracker.touch(session, timeout_ms, now);
    if valid
        && matches!(state.role, Role::Leading(_))
        && tracker.set_owner(session, Some(Owner::Me)).is_some()
    {
        shared.tell(&Observation::SessionMoved { session });
    }
    reply::let_in(shared, state, id, valid);
}

fn request(shared: &Shared, state: &mut State, id: u64, frame: Bytes) -> Result<(), Closed> {
    let mut reader = Reader::new(&frame);
    let xid = reader.int().map_err(|_| Closed)?;
    let kind = reader.int().map_err(|_| Closed)?;
    let body = frame.slice(8..);
    let is_full = state.in_process > shared.settings.outstanding_limit;
    let Some(client) = state.clients.get_mut(&id) else { return Err(Closed) };
    if xid > 0 {
        client.unanswered += 1;
        if is_full {
            client.throttled = true;
            shared.tell(&Observation::Throttled { session: client.session });
        }
    }
    let (session, timeout_ms) = (client.session, client.timeout_ms);
    let request = Request {
        client: Some(id),
        session,
        xid,
        kind,
        body,
        identities: client.identities.clone(),
        owner: Some(Owner::Me),
        refused: None,
        at: shared.host.monotonic(),
    };
    match kind {
        kind::AUTH => return authenticate(shared, state, id, &request),
        kind::SASL => return Err(Closed),
        _ => {}
    }
    let lives = match &mut state.tracker {
        Some(tracker) => tracker.touch(session, timeout_ms, request.at),
        None => {
            state.touched.insert(session, timeout_ms);
            true
        }
    };
    if !lives {
        // Its session is ending: nobody answers.
        if let Some(client) = state.clients.get_mut(&id).filter(|_| xid > 0) {
            client.unanswered = client.unanswered.saturating_sub(1);
            client.throttled = false;
        }
        return Ok(());
    }
    if !kind::is_known(kind) {
        say(shared, state, id, xid, Code::UNIMPLEMENTED);
        if let Some(client) = state.clients.get_mut(&id) {
            client.close();
        }
        return Ok(());
    }
    state.in_process += 1;
    pipeline::submit(shared, state, request);
    match state.watches.count(id) > shared.settings.watch_limit {
        true => Err(Closed),
        false => Ok(()),
    }
}

/// A reply without a body, outside of the order of requests. One to a kind that there is not
/// carries the number that a request has before it is prepared (`UnimplementedRequestProcessor`).
pub(super) fn say(shared: &Shared, state: &mut State, id: u64, xid: i32, code: Code) {
    let zxid = if code == Code::UNIMPLEMENTED { -1 } else { 0 };
    let mut frame = Writer::new();
    frame.int(xid).long(zxid).int(code.0);
    if let Some(client) = state.clients.get_mut(&id) {
        client.push(frame.bytes(), shared.settings.output_limit_bytes);
    }
}

/// `addauth`: a password for access lists, or an address.
pub(super) fn authenticate(
    shared: &Shared,
    state: &mut State,
    id: u64,
    request: &Request,
) -> Result<(), Closed> {
    let mut reader = Reader::new(&request.body);
    let mut read = || Some((reader.int().ok()?, reader.text().ok()?, reader.buffer().ok()??));
    let Some((_, scheme, secret)) = read() else { return Err(Closed) };
    let address = |client: &Client| Identity::new("ip", client.peer.ip().to_string());
    let identity = match scheme.as_str() {
        "digest" => access::digest_identity(secret),
        "ip" => state.clients.get(&id).map(address),
        _ => None,
    };
    let Some(client) = state.clients.get_mut(&id) else { return Err(Closed) };
    if request.xid > 0 {
        client.unanswered = client.unanswered.saturating_sub(1);
    }
    let Some(identity) = identity else {
        say(shared, state, id, request.xid, Code::AUTH_FAILED);
        if let Some(client) = state.clients.get_mut(&id) {
            client.close();
        }
        return Ok(());
    };
    if client.identities.len() >= MOST_IDENTITIES {
        return Err(Closed);
    }
    if !client.identities.contains(&identity) {
        let all = client.identities.iter().cloned().chain([identity]);
        client.identities = all.collect();
    }
    say(shared, state, id, request.xid, Code::OK);
    Ok(())
}
