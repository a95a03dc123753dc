//! `loss-not-told`: a holder's grant was lost, and
//! - its release was answered "released" though no server had anything to release; or
//! - its renewal was answered "renewed" though no server renewed anything; or
//! - it went on believing for longer than the lock's own notice bound (where it declares
//!   one), after the healing.
//!
//! What a deposed master did release or renew is an answer of the lock, if a stale one:
//! it is told by the grant that was lost, not here.

use std::collections::{BTreeMap, BTreeSet};

use super::blame::{self, Blame, Parted};
use super::case::{Case, MOST_OF_A_KIND};
use super::deadlock::healed;
use super::detail::{Detail, Untold};
use super::finding::{Finding, Kind};
use super::grants::Grant;
use super::interval::{Interval, Moment};
use crate::history::{Event, EventId, Renewal, What};
use lockstorm::lock::Release;

/// What became of an owner's record.
#[derive(Default)]
struct Fate {
    /// It was set, extended or released by a server, last.
    served: Option<Moment>,
    /// Since when it has been gone without a release, by which event.
    gone: Option<(Moment, EventId)>,
    /// When its client asked last.
    asked: Option<Moment>,
}

/// Finds `loss-not-told`.
pub(super) fn not_told(case: &Case<'_>) -> Vec<Finding> {
    let mut found = wrong_answers(case);
    found.extend(never_told(case));
    found.sort_by_key(|finding| finding.from_us);
    found.truncate(MOST_OF_A_KIND);
    found
}

fn wrong_answers(case: &Case<'_>) -> Vec<Finding> {
    let rows = case.grants.rows();
    // The row of each owner that is told; a foreigner's answers are not seen.
    let told = rows.iter().enumerate().filter(|(_, grant)| grant.attempt.is_some());
    let of_owner: BTreeMap<&str, usize> = told.map(|(row, grant)| (&*grant.owner, row)).collect();
    let mut fates: BTreeMap<usize, Fate> = BTreeMap::new();
    // Whose record a server ever released.
    let mut released: BTreeSet<usize> = BTreeSet::new();
    let mut found = Vec::new();
    for event in case.history.iter() {
        if let What::RecordReleased { owner, .. } = &event.what {
            released.extend(of_owner.get(&**owner));
        }
        note(&of_owner, &mut fates, event);
        let (attempt, how) = match &event.what {
            What::ReleaseReturned { attempt, release: Release::Released } => {
                (attempt, Untold::ToldReleased)
            }
            What::RenewReturned { attempt, renewal: Renewal::Renewed } => {
                (attempt, Untold::ToldRenewed)
            }
            _ => continue,
        };
        let Some(row) = of_owner.get(attempt.to_string().as_str()).copied() else { continue };
        let Some(fate) = fates.get(&row) else { continue };
        let Some((gone, by)) = fate.gone else { continue };
        let is_served = match how {
            Untold::ToldReleased => released.contains(&row),
            // Since it was asked, a server has done something for it.
            _ => fate.asked.is_none_or(|asked| fate.served.is_some_and(|served| served > asked)),
        };
        if !is_served && found.len() < MOST_OF_A_KIND {
            let interval = Interval::new(gone, Moment::of(event));
            found.push(tell(case, &rows[row], interval, how, [by, event.id]));
        }
    }
    found
}

/// Notes what an event says of a record's fate.
fn note(of_owner: &BTreeMap<&str, usize>, fates: &mut BTreeMap<usize, Fate>, event: &Event) {
    let moment = Moment::of(event);
    let mut gone = |owner: &str| {
        if let Some(row) = of_owner.get(owner) {
            fates.entry(*row).or_default().gone.get_or_insert((moment, event.id));
        }
    };
    match &event.what {
        What::RecordExpired { owner, .. } | What::RecordLost { owner, .. } => gone(owner),
        What::SessionExpired { records, .. } => records.iter().for_each(|(_, owner)| gone(owner)),
        What::RecordSet { owner, .. }
        | What::RecordExtended { owner, .. }
        | What::RecordReleased { owner, .. } => {
            // Of whom nothing is known yet, nothing is asked yet either.
            let fate = of_owner.get(&**owner).and_then(|row| fates.get_mut(row));
            if let Some(fate) = fate {
                fate.served = Some(moment);
                if !matches!(event.what, What::RecordReleased { .. }) {
                    fate.gone = None;
                }
            }
        }
        What::RenewInvoked { attempt } => {
            if let Some(row) = of_owner.get(attempt.to_string().as_str()) {
                fates.entry(*row).or_default().asked = Some(moment);
            }
        }
        _ => {}
    }
}

fn never_told(case: &Case<'_>) -> Vec<Finding> {
    let Some(bound_us) = case.setting.loss_notice_bound_us else { return Vec::new() };
    let healed = healed(case).unwrap_or(Moment::START);
    let mut sessions: BTreeMap<(&str, &str), (Moment, EventId)> = BTreeMap::new();
    for event in case.history.iter() {
        if let What::SessionExpired { records, .. } = &event.what {
            for (key, owner) in records {
                let expired = (Moment::of(event), event.id);
                sessions.entry((key, owner)).or_insert(expired);
            }
        }
    }
    let mut found = Vec::new();
    for (row, grant) in case.grants.rows().iter().enumerate() {
        let Some(belief) = grant.belief else { continue };
        let record = case.losses.get(&row).map(|loss| (loss.moment, loss.event));
        let session = sessions.get(&(&grant.key, &grant.owner)).copied();
        let Some((lost, by)) = record.into_iter().chain(session).min() else { continue };
        let due_us = lost.max(healed).at_us.saturating_add(bound_us);
        let until = belief.to.min(Moment::end_of(case.history.ended_us));
        let sure_us = until.at_us.saturating_sub(grant.uncertainty_us);
        if lost >= belief.from && sure_us > due_us && found.len() < MOST_OF_A_KIND {
            let interval = Interval::new(lost, until);
            found.push(tell(case, grant, interval, Untold::NotTold, [by, by]));
        }
    }
    found
}

fn tell(
    case: &Case<'_>,
    grant: &Grant,
    interval: Interval,
    how: Untold,
    events: [EventId; 2],
) -> Finding {
    let blame = match how {
        Untold::NotTold => blame::overstay(case, grant, "first-holder", interval.to),
        _ => Blame {
            parted: Parted::Answer,
            owners: vec![grant.owner.to_string()],
            ..Blame::default()
        },
    };
    let detail = Detail::LossNotTold { how };
    Finding::new(case.history, Kind::LossNotTold, &[grant], interval, detail)
        .proved_by(events)
        .blamed(blame)
}
