//! The certificate of a lock in a scenario: every single fault at every moment of a
//! fault-free run, and what came of it; a text file that is kept beside the code and read
//! in reviews.
//!
//! One line for each pair of moment and fault, in a fixed order, under a head that says
//! what was tried and what was not. Names of moments and faults say roles, so a line
//! changes only when what came of it does. A certificate proves what it lists and no more:
//! the pairs beside it were not tried.
//!
//! Order of things: [`trials`] lists what is to be tried, [`Certificate`] holds what came
//! of it, [`Certificate::text`] writes, [`Certificate::parse`] reads, and
//! [`Certificate::differences`] compares an older one with today's.

mod read;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::moments::{Moment, Survey};
use super::single::{self, Single};
use super::{Quarry, Summary, Task};
use crate::check::{Kind, Language, Verdict};
use crate::report::layout::{counted, grouped};

/// One pair of moment and fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// When.
    pub moment: Moment,
    /// What.
    pub single: Single,
}

impl Trial {
    /// What is run.
    pub fn task(&self, survey: &Survey) -> Task {
        Task::written(survey.plan.seed, std::slice::from_ref(&self.single.fault))
    }

    /// How a certificate calls it.
    pub fn key(&self) -> Key {
        (self.moment.shape.to_string(), self.single.name.clone())
    }
}

/// A moment and a fault, by their names.
pub type Key = (String, String);

/// Every fault of the menu at every moment.
pub fn trials(survey: &Survey) -> Vec<Trial> {
    let authority = single::authority(&survey.run.history, &survey.plan);
    let of_moment = |moment: &Moment| {
        let singles = single::menu(&survey.plan, &moment.anchor, &authority).into_iter();
        let moment = moment.clone();
        singles.map(move |single| Trial { moment: moment.clone(), single })
    };
    survey.moments.iter().flat_map(of_moment).collect()
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The kinds of its violations.
    pub violations: Vec<Kind>,
    /// Whether it is *unknown* only since nobody was granted the lock before the fault had ended.
    pub untried: bool,
}

impl Outcome {
    /// As a worker told it.
    pub fn of(summary: &Summary) -> Outcome {
        Outcome {
            verdict: summary.verdict,
            violations: summary.violations.clone(),
            untried: summary.untried,
        }
    }

    /// `broke double-grant, oversell`; without violations the verdict.
    fn text(&self) -> String {
        let kinds: Vec<&str> = self.violations.iter().map(|kind| kind.id()).collect();
        match self.verdict {
            Verdict::Violation => format!("{BROKE} {}", kinds.join(", ")),
            _ if self.untried => UNTRIED.to_owned(),
            verdict => verdict.word(Language::English).to_owned(),
        }
    }
}

/// What a certificate calls a violation.
const BROKE: &str = "broke";

/// What it calls a run whose fault let the lock pass to nobody until it had ended.
const UNTRIED: &str = "untried";

/// What is certified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// `scenario`, `lock`, `fence`, `engine`, and `set` for each knob: what two
    /// certificates must have in common to be compared.
    pub subject: Vec<(String, String)>,
    /// The rest, for readers.
    pub notes: Vec<(String, String)>,
}

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Of what.
    pub head: Head,
    /// Where each moment was found.
    pub moments: Vec<(String, String)>,
    /// What came of each pair that was tried.
    pub outcomes: BTreeMap<Key, Outcome>,
}

