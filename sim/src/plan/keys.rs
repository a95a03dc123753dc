//! The table of a plan's single settings: how each is called, read and written.
//!
//! The reader of files, their writer and `--set key=value` all go by this table, so
//! a setting that one of them knows is known to all. Lists (`[[clock]]`,
//! `[[fault]]`) are not here.

use std::collections::BTreeSet;

use super::complaint::{Complaint, listed, quoted};
use super::limits;
pub use super::raw::Raw;
use super::scenario;
use super::{
    Ask, Fence, MAX_CONNECTIONS, Micros, Plan, Ppm, RedisPersistence, Seed, StockPlace, app_node,
};

/// One setting.
pub struct Key {
    /// The table it stands in; empty for the top of the file.
    pub section: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// Puts a value into a plan.
    pub set: fn(&mut Plan, Raw<'_>) -> Result<(), Complaint>,
    /// The plan's value as TOML.
    pub show: fn(&Plan) -> String,
    /// Whether it says something in such a plan. Where it does not it is not written,
    /// and only its default is possible.
    pub matters: fn(&Plan) -> bool,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Key({})", self.path())
    }
}

impl Key {
    /// Puts a value into a plan. What its field could not even hold is told by the limit that
    /// plans have, which is the lower one.
    pub fn put(&self, plan: &mut Plan, raw: Raw<'_>) -> Result<(), Complaint> {
        match limits::most(&self.path()) {
            Some(most) if raw.is_beyond(most.max(u32::from(u16::MAX))) => Err(raw.beyond(&most)),
            _ => (self.set)(plan, raw),
        }
    }

    /// The whole name, such as `lock.lease`.
    pub fn path(&self) -> String {
        joined(self.section, self.name)
    }
}

/// `section.name`, or the name alone at the top.
pub fn joined(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// A TOML string.
pub fn toml_text(text: &str) -> String {
    let mut written = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                written.push('\\');
                written.push(character);
            }
            control if control.is_control() => {
                written.push_str(&format!("\\u{:04X}", u32::from(control)));
            }
            plain => written.push(plain),
        }
    }
    written.push('"');
    written
}

fn toml_of(value: impl std::fmt::Display) -> String {
    toml_text(&value.to_string())
}

/// Every plan has it.
fn always(_: &Plan) -> bool {
    true
}

macro_rules! key {
    ($section:literal, $name:literal, |$plan:ident, $raw:ident| $set:expr, |$shown:ident| $show:expr) => {
        key!($section, $name, |$plan, $raw| $set, |$shown| $show, always)
    };
    ($section:literal, $name:literal, |$plan:ident, $raw:ident| $set:expr, |$shown:ident| $show:expr,
     $matters:expr) => {
        Key {
            section: $section,
            name: $name,
            set: |$plan, $raw| {
                $set;
                Ok(())
            },
            show: |$shown| $show,
            matters: $matters,
        }
    };
}

macro_rules! time_key {
    ($section:literal, $name:literal, $($field:ident).+ $(, $matters:expr)?) => {
        key!($section, $name, |plan, raw| plan.$($field).+ = raw.time()?,
            |plan| toml_of(plan.$($field).+) $(, $matters)?)
    };
}

macro_rules! count_key {
    ($section:literal, $name:literal, $($field:ident).+) => {
        key!($section, $name,
            |plan, raw| plan.$($field).+ = raw.count(u32::MAX)?,
            |plan| plan.$($field).+.to_string())
    };
}

macro_rules! small_count_key {
    ($section:literal, $name:literal, $($field:ident).+ $(, $matters:expr)?) => {
        key!($section, $name,
            |plan, raw| plan.$($field).+ = small_count(raw)?,
            |plan| plan.$($field).+.to_string() $(, $matters)?)
    };
}

macro_rules! flag_key {
    ($section:literal, $name:literal, $($field:ident).+) => {
        key!($section, $name, |plan, raw| plan.$($field).+ = raw.flag()?,
            |plan| plan.$($field).+.to_string())
    };
}

