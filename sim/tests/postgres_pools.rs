//! What becomes of buyers who share connections: at a node, by a pool of few; before the
//! server, by a pooler in transaction mode?

use lockstorm::lock::Release;
use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::history::{AcquireOutcome, OrderAnswer, What};
use lockstorm_sim::plan::{Fence, Plan, Seed, scenario};
use lockstorm_sim::report::{block, json};
use lockstorm_sim::storm::connections::Connections;
use lockstorm_sim::storm::{self, Run};

fn plan(scenario: &str, lock: &str, settings: &[(&str, &str)]) -> Plan {
    let plan = scenario::default_plan(scenario, lock, Fence::Off).unwrap();
    Plan { seed: Seed(1), ..plan }.with_settings(settings).unwrap()
}

/// Sections of one length, so that what is measured is the wait.
const EVEN: (&str, &str) = ("workload.slow-per-mille", "0");

fn pooled_on(engine: &dyn Engine, settings: &[(&str, &str)]) -> Run {
    let run = storm::run(&plan("postgres-pool", "none", settings), engine);
    assert_eq!(run.judgement.violations().count(), 0, "{}", told(&run));
    run
}

fn pooled(settings: &[(&str, &str)]) -> Run {
    pooled_on(&EventEngine, settings)
}

/// Both engines. What is told of a run, and that it is the same again, is asked on one.
fn each_engine(check: impl Fn(&dyn Engine)) {
    check(&EventEngine);
    check(&Turmoil::default());
}

fn connections(run: &Run) -> Connections {
    run.connections.unwrap()
}

fn told(run: &Run) -> String {
    let found: Vec<String> = run.judgement.findings.iter().map(|one| one.sentence()).collect();
    format!("{} {:?} {:?} {found:#?}", run.judgement.verdict, run.ending.stuck, run.connections)
}

fn accepted(run: &Run) -> usize {
    let is_accepted =
        |what: &What| matches!(what, What::OrderReturned { answer: OrderAnswer::Accepted, .. });
    run.history.iter().filter(|event| is_accepted(&event.what)).count()
}

/// A buyer asks for a connection.
fn is_begun(what: &What) -> bool {
    matches!(what, What::AcquireReturned { outcome: AcquireOutcome::Granted { .. }, .. })
}

fn refusals(run: &Run) -> Vec<String> {
    let refusals = run.history.iter().filter_map(|event| match &event.what {
        What::Effect { refusal: Some(why), .. } => Some(why.to_string()),
        _ => None,
    });
    refusals.collect()
}

#[test]
fn waiters_of_a_hot_row_use_the_pool_up_and_everybody_else_waits_for_a_connection() {
    each_engine(|engine| {
        let few = pooled_on(engine, &[EVEN]);
        let many = pooled_on(engine, &[EVEN, ("workload.pool", "8")]);
        assert_eq!(few.judgement.verdict, Verdict::Safe, "{}", told(&few));
        let (of_few, of_many) = (connections(&few), connections(&many));
        // Four at each of three clients: one has the row, eleven wait for it with a connection.
        assert_eq!((of_few.pool, of_few.peak_lent), (4, 4), "{of_few:?}");
        assert_eq!((of_many.pool, of_many.peak_lent), (8, 8), "{of_many:?}");
        assert!(of_few.peak_sessions >= 12 && of_few.refused == 0, "{of_few:?}");
        assert!(of_few.waits.median_us > 100_000, "{of_few:?}");
        assert!(of_many.waits.median_us < 10_000, "{of_many:?}");
        // More connections let more wait for the row, which is held one after another all the
        // same.
        let (sold_by_few, sold_by_many) = (accepted(&few), accepted(&many));
        assert!(sold_by_few * 10 > sold_by_many * 9, "{sold_by_few} {sold_by_many}");
    });
}

#[test]
fn a_buyer_whose_patience_is_short_gets_no_connection_at_all() {
    each_engine(|engine| {
        let run = pooled_on(engine, &[EVEN, ("workload.patience", "200ms")]);
        let connections = connections(&run);
        assert!(connections.given_up > 0, "{connections:?}");
        // What is waited for in vain is counted apart. A timer ends with a tick.
        assert!(connections.waits.most_us <= 201_000, "{connections:?}");
        assert_eq!(connections.failed, 0, "{connections:?}");
    });
}

