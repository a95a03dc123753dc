//! How long a fault of the menu lasts, by the plan it is for.

use crate::plan::{Micros, Plan};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// Half a command timeout.
    Brief,
    /// Longer than sentinels take to replace the master, shorter than a lease.
    Takeover,
    /// Longer than the lease.
    PastLease,
    /// Until the storm is over.
    Rest,
}

impl Length {
    pub(super) fn name(self) -> &'static str {
        match self {
            Length::Brief => "briefly",
            Length::Takeover => "through a takeover",
            Length::PastLease => "past the lease",
            Length::Rest => "to the end",
        }
    }

    /// `None` until the storm is over.
    pub(super) fn lasts(self, plan: &Plan) -> Option<Micros> {
        let lease_us = plan.lock.lease.0;
        let us = match self {
            Length::Brief => plan.lock.command_timeout.0 / 2,
            Length::Takeover => takeover_us(plan),
            Length::PastLease => lease_us + lease_us / 10,
            Length::Rest => return None,
        };
        Some(Micros(us.max(1_000))).filter(|lasts| *lasts < plan.duration)
    }
}

/// As long as sentinels let a silent master be, and three seconds: the last PING before, the
/// election, the INFO that shows the promotion.
pub(super) fn takeover_us(plan: &Plan) -> u64 {
    plan.topology.down_after.0 + 3_000_000
}
