//! Who waited for which lock, from when to when: what the checkers of liveness and the
//! numbers look up.
//!
//! A wait begins with the ask of a client, or, for owners of whom the history has no
//! client's side, with their place in the queue. It ends with the answer, with the
//! crash of the client's node, or with the run. It has *arrived* as soon as a server
//! knows of it: queued, refused, or granted.

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
    /// How it ended.
    pub ended: Ended,
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
    /// Open waits of attempts, by client and ordinal.
    clients: BTreeMap<(&'a str, u32), usize>,
    /// Open waits of other owners.
    foreigners: BTreeMap<&'a str, usize>,
}

impl<'a> Watch<'a> {
    fn see(&mut self, event: &'a Event, end: Moment) {
        let moment = Moment::of(event);
        match &event.what {
            What::AcquireInvoked { attempt, key, shared } => {
                self.clients.insert((&attempt.client, attempt.ordinal), self.waits.len());
                self.waits.push(Wait {
                    key,
                    who: Who::Attempt(attempt),
                    shared: *shared,
                    event: event.id,
                    node: Some(&event.node),
                    span: Interval::new(moment, end),
                    arrived: None,
                    ended: Ended::Not,
                });
            }
            What::AcquireReturned { attempt, outcome, .. } => {
                let name = (&*attempt.client, attempt.ordinal);
                let Some(wait) = self.clients.remove(&name) else { return };
                let ended = match outcome {
                    AcquireOutcome::Granted { .. } => Ended::Granted,
                    AcquireOutcome::Busy | AcquireOutcome::TimedOut => Ended::Denied,
                    _ => Ended::Otherwise,
                };
                self.end(wait, moment, ended);
            }
            What::NodeCrashed { .. } => {
                let waits = &mut self.waits;
                self.clients.retain(|_, wait| {
                    let wait = &mut waits[*wait];
                    let died = wait.node.is_some_and(|node| *node == event.node);
                    if died {
                        (wait.span.to, wait.ended) = (moment, Ended::Died);
                    }
                    !died
                });
            }
            What::WaitBegan { key, owner } => {
                if let Some(wait) = self.open(owner) {
                    // Whoever stands in the queue anew has lost its old place.
                    self.waits[wait].arrived = Some(moment);
                    return;
                }
                if self.foreigners.contains_key(&**owner) {
                    return;
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
                    ended: Ended::Not,
                });
            }
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
                    if let Some(wait) = self.foreigners.remove(&**owner) {
                        self.end(wait, moment, Ended::Died);
                    }
                }
            }
            _ => {}
        }
    }

    /// This owner's open wait.
    fn open(&self, owner: &str) -> Option<usize> {
        let (client, ordinal) = owner.rsplit_once('/')?;
        self.clients.get(&(client, ordinal.parse().ok()?)).copied()
    }

    /// Notes that a server knows of this owner's open wait.
    fn arrive(&mut self, owner: &str, moment: Moment) {
        if let Some(wait) = self.open(owner) {
            self.waits[wait].arrived.get_or_insert(moment);
        }
    }

    fn end(&mut self, wait: usize, moment: Moment, ended: Ended) {
        let wait = &mut self.waits[wait];
        (wait.span.to, wait.ended) = (moment, ended);
    }
}
