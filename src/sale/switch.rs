//! Whether the sale is on: the switch by which a whole sale is degraded, at every node at
//! once.
//!
//! A degraded sale refuses cleanly: nothing is begun, what was begun is finished.
//! [`Flip`] is a switch in this process; [`Watched`] is a node of ZooKeeper that all of them
//! watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lock::zookeeper::switch;

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

/// What a [`Watched`] switch holds while the sale is degraded.
pub const DEGRADED: &[u8] = b"degraded";

/// A switch that every node watches in ZooKeeper. Where its value is not known, or was not
/// confirmed for as long as a session lasts, the mode is what its maker says: a sale that must
/// not stop for its switch goes on, one that must be stoppable does not.
#[derive(Debug)]
pub struct Watched {
    switch: switch::Switch,
    unknown: Mode,
}

impl Watched {
    /// What `switch` says, or `unknown` where that is not known.
    pub fn new(switch: switch::Switch, unknown: Mode) -> Self {
        Watched { switch, unknown }
    }
}

impl Switch for Watched {
    fn mode(&self) -> Mode {
        let reading = self.switch.reading();
        match reading.value.as_deref() {
            _ if reading.is_stale() => self.unknown,
            Some(DEGRADED) => Mode::Degraded,
            _ => Mode::On,
        }
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
