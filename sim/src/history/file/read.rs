//! Reads a history, ours or anybody's.
//!
//! Ids may be left out; where they stand they grow. Events are numbered anew by their
//! position, and causes follow. Times do not go backwards: whoever merges the logs of
//! several hosts sorts them first.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::error::Complaint;
use super::lines::Lines;
use super::row::Row;
use super::{FORMAT, FileError, Header, Recorded};
use crate::history::names::Names;
use crate::history::{Event, EventId, History, SCHEMA};

/// The most events that are read.
pub const MOST_EVENTS: usize = 10_000_000;

/// Reads a file.
///
/// # Errors
/// One, at the first line that is not as it must be.
pub fn read(path: &Path) -> Result<Recorded, FileError> {
    let name = path.display().to_string();
    let unreadable = |error: std::io::Error| {
        Complaint::new(error.to_string(), "name a file that can be read").at(&name, None)
    };
    let lines = Lines::of(File::open(path).map_err(unreadable)?).map_err(unreadable)?;
    read_lines(&name, lines)
}

/// Reads from `input`, which is called `name`.
///
/// # Errors
/// As [`read`].
pub fn read_from(name: &str, input: impl Read) -> Result<Recorded, FileError> {
    let lines = Lines::of(input).map_err(|error| {
        Complaint::new(error.to_string(), "give an input that can be read").at(name, None)
    })?;
    read_lines(name, lines)
}

/// Reads `lines` of a file called `name`.
///
/// # Errors
/// As [`read`].
pub fn read_lines(name: &str, mut lines: Lines<'_>) -> Result<Recorded, FileError> {
    let mut reading =
        Reading { history: History::default(), names: Names::with_room(NAMES), ids: None };
    let outcome = reading.all(&mut lines);
    let number = lines.number();
    match outcome {
        Ok(header) => reading.finish(header).map_err(|complaint| complaint.at(name, number)),
        Err(complaint) => Err(complaint.at(name, number)),
    }
}

struct Reading {
    history: History,
    names: Names,
    /// Ids as the file has them, as soon as one differs from its position.
    ids: Option<Vec<u64>>,
}

/// How many names are remembered while a file is read: more than clients at work.
const NAMES: usize = 1 << 12;

impl Reading {
    fn all(&mut self, lines: &mut Lines<'_>) -> Result<Header, Complaint> {
        let header = match lines.next_line()? {
            Some(line) => header(line)?,
            None => return Err(Complaint::new("the file is empty", "begin with a header line")),
        };
        let announced = header.events.map_or(0, |events| usize::try_from(events).unwrap_or(0));
        // An announcement may lie: beyond this it is made true by events only.
        self.history.events.reserve_exact(announced.min(1 << 20));
        while let Some(line) = lines.next_line()? {
            self.event(line)?;
        }
        Ok(header)
    }

    fn event(&mut self, line: &[u8]) -> Result<(), Complaint> {
        if self.history.events.len() == MOST_EVENTS {
            let what = format!("there are more than {MOST_EVENTS} events");
            return Err(Complaint::new(what, "cut the history where everything is quiet"));
        }
        if line.first().is_some_and(|first| *first == b'[') {
            return Err(Complaint::new("the line is an array", "write one JSON object a line"));
        }
        let row: Row<'_> = serde_json::from_slice(line).map_err(|error| json(line, &error))?;
        let at_us = u64::try_from(row.at_us).map_err(|_| {
            let what = format!("`at_us` is {}", row.at_us);
            Complaint::new(what, "times are µs since the beginning, 0 or more")
        })?;
        let last_us = self.history.events.last().map_or(0, |event| event.at_us);
        if at_us < last_us {
            let what = format!("`at_us` is {at_us}, after {last_us} on the line before");
            return Err(Complaint::new(what, "sort the events by `at_us`"));
        }
        let position = self.history.events.len() as u64;
        self.number(row.id, position)?;
        let cause = row.cause.map(|cause| self.cause(cause)).transpose()?;
        let node = self.names.of(&row.node);
        let what = row.what(&mut self.names)?;
        self.history.events.push(Event { id: EventId(position), at_us, node, cause, what });
        Ok(())
    }

