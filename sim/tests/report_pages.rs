//! Is every report in both languages? Is what a history holds inert in a page, and a page
//! bounded? Do traces and diagrams have their formats? And does whoever asks get the file?

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use assert_cmd::Command;
use lockstorm_interpose::Senses;
use lockstorm_sim::check::{self, Setting};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::senses;
use lockstorm_sim::history::file::{Header, Recorded};
use lockstorm_sim::history::{
    AcquireOutcome, Attempt, Event, EventId, FaultFamily, History, StockOperation, What,
};
use lockstorm_sim::plan::{Fence, Plan, Seed};
use lockstorm_sim::report::block::Failure;
use lockstorm_sim::report::html::document::Document;
use lockstorm_sim::report::html::{MOST_BYTES, MOST_EVENTS, Source, page};
use lockstorm_sim::report::manner::{Charset, Manner};
use lockstorm_sim::report::recorded::Told;
use lockstorm_sim::report::story::Story;
use lockstorm_sim::report::subject::Subject;
use lockstorm_sim::report::{mermaid, perfetto};
use lockstorm_sim::seeds::{self, SeedFile};
use lockstorm_sim::storm::locks::{self, LockFactory};
use lockstorm_sim::storm::{self, Run};
use lockstorm_sim::visible::{is_hidden, visible};
use serde_json::Value;

fn of_run<R>(run: &Run, tell: impl FnOnce(&Source<'_>) -> R) -> R {
    let failure = Failure {
        run,
        position: None,
        repetition: None,
        confirmation: None,
        reproduce: "lockstorm replay x.toml",
    };
    tell(&Source::of_run(&failure))
}

fn of_history<R>(history: History, tell: impl FnOnce(&Source<'_>) -> R) -> R {
    let recorded = Recorded { header: Header::default(), history, lines: Vec::new() };
    let setting = Setting::default();
    let judgement = check::judge(&recorded.history, &setting);
    tell(&Source::of_file("a.ndjson", &recorded, setting, &judgement))
}

/// Lets clients of ZooKeeper sense the nodes' clocks: without, their storms run nothing.
fn install_senses() {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
}

fn kept() -> Vec<Run> {
    install_senses();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds");
    let paths = seeds::list(&folder).unwrap();
    let plans = paths.iter().map(|path| SeedFile::load(path).unwrap().plan);
    let runs: Vec<Run> = plans.map(|plan| storm::run(&plan, &EventEngine)).collect();
    assert!(runs.len() >= 15, "the kept failures");
    let nothing = |run: &&Run| run.ending.stuck.is_some() || run.history.events.len() < 20;
    let idle: Vec<_> = runs.iter().filter(nothing).map(|run| &run.plan.lock.name).collect();
    assert!(idle.is_empty(), "kept plans that run nothing: {idle:?}");
    runs
}

/// Texts that have no Chinese, of every field but those that only name nodes.
fn untranslated(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let (Some(Value::String(english)), None) = (fields.get("en"), fields.get("zh")) {
                found.push(english.clone());
            }
            fields
                .iter()
                .filter(|(name, _)| *name != "who")
                .for_each(|(_, v)| untranslated(v, found));
        }
        Value::Array(items) => items.iter().for_each(|item| untranslated(item, found)),
        _ => {}
    }
}

