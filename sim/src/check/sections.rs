//! Sections: what a grant did at one resource, from its first accepted operation to its
//! last.

use std::collections::BTreeMap;

use super::case::Case;
use super::grants::Act;
use super::interval::Interval;
use crate::history::Name;

/// The accepted operations of a grant at one resource, in its order; never empty.
pub(super) struct Section<'a> {
    pub row: usize,
    pub acts: Vec<&'a Act>,
}

impl Section<'_> {
    /// From the first operation to the last, which belongs to it.
    pub fn span(&self) -> Interval {
        let last = self.acts[self.acts.len() - 1].moment;
        Interval::new(self.acts[0].moment, last.just_after())
    }

    /// The last operation.
    pub fn last(&self) -> &Act {
        self.acts[self.acts.len() - 1]
    }
}

/// The sections of each lock at each resource, in order of their beginning.
pub(super) fn sections<'a>(case: &'a Case<'_>) -> BTreeMap<(&'a str, &'a Name), Vec<Section<'a>>> {
    let mut all: BTreeMap<(&str, &Name), Vec<Section<'_>>> = BTreeMap::new();
    for (row, grant) in case.grants.rows().iter().enumerate() {
        let mut own: BTreeMap<&Name, Vec<&Act>> = BTreeMap::new();
        for act in grant.acts.iter().filter(|act| act.accepted) {
            own.entry(&act.resource).or_default().push(act);
        }
        for (resource, acts) in own {
            all.entry((&grant.key, resource)).or_default().push(Section { row, acts });
        }
    }
    for sections in all.values_mut() {
        sections.sort_by_key(|section| section.acts[0].moment);
    }
    all
}
