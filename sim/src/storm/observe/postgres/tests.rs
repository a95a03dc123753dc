use std::net::SocketAddr;
use std::time::Duration;

use super::*;

const LEASE_US: u64 = 3_000_000;

fn session(pid: i32) -> Session {
    Session { pid, peer: SocketAddr::from(([10, 0, 0, 1], 4_000)) }
}

fn row<'a>(columns: &[(&'a str, &str)]) -> Vec<(&'a str, Option<String>)> {
    columns.iter().map(|(name, value)| (*name, Some((*value).to_owned()))).collect()
}

fn lock_row(owner: &str, token: &str, expires: &str) -> Vec<(&'static str, Option<String>)> {
    let columns = [("key", "lock:a"), ("owner", owner), ("token", token), ("holds", "1")];
    let mut row = row(&columns);
    row.push(("expires_at", Some(expires.to_owned())));
    row
}

fn watch() -> (Recorder, Arc<ClusterWatch>) {
    let recorder = Recorder::new(|| 0);
    let watch = ClusterWatch::new(recorder.clone(), "pg-1".into(), LEASE_US, &["lock:a"]);
    (recorder, watch)
}

/// What has been told, shortly.
fn told(recorder: &Recorder) -> Vec<String> {
    let (history, _) = recorder.close();
    let short = |event: &crate::history::Event| match &event.what {
        What::RecordSet { owner, .. } => format!("set {owner}"),
        What::RecordReleased { owner, .. } => format!("released {owner}"),
        What::RecordExpired { owner, .. } => format!("expired {owner}"),
        What::RecordLost { owner, how, .. } => format!("lost {owner} {how:?}"),
        What::RecordExtended { owner, lease_us, .. } => format!("extended {owner} {lease_us}"),
        What::RecordReplicated { owner, .. } => format!("{} has {owner}", event.node),
        What::RecordLoaded { owner, .. } => format!("{} has {owner} from its disk", event.node),
        What::RecordUnreplicated { owner, .. } => format!("{} has no {owner}", event.node),
        What::WaitBegan { owner, .. } => format!("waits {owner}"),
        What::LeaseBegan { owner, .. } => format!("writes {owner}"),
        What::SessionExpired { session, records } => format!("ended {session} {}", records.len()),
        What::Promoted { records, .. } => format!("promoted with {}", records.len()),
        What::Effect { owner, .. } => format!("sold to {owner} at {}", event.node),
        other => format!("{other:?}"),
    };
    history.iter().map(short).collect()
}

fn locked<'a>(pid: i32, row: Row<'a>) -> Observation<'a> {
    let (session, mode) = (session(pid), RowLockMode::Update);
    Observation::RowLocked { session, xid: 9, table: ROWS, mode, row }
}

fn named(pid: i32, name: &str) -> Observation<'_> {
    Observation::Named { session: session(pid), name }
}

