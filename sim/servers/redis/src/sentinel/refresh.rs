//! What servers say of themselves in INFO, and what follows from it.

use super::core::{Core, Me, Place};
use super::instance::{Address, Master, Ms, Reconfiguration, Replica, Role, Stage};

/// What a sentinel reads in INFO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report<'a> {
    run_id: Option<&'a str>,
    role: Option<Role>,
    replicas: Vec<Address>,
    link_down: Ms,
    follows: Option<&'a str>,
    follows_port: Option<u16>,
    link_is_up: Option<bool>,
    priority: Option<i64>,
    offset: Option<u64>,
    announced: Option<bool>,
}

impl<'a> Report<'a> {
    /// Reads it, line by line; what is not known is passed over.
    pub(super) fn parse(text: &'a str) -> Self {
        let mut report = Report::default();
        for line in text.split("\r\n") {
            let Some((field, value)) = line.split_once(':') else { continue };
            match field {
                "run_id" if value.len() >= 40 => report.run_id = value.get(..40),
                "role" => {
                    report.role = match value {
                        "master" => Some(Role::Master),
                        "slave" => Some(Role::Replica),
                        _ => None,
                    }
                }
                "master_link_down_since_seconds" => {
                    report.link_down = value.parse::<Ms>().unwrap_or(0).saturating_mul(1_000);
                }
                "master_host" => report.follows = Some(value),
                "master_port" => report.follows_port = value.parse().ok(),
                "master_link_status" => report.link_is_up = Some(value == "up"),
                "slave_priority" => report.priority = value.parse().ok(),
                "slave_repl_offset" => report.offset = value.parse().ok(),
                "replica_announced" => report.announced = Some(value != "0"),
                _ => {
                    let number = field.strip_prefix("slave").unwrap_or_default();
                    if number.starts_with(|first: char| first.is_ascii_digit()) {
                        report.replicas.extend(replica(value));
                    }
                }
            }
        }
        report
    }
}

/// `ip=127.0.0.1,port=6380,state=online,…`.
fn replica(value: &str) -> Option<Address> {
    let field = |name: &str| value.split(',').find_map(|part| part.strip_prefix(name));
    Some(Address::new(field("ip=")?, field("port=")?.parse().ok()?))
}

impl Core {
    /// An instance answered INFO.
    pub(super) fn refresh(&mut self, place: Place, text: &[u8], now: Ms) {
        let Ok(report) = std::str::from_utf8(text).map(Report::parse) else { return };
        let me = &mut self.me;
        match place {
            Place::Master(index) => self.masters[index].refreshed(me, &report, now),
            Place::Replica(index, position) => {
                self.masters[index].replica_refreshed(me, position, &report, now);
            }
            Place::Sentinel(..) => return,
        }
        let instance = self.instance(place);
        let info = instance.info.get_or_insert_default();
        info.clear();
        info.extend_from_slice(text);
    }
}

impl Master {
    fn refreshed(&mut self, me: &mut Me, report: &Report<'_>, now: Ms) {
        self.note_run_id(me, None, report);
        for address in &report.replicas {
            let shown = match self.add_replica(address.clone(), now) {
                None => continue,
                Some(_) => self.replicas.last().map(|added| self.shown_of(&added.instance)),
            };
            me.tell("+slave", shown.unwrap_or_default());
            me.must_save();
        }
        self.instance.informed_at = now;
        self.note_role(me, None, report, now);
    }

    fn replica_refreshed(&mut self, me: &mut Me, index: usize, report: &Report<'_>, now: Ms) {
        self.note_run_id(me, Some(index), report);
        self.replicas[index].note(report, now);
        self.note_role(me, Some(index), report, now);
        if me.tilt {
            return;
        }
        match report.role {
            Some(Role::Master) => self.replica_is_master(me, index, now),
            Some(Role::Replica) => {
                self.mend_replica(me, index, now);
                self.note_reconfiguration(me, index);
            }
            None => {}
        }
    }

    fn note_run_id(&mut self, me: &mut Me, index: Option<usize>, report: &Report<'_>) {
        let Some(run_id) = report.run_id else { return };
        let instance = match index {
            Some(index) => &mut self.replicas[index].instance,
            None => &mut self.instance,
        };
        if instance.run_id.as_deref() == Some(run_id) {
            return;
        }
        let before = instance.run_id.replace(run_id.to_owned());
        if before.is_some() {
            me.tell("+reboot", self.shown_at(index));
        }
    }

