//! What is told of an ensemble's places and sessions.

use super::*;

/// What is told of these observations, shortly.
fn told(observations: &[Observation<'_>]) -> Vec<String> {
    let recorder = Recorder::new(|| 0);
    let watch = EnsembleWatch::new(recorder.clone()).of("zk-1".into());
    for observation in observations {
        watch.observe(observation);
    }
    let (history, _) = recorder.close();
    let short = |event: &crate::history::Event| match &event.what {
        What::RecordSet { owner, .. } => format!("set {owner}"),
        What::RecordReleased { owner, .. } => format!("released {owner}"),
        What::RecordLost { owner, .. } => format!("lost {owner}"),
        What::WaitBegan { owner, .. } => format!("waits {owner}"),
        What::WaitEnded { owner, .. } => format!("waits no more {owner}"),
        What::SessionExpired { records, .. } => format!("expired {}", records.len()),
        other => format!("{other:?}"),
    };
    history.iter().map(short).collect()
}

fn created<'a>(zxid: i64, path: &'a str, owner: &'a str) -> Observation<'a> {
    let (session, is_ephemeral) = (zxid, true);
    Observation::Created { zxid, session, path, data: owner.as_bytes(), is_ephemeral }
}

fn deleted(zxid: i64, czxid: i64, path: &str) -> Observation<'_> {
    Observation::Deleted { zxid, session: czxid, path, czxid, owner: czxid }
}

const FIRST: &str = "/lockstorm/locks/lock:a/00-lock-0000000000";
const SECOND: &str = "/lockstorm/locks/lock:a/11-lock-0000000001";
const THIRD: &str = "/lockstorm/locks/lock:a/22-lock-0000000002";
const READS: &str = "/lockstorm/locks/lock:a/22-read-0000000002";
const READS_TOO: &str = "/lockstorm/locks/lock:a/33-read-0000000003";

#[test]
fn a_turn_comes_with_the_end_of_the_one_before() {
    let release = told(&[
        created(1, FIRST, "app-1/1"),
        created(2, SECOND, "app-2/1"),
        deleted(3, 1, FIRST),
        deleted(4, 2, SECOND),
    ]);
    let expected =
        ["set app-1/1", "waits app-2/1", "released app-1/1", "set app-2/1", "released app-2/1"];
    assert_eq!(release, expected);
}

#[test]
fn an_expiry_is_told_as_one_and_a_waiter_loses_nothing() {
    let expiry = told(&[
        created(1, FIRST, "app-1/1"),
        created(2, SECOND, "app-2/1"),
        Observation::SessionExpired { session: 2 },
        deleted(3, 2, SECOND),
        Observation::SessionClosed { session: 2, zxid: 3 },
        Observation::SessionExpired { session: 1 },
        deleted(4, 1, FIRST),
    ]);
    let expected =
        ["set app-1/1", "waits app-2/1", "expired 0", "waits no more app-2/1", "expired 1"];
    assert_eq!(expiry, expected);
}

#[test]
fn what_an_election_decided_is_told_by_what_the_new_leader_begins_with() {
    let znode = |path, data: &'static str, czxid| Znode {
        path,
        data: data.as_bytes(),
        czxid,
        owner: czxid,
    };
    let begins = [znode(SECOND, "app-2/1", 2), znode(READS, "app-3/1", 4)];
    let election = told(&[
        created(1, FIRST, "app-1/1"),
        created(2, SECOND, "app-2/1"),
        Observation::SessionExpired { session: 1 },
        Observation::Inherited { znodes: &begins, sessions: &[2, 4] },
        Observation::Inherited { znodes: &begins, sessions: &[2, 4] },
    ]);
    let expected = ["set app-1/1", "waits app-2/1", "expired 1", "set app-2/1", "waits app-3/1"];
    assert_eq!(election, expected);
}

#[test]
fn whoever_is_gone_with_the_one_before_has_no_turn_in_between() {
    let begins = [Znode { path: THIRD, data: b"app-3/1", czxid: 3, owner: 3 }];
    let election = told(&[
        created(1, FIRST, "app-1/1"),
        created(2, SECOND, "app-2/1"),
        created(3, THIRD, "app-3/1"),
        Observation::Inherited { znodes: &begins, sessions: &[1, 2, 3] },
    ]);
    let expected = [
        "set app-1/1",
        "waits app-2/1",
        "waits app-3/1",
        "released app-1/1",
        "waits no more app-2/1",
        "set app-3/1",
    ];
    assert_eq!(election, expected);
}

#[test]
fn a_leader_that_does_not_know_that_it_was_replaced_tells_nothing_new() {
    let begins = [Znode { path: FIRST, data: b"app-1/1", czxid: 7, owner: 1 }];
    let release = (2 << EPOCH_SHIFT) | 1;
    let late = told(&[
        Observation::Inherited { znodes: &begins, sessions: &[1] },
        Observation::Leading { epoch: 2 },
        Observation::Deleted { zxid: release, session: 1, path: FIRST, czxid: 7, owner: 1 },
        created(7, FIRST, "app-1/1"),
    ]);
    assert_eq!(late, ["set app-1/1", "Leading { epoch: 2 }", "released app-1/1"]);
}

#[test]
fn a_place_that_somebody_else_deletes_was_not_given_up() {
    let by_another =
        |czxid, path| Observation::Deleted { zxid: 9, session: 9, path, czxid, owner: czxid };
    let pushed = told(&[
        created(1, FIRST, "app-1/1"),
        created(2, SECOND, "app-2/1"),
        by_another(2, SECOND),
        by_another(1, FIRST),
    ]);
    assert_eq!(pushed, ["set app-1/1", "waits app-2/1", "lost app-1/1"]);
}

#[test]
fn readers_have_their_turn_together() {
    let read = told(&[
        created(1, FIRST, "w"),
        created(2, READS, "r"),
        created(3, READS_TOO, "s"),
        deleted(4, 1, FIRST),
    ]);
    assert_eq!(read, ["set w", "waits r", "waits s", "released w", "set r", "set s"]);
}

#[test]
fn other_znodes_are_nobodys() {
    let others = ["/lockstorm", "/lockstorm/locks/lock:a", "/zookeeper/x-lock-1", "/a/b-lock-1"];
    let observations: Vec<_> = others.iter().map(|path| created(1, path, "o")).collect();
    assert_eq!(told(&observations), [""; 0]);
}
