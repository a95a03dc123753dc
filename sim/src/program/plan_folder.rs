//! The folder of `hunt --out`: the plan of each failure as a file, written when it is
//! found, never over another plan; and written over by what shrinking makes of it, which
//! names the plan that it was ([`Origin`]).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use lockstorm_sim::hunt::smaller::Smaller;
use lockstorm_sim::plan::{Plan, capsule, file};
use lockstorm_sim::whole_file;

use super::exit::Failure;

/// A folder for plans.
#[derive(Debug)]
pub struct PlanFolder(PathBuf);

/// What a shrunk plan was before.
#[derive(Debug)]
pub struct Origin<'a> {
    /// The plan that was found.
    pub plan: &'a Plan,
    /// What it was, for people.
    pub label: &'a str,
    /// The command that runs it again.
    pub reproduce: &'a str,
}

/// Begins the line that has a shrunk plan's origin as a capsule.
const WAS: &str = "# it was ";

impl Origin<'_> {
    /// The file of the shrunk plan: what it was in its head.
    fn text(&self, smaller: &Smaller) -> String {
        let line = |text: &str| text.replace('\n', " ");
        format!(
            "# Found by lockstorm hunt: {}\n#   {}\n# Shrunk: {}\n{WAS}{}\n\n{}",
            line(self.label),
            line(self.reproduce),
            line(&smaller.line()),
            capsule::write(self.plan),
            file::write(&smaller.plan),
        )
    }
}

/// Whether `text` is what shrinking made of the plan of this capsule.
fn is_shrunk_of(text: &str, capsule: &str) -> bool {
    text.lines().any(|line| line.strip_prefix(WAS) == Some(capsule))
}

/// A file that is gone when its writing is over, however it ended.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl PlanFolder {
    /// Opens it, and makes it where it is not there.
    pub fn open(folder: &Path) -> Result<PlanFolder, Failure> {
        fs::create_dir_all(folder).map_err(|error| {
            let what = match error.kind() {
                ErrorKind::AlreadyExists | ErrorKind::NotADirectory => "is not a folder".to_owned(),
                _ => format!("no folder can be made here: {error}"),
            };
            Failure::usage(format!("--out {}: {what}; name another", folder.display()))
        })?;
        Ok(PlanFolder(folder.to_owned()))
    }

    /// Keeps a plan, and says where. One that is there already stays, also as what shrinking
    /// made of it; another one of the same name gets a number beside it.
    pub fn keep(&self, plan: &Plan) -> Result<PathBuf, Failure> {
        let text = file::write(plan);
        let stem = file::stem(plan);
        let capsule = capsule::write(plan);
        let failed = |name: &str, error: std::io::Error| {
            let mend = "make room, or look at the folder's rights; plans written so far stay";
            let path = self.0.join(name);
            Failure::usage(format!("{}: cannot be written: {error}; {mend}", path.display()))
        };
        // Whole before it has its name: whoever is killed leaves no half of a plan, which the
        // next would take for another one.
        let part = Part(self.0.join(format!(".{stem}.part")));
        fs::write(&part.0, &text).map_err(|error| failed(&format!("{stem}.toml"), error))?;
        for number in 1_u32.. {
            let name = match number {
                1 => format!("{stem}.toml"),
                _ => format!("{stem}-{number}.toml"),
            };
            let path = self.0.join(&name);
            match fs::hard_link(&part.0, &path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let is_it = |there: String| there == text || is_shrunk_of(&there, &capsule);
                    if fs::read_to_string(&path).is_ok_and(is_it) {
                        return Ok(path);
                    }
                }
                // A file system without links.
                Err(_) if !path.exists() => {
                    fs::rename(&part.0, &path).map_err(|error| failed(&name, error))?;
                    return Ok(path);
                }
                Err(error) => return Err(failed(&name, error)),
            }
        }
        Err(Failure::internal("there are too many plans of one name"))
    }

    /// Writes what shrinking has made so far of a plan that is kept at `path`.
    pub fn shrunk(path: &Path, smaller: &Smaller, origin: &Origin<'_>) -> Result<(), Failure> {
        whole_file::write(path, &origin.text(smaller)).map_err(|error| {
            let mend = "make room, or look at the folder's rights; the plan as it was found stays";
            Failure::usage(format!("{}: cannot be written: {error}; {mend}", path.display()))
        })
    }

    /// Writes a file of this name anew.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.0.join(name);
        let failed = |error: std::io::Error| {
            let mend = "make room, or look at the folder's rights";
            Failure::usage(format!("{}: cannot be written: {error}; {mend}", path.display()))
        };
        // An older one stays until this one is whole.
        whole_file::write(&path, text).map_err(failed)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use lockstorm_sim::plan::{Fence, Seed};

    use super::*;

    #[test]
    fn plans_are_kept_beside_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let out = PlanFolder::open(&folder.path().join("new")).unwrap();
        let plan = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(3)).unwrap();
        let other = plan.clone().with_set("lock.lease", "2s").unwrap();
        let fenced = Plan { fence: Fence::Full, ..plan.clone() };
        for plan in [&plan, &other, &plan, &fenced, &other] {
            out.keep(plan).unwrap();
        }
        let names = fs::read_dir(folder.path().join("new")).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(
            names,
            [
                "redis-failover-redis-full-0x0000000000000003.toml",
                "redis-failover-redis-off-0x0000000000000003-2.toml",
                "redis-failover-redis-off-0x0000000000000003.toml",
            ]
        );
    }

    #[test]
    fn a_shrunk_plan_names_what_it_was_and_is_not_kept_beside_it_again() {
        use lockstorm_sim::hunt::smaller::End;

        let folder = tempfile::tempdir().unwrap();
        let out = PlanFolder::open(folder.path()).unwrap();
        let plan =
            Plan::from_seed("redis-single", "planted/bare-del", Fence::Off, Seed(3)).unwrap();
        let path = out.keep(&plan).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(name, "redis-single-planted-bare-del-off-0x0000000000000003.toml");
        let faults_before = plan.faults.len();
        let small = plan.clone().without_faults();
        let smaller = Smaller { plan: small, faults_before, replays: 7, end: End::Minimal };
        let origin = Origin { plan: &plan, label: "seed 0x3", reproduce: "lockstorm run" };
        PlanFolder::shrunk(&path, &smaller, &origin).unwrap();
        assert_eq!(file::load(&path).unwrap(), smaller.plan);
        assert_eq!(out.keep(&plan).unwrap(), path, "it is there, smaller");
        assert_ne!(out.keep(&smaller.plan).unwrap(), path, "another plan");
    }

    #[test]
    fn a_file_is_no_folder() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let Err(Failure::Usage(what)) = PlanFolder::open(file.path()) else {
            panic!("a file was taken for a folder");
        };
        assert!(what.ends_with("is not a folder; name another"), "{what}");
    }
}
