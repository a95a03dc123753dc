//! Do the locks on PostgreSQL, and the stock in its tables, do on a real server, over TCP,
//! what they say?
//!
//! Every test starts a server of its own, on a free port, in a temporary directory. Where
//! PostgreSQL 15 is not installed each test says so, loudly, and passes.

mod on_real_postgres;

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::lock::postgres::advisory::AdvisoryLock;
use lockstorm::lock::postgres::for_update::RowLock;
use lockstorm::lock::postgres::table::reentrant::ReentrantTableLock;
use lockstorm::lock::postgres::table::{Expiry, TableLock};
use lockstorm::lock::postgres::{Endpoint, Fencing, Options};
use lockstorm::lock::{Guard, Lock, LockError, Owner, Release};
use on_real_postgres::{Bench, Proxy, Server, When, bench};

const LEASE: Duration = Duration::from_secs(10);
const NO_PATIENCE: Duration = Duration::ZERO;

/// Generous, because the machine of a test may be busy with other tests.
fn options(lease: Duration) -> Options {
    Options { command_timeout: Duration::from_secs(2), ..Options::new(lease) }
}

const NAMES: [&str; 6] = [
    "pg-for-update",
    "pg-nowait",
    "pg-advisory",
    "pg-advisory-xact",
    "pg-lock-table",
    "pg-lock-table-reentrant",
];

/// Held by a session, and so over with it.
const OF_SESSIONS: &[&str] = NAMES.split_at(4).0;

fn lock(host: &Host, name: &str, endpoint: Endpoint, options: Options) -> Arc<dyn Lock> {
    let host = host.clone();
    match name {
        "pg-for-update" => Arc::new(RowLock::waiting(host, endpoint, options).unwrap()),
        "pg-nowait" => Arc::new(RowLock::nowait(host, endpoint, options).unwrap()),
        "pg-advisory" => Arc::new(AdvisoryLock::of_session(host, endpoint, options).unwrap()),
        "pg-advisory-xact" => {
            Arc::new(AdvisoryLock::of_transaction(host, endpoint, options).unwrap())
        }
        "pg-lock-table" => {
            Arc::new(TableLock::new(host, endpoint, options, Expiry::Lease).unwrap())
        }
        "pg-lock-table-reentrant" => {
            Arc::new(ReentrantTableLock::new(host, endpoint, options).unwrap())
        }
        other => panic!("no lock is called {other}"),
    }
}

async fn take(lock: &dyn Lock, key: &str, owner: &str) -> Result<Guard, LockError> {
    lock.acquire(key, &Owner::named(owner), NO_PATIENCE).await
}

#[tokio::test]
async fn one_owner_at_a_time() {
    let bench = bench!();
    for name in NAMES {
        let lock = lock(&bench.host, name, bench.endpoint(), options(LEASE));
        let guard = take(&*lock, "k'1", "a").await.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(guard.check(), Ok(()), "{name}");
        assert!(guard.remaining() <= LEASE - LEASE / 100, "{name}");
        assert_eq!(take(&*lock, "k'1", "b").await.unwrap_err(), LockError::Busy, "{name}");
        let patience = Duration::from_millis(120);
        let waited = lock.acquire("k'1", &Owner::named("b"), patience).await;
        assert_eq!(waited.unwrap_err(), LockError::TimedOut, "{name}");
        let other_key = take(&*lock, "other", "b").await.unwrap();
        assert_eq!(guard.release().await, Release::Released, "{name}");
        assert_eq!(other_key.release().await, Release::Released, "{name}");
        let next = take(&*lock, "k'1", "b").await.unwrap();
        assert_eq!(next.release().await, Release::Released, "{name}");
    }
    // What was taken and refused has left nothing open.
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in trans%'";
    assert_eq!(bench.ask(idle).await, "0");
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(bench.ask(held).await, "0");
}

