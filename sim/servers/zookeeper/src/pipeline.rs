//! From a request to its reply: requests are prepared or sent to the leader, wait for their
//! turn, are applied and answered (`CommitProcessor`, `FinalRequestProcessor`).
//!
//! The requests of a session are answered in the order in which they came. What writes waits
//! until it is decided; what reads waits for the writes of its own session before it, and is
//! answered from this server's own tree. A server that stands alone has one order for all
//! sessions.
//!
//! Order of things: requests and where they wait, how they come in, how transactions are
//! decided and applied, replies.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::code::{Code, kind};
use super::codec::{Reader, Writer};
use super::observe::Observation;
use super::prepare::{Asked, Preparer};
use super::records::Identity;
use super::session::Owner;
use super::state::{Role, Shared, State};
use super::transaction::{Change, Header, Transaction};
use super::tree::{Effect, Outcome};
use super::{ensemble, read, reply};

/// A request on its way.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The connection that waits for the reply; `None`: nobody, or somebody elsewhere.
    pub(super) client: Option<u64>,
    pub(super) session: i64,
    pub(super) xid: i32,
    pub(super) kind: i32,
    pub(super) body: Bytes,
    pub(super) identities: Arc<[Identity]>,
    pub(super) owner: Option<Owner>,
    /// Why it was refused without a transaction.
    pub(super) refused: Option<Code>,
    /// When it came, on the monotonic clock.
    pub(super) at: std::time::Duration,
}

impl Request {
    /// One that no client waits for.
    pub(super) fn internal(session: i64, kind: i32, body: Bytes) -> Self {
        Request {
            client: None,
            session,
            xid: 0,
            kind,
            body,
            identities: Arc::from([]),
            owner: None,
            refused: None,
            at: std::time::Duration::ZERO,
        }
    }
}

/// Where requests wait.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    /// By session; of a server that stands alone, all in one.
    waiting: BTreeMap<i64, VecDeque<Request>>,
    /// Those that wait to be decided, in order: which queue, whose, which.
    writes: VecDeque<(i64, i64, i32)>,
}

impl Pipeline {
    /// Puts a write to where it waits until it is decided.
    fn push_write(&mut self, queue: i64, request: Request) {
        self.writes.push_back((queue, request.session, request.xid));
        self.waiting.entry(queue).or_default().push_back(request);
    }

    /// Puts a read behind the writes before it; gives it back if there are none.
    fn push_read(&mut self, queue: i64, request: Request) -> Option<Request> {
        match self.waiting.get_mut(&queue) {
            None => Some(request),
            Some(waiting) => {
                waiting.push_back(request);
                None
            }
        }
    }

    /// The oldest write, if it is this session's and its client called it so, and its queue.
    fn take_write(&mut self, session: i64, xid: i32) -> Option<(i64, Request)> {
        let (queue, of, called) = *self.writes.front()?;
        if (of, called) != (session, xid) {
            return None;
        }
        self.writes.pop_front();
        let request = self.waiting.get_mut(&queue)?.pop_front()?;
        Some((queue, request))
    }

    /// The next read of a queue, if one is at its head; an empty queue goes.
    fn take_read(&mut self, queue: i64, waits: impl Fn(i32) -> bool) -> Option<Request> {
        let waiting = self.waiting.get_mut(&queue)?;
        match waiting.front() {
            None => {
                self.waiting.remove(&queue);
                None
            }
            // What was refused before it had a number is answered like a read.
            Some(request) if request.refused.is_none() && waits(request.kind) => None,
            Some(_) => waiting.pop_front(),
        }
    }
}

