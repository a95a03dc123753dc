//! The state machine of a sentinel: no tasks, no network, no clock of its own.
//!
//! It is told the time, what came over its connections and what clients ask; it answers
//! with bytes to send, connections to open, events, and a configuration to be written
//! down. All of a real sentinel runs in one thread, so here every step is one call.
//!
//! Order of things: [`Core`] and [`Me`], the timer, the replies. The steps themselves
//! are in `watch` (links, who is down), `election`, `failover`, `refresh` (INFO) and
//! `hello`.

use super::instance::{Address, Instance, Master, Ms, Stage};
use super::link::{Channel, Connection, Expected, Link};
use super::{About, Event, MasterSettings, Settings};
use crate::codec::Reply;

/// The intervals that `SENTINEL DEBUG` shows and sets, ms.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    pub(super) info_period: Ms,
    pub(super) ping_period: Ms,
    pub(super) ask_period: Ms,
    pub(super) publish_period: Ms,
    pub(super) default_down_after: Ms,
    pub(super) default_failover_timeout: Ms,
    pub(super) tilt_trigger: Ms,
    pub(super) tilt_period: Ms,
    pub(super) reconfiguration_timeout: Ms,
    pub(super) min_link_reconnect_period: Ms,
    pub(super) election_timeout: Ms,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            info_period: 10_000,
            ping_period: 1_000,
            ask_period: 1_000,
            publish_period: 2_000,
            default_down_after: 30_000,
            default_failover_timeout: 180_000,
            tilt_trigger: 2_000,
            tilt_period: 30_000,
            reconfiguration_timeout: 10_000,
            min_link_reconnect_period: 15_000,
            election_timeout: 10_000,
        }
    }
}

/// Most that is drawn to keep sentinels from doing the same at the same time, ms.
pub(super) const MAX_DESYNC: u64 = 1_000;

/// So many commands without a reply are enough.
const MAX_PENDING_COMMANDS: usize = 100;

/// A connection to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) number: u64,
    pub(super) address: String,
}

/// What `SENTINEL SIMULATE-FAILURE` asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Crash {
    pub(super) after_election: bool,
    pub(super) after_promotion: bool,
}

/// The sentinel itself, apart from whom it watches.
pub(super) struct Me {
    pub(super) id: String,
    /// Where it says that it listens.
    pub(super) address: Address,
    /// The port that it was told to say instead of its own; 0 for none (`announce-port`).
    pub(super) announced_port: u16,
    /// The port on which it does listen.
    pub(super) own_port: u16,
    pub(super) current_epoch: u64,
    pub(super) timing: Timing,
    pub(super) tilt: bool,
    pub(super) tilt_since: Ms,
    pub(super) crash: Crash,
    /// It has crashed as it was asked to.
    pub(super) is_dead: bool,
    /// Connections to open, for whoever carries them.
    pub(super) openings: Vec<Opening>,
    /// What has happened, for whoever listens.
    pub(super) events: Vec<Event>,
    /// Counts the changes of what must be written down.
    pub(super) version: u64,
    random: Box<dyn FnMut(&'static str) -> u64 + Send>,
    next_number: u64,
    /// When the timer last ran.
    previous: Ms,
}

impl Me {
    /// A number below `bound`.
    pub(super) fn draw(&mut self, purpose: &'static str, bound: u64) -> Ms {
        ((u128::from((self.random)(purpose)) * u128::from(bound)) >> 64) as Ms
    }

    pub(super) fn tell(&mut self, name: &'static str, text: String) {
        self.tell_about(name, text, About::Nothing);
    }

    pub(super) fn tell_about(&mut self, name: &'static str, text: String, about: About) {
        self.events.push(Event { name, text, about });
    }

    /// What was changed must be on disk before anything that follows from it leaves.
    pub(super) fn must_save(&mut self) {
        self.version += 1;
    }

    /// A connection to `address` that is being opened.
    pub(super) fn open(&mut self, address: &Address, now: Ms) -> Connection {
        self.next_number += 1;
        self.openings.push(Opening { number: self.next_number, address: address.to_string() });
        Connection::new(self.next_number, now)
    }
}

/// A sentinel and whom it watches.
pub(super) struct Core {
    pub(super) me: Me,
    pub(super) masters: Vec<Master>,
}

/// The place of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Master(usize),
    Replica(usize, usize),
    Sentinel(usize, usize),
}

