//! `cmsgpack`: Lua values as MessagePack, by the rules of the library that Redis brings.
//!
//! Order of things: packing, unpacking, the functions. Tables nest 16 deep and are nil below
//! that; a table is an array if its keys are 1 to its length.

use mlua::{Lua, MultiValue, Table, Value};

use super::library::{Parameters, add, one};

/// How deep tables are packed.
const DEPTH_MAX: usize = 16;
/// How deep they are unpacked: ours recurses in Rust.
const DEPTH_OURS: usize = 128;

struct Packer<'a> {
    given: &'a Parameters<'a>,
    bytes: Vec<u8>,
    limit_bytes: usize,
}

impl Packer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        // A table that contains itself many times has more elements than there is memory.
        if self.bytes.len() > self.limit_bytes {
            return Err(self.given.error("not enough memory"));
        }
        match value {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Boolean(boolean) => self.bytes.push(0xc2 + u8::from(*boolean)),
            Value::Integer(integer) => self.integer(*integer),
            Value::Number(number) => self.number(*number),
            Value::Table(table) if depth < DEPTH_MAX => self.table(table, depth)?,
            _ => self.bytes.push(0xc0),
        }
        Ok(())
    }

    /// A length behind its mark: within a byte up to `short`, else in 16 or 32 bits.
    fn length(&mut self, length: usize, (mark, short): (u8, usize), wide: u8) {
        if length <= short {
            self.bytes.push(mark | length as u8);
        } else if let Ok(length) = u16::try_from(length) {
            self.bytes.push(wide);
            self.bytes.extend_from_slice(&length.to_be_bytes());
        } else {
            self.bytes.push(wide + 1);
            self.bytes.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }

    fn string(&mut self, text: &[u8]) {
        match text.len() {
            32..=255 => self.bytes.extend_from_slice(&[0xd9, text.len() as u8]),
            length => self.length(length, (0xa0, 31), 0xda),
        }
        self.bytes.extend_from_slice(text);
    }

    fn number(&mut self, number: f64) {
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        if (-LIMIT..LIMIT).contains(&number) && number.fract() == 0.0 {
            self.integer(number as i64);
        } else if f64::from(number as f32) == number {
            self.bytes.push(0xca);
            self.bytes.extend_from_slice(&(number as f32).to_be_bytes());
        } else {
            self.bytes.push(0xcb);
            self.bytes.extend_from_slice(&number.to_be_bytes());
        }
    }

    /// In as few bytes as it takes.
    fn integer(&mut self, integer: i64) {
        let (mark, width) = match integer {
            -0x20..=0x7f => (None, 1),
            0x80..=0xff => (Some(0xcc), 1),
            0x100..=0xffff => (Some(0xcd), 2),
            0x1_0000..=0xffff_ffff => (Some(0xce), 4),
            0x1_0000_0000.. => (Some(0xcf), 8),
            -0x80..-0x20 => (Some(0xd0), 1),
            -0x8000..-0x80 => (Some(0xd1), 2),
            -0x8000_0000..-0x8000 => (Some(0xd2), 4),
            _ => (Some(0xd3), 8),
        };
        self.bytes.extend(mark);
        self.bytes.extend_from_slice(&integer.to_be_bytes()[8 - width..]);
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        // Walked through twice: Lua lends only some thousand values at a time.
        let (mut count, mut most): (i64, i64) = (0, 0);
        let mut is_array = true;
        for pair in table.pairs::<Value, Value>() {
            let index = match pair?.0 {
                Value::Integer(index) => index,
                Value::Number(index) if index.fract() == 0.0 => index as i64,
                _ => 0,
            };
            is_array &= (1..=i64::from(i32::MAX)).contains(&index);
            (count, most) = (count + 1, most.max(index));
        }
        if is_array && most == count {
            self.length(count as usize, (0x90, 15), 0xdc);
            for index in 1..=most {
                self.value(&table.get(index)?, depth + 1)?;
            }
            return Ok(());
        }
        self.length(count as usize, (0x80, 15), 0xde);
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }
}

fn pack(given: &Parameters<'_>, limit_bytes: usize) -> mlua::Result<MultiValue> {
    if given.len() == 0 {
        return Err(given.wrong(0, "MessagePack pack needs input."));
    }
    let mut packer = Packer { given, bytes: Vec::new(), limit_bytes };
    for number in 1..=given.len() {
        packer.value(&given.value(number), 0)?;
    }
    one(Value::String(given.lua.create_string(&packer.bytes)?))
}

struct Unpacker<'a> {
    given: &'a Parameters<'a>,
    rest: &'a [u8],
}

