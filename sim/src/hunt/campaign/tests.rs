use super::*;
use crate::hunt::Task;
use crate::hunt::book::Book;
use crate::hunt::course::{Course, Source};
use crate::plan::{Fence, Seed};

fn identity() -> Identity {
    Identity {
        schema: SCHEMA,
        lockstorm: "0.1.0".to_owned(),
        build: "aaaa".to_owned(),
        quarry: Quarry::new("redis-failover", "redis", Fence::Full),
        strategy: Strategy::Portfolio,
        seeds: Seeds { first: Seed(7), calm: Seed(0) },
        runs: Some(100),
        endless: false,
        shard: None,
    }
}

fn step(number: u64) -> Step {
    Step { number, source: Source::Drawn, task: Task::Drawn(Seed(number)), known: None }
}

fn line(number: u64) -> Line {
    let lost = Summary::lost(Seed(number), "why".to_owned());
    let summary = Summary { trace: "bbbb".to_owned(), steps: 7, ..lost };
    Line::new(&step(number), &summary, Some("what it was".to_owned()))
}

#[test]
fn a_line_that_was_cut_short_is_cut_off_and_the_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path(), &identity()).unwrap();
    for number in 0..3 {
        journal.add(&line(number)).unwrap();
    }
    drop(journal);
    let path = folder.path().join(JOURNAL_FILE);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let mut journal = Journal::open(folder.path(), &identity()).unwrap();
    assert_eq!(journal.known(&step(0)), Ok(Some(line(0))));
    assert_eq!(journal.known(&step(1)), Ok(Some(line(1))));
    assert_eq!(journal.known(&step(2)), Ok(None));
    assert_eq!(journal.next_number(), None);
    journal.add(&line(2)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn what_a_campaign_goes_on_from_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Journal::open(folder.path(), &identity());
    let mut journal = open().unwrap();
    assert_eq!((journal.before(), journal.elapsed_s()), (None, 0));
    (0..3).for_each(|number| journal.add(&line(number)).unwrap());
    journal.rest(90).unwrap();
    drop(journal);
    let journal = open().unwrap();
    assert_eq!(journal.before(), Some(Before { runs: 3, is_cut: false }));
    assert_eq!(journal.elapsed_s(), 90);
    drop(journal);
    let path = folder.path().join(JOURNAL_FILE);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    assert_eq!(open().unwrap().before(), Some(Before { runs: 2, is_cut: true }));
    let elapsed = folder.path().join(ELAPSED_FILE);
    fs::write(&elapsed, "an hour\n").unwrap();
    let why = open().unwrap_err();
    assert!(why.starts_with(&elapsed.display().to_string()) && why.contains("delete it"), "{why}");
}

#[test]
fn a_line_gives_back_what_the_worker_told() {
    let lost = Summary::lost(Seed(3), "why".to_owned());
    let full = Summary {
        signature: "oversell pause@holder".to_owned(),
        kinds: vec![Kind::Oversell],
        violations: vec![Kind::Oversell],
        failovers: 2,
        ..lost.clone()
    };
    for summary in [lost, full] {
        let line = Line::new(&step(3), &summary, None);
        let text = serde_json::to_string(&line).unwrap();
        let read: Line = serde_json::from_str(&text).unwrap();
        assert_eq!(read.summary(&step(3)), summary);
    }
}

