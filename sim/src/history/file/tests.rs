//! Files are read back as they were written, and bad ones give one error.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use lockstorm::lock::Release;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::history::*;

fn attempt() -> Attempt {
    Attempt { client: "app-1".into(), ordinal: 3 }
}

/// One event of each kind, and of each shape that it has.
pub(super) fn one_of_each() -> Vec<What> {
    let (key, owner) = (Name::from("sku-42"), Name::from("app-1/3"));
    let order = || Name::from("order-1");
    let reason = || "no \"reply\"\n".to_owned();
    let effect = |operation: StockOperation, accepted: bool| What::Effect {
        owner: "app-1/3".into(),
        token: accepted.then_some(7),
        operation,
        accepted,
        refusal: (!accepted).then(|| "token 6 < 7".into()),
    };
    let returned = |outcome: AcquireOutcome| What::AcquireReturned {
        attempt: attempt(),
        key: "sku-42".into(),
        outcome,
    };
    let released = |release: Release| What::ReleaseReturned { attempt: attempt(), release };
    let renewed = |renewal: Renewal| What::RenewReturned { attempt: attempt(), renewal };
    let records = || vec![("sku-42".into(), "app-1/3".into())];
    let lost = |how: RecordLoss| What::RecordLost { key: "k".into(), owner: "o".into(), how };
    let granted = |token: Option<u64>, lease_us: u64| AcquireOutcome::Granted {
        token,
        lease_us,
        margin_us: 5,
    };
    vec![
        What::AcquireInvoked { attempt: attempt(), key: key.clone(), shared: false },
        What::AcquireInvoked { attempt: attempt(), key: key.clone(), shared: true },
        returned(granted(Some(7), 5_000)),
        returned(granted(None, NO_END)),
        returned(AcquireOutcome::Busy),
        returned(AcquireOutcome::TimedOut),
        returned(AcquireOutcome::Indeterminate { reason: reason() }),
        returned(AcquireOutcome::Failed { reason: reason() }),
        What::BeliefEnded { attempt: attempt(), reason: BeliefEnd::Deadline },
        What::ReleaseInvoked { attempt: attempt() },
        released(Release::Released),
        released(Release::NotHeld),
        released(Release::Indeterminate { reason: reason() }),
        What::RenewInvoked { attempt: attempt() },
        renewed(Renewal::Renewed),
        renewed(Renewal::NotHeld),
        renewed(Renewal::Indeterminate { reason: reason() }),
        What::RecordSet { key: key.clone(), owner: owner.clone(), lease_us: Some(5), shared: true },
        What::RecordSet { key: key.clone(), owner: owner.clone(), lease_us: None, shared: false },
        What::LeaseBegan { key: key.clone(), owner: owner.clone() },
        What::WaitBegan { key: key.clone(), owner: owner.clone() },
        What::WaitEnded { key: key.clone(), owner: owner.clone() },
        What::RecordRefused { key: key.clone(), owner: owner.clone(), held_by: "app-2/1".into() },
        What::RecordExtended { key: key.clone(), owner: owner.clone(), lease_us: 9 },
        What::RecordReleased { key: key.clone(), owner: owner.clone() },
        What::RecordExpired { key: key.clone(), owner: owner.clone() },
        What::RecordReplicated { key: key.clone(), owner: owner.clone() },
        What::RecordLoaded { key: key.clone(), owner: owner.clone() },
        What::RecordUnreplicated { key, owner },
        lost(RecordLoss::Resync),
        lost(RecordLoss::Deleted),
        What::SessionExpired { session: "0x1".into(), records: records() },
        What::Promoted { offset: 17, records: records() },
        What::Demoted { master: "redis-2:6379".into() },
        What::Resynchronised { master: "redis-2:6379".into(), offset: 4 },
        What::MasterDown { master: "redis-1:6379".into() },
        What::LeaderElected { epoch: 3, voters: vec!["sentinel-1".into(), "sentinel-2".into()] },
        What::Leading { epoch: 3 },
        What::SteppedDown { epoch: 3, how: "no quorum".into() },
        What::BroadcastBroken { how: "one number, two transactions".into() },
        What::MasterSwitched { from: "redis-1:6379".into(), to: "redis-2:6379".into() },
        What::ReplicationPosition { offset: 99 },
        effect(StockOperation::Read { left: 2, next_unit: Some(1) }, true),
        effect(StockOperation::Read { left: 0, next_unit: None }, true),
        effect(StockOperation::Sell { unit: 1, order: order() }, false),
        effect(StockOperation::Reserve { unit: 1, order: order() }, true),
        effect(StockOperation::Cancel { unit: 1, order: order() }, true),
        effect(StockOperation::Act { name: "debit".into() }, true),
        What::Ledger { units: 2, sales: vec![(1, order())] },
        What::StockCounted { units: 2, left: -1, reserved: 1 },
        What::OrderReturned { order: order(), answer: OrderAnswer::SoldOut },
        What::MessageSent { to: "redis-1".into(), message: "SET".into() },
        What::MessageDelivered { from: "app-1".into() },
        What::MessageLost { how: "cut".into() },
        What::NodeStarted { incarnation: 2 },
        What::NodeCrashed { machine: true },
        What::ProgramEnded { how: "its disk failed".into() },
        What::ClockChanged { offset_us: -5, rate_ppm: 200 },
        What::FaultBegan {
            fault: 0,
            family: FaultFamily::ClockStep,
            targets: vec!["redis-1".into()],
            description: "a step".into(),
        },
        What::FaultEnded { fault: 0 },
        What::FaultTouched { fault: 0, how: "it did".into() },
        What::Healed,
    ]
}

