//! Does the lock `redis` do on a real redis-server, over TCP, what it says?
//!
//! Every test starts servers of its own, on free ports, without persistence. Where
//! redis-server is not installed each test says so, loudly, and passes.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::lock::redis::fair::{FairLock, FairOptions};
use lockstorm::lock::redis::redlock::{Ask, Redlock, RedlockOptions};
use lockstorm::lock::redis::reentrant::ReentrantLock;
use lockstorm::lock::redis::sentinel::SentinelLock;
use lockstorm::lock::redis::wait::{WaitLock, WaitOptions};
use lockstorm::lock::redis::watchdog::{WatchdogLock, WatchdogOptions};
use lockstorm::lock::redis::{Endpoint, Fencing, Options, RedisLock};
use lockstorm::lock::{Guard, Lock, LockError, Owner, Release};

const LEASE: Duration = Duration::from_secs(10);
const NO_PATIENCE: Duration = Duration::ZERO;

/// A redis-server that ends with the test.
struct Server {
    process: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// A running server, or `None` where redis-server is not installed.
    async fn start(host: &Host, directory: &Path, arguments: &[&str]) -> Option<Server> {
        for _ in 0..5 {
            // Free now; should another program take it first, the next port is tried.
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let process = Command::new("redis-server")
                .args(arguments)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
                .current_dir(directory)
                .stdout(Stdio::null())
                .spawn();
            let process = match process {
                Ok(process) => process,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    eprintln!("SKIPPED: redis-server is not installed");
                    return None;
                }
                Err(error) => panic!("redis-server does not start: {error}"),
            };
            let server = Server { process, port };
            for _ in 0..200 {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Some(server);
                }
                host.sleep(Duration::from_millis(25)).await;
            }
        }
        panic!("redis-server does not listen");
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Sends one inline command and returns what comes first of its answer.
    fn tell(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }
}

/// One machine, one server, and how to make locks on it.
struct Bench {
    host: Host,
    server: Server,
    directory: tempfile::TempDir,
}

impl Bench {
    async fn new() -> Option<Bench> {
        let host = Host::tokio("app-1");
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["--save", "", "--repl-diskless-sync-delay", "0"];
        let server = Server::start(&host, directory.path(), &arguments).await?;
        Some(Bench { host, server, directory })
    }

    /// A server that follows the first one.
    async fn replica(&self) -> Server {
        let arguments = ["--save", "", "--replicaof", "127.0.0.1", &self.server.port.to_string()];
        let replica = Server::start(&self.host, self.directory.path(), &arguments).await.unwrap();
        while !replica.tell("INFO replication").contains("master_link_status:up") {
            self.host.sleep(Duration::from_millis(25)).await;
        }
        replica
    }

    fn lock(&self, options: Options) -> RedisLock {
        lock_at(&self.host, &self.server, options)
    }
}

fn lock_at(host: &Host, server: &Server, options: Options) -> RedisLock {
    RedisLock::new(host.clone(), Endpoint::Direct(server.address()), options).unwrap()
}

/// Generous, because the machine of a test may be busy with other tests.
fn options(lease: Duration) -> Options {
    Options { command_timeout: Duration::from_secs(2), ..Options::new(lease) }
}

fn with_tokens() -> Options {
    Options { fencing: Fencing::Counter, ..options(LEASE) }
}

/// Gives up soon on a server that holds its replies back.
fn impatient() -> Options {
    Options { command_timeout: Duration::from_millis(600), ..Options::new(LEASE) }
}

async fn take(lock: &dyn Lock, key: &str, owner: &str) -> Result<Guard, LockError> {
    lock.acquire(key, &Owner::named(owner), NO_PATIENCE).await
}

/// Skips the test, loudly, where there is no server.
macro_rules! bench {
    () => {
        match Bench::new().await {
            Some(bench) => bench,
            None => return,
        }
    };
}

