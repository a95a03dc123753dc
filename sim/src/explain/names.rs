//! Names of events that are the same in two runs of nearly the same plan: without ids,
//! times, tokens and offsets.

use crate::history::{AcquireOutcome, Event, RecordLoss, StockOperation, What};

/// What the event is, in the words of the story, with its node; `None` for what no story
/// tells, such as messages.
pub fn name(event: &Event) -> Option<String> {
    let node = &event.node;
    Some(match &event.what {
        What::AcquireInvoked { attempt, .. } => format!("{attempt} asks for the lock"),
        What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. } => {
            format!("{attempt} is told that it holds the lock")
        }
        What::BeliefEnded { attempt, .. } => format!("{attempt} no longer believes to hold it"),
        What::ReleaseInvoked { attempt } => format!("{attempt} begins to release"),
        What::RecordSet { owner, .. } => format!("{node} grants the lock to {owner}"),
        What::RecordRefused { owner, held_by, .. } => {
            format!("{node} refuses {owner}, for {held_by} has the lock")
        }
        What::RecordExtended { owner, .. } => format!("{node} renews {owner}'s lease"),
        What::RecordReleased { owner, .. } => format!("{node} releases {owner}'s lock"),
        What::RecordExpired { owner, .. } => format!("{node} ends {owner}'s lease"),
        What::RecordReplicated { owner, .. } => format!("{node} has a copy of {owner}'s record"),
        What::RecordLoaded { owner, .. } => {
            format!("{node} has {owner}'s record from its disk")
        }
        What::RecordUnreplicated { owner, .. } => {
            format!("{node} drops its copy of {owner}'s record")
        }
        What::RecordLost { owner, how, .. } => {
            let how = match how {
                RecordLoss::Resync => "in a resynchronisation",
                RecordLoss::Crash => "in a crash",
                RecordLoss::Deleted => "to somebody who deletes it",
                RecordLoss::Overwritten => "to somebody who overwrites it",
            };
            format!("{node} loses {owner}'s record {how}")
        }
        What::SessionExpired { session, .. } => format!("{node} ends the session {session}"),
        What::Leading { .. } => format!("{node} leads the ensemble"),
        What::SteppedDown { .. } => format!("{node} leads no more"),
        What::BroadcastBroken { how } => format!("the broadcast is broken: {how}"),
        What::Promoted { .. } => format!("{node} becomes master"),
        What::Demoted { master } => format!("{node} is told to follow {master}"),
        What::MasterDown { master } => format!("{node} gives up on {master}"),
        What::MasterSwitched { to, .. } => format!("{node} names {to} as the master"),
        What::Effect { owner, operation, accepted, .. } => {
            let what = match operation {
                StockOperation::Read { .. } => "reads the stock".to_owned(),
                StockOperation::Sell { unit, .. } => format!("sells unit {unit}"),
                StockOperation::Reserve { unit, .. } => format!("reserves unit {unit}"),
                StockOperation::Cancel { unit, .. } => format!("gives unit {unit} back"),
                StockOperation::Act { name } => format!("does `{name}`"),
            };
            let refused = if *accepted { "" } else { ", and is refused" };
            format!("{owner} {what}{refused}")
        }
        What::NodeStarted { incarnation: 2.. } => format!("{node} is started again"),
        What::NodeCrashed { machine: true } => format!("{node}'s machine dies"),
        What::NodeCrashed { machine: false } => format!("{node}'s program dies"),
        What::ProgramEnded { .. } => format!("{node}'s program ends by itself"),
        What::FaultBegan { description, .. } => format!("fault: {description}"),
        What::FaultEnded { fault } => format!("fault {} is over", fault + 1),
        What::Healed => "the storm is over".to_owned(),
        _ => return None,
    })
}

/// Whose lock or act the event is about; `None` where it concerns everybody.
pub(super) fn owner(event: &Event) -> Option<String> {
    match &event.what {
        What::AcquireInvoked { attempt, .. }
        | What::AcquireReturned { attempt, .. }
        | What::BeliefEnded { attempt, .. }
        | What::ReleaseInvoked { attempt }
        | What::ReleaseReturned { attempt, .. } => Some(attempt.to_string()),
        What::RecordSet { owner, .. }
        | What::RecordRefused { owner, .. }
        | What::RecordExtended { owner, .. }
        | What::RecordReleased { owner, .. }
        | What::RecordExpired { owner, .. }
        | What::RecordReplicated { owner, .. }
        | What::RecordLoaded { owner, .. }
        | What::RecordUnreplicated { owner, .. }
        | What::RecordLost { owner, .. }
        | What::Effect { owner, .. } => Some(owner.to_string()),
        _ => None,
    }
}
