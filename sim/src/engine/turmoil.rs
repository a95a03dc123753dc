//! The reference engine: turmoil 0.7. What the event engine finds is confirmed here.
//!
//! Every node of the stage is a turmoil host. turmoil supplies the network, the
//! ticks and crash and restart of hosts; pauses, clocks, incarnations and draws are
//! the [`World`](super::world::World)'s, as on every engine.
//!
//! Order of things: [`latency`] fits turmoil's latencies to the stage's, [`network`]
//! is what all parts share, [`link`] keeps cuts and slow links, [`substrate`] is the
//! engine as its nodes see it, with [`connect`], [`listener`], [`socket`] and its
//! [`breaker`] around turmoil's TCP, [`control`] strikes, [`driver`] turns the crank. [`guest`] is for tests
//! that bring their own `turmoil::Builder`.
//!
//! Time goes in ticks. Within a tick the hosts run one after another, in the order
//! of their ids, all at the tick's time: the world's clock stands still meanwhile,
//! and every timer of a host and every message ends on a tick. It is not a place for
//! microseconds; docs/engines.md says what that and turmoil's TCP leave out.

mod breaker;
mod connect;
mod control;
mod driver;
mod guest;
mod latency;
mod link;
mod listener;
mod network;
mod socket;
mod substrate;

pub use guest::guest;

use std::sync::Arc;

use super::{Ending, Engine, Stage};
use crate::plan::{FaultKind, Plan};

/// Plans that are longer than this with the lease that may be waited for after them are not
/// run at ticks of a millisecond: a minute of five hosts takes turmoil seconds. Simulated µs.
const LONGEST_US: u64 = 60_000_000;

/// The reference engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turmoil {
    /// Draws other latencies for the same plan: 0 is the plan's own, every other
    /// number a run that differs in nothing else.
    pub reseed: u64,
    /// Length of a tick, simulated ms; 0 counts as 1. The nightly runs long plans at
    /// coarser ticks.
    pub tick_ms: u64,
}

impl Default for Turmoil {
    fn default() -> Self {
        Turmoil { reseed: 0, tick_ms: 1 }
    }
}

impl Turmoil {
    fn tick_us(self) -> u64 {
        self.tick_ms.max(1) * 1_000
    }
}

impl Engine for Turmoil {
    fn name(&self) -> &'static str {
        "turmoil"
    }

    fn title(&self) -> &'static str {
        "turmoil 0.7"
    }

    fn cannot_express(&self, plan: &Plan) -> Option<String> {
        let one_way = |fault: &crate::plan::Fault| {
            matches!(fault.kind, FaultKind::Partition { one_way: true, .. })
        };
        if plan.faults.iter().any(one_way) {
            return Some("a one-way cut that delivers after the heal".to_owned());
        }
        if plan.duration.0.saturating_add(plan.lock.lease.0) > LONGEST_US && self.tick_us() == 1_000
        {
            return Some(
                "longer than 60 simulated seconds, with the lease that may be waited for at its \
                 end: run by the nightly at a coarser tick"
                    .to_owned(),
            );
        }
        None
    }

    fn reseeded(&self, reseed: u64) -> Option<Arc<dyn Engine>> {
        Some(Arc::new(Turmoil { reseed, ..*self }))
    }

    fn run(&self, stage: Stage) -> Ending {
        driver::drive(*self, stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{
        Fault, Fence, LockPlan, Micros, RedisPersistence, Seed, Topology, When, Workload,
    };

    fn plan(duration_us: u64, faults: Vec<FaultKind>) -> Plan {
        let at = |kind| Fault { kind, when: When::At(Micros(0)), lasts: None };
        Plan {
            scenario: "test".to_owned(),
            seed: Seed(1),
            duration: Micros(duration_us),
            fence: Fence::Off,
            lock: LockPlan {
                name: "none".to_owned(),
                lease: Micros(0),
                margin_ppm: 0,
                command_timeout: Micros(0),
                retry: Micros(0),
                own: crate::plan::OwnOptions::default(),
            },
            topology: Topology {
                redis: 1,
                independent: false,
                persistence: RedisPersistence::None,
                sentinels: 0,
                zookeeper: 0,
                tick: Micros::from_secs(2),
                postgres: 0,
                max_connections: crate::plan::MAX_CONNECTIONS,
                pooler: 0,
                apps: 1,
                absent: std::collections::BTreeSet::new(),
                latency: Micros(250),
                latency_sigma_milli: 400,
                down_after: Micros(0),
            },
            workload: Workload {
                units: 1,
                think: Micros(0),
                work: Micros(0),
                slow_per_mille: 0,
                slow_work: Micros(0),
                patience: Micros(0),
                deadline_check: false,
                reentries: 0,
                locks: 1,
                stock: crate::plan::StockPlace::Memory,
                buyers: 1,
                pool: crate::plan::CONNECTIONS,
                readers: 0,
            },
            clocks: Vec::new(),
            faults: faults.into_iter().map(at).collect(),
        }
    }

    fn partition(one_way: bool) -> FaultKind {
        FaultKind::Partition { from: vec!["app-1".into()], to: vec!["redis-1".into()], one_way }
    }

    #[test]
    fn it_says_what_it_cannot_express() {
        let engine = Turmoil::default();
        let coarse = Turmoil { tick_ms: 10, ..engine };
        assert_eq!(engine.cannot_express(&plan(60_000_000, vec![partition(false)])), None);
        let one_way = plan(1_000_000, vec![partition(false), partition(true)]);
        let why = engine.cannot_express(&one_way);
        assert_eq!(why.as_deref(), Some("a one-way cut that delivers after the heal"));
        assert_eq!(coarse.cannot_express(&one_way), why);
        let long = plan(60_000_001, vec![]);
        let why = engine.cannot_express(&long).unwrap();
        assert!(why.starts_with("longer than 60 simulated seconds"), "{why}");
        assert_eq!(coarse.cannot_express(&long), None);
        // A lock that nobody gives back is waited for as long as its lease.
        let mut waited = plan(10_000_000, vec![]);
        waited.lock.lease = Micros::from_secs(86_400);
        assert!(engine.cannot_express(&waited).is_some());
    }
}