fn history_of(whats: Vec<What>) -> History {
    let mut history = History::default();
    for (n, what) in whats.into_iter().enumerate() {
        let id = EventId(n as u64);
        let cause = (n > 2).then(|| EventId(n as u64 - 2));
        let at_us = n as u64 / 3 * 100;
        history.events.push(Event { id, at_us, node: "app-1".into(), cause, what });
        history.ended_us = at_us + 50;
    }
    history
}

fn text(history: &History) -> String {
    let mut bytes = Vec::new();
    write(&Header::default(), history, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn every_event_is_read_back_as_it_was_written_packed_or_not() {
    let mut history = history_of(one_of_each());
    history.clock_uncertainty.nodes_us.insert("app-1".into(), 5_000);
    history.clock_uncertainty.others_us = 100;
    let folder = tempfile::tempdir().unwrap();
    for name in ["history.ndjson", "history.ndjson.gz"] {
        let path = folder.path().join(name);
        save(&path, &Header::default(), &history).unwrap();
        assert_eq!(read(&path).unwrap().history, history, "{name}");
        // Equal histories are equal bytes.
        let first = std::fs::read(&path).unwrap();
        save(&path, &Header::default(), &history).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), first, "{name}");
    }
}

/// Whether it holds of a part of `value`.
fn is_somewhere(value: &Value, holds: &impl Fn(&Value) -> bool) -> bool {
    let parts: Vec<&Value> = match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    holds(value) || parts.into_iter().any(|part| is_somewhere(part, holds))
}

/// `docs/history.schema.json` against what is written: every event has its own part,
/// which knows each of its fields and asks for none that may be missing.
#[test]
fn the_schema_knows_every_event_and_every_field() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/history.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let common = schema["$defs"]["event"]["properties"].as_object().unwrap();
    let mut told = std::collections::BTreeSet::new();
    for line in text(&history_of(one_of_each())).lines().skip(1) {
        let event: Value = serde_json::from_str(line).unwrap();
        let what = event["what"].as_str().unwrap();
        told.insert(what.to_owned());
        let own = &schema["$defs"]["events"][what];
        let properties = own["properties"].as_object();
        let properties = properties.unwrap_or_else(|| panic!("{what} is not in the schema"));
        for field in event.as_object().unwrap().keys() {
            assert!(
                common.contains_key(field) || properties.contains_key(field),
                "{what}: {field}"
            );
        }
        for field in own["required"].as_array().into_iter().flatten() {
            assert!(event.get(field.as_str().unwrap()).is_some(), "{what} needs no {field}");
        }
    }
    let known: Vec<&String> = schema["$defs"]["events"].as_object().unwrap().keys().collect();
    assert_eq!(known, told.iter().collect::<Vec<_>>(), "the schema and the code differ");
    let goals = crate::check::Goal::ALL.map(crate::check::Goal::id);
    let known = |value: &Value| value["items"]["enum"] == serde_json::json!(goals);
    assert!(is_somewhere(&schema, &known), "its list of goals and the code differ");
    let header = schema["$defs"]["header"]["properties"].as_object().unwrap();
    let written: Value = serde_json::to_value(Header {
        lockstorm: Some("1".into()),
        events: Some(1),
        ended_us: Some(1),
        clock_uncertainty_us: ClockUncertainty { others_us: 1, ..ClockUncertainty::default() },
        setting: serde_json::json!({}),
        run: Some(Origin::default()),
        ..Header::default()
    })
    .unwrap();
    assert_eq!(
        header.keys().collect::<Vec<_>>(),
        written.as_object().unwrap().keys().collect::<Vec<_>>()
    );
}

const HEADER: &str = r#"{"format":"lockstorm-history","schema":1}"#;
const HEALED: &str = r#"{"at_us":5,"node":"storm","what":"healed"}"#;