impl Certificate {
    /// Of the trials that were run. `untried` of them were not.
    pub fn new(
        quarry: &Quarry,
        survey: &Survey,
        outcomes: BTreeMap<Key, Outcome>,
        untried: u64,
    ) -> Certificate {
        let text = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut subject = vec![
            text(("scenario", &quarry.scenario)),
            text(("lock", &quarry.lock)),
            text(("fence", quarry.fence.name())),
            text(("engine", &quarry.engine)),
        ];
        let set = quarry.settings.iter().map(|(key, value)| format!("{key}={value}"));
        subject.extend(set.map(|set| text(("set", &set))));
        let moments = survey.moments.iter();
        let moments = moments.map(|m| (m.shape.to_string(), m.anchor.to_string())).collect();
        let certificate =
            Certificate { head: Head { subject, notes: Vec::new() }, moments, outcomes };
        let mut notes = vec![
            text(("seed", &survey.plan.seed.to_string())),
            text(("lockstorm", env!("CARGO_PKG_VERSION"))),
            text(("tried", &certificate.counts())),
            text((
                "moments",
                &format!(
                    "{} that differ in shape, of {} in the fault-free run",
                    survey.moments.len(),
                    counted(survey.anchors, "anchor")
                ),
            )),
        ];
        if untried > 0 {
            notes.push(text(("not tried", &format!("{}: beyond the budget", grouped(untried)))));
        }
        for (kind, why) in single::left_out(&survey.plan) {
            notes.push(text(("left out", &format!("{kind}: {why}"))));
        }
        Certificate { head: Head { notes, ..certificate.head }, ..certificate }
    }

    /// `1,670 pairs: 120 broke, 1,400 safe, 150 inert`.
    pub fn counts(&self) -> String {
        let mut of: BTreeMap<(Verdict, bool), u64> = BTreeMap::new();
        for outcome in self.outcomes.values() {
            *of.entry((outcome.verdict, outcome.untried)).or_default() += 1;
        }
        let word = |verdict: Verdict, untried: bool| match verdict {
            Verdict::Violation => BROKE,
            _ if untried => UNTRIED,
            verdict => verdict.word(Language::English),
        };
        let ways =
            Verdict::BY_PRECEDENCE.iter().flat_map(|verdict| [(*verdict, false), (*verdict, true)]);
        let counts = ways.filter_map(|way| {
            of.get(&way).map(|count| format!("{} {}", grouped(*count), word(way.0, way.1)))
        });
        let pairs = counted(self.outcomes.len() as u64, "pair");
        format!("{pairs}: {}", counts.collect::<Vec<_>>().join(", "))
    }

    /// The name of its file.
    pub fn file_name(&self) -> String {
        let of = |name: &str| {
            let found = self.head.subject.iter().find(|(known, _)| known == name);
            found.map_or("", |(_, value)| value.as_str())
        };
        let fence = match of("fence") {
            "off" => String::new(),
            fence => format!("-{fence}"),
        };
        // Of `planted/bare-del` no folder is made.
        let lock = of("lock").replace('/', "-");
        format!("certificate-{}-{lock}{fence}.txt", of("scenario"))
    }

    /// The file.
    pub fn text(&self) -> String {
        let mut out = String::from(
            "# A certificate of lockstorm: every single fault at every moment, and what came of it.\n\
             # To compare it with today's: lockstorm hunt --strategy certify --against THIS-FILE\n",
        );
        // Writing to a string does not fail.
        for (name, value) in self.head.subject.iter().chain(&self.head.notes) {
            let _ = writeln!(out, "{name:<10}{value}");
        }
        let _ = writeln!(out, "\n[moments]");
        for (moment, anchor) in &self.moments {
            let _ = writeln!(out, "{moment}: {anchor}");
        }
        let _ = writeln!(out, "\n[pairs]");
        for ((moment, fault), outcome) in &self.outcomes {
            let _ = writeln!(out, "{moment} | {fault} | {}", outcome.text());
        }
        out
    }

    /// What differs between an older certificate and this one, a line each: `-` as it was,
    /// `+` as it is. Empty when they agree.
    pub fn differences(&self, old: &Certificate) -> Vec<String> {
        let keys: std::collections::BTreeSet<&Key> =
            old.outcomes.keys().chain(self.outcomes.keys()).collect();
        let mut lines = Vec::new();
        for key in keys {
            let (was, is) = (old.outcomes.get(key), self.outcomes.get(key));
            if was == is {
                continue;
            }
            let (moment, fault) = key;
            let line =
                |sign, outcome: &Outcome| format!("{sign} {moment} | {fault} | {}", outcome.text());
            lines.extend(was.map(|outcome| line('-', outcome)));
            lines.extend(is.map(|outcome| line('+', outcome)));
        }
        lines
    }
}

#[cfg(test)]
mod tests;
