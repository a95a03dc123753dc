//! Writes events down, in order, and hashes them as they come.
//!
//! Order of things when an event is recorded: it gets its id and time, it is hashed,
//! it is appended, and then the listeners run, inside the recording, so that a fault
//! anchored to the event strikes before anything else can happen.
//!
//! The trace hash covers typed events and the engines' own steps
//! ([`Recorder::mix`]), never raw bytes: what a client library happens to write is
//! not promised to be the same twice.
//!
//! What only a page wants to know (messages, how far replication is) is an *aside*: kept
//! where somebody asked for it, not hashed, told to no listener, and put in its place among the
//! events when the recording ends. So a run has the same trace with asides and without, and
//! a hunt, which wants none, pays nothing for them.

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
    /// Each is shared with its listeners for as long as they run, and with nobody else.
    events: Vec<Arc<Event>>,
    hasher: blake3::Hasher,
    scratch: Vec<u8>,
    /// Shared with an event that is being told, which may bring about others.
    listeners: Arc<Vec<Listener>>,
    /// `None` where nobody asked for them.
    asides: Option<Vec<Aside>>,
    closed: bool,
}

/// The most asides of a run: a page shows fewer, and memory is not without end.
const MOST_ASIDES: usize = 200_000;

/// The position of an aside among those of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsideId(u32);

/// Something beside the events.
struct Aside {
    /// How many events there were before it.
    events_before: usize,
    at_us: u64,
    node: Name,
    cause: Option<AsideId>,
    what: What,
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
                listeners: Arc::default(),
                asides: None,
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
        Arc::make_mut(&mut self.lock().listeners).push(listener);
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
            let event = Arc::new(Event { id, at_us, node: node.clone(), cause, what });
            state.scratch.clear();
            // Serialising to a vector cannot fail: no maps with foreign keys, no I/O.
            if serde_json::to_writer(&mut state.scratch, &*event).is_ok() {
                state.hasher.update(&state.scratch);
            }
            state.events.push(event.clone());
            (event, state.listeners.clone())
        };
        for listener in listeners.iter() {
            listener(&event);
        }
        event.id
    }

    /// Keeps asides from now on.
    pub fn keep_asides(&self) {
        self.lock().asides.get_or_insert_default();
    }

    /// Whether asides are kept. Whoever would tell many asks once.
    pub fn keeps_asides(&self) -> bool {
        self.lock().asides.is_some()
    }

    /// Notes that `what` happened at `node` because of an earlier aside; `None` where asides
    /// are not kept, or are too many.
    pub fn aside(&self, node: &Name, cause: Option<AsideId>, what: What) -> Option<AsideId> {
        let at_us = self.now_us();
        let state = &mut *self.lock();
        let events_before = state.events.len();
        let asides = state.asides.as_mut().filter(|_| !state.closed)?;
        if asides.len() >= MOST_ASIDES {
            return None;
        }
        let id = u32::try_from(asides.len()).ok().map(AsideId)?;
        asides.push(Aside { events_before, at_us, node: node.clone(), cause, what });
        Some(id)
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
        state.listeners = Arc::default();
        let events = std::mem::take(&mut state.events).into_iter().map(Arc::unwrap_or_clone);
        let events = events.collect();
        let events = match state.asides.take() {
            Some(asides) => together(events, asides),
            None => events,
        };
        let history = History { events, ended_us, ..History::default() };
        (history, TraceHash(*state.hasher.finalize().as_bytes()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events and asides in the order in which they happened, numbered anew.
fn together(events: Vec<Event>, asides: Vec<Aside>) -> Vec<Event> {
    let mut all: Vec<Event> = Vec::with_capacity(events.len() + asides.len());
    let mut event_ids: Vec<EventId> = Vec::with_capacity(events.len());
    let mut aside_ids: Vec<EventId> = Vec::with_capacity(asides.len());
    let mut asides = asides.into_iter().peekable();
    let mut events = events.into_iter();
    loop {
        let id = EventId(all.len() as u64);
        if let Some(aside) = asides.next_if(|aside| aside.events_before <= event_ids.len()) {
            let Aside { at_us, node, what, .. } = aside;
            let cause = aside.cause.and_then(|cause| aside_ids.get(cause.0 as usize)).copied();
            aside_ids.push(id);
            all.push(Event { id, at_us, node, cause, what });
        } else if let Some(event) = events.next() {
            let cause = event.cause.and_then(|cause| {
                usize::try_from(cause.0).ok().and_then(|cause| event_ids.get(cause)).copied()
            });
            event_ids.push(id);
            all.push(Event { id, cause, ..event });
        } else {
            return all;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(keeps: bool) -> (History, TraceHash) {
        let recorder = Recorder::new(|| 7);
        if keeps {
            recorder.keep_asides();
        }
        let (app, redis): (Name, Name) = ("app-1".into(), "redis-1".into());
        let started = recorder.record(&app, What::NodeStarted { incarnation: 1 });
        let sent = What::MessageSent { to: redis.clone(), message: "SET".to_owned() };
        let sent = recorder.aside(&app, None, sent);
        assert_eq!(sent.is_some(), keeps);
        recorder.record_caused(&app, Some(started), What::NodeCrashed { machine: false });
        recorder.aside(&redis, sent, What::MessageDelivered { from: app });
        recorder.record(&redis, What::Healed);
        recorder.close()
    }

    #[test]
    fn asides_stand_where_they_happened_and_the_trace_is_the_same_without_them() {
        let ((with, hash), (without, same)) = (told(true), told(false));
        assert_eq!(hash, same);
        assert_eq!((with.events.len(), without.events.len()), (5, 3));
        assert!(with.iter().enumerate().all(|(n, event)| event.id.0 == n as u64));
        let causes: Vec<Option<u64>> = with.iter().map(|e| e.cause.map(|c| c.0)).collect();
        assert_eq!(causes, [None, None, Some(0), Some(1), None]);
        assert!(matches!(with.events[3].what, What::MessageDelivered { .. }));
    }
}
