//! A running server: its ports, its tasks, its life.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use lockstorm::Host;
use lockstorm::host::Listener;

use super::code::kind;
use super::frozen::Window;
use super::observe::{Observation, Observer, Unobserved, Znode};
use super::pipeline::{self, Request};
use super::session::Tracker;
use super::settings::{Ensemble, Settings};
use super::state::{Role, Shared, State};
use super::store::Store;
use super::{connection, ensemble, logger};
use lockstorm_machine::disk::Files;

/// How long a listener that failed is left alone.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A ZooKeeper server that has not been started.
pub struct Server(Arc<Shared>);

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Server").field(&self.0.host).finish()
    }
}

/// The ports that a server listens on.
#[derive(Debug)]
pub struct Listeners {
    /// For clients.
    pub client: Listener,
    /// For followers and for elections; a server that stands alone has none.
    pub peers: Option<Peers>,
}

/// The ports for the other members.
#[derive(Debug)]
pub struct Peers {
    /// For followers.
    pub quorum: Listener,
    /// For elections.
    pub election: Listener,
}

/// Ends the server's tasks with the future that runs it.
struct EndOnDrop(Arc<Shared>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Server {
    /// A server on the machine `host`: one of `ensemble`, or one that stands alone. What it
    /// keeps is on the disk of which it has the `files`; a server that is started again on
    /// the same disk goes on from there. `observer` is told what happens inside.
    pub fn new(
        host: Host,
        settings: Settings,
        ensemble: Ensemble,
        files: Files,
        observer: Arc<dyn Observer>,
    ) -> Server {
        let store =
            Store::new(files, settings.packet_limit_bytes.max(settings.tree_limit_bytes * 2));
        Server(Shared::new(host, settings, ensemble, store, observer))
    }

    /// A server with the default settings that stands alone and that nobody watches.
    pub fn alone(host: Host, files: Files) -> Server {
        let ensemble = Ensemble::alone(super::CLIENT_PORT);
        Server::new(host, Settings::default(), ensemble, files, Arc::new(Unobserved))
    }

    /// What is seen of it when its world stands still.
    pub fn window(&self) -> Window {
        Window::of(self.0.clone())
    }

    /// Serves until dropped. Dropping the future ends every connection, and with it whatever
    /// the server had in memory, as a crash of its process does.
    ///
    /// # Errors
    /// When a port cannot be listened on, or when the disk fails: as ZooKeeper's process
    /// does, the server ends then.
    pub async fn run(self) -> io::Result<()> {
        let shared = &self.0;
        let client = shared.host.listen(shared.ensemble.client_port).await?;
        let peers = match shared.ensemble.members.get(&shared.ensemble.me) {
            None => None,
            Some(me) => Some(Peers {
                quorum: shared.host.listen(me.quorum_port).await?,
                election: shared.host.listen(me.election_port).await?,
            }),
        };
        self.run_on(Listeners { client, peers }).await
    }

    /// Serves on listeners that are there already, for callers that chose port 0 and must
    /// tell somebody which they got.
    ///
    /// # Errors
    /// When the disk fails, or a member of an ensemble has no ports for the others.
    pub async fn run_on(self, listeners: Listeners) -> io::Result<()> {
        let shared = self.0;
        let _end = EndOnDrop(shared.clone());
        shared.lock().client_port = listeners.client.port();
        let mut accept = pin!(accept(&shared, &listeners.client));
        let mut live = pin!(live(&shared, listeners.peers));
        let mut failure = pin!(shared.until(|state| state.failure.take()));
        std::future::poll_fn(|context: &mut Context<'_>| {
            if let Poll::Ready(error) = failure.as_mut().poll(context) {
                return Poll::Ready(Err(error));
            }
            if let Poll::Ready(Err(error)) = live.as_mut().poll(context) {
                return Poll::Ready(Err(error));
            }
            // It does not end.
            let _: Poll<()> = accept.as_mut().poll(context);
            Poll::Pending
        })
        .await
    }
}

async fn accept(shared: &Arc<Shared>, listener: &Listener) {
    loop {
        match listener.accept().await {
            Ok(stream) => {
                shared.spawn("zookeeper-connection", connection::serve(shared.clone(), stream));
            }
            // Out of descriptors, or the peer is gone already.
            Err(_) => shared.host.sleep(ACCEPT_RETRY).await,
        }
    }
}