    fn shown_at(&self, index: Option<usize>) -> String {
        match index {
            Some(index) => self.shown_of(&self.replicas[index].instance),
            None => self.shown(),
        }
    }

    /// `+role-change` to what we take it for, `-role-change` to what we do not.
    fn note_role(&mut self, me: &mut Me, index: Option<usize>, report: &Report<'_>, now: Ms) {
        let Some(role) = report.role else { return };
        let (instance, expected) = match index {
            Some(index) => (&mut self.replicas[index].instance, Role::Replica),
            None => (&mut self.instance, Role::Master),
        };
        if instance.role == role {
            return;
        }
        instance.role = role;
        instance.role_since = now;
        if let (Role::Replica, Some(index)) = (role, index) {
            self.replicas[index].follows_since = now;
        }
        let name = if role == expected { "+role-change" } else { "-role-change" };
        let text = format!("{} new reported role is {}", self.shown_at(index), role.name());
        me.tell(name, text);
    }

    /// A replica says that it is a master: the end of its promotion, or a former master
    /// that has come back and is made a replica, once others have had the time to say that
    /// they know better.
    fn replica_is_master(&mut self, me: &mut Me, index: usize, now: Ms) {
        let replica = &self.replicas[index];
        if replica.is_promoted && self.failover_in_progress && self.stage == Stage::WaitPromotion {
            return self.promotion_seen(me, index, now);
        }
        let wait = me.timing.publish_period * 4;
        let is_settled = !replica.is_promoted
            && self.looks_sane(me.timing.info_period, now)
            && replica.instance.was_up_for(wait, now)
            && now - replica.instance.role_since > wait;
        if is_settled {
            self.send_to_master(me, index, "+convert-to-slave");
        }
    }

    /// A replica that has followed another for too long is pointed at the master.
    fn mend_replica(&mut self, me: &mut Me, index: usize, now: Ms) {
        let replica = &self.replicas[index];
        let (host, port) = (replica.follows.as_deref().unwrap_or("?"), replica.follows_port);
        if self.instance.address.is(host, port) {
            return;
        }
        let wait = self.failover_timeout;
        let is_settled = self.looks_sane(me.timing.info_period, now)
            && replica.instance.was_up_for(wait, now)
            && now - replica.follows_since > wait;
        if is_settled {
            self.send_to_master(me, index, "+fix-slave-config");
        }
    }

    fn send_to_master(&mut self, me: &mut Me, index: usize, event: &'static str) {
        let address = self.instance.address.clone();
        if self.replicas[index].instance.send_replicaof(Some(&address)) {
            me.tell(event, self.shown_of(&self.replicas[index].instance));
        }
    }

    /// How far a replica has come that was told to follow the new master.
    fn note_reconfiguration(&mut self, me: &mut Me, index: usize) {
        let Some(to) = self.promoted().map(|promoted| promoted.instance.address.clone()) else {
            return;
        };
        let replica = &mut self.replicas[index];
        let follows = replica.follows.as_deref().unwrap_or("?");
        if replica.reconfiguration == Reconfiguration::Sent && to.is(follows, replica.follows_port)
        {
            replica.reconfiguration = Reconfiguration::InProgress;
            me.tell("+slave-reconf-inprog", self.shown_of(&self.replicas[index].instance));
        }
        let replica = &mut self.replicas[index];
        if replica.reconfiguration == Reconfiguration::InProgress && replica.link_is_up {
            replica.reconfiguration = Reconfiguration::Done;
            me.tell("+slave-reconf-done", self.shown_of(&self.replicas[index].instance));
        }
    }
}

impl Replica {
    fn note(&mut self, report: &Report<'_>, now: Ms) {
        self.instance.informed_at = now;
        self.link_down = report.link_down;
        if report.role != Some(Role::Replica) {
            return;
        }
        if let Some(host) = report.follows
            && !self.follows.as_deref().is_some_and(|known| known.eq_ignore_ascii_case(host))
        {
            self.follows = Some(host.to_owned());
            self.follows_since = now;
        }
        if let Some(port) = report.follows_port
            && port != self.follows_port
        {
            self.follows_port = port;
            self.follows_since = now;
        }
        self.link_is_up = report.link_is_up.unwrap_or(self.link_is_up);
        self.priority = report.priority.unwrap_or(self.priority);
        self.offset = report.offset.unwrap_or(self.offset);
        self.announced = report.announced.unwrap_or(self.announced);
    }
}
