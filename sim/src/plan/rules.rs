//! What makes a plan possible.
//!
//! The rules look at the value, not at a text, so that plans from files, from flags
//! and from code are held to the same. A problem names the settings that it is about,
//! the most telling first; the reader of files finds their lines.
//!
//! Order of things: a plan's settings and clocks here, its faults in `fault`.

mod fault;

use std::collections::BTreeSet;

use super::complaint::{Complaint, quoted};
use super::keys::KEYS;
use super::limits;
use super::scenario;
use super::{
    CONNECTIONS, Fence, MAX_CONNECTIONS, Micros, OwnOptions, Plan, PlanError, Ppm, SignedMicros,
    StockPlace, app_node,
};
use fault::FaultRules;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The settings it is about, such as `lock.lease` or `fault[2].node`; the first
    /// that stands in the file is the place of the error.
    pub at: Vec<String>,
    /// What is wrong, and the mend.
    pub complaint: Complaint,
}

impl Plan {
    /// Whether the plan is possible.
    ///
    /// # Errors
    /// The first broken rule; the place is the setting's name.
    pub fn check(&self) -> Result<(), PlanError> {
        first_problem(self).map_err(|problem| {
            let place = problem.at.first().cloned().unwrap_or_default();
            PlanError::named(format!("plan: {place}"), problem.complaint)
        })
    }
}

/// The first broken rule, settings before clocks before faults.
pub fn first_problem(plan: &Plan) -> Result<(), Problem> {
    times(plan)?;
    names(plan)?;
    sizes(plan)?;
    readers(plan)?;
    own_options(plan)?;
    stock(plan)?;
    clocks(plan)?;
    for (position, fault) in plan.faults.iter().enumerate() {
        FaultRules { plan, fault, at: format!("fault[{position}]") }.check()?;
    }
    Ok(())
}

fn problem<T>(at: &[&str], what: impl Into<String>, mend: impl Into<String>) -> Result<T, Problem> {
    let at = at.iter().map(|at| (*at).to_owned()).collect();
    Err(Problem { at, complaint: Complaint::new(what, mend) })
}

const SECOND: Micros = Micros::from_secs(1);
const DAY: Micros = Micros::from_secs(86_400);

fn times(plan: &Plan) -> Result<(), Problem> {
    let (lock, topology, work) = (&plan.lock, &plan.topology, &plan.workload);
    let millisecond = Micros::from_millis(1);
    for (at, time, least, most) in [
        ("duration", plan.duration, Micros::from_millis(100), DAY),
        ("lock.lease", lock.lease, Micros::from_millis(10), DAY),
        ("lock.command-timeout", lock.command_timeout, millisecond, DAY),
        ("lock.retry", lock.retry, millisecond, DAY),
        ("topology.latency", topology.latency, Micros(1), SECOND),
        ("topology.down-after", topology.down_after, millisecond, DAY),
        ("topology.tick", topology.tick, Micros::from_millis(10), Micros::from_secs(60)),
        ("workload.think", work.think, Micros(0), DAY),
        ("workload.work", work.work, Micros(0), DAY),
        ("workload.slow-work", work.slow_work, Micros(0), DAY),
        ("workload.patience", work.patience, Micros(0), DAY),
    ] {
        if time < least {
            return problem(
                &[at],
                format!("{at} is {time}, too short"),
                format!("write at least {least}"),
            );
        }
        if time > most {
            return problem(
                &[at],
                format!("{at} is {time}, too long"),
                format!("write at most {most}"),
            );
        }
    }
    if !lock.lease.0.is_multiple_of(1_000) {
        return problem(
            &["lock.lease"],
            format!("lock.lease is {}, and leases are counted in milliseconds", lock.lease),
            "round it to whole milliseconds",
        );
    }
    if lock.margin_ppm >= 1_000_000 {
        return problem(
            &["lock.margin"],
            format!(
                "a margin of {} leaves nothing of the lease",
                Ppm(i64::from(lock.margin_ppm)).without_plus()
            ),
            "write less than 100%",
        );
    }
    Ok(())
}