#[tokio::test]
async fn a_waiter_gets_in_when_the_holder_leaves() {
    let bench = bench!();
    for name in NAMES {
        let lock = lock(&bench.host, name, bench.endpoint(), options(LEASE));
        let guard = take(&*lock, "k", "a").await.unwrap();
        let owner = Owner::named("b");
        let waiting = lock.acquire("k", &owner, LEASE);
        let leaving = async {
            bench.host.sleep(Duration::from_millis(150)).await;
            drop(guard);
        };
        let began = bench.host.monotonic();
        let (granted, ()) = tokio::join!(waiting, leaving);
        assert_eq!(granted.unwrap().release().await, Release::Released, "{name}");
        assert!(bench.host.monotonic() - began < LEASE / 2, "{name}");
    }
}

/// The name that holders give their session is what people see of it.
#[tokio::test]
async fn a_holder_is_named_in_the_servers_list_of_sessions() {
    let bench = bench!();
    for name in OF_SESSIONS {
        let lock = lock(&bench.host, name, bench.endpoint(), options(LEASE));
        let guard = take(&*lock, "k", "app-1/7").await.unwrap();
        let named = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'app-1/7'";
        assert_eq!(bench.ask(named).await, "1", "{name}");
        assert_eq!(guard.release().await, Release::Released);
        assert_eq!(bench.ask(named).await, "0", "{name}");
    }
}

/// A process that is killed: its kernel closes its connections, and nobody says goodbye.
#[tokio::test]
async fn a_killed_holder_is_rid_of_at_once_where_a_session_holds_and_after_its_lease_in_a_table() {
    let bench = bench!();
    let lease = Duration::from_secs(3);
    for name in NAMES {
        let endpoint = bench.endpoint();
        let killed = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap();
            let host = Host::tokio("app-2");
            let lock = lock(&host, name, endpoint, options(lease));
            let guard = runtime.block_on(take(&*lock, "k", "dead")).unwrap();
            std::mem::forget((guard, lock));
            drop(runtime);
        });
        killed.await.unwrap();
        let lock = lock(&bench.host, name, bench.endpoint(), options(lease));
        let began = bench.host.monotonic();
        let bound = lock.takeover_bound();
        let guard = lock.acquire("k", &Owner::named("b"), 2 * bound).await.unwrap();
        let waited = bench.host.monotonic() - began;
        let of_session = OF_SESSIONS.contains(&name);
        assert!(waited <= bound, "{name}: {waited:?}");
        assert_eq!(waited < lease / 2, of_session, "{name}: {waited:?}");
        assert_eq!(guard.release().await, Release::Released);
    }
}

/// A holder that stands still (a pause, a cut) says nothing, and the server ends its session.
#[tokio::test]
async fn a_silent_holder_loses_the_lock_after_its_lease_and_knows_by_its_own_clock() {
    let bench = bench!();
    let lease = Duration::from_secs(1);
    for name in OF_SESSIONS {
        let (endpoint, bench_endpoint) = (bench.endpoint(), bench.endpoint());
        let (to_sleeper, woken) = std::sync::mpsc::channel::<()>();
        let sleeper = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap();
            let host = Host::tokio("app-2");
            let lock = lock(&host, name, endpoint, options(lease));
            let guard = runtime.block_on(take(&*lock, "k", "sleeper")).unwrap();
            // Nothing of it runs until it is woken.
            woken.recv().unwrap();
            let checked = guard.check();
            let released = runtime.block_on(guard.release());
            (checked, released)
        });
        bench.host.sleep(Duration::from_millis(300)).await;
        let lock = lock(&bench.host, name, bench_endpoint, options(lease));
        assert_eq!(take(&*lock, "k", "b").await.unwrap_err(), LockError::Busy, "{name}");
        let guard = lock.acquire("k", &Owner::named("b"), 5 * lease).await.unwrap();
        to_sleeper.send(()).unwrap();
        let (checked, released) = sleeper.await.unwrap();
        assert!(matches!(checked, Err(LockError::Lost { .. })), "{name}: {checked:?}");
        assert_ne!(released, Release::Released, "{name}");
        assert_eq!(guard.check(), Ok(()), "{name}");
        assert_eq!(guard.release().await, Release::Released);
    }
}

