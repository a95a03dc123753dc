//! Seeds: 64 bits inside, hex outside.

/// What decides a storm's draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seed(pub u64);
