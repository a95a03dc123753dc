//! The failover of one master, a step with each tick: be elected, select a replica,
//! promote it, wait until it says that it is a master, point the others at it, and name
//! it instead.

use std::cmp::Reverse;

use super::About;
use super::core::{MAX_DESYNC, Me};
use super::instance::{Address, Instance, Master, Ms, Reconfiguration, Replica, Stage};
use super::link::Expected;
use crate::codec::append_command;

impl Master {
    /// Whether it is time: enough agree, nothing is under way, and the last try of anybody
    /// is long enough ago.
    pub(super) fn must_fail_over(&self, now: Ms) -> bool {
        self.o_down
            && !self.failover_in_progress
            && now - self.failover_started_at >= self.failover_timeout * 2
    }

    pub(super) fn start_failover(&mut self, me: &mut Me, now: Ms) {
        self.enter(Stage::WaitStart, now);
        self.failover_in_progress = true;
        me.current_epoch += 1;
        self.failover_epoch = me.current_epoch;
        me.tell("+new-epoch", me.current_epoch.to_string());
        me.tell("+try-failover", self.shown());
        self.failover_started_at = now + me.draw("sentinel-desync", MAX_DESYNC);
    }

    fn enter(&mut self, stage: Stage, now: Ms) {
        self.stage = stage;
        self.stage_since = now;
    }

    /// One step.
    pub(super) fn advance_failover(&mut self, me: &mut Me, now: Ms) {
        if !self.failover_in_progress {
            return;
        }
        match self.stage {
            Stage::WaitStart => self.wait_for_election(me, now),
            Stage::SelectReplica => self.select_replica(me, now),
            Stage::SendNoOne => self.promote(me, now),
            Stage::WaitPromotion => self.abort_if_late(me, now),
            Stage::Reconfigure => self.reconfigure_replicas(me, now),
            Stage::None | Stage::UpdateConfiguration => {}
        }
    }

    fn wait_for_election(&mut self, me: &mut Me, now: Ms) {
        let won = self.elected(me, self.failover_epoch, now);
        let won = won.filter(|won| won.leader.eq_ignore_ascii_case(&me.id));
        if won.is_none() && !self.failover_forced {
            let limit = me.timing.election_timeout.min(self.failover_timeout);
            if now - self.failover_started_at > limit {
                me.tell("-failover-abort-not-elected", self.shown());
                self.abort_failover(now);
            }
            return;
        }
        let about = About::Elected {
            epoch: self.failover_epoch,
            voters: won.map_or_else(Vec::new, |won| won.voters),
        };
        me.tell_about("+elected-leader", self.shown(), about);
        if me.crash.after_election {
            me.is_dead = true;
            return;
        }
        self.enter(Stage::SelectReplica, now);
        me.tell("+failover-state-select-slave", self.shown());
    }

    fn select_replica(&mut self, me: &mut Me, now: Ms) {
        let Some(selected) = self.best_replica(me, now) else {
            me.tell("-failover-abort-no-good-slave", self.shown());
            return self.abort_failover(now);
        };
        self.replicas[selected].is_promoted = true;
        let shown = self.shown_of(&self.replicas[selected].instance);
        me.tell("+selected-slave", shown.clone());
        self.enter(Stage::SendNoOne, now);
        me.tell("+failover-state-send-slaveof-noone", shown);
    }

    /// The replica to promote: reachable, heard of lately, not without its master for too
    /// long; of those the one of least priority number, then the one that has received
    /// most, then the one of least run id.
    pub(super) fn best_replica(&self, me: &Me, now: Ms) -> Option<usize> {
        let timing = &me.timing;
        let down_for = if self.instance.s_down { now - self.instance.s_down_since } else { 0 };
        let most_down = down_for + self.instance.down_after * 10;
        let info_validity = match self.instance.s_down {
            true => timing.ping_period * 5,
            false => timing.info_period * 3,
        };
        let is_good = |replica: &Replica| {
            let instance = &replica.instance;
            !instance.s_down
                && !instance.link.disconnected
                && now - instance.link.available_at <= timing.ping_period * 5
                && replica.priority != 0
                && now - instance.informed_at <= info_validity
                && replica.link_down <= most_down
        };
        let good = self.replicas.iter().enumerate().filter(|(_, replica)| is_good(replica));
        let best = good.min_by_key(|(_, replica)| {
            let run_id = replica.instance.run_id.as_ref().map(|id| id.to_ascii_lowercase());
            (replica.priority, Reverse(replica.offset), run_id.is_none(), run_id)
        });
        best.map(|(index, _)| index)
    }

    fn promote(&mut self, me: &mut Me, now: Ms) {
        let Some(index) = self.replicas.iter().position(|replica| replica.is_promoted) else {
            return self.abort_if_late(me, now);
        };
        if self.replicas[index].instance.link.disconnected {
            return self.abort_if_late(me, now);
        }
        self.replicas[index].instance.send_replicaof(None);
        let shown = self.shown_of(&self.replicas[index].instance);
        me.tell("+failover-state-wait-promotion", shown);
        self.enter(Stage::WaitPromotion, now);
    }

    fn abort_if_late(&mut self, me: &mut Me, now: Ms) {
        if now - self.stage_since > self.failover_timeout {
            me.tell("-failover-abort-slave-timeout", self.shown());
            self.abort_failover(now);
        }
    }

