//! The watching half of the timer: connections, PING, INFO, hello; and who is down.

use super::About;
use super::bounds::{MOST_OF_ONE_MASTER, is_word};
use super::core::{Me, has_room};
use super::instance::{Address, Instance, Kind, Master, Ms, Peer, Reconfiguration, Replica, Role};
use super::link::Expected;
use crate::codec::append_command;

/// The channel on which sentinels find each other.
pub(super) const HELLO_CHANNEL: &[u8] = b"__sentinel__:hello";

impl Master {
    /// The timer's work for the master itself.
    pub(super) fn handle(&mut self, me: &mut Me, now: Ms) {
        self.instance.reconnect(me, now);
        self.send_routine(me, None, me.timing.info_period, now);
        if is_tilted(me, now) {
            return;
        }
        let (was_down, info_period) = (self.instance.s_down, me.timing.info_period);
        let denies = self.instance.role == Role::Replica
            && now - self.instance.role_since > self.instance.down_after + info_period * 2;
        self.instance.check_subjectively_down(me, denies, now);
        if was_down != self.instance.s_down {
            me.tell(sdown(self.instance.s_down), self.shown());
        }
        self.check_objectively_down(me, now);
        if self.must_fail_over(now) {
            self.start_failover(me, now);
            self.ask_sentinels(me, true, now);
        }
        self.advance_failover(me, now);
        self.ask_sentinels(me, false, now);
    }

    /// The timer's work for a replica.
    pub(super) fn handle_replica(&mut self, me: &mut Me, index: usize, now: Ms) {
        let replica = &mut self.replicas[index];
        replica.instance.reconnect(me, now);
        // Who may be promoted, by whomever, is looked at more closely, and so is who has
        // lost its master.
        let closely = self.o_down || self.failover_in_progress || replica.link_down != 0;
        let info_period = if closely { 1_000 } else { me.timing.info_period };
        self.send_routine(me, Some(index), info_period, now);
        if is_tilted(me, now) {
            return;
        }
        let instance = &mut self.replicas[index].instance;
        let was_down = instance.s_down;
        instance.check_subjectively_down(me, false, now);
        let is_down = instance.s_down;
        if was_down != is_down {
            me.tell(sdown(is_down), self.shown_of(&self.replicas[index].instance));
        }
    }

    /// The timer's work for another sentinel.
    pub(super) fn handle_sentinel(&mut self, me: &mut Me, index: usize, now: Ms) {
        let instance = &mut self.sentinels[index].instance;
        instance.reconnect(me, now);
        if instance.may_send() {
            instance.ping_if_due(me, now);
            if instance.is_hello_due(me, now) {
                let hello = self.hello(me);
                self.sentinels[index].instance.link.send(&hello, Expected::Publish);
            }
        }
        if is_tilted(me, now) {
            return;
        }
        let instance = &mut self.sentinels[index].instance;
        let was_down = instance.s_down;
        instance.check_subjectively_down(me, false, now);
        let is_down = instance.s_down;
        if was_down != is_down {
            me.tell(sdown(is_down), self.shown_of(&self.sentinels[index].instance));
        }
    }

    /// INFO, PING and hello to the master, or to one of its replicas.
    fn send_routine(&mut self, me: &mut Me, replica: Option<usize>, info_period: Ms, now: Ms) {
        let instance = self.server(replica);
        if !instance.may_send() {
            return;
        }
        if instance.informed_at == 0 || now - instance.informed_at > info_period {
            instance.link.send(b"*1\r\n$4\r\nINFO\r\n", Expected::Info);
        }
        instance.ping_if_due(me, now);
        if instance.is_hello_due(me, now) {
            let hello = self.hello(me);
            self.server(replica).link.send(&hello, Expected::Publish);
        }
    }

    fn server(&mut self, replica: Option<usize>) -> &mut Instance {
        match replica {
            Some(index) => &mut self.replicas[index].instance,
            None => &mut self.instance,
        }
    }

