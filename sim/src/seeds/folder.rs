//! Folders of seed files: read in sorted order, written to without overwriting.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::SeedFile;
use crate::plan::complaint::quoted;
use crate::plan::{Complaint, PlanError};

/// The folders under `seeds/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shelf {
    /// Bugs of ours: must pass now.
    Regression,
    /// Locks that are unsafe by design: must still fail, in the same way.
    KnownUnsafe,
    /// Plans that lessons tell.
    Lesson,
}

impl Shelf {
    /// All of them.
    pub const ALL: [Shelf; 3] = [Shelf::Regression, Shelf::KnownUnsafe, Shelf::Lesson];

    /// The folder's name.
    pub fn name(self) -> &'static str {
        match self {
            Shelf::Regression => "regression",
            Shelf::KnownUnsafe => "known-unsafe",
            Shelf::Lesson => "lesson",
        }
    }

    /// Whether a file may stand in this folder.
    fn admits(self, file: &SeedFile) -> Result<(), Complaint> {
        let verdict = file.expect.verdict.as_str();
        match self {
            Shelf::Regression if verdict != "safe" && verdict != "safe-by-fence" => {
                Err(Complaint::new(
                    format!("a regression must pass, and this one expects {verdict}"),
                    "expect safe or safe-by-fence, or keep it under known-unsafe (seeds add \
                     --shelf known-unsafe)",
                ))
            }
            Shelf::KnownUnsafe if verdict != "violation" => Err(Complaint::new(
                format!("a known-unsafe plan must fail, and this one expects {verdict}"),
                "expect violation, or keep it under regression (seeds add --shelf regression)",
            )),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Shelf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The paths of all seed files in `folder` and the folders in it, sorted. A folder
/// that is not there is empty.
///
/// # Errors
/// Folders that cannot be read; files that are neither seed files nor `README.md`
/// (a misnamed seed file must not be skipped in silence).
pub fn list(folder: &Path) -> Result<Vec<PathBuf>, PlanError> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        let unreadable = |error: std::io::Error| {
            let complaint = Complaint::new(
                format!("cannot be read: {error}"),
                "look at the path and its rights",
            );
            PlanError::named(folder.display().to_string(), complaint)
        };
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            other => other.map_err(unreadable)?,
        };
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if name.starts_with('.') || (name.starts_with("README") && name.ends_with(".md")) {
                continue;
            }
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                found.push(path);
            } else {
                let complaint = Complaint::new(
                    "is not a seed file",
                    "seed files end in .toml; take it out of the folder, or rename it",
                );
                return Err(PlanError::named(path.display().to_string(), complaint));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a shelf below `seeds`, in sorted order.
///
/// # Errors
/// The first file that cannot be read, or does not belong on this shelf.
pub fn load_shelf(seeds: &Path, shelf: Shelf) -> Result<Vec<(PathBuf, SeedFile)>, PlanError> {
    list(&seeds.join(shelf.name()))?
        .into_iter()
        .map(|path| load_on(shelf, &path).map(|file| (path, file)))
        .collect()
}

/// Reads a file that stands on `shelf`.
///
/// # Errors
/// Those of [`SeedFile::load`]; a file that does not belong there.
pub fn load_on(shelf: Shelf, path: &Path) -> Result<SeedFile, PlanError> {
    let file = SeedFile::load(path)?;
    shelf
        .admits(&file)
        .map_err(|complaint| PlanError::named(path.display().to_string(), complaint))?;
    Ok(file)
}

/// Writes a new file to a shelf below `seeds` and says where it is.
///
/// # Errors
/// A file of this id is there already; the text would not be read back as it is; the
/// folder cannot be written.
pub fn save(seeds: &Path, shelf: Shelf, file: &SeedFile) -> Result<PathBuf, PlanError> {
    let folder = seeds.join(shelf.name());
    let path = folder.join(format!("{}.toml", file.id));
    let name = path.display().to_string();
    let at = |complaint| PlanError::named(&name, complaint);
    super::check_id(&file.id).map_err(at)?;
    shelf.admits(file).map_err(at)?;
    let text = file.to_text();
    // What is kept for years is worth reading once before it is written.
    SeedFile::parse(&name, &text)?;
    let taken = list(seeds)?
        .into_iter()
        .find(|other| other.file_stem().is_some_and(|stem| stem == file.id.as_str()));
    if let Some(taken) = taken {
        let what = format!("the id {} is taken by {}", quoted(&file.id), taken.display());
        return Err(at(Complaint::new(what, "seed files are only added: choose another id")));
    }
    let unwritable = |error: std::io::Error| {
        let what = format!("cannot be written: {error}");
        at(Complaint::new(what, "look at the path and its rights"))
    };
    std::fs::create_dir_all(&folder).map_err(unwritable)?;
    let mut created =
        std::fs::OpenOptions::new().write(true).create_new(true).open(&path).map_err(unwritable)?;
    created.write_all(text.as_bytes()).map_err(|error| {
        // Half a file would be in everybody's way.
        let _ = std::fs::remove_file(&path);
        unwritable(error)
    })?;
    Ok(path)
}