    /// Only before the promoted replica has said that it is a master: after that there is
    /// no way back.
    fn abort_failover(&mut self, now: Ms) {
        self.failover_in_progress = false;
        self.failover_forced = false;
        self.enter(Stage::None, now);
        for replica in &mut self.replicas {
            replica.is_promoted = false;
        }
    }

    /// The promoted replica, at this position, says that it is a master.
    pub(super) fn promotion_seen(&mut self, me: &mut Me, index: usize, now: Ms) {
        self.config_epoch = self.failover_epoch;
        self.enter(Stage::Reconfigure, now);
        me.must_save();
        me.tell("+promoted-slave", self.shown_of(&self.replicas[index].instance));
        if me.crash.after_promotion {
            me.is_dead = true;
            return;
        }
        me.tell("+failover-state-reconf-slaves", self.shown());
        self.hurry_hello(me);
    }

    /// Points replicas at the new master, few at a time, and ends the failover when all
    /// that can be reached have followed.
    fn reconfigure_replicas(&mut self, me: &mut Me, now: Ms) {
        let Some(to) = self.promoted().map(|promoted| promoted.instance.address.clone()) else {
            return;
        };
        let mut under_way = self.reconfiguring();
        for index in 0..self.replicas.len() {
            if under_way >= self.parallel_syncs as usize {
                break;
            }
            let replica = &mut self.replicas[index];
            if replica.is_promoted || replica.reconfiguration == Reconfiguration::Done {
                continue;
            }
            if replica.reconfiguration == Reconfiguration::Sent
                && now - replica.reconfiguration_sent_at > me.timing.reconfiguration_timeout
            {
                replica.reconfiguration = Reconfiguration::Done;
                me.tell(
                    "-slave-reconf-sent-timeout",
                    self.shown_of(&self.replicas[index].instance),
                );
                continue;
            }
            if replica.reconfiguration != Reconfiguration::None
                || replica.instance.link.disconnected
            {
                continue;
            }
            replica.instance.send_replicaof(Some(&to));
            replica.reconfiguration = Reconfiguration::Sent;
            replica.reconfiguration_sent_at = now;
            me.tell("+slave-reconf-sent", self.shown_of(&self.replicas[index].instance));
            under_way += 1;
        }
        self.end_failover_if_done(me, &to, now);
    }

    fn end_failover_if_done(&mut self, me: &mut Me, to: &Address, now: Ms) {
        if self.promoted().is_none_or(|promoted| promoted.instance.s_down) {
            return;
        }
        let is_late = now - self.stage_since > self.failover_timeout;
        let is_left = |replica: &Replica| {
            !replica.is_promoted
                && replica.reconfiguration != Reconfiguration::Done
                && !replica.instance.s_down
        };
        if is_late {
            me.tell("+failover-end-for-timeout", self.shown());
        } else if self.replicas.iter().any(is_left) {
            return;
        }
        me.tell("+failover-end", self.shown());
        self.enter(Stage::UpdateConfiguration, now);
        if !is_late {
            return;
        }
        // Those that are left are told all the same.
        for index in 0..self.replicas.len() {
            let replica = &mut self.replicas[index];
            let is_told =
                matches!(replica.reconfiguration, Reconfiguration::Done | Reconfiguration::Sent);
            if replica.is_promoted || is_told || replica.instance.link.disconnected {
                continue;
            }
            replica.instance.send_replicaof(Some(to));
            replica.reconfiguration = Reconfiguration::Sent;
            me.tell("+slave-reconf-sent-be", self.shown_of(&self.replicas[index].instance));
        }
    }

    /// The end of a failover: the promoted replica is the master that is watched.
    pub(super) fn switch_to_promoted(&mut self, me: &mut Me, now: Ms) {
        let promoted = self.promoted().map(|promoted| promoted.instance.address.clone());
        let to = promoted.unwrap_or_else(|| self.instance.address.clone());
        self.tell_switch(me, &to);
        self.reset_to(me, to, now);
    }

    pub(super) fn tell_switch(&self, me: &mut Me, to: &Address) {
        let from = &self.instance.address;
        let (name, port) = (&self.instance.name, from.port);
        let text = format!("{name} {} {port} {} {}", from.host, to.host, to.port);
        let about = About::Switched { from: from.to_string(), to: to.to_string() };
        me.tell_about("+switch-master", text, about);
    }
}

impl Instance {
    /// `REPLICAOF`, and with it, in one transaction: the configuration is written down,
    /// and every client is sent away, so that it asks anew who the master is.
    pub(super) fn send_replicaof(&mut self, master: Option<&Address>) -> bool {
        let port = master.map(|master| master.port.to_string());
        let (host, port): (&[u8], &[u8]) = match (master, &port) {
            (Some(master), Some(port)) => (master.host.as_bytes(), port.as_bytes()),
            _ => (b"NO", b"ONE"),
        };
        let commands: [&[&[u8]]; 6] = [
            &[b"MULTI"],
            &[b"SLAVEOF", host, port],
            &[b"CONFIG", b"REWRITE"],
            &[b"CLIENT", b"KILL", b"TYPE", b"normal"],
            &[b"CLIENT", b"KILL", b"TYPE", b"pubsub"],
            &[b"EXEC"],
        ];
        let mut bytes = Vec::new();
        commands.iter().all(|command| {
            bytes.clear();
            append_command(&mut bytes, command.iter().copied());
            self.link.send(&bytes, Expected::Nothing)
        })
    }
}
