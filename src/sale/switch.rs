//! Whether the sale is on: the switch by which a whole sale is degraded, at every node at
//! once.
//!
//! A degraded sale refuses cleanly: nothing is begun, what was begun is finished.
//! [`Flip`] is a switch in this process; one that all nodes watch is whatever implements
//! [`Switch`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the sale does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It sells.
    On,
    /// It refuses everybody who is not being served already.
    Degraded,
}

/// A switch that is asked before each request. It must answer at once, with what it was
/// last told: a switch that has lost its source goes on as it was, or degrades, as its
/// maker decides.
pub trait Switch: Send + Sync {
    /// What the sale does at present.
    fn mode(&self) -> Mode;
}

/// A switch in this process; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Flip(Arc<AtomicBool>);

impl Flip {
    /// From now on.
    pub fn set(&self, mode: Mode) {
        self.0.store(mode == Mode::Degraded, Ordering::Relaxed);
    }
}

impl Switch for Flip {
    fn mode(&self) -> Mode {
        if self.0.load(Ordering::Relaxed) { Mode::Degraded } else { Mode::On }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sale_is_on_until_it_is_degraded() {
        let switch = Flip::default();
        let other = switch.clone();
        assert_eq!(other.mode(), Mode::On);
        switch.set(Mode::Degraded);
        assert_eq!(other.mode(), Mode::Degraded);
        switch.set(Mode::On);
        assert_eq!(other.mode(), Mode::On);
    }
}
