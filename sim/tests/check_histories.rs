//! What does `lockstorm check` say of histories: ours, hand-made ones, Jepsen's, bad ones?

use std::path::Path;

use assert_cmd::Command;

fn lockstorm(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("lockstorm").unwrap();
    let output = command.args(arguments).env("LC_ALL", "C.UTF-8").output().unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// The exit code and the report on a file of this text, the folder's name left out.
fn checked(name: &str, text: &[u8], flags: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    let (code, stdout, stderr) = lockstorm(&[&["check", &path], flags].concat());
    let told = if code == 64 { stderr } else { stdout };
    (code, told.replace(&path, name))
}

fn ndjson(setting: &str, events: &[&str]) -> String {
    let header = format!(r#"{{"format":"lockstorm-history","schema":1,"setting":{setting}}}"#);
    let mut text = header + "\n";
    for event in events {
        text.push_str(event);
        text.push('\n');
    }
    text
}

fn same_verdict(folder: &Path, flags: &[&str]) {
    let path = folder.join("run.ndjson.gz").display().to_string();
    let run = [&["run", "--format", "json", "--out", &path], flags].concat();
    let (run_code, run, _) = lockstorm(&run);
    let (code, checked, stderr) = lockstorm(&["check", "--format", "json", &path]);
    assert_eq!(code, run_code, "{flags:?}: {stderr}");
    let run: serde_json::Value = serde_json::from_str(&run).unwrap();
    let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
    assert_eq!(checked["verdict"], run["verdict"], "{flags:?}");
    assert_eq!(checked["signature"], run["signature"], "{flags:?}");
    assert_eq!(checked["goals"], run["goals"], "{flags:?}");
    let findings = |of: &serde_json::Value| {
        let mut findings = of["findings"].as_array().unwrap().clone();
        // Lines are what the file adds.
        findings.iter_mut().for_each(|f| drop(f.as_object_mut().unwrap().remove("lines")));
        findings
    };
    assert_eq!(findings(&checked), findings(&run), "{flags:?}");
}

/// The lines that docs/history.md shows are events, and the sale of a unit twice is seen.
#[test]
fn the_lines_that_are_documented_are_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/history.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, shown) = text.split_once("```json\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3);
    let (code, told) = checked("h.ndjson", ndjson("{}", &lines).as_bytes(), &[]);
    assert!(code == 1 && told.contains("oversell"), "{code}: {told}");
    for wrong in [r#"["lock:sku-42"]"#, r#"{"lock:sku-42":"app-2/1"}"#] {
        let line = lines[0].replace(r#"["lock:sku-42","app-2/1"]"#, wrong);
        let (code, told) = checked("h.ndjson", ndjson("{}", &[&line]).as_bytes(), &[]);
        assert_eq!(code, 64, "{told}");
        assert!(told.starts_with("error: h.ndjson:2: ") && told.contains("history.md"), "{told}");
    }
}

#[test]
fn a_run_and_its_kept_history_come_to_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for seed in ["0x1", "0x2", "0x6", "0x7", "0x9"] {
        same_verdict(folder.path(), &["--seed", seed]);
        same_verdict(folder.path(), &["--seed", seed, "--fence", "full"]);
        same_verdict(folder.path(), &["--seed", seed, "--fence", "write"]);
    }
    same_verdict(folder.path(), &["--seed", "0x1", "--lock", "none", "--scenario", "redis-single"]);
    same_verdict(folder.path(), &["--seed", "0x1", "--calm"]);
}

// -- hand-made histories -------------------------------------------------------------

fn granted(at_us: u64, attempt: &str) -> String {
    let client = attempt.split('/').next().unwrap();
    format!(
        r#"{{"at_us":{at_us},"node":"{client}","what":"acquire-returned","attempt":"{attempt}","key":"k","outcome":"granted","lease_us":1000000}}"#
    )
}

fn released(at_us: u64, attempt: &str) -> String {
    let client = attempt.split('/').next().unwrap();
    format!(
        r#"{{"at_us":{at_us},"node":"{client}","what":"release-invoked","attempt":"{attempt}"}}"#
    )
}

fn effect(at_us: u64, owner: &str, token: u64, rest: &str) -> String {
    format!(
        r#"{{"at_us":{at_us},"node":"db","what":"effect","owner":"{owner}","token":{token},"accepted":true,{rest}}}"#
    )
}

/// Write-only fencing: the fence compares tokens of writes only, and no two writes are
/// out of order. Both bought on what they had read.
#[test]
fn a_write_only_fence_is_caught_though_no_two_writes_are_out_of_order() {
    let read = r#""operation":"read","left":1,"next_unit":1"#;
    let sell = |order: &str| format!(r#""operation":"sell","unit":1,"order":"{order}""#);
    let history = |second_reads_first: bool| {
        let second_read =
            effect(if second_reads_first { 1_200_100 } else { 1_300_100 }, "b/1", 2, read);
        let late = effect(1_300_000, "a/1", 1, &sell("of-a"));
        let mut events =
            vec![granted(100, "a/1"), effect(200, "a/1", 1, read), granted(1_200_000, "b/1")];
        match second_reads_first {
            true => events.extend([second_read, late]),
            false => events.extend([late, second_read]),
        }
        events.push(effect(1_400_000, "b/1", 2, &sell("of-b")));
        events.push(released(1_500_000, "b/1"));
        let sales = r#"[[1,"of-a"],[1,"of-b"]]"#;
        events.push(format!(
            r#"{{"at_us":1600000,"node":"db","what":"ledger","units":1,"sales":{sales}}}"#
        ));
        ndjson(r#"{"fence":"write"}"#, &events.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let (code, told) = checked("write-only.ndjson", history(true).as_bytes(), &[]);
    assert_eq!(code, 1);
    insta::assert_snapshot!(told);
    // Its twin: the second one read after the first had written.
    let (_, told) = checked("twin.ndjson", history(false).as_bytes(), &[]);
    assert!(!told.contains("effect-interleaved"), "{told}");
}

#[test]
fn a_lost_record_with_nobody_after_it_is_told() {
    let set = |at_us: u64, owner: &str| {
        format!(
            r#"{{"at_us":{at_us},"node":"r1","what":"record-set","key":"k","owner":"{owner}","lease_us":1000000}}"#
        )
    };
    let history = |records: &str| {
        let events = [
            set(1, "b/1"),
            granted(2, "b/1"),
            released(3, "b/1"),
            r#"{"at_us":4,"node":"r1","what":"record-released","key":"k","owner":"b/1"}"#
                .to_owned(),
            set(100, "a/1"),
            granted(200, "a/1"),
            format!(r#"{{"at_us":300,"node":"r2","what":"promoted","records":{records}}}"#),
            released(500, "a/1"),
        ];
        ndjson("{}", &events.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let (code, told) = checked("lost.ndjson", history("[]").as_bytes(), &[]);
    assert_eq!(code, 0);
    assert!(told.contains("grant-lost  advisory"), "{told}");
    assert!(told.contains("was missing when r2 became master"), "{told}");
    let (_, told) = checked("kept.ndjson", history(r#"[["k","a/1"]]"#).as_bytes(), &[]);
    assert!(!told.contains("grant-lost"), "{told}");
}

#[test]
fn clocks_that_are_not_known_well_enough_make_the_verdict_unknown() {
    let events = [
        granted(1_000, "a/1"),
        granted(50_000, "b/1"),
        released(58_000, "a/1"),
        released(90_000, "b/1"),
    ];
    let text = ndjson("{}", &events.iter().map(String::as_str).collect::<Vec<_>>());
    let code = |flags: &[&str]| checked("clocks.ndjson", text.as_bytes(), flags).0;
    assert_eq!(code(&[]), 1);
    assert_eq!(code(&["--clock-uncertainty", "3ms"]), 1);
    assert_eq!(code(&["--clock-uncertainty", "5ms"]), 2);
    assert_eq!(code(&["--clock-uncertainty", "a=10ms"]), 2);
    assert_eq!(
        code(&[
            "--clock-uncertainty",
            "5ms",
            "--clock-uncertainty",
            "a=0s",
            "--clock-uncertainty",
            "b=1ms"
        ]),
        1
    );
    let (_, told) = checked("clocks.ndjson", text.as_bytes(), &["--clock-uncertainty", "5ms"]);
    assert!(told.contains("neither shown nor"), "{told}");
    assert_eq!(code(&["--clock-uncertainty", "5"]), 64);
    assert_eq!(code(&["--clock-uncertainty", "nobody=5ms"]), 64);
}

// -- Jepsen's ---------------------------------------------------------------------------

fn op(process: i64, kind: &str, f: &str, value: &str, ms: u64) -> String {
    format!(
        "{{:process {process}, :type :{kind}, :f :{f}, :value {value}, :time {}}}\n",
        ms * 1_000_000
    )
}

fn edn(operations: &[(i64, &str, &str, &str, u64)], flags: &[&str]) -> (i32, String) {
    let text: String = operations.iter().map(|(p, t, f, v, ms)| op(*p, t, f, v, *ms)).collect();
    checked("history.edn", text.as_bytes(), flags)
}

#[test]
fn a_jepsen_mutex() {
    let overlap = |release_ms: u64| {
        edn(
            &[
                (0, "invoke", "acquire", "nil", 1),
                (0, "ok", "acquire", "nil", 5),
                (0, "invoke", "release", "nil", release_ms),
                (1, "invoke", "acquire", "nil", 20),
                (1, "ok", "acquire", "nil", 30),
                (1, "invoke", "release", "nil", 50),
                (0, "ok", "release", "nil", 60),
                (1, "ok", "release", "nil", 70),
            ],
            &["--model", "mutex"],
        )
    };
    assert_eq!(overlap(10).0, 0);
    let late = [
        (0, "invoke", "acquire", "nil", 1),
        (0, "ok", "acquire", "nil", 5),
        (1, "invoke", "acquire", "nil", 20),
        (1, "ok", "acquire", "nil", 30),
        (0, "invoke", "release", "nil", 40),
        (0, "ok", "release", "nil", 60),
    ];
    let (code, told) = edn(&late, &["--model", "mutex"]);
    assert_eq!(code, 1);
    insta::assert_snapshot!(told);
    // A crashed holder whose lease has run out is no violation; without a lease it is.
    let crashed = [
        (0, "invoke", "acquire", "nil", 1),
        (0, "ok", "acquire", "nil", 5),
        (1, "invoke", "acquire", "nil", 2_000),
        (1, "ok", "acquire", "nil", 2_100),
    ];
    assert_eq!(edn(&crashed, &["--lease", "1s"]).0, 0);
    assert_eq!(edn(&crashed, &[]).0, 1);
    // An acquire without an answer holds nothing for sure.
    let unknown = [
        (0, "invoke", "acquire", "nil", 1),
        (0, "info", "acquire", ":timeout", 5),
        (1, "invoke", "acquire", "nil", 6),
        (1, "ok", "acquire", "nil", 7),
        (1, "invoke", "release", "nil", 8),
        (1, "ok", "release", "nil", 9),
        (2, "invoke", "acquire", "nil", 10),
        (2, "ok", "acquire", "nil", 11),
    ];
    assert_eq!(edn(&unknown, &[]).0, 0);
    // A release by somebody who holds nothing.
    let stranger = [
        (0, "invoke", "acquire", "nil", 1),
        (0, "ok", "acquire", "nil", 5),
        (1, "invoke", "release", "nil", 6),
        (1, "ok", "release", "nil", 7),
        (0, "invoke", "release", "nil", 8),
        (0, "ok", "release", "nil", 9),
    ];
    let (code, told) = edn(&stranger, &[]);
    assert_eq!(code, 1);
    assert!(told.contains("wrong-release"), "{told}");
}

#[test]
fn a_jepsen_reentrant_mutex_and_a_fenced_one() {
    let nested = |inner: u64| {
        [
            (0, "invoke", "acquire", "nil", 1),
            (0, "ok", "acquire", "nil", 2),
            (0, "invoke", "acquire", "nil", 3),
            (0, "ok", "acquire", "nil", 4),
            (0, "invoke", "release", "nil", 5),
            (0, "ok", "release", "nil", 6),
            (1, "invoke", "acquire", "nil", inner),
            (1, "ok", "acquire", "nil", inner + 1),
            (0, "invoke", "release", "nil", 20),
            (0, "ok", "release", "nil", 21),
        ]
    };
    // Until the outer release nobody else may have it.
    let mut held = nested(8);
    assert_eq!(edn(&held, &["--model", "reentrant-mutex"]).0, 1);
    held[6..].rotate_left(2);
    (held[8].4, held[9].4) = (30, 31);
    assert_eq!(edn(&held, &["--model", "reentrant-mutex"]).0, 0);
    assert_eq!(edn(&held, &["--model", "mutex"]).0, 1, "no mutex is granted twice");

    let fenced = |second: &str| {
        let operations = [
            (0, "invoke", "acquire", "nil", 1),
            (0, "ok", "acquire", "7", 2),
            (0, "invoke", "release", "nil", 3),
            (0, "ok", "release", "nil", 4),
            (1, "invoke", "acquire", "nil", 5),
            (1, "ok", "acquire", second, 6),
            (1, "invoke", "release", "nil", 7),
            (1, "ok", "release", "nil", 8),
        ];
        let (code, told) = edn(&operations, &["--model", "fenced-mutex"]);
        (code, told.contains("token-regression"))
    };
    assert_eq!(fenced("8"), (0, false));
    assert_eq!(fenced("7"), (1, true));
    assert_eq!(fenced("nil"), (0, false), "an invalid fence promises nothing");
}

#[test]
fn a_jepsen_counter_is_a_stock() {
    let counter = |left: &str, second: &str| {
        edn(
            &[
                (0, "invoke", "add", "-1", 1),
                (1, "invoke", "add", "-1", 2),
                (0, "ok", "add", "-1", 3),
                (1, second, "add", "-1", 4),
                (0, "invoke", "read", "nil", 5),
                (0, "ok", "read", left, 6),
            ],
            &["--model", "counter", "--units", "1"],
        )
    };
    let (code, told) = counter("-1", "ok");
    assert_eq!(code, 1);
    assert!(told.contains("oversell"), "{told}");
    let (code, told) = counter("0", "ok");
    assert_eq!(code, 1);
    assert!(told.contains("stock-not-conserved"), "an update is lost: {told}");
    assert_eq!(counter("0", "fail").0, 0);
    assert_eq!(counter("0", "info").0, 0, "it may not have happened");
    assert_eq!(counter("1", "fail").0, 1);
}

#[test]
fn bad_input_gives_one_error_with_its_line_and_exit_code_64() {
    let cases: [(&str, &str, &[&str]); 9] = [
        ("a.ndjson", "{\"format\":\"lockstorm-history\",\"schema\":9}\n", &[]),
        (
            "b.ndjson",
            "{\"format\":\"lockstorm-history\",\"schema\":1}\n{\"at_us\":-1,\"node\":\"a\",\"what\":\"healed\"}\n",
            &[],
        ),
        (
            "c.ndjson",
            "{\"format\":\"lockstorm-history\",\"schema\":1,\"setting\":{\"fense\":\"full\"}}\n",
            &[],
        ),
        ("d.ndjson", "{\"format\":\"lockstorm-history\",\"schema\":1}\n", &["--model", "mutex"]),
        ("e.edn", "{:process 0, :type :ok, :f :acquire, :time 5}\n", &[]),
        ("f.edn", "{:process 0, :type :invoke, :f :acquire, :time -5}\n", &[]),
        ("g.edn", "[{:process 0, :type :invoke, :f :acquire, :time 5}\n", &[]),
        ("h.edn", "{:process 0, :type :invoke,\n :f :acquire :time}\n", &[]),
        (
            "i.edn",
            "{:process 0 :value [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]",
            &[],
        ),
    ];
    let told: Vec<String> = cases
        .iter()
        .map(|(name, text, flags)| {
            let (code, told) = checked(name, text.as_bytes(), flags);
            assert_eq!(code, 64, "{name}: {told}");
            assert_eq!(told.lines().count(), 1, "{told}");
            told
        })
        .collect();
    insta::assert_snapshot!(told.concat());
    assert_eq!(lockstorm(&["check", "no/such/file"]).0, 64);
}

#[test]
fn a_damaged_history_gives_one_error_with_its_line() {
    use std::io::Write as _;
    let head = "{\"format\":\"lockstorm-history\",\"schema\":1}\n";
    let healed = "{\"id\":4,\"at_us\":5,\"node\":\"a\",\"what\":\"healed\"}\n";
    let missing = "{\"at_us\":5,\"node\":\"a\",\"what\":\"record-set\",\"key\":\"k\"}\n";
    let packed = |text: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    };
    let mut truncated = packed([head, healed].concat().as_bytes());
    truncated.truncate(truncated.len() - 9);
    let endless = packed(&[head.as_bytes(), healed.as_bytes(), &vec![b'x'; 65 << 20]].concat());
    let cases: [(&str, Vec<u8>, &str); 4] = [
        ("a.ndjson.gz", truncated, "a.ndjson.gz:"),
        ("b.ndjson", [head, missing].concat().into_bytes(), "b.ndjson:2: "),
        ("c.ndjson", [head, healed, healed].concat().into_bytes(), "c.ndjson:3: "),
        ("d.ndjson.gz", endless, "d.ndjson.gz:3: "),
    ];
    let mut all = String::new();
    for (name, bytes, place) in cases {
        let (code, told) = checked(name, &bytes, &[]);
        assert_eq!(code, 64, "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(place), "{told}");
        all += &told;
    }
    insta::assert_snapshot!(all);
}
