//! The folder of a matrix: which one it is, and the cells that are done, so that a run that
//! was killed goes on where it was.
//!
//! | file | what |
//! |---|---|
//! | `matrix-of.json` | which matrix this is; another one is refused here |
//! | `cells.ndjson` | one line for each cell, as it is done |
//!
//! A line that a kill cut short is cut off at the next start, and its cell is run again: equal
//! plans give equal runs. So is a cell with a run that was ours: its line stays, and the later
//! one counts.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Request;
use super::cell::{Cell, Place};
use crate::hunt::campaign::whole_lines;
use crate::whole_file;

/// Version of the folder's files.
pub const SCHEMA: u32 = 2;

/// The name of the identity's file.
pub const IDENTITY_FILE: &str = "matrix-of.json";
/// The name of the journal.
pub const JOURNAL_FILE: &str = "cells.ndjson";

/// Which matrix a folder belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Identity {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of lockstorm.
    pub lockstorm: String,
    /// Hash of the program: another build may give other runs.
    pub build: String,
    /// What is asked.
    pub request: Request,
}

impl Identity {
    /// What differs from `other`, by the flag that says it; `None` if nothing does.
    fn difference(&self, other: &Identity) -> Option<String> {
        let (here, there) = (&self.request, &other.request);
        let text = |value: &dyn std::fmt::Debug| format!("{value:?}");
        let pairs = [
            ("--locks", text(&here.locks), text(&there.locks)),
            ("--families", text(&here.families), text(&there.families)),
            ("--fence", text(&here.fences), text(&there.fences)),
            ("--seed", text(&here.first), text(&there.first)),
            ("--seeds", text(&here.seeds), text(&there.seeds)),
            ("schema", text(&self.schema), text(&other.schema)),
            ("version", self.lockstorm.clone(), other.lockstorm.clone()),
            ("build", self.build.clone(), other.build.clone()),
        ];
        let differs = pairs.into_iter().find(|(_, a, b)| a != b);
        differs.map(|(name, here, there)| format!("{name} is {here} here and {there} there"))
    }
}

/// A matrix's folder, open for writing by this process alone.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    file: File,
    known: BTreeMap<Place, Cell>,
}

impl Journal {
    /// Opens the folder of this matrix, and makes it where it is not there.
    ///
    /// # Errors
    /// One sentence with the mend: another matrix's folder, another process at work in it, a
    /// damaged line, no room, no rights.
    pub fn open(folder: &Path, identity: &Identity) -> Result<Journal, String> {
        let shown = folder.display();
        fs::create_dir_all(folder)
            .map_err(|error| format!("--out {shown}: is no folder: {error}; name another"))?;
        let path = folder.join(JOURNAL_FILE);
        let failed = |error: io::Error| cannot_write(&path, &error);
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut file = file.map_err(failed)?;
        // First of all: two that begin at once would both find no identity, and write theirs.
        if file.try_lock().is_err() {
            return Err(format!("{}: another matrix is writing here; wait for it", path.display()));
        }
        let has_cells = file.metadata().map_err(failed)?.len() > 0;
        belongs(folder, identity, has_cells)?;
        let whole = whole_lines(&mut file).map_err(failed)?;
        file.set_len(whole).map_err(failed)?;
        let known = read(&path)?;
        Ok(Journal { folder: folder.to_owned(), file, known })
    }

    /// The cell at this place, if it is done.
    pub fn known(&self, place: &Place) -> Option<&Cell> {
        self.known.get(place)
    }

    /// How many cells were done when it was opened.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Writes down a cell.
    ///
    /// # Errors
    /// One sentence, with the mend. What was written before stays.
    pub fn add(&mut self, cell: &Cell) -> Result<(), String> {
        let path = self.folder.join(JOURNAL_FILE);
        let mut text = serde_json::to_vec(cell).map_err(|error| error.to_string())?;
        text.push(b'\n');
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        written.map_err(|error| cannot_write(&path, &error))
    }

    /// Writes one of the files of the end.
    ///
    /// # Errors
    /// As [`Journal::add`].
    pub fn conclude(&self, name: &str, text: &str) -> Result<(), String> {
        write(&self.folder.join(name), text)
    }
}

