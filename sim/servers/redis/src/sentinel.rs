//! Redis Sentinel 7.0: watches masters, agrees with other sentinels that one is down,
//! elects who replaces it, promotes a replica and names it to clients.
//!
//! It follows `src/sentinel.c` of Redis 7.0.15 step by step, because what is known of
//! Sentinel follows from its steps: a timer of ten to nineteen ticks a second, one step
//! of a failover in a tick, PING once a second, INFO every ten and every second in a
//! failover, a hello every two. So the time in which clients know no master, and the
//! time in which there are two, have the causes that they have in life: a sentinel learns
//! of a promotion by the next INFO, others learn of it by the next hello, and a former
//! master that returns is told to follow only when it has called itself a master for
//! eight seconds.
//!
//! Order of things: settings and observer; `bounds` is what others may tell it; `core` is the state machine, in `instance`,
//! `link`, `watch`, `election`, `failover`, `refresh` and `hello`; `configuration` is
//! what outlives a restart; `wire` carries connections to servers and sentinels, `service`
//! those of clients, who say what is in `command`; `frozen` is a sentinel whose world stands still.
//!
//! What it is not: it runs no notification scripts and knows no passwords, and of two
//! masters that share sentinels it keeps connections for each.

mod bounds;
mod command;
mod configuration;
mod core;
mod election;
mod failover;
mod frozen;
mod hello;
mod instance;
mod link;
mod refresh;
mod service;
mod watch;
mod wire;

#[cfg(test)]
mod tests;

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Listener;

use self::core::Core;
use configuration::Storage;
use instance::Ms;
use service::Clients;

pub use configuration::{Keeping, Memory};
pub use frozen::Window;

/// Where sentinels listen.
pub const PORT: u16 = 26_379;

/// The group of the tasks that carry connections to servers and other sentinels.
pub const LINK_GROUP: &str = "sentinel-link";

/// The group of the tasks that serve clients.
pub const CLIENT_GROUP: &str = "sentinel-client";

/// What a sentinel is to do: its configuration file. Make it with [`Settings::new`] and
/// change fields.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The port that is listened on.
    pub port: u16,
    /// The name or address under which others reach it (`announce-ip`).
    pub announced: String,
    /// Its id, 40 hex digits (`myid`). Without one it draws one.
    pub id: Option<String>,
    /// Whom it watches.
    pub masters: Vec<MasterSettings>,
    /// Where it keeps what must outlive a restart.
    pub keeping: Keeping,
}

impl Settings {
    /// A sentinel on port 26379 that is reached as `announced`, watches nobody yet and
    /// keeps its state in memory.
    pub fn new(announced: impl Into<String>) -> Self {
        Settings {
            port: PORT,
            announced: announced.into(),
            id: None,
            masters: Vec::new(),
            keeping: Keeping::Memory(Memory::default()),
        }
    }
}

/// A master that is watched. Make it with [`MasterSettings::new`] and change fields.
#[derive(Clone, Debug)]
pub struct MasterSettings {
    /// The name under which clients ask for it.
    pub name: String,
    /// Where it is at first, `name:port`.
    pub address: String,
    /// So many sentinels must agree that it is down.
    pub quorum: u32,
    /// Without a valid reply for longer, an instance is down
    /// (`down-after-milliseconds`; 30 s in Redis).
    pub down_after: Duration,
    /// How long a step of a failover may take, and half of the time until the next try
    /// (`failover-timeout`; 3 min in Redis).
    pub failover_timeout: Duration,
    /// How many replicas are pointed at a new master at once (`parallel-syncs`).
    pub parallel_syncs: u32,
    /// Replicas that it knows from the start (`known-replica`), `name:port`.
    pub replicas: Vec<String>,
    /// Sentinels that it knows from the start (`known-sentinel`).
    pub sentinels: Vec<KnownSentinel>,
}

impl MasterSettings {
    /// The master `name` at `address` with Redis' defaults, of which nothing else is known.
    pub fn new(name: impl Into<String>, address: impl Into<String>, quorum: u32) -> Self {
        MasterSettings {
            name: name.into(),
            address: address.into(),
            quorum,
            down_after: Duration::from_secs(30),
            failover_timeout: Duration::from_secs(180),
            parallel_syncs: 1,
            replicas: Vec::new(),
            sentinels: Vec::new(),
        }
    }
}

/// A sentinel that is known from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSentinel {
    /// Its id.
    pub id: String,
    /// Where it listens, `name:port`.
    pub address: String,
}

/// Something that a sentinel tells those who subscribe to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name, which is the channel, such as `+sdown`.
    pub name: &'static str,
    /// The message.
    pub text: String,
    /// What it means, where a storm's history has a word for it.
    pub about: About,
}

/// What an event means. Addresses are `name:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// Nothing more than it says.
    Nothing,
    /// Enough sentinels agree that the master is down (`+odown`).
    Down {
        /// The master.
        master: String,
    },
    /// This sentinel is to fail the master over (`+elected-leader`).
    Elected {
        /// In which epoch.
        epoch: u64,
        /// Who voted for it, itself included; nobody was asked where a client ordered
        /// the failover.
        voters: Vec<String>,
    },
    /// Clients are told of another master from now on (`+switch-master`).
    Switched {
        /// The former one.
        from: String,
        /// The new one.
        to: String,
    },
}