impl<'a> Unpacker<'a> {
    fn take(&mut self, count: usize) -> mlua::Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| self.given.error("Missing bytes in input."))?;
        self.rest = rest;
        Ok(taken)
    }

    /// Bytes as a number without a sign.
    fn unsigned(&mut self, width: usize) -> mlua::Result<u64> {
        Ok(self.take(width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(&mut self, width: usize) -> mlua::Result<usize> {
        Ok(self.unsigned(width)? as usize)
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        let mark = self.take(1)?[0];
        Ok(match mark {
            0..=0x7f => Value::Number(f64::from(mark)),
            0xe0.. => Value::Number(f64::from(mark as i8)),
            0x80..=0x8f => self.map(usize::from(mark & 15), depth)?,
            0x90..=0x9f => self.array(usize::from(mark & 15), depth)?,
            0xa0..=0xbf => self.string(usize::from(mark & 31))?,
            0xc0 => Value::Nil,
            0xc2 | 0xc3 => Value::Boolean(mark == 0xc3),
            0xca => Value::Number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xcb => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xcc..=0xcf => {
                // The library hands integers of 64 bits over as signed ones.
                let number = self.unsigned(1 << (mark - 0xcc))?;
                Value::Number(number as i64 as f64)
            }
            0xd0..=0xd3 => {
                let width = 1 << (mark - 0xd0);
                let unused = 64 - 8 * width as u32;
                let number = self.unsigned(width)?;
                Value::Number(((number << unused) as i64 >> unused) as f64)
            }
            0xd9..=0xdb => {
                let length = self.length(1 << (mark - 0xd9))?;
                self.string(length)?
            }
            0xdc | 0xdd => {
                let length = self.length(2 << (mark - 0xdc))?;
                self.array(length, depth)?
            }
            0xde | 0xdf => {
                let length = self.length(2 << (mark - 0xde))?;
                self.map(length, depth)?
            }
            _ => return Err(self.given.error("Bad data format in input.")),
        })
    }

    fn string(&mut self, length: usize) -> mlua::Result<Value> {
        let text = self.take(length)?;
        Ok(Value::String(self.given.lua.create_string(text)?))
    }

    fn deeper(&self, depth: usize) -> mlua::Result<usize> {
        if depth >= DEPTH_OURS {
            return Err(self.given.error("Bad data format in input."));
        }
        Ok(depth + 1)
    }

    fn array(&mut self, length: usize, depth: usize) -> mlua::Result<Value> {
        let depth = self.deeper(depth)?;
        let table = self.given.lua.create_table()?;
        for index in 1..=length {
            table.raw_set(index, self.value(depth)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, length: usize, depth: usize) -> mlua::Result<Value> {
        let depth = self.deeper(depth)?;
        let table = self.given.lua.create_table()?;
        for _ in 0..length {
            let key = self.value(depth)?;
            let value = self.value(depth)?;
            match key {
                Value::Nil => return Err(self.given.error("table index is nil")),
                Value::Number(number) if number.is_nan() => {
                    return Err(self.given.error("table index is NaN"));
                }
                key => table.raw_set(key, value)?,
            }
        }
        Ok(Value::Table(table))
    }
}

/// At most `limit` values from `offset` on, behind the place of the next; all values alone if
/// both are 0.
fn unpack_from(given: &Parameters<'_>, limit: i64, offset: i64) -> mlua::Result<MultiValue> {
    let text = given.string(1)?;
    let text = text.as_bytes();
    if offset < 0 || limit < 0 {
        let length = text.len();
        return Err(given.error(format!(
            "Invalid request to unpack with offset of {offset} and limit of {length}."
        )));
    }
    let Some(rest) = text.get(usize::try_from(offset).unwrap_or(usize::MAX)..) else {
        let length = text.len();
        return Err(
            given.error(format!("Start offset {offset} greater than input length {length}."))
        );
    };
    let is_all = limit == 0 && offset == 0;
    let most = if is_all { i64::from(i32::MAX) } else { limit };
    let mut unpacker = Unpacker { given, rest };
    let mut values = Vec::new();
    while !unpacker.rest.is_empty() && (values.len() as i64) < most {
        values.push(unpacker.value(0)?);
    }
    if !is_all {
        let left = unpacker.rest.len();
        let next = if left == 0 { -1.0 } else { (text.len() - left) as f64 };
        values.insert(0, Value::Number(next));
    }
    Ok(MultiValue::from_iter(values))
}

/// The library. What is packed is at most so large.
pub(super) fn library(lua: &Lua, limit_bytes: usize) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    add(lua, &library, "pack", move |given| pack(given, limit_bytes))?;
    add(lua, &library, "unpack", |given| unpack_from(given, 0, 0))?;
    add(lua, &library, "unpack_one", |given| unpack_from(given, 1, given.integer_or(2, 0)?))?;
    add(lua, &library, "unpack_limit", |given| {
        let limit = given.number(2)? as i64;
        unpack_from(given, limit, given.integer_or(3, 0)?)
    })?;
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    library.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(library)
}
