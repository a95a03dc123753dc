//! Chooses what of a judgement is told: one finding, what it led to, and who and what
//! belongs to it. The rest is only counted.
//!
//! Harm is what people came for, so an oversold unit is the subject wherever there is
//! one, and the finding that explains it (the double grant of its two sellers) gives
//! the sentence. Without harm the gravest finding is the subject, the earliest of its
//! kind.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::{Blame, Detail, Finding, Judgement, Kind};
use crate::history::{EventId, History, What};

/// What is told of a run.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// Whose sentence is told.
    pub finding: &'a Finding,
    /// The oversold unit that it led to, if it did.
    pub harm: Option<&'a Finding>,
}

impl<'a> Subject<'a> {
    /// The subject of a judgement; `None` where nothing was found.
    pub fn of(history: &History, judgement: &'a Judgement) -> Option<Subject<'a>> {
        let violations = || judgement.findings.iter().filter(|finding| finding.is_violation());
        let oversold = || violations().filter(|finding| finding.kind == Kind::Oversell);
        let harm = oversold().find(|finding| finding.blame.is_lock_bug()).or(oversold().next());
        if let Some(harm) = harm {
            return Some(Subject {
                finding: cause_of(judgement, harm).unwrap_or(harm),
                harm: Some(harm),
            });
        }
        let gravest = earliest_of_gravest(violations());
        let told = gravest.or_else(|| fenced(history, judgement));
        let told = told.or_else(|| earliest_of_gravest(judgement.findings.iter()));
        told.map(|finding| Subject { finding, harm: None })
    }

    /// The blame: that of the harm, if the harm has any.
    pub fn blame(&self) -> &'a Blame {
        match self.harm {
            Some(harm) if !harm.blame.owners.is_empty() => &harm.blame,
            _ => &self.finding.blame,
        }
    }

    /// Which lock; empty when nothing tells.
    pub fn key(&self) -> &'a str {
        let harm = self.harm.map_or("", |harm| &harm.key);
        if self.finding.key.is_empty() { harm } else { &self.finding.key }
    }

    /// The owners that play a part, in order of their grants.
    pub fn owners(&self) -> Vec<&'a str> {
        let mut owners: Vec<&str> = Vec::new();
        let named = self.blame().owners.iter();
        let parties = |finding: &'a Finding| finding.parties.iter().map(|party| &party.owner);
        let all = named.chain(parties(self.finding)).chain(self.harm.into_iter().flat_map(parties));
        for owner in all {
            if !owners.contains(&owner.as_str()) {
                owners.push(owner);
            }
        }
        owners
    }

    /// The unit that was oversold.
    pub fn unit(&self) -> Option<u32> {
        match self.harm.unwrap_or(self.finding).detail {
            Detail::Oversell { unit, .. } => Some(unit),
            _ => None,
        }
    }

    /// All events that prove it.
    pub fn evidence(&self) -> BTreeSet<EventId> {
        let harm = self.harm.into_iter().flat_map(|harm| &harm.events);
        let events = self.finding.events.iter().chain(harm).copied();
        events.chain(self.blame().events()).collect()
    }
}

/// The gravest finding that parted the sellers of an oversold unit.
fn cause_of<'a>(judgement: &'a Judgement, harm: &Finding) -> Option<&'a Finding> {
    let owners: BTreeSet<&str> = harm.blame.owners.iter().map(String::as_str).collect();
    let concerns = |finding: &&Finding| {
        let parties = || finding.parties.iter().map(|party| party.owner.as_str());
        finding.kind != Kind::Oversell
            && parties().next().is_some()
            && parties().all(|owner| owners.contains(owner))
    };
    earliest_of_gravest(judgement.findings.iter().filter(concerns))
}

/// The first double grant of which the fence turned somebody away: the one whose story
/// shows what a fence does.
fn fenced<'a>(history: &History, judgement: &'a Judgement) -> Option<&'a Finding> {
    let refused: BTreeSet<&str> = history
        .iter()
        .filter_map(|event| match &event.what {
            What::Effect { owner, accepted: false, .. } => Some(&**owner),
            _ => None,
        })
        .collect();
    judgement
        .findings
        .iter()
        .filter(|finding| finding.kind == Kind::DoubleGrant)
        .find(|finding| finding.parties.iter().any(|party| refused.contains(party.owner.as_str())))
}

fn earliest_of_gravest<'a>(findings: impl Iterator<Item = &'a Finding>) -> Option<&'a Finding> {
    findings.min_by_key(|finding| (finding.kind, finding.from_us))
}

/// The kinds of a judgement with their numbers, violations or advisories: harm first,
/// then by gravity.
pub fn kinds(judgement: &Judgement, violations: bool) -> Vec<(Kind, u64)> {
    let mut counts: BTreeMap<(bool, Kind), u64> = BTreeMap::new();
    for finding in judgement.findings.iter().filter(|f| f.is_violation() == violations) {
        *counts.entry((finding.kind != Kind::Oversell, finding.kind)).or_default() += 1;
    }
    counts.into_iter().map(|((_, kind), count)| (kind, count)).collect()
}
