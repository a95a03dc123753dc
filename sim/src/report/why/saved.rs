//! What kept a run from harm that its lock did not rule out: the fence, the holder that
//! noticed, or nothing.

use crate::check::Kind;
use crate::history::{BeliefEnd, History, What};
use crate::report::layout::counted;
use crate::report::subject::Subject;

/// What saved a run in which a lock failed and nothing was harmed; `None` of what is no failure
/// of a lock's promise, or of a run that was not saved.
pub fn saved_by(history: &History, subject: &Subject<'_>) -> Option<String> {
    let promised = [Kind::DoubleGrant, Kind::GrantLost, Kind::Overstay];
    if is_harmed(subject) || !promised.contains(&subject.finding.kind) {
        return None;
    }
    if let Some(fence) = by_the_fence(history, subject) {
        return Some(fence);
    }
    let holder = holder(subject)?;
    let acts = acts_beyond(history, subject, holder);
    if let Some(first) = acts.first() {
        return Some(format!(
            "nothing: {holder} did {} at the stock after that, the first at {}, and no harm came of \
             it.",
            counted(acts.len() as u64, "thing"),
            seconds(*first),
        ));
    }
    let (ended, at_us) = match belief_end(history, subject, holder) {
        Some((reason, at_us)) => (Some(reason), seconds(at_us)),
        None => (None, String::new()),
    };
    Some(match ended {
        Some(BeliefEnd::Told) => format!(
            "the holder: {holder} was told of it at {at_us}, and did nothing more at the stock."
        ),
        Some(BeliefEnd::Deadline) => format!(
            "the holder: its own deadline check told {holder} at {at_us}, and it did nothing more \
             at the stock."
        ),
        Some(BeliefEnd::Died) => {
            format!("nothing: {holder} died at {at_us}, before it did anything more.")
        }
        Some(BeliefEnd::Dropped | BeliefEnd::Unseen) | None => {
            format!("nothing: {holder} happened to have nothing more to do at the stock.")
        }
    })
}

/// Whether the holder noticed by itself, or was told, before it did anything more, in a run that
/// it saved so.
pub(super) fn has_noticed(history: &History, subject: &Subject<'_>) -> bool {
    let Some(holder) = holder(subject).filter(|_| !is_harmed(subject)) else { return false };
    let end = belief_end(history, subject, holder).map(|(reason, _)| reason);
    matches!(end, Some(BeliefEnd::Told | BeliefEnd::Deadline))
        && acts_beyond(history, subject, holder).is_empty()
}

fn is_harmed(subject: &Subject<'_>) -> bool {
    subject.harm.is_some() || subject.finding.is_violation()
}

/// Whose promise it was.
fn holder<'s>(subject: &Subject<'s>) -> Option<&'s str> {
    subject.finding.parties.first().map(|party| party.owner.as_str())
}

fn by_the_fence(history: &History, subject: &Subject<'_>) -> Option<String> {
    let owners = subject.owners();
    let refused = history.iter().filter_map(|event| match &event.what {
        What::Effect { owner, accepted: false, .. }
            if owners.contains(&&**owner) && event.at_us >= subject.finding.from_us =>
        {
            Some((event.at_us, &**owner))
        }
        _ => None,
    });
    let refused: Vec<(u64, &str)> = refused.collect();
    let (first_us, _) = refused.first()?;
    let mut of: Vec<&str> = refused.iter().map(|(_, owner)| *owner).collect();
    of.sort_unstable();
    of.dedup();
    Some(format!(
        "the fence: it refused {} of {}, the first at {}.",
        counted(refused.len() as u64, "operation"),
        of.join(" and "),
        seconds(*first_us),
    ))
}

/// When the stock accepted something of the holder after its promise had ended.
fn acts_beyond(history: &History, subject: &Subject<'_>, holder: &str) -> Vec<u64> {
    let acts = history.iter().filter(|event| {
        event.at_us > subject.finding.from_us
            && matches!(&event.what, What::Effect { owner, accepted: true, .. }
                if **owner == *holder)
    });
    acts.map(|event| event.at_us).collect()
}

/// How the holder's belief ended after its promise had, and when.
fn belief_end(history: &History, subject: &Subject<'_>, holder: &str) -> Option<(BeliefEnd, u64)> {
    history.iter().find_map(|event| match &event.what {
        What::BeliefEnded { attempt, reason }
            if event.at_us >= subject.finding.from_us && attempt.to_string() == holder =>
        {
            Some((*reason, event.at_us))
        }
        _ => None,
    })
}

fn seconds(us: u64) -> String {
    format!("{}.{:03}s", us / 1_000_000, us / 1_000 % 1_000)
}
