//! What a roll says of requests and answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::engine::world::NodeId;
use crate::history::Event;

struct Sitting {
    roll: Arc<Roll>,
    recorder: Recorder,
    key: Name,
    /// How many events there are.
    count: Arc<AtomicUsize>,
}

const PORT: u16 = 50_000;

/// The connection of the app with this number to a server, from this port of its.
fn line(server: &str, app: u16, port: u16) -> Line {
    Line { server: server.into(), peer: (World::address(NodeId(app)), port).into() }
}

impl Sitting {
    /// Of two apps, each of which has a connection to each of two servers.
    fn new(quorum: u16) -> Sitting {
        let names = ["redis-1", "app-1", "app-2", "redis-2"].map(Into::into);
        let recorder = Recorder::new(|| 0);
        let roll = Roll::new(World::new(1, names), recorder.clone(), "lock:", quorum);
        let lines = [1, 2].map(|app| ["redis-1", "redis-2"].map(|at| line(at, app, PORT)));
        lines.iter().flatten().for_each(|line| roll.opened(line));
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        recorder.listen(Arc::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        }));
        Sitting { roll, recorder, key: "lock:a".into(), count }
    }

    fn granted_at(&self, line: &Line, written: &str) -> String {
        self.roll.granted(line, &self.key, written, Some(5)).unwrap().to_string()
    }

    fn granted(&self, app: u16, written: &str) -> String {
        self.granted_at(&line("redis-1", app, PORT), written)
    }

    fn told(&self, app: u16) {
        self.roll.told(&line("redis-1", app, PORT));
    }

    /// Who asked, was told, and had its belief taken from it, in order.
    fn events(self) -> Vec<String> {
        let (history, _) = self.recorder.close();
        let short = |event: &Event| match &event.what {
            What::AcquireInvoked { attempt, .. } => format!("asks {attempt}"),
            What::AcquireReturned { attempt, .. } => format!("told {attempt}"),
            What::BeliefEnded { attempt, reason } => format!("{reason:?} {attempt}"),
            other => format!("{other:?}"),
        };
        history.iter().map(short).collect()
    }
}

#[test]
fn tries_that_were_refused_and_the_grant_are_one_attempt() {
    let sitting = Sitting::new(1);
    let redis = line("redis-1", 1, PORT);
    for _ in 0..3 {
        assert_eq!(sitting.roll.refused(&redis, &sitting.key).as_deref(), Some("app-1/1"));
    }
    assert_eq!(sitting.granted(1, "x"), "app-1/1");
    sitting.told(1);
    sitting.told(1);
    assert_eq!(sitting.roll.owner("x").as_deref(), Some("app-1/1"));
    assert_eq!(sitting.granted(2, "y"), "app-2/1");
    assert_eq!(
        sitting.events(),
        ["asks app-1/1", "told app-1/1", "Unseen app-1/1", "asks app-2/1"]
    );
}

#[test]
fn a_name_that_is_used_again_is_a_new_attempt_once_the_old_one_is_over() {
    let sitting = Sitting::new(1);
    assert_eq!(sitting.granted(1, "host"), "app-1/1");
    assert_eq!(sitting.granted(1, "host"), "app-1/1", "it sets its own record again");
    sitting.roll.ended("app-1/1");
    assert_eq!(sitting.granted(1, "host"), "app-1/2");
    assert_eq!(sitting.granted(2, "host"), "app-2/1", "another app is somebody else");
    assert_eq!(sitting.granted(1, "host"), "app-1/3", "and the name is that one's now");
}

#[test]
fn an_answer_that_was_lost_tells_nobody() {
    let sitting = Sitting::new(1);
    sitting.granted(1, "x");
    sitting.roll.closed(&line("redis-1", 1, PORT));
    sitting.told(1);
    assert_eq!(sitting.events(), ["asks app-1/1"]);
}

#[test]
fn an_answer_over_another_connection_tells_nothing_of_what_was_asked_over_this() {
    let sitting = Sitting::new(1);
    let (first, second) = (line("redis-1", 1, PORT), line("redis-1", 1, PORT + 1));
    sitting.granted_at(&first, "x");
    sitting.roll.opened(&second);
    sitting.roll.told(&second);
    sitting.granted_at(&second, "y");
    sitting.roll.told(&second);
    sitting.roll.told(&first);
    assert_eq!(
        sitting.events(),
        [
            "asks app-1/1",
            "asks app-1/2",
            "told app-1/2",
            "Unseen app-1/2",
            "told app-1/1",
            "Unseen app-1/1"
        ]
    );
}

#[test]
fn a_connection_that_has_the_addresses_of_an_old_one_is_a_new_one() {
    let sitting = Sitting::new(1);
    let redis = line("redis-1", 1, PORT);
    assert_eq!(sitting.roll.refused(&redis, &sitting.key).as_deref(), Some("app-1/1"));
    sitting.roll.closed(&redis);
    // What it sent still comes: it is its own, and nobody hears of it.
    assert_eq!(sitting.granted(1, "x"), "app-1/1");
    sitting.told(1);
    assert_eq!(sitting.roll.refused(&redis, &sitting.key).as_deref(), Some("app-1/2"));
    sitting.roll.opened(&redis);
    assert_eq!(sitting.roll.refused(&redis, &sitting.key).as_deref(), Some("app-1/3"));
    sitting.told(1);
    assert_eq!(sitting.events(), ["asks app-1/1", "asks app-1/2", "asks app-1/3"]);
}

