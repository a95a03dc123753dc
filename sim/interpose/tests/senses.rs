//! Does what the standard library asks of the C library reach the senses, on the thread
//! that has some, and the kernel everywhere else?

#![expect(clippy::disallowed_methods, reason = "what these answer is what is tested")]

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

thread_local! {
    static NOW_NS: Cell<Option<u64>> = const { Cell::new(None) };
}

fn now() -> Option<u64> {
    NOW_NS.try_with(Cell::get).ok().flatten()
}

fn fill(bytes: &mut [u8]) -> bool {
    bytes.fill(7);
    now().is_some()
}

fn install() {
    let senses = lockstorm_interpose::Senses { monotonic_ns: now, wall_ns: now, entropy: fill };
    assert!(lockstorm_interpose::install(senses), "not on Linux with glibc");
}

/// A thread on which time is given.
fn on_simulated_thread<R: Send>(test: impl FnOnce() -> R + Send) -> R {
    install();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            NOW_NS.with(|now| now.set(Some(5_000_000_000)));
            test()
        });
        thread.join().unwrap()
    })
}

#[test]
fn the_standard_clocks_stand_where_the_senses_say() {
    on_simulated_thread(|| {
        let start = Instant::now();
        assert_eq!(SystemTime::now().duration_since(UNIX_EPOCH).unwrap(), Duration::from_secs(5));
        NOW_NS.with(|now| now.set(Some(5_250_000_001)));
        assert_eq!(start.elapsed(), Duration::from_nanos(250_000_001));
    });
}

#[test]
fn hash_maps_are_seeded_alike_on_every_thread() {
    let hash = || RandomState::new().hash_one("sku-42");
    let one = on_simulated_thread(hash);
    assert_eq!(one, on_simulated_thread(hash));
    let real = |_| std::thread::spawn(hash).join().unwrap();
    let (first, second) = (real(1), real(2));
    assert!(first != one || second != one, "outside a run entropy is real");
}

#[test]
fn elsewhere_the_clock_is_real() {
    install();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    assert!(since > Duration::from_secs(1_700_000_000));
    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(2));
    assert!(start.elapsed() >= Duration::from_millis(2));
}