/// Whether the folder is of this matrix; it becomes so where nothing says and no cells are kept.
fn belongs(folder: &Path, identity: &Identity, has_cells: bool) -> Result<(), String> {
    let path = folder.join(IDENTITY_FILE);
    let (shown, folder) = (path.display(), folder.display());
    match fs::read_to_string(&path) {
        Ok(text) => {
            let there: Identity = serde_json::from_str(&text).map_err(|error| {
                format!("{shown}: does not say which matrix this is: {error}; name another folder")
            })?;
            match identity.difference(&there) {
                None => Ok(()),
                Some(difference) => Err(format!(
                    "--out {folder}: another matrix is kept here: {difference}; name another \
                     folder, or go on with that one"
                )),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && has_cells => Err(format!(
            "{folder}/{JOURNAL_FILE}: cells are kept here, and nothing says of which matrix; \
             restore {IDENTITY_FILE}, or name another folder"
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            write(&path, &format!("{:#}\n", serde_json::json!(identity)))
        }
        Err(error) => Err(format!("{shown}: cannot be read: {error}")),
    }
}

/// The cells of a journal, all of whose lines are whole, but for those with a run that was ours.
fn read(path: &Path) -> Result<BTreeMap<Place, Cell>, String> {
    let shown = path.display();
    let text =
        fs::read_to_string(path).map_err(|error| format!("{shown}: cannot be read: {error}"))?;
    let mut known = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let cell: Cell = serde_json::from_str(line)
            .map_err(|error| format!("{shown}: line {number} is damaged: {error}; delete it"))?;
        if let Some(twice) = known.insert(cell.place.clone(), cell)
            && !twice.is_ours()
        {
            let Place { lock, family, .. } = twice.place;
            return Err(format!("{shown}: line {number} has {lock} × {family} again; delete it"));
        }
    }
    known.retain(|_, cell| !cell.is_ours());
    Ok(known)
}

/// Writes a file anew, as a whole.
fn write(path: &Path, text: &str) -> Result<(), String> {
    whole_file::write(path, text).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    let mend = "make room, or look at the folder's rights, and start again: what was written stays";
    format!("{path}: cannot be written: {error}; {mend}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::Summary;
    use crate::plan::{Fence, Seed};

    fn identity(seeds: u64) -> Identity {
        let request = Request::whole(seeds);
        Identity { schema: SCHEMA, lockstorm: "0".into(), build: "b".into(), request }
    }

    fn cell(family: &str) -> Cell {
        let place = Place { lock: "redis".into(), fence: Fence::Off, family: family.into() };
        Cell::new(place, "redis-failover")
    }

    #[test]
    fn what_was_done_is_known_and_a_line_that_was_cut_short_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), &identity(1)).unwrap();
        journal.add(&cell("none")).unwrap();
        journal.add(&cell("disk")).unwrap();
        let second = Journal::open(folder.path(), &identity(1)).unwrap_err();
        assert!(second.contains("wait for it"), "{second}");
        drop(journal);
        let path = folder.path().join(JOURNAL_FILE);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 3]).unwrap();
        let journal = Journal::open(folder.path(), &identity(1)).unwrap();
        assert_eq!(journal.len(), 1);
        assert_eq!(journal.known(&cell("none").place), Some(&cell("none")));
        assert_eq!(journal.known(&cell("disk").place), None);
    }

    #[test]
    fn another_matrix_and_damaged_lines_are_refused_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        drop(Journal::open(folder.path(), &identity(1)).unwrap());
        let other = Journal::open(folder.path(), &identity(2)).unwrap_err();
        assert!(other.contains("--seeds is 2 here and 1 there"), "{other}");
        fs::write(folder.path().join(JOURNAL_FILE), "{}\n").unwrap();
        let damaged = Journal::open(folder.path(), &identity(1)).unwrap_err();
        assert!(damaged.contains("line 1 is damaged"), "{damaged}");
    }

    #[test]
    fn a_cell_with_a_run_that_was_ours_is_run_again_and_its_later_line_counts() {
        let folder = tempfile::tempdir().unwrap();
        let mut ours = cell("disk");
        ours.add(&Summary::lost(Seed(0), "died".into()));
        let mut journal = Journal::open(folder.path(), &identity(1)).unwrap();
        journal.add(&cell("none")).unwrap();
        journal.add(&ours).unwrap();
        drop(journal);
        let mut journal = Journal::open(folder.path(), &identity(1)).unwrap();
        assert_eq!((journal.len(), journal.known(&ours.place)), (1, None));
        journal.add(&cell("disk")).unwrap();
        drop(journal);
        let mut journal = Journal::open(folder.path(), &identity(1)).unwrap();
        assert_eq!(journal.known(&ours.place), Some(&cell("disk")));
        journal.add(&cell("disk")).unwrap();
        drop(journal);
        let twice = Journal::open(folder.path(), &identity(1)).unwrap_err();
        assert!(twice.contains("line 4 has redis × disk again"), "{twice}");
    }

    #[test]
    fn cells_without_their_identity_are_refused_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), &identity(1)).unwrap();
        journal.add(&cell("none")).unwrap();
        drop(journal);
        let kept = fs::read(folder.path().join(JOURNAL_FILE)).unwrap();
        fs::remove_file(folder.path().join(IDENTITY_FILE)).unwrap();
        let refused = Journal::open(folder.path(), &identity(2)).unwrap_err();
        assert!(refused.contains("cells.ndjson: cells are kept here"), "{refused}");
        assert!(refused.contains("restore matrix-of.json"), "{refused}");
        assert_eq!(fs::read(folder.path().join(JOURNAL_FILE)).unwrap(), kept);
        assert!(!folder.path().join(IDENTITY_FILE).exists(), "it is not made this matrix's");
    }

    #[test]
    fn whoever_works_here_is_told_of_before_the_identity_is() {
        let folder = tempfile::tempdir().unwrap();
        let _works = Journal::open(folder.path(), &identity(1)).unwrap();
        fs::remove_file(folder.path().join(IDENTITY_FILE)).unwrap();
        let second = Journal::open(folder.path(), &identity(2)).unwrap_err();
        assert!(second.contains("wait for it"), "{second}");
        assert!(!folder.path().join(IDENTITY_FILE).exists(), "nothing was written under the lock");
    }
}
