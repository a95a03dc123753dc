//! A server whose world stands still: the tree as it is in its memory at that instant, shown to
//! visitors over the protocol, and nothing of it changed.
//!
//! It answers as ZooKeeper's own servers do that have lost their quorum and may be read
//! (`readonlymode.enabled`): sessions are this server's alone and take no transaction, reads come
//! from its tree, and what would write is refused with `NotReadOnly`. A client that asked for
//! such a server (`zkCli.sh -r`, kazoo's `read_only=True`) is told that it has one. Sessions do
//! not expire, for no time passes; also a server that looks for a leader, and so would serve
//! nobody, shows what it has.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::code::{Code, kind};
use super::codec::{Frames, Reader, Writer};
use super::connection::{Closed, authenticate, say};
use super::pipeline::Request;
use super::records::Connect;
use super::session::password;
use super::state::{Client, Shared, Stage, State};
use super::{read, words};

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
    /// `leader`, `follower`, `looking` or `standalone`.
    pub mode: &'static str,
    /// Whether it serves clients.
    pub serves: bool,
    /// The epoch that it takes part in.
    pub epoch: i64,
    /// The last transaction that it has applied.
    pub zxid: i64,
    /// How many transactions it has logged, or is about to, of which it does not know that they
    /// are decided.
    pub undecided: usize,
    /// How many sessions its tree knows.
    pub sessions: usize,
    /// How many znodes its tree has.
    pub znodes: usize,
}

/// A znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its path.
    pub path: String,
    /// Its data.
    pub data: Vec<u8>,
    /// The transaction that made it.
    pub czxid: i64,
    /// The session that it ends with, if it does.
    pub session: Option<i64>,
}

impl Window {
    pub(super) fn of(shared: Arc<Shared>) -> Window {
        Window(shared)
    }

    /// Whether the server has ended, by itself or with its program.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// As what it stands.
    pub fn standing(&self) -> Standing {
        let state = self.0.lock();
        Standing {
            mode: state.mode(),
            serves: state.serving,
            epoch: state.current_epoch,
            zxid: state.tree.last_zxid,
            undecided: state.undecided.len(),
            sessions: state.tree.sessions.len(),
            znodes: state.tree.nodes.len(),
        }
    }

    /// The znodes outside of `/zookeeper` that have data or are ephemeral, at most so many, in
    /// the order in which they were made, and how many there are.
    pub fn znodes(&self, most: usize) -> (Vec<Kept>, usize) {
        let state = self.0.lock();
        let mut znodes: Vec<Kept> = state
            .tree
            .nodes
            .iter()
            .filter(|(path, _)| *path != "/" && !path.starts_with("/zookeeper"))
            .map(|(path, node)| Kept {
                path: path.clone(),
                data: node.data.as_deref().unwrap_or_default().to_vec(),
                czxid: node.stat.czxid,
                session: Some(node.stat().ephemeral_owner).filter(|session| *session != 0),
            })
            .filter(|znode| !znode.data.is_empty() || znode.session.is_some())
            .collect();
        let count = znodes.len();
        znodes.sort_by(|one, other| (one.czxid, &one.path).cmp(&(other.czxid, &other.path)));
        znodes.truncate(most);
        (znodes, count)
    }

    /// Serves a visitor until either side ends it.
    pub async fn serve(self, stream: Stream) {
        let shared = self.0;
        let id = {
            let mut state = shared.lock();
            let id = state.draw_id();
            state.clients.insert(id, Client::new(stream.peer_addr(), shared.wall_ms()));
            id
        };
        let visit = Visit { shared: shared.clone(), id, stream, frames: Frames::default() };
        // A connection that failed is a connection that ended.
        let _ = visit.run().await;
        let mut state = shared.lock();
        state.clients.remove(&id);
        state.watches.leave(id);
    }
}

/// A visitor's connection.
struct Visit {
    shared: Arc<Shared>,
    id: u64,
    stream: Stream,
    frames: Frames,
}

