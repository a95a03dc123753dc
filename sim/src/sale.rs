//! A whole flash sale in storms: the layers of [`lockstorm::sale`] on their nodes, with real
//! clients, against simulated Redis with sentinels, ZooKeeper and PostgreSQL, while drawn faults
//! strike; and what has come of it in the end.
//!
//! Order of things: a [`SaleStorm`] is a plan and what of the sale is there ([`Part`]); `weather`
//! draws its faults; `node` is the program of an application node, `buyer` what buyers do,
//! [`crew`](mod@crew) puts them on the stage; [`facts`] is what they were told and what the books
//! say, [`judge`] what is to be thought of it; [`campaign`] runs many seeds.
//!
//! It judges the sale, not a lock: the only lock here elects a leader.

mod buyer;
pub mod campaign;
pub mod crew;
pub mod facts;
pub mod judge;
mod node;
mod part;
mod shrunk;
mod weather;

use std::sync::Arc;

use crate::check::Verdict;
use crate::engine::Engine;
use crate::plan::{Fence, Plan, Seed, scenario};
use crate::storm::{self, Run};
use crew::SaleCrew;
use facts::Facts;
pub use judge::{Broken, Judged};
pub use part::Part;
pub use shrunk::shrunk;

/// How units are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// From the shelf in Redis; orders are queued for the books.
    #[default]
    Shelf,
    /// Likewise, as one is tempted to: the stock is read, and written later; the books take what
    /// they are told.
    Naive,
    /// In the database alone, with its row locked.
    Pessimistic,
}

/// What a gate before the database looks at, where units are sold in it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GateBy {
    /// How many are inside: fewer than there are connections.
    #[default]
    Count,
    /// How long somebody waits for a connection.
    PoolWait,
}

/// What a sale is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How many units there are.
    pub units: u32,
    /// How many buyers there are for each unit.
    pub demand: u32,
    /// How many of them come each second while the rush lasts. The others come one after
    /// another until the faults have ended; and after that more of them, until what came back is
    /// sold.
    pub rush_per_second: u32,
    /// How many of a hundred come in the rush.
    pub in_rush_percent: u32,
    /// How units are taken.
    pub way: Way,
    /// The lock that is held around a naive deduction, by its name; `None` for none.
    pub lock: Option<String>,
    /// What the gate before the database looks at.
    pub gate_by: GateBy,
    /// What is left out of the sale.
    pub without: Vec<Part>,
    /// Whether the database has a standby, which follows asynchronously and may be promoted:
    /// then the books forget orders that they have acknowledged.
    pub has_standby: bool,
}

impl Default for Setup {
    /// Twenty buyers for each of twenty units.
    fn default() -> Self {
        Setup {
            units: 20,
            demand: 20,
            rush_per_second: 250,
            in_rush_percent: 60,
            way: Way::default(),
            lock: None,
            gate_by: GateBy::default(),
            without: Vec::new(),
            has_standby: false,
        }
    }
}

impl Setup {
    /// The naive sale.
    pub fn naive() -> Setup {
        Setup { way: Way::Naive, ..Setup::default() }
    }

    /// The sale without these.
    pub fn without(parts: &[Part]) -> Setup {
        Setup { without: parts.to_vec(), ..Setup::default() }
    }

    /// How many buyers there are.
    pub fn buyers(&self) -> u32 {
        self.units.saturating_mul(self.demand)
    }

    /// Whether this part is there.
    pub fn has(&self, part: Part) -> bool {
        let is_there = match self.way {
            Way::Shelf => true,
            Way::Naive => part.is_of_the_naive(),
            Way::Pessimistic => part.is_of_the_pessimistic(),
        };
        is_there && !self.without.contains(&part)
    }
}

/// A sale in its storm: all that decides a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleStorm {
    /// Who is there, and what goes wrong.
    pub plan: Plan,
    /// What the sale is like.
    pub setup: Setup,
}

impl SaleStorm {
    /// A sale in which nothing goes wrong.
    pub fn calm(setup: Setup, seed: Seed) -> SaleStorm {
        let (duration, lock, mut topology, workload) = scenario::sale();
        topology.postgres += u16::from(setup.has_standby);
        let plan = Plan {
            scenario: "sale".to_owned(),
            seed,
            duration,
            fence: Fence::Off,
            lock,
            topology,
            workload,
            clocks: Vec::new(),
            faults: Vec::new(),
        };
        SaleStorm { plan, setup }
    }

    /// The sale that `seed` draws, with its faults.
    pub fn drawn(setup: Setup, seed: Seed) -> SaleStorm {
        let mut storm = SaleStorm::calm(setup, seed);
        storm.plan.faults = weather::faults(&storm.plan);
        storm
    }

    /// Runs it, and judges.
    pub fn run(&self, engine: &dyn Engine) -> SaleRun {
        let crew = SaleCrew::new(self);
        let run = storm::run_crewed(&self.plan, engine, crew.clone());
        let facts = crew.facts();
        let judged = match run.judgement.verdict {
            not_run @ (Verdict::NotExpressible | Verdict::Internal) => Judged::of_none(not_run),
            _ => judge::judge(self, &run.history, &facts),
        };
        SaleRun { storm: self.clone(), run, facts, judged }
    }
}

/// A sale that was run.
#[derive(Clone, Debug)]
pub struct SaleRun {
    /// What ran.
    pub storm: SaleStorm,
    /// What happened on the stage; its own judgement says only whether it was run.
    pub run: Run,
    /// What buyers were told, and what the books say.
    pub facts: Arc<Facts>,
    /// What is to be thought of it.
    pub judged: Judged,
}