#[test]
fn pools_that_are_larger_together_than_the_server_are_refused_connections() {
    each_engine(|engine| {
        let run = pooled_on(engine, &[EVEN, ("topology.max-connections", "10")]);
        let connections = connections(&run);
        assert_eq!(connections.peak_sessions, 10, "{connections:?}");
        assert!(connections.refused > 0, "{connections:?}");
        // Each is somebody's who has got none at once, and has not waited for one.
        assert_eq!(connections.failed, connections.refused, "{connections:?}");
        let lent = run.history.iter().filter(|event| is_begun(&event.what)).count();
        let had = connections.waits.count as u64 + connections.failed + connections.given_up;
        assert_eq!(had, lent as u64, "{connections:?}");
        let too_many = "53300 sorry, too many clients already";
        let refused = refusals(&run).iter().filter(|why| *why == too_many).count();
        assert!(refused > 0, "{:?}", refusals(&run).first());
        assert!(accepted(&run) > 50, "{}", accepted(&run));
    });
}

#[test]
fn what_was_measured_is_told_in_text_and_json() {
    let run = pooled(&[EVEN]);
    let reproduce = "lockstorm run";
    let failure = block::Failure {
        run: &run,
        position: None,
        repetition: None,
        confirmation: None,
        reproduce,
    };
    let text = block::failure_block(&failure);
    assert!(text.contains("at most 4 of a pool's 4 lent"), "{text}");
    assert!(text.contains("refused (53300)"), "{text}");
    let told: serde_json::Value = serde_json::from_str(&json::run_json(&failure)).unwrap();
    let connections = connections(&run);
    assert_eq!(told["connections"]["peak-lent"], 4);
    assert_eq!(told["connections"]["peak-sessions"], connections.peak_sessions);
    assert_eq!(told["connections"]["waits"]["median-us"], connections.waits.median_us);
    assert_eq!(told["connections"]["failed"], 0);
    // Readers look each field up.
    let table = include_str!("../src/report/json.rs").lines();
    let row = table.into_iter().find(|line| line.starts_with("//! | `connections` |")).unwrap();
    for fields in [&told["connections"], &told["connections"]["waits"]] {
        for name in fields.as_object().unwrap().keys() {
            assert!(row.contains(&format!("`{name}`")), "{name}");
        }
    }
    let unpooled = storm::run(&plan("postgres-single", "pg-conditional", &[]), &EventEngine);
    let told = json::run_json(&block::Failure { run: &unpooled, ..failure });
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(told["connections"].is_null());
}

/// The statements that the pool prepares are numbered on through the whole process.
#[test]
fn prepared_statements_do_not_show_in_a_trace() {
    let [first, again] = [(); 2].map(|()| pooled(&[("duration", "3s")]));
    assert_eq!(first.trace_hash, again.trace_hash);
    assert_eq!(first.connections, again.connections);
}

/// The plan with these faults: kind, node, when, for how long.
fn with_faults(plan: &Plan, faults: &[(&str, &str, &str, &str)]) -> Plan {
    let mut text = lockstorm_sim::plan::file::write(plan);
    for (kind, node, at, lasts) in faults {
        text += &format!(
            "\n[[fault]]\nkind = \"{kind}\"\nnode = \"{node}\"\nat = \"{at}\"\nfor = \"{lasts}\"\n"
        );
    }
    lockstorm_sim::plan::file::parse("the test's plan", &text).unwrap()
}

/// Whether somebody bought after this time.
fn sold_after(run: &Run, at_us: u64) -> bool {
    run.history.iter().any(|event| {
        let is_accepted =
            matches!(event.what, What::OrderReturned { answer: OrderAnswer::Accepted, .. });
        is_accepted && event.at_us > at_us
    })
}

/// A pool whose buyers' node dies, and whose server restarts.
#[test]
fn a_pool_outlives_its_server() {
    let plan = plan("postgres-pool", "none", &[EVEN]);
    let faults =
        [("process-crash", "pg-1", "1s", "500ms"), ("process-crash", "app-2", "3s", "500ms")];
    on_each(&with_faults(&plan, &faults), |run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        assert!(sold_after(run, 5_000_000), "{}", told(run));
        assert!(connections(run).failed > 0, "{:?}", run.connections);
    });
}

/// The pool's own tasks stand still with its node.
#[test]
fn clients_are_paused_in_the_middle_of_their_sales() {
    let pauses = ["1s", "3s", "5s"].into_iter().zip(["app-1", "app-2", "app-3"]);
    let pauses: Vec<_> = pauses.map(|(at, node)| ("pause", node, at, "1s")).collect();
    let plan = with_faults(&plan("postgres-pool", "none", &[EVEN]), &pauses);
    on_each(&plan, |run| {
        assert!(!run.ending.not_expressible, "{}", told(run));
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        assert!(run.judgement.goals.inert.is_empty(), "{}", told(run));
        assert!(sold_after(run, 6_500_000), "{}", told(run));
        // Nothing is done at the node meanwhile, and sales that had begun go on afterwards.
        let is_sale =
            |what: &What| matches!(what, What::AcquireReturned { .. } | What::OrderReturned { .. });
        for (at_us, node) in [(1_000_000, "app-1"), (3_000_000, "app-2"), (5_000_000, "app-3")] {
            let done = |from, to| {
                let of_node = run.history.iter().filter(move |event| *event.node == *node);
                of_node
                    .filter(move |event| (from..to).contains(&event.at_us) && is_sale(&event.what))
            };
            assert_eq!(done(at_us + 5_000, at_us + 995_000).count(), 0, "{node}");
            let begun: Vec<String> = done(0, at_us)
                .filter_map(|event| match &event.what {
                    What::AcquireReturned { attempt, .. } => Some(attempt.to_string()),
                    _ => None,
                })
                .collect();
            let is_of_begun = |what: &What| match what {
                What::OrderReturned { order, .. } => begun.iter().any(|one| **one == **order),
                _ => false,
            };
            let ended = done(at_us + 995_000, at_us + 5_000_000);
            let ended = ended.filter(|event| is_of_begun(&event.what));
            assert!(ended.count() > 0, "{node}");
        }
    });
}

