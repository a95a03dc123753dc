//! What the checkers must know of a scene beside its history.

use lockstorm::lock::Promises;

use super::{Scene, micros};
use crate::check::{Goal, Setting, Wanted};
use crate::history::{Attempt, History, What};
use crate::plan::Plan;
use crate::plan::scenario::{LockKind, OWN_LOCK, find_lock};
use crate::storm::conductor::Patience;
use crate::storm::locks::{self, LockFactory};
use crate::storm::served;

/// Of a run of `scene`, in which the lock promised this.
pub(super) fn of(
    scene: &Scene,
    history: &History,
    patience: Patience,
    promises: Promises,
) -> Setting {
    let plan = &scene.plan;
    if scene.served.is_some() {
        return served::setting(plan);
    }
    Setting {
        fence: plan.fence,
        takeover_bound_us: Some(patience.takeover_us),
        quorum: locks::quorum(plan),
        faults: plan.faults.len(),
        lock_has_records: has_records(plan, history),
        lock_free: find_lock(&plan.lock.name).is_ok_and(LockKind::is_way_to_sell),
        ordered_tokens: promises.ordered_tokens,
        bypass_bound: promises.bypass_bound,
        loss_notice_bound_us: promises.loss_notice_bound.map(micros),
        goals: owed(&scene.lock_factory),
    }
}

/// What must have happened beside what every run owes: who has a section of a test's own does
/// something in it.
fn owed(lock_factory: &LockFactory) -> Wanted {
    let touched = lock_factory.section().map(|_| Goal::ResourceTouched);
    touched.into_iter().collect::<Vec<_>>().into()
}

/// Whether the lock keeps records that are seen: of a test's own that shows in its run, in which
/// each record must be somebody's.
fn has_records(plan: &Plan, history: &History) -> bool {
    if plan.lock.name != OWN_LOCK.name {
        return locks::has_records(&plan.lock.name);
    }
    let owners = history.iter().filter_map(|event| match &event.what {
        What::RecordSet { owner, .. } => Some(Attempt::parse(owner).is_some()),
        _ => None,
    });
    let known: Vec<bool> = owners.collect();
    !known.is_empty() && known.into_iter().all(|known| known)
}
