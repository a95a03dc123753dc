//! Why it happened, in one sentence, and what to try.
//!
//! The sentence follows from what the servers and clients went through
//! ([`Mechanism`]), from the faults that are blamed, and from what the clocks showed
//! ([`clocks`]). It says nothing that the history does not show; a test over hundreds
//! of seeds holds every sentence against its run (`sim/tests/reports_are_true.rs`). A
//! proposal is made only where it is true in general, not where it happens to silence
//! one seed.

pub mod clocks;
mod restarted;
pub mod saved;
mod session;
#[cfg(test)]
mod tests;

use crate::check::{Blame, BlamedFault, Detail, Failover, Kind, Mechanism, Parted};
use crate::history::{AcquireOutcome, Event, FaultFamily, History, What};
use crate::plan::{Fence, Micros, Plan, Ppm, scenario};
use crate::report::subject::Subject;
use crate::storm::locks::quorum;
use clocks::{Clocks, Gain};

use FaultFamily::{
    ClockRate, MachineCrash, Partition, Pause, ProcessCrash, ReplicationStall, SlowLink,
};

/// Why the subject came about.
pub fn why(history: &History, plan: &Plan, subject: &Subject<'_>) -> String {
    let blame = subject.blame();
    let said = match blame.parted {
        Parted::RecordLost | Parted::TwoMasters | Parted::ExpiredEarly | Parted::RecordDeleted => {
            return by_mechanism(history, plan, blame);
        }
        Parted::TokenSource => return token_source(plan, blame),
        Parted::Overstayed => match &blame.mechanism {
            Mechanism::SessionEnded { leader, clock, .. } => {
                let noticed = saved::has_noticed(history, subject);
                return session::ended(history, plan, blame, (leader.as_deref(), *clock), noticed);
            }
            _ => overstayed(history, plan, subject),
        },
        Parted::NoExclusion => {
            "One server granted the lock to both: what the lock writes there does not exclude the \
             second."
        }
        Parted::NoRecord if quorum(plan) > 1 => {
            "The lock told its client of a grant that no majority of its servers had applied."
        }
        Parted::NoRecord => "The lock told its client of a grant that no server had applied.",
        Parted::LetIn => {
            "The lock let both in; what its servers did is not in the history, so neither is the \
             reason."
        }
        Parted::LateEffect => late_effect(blame),
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
        Parted::CircularWait if keeps_sessions(plan) => {
            "Each waits for a lock that the next one holds, and the sessions of all of them live, \
             so that nothing ends it: take locks in one order, or with a wait that ends."
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
        Parted::ServersDisagree => {
            "The servers broke what their broadcast promises: whatever they say of the lock is \
             worth nothing. That is a bug of the servers, not of the lock."
        }
        Parted::CommitLost => {
            "The order was committed before the server that was promoted had it: replication is \
             asynchronous, and a commit that was acknowledged may be lost. No lock keeps that."
        }
        Parted::RecordLeft if keeps_sessions(plan) => place_left(blame),
        Parted::RecordLeft => record_left(blame, &subject.finding.detail),
    };
    said.to_owned()
}

fn by_mechanism(history: &History, plan: &Plan, blame: &Blame) -> String {
    match &blame.mechanism {
        Mechanism::RestartedEmpty { server, then, .. } => {
            restarted::told(plan, blame, server, then.as_ref())
        }
        Mechanism::PromotedWithout { failover } if is_of_a_session(plan) => format!(
            "{} became primary, and the lock was in the memory of {} alone: what a session or a \
             transaction holds is not replicated.",
            failover.to, failover.from
        ),
        Mechanism::PromotedWithout { failover } => promoted_without(history, blame, failover),
        Mechanism::SplitBrain { failover, .. } => split_brain(history, blame, failover),
        Mechanism::ExpiredEarly { set_at, expired_at, .. } => {
            expired_early(Clocks::of(history, plan).gain(&blame.mechanism), set_at, expired_at)
        }
        Mechanism::Overwritten => "Somebody overwrote a record that was not theirs: a request for \
                                   the lock must set it only where there is none."
            .to_owned(),
        Mechanism::Deleted => removed(),
        Mechanism::AsleepAtEnd { .. } | Mechanism::SessionEnded { .. } | Mechanism::Unknown => {
            unexplained(blame.parted)
        }
    }
}

/// Whether a database's session or transaction holds the plan's lock, and no row.
fn is_of_a_session(plan: &Plan) -> bool {
    restarted::is_database(plan) && !plan.lock.name.starts_with("pg-lock-table")
}

fn unexplained(parted: Parted) -> String {
    let how = match parted {
        Parted::TwoMasters => {
            "Two servers granted the lock at the same time, and the history does not show how both \
             came to be masters."
        }
        Parted::RecordDeleted => return removed(),
        _ => "The record vanished while it was promised, and the history does not show how.",
    };
    how.to_owned()
}

fn removed() -> String {
    "Somebody removed a record that was not theirs: a release must compare the owner in the same \
     step in which it deletes."
        .to_owned()
}

fn promoted_without(history: &History, blame: &Blame, failover: &Failover) -> String {
    let Failover { from, to, .. } = failover;
    let took = took(history, blame, failover);
    let died = took.is_some_and(|fault| is_crash(fault.family));
    let behind = blame.faults.iter().any(|fault| {
        took != Some(fault) && matches!(fault.family, ReplicationStall | SlowLink | Partition)
    });
    if let Some(fault) = took.filter(|fault| is_crash(fault.family))
        && came_back(history, blame, fault, from)
    {
        return format!(
            "{from} had died and come back while it was being replaced: it granted the lock once \
             more, and {to} never had the record."
        );
    }
    match took {
        _ if behind && died => {
            "The lock was acknowledged before a replica had it; failover chose that replica.".into()
        }
        Some(_) if died => format!(
            "{from} died before {to} had the record: replication is asynchronous, and the client \
             was told before."
        ),
        Some(_) => format!(
            "{from} could not be reached and was replaced by {to}, which did not have the record."
        ),
        None => format!(
            "{to} became master without the record: replication is asynchronous, and an \
             acknowledged write may be lost."
        ),
    }
}

fn split_brain(history: &History, blame: &Blame, failover: &Failover) -> String {
    let Failover { from, to, .. } = failover;
    match took(history, blame, failover).map(|fault| fault.family) {
        Some(Partition) => format!(
            "Split brain: {from} was cut off and replaced by {to}, and went on granting the lock \
             to whoever still reached it."
        ),
        Some(Pause) => format!(
            "Split brain: {from} stood still and was replaced by {to}; when it went on it granted \
             the lock, for it had not been told."
        ),
        Some(ProcessCrash | MachineCrash) => format!(
            "Split brain: {from} was down and replaced by {to}; it came back as a master with an \
             empty memory and granted the lock before it was told to follow."
        ),
        _ => format!(
            "Split brain: {from} had been replaced by {to} and granted the lock all the same."
        ),
    }
}

fn is_crash(family: FaultFamily) -> bool {
    matches!(family, ProcessCrash | MachineCrash)
}

/// Whether the record was set at `server` after the crash that made others replace it.
fn came_back(history: &History, blame: &Blame, crash: &BlamedFault, server: &str) -> bool {
    let owner = blame.owners.first();
    let set = history.iter().find(|event| {
        *event.node == *server
            && matches!(&event.what, What::RecordSet { owner: of, .. }
                if owner.is_some_and(|owner| **of == **owner))
    });
    set.is_some_and(|set| crash.events.first().is_some_and(|began| *began < set.id))
}

/// Of the blamed faults the one that took the master: it struck the master, and where
/// it is a cut, it lay between the master and the sentinel that gave up on it.
fn took<'b>(history: &History, blame: &'b Blame, failover: &Failover) -> Option<&'b BlamedFault> {
    let sentinel = failover.down.and_then(|down| history.get(down)).map(|event| &event.node);
    let cuts_off = |fault: &BlamedFault| {
        let began = fault.events.first().and_then(|id| history.get(*id));
        matches!(began.map(|event| &event.what), Some(What::FaultBegan { targets, .. })
            if sentinel.is_none_or(|sentinel| targets.contains(sentinel)))
    };
    blame.faults.iter().find(|fault| match fault.family {
        ProcessCrash | MachineCrash | Pause => true,
        Partition => cuts_off(fault),
        _ => false,
    })
}

