//! Does each lesson show what it says, on both engines? Is it in both languages? Is the exported
//! site whole? (That each takes less than ten seconds is asked by `.ci/nightly`.)

use std::collections::BTreeSet;
use std::path::Path;

use assert_cmd::Command;
use lockstorm_interpose::Senses;
use lockstorm_sim::check::Language;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::senses;
use lockstorm_sim::lesson::curve;
use lockstorm_sim::lesson::{self, Lesson, Text, change};
use lockstorm_sim::report::lesson::site::{Taught, site};
use lockstorm_sim::report::lesson::{Shown, Teller};
use lockstorm_sim::report::manner::{Charset, Manner};
use lockstorm_sim::seeds::{Found, SeedFile, Title, check};
use lockstorm_sim::storm;

/// All lessons; third-party clients in their storms sense the nodes' clocks.
fn lessons() -> Vec<Lesson> {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
    lesson::all().unwrap_or_else(|error| panic!("{error}"))
}

/// All texts of a lesson, each with its place.
fn texts(lesson: &Lesson) -> Vec<(String, &Text)> {
    let Lesson { title, scene, question, story, exercise, safe_if, .. } = lesson;
    let single = [title, scene, question, story, exercise, safe_if].into_iter();
    let choices = lesson.choices.iter().flat_map(|choice| [&choice.text, &choice.because]);
    let knobs = lesson.knobs.iter().flat_map(|knob| [&knob.title, &knob.text]);
    let fixes = lesson.fixes.iter().flat_map(|fix| [&fix.title, &fix.because]);
    let all = single.chain(choices).chain(knobs).chain(fixes);
    all.enumerate().map(|(n, text)| (format!("{} text {n}", lesson.id), text)).collect()
}

fn is_chinese(character: char) -> bool {
    ('\u{4e00}'..='\u{9fff}').contains(&character)
}

#[test]
fn every_text_is_in_both_languages() {
    for lesson in &lessons() {
        for (place, text) in texts(lesson) {
            assert!(text.en.chars().filter(char::is_ascii_alphabetic).count() > 3, "{place}");
            assert!(!text.en.contains(is_chinese) || text.en.contains("超卖"), "{place}");
            assert!(text.zh.contains(is_chinese), "{place}: {:?}", text.zh);
            // As many paragraphs: a translation that stops half-way is none.
            let count = |language| text.paragraphs(language).len();
            assert_eq!(count(Language::English), count(Language::Chinese), "{place}");
        }
        assert!(lesson.choices.len() >= 3 && !lesson.fixes.is_empty(), "{}", lesson.id);
        assert!(!lesson.knobs.is_empty(), "{}", lesson.id);
        for knob in &lesson.knobs {
            assert!(knob.points.len() > 1, "{} {}: no curve", lesson.id, knob.set);
        }
        // What a knob does is seen only where something changes.
        let shares = lesson.knobs.iter().flat_map(|knob| knob.points.iter().map(|p| p.fails));
        assert!(shares.collect::<BTreeSet<_>>().len() > 1, "{}: all curves are flat", lesson.id);
    }
}

