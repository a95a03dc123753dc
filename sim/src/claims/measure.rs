//! What is measured of a run, and what many runs came to.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::check::{Kind, Verdict};
use crate::history::{AcquireOutcome, Attempt, OrderAnswer, What};
use crate::hunt::proportion::Proportion;
use crate::storm::Run;

/// What is measured of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Whether one of these was found, as a violation or as an advisory.
    Found(&'static [Kind]),
    /// Whether the database refused something with a message that begins so.
    Refused(&'static str),
    /// Whether an owner that held the lock was refused when it asked again.
    RefusedItsOwner,
    /// Whether a session that held the lock was declared expired before the storm was over.
    SessionExpired,
    /// Whether somebody was refused because somebody else had the record.
    RecordRefused,
    /// Sales that buyers were told of, per second of the storm.
    SalesPerSecond,
    /// Refused sales for each thousand that were accepted.
    RefusedPerThousand,
    /// From the ask to the grant: half of them took no longer, µs.
    Acquire,
    /// The fastest of them, µs.
    FastestAcquire,
    /// From the ask until somebody was told that the lock is busy: the slowest, µs.
    SlowestBusy,
    /// Whether a buyer found no connection in its node's pool while it had patience.
    PoolUsedUp,
    /// Whether the server refused a session because it had as many as it may have.
    SessionRefused,
    /// How often the waiter that was passed over most often was, as servers saw them wait.
    MostBypasses,
    /// The same as clients saw it, of any lock: how many were granted it that asked ten
    /// milliseconds later or more.
    MostOvertaken,
    /// The longest time of the storm in which nobody was granted the lock, ms.
    LongestClosed,
}

/// Two at once, as promised or as the resource saw it.
pub(super) const TWICE: Measure =
    Measure::Found(&[Kind::DoubleGrant, Kind::EffectInterleaved, Kind::Oversell]);
/// Two at once, as the resource saw it.
pub(super) const INSIDE: Measure = Measure::Found(&[Kind::EffectInterleaved, Kind::Oversell]);
/// More was sold than there was.
pub(super) const OVERSELL: Measure = Measure::Found(&[Kind::Oversell]);
/// The lock stays shut, or somebody waits for ever.
pub(super) const LEAK: Measure = Measure::Found(&[Kind::LeakedLock, Kind::StuckWaiter]);
/// The database ended one of a circle of transactions.
pub(super) const DEADLOCK_ENDED: Measure = Measure::Refused("40P01");

/// In what a number is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Times.
    Times,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Per second.
    PerSecond,
    /// For each thousand.
    PerThousand,
}

/// How the numbers of several runs become one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fold {
    Median,
    Most,
    Least,
}

/// What one run says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sample {
    /// Whether it happened.
    Happened(bool),
    /// A number.
    Number(u64),
}

/// What all runs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// In how many of them it happened.
    Share(Proportion),
    /// A number.
    Number {
        /// It.
        number: u64,
        /// In this.
        unit: Unit,
        /// Of so many runs.
        of: u64,
    },
}

impl Value {
    /// It, or in how many runs it happened.
    pub fn number(self) -> u64 {
        match self {
            Value::Share(share) => share.count,
            Value::Number { number, .. } => number,
        }
    }

    /// Of how many runs.
    pub fn of(self) -> u64 {
        match self {
            Value::Share(share) => share.of,
            Value::Number { of, .. } => of,
        }
    }
}

impl Measure {
    /// What this run says; `None` where it says nothing: it did not run, its faults touched
    /// nothing, or its verdict is unknown. In a run that is unknown, or in which a checker
    /// failed or one of the faults touched nothing, what is there is there all the same; only
    /// that something is missing says nothing.
    pub fn of(self, run: &Run) -> Option<Sample> {
        let judgement = &run.judgement;
        let is_whole = match judgement.verdict {
            Verdict::Inert
            | Verdict::NotExpressible
            | Verdict::Internal
            | Verdict::Nondeterminism => return None,
            Verdict::Unknown => false,
            Verdict::Safe | Verdict::SafeByFence | Verdict::Violation => {
                judgement.failed.is_empty()
                    && judgement.undecided == 0
                    && judgement.goals.inert.is_empty()
            }
        };
        // Whatever a run shows that no fault has touched, it is not what the faults do.
        if !run.plan.faults.is_empty() && judgement.goals.touched.is_empty() {
            return None;
        }
        self.sample(run).filter(|sample| is_whole || *sample == Sample::Happened(true))
    }

