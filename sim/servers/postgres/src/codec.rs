//! Protocol 3.0 as bytes: what clients send, read within bounds; what servers send.
//!
//! It is written here and not left to a library: those of pgwire 0.42 panic on messages
//! that end too early, read beyond a message's end, and replace text that is not UTF-8.

use super::error::{SqlError, SqlResult};

/// A message of a client in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frontend {
    Query(String),
    Parse {
        name: String,
        query: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    /// `S`tatement or `P`ortal.
    Describe {
        kind: u8,
        name: String,
    },
    Close {
        kind: u8,
        name: String,
    },
    Execute {
        portal: String,
        most: u32,
    },
    Sync,
    Flush,
    Terminate,
    CopyData(Vec<u8>),
    CopyEnd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) portal: String,
    pub(crate) statement: String,
    pub(crate) formats: Vec<i16>,
    pub(crate) values: Vec<Option<Vec<u8>>>,
    pub(crate) results: Vec<i16>,
}

/// The first message of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// SSLRequest or GSSENCRequest.
    Encryption,
    Cancel {
        pid: i32,
        secret: i32,
    },
    Startup {
        minor: u16,
        parameters: Vec<(String, String)>,
    },
}

/// The longest first message, as in PostgreSQL.
const OPENING_BYTES: usize = 10_000;

