//! What makes two failures the same bug.

use std::fmt;

use serde::Serialize;

use crate::check::{Finding, Judgement};
use crate::storm::Run;

/// What a failure is told by: of its gravest kind the earliest finding that a lock is to
/// blame for, and what is blamed for it. Node numbers and times are not in it.
///
/// It is finer than [`Judgement::signature`], which sums up a whole run: a run in which two
/// bugs meet has the signature of the one that is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Signature {
    /// The lock.
    pub lock: String,
    /// The kind, by its stable name.
    pub kind: &'static str,
    /// What parted promise, belief and effect, by its stable name.
    pub parted: &'static str,
    /// The families of the faults blamed and the roles of what they struck, such as
    /// `process-crash@authority`, sorted.
    pub faults: Vec<String>,
}

impl Signature {
    /// The signature of a run that fails.
    pub fn of(run: &Run) -> Option<Signature> {
        let finding = told(&run.judgement)?;
        let blamed = &finding.blame.faults;
        let faults = blamed.iter().map(|fault| {
            format!("{}@{}", crate::check::blame::family_id(fault.family), fault.role)
        });
        let mut faults: Vec<String> = faults.collect();
        faults.sort_unstable();
        faults.dedup();
        Some(Signature {
            lock: run.plan.lock.name.clone(),
            kind: finding.kind.id(),
            parted: finding.blame.parted.id(),
            faults,
        })
    }
}

/// The finding that a failure is told by.
pub(super) fn told(judgement: &Judgement) -> Option<&Finding> {
    let gravest = judgement.gravest()?;
    let of_kind = judgement.violations().filter(|finding| finding.kind == gravest);
    of_kind.min_by_key(|finding| (!finding.blame.is_lock_bug(), finding.from_us))
}

impl fmt::Display for Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.lock, self.kind, self.parted)?;
        match self.faults.is_empty() {
            true => Ok(()),
            false => write!(formatter, " {}", self.faults.join("+")),
        }
    }
}
