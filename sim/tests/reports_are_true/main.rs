//! Does a report say only what happened?
//!
//! Every sentence of a why has a precondition. It is looked up here in the run's own
//! history and plan, by means of its own: nothing of what chose the sentence is used.
//! A sentence that is not known here fails: whoever writes one says what must be true.
//!
//! Order of things: [`told`] is what is looked up, [`records`], [`clocks`], [`holders`] and
//! [`sessions`] are the preconditions, [`RULES`] says which sentence has which, and the sweeps are at the end.

mod clocks;
mod holders;
mod records;
mod sessions;
mod told;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lockstorm_interpose::Senses;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::senses;
use lockstorm_sim::history::event::{ENSEMBLE, is_of_ensemble};
use lockstorm_sim::history::{Event, EventId, FaultFamily, Name, What};
use lockstorm_sim::hunt::Quarry;
use lockstorm_sim::plan::{Fence, Seed};
use lockstorm_sim::report::story::{Story, most_steps};
use lockstorm_sim::report::subject::Subject;
use lockstorm_sim::report::why;
use lockstorm_sim::seeds::SeedFile;
use lockstorm_sim::storm::{self, Run};

use clocks::*;
use holders::*;
use records::*;
use sessions::*;
use told::Told;

/// What a sentence begins with, or has in it, and its precondition.
type Rule = (&'static str, fn(&Told<'_>));

const RULES: [Rule; 43] = [
    ("restarted with an empty memory (no persistence) and granted the lock again.", restarted),
    ("restarted with an empty memory (no persistence) before another was master", restarted),
    ("restarted with an empty memory (no persistence): the record was gone.", restarted),
    ("restarted with an empty memory (no persistence), and ", restarted_then_replaced),
    (") and granted the lock again.", restarted_without),
    (") before another was master in its place, and granted the lock again.", restarted_without),
    ("): the record was gone.", restarted_without),
    ("), and redis-", restarted_then_replaced),
    ("The lock was acknowledged before a replica had it; failover chose", behind_and_died),
    ("had the record: replication is asynchronous, and the client was told before.", died),
    ("had died and come back while it was being replaced", came_back),
    ("could not be reached and was replaced by", unreachable),
    ("became master without the record", promoted_without),
    ("Split brain: ", split_brain),
    ("Two masters counted tokens, each for itself", split_brain),
    ("A lease is kept as the wall time of its end", moved_clock),
    (", which led, runs fast (", fast_leader),
    ("jumped", stepped_clock),
    ("runs fast (", fast_clock),
    ("Somebody removed a record", removed),
    ("One server granted the lock to both", one_server),
    ("The holder stood still beyond its lease", asleep_at_the_end),
    ("The holder stood still for a while", paused_meanwhile),
    ("The resource stood still while", resource_paused),
    ("The network held up what the holder did", network_held_up),
    ("The holder's clock runs slow", slow_clock),
    ("The holder worked longer than its lease", outlasted),
    ("stood still for longer than its session lasts", asleep_when_its_session_ended),
    ("heard nothing of its session and ended it, and the holder worked on", a_group_slept),
    ("was cut off from the ensemble for longer than its session", cut_off_when_its_session_ended),
    ("came so late that", slow_when_its_session_ended),
    ("The servers of the ensemble were struck", servers_struck),
    ("ended the holder's session while the holder was at work", its_session_ended),
    ("A place in the queue stayed after its owner", place_outlived),
    ("A cut held up an operation until its holder had left", late_by_a_cut),
    ("A slow link held up an operation until its holder had left", late_by_a_slow_link),
    ("An operation was still on its way when its holder had left", late),
    ("There was no lock between them", |told| assert_eq!(told.plan.lock.name, "none")),
    ("Somebody acted without a grant", not_granted),
    ("The holder died, and its record outlived it", holder_died),
    ("The record outlived its holder", record_outlived),
    ("The counter behind the tokens went back when a server", promoted_without_the_count),
    ("The counter behind the tokens went back when redis", restarted_without_the_count),
];

