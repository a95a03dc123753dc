//! What holds when two faults of one kind overlap? The end of one does not undo the
//! other: a node is down until the last crash is over, a link slow, a clock fast.

use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::history::What;
use lockstorm_sim::plan::file;
use lockstorm_sim::storm::{self, Run};

fn run(faults: &str) -> Run {
    let scene = "schema = 1\nscenario = \"redis-failover\"\nduration = \"8s\"\n";
    let text = format!("{scene}{faults}");
    let plan = file::parse("the test's plan", &text).unwrap_or_else(|error| panic!("{error}"));
    storm::run(&plan, &EventEngine)
}

#[test]
fn a_node_is_down_until_the_last_of_its_crashes_is_over() {
    let run = run(r#"
[[fault]]
kind = "machine-crash"
node = "redis-1"
at = "1s"
for = "6s"

[[fault]]
kind = "process-crash"
node = "redis-1"
at = "1500ms"
for = "500ms"
"#);
    let starts = run.history.iter().filter(|event| {
        &*event.node == "redis-1" && matches!(event.what, What::NodeStarted { .. })
    });
    let starts: Vec<u64> = starts.map(|event| event.at_us).collect();
    assert_eq!(starts, [0, 7_000_000]);
}