#[tokio::test]
async fn a_slow_holder_keeps_what_its_session_holds_and_an_idle_pool_is_not_ended() {
    let bench = bench!();
    let lease = Duration::from_millis(900);
    for name in OF_SESSIONS {
        let lock = lock(&bench.host, name, bench.endpoint(), options(lease));
        let guard = take(&*lock, "k", "a").await.unwrap();
        bench.host.sleep(lease * 2).await;
        assert_eq!(guard.check(), Ok(()), "{name}");
        assert_eq!(take(&*lock, "k", "b").await.unwrap_err(), LockError::Busy, "{name}");
        assert_eq!(guard.release().await, Release::Released, "{name}");
        let session = "SELECT min(pid) FROM pg_stat_activity WHERE application_name = 'app-1' \
             AND pid <> pg_backend_pid()";
        let before = bench.ask(session).await;
        bench.host.sleep(lease * 3 / 2).await;
        assert_eq!(bench.ask(session).await, before, "{name}");
    }
}

#[tokio::test]
async fn nobody_is_kept_holding_for_ever_who_must_not_be() {
    let bench = bench!();
    let lease = Duration::from_millis(900);
    let options = Options { max_hold: Some(lease * 2), ..options(lease) };
    let lock = lock(&bench.host, "pg-advisory-xact", bench.endpoint(), options);
    let guard = take(&*lock, "k", "a").await.unwrap();
    let lost = bench.host.timeout(lease * 4, guard.lost()).await;
    assert_eq!(lost.as_deref(), Ok("it was held for as long as it may be"));
    let next = lock.acquire("k", &Owner::named("b"), lease).await.unwrap();
    assert_eq!(guard.release().await, Release::NotHeld);
    drop(next);
}

#[tokio::test]
async fn the_end_of_the_session_is_told_at_once() {
    let bench = bench!();
    for name in OF_SESSIONS {
        let lock = lock(&bench.host, name, bench.endpoint(), options(LEASE));
        let guard = take(&*lock, "k", "doomed").await.unwrap();
        let ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE application_name = 'doomed'";
        assert_eq!(bench.ask(ending).await, "t", "{name}");
        let told = bench.host.timeout(LEASE / 5, guard.lost()).await.unwrap();
        assert!(told.contains("terminating connection due to administrator"), "{name}: {told}");
        assert!(matches!(guard.check(), Err(LockError::Lost { .. })));
        drop(lock.acquire("k", &Owner::named("b"), LEASE).await.unwrap());
        assert_eq!(guard.release().await, Release::NotHeld, "{name}");
    }
}

#[tokio::test]
async fn tokens_grow_and_do_not_go_back_when_the_server_crashes() {
    let mut bench = bench!();
    let mut last = 0;
    for crash in [false, false, true] {
        if crash {
            bench.server.crash_and_restart(&bench.host).await;
        }
        for name in NAMES {
            let options = Options { fencing: Fencing::Sequence, ..options(LEASE) };
            let lock = lock(&bench.host, name, bench.endpoint(), options);
            let guard = lock.acquire("k", &Owner::named("a"), LEASE).await.unwrap();
            let token = guard.token().unwrap().0;
            assert!(token > last, "{name}: {token} after {last}");
            last = token;
            if crash {
                // Its transaction is open still: the token's is not the lock's.
                bench.server.crash_and_restart(&bench.host).await;
                let lost = bench.host.timeout(LEASE / 2, guard.lost()).await;
                assert_eq!(lost.is_ok(), OF_SESSIONS.contains(&name), "{name}");
            }
            drop(guard.release().await);
        }
    }
}

#[tokio::test]
async fn after_the_lease_a_row_is_anothers_and_release_says_so() {
    let bench = bench!();
    let lease = Duration::from_millis(300);
    for name in ["pg-lock-table", "pg-lock-table-reentrant"] {
        let lock = lock(&bench.host, name, bench.endpoint(), options(lease));
        let guard = take(&*lock, "k", "a").await.unwrap();
        let next = lock.acquire("k", &Owner::named("b"), Duration::from_secs(5)).await.unwrap();
        assert!(matches!(guard.check(), Err(LockError::Lost { .. })), "{name}");
        assert_eq!(guard.release().await, Release::NotHeld, "{name}");
        let owner = bench.ask("SELECT owner FROM lockstorm_lock").await;
        assert_eq!(owner, "b", "a release deletes its own row only");
        drop(next.release().await);
    }
}

