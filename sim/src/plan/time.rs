//! Durations in plans: microseconds inside, text with a unit outside.

/// A duration of whole microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);
