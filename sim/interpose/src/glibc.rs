//! The symbols. A program's own definition comes before the library's when the dynamic
//! linker resolves them, so the standard library's calls come here.

use std::sync::OnceLock;

use libc::{c_int, c_long, c_uint, c_void, clockid_t, size_t, ssize_t, time_t, timespec, timeval};

use super::Senses;

static SENSES: OnceLock<Senses> = OnceLock::new();

const NS_PER_S: u64 = 1_000_000_000;

pub(super) fn install(senses: Senses) -> bool {
    SENSES.get_or_init(|| senses);
    true
}

/// What the senses say of this clock, ns.
fn sensed(clock: clockid_t) -> Option<u64> {
    let senses = SENSES.get()?;
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => (senses.wall_ns)(),
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME => (senses.monotonic_ns)(),
        // Processor time is real: nothing simulated depends on it.
        _ => None,
    }
}

/// See `clock_gettime(2)`.
///
/// # Safety
/// As the C library's: `to` is valid for a write, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, to: *mut timespec) -> c_int {
    match sensed(clock) {
        Some(ns) if !to.is_null() => {
            let time =
                timespec { tv_sec: (ns / NS_PER_S) as time_t, tv_nsec: (ns % NS_PER_S) as c_long };
            // SAFETY: the caller's promise.
            unsafe { to.write(time) };
            0
        }
        // SAFETY: the caller's promise; the kernel checks the pointer itself.
        _ => unsafe { libc::syscall(libc::SYS_clock_gettime, clock, to) as c_int },
    }
}

/// See `gettimeofday(2)`.
///
/// # Safety
/// As the C library's: `to` is valid for a write, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(to: *mut timeval, zone: *mut c_void) -> c_int {
    match sensed(libc::CLOCK_REALTIME) {
        Some(ns) if !to.is_null() => {
            let time = timeval {
                tv_sec: (ns / NS_PER_S) as time_t,
                tv_usec: (ns % NS_PER_S / 1_000) as libc::suseconds_t,
            };
            // SAFETY: the caller's promise.
            unsafe { to.write(time) };
            0
        }
        // SAFETY: the caller's promise; the kernel checks the pointers itself.
        _ => unsafe { libc::syscall(libc::SYS_gettimeofday, to, zone) as c_int },
    }
}

/// See `time(2)`.
///
/// # Safety
/// As the C library's: `to` is valid for a write, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(to: *mut time_t) -> time_t {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is ours.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { to.write(now.tv_sec) };
    }
    now.tv_sec
}

/// See `getrandom(2)`.
///
/// # Safety
/// As the C library's: `to` is valid for a write of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(to: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    if let Some(senses) = SENSES.get()
        && !to.is_null()
    {
        // SAFETY: the caller's promise. The bytes are only written.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), length) };
        if (senses.entropy)(bytes) {
            return length as ssize_t;
        }
    }
    // SAFETY: the caller's promise; the kernel checks the pointer itself.
    unsafe { libc::syscall(libc::SYS_getrandom, to, length, flags) as ssize_t }
}

/// See `getentropy(3)`.
///
/// # Safety
/// As the C library's: `to` is valid for a write of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getentropy(to: *mut c_void, length: size_t) -> c_int {
    if length > 256 {
        // SAFETY: glibc's errno of this thread.
        unsafe { *libc::__errno_location() = libc::EIO };
        return -1;
    }
    // SAFETY: the caller's promise.
    let filled = unsafe { getrandom(to, length, 0) };
    if usize::try_from(filled) == Ok(length) { 0 } else { -1 }
}
