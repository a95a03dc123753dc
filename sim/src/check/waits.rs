//! Who waited for which lock, from when to when: what the checkers of liveness and the
//! numbers look up.
//!
//! A wait begins with the ask of a client, or, for owners of whom the history has no
//! client's side, with their place in the queue. It ends with the answer, with the
//! crash of the client's node, or with the run. It has *arrived* as soon as a server
//! knows of it: queued, refused, or granted. Its place in the lock's line may be given up, or
//! go with its session, before its client hears of that: [`Wait::in_line`] ends there.

use std::collections::{BTreeMap, BTreeSet};
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
    /// From when to when it may claim to be served: from the ask, which is when a client begins
    /// to wait, until it ends or has no place any more.
    pub fn in_line(&self) -> Interval {
        Interval::new(self.span.from, self.left.map_or(self.span.to, |left| left.min(self.span.to)))
    }
}

/// All waits of a history, in order of their beginning.
pub fn waits<'a>(history: &'a History, steps: &Steps) -> Vec<Wait<'a>> {
    let mut watch = Watch::default();
    let end = Moment::end_of(history.ended_us);
    for event in history.iter() {
        if matches!(event.what, What::NodeCrashed { .. }) {
            steps.take(watch.clients.len() as u64);
        }
        watch.see(event, end);
    }
    watch.waits
}

#[derive(Default)]
struct Watch<'a> {
    waits: Vec<Wait<'a>>,
    /// Open waits of attempts, by client and ordinal.
    clients: BTreeMap<(&'a str, u32), usize>,
    /// Attempts that wait no more: a request of one that comes late waits for nobody.
    over: BTreeSet<(&'a str, u32)>,
    /// Open waits of other owners, by lock.
    foreigners: BTreeMap<(&'a str, &'a str), usize>,
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
                    left: None,
                    ended: Ended::Not,
                });
            }
            What::AcquireReturned { attempt, outcome, .. } => {
                let name = (&*attempt.client, attempt.ordinal);
                self.over.insert(name);
                let Some(wait) = self.clients.remove(&name) else { return };
                let ended = match outcome {
                    AcquireOutcome::Granted { .. } => Ended::Granted,
                    AcquireOutcome::Busy | AcquireOutcome::TimedOut => Ended::Denied,
                    _ => Ended::Otherwise,
                };
                self.end(wait, moment, ended);
            }
            What::NodeCrashed { .. } => {
                let (waits, over) = (&mut self.waits, &mut self.over);
                self.clients.retain(|name, wait| {
                    let wait = &mut waits[*wait];
                    let died = wait.node.is_some_and(|node| *node == event.node);
                    if died {
                        (wait.span.to, wait.ended) = (moment, Ended::Died);
                        over.insert(*name);
                    }
                    !died
                });
            }
            What::WaitBegan { key, owner } => {
                if let Some(wait) = self.open(key, owner) {
                    // Whoever stands in the queue anew has lost its old place.
                    let wait = &mut self.waits[wait];
                    (wait.arrived, wait.left) = (Some(moment), None);
                    return;
                }
                let is_over = attempt_of(owner).is_some_and(|name| self.over.contains(&name));
                if is_over || self.foreigners.contains_key(&(&**key, &**owner)) {
                    return;
                }
                self.foreigners.insert((key, owner), self.waits.len());
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
            What::WaitEnded { key, owner } => {
                self.leave(key, owner, moment);
                if let Some(wait) = self.foreigners.remove(&(&**key, &**owner)) {
                    self.end(wait, moment, Ended::Otherwise);
                }
            }
            // Its turn had come, and is over before it heard of it.
            What::RecordReleased { key, owner }
            | What::RecordExpired { key, owner }
            | What::RecordLost { key, owner, .. } => self.leave(key, owner, moment),
            What::RecordRefused { key, owner, .. } => {
                self.arrive(key, owner, moment);
            }
            What::RecordSet { key, owner, .. } => {
                self.arrive(key, owner, moment);
                if let Some(wait) = self.foreigners.remove(&(&**key, &**owner)) {
                    self.end(wait, moment, Ended::Granted);
                }
            }
            What::SessionExpired { records, .. } => {
                for (key, owner) in records {
                    self.leave(key, owner, moment);
                    if let Some(wait) = self.foreigners.remove(&(&**key, &**owner)) {
                        self.end(wait, moment, Ended::Died);
                    }
                }
            }
            _ => {}
        }
    }

    /// This owner's open wait for this lock, if it is an attempt of a client's.
    fn open(&self, key: &str, owner: &str) -> Option<usize> {
        let wait = self.clients.get(&attempt_of(owner)?).copied()?;
        (self.waits[wait].key == key).then_some(wait)
    }

    /// Notes that a server knows of this owner's open wait.
    fn arrive(&mut self, key: &str, owner: &str, moment: Moment) {
        let Some(wait) = self.open(key, owner) else { return };
        let wait = &mut self.waits[wait];
        if wait.left.take().is_some() {
            wait.arrived = Some(moment);
        } else {
            wait.arrived.get_or_insert(moment);
        }
    }

    /// Notes that this owner's open wait has no place in line any more.
    fn leave(&mut self, key: &str, owner: &str, moment: Moment) {
        if let Some(wait) = self.open(key, owner) {
            self.waits[wait].left = Some(moment);
        }
    }

    fn end(&mut self, wait: usize, moment: Moment, ended: Ended) {
        let wait = &mut self.waits[wait];
        (wait.span.to, wait.ended) = (moment, ended);
    }
}

/// Client and ordinal of the attempt that this owner is, if it reads like one.
fn attempt_of(owner: &str) -> Option<(&str, u32)> {
    let (client, ordinal) = owner.rsplit_once('/')?;
    Some((client, ordinal.parse().ok()?))
}
