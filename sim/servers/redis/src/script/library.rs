//! Libraries of functions in Rust that scripts call as if they were C's: their parameters,
//! and errors worded as Lua's auxiliary library words them.

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::host::library_error;

/// The arguments of one call.
pub(super) struct Parameters<'a> {
    pub(super) lua: &'a Lua,
    values: &'a MultiValue,
    function: &'static str,
}

impl Parameters<'_> {
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The argument at `number`, counted from 1; nil past the end.
    pub(super) fn value(&self, number: usize) -> Value {
        self.values.get(number - 1).cloned().unwrap_or(Value::Nil)
    }

    /// Whether nothing, or nil, is there.
    pub(super) fn is_nil(&self, number: usize) -> bool {
        matches!(self.values.get(number - 1), None | Some(Value::Nil))
    }

    pub(super) fn error(&self, text: impl Into<String>) -> mlua::Error {
        library_error(self.lua, text.into())
    }

    /// That an argument is wrong.
    pub(super) fn wrong(&self, number: usize, text: &str) -> mlua::Error {
        self.error(format!("bad argument #{number} to '{}' ({text})", self.function))
    }

    fn wrong_type(&self, number: usize, wanted: &str) -> mlua::Error {
        let given = self.values.get(number - 1).map_or("no value", Value::type_name);
        let given = if matches!(given, "integer" | "float") { "number" } else { given };
        self.wrong(number, &format!("{wanted} expected, got {given}"))
    }

    /// # Errors
    /// When the argument is no number.
    pub(super) fn number(&self, number: usize) -> mlua::Result<f64> {
        let value = self.lua.coerce_number(self.value(number))?;
        value.ok_or_else(|| self.wrong_type(number, "number"))
    }

    /// A number without its fraction, or `default` where nothing is.
    ///
    /// # Errors
    /// When the argument is no number.
    pub(super) fn integer_or(&self, number: usize, default: i64) -> mlua::Result<i64> {
        if self.is_nil(number) { Ok(default) } else { Ok(self.number(number)? as i64) }
    }

    /// # Errors
    /// When the argument is no string and no number.
    pub(super) fn string(&self, number: usize) -> mlua::Result<LuaString> {
        let value = self.lua.coerce_string(self.value(number))?;
        value.ok_or_else(|| self.wrong_type(number, "string"))
    }
}

/// Adds a function to a library.
pub(super) fn add(
    lua: &Lua,
    library: &Table,
    function: &'static str,
    work: impl Fn(&Parameters<'_>) -> mlua::Result<MultiValue> + Send + 'static,
) -> mlua::Result<()> {
    let entry = lua.create_function(move |lua, values: MultiValue| {
        work(&Parameters { lua, values: &values, function })
    })?;
    library.raw_set(function, entry)
}

/// One result.
pub(super) fn one(value: Value) -> mlua::Result<MultiValue> {
    Ok(MultiValue::from_iter([value]))
}