    /// Whether it is a speed: those are told as ratios.
    pub fn is_speed(self) -> bool {
        matches!(
            self,
            Measure::SalesPerSecond
                | Measure::Acquire
                | Measure::FastestAcquire
                | Measure::SlowestBusy
        )
    }

    fn sample(self, run: &Run) -> Option<Sample> {
        Some(match self {
            Measure::Found(kinds) => {
                Sample::Happened(kinds.iter().any(|kind| run.judgement.found(*kind)))
            }
            Measure::Refused(_) | Measure::SessionExpired | Measure::RecordRefused => {
                Sample::Happened(self.happened(run))
            }
            Measure::PoolUsedUp => Sample::Happened(run.connections?.given_up > 0),
            Measure::SessionRefused => Sample::Happened(run.connections?.refused > 0),
            Measure::RefusedItsOwner => Sample::Happened(refused_its_owner(run)),
            Measure::SalesPerSecond => Sample::Number(sales_per_second(run)),
            Measure::RefusedPerThousand => Sample::Number(refused_per_thousand(run)?),
            Measure::Acquire => Sample::Number(median(asks(run, true))?),
            Measure::FastestAcquire => Sample::Number(asks(run, true).into_iter().min()?),
            Measure::SlowestBusy => Sample::Number(asks(run, false).into_iter().max()?),
            Measure::MostBypasses => Sample::Number(run.judgement.numbers.most_bypasses),
            Measure::MostOvertaken => Sample::Number(most_overtaken(run)),
            Measure::LongestClosed => Sample::Number(longest_closed_ms(run)),
        })
    }

    /// Whether an event before the storm's end shows it.
    fn happened(self, run: &Run) -> bool {
        let in_storm = run.history.iter().take_while(|event| event.what != What::Healed);
        let mut in_storm = in_storm.map(|event| &event.what);
        in_storm.any(|what| match (self, what) {
            (Measure::Refused(begins), What::Effect { refusal: Some(why), .. }) => {
                why.starts_with(begins)
            }
            (Measure::SessionExpired, What::SessionExpired { records, .. }) => !records.is_empty(),
            (Measure::RecordRefused, What::RecordRefused { .. }) => true,
            _ => false,
        })
    }

    /// What runs say together; `None` of none.
    pub fn value(self, samples: &[Sample]) -> Option<Value> {
        let happened = samples.iter().filter(|sample| **sample == Sample::Happened(true)).count();
        let numbers = samples.iter().filter_map(|sample| match sample {
            Sample::Number(number) => Some(*number),
            Sample::Happened(_) => None,
        });
        let numbers: Vec<u64> = numbers.collect();
        let of = samples.len() as u64;
        if of == 0 {
            return None;
        }
        let Some((unit, fold)) = self.number() else {
            return Some(Value::Share(Proportion::new(happened as u64, of)));
        };
        let number = match fold {
            Fold::Median => median(numbers),
            Fold::Most => numbers.into_iter().max(),
            Fold::Least => numbers.into_iter().min(),
        };
        Some(Value::Number { number: number?, unit, of })
    }

    /// In what it is told; `None` of something that happens or does not.
    pub fn unit(self) -> Option<Unit> {
        self.number().map(|(unit, _)| unit)
    }

    /// Of a measure that is a number: its unit, and how several become one.
    fn number(self) -> Option<(Unit, Fold)> {
        match self {
            Measure::Found(_)
            | Measure::Refused(_)
            | Measure::RefusedItsOwner
            | Measure::PoolUsedUp
            | Measure::SessionRefused
            | Measure::SessionExpired
            | Measure::RecordRefused => None,
            Measure::SalesPerSecond => Some((Unit::PerSecond, Fold::Median)),
            Measure::RefusedPerThousand => Some((Unit::PerThousand, Fold::Median)),
            Measure::Acquire => Some((Unit::Microseconds, Fold::Median)),
            Measure::FastestAcquire => Some((Unit::Microseconds, Fold::Least)),
            Measure::SlowestBusy => Some((Unit::Microseconds, Fold::Most)),
            Measure::MostBypasses | Measure::MostOvertaken => Some((Unit::Times, Fold::Most)),
            Measure::LongestClosed => Some((Unit::Milliseconds, Fold::Most)),
        }
    }
}

/// The lower one of two in the middle; `None` of none.
fn median(mut numbers: Vec<u64>) -> Option<u64> {
    numbers.sort_unstable();
    let middle = numbers.len().checked_sub(1)? / 2;
    numbers.get(middle).copied()
}