#[test]
fn what_is_not_this_hunt_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let open = |identity: &Identity| Journal::open(folder.path(), identity);
    let journal = open(&identity()).unwrap();
    let mut errors = vec![open(&identity()).unwrap_err()];
    drop(journal);
    errors.push(
        open(&Identity { seeds: Seeds { first: Seed(8), calm: Seed(0) }, ..identity() })
            .unwrap_err(),
    );
    errors.push(open(&Identity { build: "cccc".to_owned(), ..identity() }).unwrap_err());
    errors.push(open(&Identity { endless: true, runs: None, ..identity() }).unwrap_err());
    let with = |change: fn(&mut Quarry)| {
        let mut other = identity();
        change(&mut other.quarry);
        other
    };
    errors.push(open(&with(|quarry| quarry.faults = false)).unwrap_err());
    let leases = |quarry: &mut Quarry| {
        quarry.settings = vec![("lock.lease".to_owned(), "2s".to_owned())];
    };
    errors.push(open(&with(leases)).unwrap_err());
    let path = folder.path().join(JOURNAL_FILE);
    fs::write(&path, "{\"number\":1}\n{\"number\":2}\n").unwrap();
    errors.push(open(&identity()).unwrap_err());
    let later = Identity { schema: SCHEMA + 1, ..identity() };
    let nowhere = Identity { shard: Some(Shard { index: 2, of: 0 }), ..identity() };
    for text in [
        "{}".to_owned(),
        serde_json::json!(later).to_string(),
        serde_json::json!(nowhere).to_string(),
    ] {
        fs::write(folder.path().join(IDENTITY_FILE), text).unwrap();
        errors.push(open(&identity()).unwrap_err());
    }
    errors.push(Journal::open(&path, &identity()).unwrap_err());
    let told = errors.join("\n").replace(&folder.path().display().to_string(), "FOLDER");
    insta::assert_snapshot!(told);
}

#[test]
fn shards_are_put_together_and_what_is_missing_is_told() {
    let top = tempfile::tempdir().unwrap();
    let shard = |index: u64, numbers: &[u64]| {
        let folder = top.path().join(index.to_string());
        let identity = Identity { shard: Some(Shard { index, of: 2 }), ..identity() };
        let mut journal = Journal::open(&folder, &identity).unwrap();
        for number in numbers {
            journal.add(&line(*number)).unwrap();
        }
        folder
    };
    // Run 0 is made by both.
    let (one, two) = (shard(1, &[0, 2, 4]), shard(2, &[0, 1, 3]));
    let mut merged = merge::merge(&[two.clone(), one.clone()]).unwrap();
    assert_eq!(merged.identity, identity());
    for number in 0..5 {
        assert_eq!(merged.next_line(), Ok(Some(line(number))));
    }
    assert_eq!(merged.next_line(), Ok(None));
    let third = top.path().join("third");
    let of_three = Identity { shard: Some(Shard { index: 3, of: 3 }), ..identity() };
    drop(Journal::open(&third, &of_three).unwrap());
    let mut errors = vec![
        merge::merge(&[one.clone(), third]).unwrap_err(),
        merge::merge(&[]).unwrap_err(),
        merge::merge(std::slice::from_ref(&two)).unwrap_err(),
        merge::merge(&[one.clone(), one.clone()]).unwrap_err(),
        merge::merge(&[one.clone(), top.path().to_owned()]).unwrap_err(),
    ];
    let other = serde_json::to_string(&line(0)).unwrap().replace("bbbb", "cccc");
    fs::write(two.join(JOURNAL_FILE), format!("{other}\n")).unwrap();
    errors.push(merge::merge(&[one, two]).unwrap().next_line().unwrap_err());
    let told = errors.join("\n").replace(&top.path().display().to_string(), "TOP");
    insta::assert_snapshot!(told);
}

fn told() -> Vec<markdown::Told> {
    vec![
        markdown::Told {
            signature: "double-grant pause@holder".to_owned(),
            runs: 12,
            verdict: Verdict::Violation,
            label: "partition holder | stock at read applied".to_owned(),
            confirmation: Some("turmoil 0.7: confirmed".to_owned()),
            reproduce: "lockstorm replay 'a & b.toml'".to_owned(),
            seed: "0x000000000000002a".to_owned(),
            block: "VIOLATION <\"…\">\n100 %".to_owned(),
        },
        markdown::Told {
            signature: "inert".to_owned(),
            runs: 1,
            verdict: Verdict::Inert,
            label: "seed 0x13".to_owned(),
            confirmation: None,
            reproduce: "lockstorm run --seed 0x13".to_owned(),
            seed: "0x0000000000000013".to_owned(),
            block: "INERT".to_owned(),
        },
    ]
}