fn names(plan: &Plan) -> Result<(), Problem> {
    let at = |at: &str, complaint| Problem { at: vec![at.to_owned()], complaint };
    scenario::find(&plan.scenario).map_err(|complaint| at("scenario", complaint))?;
    let lock =
        scenario::find_lock(&plan.lock.name).map_err(|complaint| at("lock.name", complaint))?;
    if plan.fence != Fence::Off && !lock.tokens {
        return problem(
            &["fence", "lock.name"],
            format!("the lock {} gives no fencing tokens", quoted(lock.name)),
            "write fence = \"off\", or take a lock with tokens, such as \"redis\"",
        );
    }
    if let Some((at, complaint)) = lock.misfit(&plan.topology) {
        let at = at.iter().map(|at| (*at).to_owned()).collect();
        return Err(Problem { at, complaint });
    }
    Ok(())
}

/// Options that only some locks have.
fn own_options(plan: &Plan) -> Result<(), Problem> {
    let mut bare = plan.clone();
    bare.lock.own = OwnOptions::default();
    let idle = KEYS.iter().filter(|key| key.section == "lock" && !(key.matters)(plan));
    for key in idle {
        if (key.show)(plan) != (key.show)(&bare) {
            let path = key.path();
            return problem(
                &[&path, "lock.name"],
                format!("the lock {} has no {}", quoted(&plan.lock.name), key.name),
                "leave it out",
            );
        }
    }
    let own = &plan.lock.own;
    if own.connections == 0 {
        return problem(
            &["lock.connections"],
            "a client that may open no connection asks nobody",
            "write at least 1",
        );
    }
    if let Some(max_hold) = own.max_hold.filter(|max_hold| *max_hold < plan.lock.lease) {
        return problem(
            &["lock.max-hold", "lock.lease"],
            format!("a hold of at most {max_hold} is shorter than the lease ({})", plan.lock.lease),
            "write a longer one, or \"never\"",
        );
    }
    let least = Micros(plan.lock.retry.0.saturating_add(plan.lock.command_timeout.0));
    if plan.lock.name == "redis-fair" && own.waiter_timeout <= least {
        return problem(
            &["lock.waiter-timeout", "lock.command-timeout", "lock.retry"],
            format!(
                "a waiter is dead after {}, a lost reply alone takes {least}",
                own.waiter_timeout
            ),
            "write more than a retry and a command timeout together",
        );
    }
    if plan.lock.name != "redis-wait" {
        return Ok(());
    }
    let replicas = plan.topology.replicas();
    if !(1..=replicas).contains(&own.wait_replicas) {
        return problem(
            &["lock.wait-replicas", "topology.redis"],
            format!("{} replicas are waited for, and there are {replicas}", own.wait_replicas),
            format!("write a number from 1 to {replicas}"),
        );
    }
    let limit = plan.lock.command_timeout;
    if own.wait_timeout < Micros::from_millis(1) || own.wait_timeout >= limit {
        return problem(
            &["lock.wait-timeout", "lock.command-timeout"],
            format!("replicas get {} to answer, and a command {limit}", own.wait_timeout),
            "write at least 1ms, and less than the command timeout",
        );
    }
    Ok(())
}

