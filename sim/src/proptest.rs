//! Plans as inputs of [proptest](::proptest) properties. Needs the feature `proptest`.
//!
//! ```no_run
//! use lockstorm_sim::proptest::plans;
//! use proptest::prelude::*;
//!
//! proptest! {
//!     #[test]
//!     fn a_fully_fenced_stock_sells_nothing_twice(plan in plans("redis-failover")) {
//!         let plan = plan.with_set("fence", "full").unwrap();
//!         lockstorm_sim::proptest::holds("seeds", plan)?;
//!     }
//! }
//! ```
//!
//! A plan is drawn as everywhere, from a seed ([`Plan::from_seed`]), and made smaller by
//! leaving out faults and clocks: what is left out is never drawn again, so the smaller plan
//! is one that a file can hold. What fails is kept as such a file: see [`holds`].

use std::path::Path;

use ::proptest::prelude::*;
use ::proptest::strategy::{NewTree, ValueTree};
use ::proptest::test_runner::TestRunner;

use crate::check::Verdict;
use crate::engine::event::EventEngine;
use crate::plan::scenario::default_lock;
use crate::plan::{Fence, Plan, PlanError, Seed};
use crate::seeds::{SeedFile, Shelf, Title, check, folder};
use crate::shrink::{Limits, shrink};
use crate::storm;

/// The plans of a scenario, with the default lock and no fence.
///
/// # Panics
/// When there is no such scenario.
pub fn plans(scenario: &str) -> Plans {
    let plans = Plans::of(scenario, default_lock(scenario), Fence::Off);
    plans.unwrap_or_else(|error| panic!("{error}"))
}

/// A strategy that gives plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plans {
    scenario: String,
    lock: String,
    fence: Fence,
}

impl Plans {
    /// The plans of a scenario for a lock and a fence.
    ///
    /// # Errors
    /// Unknown names; a fence for a lock that has no tokens.
    pub fn of(scenario: &str, lock: &str, fence: Fence) -> Result<Plans, PlanError> {
        Plan::from_seed(scenario, lock, fence, Seed(0))?;
        Ok(Plans { scenario: scenario.to_owned(), lock: lock.to_owned(), fence })
    }
}

impl Strategy for Plans {
    type Tree = Smaller;
    type Value = Plan;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        let seed = any::<u64>().new_tree(runner)?.current();
        let plan = Plan::from_seed(&self.scenario, &self.lock, self.fence, Seed(seed));
        let plan = plan.map_err(|error| error.to_string())?;
        let parts = plan.faults.len() + plan.clocks.len();
        Ok(Smaller { plan, left_out: vec![false; parts], next: 0 })
    }
}

/// A plan that becomes smaller by a fault, or a clock, at a time.
#[derive(Clone, Debug)]
pub struct Smaller {
    plan: Plan,
    /// Faults, then clocks.
    left_out: Vec<bool>,
    next: usize,
}

impl ValueTree for Smaller {
    type Value = Plan;

    fn current(&self) -> Plan {
        let mut plan = self.plan.clone();
        let mut left_out = self.left_out.iter();
        plan.faults.retain(|_| left_out.next() == Some(&false));
        plan.clocks.retain(|_| left_out.next() == Some(&false));
        plan
    }

    fn simplify(&mut self) -> bool {
        let Some(left_out) = self.left_out.get_mut(self.next) else { return false };
        *left_out = true;
        self.next += 1;
        true
    }

    fn complicate(&mut self) -> bool {
        // What was left out last was needed.
        let last = self.next.checked_sub(1).and_then(|last| self.left_out.get_mut(last));
        last.is_some_and(|left_out| std::mem::replace(left_out, false))
    }
}

/// Runs `plan`; a violation fails the property, and is shrunk and kept below the folder
/// `seeds`, on the shelf known-unsafe, as a file that `lockstorm seeds check` and a person
/// can read. One that is there already stays as it is.
///
/// # Errors
/// The failure of the property, with the file's path. A plan whose run says nothing (inert,
/// unknown) is rejected: proptest draws another.
pub fn holds(seeds: impl AsRef<Path>, plan: Plan) -> Result<(), TestCaseError> {
    let run = storm::run(&plan, &EventEngine);
    match run.judgement.verdict {
        Verdict::Violation => {}
        verdict if verdict.is_safe() => return Ok(()),
        verdict => return Err(TestCaseError::reject(format!("the plan is {verdict}"))),
    }
    let failed = |why: &str| Err(TestCaseError::fail(why.to_owned()));
    let Ok(shrunk) = shrink(&plan, &Limits::default()) else {
        return failed("a violation that does not repeat");
    };
    let told = shrunk.signature.to_string();
    let id = format!("proptest-{}-{}", shrunk.signature.kind, shrunk.run.trace_hash);
    let title = Title { en: told.clone(), zh: told.clone() };
    let kept = check::keep(&shrunk.run, &id, title);
    let path = seeds.as_ref().join(Shelf::KnownUnsafe.name()).join(format!("{id}.toml"));
    match kept {
        _ if SeedFile::load(&path).is_ok_and(|file| file.plan == *shrunk.plan()) => {}
        Ok(file) => match folder::save(seeds.as_ref(), Shelf::KnownUnsafe, &file) {
            Ok(_) => {}
            Err(error) => return failed(&format!("{told}; not kept: {error}")),
        },
        Err(why) => return failed(&format!("{told}; not kept: {why}")),
    }
    failed(&format!("{told}; kept as {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_becomes_smaller_until_what_it_needs_is_left() {
        let mut runner = TestRunner::deterministic();
        let mut tree = plans("redis-failover").new_tree(&mut runner).unwrap();
        let whole = tree.current();
        let needed = whole.faults[0].clone();
        // As proptest does it.
        while tree.simplify() {
            let still_fails = tree.current().faults.contains(&needed);
            if !still_fails {
                tree.complicate();
            }
        }
        assert_eq!(tree.current().faults, [needed]);
        assert!(tree.current().clocks.is_empty());
    }

    #[test]
    fn a_failure_is_kept_as_a_file_that_is_read_back() {
        let seeds = tempfile::tempdir().unwrap();
        let plan = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(2)).unwrap();
        let told = [0, 1].map(|_| holds(seeds.path(), plan.clone()).unwrap_err().to_string());
        assert_eq!(told[0], told[1], "the second time it is there");
        let files = folder::load_shelf(seeds.path(), Shelf::KnownUnsafe).unwrap();
        assert_eq!(files.len(), 1);
        assert!(told[0].contains(&files[0].1.id), "{}", told[0]);
        assert!(holds(seeds.path(), plan.without_faults()).is_ok());
    }
}