#[test]
fn what_ci_reads() {
    let book = Book::default();
    insta::assert_snapshot!("junit", junit::junit(&identity(), &book, &told()));
    insta::assert_snapshot!("annotations", annotations::annotations(&told()).join("\n"));
}

/// What JUnit's readers (Jenkins, GitLab, GitHub's actions) have in common: which elements may
/// stand in which, and with which attributes.
const JUNIT: [(&str, &[&str], &[&str]); 7] = [
    ("testsuites", &["testsuite"], &["name"]),
    ("testsuite", &["testcase"], &["name", "tests", "failures", "errors", "skipped"]),
    ("testcase", &["properties", "failure", "skipped"], &["classname", "name"]),
    ("properties", &["property"], &[]),
    ("property", &[], &["name", "value"]),
    ("failure", &[], &["message"]),
    ("skipped", &[], &["message"]),
];

#[test]
fn junit_is_valid_whatever_failures_say() {
    let hostile = "</failure>]]>\u{0}\u{1b}[2J\u{202e}\u{ffff}\u{fffe}&amp;'\"\n<x a=\"1\">é锁🔒";
    let mut told = told();
    told.push(markdown::Told {
        signature: hostile.to_owned(),
        label: hostile.to_owned(),
        reproduce: hostile.to_owned(),
        block: hostile.to_owned(),
        ..told[0].clone()
    });
    let text = junit::junit(&identity(), &Book::default(), &told);
    let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let elements = || document.root().descendants().filter(roxmltree::Node::is_element);
    for element in elements() {
        let name = element.tag_name().name();
        let known = JUNIT.iter().find(|(known, _, _)| *known == name);
        let (_, children, attributes) = known.unwrap_or_else(|| panic!("{name} is in no schema"));
        for child in element.children().filter(roxmltree::Node::is_element) {
            assert!(children.contains(&child.tag_name().name()), "{child:?} in {name}");
        }
        let has: Vec<&str> = element.attributes().map(|attribute| attribute.name()).collect();
        assert_eq!(has, *attributes, "{name}");
    }
    let count = |name: &str| elements().filter(|one| one.tag_name().name() == name).count();
    let suite = elements().find(|one| one.tag_name().name() == "testsuite").unwrap();
    for (attribute, counted) in
        [("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")]
    {
        let said: usize = suite.attribute(attribute).unwrap().parse().unwrap();
        assert_eq!(said, count(counted), "{attribute}");
    }
    assert!(!text.contains(['\u{0}', '\u{1b}', '\u{202e}', '\u{ffff}']));
    let failures: Vec<_> = elements().filter(|e| e.tag_name().name() == "failure").collect();
    let last = failures[failures.len() - 1];
    assert!(last.text().unwrap().ends_with("<x a=\"1\">é锁🔒"), "{:?}", last.text());
}

/// What a worker might have told.
fn made_up(step: &Step) -> Summary {
    let (verdict, kinds) = match step.number {
        number if number % 90 == 0 => (Verdict::Violation, vec![Kind::Oversell]),
        number if number % 30 == 1 => (Verdict::Inert, Vec::new()),
        _ => (Verdict::Safe, Vec::new()),
    };
    Summary {
        verdict,
        violations: kinds.clone(),
        signature: verdict.id().to_owned(),
        kinds,
        faults_showed: u64::from(verdict != Verdict::Inert),
        trouble: None,
        ..Summary::lost(step.task.seed(), String::new())
    }
}

#[test]
fn what_people_read() {
    let identity =
        Identity { quarry: Quarry::new("redis-single", "redis", Fence::Off), ..identity() };
    let Identity { quarry, strategy, seeds, .. } = &identity;
    let engine = std::sync::Arc::new(crate::engine::event::EventEngine);
    let mut course =
        Course::new(quarry, engine.clone(), *strategy, *seeds, Some(400), false).unwrap();
    let mut book = Book::default();
    for _ in 0..2 {
        for step in course.next_round().unwrap() {
            course.note(&step, &made_up(&step));
            book.add(&course, &step, &made_up(&step));
        }
    }
    let (planted, witness) = evidence::twin(quarry).unwrap();
    let twin = evidence::TwinHunt { quarry: planted, witness, seeds: 12, found: 10 };
    let told = told();
    insta::assert_snapshot!("summary", markdown::summary(&identity, &book, &course, &told));
    let evidence = evidence::evidence(&identity, &book, &course, Some(&twin));
    insta::assert_snapshot!("evidence", evidence);
    assert!(book.rests_on(&course).is_empty(), "it is not safe");
}