/// What the watch of a server hears, one after another.
fn heard(server: &ServerWatch, observations: &[Observation<'_>]) {
    observations.iter().for_each(|observation| server.observe(observation));
}

#[test]
fn a_row_that_a_transaction_locks_is_the_record_of_the_sessions_owner() {
    let (recorder, cluster) = watch();
    let server = cluster.of("pg-1".into());
    let key = row(&[("key", "lock:a")]);
    let (one, other) = (session(1), session(2));
    let limit = Duration::from_secs(3);
    let ended = Observation::RowReleased { session: one, xid: 9, table: ROWS, row: &key };
    let observations = [
        named(1, "app-1/1"),
        locked(1, &key),
        Observation::Idle { session: one, limit },
        named(2, "app-2/1"),
        Observation::RowAwaited { session: other, table: ROWS, row: &key, holder: 9 },
        Observation::RowAwaited { session: other, table: ROWS, row: &key, holder: 9 },
        Observation::Idle { session: one, limit },
        // The name ends with the transaction, before the row's lock.
        named(1, "app-1"),
        ended,
        locked(2, &key),
    ];
    heard(&server, &observations);
    let expected = [
        "set app-1/1",
        "waits app-2/1",
        "extended app-1/1 3000000",
        "released app-1/1",
        "set app-2/1",
    ];
    assert_eq!(told(&recorder), expected);
}

#[test]
fn what_a_session_loses_as_it_ends_has_expired() {
    let (recorder, cluster) = watch();
    let server = cluster.of("pg-1".into());
    let key = AdvisoryKey::Big(number_of("lock:a"));
    let one = session(1);
    let observations = [
        named(1, "app-1/1"),
        Observation::AdvisoryLocked { session: one, key, shared: false, of_transaction: false },
        Observation::SessionEnding { session: one, code: Some("57P05") },
        Observation::AdvisoryReleased { session: one, key, shared: false, left: 0 },
        Observation::SessionEnded { session: one },
    ];
    heard(&server, &observations);
    assert_eq!(told(&recorder), ["set app-1/1", "ended pg-1:1 1"]);
}

/// Behind a pooler clients have one session one after another, and the lock is each one's.
#[test]
fn owners_of_one_session_give_a_lock_back_each_for_itself() {
    let (recorder, cluster) = watch();
    let server = cluster.of("pg-1".into());
    let key = AdvisoryKey::Big(number_of("lock:a"));
    let one = session(1);
    let taken =
        || Observation::AdvisoryLocked { session: one, key, shared: false, of_transaction: false };
    let given_back =
        |left| Observation::AdvisoryReleased { session: one, key, shared: false, left };
    let observations = [
        named(1, "app-1/1"),
        taken(),
        named(1, "app-2/1"),
        taken(),
        taken(),
        named(1, "app-1/1"),
        given_back(2),
        named(1, "app-2/1"),
        given_back(1),
        given_back(0),
        taken(),
        named(1, "app-3/1"),
        taken(),
    ];
    heard(&server, &observations);
    // All that a crash takes from it.
    server.started();
    let expected = [
        "set app-1/1",
        "set app-2/1",
        "released app-1/1",
        "released app-2/1",
        "set app-2/1",
        "set app-3/1",
        "lost app-2/1 Crash",
        "lost app-3/1 Crash",
    ];
    assert_eq!(told(&recorder), expected);
}

#[test]
fn a_row_of_the_lock_table_is_a_record_once_it_is_committed() {
    let (recorder, cluster) = watch();
    let (first, standby) = (cluster.of("pg-1".into()), cluster.of("pg-2".into()));
    let taken = lock_row("app-1/1", "1", "2000-01-01 00:00:03+00");
    let over = lock_row("app-2/1", "2", "2000-01-01 00:00:07+00");
    let committed = |xid, wall_us| Observation::Committed {
        session: session(1),
        xid: Some(xid),
        position: 0,
        wall_us,
    };
    let inserted = |xid, row| Observation::Inserted { session: session(1), xid, table: LOCKS, row };
    first.observe(&inserted(1, &taken));
    first.observe(&Observation::Aborted { session: session(1), xid: Some(1) });
    first.observe(&inserted(2, &taken));
    first.observe(&committed(2, 0));
    standby.observe(&Observation::Replayed { position: 0, xid: 2 });
    let (old, new) = (taken.as_slice(), over.as_slice());
    let updated = Observation::Updated { session: session(2), xid: 3, table: LOCKS, old, new };
    first.observe(&updated);
    first.observe(&committed(3, 4_000_000));
    standby.observe(&Observation::Promoted { position: 0, timeline: 2, rows: &[] });
    first.observe(&named(2, "app-2"));
    let deleted = Observation::Deleted { session: session(2), xid: 4, table: LOCKS, row: new };
    first.observe(&deleted);
    first.observe(&committed(4, 5_000_000));
    let expected = [
        "writes app-1/1",
        "writes app-1/1",
        "set app-1/1",
        "pg-2 has app-1/1",
        "writes app-2/1",
        "expired app-1/1",
        "set app-2/1",
        "promoted with 0",
        "released app-2/1",
    ];
    assert_eq!(told(&recorder), expected);
}

#[test]
fn a_unit_is_sold_when_its_transaction_commits() {
    let (recorder, cluster) = watch();
    let server = cluster.of("pg-2".into());
    let sale = row(&[("sku", "42"), ("unit", "5"), ("order_key", "app-1/3")]);
    let one = session(1);
    let inserted = |xid| Observation::Inserted { session: one, xid, table: LEDGER, row: &sale };
    server.observe(&inserted(1));
    server.observe(&Observation::Aborted { session: one, xid: Some(1) });
    server.observe(&inserted(2));
    server.observe(&Observation::Committed { session: one, xid: Some(2), position: 0, wall_us: 0 });
    assert_eq!(told(&recorder), ["sold to app-1/3 at postgres"]);
}
