use super::*;
use crate::engine::event::EventEngine;
use crate::hunt::moments::survey;
use crate::plan::{Fence, Seed};

fn small() -> (Quarry, Survey) {
    let mut quarry = Quarry::new("redis-single", "redis", Fence::Off);
    quarry.settings = vec![("duration".to_owned(), "4s".to_owned())];
    let mut survey = survey(&quarry, &EventEngine, Seed(0)).unwrap();
    survey.moments.truncate(1);
    (quarry, survey)
}

/// The certificate that would come of it if every third pair broke.
fn made_up() -> Certificate {
    let (quarry, survey) = small();
    let verdicts = [Verdict::Safe, Verdict::Inert, Verdict::Violation];
    let trials = trials(&survey);
    let outcomes = trials.iter().zip(verdicts.iter().cycle()).map(|(trial, verdict)| {
        let violations = match verdict {
            Verdict::Violation => vec![Kind::DoubleGrant, Kind::Oversell],
            _ => Vec::new(),
        };
        (trial.key(), Outcome { verdict: *verdict, violations, untried: false })
    });
    Certificate::new(&quarry, &survey, outcomes.collect(), 3)
}

#[test]
fn the_file() {
    insta::assert_snapshot!(made_up().text());
    assert_eq!(made_up().file_name(), "certificate-redis-single-redis.txt");
}

#[test]
fn a_file_is_read_back() {
    let certificate = made_up();
    let read = Certificate::parse(&certificate.text()).unwrap();
    assert_eq!(read, certificate);
    assert!(certificate.differences(&read).is_empty());
}

#[test]
fn a_lock_that_was_not_tried_is_told_and_read_back() {
    let mut certificate = made_up();
    let key = certificate.outcomes.keys().next().unwrap().clone();
    let untried = Outcome { verdict: Verdict::Unknown, violations: Vec::new(), untried: true };
    certificate.outcomes.insert(key.clone(), untried.clone());
    assert!(certificate.counts().contains("1 untried"), "{}", certificate.counts());
    let read = Certificate::parse(&certificate.text()).unwrap();
    assert_eq!(read.outcomes[&key], untried);
}

#[test]
fn what_differs_is_told_line_by_line() {
    let old = made_up();
    let mut new = old.clone();
    let keys: Vec<Key> = new.outcomes.keys().cloned().collect();
    new.outcomes.remove(&keys[0]);
    let broke =
        Outcome { verdict: Verdict::Violation, violations: vec![Kind::Oversell], untried: false };
    new.outcomes.insert(keys[1].clone(), broke);
    new.outcomes.insert(
        (keys[0].0.clone(), "something new".to_owned()),
        Outcome { verdict: Verdict::SafeByFence, violations: Vec::new(), untried: false },
    );
    insta::assert_snapshot!(new.differences(&old).join("\n"));
}

#[test]
fn what_is_no_certificate_is_refused() {
    let text = made_up().text();
    let last = text.lines().last().unwrap();
    let broken = [
        String::new(),
        "schema = 1\n".to_owned(),
        format!("{text}{last}\n"),
        format!("{text}acquire applied | safe\n"),
        format!("{text}acquire applied | pause holder | save\n"),
        format!("{text}acquire applied | pause holder | broke oversel\n"),
    ];
    let errors = broken.map(|text| Certificate::parse(&text).unwrap_err());
    insta::assert_snapshot!(errors.join("\n"));
}
