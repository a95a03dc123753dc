//! Answers the C library's questions for time and entropy from a simulated run.
//!
//! A program that links this crate has its own `clock_gettime`, `gettimeofday`, `time`,
//! `getrandom` and `getentropy` in place of glibc's: the standard library's `Instant`,
//! `SystemTime` and `RandomState`, `rand`, `uuid`, C code. They ask the [`Senses`] that
//! were [installed](install), which answer on the thread of a run and nowhere else; where
//! there is no answer the kernel is asked, as ever.
//!
//! ```
//! // In the program or the test, once, before the first run:
//! fn nothing() -> Option<u64> { None }
//! lockstorm_interpose::install(lockstorm_interpose::Senses {
//!     monotonic_ns: nothing,
//!     wall_ns: nothing,
//!     entropy: |_| false,
//! });
//! ```
//!
//! What it does not reach: code that makes the system calls itself, the processor's own
//! counters, other threads, addresses. A run that depends on those is found by running
//! it twice.
//!
//! Linux with glibc only; elsewhere [`install`] does nothing and says so by its result.
//! The simulator links this crate nowhere: another simulator in the same program that
//! replaces the same symbols (madsim) would not link.

/// Where answers come from. Each is asked on whatever thread the question came from and
/// must not itself ask for time or entropy of the C library.
#[derive(Clone, Copy, Debug)]
pub struct Senses {
    /// A monotonic clock, ns since an origin of its own; `None` to ask the kernel.
    pub monotonic_ns: fn() -> Option<u64>,
    /// A wall clock, ns since the Unix epoch; `None` to ask the kernel.
    pub wall_ns: fn() -> Option<u64>,
    /// Fills the bytes; false to ask the kernel.
    pub entropy: fn(&mut [u8]) -> bool,
}

/// Installs the senses of this process; the first stay. True if questions reach them.
pub fn install(senses: Senses) -> bool {
    imp::install(senses)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use glibc as imp;

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod imp {
    pub(super) fn install(_: super::Senses) -> bool {
        false
    }
}