#[test]
fn each_lesson_shows_what_it_says_on_both_engines() {
    let lessons = lessons();
    assert!(lessons.len() >= 15);
    let mut failures = Vec::new();
    for lesson in &lessons {
        let file = SeedFile {
            id: lesson.id.clone(),
            title: Title { en: lesson.title.en.clone(), zh: lesson.title.zh.clone() },
            expect: lesson.expect.clone(),
            found: Found { version: "0".into(), trace_hash: "0".into(), issue: None },
            turmoil: lesson.turmoil.clone(),
            plan: lesson.plan.clone(),
        };
        let checked = check::check(&file);
        if !checked.is_met() {
            failures.push(format!("{}: {}", lesson.id, checked.lines.join("; ")));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn each_fix_has_the_verdict_that_is_written_there() {
    let mut failures = Vec::new();
    for lesson in &lessons() {
        for fix in &lesson.fixes {
            let changes = change::split_all(&fix.set).unwrap();
            let plan = change::changed(&lesson.plan, &changes).unwrap();
            let verdict = storm::run(&plan, &EventEngine).judgement.verdict;
            if verdict.id() != fix.verdict {
                failures.push(format!("{} {:?}: {verdict}", lesson.id, fix.set));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn each_curve_is_as_it_is_told_and_the_same_with_any_number_of_threads() {
    let mut failures = Vec::new();
    let mut measured = Vec::new();
    let lessons = lessons();
    for lesson in &lessons {
        for knob in &lesson.knobs {
            let points = curve::measured(&lesson.plan, knob, 2).unwrap();
            for (point, position) in points.iter().zip(&knob.points) {
                if !position.fails.holds(point.failed, point.runs)
                    || point.inconclusive > point.runs / 3
                {
                    failures.push(format!("{} {}: {point:?}", lesson.id, knob.set));
                }
            }
            measured.push((lesson, knob, points));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    let (lesson, knob, points) = &measured[0];
    assert_eq!(&curve::measured(&lesson.plan, knob, 1).unwrap(), points);
}

#[test]
fn a_missing_translation_is_told_with_its_place() {
    let text = include_str!("../src/lesson/files/pause.toml");
    let without = text.replacen("zh = \"停顿超过了租约\"\n", "", 1);
    assert_ne!(text, without);
    let error = Lesson::parse("pause", &without).unwrap_err().to_string();
    assert!(error.contains("the lesson pause") && error.contains("missing field `zh`"), "{error}");
}

/// Every link of `page`.
fn links(page: &str) -> Vec<&str> {
    page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn the_site_is_whole_and_asks_for_nothing_else() {
    let lessons = lessons();
    let runs: Vec<_> = lessons.iter().map(|l| storm::run(&l.plan, &EventEngine)).collect();
    let fixes: Vec<Vec<_>> = (lessons.iter().zip(&runs))
        .map(|(lesson, run)| vec![run.judgement.verdict; lesson.fixes.len()])
        .collect();
    let taught: Vec<Taught<'_>> = (lessons.iter().zip(&runs).zip(&fixes))
        .map(|((lesson, run), fixes)| Taught {
            lesson,
            shown: Shown { run, confirmation: None },
            curves: &[],
            fixes,
        })
        .collect();
    let files = site(&taught);
    let names: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 2 + 4 * lessons.len());
    for (name, text) in files.iter().filter(|(name, _)| !name.contains('/')) {
        for link in links(text) {
            let target = link.split('#').next().unwrap();
            assert!(names.contains(target), "{name}: {link}");
        }
        for asks in ["<script", " src=", "http://", "https://", "@import", "url("] {
            assert!(!text.contains(asks), "{name}: {asks}");
        }
        assert!(!text.contains('`'), "{name}: a sign of code that is none");
        let is_zh = name.ends_with(".zh.html");
        assert!(text.contains(if is_zh { "<html lang=\"zh-CN\">" } else { "<html lang=\"en\">" }));
        let (_, heading) = text.split_once("<h1>").unwrap();
        let heading = heading.split_once("</h1>").unwrap().0;
        assert_eq!(heading.contains(is_chinese), is_zh, "{name}: {heading}");
    }
}

#[test]
fn a_lesson_is_told_in_either_language_and_fits_a_terminal() {
    let lessons = lessons();
    let lesson = lessons.iter().find(|lesson| lesson.id == "pause").unwrap();
    let run = storm::run(&lesson.plan, &EventEngine);
    let mut told = Vec::new();
    for language in [Language::English, Language::Chinese] {
        let teller = Teller::new(Manner::of(Charset::Unicode), language);
        let parts = [
            teller.question(lesson, 5, lessons.len()),
            teller.storm(&Shown { run: &run, confirmation: None }),
            teller.answer(lesson, Some(1)),
            teller.lesson(lesson, &[]),
        ];
        told.push(parts.join("\n"));
    }
    let told = told.join("\n\n\n").replace(concat!("event ", env!("CARGO_PKG_VERSION")), "event");
    insta::assert_snapshot!(told);
    let ascii = Teller::new(Manner::of(Charset::Ascii), Language::Chinese);
    assert!(ascii.question(lesson, 5, 12).is_ascii(), "no Chinese there: in English");
}

fn lockstorm(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("lockstorm")
        .unwrap()
        .args(arguments)
        .current_dir(folder)
        .env("LC_ALL", "C.UTF-8")
        .env_remove("CARGO_MANIFEST_DIR")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_program_teaches() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let (code, listed, _) = lockstorm(here, &["lesson", "list"]);
    assert_eq!((code, listed.lines().count()), (0, lessons().len()), "{listed}");
    let (code, listed, _) = lockstorm(here, &["lesson", "list", "--format", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((code, listed["lessons"].as_array().unwrap().len()), (0, lessons().len()));

    let (code, told, why) =
        lockstorm(here, &["lesson", "run", "4", "--answer", "a", "--solution", "--html", "a.html"]);
    assert_eq!(code, 0, "{told}{why}");
    for part in
        ["Before you look", "turmoil 0.7: confirmed", "oversold by 1", "safe by fence", " / 24"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(here.join("a.html").is_file());

    let (code, told, _) =
        lockstorm(here, &["lesson", "run", "pause", "--set", "fault.1.for=200ms"]);
    assert_eq!(code, 0, "{told}");
    let (code, told, _) =
        lockstorm(here, &["lesson", "run", "pause", "--set", "lock.lease=500ms", "--lang", "zh"]);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("违反"), "{told}");
    // Where nothing goes wrong it is told how much was done: a closed shop does no wrong.
    let (code, told, _) = lockstorm(here, &["lesson", "run", "no-lock", "--no-curves"]);
    assert!(code == 0 && told.contains("20 of 20 units were sold."), "{told}");
    let hung = ["lesson", "run", "hung-holder", "--set", "lock.max-hold=never", "--lang", "zh"];
    let (code, told, _) = lockstorm(here, &hung);
    assert!(code == 0 && told.contains("400 件中售出 9 件。"), "{told}");
    for bad in [
        &["lesson", "run", "puase"][..],
        &["lesson", "run", "0"],
        &["lesson", "run", "pause", "--answer", "z"],
        &["lesson", "run", "pause", "--set", "fault.7.for=1s"],
        &["lesson", "export", "/dev/null/site"],
    ] {
        let (code, _, told) = lockstorm(here, bad);
        assert_eq!((code, told.matches("error: ").count()), (64, 1), "{bad:?}: {told}");
    }
}
