//! Checkers: pure functions from a history to findings.
//!
//! Order of things: [`judge`] looks up what all checkers need ([`case`]: the table of
//! [`grants`], what became of records, the faults), runs each checker for itself, asks
//! for the [`goals`], lets a full fence excuse a double grant, and forms the
//! [`verdict`]. Checkers know histories; they know no server, no engine and no
//! report. [`words`] has all words of a judgement in both languages.
//!
//! Nothing here searches: the simulator saw everything, so each checker is a sweep
//! over intervals, O(n log n), in the one order of the run ([`interval`]).

pub mod blame;
mod books;
mod broadcast;
pub mod case;
mod conservation;
mod deadlock;
pub mod detail;
mod duplicate_order;
mod effects;
pub mod finding;
pub mod goals;
pub mod grants;
pub mod interval;
mod leak;
mod lost_order;
mod notice;
pub mod numbers;
mod oversell;
mod promise;
pub mod records;
mod roster;
#[cfg(test)]
pub(crate) mod sample;
mod sections;
mod sentence;
mod stale;
pub mod steps;
mod stuck;
#[cfg(test)]
mod tests;
mod tokens;
mod undersell;
mod unfair;
pub mod verdict;
pub mod waits;
pub mod words;
mod wrong_release;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;

pub use blame::{Blame, BlamedFault, Failover, Mechanism, Parted};
pub use case::{Case, Setting};
pub use detail::{Detail, Untold, Vanished, Waiting};
pub use finding::{Finding, Kind, Party, Severity};
pub use goals::{Goal, Goals, InertFault, Wanted};
pub use numbers::Numbers;
pub use steps::Steps;
pub use verdict::Verdict;
pub use words::Language;

use crate::history::History;
use crate::plan::Fence;

/// A checker that panicked, or thought for too long. Its silence means nothing, so the verdict is unknown
/// unless another has found a violation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FailedChecker {
    /// Which.
    pub checker: &'static str,
    /// What it said.
    pub message: String,
}

/// What is to be thought of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// What was found: violations first, then by time. Of one kind at most the
    /// earliest 50.
    pub findings: Vec<Finding>,
    /// Which goals were met.
    pub goals: Goals,
    /// Checkers that failed.
    pub failed: Vec<FailedChecker>,
    /// How many findings hang on clocks that are not known well enough to tell.
    pub undecided: usize,
    /// What was measured on the way.
    pub numbers: Numbers,
}

impl Judgement {
    /// The findings that fail the run.
    pub fn violations(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.is_violation())
    }

    /// The findings that fail nothing.
    pub fn advisories(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.is_violation())
    }

    /// Whether anything of this kind was found, violation or advisory.
    pub fn found(&self, kind: Kind) -> bool {
        self.findings.iter().any(|finding| finding.kind == kind)
    }

    /// Every kind that was found, violation or advisory.
    pub fn kinds(&self) -> BTreeSet<Kind> {
        self.findings.iter().map(|finding| finding.kind).collect()
    }

    /// Whether a finding of this kind fails the run.
    pub fn has_violation(&self, kind: Kind) -> bool {
        self.violations().any(|finding| finding.kind == kind)
    }

    /// The kind that a failure is told by: what was done at the resource before what
    /// was promised.
    pub fn gravest(&self) -> Option<Kind> {
        Kind::BY_GRAVITY.into_iter().find(|kind| self.has_violation(*kind))
    }

    /// Of a plan that an engine cannot run.
    pub fn not_expressible() -> Judgement {
        Judgement::without_history(Verdict::NotExpressible)
    }

    /// Of a run that broke.
    pub fn internal() -> Judgement {
        Judgement::without_history(Verdict::Internal)
    }

    fn without_history(verdict: Verdict) -> Judgement {
        Judgement {
            verdict,
            findings: Vec::new(),
            goals: Goals::default(),
            failed: Vec::new(),
            undecided: 0,
            numbers: Numbers::default(),
        }
    }

    /// Whether all that is missing is that the lock was granted, or passed on, before the faults
    /// had ended, and one of them was at work until they had: it took away what grants the lock,
    /// such as the only server, and nothing else is to be said against the run. Where the last fault
    /// ended earlier than the takeover bound allows, the lock itself is to be asked why it stayed
    /// closed (docs/adr/0007).
    pub fn is_untried(&self) -> bool {
        let is_judged = self.failed.is_empty() && self.undecided == 0;
        let missed = &self.goals.missed;
        // After the last fault there may be no time for a handover.
        let of_service = |goal: &Goal| matches!(goal, Goal::GrantInStorm | Goal::Handover);
        let is_without = !missed.is_empty() && missed.iter().all(of_service);
        let is_struck = self.goals.struck_to_the_end;
        self.verdict == Verdict::Unknown && is_judged && is_without && is_struck
    }

    /// What makes two failures the same bug: the kinds of the violations, and the
    /// families of the faults blamed for them with the roles of what they struck,
    /// such as `double-grant+oversell process-crash@authority+replication-stall@authority`.
    /// Without violations, the verdict's name, or that the lock was not tried.
    pub fn signature(&self) -> String {
        let violations: Vec<&Finding> = self.violations().collect();
        if violations.is_empty() {
            // What says nothing for a reason of its own must not hide what says nothing else.
            return if self.is_untried() { "untried" } else { self.verdict.id() }.to_owned();
        }
        signature(&violations)
    }
}