fn violation(told: impl Into<String>) -> SqlError {
    SqlError::fatal("08P01", told)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> SqlResult<&'a [u8]> {
        if count > self.0.len() {
            return Err(short());
        }
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> SqlResult<u8> {
        Ok(self.take(1)?[0])
    }

    fn int16(&mut self) -> SqlResult<i16> {
        let bytes = self.take(2)?;
        Ok(i16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn int32(&mut self) -> SqlResult<i32> {
        let bytes = self.take(4)?;
        Ok(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn text(&mut self) -> SqlResult<String> {
        let Some(end) = self.0.iter().position(|byte| *byte == 0) else {
            return Err(SqlError::new("08P01", "invalid string in message"));
        };
        let bytes = self.take(end)?;
        self.take(1)?;
        super::value::binary::utf8(bytes).map(str::to_owned)
    }

    fn int16s(&mut self) -> SqlResult<Vec<i16>> {
        let count = self.int16()? as u16;
        (0..count).map(|_| self.int16()).collect()
    }

    fn end(&self) -> SqlResult<()> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(SqlError::new("08P01", "invalid message format")),
        }
    }
}

fn short() -> SqlError {
    SqlError::new("08P01", "insufficient data left in message")
}

/// The first message of a connection and its length, once it is whole.
pub(crate) fn opening(bytes: &[u8]) -> SqlResult<Option<(Opening, usize)>> {
    let Some((length, _)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if !(8..=OPENING_BYTES).contains(&length) {
        return Err(violation("invalid length of startup packet"));
    }
    let Some(message) = bytes.get(4..length) else { return Ok(None) };
    let mut reader = Reader(message);
    let code = reader.int32()? as u32;
    let opening = match (code >> 16, code & 0xffff) {
        (1234, 5679 | 5680) => Opening::Encryption,
        (1234, 5678) => {
            let (pid, secret) = (reader.int32()?, reader.int32()?);
            Opening::Cancel { pid, secret }
        }
        (3, minor) => {
            let mut parameters = Vec::new();
            loop {
                let name = reader.text().map_err(|_| bad_layout())?;
                if name.is_empty() {
                    break;
                }
                parameters.push((name, reader.text().map_err(|_| bad_layout())?));
            }
            reader.end().map_err(|_| bad_layout())?;
            Opening::Startup { minor: minor as u16, parameters }
        }
        (major, minor) => {
            let told = format!(
                "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"
            );
            return Err(SqlError::fatal("0A000", told));
        }
    };
    Ok(Some((opening, length)))
}

fn bad_layout() -> SqlError {
    violation("invalid startup packet layout: expected terminator as last byte")
}

/// A message that is whole, by its length: its type, its body's place.
///
/// # Errors
/// When the length cannot be, or is more than `most` bytes: the connection must end.
pub(crate) fn frame(bytes: &[u8], most: usize) -> SqlResult<Option<(u8, usize)>> {
    let (Some(kind), Some(length)) = (bytes.first(), bytes.get(1..5)) else {
        let is_known = bytes.first().is_none_or(|kind| b"QPBDCESHXdcfpF".contains(kind));
        return if is_known { Ok(None) } else { Err(invalid_type(bytes[0])) };
    };
    if !b"QPBDCESHXdcfpF".contains(kind) {
        return Err(invalid_type(*kind));
    }
    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
    if length < 4 || length > most {
        return Err(violation("invalid message length"));
    }
    Ok((bytes.len() > length).then_some((*kind, length + 1)))
}

fn invalid_type(kind: u8) -> SqlError {
    violation(format!("invalid frontend message type {kind}"))
}

/// Reads the body of a whole message.
///
/// # Errors
/// 08P01 for a body of another form, 22021 for text that is not UTF-8.
pub(crate) fn decode(kind: u8, body: &[u8]) -> SqlResult<Frontend> {
    let mut reader = Reader(body);
    let message = match kind {
        b'Q' => Frontend::Query(reader.text()?),
        b'P' => {
            let (name, query) = (reader.text()?, reader.text()?);
            let count = reader.int16()? as u16;
            let types: Vec<u32> = (0..count)
                .map(|_| reader.int32().map(|oid| oid as u32))
                .collect::<SqlResult<_>>()?;
            Frontend::Parse { name, query, types }
        }
        b'B' => {
            let (portal, statement) = (reader.text()?, reader.text()?);
            let formats = reader.int16s()?;
            let count = reader.int16()? as u16;
            let mut values = Vec::new();
            for _ in 0..count {
                let length = reader.int32()?;
                values.push(match length {
                    -1 => None,
                    length if length < 0 => return Err(short()),
                    length => Some(reader.take(length as usize)?.to_vec()),
                });
            }
            let results = reader.int16s()?;
            Frontend::Bind(Bind { portal, statement, formats, values, results })
        }
        b'D' => Frontend::Describe { kind: reader.byte()?, name: reader.text()? },
        b'C' => Frontend::Close { kind: reader.byte()?, name: reader.text()? },
        b'E' => {
            let portal = reader.text()?;
            // Less than one row is all of them.
            Frontend::Execute { portal, most: reader.int32()?.max(0) as u32 }
        }
        b'S' => Frontend::Sync,
        b'H' => Frontend::Flush,
        b'X' => Frontend::Terminate,
        b'd' => return Ok(Frontend::CopyData(body.to_vec())),
        b'c' => Frontend::CopyEnd,
        b'f' => {
            reader.text()?;
            Frontend::CopyEnd
        }
        kind => return Err(invalid_type(kind)),
    };
    reader.end()?;
    Ok(message)
}

/// Appends a server's message; `body` writes what is behind its length.
pub(crate) fn message(to: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    to.push(kind);
    let at = to.len();
    to.extend_from_slice(&[0; 4]);
    body(to);
    let length = (to.len() - at) as u32;
    to[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

pub(crate) fn text(to: &mut Vec<u8>, text: &str) {
    // The wire ends texts with a zero, so none can be inside.
    to.extend(text.bytes().filter(|byte| *byte != 0));
    to.push(0);
}

/// An error or a notice. `statement` is the text in which its place is counted.
pub(crate) fn error(to: &mut Vec<u8>, error: &SqlError, statement: &str) {
    let fields = error.fields();
    let is_notice = matches!(fields.severity.word(), "WARNING" | "NOTICE");
    message(to, if is_notice { b'N' } else { b'E' }, |to| {
        let mut field = |kind: u8, value: &str| {
            to.push(kind);
            text(to, value);
        };
        field(b'S', fields.severity.word());
        field(b'V', fields.severity.word());
        field(b'C', fields.code);
        field(b'M', &fields.message);
        if let Some(detail) = &fields.detail {
            field(b'D', detail);
        }
        if let Some(hint) = &fields.hint {
            field(b'H', hint);
        }
        if let Some(at) = fields.at.and_then(|at| statement.get(..at)) {
            field(b'P', &(at.chars().count() + 1).to_string());
        }
        if let Some(table) = &fields.table {
            field(b's', "public");
            field(b't', table);
        }
        if let Some(column) = &fields.column {
            field(b'c', column);
        }
        if let Some(constraint) = &fields.constraint {
            field(b'n', constraint);
        }
        to.push(0);
    });
}

#[cfg(test)]
mod tests;
