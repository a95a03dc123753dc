//! Does `redis-fair` let waiters in in the order in which they came, and what do those
//! cost that died in the queue?

mod on_both_engines;

use std::collections::BTreeMap;

use lockstorm_sim::check::Verdict;
use lockstorm_sim::history::What;

use on_both_engines::{assert_withstood, each, grants, told};

/// Six clients that hardly think: there is always a queue.
const QUEUE: &str = r#"
schema = 1
scenario = "redis-single"
seed = "0x1"
duration = "8s"

[lock]
name = "redis-fair"
command-timeout = "200ms"
waiter-timeout = "1s"

[topology]
apps = 6

[workload]
think = "20ms"
work = "100ms"
patience = "6s"
"#;

/// `waiter-timeout` of these plans.
const WAITER_TIMEOUT_US: u64 = 1_000_000;

/// Within so long whoever waits asks again, and is answered.
const ASKS_AGAIN_US: u64 = 200_000;

#[test]
fn nobody_who_came_later_gets_in_earlier() {
    each(QUEUE, |run| {
        assert_eq!(run.judgement.verdict, Verdict::Safe, "{}", told(run));
        assert!(grants(run).len() > 30, "{}", told(run));
        assert_eq!(run.judgement.numbers.most_bypasses, 0, "{}", told(run));
    });
    let plain = QUEUE.replace("redis-fair", "redis").replace("waiter-timeout = \"1s\"\n", "");
    each(&plain, |run| {
        assert!(run.judgement.numbers.most_bypasses > 0, "{}", told(run));
    });
}

/// Two of those that wait while another holds the lock die at once. Both stand before others: it
/// costs one waiter timeout, not two, and no lease.
#[test]
fn waiters_that_died_are_dropped_together_after_their_timeout() {
    let die = |app: u32| {
        format!(
            "\n[[fault]]\nkind = \"process-crash\"\nnode = \"app-{app}\"\nafter = \"app-1 acquire 4 \
             returned\"\n"
        )
    };
    let text = format!("{QUEUE}{}{}", die(3), die(4));
    each(&text, |run| {
        assert_withstood(run);
        let died = run.history.iter().find(|event| matches!(event.what, What::FaultBegan { .. }));
        let died_us = died.expect("they die").at_us;
        let grants = grants(run);
        let after = grants.iter().filter(|(at_us, _)| *at_us > died_us);
        let gaps = grants.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let most_us = gaps.max().unwrap_or_default();
        assert!(after.count() > 5, "{}", told(run));
        // The section before, the timeout of who stands first, and when the next one asks.
        let bound_us = 100_000 + WAITER_TIMEOUT_US + ASKS_AGAIN_US;
        assert!(most_us > WAITER_TIMEOUT_US / 2, "{}: {most_us} µs: they cost nothing", run.engine);
        assert!(most_us <= bound_us, "{}: {most_us} µs without a grant", run.engine);
    });
}

/// Who holds the lock when it dies costs the lease, and the waiters that died with it no more than
/// one timeout beside.
#[test]
fn a_holder_that_died_costs_its_lease() {
    let die = "\n[[fault]]\nkind = \"process-crash\"\nnode = \"app-1\"\nafter = \"app-1 read 4 applied\"\n";
    each(&format!("{QUEUE}{die}"), |run| {
        assert_withstood(run);
        let grants = grants(run);
        let gaps = grants.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let most_us = gaps.max().unwrap_or_default();
        let lease_us = run.plan.lock.lease.0;
        assert!(most_us > lease_us / 2, "{}: {most_us} µs", run.engine);
        assert!(
            most_us <= lease_us + WAITER_TIMEOUT_US + ASKS_AGAIN_US,
            "{}: {most_us} µs",
            run.engine
        );
    });
}

#[test]
fn a_waiter_that_stands_still_for_too_long_stands_at_the_end_again() {
    let asleep = "\n[[fault]]\nkind = \"pause\"\nnode = \"app-3\"\nat = \"2s\"\nfor = \"3s\"\n";
    each(&format!("{QUEUE}{asleep}"), |run| {
        assert_withstood(run);
        let mut begun: BTreeMap<&str, u32> = BTreeMap::new();
        for event in run.history.iter() {
            if let What::WaitBegan { owner, .. } = &event.what {
                *begun.entry(owner).or_default() += 1;
            }
        }
        let twice = begun.into_iter().filter(|(_, times)| *times > 1);
        let twice: Vec<(&str, u32)> = twice.collect();
        let is_it = matches!(twice[..], [(owner, 2)] if owner.starts_with("app-3/"));
        assert!(is_it, "{}: came again into the queue: {twice:?}", run.engine);
    });
}

#[test]
fn who_gives_up_leaves_the_queue() {
    let hurried = QUEUE.replace("patience = \"6s\"", "patience = \"150ms\"");
    let cancelled = "\n[[fault]]\nkind = \"cancel\"\nnode = \"app-3\"\noperation = \
                     \"acquire\"\nordinal = 2\nawait = 3\n";
    for text in [hurried.clone(), format!("{hurried}{cancelled}")] {
        each(&text, |run| {
            assert_withstood(run);
            assert!(grants(run).len() > 30, "{}", told(run));
        });
    }
}