#[test]
fn every_text_of_a_report_is_in_both_languages() {
    let mut runs = kept();
    let drawn = [
        ("redis-failover", "redis", Fence::Off),
        ("redis-failover", "redis", Fence::Full),
        ("redis-failover", "redis-watchdog", Fence::Write),
        ("redis-failover", "redis-fair", Fence::Off),
        ("redis-failover", "redis-sentinel", Fence::Off),
        ("redis-failover", "redis-wait", Fence::Off),
        ("redis-failover", "redis-reentrant", Fence::Full),
        ("redis-long-lease", "redis", Fence::Off),
        ("redis-single", "none", Fence::Off),
        ("redlock-five", "redlock", Fence::Off),
        ("zookeeper-three", "zookeeper", Fence::Off),
        ("zookeeper-three", "zookeeper-reentrant", Fence::Full),
        ("zookeeper-three", "zookeeper-read", Fence::Off),
        ("zookeeper-single", "zookeeper-write", Fence::Off),
        ("zookeeper-single", "zookeeper-election", Fence::Full),
        ("postgres-single", "pg-for-update", Fence::Off),
        ("postgres-single", "pg-nowait", Fence::Full),
        ("postgres-single", "pg-lock-table", Fence::Off),
        ("postgres-single", "pg-optimistic", Fence::Off),
        ("postgres-failover", "pg-lock-table-reentrant", Fence::Full),
        ("postgres-failover", "pg-advisory-xact", Fence::Off),
        ("postgres-failover", "pg-conditional", Fence::Off),
        ("postgres-pool", "none", Fence::Off),
        ("postgres-pooler", "pg-advisory", Fence::Off),
    ];
    for (scenario, lock, fence) in drawn {
        for seed in 0..12 {
            let plan = Plan::from_seed(scenario, lock, fence, Seed(seed)).unwrap();
            runs.push(storm::run(&plan, &EventEngine));
        }
    }
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    let (mut told, mut saved) = (0, 0);
    for run in &runs {
        let document = of_run(run, |source| Document::of(source, 50));
        told += usize::from(document.sentence.is_some());
        saved += usize::from(document.saved.is_some());
        let mut found = Vec::new();
        untranslated(&serde_json::to_value(&document).unwrap(), &mut found);
        for text in found {
            missing
                .entry(text)
                .or_insert_with(|| format!("{} {}", run.plan.lock.name, run.plan.seed));
        }
    }
    assert!(told > 60, "only {told} runs have something to tell");
    assert!(saved > 10, "only {saved} runs were saved by somebody");
    assert!(missing.is_empty(), "without Chinese: {missing:#?}");
}

/// The words of the page in one of its tables: each name with its text.
fn words(source: &str, table: &str) -> BTreeMap<String, String> {
    let (_, rest) = source.split_once(table).unwrap();
    let (table, _) = rest.split_once("\n};").unwrap();
    let (mut words, mut name) = (BTreeMap::new(), String::new());
    // `name: "text"`, with commas between; no text has an escape.
    for (n, part) in table.split('"').enumerate() {
        match n % 2 {
            0 => name = part.trim_matches([',', ':', ' ', '\n']).to_owned(),
            _ => {
                assert!(!part.contains('\\'), "{part:?}: this test reads no escapes");
                words.insert(std::mem::take(&mut name), part.to_owned());
            }
        }
    }
    words
}

#[test]
fn every_word_of_the_page_itself_is_in_both_languages_and_in_what_was_built() {
    let source = include_str!("../page/src/words.ts");
    let built = include_str!("../page/dist/page.html");
    let (english, chinese) =
        (words(source, "const en = {"), words(source, "const zh: typeof en = {"));
    assert!(english.len() > 100, "{}", english.len());
    let is_chinese = |text: &str| text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
    let places =
        |text: &str| (0..9).map(|n| text.contains(&format!("{{{n}}}"))).collect::<Vec<_>>();
    assert!(english.keys().eq(chinese.keys()), "{english:#?} {chinese:#?}");
    for ((name, en), zh) in english.iter().zip(chinese.values()) {
        assert!(!en.is_empty() && !zh.is_empty(), "{name}");
        assert_eq!(places(en), places(zh), "{name}: {en:?} {zh:?}");
        assert!(built.contains(en.as_str()), "{name}: {en:?} was not built (npm run build)");
        assert!(built.contains(zh.as_str()), "{name}: {zh:?} was not built (npm run build)");
        // What changes the language is called in the other; a name is the same in both.
        let is_itself = name == "language" || name == "version";
        assert!(is_itself || (is_chinese(zh) && !is_chinese(en)), "{name}: {en:?} {zh:?}");
    }
}

/// A text that tries to be markup.
const HOSTILE: &str =
    "</script><script>alert(1)</script><!--\u{2028}\u{202e}%DATA%%TITLE%\u{0}'\"&amp;";

fn at(id: u64, at_us: u64, node: &str, what: What) -> Event {
    Event { id: EventId(id), at_us, node: node.into(), cause: None, what }
}

fn attempt(client: &str, ordinal: u32) -> Attempt {
    Attempt { client: client.into(), ordinal }
}