    /// The PUBLISH that tells others who we are and whom we take for the master.
    fn hello(&self, me: &Me) -> Vec<u8> {
        let master = self.current_address();
        let text = format!(
            "{},{},{},{},{},{},{},{}",
            me.address.host,
            me.address.port,
            me.id,
            me.current_epoch,
            self.instance.name,
            master.host,
            master.port,
            self.config_epoch
        );
        let mut bytes = Vec::with_capacity(text.len() + 64);
        append_command(&mut bytes, [b"PUBLISH", HELLO_CHANNEL, text.as_bytes()]);
        bytes
    }

    /// Others are told at the next tick, not when it is time.
    pub(super) fn hurry_hello(&mut self, me: &Me) {
        let before = me.timing.publish_period + 1;
        let replicas = self.replicas.iter_mut().map(|replica| &mut replica.instance);
        let sentinels = self.sentinels.iter_mut().map(|peer| &mut peer.instance);
        let all = std::iter::once(&mut self.instance).chain(replicas).chain(sentinels);
        for instance in all.filter(|instance| instance.published_at >= before) {
            instance.published_at -= before;
        }
    }

    /// Down by the word of enough sentinels.
    fn check_objectively_down(&mut self, me: &mut Me, now: Ms) {
        let agree = 1 + self.sentinels.iter().filter(|peer| peer.master_down).count();
        let is_down = self.instance.s_down && agree >= self.quorum as usize;
        if is_down == self.o_down {
            return;
        }
        self.o_down = is_down;
        if is_down {
            self.o_down_since = now;
            let text = format!("{} #quorum {agree}/{}", self.shown(), self.quorum);
            let about = About::Down { master: self.instance.address.to_string() };
            me.tell_about("+odown", text, about);
        } else {
            me.tell("-odown", self.shown());
        }
    }

    /// Adds a replica, unless it is known.
    pub(super) fn add_replica(&mut self, address: Address, now: Ms) -> Option<&Replica> {
        if self.replicas.iter().any(|known| known.instance.address.is_same(&address)) {
            return None;
        }
        if self.replicas.len() == MOST_OF_ONE_MASTER || !is_word(&address.host) {
            return None;
        }
        self.replicas.push(Replica::new(address, self.instance.down_after, now));
        self.replicas.last()
    }

    /// Adds a sentinel, unless its id is known, or there are too many.
    pub(super) fn add_sentinel(&mut self, id: &str, address: Address, now: Ms) -> bool {
        let is_known = self.sentinels.iter().any(|known| known.instance.name == id);
        if is_known || self.sentinels.len() == MOST_OF_ONE_MASTER {
            return false;
        }
        self.sentinels.push(Peer::new(id.to_owned(), address, self.instance.down_after, now));
        true
    }

    /// Forgets all that was learnt of the master, as after a switch. Sentinels are kept
    /// unless they are to be forgotten too.
    pub(super) fn reset(&mut self, forget_sentinels: bool, now: Ms) {
        self.replicas.clear();
        if forget_sentinels {
            self.sentinels.clear();
        }
        self.instance.link.close();
        self.instance.s_down = false;
        self.instance.script_kill_sent = false;
        self.o_down = false;
        self.failover_in_progress = false;
        self.failover_forced = false;
        self.leader = None;
        self.stage = super::instance::Stage::None;
        self.stage_since = 0;
        self.failover_started_at = 0;
        self.instance.run_id = None;
        let link = &mut self.instance.link;
        link.ping_pending_since = now;
        link.pinged_at = 0;
        link.available_at = now;
        link.ponged_at = now;
        self.instance.role = Role::Master;
        self.instance.role_since = now;
    }

    /// From now on the master is `address`, and who was it becomes a replica.
    pub(super) fn reset_to(&mut self, me: &mut Me, address: Address, now: Ms) {
        let replicas = self.replicas.iter().map(|replica| replica.instance.address.clone());
        let mut replicas: Vec<Address> =
            replicas.filter(|replica| !replica.is_same(&address)).collect();
        if !self.instance.address.is_same(&address) {
            replicas.push(self.instance.address.clone());
        }
        self.reset(false, now);
        self.instance.address = address;
        self.o_down_since = 0;
        self.instance.s_down_since = 0;
        for replica in replicas {
            let added = self.add_replica(replica, now).is_some();
            if let (true, Some(replica)) = (added, self.replicas.last()) {
                me.tell("+slave", self.shown_of(&replica.instance));
            }
        }
        me.must_save();
    }

