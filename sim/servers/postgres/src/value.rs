//! The types of SQL that this server has, and their values.
//!
//! A value does not carry its type: expressions are typed before they run. Text and
//! binary forms are in [`text`] and [`binary`].

pub(crate) mod binary;
mod calendar;
mod interval;
mod numeric;
pub(crate) mod text;

use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::{SqlError, SqlResult};
use super::sql::ast::TypeName;

pub(crate) use interval::Interval;
pub(crate) use numeric::Numeric;

/// A type, as `pg_type` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Type {
    Bool,
    Int2,
    Int4,
    Int8,
    Float8,
    Numeric,
    Text,
    Varchar,
    Oid,
    Xid,
    Timestamptz,
    Interval,
    Int4Array,
    Int8Array,
    TextArray,
    Void,
    /// Of a constant in quotes, or of NULL, before its surroundings decide.
    Unknown,
}

/// Type, object id, size in bytes (-1: varies), name in catalogues, name in messages.
type Known = (Type, u32, i16, &'static str, &'static str);

const KNOWN: [Known; 17] = [
    (Type::Bool, 16, 1, "bool", "boolean"),
    (Type::Int2, 21, 2, "int2", "smallint"),
    (Type::Int4, 23, 4, "int4", "integer"),
    (Type::Int8, 20, 8, "int8", "bigint"),
    (Type::Float8, 701, 8, "float8", "double precision"),
    (Type::Numeric, 1700, -1, "numeric", "numeric"),
    (Type::Text, 25, -1, "text", "text"),
    (Type::Varchar, 1043, -1, "varchar", "character varying"),
    (Type::Oid, 26, 4, "oid", "oid"),
    (Type::Xid, 28, 4, "xid", "xid"),
    (Type::Timestamptz, 1184, 8, "timestamptz", "timestamp with time zone"),
    (Type::Interval, 1186, 16, "interval", "interval"),
    (Type::Int4Array, 1007, -1, "_int4", "integer[]"),
    (Type::Int8Array, 1016, -1, "_int8", "bigint[]"),
    (Type::TextArray, 1009, -1, "_text", "text[]"),
    (Type::Void, 2278, 4, "void", "void"),
    (Type::Unknown, 705, -2, "unknown", "unknown"),
];