/// Two are promised one lock at once, among `more` events of a third.
fn double_grant(client: &str, key: &str, more: u64) -> History {
    let mut events: Vec<Event> = Vec::new();
    let mut say = |at_us: u64, node: &str, what: What| {
        events.push(at(events.len() as u64, at_us, node, what));
    };
    let owner = format!("{client}/1");
    let granted =
        || AcquireOutcome::Granted { token: Some(u64::MAX), lease_us: 5_000_000, margin_us: 0 };
    let set = |owner: &str| What::RecordSet {
        key: key.into(),
        owner: owner.into(),
        lease_us: Some(5_000_000),
        shared: false,
    };
    let asked = |client: &str| What::AcquireInvoked {
        attempt: attempt(client, 1),
        key: key.into(),
        shared: false,
    };
    let told = |client: &str| What::AcquireReturned {
        attempt: attempt(client, 1),
        key: key.into(),
        outcome: granted(),
    };
    say(10, client, asked(client));
    say(20, "redis-1", set(&owner));
    say(30, client, told(client));
    say(
        40,
        "redis-1",
        What::FaultBegan {
            fault: 0,
            family: FaultFamily::ProcessCrash,
            targets: vec!["redis-1".into(), client.into()],
            description: client.to_owned(),
        },
    );
    for n in 0..more {
        let refused = What::RecordRefused {
            key: key.into(),
            owner: format!("app-9/{}", n % 40_000 + 1).as_str().into(),
            held_by: owner.as_str().into(),
        };
        say(50 + n, "redis-1", refused);
    }
    let late = 60 + more;
    say(late, "app-2", asked("app-2"));
    say(late + 1, "redis-2", set("app-2/1"));
    say(late + 2, "app-2", told("app-2"));
    for (n, owner) in [owner.as_str(), "app-2/1"].into_iter().enumerate() {
        let operation = StockOperation::Sell { unit: 1, order: owner.into() };
        let effect = What::Effect {
            owner: owner.into(),
            token: Some(u64::MAX),
            operation,
            accepted: n == 0,
            refusal: Some(client.into()),
        };
        say(late + 3 + n as u64, "stock-1", effect);
    }
    History { events, ended_us: late + 100, ..History::default() }
}

/// The data of a page, as a browser finds them.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn a_hostile_history_is_inert_text() {
    let huge = HOSTILE.repeat(5_000);
    for name in [HOSTILE, &huge, "🔒\u{301}\u{200d}锁", " ", "end"] {
        let calm = of_history(double_grant("app-1", "k", 3), page);
        let page = of_history(double_grant(name, name, 3), page);
        assert!(page.len() <= MOST_BYTES);
        // Neither one more script nor one less than in a page of a history that is none.
        for part in ["<script", "</script", "<!--", "%DATA%"] {
            let in_data = usize::from(part == "%DATA%") * page.matches("%DATA%").count();
            assert_eq!(page.matches(part).count() - in_data, calm.matches(part).count(), "{part}");
        }
        assert!(!page.contains(is_hidden_in_a_page));
        let data = data(&page);
        assert_eq!(data["verdict"], "violation");
        let shown = data["subject"]["key"].as_str().unwrap();
        let name = visible(name);
        assert!(name.starts_with(shown.trim_end_matches('…')) && shown.chars().count() <= 201);
    }
}

fn is_hidden_in_a_page(character: char) -> bool {
    is_hidden(character) && character != '\n'
}

/// Every character that turns the direction of writing.
const BIDIRECTIONAL: &str = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\
                             \u{2066}\u{2067}\u{2068}\u{2069}";

#[test]
fn no_name_turns_the_text_around_it_in_any_report() {
    let name = format!("app-1{BIDIRECTIONAL}\u{1b}[2J2");
    let history = double_grant(&name, &name, 3);
    for (what, told) in [
        ("page", of_history(history.clone(), page)),
        ("trace", of_history(history.clone(), perfetto::trace)),
        ("diagram", of_history(history.clone(), mermaid::diagram)),
    ] {
        assert!(!told.contains(is_hidden_in_a_page), "{what}");
        assert!(told.contains("202e"), "{what}: it is seen");
    }
    let recorded = Recorded { header: Header::default(), history, lines: Vec::new() };
    let judgement = check::judge(&recorded.history, &Setting::default());
    let told = Told { file: &name, recorded: &recorded, judgement: &judgement };
    for charset in [Charset::Unicode, Charset::Ascii] {
        let text = told.text(&Manner::of(charset));
        assert!(!text.contains(is_hidden_in_a_page), "{text}");
        assert!(text.contains("\\u{202e}") && text.contains("\\u{1b}[2J"), "{text}");
    }
    let Some(subject) = Subject::of(&recorded.history, &judgement) else { panic!("found") };
    let plan = Plan::from_seed("redis-single", "redis", Fence::Off, Seed(0)).unwrap();
    let story = Story::of(&recorded.history, &plan, &subject).lines(&Manner::of(Charset::Unicode));
    assert!(!story.concat().contains(is_hidden), "{story:#?}");
}

