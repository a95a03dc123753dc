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
pub mod case;
mod effects;
pub mod finding;
pub mod goals;
pub mod grants;
pub mod interval;
mod leak;
mod oversell;
mod promise;
pub mod records;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
mod tokens;
pub mod verdict;
pub mod words;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;

pub use blame::{Blame, BlamedFault, Parted};
pub use case::{Case, Setting};
pub use finding::{Detail, Finding, Kind, Party, Severity, Vanished};
pub use goals::{Goal, Goals, InertFault};
pub use verdict::Verdict;
pub use words::Language;

use crate::history::History;
use crate::plan::Fence;

/// A checker that panicked. Its silence means nothing, so the verdict is unknown
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
        const ORDER: [Kind; 5] = [
            Kind::Oversell,
            Kind::EffectInterleaved,
            Kind::DoubleGrant,
            Kind::WrongRelease,
            Kind::LeakedLock,
        ];
        ORDER.into_iter().find(|kind| self.has_violation(*kind))
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
        Judgement { verdict, findings: Vec::new(), goals: Goals::default(), failed: Vec::new() }
    }

    /// What makes two failures the same bug: the kinds of the violations, and the
    /// families of the faults blamed for them with the roles of what they struck,
    /// such as `double-grant+oversell process-crash@authority+replication-stall@authority`.
    /// Without violations, the verdict's name.
    pub fn signature(&self) -> String {
        let violations: Vec<&Finding> = self.violations().collect();
        if violations.is_empty() {
            return self.verdict.id().to_owned();
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

/// All checkers, by name.
const CHECKERS: [(&str, Checker); 9] = [
    ("double-grant", promise::double_grant),
    ("effect-interleaved", effects::interleaved),
    ("oversell", oversell::oversell),
    ("wrong-release", records::wrong_release),
    ("leaked-lock", leak::leaked),
    ("grant-lost", records::grant_lost),
    ("overstay", promise::overstay),
    ("token-regression", tokens::regression),
    ("false-reject", tokens::false_reject),
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
    if let Some(case) = guarded("table of grants", &mut failed, || Case::new(history, *setting)) {
        for (name, checker) in checkers {
            findings.extend(guarded(name, &mut failed, || checker(&case)).unwrap_or_default());
        }
        goals = guarded("goals", &mut failed, || Goals::of(&case)).unwrap_or_default();
    }
    // Effects that nobody could look at are not clean.
    let blind =
        |failed: &FailedChecker| ["effect-interleaved", "oversell"].contains(&failed.checker);
    let clean = setting.fence == Fence::Full && !failed.iter().any(blind);
    let excused = clean && excuse(&mut findings);
    findings.sort_by_key(|finding| (finding.severity, finding.from_us, finding.kind));
    let verdict = if findings.iter().any(Finding::is_violation) {
        Verdict::Violation
    } else if !failed.is_empty()
        || goals.is_missed(Goal::BooksRead)
        || goals.is_missed(Goal::Handover)
    {
        Verdict::Unknown
    } else if goals.is_missed(Goal::FaultTookEffect) {
        Verdict::Inert
    } else if excused {
        Verdict::SafeByFence
    } else {
        Verdict::Safe
    };
    Judgement { verdict, findings, goals, failed }
}

/// Where the resource is fully fenced and its effects are clean, a double grant is an
/// advisory. Whether there was one to excuse.
fn excuse(findings: &mut [Finding]) -> bool {
    let dirty =
        |finding: &Finding| matches!(finding.kind, Kind::EffectInterleaved | Kind::Oversell);
    if findings.iter().any(dirty) {
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
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            let message = text.unwrap_or_else(|| "no message".to_owned());
            failed.push(FailedChecker { checker, message });
            None
        }
    }
}
