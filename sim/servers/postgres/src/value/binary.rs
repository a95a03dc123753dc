//! Values in the wire's binary form, both ways.

use super::{Interval, Type, Value};
use crate::error::{SqlError, SqlResult};

/// Appends the value; it is not NULL.
pub(crate) fn write(data_type: Type, value: &Value, to: &mut Vec<u8>) {
    match value {
        Value::Null | Value::Void => {}
        Value::Bool(value) => to.push(u8::from(*value)),
        Value::Int(value) => match data_type {
            Type::Int2 => to.extend_from_slice(&(*value as i16).to_be_bytes()),
            Type::Int8 => to.extend_from_slice(&value.to_be_bytes()),
            // oid and xid are unsigned: the same low bits.
            _ => to.extend_from_slice(&(*value as u32).to_be_bytes()),
        },
        Value::Float(value) => to.extend_from_slice(&value.to_be_bytes()),
        Value::Numeric(value) => {
            let (groups, weight, is_negative, scale) = value.to_groups();
            let sign: i16 = if is_negative { 0x4000 } else { 0 };
            for field in [groups.len() as i16, weight, sign, scale].iter().chain(&groups) {
                to.extend_from_slice(&field.to_be_bytes());
            }
        }
        Value::Text(text) => to.extend_from_slice(text.as_bytes()),
        Value::Timestamp(us) => to.extend_from_slice(&us.to_be_bytes()),
        Value::Interval(interval) => {
            to.extend_from_slice(&interval.us.to_be_bytes());
            to.extend_from_slice(&interval.days.to_be_bytes());
            to.extend_from_slice(&interval.months.to_be_bytes());
        }
        Value::Array(elements) => array(data_type, elements, to),
    }
}

fn array(data_type: Type, elements: &[Value], to: &mut Vec<u8>) {
    let element_type = data_type.element().unwrap_or(Type::Text);
    let dimensions = i32::from(!elements.is_empty());
    let has_null = i32::from(elements.iter().any(Value::is_null));
    to.extend_from_slice(&dimensions.to_be_bytes());
    to.extend_from_slice(&has_null.to_be_bytes());
    to.extend_from_slice(&element_type.oid().to_be_bytes());
    if elements.is_empty() {
        return;
    }
    to.extend_from_slice(&(elements.len() as i32).to_be_bytes());
    to.extend_from_slice(&1i32.to_be_bytes());
    for element in elements {
        if element.is_null() {
            to.extend_from_slice(&(-1i32).to_be_bytes());
            continue;
        }
        let at = to.len();
        to.extend_from_slice(&[0; 4]);
        write(element_type, element, to);
        let length = (to.len() - at - 4) as i32;
        to[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Reads a value of `data_type`, all of `bytes`.
///
/// # Errors
/// 22P03 for a wrong length or content, 22021 for text that is no UTF-8.
pub(crate) fn read(data_type: Type, bytes: &[u8], number: usize) -> SqlResult<Value> {
    let wrong = || {
        let text = format!("incorrect binary data format in bind parameter {number}");
        SqlError::new("22P03", text)
    };
    let mut reader = Reader(bytes);
    let value = match data_type {
        Type::Bool => Value::Bool(reader.take::<1>().ok_or_else(wrong)?[0] != 0),
        Type::Int2 => Value::Int(i16::from_be_bytes(reader.take().ok_or_else(wrong)?).into()),
        Type::Int4 => Value::Int(i32::from_be_bytes(reader.take().ok_or_else(wrong)?).into()),
        Type::Oid | Type::Xid => {
            Value::Int(u32::from_be_bytes(reader.take().ok_or_else(wrong)?).into())
        }
        Type::Int8 => Value::Int(i64::from_be_bytes(reader.take().ok_or_else(wrong)?)),
        Type::Float8 => Value::Float(f64::from_be_bytes(reader.take().ok_or_else(wrong)?)),
        Type::Timestamptz => Value::Timestamp(i64::from_be_bytes(reader.take().ok_or_else(wrong)?)),
        Type::Interval => {
            let us = i64::from_be_bytes(reader.take().ok_or_else(wrong)?);
            let days = i32::from_be_bytes(reader.take().ok_or_else(wrong)?);
            let months = i32::from_be_bytes(reader.take().ok_or_else(wrong)?);
            Value::Interval(Interval { months, days, us })
        }
        Type::Text | Type::Varchar | Type::Unknown => {
            let bytes = std::mem::take(&mut reader.0);
            Value::text(utf8(bytes)?)
        }
        Type::Int4Array | Type::Int8Array | Type::TextArray => {
            read_array(data_type, &mut reader, number)?
        }
        Type::Numeric | Type::Void => {
            let text = "the simulated server does not have this type in binary form";
            return Err(SqlError::new("0A000", text));
        }
    };
    if reader.0.is_empty() { Ok(value) } else { Err(wrong()) }
}

/// Text that a client sent.
pub(crate) fn utf8(bytes: &[u8]) -> SqlResult<&str> {
    let wrong = |at: usize| {
        let shown: Vec<String> =
            bytes[at..].iter().take(2).map(|byte| format!("0x{byte:02x}")).collect();
        let shown = shown.join(" ");
        let text = format!("invalid byte sequence for encoding \"UTF8\": {shown}");
        SqlError::new("22021", text)
    };
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let _ = at;
        return Err(SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\": 0x00"));
    }
    std::str::from_utf8(bytes).map_err(|error| wrong(error.valid_up_to()))
}

fn read_array(data_type: Type, reader: &mut Reader<'_>, number: usize) -> SqlResult<Value> {
    let wrong = || SqlError::new("22P03", "invalid array");
    let element_type = data_type.element().ok_or_else(wrong)?;
    let mut field = || reader.take::<4>().map(i32::from_be_bytes).ok_or_else(wrong);
    let (dimensions, _flags, oid) = (field()?, field()?, field()?);
    if oid as u32 != element_type.oid() || !(0..=1).contains(&dimensions) {
        return Err(wrong());
    }
    let mut elements = Vec::new();
    if dimensions == 1 {
        let (count, _lower) = (field()?, field()?);
        for _ in 0..count.max(0) {
            let length = reader.take::<4>().map(i32::from_be_bytes).ok_or_else(wrong)?;
            if length < 0 {
                elements.push(Value::Null);
                continue;
            }
            let length = length as usize;
            if length > reader.0.len() {
                return Err(wrong());
            }
            let (element, rest) = reader.0.split_at(length);
            reader.0 = rest;
            elements.push(read(element_type, element, number)?);
        }
    }
    Ok(Value::Array(elements.into()))
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        let taken = *taken;
        self.0 = rest;
        Some(taken)
    }
}