#[tokio::test]
async fn one_owner_at_a_time() {
    let bench = bench!();
    let lock = bench.lock(options(LEASE));
    let guard = take(&lock, "k", "a").await.unwrap();
    assert_eq!(guard.check(), Ok(()));
    assert!(guard.remaining() <= LEASE - LEASE / 100);
    assert_eq!(take(&lock, "k", "b").await.unwrap_err(), LockError::Busy);
    let patience = Duration::from_millis(120);
    let waited = lock.acquire("k", &Owner::named("b"), patience).await;
    assert_eq!(waited.unwrap_err(), LockError::TimedOut);
    let other_key = take(&lock, "other", "b").await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(other_key.release().await, Release::Released);
    drop(take(&lock, "k", "b").await.unwrap());
}

#[tokio::test]
async fn a_waiter_gets_in_when_the_holder_leaves() {
    let bench = bench!();
    let lock = bench.lock(options(LEASE));
    let guard = take(&lock, "k", "a").await.unwrap();
    let waiting = async { lock.acquire("k", &Owner::named("b"), LEASE).await };
    let leaving = async {
        bench.host.sleep(Duration::from_millis(150)).await;
        drop(guard);
    };
    let (granted, ()) = tokio::join!(waiting, leaving);
    assert_eq!(granted.unwrap().owner().as_str(), "b");
}

#[tokio::test]
async fn after_the_lease_the_lock_is_anothers_and_release_says_so() {
    let bench = bench!();
    let lock = bench.lock(options(Duration::from_millis(80)));
    let guard = take(&lock, "k", "a").await.unwrap();
    let next = lock.acquire("k", &Owner::named("b"), Duration::from_secs(5)).await.unwrap();
    assert!(matches!(guard.check(), Err(LockError::Lost { .. })));
    assert_eq!(guard.release().await, Release::NotHeld);
    drop(next);
}

#[tokio::test]
async fn tokens_grow_with_each_grant_and_with_nothing_else() {
    let bench = bench!();
    let lock = bench.lock(with_tokens());
    for expected in 1..=3 {
        let guard = take(&lock, "k", "a").await.unwrap();
        assert_eq!(guard.token().map(|token| token.0), Some(expected));
        assert_eq!(take(&lock, "k", "b").await.unwrap_err(), LockError::Busy);
        // The next acquire and release load their scripts again.
        bench.server.tell("SCRIPT FLUSH");
        assert_eq!(guard.release().await, Release::Released);
    }
    let token = take(&lock, "other", "a").await.unwrap().token();
    assert_eq!(token.map(|token| token.0), Some(1));
}

#[tokio::test]
async fn a_counter_that_cannot_count_grants_nothing() {
    let bench = bench!();
    let lock = bench.lock(with_tokens());
    bench.server.tell("SET {k}:token nonsense");
    let error = take(&lock, "k", "a").await.unwrap_err();
    assert!(matches!(error, LockError::Backend { .. }), "{error}");
    assert_eq!(bench.server.tell("EXISTS k"), ":0\r\n");
}

#[tokio::test]
async fn a_reply_that_comes_too_late_is_indeterminate_and_taken_back() {
    let bench = bench!();
    let lock = bench.lock(impatient());
    take(&lock, "warm", "a").await.unwrap().release().await;
    bench.server.tell("CLIENT PAUSE 900 ALL");
    let error = take(&lock, "k", "a").await.unwrap_err();
    assert!(matches!(error, LockError::Indeterminate { .. }), "{error}");
    // Long before the lease ends.
    lock_gets_free(&bench).await;
}

#[tokio::test]
async fn an_acquire_whose_caller_loses_interest_is_taken_back() {
    let bench = bench!();
    let lock = bench.lock(options(LEASE));
    take(&lock, "warm", "a").await.unwrap().release().await;
    bench.server.tell("CLIENT PAUSE 200 ALL");
    let given_up = bench.host.timeout(Duration::from_millis(50), take(&lock, "k", "a")).await;
    assert!(given_up.is_err());
    lock_gets_free(&bench).await;
}

