//! `cjson`: Lua values as JSON, by the rules of the library that Redis brings.
//!
//! Order of things: encoding, decoding. Numbers have 14 digits, `/` is escaped, a table is an
//! array if all its keys are positive integers and few are missing; `cjson.null` is a null
//! pointer. The texts of the errors are the library's.

use mlua::{Lua, Table, Value};

use super::super::codec::number::general;

/// Ours recurses in Rust: it stops earlier than the machine's stack.
const DEPTH_OURS: usize = 128;

/// What becomes of numbers that JSON has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    /// They are errors.
    Refused,
    /// They are written as C prints them.
    Written,
    /// They are null.
    Null,
}

/// What scripts may decide, until the scripts are flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Arrays that lack too many elements become objects, rather than errors.
    pub(super) converts_sparse: bool,
    /// An array of more than `sparse_safe` elements may be so many times as long as it has
    /// elements; 0: it may always.
    pub(super) sparse_ratio: usize,
    pub(super) sparse_safe: usize,
    pub(super) encode_depth: usize,
    pub(super) decode_depth: usize,
    /// Digits of a number.
    pub(super) digits: usize,
    /// Told to those who ask; it changes nothing here.
    pub(super) keeps_buffer: bool,
    pub(super) encode_invalid: Invalid,
    pub(super) decodes_invalid: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            converts_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: 1_000,
            decode_depth: 1_000,
            digits: 14,
            keeps_buffer: true,
            encode_invalid: Invalid::Refused,
            decodes_invalid: true,
        }
    }
}

/// An error of the library's, without a code.
pub(super) type Problem = String;

/// Encodes a value.
pub(super) fn encode(
    value: &Value,
    settings: Settings,
    limit_bytes: usize,
) -> Result<Vec<u8>, Problem> {
    let mut encoder = Encoder { text: Vec::new(), settings, limit_bytes };
    encoder.append(value, 0)?;
    Ok(encoder.text)
}

struct Encoder {
    text: Vec<u8>,
    settings: Settings,
    limit_bytes: usize,
}

impl Encoder {
    fn append(&mut self, value: &Value, depth: usize) -> Result<(), Problem> {
        if self.text.len() > self.limit_bytes {
            return Err("not enough memory".to_owned());
        }
        match value {
            Value::Nil => self.text.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => {
                self.text.extend_from_slice(b"null");
            }
            Value::Boolean(true) => self.text.extend_from_slice(b"true"),
            Value::Boolean(false) => self.text.extend_from_slice(b"false"),
            Value::Integer(integer) => self.append_number(*integer as f64)?,
            Value::Number(number) => self.append_number(*number)?,
            Value::String(string) => append_string(&mut self.text, &string.as_bytes()),
            Value::Table(table) => self.append_table(table, depth + 1)?,
            other => {
                return Err(format!("Cannot serialise {}: type not supported", other.type_name()));
            }
        }
        Ok(())
    }

    fn append_number(&mut self, number: f64) -> Result<(), Problem> {
        let text: &[u8] = match (number.is_finite(), self.settings.encode_invalid) {
            (true, _) => {
                self.text.extend_from_slice(general(number, self.settings.digits).as_bytes());
                return Ok(());
            }
            (false, Invalid::Refused) => {
                return Err("Cannot serialise number: must not be NaN or Inf".to_owned());
            }
            (false, Invalid::Null) => b"null",
            (false, Invalid::Written) if number.is_nan() => b"nan",
            (false, Invalid::Written) if number < 0.0 => b"-inf",
            (false, Invalid::Written) => b"inf",
        };
        self.text.extend_from_slice(text);
        Ok(())
    }