/// A request comes in. Clients' ones have been counted.
pub(super) fn submit(shared: &Shared, state: &mut State, mut request: Request) {
    if request.kind == kind::RECONFIG && !is_reconfiguration(&request.body) {
        // It is looked at before it has a number, and so is answered like a read.
        request.refused = Some(Code::MARSHALLING);
        queue_read(shared, state, request);
    } else if state.decides() {
        if kind::is_write(request.kind) {
            prepare(shared, state, request);
            return;
        }
        if let Some(tracker) = &mut state.tracker {
            request.refused = tracker.check(request.session, request.owner).err();
        }
        queue_read(shared, state, request);
    } else if waits(state, request.kind) {
        let queue = request.session;
        ensemble::forward(state, &request);
        state.pipeline.push_write(queue, request);
    } else {
        queue_read(shared, state, request);
    }
}

/// Whether these bytes are a `ReconfigRequest`: who joins, who leaves, who is there, the number
/// of the configuration that is to be replaced.
fn is_reconfiguration(body: &[u8]) -> bool {
    let reader = &mut Reader::new(body);
    (0..3).all(|_| reader.text_or_null().is_ok()) && reader.long().is_ok()
}

/// Whether a request of this kind waits for the leader.
fn waits(state: &State, kind: i32) -> bool {
    kind::is_write(kind) || (kind == kind::SYNC && !state.decides())
}

fn queue_of(state: &State, session: i64) -> i64 {
    if matches!(state.role, Role::Alone) { 0 } else { session }
}

fn queue_read(shared: &Shared, state: &mut State, request: Request) {
    let queue = queue_of(state, request.session);
    if let Some(request) = state.pipeline.push_read(queue, request) {
        answer_read(shared, state, &request);
    }
}

/// Makes a transaction of a request and has it logged and sent out.
fn prepare(shared: &Shared, state: &mut State, request: Request) {
    let zxid = state.last_proposed + 1;
    state.last_proposed = zxid;
    let Some(tracker) = &mut state.tracker else { return };
    let mut preparer = Preparer {
        tree: &state.tree,
        outstanding: &mut state.outstanding,
        tracker,
        now: shared.host.monotonic(),
        tree_limit_bytes: shared.settings.tree_limit_bytes,
    };
    let (kind, change) = preparer.prepare(
        zxid,
        &Asked {
            session: request.session,
            kind: request.kind,
            body: &request.body,
            identities: &request.identities,
            owner: request.owner,
        },
    );
    let header = Header {
        session: request.session,
        xid: request.xid,
        zxid,
        time_ms: shared.wall_ms(),
        kind,
    };
    let transaction = Transaction::new(header, change);
    shared.tell(&Observation::Proposed { zxid, bytes: &transaction.bytes });
    let queue = queue_of(state, request.session);
    state.pipeline.push_write(queue, request);
    ensemble::propose(shared, state, &transaction);
    log(shared, state, transaction);
}

/// Has a transaction written to the log.
pub(super) fn log(shared: &Shared, state: &mut State, transaction: Arc<Transaction>) {
    state.undecided.insert(transaction.zxid(), transaction.clone());
    state.log.queue.push_back(transaction);
    shared.to_log.notify_one();
}

/// The log has a transaction for good.
pub(super) fn logged(shared: &Shared, state: &mut State, transaction: &Arc<Transaction>) {
    shared.tell(&Observation::Logged { zxid: transaction.zxid() });
    match &state.role {
        Role::Alone => decide(shared, state, transaction.clone()),
        Role::Leading(_) => {
            ensemble::acknowledged(shared, state, shared.ensemble.me, transaction.zxid());
        }
        Role::Following(_) => ensemble::acknowledge(state, transaction.zxid()),
        Role::Starting | Role::Looking(_) => {}
    }
}

/// A transaction is decided: it is applied, whoever waits for it hears of it, and what
/// waited behind it goes on.
pub(super) fn decide(shared: &Shared, state: &mut State, transaction: Arc<Transaction>) {
    state.undecided.remove(&transaction.zxid());
    if state.decides() {
        shared.tell(&Observation::Committed { zxid: transaction.zxid() });
    }
    let header = transaction.header;
    let waiting = state.pipeline.take_write(header.session, header.xid);
    let request = waiting.as_ref().map(|(_, request)| request);
    apply(shared, state, &transaction, request);
    if let Some((queue, _)) = waiting {
        go_on(shared, state, queue);
    }
}