#[tokio::test]
async fn a_row_without_expiry_leaks_when_its_holder_dies() {
    let bench = bench!();
    let lock = |lease| {
        let host = bench.host.clone();
        TableLock::new(host, bench.endpoint(), options(lease), Expiry::Never).unwrap()
    };
    let lease = Duration::from_millis(200);
    let short = lock(lease);
    let guard = take(&short, "k", "a").await.unwrap();
    assert_eq!(take(&short, "k", "b").await.unwrap_err(), LockError::Busy);
    assert_eq!(guard.release().await, Release::Released);
    std::mem::forget(take(&short, "k", "dead").await.unwrap());
    let patience = short.takeover_bound() + lease;
    assert!(short.takeover_bound() < lock(LEASE).takeover_bound() + LEASE);
    let owner = Owner::named("b");
    let waited = short.acquire("k", &owner, patience).await;
    assert_eq!(waited.unwrap_err(), LockError::TimedOut);
}

/// What is said against lock tables, that they do not block, is not so while the other's
/// transaction is open.
#[tokio::test]
async fn an_insert_waits_for_the_transaction_that_has_inserted_the_same_key() {
    let bench = bench!();
    let table = lock(&bench.host, "pg-lock-table", bench.endpoint(), options(LEASE));
    let other = bench.client().await;
    let insert = "BEGIN; INSERT INTO lockstorm_lock (key, owner, token, holds, expires_at) \
         VALUES ('k', 'open', 1, 1, clock_timestamp() + interval '1 hour')";
    for (end, expected) in [("ROLLBACK", true), ("COMMIT", false)] {
        other.batch_execute(insert).await.unwrap();
        let began = bench.host.monotonic();
        let waiting = take(&*table, "k", "a");
        let ending = async {
            bench.host.sleep(Duration::from_millis(400)).await;
            other.batch_execute(end).await.unwrap();
        };
        let (granted, ()) = tokio::join!(waiting, ending);
        assert!(bench.host.monotonic() - began >= Duration::from_millis(400));
        assert_eq!(granted.is_ok(), expected, "{end}");
        if let Ok(guard) = granted {
            assert_eq!(guard.release().await, Release::Released);
        }
    }
}

#[tokio::test]
async fn an_owner_gets_in_again_and_out_as_often() {
    let bench = bench!();
    let lease = Duration::from_secs(2);
    let options = Options { fencing: Fencing::Sequence, ..options(lease) };
    let lock = lock(&bench.host, "pg-lock-table-reentrant", bench.endpoint(), options);
    let outer = take(&*lock, "k", "a").await.unwrap();
    let inner = take(&*lock, "k", "a").await.unwrap();
    assert_eq!(outer.token(), inner.token());
    assert_eq!(bench.ask("SELECT holds FROM lockstorm_lock").await, "2");
    assert_eq!(take(&*lock, "k", "b").await.unwrap_err(), LockError::Busy);
    assert_eq!(inner.release().await, Release::Released);
    assert_eq!(bench.ask("SELECT holds FROM lockstorm_lock").await, "1");
    assert_eq!(take(&*lock, "k", "b").await.unwrap_err(), LockError::Busy);
    assert_eq!(outer.release().await, Release::Released);
    // A row that is over is another row, though its owner is the same.
    let old = take(&*lock, "k", "a").await.unwrap();
    bench.host.sleep(lease).await;
    let new = take(&*lock, "k", "a").await.unwrap();
    assert!(old.token() < new.token());
    assert_eq!(old.release().await, Release::NotHeld);
    assert_eq!(bench.ask("SELECT holds FROM lockstorm_lock").await, "1");
    // Somebody else inside is what guards that are out hear of.
    bench.ask("UPDATE lockstorm_lock SET owner = 'thief' RETURNING 1").await;
    assert_eq!(take(&*lock, "k", "a").await.unwrap_err(), LockError::Busy);
    assert!(new.lost().await.contains("no longer"));
    assert_eq!(new.release().await, Release::NotHeld);
    assert_eq!(bench.ask("SELECT owner FROM lockstorm_lock").await, "thief");
}

