//! `bit`: operations on 32 bits, as Lua BitOp has them.

use mlua::{Lua, MultiValue, Table, Value};

use super::library::{Parameters, add, one};

/// Added to a double, this leaves its integer in the lowest bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

fn bits(parameters: &Parameters<'_>, number: usize) -> mlua::Result<u32> {
    Ok((parameters.number(number)? + ROUNDER).to_bits() as u32)
}

/// Results are signed.
fn signed(bits: u32) -> mlua::Result<MultiValue> {
    one(Value::Number(f64::from(bits as i32)))
}

fn tohex(parameters: &Parameters<'_>) -> mlua::Result<MultiValue> {
    let bits_shown = bits(parameters, 1)?;
    let digits = if parameters.len() < 2 { 8 } else { bits(parameters, 2)? as i32 };
    let count = (digits.unsigned_abs() as usize).min(8);
    let hex = match digits < 0 {
        true => format!("{bits_shown:08X}"),
        false => format!("{bits_shown:08x}"),
    };
    one(Value::String(parameters.lua.create_string(&hex[8 - count..])?))
}

/// What two words give.
type Operation = fn(u32, u32) -> u32;

/// The library.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    add(lua, &library, "tobit", |given| signed(bits(given, 1)?))?;
    add(lua, &library, "bnot", |given| signed(!bits(given, 1)?))?;
    add(lua, &library, "bswap", |given| signed(bits(given, 1)?.swap_bytes()))?;
    add(lua, &library, "tohex", tohex)?;
    let folds: [(&str, Operation); 3] = [
        ("band", |left, right| left & right),
        ("bor", |left, right| left | right),
        ("bxor", |left, right| left ^ right),
    ];
    for (name, fold) in folds {
        add(lua, &library, name, move |given| {
            let mut result = bits(given, 1)?;
            for number in 2..=given.len() {
                result = fold(result, bits(given, number)?);
            }
            signed(result)
        })?;
    }
    let shifts: [(&str, Operation); 5] = [
        ("lshift", |bits, by| bits << by),
        ("rshift", |bits, by| bits >> by),
        ("arshift", |bits, by| (bits as i32 >> by) as u32),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, shift) in shifts {
        add(lua, &library, name, move |given| {
            signed(shift(bits(given, 1)?, bits(given, 2)? & 31))
        })?;
    }
    Ok(library)
}
