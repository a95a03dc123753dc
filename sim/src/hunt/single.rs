//! The menu of a certificate: every single fault that makes sense at a moment.
//!
//! Who is struck follows from the moment: the client whose operation it is (the *holder*),
//! the master or the leader, one replica or follower (they are alike), one sentinel, the
//! stock, and the links between them. For how long follows from the plan: *briefly* (half a command
//! timeout: nobody gives up), *through a takeover* (sentinels replace the master, the
//! lease goes on), *past the lease*. So the menu fits any scenario, and its names say roles
//! and not numbers: they stay when a scenario's times change.
//!
//! Not on the menu: disks of servers that keep nothing on one; and the tolerances of a
//! sound clock beside one sample of them.

mod length;

use crate::history::{History, What};
use crate::plan::{
    Anchor, Fault, FaultKind, Micros, Operation, Phase, Plan, RedisPersistence, STOCK_NODE, When,
};
use length::Length::{self, Brief, PastLease, Rest, Takeover};
use length::takeover_us;

/// A fault of the menu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Single {
    /// What it is, with roles for nodes.
    pub name: String,
    /// What it is, at the moment's anchor.
    pub fault: Fault,
}

/// The master of the beginning.
const MASTER: &str = "redis-1";

/// Who decides in a fault-free run: the master, or whom its ensemble has elected.
pub fn authority(history: &History, plan: &Plan) -> String {
    let elected = history.iter().rfind(|event| matches!(event.what, What::Leading { .. }));
    match elected {
        Some(event) if plan.topology.zookeeper > 0 => event.node.to_string(),
        _ => plan.topology.lock_servers().first().map_or(MASTER, String::as_str).to_owned(),
    }
}

/// The sentinel that is struck where one of them is.
const SENTINEL: &str = "sentinel-1";

/// The names of fault kinds that are never tried, and why.
pub fn left_out(plan: &Plan) -> Vec<(&'static str, &'static str)> {
    let mut left_out = Vec::new();
    if !keeps_data(plan) {
        let why = match plan.topology.sentinels {
            0 => "no server of this scenario keeps its data on a disk",
            _ => "only sentinels keep anything on a disk here, and theirs are not tried",
        };
        left_out.extend(["disk-slow", "disk-stall", "disk-error"].map(|kind| (kind, why)));
    }
    if plan.topology.postgres > 1 {
        left_out.push(("promote", "a promotion alone is tried by drawn plans"));
    }
    left_out
}

/// Whether the servers that keep the lock keep it on a disk.
fn keeps_data(plan: &Plan) -> bool {
    let topology = &plan.topology;
    topology.zookeeper > 0
        || topology.postgres > 0
        || topology.persistence != RedisPersistence::None
}

/// Every single fault at `anchor`, in a fixed order, where this server is the
/// [authority](fn@authority). Those that the plan's rules refuse are not among them.
pub fn menu(plan: &Plan, anchor: &Anchor, authority: &str) -> Vec<Single> {
    let mut menu = Menu { plan, anchor, authority, singles: Vec::new() };
    menu.crashes();
    menu.pauses();
    menu.partitions();
    menu.links();
    menu.clocks();
    menu.disks();
    menu.cancels();
    menu.singles
}

struct Menu<'a> {
    plan: &'a Plan,
    anchor: &'a Anchor,
    authority: &'a str,
    singles: Vec<Single>,
}

