//! Who waited for which lock, from when to when: what the checkers of liveness and the
//! numbers look up.
//!
//! A wait begins with the ask of a client, or, for owners of whom the history has no
//! client's side, with their place in the queue. It ends with the answer, with the
//! crash of the client's node, or with the run. It has *arrived* as soon as a server
//! knows of it: queued, refused, or granted. It has a place in the lock's line from then
//! until that is given up or goes with its session, which its client may not have heard of:
//! [`Wait::in_line`].

use std::collections::BTreeMap;
use std::fmt;

use super::interval::{Interval, Moment};
use super::steps::Steps;
use crate::history::{AcquireOutcome, Attempt, Event, EventId, History, Name, What};

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who<'a> {
    /// An attempt of a client.
    Attempt(&'a Attempt),
    /// An owner without a client's side.
    Foreigner(&'a str),
}

impl<'a> Who<'a> {
    /// The strand of work that waits, and that may hold other locks meanwhile.
    pub fn actor(self) -> &'a str {
        match self {
            Who::Attempt(attempt) => &attempt.client,
            Who::Foreigner(owner) => owner,
        }
    }
}

impl fmt::Display for Who<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Attempt(attempt) => attempt.fmt(formatter),
            Who::Foreigner(owner) => formatter.write_str(owner),
        }
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With the lock.
    Granted,
    /// Somebody else held it.
    Denied,
    /// Without an answer, or with a failure.
    Otherwise,
    /// The client's node crashed.
    Died,
    /// With the run.
    Not,
}

/// One wait.
#[derive(Clone, Debug)]
pub struct Wait<'a> {
    /// For which lock.
    pub key: &'a str,
    /// Who.
    pub who: Who<'a>,
    /// Whether it is for a shared grant.
    pub shared: bool,
    /// The event that begins it.
    pub event: EventId,
    /// From where it was asked.
    pub node: Option<&'a Name>,
    /// From when to when.
    pub span: Interval,
    /// When a server first knew of it.
    pub arrived: Option<Moment>,
    /// When its place, or the record that it was not told of, was taken away, if it was.
    pub left: Option<Moment>,
    /// How it ended.
    pub ended: Ended,
}

impl Wait<'_> {
    /// From when to when it may claim to be served: until it ends or has no place any more.
    pub fn in_line(&self) -> Interval {
        Interval::new(self.span.from, self.left.map_or(self.span.to, |left| left.min(self.span.to)))
    }
}

/// All waits of a history, in order of their beginning.
pub fn waits<'a>(history: &'a History, steps: &Steps) -> Vec<Wait<'a>> {
    let mut watch =
        Watch { waits: Vec::new(), clients: BTreeMap::new(), foreigners: BTreeMap::new() };
    let end = Moment::end_of(history.ended_us);
    for event in history.iter() {
        if matches!(event.what, What::NodeCrashed { .. }) {
            steps.take(watch.clients.len() as u64);
        }
        watch.see(event, end);
    }
    watch.waits
}

struct Watch<'a> {
    waits: Vec<Wait<'a>>,
    /// The waits of attempts that may be open, by client and ordinal.
    clients: BTreeMap<(&'a str, u32), Mine>,
    /// Open waits of other owners.
    foreigners: BTreeMap<&'a str, usize>,
}

/// What became of the wait of an attempt of a client's.
#[derive(Clone, Copy)]
enum Mine {
    /// It waits: the wait's position.
    Open(usize),
    /// It waits no more. A request of it that comes late waits for nobody.
    Over,
}