/// Whatever the sentence: the faults that are blamed are told, could have mattered,
/// and did something.
fn blame_is_told(told: &Told<'_>) {
    is_as_short_as_it_can_be(told);
    for blamed in &told.blame.faults {
        let kind = &told.plan.faults[blamed.fault].kind;
        let steps = told.story.steps.iter().filter_map(|step| told.history.get(step.event?));
        let began = steps.filter(
            |event| matches!(event.what, What::FaultBegan { fault, .. } if fault == blamed.fault),
        );
        assert_eq!(began.count(), 1, "{kind:?} is told");
        let touched = told.events().find(
            |event| matches!(event.what, What::FaultTouched { fault, .. } if fault == blamed.fault),
        );
        assert!(touched.expect("it touched something").at_us <= told.finding.to_us);
        let since_us = match ["Split brain", "Two masters", "had died and come back"]
            .iter()
            .any(|part| told.why.contains(part))
        {
            true => 0,
            false => told.blame.owners.iter().map(|owner| told.set(owner).at_us).min().unwrap_or(0),
        };
        assert!(told.at_work(blamed.fault, since_us, told.finding.to_us), "{kind:?} was at work");
        if blamed.family == FaultFamily::ReplicationStall {
            let parts = [
                "acknowledged before a replica had it",
                "which did not have the record",
                "without its latest value",
            ];
            assert!(parts.iter().any(|part| told.why.contains(part)), "{kind:?}: {}", told.why);
        }
    }
}

/// Whether the fault that began so struck a holder's client, or a server that set the record of
/// one, and was at work there between the first grant and the end of the proof.
fn met_a_holder(told: &Told<'_>, fault: usize, targets: &[Name]) -> bool {
    let owners = told.blame.owners.iter().map(String::as_str);
    let parties = told.finding.parties.iter().map(|party| party.owner.as_str());
    let owners: Vec<&str> = owners.chain(parties).collect();
    let proof = told.finding.events.iter().copied().chain(told.blame.events());
    let end = proof.filter_map(|id| told.history.get(id)).max_by_key(|event| event.id);
    let end = end.expect("a finding is proved");
    let sets = told.events().filter(|event| {
        event.id <= end.id
            && matches!(&event.what, What::RecordSet { owner, .. } if owners.contains(&&**owner))
    });
    let sets: Vec<&Event> = sets.collect();
    let Some(first) = sets.first() else { return false };
    let servers = sets.iter().map(|event| &*event.node);
    let met = owners.iter().map(|owner| Told::client(owner)).chain(servers);
    // What an ensemble grants, no single server of it does.
    let is_at =
        |node: &str, target: &str| target == node || (node == ENSEMBLE && is_of_ensemble(target));
    let strikes = met.into_iter().any(|node| targets.iter().any(|target| is_at(node, target)));
    strikes && told.at_work(fault, first.at_us, end.at_us)
}

/// A story tells the faults that are blamed and those that met a holder, and no other: how many
/// that did something it leaves out so.
fn no_other_fault_is_told(told: &Told<'_>) -> usize {
    let is_blamed = |fault: usize| told.blame.faults.iter().any(|of| of.fault == fault);
    let mut left_out = BTreeSet::new();
    for event in told.events() {
        let What::FaultBegan { fault, targets, .. } = &event.what else { continue };
        if told.in_story(event) {
            let is_needed = is_blamed(*fault) || met_a_holder(told, *fault, targets);
            assert!(is_needed, "fault {fault} is told, and met nobody");
        } else if told.events().any(
            |of| matches!(&of.what, What::FaultTouched { fault: touched, .. } if touched == fault),
        ) {
            left_out.insert(*fault);
        }
    }
    left_out.len()
}

/// What is not needed has a bound, and what proves the finding is told.
fn is_as_short_as_it_can_be(told: &Told<'_>) {
    let events = told.story.steps.iter().filter_map(|step| told.history.get(step.event?));
    let proof: Vec<EventId> =
        told.finding.events.iter().copied().chain(told.blame.events()).collect();
    let mechanism = told.blame.mechanism.events();
    let failover = told.blame.mechanism.failover();
    let failover = failover.map_or([None, None], |over| [over.down, over.switch]);
    let is_needed = |event: &&Event| {
        let is_fault = match &event.what {
            What::FaultBegan { fault, targets, .. } => {
                told.blame.faults.iter().any(|of| of.fault == *fault)
                    || met_a_holder(told, *fault, targets)
            }
            What::RecordSet { .. } => true,
            _ => false,
        };
        is_fault
            || proof.contains(&event.id)
            || mechanism.contains(&event.id)
            || failover.contains(&Some(event.id))
    };
    let is_beside = |event: &&Event| match event.what {
        What::FaultBegan { fault, .. } => told.blame.faults.iter().all(|of| of.fault != fault),
        _ => false,
    };
    let (needed, beside) =
        (events.clone().filter(is_needed).count(), events.filter(is_beside).count());
    assert!(told.story.steps.len() <= most_steps(needed, beside), "{needed} {beside}");
    let is_act = |event: &&Event| matches!(event.what, What::Effect { .. });
    let proof = proof.iter().filter_map(|id| told.history.get(*id));
    for act in proof.filter(is_act) {
        assert!(told.in_story(act), "{act:?} is proof");
    }
}