/// Reads the disk, then stands alone or takes part in the ensemble; never ends well.
async fn live(shared: &Arc<Shared>, peers: Option<Peers>) -> io::Result<()> {
    recover(shared).await?;
    shared.spawn("zookeeper-log", logger::run(shared.clone()));
    if shared.ensemble.is_alone() {
        stand_alone(shared);
        expire(shared).await;
        return Ok(());
    }
    let Some(peers) = peers else {
        let what = "a member of an ensemble needs ports for the others";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    };
    ensemble::live(shared, peers).await
}

/// Reads what the disk has.
pub(super) async fn recover(shared: &Shared) -> io::Result<()> {
    let found = shared.store.load(shared.settings.commit_log_count).await?;
    let state = &mut *shared.lock();
    state.tree = found.tree;
    if !shared.ensemble.is_alone() {
        state.tree.set_config(&shared.ensemble.config_text(), 0);
    }
    let log: Vec<i64> = found.newest.iter().map(|transaction| transaction.zxid()).collect();
    state.commit_log = found.newest.into();
    state.accepted_epoch = found.accepted_epoch;
    state.current_epoch = found.current_epoch;
    state.undecided.clear();
    state.log.rolls = true;
    let (zxid, epoch) = (state.tree.last_zxid, found.current_epoch);
    shared.tell(&Observation::Recovered { zxid, epoch, log: &log });
    Ok(())
}

fn stand_alone(shared: &Arc<Shared>) {
    let state = &mut *shared.lock();
    state.role = Role::Alone;
    begin_to_decide(shared, state, state.tree.last_zxid);
    state.serving = true;
    shared.spawn_containers();
}

/// From now on requests are prepared here, from the transaction after `zxid` on, and every
/// session has its whole timeout.
pub(super) fn begin_to_decide(shared: &Shared, state: &mut State, zxid: i64) {
    state.last_proposed = zxid;
    let now = shared.host.monotonic();
    state.tracker = Some(Tracker::new(shared.settings.tick, now, &state.tree.sessions));
    let znodes = state.tree.nodes.iter().map(|(path, node)| Znode {
        path,
        data: node.data.as_deref().unwrap_or_default(),
        czxid: node.stat.czxid,
        owner: node.stat().ephemeral_owner,
    });
    let (znodes, sessions): (Vec<_>, Vec<_>) =
        (znodes.collect(), state.tree.sessions.keys().copied().collect());
    shared.tell(&Observation::Inherited { znodes: &znodes, sessions: &sessions });
}

/// Ends sessions whose time has come, as long as that is decided here.
pub(super) async fn expire(shared: &Shared) {
    loop {
        let wait = {
            let state = &mut *shared.lock();
            let now = shared.host.monotonic();
            let Some(tracker) = &mut state.tracker else { return };
            let due = tracker.expire(now);
            let wait = tracker.wait(now);
            for session in due {
                shared.tell(&Observation::SessionExpired { session });
                let request = Request::internal(session, kind::CLOSE_SESSION, Bytes::new());
                pipeline::submit(shared, state, request);
            }
            wait
        };
        if !wait.is_zero() {
            shared.host.sleep(wait).await;
        }
    }
}

impl Shared {
    /// Deletes empty containers now and then, wherever that is decided at the time.
    pub(super) fn spawn_containers(self: &Arc<Self>) {
        let shared = self.clone();
        self.spawn("zookeeper-containers", async move {
            loop {
                shared.host.sleep(shared.settings.container_interval).await;
                delete_containers(&shared, &mut shared.lock());
            }
        });
    }
}

/// A container goes once it has had children and has none any more.
fn delete_containers(shared: &Shared, state: &mut State) {
    if !state.decides() {
        return;
    }
    let is_due = |path: &&String| {
        let node = state.tree.get(path);
        node.is_some_and(|node| node.children.is_empty() && node.stat.cversion > 0)
    };
    let due: Vec<String> = state.tree.containers.iter().filter(is_due).cloned().collect();
    for path in due {
        let request = Request::internal(0, kind::DELETE_CONTAINER, path.into_bytes().into());
        pipeline::submit(shared, state, request);
    }
}