/// All settings, in the order in which they are written.
pub const KEYS: &[Key] = &[
    key!(
        "",
        "scenario",
        |plan, raw| plan.scenario = scenario::find(raw.text()?)?.name.to_owned(),
        |plan| toml_text(&plan.scenario)
    ),
    key!(
        "",
        "seed",
        |plan, raw| plan.seed = raw.parsed::<Seed>("a seed", "0x2a")?,
        |plan| toml_of(plan.seed)
    ),
    time_key!("", "duration", duration),
    key!("", "fence", |plan, raw| plan.fence = raw.parsed("off, write or full", "full")?, |plan| {
        toml_text(plan.fence.name())
    }),
    key!(
        "lock",
        "name",
        |plan, raw| plan.lock.name = scenario::find_lock(raw.text()?)?.name.to_owned(),
        |plan| toml_text(&plan.lock.name)
    ),
    time_key!("lock", "lease", lock.lease),
    key!("lock", "margin", |plan, raw| plan.lock.margin_ppm = share(raw)?, |plan| toml_text(
        &Ppm(i64::from(plan.lock.margin_ppm)).without_plus()
    )),
    time_key!("lock", "command-timeout", lock.command_timeout),
    time_key!("lock", "retry", lock.retry),
    key!(
        "lock",
        "max-hold",
        |plan, raw| plan.lock.own.max_hold = limit(raw)?,
        |plan| plan.lock.own.max_hold.map_or_else(|| toml_text(NEVER), toml_of),
        |plan| plan.lock.name == "redis-watchdog"
    ),
    key!(
        "lock",
        "ask",
        |plan, raw| plan.lock.own.ask = raw.parsed("one-after-another or parallel", "parallel")?,
        |plan| toml_text(plan.lock.own.ask.name()),
        |plan| plan.lock.name == "redlock"
    ),
    small_count_key!("lock", "wait-replicas", lock.own.wait_replicas, waits),
    time_key!("lock", "wait-timeout", lock.own.wait_timeout, waits),
    time_key!("lock", "waiter-timeout", lock.own.waiter_timeout, is_fair),
    key!(
        "lock",
        "expiry",
        |plan, raw| plan.lock.own.expiry = raw.parsed("lease or never", "lease")?,
        |plan| toml_text(plan.lock.own.expiry.name()),
        |plan| plan.lock.name == "pg-lock-table"
    ),
    key!(
        "lock",
        "check",
        |plan, raw| plan.lock.own.check = raw.parsed("nothing, read or statement", "statement")?,
        |plan| toml_text(plan.lock.own.check.name()),
        is_optimistic
    ),
    key!(
        "lock",
        "isolation",
        |plan, raw| plan.lock.own.isolation = raw.parsed("a level", "read-committed")?,
        |plan| toml_text(plan.lock.own.isolation.name()),
        is_optimistic
    ),
    small_count_key!("lock", "connections", lock.own.connections, is_in_database),
    small_count_key!("topology", "redis", topology.redis, has_redis),
    key!(
        "topology",
        "redis-mode",
        |plan, raw| plan.topology.independent = mode(raw)?,
        |plan| toml_text(MODES[usize::from(plan.topology.independent)]),
        |plan| plan.topology.independent
    ),
    key!(
        "topology",
        "redis-persistence",
        |plan, raw| plan.topology.persistence = raw.parsed("a way to keep data", "aof-always")?,
        |plan| toml_text(plan.topology.persistence.name()),
        |plan| plan.topology.persistence != RedisPersistence::None
    ),
    small_count_key!("topology", "sentinels", topology.sentinels, has_redis),
    small_count_key!("topology", "zookeeper", topology.zookeeper, has_zookeeper),
    time_key!("topology", "tick", topology.tick, has_zookeeper),
    small_count_key!("topology", "postgres", topology.postgres, has_postgres),
    small_count_key!("topology", "max-connections", topology.max_connections, has_other_limit),
    small_count_key!("topology", "pooler", topology.pooler, |plan| plan.topology.pooler != 0),
    small_count_key!("topology", "apps", topology.apps),
    key!(
        "topology",
        "absent",
        |plan, raw| plan.topology.absent = absent(raw)?,
        |plan| toml_text(&absent_text(plan)),
        |plan| !plan.topology.absent.is_empty()
    ),
    time_key!("topology", "latency", topology.latency),
    key!(
        "topology",
        "latency-sigma",
        |plan, raw| plan.topology.latency_sigma_milli = raw.milli()?,
        |plan| milli_text(plan.topology.latency_sigma_milli)
    ),
    time_key!("topology", "down-after", topology.down_after, has_redis),
    count_key!("workload", "units", workload.units),
    time_key!("workload", "think", workload.think),
    time_key!("workload", "work", workload.work),
    count_key!("workload", "slow-per-mille", workload.slow_per_mille),
    time_key!("workload", "slow-work", workload.slow_work),
    time_key!("workload", "patience", workload.patience),
    flag_key!("workload", "deadline-check", workload.deadline_check),
    key!(
        "workload",
        "reentries",
        |plan, raw| plan.workload.reentries = raw.count(100)?,
        |plan| plan.workload.reentries.to_string(),
        |plan| plan.workload.reentries > 0
    ),
    key!(
        "workload",
        "locks",
        |plan, raw| plan.workload.locks = raw.count(2)?,
        |plan| plan.workload.locks.to_string(),
        |plan| plan.workload.locks != 1
    ),
    key!(
        "workload",
        "stock",
        |plan, raw| plan.workload.stock = raw.parsed("a place for the stock", "sql")?,
        |plan| toml_text(plan.workload.stock.name()),
        has_postgres
    ),
    small_count_key!("workload", "buyers", workload.buyers, |plan| plan.workload.buyers != 1),
    small_count_key!("workload", "pool", workload.pool, has_pools),
    small_count_key!("workload", "readers", workload.readers, |plan| plan.workload.readers > 0),
];

