//! What people read, as snapshots over histories written by hand, and the rules that
//! every text keeps.

use crate::check::Verdict;
use crate::engine::Engine;
use crate::engine::event::EventEngine;
use crate::engine::turmoil::Turmoil;
use crate::hunt::Summary;
use crate::plan::{ClockPlan, Fence, Plan, Seed, file, scenario};
use crate::report::block::{Failure, failure_block_in};
use crate::report::demonstration::{Shown, demonstration};
use crate::report::layout::{WIDTH, width};
use crate::report::manner::{Build, Charset, Manner, Style};
use crate::report::story::{Mark, Story, most_steps};
use crate::report::subject::Subject;
use crate::report::table::{Tally, summary_in};
use crate::report::{json, sample};
use crate::storm::confirm::Confirmation;
use crate::storm::repeat::{Difference, Repetition};
use crate::storm::{self, Run};

const REPRODUCE: &str = "LOCKSTORM_SEED=0x5eed00000000002a cargo test survives_failover";

/// The same on every machine.
fn manner(charset: Charset) -> Manner {
    let build = Build {
        version: "0.1.0",
        profile: "debug",
        arch: "x86_64",
        os: "linux",
        tokio_unstable: true,
        interposer: Some(true),
    };
    Manner { build, ..Manner::of(charset) }
}

fn failure<'a>(
    run: &'a Run,
    repetition: &'a Repetition,
    confirmation: Option<&'a Confirmation>,
) -> Failure<'a> {
    let position = Some((1_207, 2_000));
    Failure { run, position, repetition: Some(repetition), confirmation, reproduce: REPRODUCE }
}

fn block(run: &Run, charset: Charset) -> String {
    let confirmed = Confirmation::Confirmed { tries: 1 };
    let confirmation = (run.judgement.verdict == Verdict::Violation).then_some(&confirmed);
    failure_block_in(&failure(run, &Repetition::FreshProcess, confirmation), &manner(charset))
}

fn not_run() -> Run {
    let clause = "a one-way cut that delivers after the heal";
    let mut run = sample::not_judged(Verdict::NotExpressible, clause);
    (run.engine, run.engine_name) = ("turmoil 0.7.2", "turmoil");
    run.ending.steps = 0;
    run
}

fn broken() -> Run {
    let why = "panicked: index out of bounds: the len is 3 but the index is 3";
    sample::not_judged(Verdict::Internal, why)
}

#[test]
fn a_lock_lost_to_replication_lag() {
    insta::assert_snapshot!(block(&sample::replication_lag(), Charset::Unicode));
}