    /// Replicas on their way to the new master.
    pub(super) fn reconfiguring(&self) -> usize {
        let under_way = |replica: &&Replica| {
            matches!(replica.reconfiguration, Reconfiguration::Sent | Reconfiguration::InProgress)
        };
        self.replicas.iter().filter(under_way).count()
    }
}

/// While TILT lasts nothing is decided.
fn is_tilted(me: &mut Me, now: Ms) -> bool {
    if !me.tilt {
        return false;
    }
    if now - me.tilt_since < me.timing.tilt_period {
        return true;
    }
    me.tilt = false;
    me.tell("-tilt", "#tilt mode exited".to_owned());
    false
}

fn sdown(is_down: bool) -> &'static str {
    if is_down { "+sdown" } else { "-sdown" }
}

impl Instance {
    /// Opens what is missing, at most once in a PING period.
    fn reconnect(&mut self, me: &mut Me, now: Ms) {
        if !self.link.disconnected || now - self.link.reconnected_at < me.timing.ping_period {
            return;
        }
        self.link.reconnected_at = now;
        let own = me.id.get(..8).unwrap_or(&me.id);
        if self.link.commands.is_none() {
            let mut hello = Vec::new();
            let name = format!("sentinel-{own}-cmd");
            append_command(&mut hello, [b"CLIENT", &b"SETNAME"[..], name.as_bytes()]);
            self.link.expected.clear();
            self.link.commands = Some(me.open(&self.address, now));
            self.link.send(&hello, Expected::Nothing);
            self.link.send_ping(now);
        }
        if self.kind != Kind::Sentinel && self.link.subscription.is_none() {
            let own = me.id.get(..8).unwrap_or(&me.id);
            let name = format!("sentinel-{own}-pubsub");
            let mut connection = me.open(&self.address, now);
            let bytes = &mut connection.outgoing;
            append_command(bytes, [b"CLIENT", &b"SETNAME"[..], name.as_bytes()]);
            append_command(bytes, [b"SUBSCRIBE", HELLO_CHANNEL]);
            self.link.subscription = Some(connection);
        }
        self.link.disconnected = false;
    }

    fn may_send(&self) -> bool {
        !self.link.disconnected && has_room(&self.link)
    }

    fn ping_if_due(&mut self, me: &Me, now: Ms) {
        let period = self.down_after.min(me.timing.ping_period);
        if now - self.link.ponged_at > period && now - self.link.pinged_at > period / 2 {
            self.link.send_ping(now);
        }
    }

    fn is_hello_due(&self, me: &Me, now: Ms) -> bool {
        now - self.published_at > me.timing.publish_period
    }

    /// Closes connections on which nothing comes any more, and judges by the silence.
    fn check_subjectively_down(&mut self, me: &Me, denies: bool, now: Ms) {
        let (timing, link) = (&me.timing, &mut self.link);
        let silence = if link.ping_pending_since != 0 {
            now - link.ping_pending_since
        } else if link.disconnected {
            now - link.available_at
        } else {
            0
        };
        let is_old = |since: Ms| now - since > timing.min_link_reconnect_period;
        if link.commands.as_ref().is_some_and(|connection| is_old(connection.since))
            && link.ping_pending_since != 0
            && now - link.ping_pending_since > self.down_after / 2
            && now - link.ponged_at > self.down_after / 2
        {
            link.close_commands();
        }
        if link.subscription.as_ref().is_some_and(|connection| is_old(connection.since))
            && now - link.heard_at > timing.publish_period * 3
        {
            link.close_subscription();
        }
        let is_down = silence > self.down_after || denies;
        if is_down && !self.s_down {
            self.s_down_since = now;
        }
        if !is_down {
            self.script_kill_sent = false;
        }
        self.s_down = is_down;
    }
}