#[tokio::test]
async fn a_taking_whose_reply_was_lost_is_asked_again_and_finds_its_own_row() {
    let bench = bench!();
    for name in ["pg-lock-table", "pg-lock-table-reentrant"] {
        for when in [When::BeforeItArrives, When::AfterItArrived] {
            let proxy = Proxy::before(&bench, "INSERT INTO lockstorm_lock", when).await;
            let lock = lock(&bench.host, name, proxy.endpoint(), options(LEASE));
            let guard = take(&*lock, "k", "a").await.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(proxy.cuts(), 1);
            assert_eq!(bench.ask("SELECT holds FROM lockstorm_lock").await, "1");
            assert_eq!(guard.release().await, Release::Released);
        }
        // The same of the release: what it found, or that nothing is there.
        for when in [When::BeforeItArrives, When::AfterItArrived] {
            let proxy = Proxy::before(&bench, "DELETE FROM lockstorm_lock", when).await;
            let lock = lock(&bench.host, name, proxy.endpoint(), options(LEASE));
            let released = take(&*lock, "k", "a").await.unwrap().release().await;
            match when {
                When::BeforeItArrives => assert_eq!(released, Release::Released),
                When::AfterItArrived => {
                    assert!(matches!(released, Release::Indeterminate { .. }), "{released:?}");
                }
            }
            assert_eq!(bench.ask("SELECT count(*) FROM lockstorm_lock").await, "0");
        }
    }
}

#[tokio::test]
async fn a_claim_whose_reply_was_lost_is_indeterminate_and_its_session_gives_back() {
    let bench = bench!();
    for (name, word) in [("pg-for-update", "FOR UPDATE"), ("pg-advisory", "advisory_lock")] {
        let direct = lock(&bench.host, name, bench.endpoint(), options(LEASE));
        // So that the row is there, and its claim the only one.
        drop(take(&*direct, "k", "a").await.unwrap().release().await);
        let proxy = Proxy::before(&bench, word, When::AfterItArrived).await;
        let lock = lock(&bench.host, name, proxy.endpoint(), options(LEASE));
        let error = take(&*lock, "k", "a").await.unwrap_err();
        assert!(matches!(error, LockError::Indeterminate { .. }), "{name}: {error}");
        let guard = direct.acquire("k", &Owner::named("b"), LEASE / 2).await.unwrap();
        assert_eq!(guard.release().await, Release::Released);
    }
}

/// A wait at the server that nobody waits for any more must not become a lock.
#[tokio::test]
async fn a_waiter_whose_caller_loses_interest_leaves_the_queue() {
    let bench = bench!();
    for name in ["pg-for-update", "pg-advisory", "pg-advisory-xact"] {
        let lock = lock(&bench.host, name, bench.endpoint(), options(LEASE));
        let guard = take(&*lock, "k", "a").await.unwrap();
        let owner = Owner::named("b");
        let waiting = lock.acquire("k", &owner, LEASE);
        assert!(bench.host.timeout(Duration::from_millis(300), waiting).await.is_err());
        let queued = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        let mut left = bench.ask(queued).await;
        for _ in 0..40 {
            if left == "0" {
                break;
            }
            bench.host.sleep(Duration::from_millis(25)).await;
            left = bench.ask(queued).await;
        }
        assert_eq!(left, "0", "{name}");
        assert_eq!(guard.release().await, Release::Released);
    }
}