impl Menu<'_> {
    fn holder(&self) -> String {
        self.anchor.client.clone()
    }

    fn is_ensemble(&self) -> bool {
        self.plan.topology.zookeeper > 0
    }

    /// Of the master or the leader; independent servers have none.
    fn replicas(&self) -> Vec<String> {
        let mut servers = self.plan.topology.lock_servers();
        if self.plan.topology.independent {
            return Vec::new();
        }
        servers.retain(|server| server != self.authority);
        servers
    }

    fn replica_role(&self) -> &'static str {
        if self.is_ensemble() { "follower" } else { "replica" }
    }

    /// What the authority is: one of many, or the only one that counts.
    fn master_role(&self) -> &'static str {
        let topology = &self.plan.topology;
        match topology.zookeeper {
            0 if topology.independent => "one server",
            0 => "master",
            1 => "server",
            _ => "leader",
        }
    }

    fn has_sentinel(&self) -> bool {
        self.plan.topology.sentinels > 0
    }

    /// The lengths that mean something here: without sentinels nobody takes over.
    fn lengths(&self, lengths: &[Length]) -> Vec<Length> {
        let without_twins = |length: &Length| match length {
            Takeover => self.has_sentinel() && takeover_us(self.plan) < self.plan.lock.lease.0,
            _ => true,
        };
        lengths.iter().copied().filter(without_twins).collect()
    }

    /// Adds a fault, unless the rules of plans refuse it.
    fn add(&mut self, what: String, kind: FaultKind, length: Option<Length>) {
        let name = match length {
            Some(length) => format!("{what}, {}", length.name()),
            None => what,
        };
        let when = When::After { anchor: self.anchor.clone(), delay: Micros(0) };
        let mut fault = Fault::new(kind, when);
        fault.lasts = length.and_then(|length| length.lasts(self.plan));
        let tried = Plan { faults: vec![fault.clone()], ..self.plan.clone() };
        if tried.check().is_ok() {
            self.singles.push(Single { name, fault });
        }
    }

    fn crashes(&mut self) {
        let mut victims = vec![(self.master_role(), self.authority.to_owned(), &[Brief, Rest][..])];
        victims.extend(
            self.replicas().first().map(|node| (self.replica_role(), node.clone(), &[Rest][..])),
        );
        if self.has_sentinel() {
            victims.push(("sentinel", SENTINEL.to_owned(), &[Rest][..]));
        }
        victims.push(("holder", self.holder(), &[Brief, Rest][..]));
        for (role, node, lengths) in victims {
            for length in lengths {
                let process = FaultKind::ProcessCrash { node: node.clone() };
                self.add(format!("process-crash {role}"), process, Some(*length));
                let machine = FaultKind::MachineCrash { node: node.clone() };
                self.add(format!("machine-crash {role}"), machine, Some(*length));
            }
        }
    }

    fn pauses(&mut self) {
        let mut victims = vec![
            ("holder", self.holder(), &[Brief, Takeover, PastLease][..]),
            (self.master_role(), self.authority.to_owned(), &[Brief, Takeover, PastLease][..]),
        ];
        victims.extend(
            self.replicas()
                .first()
                .map(|node| (self.replica_role(), node.clone(), &[PastLease][..])),
        );
        if self.has_sentinel() {
            victims.push(("sentinel", SENTINEL.to_owned(), &[PastLease][..]));
        }
        victims.push(("stock", STOCK_NODE.to_owned(), &[Brief, PastLease][..]));
        for (role, node, lengths) in victims {
            for length in self.lengths(lengths) {
                let kind = FaultKind::Pause { node: node.clone(), group: None };
                self.add(format!("pause {role}"), kind, Some(length));
            }
        }
        let groups = match self.is_ensemble() {
            true => ["asyncs", "release", "session"],
            false => ["redis-driver", "release", "renewer"],
        };
        for group in groups {
            let kind = FaultKind::Pause { node: self.holder(), group: Some(group.to_owned()) };
            self.add(format!("pause holder's {group}"), kind, Some(PastLease));
        }
        for length in self.lengths(&[Takeover, PastLease]) {
            self.add(
                "hang holder".to_owned(),
                FaultKind::Hang { node: self.holder() },
                Some(length),
            );
        }
    }

    fn partitions(&mut self) {
        let (holder, master) = (vec![self.holder()], vec![self.authority.to_owned()]);
        let stock = vec![STOCK_NODE.to_owned()];
        let (replicas, servers) = (self.replicas(), self.plan.topology.doors());
        self.cut("holder", &holder, "servers", &servers, &[Brief, Takeover, PastLease]);
        self.cut("holder", &holder, "stock", &stock, &[Brief, PastLease]);
        if self.plan.topology.independent {
            let majority = servers.len() / 2 + 1;
            self.cut("holder", &holder, "a minority", &servers[..majority - 1], &[PastLease]);
            self.cut("holder", &holder, "a majority", &servers[..majority], &[Brief, PastLease]);
        }
        if replicas.is_empty() {
            return;
        }
        if self.is_ensemble() {
            return self.partitions_of_ensemble(&replicas);
        }
        self.cut("holder", &holder, "master", &master, &[Takeover, PastLease]);
        self.cut("master", &master, "replicas", &replicas, &[Takeover, PastLease]);
        if !self.has_sentinel() {
            return;
        }
        let sentinels = self.plan.topology.sentinel_nodes();
        let cluster = [replicas, sentinels.clone()].concat();
        self.cut("master", &master, "sentinels", &sentinels, &[PastLease]);
        self.cut("master", &master, "replicas and sentinels", &cluster, &[Takeover, PastLease]);
        let others = self.other_clients();
        let rest = [cluster.clone(), others.clone()].concat();
        let minority = [master.clone(), holder.clone()].concat();
        self.cut("master and holder", &minority, "the rest", &rest, &[Takeover, PastLease]);
        let everybody = [cluster, holder, others].concat();
        self.cut("master", &master, "everybody", &everybody, &[Takeover, PastLease]);
    }

    fn other_clients(&self) -> Vec<String> {
        let apps = self.plan.topology.app_nodes().into_iter();
        apps.filter(|app| *app != self.anchor.client).collect()
    }

    fn partitions_of_ensemble(&mut self, followers: &[String]) {
        let (holder, leader) = (vec![self.holder()], vec![self.authority.to_owned()]);
        self.cut("holder", &holder, "leader", &leader, &[Brief, PastLease]);
        self.cut("leader", &leader, "followers", followers, &[Brief, PastLease]);
        let rest = [followers, &self.other_clients()].concat();
        self.cut("leader and holder", &[leader, holder].concat(), "the rest", &rest, &[PastLease]);
        let (one, rest) = followers.split_at(1);
        let rest = [rest, &[self.authority.to_owned()]].concat();
        self.cut("follower", one, "other servers", &rest, &[PastLease]);
    }

    /// Both ways for each length; for the longest also each way alone.
    fn cut(&mut self, one: &str, from: &[String], other: &str, to: &[String], lengths: &[Length]) {
        for length in self.lengths(lengths) {
            let kind = |from: &[String], to: &[String], one_way| FaultKind::Partition {
                from: from.to_vec(),
                to: to.to_vec(),
                one_way,
            };
            self.add(format!("partition {one} | {other}"), kind(from, to, false), Some(length));
            if length == PastLease {
                self.add(format!("partition {one} > {other}"), kind(from, to, true), Some(length));
                self.add(format!("partition {other} > {one}"), kind(to, from, true), Some(length));
            }
        }
    }

    fn links(&mut self) {
        let (holder, master) = (vec![self.holder()], vec![self.authority.to_owned()]);
        let stock = vec![STOCK_NODE.to_owned()];
        let replicas = self.replicas();
        let to_master = format!("holder - {}", self.master_role());
        let door = vec![self.plan.topology.door_of(self.authority)];
        let mut links = vec![
            (to_master.as_str(), holder.clone(), door),
            ("holder - stock", holder.clone(), stock),
        ];
        if self.is_ensemble() && !replicas.is_empty() {
            links.push(("holder - servers", holder, self.plan.topology.lock_servers()));
            links.push(("leader - followers", master, replicas));
        } else if !replicas.is_empty() {
            links.push(("master - replicas", master, replicas));
            let kind = FaultKind::ReplicationStall { node: self.authority.to_owned() };
            for length in self.lengths(&[Takeover, PastLease]) {
                self.add("replication-stall master".to_owned(), kind.clone(), Some(length));
            }
        }
        for (name, from, to) in links {
            // Slower for long by a little; for a moment by more than the lease.
            for (by, word, length) in
                [(Brief, "a little", PastLease), (PastLease, "a lease", Brief)]
            {
                let extra = by.lasts(self.plan).unwrap_or(Micros(self.plan.duration.0 / 2));
                let kind = FaultKind::SlowLink { from: from.clone(), to: to.clone(), extra };
                self.add(format!("slow-link {name} by {word}"), kind, Some(length));
            }
            self.add(format!("reset {name}"), FaultKind::Reset { from, to }, None);
        }
    }

    fn clocks(&mut self) {
        const SLEW_PPM: u32 = 100_000;
        let past_us = PastLease.lasts(self.plan).unwrap_or(self.plan.lock.lease).0;
        let past_us = i64::try_from(past_us).unwrap_or(i64::MAX);
        let mut owners =
            vec![(self.master_role(), self.authority.to_owned()), ("holder", self.holder())];
        let replica = self.replica_role();
        owners.extend(self.replicas().first().map(|node| (replica, node.clone())));
        for (role, node) in owners {
            for (word, by_us) in [("a lease ahead", past_us), ("a lease back", -past_us)] {
                let kind = FaultKind::ClockStep { node: node.clone(), by_us };
                self.add(format!("clock-step {role} {word}"), kind, Some(Rest));
            }
            if role == replica {
                continue;
            }
            for (word, ppm) in [("+5%", 50_000), ("-5%", -50_000), ("+500ppm", 500)] {
                let kind = FaultKind::ClockRate { node: node.clone(), ppm };
                self.add(format!("clock-rate {role} {word}"), kind, Some(Rest));
            }
            let kind = FaultKind::ClockFreeze { node: node.clone() };
            self.add(format!("clock-freeze {role}"), kind, Some(PastLease));
            for (word, by_us) in [("+10%", past_us / 10), ("-10%", -(past_us / 10))] {
                let kind = FaultKind::ClockSlew { node: node.clone(), by_us, ppm: SLEW_PPM };
                self.add(format!("clock-slew {role} {word}, past the lease"), kind, None);
            }
        }
    }

    /// Of servers that keep the lock on one.
    fn disks(&mut self) {
        if !keeps_data(self.plan) {
            return;
        }
        let mut owners = vec![(self.master_role(), self.authority.to_owned())];
        owners.extend(self.replicas().first().map(|node| (self.replica_role(), node.clone())));
        for (role, node) in owners {
            let extra = self.plan.lock.command_timeout;
            let kind = FaultKind::DiskSlow { node: node.clone(), extra };
            self.add(format!("disk-slow {role} by a command timeout"), kind, Some(PastLease));
            for length in [Brief, PastLease] {
                let kind = FaultKind::DiskStall { node: node.clone() };
                self.add(format!("disk-stall {role}"), kind, Some(length));
            }
            let kind = FaultKind::DiskError { node: node.clone() };
            self.add(format!("disk-error {role}"), kind, Some(Brief));
        }
    }

    /// Futures are dropped at their first suspensions; there the moment is the beginning of
    /// the operation.
    fn cancels(&mut self) {
        const SUSPENSIONS: u32 = 3;
        let (operation, ordinal) = (self.anchor.operation, self.anchor.ordinal);
        if self.anchor.phase != Phase::Invoked
            || !matches!(operation, Operation::Acquire | Operation::Release)
        {
            return;
        }
        for suspension in 1..=SUSPENSIONS {
            let (node, delay) = (self.holder(), Micros(0));
            let kind = FaultKind::Cancel { node, operation, ordinal, suspension, delay };
            self.add(format!("cancel holder at suspension {suspension}"), kind, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::{Fence, POOLER_NODE, scenario};

    fn menu_of(scenario: &str, phase: Phase) -> (Plan, Vec<Single>) {
        let lock = match scenario {
            "redlock-five" => "redlock",
            other if other.starts_with("zookeeper") => "zookeeper",
            other if other.starts_with("postgres") => "pg-for-update",
            _ => "redis",
        };
        let plan = scenario::default_plan(scenario, lock, Fence::Off).unwrap();
        let anchor = Anchor::new("app-1", Operation::Acquire, 1, phase);
        let servers = plan.topology.lock_servers();
        let authority = match plan.topology.zookeeper {
            0 => servers.first(),
            _ => servers.last(),
        };
        let singles = menu(&plan, &anchor, authority.unwrap());
        (plan, singles)
    }

    #[test]
    fn what_is_tried_at_a_moment() {
        for scenario in ["redis-failover", "redis-single", "redlock-five"] {
            let (_, singles) = menu_of(scenario, Phase::Invoked);
            let names: Vec<&str> = singles.iter().map(|single| single.name.as_str()).collect();
            insta::assert_snapshot!(format!("menu_of_{scenario}"), names.join("\n"));
        }
    }

    #[test]
    fn an_ensembles_leader_followers_and_disks_are_on_the_menu() {
        let (plan, singles) = menu_of("zookeeper-three", Phase::Applied);
        let names: BTreeSet<&str> = singles.iter().map(|single| single.name.as_str()).collect();
        for name in [
            "process-crash leader, briefly",
            "machine-crash follower, to the end",
            "pause leader, past the lease",
            "pause holder's session, past the lease",
            "partition holder | servers, past the lease",
            "partition leader | followers, past the lease",
            "partition leader and holder | the rest, past the lease",
            "partition follower > other servers, past the lease",
            "reset holder - servers",
            "clock-step leader a lease ahead, to the end",
            "clock-rate leader +5%, to the end",
            "disk-stall leader, past the lease",
            "disk-error follower, briefly",
        ] {
            assert!(names.contains(name), "{name}: {names:#?}");
        }
        assert!(left_out(&plan).is_empty());
        let (_, single) = menu_of("zookeeper-single", Phase::Applied);
        let names: BTreeSet<&str> = single.iter().map(|single| single.name.as_str()).collect();
        assert!(names.contains("process-crash server, briefly"), "{names:#?}");
        assert!(names.iter().all(|name| !name.contains("follower")), "{names:#?}");
    }

    #[test]
    fn a_holder_is_parted_from_the_pooler_before_its_server() {
        let (_, singles) = menu_of("postgres-pooler", Phase::Invoked);
        let text = |single: &Single| format!("{:?}", single.fault.kind);
        let parts: Vec<String> =
            singles.iter().map(text).filter(|kind| kind.contains("to:")).collect();
        assert!(parts.iter().any(|kind| kind.contains(POOLER_NODE)), "{parts:#?}");
        assert!(parts.iter().all(|kind| !kind.contains("pg-1")), "{parts:#?}");
    }

    #[test]
    fn every_single_is_possible_named_once_and_different() {
        for scenario in scenario::SCENARIOS {
            let (plan, singles) = menu_of(scenario.name, Phase::Invoked);
            let names: BTreeSet<&String> = singles.iter().map(|single| &single.name).collect();
            assert_eq!(names.len(), singles.len());
            for (index, single) in singles.iter().enumerate() {
                let plan = Plan { faults: vec![single.fault.clone()], ..plan.clone() };
                assert!(plan.check().is_ok(), "{}", single.name);
                let twin = singles[..index].iter().find(|other| other.fault == single.fault);
                assert!(twin.is_none(), "{} and {}", single.name, twin.unwrap().name);
            }
        }
    }

    #[test]
    fn every_kind_but_those_left_out_is_on_the_menu() {
        let (plan, singles) = menu_of("redis-failover", Phase::Invoked);
        let kinds: BTreeSet<&str> = singles.iter().map(|s| s.fault.kind.name()).collect();
        let left_out = left_out(&plan);
        assert_eq!(kinds.len() + left_out.len(), 16, "{kinds:?}");
        assert!(left_out.iter().all(|(kind, _)| !kinds.contains(kind)));
        assert!(left_out.iter().all(|(_, why)| why.contains("only sentinels")), "{left_out:?}");
    }
}
