//! A campaign: a hunt whose folder holds everything that it has run, so that it can be
//! interrupted at any moment and go on, be divided into shards, and be put together again.
//!
//! | file | what |
//! |---|---|
//! | `campaign.json` | which hunt this is; another hunt is refused here |
//! | `runs.ndjson` | one line for each run, in order; the journal that a later start reads |
//! | `elapsed` | seconds hunted so far |
//! | `*.toml` | the plan of each failure |
//! | `certificate-*.txt`, `summary.md`, `junit.xml`, `evidence.md` | written at the end |
//!
//! A line that a kill or a full disk cut short is cut off at the next start, and its run is
//! made again: equal plans give equal runs.
//!
//! Order of things: [`Identity`] says which hunt, [`Journal`] keeps the lines, [`merge`]
//! puts shards together; [`evidence`], [`markdown`], [`junit`] and [`annotations`] tell.

pub mod annotations;
pub mod evidence;
pub mod junit;
pub mod markdown;
pub mod merge;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::course::{Seeds, Shard, Step, Strategy};
use super::{Quarry, Summary};
use crate::check::{Kind, Verdict};
use crate::whole_file;

/// Version of the folder's files.
pub const SCHEMA: u32 = 1;

/// Which hunt a folder belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Identity {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of lockstorm.
    pub lockstorm: String,
    /// Hash of the program: another build may give other runs.
    pub build: String,
    /// What is hunted.
    pub quarry: Quarry,
    /// How.
    pub strategy: Strategy,
    /// From which seeds.
    pub seeds: Seeds,
    /// How many runs, if that was said.
    pub runs: Option<u64>,
    /// Whether it goes on until its time is over.
    pub endless: bool,
    /// Which part of the hunt.
    pub shard: Option<Shard>,
}

impl Identity {
    /// What differs from `other`, by the flag that says it; `None` if nothing does.
    pub fn difference(&self, other: &Identity) -> Option<String> {
        let said = |said: bool| if said { "said" } else { "not said" }.to_owned();
        let settings = |identity: &Identity| {
            let settings = identity.quarry.settings.iter();
            let all: Vec<String> = settings.map(|(key, value)| format!("{key}={value}")).collect();
            if all.is_empty() { "not said".to_owned() } else { all.join(", ") }
        };
        let runs = |identity: &Identity| identity.runs.map_or("none".to_owned(), |n| n.to_string());
        let shard = |identity: &Identity| {
            identity
                .shard
                .map_or("none".to_owned(), |shard| format!("{}/{}", shard.index, shard.of))
        };
        let pairs = [
            ("--scenario", self.quarry.scenario.clone(), other.quarry.scenario.clone()),
            ("--lock", self.quarry.lock.clone(), other.quarry.lock.clone()),
            ("--fence", self.quarry.fence.name().to_owned(), other.quarry.fence.name().to_owned()),
            ("--engine", self.quarry.engine.clone(), other.quarry.engine.clone()),
            ("--draws", self.quarry.draws.name().to_owned(), other.quarry.draws.name().to_owned()),
            ("--set", settings(self), settings(other)),
            ("--calm", said(!self.quarry.faults), said(!other.quarry.faults)),
            ("--strategy", self.strategy.name().to_owned(), other.strategy.name().to_owned()),
            ("--seed", self.seeds.first.to_string(), other.seeds.first.to_string()),
            ("--seed", self.seeds.calm.to_string(), other.seeds.calm.to_string()),
            ("--seeds", runs(self), runs(other)),
            ("--for without --seeds", said(self.endless), said(other.endless)),
            ("--shard", shard(self), shard(other)),
            ("version", self.lockstorm.clone(), other.lockstorm.clone()),
            ("build", self.build.clone(), other.build.clone()),
        ];
        let differs = pairs.into_iter().find(|(_, a, b)| a != b);
        differs.map(|(name, here, there)| format!("{name} is {here} here and {there} there"))
    }
}

/// One line of the journal: a run without what follows from its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Line {
    /// Which step of the course.
    pub number: u64,
    /// How it ended.
    pub verdict: Verdict,
    /// What it was, for people; of failures only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// Every kind that was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<Kind>,
    /// Those of them that are violations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Kind>,
    /// What tells this failure from another; where it is not the verdict's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The trace hash.
    pub trace: String,
    /// Grants to another owner than the one before.
    pub handovers: u64,
    /// Servers that became master.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failovers: u64,
    /// Faults that did something.
    pub showed: u64,
    /// Faults that did not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inert: u64,
    /// Whether nobody was granted the lock before the faults had ended, and no more is missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untried: bool,
    /// Steps of the engine.
    pub steps: u64,
    /// What went wrong inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Line {
    /// Of a step and what it brought.
    pub fn new(step: &Step, summary: &Summary, what: Option<String>) -> Line {
        let Summary { verdict, trace, handovers, failovers, steps, .. } = summary.clone();
        let has_own_signature = summary.signature != verdict.id();
        Line {
            number: step.number,
            verdict,
            what,
            kinds: summary.kinds.clone(),
            violations: summary.violations.clone(),
            signature: has_own_signature.then(|| summary.signature.clone()),
            trace,
            handovers,
            failovers,
            showed: summary.faults_showed,
            inert: summary.faults_inert,
            untried: summary.untried,
            steps,
            trouble: summary.trouble.clone(),
        }
    }

    /// What the worker told of the step.
    pub fn summary(&self, step: &Step) -> Summary {
        Summary {
            seed: step.task.seed(),
            verdict: self.verdict,
            kinds: self.kinds.clone(),
            violations: self.violations.clone(),
            signature: self.signature.clone().unwrap_or_else(|| self.verdict.id().to_owned()),
            trace: self.trace.clone(),
            handovers: self.handovers,
            failovers: self.failovers,
            faults_showed: self.showed,
            faults_inert: self.inert,
            untried: self.untried,
            steps: self.steps,
            trouble: self.trouble.clone(),
        }
    }
}

