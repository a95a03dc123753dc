//! Which event an anchor names.

use crate::history::{AcquireOutcome, Attempt, Event, StockOperation, What};
use crate::plan::{Anchor, Operation, Phase};

/// Whether `event` is the one that `anchor` names.
pub fn is_at(anchor: &Anchor, event: &Event) -> bool {
    match position(event) {
        Some((client, ordinal, operation, phase)) => {
            anchor.operation == operation
                && anchor.phase == phase
                && anchor.ordinal == ordinal
                && anchor.client == client
        }
        None => false,
    }
}

/// Client, ordinal, operation and phase of an event that can be an anchor.
pub fn position(event: &Event) -> Option<(&str, u32, Operation, Phase)> {
    use Operation::{Acquire, Read, Release, Sell};
    use Phase::{Applied, Invoked, Replicated, Returned};
    let of_attempt = |attempt: &'_ Attempt| attempt.ordinal;
    match &event.what {
        What::AcquireInvoked { attempt, .. } => {
            Some((&attempt.client, of_attempt(attempt), Acquire, Invoked))
        }
        What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. } => {
            Some((&attempt.client, of_attempt(attempt), Acquire, Returned))
        }
        What::ReleaseInvoked { attempt } => {
            Some((&attempt.client, of_attempt(attempt), Release, Invoked))
        }
        What::ReleaseReturned { attempt, .. } => {
            Some((&attempt.client, of_attempt(attempt), Release, Returned))
        }
        What::RecordSet { owner, .. } => at_owner(owner, Acquire, Applied),
        What::RecordReplicated { owner, .. } => at_owner(owner, Acquire, Replicated),
        What::RecordReleased { owner, .. } => at_owner(owner, Release, Applied),
        What::Effect { owner, operation, .. } => match operation {
            // What a section of a test's own does first is its look at the resource.
            StockOperation::Read { .. } | StockOperation::Act { .. } => {
                at_owner(owner, Read, Applied)
            }
            StockOperation::Sell { .. } => at_owner(owner, Sell, Applied),
            StockOperation::Reserve { .. } | StockOperation::Cancel { .. } => None,
        },
        _ => None,
    }
}

/// The owner's name is its attempt as text; see [`Attempt::parse`].
fn at_owner(
    owner: &str,
    operation: Operation,
    phase: Phase,
) -> Option<(&str, u32, Operation, Phase)> {
    let (client, ordinal) = owner.rsplit_once('/')?;
    Some((client, ordinal.parse().ok()?, operation, phase))
}
