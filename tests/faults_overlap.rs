//! What holds when two faults meet on a node or a link? The end of one does not undo the
//! other: a node is down until the last crash is over, a link slow, a clock fast. A pause
//! ends with the program it stopped. Both engines say the same of what a fault touched.

use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::history::What;
use lockstorm_sim::plan::file;
use lockstorm_sim::storm::{self, Run};

fn on(engine: &dyn Engine, faults: &str) -> Run {
    let scene = "schema = 1\nscenario = \"redis-failover\"\nduration = \"8s\"\n";
    let text = format!("{scene}{faults}");
    let plan = file::parse("the test's plan", &text).unwrap_or_else(|error| panic!("{error}"));
    storm::run(&plan, engine)
}

/// A fault, from and for so many milliseconds.
fn fault(kind: &str, target: &str, at_ms: u64, for_ms: u64) -> String {
    format!("[[fault]]\nkind = \"{kind}\"\n{target}\nat = \"{at_ms}ms\"\nfor = \"{for_ms}ms\"\n\n")
}

const MASTER: &str = "node = \"redis-1\"";

/// When the faults of this position ended, µs.
fn ends(run: &Run, position: usize) -> Vec<u64> {
    let ends = run
        .history
        .iter()
        .filter(|event| matches!(event.what, What::FaultEnded { fault } if fault == position));
    ends.map(|event| event.at_us).collect()
}

/// When `node` began, µs.
fn starts(run: &Run, node: &str) -> Vec<u64> {
    let starts = run
        .history
        .iter()
        .filter(|event| &*event.node == node && matches!(event.what, What::NodeStarted { .. }));
    starts.map(|event| event.at_us).collect()
}

/// When the server `node` did something of its own, µs.
fn acts(run: &Run, node: &str) -> Vec<u64> {
    let is_own = |what: &What| {
        !matches!(
            what,
            What::NodeStarted { .. }
                | What::NodeCrashed { .. }
                | What::FaultBegan { .. }
                | What::FaultEnded { .. }
                | What::FaultTouched { .. }
        )
    };
    let acts = run.history.iter().filter(|event| &*event.node == node && is_own(&event.what));
    acts.map(|event| event.at_us).collect()
}

/// Which faults showed, and which were inert.
fn shown(run: &Run) -> (Vec<usize>, Vec<usize>) {
    let goals = &run.judgement.goals;
    (goals.touched.clone(), goals.inert.iter().map(|inert| inert.fault).collect())
}

fn on_both(faults: &str, check: impl Fn(&Run)) {
    check(&on(&EventEngine, faults));
    check(&on(&Turmoil::default(), faults));
}

#[test]
fn a_node_is_down_until_the_last_of_its_crashes_is_over() {
    let faults =
        fault("machine-crash", MASTER, 1_000, 6_000) + &fault("process-crash", MASTER, 1_500, 500);
    on_both(&faults, |run| {
        assert_eq!(starts(run, "redis-1"), [0, 7_000_000]);
        assert_eq!(shown(run), (vec![0], vec![1]), "what is dead cannot be killed");
    });
}

#[test]
fn the_machine_of_a_dead_process_can_still_die() {
    let faults =
        fault("process-crash", MASTER, 1_000, 500) + &fault("machine-crash", MASTER, 1_200, 5_000);
    on_both(&faults, |run| {
        assert_eq!(starts(run, "redis-1"), [0, 6_200_000]);
        assert_eq!(shown(run), (vec![0, 1], vec![]));
        let crashes = run.history.iter().filter_map(|event| match event.what {
            What::NodeCrashed { machine } => Some((event.at_us, machine)),
            _ => None,
        });
        assert_eq!(crashes.collect::<Vec<_>>(), [(1_000_000, false), (1_200_000, true)]);
    });
}

#[test]
fn a_crash_that_keeps_a_dead_node_down_for_longer_shows_when_the_first_is_over() {
    let faults =
        fault("process-crash", MASTER, 1_000, 500) + &fault("process-crash", MASTER, 1_200, 4_000);
    on_both(&faults, |run| {
        assert_eq!(starts(run, "redis-1"), [0, 5_200_000]);
        assert_eq!(shown(run), (vec![0, 1], vec![]));
        let stays = run.history.iter().find(|event| match &event.what {
            What::FaultTouched { fault, how } => *fault == 1 && how == "redis-1 stays down",
            _ => false,
        });
        assert_eq!(stays.map(|event| event.at_us), Some(1_500_000));
    });
}

