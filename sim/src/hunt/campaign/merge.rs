//! Puts the shards of a campaign together: what comes of it is the journal that one hunt
//! would have written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{IDENTITY_FILE, Identity, JOURNAL_FILE, Line, Lines, identity_of, whole_lines};

/// All shards of one hunt.
#[derive(Debug)]
pub struct Merged {
    /// Of the whole hunt.
    pub identity: Identity,
    shards: Vec<(PathBuf, Lines)>,
}

impl Merged {
    /// The next run, in order of their numbers.
    ///
    /// # Errors
    /// A damaged line; two shards that ran one plan differently.
    pub fn next_line(&mut self) -> Result<Option<Line>, String> {
        let numbers = self.shards.iter().filter_map(|(_, lines)| lines.number());
        let Some(next) = numbers.min() else { return Ok(None) };
        let mut found: Option<(&PathBuf, Line)> = None;
        for (folder, lines) in &mut self.shards {
            if lines.number() != Some(next) {
                continue;
            }
            let line = lines.take()?;
            match (&found, line) {
                (Some((other, known)), Some(line)) if *known != line => {
                    let (folder, other) = (folder.display(), other.display());
                    return Err(format!(
                        "run {next} went differently in {folder} and in {other}: nondeterminism, \
                         or two builds that are not alike; have one build run all shards, or look \
                         for it with `lockstorm hunt --twice`"
                    ));
                }
                (None, Some(line)) => found = Some((folder, line)),
                _ => {}
            }
        }
        Ok(found.map(|(_, line)| line))
    }
}

/// Reads the folders of all shards of a hunt.
///
/// # Errors
/// One sentence with the mend: a folder that is no campaign, shards of different hunts, one
/// that is missing or there twice, and two shards that ran one plan differently.
pub fn merge(folders: &[PathBuf]) -> Result<Merged, String> {
    let mut first: Option<(&Path, Identity)> = None;
    let mut seen: BTreeMap<u64, &Path> = BTreeMap::new();
    let mut shards = Vec::new();
    let mut parts = 0;
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
        if parts != 0 && parts != shard.of {
            let (folder, of) = (folder.display(), shard.of);
            return Err(format!(
                "{folder}: is one of {of} shards, and others are of {parts}; name the shards of \
                 one hunt"
            ));
        }
        parts = shard.of;
        shards.push((folder.clone(), lines_of(folder)?));
    }
    if let Some(missing) = (1..=parts).find(|index| !seen.contains_key(index)) {
        return Err(format!("shard {missing} of {parts} is missing; name its folder too"));
    }
    let (_, identity) = first.ok_or("there is nothing to merge; name the folders of all shards")?;
    Ok(Merged { identity, shards })
}

fn read_identity(folder: &Path) -> Result<Identity, String> {
    let path = folder.join(IDENTITY_FILE);
    let text = fs::read_to_string(&path).map_err(|error| {
        format!("{}: is no campaign's folder: {error}; name one", folder.display())
    })?;
    identity_of(&path, &text)
}

/// A line that was cut short is of a run that its shard has still to make.
fn lines_of(folder: &Path) -> Result<Lines, String> {
    let path = folder.join(JOURNAL_FILE);
    let whole = fs::File::open(&path).and_then(|mut file| whole_lines(&mut file));
    let whole = whole.map_err(|error| {
        let mend = "restore it, or run this shard again with its flags";
        format!("{}: cannot be read: {error}; {mend}", path.display())
    })?;
    Lines::open(&path, whole)
}
