//! Is what a hunt says of pairs that it did not try so?

use std::sync::Arc;

use super::*;
use crate::engine::event::EventEngine;
use crate::hunt::course::Seeds;
use crate::plan::Seed;

/// A hunt for pairs that went so far, or this shard of it; each single fault `showed` something
/// and broke nothing.
fn hunted(fence: Fence, runs: u64, shard: Option<Shard>, showed: bool) -> (Course, Book) {
    let quarry = Quarry::new("redis-single", "redis", fence);
    let seeds = Seeds { first: Seed(7), calm: Seed(7) };
    let (engine, strategy) = (Arc::new(EventEngine), Strategy::Pairs);
    let mut course = Course::new(&quarry, engine, strategy, seeds, Some(runs), false).unwrap();
    let mut book = Book::default();
    loop {
        let round = course.next_round().unwrap();
        if round.is_empty() {
            return (course, book);
        }
        for step in
            round.iter().filter(|step| course.is_of(step, shard)).cloned().collect::<Vec<_>>()
        {
            let lost = Summary::lost(step.task.seed(), String::new());
            let faults_showed = u64::from(showed);
            let summary = Summary { verdict: Verdict::Safe, faults_showed, trouble: None, ..lost };
            course.note(&step, &summary);
            book.add(&course, &step, &summary);
        }
    }
}

/// How many single faults there are, and how many runs come before the first pair.
fn before_pairs() -> (u64, u64) {
    let (course, _) = hunted(Fence::Off, 1, None, true);
    let singles = course.trials().len() as u64;
    (singles, singles + course.survey().unwrap().calm.len() as u64)
}

/// A budget that leaves no pair is told before anything is run.
#[test]
fn too_few_runs_for_a_pair_are_told_in_time() {
    let (singles, before) = before_pairs();
    let told = |runs| hunted(Fence::Off, runs, None, true).0.too_few_for_pairs();
    let calm = before - singles;
    let expected = format!(
        "no pair will be tried: {} without a fault and {} come first; give it more than --seeds \
         {before}",
        counted(calm, "run"),
        counted(singles, "single fault"),
    );
    assert_eq!(told(before), Some(expected));
    assert_eq!(told(before + 1), None);
}

#[test]
fn why_no_pair_was_tried_is_told_with_what_helps() {
    let (singles, before) = before_pairs();
    let why = |fence, runs, showed| {
        let (course, book) = hunted(fence, runs, None, showed);
        book.why_no_pair(&course, None)
    };
    let told = why(Fence::Off, before - 1, true).unwrap();
    let (tried, all) = (grouped(singles - 1), grouped(singles));
    assert!(told.contains(&format!("{tried} of {all} were tried")), "{told}");
    assert!(told.ends_with(&format!("give it more than --seeds {before}")), "{told}");
    // What is proposed helps.
    assert_eq!(why(Fence::Off, before + 1, true), None);

    let told = why(Fence::Off, before + 1, false).unwrap();
    assert!(told.ends_with("(--set duration=20s) or a full fence leaves more to pair"), "{told}");
    let told = why(Fence::Full, before + 1_000, false).unwrap();
    assert!(told.ends_with("(--set duration=20s) leaves more to pair"), "{told}");

    let (course, book) = hunted(Fence::Off, before, None, true);
    let told = book.why_no_pair(&course, None).unwrap();
    assert!(course.pairs() > 0);
    let known = counted(course.pairs(), "pair");
    let told_so =
        format!("took every run there was, and {known} of them are known; give it more than");
    assert!(told.contains(&told_so), "{told}");
    let all = before + course.pairs();
    let mend = format!("more than --seeds {before} (--seeds {all} tries all that are known)");
    assert!(told.ends_with(&mend), "{told}");
}

#[test]
fn a_shard_speaks_of_its_own_pairs() {
    let (_, before) = before_pairs();
    // The first pair is the step of number `before`; this shard's is three later.
    let shard = Shard { index: (before + 3) % 10 + 1, of: 10 };
    for runs in [before, before + 1, before + 3] {
        let (course, book) = hunted(Fence::Off, runs, Some(shard), true);
        let told = book.why_no_pair(&course, Some(shard)).unwrap();
        assert!(told.contains("the first that is this shard's was not reached"), "{told}");
        assert!(told.ends_with(&format!("give it --seeds {} or more", before + 4)), "{told}");
    }
    let (course, book) = hunted(Fence::Off, before + 4, Some(shard), true);
    assert_eq!(book.why_no_pair(&course, Some(shard)), None);
    // Of more shards than there are pairs, some have none.
    let pairs = course.pairs();
    let shard = Shard { index: before, of: before + 2 * pairs };
    let (course, book) = hunted(Fence::Off, before + 5, Some(shard), true);
    let told = book.why_no_pair(&course, Some(shard)).unwrap();
    assert!(told.contains("fall to other shards"), "{told}");
}

/// On one server that crashes to the storm's end nobody is granted the lock: the run says nothing
/// against it, and what is unknown for another reason still does.
#[test]
fn a_server_that_is_down_leaves_its_runs_untried_and_the_hunt_safe() {
    let quarry = Quarry::new("postgres-single", "pg-for-update", Fence::Full);
    let seeds = Seeds { first: Seed(0), calm: Seed(0) };
    let engine = Arc::new(EventEngine);
    let mut course = Course::new(&quarry, engine, Strategy::Certify, seeds, None, false).unwrap();
    let mut steps = Vec::new();
    loop {
        let round = course.next_round().unwrap();
        if round.is_empty() {
            break;
        }
        steps.extend(round);
    }
    let is_down = |step: &&Step| {
        let Source::Single(index) = step.source else { return false };
        let trial = &course.trials()[index];
        let shape = trial.moment.shape.to_string();
        trial.single.name == "process-crash master, to the end"
            && shape == "acquire applied, short section, at once"
    };
    let step = steps.iter().find(is_down).unwrap();
    let plan = quarry.plan_of(&step.task).unwrap();
    let untried = Summary::of(&crate::storm::run(&plan, &EventEngine));
    assert_eq!((untried.verdict, untried.untried), (Verdict::Unknown, true));
    assert_eq!(untried.signature, "untried");

    let mut book = Book::default();
    book.add(&course, step, &untried);
    assert_eq!(book.verdict(), Verdict::Unknown, "alone it proves nothing");
    assert!(book.caught.is_empty(), "a single fault that leaves the lock untried is counted");
    let safe = Summary { verdict: Verdict::Safe, untried: false, ..untried.clone() };
    book.add(&course, step, &safe);
    assert_eq!(book.verdict(), Verdict::Safe);
    assert!(book.denominators(&quarry, &course)[0].1.ends_with("1 untried"));
    let unknown = Summary { untried: false, signature: "unknown".to_owned(), ..untried };
    book.add(&course, step, &unknown);
    assert_eq!(book.verdict(), Verdict::Unknown);
    assert_eq!(book.failures().len(), 1);
}
