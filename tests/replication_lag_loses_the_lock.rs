//! When does asynchronous replication lose a lock? On a real Redis, `kill -9` of the
//! master does not: the bytes are with the kernel, and the kernel delivers. What loses
//! it is output that the process had not handed over, or a machine that dies with it.

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::history::What;
use lockstorm_sim::plan::file;
use lockstorm_sim::storm::{self, Run};

/// Two clients, sections of about four seconds, a failover within three.
const SCENE: &str = r#"
schema = 1
scenario = "redis-failover"
seed = "0x2"
duration = "8s"

[lock]
lease = "5s"

[topology]
apps = 2

[workload]
units = 1
think = "100ms"
slow-per-mille = 1000
slow-work = "4s"
patience = "4s"
"#;

fn run(faults: &str) -> Run {
    run_in(SCENE, faults)
}

fn run_in(scene: &str, faults: &str) -> Run {
    let text = format!("{scene}{faults}");
    let plan = file::parse("the test's plan", &text).unwrap_or_else(|error| panic!("{error}"));
    storm::run(&plan, &EventEngine)
}

fn lost_the_lock(run: &Run) -> bool {
    run.judgement.has_violation(Kind::DoubleGrant)
}

/// A new master was promoted; did it have the record of the first grant?
fn promoted_with_a_record(run: &Run) -> bool {
    let promoted = run.history.iter().find_map(|event| match &event.what {
        What::Promoted { records, .. } => Some(records.clone()),
        _ => None,
    });
    !promoted.expect("nobody was promoted").is_empty()
}

#[test]
fn kill_9_of_the_master_with_400_ms_of_wire_latency_keeps_the_lock() {
    let run = run(r#"
[[fault]]
kind = "slow-link"
from = ["redis-1"]
to = ["redis-2", "redis-3"]
extra = "400ms"
after = "app-1 acquire 1 invoked"
for = "3s"

[[fault]]
kind = "process-crash"
node = "redis-1"
after = "app-1 acquire 1 returned"
"#);
    assert!(promoted_with_a_record(&run));
    assert!(!lost_the_lock(&run), "{:#?}", run.judgement);
    assert_eq!(run.judgement.verdict, Verdict::Safe, "{:#?}", run.judgement);
}

#[test]
fn kill_9_with_a_stalled_output_buffer_loses_it() {
    let run = run(r#"
[[fault]]
kind = "replication-stall"
node = "redis-1"
after = "app-1 acquire 1 invoked"

[[fault]]
kind = "process-crash"
node = "redis-1"
after = "app-1 acquire 1 returned"
"#);
    assert!(!promoted_with_a_record(&run));
    assert!(lost_the_lock(&run), "{:#?}", run.judgement);
    assert!(run.judgement.has_violation(Kind::Oversell), "{:#?}", run.judgement);
}

#[test]
fn a_cut_link_and_then_a_machine_crash_loses_it() {
    let run = run(r#"
[[fault]]
kind = "partition"
from = ["redis-1"]
to = ["redis-2", "redis-3"]
after = "app-1 acquire 1 invoked"
for = "200ms"

[[fault]]
kind = "machine-crash"
node = "redis-1"
after = "app-1 acquire 1 returned"
"#);
    assert!(!promoted_with_a_record(&run));
    assert!(lost_the_lock(&run), "{:#?}", run.judgement);
}

#[test]
fn a_cut_link_and_then_a_process_crash_keeps_it_once_the_link_heals() {
    let run = run(r#"
[[fault]]
kind = "partition"
from = ["redis-1"]
to = ["redis-2", "redis-3"]
after = "app-1 acquire 1 invoked"
for = "150ms"

[[fault]]
kind = "process-crash"
node = "redis-1"
after = "app-1 acquire 1 returned"
"#);
    assert!(promoted_with_a_record(&run), "the kernel outlives the process");
    assert!(!lost_the_lock(&run), "{:#?}", run.judgement);
}

#[test]
fn a_resynchronisation_erases_what_the_old_master_had_alone() {
    // Sentinels let a former master be for eight seconds, and look every ten.
    let scene = SCENE.replace("\"8s\"", "\"30s\"");
    let run = run_in(
        &scene,
        r#"
[[fault]]
kind = "replication-stall"
node = "redis-1"
after = "app-1 acquire 1 invoked"
for = "4s"

[[fault]]
kind = "partition"
from = ["redis-1", "app-1"]
to = ["redis-2", "redis-3", "sentinel-1", "sentinel-2", "sentinel-3", "app-2"]
after = "app-1 acquire 1 returned"
for = "4s"
"#,
    );
    let erased = run.history.iter().any(|event| {
        &*event.node == "redis-1" && matches!(&event.what, What::Resynchronised { .. })
    });
    assert!(erased, "the old master follows the new one");
    assert!(lost_the_lock(&run), "two masters, two holders: {:#?}", run.judgement);
}
