//! Values on their way between Redis and Lua, by the rules of Redis 7.0.

use mlua::{Lua, Table, Value};

use super::super::codec::number::{general, parse_integer};
use super::super::codec::{OwnedArguments, ReplyEncoder};
use super::super::command::{Failure, Outcome};
use super::super::statistics::Statistics;

/// How deep tables may nest in a reply; deeper ones are answered with an error, as
/// Redis does when its Lua stack is full.
const DEPTH_MAX: usize = 128;

const TOO_LARGE: &str = "ERR the script's result exceeds the limit of a reply";

/// Appends a command's argument. False: neither a string nor a number.
pub(super) fn push_argument(arguments: &mut OwnedArguments, value: &Value) -> bool {
    match value {
        Value::String(text) => arguments.push(&text.as_bytes()),
        // `%.17g`, which is the integer itself up to 17 digits.
        Value::Integer(integer) if integer.unsigned_abs() < 100_000_000_000_000_000 => {
            arguments.push_integer(*integer);
        }
        Value::Integer(integer) => arguments.push(general(*integer as f64, 17).as_bytes()),
        Value::Number(number) => {
            arguments.push(super::super::codec::number::format_double(*number).as_bytes());
        }
        _ => return false,
    }
    true
}

/// An error text with a code: the first of two words or more, else ERR.
pub(super) fn error_text(text: &[u8]) -> Vec<u8> {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |end| end + 1);
    let text = &text[..end];
    if text.contains(&b' ') { text.to_vec() } else { [b"ERR ", text].concat() }
}

/// `{err = text}`.
pub(super) fn error_table(lua: &Lua, text: &[u8]) -> mlua::Result<Value> {
    single(lua, "err", Value::String(lua.create_string(text)?))
}

fn single(lua: &Lua, field: &str, value: Value) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(field, value)?;
    Ok(Value::Table(table))
}

/// What a command's reply is to a script. `reply` is of our own making: one whole
/// reply, nothing malformed.
pub(super) fn value(lua: &Lua, reply: &[u8], resp3: bool) -> mlua::Result<Value> {
    Parser { lua, rest: reply, resp3 }.value()
}

struct Parser<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
    resp3: bool,
}

impl<'a> Parser<'a> {
    fn line(&mut self) -> (u8, &'a [u8]) {
        let end = self.rest.iter().position(|byte| *byte == b'\r').unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(2..).unwrap_or_default();
        line.split_first().map_or((b'_', &[][..]), |(kind, text)| (*kind, text))
    }

    fn bulk(&mut self, length: usize) -> &'a [u8] {
        let (bulk, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest.get(2..).unwrap_or_default();
        bulk
    }

    /// In RESP2, null is false; in RESP3 it is nil.
    fn null(&self) -> Value {
        if self.resp3 { Value::Nil } else { Value::Boolean(false) }
    }

    fn string(&self, bytes: &[u8]) -> mlua::Result<Value> {
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn value(&mut self) -> mlua::Result<Value> {
        let (kind, text) = self.line();
        let number = parse_integer(text).unwrap_or(0);
        let length = usize::try_from(number);
        match (kind, length) {
            (b':', _) => Ok(Value::Number(number as f64)),
            (b'+', _) => single(self.lua, "ok", self.string(text)?),
            (b'-', _) => error_table(self.lua, text),
            (b'$', Ok(length)) => {
                let bulk = self.bulk(length);
                self.string(bulk)
            }
            (b'=', Ok(length)) => {
                let bulk = self.bulk(length);
                let table = self.lua.create_table()?;
                table.raw_set("format", self.string(bulk.get(..3).unwrap_or_default())?)?;
                table.raw_set("string", self.string(bulk.get(4..).unwrap_or_default())?)?;
                single(self.lua, "verbatim_string", Value::Table(table))
            }
            (b'*' | b'>', Ok(length)) => {
                let table = self.lua.create_table_with_capacity(length.min(1024), 0)?;
                for index in 1..=length {
                    let value = self.value()?;
                    table.raw_set(index, value)?;
                }
                Ok(Value::Table(table))
            }
            (b'~', Ok(length)) => {
                let set = self.lua.create_table()?;
                for _ in 0..length {
                    let value = self.value()?;
                    set.raw_set(value, true)?;
                }
                single(self.lua, "set", Value::Table(set))
            }
            (b'%', Ok(length)) => {
                let map = self.lua.create_table()?;
                for _ in 0..length {
                    let key = self.value()?;
                    let value = self.value()?;
                    map.raw_set(key, value)?;
                }
                single(self.lua, "map", Value::Table(map))
            }
            (b'|', Ok(length)) => {
                // Not for scripts: only what follows it is.
                for _ in 0..2 * length {
                    self.value()?;
                }
                self.value()
            }
            (b'#', _) => Ok(Value::Boolean(text == b"t")),
            (b',', _) => {
                let double = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                single(self.lua, "double", Value::Number(double.unwrap_or(f64::NAN)))
            }
            (b'(', _) => single(self.lua, "big_number", self.string(text)?),
            _ => Ok(self.null()),
        }
    }
}

/// What a script's result is to the client. It may have at most `elements` elements,
/// tables and what is in them.
pub(super) fn reply(
    reply: &mut ReplyEncoder,
    statistics: &mut Statistics,
    value: &Value,
    resp3: bool,
    elements: u64,
) -> Outcome {
    Writer { reply, statistics, resp3, elements }.append(value, 0)
}

struct Writer<'a> {
    reply: &'a mut ReplyEncoder,
    /// Of the errors that it answers.
    statistics: &'a mut Statistics,
    resp3: bool,
    /// How many more there may be.
    elements: u64,
}