    /// Notes the id of the event at `position`.
    fn number(&mut self, id: Option<u64>, position: u64) -> Result<(), Complaint> {
        let last = match &self.ids {
            Some(ids) => ids.last().copied(),
            None => position.checked_sub(1),
        };
        let next = last.map_or(0, |last| last.saturating_add(1));
        let id = id.unwrap_or(next);
        if last.is_some_and(|last| id <= last) {
            let what = format!("the id {id} comes after the id {}", next.saturating_sub(1));
            return Err(Complaint::new(what, "ids are unique and grow; or leave them all out"));
        }
        if self.ids.is_none() && id != position {
            self.ids = Some((0..position).collect());
        }
        if let Some(ids) = &mut self.ids {
            ids.push(id);
        }
        Ok(())
    }

    fn cause(&self, cause: u64) -> Result<EventId, Complaint> {
        let position = match &self.ids {
            // The event itself is the last; it is not its own cause.
            Some(ids) => ids[..ids.len() - 1].binary_search(&cause).ok().map(|at| at as u64),
            None => (cause < self.history.events.len() as u64).then_some(cause),
        };
        let unknown = || {
            let what = format!("the cause {cause} is no event before this one");
            Complaint::new(what, "name the id of an earlier event, or leave `cause` out")
        };
        position.map(EventId).ok_or_else(unknown)
    }

    fn finish(mut self, header: Header) -> Result<Recorded, Complaint> {
        let has = self.history.events.len() as u64;
        if let Some(announced) = header.events.filter(|announced| *announced != has) {
            let what = format!("the header announces {announced} events and there are {has}");
            return Err(Complaint::new(what, "copy the whole file, or leave `events` out"));
        }
        let last_us = self.history.events.last().map_or(0, |event| event.at_us);
        self.history.ended_us = header.ended_us.unwrap_or(0).max(last_us);
        self.history.clock_uncertainty = header.clock_uncertainty_us.clone();
        Ok(Recorded { header, history: self.history, lines: Vec::new() })
    }
}

fn header(line: &[u8]) -> Result<Header, Complaint> {
    let mend = format!("begin with {{\"format\":\"{FORMAT}\",\"schema\":{SCHEMA}}}");
    // The version first: what else a header of another version has is not known.
    #[derive(serde::Deserialize)]
    struct Version {
        format: Option<String>,
        schema: Option<serde_json::Value>,
    }
    let version: Version = serde_json::from_slice(line)
        .map_err(|error| Complaint::new(format!("no header: {}", said(&error)), &*mend))?;
    if version.format.as_deref() != Some(FORMAT) {
        return Err(Complaint::new(format!("the first line does not say `{FORMAT}`"), mend));
    }
    match version.schema {
        Some(schema) if schema == SCHEMA => {}
        Some(schema) => {
            let what = format!("schema {schema} is not known, only {SCHEMA} is");
            return Err(Complaint::new(what, "use the lockstorm that wrote it"));
        }
        None => return Err(Complaint::new("the header has no `schema`", mend)),
    }
    serde_json::from_slice(line).map_err(|error| {
        Complaint::new(format!("the header: {}", said(&error)), "see docs/history.md")
    })
}

/// A line that is no event.
fn json(line: &[u8], error: &serde_json::Error) -> Complaint {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Complaint::new("the line is empty", "write one event a line");
    }
    let mend = match error.classify() {
        serde_json::error::Category::Eof => "complete the line: the file may have been cut off",
        serde_json::error::Category::Syntax => "write one JSON object a line",
        _ => "see docs/history.md",
    };
    Complaint::new(said(error), mend)
}

/// What serde_json says, with the place in the line only.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    // Of many fields the list is in the documentation.
    if let Some((unknown, _)) = text.split_once(", expected one of `id`, `at_us`") {
        return format!("{unknown} (column {})", error.column());
    }
    match text.rsplit_once(" at line ") {
        Some((what, _)) if error.column() > 0 => format!("{what} (column {})", error.column()),
        Some((what, _)) => what.to_owned(),
        None => text,
    }
}
