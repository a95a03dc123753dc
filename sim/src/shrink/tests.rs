use super::*;
use crate::plan::{Fence, Seed};
use crate::report::manner::{Charset, Manner};
use crate::report::shrunk;

#[test]
fn what_shrinking_came_to_reads_well() {
    let plan = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(2)).unwrap();
    let whole = shrink(&plan, &Limits::default()).unwrap();
    let short = shrink(&plan, &Limits { replays: 5 }).unwrap();
    let manner = Manner::of(Charset::Unicode);
    let texts = [&whole, &short].map(|shrunk| shrunk::shrunk(shrunk, &manner));
    insta::assert_snapshot!(texts.join("\n\n"));
    let json = shrunk::shrunk_json(&whole);
    assert_eq!(json["minimal"], true);
    assert_eq!(json["faults"].as_array().map(Vec::len), Some(whole.plan().faults.len()));
}

#[test]
fn whoever_asked_can_stop_it() {
    let plan = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(2)).unwrap();
    let factory: LockFactory = Arc::new(locks::build);
    let mut best = None;
    let shrunk = shrink_with(&plan, &Limits::default(), &factory, &mut |progress| {
        best = Some(progress.plan.clone());
        ControlFlow::Break(())
    });
    let shrunk = shrunk.unwrap();
    assert_eq!(shrunk.stopped, Some(Stopped::Caller));
    assert_eq!(Some(shrunk.plan()), best.as_ref(), "the best so far");
}

#[test]
fn numbers_become_rounder() {
    assert_eq!(dial::rounder(2_094_000), [2_000_000, 2_100_000]);
    assert_eq!(dial::rounder(-310), [-300]);
    assert!(dial::rounder(7).is_empty());
    assert_eq!(dial::rounded(3_134_000, 1, true), 4_000_000);
    assert_eq!(dial::rounded(3_134_000, 2, true), 3_200_000);
}
