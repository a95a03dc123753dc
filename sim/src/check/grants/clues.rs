//! What the events say of one row, and the intervals that follow from it.

use std::collections::BTreeMap;

use super::{Application, Grant};
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
    /// Releases, sessions expired, losses told.
    pub ends: Vec<Moment>,
    /// Ends of the belief that are told by an event of the attempt.
    pub belief_ends: Vec<Moment>,
    /// For foreigners: whether the record is gone, so that the next is a new grant.
    pub over: bool,
}

impl Clues {
    pub fn of(grant: Grant) -> Clues {
        let (renewals, ends, belief_ends) = (Vec::new(), Vec::new(), Vec::new());
        Clues {
            grant,
            held: 0,
            last_reply: Moment::START,
            renewals,
            ends,
            belief_ends,
            over: false,
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
            let reply = self.grant.acknowledged;
            self.grant.applied = match (&self.grant.attempt, reply) {
                (None, _) => self.grant.applications.first().cloned(),
                (Some(_), None) => None,
                (Some(_), Some(reply)) => {
                    let before = |applied: &&Application| applied.moment < reply.moment;
                    self.grant.applications.iter().rfind(before).cloned()
                }
            };
            self.grant.promise = self.promise();
        }
        if !clocks.is_none() {
            let servers = self.grant.applications.iter().map(|applied| &applied.node);
            let nodes = servers.chain(self.grant.client());
            self.grant.uncertainty_us = nodes.map(|node| clocks.of(node)).max().unwrap_or(0);
        }
        self.grant
    }

    fn belief(&self, crashes: &BTreeMap<Name, Vec<Moment>>) -> Option<Interval> {
        let from = self.grant.acknowledged?.moment;
        let crashes = crashes.get(self.grant.client()?).map_or(&[][..], Vec::as_slice);
        let crash = crashes.get(crashes.partition_point(|crash| *crash < from)).copied();
        let told = self.belief_ends.iter().copied().filter(|end| *end > from).min();
        let to = [crash, told].into_iter().flatten().min().unwrap_or(Moment::NEVER);
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
        let over = self.ends.iter().copied().filter(|end| *end > from).min();
        let over = over.unwrap_or(Moment::NEVER);
        let mut pieces = vec![Interval::new(from, end(from, lease_us))];
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
