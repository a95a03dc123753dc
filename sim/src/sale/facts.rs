//! What is known of a sale in the end: what each buyer was told and when, what the books say,
//! what was counted on the way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstorm::sale::funnel::Funnel;
use lockstorm::sale::orders::State;
use lockstorm::sale::reconcile::Difference;
use lockstorm::sale::{Buyer, OrderName};

/// What a buyer was told of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Told {
    /// It is ordered: the books have it, or, without confirmation, the shelf says so.
    Ordered,
    /// It is paid for.
    Paid,
    /// All is sold.
    SoldOut,
    /// There is nothing to pay for any more.
    TooLate,
}

/// One row of the orders.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// The order.
    pub order: String,
    /// Its buyer.
    pub buyer: String,
    /// Its state.
    pub state: State,
}

/// What the books say in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// How many units there were.
    pub units: u32,
    /// How many of them are free.
    pub free: i64,
    /// All orders.
    pub orders: Vec<Row>,
}

impl Truth {
    /// How many orders are in this state.
    pub fn in_state(&self, state: State) -> u64 {
        self.orders.iter().filter(|row| row.state == state).count() as u64
    }

    /// How many orders have a unit.
    pub fn with_unit(&self) -> u64 {
        self.orders.iter().filter(|row| row.state.has_unit()).count() as u64
    }
}

/// How a node's connections to the database were used, where units are sold in it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// The most that were lent at one time.
    pub peak: usize,
    /// How often none was to be had in time.
    pub refusals: u64,
    /// The longest wait for one.
    pub longest_wait: Duration,
    /// How often the node asked the database for something else.
    pub others: u64,
    /// How often it got no answer to that in time.
    pub others_failed: u64,
}

/// What is known; see the module's text.
#[derive(Debug, Default)]
pub struct Facts {
    /// How many left each layer.
    pub funnel: Funnel,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    told: Vec<(u64, Buyer, OrderName, Told)>,
    truth: Option<Truth>,
    differences: Option<Vec<Difference>>,
    connections: BTreeMap<String, Connections>,
    latencies_us: Vec<u64>,
}

impl Facts {
    pub(super) fn tell(&self, at_us: u64, buyer: &Buyer, order: &OrderName, told: Told) {
        self.known().told.push((at_us, buyer.clone(), order.clone(), told));
    }

    pub(super) fn conclude(&self, truth: Truth) {
        self.known().truth = Some(truth);
    }

    pub(super) fn audited(&self, differences: Vec<Difference>) {
        self.known().differences = Some(differences);
    }

    pub(super) fn answered_after(&self, us: u64) {
        self.known().latencies_us.push(us);
    }

    pub(super) fn used(&self, node: &str, change: impl FnOnce(&mut Connections)) {
        change(self.known().connections.entry(node.to_owned()).or_default());
    }

    /// What buyers were told, in order: when, who, of which order, what.
    pub fn told(&self) -> Vec<(u64, Buyer, OrderName, Told)> {
        self.known().told.clone()
    }

    /// What the books say in the end; `None` where nobody could read them.
    pub fn truth(&self) -> Option<Truth> {
        self.known().truth.clone()
    }

    /// In what shelf and books differ in the end; `None` where one could not be asked.
    pub fn differences(&self) -> Option<Vec<Difference>> {
        self.known().differences.clone()
    }

    /// How the connections of each node were used.
    pub fn connections(&self) -> BTreeMap<String, Connections> {
        self.known().connections.clone()
    }

    /// How long buyers who came waited for their first answer, from when they came, µs: the
    /// median and that of the slowest hundredth.
    pub fn latency_us(&self) -> Option<(u64, u64)> {
        let mut all = self.known().latencies_us.clone();
        all.sort_unstable();
        let at = |percent: usize| all.get((all.len() * percent / 100).min(all.len() - 1)).copied();
        if all.is_empty() { None } else { at(50).zip(at(99)) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shared by all programs of a run, and beyond their deaths.
pub(super) type SharedFacts = Arc<Facts>;