fn sizes(plan: &Plan) -> Result<(), Problem> {
    let (topology, work) = (&plan.topology, &plan.workload);
    // One system of servers is enough.
    let least_redis = u32::from(topology.zookeeper + topology.postgres == 0);
    for (at, number, least) in [
        ("topology.redis", u32::from(topology.redis), least_redis),
        ("topology.zookeeper", u32::from(topology.zookeeper), 0),
        ("topology.postgres", u32::from(topology.postgres), 0),
        ("topology.sentinels", u32::from(topology.sentinels), 0),
        ("topology.apps", u32::from(topology.apps), 1),
        ("topology.latency-sigma", topology.latency_sigma_milli, 0),
        ("workload.units", work.units, 1),
        ("workload.locks", work.locks, 1),
        ("workload.buyers", u32::from(work.buyers), 1),
        ("workload.pool", u32::from(work.pool), 1),
        ("topology.max-connections", u32::from(topology.max_connections), 1),
        ("topology.pooler", u32::from(topology.pooler), 0),
        ("workload.slow-per-mille", work.slow_per_mille, 0),
    ] {
        let most = limits::most(at).unwrap_or(limits::LATENCY_SIGMA_MILLI);
        if number < least || number > most {
            let (shown, most) = match at {
                "topology.latency-sigma" => ("too wide a spread".to_owned(), "3.0".to_owned()),
                _ => (number.to_string(), most.to_string()),
            };
            return problem(
                &[at],
                format!("{at} is {shown}"),
                format!("write a number from {least} to {most}"),
            );
        }
    }
    if topology.pooler > 0 && topology.postgres != 1 {
        return problem(
            &["topology.pooler", "topology.postgres"],
            "a pooler stands before one PostgreSQL server",
            "write postgres = 1, or pooler = 0",
        );
    }
    if let Some(number) = topology.absent.iter().find(|number| **number >= topology.apps) {
        let (client, apps) = (app_node(*number), topology.apps);
        return problem(
            &["topology.absent", "topology.apps"],
            format!("{client} cannot be absent: the last client, app-{apps}, is there"),
            format!("write names of clients before app-{apps}, or fewer apps"),
        );
    }
    if topology.sentinels > 0 && topology.independent {
        return problem(
            &["topology.sentinels", "topology.redis-mode"],
            "the sentinels have nothing to fail over: the redis servers are independent",
            "write sentinels = 0, or redis-mode = \"replicated\"",
        );
    }
    if topology.sentinels > 0 && topology.redis < 2 {
        let number = if topology.redis == 0 { "no" } else { "one" };
        return problem(
            &["topology.sentinels", "topology.redis"],
            format!("the sentinels have no replica to promote: there is {number} redis server"),
            "write sentinels = 0, or redis = 2 or more",
        );
    }
    Ok(())
}

/// Where the stock is, and what sells out of it.
fn stock(plan: &Plan) -> Result<(), Problem> {
    pools(plan)?;
    let lock = scenario::find_lock(&plan.lock.name);
    let is_way = lock.as_ref().is_ok_and(|lock| lock.has_sale());
    let is_planted = lock.as_ref().is_ok_and(|lock| lock.has_planted_sale());
    let place = plan.workload.stock;
    let name = quoted(&plan.lock.name);
    if place == StockPlace::Memory {
        return match is_way {
            false => Ok(()),
            true => problem(
                &["workload.stock", "lock.name"],
                format!(
                    "{name} is a way to sell out of a stock in SQL, and the stock is not there"
                ),
                "write stock = \"sql\"",
            ),
        };
    }
    if plan.topology.postgres == 0 {
        return problem(
            &["workload.stock", "topology.postgres"],
            "the stock is in a database, and there is none",
            "take the scenario postgres-single, or stock = \"memory\"",
        );
    }
    if is_planted && plan.workload.locks > 1 {
        return problem(
            &["workload.locks", "lock.name"],
            format!("what an order of {name} is of is its own"),
            "write locks = 1",
        );
    }
    if place == StockPlace::SqlPooled && plan.workload.locks > 1 {
        return problem(
            &["workload.locks", "workload.stock"],
            "an order over a pool is of one sku, under one lock",
            "write locks = 1, or stock = \"sql\"",
        );
    }
    if plan.fence != Fence::Off {
        return problem(
            &["fence", "workload.stock"],
            "the stock in SQL has no fence",
            "write fence = \"off\", or stock = \"memory\"",
        );
    }
    if place != StockPlace::Sql && is_way {
        return problem(
            &["workload.stock", "lock.name"],
            format!("{name} is a way to sell of its own"),
            "write stock = \"sql\", or take another lock",
        );
    }
    Ok(())
}

