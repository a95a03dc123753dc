//! The memory of one standard storm: what is allocated at its peak beyond what was there
//! before it. Lua's own allocator counts too, for it goes through this one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::storm;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counted.
pub struct Counting;

// SAFETY: every call goes to the system's allocator as it came.
#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: as this function's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as this function's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Twenty storms, one after the other.
pub fn of_a_storm() {
    storm::run(&super::plan(0), &EventEngine);
    let mut peaks: Vec<usize> = (0..20)
        .map(|seed| {
            let plan = super::plan(seed);
            let before = LIVE.load(Ordering::Relaxed);
            PEAK.store(before, Ordering::Relaxed);
            std::hint::black_box(storm::run(&plan, &EventEngine));
            PEAK.load(Ordering::Relaxed) - before
        })
        .collect();
    peaks.sort_unstable();
    let mebibytes = |bytes: usize| bytes as f64 / 1_048_576.0;
    println!(
        "memory of a standard storm: median {:.1} MiB, most {:.1} MiB of 20\n",
        mebibytes(peaks[10]),
        mebibytes(peaks[19])
    );
}