    /// How long a table is as an array; `None`: it is an object.
    fn array_length(&self, table: &Table) -> Result<Option<usize>, Problem> {
        let Settings { converts_sparse, sparse_ratio, sparse_safe, .. } = self.settings;
        let (mut count, mut longest): (usize, usize) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            let index = match pair.map_err(|error| problem(&error))?.0 {
                Value::Integer(index) if index > 0 => index as usize,
                Value::Number(index) if index > 0.0 && index.fract() == 0.0 => index as usize,
                _ => return Ok(None),
            };
            (count, longest) = (count + 1, longest.max(index));
        }
        let most = count.saturating_mul(sparse_ratio);
        if sparse_ratio > 0 && longest > sparse_safe && longest > most {
            if converts_sparse {
                return Ok(None);
            }
            return Err("Cannot serialise table: excessively sparse array".to_owned());
        }
        Ok((longest > 0).then_some(longest))
    }

    fn append_table(&mut self, table: &Table, depth: usize) -> Result<(), Problem> {
        if depth > DEPTH_OURS.min(self.settings.encode_depth) {
            return Err(format!("Cannot serialise, excessive nesting ({depth})"));
        }
        // Walked through twice: Lua lends only some thousand values at a time.
        if let Some(length) = self.array_length(table)? {
            self.text.push(b'[');
            for index in 1..=length {
                if index > 1 {
                    self.text.push(b',');
                }
                let value = table.raw_get(index).map_err(|error| problem(&error))?;
                self.append(&value, depth)?;
            }
            self.text.push(b']');
            return Ok(());
        }
        self.append_object(table, depth)
    }

    fn append_object(&mut self, table: &Table, depth: usize) -> Result<(), Problem> {
        self.text.push(b'{');
        for (index, pair) in table.pairs::<Value, Value>().enumerate() {
            let (key, value) = pair.map_err(|error| problem(&error))?;
            if index > 0 {
                self.text.push(b',');
            }
            match &key {
                Value::String(name) => append_string(&mut self.text, &name.as_bytes()),
                Value::Integer(_) | Value::Number(_) => {
                    self.text.push(b'"');
                    self.append(&key, depth)?;
                    self.text.push(b'"');
                }
                other => {
                    let kind = other.type_name();
                    return Err(format!(
                        "Cannot serialise {kind}: table key must be a number or string"
                    ));
                }
            }
            self.text.push(b':');
            self.append(&value, depth)?;
        }
        self.text.push(b'}');
        Ok(())
    }
}

fn append_string(text: &mut Vec<u8>, string: &[u8]) {
    text.push(b'"');
    for byte in string {
        match byte {
            b'"' => text.extend_from_slice(b"\\\""),
            b'\\' => text.extend_from_slice(b"\\\\"),
            b'/' => text.extend_from_slice(b"\\/"),
            0x08 => text.extend_from_slice(b"\\b"),
            0x0c => text.extend_from_slice(b"\\f"),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            0..0x20 | 0x7f => text.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => text.push(*byte),
        }
    }
    text.push(b'"');
}

fn problem(error: &mlua::Error) -> Problem {
    error.to_string()
}

