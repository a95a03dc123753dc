//! What the events say of one row, and the intervals that follow from it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Acknowledgement, Application, Grant};
use crate::check::interval::{Interval, Moment};
use crate::history::file::ClockUncertainty;
use crate::history::{NO_END, Name};

/// The clues of one row.
pub(super) struct Clues {
    pub grant: Grant,
    /// How many acquires were granted and not yet given back by their holder.
    pub held: u32,
    /// The last reply that granted it: of nested acquires, the innermost.
    pub last_reply: Moment,
    pub renewals: Vec<(Moment, u64)>,
    /// The first release, session expired or loss told since the promise began.
    pub end: Option<Moment>,
    /// The first end of the belief, since its beginning, that an event of the attempt
    /// tells.
    pub belief_end: Option<Moment>,
    /// For foreigners: whether the record is gone, so that the next is a new grant.
    pub over: bool,
    /// When the leases began of records whose transactions had still to commit.
    pub lease_began: Vec<Moment>,
    /// Where a grant takes more than one record: which there are.
    quorum: Option<Quorum>,
}

/// The records that a grant stands on, where one is not enough.
struct Quorum {
    needed: usize,
    /// The record at each server, in order of their application.
    present: Vec<Application>,
    /// The servers whose record refused its own owner: one left there by an earlier round.
    left_over: BTreeSet<Name>,
    /// The application that made up the quorum that was told, and the first of it.
    told: Option<(Application, Moment)>,
}

impl Clues {
    pub fn of(grant: Grant, quorum: u16) -> Clues {
        let last_reply = Moment::START;
        let (renewals, end, belief_end) = (Vec::new(), None, None);
        let quorum = (quorum > 1).then(|| Quorum::of(usize::from(quorum)));
        let lease_began = Vec::new();
        let (held, over) = (0, false);
        Clues { grant, held, last_reply, renewals, end, belief_end, over, lease_began, quorum }
    }

    /// The promise ends here, unless it has ended already.
    pub fn ends(&mut self, moment: Moment) {
        self.end.get_or_insert(moment);
    }

    /// The belief ends here, if it has begun.
    pub fn belief_ends(&mut self, moment: Moment) {
        if self.grant.acknowledged.is_some() {
            self.belief_end.get_or_insert(moment);
        }
    }

    /// The record is there: until anybody is told, the promise begins anew.
    pub fn applied(&mut self, applied: Application) {
        let begins = match self.grant.attempt {
            Some(_) => self.grant.acknowledged.is_none(),
            None => self.grant.applications.is_empty(),
        };
        if begins {
            self.end = None;
        }
        if let Some(quorum) = &mut self.quorum {
            quorum.applied(applied.clone(), self.grant.attempt.is_none());
        }
        add(&mut self.grant.applications, applied);
    }

    /// The record is gone from this server. Whether with it the grant has lost what it
    /// stands on.
    pub fn gone_from(&mut self, node: &Name) -> bool {
        self.quorum.as_mut().is_none_or(|quorum| quorum.gone_from(node))
    }

    /// This server refused the owner for the sake of a record of its own.
    pub fn refused_itself(&mut self, node: &Name) {
        if let Some(quorum) = &mut self.quorum {
            quorum.left_over.insert(node.clone());
        }
    }

    /// The holder is told of its grant.
    pub fn acknowledged(&mut self, reply: Acknowledgement) {
        self.held += 1;
        self.last_reply = reply.moment;
        if self.grant.acknowledged.is_none() && self.grant.applications.is_empty() {
            self.end = None;
        }
        self.grant.acknowledged.get_or_insert(reply);
        if let Some(quorum) = &mut self.quorum {
            quorum.tell();
        }
    }

    /// The row. Without `records` nothing is promised.
    pub fn finish(
        mut self,
        records: bool,
        crashes: &BTreeMap<Name, Vec<Moment>>,
        clocks: &ClockUncertainty,
    ) -> Grant {
        self.grant.belief = self.belief(crashes);
        if records {
            self.find_application();
            self.grant.promise = self.promise();
        }
        if !clocks.is_none() {
            let servers = self.grant.applications.iter().map(|applied| &applied.node);
            let nodes = servers.chain(self.grant.client());
            self.grant.uncertainty_us = nodes.map(|node| clocks.of(node)).max().unwrap_or(0);
        }
        self.grant
    }