/// The leader has said that a `sync` of a client of this server is as far.
pub(super) fn synchronised(shared: &Shared, state: &mut State, session: i64, xid: i32) {
    if let Some((queue, request)) = state.pipeline.take_write(session, xid) {
        answer_read(shared, state, &request);
        go_on(shared, state, queue);
    }
}

fn go_on(shared: &Shared, state: &mut State, queue: i64) {
    let decides = state.decides();
    let waits = |kind| kind::is_write(kind) || (kind == kind::SYNC && !decides);
    while let Some(read) = state.pipeline.take_read(queue, waits) {
        answer_read(shared, state, &read);
    }
}

fn apply(
    shared: &Shared,
    state: &mut State,
    transaction: &Arc<Transaction>,
    request: Option<&Request>,
) {
    let header = &transaction.header;
    let mut effects = Vec::new();
    let outcome = state.tree.apply(transaction, &mut effects);
    state.outstanding.applied(header.zxid);
    keep(shared, state, transaction);
    if header.kind == kind::CLOSE_SESSION {
        state.touched.remove(&header.session);
        if let Some(tracker) = &mut state.tracker {
            tracker.remove(header.session);
        }
    } else if let Change::CreateSession { timeout_ms } = transaction.change
        && !state.decides()
    {
        state.touched.insert(header.session, timeout_ms);
    }
    shared.tell(&Observation::Applied {
        zxid: header.zxid,
        bytes: &transaction.bytes,
        committed: true,
    });
    if state.decides() {
        tell_effects(shared, transaction, &effects);
    }
    fire(shared, state, &effects);
    let waiting = request.and_then(|request| request.client);
    if header.kind == kind::CLOSE_SESSION
        && waiting.is_none()
        && let Some(client) = state.attached.get(&header.session).copied()
        && let Some(client) = state.clients.get_mut(&client)
    {
        client.kill();
    }
    if let Some(request) = request {
        answer_write(shared, state, request, header, &outcome);
    }
}

/// Keeps a decided transaction for followers that come back.
pub(super) fn keep(shared: &Shared, state: &mut State, transaction: &Arc<Transaction>) {
    if shared.ensemble.is_alone() {
        return;
    }
    state.commit_log.push_back(transaction.clone());
    if state.commit_log.len() > shared.settings.commit_log_count {
        state.commit_log.pop_front();
    }
}

fn tell_effects(shared: &Shared, transaction: &Transaction, effects: &[Effect]) {
    let Header { session, zxid, .. } = transaction.header;
    if let Change::CreateSession { timeout_ms } = transaction.change {
        shared.tell(&Observation::SessionCreated { session, timeout_ms });
    }
    for effect in effects {
        shared.tell(&match effect {
            Effect::Created { path, data, owner, .. } => Observation::Created {
                zxid,
                session,
                path,
                data: data.as_deref().unwrap_or_default(),
                is_ephemeral: *owner == session && *owner != 0,
            },
            Effect::Changed { path, data, version, .. } => Observation::Changed {
                zxid,
                session,
                path,
                data: data.as_deref().unwrap_or_default(),
                version: *version,
            },
            Effect::Deleted { path, czxid, owner, .. } => {
                Observation::Deleted { zxid, session, path, czxid: *czxid, owner: *owner }
            }
        });
    }
    if transaction.header.kind == kind::CLOSE_SESSION {
        shared.tell(&Observation::SessionClosed { session, zxid });
    }
}

/// Tells whoever watches.
fn fire(shared: &Shared, state: &mut State, effects: &[Effect]) {
    let mut events = Vec::new();
    for effect in effects {
        state.watches.trigger(effect, &mut events);
    }
    reply::tell_events(shared, state, &events);
}