/// The name of the identity's file.
pub const IDENTITY_FILE: &str = "campaign.json";
/// The name of the journal.
pub const JOURNAL_FILE: &str = "runs.ndjson";
const ELAPSED_FILE: &str = "elapsed";

/// A campaign's folder, open for writing by this process alone.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    file: File,
    /// What was there when it was opened.
    known: Lines,
    /// How much that was.
    before: Before,
    /// Seconds hunted before.
    elapsed_s: u64,
}

/// What a campaign goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Runs that are written down and not made again.
    pub runs: u64,
    /// Whether one was cut short, which is made again.
    pub is_cut: bool,
}

impl Journal {
    /// Opens the folder of this hunt, and makes it where it is not there.
    ///
    /// # Errors
    /// One sentence with the mend: another hunt's folder, another process at work in it, a
    /// damaged line, no room, no rights.
    pub fn open(folder: &Path, identity: &Identity) -> Result<Journal, String> {
        fs::create_dir_all(folder).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                format!("--out {}: is not a folder; name another", folder.display())
            }
            _ => {
                let folder = folder.display();
                format!("--out {folder}: no folder can be made here: {error}; name another")
            }
        })?;
        let path = folder.join(IDENTITY_FILE);
        match fs::read_to_string(&path) {
            Ok(text) => {
                let there = identity_of(&path, &text)?;
                if let Some(difference) = identity.difference(&there) {
                    let folder = folder.display();
                    return Err(format!(
                        "--out {folder}: another hunt is kept here: {difference}; name another \
                         folder, or go on with that hunt"
                    ));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let journal = folder.join(JOURNAL_FILE);
                if fs::metadata(&journal).is_ok_and(|there| there.len() > 0) {
                    return Err(format!(
                        "{}: runs are kept here, and nothing says of which hunt; restore \
                         {IDENTITY_FILE}, or name another folder",
                        journal.display()
                    ));
                }
                write(&path, &format!("{:#}\n", serde_json::json!(identity)))?;
            }
            Err(error) => return Err(format!("{}: cannot be read: {error}", path.display())),
        }
        let path = folder.join(JOURNAL_FILE);
        let failed = |error: io::Error| cannot_write(&path, &error);
        let options = OpenOptions::new().read(true).append(true).create(true).clone();
        let mut file = options.open(&path).map_err(failed)?;
        if file.try_lock().is_err() {
            return Err(format!("{}: another hunt is writing here; wait for it", path.display()));
        }
        // What was cut short is run again.
        let (runs, whole) = count_whole_lines(&mut file).map_err(failed)?;
        let is_cut = file.metadata().map_err(failed)?.len() > whole;
        file.set_len(whole).map_err(failed)?;
        let before = Before { runs, is_cut };
        let known = Lines::open(&path, whole)?;
        let elapsed_s = elapsed_s(&folder.join(ELAPSED_FILE))?;
        Ok(Journal { folder: folder.to_owned(), file, known, before, elapsed_s })
    }

    /// What it goes on from; `None` where nothing was run yet.
    pub fn before(&self) -> Option<Before> {
        (self.before.runs > 0 || self.before.is_cut).then_some(self.before)
    }

    /// The line of this step, if it was run before; lines are asked for in their order.
    ///
    /// # Errors
    /// When the next line is damaged.
    pub fn known(&mut self, step: &Step) -> Result<Option<Line>, String> {
        match self.known.number() {
            Some(number) if number == step.number => self.known.take(),
            _ => Ok(None),
        }
    }

    /// What is wrong if this step is not known and later ones are: its run would be written
    /// behind theirs.
    pub fn gap(&self, step: &Step) -> Option<String> {
        let next = self.known.number().filter(|next| *next > step.number)?;
        let (path, missing) = (self.folder.join(JOURNAL_FILE), step.number);
        Some(format!(
            "{}: run {missing} is missing before run {next}; put its line back, or delete that \
             of {next} and all after it",
            path.display()
        ))
    }

    /// The number of the next line that was there; `None` when all were asked for.
    pub fn next_number(&self) -> Option<u64> {
        self.known.number()
    }

    /// Adds a run.
    ///
    /// # Errors
    /// One sentence, with the mend. What was written before stays.
    pub fn add(&mut self, line: &Line) -> Result<(), String> {
        let path = self.folder.join(JOURNAL_FILE);
        let mut text = serde_json::to_vec(line).map_err(|error| error.to_string())?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(|error| cannot_write(&path, &error))
    }

    /// How long was hunted in earlier starts, whole seconds of real time.
    pub fn elapsed_s(&self) -> u64 {
        self.elapsed_s
    }

    /// Writes down how long was hunted so far, and has the disk keep all lines.
    ///
    /// # Errors
    /// As [`Journal::add`].
    pub fn rest(&self, elapsed_s: u64) -> Result<(), String> {
        let path = self.folder.join(JOURNAL_FILE);
        self.file.sync_data().map_err(|error| cannot_write(&path, &error))?;
        write(&self.folder.join(ELAPSED_FILE), &format!("{elapsed_s}\n"))
    }

    /// Writes one of the files of the end.
    ///
    /// # Errors
    /// As [`Journal::add`].
    pub fn conclude(&self, name: &str, text: &str) -> Result<(), String> {
        write(&self.folder.join(name), text)
    }
}

