//! From one type to another: when it may be done, and the node that does it.

use super::{Node, Typed};
use crate::error::{SqlError, SqlResult};
use crate::value::{Type, Value, text};

/// How much was said about wanting the other type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Context {
    /// An argument, an operand.
    Implicit,
    /// A value for a column.
    Assignment,
    /// CAST.
    Explicit,
}

/// Whether a value of one type may become one of another.
pub(super) fn may_convert(from: Type, to: Type, context: Context) -> bool {
    if from == to || from == Type::Unknown {
        return true;
    }
    let least = match (from, to) {
        _ if from.rank().is_some() && to.rank().is_some() => match from.rank() < to.rank() {
            true => Context::Implicit,
            false => Context::Assignment,
        },
        (Type::Text | Type::Varchar, Type::Text | Type::Varchar) => Context::Implicit,
        (Type::Int2 | Type::Int4 | Type::Int8, Type::Oid) => Context::Implicit,
        (Type::Oid, Type::Int4 | Type::Int8) => Context::Assignment,
        (Type::Bool, Type::Int4) | (Type::Int4, Type::Bool) => Context::Explicit,
        (Type::Void, _) | (_, Type::Void) => return false,
        (_, Type::Text | Type::Varchar) => Context::Assignment,
        (Type::Text | Type::Varchar, _) => Context::Explicit,
        (Type::Int4Array, Type::Int8Array) => Context::Assignment,
        _ => return false,
    };
    context >= least
}

/// Makes `typed` one of `to`. Constants are read at once.
pub(super) fn convert(
    typed: Typed,
    to: Type,
    length: Option<i32>,
    context: Context,
) -> SqlResult<Typed> {
    let Typed { node, data_type: from, at } = typed;
    if !may_convert(from, to, context) {
        let (from, to) = (from.name(), to.name());
        return Err(SqlError::new("42846", format!("cannot cast type {from} to {to}")).at(at));
    }
    if from == to && length.is_none() {
        return Ok(Typed { node, data_type: to, at });
    }
    let explicit = context == Context::Explicit;
    let node = match node {
        Node::Constant(Value::Null) => Node::Constant(Value::Null),
        Node::Constant(value) => {
            let converted = change(from, to, length, explicit, &value);
            // PostgreSQL reads a literal where it stands; what it converts has no place any more.
            let is_literal = from == Type::Unknown;
            Node::Constant(converted.map_err(|error| match is_literal {
                true => error.or_at(at),
                false => error,
            })?)
        }
        node => Node::Convert { from, to, length, explicit, operand: Box::new(node) },
    };
    Ok(Typed { node, data_type: to, at })
}

fn out_of_range(to: Type) -> SqlError {
    SqlError::new("22003", format!("{} out of range", to.name()))
}

/// Converts a value that is not NULL.
pub(crate) fn change(
    from: Type,
    to: Type,
    length: Option<i32>,
    explicit: bool,
    value: &Value,
) -> SqlResult<Value> {
    let changed = match (value, to) {
        (Value::Text(_), Type::Text | Type::Varchar | Type::Unknown) => value.clone(),
        (Value::Text(written), _) => text::read(to, written)?,
        (Value::Bool(value), Type::Int4) => Value::Int(i64::from(*value)),
        (Value::Bool(value), Type::Text | Type::Varchar) => {
            Value::text(if *value { "true" } else { "false" })
        }
        (_, Type::Text | Type::Varchar) => Value::text(text::write(value)),
        (Value::Int(value), Type::Bool) if from == Type::Int4 => Value::Bool(*value != 0),
        (Value::Int(number), Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid | Type::Xid) => {
            match text::in_range(to, *number) {
                true => Value::Int(*number),
                false => return Err(out_of_range(to)),
            }
        }
        (Value::Int(number), Type::Float8) => Value::Float(*number as f64),
        (Value::Int(number), Type::Numeric) => {
            Value::Numeric(crate::value::Numeric::from_int(*number))
        }
        (Value::Numeric(number), Type::Float8) => Value::Float(number.to_float()),
        (Value::Numeric(number), Type::Int2 | Type::Int4 | Type::Int8) => {
            let whole = number.to_int().filter(|number| text::in_range(to, *number));
            Value::Int(whole.ok_or_else(|| out_of_range(to))?)
        }
        (Value::Float(number), Type::Int2 | Type::Int4 | Type::Int8) => {
            let rounded = number.round_ties_even();
            let is_in =
                (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded);
            if !is_in || !text::in_range(to, rounded as i64) {
                return Err(out_of_range(to));
            }
            Value::Int(rounded as i64)
        }
        (Value::Float(number), Type::Numeric) => {
            Value::Numeric(crate::value::Numeric::from_float(*number)?)
        }
        _ => value.clone(),
    };
    limit(changed, to, length, explicit)
}

/// A text for varchar(n): cut by a cast, refused by an assignment.
fn limit(value: Value, to: Type, length: Option<i32>, explicit: bool) -> SqlResult<Value> {
    let (Type::Varchar, Some(length), Value::Text(text)) = (to, length, &value) else {
        return Ok(value);
    };
    let length = length as usize;
    let Some((end, _)) = text.char_indices().nth(length) else { return Ok(value) };
    let is_blank = text[end..].bytes().all(|byte| byte == b' ');
    if explicit || is_blank {
        return Ok(Value::text(&text[..end]));
    }
    let told = format!("value too long for type character varying({length})");
    Err(SqlError::new("22001", told))
}

/// The type that operands of a comparison, arms of CASE, rows of VALUES come to.
pub(super) fn common(types: impl Iterator<Item = (Type, usize)>, what: &str) -> SqlResult<Type> {
    let mut found = Type::Unknown;
    for (data_type, at) in types {
        if data_type == Type::Unknown || data_type == found {
            continue;
        }
        if found == Type::Unknown || may_convert(found, data_type, Context::Implicit) {
            // Of varchar and text, the first that came.
            if !(found.is_text() && data_type.is_text()) {
                found = data_type;
            }
        } else if !may_convert(data_type, found, Context::Implicit) {
            let (one, other) = (found.name(), data_type.name());
            let told = format!("{what} types {one} and {other} cannot be matched");
            return Err(SqlError::new("42804", told).at(at));
        }
    }
    Ok(if found == Type::Unknown { Type::Text } else { found })
}
