//! Writes a history.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use super::Header;
use crate::history::{Event, EventId, History, Name, What};

/// An event as a line has it: what it shares with others first.
#[derive(Serialize)]
struct Line<'a> {
    id: EventId,
    at_us: u64,
    node: &'a Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<EventId>,
    #[serde(flatten)]
    what: &'a What,
}

/// Writes `history` to `output` as NDJSON, with its own counts in the header.
///
/// # Errors
/// When `output` fails.
pub fn write(header: &Header, history: &History, output: &mut impl Write) -> io::Result<()> {
    let header = Header {
        events: Some(history.events.len() as u64),
        ended_us: Some(history.ended_us),
        clock_uncertainty_us: history.clock_uncertainty.clone(),
        ..header.clone()
    };
    serde_json::to_writer(&mut *output, &header)?;
    output.write_all(b"\n")?;
    for Event { id, at_us, node, cause, what } in history.iter() {
        let line = Line { id: *id, at_us: *at_us, node, cause: *cause, what };
        serde_json::to_writer(&mut *output, &line)?;
        output.write_all(b"\n")?;
    }
    Ok(())
}

/// Writes `history` to a file: gzip, unless the file's name does not end in `.gz`. The
/// bytes depend on the history alone.
///
/// # Errors
/// When the file cannot be written.
pub fn save(path: &Path, header: &Header, history: &History) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    if path.extension().is_some_and(|extension| extension == "gz") {
        let mut packed = GzEncoder::new(&mut file, Compression::fast());
        write(header, history, &mut packed)?;
        packed.finish()?;
    } else {
        write(header, history, &mut file)?;
    }
    file.flush()
}