fn has_postgres(plan: &Plan) -> bool {
    plan.topology.postgres > 0
}

/// Another limit of connections than PostgreSQL's own.
fn has_other_limit(plan: &Plan) -> bool {
    plan.topology.max_connections != MAX_CONNECTIONS
}

fn has_pools(plan: &Plan) -> bool {
    plan.workload.stock == StockPlace::SqlPooled
}

fn is_fair(plan: &Plan) -> bool {
    plan.lock.name == "redis-fair"
}

fn is_in_database(plan: &Plan) -> bool {
    plan.lock.name.starts_with("pg-")
}

fn is_optimistic(plan: &Plan) -> bool {
    plan.lock.name == "pg-optimistic"
}

/// The sections of single settings, in the order in which they are written.
pub const SECTIONS: [&str; 3] = ["lock", "topology", "workload"];

fn small_count(raw: Raw<'_>) -> Result<u16, Complaint> {
    Ok(u16::try_from(raw.count(u32::from(u16::MAX))?).unwrap_or(u16::MAX))
}

/// A plan without any server says so of Redis.
fn has_redis(plan: &Plan) -> bool {
    let topology = &plan.topology;
    topology.redis > 0 || topology.zookeeper + topology.postgres == 0
}

fn has_zookeeper(plan: &Plan) -> bool {
    plan.topology.zookeeper > 0
}

fn waits(plan: &Plan) -> bool {
    plan.lock.name == "redis-wait"
}

/// How a limit is written that there is not.
const NEVER: &str = "never";

/// A time, or `never`.
fn limit(raw: Raw<'_>) -> Result<Option<Micros>, Complaint> {
    if raw.text() == Ok(NEVER) {
        return Ok(None);
    }
    raw.time().map(Some)
}

/// How the Redis servers stand to each other; the second is `independent`.
const MODES: [&str; 2] = ["replicated", "independent"];