fn on_each(plan: &Plan, check: impl Fn(&Run)) {
    each_engine(|engine| check(&storm::run(plan, engine)));
}

#[test]
fn a_lock_of_a_session_behind_a_pooler_is_everybodys() {
    on_each(&plan("postgres-pooler", "pg-advisory", &[]), |run| {
        let judgement = &run.judgement;
        assert!(judgement.has_violation(Kind::DoubleGrant), "{}", told(run));
        assert!(judgement.has_violation(Kind::Oversell), "{}", told(run));
        // Each owner's hold is told of, and its end.
        let count = |is: fn(&What) -> bool| run.history.iter().filter(|one| is(&one.what)).count();
        let given_back =
            count(|what| matches!(what, What::ReleaseReturned { release: Release::Released, .. }));
        let ended = count(|what| matches!(what, What::RecordReleased { .. }));
        assert!(ended >= given_back && given_back > 0, "{ended} {given_back}");
    });
    // The same lock, the same storm, and a session for each client.
    on_each(&plan("postgres-single", "pg-advisory", &[]), |run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
    });
}

#[test]
fn what_a_transaction_holds_a_pooler_leaves_alone() {
    for lock in ["pg-advisory-xact", "pg-for-update", "pg-nowait", "pg-lock-table"] {
        on_each(&plan("postgres-pooler", lock, &[]), |run| {
            assert_eq!(run.judgement.verdict, Verdict::Safe, "{lock}: {}", told(run));
        });
    }
    let sold = plan("postgres-pooler", "pg-optimistic", &[("workload.units", "20")]);
    on_each(&sold, |run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        assert_eq!(accepted(run), 20);
    });
}

/// Whoever has a session through the pooler loses it with the pooler, and what it held with it.
#[test]
fn a_pooler_dies_or_stands_still() {
    for lock in ["pg-advisory-xact", "pg-lock-table"] {
        let plan = plan("postgres-pooler", lock, &[]);
        for (kind, lasts) in [("process-crash", "500ms"), ("machine-crash", "1s"), ("pause", "1s")]
        {
            let plan = with_faults(&plan, &[(kind, "pooler-1", "2s", lasts)]);
            on_each(&plan, |run| {
                assert_eq!(run.judgement.verdict, Verdict::Safe, "{lock} {kind}: {}", told(run));
                assert!(sold_after(run, 5_000_000), "{lock} {kind}: {}", told(run));
            });
        }
    }
}

/// They have no other connection: whom a drawn fault parts from the database, it strikes.
#[test]
fn clients_are_parted_from_the_pooler() {
    for lock in ["pg-advisory-xact", "pg-lock-table"] {
        let base = plan("postgres-pooler", lock, &[]);
        for family in ["holder-cut-off", "one-way-cut", "slow-link", "reply-lost"] {
            for seed in 1..=3 {
                let plan = Plan::struck_by(base.clone(), family, Seed(seed)).unwrap();
                let is_safe = |run: &Run| {
                    let what = format!("{lock} {family} {seed}: {}", told(run));
                    assert_eq!(run.judgement.verdict, Verdict::Safe, "{what}");
                };
                is_safe(&storm::run(&plan, &EventEngine));
                let turmoil = Turmoil::default();
                match turmoil.cannot_express(&plan) {
                    None => is_safe(&storm::run(&plan, &turmoil)),
                    // The one family that needs a means which turmoil has not (docs/engines.md).
                    Some(_) => assert_eq!(family, "one-way-cut"),
                }
            }
        }
    }
}

/// A pooler that may have more sessions than its server takes: who waits gets what there is.
#[test]
fn a_pooler_is_refused_connections() {
    let few = [("topology.max-connections", "2"), ("topology.pooler", "4")];
    let plan = plan("postgres-pooler", "pg-lock-table", &few);
    on_each(&plan, |run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        assert!(accepted(run) > 20, "{}", accepted(run));
    });
}