impl Finding {
    /// The signature of this finding alone; see [`Judgement::signature`].
    pub fn signature(&self) -> String {
        signature(&[self])
    }
}

fn signature(findings: &[&Finding]) -> String {
    let sorted = |mut words: Vec<String>| {
        words.sort_unstable();
        words.dedup();
        words.join("+")
    };
    let kinds = sorted(findings.iter().map(|finding| finding.kind.id().to_owned()).collect());
    let faults = findings.iter().flat_map(|finding| &finding.blame.faults);
    let faults =
        faults.map(|fault| format!("{}@{}", blame::family_id(fault.family), fault.role)).collect();
    let faults = sorted(faults);
    if faults.is_empty() { kinds } else { format!("{kinds} {faults}") }
}

type Checker = fn(&Case<'_>) -> Vec<Finding>;

/// All checkers, by the kind that each finds.
const CHECKERS: [(&str, Checker); 19] = [
    ("double-grant", promise::double_grant),
    ("effect-interleaved", effects::interleaved),
    ("stale-effect", stale::stale),
    ("oversell", oversell::oversell),
    ("undersell", undersell::undersell),
    ("duplicate-order", duplicate_order::duplicate_order),
    ("lost-order", lost_order::lost_order),
    ("stock-not-conserved", conservation::not_conserved),
    ("wrong-release", wrong_release::wrong_release),
    ("loss-not-told", notice::not_told),
    ("leaked-lock", leak::leaked),
    ("stuck-waiter", stuck::stuck),
    ("deadlock", deadlock::deadlock),
    ("unfair", unfair::unfair),
    ("grant-lost", records::grant_lost),
    ("overstay", promise::overstay),
    ("token-regression", tokens::regression),
    ("false-reject", tokens::false_reject),
    ("broadcast-broken", broadcast::broken),
];

/// Judges a run.
pub fn judge(history: &History, setting: &Setting) -> Judgement {
    judge_with(history, setting, &CHECKERS)
}

fn judge_with(
    history: &History,
    setting: &Setting,
    checkers: &[(&'static str, Checker)],
) -> Judgement {
    let mut failed = Vec::new();
    let mut findings = Vec::new();
    let mut goals = Goals::default();
    let (mut undecided, mut numbers) = (0, Numbers::default());
    if let Some(case) = guarded("table of grants", &mut failed, || Case::new(history, *setting)) {
        for (name, checker) in checkers {
            case.steps.again();
            findings.extend(guarded(name, &mut failed, || checker(&case)).unwrap_or_default());
        }
        case.steps.again();
        goals = guarded("goals", &mut failed, || Goals::of(&case)).unwrap_or_default();
        case.steps.again();
        numbers = guarded("numbers", &mut failed, || Numbers::of(&case)).unwrap_or_default();
        undecided = case.undecided.get();
    }
    if setting.ordered_tokens {
        // What is good luck elsewhere is promised here.
        for finding in &mut findings {
            if matches!(finding.kind, Kind::TokenRegression | Kind::FalseReject) {
                finding.severity = Severity::Violation;
            }
        }
    }
    // Effects that nobody could look at are not clean.
    let of_the_resource =
        |id: &str| Kind::ALL.iter().any(|kind| kind.id() == id && kind.is_of_the_resource());
    let blind = |failed: &FailedChecker| of_the_resource(failed.checker);
    let clean = setting.fence == Fence::Full && !failed.iter().any(blind);
    let excused = clean && excuse(&mut findings);
    findings.sort_by_key(|finding| (finding.severity, finding.from_us, finding.kind));
    let only_inert = goals.missed.iter().all(|goal| *goal == Goal::FaultTookEffect);
    let verdict = if findings.iter().any(Finding::is_violation) {
        Verdict::Violation
    } else if !failed.is_empty() || undecided > 0 || !only_inert {
        Verdict::Unknown
    } else if !goals.missed.is_empty() {
        Verdict::Inert
    } else if excused {
        Verdict::SafeByFence
    } else {
        Verdict::Safe
    };
    Judgement { verdict, findings, goals, failed, undecided, numbers }
}

/// Where the resource is fully fenced and its effects are clean, a double grant is an
/// advisory. Whether there was one to excuse.
fn excuse(findings: &mut [Finding]) -> bool {
    if findings.iter().any(|finding| finding.kind.is_of_the_resource()) {
        return false;
    }
    let mut excused = false;
    for finding in findings.iter_mut().filter(|finding| finding.kind == Kind::DoubleGrant) {
        finding.severity = Severity::Advisory;
        excused = true;
    }
    excused
}

/// Runs `check`; a panic is noted under `checker`, and what came out is `None`.
fn guarded<T>(
    checker: &'static str,
    failed: &mut Vec<FailedChecker>,
    check: impl FnOnce() -> T,
) -> Option<T> {
    // Checkers are pure: what they leave half done is dropped with them.
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(value) => Some(value),
        Err(panic) => {
            let too_long = panic.downcast_ref::<steps::OutOfSteps>();
            let too_long = too_long.map(|_| "it thought for too long".to_owned());
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            let message = too_long.or(text).unwrap_or_else(|| "no message".to_owned());
            failed.push(FailedChecker { checker, message });
            None
        }
    }
}
