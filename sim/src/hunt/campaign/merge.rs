//! Puts the shards of a campaign together: what comes of it is the journal that one hunt
//! would have written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{IDENTITY_FILE, Identity, JOURNAL_FILE, Line, identity_of, lines};

/// All shards of one hunt.
#[derive(Debug)]
pub struct Merged {
    /// Of the whole hunt.
    pub identity: Identity,
    /// Every run, in order.
    pub lines: Vec<Line>,
}

/// Reads the folders of all shards of a hunt.
///
/// # Errors
/// One sentence with the mend: a folder that is no campaign, shards of different hunts, one
/// that is missing or there twice, and two shards that ran one plan differently.
pub fn merge(folders: &[PathBuf]) -> Result<Merged, String> {
    let mut first: Option<(&Path, Identity)> = None;
    let mut seen: BTreeMap<u64, &Path> = BTreeMap::new();
    let mut merged: BTreeMap<u64, (&Path, Line)> = BTreeMap::new();
    for folder in folders {
        let identity = read_identity(folder)?;
        let Some(shard) = identity.shard else {
            let folder = folder.display();
            return Err(format!("{folder}: is a whole hunt; name folders of `--shard` hunts"));
        };
        let whole = Identity { shard: None, ..identity };
        if let Some((other, known)) = &first {
            // Machines may have builds of their own; that they agree is seen by the traces.
            let whole = Identity { build: known.build.clone(), ..whole.clone() };
            if let Some(difference) = whole.difference(known) {
                let (folder, other) = (folder.display(), other.display());
                return Err(format!(
                    "{folder}: is of another hunt than {other}: {difference}; name the shards of \
                     one hunt"
                ));
            }
        } else {
            first = Some((folder, whole));
        }
        if let Some(other) = seen.insert(shard.index, folder) {
            let (folder, other, index) = (folder.display(), other.display(), shard.index);
            return Err(format!("{folder}: is shard {index}, and so is {other}; name each once"));
        }
        take(folder, &mut merged)?;
        let missing = (1..=shard.of).find(|index| !seen.contains_key(index));
        if let (Some(missing), true) = (missing, Some(folder) == folders.last()) {
            return Err(format!("shard {missing} of {} is missing; name its folder too", shard.of));
        }
    }
    let (_, identity) = first.ok_or("there is nothing to merge; name the folders of all shards")?;
    let lines = merged.into_values().map(|(_, line)| line).collect();
    Ok(Merged { identity, lines })
}

fn read_identity(folder: &Path) -> Result<Identity, String> {
    let path = folder.join(IDENTITY_FILE);
    let text = fs::read_to_string(&path).map_err(|error| {
        format!("{}: is no campaign's folder: {error}; name one", folder.display())
    })?;
    identity_of(&path, &text)
}

fn take<'a>(folder: &'a Path, merged: &mut BTreeMap<u64, (&'a Path, Line)>) -> Result<(), String> {
    let path = folder.join(JOURNAL_FILE);
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    // A line that was cut short is of a run that its shard has still to make.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    for line in lines(&path, &bytes[..whole])? {
        let Some((other, known)) = merged.get(&line.number) else {
            merged.insert(line.number, (folder, line));
            continue;
        };
        if *known != line {
            let (folder, other, number) = (folder.display(), other.display(), line.number);
            return Err(format!(
                "run {number} went differently in {folder} and in {other}: nondeterminism, or two \
                 builds that are not alike"
            ));
        }
    }
    Ok(())
}