/// Who waits for a row at the server waits with a connection, and a hot row uses them up.
#[tokio::test]
async fn pessimistic_waiting_exhausts_the_connections_and_polling_does_not() {
    let bench = bench!();
    for queues in [true, false] {
        let options = Options { connections: 3, ..options(LEASE) };
        let (host, endpoint) = (bench.host.clone(), bench.endpoint());
        let lock = match queues {
            true => RowLock::waiting(host, endpoint, options).unwrap(),
            false => RowLock::nowait(host, endpoint, options).unwrap(),
        };
        let guard = take(&lock, "hot", "a").await.unwrap();
        let (b, c, d) = (Owner::named("b"), Owner::named("c"), Owner::named("d"));
        let patience = Duration::from_millis(2_500);
        let waiting = async {
            let (b, c) =
                tokio::join!(lock.acquire("hot", &b, patience), lock.acquire("hot", &c, patience));
            assert_eq!(b.unwrap_err(), LockError::TimedOut);
            assert_eq!(c.unwrap_err(), LockError::TimedOut);
        };
        let innocent = async {
            bench.host.sleep(Duration::from_millis(400)).await;
            let began = bench.host.monotonic();
            let granted = lock.acquire("another row", &d, NO_PATIENCE).await;
            (granted.map(drop), bench.host.monotonic() - began)
        };
        let ((), (granted, waited)) = tokio::join!(waiting, innocent);
        let usage = lock.usage();
        assert!(usage.peak <= 3, "{usage:?}");
        if queues {
            let error = granted.unwrap_err();
            let told = "none of 3 connections was to be had within 2s";
            assert_eq!(error, LockError::Backend { reason: told.to_owned() });
            assert_eq!((usage.peak, usage.refusals), (3, 1), "{usage:?}");
            assert!(usage.longest_wait >= Duration::from_secs(2), "{usage:?}");
        } else {
            assert_eq!(granted, Ok(()));
            assert!(waited < Duration::from_secs(1), "{waited:?}");
            assert_eq!(usage.refusals, 0, "{usage:?}");
        }
        assert_eq!(guard.release().await, Release::Released);
    }
}

#[tokio::test]
async fn of_several_servers_the_one_that_takes_writes_is_the_primary() {
    let bench = bench!();
    let read_only = Server::start(&bench.host, &["-c", "default_transaction_read_only=on"]).await;
    let read_only = read_only.unwrap();
    let client = read_only.client().await.unwrap();
    client.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    for statement in lockstorm::lock::postgres::schema::STATEMENTS {
        client.batch_execute(statement).await.unwrap();
    }
    let addresses = ["127.0.0.1:1".to_owned(), read_only.address(), bench.server.address()];
    let lock_at = |addresses: &[String]| {
        let endpoint = Endpoint::among(addresses.iter().cloned());
        lock(&bench.host, "pg-lock-table", endpoint, options(LEASE))
    };
    let guard = take(&*lock_at(&addresses), "k", "a").await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
    let error = take(&*lock_at(&addresses[..2]), "k", "a").await.unwrap_err().to_string();
    assert!(error.contains("no server takes writes"), "{error}");
    assert!(error.contains("transaction_read_only is Some(\"on\")"), "{error}");
    // The only server is asked whatever it is, and says so itself: certainly not held.
    let error = take(&*lock_at(&addresses[1..2]), "k", "a").await.unwrap_err();
    assert!(matches!(&error, LockError::Backend { reason } if reason.contains("25006")), "{error}");
}

#[tokio::test]
async fn what_the_server_refuses_is_certainly_not_held() {
    let bench = bench!();
    let endpoint = Endpoint { database: "nowhere".to_owned(), ..bench.endpoint() };
    for name in NAMES {
        let lock = lock(&bench.host, name, endpoint.clone(), options(LEASE));
        let error = take(&*lock, "k", "a").await.unwrap_err();
        assert!(
            matches!(&error, LockError::Backend { reason } if reason.contains("3D000")),
            "{error}"
        );
    }
    bench.ask("DROP TABLE lockstorm_row, lockstorm_lock").await;
    for name in ["pg-for-update", "pg-lock-table"] {
        let lock = lock(&bench.host, name, bench.endpoint(), options(LEASE));
        let error = take(&*lock, "k", "a").await.unwrap_err();
        assert!(
            matches!(&error, LockError::Backend { reason } if reason.contains("42P01")),
            "{error}"
        );
    }
}
