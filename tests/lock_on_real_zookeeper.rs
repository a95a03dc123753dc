//! Do the locks on ZooKeeper do on a real one, over TCP, what they say?
//!
//! The tests share one server, started on a free port; each has locks of its own. Where
//! ZooKeeper or Java is not installed each test says so, loudly, and passes.

mod real_zookeeper;

use std::time::Duration;

use lockstorm::Host;
use lockstorm::lock::zookeeper::election::Election;
use lockstorm::lock::zookeeper::read_write::ReadWriteLock;
use lockstorm::lock::zookeeper::reentrant::ReentrantLock;
use lockstorm::lock::zookeeper::switch::Switch;
use lockstorm::lock::zookeeper::{Options, ZooKeeperLock};
use lockstorm::lock::{Guard, Lock, LockError, Owner, Release};
use real_zookeeper::{TICK_MS, Wire, tell};
use zookeeper_client::{Client, Error};

/// Longer than anything here takes on a busy machine; nothing waits for its end.
const LONG: Duration = Duration::from_secs(60);
const NO_PATIENCE: Duration = Duration::ZERO;
const SESSION: Duration = Duration::from_secs(2);

/// One machine and one server.
struct Bench {
    host: Host,
    port: u16,
}

impl Bench {
    async fn new() -> Option<Bench> {
        let port = tokio::task::spawn_blocking(real_zookeeper::server).await.unwrap()?;
        Some(Bench { host: Host::tokio("app-1"), port })
    }

    fn lock(&self) -> ZooKeeperLock {
        self.lock_over(self.port)
    }

    fn lock_over(&self, port: u16) -> ZooKeeperLock {
        ZooKeeperLock::new(self.host.clone(), &at(port), options()).unwrap()
    }

    /// The places in the queue of `key`.
    async fn places(&self, key: &str) -> Vec<String> {
        let client = Client::connect(&at(self.port)[0]).await.unwrap();
        match client.list_children(&format!("/lockstorm/locks/{key}")).await {
            // Whoever leaves last may take the folder along.
            Err(Error::NoNode) => Vec::new(),
            places => places.unwrap(),
        }
    }

    /// Waits until so many stand in the queue of `key`, the holder among them.
    async fn until_places(&self, key: &str, count: usize) {
        let began = self.host.monotonic();
        loop {
            let places = self.places(key).await;
            if places.len() == count {
                return;
            }
            let waited = self.host.monotonic() - began;
            assert!(waited < LONG, "{count} were to stand in line, there are {places:?}");
            self.host.sleep(Duration::from_millis(50)).await;
        }
    }

    /// What `future` gives, and by how much the machine, busy with other tests, was late with
    /// a short sleep while it waited: timers of clients and servers were as late.
    async fn lateness<T>(&self, future: impl Future<Output = T>) -> (T, Duration) {
        const NAP: Duration = Duration::from_millis(20);
        let mut latest = Duration::ZERO;
        let watching = async {
            loop {
                let began = self.host.monotonic();
                self.host.sleep(NAP).await;
                latest = latest.max((self.host.monotonic() - began).saturating_sub(NAP));
            }
        };
        let done = tokio::select! {
            done = future => done,
            () = watching => unreachable!("it watches for ever"),
        };
        (done, latest)
    }

    async fn until_free(&self, key: &str) {
        self.until_places(key, 0).await;
    }

    /// Which places in the queue of `key` are watched.
    async fn watched(&self, key: &str) -> Vec<String> {
        let port = self.port;
        let told = tokio::task::spawn_blocking(move || tell(port, "wchp")).await.unwrap();
        let folder = format!("/lockstorm/locks/{key}/");
        let told = told.unwrap();
        told.lines().filter(|line| line.starts_with(&folder)).map(str::to_owned).collect()
    }
}

fn at(port: u16) -> Vec<String> {
    vec![format!("127.0.0.1:{port}")]
}

