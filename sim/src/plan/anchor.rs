//! Names of events that a fault can wait for.

use std::fmt;
use std::str::FromStr;

use super::Micros;
use super::complaint::{Complaint, listed, quoted};

/// When a fault begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// At a time from the start of the run.
    At(Micros),
    /// Some time after an event; with no delay, inside the recording of the event.
    After {
        /// The event.
        anchor: Anchor,
        /// How long after it.
        delay: Micros,
    },
}

/// An event, named so that the name survives other seeds and other engines: the
/// n-th operation of a client, in one of its phases. Written
/// `app-1 acquire 3 applied`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anchor {
    /// The client.
    pub client: String,
    /// Which of its operations.
    pub operation: Operation,
    /// The how-manieth of its attempts, from 1. For `acquire` all attempts count,
    /// granted or not, like [`Attempt`](crate::history::Attempt); `release`, `read`
    /// and `sell` bear the ordinal of their attempt.
    pub ordinal: u32,
    /// Which moment of it.
    pub phase: Phase,
}

/// An operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Taking the lock.
    Acquire,
    /// Reading the stock.
    Read,
    /// Selling a unit.
    Sell,
    /// Giving the lock back.
    Release,
}

/// A moment of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The client asks. (Not for `read` and `sell`.)
    Invoked,
    /// The server has applied it, and has told nobody yet.
    Applied,
    /// A replica has applied it. (Only for `acquire`.)
    Replicated,
    /// The answer is in the client's hands; for `acquire`: it was granted.
    /// (Not for `read` and `sell`.)
    Returned,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 4] =
        [Operation::Acquire, Operation::Read, Operation::Sell, Operation::Release];

    /// As written in anchors.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Acquire => "acquire",
            Operation::Read => "read",
            Operation::Sell => "sell",
            Operation::Release => "release",
        }
    }

    /// The phases that it goes through.
    pub fn phases(self) -> &'static [Phase] {
        match self {
            Operation::Acquire => &Phase::ALL,
            Operation::Release => &[Phase::Invoked, Phase::Applied, Phase::Returned],
            Operation::Read | Operation::Sell => &[Phase::Applied],
        }
    }
}

impl Phase {
    /// All of them, in order of occurrence.
    pub const ALL: [Phase; 4] =
        [Phase::Invoked, Phase::Applied, Phase::Replicated, Phase::Returned];

    /// As written in anchors.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Invoked => "invoked",
            Phase::Applied => "applied",
            Phase::Replicated => "replicated",
            Phase::Returned => "returned",
        }
    }
}

impl Anchor {
    /// The anchor at this phase of the client's `ordinal`-th operation.
    pub fn new(client: &str, operation: Operation, ordinal: u32, phase: Phase) -> Self {
        Anchor { client: client.to_owned(), operation, ordinal, phase }
    }

    /// Whether such an event can occur at all.
    pub(super) fn possible(&self) -> Result<(), Complaint> {
        if self.ordinal == 0 {
            return Err(Complaint::new(
                "operations are counted from 1, not from 0",
                format!("write \"{} {} 1 …\" for the first", self.client, self.operation.name()),
            ));
        }
        let phases = self.operation.phases();
        if phases.contains(&self.phase) {
            return Ok(());
        }
        Err(Complaint::new(
            format!("{} is never {}", article(self.operation), self.phase.name()),
            format!("allowed: {}", listed(phases.iter().map(|phase| phase.name()))),
        ))
    }
}

fn article(operation: Operation) -> &'static str {
    match operation {
        Operation::Acquire => "an acquire",
        Operation::Read => "a read",
        Operation::Sell => "a sell",
        Operation::Release => "a release",
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operation, phase) = (self.operation.name(), self.phase.name());
        write!(formatter, "{} {operation} {} {phase}", self.client, self.ordinal)
    }
}

impl FromStr for Anchor {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        let words: Vec<&str> = text.split(' ').take(6).collect();
        let [client, operation, ordinal, phase] = words[..] else {
            return Err(Complaint::new(
                format!("{} does not name an event", quoted(text)),
                "write client, operation, number and phase, such as \"app-1 acquire 3 applied\"",
            ));
        };
        if client.is_empty() {
            return Err(Complaint::new(
                format!("{} names no client", quoted(text)),
                "write one, such as \"app-1 acquire 3 applied\"",
            ));
        }
        let operation =
            Operation::ALL.into_iter().find(|known| known.name() == operation).ok_or_else(
                || Complaint::unknown("operation", operation, Operation::ALL.map(Operation::name)),
            )?;
        let digits = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
        let ordinal = ordinal.parse().ok().filter(|_| digits).ok_or_else(|| {
            let what = if digits { "is beyond the limits" } else { "does not count operations" };
            Complaint::new(
                format!("{} {what}", quoted(ordinal)),
                format!("write a number from 1 to {}", u32::MAX),
            )
        })?;
        let phase =
            Phase::ALL.into_iter().find(|known| known.name() == phase).ok_or_else(|| {
                Complaint::unknown(
                    "phase",
                    phase,
                    operation.phases().iter().map(|phase| phase.name()),
                )
            })?;
        let anchor = Anchor { client: client.to_owned(), operation, ordinal, phase };
        anchor.possible()?;
        Ok(anchor)
    }
}

super::serde_as_text!(Anchor, "an event, such as \"app-1 acquire 3 applied\"");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_possible_anchor_is_read_back() {
        for operation in Operation::ALL {
            for phase in Phase::ALL {
                let anchor = Anchor::new("app-1", operation, 3, phase);
                let read = anchor.to_string().parse::<Anchor>();
                assert_eq!(read.is_ok(), operation.phases().contains(&phase), "{anchor}");
                assert!(read.is_err() || read == Ok(anchor));
            }
        }
    }

    #[test]
    fn errors_list_what_is_allowed() {
        let errors: Vec<String> = [
            "app-1 acquire 3",
            "app-1 acquire 3 applied now",
            "app-1  acquire 3 applied",
            "app-1 aquire 3 applied",
            "app-1 acquire third applied",
            "app-1 acquire 0 applied",
            "app-1 acquire +3 applied",
            "app-1 acquire 4294967296 applied",
            "app-1 acquire 3 aplied",
            "app-1 read 3 returned",
            "app-1 release 1 replicated",
            " acquire 3 applied",
        ]
        .iter()
        .map(|text| text.parse::<Anchor>().unwrap_err().to_string())
        .collect();
        insta::assert_snapshot!(errors.join("\n"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}|app-[0-9] [a-z]{0,8} [0-9]{0,12} [a-z]{0,9}") {
            let _ = text.parse::<Anchor>();
        }
    }
}
