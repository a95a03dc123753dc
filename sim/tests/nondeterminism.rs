//! Is a run that depends on something outside of its plan found, and named as what it is?
//!
//! A lock is planted that waits for a time that it has from a hash map's order, tokio's
//! own choice, the C library's clock or entropy. In a seeded run with the interposer all
//! of these are the plan's, and harmless. Without, each is reported as nondeterminism at
//! an event; and what no interposer reaches is reported with it as well.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::{Guard, Lock, LockError, Owner};
use lockstorm_interpose::Senses;
use lockstorm_sim::engine::senses;
use lockstorm_sim::storm::{Storm, locks};

/// What a lock waits for before it asks, µs.
type Plant = fn() -> BoxFuture<'static, u64>;

struct Planted {
    lock: Arc<dyn Lock>,
    host: Host,
    plant: Plant,
}

impl Lock for Planted {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(async move {
            let wait_us = (self.plant)().await;
            self.host.sleep(Duration::from_micros(wait_us)).await;
            self.lock.acquire(key, owner, patience).await
        })
    }

    fn takeover_bound(&self) -> Duration {
        self.lock.takeover_bound()
    }
}

fn storm(plant: Plant, engine: &str) -> Storm {
    lockstorm_interpose::install(Senses {
        monotonic_ns: senses::monotonic_ns,
        wall_ns: senses::wall_ns,
        entropy: senses::entropy,
    });
    Storm::new("redis-failover").without_faults().seeds(1).engine(engine).twice().lock_with(
        locks::made_by(move |host, plan| {
            let lock = locks::build(host, plan)?;
            Ok(Arc::new(Planted { lock, host: host.clone(), plant }))
        }),
    )
}

fn assert_harmless(plant: Plant) {
    storm(plant, "event").run();
}

fn assert_reported(plant: Plant, engine: &str) {
    let storm = storm(plant, engine);
    let payload = catch_unwind(AssertUnwindSafe(|| storm.run())).expect_err("two traces differ");
    let block = payload.downcast_ref::<String>().unwrap();
    assert!(block.contains("NONDETERMINISM"), "{block}");
    assert!(block.contains("Nondeterminism at event "), "{block}");
}

/// The first key of a hash map that has a hundred.
#[expect(clippy::disallowed_types, reason = "planted")]
fn hash_map_walk() -> BoxFuture<'static, u64> {
    let map: std::collections::HashMap<u64, ()> = (0..100).map(|key| (key, ())).collect();
    let first = map.into_keys().next().unwrap_or_default();
    Box::pin(std::future::ready(first))
}

/// Which of two ready branches tokio takes, twelve times.
fn select() -> BoxFuture<'static, u64> {
    Box::pin(async {
        let mut taken = 0;
        for _ in 0..12 {
            taken = taken * 2
                + tokio::select! {
                    () = std::future::ready(()) => 0,
                    () = std::future::ready(()) => 1,
                };
        }
        taken
    })
}

/// The wall clock's microseconds.
#[expect(clippy::disallowed_methods, reason = "planted")]
fn clock() -> BoxFuture<'static, u64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let us = since.map_or(0, |since| since.as_nanos() % 4_999);
    Box::pin(std::future::ready(us as u64))
}

/// Eight bytes of entropy, as a hasher's keys show them.
fn entropy() -> BoxFuture<'static, u64> {
    Box::pin(std::future::ready(RandomState::new().hash_one("sku-42") % 4_999))
}

/// The wall clock's microseconds, by another thread.
fn another_thread() -> BoxFuture<'static, u64> {
    #[expect(clippy::disallowed_methods, reason = "planted")]
    let read = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let read = std::thread::spawn(read).join();
    let us = read.map_or(0, |since| since.map_or(0, |since| since.as_nanos() % 4_999));
    Box::pin(std::future::ready(us as u64))
}

/// The kernel's clock, past the C library.
fn system_call() -> BoxFuture<'static, u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for the write.
    #[expect(unsafe_code, reason = "planted")]
    unsafe {
        libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_REALTIME, &raw mut now)
    };
    Box::pin(std::future::ready(now.tv_nsec as u64 % 4_999))
}

#[test]
fn a_hash_maps_order_is_the_plans() {
    assert_harmless(hash_map_walk);
}

#[test]
fn without_senses_a_hash_maps_order_is_reported() {
    assert_reported(hash_map_walk, "event-unseeded");
}

#[test]
fn tokios_choice_is_the_plans() {
    assert_harmless(select);
}

#[test]
fn without_a_seed_tokios_choice_is_reported() {
    assert_reported(select, "event-unseeded");
}

#[test]
fn the_c_librarys_clock_is_the_nodes() {
    assert_harmless(clock);
}

#[test]
fn without_senses_the_c_librarys_clock_is_reported() {
    assert_reported(clock, "event-unseeded");
}

#[test]
fn the_c_librarys_entropy_is_the_plans() {
    assert_harmless(entropy);
}

#[test]
fn without_senses_the_c_librarys_entropy_is_reported() {
    assert_reported(entropy, "event-unseeded");
}

#[test]
fn what_another_thread_found_out_is_reported() {
    assert_reported(another_thread, "event");
}

#[test]
fn a_system_call_past_the_c_library_is_reported() {
    assert_reported(system_call, "event");
}
