//! How wrong may a Redis server's clock be before a lease of an hour breaks? And what do
//! clocks do that are frozen, slewed, or struck by several faults at once?

use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::history::What;
use lockstorm_sim::plan::{Fence, file};
use lockstorm_sim::report::{Failure, failure_block};
use lockstorm_sim::storm::{self, Run};

fn run(text: &str, fence: Fence) -> Run {
    let mut plan = file::parse("the test's plan", text).unwrap_or_else(|error| panic!("{error}"));
    plan.fence = fence;
    storm::run(&plan, &EventEngine)
}

/// Two clients; sections of about 59 minutes under a lease of an hour.
const HOUR: &str = r#"
schema = 1
scenario = "redis-long-lease"
seed = "0x1"
duration = "6h"

[workload]
think = "1m"
slow-per-mille = 1000
slow-work = "70m"
deadline-check = false

[[clock]]
node = "redis-1"
rate = "+5%"
"#;

#[test]
fn five_percent_fast_an_hour_ends_three_minutes_early() {
    let run = run(HOUR, Fence::Off);
    assert!(run.judgement.kinds().contains(&Kind::GrantLost), "{:#?}", run.judgement);
    assert!(run.judgement.has_violation(Kind::DoubleGrant), "{:#?}", run.judgement);
    assert!(run.judgement.has_violation(Kind::EffectInterleaved), "{:#?}", run.judgement);
}

#[test]
fn fully_fenced_it_ends_early_and_harms_nobody() {
    let run = run(HOUR, Fence::Full);
    assert!(run.judgement.kinds().contains(&Kind::DoubleGrant), "{:#?}", run.judgement);
    assert_eq!(run.judgement.verdict, Verdict::SafeByFence, "{:#?}", run.judgement);
}

#[test]
fn five_hundred_ppm_are_within_a_margin_of_one_percent() {
    let text = r#"
schema = 1
scenario = "redis-single"
seed = "0x1"
duration = "60s"

[lock]
lease = "10s"
margin = "1%"

[topology]
apps = 2

[workload]
slow-per-mille = 500
slow-work = "9s"
patience = "30s"

[[clock]]
node = "redis-1"
rate = "+500ppm"
"#;
    let run = run(text, Fence::Off);
    assert!(!run.judgement.kinds().contains(&Kind::GrantLost), "{:#?}", run.judgement);
    assert_eq!(run.judgement.verdict, Verdict::Safe, "{:#?}", run.judgement);
}

/// Two clients, a lease of a second, sections that outlast it: records expire.
const EXPIRING: &str = r#"
schema = 1
scenario = "redis-single"
seed = "0x1"
duration = "8s"

[lock]
lease = "1s"

[topology]
apps = 2

[workload]
slow-per-mille = 1000
slow-work = "8s"
patience = "10s"
"#;

fn on_both(text: &str, check: impl Fn(&Run)) {
    let plan = file::parse("the test's plan", text).unwrap_or_else(|error| panic!("{error}"));
    for engine in [&EventEngine as &dyn Engine, &Turmoil::default()] {
        let run = storm::run(&plan, engine);
        assert_eq!(run.ending.stuck, None, "{}", run.engine);
        check(&run);
    }
}

/// How the clocks of nodes changed: when, ms, whose, offset, µs, rate, ppm.
fn changes(run: &Run) -> Vec<(u64, &str, i64, i64)> {
    let changes = run.history.iter().filter_map(|event| match event.what {
        What::ClockChanged { offset_us, rate_ppm } => {
            Some((event.at_us / 1_000, &*event.node, offset_us, rate_ppm))
        }
        _ => None,
    });
    changes.collect()
}

fn expiries_ms(run: &Run) -> Vec<u64> {
    let expiries =
        run.history.iter().filter(|event| matches!(event.what, What::RecordExpired { .. }));
    expiries.map(|event| event.at_us / 1_000).collect()
}

#[test]
fn nothing_expires_on_a_wall_clock_that_stands_still_until_it_is_right_again() {
    let freeze =
        "[[fault]]\nkind = \"clock-freeze\"\nnode = \"redis-1\"\nat = \"1s\"\nfor = \"3s\"\n";
    on_both(EXPIRING, |run| {
        let expiries = expiries_ms(run);
        assert!(expiries.iter().any(|at| (1_000..2_000).contains(at)), "calm: {expiries:?}");
        assert_eq!(changes(run), [], "nobody's clock changed");
    });
    on_both(&format!("{EXPIRING}{freeze}"), |run| {
        let expiries = expiries_ms(run);
        assert!(expiries[0] >= 4_000 && expiries[0] < 4_200, "{}: {expiries:?}", run.engine);
        assert_eq!(changes(run), [(1_000, "redis-1", 0, -1_000_000), (4_000, "redis-1", 0, 0)]);
        assert_eq!(run.judgement.goals.touched, [0]);
    });
}