/// Connections that are counted, and of which there are none.
fn pools(plan: &Plan) -> Result<(), Problem> {
    let (topology, work) = (&plan.topology, &plan.workload);
    if topology.max_connections != MAX_CONNECTIONS && topology.postgres == 0 {
        return problem(
            &["topology.max-connections", "topology.postgres"],
            "there is no PostgreSQL server to connect to",
            "leave it out, or take the scenario postgres-single",
        );
    }
    // Where a plan has left the pools of its scenario, their size is still there.
    let of_scenario = scenario::find(&plan.scenario).map_or(CONNECTIONS, |known| known.pool());
    let is_idle = [CONNECTIONS, of_scenario].contains(&work.pool);
    if work.stock != StockPlace::SqlPooled && !is_idle {
        return problem(
            &["workload.pool", "workload.stock"],
            format!("the stock is not sold over pools, and workload.pool is {}", work.pool),
            "leave it out, or write stock = \"sql-pooled\"",
        );
    }
    Ok(())
}

/// Clients that only read: where the lock has a side for them, and beside others that write.
fn readers(plan: &Plan) -> Result<(), Problem> {
    let readers = plan.workload.readers;
    let apps = u16::try_from(plan.topology.app_nodes().len()).unwrap_or(u16::MAX);
    let at = ["workload.readers", "topology.apps", "lock.name"];
    let name = quoted(&plan.lock.name);
    if !scenario::find_lock(&plan.lock.name).is_ok_and(scenario::LockKind::has_readers) {
        return match readers {
            0 => Ok(()),
            _ => problem(
                &at,
                format!("the lock {name} has no side for readers, and readers is {readers}"),
                format!("leave them out, or take the lock {}", quoted(scenario::READ_LOCK)),
            ),
        };
    }
    if apps < 2 {
        return problem(
            &at[1..],
            format!("the lock {name} is for readers beside writers, and there is one client"),
            "write apps = 2 or more",
        );
    }
    let most = apps - 1;
    if !(1..=most).contains(&readers) {
        return problem(
            &at,
            format!("{readers} of {apps} clients read: somebody must read, and somebody write"),
            format!(
                "have 1 to {most} of them read: --set workload.readers={most}, or readers = {most} \
                 in [workload]"
            ),
        );
    }
    Ok(())
}

fn clocks(plan: &Plan) -> Result<(), Problem> {
    let mut seen = BTreeSet::new();
    for (position, clock) in plan.clocks.iter().enumerate() {
        let at = format!("clock[{position}]");
        known_node(plan, &format!("{at}.node"), &clock.node)?;
        if !seen.insert(clock.node.as_str()) {
            return problem(
                &[&format!("{at}.node")],
                format!("{} has a clock already", clock.node),
                "write one [[clock]] for a node",
            );
        }
        rate(&format!("{at}.rate"), clock.rate_ppm)?;
        step(&format!("{at}.offset"), clock.offset_us)?;
    }
    Ok(())
}

/// Beyond half and double nothing is an oscillator any more.
fn rate(at: &str, ppm: i64) -> Result<(), Problem> {
    if (-500_000..=1_000_000).contains(&ppm) {
        return Ok(());
    }
    problem(&[at], format!("no clock runs at {}", Ppm(ppm)), "write a rate from -50% to +100%")
}

/// The year in which storms begin has room for this much.
fn step(at: &str, by_us: i64) -> Result<(), Problem> {
    const MOST_US: u64 = 365 * 86_400 * 1_000_000;
    if by_us.unsigned_abs() <= MOST_US {
        return Ok(());
    }
    let by = SignedMicros(by_us);
    problem(&[at], format!("{by} is more than a year"), "write at most 8760h, either way")
}

fn known_node(plan: &Plan, at: &str, name: &str) -> Result<(), Problem> {
    let nodes = plan.topology.nodes();
    if nodes.iter().any(|node| node == name) {
        return Ok(());
    }
    let mut complaint = Complaint::unknown("node", name, nodes.iter().map(String::as_str));
    if plan.topology.absent.iter().any(|number| app_node(*number) == name) {
        complaint.what = format!("there is no node {}: [topology] calls it absent", quoted(name));
        complaint.mend = "take it out of absent there, or name another node".to_owned();
    }
    if plan.topology.sentinels == 0 && name.starts_with("sentinel-") {
        complaint.what = format!("there is no node {}: [topology] says so", quoted(name));
        complaint.mend = "write sentinels = 3 there, or name another node".to_owned();
    }
    Err(Problem { at: vec![at.to_owned()], complaint })
}

#[cfg(test)]
mod tests;