#[test]
fn of_several_crashes_of_a_dead_node_only_one_that_is_alone_in_the_end_shows() {
    // (when each begins and ends, which show)
    let cases = [
        // The third ends before the second, and that before the first.
        ([(1_000, 6_000), (1_200, 4_000), (1_500, 2_000)], vec![0]),
        // Each ends before the next: at the first's end two hold, at the second's one.
        ([(1_000, 2_000), (1_200, 4_000), (1_500, 6_000)], vec![0, 2]),
        // Without the second, the first would hold the node down for as long as it does.
        ([(1_000, 6_000), (1_200, 4_000), (1_500, 7_000)], vec![0, 2]),
    ];
    for (crashes, shows) in cases {
        let faults: String = crashes
            .iter()
            .map(|(from_ms, to_ms)| fault("process-crash", MASTER, *from_ms, to_ms - from_ms))
            .collect();
        on_both(&faults, |run| assert_eq!(shown(run).0, shows, "{crashes:?}"));
    }
}

#[test]
fn a_pause_ends_with_its_program_and_leaves_the_next_pause_alone() {
    let faults = fault("pause", MASTER, 1_000, 3_000)
        + &fault("process-crash", MASTER, 1_500, 500)
        + &fault("pause", MASTER, 3_000, 3_000);
    on_both(&faults, |run| {
        assert_eq!(ends(run, 0), [1_500_000]);
        assert_eq!(ends(run, 2), [6_000_000]);
        let acts = acts(run, "redis-1");
        let during = |from_ms: u64, to_ms: u64| {
            acts.iter().any(|at| (from_ms * 1_000 + 2_000..to_ms * 1_000).contains(at))
        };
        assert!(!during(1_000, 2_000), "it stood still and was then dead: {acts:?}");
        assert!(during(2_000, 3_000), "what is started afterwards runs: {acts:?}");
        assert!(!during(3_000, 6_000), "the first pause's end is not the second's: {acts:?}");
    });
}

#[test]
fn a_pause_of_a_dead_program_is_inert_and_freezes_nobody() {
    let faults =
        fault("process-crash", MASTER, 1_000, 1_000) + &fault("pause", MASTER, 1_500, 5_000);
    on_both(&faults, |run| {
        assert_eq!(shown(run), (vec![0], vec![1]));
        let acts = acts(run, "redis-1");
        assert!(acts.iter().any(|at| (2_000_000..6_000_000).contains(at)), "{acts:?}");
    });
}

#[test]
fn slow_links_add_up_and_the_end_of_one_leaves_the_other() {
    let wide = "from = [\"app-1\", \"app-2\", \"app-3\"]\nto = [\"redis-1\"]\nextra = \"40ms\"";
    let narrow = "from = [\"redis-1\"]\nto = [\"app-1\"]\nextra = \"5ms\"";
    let faults = fault("slow-link", wide, 1_000, 6_900) + &fault("slow-link", narrow, 1_000, 2_200);
    on_both(&faults, |run| {
        assert_eq!(shown(run), (vec![0, 1], vec![]));
        let waits = |from_ms: u64, to_ms: u64| quickest_release_us(run, from_ms, to_ms);
        assert!(waits(1_050, 3_200) >= 90_000, "40 ms and 5 ms, both ways");
        let after = waits(3_250, 7_900);
        assert!((80_000..90_000).contains(&after), "40 ms both ways: {after}");
    });
}

#[test]
fn of_two_stalls_the_first_to_end_leaves_the_other_and_the_last_opens_the_gate() {
    let stalls = fault("replication-stall", MASTER, 1_000, 1_000)
        + &fault("replication-stall", MASTER, 1_500, 1_500);
    on_both(&stalls, |run| {
        let replicated = |from_us, to_us| {
            let replicated = run.history.iter().filter(|event| {
                matches!(event.what, What::RecordReplicated { .. })
                    && (from_us..to_us).contains(&event.at_us)
            });
            replicated.count()
        };
        assert!(replicated(0, 1_000_000) > 0);
        // What was on its way when the gate closed arrives.
        assert_eq!(replicated(1_050_000, 3_000_000), 0);
        assert!(replicated(3_000_000, 8_000_000) > 0);
    });
}

/// The shortest time between a release asked for by app-1 and its answer, µs.
fn quickest_release_us(run: &Run, from_ms: u64, to_ms: u64) -> u64 {
    let mut asked = None;
    let mut quickest = u64::MAX;
    for event in run.history.iter().filter(|event| &*event.node == "app-1") {
        match event.what {
            What::ReleaseInvoked { .. } if event.at_us >= from_ms * 1_000 => {
                asked = Some(event.at_us);
            }
            What::ReleaseReturned { .. } if event.at_us < to_ms * 1_000 => {
                if let Some(asked) = asked.take() {
                    quickest = quickest.min(event.at_us - asked);
                }
            }
            _ => {}
        }
    }
    quickest
}