impl Writer<'_> {
    fn append(&mut self, value: &Value, depth: usize) -> Outcome {
        // A small table that contains itself twice has more elements than there is time.
        self.elements = self.elements.checked_sub(1).ok_or(TOO_LARGE)?;
        if self.reply.is_full() {
            return Err(TOO_LARGE.into());
        }
        match value {
            Value::String(text) => self.reply.bulk(&text.as_bytes()),
            Value::Integer(integer) => self.reply.integer(*integer),
            Value::Number(number) => self.reply.integer(truncate(*number)),
            Value::Boolean(boolean) if self.resp3 => self.reply.boolean(*boolean),
            Value::Boolean(true) => self.reply.integer(1),
            Value::Table(table) => self.append_table(table, depth)?,
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn append_table(&mut self, table: &Table, depth: usize) -> Outcome {
        if depth >= DEPTH_MAX {
            let failure = b"ERR reached lua stack limit";
            self.statistics.answer(failure);
            self.reply.error(failure);
            return Ok(());
        }
        if self.append_line(table)? || self.append_wrapped(table, depth)? {
            return Ok(());
        }
        // Up to the first nil.
        let mut length = 0;
        while !matches!(table.raw_get(length + 1)?, Value::Nil) {
            length += 1;
        }
        self.reply.array(length);
        for index in 1..=length {
            self.append(&table.raw_get(index)?, depth + 1)?;
        }
        Ok(())
    }

    /// `{err=…}` and `{ok=…}`. False: it is neither.
    fn append_line(&mut self, table: &Table) -> Result<bool, Failure> {
        if let Value::String(text) = table.raw_get("err")? {
            // It is so of what `redis.call` has raised, unless the script did it.
            match table.raw_get("ignore_error_stats_update")? {
                Value::Boolean(true) => self.statistics.repeat(),
                _ => self.statistics.answer(&text.as_bytes()),
            }
            self.reply.error(&text.as_bytes());
            return Ok(true);
        }
        if let Value::String(text) = table.raw_get("ok")? {
            self.reply.simple(&text.as_bytes());
            return Ok(true);
        }
        Ok(false)
    }

    /// A type of RESP3 in a table of one field. False: it is none.
    fn append_wrapped(&mut self, table: &Table, depth: usize) -> Result<bool, Failure> {
        match table.raw_get("double")? {
            Value::Number(number) => self.reply.double(number),
            Value::Integer(integer) => self.reply.double(integer as f64),
            _ => return self.append_collection(table, depth),
        }
        Ok(true)
    }

    fn append_collection(&mut self, table: &Table, depth: usize) -> Result<bool, Failure> {
        if let Value::Table(map) = table.raw_get("map")? {
            self.reply.map(count(&map));
            for pair in map.pairs::<Value, Value>() {
                let (key, value) = pair?;
                self.append(&key, depth + 1)?;
                self.append(&value, depth + 1)?;
            }
            return Ok(true);
        }
        if let Value::Table(set) = table.raw_get("set")? {
            self.reply.set(count(&set));
            for pair in set.pairs::<Value, Value>() {
                self.append(&pair?.0, depth + 1)?;
            }
            return Ok(true);
        }
        if let Value::String(digits) = table.raw_get("big_number")? {
            // Also where it becomes a string: there Redis cleans it as well.
            let mut digits = digits.as_bytes().to_vec();
            digits
                .iter_mut()
                .filter(|byte| matches!(byte, b'\r' | b'\n'))
                .for_each(|byte| *byte = b' ');
            self.reply.big_number(&digits);
            return Ok(true);
        }
        if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
            && let (Value::String(format), Value::String(text)) =
                (verbatim.raw_get("format")?, verbatim.raw_get("string")?)
        {
            let format: [u8; 3] = format.as_bytes().as_ref().try_into().unwrap_or(*b"txt");
            self.reply.verbatim(&format, &text.as_bytes());
            return Ok(true);
        }
        Ok(false)
    }
}

/// As C converts doubles to integers on the machines that Redis runs on.
fn truncate(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// How many fields a table has. Lua lends only some thousand values at a time, so that they
/// are walked through again.
fn count(table: &Table) -> usize {
    table.pairs::<Value, Value>().count()
}