/// How long acquires took that were granted, or else that came back busy, µs; of a plan with
/// faults those that began under them, and none after the storm.
fn asks(run: &Run, granted: bool) -> Vec<u64> {
    let mut is_struck = run.plan.faults.is_empty();
    let mut asked: BTreeMap<&Attempt, u64> = BTreeMap::new();
    let mut took = Vec::new();
    for event in run.history.iter().take_while(|event| event.what != What::Healed) {
        match &event.what {
            What::FaultBegan { .. } => is_struck = true,
            What::AcquireInvoked { attempt, .. } if is_struck => {
                asked.insert(attempt, event.at_us);
            }
            What::AcquireReturned { attempt, outcome, .. } => {
                let is_granted = matches!(outcome, AcquireOutcome::Granted { .. });
                let is_busy = matches!(outcome, AcquireOutcome::Busy | AcquireOutcome::TimedOut);
                let wanted = if granted { is_granted } else { is_busy };
                let began = asked.remove(attempt).filter(|_| wanted);
                took.extend(began.map(|began| event.at_us - began));
            }
            _ => {}
        }
    }
    took
}

/// Within so much two requests may reach a server in the other order than they were made, µs.
const CLOSE_US: u64 = 10_000;

fn most_overtaken(run: &Run) -> u64 {
    // When each asked who waits, and how many were let in before it who asked later.
    let mut waiting: BTreeMap<&Attempt, (u64, u64)> = BTreeMap::new();
    let mut most = 0;
    for event in run.history.iter() {
        match &event.what {
            What::AcquireInvoked { attempt, .. } => {
                waiting.insert(attempt, (event.at_us, 0));
            }
            What::AcquireReturned { attempt, outcome, .. } => {
                let Some((asked, _)) = waiting.remove(attempt) else { continue };
                if !matches!(outcome, AcquireOutcome::Granted { .. }) {
                    continue;
                }
                for (earlier, overtaken) in waiting.values_mut() {
                    if *earlier + CLOSE_US <= asked {
                        *overtaken += 1;
                        most = most.max(*overtaken);
                    }
                }
            }
            _ => {}
        }
    }
    most
}

fn refused_its_owner(run: &Run) -> bool {
    let mut held: BTreeSet<&Attempt> = BTreeSet::new();
    run.history.iter().any(|event| match &event.what {
        What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. } => {
            held.insert(attempt);
            false
        }
        What::AcquireReturned {
            attempt,
            outcome: AcquireOutcome::Busy | AcquireOutcome::TimedOut,
            ..
        } => held.contains(attempt),
        _ => false,
    })
}

fn sales(run: &Run) -> u64 {
    let accepted = run.history.iter().take_while(|event| event.what != What::Healed);
    let accepted = accepted.filter(|event| {
        matches!(event.what, What::OrderReturned { answer: OrderAnswer::Accepted, .. })
    });
    accepted.count() as u64
}

fn sales_per_second(run: &Run) -> u64 {
    sales(run) * 1_000_000 / run.plan.duration.0.max(1)
}

fn refused_per_thousand(run: &Run) -> Option<u64> {
    let refused = run.history.iter().take_while(|event| event.what != What::Healed);
    let refused = refused.filter(|event| {
        matches!(event.what, What::OrderReturned { answer: OrderAnswer::Refused, .. })
    });
    (refused.count() as u64 * 1_000).checked_div(sales(run))
}

fn longest_closed_ms(run: &Run) -> u64 {
    let in_storm = run.history.iter().take_while(|event| event.what != What::Healed);
    let granted = in_storm.filter(|event| {
        matches!(event.what, What::AcquireReturned { outcome: AcquireOutcome::Granted { .. }, .. })
    });
    let mut last = 0;
    let mut longest = 0;
    for at_us in granted.map(|event| event.at_us).chain([run.plan.duration.0]) {
        longest = longest.max(at_us.saturating_sub(last));
        last = at_us;
    }
    longest / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_shares_and_numbers() {
        let kinds = Measure::Found(&[Kind::Oversell]);
        let happened = [true, false, true].map(Sample::Happened);
        assert_eq!(kinds.value(&happened), Some(Value::Share(Proportion::new(2, 3))));
        assert_eq!(kinds.value(&[]), None);
        let numbers = [30, 10, 20, 40].map(Sample::Number);
        let number = |measure: Measure| match measure.value(&numbers) {
            Some(Value::Number { number, .. }) => number,
            other => panic!("{other:?}"),
        };
        assert_eq!(number(Measure::Acquire), 20);
        assert_eq!(number(Measure::FastestAcquire), 10);
        assert_eq!(number(Measure::MostBypasses), 40);
    }
}