/// Reads which hunt a folder is of.
pub(crate) fn identity_of(path: &Path, text: &str) -> Result<Identity, String> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let path = path.display();
    let unknown = |error: &dyn std::fmt::Display| {
        format!(
            "{path}: does not say which hunt this is: {error}; restore it, or name another folder"
        )
    };
    // Before the rest: a later version may have other fields.
    let version: Version = serde_json::from_str(text).map_err(|error| unknown(&error))?;
    if version.schema != SCHEMA {
        return Err(format!(
            "{path}: the campaign is of schema {}, and this program reads schema {SCHEMA}: take \
             the lockstorm that made it, or name another folder",
            version.schema
        ));
    }
    let identity: Identity = serde_json::from_str(text).map_err(|error| unknown(&error))?;
    match identity.shard {
        Some(Shard { index, of }) if !(1..=of).contains(&index) => {
            Err(unknown(&format!("there is no shard {index} of {of}")))
        }
        _ => Ok(identity),
    }
}

/// How many bytes the whole lines of a file take: a kill, or a full disk, may have cut the
/// last one short.
pub(crate) fn whole_lines(file: &mut File) -> io::Result<u64> {
    const CHUNK: u64 = 64 * 1_024;
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut chunk = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(start))?;
        chunk.clear();
        (&*file).take(end - start).read_to_end(&mut chunk)?;
        if let Some(last) = chunk.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// How long was hunted before; a campaign that was killed at its beginning has not said.
fn elapsed_s(path: &Path) -> Result<u64, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(format!("{}: cannot be read: {error}", path.display())),
    };
    text.trim().parse().map_err(|_| {
        format!(
            "{}: does not say for how many seconds was hunted; write that number into it, or \
             delete it to count from 0",
            path.display()
        )
    })
}

/// How many whole lines a file has, and how many bytes they take: in one go, for a night has
/// millions of them.
fn count_whole_lines(file: &mut File) -> io::Result<(u64, u64)> {
    file.rewind()?;
    let mut reader = BufReader::new(file);
    let (mut lines, mut whole, mut read) = (0, 0, 0);
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return Ok((lines, whole));
        }
        lines += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
        if let Some(last) = chunk.iter().rposition(|byte| *byte == b'\n') {
            whole = read + last as u64 + 1;
        }
        let length = chunk.len();
        read += length as u64;
        reader.consume(length);
    }
}

/// The lines of a journal, read one by one: a night has millions.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    reader: BufReader<io::Take<File>>,
    read: u64,
    next: Option<Line>,
}

impl Lines {
    /// Of the first `whole` bytes of a file.
    ///
    /// # Errors
    /// When it cannot be read, or its first line is damaged.
    pub(crate) fn open(path: &Path, whole: u64) -> Result<Lines, String> {
        let file = File::open(path);
        let file = file.map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
        let reader = BufReader::new(file.take(whole));
        let mut lines = Lines { path: path.to_owned(), reader, read: 0, next: None };
        lines.take()?;
        Ok(lines)
    }

    /// The number of the next line; `None` at the end.
    pub(crate) fn number(&self) -> Option<u64> {
        self.next.as_ref().map(|line| line.number)
    }

    /// The next line.
    ///
    /// # Errors
    /// When the one after it is damaged, or out of order: one sentence with the mend.
    pub(crate) fn take(&mut self) -> Result<Option<Line>, String> {
        let mut text = String::new();
        let told = |lines: &Lines, what: String| {
            let (path, number) = (lines.path.display(), lines.read);
            format!("{path}: line {number} {what}; delete it and all after it")
        };
        let read = self.reader.read_line(&mut text);
        self.read += 1;
        let read = read.map_err(|error| told(self, format!("cannot be read: {error}")))?;
        if read == 0 {
            return Ok(self.next.take());
        }
        let line: Line = serde_json::from_str(&text)
            .map_err(|error| told(self, format!("is damaged: {error}")))?;
        if self.number().is_some_and(|last| last >= line.number) {
            return Err(told(self, "is out of order".to_owned()));
        }
        Ok(self.next.replace(line))
    }
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
mod tests;
