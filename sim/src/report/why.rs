//! Why it happened, in one sentence, and what to try.
//!
//! The sentence follows from the blame: what parted promise, belief and effect, and
//! the families of the faults behind it. A proposal is made only where it is true in
//! general, not where it happens to silence one seed.

use crate::check::{Blame, Detail, Kind, Parted, Vanished};
use crate::history::FaultFamily;
use crate::plan::{Fence, Plan, scenario};
use crate::report::subject::Subject;

/// Why the subject came about.
pub fn why(subject: &Subject<'_>) -> String {
    let blame = subject.blame();
    let vanished = match &subject.finding.detail {
        Detail::GrantLost { how, .. } => Some(*how),
        _ => None,
    };
    match blame.parted {
        Parted::RecordLost => record_lost(blame, vanished),
        Parted::ExpiredEarly => expired_early(blame),
        Parted::RecordDeleted => {
            "Somebody removed a record that was not theirs: a release must compare the owner in \
             the same step in which it deletes."
        }
        Parted::TwoMasters => {
            "Two servers granted the lock as masters at the same time: a master that is cut off \
             goes on answering whoever still reaches it."
        }
        Parted::NoExclusion => {
            "One server granted the lock to both: what the lock writes there does not exclude the \
             second."
        }
        Parted::NoRecord => "The lock told its client of a grant that no server had applied.",
        Parted::LetIn => {
            "The lock let both in; what its servers did is not in the history, so neither is the \
             reason."
        }
        Parted::Overstayed => overstayed(blame),
        Parted::LateEffect => {
            "An operation was still on its way when its holder had left, and the resource cannot \
             see that it comes too late."
        }
        Parted::Unguarded => "There was no lock between them.",
        Parted::NotGranted => "Somebody acted without a grant: that is not the lock's fault.",
        Parted::NotALockBug => {
            "No two grants stood in each other's way: the fault is in what the holders did, not in \
             the lock."
        }
        Parted::NotWoken => {
            "The lock was free and a waiter was not woken: what should tell it was lost, or went \
             to somebody who is gone."
        }
        Parted::CircularWait => {
            "Each waits for a lock that the next one holds: take locks in one order, or with a \
             wait that ends."
        }
        Parted::PassedOver => {
            "Requests that came later were served first: the lock's queue does not keep its order."
        }
        Parted::Answer => {
            "The lock told its holder that all is well when its record was gone: an answer must \
             say what the server did."
        }
        Parted::RecordLeft => record_left(blame, &subject.finding.detail),
        Parted::TokenSource => {
            "The counter behind the tokens went back when a server without its latest value took \
             over."
        }
    }
    .to_owned()
}

fn has(blame: &Blame, families: &[FaultFamily]) -> bool {
    blame.faults.iter().any(|fault| families.contains(&fault.family))
}

fn record_lost(blame: &Blame, vanished: Option<Vanished>) -> &'static str {
    use FaultFamily::{MachineCrash, Partition, Pause, ProcessCrash, ReplicationStall, SlowLink};
    let behind = has(blame, &[ReplicationStall, SlowLink, Partition]);
    let died = has(blame, &[ProcessCrash, MachineCrash]);
    let unreachable = has(blame, &[Pause, Partition]);
    match vanished {
        Some(Vanished::Resync) => {
            "The lock was granted by a master that had been replaced; when it followed the new \
             one, its data was overwritten, and the record with it."
        }
        Some(Vanished::Crash) => {
            "The server kept the record in memory only, and came back without it."
        }
        _ if behind && died => {
            "The lock was acknowledged before a replica had it; failover chose that replica."
        }
        _ if unreachable => {
            "The master could not be reached and was replaced by a replica that did not have the \
             record yet."
        }
        _ if died => {
            "The server that had the record died before a replica had it: replication is \
             asynchronous, and the client was told before."
        }
        _ => {
            "The record vanished while it was promised: replication is asynchronous, and an \
             acknowledged write may be lost."
        }
    }
}

fn expired_early(blame: &Blame) -> &'static str {
    if has(blame, &[FaultFamily::ClockStep]) {
        "The server's wall clock jumped forward, and the lease was over before its time."
    } else if has(blame, &[FaultFamily::ClockFreeze]) {
        "The server's wall clock stood still and was then set right: a lease that was granted \
         meanwhile was over before its time."
    } else {
        "The server's clock runs fast: it ended the lease before its time by every other clock."
    }
}

fn overstayed(blame: &Blame) -> &'static str {
    use FaultFamily::{ClockRate, ClockSlew, ClockStep, Hang, Partition, Pause, SlowLink};
    if has(blame, &[Pause, Hang]) {
        "The holder stood still beyond its lease and went on where it was: it cannot know that \
         the lease has ended, and no lock can stop it."
    } else if has(blame, &[ClockRate, ClockSlew, ClockStep]) {
        "The holder's clock runs slow: by its own reckoning the lease had not ended."
    } else if has(blame, &[Partition, SlowLink]) {
        "The holder's operation was on its way for longer than its lease."
    } else {
        "The holder worked longer than its lease: what is looked at before the work says nothing \
         of the time after it."
    }
}

fn record_left(blame: &Blame, detail: &Detail) -> &'static str {
    use FaultFamily::{MachineCrash, ProcessCrash};
    let never = matches!(detail, Detail::LeakedLock { never_expires: true, .. });
    if never {
        "The record has no expiry, and whoever could remove it is gone."
    } else if has(blame, &[ProcessCrash, MachineCrash]) {
        "The holder died, and its record outlived it by more than the lock promises."
    } else {
        "The record outlived its holder by more than the lock promises."
    }
}

/// What helps against the subject in general, of what the plan does not have yet.
pub fn proposals(subject: &Subject<'_>, plan: &Plan) -> Vec<&'static str> {
    let kinds = [Some(subject.finding.kind), subject.harm.map(|harm| harm.kind)];
    let fence_helps = kinds
        .iter()
        .flatten()
        .any(|kind| matches!(kind, Kind::DoubleGrant | Kind::Oversell | Kind::EffectInterleaved));
    let has_tokens = scenario::LOCKS.iter().any(|lock| lock.name == plan.lock.name && lock.tokens);
    let mut proposals = Vec::new();
    if fence_helps && has_tokens && plan.fence != Fence::Full && subject.blame().is_lock_bug() {
        proposals.push(
            "--fence full, in a test .fence(Fence::Full): the stock turns away whoever is not the \
             newest holder",
        );
    }
    proposals
}
