//! How many came to each layer, and what became of them: the funnel of a sale.
//!
//! Every request that comes to a layer leaves it in exactly one way, so the counts of a
//! layer add up to those who left the layer before. [`Funnel::gaps`] says where not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// What became of somebody at a layer, in the order of the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Somebody opened the page.
    Visited,
    /// … and was served without the application.
    Static,
    /// Somebody tapped the button.
    Tapped,
    /// … while it was locked.
    Locked,
    /// A request came to an application node.
    Asked,
    /// … and was refused, since the sale is degraded.
    Degraded,
    /// … the same order was being looked at.
    Repeated,
    /// … its buyer asks too often.
    TooOften,
    /// … the node is asked too often.
    Busy,
    /// … too many were inside.
    Full,
    /// … all is sold.
    SoldOut,
    /// … its buyer has a unit already.
    Taken,
    /// … it went wrong, and nothing was taken.
    Failed,
    /// … it went wrong, and a unit may have been taken.
    Indeterminate,
    /// … and a unit was set aside for it.
    Sold,
    /// … which had been before, under the same order.
    Again,
    /// An order was written into the books.
    Written,
    /// … which knew it already.
    Rewritten,
    /// … which did not take it: its buyer has another, or all were sold.
    Unwritten,
    /// A buyer was told that the books have the order.
    Confirmed,
    /// An order was paid for.
    Paid,
    /// A unit that nobody paid for was freed.
    Returned,
    /// The shelf was set right by the books.
    Restocked,
}

impl Step {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Step::Visited => "visited",
            Step::Static => "static",
            Step::Tapped => "tapped",
            Step::Locked => "locked",
            Step::Asked => "asked",
            Step::Degraded => "degraded",
            Step::Repeated => "repeated",
            Step::TooOften => "too-often",
            Step::Busy => "busy",
            Step::Full => "full",
            Step::SoldOut => "sold-out",
            Step::Taken => "taken",
            Step::Failed => "failed",
            Step::Indeterminate => "indeterminate",
            Step::Sold => "set-aside",
            Step::Again => "set-aside-before",
            Step::Written => "written",
            Step::Rewritten => "rewritten",
            Step::Unwritten => "unwritten",
            Step::Confirmed => "confirmed",
            Step::Paid => "paid",
            Step::Returned => "returned",
            Step::Restocked => "restocked",
        }
    }
}

/// Counts; clones are the same ones.
#[derive(Clone, Debug, Default)]
pub struct Funnel(Arc<Mutex<BTreeMap<Step, u64>>>);

/// How a request may leave an application node.
const ANSWERS: [Step; 11] = [
    Step::Degraded,
    Step::Repeated,
    Step::TooOften,
    Step::Busy,
    Step::Full,
    Step::SoldOut,
    Step::Taken,
    Step::Failed,
    Step::Indeterminate,
    Step::Sold,
    Step::Again,
];

impl Funnel {
    /// One more.
    pub fn count(&self, step: Step) {
        *self.counts().entry(step).or_default() += 1;
    }

    /// How many so far.
    pub fn of(&self, step: Step) -> u64 {
        self.counts().get(&step).copied().unwrap_or_default()
    }

    /// All that is not zero, in the order of the layers.
    pub fn all(&self) -> Vec<(Step, u64)> {
        self.counts().iter().map(|(step, count)| (*step, *count)).collect()
    }

    /// How many requests came to an application node and have not been answered: those
    /// under way, and of a node that died those that never will be.
    pub fn gaps(&self) -> i128 {
        let counts = self.counts();
        let of = |step: &Step| i128::from(counts.get(step).copied().unwrap_or_default());
        of(&Step::Asked) - ANSWERS.iter().map(of).sum::<i128>()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Step, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_in_must_go_out() {
        let funnel = Funnel::default();
        funnel.count(Step::Asked);
        funnel.count(Step::Asked);
        funnel.count(Step::Sold);
        assert_eq!(funnel.gaps(), 1);
        funnel.count(Step::SoldOut);
        assert_eq!(funnel.gaps(), 0);
        assert_eq!(funnel.all(), [(Step::Asked, 2), (Step::SoldOut, 1), (Step::Sold, 1)]);
    }
}
