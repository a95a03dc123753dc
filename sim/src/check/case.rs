//! A case: a history, what is known of the lock that made it, and what all checkers
//! look up.

use std::collections::BTreeMap;

use super::blame::Faults;
use super::grants::Grants;
use super::records::{self, Loss};
use crate::history::History;

/// What a judge must know beside the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// How much of the fence the resource uses.
    pub fence: crate::plan::Fence,
    /// How long, after all faults have healed, the lock may stay closed though nobody
    /// holds it and somebody asks, µs.
    pub takeover_bound_us: u64,
    /// How many faults the plan has.
    pub faults: usize,
    /// Whether the lock keeps records; `none` does not, and then nothing is promised.
    pub lock_has_records: bool,
}

/// What every checker is given.
#[derive(Debug)]
pub struct Case<'a> {
    /// What happened.
    pub history: &'a History,
    /// Under which circumstances.
    pub setting: Setting,
    /// The table of grants.
    pub grants: Grants,
    /// The promised records that vanished, by the row of their grant.
    pub losses: BTreeMap<usize, Loss>,
    /// The faults.
    pub faults: Faults,
}

impl<'a> Case<'a> {
    /// Looks everything up.
    pub fn new(history: &'a History, setting: Setting) -> Case<'a> {
        let grants = Grants::of(history, setting.lock_has_records);
        let losses = records::losses(history, &grants);
        Case { history, setting, losses, grants, faults: Faults::of(history) }
    }
}

/// Of one kind of finding no more than this are told, the earliest: a broken lock in
/// a long storm breaks at every step, and the first is what matters.
pub(super) const MOST_OF_A_KIND: usize = 50;