/// Whatever the sentence: a fault that did something to a holder, or to the server that had
/// granted it the lock, between that grant and the holder's wrong act is told.
fn what_met_a_holder_is_told(told: &Told<'_>) {
    let is_act = |owner: &str, event: &Event| {
        told.finding.events.contains(&event.id)
            && matches!(&event.what, What::Effect { owner: by, .. } if **by == *owner)
    };
    for owner in &told.blame.owners {
        if told.granted(owner).is_none() || told.plan.lock.name == "none" {
            continue;
        }
        let grant = told.set(owner);
        let Some(act) = told.events().rfind(|event| is_act(owner, event)) else { continue };
        for touch in told.events().filter(|event| grant.id < event.id && event.id < act.id) {
            let What::FaultTouched { fault, .. } = touch.what else { continue };
            let began = told.events().rfind(|event| {
                event.id < touch.id
                    && matches!(event.what, What::FaultBegan { fault: of, .. } if of == fault)
            });
            let began = began.expect("what touches has begun");
            let What::FaultBegan { targets, .. } = &began.what else { continue };
            let strikes = |name: &str| targets.iter().any(|target| **target == *name);
            if strikes(Told::client(owner)) || strikes(&grant.node) {
                assert!(told.in_story(began), "fault {fault} met {owner}, and is not told");
            }
        }
    }
}

thread_local! {
    /// How many faults that did something the stories of this thread left out.
    static LEFT_OUT: Cell<usize> = const { Cell::new(0) };
}

/// The rule of a run's why; `None` for a run in which nothing was found.
fn judged(run: &Run) -> Option<&'static str> {
    let subject = Subject::of(&run.history, &run.judgement)?;
    let why = why::why(&run.history, &run.plan, &subject);
    let story = Story::of(&run.history, &run.plan, &subject);
    let (history, plan, blame) = (&run.history, &run.plan, subject.blame());
    let finding = subject.harm.unwrap_or(subject.finding);
    let told = Told { plan, history, finding, blame, why, story };
    let rule = RULES.iter().find(|(part, _)| told.why.contains(part));
    let (part, rule) = rule.unwrap_or_else(|| panic!("no precondition is known of: {}", told.why));
    rule(&told);
    blame_is_told(&told);
    what_met_a_holder_is_told(&told);
    LEFT_OUT.with(|left_out| left_out.set(left_out.get() + no_other_fault_is_told(&told)));
    Some(part)
}

fn quarry(scenario: &str, fence: Fence) -> Quarry {
    Quarry::new(scenario, "redis", fence)
}

fn run(scenario: &str, fence: Fence, seed: u64) -> Run {
    run_of(&quarry(scenario, fence), seed)
}

fn run_of(quarry: &Quarry, seed: u64) -> Run {
    storm::run(&quarry.plan(Seed(seed)).unwrap(), &EventEngine)
}