fn mode(raw: Raw<'_>) -> Result<bool, Complaint> {
    let text = raw.text()?;
    MODES.iter().position(|mode| *mode == text).map(|at| at == 1).ok_or_else(|| Complaint {
        what: format!("there is no mode {}", quoted(text)),
        mend: format!("allowed: {}", listed(MODES)),
    })
}

/// Names of clients, such as `app-2, app-4`: their numbers.
fn absent(raw: Raw<'_>) -> Result<BTreeSet<u16>, Complaint> {
    let names = raw.text()?.split(',').map(str::trim).filter(|name| !name.is_empty());
    let number = |name: &str| {
        let number = name.strip_prefix("app-").and_then(|number| number.parse().ok());
        number.filter(|number| app_node(*number) == name).ok_or_else(|| {
            Complaint::new(
                format!("{} is no client", quoted(name)),
                "write names of clients, such as \"app-2, app-4\"",
            )
        })
    };
    names.map(number).collect()
}

fn absent_text(plan: &Plan) -> String {
    let names: Vec<String> = plan.topology.absent.iter().copied().map(app_node).collect();
    names.join(", ")
}

/// A share of a whole: 0 to 100 %, ppm.
fn share(raw: Raw<'_>) -> Result<u32, Complaint> {
    let Ppm(ppm) = raw.parsed("a share", "1%")?;
    u32::try_from(ppm).map_err(|_| {
        Complaint::new(
            format!("a share of {} cannot be", Ppm(ppm).without_plus()),
            "write one from 0% to below 100%",
        )
    })
}

/// Thousandths as a TOML real.
pub(super) fn milli_text(milli: u32) -> String {
    let fraction = format!("{:03}", milli % 1_000);
    let fraction = fraction.trim_end_matches('0');
    format!("{}.{}", milli / 1_000, if fraction.is_empty() { "0" } else { fraction })
}

impl Fence {
    /// All of them.
    pub const ALL: [Fence; 3] = [Fence::Off, Fence::Write, Fence::Full];

    /// As written in plans and after `--fence`.
    pub fn name(self) -> &'static str {
        match self {
            Fence::Off => "off",
            Fence::Write => "write",
            Fence::Full => "full",
        }
    }
}

impl Ask {
    /// All of them.
    pub const ALL: [Ask; 2] = [Ask::OneAfterAnother, Ask::Parallel];

    /// As written in plans.
    pub fn name(self) -> &'static str {
        match self {
            Ask::OneAfterAnother => "one-after-another",
            Ask::Parallel => "parallel",
        }
    }
}

impl std::str::FromStr for Ask {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        Ask::ALL.into_iter().find(|ask| ask.name() == text).ok_or_else(|| Complaint {
            what: format!("there is no way to ask {}", quoted(text)),
            mend: format!("allowed: {}", listed(Ask::ALL.map(Ask::name))),
        })
    }
}

impl std::str::FromStr for RedisPersistence {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        RedisPersistence::ALL.into_iter().find(|way| way.name() == text).ok_or_else(|| Complaint {
            what: format!("there is no way {} to keep data", quoted(text)),
            mend: format!("allowed: {}", listed(RedisPersistence::ALL.map(RedisPersistence::name))),
        })
    }
}

impl std::fmt::Display for Fence {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl std::str::FromStr for Fence {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        Fence::ALL.into_iter().find(|fence| fence.name() == text).ok_or_else(|| Complaint {
            what: format!("there is no fence {}", quoted(text)),
            mend: format!("allowed: {}", listed(Fence::ALL.map(Fence::name))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_shown_as_it_is_set() {
        let plan = scenario::default_plan("redis-failover", "redis", Fence::Off).unwrap();
        let mut other = scenario::default_plan("redis-long-lease", "none", Fence::Off).unwrap();
        for key in KEYS {
            let shown = (key.show)(&plan);
            (key.set)(&mut other, Raw::Bare(shown.trim_matches('"'))).unwrap();
            assert_eq!((key.show)(&other), shown, "{key:?}");
        }
        assert_eq!(other, plan);
    }
}