fn refused(bytes: &[u8]) -> String {
    read_from("h.ndjson", bytes).expect_err("it is bad").to_string()
}

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn bad_files_give_one_error_with_line_and_mend() {
    let with = |line: &str| format!("{HEADER}\n{HEALED}\n{line}\n").into_bytes();
    let mut damaged = packed(&text(&history_of(one_of_each())));
    let truncated = damaged[..damaged.len() - 9].to_vec();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    let endless = [HEADER.as_bytes(), b"\n", &vec![b'x'; lines::MOST_LINE_BYTES + 2]].concat();
    let nested = "[".repeat(100_000);
    let promoted = r#"{"at_us":6,"node":"a","what":"promoted","records":"#;
    let deep = with(&format!("{promoted}{nested}"));
    let announced = r#"{"format":"lockstorm-history","schema":1,"events":7}"#;
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("no header", HEALED.as_bytes().to_vec()),
        ("not JSON", b"hello".to_vec()),
        ("unknown version", br#"{"format":"lockstorm-history","schema":2,"new":1}"#.to_vec()),
        ("no version", br#"{"format":"lockstorm-history"}"#.to_vec()),
        (
            "unknown field of the header",
            br#"{"format":"lockstorm-history","schema":1,"x":1}"#.to_vec(),
        ),
        ("cut off", format!("{announced}\n{HEALED}\n").into_bytes()),
        ("half a line", format!("{HEADER}\n{{\"at_us\":5,\"no").into_bytes()),
        ("truncated gzip", truncated),
        ("damaged gzip", damaged),
        ("missing field", with(r#"{"at_us":6,"node":"a","what":"record-set","key":"k"}"#)),
        ("missing time", with(r#"{"node":"a","what":"healed"}"#)),
        ("unknown field", with(r#"{"at_us":6,"node":"a","what":"healed","hurry":1}"#)),
        ("unknown event", with(r#"{"at_us":6,"node":"a","what":"heeled"}"#)),
        (
            "unknown value",
            with(
                r#"{"at_us":6,"node":"a","what":"acquire-returned","attempt":"a/1","key":"k","outcome":"maybe"}"#,
            ),
        ),
        ("bad attempt", with(r#"{"at_us":6,"node":"a","what":"release-invoked","attempt":"a"}"#)),
        ("a comma left out", with(r#"{"at_us":6 "node":"a","what":"healed"}"#)),
        ("negative time", with(r#"{"at_us":-6,"node":"a","what":"healed"}"#)),
        ("a fraction", with(r#"{"at_us":6.5,"node":"a","what":"healed"}"#)),
        ("time goes back", with(r#"{"at_us":4,"node":"a","what":"healed"}"#)),
        ("duplicate id", with(r#"{"id":0,"at_us":6,"node":"a","what":"healed"}"#)),
        ("unknown cause", with(r#"{"cause":9,"at_us":6,"node":"a","what":"healed"}"#)),
        ("field twice", with(r#"{"at_us":6,"at_us":7,"node":"a","what":"healed"}"#)),
        ("empty line", with("")),
        ("endless line", endless),
        ("deeply nested", deep),
        ("an array", with(r#"[0,6,"a",null,"healed"]"#)),
        ("not text", with("\u{fffd}\u{0}")),
    ];
    let told: Vec<String> =
        cases.iter().map(|(what, bytes)| format!("# {what}\n{}", refused(bytes))).collect();
    for told in &told {
        assert_eq!(told.lines().count(), 2, "one line: {told}");
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn a_foreign_file_needs_little() {
    let lines = [
        r#"{"format":"lockstorm-history","schema":1,"clock_uncertainty_us":{"a":5,"*":1}}"#,
        r#"{"id":3,"at_us":1,"node":"a","what":"acquire-invoked","attempt":"a/1","key":"k"}"#,
        r#"{"id":7,"cause":3,"at_us":1,"node":"a","what":"acquire-returned","attempt":"a/1","key":"k","outcome":"granted"}"#,
    ];
    let recorded = read_from("f", lines.join("\r\n").as_bytes()).unwrap();
    assert_eq!(recorded.history.clock_uncertainty.of("a"), 5);
    assert_eq!(recorded.history.clock_uncertainty.of("b"), 1);
    assert_eq!(recorded.history.events[1].cause, Some(EventId(0)));
    assert_eq!(recorded.line_of(EventId(1)), 3);
    let What::AcquireReturned { outcome, .. } = &recorded.history.events[1].what else { panic!() };
    let endless = AcquireOutcome::Granted { token: None, lease_us: NO_END, margin_us: 0 };
    assert_eq!(*outcome, endless);
    // Several gzip members, as concatenated logs have them.
    let two = [packed(&format!("{}\n{}\n", lines[0], lines[1])), packed(lines[2])].concat();
    assert_eq!(read_from("f", &two[..]).unwrap().history, recorded.history);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_from("f", &bytes[..]);
        let _ = crate::history::edn::read_lines(
            "f",
            lines::Lines::of(&bytes[..]).unwrap(),
            crate::history::edn::Wording::default(),
        );
    }

    #[test]
    fn no_damage_of_a_file_panics(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        pack in any::<bool>(),
    ) {
        let text = text(&history_of(one_of_each()));
        let mut bytes = if pack { packed(&text) } else { text.into_bytes() };
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Err(error) = read_from("f", &bytes[..]) {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }
}