/// Holds `seeds` against their runs; how often each sentence was said.
fn sweep(scenario: &str, fence: Fence, seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u32> {
    sweep_of(&quarry(scenario, fence), seeds)
}

fn sweep_of(quarry: &Quarry, seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u32> {
    let scenario = &quarry.scenario;
    let mut said: BTreeMap<&'static str, u32> = BTreeMap::new();
    let mut untrue = Vec::new();
    for seed in seeds {
        let run = run_of(quarry, seed);
        let judge = std::panic::AssertUnwindSafe(|| judged(&run));
        match std::panic::catch_unwind(judge) {
            Ok(part) => *said.entry(part.unwrap_or("nothing")).or_default() += 1,
            Err(_) => untrue.push(format!("{seed:#x}")),
        }
    }
    println!("{scenario}: {said:#?}");
    assert!(untrue.is_empty(), "{scenario}: untrue reports of seeds {}", untrue.join(", "));
    said
}

#[test]
fn every_why_of_three_hundred_failovers_is_true() {
    let said = sweep("redis-failover", Fence::Off, 0..300);
    for part in ["acknowledged before a replica", "restarted with an empty memory", "Split brain"] {
        assert!(said.keys().any(|said| said.contains(part)), "never said: {part}");
    }
    // Of what struck others, or at another time, nothing is told.
    let left_out = LEFT_OUT.with(Cell::get);
    assert!(left_out > 50, "{left_out}");
}

#[test]
fn every_why_of_a_hundred_long_leases_is_true() {
    let said = sweep("redis-long-lease", Fence::Off, 0..100);
    assert!(said.keys().any(|said| said.contains("restarted with an empty memory")));
}

/// A server that keeps something comes back with what it kept.
#[test]
fn every_why_of_servers_with_disks_is_true() {
    for name in ["redis-rdb-power-cut-001", "redis-aof-everysec-power-cut-001"] {
        let path = format!("../seeds/known-unsafe/{name}.toml");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let run = storm::run(&SeedFile::load(&path).unwrap().plan, &EventEngine);
        assert_eq!(judged(&run), Some(") and granted the lock again."), "{name}");
    }
    let path = "../seeds/known-unsafe/pg-for-update-server-machine-crash-001.toml";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let run = storm::run(&SeedFile::load(&path).unwrap().plan, &EventEngine);
    let subject = Subject::of(&run.history, &run.judgement).unwrap();
    let why = why::why(&run.history, &run.plan, &subject);
    assert_eq!(
        why,
        "pg-1, the only server, restarted without the record (no session outlives its server) and \
         granted the lock again."
    );
}

#[test]
fn every_why_behind_a_fence_is_true() {
    sweep("redis-failover", Fence::Full, 0..60);
}

/// The client of ZooKeeper asks the C library.
fn install_senses() {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
}

/// Seeds hardly ever draw it: a cut that outlasts the session of whoever holds.
#[test]
fn a_holder_that_was_cut_off_is_told_so() {
    install_senses();
    let path = "../seeds/known-unsafe/zookeeper-session-expires-at-work-001.toml";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let run = storm::run(&SeedFile::load(&path).unwrap().plan, &EventEngine);
    assert_eq!(judged(&run), Some("was cut off from the ensemble for longer than its session"));
}

#[test]
fn every_why_of_ended_sessions_is_true() {
    install_senses();
    for lock in ["zookeeper", "zookeeper-read"] {
        let mut quarry = Quarry::new("zookeeper-three", lock, Fence::Off);
        // Whoever looks is told in time, and little is left to tell.
        quarry.settings.push(("workload.deadline-check".to_owned(), "false".to_owned()));
        let said = sweep_of(&quarry, 0..40);
        let part = "stood still for longer than its session";
        assert!(said.keys().any(|said| said.contains(part)), "never said: {part}");
    }
}

/// Each was told untruly once.
#[test]
fn what_was_told_untruly_is_told_as_it_was() {
    for (scenario, seed, part) in [
        (
            "redis-failover",
            0x5,
            "before another was master in its place, and granted the lock again",
        ),
        (
            "redis-failover",
            0x22,
            "before another was master in its place, and granted the lock again",
        ),
        (
            "redis-failover",
            0xbe,
            "before another was master in its place, and granted the lock again",
        ),
        ("redis-long-lease", 0x26, "the only server, restarted with an empty memory"),
        ("redis-long-lease", 0x3d, "the only server, restarted with an empty memory"),
        ("redis-failover", 0x39, "redis-2, the new master, is 820ms ahead of redis-1's"),
        ("redis-failover", 0x98, "A cut held up an operation"),
        ("redis-failover", 0xa8, "redis-3 had died and come back while it was being replaced"),
        ("redis-failover", 0x3d, "Split brain: redis-1 was cut off and replaced by redis-2"),
        ("redis-failover", 0x30, "Split brain: redis-1 was cut off and replaced by redis-2"),
        ("redis-failover", 0x4e, "Split brain: redis-1 was cut off and replaced by redis-2"),
        ("redis-long-lease", 0xd8, "The clock of redis-1 runs fast (+5%)"),
    ] {
        let run = run(scenario, Fence::Off, seed);
        let subject = Subject::of(&run.history, &run.judgement).unwrap();
        let why = why::why(&run.history, &run.plan, &subject);
        assert!(why.contains(part), "{scenario} {seed:#x}: {why}");
        judged(&run);
    }
}