#[test]
fn a_slew_lasts_until_its_amount_is_gained_and_keeps_it() {
    for (by, offset_us, rate_ppm) in [("+250ms", 250_000, 100_000), ("-250ms", -250_000, -100_000)]
    {
        let slew = format!(
            "[[fault]]\nkind = \"clock-slew\"\nnode = \"redis-1\"\nby = \"{by}\"\nrate = \"10%\"\nat \
             = \"1s\"\n"
        );
        on_both(&format!("{EXPIRING}{slew}"), |run| {
            assert_eq!(
                changes(run),
                [(1_000, "redis-1", 0, rate_ppm), (3_500, "redis-1", offset_us, 0)]
            );
            assert_eq!(run.judgement.goals.touched, [0]);
            let ended = run.history.iter().find(|e| matches!(e.what, What::FaultEnded { .. }));
            assert_eq!(ended.unwrap().at_us, 3_500_000);
        });
    }
}

#[test]
fn what_clocks_do_follows_from_all_faults_at_work() {
    let text = format!(
        r#"{EXPIRING}
[[clock]]
node = "redis-1"
rate = "+1%"
offset = "-1s"

[[fault]]
kind = "clock-slew"
node = "redis-1"
by = "+100ms"
rate = "5%"
at = "1s"

[[fault]]
kind = "clock-rate"
node = "redis-1"
rate = "-2%"
at = "2s"
for = "3s"

[[fault]]
kind = "clock-freeze"
node = "redis-1"
at = "4s"
for = "2s"

[[fault]]
kind = "clock-step"
node = "redis-1"
by = "+500ms"
at = "4500ms"
for = "2500ms"
"#
    );
    on_both(&text, |run| {
        assert_eq!(
            changes(run),
            [
                (0, "redis-1", -1_000_000, 10_000),
                (1_000, "redis-1", -990_000, 60_000),
                // The slew adds to whatever rate there is.
                (2_000, "redis-1", -930_000, 30_000),
                (3_000, "redis-1", -900_000, -20_000),
                (4_000, "redis-1", -920_000, -1_000_000),
                // It shows half a second more, and stands still.
                (4_500, "redis-1", -920_000, -1_000_000),
                // Its oscillator has its own rate again, and it still stands still.
                (5_000, "redis-1", -1_420_000, -1_000_000),
                (6_000, "redis-1", -430_000, 10_000),
                (7_000, "redis-1", -920_000, 10_000),
            ]
        );
    });
}

/// A client whose only wait is under way when its clock goes slow: it reads no clock until it
/// wakes, too late.
#[test]
fn a_rate_that_begins_while_a_program_waits_shows_when_the_wait_is_moved() {
    let text = r#"
schema = 1
scenario = "redis-single"
seed = "0x5"
duration = "8s"

[lock]
lease = "2s"

[topology]
apps = 2

[workload]
units = 400
think = "100ms"
slow-per-mille = 1000
slow-work = "1200ms"
patience = "4s"

[[fault]]
kind = "clock-rate"
node = "app-1"
rate = "-50%"
after = "app-1 read 1 applied"
delay = "50ms"
for = "1200ms"
"#;
    on_both(text, |run| {
        assert_eq!(run.judgement.goals.touched, [0], "{:#?}", run.judgement.goals);
        assert!(run.judgement.has_violation(Kind::Oversell), "{:#?}", run.judgement);
        let blamed = run.judgement.findings.iter().flat_map(|finding| &finding.blame.faults);
        assert!(blamed.clone().any(|fault| fault.fault == 0), "{:#?}", run.judgement.findings);
    });
}

#[test]
fn a_jump_shows_only_where_the_wall_clock_is_read() {
    // Clients live by the monotonic clock alone.
    let step = |node: &str| {
        format!(
            "{EXPIRING}[[fault]]\nkind = \"clock-step\"\nnode = \"{node}\"\nby = \"5s\"\nat = \"2s\"\n"
        )
    };
    on_both(&step("redis-1"), |run| assert_eq!(run.judgement.goals.touched, [0]));
    on_both(&step("app-1"), |run| {
        assert_eq!(run.judgement.verdict, Verdict::Inert, "{:#?}", run.judgement);
    });
}

#[test]
fn a_rate_on_a_client_says_which_timers_did_not_follow() {
    let text = format!("{EXPIRING}[[clock]]\nnode = \"app-1\"\nrate = \"+5%\"\n");
    let run = run(&text, Fence::Off);
    let block = failure_block(&Failure {
        run: &run,
        position: None,
        repetition: None,
        confirmation: None,
        reproduce: "lockstorm run --seed 0x1",
    });
    assert!(block.contains("timers  tokio's own keep the true rate on app-1"), "{block}");
}
