//! What a server's watch makes of a data set that was replaced.

use super::*;

const CLIENT: Origin =
    Origin::Client(SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 50_000));

const LOCK: &[u8] = b"lock:a";
const WAITERS: &[u8] = b"{lock:a}:queue";

fn watch() -> (RedisWatch, Recorder) {
    let names = ["redis-1", "app-1"].map(Into::into);
    let recorder = Recorder::new(|| 0);
    let watch = RedisWatch::new(
        NodeId(0),
        World::new(1, names),
        recorder.clone(),
        ConductorCell::default(),
        Namer::default(),
    );
    (watch, recorder)
}

fn field(watch: &RedisWatch, key: &[u8], field: &[u8], value: &[u8]) {
    watch.observe(&Observation::Field { origin: CLIENT, key, field, value: Some(value) });
}

fn replaced(watch: &RedisWatch, fields: &[(&[u8], &[u8], &[u8])]) {
    watch.observe(&Observation::Resynchronised {
        master: "redis-2:6379",
        offset: 1,
        lost: Vec::new(),
        strings: Vec::new(),
        fields: fields.to_vec(),
    });
}

/// Who began to wait, and who came in, in order.
fn news(recorder: &Recorder) -> Vec<String> {
    let history = recorder.close().0;
    let of = |event: &crate::history::Event| match &event.what {
        What::WaitBegan { owner, .. } => Some(format!("{owner} waits")),
        What::RecordSet { owner, .. } => Some(format!("{owner} is in")),
        _ => None,
    };
    history.iter().filter_map(of).collect()
}

#[test]
fn who_lost_its_place_with_the_old_data_set_waits_anew() {
    let (watch, recorder) = watch();
    field(&watch, WAITERS, b"app-1/1", b"1:0");
    field(&watch, LOCK, b"app-2/1", b"2");
    replaced(&watch, &[]);
    field(&watch, WAITERS, b"app-1/1", b"1:0");
    field(&watch, LOCK, b"app-2/1", b"1");
    assert_eq!(
        news(&recorder),
        ["app-1/1 waits", "app-2/1 is in", "app-1/1 waits", "app-2/1 is in"]
    );
}

#[test]
fn who_is_in_the_new_data_set_is_no_news() {
    let (watch, recorder) = watch();
    replaced(&watch, &[(WAITERS, b"app-1/1", b"1:0"), (LOCK, b"app-2/1", b"2")]);
    // It asks again; an inner release; it comes in again.
    field(&watch, WAITERS, b"app-1/1", b"1:9");
    field(&watch, LOCK, b"app-2/1", b"1");
    field(&watch, LOCK, b"app-2/1", b"2");
    assert_eq!(news(&recorder), ["app-2/1 is in"]);
}

#[test]
fn a_server_that_was_away_has_a_record_from_its_disk_and_not_from_a_master() {
    let (watch, recorder) = watch();
    watch.observe(&Observation::Loaded { strings: vec![(LOCK, b"app-1/1")], fields: Vec::new() });
    let history = recorder.close().0;
    let [event] = &history.iter().collect::<Vec<_>>()[..] else { panic!("{history:?}") };
    let loaded =
        |what: &What| matches!(what, What::RecordLoaded { owner, .. } if **owner == *"app-1/1");
    assert!(loaded(&event.what), "{event:?}");
}

/// An attempt that asked more than once numbers its names; a number on another's is its own.
#[test]
fn who_asks_again_is_the_same_owner() {
    let (watch, _) = watch();
    let owner = |record: &[u8]| watch.owner(record).to_string();
    assert_eq!([owner(b"app-1/1"), owner(b"app-1/1#2")], ["app-1/1", "app-1/1"]);
    assert_eq!([owner(b"order#2"), owner(b"app-1/1#")], ["order#2", "app-1/1#"]);
}
