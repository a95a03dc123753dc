//! Whose hand removed a record that was not theirs, and what had held it up; and what left
//! a client with a grant that no server knew of.
//!
//! A history does not say who deleted a record, but who was releasing at that moment. A
//! lock that is sound as long as nothing comes late is broken by what makes a release
//! late, or makes its client ask for it twice.

use std::collections::BTreeMap;

use super::faults::{BlamedFault, Group, Struck};
use crate::check::case::Case;
use crate::check::grants::Grant;
use crate::check::interval::{Interval, Moment};
use crate::check::records::Loss;
use crate::history::FaultFamily::{
    Cancel, ClockFreeze, ClockRate, ClockSlew, ClockStep, Hang, Partition, Pause, Reset, SlowLink,
};
use crate::history::{Attempt, Name, What};

/// A release that was under way when a record was removed.
struct Releasing<'h> {
    attempt: &'h Attempt,
    client: &'h Name,
    since: Moment,
}

/// What held up the release, by somebody other than its holder, that removed `victim`'s
/// record. `None` where nobody else was releasing, or nothing held them up.
pub(super) fn held_up(case: &Case<'_>, victim: &Grant, loss: &Loss) -> Option<BlamedFault> {
    let mut under_way = releasing(case, loss.moment);
    under_way.retain(|release| victim.attempt.as_ref() != Some(release.attempt));
    let rows = case.grants.rows();
    under_way.iter().rev().find_map(|release| {
        let own = rows.iter().find(|grant| grant.attempt.as_ref() == Some(release.attempt));
        let since = own.map_or(release.since, Grant::start).min(release.since);
        let releaser = || vec![Struck::node(release.client, "releaser")];
        let link = || vec![Struck::link(release.client, &loss.node, "releaser")];
        let groups: [Group<'_>; 5] = [
            (&[Reset], link()),
            (&[Cancel], releaser()),
            (&[Pause, Hang], releaser()),
            (&[Partition, SlowLink], link()),
            (&[ClockRate, ClockStep, ClockFreeze, ClockSlew], releaser()),
        ];
        case.faults.pick(&groups, Interval::new(since.min(loss.moment), loss.moment))
    })
}

/// What left the client of `grant`, of which no server knew, in the belief that it was
/// inside: an earlier operation that ended half-way.
pub(super) fn left_half_way(
    case: &Case<'_>,
    grant: &Grant,
    role: &'static str,
) -> Option<BlamedFault> {
    let client = grant.client()?;
    let groups: [Group<'_>; 1] = [(&[Cancel, Reset], vec![Struck::node(client, role)])];
    case.faults.pick(&groups, Interval::new(Moment::START, grant.start()))
}

/// The releases that had begun by `moment` and had not returned, in order.
fn releasing<'h>(case: &Case<'h>, moment: Moment) -> Vec<Releasing<'h>> {
    let mut open: BTreeMap<&Attempt, (&Name, Moment)> = BTreeMap::new();
    for event in case.history.iter() {
        let at = Moment::of(event);
        if at > moment {
            break;
        }
        match &event.what {
            What::ReleaseInvoked { attempt } => {
                open.insert(attempt, (&event.node, at));
            }
            What::ReleaseReturned { attempt, .. } => {
                open.remove(attempt);
            }
            _ => {}
        }
    }
    let mut under_way: Vec<Releasing<'h>> = open
        .into_iter()
        .map(|(attempt, (client, since))| Releasing { attempt, client, since })
        .collect();
    under_way.sort_by_key(|release| release.since);
    under_way
}
