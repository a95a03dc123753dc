//! Who is to fail the master over: each sentinel has one vote in an epoch, and gives it
//! to whoever asks first.

use std::collections::BTreeMap;

use super::core::{MAX_DESYNC, Me};
use super::instance::{Master, Ms, Peer};
use super::link::Expected;
use crate::codec::{Reply, append_command};

/// Who has won, and by whose votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Won {
    pub(super) leader: String,
    pub(super) voters: Vec<String>,
}

impl Master {
    /// Asks the other sentinels whether the master is down, and, while a failover is
    /// tried, for their vote.
    pub(super) fn ask_sentinels(&mut self, me: &Me, at_once: bool, now: Ms) {
        let is_down = self.instance.s_down;
        let candidate = if self.failover_in_progress { me.id.as_str() } else { "*" };
        let mut question = Vec::new();
        for peer in &mut self.sentinels {
            let elapsed = now - peer.answered_at;
            if elapsed > me.timing.ask_period * 5 {
                peer.master_down = false;
                peer.leader = None;
            }
            if !is_down
                || peer.instance.link.disconnected
                || (!at_once && elapsed < me.timing.ask_period)
            {
                continue;
            }
            if question.is_empty() {
                let address = &self.instance.address;
                let (port, epoch) = (address.port.to_string(), me.current_epoch.to_string());
                let words =
                    ["SENTINEL", "is-master-down-by-addr", &address.host, &port, &epoch, candidate];
                append_command(&mut question, words.map(str::as_bytes));
            }
            peer.instance.link.send(&question, Expected::MasterDown);
        }
    }

    /// Votes for whoever asks, unless there was a vote in this epoch or a later one. The
    /// vote that stands then, and its epoch.
    pub(super) fn vote(
        &mut self,
        me: &mut Me,
        epoch: u64,
        candidate: &str,
        now: Ms,
    ) -> (Option<String>, u64) {
        if epoch > me.current_epoch {
            me.current_epoch = epoch;
            me.must_save();
            me.tell("+new-epoch", epoch.to_string());
        }
        if self.leader_epoch < epoch && me.current_epoch <= epoch {
            self.leader = Some(candidate.to_owned());
            self.leader_epoch = me.current_epoch;
            me.must_save();
            me.tell("+vote-for-leader", format!("{candidate} {}", self.leader_epoch));
            // Having voted for another, give it time.
            if !candidate.eq_ignore_ascii_case(&me.id) {
                self.failover_started_at = now + me.draw("sentinel-desync", MAX_DESYNC);
            }
        }
        (self.leader.clone(), self.leader_epoch)
    }

    /// Counts the votes of `epoch`, votes too if that has not been done, and says who has
    /// a majority of all sentinels that are known, and a quorum.
    pub(super) fn elected(&mut self, me: &mut Me, epoch: u64, now: Ms) -> Option<Won> {
        let mut votes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for peer in &self.sentinels {
            if let Some(leader) = &peer.leader
                && peer.leader_epoch == me.current_epoch
            {
                let voter = peer.instance.address.host.clone();
                votes.entry(leader.clone()).or_default().push(voter);
            }
        }
        // Of equals the first.
        let ahead = votes.iter().rev().max_by_key(|(_, voters)| voters.len());
        let candidate = ahead.map_or_else(|| me.id.clone(), |(leader, _)| leader.clone());
        let (own, own_epoch) = self.vote(me, epoch, &candidate, now);
        if let Some(own) = own
            && own_epoch == epoch
        {
            votes.entry(own).or_default().push(me.address.host.clone());
        }
        let known = self.sentinels.len() + 1;
        let needed = (known / 2 + 1).max(self.quorum as usize);
        let (leader, voters) = votes.into_iter().rev().max_by_key(|(_, voters)| voters.len())?;
        (voters.len() >= needed).then_some(Won { leader, voters })
    }

    /// How many sentinels are there to vote, this one included, and whether they suffice
    /// for the quorum and for a majority.
    pub(super) fn quorum_is_reachable(&self) -> (usize, bool, bool) {
        let usable = 1 + self.sentinels.iter().filter(|peer| !peer.instance.s_down).count();
        let known = self.sentinels.len() + 1;
        (usable, usable >= self.quorum as usize, usable > known / 2)
    }
}

impl Peer {
    /// The answer to `IS-MASTER-DOWN-BY-ADDR`: whether, for whom, in which epoch.
    pub(super) fn answered(&mut self, reply: &Reply, now: Ms) {
        let Some([Reply::Integer(is_down), leader, Reply::Integer(epoch)]) = reply.as_array()
        else {
            return;
        };
        let Some(leader) = leader.text().and_then(|text| std::str::from_utf8(text).ok()) else {
            return;
        };
        self.answered_at = now;
        self.master_down = *is_down == 1;
        if leader != "*" {
            self.leader = Some(leader.to_owned());
            self.leader_epoch = u64::try_from(*epoch).unwrap_or(0);
        }
    }
}