#[test]
fn a_twin_draws_what_the_campaign_draws_and_a_canary_claims_nothing() {
    use evidence::Witness::{Canary, PlantedTwin};

    let quarry = Quarry::new;
    let calm = Quarry { faults: false, ..quarry("redis-single", "redis", Fence::Full) };
    for (quarry, witness, lock) in [
        (quarry("redis-failover", "redis", Fence::Full), PlantedTwin, "redis"),
        (quarry("redis-single", "redis", Fence::Off), PlantedTwin, "planted/open-on-timeout"),
        (quarry("redis-single", "planted/open-on-timeout", Fence::Off), Canary, "none"),
        (quarry("redlock-five", "redlock", Fence::Off), Canary, "none"),
        (calm, Canary, "none"),
    ] {
        let twin = Quarry { lock: lock.to_owned(), fence: Fence::Off, ..quarry.clone() };
        assert_eq!(evidence::twin(&quarry), Some((twin, witness)));
    }
}

/// Where the sale's own transaction locks the row, whoever has no lock is safe.
#[test]
fn a_canary_fails_where_the_lock_none_is_safe() {
    let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let pooled = Quarry::new("postgres-pool", "none", Fence::Off);
    let sized = Quarry { settings: vec![set("workload.pool", "8")], ..pooled.clone() };
    let held = Quarry {
        settings: vec![set("workload.stock", "sql-for-update")],
        ..Quarry::new("postgres-single", "pg-for-update", Fence::Off)
    };
    for quarry in [pooled, sized, held] {
        let (canary, witness) = evidence::twin(&quarry).unwrap();
        assert_eq!((witness, &*canary.lock), (evidence::Witness::Canary, "none"));
        assert_eq!(canary.settings, [set("workload.stock", "sql")]);
        let plan = canary.calm_plan(Seed(0)).unwrap();
        let run = crate::storm::run(&plan, &crate::engine::event::EventEngine);
        assert_eq!(run.judgement.verdict, Verdict::Violation, "{}", quarry.scenario);
    }
}

/// The last line of the evidence of a campaign whose runs all came to this.
fn claim_of(verdict: Verdict, witness: evidence::Witness) -> String {
    let identity =
        Identity { quarry: Quarry::new("redis-single", "redis", Fence::Off), ..identity() };
    let Identity { quarry, seeds, .. } = &identity;
    let engine = std::sync::Arc::new(crate::engine::event::EventEngine);
    let mut course =
        Course::new(quarry, engine.clone(), Strategy::Portfolio, *seeds, Some(5_000), false)
            .unwrap();
    let mut book = Book::default();
    loop {
        let round = course.next_round().unwrap();
        if round.is_empty() {
            break;
        }
        for step in round {
            let summary = Summary {
                verdict,
                signature: verdict.id().to_owned(),
                faults_showed: 1,
                trouble: None,
                ..Summary::lost(step.task.seed(), String::new())
            };
            course.note(&step, &summary);
            book.add(&course, &step, &summary);
        }
    }
    let quarry = quarry.clone();
    let twin = evidence::TwinHunt { quarry, witness, seeds: 12, found: 10 };
    let text = evidence::evidence(&identity, &book, &course, Some(&twin));
    text.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn what_is_claimed_follows_from_all_runs() {
    use evidence::Witness::{Canary, PlantedTwin};

    let told = [
        claim_of(Verdict::Safe, PlantedTwin),
        claim_of(Verdict::Safe, Canary),
        claim_of(Verdict::Violation, PlantedTwin),
        claim_of(Verdict::Unknown, PlantedTwin),
        claim_of(Verdict::Internal, PlantedTwin),
    ];
    insta::assert_snapshot!(told.join("\n"));
}
