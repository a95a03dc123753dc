//! Lessons: storms to learn from. Each asks what will happen, runs it, tells why, turns a knob
//! and measures, and leaves something to mend.
//!
//! A lesson is data, one file under `lesson/files/`: a plan with what must come of it, and every
//! text in English and Chinese. Nothing in it is claimed without a run: its verdict, what
//! turmoil says of it, the shares of its curves and the verdicts of its fixes are asserted by
//! `sim/tests/lessons.rs` over the same code that tells them.
//!
//! Order of things: [`file`](mod@file) is the format, [`change`] changes a plan by `key=value`, faults
//! included, [`curve`] measures what a knob does; how a lesson is told is in
//! [`report::lesson`](crate::report::lesson).

pub mod change;
pub mod curve;
pub mod file;

pub use curve::Point;
pub use file::{Fix, Knob, Lesson, Text};

use crate::plan::PlanError;

/// The files, in the order in which they are taught.
const FILES: &[(&str, &str)] = &[
    ("first-look", include_str!("lesson/files/first-look.toml")),
    ("no-expiry", include_str!("lesson/files/no-expiry.toml")),
    ("not-my-lock", include_str!("lesson/files/not-my-lock.toml")),
    ("replication-lag", include_str!("lesson/files/replication-lag.toml")),
    ("pause", include_str!("lesson/files/pause.toml")),
    ("watchdog", include_str!("lesson/files/watchdog.toml")),
    ("hung-holder", include_str!("lesson/files/hung-holder.toml")),
    ("redlock-clock", include_str!("lesson/files/redlock-clock.toml")),
    ("redlock-amnesia", include_str!("lesson/files/redlock-amnesia.toml")),
    ("session-expiry", include_str!("lesson/files/session-expiry.toml")),
    ("dead-client", include_str!("lesson/files/dead-client.toml")),
    ("fencing", include_str!("lesson/files/fencing.toml")),
    ("write-only-fence", include_str!("lesson/files/write-only-fence.toml")),
    ("fence-goes-back", include_str!("lesson/files/fence-goes-back.toml")),
    ("no-lock", include_str!("lesson/files/no-lock.toml")),
];

/// All lessons, in the order in which they are taught.
///
/// # Errors
/// The first thing that is wrong with a file; a test holds that nothing is.
pub fn all() -> Result<Vec<Lesson>, PlanError> {
    FILES.iter().map(|(id, text)| Lesson::parse(id, text)).collect()
}