#[test]
fn of_a_quorum_the_last_server_tells() {
    let sitting = Sitting::new(2);
    let other = line("redis-2", 1, PORT);
    sitting.granted(1, "x");
    sitting.told(1);
    assert_eq!(sitting.granted(1, "x"), "app-1/1", "the same server again");
    sitting.told(1);
    assert_eq!(sitting.granted_at(&other, "x"), "app-1/1");
    assert_eq!(sitting.count.load(Ordering::Relaxed), 1, "one server, twice, is no quorum of two");
    sitting.roll.told(&other);
    sitting.granted(1, "x");
    sitting.told(1);
    assert_eq!(sitting.events(), ["asks app-1/1", "told app-1/1", "Unseen app-1/1"]);
}

#[test]
fn what_is_remembered_is_bounded_and_the_oldest_goes() {
    let sitting = Sitting::new(1);
    *sitting.roll.known() = Known::new(3);
    let redis = line("redis-1", 1, PORT);
    sitting.roll.opened(&redis);
    for name in ["z", "b", "c", "a", "d"] {
        sitting.granted(1, name);
        sitting.told(1);
    }
    let known = ["z", "b", "c", "a", "d"].map(|name| sitting.roll.owner(name).is_some());
    assert_eq!(known, [false, false, true, true, true], "not the least, the oldest");
    for number in 0..9 {
        sitting.roll.refused(&redis, &format!("lock:{number}").into());
    }
    let known = sitting.roll.known();
    assert_eq!(known.living.len(), 3);
    let asked = known.asking.keys_from((Asker::Line(redis), "".into())).count();
    assert_eq!(asked, 3);
}

#[test]
fn whoever_holds_by_a_connection_is_told_by_its_end_if_the_server_is_down() {
    let sitting = Sitting::new(1);
    let (redis, key): (_, Name) = (line("redis-1", 1, PORT), "advisory 1".into());
    let take = |line: &Line, owner: &str| {
        assert_eq!(sitting.roll.session_asks(line, &key, false).as_deref(), Some(owner));
        sitting.roll.say_begun();
        sitting.roll.session_granted(line, &key);
        sitting.roll.told(line);
    };
    take(&redis, "app-1/1");
    sitting.roll.session_gave_back(&redis, "app-1/1");
    take(&redis, "app-1/2");
    // One that its client has closed itself tells it nothing.
    let closed = line("redis-1", 1, PORT + 1);
    sitting.roll.opened(&closed);
    take(&closed, "app-1/3");
    sitting.roll.closed(&closed);
    // No node of this world is up.
    sitting.roll.cut_off(&redis);
    sitting.roll.cut_off(&closed);
    let ends: Vec<String> =
        sitting.events().into_iter().filter(|event| event.starts_with("Told")).collect();
    assert_eq!(ends, ["Told app-1/2"]);
}

#[test]
fn places_of_a_session_are_told_over_whichever_connection_it_has() {
    let sitting = Sitting::new(1);
    let (key, path): (Name, _) = ("/locks/a".into(), "/locks/a/x__lock__0000000000");
    let (first, second) = (line("redis-1", 2, PORT), line("redis-2", 2, PORT));
    assert_eq!(sitting.roll.place_taken(7, path, &key, false), None, "nobody's session");
    sitting.roll.attached(&first, 7);
    sitting.roll.told(&first);
    assert_eq!(sitting.roll.place_taken(7, path, &key, false).as_deref(), Some("app-2/1"));
    sitting.roll.turn_came(7, path, &key);
    // The session has moved before its client heard of it.
    sitting.roll.attached(&second, 7);
    sitting.roll.told(&first);
    // That it lives is all that it hears first.
    sitting.roll.told(&second);
    assert_eq!(sitting.count.load(Ordering::Relaxed), 1);
    sitting.roll.told(&second);
    assert_eq!(sitting.events(), ["asks app-2/1", "told app-2/1", "Unseen app-2/1"]);
}

#[test]
fn what_is_known_of_a_session_and_its_places_goes_with_them() {
    let sitting = Sitting::new(1);
    let (key, zk): (Name, _) = ("/locks/a".into(), line("redis-1", 2, PORT));
    for session in 1..=3 {
        sitting.roll.attached(&zk, session);
        let path = format!("/locks/a/x{session:010}");
        sitting.roll.place_taken(session, &path, &key, false);
        sitting.roll.place_left(&path, &key);
    }
    sitting.roll.session_over(1);
    sitting.roll.sessions_live(&[3]);
    let known = sitting.roll.known();
    assert_eq!(known.sessions.keys().copied().collect::<Vec<_>>(), [3]);
    let first = Asker::Place(String::new());
    assert_eq!(known.asking.keys_from((first, "".into())).count(), 0);
}
