use std::collections::BTreeSet;

use super::*;
use crate::check::Verdict;
use crate::engine::event::EventEngine;
use crate::plan::Fence;

fn course(strategy: Strategy, budget: Option<u64>) -> Course {
    let quarry = Quarry::new("redis-single", "redis", Fence::Off);
    let seeds = Seeds { first: Seed(7), calm: Seed(7) };
    Course::new(&quarry, Arc::new(EventEngine), strategy, seeds, budget, false).unwrap()
}

/// What a worker might have told: every third is inert, every seventh breaks.
fn told(step: &Step) -> Summary {
    let lost = Summary::lost(step.task.seed(), String::new());
    let verdict = match step.number {
        number if number % 7 == 0 => Verdict::Violation,
        _ => Verdict::Safe,
    };
    let faults_showed = u64::from(!step.number.is_multiple_of(3));
    Summary { verdict, faults_showed, trace: "aaaa".to_owned(), trouble: None, ..lost }
}

fn walk(course: &mut Course, shard: Option<Shard>) -> Vec<Step> {
    let mut steps = Vec::new();
    loop {
        let round = course.next_round().unwrap();
        if round.is_empty() {
            return steps;
        }
        for step in
            round.iter().filter(|step| course.is_of(step, shard)).cloned().collect::<Vec<_>>()
        {
            course.note(&step, &told(&step));
            steps.push(step);
        }
    }
}

#[test]
fn a_course_is_the_same_every_time_and_keeps_its_budget() {
    for strategy in [Strategy::Certify, Strategy::Pairs, Strategy::Swarm, Strategy::Portfolio] {
        let steps = walk(&mut course(strategy, Some(1_500)), None);
        assert_eq!(steps, walk(&mut course(strategy, Some(1_500)), None));
        let all = course(Strategy::Certify, None).budget().unwrap() as usize;
        let expected = if strategy == Strategy::Certify { all.min(1_500) } else { 1_500 };
        assert_eq!(steps.len(), expected, "{strategy:?}");
        let numbers: Vec<u64> = steps.iter().map(|step| step.number).collect();
        assert_eq!(numbers, (0..expected as u64).collect::<Vec<_>>());
    }
}

#[test]
fn a_certificate_tries_everything_once() {
    let mut course = course(Strategy::Certify, None);
    let steps = walk(&mut course, None);
    let keys: BTreeSet<Key> = steps.iter().filter_map(|step| course.key(step)).collect();
    assert_eq!(keys.len(), course.trials().len());
    let calm = steps.iter().filter(|step| matches!(step.source, Source::Calm(_))).count();
    assert_eq!(keys.len() + calm, steps.len());
    // The fault-free runs come first, and need not be made again.
    assert!(calm > 0 && steps[..calm].iter().all(|step| step.known.is_some()));
}

#[test]
fn a_portfolio_has_some_of_each_and_no_pair_twice() {
    let steps = walk(&mut course(Strategy::Portfolio, Some(3_000)), None);
    let mut pairs = BTreeSet::new();
    let (mut singles, mut drawn, mut calm, mut again) = (0, 0, 0, 0);
    for step in &steps {
        match step.source {
            Source::Calm(_) => calm += 1,
            Source::Single(_) => singles += 1,
            Source::Again(_) => again += 1,
            Source::Pair(a, b) => assert!(a < b && pairs.insert((a, b))),
            Source::Drawn => drawn += 1,
        }
    }
    assert_eq!(singles, course(Strategy::Certify, None).trials().len());
    assert!(calm > 0 && again > 300);
    assert!(pairs.len() > 500 && drawn > 500, "{} {drawn}", pairs.len());
    let first = |source: fn(&Source) -> bool| steps.iter().position(|step| source(&step.source));
    assert_eq!(first(|source| matches!(source, Source::Drawn)), Some(0));
    // Step by step: a short hunt has some of each.
    assert!(first(|source| matches!(source, Source::Single(_))) < Some(40));
    assert!(first(|source| matches!(source, Source::Pair(..))) < Some(300));
}

#[test]
fn shards_make_every_step_and_agree_about_it() {
    for strategy in [Strategy::Certify, Strategy::Pairs, Strategy::Swarm, Strategy::Portfolio] {
        let whole = walk(&mut course(strategy, Some(1_800)), None);
        let mut merged = BTreeMap::new();
        let mut made = 0;
        for index in 1..=3 {
            for step in walk(&mut course(strategy, Some(1_800)), Some(Shard { index, of: 3 })) {
                made += 1;
                let known = merged.insert(step.number, step.clone());
                assert!(known.is_none_or(|known| known == step));
            }
        }
        assert_eq!(merged.into_values().collect::<Vec<_>>(), whole);
        if matches!(strategy, Strategy::Certify | Strategy::Swarm) {
            // Fault-free runs cost a shard nothing: the course has made them.
            let calm = whole.iter().filter(|step| matches!(step.source, Source::Calm(_))).count();
            assert_eq!(made, whole.len() + 2 * calm, "nothing else twice");
        }
    }
}