#[test]
fn a_run_that_is_shown_has_its_messages_and_offsets_and_is_the_same_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds");
    let factory: LockFactory = Arc::new(locks::build);
    let run = |file: &str| {
        let run = storm::run(&SeedFile::load(&folder.join(file)).unwrap().plan, &EventEngine);
        assert!(!run.history.iter().any(|event| event.what.is_aside()), "a plain run has none");
        let shown = storm::with_asides(&run, &factory).expect("the same trace");
        let plain = shown.history.iter().filter(|event| !event.what.is_aside());
        assert!(plain.map(|event| &event.what).eq(run.history.iter().map(|event| &event.what)));
        assert_eq!(run.judgement.signature(), shown.judgement.signature());
        shown
    };
    let lagging = run("lesson/replication-lag.toml");
    let sent = lagging.history.iter().find(|event| match &event.what {
        What::MessageSent { to, message } => &**to == "redis-1" && message.contains("lock:sku-42"),
        _ => false,
    });
    let sent = sent.expect("a request for the lock");
    let arrived = lagging.history.iter().find(|event| event.cause == Some(sent.id)).unwrap();
    assert!(arrived.at_us > sent.at_us, "it has a slope");
    let first_position = |node: &str| {
        let is_position = |e: &&Event| matches!(e.what, What::ReplicationPosition { .. });
        let of_node = lagging.history.iter().filter(is_position).find(|e| &*e.node == node);
        of_node.map_or(u64::MAX, |event| event.at_us)
    };
    let (master, replica) = (first_position("redis-1"), first_position("redis-2"));
    assert!(master < u64::MAX && replica > master.saturating_add(1_000_000), "the replica lags");

    let cut = run("known-unsafe/redis-failover-two-masters-001.toml");
    let losses = cut.history.iter().filter(|e| matches!(e.what, What::MessageLost { .. }));
    assert!(losses.clone().count() > 5, "the cut loses messages");
    for loss in losses {
        let sent = loss.cause.and_then(|cause| cut.history.get(cause)).unwrap();
        assert!(matches!(sent.what, What::MessageSent { .. }));
    }
    for shown in [&lagging, &cut] {
        let page = of_run(shown, page);
        assert!(page.len() < 2_000_000, "{}", page.len());
        let data = data(&page);
        let events = data["events"].as_array().unwrap();
        let carried = events.iter().filter(|e| e["what"] == "message-delivered" && e["k"] == 1);
        assert!(carried.count() > 3, "what led to it was carried by messages");
    }
}

#[test]
fn a_large_history_gives_a_bounded_page_with_all_that_led_to_the_violation() {
    let history = double_grant("app-1", "lock:a", 100_000);
    let events = history.events.len();
    let page = of_history(history, page);
    assert!(page.len() <= MOST_BYTES, "{}", page.len());
    let data = data(&page);
    assert_eq!(data["events_in_all"], events);
    let shown = data["events"].as_array().unwrap();
    assert!(shown.len() <= MOST_EVENTS);
    let ids: Vec<u64> = shown.iter().map(|event| event["i"].as_u64().unwrap()).collect();
    for id in [0, 1, 2].into_iter().chain(events as u64 - 5..events as u64 - 2) {
        assert!(ids.contains(&id), "event {id} led to it");
    }
    assert!(ids.is_sorted());
}