/// Whoever watches a sentinel. Called synchronously; must not call back.
pub trait SentinelObserver: Send + Sync {
    /// Something happened.
    fn happened(&self, event: &Event);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl SentinelObserver for Unobserved {
    fn happened(&self, _event: &Event) {}
}

/// A sentinel on its machine.
pub struct Sentinel {
    host: Host,
    settings: Settings,
    observer: Arc<dyn SentinelObserver>,
    window: Window,
}

impl Sentinel {
    /// A sentinel on `host`, watched by `observer`.
    pub fn new(host: Host, settings: Settings, observer: Arc<dyn SentinelObserver>) -> Self {
        Sentinel { host, settings, observer, window: Window::default() }
    }

    /// What is seen of it when its world stands still.
    pub fn window(&self) -> Window {
        self.window.clone()
    }

    /// Watches, votes, fails over and answers until it is dropped; its tasks end with it.
    ///
    /// # Errors
    /// When its port cannot be listened on, or its disk cannot be read.
    pub async fn run(self) -> io::Result<()> {
        let listener = self.host.listen(self.settings.port).await?;
        self.run_on(listener).await
    }

    /// Likewise on a listener that is there already.
    ///
    /// # Errors
    /// When its disk cannot be read.
    pub async fn run_on(mut self, listener: Listener) -> io::Result<()> {
        self.settings.port = listener.port();
        let (storage, kept) = Storage::open(&self.settings.keeping, &self.host).await?;
        let window = self.window.clone();
        let shared = Shared::new(self, storage, kept.as_deref());
        window.open(&shared);
        let _end = EndOnDrop(shared.clone());
        shared.settle().await;
        let mut timer = pin!(keep_time(shared.clone()));
        let mut accept = pin!(service::accept(&shared, &listener));
        std::future::poll_fn(|context: &mut Context<'_>| {
            // It does not end.
            let _: Poll<()> = accept.as_mut().poll(context);
            timer.as_mut().poll(context)
        })
        .await;
        Ok(())
    }
}

impl std::fmt::Debug for Sentinel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sentinel").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The timer. It ends only where the sentinel was asked to crash.
async fn keep_time(shared: Arc<Shared>) {
    loop {
        let (wait_ms, is_dead) = shared.with(|state, now| {
            state.core.tick(now);
            (state.core.next_tick(), state.core.me.is_dead)
        });
        if is_dead {
            return;
        }
        shared.settle().await;
        shared.host.sleep(Duration::from_millis(wait_ms)).await;
    }
}

/// What the sentinel's tasks have in common.
struct Shared {
    host: Host,
    observer: Arc<dyn SentinelObserver>,
    state: Mutex<State>,
    storage: Storage,
    /// One writes at a time.
    saving: tokio::sync::Mutex<()>,
}

struct State {
    core: Core,
    clients: Clients,
    /// The version that was written down.
    saved: u64,
}

impl State {
    /// Whether something must be written down before anything else is sent.
    fn is_unsaved(&self) -> bool {
        self.saved < self.core.me.version
    }
}

impl Shared {
    fn new(sentinel: Sentinel, storage: Storage, kept: Option<&str>) -> Arc<Self> {
        let Sentinel { host, settings, observer, .. } = sentinel;
        let now = wall_ms(&host);
        let drawn = settings.id.clone().unwrap_or_else(|| super::state::random_id(&host));
        let random = Box::new({
            let host = host.clone();
            move |purpose| host.random(purpose)
        });
        let mut core = Core::new(&settings, drawn, now, random);
        match kept {
            Some(kept) => core.restore(kept, now),
            None => core.me.must_save(),
        }
        core.announce();
        let state = State { core, clients: Clients::default(), saved: 0 };
        let shared = Shared {
            host,
            observer,
            state: Mutex::new(state),
            storage,
            saving: tokio::sync::Mutex::default(),
        };
        let shared = Arc::new(shared);
        shared.with(|_, _| ());
        shared
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step: events are told, and connections begun, before anything else happens.
    fn with<T>(self: &Arc<Self>, step: impl FnOnce(&mut State, Ms) -> T) -> T {
        let (result, openings) = {
            let state = &mut *self.lock();
            let result = step(state, wall_ms(&self.host));
            let me = &mut state.core.me;
            for event in me.events.drain(..) {
                self.observer.happened(&event);
                state.clients.publish(event.name.as_bytes(), event.text.as_bytes());
            }
            (result, std::mem::take(&mut me.openings))
        };
        for opening in openings {
            self.host.spawn(LINK_GROUP, wire::carry(self.clone(), opening));
        }
        result
    }

    /// Writes the configuration down if it has changed. Until that is done nothing leaves
    /// over the links: a vote that is given must not be forgotten.
    async fn settle(&self) {
        if !self.lock().is_unsaved() {
            return;
        }
        let _turn = self.saving.lock().await;
        let (version, text) = {
            let state = self.lock();
            if !state.is_unsaved() {
                return;
            }
            (state.core.me.version, state.core.configuration())
        };
        // A real sentinel that cannot write says so in its log and goes on.
        let _ = self.storage.save(&text).await;
        let mut state = self.lock();
        state.saved = version;
        state.core.wake_all();
    }
}

/// Ends every task of a sentinel with the future that runs it: they find nothing to do.
struct EndOnDrop(Arc<Shared>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.core.masters.clear();
        state.clients.close();
    }
}

fn wall_ms(host: &Host) -> Ms {
    Ms::try_from(host.wall().as_millis()).unwrap_or(Ms::MAX)
}