/// Decodes a text.
pub(super) fn decode(lua: &Lua, text: &[u8], settings: Settings) -> Result<Value, Problem> {
    let mut decoder = Decoder { lua, text, at: 0, settings };
    let value = decoder.value(0)?;
    decoder.blanks();
    match decoder.at == text.len() {
        true => Ok(value),
        false => Err(decoder.expected("the end")),
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    settings: Settings,
}

impl Decoder<'_> {
    fn blanks(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// What is there in place of what should be.
    fn expected(&self, what: &str) -> Problem {
        let found = match self.text.get(self.at) {
            None => "T_END",
            Some(b'{') => "T_OBJ_BEGIN",
            Some(b'}') => "T_OBJ_END",
            Some(b'[') => "T_ARR_BEGIN",
            Some(b']') => "T_ARR_END",
            Some(b'"') => "T_STRING",
            Some(b':') => "T_COLON",
            Some(b',') => "T_COMMA",
            Some(b'0'..=b'9' | b'-') => "T_NUMBER",
            Some(_) => "invalid token",
        };
        format!("Expected {what} but found {found} at character {}", self.at + 1)
    }

    fn takes(&mut self, word: &[u8]) -> bool {
        let is_there = self.text[self.at..].starts_with(word);
        if is_there {
            self.at += word.len();
        }
        is_there
    }

    fn value(&mut self, depth: usize) -> Result<Value, Problem> {
        self.blanks();
        match self.text.get(self.at) {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => {
                let string = self.string()?;
                let string = self.lua.create_string(string).map_err(|error| problem(&error))?;
                Ok(Value::String(string))
            }
            Some(b'0'..=b'9' | b'-') => self.number(),
            _ if self.takes(b"null") => Ok(Value::NULL),
            _ if self.takes(b"true") => Ok(Value::Boolean(true)),
            _ if self.takes(b"false") => Ok(Value::Boolean(false)),
            _ if self.settings.decodes_invalid => self.invalid_number(),
            _ => Err(self.expected("value")),
        }
    }

    fn check_depth(&self, depth: usize) -> Result<(), Problem> {
        if depth <= DEPTH_OURS.min(self.settings.decode_depth) {
            return Ok(());
        }
        let at = self.at + 1;
        Err(format!("Found too many nested data structures ({depth}) at character {at}"))
    }

    fn array(&mut self, depth: usize) -> Result<Value, Problem> {
        self.check_depth(depth)?;
        self.at += 1;
        let table = self.lua.create_table().map_err(|error| problem(&error))?;
        self.blanks();
        if self.takes(b"]") {
            return Ok(Value::Table(table));
        }
        for index in 1.. {
            let value = self.value(depth)?;
            table.raw_set(index, value).map_err(|error| problem(&error))?;
            self.blanks();
            if self.takes(b"]") {
                break;
            }
            if !self.takes(b",") {
                return Err(self.expected("comma or array end"));
            }
        }
        Ok(Value::Table(table))
    }

    fn object(&mut self, depth: usize) -> Result<Value, Problem> {
        self.check_depth(depth)?;
        self.at += 1;
        let table = self.lua.create_table().map_err(|error| problem(&error))?;
        self.blanks();
        if self.takes(b"}") {
            return Ok(Value::Table(table));
        }
        loop {
            self.blanks();
            if self.text.get(self.at) != Some(&b'"') {
                return Err(self.expected("object key string"));
            }
            let name = self.string()?;
            let name = self.lua.create_string(name).map_err(|error| problem(&error))?;
            self.blanks();
            if !self.takes(b":") {
                return Err(self.expected("colon"));
            }
            let value = self.value(depth)?;
            table.raw_set(name, value).map_err(|error| problem(&error))?;
            self.blanks();
            if self.takes(b"}") {
                return Ok(Value::Table(table));
            }
            if !self.takes(b",") {
                return Err(self.expected("comma or object end"));
            }
        }
    }

    /// What only C takes for a number.
    fn invalid_number(&mut self) -> Result<Value, Problem> {
        let rest = &self.text[self.at..];
        let (sign, word) = match rest {
            [b'-', word @ ..] => (-1.0, word),
            word => (1.0, word),
        };
        let begins = |name: &[u8]| {
            word.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        let (number, length) = match () {
            () if begins(b"infinity") => (f64::INFINITY, 8),
            () if begins(b"inf") => (f64::INFINITY, 3),
            () if begins(b"nan") => (f64::NAN, 3),
            () => return Err(self.expected("value")),
        };
        self.at += length + usize::from(sign < 0.0);
        Ok(Value::Number(sign * number))
    }

    fn number(&mut self) -> Result<Value, Problem> {
        let rest = &self.text[self.at..];
        let digits = rest.strip_prefix(b"-").unwrap_or(rest);
        let is_word = digits.first().is_some_and(u8::is_ascii_alphabetic);
        if is_word && self.settings.decodes_invalid {
            return self.invalid_number();
        }
        let has_zero = matches!(digits, [b'0', b'0'..=b'9', ..]);
        if has_zero && !self.settings.decodes_invalid {
            let at = self.at + 1;
            return Err(format!("Expected value but found invalid number at character {at}"));
        }
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = self.text[self.at..].iter().take_while(|byte| is_part(byte)).count();
        let digits = &self.text[self.at..self.at + length];
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let Some(number) = number else {
            let at = self.at + 1;
            return Err(format!("Expected value but found invalid number at character {at}"));
        };
        self.at += length;
        Ok(Value::Number(number))
    }

    /// The four hexadecimal digits of a `\u` escape.
    fn code(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let digits = std::str::from_utf8(digits).ok()?;
        let code = u32::from_str_radix(digits, 16).ok()?;
        self.at += 4;
        Some(code)
    }

    fn string(&mut self) -> Result<Vec<u8>, Problem> {
        self.at += 1;
        let mut string = Vec::new();
        loop {
            let from = self.at;
            let bad = |what: &str| {
                Err(format!("Expected value but found {what} at character {}", from + 1))
            };
            match self.text.get(self.at) {
                None => return bad("unexpected end of string"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => {}
                Some(byte) => {
                    string.push(*byte);
                    self.at += 1;
                    continue;
                }
            }
            self.at += 2;
            match self.text.get(self.at - 1) {
                Some(byte @ (b'"' | b'\\' | b'/')) => string.push(*byte),
                Some(b'b') => string.push(0x08),
                Some(b'f') => string.push(0x0c),
                Some(b'n') => string.push(b'\n'),
                Some(b'r') => string.push(b'\r'),
                Some(b't') => string.push(b'\t'),
                Some(b'u') => {
                    let Some(character) = self.character() else {
                        return bad("invalid unicode escape code");
                    };
                    let mut buffer = [0; 4];
                    string.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                }
                _ => return bad("invalid escape code"),
            }
        }
    }

    /// A character by its code, or by a pair of them.
    fn character(&mut self) -> Option<char> {
        let first = self.code()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        if !self.takes(b"\\u") {
            return None;
        }
        let second = self.code().filter(|code| (0xdc00..0xe000).contains(code))?;
        char::from_u32(0x10000 + ((first & 0x3ff) << 10 | second & 0x3ff))
    }
}