impl Core {
    /// A sentinel as its settings have it, that watches since `now`.
    pub(super) fn new(
        settings: &Settings,
        id: String,
        now: Ms,
        random: Box<dyn FnMut(&'static str) -> u64 + Send>,
    ) -> Self {
        let me = Me {
            id,
            address: Address::new(settings.announced.clone(), settings.port),
            announced_port: 0,
            own_port: settings.port,
            current_epoch: 0,
            timing: Timing::default(),
            tilt: false,
            tilt_since: 0,
            crash: Crash::default(),
            is_dead: false,
            openings: Vec::new(),
            events: Vec::new(),
            version: 0,
            random,
            next_number: 0,
            previous: now,
        };
        let masters = settings.masters.iter().filter_map(|master| watched(master, now)).collect();
        Core { me, masters }
    }

    /// Says whom it watches: once, at the start.
    pub(super) fn announce(&mut self) {
        for master in &self.masters {
            let text = format!("{} quorum {}", master.shown(), master.quorum);
            self.me.tell("+monitor", text);
        }
    }

    /// The timer: runs ten to nineteen times a second, see [`Core::next_tick`].
    pub(super) fn tick(&mut self, now: Ms) {
        self.check_tilt(now);
        for index in 0..self.masters.len() {
            let (me, master) = (&mut self.me, &mut self.masters[index]);
            master.handle(me, now);
            for replica in 0..master.replicas.len() {
                master.handle_replica(me, replica, now);
            }
            for sentinel in 0..master.sentinels.len() {
                master.handle_sentinel(me, sentinel, now);
            }
            if master.stage == Stage::UpdateConfiguration {
                master.switch_to_promoted(me, now);
            }
        }
    }

    /// How long until the timer runs again, ms: drawn anew each time, so that sentinels
    /// that were started together do not stay in step.
    pub(super) fn next_tick(&mut self) -> u64 {
        let hz = 10 + self.me.draw("sentinel-hz", 10);
        1_000 / hz as u64
    }

    /// The clock went back, or the timer is far too late: the machine stood still, or its
    /// clock was set. Either makes everybody look dead.
    fn check_tilt(&mut self, now: Ms) {
        let delta = now - self.me.previous;
        if delta < 0 || delta > self.me.timing.tilt_trigger {
            self.me.tilt = true;
            self.me.tilt_since = now;
            self.me.tell("+tilt", "#tilt mode entered".to_owned());
        }
        self.me.previous = now;
    }

    /// The place of the instance that has this connection.
    pub(super) fn find(&self, number: u64) -> Option<(Place, Channel)> {
        for (index, master) in self.masters.iter().enumerate() {
            if let Some(channel) = master.instance.link.channel(number) {
                return Some((Place::Master(index), channel));
            }
            for (position, replica) in master.replicas.iter().enumerate() {
                if let Some(channel) = replica.instance.link.channel(number) {
                    return Some((Place::Replica(index, position), channel));
                }
            }
            for (position, peer) in master.sentinels.iter().enumerate() {
                if let Some(channel) = peer.instance.link.channel(number) {
                    return Some((Place::Sentinel(index, position), channel));
                }
            }
        }
        None
    }

    pub(super) fn instance(&mut self, place: Place) -> &mut Instance {
        match place {
            Place::Master(index) => &mut self.masters[index].instance,
            Place::Replica(index, position) => &mut self.masters[index].replicas[position].instance,
            Place::Sentinel(index, position) => {
                &mut self.masters[index].sentinels[position].instance
            }
        }
    }

    /// The connection of this number; `None` once it is closed.
    pub(super) fn connection(&mut self, number: u64) -> Option<&mut Connection> {
        let (place, channel) = self.find(number)?;
        let link: &mut Link = &mut self.instance(place).link;
        match channel {
            Channel::Commands => link.commands.as_mut(),
            Channel::Subscription => link.subscription.as_mut(),
        }
    }

    /// The connection could not be opened, or has ended.
    pub(super) fn failed(&mut self, number: u64) {
        let Some((place, channel)) = self.find(number) else { return };
        let link = &mut self.instance(place).link;
        match channel {
            Channel::Commands => link.close_commands(),
            Channel::Subscription => link.close_subscription(),
        }
    }

    /// Something came over a connection.
    pub(super) fn received(&mut self, number: u64, reply: &Reply, now: Ms) {
        let Some((place, channel)) = self.find(number) else { return };
        if channel == Channel::Subscription {
            self.instance(place).link.heard_at = now;
            return self.heard(reply, now);
        }
        let Some(expected) = self.instance(place).link.expected.pop_front() else { return };
        match expected {
            Expected::Ping => self.ponged(place, reply, now),
            Expected::Publish => {
                if reply.as_error().is_none() {
                    self.instance(place).published_at = now;
                }
            }
            Expected::Info => {
                if let Some(text) = reply.text().filter(|_| !is_error(reply)) {
                    self.refresh(place, text, now);
                }
            }
            Expected::MasterDown => {
                if let Place::Sentinel(index, position) = place {
                    self.masters[index].sentinels[position].answered(reply, now);
                }
            }
            Expected::Nothing => {}
        }
    }

    /// A server that is loading, or has lost its own master, lives. One that is busy with
    /// a script does not, and the script is ended.
    fn ponged(&mut self, place: Place, reply: &Reply, now: Ms) {
        let instance = self.instance(place);
        let text = reply.text().or_else(|| reply.as_error()).unwrap_or_default();
        let alive: [&[u8]; 3] = [b"PONG", b"LOADING", b"MASTERDOWN"];
        if alive.iter().any(|word| text.starts_with(word)) {
            instance.link.available_at = now;
            instance.link.ping_pending_since = 0;
        } else if text.starts_with(b"BUSY") && instance.s_down && !instance.script_kill_sent {
            instance.link.send(b"*2\r\n$6\r\nSCRIPT\r\n$4\r\nKILL\r\n", Expected::Nothing);
            instance.script_kill_sent = true;
        }
        instance.link.ponged_at = now;
    }

    /// The master of this name.
    pub(super) fn master(&mut self, name: &[u8]) -> Option<&mut Master> {
        self.masters.iter_mut().find(|master| master.instance.name.as_bytes() == name)
    }

    /// Wakes every connection that has something to send.
    pub(super) fn wake_all(&self) {
        let links = self.masters.iter().flat_map(|master| {
            let replicas = master.replicas.iter().map(|replica| &replica.instance.link);
            let sentinels = master.sentinels.iter().map(|peer| &peer.instance.link);
            std::iter::once(&master.instance.link).chain(replicas).chain(sentinels)
        });
        for connection in links.flat_map(|link| link.commands.iter().chain(&link.subscription)) {
            if !connection.outgoing.is_empty() {
                connection.wake();
            }
        }
    }
}

/// Whether a link may carry one more routine command.
pub(super) fn has_room(link: &Link) -> bool {
    link.expected.len() < MAX_PENDING_COMMANDS
}

fn is_error(reply: &Reply) -> bool {
    reply.as_error().is_some()
}

/// A master as the settings have it; `None` where its address is none.
fn watched(settings: &MasterSettings, now: Ms) -> Option<Master> {
    let ms = |duration: std::time::Duration| Ms::try_from(duration.as_millis()).unwrap_or(Ms::MAX);
    let down_after = ms(settings.down_after);
    let address = Address::parse(&settings.address)?;
    let mut master = Master::new(settings.name.clone(), address, settings.quorum, down_after, now);
    master.failover_timeout = ms(settings.failover_timeout);
    master.parallel_syncs = settings.parallel_syncs;
    for replica in settings.replicas.iter().filter_map(|text| Address::parse(text)) {
        master.add_replica(replica, now);
    }
    for peer in &settings.sentinels {
        if let Some(address) = Address::parse(&peer.address) {
            master.add_sentinel(&peer.id, address, now);
        }
    }
    Some(master)
}