impl<'a> Watch<'a> {
    fn see(&mut self, event: &'a Event, end: Moment) {
        let moment = Moment::of(event);
        match &event.what {
            What::AcquireInvoked { attempt, key, shared } => {
                let mine = Mine::Open(self.waits.len());
                self.clients.insert((&attempt.client, attempt.ordinal), mine);
                self.waits.push(Wait {
                    key,
                    who: Who::Attempt(attempt),
                    shared: *shared,
                    event: event.id,
                    node: Some(&event.node),
                    span: Interval::new(moment, end),
                    arrived: None,
                    left: None,
                    ended: Ended::Not,
                });
            }
            What::AcquireReturned { attempt, outcome, .. } => {
                let name = (&*attempt.client, attempt.ordinal);
                let Some(Mine::Open(wait)) = self.clients.insert(name, Mine::Over) else { return };
                let ended = match outcome {
                    AcquireOutcome::Granted { .. } => Ended::Granted,
                    AcquireOutcome::Busy | AcquireOutcome::TimedOut => Ended::Denied,
                    _ => Ended::Otherwise,
                };
                self.end(wait, moment, ended);
            }
            What::NodeCrashed { .. } => {
                let waits = &mut self.waits;
                for mine in self.clients.values_mut() {
                    let Mine::Open(wait) = *mine else { continue };
                    let wait = &mut waits[wait];
                    if wait.node.is_some_and(|node| *node == event.node) {
                        (wait.span.to, wait.ended) = (moment, Ended::Died);
                        *mine = Mine::Over;
                    }
                }
            }
            What::WaitBegan { key, owner } => {
                match self.of_client(owner) {
                    Some(Mine::Open(wait)) => {
                        // Whoever stands in the queue anew has lost its old place.
                        let wait = &mut self.waits[wait];
                        (wait.arrived, wait.left) = (Some(moment), None);
                        return;
                    }
                    Some(Mine::Over) => return,
                    None if self.foreigners.contains_key(&**owner) => return,
                    None => {}
                }
                self.foreigners.insert(owner, self.waits.len());
                self.waits.push(Wait {
                    key,
                    who: Who::Foreigner(owner),
                    shared: false,
                    event: event.id,
                    node: None,
                    span: Interval::new(moment, end),
                    arrived: Some(moment),
                    left: None,
                    ended: Ended::Not,
                });
            }
            What::WaitEnded { owner, .. } => {
                self.leave(owner, moment);
                if let Some(wait) = self.foreigners.remove(&**owner) {
                    self.end(wait, moment, Ended::Otherwise);
                }
            }
            // Its turn had come, and is over before it heard of it.
            What::RecordReleased { owner, .. }
            | What::RecordExpired { owner, .. }
            | What::RecordLost { owner, .. } => self.leave(owner, moment),
            What::RecordRefused { owner, .. } => {
                self.arrive(owner, moment);
            }
            What::RecordSet { owner, .. } => {
                self.arrive(owner, moment);
                if let Some(wait) = self.foreigners.remove(&**owner) {
                    self.end(wait, moment, Ended::Granted);
                }
            }
            What::SessionExpired { records, .. } => {
                for (_, owner) in records {
                    self.leave(owner, moment);
                    if let Some(wait) = self.foreigners.remove(&**owner) {
                        self.end(wait, moment, Ended::Died);
                    }
                }
            }
            _ => {}
        }
    }

    /// The wait of this owner, if it is an attempt of which the history has a client's side.
    fn of_client(&self, owner: &str) -> Option<Mine> {
        let (client, ordinal) = owner.rsplit_once('/')?;
        self.clients.get(&(client, ordinal.parse().ok()?)).copied()
    }

    /// Notes that a server knows of this owner's open wait.
    fn arrive(&mut self, owner: &str, moment: Moment) {
        let Some(Mine::Open(wait)) = self.of_client(owner) else { return };
        let wait = &mut self.waits[wait];
        if wait.left.take().is_some() {
            wait.arrived = Some(moment);
        } else {
            wait.arrived.get_or_insert(moment);
        }
    }

    /// Notes that this owner's open wait has no place in line any more.
    fn leave(&mut self, owner: &str, moment: Moment) {
        if let Some(Mine::Open(wait)) = self.of_client(owner) {
            self.waits[wait].left = Some(moment);
        }
    }

    fn end(&mut self, wait: usize, moment: Moment, ended: Ended) {
        let wait = &mut self.waits[wait];
        (wait.span.to, wait.ended) = (moment, ended);
    }
}