impl Type {
    fn known(self) -> &'static Known {
        // The table is in the order of the variants.
        &KNOWN[self as usize]
    }

    pub(crate) fn oid(self) -> u32 {
        self.known().1
    }

    pub(crate) fn size(self) -> i16 {
        self.known().2
    }

    /// As messages name it.
    pub(crate) fn name(self) -> &'static str {
        self.known().4
    }

    pub(crate) fn of_oid(oid: u32) -> Option<Type> {
        KNOWN.iter().find(|known| known.1 == oid).map(|known| known.0)
    }

    /// The type that a statement names.
    pub(crate) fn of_name(name: &TypeName) -> SqlResult<Type> {
        let found = match (name.name.as_str(), name.is_array) {
            ("int4", true) => Type::Int4Array,
            ("int8", true) => Type::Int8Array,
            ("text", true) => Type::TextArray,
            (_, true) => return Err(SqlError::unsupported(name.at, "arrays of this type")),
            (short, false) => {
                let found = KNOWN.iter().find(|known| known.3 == short && !short.starts_with('_'));
                match found {
                    Some(known) => known.0,
                    None => return Err(Type::missing(name)),
                }
            }
        };
        if name.length.is_some() && !matches!(found, Type::Varchar) {
            return Err(SqlError::unsupported(name.at, "a length of this type"));
        }
        if found == Type::Varchar && name.length.is_some_and(|length| length < 1) {
            let text = "length for type varchar must be at least 1";
            return Err(SqlError::new("22023", text).at(name.at));
        }
        Ok(found)
    }

    fn missing(name: &TypeName) -> SqlError {
        const REAL: &[&str] = &[
            "timestamp",
            "time",
            "timetz",
            "date",
            "json",
            "jsonb",
            "uuid",
            "bytea",
            "bpchar",
            "float4",
            "real",
            "money",
            "inet",
            "cidr",
            "bit",
            "varbit",
            "xml",
            "point",
            "name",
            "regclass",
            "regtype",
            "serial",
            "bigserial",
            "smallserial",
            "oidvector",
            "tsvector",
        ];
        if REAL.contains(&name.name.as_str()) {
            let what = format!("the type {}", name.name);
            return SqlError::unsupported(name.at, what);
        }
        let text = format!("type \"{}\" does not exist", name.name);
        SqlError::new("42704", text).at(name.at)
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Type::Int2 | Type::Int4 | Type::Int8)
    }

    /// Place in the tower of numbers.
    pub(crate) fn rank(self) -> Option<u8> {
        match self {
            Type::Int2 => Some(1),
            Type::Int4 => Some(2),
            Type::Int8 => Some(3),
            Type::Numeric => Some(4),
            Type::Float8 => Some(5),
            _ => None,
        }
    }

    pub(crate) fn is_text(self) -> bool {
        matches!(self, Type::Text | Type::Varchar)
    }

    pub(crate) fn element(self) -> Option<Type> {
        match self {
            Type::Int4Array => Some(Type::Int4),
            Type::Int8Array => Some(Type::Int8),
            Type::TextArray => Some(Type::Text),
            _ => None,
        }
    }

    pub(crate) fn array(self) -> Option<Type> {
        match self {
            Type::Int4 => Some(Type::Int4Array),
            Type::Int8 => Some(Type::Int8Array),
            Type::Text | Type::Unknown => Some(Type::TextArray),
            _ => None,
        }
    }
}

/// A value of any type.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// Of int2, int4, int8, oid, xid.
    Int(i64),
    Float(f64),
    Numeric(Numeric),
    Text(Arc<str>),
    /// Microseconds since 2000-01-01 UTC; the limits are the infinities.
    Timestamp(i64),
    Interval(Interval),
    Array(Arc<[Value]>),
    Void,
}

impl Value {
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub(crate) fn text(text: impl AsRef<str>) -> Value {
        Value::Text(text.as_ref().into())
    }

    /// A value that is none of its type is a mistake of the analysis: 0 then.
    pub(crate) fn int(&self) -> i64 {
        match self {
            Value::Int(value) => *value,
            _ => 0,
        }
    }

    pub(crate) fn bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn str(&self) -> &str {
        match self {
            Value::Text(text) => text,
            _ => "",
        }
    }

    fn order(&self) -> u8 {
        match self {
            Value::Bool(_) => 0,
            Value::Int(_) => 1,
            Value::Float(_) => 2,
            Value::Numeric(_) => 3,
            Value::Text(_) => 4,
            Value::Timestamp(_) => 5,
            Value::Interval(_) => 6,
            Value::Array(_) => 7,
            Value::Void => 8,
            // Behind everything, as in an index.
            Value::Null => 9,
        }
    }
}

/// The order of indexes and ORDER BY: NULL last, text by bytes (collation C).
impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::Int(left), Value::Int(right)) => left.cmp(right),
            (Value::Float(left), Value::Float(right)) => float_order(*left, *right),
            (Value::Numeric(left), Value::Numeric(right)) => left.cmp(right),
            (Value::Text(left), Value::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
            (Value::Timestamp(left), Value::Timestamp(right)) => left.cmp(right),
            (Value::Interval(left), Value::Interval(right)) => left.cmp(right),
            (Value::Array(left), Value::Array(right)) => left.cmp(right),
            _ => self.order().cmp(&other.order()),
        }
    }
}

/// NaN is equal to itself and larger than all; both zeros are equal.
fn float_order(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

/// Microseconds from the Unix epoch to PostgreSQL's.
pub(crate) const EPOCH_US: i64 = 946_684_800_000_000;