fn expired_early(gain: Gain, set_at: &str, expired_at: &str) -> String {
    match gain {
        Gain::Moved(by_us) => format!(
            "A lease is kept as the wall time of its end, and the wall clock of {expired_at}, the \
             new master, is {} ahead of {set_at}'s: it ended the lease by so much too early.",
            Micros(by_us.unsigned_abs()),
        ),
        Gain::Stepped(by_us) => format!(
            "The wall clock of {expired_at} jumped {} ahead, and the lease was over before its \
             time.",
            Micros(by_us.unsigned_abs()),
        ),
        Gain::Fast(ppm) => format!(
            "The clock of {expired_at} runs fast ({}): it ended the lease before its time by every \
             other clock.",
            Ppm(ppm),
        ),
        Gain::Nothing => format!(
            "{expired_at} ended the lease before its time, and the history does not show why."
        ),
    }
}

fn overstayed(history: &History, plan: &Plan, subject: &Subject<'_>) -> &'static str {
    let blame = subject.blame();
    if matches!(blame.mechanism, Mechanism::AsleepAtEnd { .. }) {
        if saved::has_noticed(history, subject) {
            return "The holder stood still beyond its lease, and could notice only when it went on: \
                    its own look at the time is all that holds it back.";
        }
        return "The holder stood still beyond its lease and went on where it was: it cannot know \
                that the lease has ended, and no lock can stop it.";
    }
    let fault = blame.faults.first();
    match fault.map(|fault| (fault.family, fault.role)) {
        Some((Pause, "resource")) => {
            "The resource stood still while the holder was at work, and the lease ended meanwhile."
        }
        Some((Pause, _)) => {
            "The holder stood still for a while, and its work outlasted its lease: what is looked \
             at before the work says nothing of the time after it."
        }
        Some((Partition | SlowLink, _)) => {
            "The network held up what the holder did, and its work outlasted its lease."
        }
        Some((ClockRate, role)) if is_slow(history, plan, subject, role) => {
            "The holder's clock runs slow: by its own reckoning the lease had not ended."
        }
        _ => {
            "The holder worked longer than its lease: what is looked at before the work says \
             nothing of the time after it."
        }
    }
}

/// Whether the holder's own clock had counted less than its lease when it did what it
/// should not have done.
fn is_slow(history: &History, plan: &Plan, subject: &Subject<'_>, role: &str) -> bool {
    let owner = subject.blame().owners.get(usize::from(role == "second-holder"));
    let granted = history.iter().find_map(|event| match &event.what {
        What::AcquireReturned {
            attempt,
            outcome: AcquireOutcome::Granted { lease_us, margin_us, .. },
            ..
        } if Some(&attempt.to_string()) == owner => {
            Some((event, lease_us.saturating_sub(*margin_us)))
        }
        _ => None,
    });
    let last: Option<&Event> = subject.evidence().last().and_then(|id| history.get(*id));
    let Some(((granted, lease_us), last)) = granted.zip(last) else { return false };
    let to = history.iter().take_while(|event| event.at_us <= subject.finding.to_us).last();
    let to = to.filter(|to| to.id < last.id).unwrap_or(last);
    let counted_us = Clocks::of(history, plan).counted_us(&granted.node, granted, to);
    counted_us < lease_us && to.at_us - granted.at_us > lease_us
}

fn late_effect(blame: &Blame) -> &'static str {
    let held_up =
        blame.faults.iter().find(|fault| fault.family != Pause || fault.role == "resource");
    match held_up.map(|fault| fault.family) {
        Some(Partition) => {
            "A cut held up an operation until its holder had left, and the resource cannot see \
             that it comes too late."
        }
        Some(SlowLink) => {
            "A slow link held up an operation until its holder had left, and the resource cannot \
             see that it comes too late."
        }
        _ => {
            "An operation was still on its way when its holder had left, and the resource cannot \
             see that it comes too late."
        }
    }
}

