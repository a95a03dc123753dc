//! A running server: its port, its tasks, its cron.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::{Listener, Stream};

use super::command::expire_due;
use super::connection;
use super::frozen::Window;
use super::gate::ReplicationGate;
use super::observe::{Observer, Unobserved};
use super::persistence::{self, load};
use super::replication::{change_role, leader};
use super::settings::{ConfigFile, Settings};
use super::state::Shared;

/// How often expired keys are looked for and links are tended (`hz 10`).
const TICK: Duration = Duration::from_millis(100);

/// How long a listener that failed is left alone.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A Redis server that has not been started.
pub struct Server(Arc<Shared>);

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Server").field(&self.0.host).finish()
    }
}

/// Ends the server's tasks with the future that runs it.
struct EndOnDrop(Arc<Shared>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Server {
    /// A server on the machine `host`, empty. It follows the master of `config`, if
    /// that names one; `REPLICAOF` rewrites it. `gate` holds back what it has for
    /// its replicas; `observer` is told what happens inside.
    pub fn new(
        host: Host,
        settings: Settings,
        config: ConfigFile,
        gate: ReplicationGate,
        observer: Arc<dyn Observer>,
    ) -> Server {
        Server(Shared::new(host, settings, config, gate, observer))
    }

    /// A server with the default settings that follows nobody and that nobody watches.
    pub fn alone(host: Host) -> Server {
        let (settings, config) = (Settings::default(), ConfigFile::new());
        Server::new(host, settings, config, ReplicationGate::new(), Arc::new(Unobserved))
    }

    /// What is seen of it when its world stands still.
    pub fn window(&self) -> Window {
        Window::of(self.0.clone())
    }

    /// Serves until dropped, or until it is shut down. Dropping the future ends every
    /// connection, and with it whatever the server had in memory.
    ///
    /// # Errors
    /// When the port cannot be listened on, what was kept cannot be read, or what is to be kept
    /// cannot be kept.
    pub async fn run(self) -> io::Result<()> {
        let listener = self.0.host.listen(self.0.settings.port).await?;
        self.run_on(listener).await
    }

    /// Serves on a listener that is there already, for callers that chose port 0 and
    /// must tell somebody which they got.
    ///
    /// # Errors
    /// When what was kept cannot be read, or what is to be kept cannot be kept.
    pub async fn run_on(self, listener: Listener) -> io::Result<()> {
        let shared = self.0;
        let _end = EndOnDrop(shared.clone());
        shared.lock().port = listener.port();
        // Whoever connects meanwhile waits in the kernel. A server that cannot read what it
        // kept says so in its log, and is gone.
        if let Err(refusal) = load::open(&shared).await {
            return Err(io::Error::other(format!("what it kept cannot be read: {refusal}")));
        }
        {
            let mut state = shared.lock();
            if let Some(master) = shared.config.master() {
                change_role(&shared, &mut state, Some(master));
            }
        }
        let mut cron = pin!(cron(shared.clone()));
        let mut ended = pin!(shared.thread.ended());
        let mut accept = pin!(accept(&shared, &listener));
        let failure = std::future::poll_fn(|context: &mut Context<'_>| {
            // Neither of these two ends.
            let _: Poll<()> = accept.as_mut().poll(context);
            let _: Poll<()> = cron.as_mut().poll(context);
            ended.as_mut().poll(context)
        })
        .await;
        failure.map_or(Ok(()), |failure| Err(io::Error::other(failure)))
    }
}

async fn accept(shared: &Arc<Shared>, listener: &Listener) {
    loop {
        match listener.accept().await {
            Ok(stream) => serve(shared, stream),
            // Out of descriptors, or the peer is gone already.
            Err(_) => shared.host.sleep(ACCEPT_RETRY).await,
        }
    }
}

fn serve(shared: &Arc<Shared>, stream: Stream) {
    let id = shared.lock().draw_id();
    shared.spawn("redis-connection", id, connection::serve(shared.clone(), id, stream));
}

/// What a server does without being asked.
async fn cron(shared: Arc<Shared>) {
    let mut pinged_at = shared.host.monotonic();
    loop {
        shared.host.sleep(TICK).await;
        // A script that runs for too long keeps the thread from it, also where others are told.
        if shared.thread.is_busy() || shared.thread.is_in_script() {
            continue;
        }
        {
            let mut state = shared.lock();
            expire_due(&shared, &mut state);
            persistence::tend(&shared, &mut state);
        }
        let now = shared.host.monotonic();
        let period = shared.lock().ping_period(&shared.settings);
        let ping = now.saturating_sub(pinged_at) >= period;
        if ping {
            pinged_at = now;
        }
        leader::tend(&shared, ping);
    }
}