impl Visit {
    async fn run(mut self) -> io::Result<()> {
        while self.stream.read_buf(self.frames.buffer_mut()).await? > 0 {
            let goes_on = self.answer_all().is_ok();
            let (output, closing) = {
                let mut state = self.shared.lock();
                let Some(client) = state.clients.get_mut(&self.id) else { return Ok(()) };
                (std::mem::take(&mut client.output), client.closing || client.killed)
            };
            self.stream.write_all(&output).await?;
            self.stream.flush().await?;
            if !goes_on || closing {
                return self.stream.shutdown().await;
            }
        }
        Ok(())
    }

    /// Answers everything that has arrived.
    fn answer_all(&mut self) -> Result<(), Closed> {
        let Visit { shared, id, frames, .. } = self;
        let mut guard = shared.lock();
        let state = &mut *guard;
        loop {
            let client = state.clients.get_mut(id).ok_or(Closed)?;
            if client.closing || client.killed {
                return Ok(());
            }
            let stage = client.stage;
            let word = frames.peek().filter(|_| stage == Stage::Fresh).and_then(words::word);
            if let Some(word) = word {
                let answer = words::answer(shared, state, word);
                let client = state.clients.get_mut(id).ok_or(Closed)?;
                client.output.extend_from_slice(answer.as_bytes());
                client.close();
                return Ok(());
            }
            let frame = frames.next(shared.settings.request_limit_bytes).map_err(|_| Closed)?;
            let Some(frame) = frame else { return Ok(()) };
            match stage {
                Stage::Fresh => connect(shared, state, *id, &frame)?,
                _ => request(shared, state, *id, frame)?,
            }
        }
    }
}

/// A session of this server alone, new or one that it has given before.
fn connect(shared: &Shared, state: &mut State, id: u64, frame: &[u8]) -> Result<(), Closed> {
    let connect = Connect::read(&mut Reader::new(frame)).map_err(|_| Closed)?;
    let session = if connect.session == 0 { state.draw_session() } else { connect.session };
    let is_valid = connect.session == 0 || connect.password == password(session);
    let timeout_ms = shared.settings.negotiate(connect.timeout_ms);
    let client = state.clients.get_mut(&id).ok_or(Closed)?;
    let mut answer = Writer::new();
    match is_valid {
        true => answer.int(0).int(timeout_ms).long(session).buffer(Some(&password(session))),
        false => answer.int(0).int(0).long(0).buffer(Some(&[0; 16])),
    };
    if let Some(is_wanted) = connect.read_only {
        answer.boolean(is_wanted);
    }
    (client.session, client.timeout_ms, client.stage) = (session, timeout_ms, Stage::Ready);
    client.push(answer.bytes(), shared.settings.output_limit_bytes);
    if !is_valid {
        client.close();
    }
    Ok(())
}

fn request(shared: &Shared, state: &mut State, id: u64, frame: Bytes) -> Result<(), Closed> {
    let mut reader = Reader::new(&frame);
    let xid = reader.int().map_err(|_| Closed)?;
    let kind = reader.int().map_err(|_| Closed)?;
    let client = state.clients.get_mut(&id).ok_or(Closed)?;
    let request = Request {
        client: Some(id),
        identities: client.identities.clone(),
        xid,
        ..Request::internal(client.session, kind, frame.slice(8..))
    };
    match kind {
        kind::AUTH => return authenticate(shared, state, id, &request),
        kind::SASL => return Err(Closed),
        kind if !kind::is_known(kind) => {
            say(shared, state, id, xid, Code::UNIMPLEMENTED);
            return Err(Closed);
        }
        _ => {}
    }
    let mut body = Writer::new();
    let code = match kind {
        kind::CLOSE_SESSION => Code::OK,
        kind if kind::is_write(kind) => Code::NOT_READ_ONLY,
        _ => read::answer(shared, state, &request, id, &mut body).err().unwrap_or(Code::OK),
    };
    let mut answer = Writer::new();
    let xid = if kind == kind::PING { -2 } else { xid };
    answer.int(xid).long(state.tree.last_zxid).int(code.0);
    if code == Code::OK {
        answer.raw(body.bytes());
    }
    let client = state.clients.get_mut(&id).ok_or(Closed)?;
    client.push(answer.bytes(), shared.settings.output_limit_bytes);
    if kind == kind::CLOSE_SESSION {
        client.close();
    }
    match state.watches.count(id) > shared.settings.watch_limit {
        true => Err(Closed),
        false => Ok(()),
    }
}
