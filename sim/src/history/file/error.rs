//! The one error that a bad file gives: where, what, and the mend.

use std::fmt;

use crate::visible::is_hidden;

/// Why a history is refused: `FILE:LINE: what; mend`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FileError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1, where one is to blame.
    pub line: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub mend: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        write!(formatter, ": {}; {}", self.what, self.mend)
    }
}

/// What is wrong and the mend, before anybody knows where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub mend: String,
}

impl Complaint {
    /// A complaint; control characters of the file's own text are shown, not sent.
    pub fn new(what: impl Into<String>, mend: impl Into<String>) -> Complaint {
        Complaint { what: shown(&what.into()), mend: mend.into() }
    }

    /// At a line of a file.
    pub fn at(self, file: &str, line: impl Into<Option<u64>>) -> FileError {
        let Complaint { what, mend } = self;
        FileError { file: file.to_owned(), line: line.into(), what, mend }
    }
}

/// One line of bounded length, whatever the file held.
fn shown(text: &str) -> String {
    const MOST_CHARS: usize = 300;
    let mut shown = String::new();
    for (n, character) in text.chars().enumerate() {
        if n == MOST_CHARS {
            shown.push('…');
            break;
        }
        if is_hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}