/// Another client gets the lock `k` in well under a lease, and it had been set before.
async fn lock_gets_free(bench: &Bench) {
    let fresh = bench.lock(options(LEASE));
    let patience = LEASE / 2;
    let guard = fresh.acquire("k", &Owner::named("b"), patience).await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
    // Ours, the warm one, and the one taken back: its record had been there.
    assert!(bench.server.tell("INFO commandstats").contains("cmdstat_del:calls=3,"));
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_opened_again_unnoticed() {
    let bench = bench!();
    let lock = bench.lock(options(LEASE));
    let guard = take(&lock, "k", "a").await.unwrap();
    bench.server.tell("CLIENT KILL TYPE normal");
    bench.host.sleep(Duration::from_millis(50)).await;
    assert_eq!(guard.release().await, Release::Released);
}

#[tokio::test]
async fn what_the_server_refuses_is_certainly_not_held() {
    let bench = bench!();
    let replica = bench.replica().await;
    for options in [options(LEASE), with_tokens()] {
        let lock = lock_at(&bench.host, &replica, options);
        let LockError::Backend { reason } = take(&lock, "k", "a").await.unwrap_err() else {
            panic!("a replica granted or left it open");
        };
        assert!(reason.contains("READONLY"), "{reason}");
    }
    bench.server.tell("CONFIG SET maxmemory 1");
    for options in [options(LEASE), with_tokens()] {
        let error = take(&bench.lock(options), "k", "a").await.unwrap_err();
        assert!(error.to_string().contains("OOM"), "{error}");
    }
}

#[tokio::test]
async fn a_replica_that_becomes_master_is_used_without_a_new_lock() {
    let bench = bench!();
    let replica = bench.replica().await;
    let lock = lock_at(&bench.host, &replica, options(LEASE));
    take(&lock, "k", "a").await.unwrap_err();
    let owner = Owner::named("a");
    let waiting = lock.acquire("k", &owner, LEASE);
    let promoting = async {
        bench.host.sleep(Duration::from_millis(120)).await;
        replica.tell("REPLICAOF NO ONE");
    };
    let (granted, ()) = tokio::join!(waiting, promoting);
    drop(granted.unwrap());
}

#[tokio::test]
async fn a_password_is_shown() {
    let bench = bench!();
    let credentials = lockstorm::lock::redis::Credentials {
        username: None,
        password: "correct horse".to_owned(),
    };
    bench.server.tell("CONFIG SET requirepass \"correct horse\"");
    let error = take(&bench.lock(options(LEASE)), "k", "a").await.unwrap_err();
    assert!(error.to_string().contains("NOAUTH"), "{error}");
    let with_login = Options { credentials: Some(credentials), ..options(LEASE) };
    drop(take(&bench.lock(with_login), "k", "a").await.unwrap());
}

#[tokio::test]
async fn a_sentinel_tells_where_the_master_is() {
    let bench = bench!();
    let configuration = bench.directory.path().join("sentinel.conf");
    let monitor = format!("sentinel monitor mymaster 127.0.0.1 {} 1\n", bench.server.port);
    std::fs::write(&configuration, monitor).unwrap();
    let arguments = [configuration.to_str().unwrap(), "--sentinel"];
    let sentinel = Server::start(&bench.host, bench.directory.path(), &arguments).await.unwrap();

    let lock = |master_name: &str| {
        let endpoint = Endpoint::Sentinel {
            // The first is down, as one of three may be.
            sentinels: vec!["127.0.0.1:1".to_owned(), sentinel.address()],
            master_name: master_name.to_owned(),
        };
        RedisLock::new(bench.host.clone(), endpoint, options(LEASE)).unwrap()
    };
    let guard = take(&lock("mymaster"), "k", "a").await.unwrap();
    assert_eq!(guard.release().await, Release::Released);

    let error = take(&lock("yours"), "k", "a").await.unwrap_err();
    assert!(error.to_string().contains("knows no master `yours`"), "{error}");

    // The sentinel still names a server that has become a replica.
    bench.server.tell("REPLICAOF 127.0.0.1 1");
    let error = take(&lock("mymaster"), "k", "a").await.unwrap_err();
    assert!(error.to_string().contains("is no master but a slave"), "{error}");
}

#[tokio::test]
async fn a_watchdog_keeps_a_slow_holders_lock_and_stops_with_the_guard() {
    let bench = bench!();
    let lease = Duration::from_millis(300);
    let watchdog = |max_hold| {
        let options = WatchdogOptions { redis: options(lease), max_hold };
        let endpoint = Endpoint::Direct(bench.server.address());
        WatchdogLock::new(bench.host.clone(), endpoint, options).unwrap()
    };
    let lock = watchdog(None);
    let guard = take(&lock, "k", "a").await.unwrap();
    bench.host.sleep(lease * 3).await;
    assert_eq!(guard.check(), Ok(()));
    assert_eq!(take(&lock, "k", "b").await.unwrap_err(), LockError::Busy);
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(bench.server.tell("EXISTS k"), ":0\r\n");

    // A record that is gone is told of.
    let guard = take(&lock, "k", "a").await.unwrap();
    bench.server.tell("DEL k");
    let lost = bench.host.timeout(lease, guard.lost()).await;
    assert_eq!(lost.as_deref(), Ok("the record is no longer ours"));
    assert_eq!(guard.release().await, Release::NotHeld);

    // Nobody is renewed for ever who must not be.
    let lock = watchdog(Some(lease * 2));
    let guard = take(&lock, "k", "a").await.unwrap();
    let lost = bench.host.timeout(lease * 4, guard.lost()).await;
    assert_eq!(lost.as_deref(), Ok("it was held for as long as it may be"));
    bench.host.sleep(lease).await;
    assert_eq!(bench.server.tell("EXISTS k"), ":0\r\n");
    drop(guard);
}

#[tokio::test]
async fn a_grant_waits_for_replicas_and_is_refused_without() {
    let bench = bench!();
    let endpoint = Endpoint::Direct(bench.server.address());
    let wait =
        WaitOptions { timeout: Duration::from_millis(200), ..WaitOptions::new(options(LEASE)) };
    let lock = WaitLock::new(bench.host.clone(), endpoint, wait).unwrap();
    let error = take(&lock, "k", "a").await.unwrap_err();
    assert!(error.to_string().contains("0 of 1 replicas had the record in time"), "{error}");
    let replica = bench.replica().await;
    let guard = lock.acquire("k", &Owner::named("a"), LEASE).await.unwrap();
    assert!(replica.tell("GET k").contains('a'));
    assert_eq!(guard.release().await, Release::Released);
}

#[tokio::test]
async fn redlock_is_held_by_a_majority_of_servers() {
    let mut bench = bench!();
    let mut servers = vec![];
    for _ in 0..2 {
        let server = Server::start(&bench.host, bench.directory.path(), &["--save", ""]).await;
        servers.push(server.unwrap());
    }
    let mut addresses = vec![bench.server.address()];
    addresses.extend(servers.iter().map(Server::address));
    for ask in [Ask::OneAfterAnother, Ask::Parallel] {
        let options = RedlockOptions { ask, ..RedlockOptions::new(options(LEASE)) };
        let lock = Redlock::new(bench.host.clone(), &addresses, options).unwrap();
        let guard = take(&lock, "k", "a").await.unwrap();
        assert_eq!(take(&lock, "k", "b").await.unwrap_err(), LockError::Busy);
        assert_eq!(guard.release().await, Release::Released);
        for server in servers.iter().chain([&bench.server]) {
            assert_eq!(server.tell("EXISTS k"), ":0\r\n");
        }
    }
    let options = RedlockOptions::new(options(LEASE));
    let lock = Redlock::new(bench.host.clone(), &addresses, options).unwrap();
    // One of three is down.
    bench.server.process.kill().unwrap();
    let guard = lock.acquire("k", &Owner::named("a"), LEASE).await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
    servers.pop();
    let error = take(&lock, "k", "a").await.unwrap_err();
    assert!(error.to_string().contains("2 of 3 servers failed"), "{error}");
}

#[tokio::test]
async fn an_owner_gets_in_again_and_out_as_often() {
    let bench = bench!();
    for fencing in [Fencing::None, Fencing::Counter] {
        let options = Options { fencing, retry: Duration::from_secs(1), ..options(LEASE) };
        let endpoint = Endpoint::Direct(bench.server.address());
        let lock = ReentrantLock::new(bench.host.clone(), endpoint, options).unwrap();
        let outer = take(&lock, "k", "a").await.unwrap();
        let inner = take(&lock, "k", "a").await.unwrap();
        assert_eq!(outer.token(), inner.token());
        assert_eq!(take(&lock, "k", "b").await.unwrap_err(), LockError::Busy);
        assert_eq!(inner.release().await, Release::Released);
        assert_eq!(bench.server.tell("HGET k a"), "$1\r\n1\r\n");
        // Woken by the release, long before it would ask again.
        let began = bench.host.monotonic();
        let owner = Owner::named("b");
        let waiting = lock.acquire("k", &owner, LEASE);
        let leaving = async {
            bench.host.sleep(Duration::from_millis(100)).await;
            outer.release().await
        };
        let (granted, released) = tokio::join!(waiting, leaving);
        assert_eq!(released, Release::Released);
        assert!(bench.host.monotonic() - began < Duration::from_secs(4));
        // Somebody else's release changes nothing, and says so.
        let theirs = granted.unwrap();
        bench.server.tell("DEL k");
        let mine = take(&lock, "k", "a").await.unwrap();
        assert_eq!(theirs.release().await, Release::NotHeld);
        assert_eq!(bench.server.tell("HGET k a"), "$1\r\n1\r\n");
        assert_eq!(mine.release().await, Release::Released);
    }
}

#[tokio::test]
async fn waiters_get_in_in_order_of_arrival() {
    let bench = bench!();
    for fencing in [Fencing::None, Fencing::Counter] {
        let options = FairOptions::new(Options { fencing, ..options(LEASE) });
        let endpoint = Endpoint::Direct(bench.server.address());
        let lock = FairLock::new(bench.host.clone(), endpoint, options).unwrap();
        let guard = take(&lock, "k", "first").await.unwrap();
        let order = std::sync::Mutex::new(Vec::new());
        let wait = |name: &'static str, after_ms| {
            let (lock, order, host) = (&lock, &order, &bench.host);
            async move {
                host.sleep(Duration::from_millis(after_ms)).await;
                let owner = Owner::named(name);
                let guard = lock.acquire("k", &owner, LEASE).await.unwrap();
                order.lock().unwrap().push(name);
                guard.release().await
            }
        };
        let leaving = async {
            bench.host.sleep(Duration::from_millis(400)).await;
            // Who does not wait takes no place.
            assert_eq!(take(&lock, "k", "hurried").await.unwrap_err(), LockError::Busy);
            guard.release().await
        };
        let (one, two, three, first) =
            tokio::join!(wait("one", 0), wait("two", 100), wait("three", 200), leaving);
        for release in [one, two, three, first] {
            assert_eq!(release, Release::Released);
        }
        assert_eq!(*order.lock().unwrap(), ["one", "two", "three"]);
        assert_eq!(bench.server.tell("EXISTS {k}:queue"), ":0\r\n");
    }
}

#[tokio::test]
async fn a_grant_is_confirmed_by_most_sentinels() {
    let bench = bench!();
    let mut sentinels = Vec::new();
    for number in 0..3 {
        let configuration = bench.directory.path().join(format!("sentinel-{number}.conf"));
        let monitor = format!("sentinel monitor mymaster 127.0.0.1 {} 2\n", bench.server.port);
        std::fs::write(&configuration, monitor).unwrap();
        let arguments = [configuration.to_str().unwrap(), "--sentinel"];
        let started = Server::start(&bench.host, bench.directory.path(), &arguments).await;
        sentinels.push(started.unwrap());
    }
    let addresses: Vec<String> = sentinels.iter().map(Server::address).collect();
    let options = options(LEASE);
    let lock = SentinelLock::new(bench.host.clone(), addresses, "mymaster", options).unwrap();
    let guard = take(&lock, "k", "a").await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
    sentinels.pop();
    let guard = take(&lock, "k", "a").await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
    sentinels.pop();
    let error = take(&lock, "k", "a").await.unwrap_err();
    assert!(error.to_string().contains("1 of 3 sentinels call"), "{error}");
}
