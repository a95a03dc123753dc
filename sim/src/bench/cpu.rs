//! The CPU time of this process: what a hunt costs, strategy and all.

use std::time::Duration;

/// What this process has used so far. Zero where the system does not tell.
pub(super) fn used() -> Duration {
    #[cfg(unix)]
    {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(used.tv_nsec).unwrap_or(0))
    }
    #[cfg(not(unix))]
    Duration::ZERO
}
