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
    Options { command_timeout: Duration::from_millis(150), ..Options::new(LEASE) }
}

async fn take(lock: &RedisLock, key: &str, owner: &str) -> Result<Guard, LockError> {
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
    bench.server.tell("CLIENT PAUSE 220 ALL");
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
