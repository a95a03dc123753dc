//! Writes events down, in order, and hashes them as they come.
//!
//! Order of things when an event is recorded: it gets its id and time, it is hashed,
//! it is appended, and then the listeners run, inside the recording, so that a fault
//! anchored to the event strikes before anything else can happen.
//!
//! The trace hash covers typed events and the engines' own steps
//! ([`Recorder::mix`]), never raw bytes: what a client library happens to write is
//! not promised to be the same twice.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Event, EventId, History, Name, What};

/// Runs after an event was appended. Must not record while holding a lock that a
/// recording task may hold.
pub type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// A shared pen.
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    now_us: Box<dyn Fn() -> u64 + Send + Sync>,
    state: Mutex<State>,
}

struct State {
    events: Vec<Event>,
    hasher: blake3::Hasher,
    scratch: Vec<u8>,
    listeners: Vec<Listener>,
    closed: bool,
}

impl Recorder {
    /// A recorder that reads true simulated time, µs, from `now_us`.
    pub fn new(now_us: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Recorder(Arc::new(Shared {
            now_us: Box::new(now_us),
            state: Mutex::new(State {
                events: Vec::new(),
                hasher: blake3::Hasher::new(),
                scratch: Vec::new(),
                listeners: Vec::new(),
                closed: false,
            }),
        }))
    }

    /// True simulated time, µs.
    pub fn now_us(&self) -> u64 {
        (self.0.now_us)()
    }

    /// Has `listener` called for each event from now on, in order of subscription.
    pub fn listen(&self, listener: Listener) {
        self.lock().listeners.push(listener);
    }

    /// Records that `what` happened at `node`.
    pub fn record(&self, node: &Name, what: What) -> EventId {
        self.record_caused(node, None, what)
    }

    /// Records that `what` happened at `node` because of `cause`.
    pub fn record_caused(&self, node: &Name, cause: Option<EventId>, what: What) -> EventId {
        let at_us = self.now_us();
        let (event, listeners) = {
            let state = &mut *self.lock();
            let id = EventId(state.events.len() as u64);
            if state.closed {
                return id;
            }
            let event = Event { id, at_us, node: node.clone(), cause, what };
            state.scratch.clear();
            // Serialising to a vector cannot fail: no maps with foreign keys, no I/O.
            if serde_json::to_writer(&mut state.scratch, &event).is_ok() {
                state.hasher.update(&state.scratch);
            }
            state.events.push(event.clone());
            (event, state.listeners.clone())
        };
        for listener in &listeners {
            listener(&event);
        }
        event.id
    }

    /// Mixes a step of the engine (a delivery, a timer, a poll) into the trace hash
    /// without keeping it.
    pub fn mix(&self, step: &[u8]) {
        let state = &mut *self.lock();
        if !state.closed {
            state.hasher.update(step);
        }
    }

    /// Records nothing more. Engines call it when a run ends, before they tear its
    /// tasks down: the order in which a runtime drops tasks is not promised, so what
    /// destructors say must not be history.
    pub fn stop(&self) {
        self.lock().closed = true;
    }

    /// Ends the recording: what tasks say while they are torn down is not history.
    pub fn close(&self) -> (History, TraceHash) {
        let ended_us = self.now_us();
        let state = &mut *self.lock();
        state.closed = true;
        state.listeners.clear();
        let events = std::mem::take(&mut state.events);
        let history = History { events, ended_us, ..History::default() };
        (history, TraceHash(*state.hasher.finalize().as_bytes()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Recorder").field("events", &self.lock().events.len()).finish()
    }
}

/// The fingerprint of a run: equal plans and builds give equal hashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceHash(pub [u8; 32]);

impl fmt::Display for TraceHash {
    /// The first 64 bits, in hex: enough to compare by eye.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.0[..8] {
            write!(formatter, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for TraceHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
