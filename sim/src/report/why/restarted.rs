//! What a server that restarted had lost, and why it had not kept it: by what its topology
//! keeps, and what its locks live in.

use crate::check::Blame;
use crate::check::Failover;
use crate::plan::{Plan, RedisPersistence, scenario};

/// How a server that had lost a lock's record came back.
fn without_the_record(plan: &Plan) -> &'static str {
    let table = plan.lock.name.starts_with("pg-lock-table");
    match (is_database(plan), plan.topology.persistence) {
        (true, _) if table => "restarted without the record (its commit was not on the disk)",
        (true, _) => "restarted without the record (no session outlives its server)",
        (false, RedisPersistence::None) => "restarted with an empty memory (no persistence)",
        (false, RedisPersistence::Rdb) => "restarted without the record (no snapshot had it)",
        (false, _) => "restarted without the record (its append-only file had lost it)",
    }
}

/// Likewise, of the counter behind the tokens.
pub(super) fn without_the_count(plan: &Plan) -> &'static str {
    match (is_database(plan), plan.topology.persistence) {
        (true, _) => "restarted without its latest value (its commit was not on the disk)",
        (false, RedisPersistence::None) => "restarted with an empty memory (no persistence)",
        (false, RedisPersistence::Rdb) => "restarted without its latest value (no snapshot had it)",
        (false, _) => "restarted without its latest value (its append-only file had lost it)",
    }
}

pub(super) fn is_database(plan: &Plan) -> bool {
    let lock = scenario::find_lock(&plan.lock.name);
    lock.is_ok_and(|lock| lock.needs == scenario::Needs::Database)
}

/// A server that had the record restarted without it; `then` is the failover after that.
pub(super) fn told(plan: &Plan, blame: &Blame, server: &str, then: Option<&Failover>) -> String {
    let restarted = without_the_record(plan);
    let servers = if is_database(plan) { plan.topology.postgres } else { plan.topology.redis };
    match then {
        Some(failover) => {
            let to = &failover.to;
            format!(
                "{server} {restarted}, and {to}, which replaced it afterwards, had no record either."
            )
        }
        None if blame.owners.len() < 2 => format!("{server} {restarted}: the record was gone."),
        None if servers == 1 => {
            format!("{server}, the only server, {restarted} and granted the lock again.")
        }
        None => format!(
            "{server} {restarted} before another was master in its place, and granted the lock \
             again."
        ),
    }
}
