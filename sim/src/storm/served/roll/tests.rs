//! What a roll says of requests and answers.

use super::*;
use crate::engine::world::NodeId;
use crate::history::Event;

struct Sitting {
    roll: Arc<Roll>,
    recorder: Recorder,
    redis: Name,
    key: Name,
}

impl Sitting {
    fn new(quorum: u16) -> Sitting {
        let names = ["redis-1", "app-1", "app-2"].map(Into::into);
        let recorder = Recorder::new(|| 0);
        let roll = Roll::new(World::new(1, names), recorder.clone(), "lock:", quorum);
        Sitting { roll, recorder, redis: "redis-1".into(), key: "lock:a".into() }
    }

    /// A connection of the app with this number.
    fn peer(app: u16, port: u16) -> SocketAddr {
        (World::address(NodeId(app)), port).into()
    }

    fn granted(&self, app: u16, written: &str) -> String {
        let at = (&self.redis, Sitting::peer(app, 50_000));
        self.roll.granted(at, &self.key, written, Some(5)).unwrap().to_string()
    }

    fn told(&self, app: &str) {
        self.roll.told(&app.into(), &self.redis);
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
    let peer = Sitting::peer(1, 50_000);
    for _ in 0..3 {
        assert_eq!(sitting.roll.refused(peer, &sitting.key).as_deref(), Some("app-1/1"));
    }
    assert_eq!(sitting.granted(1, "x"), "app-1/1");
    sitting.told("app-1");
    sitting.told("app-1");
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
}

#[test]
fn an_answer_that_was_lost_tells_nobody() {
    let sitting = Sitting::new(1);
    sitting.granted(1, "x");
    sitting.roll.reset(&"app-1".into(), &sitting.redis);
    sitting.told("app-1");
    assert_eq!(sitting.events(), ["asks app-1/1"]);
}

#[test]
fn of_a_quorum_the_last_answer_tells() {
    let sitting = Sitting::new(2);
    sitting.granted(1, "x");
    sitting.told("app-1");
    assert_eq!(sitting.granted(1, "x"), "app-1/1");
    sitting.told("app-1");
    assert_eq!(sitting.events(), ["asks app-1/1", "told app-1/1", "Unseen app-1/1"]);
}

#[test]
fn whoever_holds_by_a_connection_is_told_by_its_end_if_the_server_is_down() {
    let sitting = Sitting::new(1);
    let (peer, key): (_, Name) = (Sitting::peer(1, 50_000), "advisory 1".into());
    assert_eq!(sitting.roll.session_asks(peer, &key, false).as_deref(), Some("app-1/1"));
    sitting.roll.say_begun();
    sitting.roll.session_granted(&sitting.redis, peer, &key);
    sitting.told("app-1");
    // No node of this world is up.
    sitting.roll.cut_off(&"app-1".into(), &sitting.redis);
    let events = sitting.events();
    assert_eq!(events, ["asks app-1/1", "told app-1/1", "Unseen app-1/1", "Told app-1/1"]);
}

#[test]
fn places_of_a_session_are_told_over_whichever_server_has_it() {
    let sitting = Sitting::new(1);
    let (key, path): (Name, _) = ("/locks/a".into(), "/locks/a/x__lock__0000000000");
    let server: Name = "zk-2".into();
    assert_eq!(sitting.roll.place_taken(7, path, &key, false), None, "nobody's session");
    sitting.roll.attached(&server, Sitting::peer(2, 50_000), 7);
    assert_eq!(sitting.roll.place_taken(7, path, &key, false).as_deref(), Some("app-2/1"));
    sitting.roll.turn_came(7, path, &key);
    sitting.told("app-2");
    sitting.roll.told(&"app-2".into(), &server);
    assert_eq!(sitting.events(), ["asks app-2/1", "told app-2/1", "Unseen app-2/1"]);
}
