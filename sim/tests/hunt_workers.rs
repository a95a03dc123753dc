//! What becomes of a hunt whose workers die, hang, talk nonsense, or cannot be started?
//! A seed that its worker does not survive is internal and the hunt goes on; without
//! workers there is one error.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use lockstorm_sim::check::Verdict;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::hunt::examine::Examiner;
use lockstorm_sim::hunt::process::Trouble;
use lockstorm_sim::hunt::{Quarry, Summary, Task, pack};
use lockstorm_sim::plan::{Fence, Plan, Seed};

/// A worker of the folder beside this file. They are kept there, not written by the
/// tests: a file that is still open for writing in a forked child cannot be executed.
fn worker(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/hunt_workers");
    folder.join(name).with_extension("sh")
}

fn quarry() -> Quarry {
    Quarry::new("redis-failover", "redis", Fence::Off)
}

fn hunt(program: PathBuf, seeds: u64, limit: Duration) -> std::io::Result<Vec<Summary>> {
    let mut summaries = Vec::new();
    let tasks: Vec<Task> = (0..seeds).map(|index| Task::Drawn(Seed(7 + index))).collect();
    pack::run(&quarry(), &tasks, 2, &program, limit, |summary| {
        summaries.push(summary);
        true
    })?;
    Ok(summaries)
}

/// All seeds are there, in order, each internal, each with this reason.
fn assert_lost(summaries: &[Summary], why: &str) {
    for (index, summary) in summaries.iter().enumerate() {
        assert_eq!(summary.seed, Seed(7 + index as u64));
        assert_eq!(summary.verdict, Verdict::Internal);
        assert!(summary.is_lost());
        let trouble = summary.trouble.as_deref().unwrap_or_default();
        assert!(trouble.contains(why), "{trouble}");
    }
}

#[test]
fn a_worker_that_hangs_is_stopped_and_its_seed_told() {
    let program = worker("hangs");
    let summaries = hunt(program, 3, Duration::from_millis(200)).unwrap();
    assert_eq!(summaries.len(), 3);
    assert_lost(&summaries, "gave no answer in 2.2 s");
}

#[test]
fn a_worker_that_dies_is_told_with_how_it_died() {
    let program = worker("dies");
    let summaries = hunt(program, 3, Duration::from_secs(60)).unwrap();
    assert_eq!(summaries.len(), 3);
    assert_lost(&summaries, "SIGABRT");
}

#[test]
fn a_worker_that_talks_nonsense_loses_its_seed() {
    let program = worker("babbles");
    let summaries = hunt(program, 2, Duration::from_secs(60)).unwrap();
    assert_lost(&summaries, "expected value");
}

#[test]
fn tasks_that_are_run_apart_have_a_process_each() {
    let tasks: Vec<Task> = (0..4).map(|_| Task::Drawn(Seed(7))).collect();
    let limit = Duration::from_secs(60);
    let mut processes = Vec::new();
    pack::run_apart(&quarry(), &tasks, 2, &worker("tells_its_number"), limit, |summary| {
        assert_eq!(summary.verdict, Verdict::Safe, "{summary:?}");
        processes.push(summary.trace);
        true
    })
    .unwrap();
    assert_eq!(processes.len(), 4);
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes.len(), 4, "{processes:?}");
}

#[test]
fn without_a_worker_there_is_one_error() {
    let error = hunt(PathBuf::from("/nowhere/worker"), 50, Duration::from_secs(60)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("no worker could be started: /nowhere/worker"), "{error}");
}

#[test]
fn a_refused_request_is_one_error_and_bad_input() {
    let error = hunt(worker("refuses"), 50, Duration::from_secs(60)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("no such knob"), "{error}");
}

#[test]
fn a_plan_that_hangs_a_fresh_process_is_not_run_in_this_one() {
    let program = worker("hangs");
    let examiner = Examiner::new(program, Duration::from_millis(200));
    let plan = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(1)).unwrap();
    let Err(Trouble::Lost(why)) = examiner.examine(&plan, &EventEngine, false) else {
        panic!("the examination must not come back with a run");
    };
    assert!(why.contains("gave no answer"), "{why}");
}