#[test]
fn a_trace_has_the_trace_event_format() {
    let hostile = of_history(double_grant(HOSTILE, HOSTILE, 10), perfetto::trace);
    let traces =
        kept().iter().map(|run| of_run(run, perfetto::trace)).chain([hostile]).collect::<Vec<_>>();
    for trace in traces {
        let trace: Value = serde_json::from_str(&trace).unwrap();
        let mut open: BTreeMap<String, u64> = BTreeMap::new();
        let mut flows: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
        for event in trace["traceEvents"].as_array().unwrap() {
            let phase = event["ph"].as_str().unwrap();
            assert!(event["name"].is_string() && event["pid"].is_u64(), "{event}");
            if phase != "M" {
                assert!(event["ts"].is_u64(), "{event}");
            }
            let ts = event["ts"].as_u64().unwrap_or_default();
            match phase {
                "M" | "C" => assert!(event["args"].is_object(), "{event}"),
                "X" => assert!(event["dur"].is_u64() && event["tid"].is_u64(), "{event}"),
                "i" => assert_eq!(event["s"], "g"),
                "b" => assert!(open.insert(event["id"].to_string(), ts).is_none(), "{event}"),
                "e" => assert!(open.remove(&event["id"].to_string()).unwrap() <= ts, "{event}"),
                "s" | "f" => {
                    flows
                        .entry(event["id"].as_u64().unwrap())
                        .or_default()
                        .push((phase.to_owned(), ts));
                }
                _ => panic!("no such phase is written: {event}"),
            }
        }
        assert!(open.is_empty(), "every slice ends");
        for ends in flows.values() {
            let [(start, from), (end, to)] = &ends[..] else { panic!("{ends:?}") };
            assert!(start == "s" && end == "f" && from <= to, "{ends:?}");
        }
    }
}

#[test]
fn a_diagram_has_one_statement_a_line() {
    let hostile = of_history(double_grant(HOSTILE, HOSTILE, 3), mermaid::diagram);
    for diagram in kept().iter().map(|run| of_run(run, mermaid::diagram)).chain([hostile]) {
        let mut lines = diagram.lines();
        assert_eq!(lines.next(), Some("sequenceDiagram"));
        let mut depth = 0;
        for line in lines.map(str::trim_start) {
            depth += i32::from(line.starts_with("rect ")) - i32::from(line == "end");
            // `run`: of one that has nothing to tell but its verdict.
            let statements =
                ["participant n", "participant run", "rect rgba(", "Note over n", "Note over run"];
            let known = statements.into_iter().chain(["n"]).any(|s| line.starts_with(s));
            assert!(known || line == "end", "{line}");
            assert!(!line.contains("<script") && !line.contains('\u{0}'), "{line}");
        }
        assert_eq!(depth, 0);
    }
}

fn lockstorm(
    folder: &Path,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> (i32, String, String) {
    let output = Command::cargo_bin("lockstorm")
        .unwrap()
        .args(arguments)
        .current_dir(folder)
        .envs(environment.iter().copied())
        .env_remove("CARGO_MANIFEST_DIR")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn whoever_asks_for_a_file_is_told_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds");
    let lesson = seeds.join("lesson/replication-lag.toml").display().to_string();
    let (code, _, told) = lockstorm(here, &["report", &lesson], &[]);
    assert_eq!(code, 1, "{told}");
    let page = std::fs::read_to_string(here.join("replication-lag.html")).unwrap();
    assert!(told.contains("replication-lag.html"), "{told}");
    assert!(page.contains("<title>violation: app-1/1 and app-2/1 were both promised"));

    let run = [
        "run",
        "--seed",
        "0x0",
        "--out",
        "a.ndjson.gz",
        "--mermaid",
        "a.mmd",
        "--perfetto",
        "a.json",
    ];
    lockstorm(here, &run, &[]);
    assert!(here.join("a.mmd").is_file() && here.join("a.json").is_file());
    let (_, said, told) = lockstorm(here, &["report", "a.ndjson.gz", "--html", "b.html"], &[]);
    assert!(here.join("b.html").is_file(), "{said}{told}");

    let asked = [("LOCKSTORM_REPORT", "html"), ("LOCKSTORM_OUT", "reports")];
    let (code, _, told) = lockstorm(here, &["replay", &lesson], &asked);
    assert_eq!(code, 1);
    let line =
        told.lines().find(|line| line.starts_with("Report ")).unwrap_or_else(|| panic!("{told}"));
    assert!(Path::new(line.trim_start_matches("Report").trim()).is_file(), "{line}");

    let (code, _, told) = lockstorm(here, &["report", &lesson, "--html", "nowhere/a.html"], &[]);
    assert_eq!((code, told.matches("error: ").count()), (64, 1), "{told}");
    let (code, _, told) = lockstorm(here, &["report", "missing.ndjson"], &[]);
    assert_eq!((code, told.matches("error: ").count()), (64, 1), "{told}");
}
