//! `struct`: values as bytes of a given form, as Roberto Ierusalimschy's library has them.
//!
//! Order of things: reading a form, packing, unpacking, sizes.

use mlua::{Lua, MultiValue, Table, Value};

use super::library::{Parameters, add, one};

/// The widest integer, bytes.
const WIDEST: usize = 32;
/// How machines of 64 bits align at most.
const ALIGNMENT: usize = 8;

/// A form while it is read.
struct Form<'a> {
    rest: &'a [u8],
    is_big: bool,
    alignment: usize,
}

/// One element of a form.
struct Element {
    option: u8,
    size: usize,
    /// How many bytes come before it.
    padding: usize,
}

impl Form<'_> {
    fn new(text: &[u8]) -> Form<'_> {
        // A C string.
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Form { rest: &text[..end], is_big: false, alignment: 1 }
    }

    fn number(&mut self, given: &Parameters<'_>, default: usize) -> mlua::Result<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (digits, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i32>().ok());
        let number = number.ok_or_else(|| given.error("integral size overflow"))?;
        Ok(number.unsigned_abs() as usize)
    }

    /// The next element; options that only change the form are taken on the way.
    fn next(&mut self, given: &Parameters<'_>, at: usize) -> mlua::Result<Option<Element>> {
        while let Some((&option, rest)) = self.rest.split_first() {
            self.rest = rest;
            let size = match option {
                b'B' | b'b' | b'x' => 1,
                b'H' | b'h' => 2,
                b'L' | b'l' | b'T' | b'd' => 8,
                b'f' => 4,
                b'c' => self.number(given, 1)?,
                b's' => 0,
                b'i' | b'I' => {
                    let size = self.number(given, 4)?;
                    if size > WIDEST {
                        return Err(given.error(format!(
                            "integral size {size} is larger than limit of {WIDEST}"
                        )));
                    }
                    size
                }
                control => {
                    self.control(given, control)?;
                    continue;
                }
            };
            let aligned = size.min(self.alignment);
            let padding = match size == 0 || option == b'c' {
                true => 0,
                false => aligned.wrapping_sub(at & aligned.wrapping_sub(1)) & (aligned - 1),
            };
            return Ok(Some(Element { option, size, padding }));
        }
        Ok(None)
    }

    fn control(&mut self, given: &Parameters<'_>, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let alignment = self.number(given, ALIGNMENT)?;
                if !alignment.is_power_of_two() {
                    return Err(given.error(format!("alignment {alignment} is not a power of 2")));
                }
                self.alignment = alignment;
            }
            other => {
                let text = format!("invalid format option '{}'", char::from(other));
                return Err(given.wrong(1, &text));
            }
        }
        Ok(())
    }

    /// Appends bytes that are given in the order of small machines.
    fn append(&self, bytes: &mut Vec<u8>, little: &[u8]) {
        match self.is_big {
            true => bytes.extend(little.iter().rev()),
            false => bytes.extend_from_slice(little),
        }
    }
}

/// As x86-64's C converts a double to an integer of 64 bits; what does not fit is undefined in
/// C, and these in fact.
fn integer(number: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number.is_nan() || number < -HALF {
        SIGN
    } else if number < 0.0 {
        number as i64 as u64
    } else if number < 2.0 * HALF {
        number as u64
    } else {
        0
    }
}

fn pack(given: &Parameters<'_>) -> mlua::Result<MultiValue> {
    let text = given.string(1)?;
    let text = text.as_bytes();
    let mut form = Form::new(&text);
    let mut bytes = Vec::new();
    let mut argument = 2;
    while let Some(Element { option, size, padding }) = form.next(given, bytes.len())? {
        bytes.resize(bytes.len() + padding, 0);
        match option {
            b'x' => bytes.push(0),
            b'f' => form.append(&mut bytes, &(given.number(argument)? as f32).to_le_bytes()),
            b'd' => form.append(&mut bytes, &given.number(argument)?.to_le_bytes()),
            b'c' | b's' => {
                let string = given.string(argument)?;
                let string = string.as_bytes();
                let size = if size == 0 { string.len() } else { size };
                let part = string.get(..size);
                bytes.extend_from_slice(
                    part.ok_or_else(|| given.wrong(argument + 1, "string too short"))?,
                );
                if option == b's' {
                    bytes.push(0);
                }
            }
            _ => {
                let mut little = [0; WIDEST];
                little[..8].copy_from_slice(&integer(given.number(argument)?).to_le_bytes());
                form.append(&mut bytes, &little[..size]);
            }
        }
        argument += usize::from(option != b'x');
    }
    one(Value::String(given.lua.create_string(bytes)?))
}

