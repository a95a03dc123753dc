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

#[test]
fn waiters_that_died_are_dropped_together_after_their_timeout() {
    let die = |app: u32| {
        format!("\n[[fault]]\nkind = \"process-crash\"\nnode = \"app-{app}\"\nat = \"2s\"\n")
    };
    let text = format!("{QUEUE}{}{}", die(3), die(4));
    each(&text, |run| {
        assert_withstood(run);
        let grants = grants(run);
        let after = grants.iter().filter(|(at_us, _)| *at_us > 2_000_000);
        let gaps = grants.windows(2).map(|pair| pair[1].0 - pair[0].0);
        // A dead waiter at the head, or a dead holder's lease, and the section before.
        let most = gaps.max().unwrap_or_default();
        assert!(after.count() > 5, "{}", told(run));
        assert!(most < 5_000_000 + 1_500_000, "{}: {most} µs without a grant", run.engine);
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