fn record_left(blame: &Blame, detail: &Detail) -> &'static str {
    let never = matches!(detail, Detail::LeakedLock { never_expires: true, .. });
    let died = |fault: &BlamedFault| is_crash(fault.family) && fault.role == "first-holder";
    if never {
        "The record has no expiry, and whoever could remove it is gone."
    } else if blame.faults.iter().any(died) {
        "The holder died, and its record outlived it by more than the lock promises."
    } else {
        "The record outlived its holder by more than the lock promises."
    }
}

fn place_left(blame: &Blame) -> &'static str {
    let died = |fault: &BlamedFault| is_crash(fault.family) && fault.role == "first-holder";
    if blame.faults.iter().any(died) {
        "The holder died, and the ensemble kept its session, and with it its place, for longer \
         than the lock promises."
    } else {
        "A place in the queue stayed after its owner had left it, for longer than the lock \
         promises: its session lives, or the ensemble did not end it."
    }
}

/// Whether grants of the plan's lock live as long as a session with an ensemble.
fn keeps_sessions(plan: &Plan) -> bool {
    let lock = scenario::find_lock(&plan.lock.name);
    lock.is_ok_and(|lock| lock.needs == scenario::Needs::Ensemble)
}

fn token_source(plan: &Plan, blame: &Blame) -> String {
    match &blame.mechanism {
        Mechanism::RestartedEmpty { server, .. } => format!(
            "The counter behind the tokens went back when {server} {}.",
            restarted::without_the_count(plan)
        ),
        Mechanism::PromotedWithout { .. } => "The counter behind the tokens went back when a \
                                              server without its latest value took over."
            .to_owned(),
        Mechanism::SplitBrain { failover, .. } => format!(
            "Two masters counted tokens, each for itself: {} had been replaced by {} and went on.",
            failover.from, failover.to,
        ),
        _ => "The counter behind the tokens went back.".to_owned(),
    }
}

/// Whether a full fence, which the plan does not have, helps against the subject.
pub fn fence_helps(subject: &Subject<'_>, plan: &Plan) -> bool {
    let kinds = [Some(subject.finding.kind), subject.harm.map(|harm| harm.kind)];
    let is_held = kinds.iter().flatten().any(|kind| {
        // Of whole sections against the order of their grants it turns the older one away.
        matches!(
            kind,
            Kind::DoubleGrant | Kind::Oversell | Kind::EffectInterleaved | Kind::StaleEffect
        )
    });
    let has_tokens = scenario::LOCKS.iter().any(|lock| lock.name == plan.lock.name && lock.tokens);
    is_held && has_tokens && plan.fence != Fence::Full && subject.blame().is_lock_bug()
}

/// What helps against the subject in general, of what the plan does not have yet.
pub fn proposals(subject: &Subject<'_>, plan: &Plan) -> Vec<&'static str> {
    let mut proposals = Vec::new();
    if fence_helps(subject, plan) {
        proposals.push(
            "--fence full, in a test .fence(Fence::Full): the stock turns away whoever is not the \
             newest holder",
        );
    }
    proposals
}