fn unpack(given: &Parameters<'_>) -> mlua::Result<MultiValue> {
    let (text, data) = (given.string(1)?, given.string(2)?);
    let (text, data) = (text.as_bytes(), data.as_bytes());
    let first = given.integer_or(3, 1)?;
    // C takes negative places for huge ones: they are behind the end.
    let mut at = match usize::try_from(first) {
        Ok(0) => return Err(given.wrong(3, "offset must be 1 or greater")),
        Ok(place) => place - 1,
        Err(_) => usize::MAX / 2,
    };
    let mut form = Form::new(&text);
    let mut values: Vec<Value> = Vec::new();
    while let Some(Element { option, size, padding }) = form.next(given, at)? {
        at += padding;
        let too_short = || given.wrong(2, "data string too short");
        let mut part = data.get(at..at.saturating_add(size)).ok_or_else(too_short)?;
        let mut taken = size;
        let ordered = |part: &[u8]| {
            let mut little = part.to_vec();
            if form.is_big {
                little.reverse();
            }
            little
        };
        match option {
            b'x' => {}
            b'f' => {
                let bytes = ordered(part).try_into().map_err(|_| too_short())?;
                values.push(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            b'd' => {
                let bytes = ordered(part).try_into().map_err(|_| too_short())?;
                values.push(Value::Number(f64::from_le_bytes(bytes)));
            }
            b'c' => {
                if size == 0 {
                    let last =
                        values.pop().and_then(|value| given.lua.coerce_number(value).ok()?);
                    let last =
                        last.ok_or_else(|| given.error("format 'c0' needs a previous size"))?;
                    taken = integer(last) as usize;
                    part = data.get(at..at.saturating_add(taken)).ok_or_else(too_short)?;
                }
                values.push(Value::String(given.lua.create_string(part)?));
            }
            b's' => {
                let end = data[at..].iter().position(|byte| *byte == 0);
                let end = end.ok_or_else(|| given.error("unfinished string in data"))?;
                values.push(Value::String(given.lua.create_string(&data[at..at + end])?));
                taken = end + 1;
            }
            _ => values.push(Value::Number(whole(&ordered(part), option.is_ascii_lowercase()))),
        }
        at += taken;
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_iter(values))
}

/// An integer of any width; what is beyond 64 bits does not count.
fn whole(little: &[u8], is_signed: bool) -> f64 {
    let mut bits: u64 = 0;
    for byte in little.iter().rev() {
        bits = bits << 8 | u64::from(*byte);
    }
    if !is_signed {
        return bits as f64;
    }
    let unused = 64 - (8 * little.len()).min(64) as u32;
    // Of no bytes nothing is left to shift.
    if unused == 64 { 0.0 } else { ((bits << unused) as i64 >> unused) as f64 }
}

fn size(given: &Parameters<'_>) -> mlua::Result<MultiValue> {
    let text = given.string(1)?;
    let text = text.as_bytes();
    let mut form = Form::new(&text);
    let mut at: usize = 0;
    while let Some(Element { option, size, padding }) = form.next(given, at)? {
        match (option, size) {
            (b's', _) => return Err(given.wrong(1, "option 's' has no fixed size")),
            (b'c', 0) => return Err(given.wrong(1, "option 'c0' has no fixed size")),
            _ => at += padding + size,
        }
    }
    one(Value::Number(at as f64))
}

/// The library.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    add(lua, &library, "pack", pack)?;
    add(lua, &library, "unpack", unpack)?;
    add(lua, &library, "size", size)?;
    Ok(library)
}
