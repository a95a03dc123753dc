use proptest::prelude::*;

use super::*;
use crate::plan::{Fence, Seed};

fn example() -> SeedFile {
    SeedFile {
        id: "redis-failover-oversell-001".to_owned(),
        title: Title {
            en: "Replica promoted before it saw the lock".to_owned(),
            zh: "从库未同步锁就被提升为主库".to_owned(),
        },
        expect: Expectation {
            verdict: "violation".to_owned(),
            kinds: vec!["double-grant".to_owned(), "oversell".to_owned()],
        },
        found: Found {
            version: "0.1.0".to_owned(),
            trace_hash: "b3:9c41".to_owned(),
            issue: Some("https://example.org/issues/17".to_owned()),
        },
        turmoil: Turmoil::NotExpressible("a one-way cut".to_owned()),
        plan: Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(11)).unwrap(),
    }
}

#[test]
fn the_written_form_is_read_back() {
    let text = example().to_text();
    insta::assert_snapshot!(text);
    assert_eq!(SeedFile::parse("seed.toml", &text).unwrap(), example());
}

#[test]
fn bad_files_give_one_error_with_place_and_mend() {
    let text = example().to_text();
    let errors: Vec<String> = [
        ("schema = 1\nid", "schema = 9\nid"),
        ("schema = 1\nid", "id"),
        ("[plan]\nschema = 1", "[plan]\nschema = 9"),
        ("id = \"redis-failover-oversell-001\"", "id = \"../001\""),
        ("title = {", "titel = {"),
        ("verdict = \"violation\"", "verdict = \"violated\""),
        ("\"oversell\"", "\"oversold\""),
        ("kinds = [\"double-grant\", \"oversell\"]", "kinds = []"),
        (", zh = \"从库未同步锁就被提升为主库\"", ""),
        ("trace-hash = \"b3:9c41\"", "trace-hash = \"\""),
        ("turmoil = \"not expressible: a one-way cut\"", "turmoil = \"yes\""),
        ("turmoil = \"not expressible: a one-way cut\"", ""),
        ("lease = \"5s\"", "lease = \"5\""),
        ("[plan]", "plan = 1\n[else]"),
        (text.split_at(600).1, ""),
        (text.as_str(), "\u{0}\u{1}"),
    ]
    .iter()
    .map(|(from, to)| {
        assert!(text.contains(from), "{from}");
        SeedFile::parse("seed.toml", &text.replacen(from, to, 1)).unwrap_err().to_string()
    })
    .collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_shelf_is_read_in_order_and_never_overwritten() {
    let seeds = tempfile::tempdir().unwrap();
    let at = |error: PlanError| {
        error.to_string().replace(&seeds.path().display().to_string(), "SEEDS").replace('\\', "/")
    };
    let shelf = Shelf::KnownUnsafe;
    assert_eq!(load_shelf(seeds.path(), shelf).unwrap(), []);
    let second = SeedFile { id: "a-2".to_owned(), ..example() };
    let first = SeedFile { id: "a-1".to_owned(), ..example() };
    let path = save(seeds.path(), shelf, &second).unwrap();
    save(seeds.path(), shelf, &first).unwrap();
    std::fs::write(seeds.path().join("known-unsafe/README.md"), "about").unwrap();
    let read = load_shelf(seeds.path(), shelf).unwrap();
    assert_eq!(read.iter().map(|(_, file)| file).collect::<Vec<_>>(), [&first, &second]);
    let mut errors = vec![
        at(save(seeds.path(), shelf, &second).unwrap_err()),
        at(save(seeds.path(), Shelf::Lesson, &second).unwrap_err()),
        at(save(seeds.path(), Shelf::Regression, &example()).unwrap_err()),
    ];
    let before = std::fs::read_to_string(&path).unwrap();
    assert_eq!(before, second.to_text(), "a refused file must not touch the old one");
    // A name that is not the id, a file cut off, a file of the future, a stray file.
    let bad = seeds.path().join("known-unsafe/bad.toml");
    for text in [before.clone(), before[..700].to_owned(), before.replacen("= 1", "= 2", 1)] {
        std::fs::write(&bad, text).unwrap();
        errors.push(at(load_shelf(seeds.path(), shelf).unwrap_err()));
    }
    std::fs::rename(&bad, seeds.path().join("known-unsafe/bad.tml")).unwrap();
    errors.push(at(load_shelf(seeds.path(), shelf).unwrap_err()));
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn expectations_are_met_or_say_what_differs() {
    let expect = example().expect;
    assert_eq!(expect.met_by("violation", &["oversell", "double-grant", "grant-lost"]), Ok(()));
    insta::assert_snapshot!(
        [expect.met_by("safe", &[]), expect.met_by("violation", &["oversell"])]
            .map(Result::unwrap_err)
            .join("\n"),
        @r"
    expected the verdict violation, got safe
    expected double-grant among the findings, got oversell
    "
    );
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}", at in 0usize..1_500) {
        let _ = SeedFile::parse("seed.toml", &text);
        let mut whole = example().to_text();
        while !whole.is_char_boundary(at.min(whole.len())) {
            whole.insert(0, ' ');
        }
        whole.insert_str(at.min(whole.len()), &text);
        let _ = SeedFile::parse("seed.toml", &whole);
    }
}
