//! Reads histories that Jepsen wrote (EDN): locks and counters, judged like ours.
//!
//! An operation is a map with `:process`, `:type` (`:invoke`, `:ok`, `:fail`, `:info`),
//! `:f`, `:value` and `:time` (ns); operations stand one after the other or in one
//! vector, tagged or not. Of a lock: `:acquire` and `:release`; of a counted stock: `:add`
//! of a negative number, which sells, and `:read`. What the nemesis does is left out: it
//! does not say which nodes it struck.
//!
//! Order of things: [`value`] reads EDN, bounded in size and depth; [`convert`] makes
//! events of operations. Real histories are merged from many threads, so a time that
//! goes back by a little is taken as the time before it: the order is the file's.

mod convert;
mod value;

use super::file::error::Complaint;
use super::file::lines::Lines;
use super::file::{FileError, Recorded};
use convert::Converting;
use value::Values;

/// What a history is a history of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// A lock that its holder cannot take again.
    Mutex,
    /// A lock that its holder can take again.
    ReentrantMutex,
    /// A lock whose grants carry growing tokens (the value of `:ok :acquire`).
    FencedMutex,
    /// Both.
    ReentrantFencedMutex,
    /// A stock that is only counted.
    Counter,
}

impl Model {
    fn is_reentrant(self) -> bool {
        matches!(self, Model::ReentrantMutex | Model::ReentrantFencedMutex)
    }

    fn is_fenced(self) -> bool {
        matches!(self, Model::FencedMutex | Model::ReentrantFencedMutex)
    }
}

/// What the file does not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wording {
    /// What it is a history of; else what its operations are those of.
    pub model: Option<Model>,
    /// How long a grant lasts, µs; else until it is released.
    pub lease_us: Option<u64>,
    /// How many units there were; else the sum of what was added at first.
    pub units: Option<u32>,
}

/// Whether a file that begins so is EDN rather than NDJSON.
pub fn looks_like_edn(start: &[u8]) -> bool {
    let mut rest = start.iter().skip_while(|byte| byte.is_ascii_whitespace() || **byte == b',');
    match rest.next() {
        Some(b'{') => rest.find(|byte| !byte.is_ascii_whitespace()) == Some(&b':'),
        Some(b'[' | b'(' | b';' | b'#') => true,
        _ => false,
    }
}

/// Reads `lines` of a file called `name`.
///
/// # Errors
/// One, at the line of the first thing that is not as it must be.
pub fn read_lines(name: &str, lines: Lines<'_>, wording: Wording) -> Result<Recorded, FileError> {
    let mut values = Values::of(lines);
    let outcome = all(&mut values, wording);
    outcome.map_err(|complaint| complaint.at(name, values.line()))
}

fn all(values: &mut Values<'_>, wording: Wording) -> Result<Recorded, Complaint> {
    let mut converting = Converting::new(wording);
    while let Some(operation) = values.next()? {
        converting.operation(&operation, values.line())?;
    }
    converting.finish()
}