#[test]
fn what_a_build_lacks_is_told_with_what_it_would_add() {
    let (run, repetition) = (sample::replication_lag(), Repetition::FreshProcess);
    let lines = |tokio_unstable, interposer| {
        let manner = manner(Charset::Unicode);
        let build = Build { tokio_unstable, interposer, ..manner.build };
        let text = failure_block_in(&failure(&run, &repetition, None), &Manner { build, ..manner });
        let lines = text.lines().skip_while(|line| !line.starts_with("  without"));
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(lines(true, Some(true)), "");
    assert_eq!(lines(true, None), "", "nobody has looked");
    insta::assert_snapshot!(lines(false, Some(false)));
}

#[test]
fn the_same_in_ascii() {
    let text = block(&sample::replication_lag(), Charset::Ascii);
    assert!(text.is_ascii());
    insta::assert_snapshot!(text);
}

#[test]
fn the_same_behind_a_fence() {
    insta::assert_snapshot!(block(&sample::replication_lag_fenced(), Charset::Unicode));
}

#[test]
fn a_pause_beyond_the_lease() {
    let run = sample::pause_beyond_the_lease();
    let why = "the test's name is not known".to_owned();
    let repetition = Repetition::FreshThread { why };
    let confirmation = Confirmation::NotConfirmed { instead: Verdict::Safe };
    let failure = failure(&run, &repetition, Some(&confirmation));
    insta::assert_snapshot!(failure_block_in(&failure, &manner(Charset::Unicode)));
}

#[test]
fn a_fast_clock_and_a_leak() {
    let blocks = [sample::fast_clock(), sample::leak()].map(|run| block(&run, Charset::Unicode));
    insta::assert_snapshot!(blocks.join("\n\n"));
}

#[test]
fn two_runs_that_differ() {
    let run = sample::replication_lag();
    let event = |at_us: u64| {
        format!(
            "{{\"id\":812,\"at-us\":{at_us},\"node\":\"redis-2\",\"what\":\"record-set\",\"key\":\
             \"lock:sku-42\",\"owner\":\"app-2/2\",\"lease-us\":5000000}}"
        )
    };
    let (was, is) = (Some(event(3_310_010)), Some(event(3_310_011)));
    let known = Repetition::Differs { first: Some(Difference { event: 812, was, is }) };
    let shorter = Repetition::Differs {
        first: Some(Difference { event: 812, was: Some(event(3_310_010)), is: None }),
    };
    let within = Repetition::Differs { first: None };
    let blocks = [known, shorter, within]
        .map(|how| failure_block_in(&failure(&run, &how, None), &manner(Charset::Unicode)));
    for block in &blocks {
        assert!(!block.contains("What happened"), "no story of a run that cannot be trusted");
    }
    insta::assert_snapshot!(blocks.join("\n\n"));
}

#[test]
fn runs_that_say_nothing() {
    let blocks = [sample::inert(), sample::unknown(), not_run(), broken(), sample::safe()]
        .map(|run| block(&run, Charset::Unicode));
    insta::assert_snapshot!(blocks.join("\n\n"));
}

/// Whatever ended them, what can be done about it is told once.
#[test]
fn programs_that_ended_by_themselves() {
    insta::assert_snapshot!(block(&sample::ended(), Charset::Unicode));
}

/// Only an engine that can do more is a mend for what an engine cannot do.
#[test]
fn what_cannot_be_expressed_is_told_with_a_mend_that_helps() {
    let mut plan = scenario::default_plan("zookeeper-three", "zookeeper", Fence::Off).unwrap();
    plan.seed = Seed(0x5eed_0000_0000_002a);
    // No interposer is linked to this test.
    let senseless =
        [&EventEngine as &dyn Engine, &Turmoil::default()].map(|engine| storm::run(&plan, engine));
    let clause = "a pause of app-1, where a task spawned past its host at src/lock.rs:12:9 runs on";
    let mut strangers = sample::not_judged(Verdict::NotExpressible, clause);
    strangers.ending.steps = 812;
    let [one, other] = senseless;
    let blocks = [one, other, strangers].map(|run| block(&run, Charset::Unicode));
    insta::assert_snapshot!(blocks.join("\n\n"));
}

#[test]
fn the_demonstration() {
    let (bare, fenced) = (sample::replication_lag(), sample::replication_lag_fenced());
    let confirmed = Confirmation::Confirmed { tries: 1 };
    let confirmation = Some(&confirmed);
    let text = |charset| {
        demonstration(
            &Shown { run: &bare, confirmation },
            &Shown { run: &fenced, confirmation },
            &[
                ("lockstorm hunt --seeds 200", "find such a storm among fresh seeds"),
                ("lockstorm run --seed 0x5eed00000000002a", "run this one again"),
                ("cargo test", "the same as tests"),
            ],
            &manner(charset),
        )
    };
    assert!(text(Charset::Ascii).is_ascii());
    let text = text(Charset::Unicode);
    assert!(text.lines().count() <= 60, "{}", text.lines().count());
    insta::assert_snapshot!(text);
}

#[test]
fn a_run_as_json() {
    let run = sample::replication_lag();
    let confirmation = Confirmation::Confirmed { tries: 2 };
    let failure = failure(&run, &Repetition::FreshProcess, Some(&confirmation));
    insta::assert_snapshot!(json::run_json(&failure));
}

#[test]
fn json_tells_which_timers_did_not_follow_a_nodes_clock() {
    let timers = |run: &Run| {
        json::run_value(&failure(run, &Repetition::FreshProcess, None))["timers"].clone()
    };
    let mut run = sample::replication_lag();
    run.plan.clocks.clear();
    assert_eq!(timers(&run), serde_json::Value::Null);
    let node = "app-2".to_owned();
    run.plan.clocks.push(ClockPlan { node, offset_us: 0, rate_ppm: 50_000 });
    let redis = serde_json::json!({ "library": "redis", "set": [] });
    let expected = serde_json::json!({ "nodes": ["app-2"], "libraries": [redis] });
    assert_eq!(timers(&run), expected);
}

#[test]
fn json_of_a_run_that_differs_says_so_and_tells_no_story() {
    let run = sample::replication_lag();
    let differs = Repetition::Differs { first: None };
    let value = json::run_value(&failure(&run, &differs, None));
    assert_eq!(value["verdict"], "nondeterminism");
    assert_eq!(value["exit-code"], 3);
    assert_eq!(value["story"], serde_json::json!([]));
    assert_eq!(value["repetition"]["how"], "differs");
}

#[test]
fn json_of_a_hunt_counts_and_holds_its_failures() {
    let quarry = crate::hunt::Quarry::new("redis-failover", "redis", crate::plan::Fence::Off);
    let run = sample::replication_lag();
    let summaries = hunt(&[(sample::safe(), 40), (sample::replication_lag(), 1)]);
    let of = |repetition: &Repetition| {
        let failures = vec![json::run_value(&failure(&run, repetition, None))];
        let tally = Tally::of(&summaries);
        let text = json::hunt_json(&quarry, tally, "aaaa".to_owned(), failures, &[]);
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let value = of(&Repetition::FreshProcess);
    assert_eq!(value["verdict"], "violation");
    assert_eq!(value["exit-code"], 1);
    assert_eq!(value["tally"]["runs"], 41);
    assert_eq!(value["tally"]["violations"]["double-grant"], 1);
    assert_eq!(value["bound"], serde_json::Value::Null);
    assert_eq!(value["failures"][0]["seed"], "0x5eed00000000002a");
    let value = of(&Repetition::Differs { first: None });
    assert_eq!(value["verdict"], "nondeterminism");
}

#[test]
fn the_plan_in_json_is_the_plan() {
    let run = sample::pause_beyond_the_lease();
    let value = json::run_value(&failure(&run, &Repetition::FreshProcess, None));
    let text = value["plan"].as_str().unwrap();
    assert_eq!(crate::plan::file::parse("plan", text).unwrap(), run.plan);
}

#[test]
fn commands_of_redis_are_told_of_locks_in_redis_only() {
    let mut run = sample::replication_lag();
    run.plan.lock.name = "none".to_owned();
    let text = block(&run, Charset::Unicode);
    assert!(!text.contains("SET ") && !text.contains("DEL "), "{text}");
}

/// So many of each.
fn hunt(runs: &[(Run, usize)]) -> Vec<Summary> {
    let summaries = runs.iter().flat_map(|(run, count)| vec![Summary::of(run); *count]);
    summaries.collect()
}

#[test]
fn tables_of_hunts() {
    let found = hunt(&[
        (sample::safe(), 1_861),
        (sample::replication_lag(), 97),
        (sample::pause_beyond_the_lease(), 40),
        (sample::inert(), 2),
    ]);
    let clean = hunt(&[(sample::safe(), 1_200), (sample::replication_lag_fenced(), 800)]);
    let confirmations = [
        Confirmation::Confirmed { tries: 1 },
        Confirmation::Confirmed { tries: 3 },
        Confirmation::NotExpressible { clause: "a one-way cut".to_owned() },
    ];
    let confirmations = || confirmations.iter().map(Some).chain([None]);
    let texts = [
        summary_in(&found, confirmations(), &manner(Charset::Unicode)),
        summary_in(&found, confirmations(), &manner(Charset::Ascii)),
        summary_in(&clean, [], &manner(Charset::Unicode)),
        Tally::of(&found).line("event 0.1.0"),
        Tally::of(&clean).line("event 0.1.0"),
        Tally::of(&hunt(&[(sample::safe(), 50)])).line("event 0.1.0"),
    ];
    assert!(texts[1].is_ascii());
    insta::assert_snapshot!(texts.join("\n\n---\n\n"));
}

#[test]
fn only_a_clean_and_conclusive_campaign_proves_a_bound() {
    let bound = |runs: &[(Run, usize)]| Tally::of(&hunt(runs)).bound();
    assert_eq!(
        bound(&[(sample::safe(), 2_000)]).unwrap(),
        "0 of 2,000 failed: at 95 % fewer than 1 in 667 seeds of this storm fail"
    );
    // Drawn plans that touched nothing are not part of it.
    assert_eq!(
        bound(&[(sample::safe(), 2_000), (sample::inert(), 3)]),
        bound(&[(sample::safe(), 2_000)])
    );
    assert_eq!(bound(&[(sample::safe(), 5)]), None, "too few");
    assert_eq!(bound(&[(sample::safe(), 2_000), (sample::pause_beyond_the_lease(), 1)]), None);
    assert_eq!(bound(&[(sample::safe(), 2_000), (sample::unknown(), 1)]), None);
}

/// Every sample that has a story.
fn stories() -> Vec<(Run, Story)> {
    let runs = [
        sample::replication_lag(),
        sample::replication_lag_fenced(),
        sample::pause_beyond_the_lease(),
    ];
    let told = runs.into_iter().map(|run| {
        let subject = Subject::of(&run.history, &run.judgement).unwrap();
        let story = Story::of(&run.history, &run.plan, &subject);
        (run, story)
    });
    told.collect()
}

#[test]
fn stories_are_short_and_in_order_and_say_what_is_wrong() {
    for (_, story) in stories() {
        assert!((4..=most_steps(0, 0)).contains(&story.steps.len()), "{story:#?}");
        assert!(story.steps.is_sorted_by_key(|step| (step.at_us, step.event)));
        let marks = |mark| story.steps.iter().filter(|step| step.mark == mark).count();
        assert!(marks(Mark::Wrong) >= 1 && marks(Mark::Fault) >= 1, "{story:#?}");
    }
}

#[test]
fn strangers_are_no_part_of_a_story() {
    for (_, story) in stories() {
        let told = format!("{story:?}");
        assert!(!told.contains("app-3/1") && !told.contains("app-1/2"), "{told}");
    }
}

/// A pause of the first holder is what `explain` finds decisive here; nothing is blamed on it.
#[test]
fn what_met_a_holder_meanwhile_is_told() {
    let plan = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(2)).unwrap();
    let run = storm::run(&plan, &EventEngine);
    let subject = Subject::of(&run.history, &run.judgement).unwrap();
    let story = Story::of(&run.history, &run.plan, &subject);
    insta::assert_snapshot!(story.lines(&manner(Charset::Unicode)).join("\n"));
}

/// A server that keeps nothing has a disk that nothing happens to.
#[test]
fn a_fault_of_a_disk_that_nothing_is_kept_on_is_told_as_that() {
    let told = |node: &str, persistence: &str| {
        let text = format!(
            "schema = 1\nscenario = \"redis-single\"\nduration = \"6s\"\n[topology]\n\
             redis-persistence = \"{persistence}\"\n[[fault]]\nkind = \"disk-stall\"\n\
             node = \"{node}\"\nat = \"1s\"\nfor = \"3s\"\n"
        );
        let run = storm::run(&file::parse("plan.toml", &text).unwrap(), &EventEngine);
        let text = block(&run, Charset::Unicode);
        let lines = text.lines().skip_while(|line| !line.contains("fault 0: "));
        lines.take_while(|line| !line.contains("Repeated")).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!([told("redis-1", "none"), told("app-1", "none")].join("\n\n"));
    // One that did something is told by what it did.
    let met = told("redis-1", "aof-always");
    assert_eq!(met, "  fault 0: redis-1's disk completes nothing; redis-1 waited for its disk\n");
}

/// The command that is proposed is that of the run, and works when it is copied.
#[test]
fn what_is_tried_is_a_command() {
    let run = sample::replication_lag();
    let tried = |reproduce: &str| {
        let failure = Failure { reproduce, ..failure(&run, &Repetition::FreshProcess, None) };
        let text = failure_block_in(&failure, &manner(Charset::Unicode));
        let line = text.lines().find(|line| line.starts_with("  Try it"));
        line.map_or_else(|| format!("{reproduce}: nothing"), ToOwned::to_owned)
    };
    let commands = [
        "lockstorm run --scenario redis-failover --lock redis --fence off --seed 0x2 --calm",
        "cargo run -- run --scenario redis-failover --lock redis --fence write --seed 0x2",
        "lockstorm replay 'my plan.toml' --set duration=3s",
        "cargo run -- run --plan plan.toml",
        "lockstorm replay storm1:dYwx",
        "lockstorm lesson run replication-lag",
        REPRODUCE,
    ];
    insta::assert_snapshot!(commands.map(tried).join("\n"));
}

#[test]
fn every_block_fits_a_screen_and_ends_with_its_command() {
    let runs = [
        sample::replication_lag(),
        sample::replication_lag_fenced(),
        sample::pause_beyond_the_lease(),
        sample::fast_clock(),
        sample::leak(),
        sample::inert(),
        sample::unknown(),
        not_run(),
        broken(),
    ];
    for run in runs {
        for charset in [Charset::Unicode, Charset::Ascii] {
            let text = block(&run, charset);
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() <= 40, "{} lines:\n{text}", lines.len());
            let command = lines[lines.len() - 2];
            assert!(command.starts_with("  Reproduce") && command.ends_with(REPRODUCE), "{text}");
            assert!(!text.contains('\u{1b}'), "no colours unless asked for");
            for line in lines {
                assert!(
                    width(line) <= WIDTH || line.starts_with("  first run") || line == command,
                    "{} cells: {line}",
                    width(line)
                );
                assert_eq!(line, line.trim_end());
            }
        }
    }
}

#[test]
fn a_narrow_terminal_gets_narrow_lines_and_whole_commands() {
    let runs = [sample::replication_lag(), sample::replication_lag_fenced(), sample::inert()];
    for run in runs {
        for columns in [20, 60, 72, 80, 200] {
            let manner = manner(Charset::Unicode).within(columns);
            let text = failure_block_in(&failure(&run, &Repetition::FreshProcess, None), &manner);
            for line in text.lines().filter(|line| !line.starts_with("  Reproduce")) {
                let is_one_word = !line.trim().contains(' ');
                let fits = width(line) <= columns.clamp(60, WIDTH);
                assert!(fits || is_one_word, "{} cells: {line}", width(line));
            }
            assert!(text.contains(REPRODUCE));
            if run.judgement.verdict == Verdict::Violation {
                assert!(text.contains("SET lock:sku-42 app-2/2 NX PX 5000"), "{text}");
                assert!(text.contains("--fence full,"), "{text}");
            }
        }
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    let run = sample::replication_lag();
    let failure = failure(&run, &Repetition::FreshProcess, None);
    let plain = failure_block_in(&failure, &manner(Charset::Unicode));
    let coloured = manner(Charset::Unicode).styled(Style::Coloured);
    let coloured = failure_block_in(&failure, &coloured);
    assert_ne!(plain, coloured);
    let mut stripped = String::new();
    let mut is_escape = false;
    for character in coloured.chars() {
        match character {
            '\u{1b}' => is_escape = true,
            'm' if is_escape => is_escape = false,
            _ if is_escape => {}
            other => stripped.push(other),
        }
    }
    assert_eq!(plain, stripped);
}