fn answer_read(shared: &Shared, state: &mut State, request: &Request) {
    let Some(id) = request.client else { return };
    if state.clients.get(&id).is_none_or(|client| client.killed) {
        // Nobody hears it; and what it asked for before it went may be much work.
        uncount(shared, state, request);
        return;
    }
    let mut body = Writer::new();
    let result = match request.refused {
        Some(code) => Err(code),
        None => read::answer(shared, state, request, id, &mut body),
    };
    finish(shared, state, request, result.err().unwrap_or(Code::OK), body);
}

fn answer_write(
    shared: &Shared,
    state: &mut State,
    request: &Request,
    header: &Header,
    outcome: &Outcome,
) {
    let Some(id) = request.client else { return };
    if outcome.kind == kind::CREATE_SESSION {
        uncount(shared, state, request);
        reply::let_in(shared, state, id, true);
        return;
    }
    let mut body = Writer::new();
    let code = reply::write_outcome(outcome, &mut body);
    let (zxid, session, xid) = (header.zxid, header.session, header.xid);
    if code != Code::SESSION_MOVED {
        shared.tell(&Observation::Acknowledged { zxid, session, xid, code: code.0 });
    }
    finish(shared, state, request, code, body);
}

/// Counts a client's request as answered; it may be read from again.
fn uncount(shared: &Shared, state: &mut State, request: &Request) {
    let Some(id) = request.client else { return };
    state.in_process = state.in_process.saturating_sub(1);
    let is_full = state.in_process > shared.settings.outstanding_limit;
    let Some(client) = state.clients.get_mut(&id) else { return };
    if request.xid > 0 {
        client.unanswered = client.unanswered.saturating_sub(1);
        if client.throttled && !(is_full && client.unanswered > 0) {
            client.throttled = false;
            client.signal.notify_one();
        }
    }
}

fn finish(shared: &Shared, state: &mut State, request: &Request, code: Code, body: Writer) {
    uncount(shared, state, request);
    let waited = shared.host.monotonic().saturating_sub(request.at);
    state.statistics.note(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
    let zxid = state.tree.last_zxid;
    let Some(client) = request.client.and_then(|id| state.clients.get_mut(&id)) else { return };
    if code == Code::SESSION_MOVED {
        // The client goes on elsewhere; what it hears here would confuse it.
        client.close();
        return;
    }
    let xid = if request.kind == kind::PING { -2 } else { request.xid };
    let mut frame = Writer::new();
    frame.int(xid).long(zxid).int(code.0);
    if code == Code::OK {
        frame.raw(body.bytes());
    }
    client.note(request.kind, request.xid, zxid);
    client.push(frame.bytes(), shared.settings.output_limit_bytes);
    state.statistics.sent += 1;
    if request.kind == kind::CLOSE_SESSION {
        client.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_write_goes_with_the_reads_and_nothing_waits_behind_it() {
        let mut pipeline = Pipeline::default();
        let write = |xid| Request { xid, ..Request::internal(1, kind::CREATE, Bytes::new()) };
        let refused = Request {
            refused: Some(Code::MARSHALLING),
            ..Request::internal(1, kind::RECONFIG, Bytes::new())
        };
        pipeline.push_write(1, write(1));
        assert!(pipeline.push_read(1, refused).is_none(), "a write is before it");
        pipeline.push_write(1, write(2));
        let take_read = |pipeline: &mut Pipeline| {
            pipeline.take_read(1, kind::is_write).map(|request| request.kind)
        };
        assert_eq!(take_read(&mut pipeline), None);
        assert_eq!(pipeline.take_write(1, 1).map(|(_, request)| request.xid), Some(1));
        assert_eq!(take_read(&mut pipeline), Some(kind::RECONFIG));
        assert_eq!(take_read(&mut pipeline), None);
        assert_eq!(pipeline.take_write(1, 2).map(|(_, request)| request.xid), Some(2));
        assert_eq!(take_read(&mut pipeline), None);
        assert!(pipeline.waiting.is_empty());
    }
}