/// Generous, because the machine of a test may be busy with other tests.
fn options() -> Options {
    let tick = Duration::from_millis(TICK_MS);
    Options { command_timeout: Duration::from_secs(5), tick, ..Options::new(SESSION) }
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
async fn one_holds_until_it_gives_back_and_tokens_grow() {
    let bench = bench!();
    let (lock, other) = (bench.lock(), bench.lock());
    let mut last = None;
    for _ in 0..3 {
        let guard = take(&lock, "one", "a").await.unwrap();
        assert_eq!(guard.check(), Ok(()));
        assert!(guard.token() > last);
        last = guard.token();
        assert_eq!(take(&other, "one", "b").await.unwrap_err(), LockError::Busy);
        assert_eq!(take(&lock, "one", "b").await.unwrap_err(), LockError::Busy);
        assert_eq!(guard.release().await, Release::Released);
    }
    bench.until_free("one").await;
}

#[tokio::test]
async fn waiters_get_in_in_order_of_arrival_and_are_woken_one_by_one() {
    let bench = bench!();
    let lock = bench.lock();
    let guard = take(&lock, "order", "first").await.unwrap();
    let order = std::sync::Mutex::new(Vec::new());
    let wait = |name: &'static str, behind: usize| {
        let (lock, order, bench) = (&lock, &order, &bench);
        async move {
            bench.until_places("order", behind).await;
            let guard = lock.acquire("order", &Owner::named(name), LONG).await.unwrap();
            order.lock().unwrap().push(name);
            guard.release().await
        }
    };
    let leaving = async {
        // Each watches the one before it: three watches on three nodes.
        bench.until_places("order", 4).await;
        let began = bench.host.monotonic();
        while bench.watched("order").await.len() < 3 {
            assert!(bench.host.monotonic() - began < LONG, "three are to watch");
            bench.host.sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(bench.watched("order").await.len(), 3);
        guard.release().await
    };
    let (one, two, three, first) =
        tokio::join!(wait("one", 1), wait("two", 2), wait("three", 3), leaving);
    for release in [one, two, three, first] {
        assert_eq!(release, Release::Released);
    }
    assert_eq!(*order.lock().unwrap(), ["one", "two", "three"]);
}

#[tokio::test]
async fn a_wait_that_is_given_up_leaves_no_place() {
    let bench = bench!();
    let lock = bench.lock();
    let guard = take(&lock, "given-up", "a").await.unwrap();
    let owner = Owner::named("b");
    // Its own patience: long enough to have stood in line, whatever else the machine does.
    let patience = options().command_timeout;
    let error = lock.acquire("given-up", &owner, patience).await.unwrap_err();
    assert_eq!(error, LockError::TimedOut);
    bench.until_places("given-up", 1).await;
    // And that of its caller, who goes when it stands in line.
    tokio::select! {
        _ = lock.acquire("given-up", &owner, LONG) => panic!("nobody has left"),
        () = bench.until_places("given-up", 2) => {}
    }
    bench.until_places("given-up", 1).await;
    assert_eq!(guard.release().await, Release::Released);
    bench.until_free("given-up").await;
}

#[tokio::test]
async fn a_place_whose_reply_was_lost_is_found_again() {
    let bench = bench!();
    let wire = Wire::new(bench.port);
    let lock = bench.lock_over(wire.port);
    take(&lock, "lost-reply", "warm").await.unwrap().release().await;
    wire.lose_the_next_reply();
    let guard = lock.acquire("lost-reply", &Owner::named("a"), LONG).await.unwrap();
    assert_eq!(bench.places("lost-reply").await.len(), 1, "one attempt, one place");
    assert!(guard.token().is_some());
    assert_eq!(guard.release().await, Release::Released);
    bench.until_free("lost-reply").await;
}

#[tokio::test]
async fn a_holder_that_is_cut_off_stops_before_the_next_is_let_in() {
    let bench = bench!();
    let wire = Wire::new(bench.port);
    let (cut_off, other) = (bench.lock_over(wire.port), bench.lock());
    let guard = take(&cut_off, "cut", "a").await.unwrap();
    let owner = Owner::named("b");
    let began = bench.host.monotonic();
    wire.hold(true);
    let told = async { (guard.lost().await, bench.host.monotonic() - began) };
    let next = async {
        let next = other.acquire("cut", &owner, LONG).await.unwrap();
        // By its own clock, whenever its task was told.
        assert!(matches!(guard.check(), Err(LockError::Lost { .. })));
        (next, bench.host.monotonic() - began)
    };
    let both = async { tokio::join!(told, next) };
    let (((reason, stopped), (next, entered)), late) = bench.lateness(both).await;
    assert!(reason.starts_with("suspended"), "{reason}");
    assert!(stopped < entered + late, "stopped after {stopped:?}, next in after {entered:?}");
    // What it takes to ask and to be told, beside what the lock declares.
    let asking = Duration::from_secs(1);
    let bound = cut_off.takeover_bound() + asking + late;
    assert!(entered <= bound, "{entered:?}, on a machine that was {late:?} late");
    assert!(matches!(guard.check(), Err(LockError::Lost { .. })));
    // The token says who came later.
    assert!(next.token() > guard.token());
    wire.hold(false);
    assert_ne!(guard.release().await, Release::Released);
    assert_eq!(next.release().await, Release::Released);
}

#[tokio::test]
async fn who_is_told_of_an_expiry_is_told_that_and_may_ask_again() {
    let bench = bench!();
    let wire = Wire::new(bench.port);
    let options = Options { margin: Duration::ZERO, ..options() };
    let lock = ZooKeeperLock::new(bench.host.clone(), &at(wire.port), options).unwrap();
    let guard = take(&lock, "expired", "a").await.unwrap();
    wire.hold(true);
    // Not looked at while it was suspended: only what is known at the end is told.
    bench.until_free("expired").await;
    wire.hold(false);
    let mut reason = String::new();
    while !reason.contains("expired") {
        bench.host.sleep(Duration::from_millis(20)).await;
        if let Err(LockError::Lost { reason: told }) = guard.check() {
            reason = told;
        }
    }
    assert_eq!(guard.release().await, Release::NotHeld);
    let guard = lock.acquire("expired", &Owner::named("a"), LONG).await.unwrap();
    assert_eq!(guard.check(), Ok(()));
    assert_eq!(guard.release().await, Release::Released);
}

#[tokio::test]
async fn a_holder_that_goes_on_for_long_keeps_it() {
    let bench = bench!();
    let (lock, other) = (bench.lock(), bench.lock());
    let guard = take(&lock, "long", "a").await.unwrap();
    for _ in 0..12 {
        bench.host.sleep(SESSION / 4).await;
        assert_eq!(guard.check(), Ok(()));
    }
    assert_eq!(take(&other, "long", "b").await.unwrap_err(), LockError::Busy);
    drop(guard);
    drop(other.acquire("long", &Owner::named("b"), LONG).await.unwrap());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told() {
    let host = Host::tokio("app-1");
    let brief = Options { command_timeout: Duration::from_millis(300), ..options() };
    let lock = ZooKeeperLock::new(host, &at(1), brief).unwrap();
    let error = take(&lock, "nobody", "a").await.unwrap_err();
    assert!(matches!(error, LockError::Backend { .. }), "{error}");
}

#[tokio::test]
async fn an_owner_gets_in_again_and_out_as_often() {
    let bench = bench!();
    let lock = ReentrantLock::new(bench.host.clone(), &at(bench.port), options()).unwrap();
    let other = bench.lock();
    let outer = take(&lock, "again", "a").await.unwrap();
    let inner = take(&lock, "again", "a").await.unwrap();
    assert_eq!(outer.token(), inner.token());
    assert_eq!(take(&lock, "again", "b").await.unwrap_err(), LockError::Busy);
    assert_eq!(inner.release().await, Release::Released);
    assert_eq!(take(&other, "again", "b").await.unwrap_err(), LockError::Busy);
    assert_eq!(outer.check(), Ok(()));
    assert_eq!(outer.release().await, Release::Released);
    drop(other.acquire("again", &Owner::named("b"), LONG).await.unwrap());
    bench.until_free("again").await;
}

#[tokio::test]
async fn readers_hold_together_and_a_writer_alone() {
    let bench = bench!();
    let locks = ReadWriteLock::new(bench.host.clone(), &at(bench.port), options()).unwrap();
    let (read, write) = (locks.read(), locks.write());
    let first = take(&read, "rw", "a").await.unwrap();
    let second = take(&read, "rw", "b").await.unwrap();
    assert_eq!(take(&write, "rw", "c").await.unwrap_err(), LockError::Busy);
    let owner = Owner::named("c");
    let writing = async { write.acquire("rw", &owner, LONG).await.unwrap() };
    let leaving = async {
        bench.until_places("rw", 3).await;
        // A reader that comes after a writer waits behind it.
        assert_eq!(take(&read, "rw", "d").await.unwrap_err(), LockError::Busy);
        (first.release().await, second.release().await)
    };
    let (writer, _) = tokio::join!(writing, leaving);
    assert_eq!(take(&read, "rw", "d").await.unwrap_err(), LockError::Busy);
    // The writer's lock is the lock of that name.
    assert_eq!(take(&bench.lock(), "rw", "e").await.unwrap_err(), LockError::Busy);
    assert_eq!(writer.release().await, Release::Released);
    drop(take(&read, "rw", "d").await.unwrap());
    bench.until_free("rw").await;
}

#[tokio::test]
async fn everybody_may_ask_who_leads() {
    let bench = bench!();
    let election = Election::new(bench.host.clone(), &at(bench.port), options()).unwrap();
    assert_eq!(election.leader("office").await.unwrap(), None);
    let office = take(&election, "office", "a").await.unwrap();
    assert_eq!(take(&election, "office", "b").await.unwrap_err(), LockError::Busy);
    let leader = election.leader("office").await.unwrap().unwrap();
    assert_eq!((leader.owner.as_str(), Some(leader.epoch)), ("a", office.token()));
    assert_eq!(office.release().await, Release::Released);
    let office = take(&election, "office", "b").await.unwrap();
    let next = election.leader("office").await.unwrap().unwrap();
    assert!(next.epoch > leader.epoch && next.owner.as_str() == "b");
    drop(office);
}

#[tokio::test]
async fn a_switch_is_followed_and_says_how_old_its_value_is() {
    let bench = bench!();
    let wire = Wire::new(bench.port);
    let switch = |port| Switch::new(bench.host.clone(), &at(port), options(), "switch").unwrap();
    let (mut follower, operator) = (switch(wire.port), switch(bench.port));
    assert!(follower.reading().is_stale(), "nothing is known yet");
    let first = follower.changed().await;
    assert_eq!((first.value.as_deref(), first.is_stale()), (None, false));
    assert_eq!(operator.set(b"on", None).await, Ok(0));
    assert_eq!(follower.changed().await.value.as_deref(), Some(&b"on"[..]));
    assert_eq!(operator.set(b"off", Some(7)).await, Err(LockError::Busy));
    assert_eq!(operator.set(b"off", Some(0)).await, Ok(1));
    let reading = follower.changed().await;
    assert_eq!((reading.value.as_deref(), reading.version), (Some(&b"off"[..]), Some(1)));
    // Cut off, it knows that it may be wrong; back again, it learns what it missed.
    wire.hold(true);
    while !follower.reading().is_stale() {
        bench.host.sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(operator.set(b"on", Some(1)).await, Ok(2));
    wire.hold(false);
    assert_eq!(follower.changed().await.version, Some(2));
    assert!(!follower.reading().is_stale());
}
