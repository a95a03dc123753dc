//! What is seen of the servers of a world that stands still.

use lockstorm::host::Stream;

use crate::server::redis::sentinel;
use crate::server::{postgres, redis, zookeeper};

/// A server of a world that stands still.
#[derive(Clone, Debug)]
pub enum Window {
    /// A Redis server.
    Redis(redis::Window),
    /// A sentinel.
    Sentinel(sentinel::Window),
    /// A ZooKeeper server.
    Zookeeper(zookeeper::Window),
    /// A PostgreSQL server.
    Postgres(postgres::Control),
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its program runs.
    Up,
    /// Its program stands still by a fault, with what it has in memory.
    Paused,
    /// Its program has died or ended.
    Down,
    /// Its machine has died.
    MachineDown,
}

impl State {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            State::Up => "up",
            State::Paused => "paused",
            State::Down => "crashed",
            State::MachineDown => "machine crashed",
        }
    }
}

impl Window {
    /// Has the server refuse from now on whatever would change something; `instant` is a clause
    /// for people that says where the world stands. ZooKeeper's protocol has a code for that and
    /// no words.
    pub(super) fn freeze(&self, instant: &str) {
        match self {
            Window::Redis(window) => window.freeze(instant),
            Window::Sentinel(window) => window.freeze(instant),
            Window::Zookeeper(_) => {}
            Window::Postgres(control) => control.freeze(instant),
        }
    }

    /// Whether the server has ended, by itself or with its program.
    pub fn is_over(&self) -> bool {
        match self {
            Window::Redis(window) => window.is_over(),
            Window::Sentinel(window) => window.is_over(),
            Window::Zookeeper(window) => window.is_over(),
            Window::Postgres(control) => control.is_over(),
        }
    }

    /// Serves a visitor until either side ends it. What it asks is answered from the memory of
    /// the server, and on its clock; nothing of it is changed.
    pub async fn serve(self, stream: Stream) {
        match self {
            Window::Redis(window) => window.serve(stream).await,
            Window::Sentinel(window) => window.serve(stream).await,
            Window::Zookeeper(window) => window.serve(stream).await,
            Window::Postgres(control) => control.visit(stream).await,
        }
    }
}