    /// Finds the application that counts.
    fn find_application(&mut self) {
        if let Some(quorum) = self.quorum.take() {
            let (applied, leased) = quorum.told.unzip();
            (self.grant.applied, self.grant.leased) = (applied, leased);
            return;
        }
        let applications = &self.grant.applications;
        self.grant.applied = match (&self.grant.attempt, self.grant.acknowledged) {
            (None, _) => applications.first().cloned(),
            (Some(_), None) => None,
            (Some(_), Some(reply)) => {
                let before = |applied: &&Application| applied.moment < reply.moment;
                applications.iter().rfind(before).cloned()
            }
        };
        let before = |applied: &Moment| self.lease_began.iter().copied().rfind(|at| at < applied);
        let applied = self.grant.applied.as_ref().map(|applied| applied.moment);
        self.grant.leased = applied.map(|applied| before(&applied).unwrap_or(applied));
    }

    fn belief(&self, crashes: &BTreeMap<Name, Vec<Moment>>) -> Option<Interval> {
        let from = self.grant.acknowledged?.moment;
        let crashes = crashes.get(self.grant.client()?).map_or(&[][..], Vec::as_slice);
        let crash = crashes.get(crashes.partition_point(|crash| *crash < from)).copied();
        let to = [crash, self.belief_end].into_iter().flatten().min().unwrap_or(Moment::NEVER);
        Some(Interval::new(from, to))
    }

    fn promise(&self) -> Vec<Interval> {
        let reply = self.grant.acknowledged;
        let margin_us = reply.map_or(0, |reply| reply.margin_us);
        let end = |from: Moment, lease_us: u64| -> Moment {
            let lease_us =
                if lease_us == NO_END { lease_us } else { lease_us.saturating_sub(margin_us) };
            Moment::at(from.at_us.saturating_add(lease_us)).max(from)
        };
        let mut renewals = self.renewals.clone();
        let (from, lease_us) = match (&self.grant.applied, reply) {
            (applied, Some(reply)) => {
                // Nested acquires are applied again, and renew.
                let nested = self.grant.applications.iter().filter(|applied| {
                    applied.moment > reply.moment && applied.moment < self.last_reply
                });
                renewals.extend(nested.map(|applied| (applied.moment, reply.lease_us)));
                renewals.sort_unstable();
                // Granted without any record: the holder was promised all the same.
                (applied.as_ref().map_or(reply.moment, |applied| applied.moment), reply.lease_us)
            }
            (Some(applied), None) => {
                // A foreigner; nested acquires of one owner are one grant.
                let again = self.grant.applications.iter().skip(1);
                let lease_us = |applied: &Application| applied.lease_us.unwrap_or(NO_END);
                renewals.extend(again.map(|applied| (applied.moment, lease_us(applied))));
                renewals.sort_unstable();
                (applied.moment, lease_us(applied))
            }
            (None, None) => return Vec::new(),
        };
        let over = self.end.unwrap_or(Moment::NEVER);
        let leased = self.grant.leased.unwrap_or(from).min(from);
        let mut pieces = vec![Interval::new(from, end(leased, lease_us).max(from))];
        for (moment, lease_us) in renewals {
            if moment <= from || moment >= over {
                continue;
            }
            match pieces.last_mut() {
                Some(piece) if moment < piece.to => piece.to = end(moment, lease_us),
                _ => pieces.push(Interval::new(moment, end(moment, lease_us))),
            }
        }
        for piece in &mut pieces {
            piece.to = piece.to.min(over);
        }
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

impl Quorum {
    fn of(needed: usize) -> Quorum {
        Quorum { needed, present: Vec::new(), left_over: BTreeSet::new(), told: None }
    }

    /// A server has the record. A foreigner is told as soon as enough have it.
    fn applied(&mut self, applied: Application, foreign: bool) {
        self.present.retain(|present| present.node != applied.node);
        self.left_over.remove(&applied.node);
        self.present.push(applied);
        if foreign {
            self.tell();
        }
    }

    /// Whether there were enough before, and are no longer.
    fn gone_from(&mut self, node: &Name) -> bool {
        let before = self.present.len();
        self.present.retain(|present| present.node != *node);
        self.left_over.remove(node);
        before >= self.needed && self.present.len() < self.needed
    }

    /// The holder is told now, if enough servers have the record. It did not count those
    /// that refused it; if there are not enough others, it was not those that it counted.
    fn tell(&mut self) {
        let counts = |applied: &&Application| !self.left_over.contains(&applied.node);
        let counted: Vec<&Application> = self.present.iter().filter(counts).collect();
        let all = || self.present.iter().collect();
        let quorum = if counted.len() < self.needed { all() } else { counted };
        if let (Some(last), Some(first)) = (quorum.get(self.needed - 1), quorum.first()) {
            self.told.get_or_insert(((*last).clone(), first.moment));
        }
    }
}

/// Adds to one of many short lists: room for one or two, not for four as `push` makes.
pub(super) fn add<T>(list: &mut Vec<T>, value: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(list.len().max(1));
    }
    list.push(value);
}
