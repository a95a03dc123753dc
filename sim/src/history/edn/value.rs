//! EDN values from a stream, bounded in size and depth.

use crate::history::file::error::Complaint;
use crate::history::file::lines::Lines;

/// How deep values may be nested.
const MOST_DEPTH: usize = 32;
/// How long an operation may be, bytes.
const MOST_VALUE_BYTES: usize = 1 << 20;

/// A value. Tags are dropped; what no history of ours needs is `Other`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Nil,
    Integer(i64),
    /// Without the colon.
    Keyword(String),
    Text(String),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Other,
}

impl Value {
    /// What a map has under a keyword.
    pub fn get(&self, keyword: &str) -> Option<&Value> {
        let Value::Map(entries) = self else { return None };
        let is_it = |entry: &&(Value, Value)| matches!(&entry.0, Value::Keyword(k) if k == keyword);
        entries.iter().find(is_it).map(|(_, value)| value)
    }
}

/// The operations of a file: its top-level values, or the elements of a vector there.
pub(super) struct Values<'a> {
    lines: Lines<'a>,
    line: Vec<u8>,
    at: usize,
    /// Bytes of the value that is being read.
    taken: usize,
    ended: bool,
    /// Inside the vector at the top.
    inside: bool,
}

type Read<T> = Result<T, Complaint>;

fn bad<T>(what: impl Into<String>, mend: &str) -> Read<T> {
    Err(Complaint::new(what, mend))
}

impl<'a> Values<'a> {
    pub fn of(lines: Lines<'a>) -> Values<'a> {
        Values { lines, line: Vec::new(), at: 0, taken: 0, ended: false, inside: false }
    }

    /// The line of the byte that was read last.
    pub fn line(&self) -> u64 {
        self.lines.number()
    }

    /// The next operation.
    pub fn next(&mut self) -> Read<Option<Value>> {
        loop {
            self.taken = 0;
            self.skip()?;
            match self.peek()? {
                None if self.inside => {
                    return bad("the file ends inside its vector", "copy the whole file");
                }
                None => return Ok(None),
                Some(b'[' | b'(') if !self.inside => {
                    self.at += 1;
                    self.inside = true;
                }
                Some(b']' | b')') if self.inside => {
                    self.at += 1;
                    self.inside = false;
                }
                Some(_) => return self.value(0).map(Some),
            }
        }
    }

    /// The next byte; a line's end is one.
    fn peek(&mut self) -> Read<Option<u8>> {
        while !self.ended && self.at > self.line.len() {
            match self.lines.next_line()? {
                Some(line) => {
                    self.line.clear();
                    self.line.extend_from_slice(line);
                    self.at = 0;
                }
                None => self.ended = true,
            }
        }
        if self.ended {
            return Ok(None);
        }
        Ok(Some(self.line.get(self.at).copied().unwrap_or(b'\n')))
    }

    fn bump(&mut self) -> Read<Option<u8>> {
        let byte = self.peek()?;
        if byte.is_some() {
            self.at += 1;
            self.taken += 1;
            if self.taken > MOST_VALUE_BYTES {
                let what = format!("a value has more than {MOST_VALUE_BYTES} bytes");
                return bad(what, "write one operation after the other");
            }
        }
        Ok(byte)
    }

    /// Skips whitespace, commas and comments.
    fn skip(&mut self) -> Read<()> {
        while let Some(byte) = self.peek()? {
            match byte {
                b';' => self.at = self.line.len(),
                byte if byte.is_ascii_whitespace() || byte == b',' => self.at += 1,
                _ => break,
            }
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Read<Value> {
        if depth == MOST_DEPTH {
            let what = format!("values are nested more than {MOST_DEPTH} deep");
            return bad(what, "write operations as Jepsen does");
        }
        self.skip()?;
        match self.peek()? {
            None => bad("the file ends inside a value", "copy the whole file"),
            Some(b'{') => self.map(depth),
            Some(b'[' | b'(') => {
                self.bump()?;
                self.until_closed(depth).map(Value::List)
            }
            Some(b'"') => self.text().map(Value::Text),
            Some(b'#') => self.tagged(depth),
            Some(b'\\') => {
                self.bump()?;
                self.bump()?;
                self.word()?;
                Ok(Value::Other)
            }
            Some(b'^') => {
                self.bump()?;
                self.value(depth + 1)?;
                self.value(depth + 1)
            }
            Some(b'}' | b']' | b')') => bad("a bracket closes nothing", "balance the brackets"),
            Some(_) => {
                let word = self.word()?;
                Ok(atom(word))
            }
        }
    }

    fn map(&mut self, depth: usize) -> Read<Value> {
        self.bump()?;
        let mut values = self.until_closed(depth)?.into_iter();
        let mut entries = Vec::new();
        while let Some(key) = values.next() {
            let Some(value) = values.next() else {
                return bad("a map has a key without a value", "write maps in pairs");
            };
            entries.push((key, value));
        }
        Ok(Value::Map(entries))
    }

    fn until_closed(&mut self, depth: usize) -> Read<Vec<Value>> {
        let mut values = Vec::new();
        loop {
            self.skip()?;
            match self.peek()? {
                Some(b'}' | b']' | b')') => {
                    self.bump()?;
                    return Ok(values);
                }
                _ => values.push(self.value(depth + 1)?),
            }
        }
    }

    /// `#{…}`, `#_ value`, `#tag value`.
    fn tagged(&mut self, depth: usize) -> Read<Value> {
        self.bump()?;
        match self.peek()? {
            Some(b'{') => {
                self.bump()?;
                self.until_closed(depth)?;
                Ok(Value::Other)
            }
            Some(b'_') => {
                self.bump()?;
                self.value(depth + 1)?;
                self.value(depth + 1)
            }
            _ => {
                self.word()?;
                self.value(depth + 1)
            }
        }
    }

    fn text(&mut self) -> Read<String> {
        self.bump()?;
        let mut bytes = Vec::new();
        loop {
            match self.bump()? {
                None => return bad("the file ends inside a string", "copy the whole file"),
                Some(b'"') => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                Some(b'\\') => bytes.extend(self.bump()?),
                Some(byte) => bytes.push(byte),
            }
        }
    }

    /// Up to a delimiter.
    fn word(&mut self) -> Read<String> {
        let mut bytes = Vec::new();
        while let Some(byte) = self.peek()? {
            if byte.is_ascii_whitespace() || b",;\"{}[]()".contains(&byte) {
                break;
            }
            self.bump()?;
            bytes.push(byte);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn atom(word: String) -> Value {
    if word == "nil" {
        return Value::Nil;
    }
    if let Some(keyword) = word.strip_prefix(':') {
        return Value::Keyword(keyword.to_owned());
    }
    let digits = word.strip_suffix(['N', 'M']).unwrap_or(&word);
    digits.parse().map_or(Value::Other, Value::Integer)
}
