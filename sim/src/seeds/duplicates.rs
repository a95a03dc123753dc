//! Kept plans that show the same failure.
//!
//! Two files are duplicates when their storms are of one scenario and one fence, their servers
//! keep the same on their disks, and they fail with one [`Signature`]: what a restart loses
//! without a disk, and what it loses of a file that is synchronised now and then, are two stories. Which of them is the smallest is a matter of faults, clients,
//! units and duration, in this order; the others can go. Only what is known to be unsafe
//! is looked at: a regression is a bug of its own, and a lesson is told.

use std::path::{Path, PathBuf};

use super::{SeedFile, Shelf, load_shelf};
use crate::engine::event::EventEngine;
use crate::plan::{Fence, Plan, PlanError};
use crate::shrink::Signature;
use crate::storm::abreast::abreast;
use crate::storm::{self, Run};

/// What two files have in common that show the same failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Likeness {
    /// The scenario.
    pub scenario: String,
    /// The fence.
    pub fence: Fence,
    /// What Redis servers keep on their disks, by its name.
    pub persistence: &'static str,
    /// What it fails with.
    pub signature: Signature,
}

impl Likeness {
    /// Of a run; `None` where it does not fail.
    pub fn of(run: &Run) -> Option<Likeness> {
        let (scenario, fence) = (run.plan.scenario.clone(), run.plan.fence);
        let persistence = run.plan.topology.persistence.name();
        Some(Likeness { scenario, fence, persistence, signature: Signature::of(run)? })
    }
}

/// Files that show one failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What they have in common.
    pub likeness: Likeness,
    /// The smallest.
    pub kept: PathBuf,
    /// The others, in the order of their names.
    pub others: Vec<PathBuf>,
}

/// The groups of the known-unsafe files below `seeds`; those of one file as well.
///
/// # Errors
/// The first file that cannot be read, or does not belong there.
pub fn groups(seeds: &Path) -> Result<Vec<Group>, PlanError> {
    let mut files: Vec<(Likeness, PathBuf, SeedFile)> = Vec::new();
    let known = load_shelf(seeds, Shelf::KnownUnsafe)?;
    let of = |(_, file): &(PathBuf, SeedFile)| Likeness::of(&storm::run(&file.plan, &EventEngine));
    let likenesses = abreast(&known, of);
    for ((path, file), likeness) in known.into_iter().zip(likenesses) {
        // One that fails no more is not a duplicate: `seeds check` tells of it.
        if let Some(likeness) = likeness {
            files.push((likeness, path, file));
        }
    }
    files.sort_by(|(one, one_path, one_file), (other, other_path, other_file)| {
        let size = |file: &SeedFile| size(&file.plan);
        one.cmp(other)
            .then(size(one_file).cmp(&size(other_file)))
            .then_with(|| one_path.cmp(other_path))
    });
    let mut groups: Vec<Group> = Vec::new();
    for (likeness, path, _) in files {
        match groups.last_mut().filter(|group| group.likeness == likeness) {
            Some(group) => group.others.push(path),
            None => groups.push(Group { likeness, kept: path, others: Vec::new() }),
        }
    }
    groups.iter_mut().for_each(|group| group.others.sort());
    Ok(groups)
}

/// How large a plan is; the smaller is the better one to read.
fn size(plan: &Plan) -> (usize, usize, usize, u32, u64) {
    let Plan { faults, clocks, topology, workload, duration, .. } = plan;
    (faults.len(), clocks.len(), topology.app_nodes().len(), workload.units, duration.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same power cut, once of a server that keeps nothing and once of one that keeps a file:
    /// two stories with one signature.
    #[test]
    fn what_servers_keep_on_their_disks_makes_two_stories() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds/known-unsafe");
        let seeds = tempfile::tempdir().unwrap();
        let shelf = seeds.path().join("known-unsafe");
        std::fs::create_dir(&shelf).unwrap();
        for id in ["redis-fair-amnesiac-restart-001", "redis-fair-power-cut-001"] {
            let name = format!("{id}.toml");
            std::fs::copy(kept.join(&name), shelf.join(&name)).unwrap();
        }
        let groups = groups(seeds.path()).unwrap();
        let [one, other] = &groups[..] else { panic!("{groups:?}") };
        assert_eq!(one.likeness.signature, other.likeness.signature);
        assert!(one.others.is_empty() && other.others.is_empty(), "{groups:?}");
    }
}
