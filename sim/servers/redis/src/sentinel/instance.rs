//! What a sentinel knows of the others: masters, their replicas, other sentinels.
//!
//! Times are milliseconds on the machine's wall clock, as in Redis: a clock that is
//! stepped misleads a sentinel, which TILT is there for.
//!
//! Order of things: addresses, what all three kinds have ([`Instance`]), then each kind.

use std::fmt;

use super::link::Link;

/// Milliseconds on the wall clock; 0 for never.
pub(super) type Ms = i64;

/// Where an instance listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    pub(super) fn new(host: impl Into<String>, port: u16) -> Self {
        Address { host: host.into(), port }
    }

    /// Reads `name:port`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        (!host.is_empty()).then_some(())?;
        Some(Address::new(host, port.parse().ok()?))
    }

    /// Whether it is this host and port; names have no case.
    pub(super) fn is(&self, host: &str, port: u16) -> bool {
        self.port == port && self.host.eq_ignore_ascii_case(host)
    }

    pub(super) fn is_same(&self, other: &Address) -> bool {
        self.is(&other.host, other.port)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

/// What an instance is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Master,
    Replica,
    Sentinel,
}

impl Kind {
    /// As events and `SENTINEL MASTERS` call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Master => "master",
            Kind::Replica => "slave",
            Kind::Sentinel => "sentinel",
        }
    }
}

/// What a Redis server says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Master,
    Replica,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Role::Master => "master",
            Role::Replica => "slave",
        }
    }
}

/// What all kinds of instances have.
pub(super) struct Instance {
    pub(super) kind: Kind,
    /// A master's name, a replica's address, a sentinel's id.
    pub(super) name: String,
    pub(super) address: Address,
    pub(super) run_id: Option<String>,
    pub(super) link: Link,
    /// Without a valid reply for longer, it is down, ms.
    pub(super) down_after: Ms,
    pub(super) s_down: bool,
    pub(super) s_down_since: Ms,
    /// When our hello last reached it.
    pub(super) published_at: Ms,
    /// When it last answered INFO.
    pub(super) informed_at: Ms,
    /// That answer.
    pub(super) info: Option<Vec<u8>>,
    /// What it last said that it is, and since when.
    pub(super) role: Role,
    pub(super) role_since: Ms,
    pub(super) script_kill_sent: bool,
}

impl Instance {
    pub(super) fn new(kind: Kind, name: String, address: Address, down_after: Ms, now: Ms) -> Self {
        Instance {
            kind,
            name,
            address,
            run_id: None,
            link: Link::new(now),
            down_after,
            s_down: false,
            s_down_since: 0,
            published_at: now,
            informed_at: 0,
            info: None,
            role: if kind == Kind::Master { Role::Master } else { Role::Replica },
            role_since: now,
            script_kill_sent: false,
        }
    }

    /// Whether nothing was wrong with it in the last `ms`.
    pub(super) fn was_up_for(&self, ms: Ms, now: Ms) -> bool {
        self.s_down_since == 0 || now - self.s_down_since > ms
    }
}

/// How far a replica has come on its way to a new master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reconfiguration {
    None,
    /// It was told.
    Sent,
    /// It says that it follows.
    InProgress,
    /// Its link to the new master is up.
    Done,
}

/// A replica of a master.
pub(super) struct Replica {
    pub(super) instance: Instance,
    /// For how long it has lacked its master, by its own account, ms.
    pub(super) link_down: Ms,
    pub(super) link_is_up: bool,
    pub(super) priority: i64,
    /// Clients may be told of it (`replica-announced`).
    pub(super) announced: bool,
    /// Whom it follows, by its own account.
    pub(super) follows: Option<String>,
    pub(super) follows_port: u16,
    pub(super) follows_since: Ms,
    pub(super) offset: u64,
    pub(super) reconfiguration: Reconfiguration,
    pub(super) reconfiguration_sent_at: Ms,
    pub(super) is_promoted: bool,
}

impl Replica {
    pub(super) fn new(address: Address, down_after: Ms, now: Ms) -> Self {
        let instance = Instance::new(Kind::Replica, address.to_string(), address, down_after, now);
        Replica {
            instance,
            link_down: 0,
            link_is_up: false,
            priority: 100,
            announced: true,
            follows: None,
            follows_port: 0,
            follows_since: now,
            offset: 0,
            reconfiguration: Reconfiguration::None,
            reconfiguration_sent_at: 0,
            is_promoted: false,
        }
    }
}

