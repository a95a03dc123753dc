//! The folder of `hunt --out`: the plan of each failure as a file, written when it is
//! found, never over another plan.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use lockstorm_sim::plan::{Plan, file};

use super::exit::Failure;

/// A folder for plans.
#[derive(Debug)]
pub struct PlanFolder(PathBuf);

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

    /// Keeps a plan, and says where. One that is there already stays; another one of the
    /// same name gets a number beside it.
    pub fn keep(&self, plan: &Plan) -> Result<PathBuf, Failure> {
        let text = file::write(plan);
        let fence = plan.fence.name();
        let stem = format!("{}-{}-{fence}-{}", plan.scenario, plan.lock.name, plan.seed);
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
                    if fs::read_to_string(&path).is_ok_and(|there| there == text) {
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

    /// Writes a file of this name anew.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.0.join(name);
        let failed = |error: std::io::Error| {
            let mend = "make room, or look at the folder's rights";
            Failure::usage(format!("{}: cannot be written: {error}; {mend}", path.display()))
        };
        fs::write(&path, text).map_err(failed)?;
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
    fn a_file_is_no_folder() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let Err(Failure::Usage(what)) = PlanFolder::open(file.path()) else {
            panic!("a file was taken for a folder");
        };
        assert!(what.ends_with("is not a folder; name another"), "{what}");
    }
}
