//! The folder of `hunt --out`: the plan of each failure as a file, written when it is
//! found, never over another plan.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use lockstorm_sim::plan::{Plan, file};

use super::exit::Failure;

/// A folder for plans.
#[derive(Debug)]
pub struct PlanFolder(PathBuf);

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
        for number in 1_u32.. {
            let name = match number {
                1 => format!("{stem}.toml"),
                _ => format!("{stem}-{number}.toml"),
            };
            let path = self.0.join(name);
            let failed = |error: std::io::Error| {
                let mend = "make room, or look at the folder's rights; plans written so far stay";
                Failure::usage(format!("{}: cannot be written: {error}; {mend}", path.display()))
            };
            match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut created) => {
                    if let Err(error) = created.write_all(text.as_bytes()) {
                        // Half a plan is none.
                        let _ = fs::remove_file(&path);
                        return Err(failed(error));
                    }
                    return Ok(path);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if fs::read_to_string(&path).is_ok_and(|there| there == text) {
                        return Ok(path);
                    }
                }
                Err(error) => return Err(failed(error)),
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