/// Another sentinel of the same master.
pub(super) struct Peer {
    pub(super) instance: Instance,
    /// When its last hello came.
    pub(super) hello_at: Ms,
    /// When it last answered `IS-MASTER-DOWN-BY-ADDR`.
    pub(super) answered_at: Ms,
    /// It thinks that the master is down.
    pub(super) master_down: bool,
    /// For whom it voted, and in which epoch.
    pub(super) leader: Option<String>,
    pub(super) leader_epoch: u64,
}

impl Peer {
    pub(super) fn new(id: String, address: Address, down_after: Ms, now: Ms) -> Self {
        let mut instance = Instance::new(Kind::Sentinel, id.clone(), address, down_after, now);
        instance.run_id = Some(id);
        Peer {
            instance,
            hello_at: now,
            answered_at: now,
            master_down: false,
            leader: None,
            leader_epoch: 0,
        }
    }
}

/// Where a failover stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    None,
    WaitStart,
    SelectReplica,
    SendNoOne,
    WaitPromotion,
    Reconfigure,
    UpdateConfiguration,
}

impl Stage {
    /// As `SENTINEL MASTER` calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Stage::None => "none",
            Stage::WaitStart => "wait_start",
            Stage::SelectReplica => "select_slave",
            Stage::SendNoOne => "send_slaveof_noone",
            Stage::WaitPromotion => "wait_promotion",
            Stage::Reconfigure => "reconf_slaves",
            Stage::UpdateConfiguration => "update_config",
        }
    }
}

/// A master that is watched, with all who belong to it.
pub(super) struct Master {
    pub(super) instance: Instance,
    pub(super) replicas: Vec<Replica>,
    pub(super) sentinels: Vec<Peer>,
    /// So many sentinels must agree that it is down.
    pub(super) quorum: u32,
    pub(super) parallel_syncs: u32,
    pub(super) failover_timeout: Ms,
    pub(super) config_epoch: u64,
    pub(super) o_down: bool,
    pub(super) o_down_since: Ms,
    /// For whom we voted, and in which epoch.
    pub(super) leader: Option<String>,
    pub(super) leader_epoch: u64,
    pub(super) failover_epoch: u64,
    pub(super) stage: Stage,
    pub(super) stage_since: Ms,
    /// When a failover of it was last tried, by us or by whom we voted for.
    pub(super) failover_started_at: Ms,
    pub(super) failover_in_progress: bool,
    /// By `SENTINEL FAILOVER`: nobody is asked.
    pub(super) failover_forced: bool,
}

impl Master {
    pub(super) fn new(
        name: String,
        address: Address,
        quorum: u32,
        down_after: Ms,
        now: Ms,
    ) -> Self {
        Master {
            instance: Instance::new(Kind::Master, name, address, down_after, now),
            replicas: Vec::new(),
            sentinels: Vec::new(),
            quorum,
            parallel_syncs: 1,
            failover_timeout: 180_000,
            config_epoch: 0,
            o_down: false,
            o_down_since: 0,
            leader: None,
            leader_epoch: 0,
            failover_epoch: 0,
            stage: Stage::None,
            stage_since: 0,
            failover_started_at: 0,
            failover_in_progress: false,
            failover_forced: false,
        }
    }

    /// The replica that is being promoted.
    pub(super) fn promoted(&self) -> Option<&Replica> {
        self.replicas.iter().find(|replica| replica.is_promoted)
    }

    /// Where clients are sent: the promoted replica, once it says that it is a master.
    pub(super) fn current_address(&self) -> &Address {
        match self.promoted() {
            Some(promoted) if self.failover_in_progress && self.stage >= Stage::Reconfigure => {
                &promoted.instance.address
            }
            _ => &self.instance.address,
        }
    }

    /// Nothing speaks against it, and it says that it is a master.
    pub(super) fn looks_sane(&self, info_period: Ms, now: Ms) -> bool {
        let instance = &self.instance;
        instance.role == Role::Master
            && !instance.s_down
            && !self.o_down
            && now - instance.informed_at < info_period * 2
    }

    /// As events name it.
    pub(super) fn shown(&self) -> String {
        let Address { host, port } = &self.instance.address;
        format!("master {} {host} {port}", self.instance.name)
    }

    /// As events name one of its replicas or sentinels.
    pub(super) fn shown_of(&self, instance: &Instance) -> String {
        let (own, address) = (&self.instance.address, &instance.address);
        format!(
            "{} {} {} {} @ {} {} {}",
            instance.kind.name(),
            instance.name,
            address.host,
            address.port,
            self.instance.name,
            own.host,
            own.port
        )
    }
}
