//! For every kind a planted history that it catches, and a mended twin that passes;
//! the pitfalls as pairs; brute force against the sweeps; mutations.

mod kinds;
mod liveness;
mod mutations;
mod oracle;
mod oracle_liveness;
mod oracle_records;
mod oracle_resource;
mod oracle_stuck;
mod pitfalls;
mod quorum;
mod stock;
mod tokens;
mod twins;
mod uncertain;
mod verdicts;

use super::sample::{LEASE_MS, Sample};
use super::*;
use crate::history::{AcquireOutcome, BeliefEnd, FaultFamily, RecordLoss};

/// A redis lock without a fence, takeover within two seconds, `faults` faults.
fn setting(faults: usize) -> Setting {
    Setting { takeover_bound_us: Some(2_000_000), faults, ..Setting::default() }
}

fn kinds(judgement: &Judgement) -> Vec<&'static str> {
    judgement.findings.iter().map(|finding| finding.kind.id()).collect()
}

fn one(judgement: &Judgement, kind: Kind) -> &Finding {
    let mut found = judgement.findings.iter().filter(|finding| finding.kind == kind);
    let first = found.next().unwrap_or_else(|| panic!("no {kind} in {:?}", kinds(judgement)));
    assert!(found.next().is_none(), "more than one {kind}: {:?}", kinds(judgement));
    first
}

fn owners(finding: &Finding) -> Vec<&str> {
    finding.parties.iter().map(|party| party.owner.as_str()).collect()
}

fn blamed(finding: &Finding) -> Vec<(usize, &'static str)> {
    finding.blame.faults.iter().map(|fault| (fault.fault, fault.role)).collect()
}

/// The demonstration: the record of app-1/1 never reached redis-2, which was promoted.
fn lost_to_replication_lag() -> Sample {
    Sample::new()
        .at(50)
        .fault(0, FaultFamily::ReplicationStall, "redis-1")
        .at(100)
        .grant("app-1/1")
        .at(150)
        .fault(1, FaultFamily::ProcessCrash, "redis-1")
        .crash("redis-1")
        .at(200)
        .promoted("redis-2", &[])
        .at(250)
        .grant_on("redis-2", "app-2/1")
        .at(300)
        .read("app-1/1", 1)
        .at(310)
        .read("app-2/1", 1)
        .at(320)
        .sell("app-1/1", 1)
        .at(330)
        .sell("app-2/1", 1)
        .release("app-1/1")
        .at(340)
        .let_go("app-2/1")
        .at(5_000)
        .ledger(1, &[(1, "app-1/1"), (1, "app-2/1")])
}
