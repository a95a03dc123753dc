//! Cuts a stream into lines: gzip or plain, never more than a bound in memory.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::error::Complaint;

/// The longest line, bytes: the books of a million sales are one.
pub const MOST_LINE_BYTES: usize = 64 << 20;

/// The longest file, unpacked, bytes.
pub const MOST_BYTES: u64 = 4 << 30;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A stream of lines.
pub struct Lines<'a> {
    input: Box<dyn BufRead + 'a>,
    line: Vec<u8>,
    number: u64,
    taken: u64,
    is_packed: bool,
}

impl<'a> Lines<'a> {
    /// Lines of `input`, unpacked if it is gzip.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(input: impl Read + 'a) -> io::Result<Lines<'a>> {
        let mut input = BufReader::with_capacity(1 << 16, input);
        let is_packed = input.fill_buf()?.starts_with(&GZIP);
        let input: Box<dyn BufRead + 'a> = match is_packed {
            true => Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(input))),
            false => Box::new(input),
        };
        Ok(Lines { input, line: Vec::new(), number: 0, taken: 0, is_packed })
    }

    /// The first bytes that are there, without taking them.
    ///
    /// # Errors
    /// When they cannot be read or unpacked.
    pub fn peek(&mut self) -> Result<&[u8], Complaint> {
        let is_packed = self.is_packed;
        self.input.fill_buf().map_err(|error| unreadable(is_packed, &error))
    }

    /// The number of the line that was given last, from 1; while reading fails, of the
    /// line that could not be read.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end; `None` at the end of the file.
    ///
    /// # Errors
    /// When a line is too long, the file is too long, or it cannot be read.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, Complaint> {
        self.line.clear();
        // One long line must not keep its room.
        self.line.shrink_to(1 << 16);
        self.number += 1;
        loop {
            let is_packed = self.is_packed;
            let buffer = self.input.fill_buf().map_err(|error| unreadable(is_packed, &error))?;
            if buffer.is_empty() {
                return Ok((!self.line.is_empty()).then_some(&self.line));
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |end| end + 1);
            self.line.extend_from_slice(&buffer[..end.unwrap_or(taken)]);
            self.input.consume(taken);
            self.taken += taken as u64;
            if self.line.len() > MOST_LINE_BYTES {
                let what = format!("the line has more than {} MiB", MOST_LINE_BYTES >> 20);
                return Err(Complaint::new(what, "write one event a line"));
            }
            if self.taken > MOST_BYTES {
                let what = format!("the file has more than {} GiB", MOST_BYTES >> 30);
                return Err(Complaint::new(what, "cut the history where everything is quiet"));
            }
            if end.is_some() {
                if self.line.last() == Some(&b'\r') {
                    self.line.pop();
                }
                return Ok(Some(&self.line));
            }
        }
    }
}

fn unreadable(is_packed: bool, error: &io::Error) -> Complaint {
    match error.kind() {
        io::ErrorKind::UnexpectedEof if is_packed => {
            Complaint::new("the gzip stream ends too early", "copy the whole file")
        }
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput if is_packed => Complaint::new(
            format!("the gzip stream is damaged ({error})"),
            "write or copy the file again",
        ),
        _ => Complaint::new(format!("cannot be read: {error}"), "check the file"),
    }
}

impl std::fmt::Debug for Lines<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Lines").field("number", &self.number).finish_non_exhaustive()
    }
}
