//! What scripts may decide about `cjson`: its functions that ask and set.

use std::sync::{Arc, PoisonError};

use mlua::{Lua, MultiValue, Table, Value};

use super::host::RunState;
use super::json::{Invalid, Settings};
use super::library::{Parameters, add, one};

/// The most that C counts to.
const MOST: i64 = i32::MAX as i64;

impl Parameters<'_> {
    /// That there are no more than so many.
    fn at_most(&self, count: usize) -> mlua::Result<()> {
        if self.len() > count {
            return Err(self.wrong(count + 1, "found too many arguments"));
        }
        Ok(())
    }

    /// Sets a number, if one is given.
    fn set_number(&self, number: usize, least: i64, most: i64, to: &mut usize) -> mlua::Result<()> {
        if self.is_nil(number) {
            return Ok(());
        }
        let wanted = self.number(number)? as i64;
        if !(least..=most).contains(&wanted) {
            let text = format!("expected integer between {least} and {most}");
            return Err(self.wrong(number, &text));
        }
        *to = wanted as usize;
        Ok(())
    }

    /// The place of the word that is given, if one is; true and false are words as well.
    fn word(&self, number: usize, words: &[&str], yes: usize) -> mlua::Result<Option<usize>> {
        match self.value(number) {
            Value::Nil => Ok(None),
            Value::Boolean(is_so) => Ok(Some(if is_so { yes } else { 0 })),
            _ => {
                let given = self.string(number)?.to_string_lossy();
                let place = words.iter().position(|word| *word == given);
                let wrong = || self.wrong(number, &format!("invalid option '{given}'"));
                Ok(Some(place.ok_or_else(wrong)?))
            }
        }
    }

    fn set_switch(&self, number: usize, to: &mut bool) -> mlua::Result<()> {
        if let Some(place) = self.word(number, &["off", "on"], 1)? {
            *to = place == 1;
        }
        Ok(())
    }
}

fn number(number: usize) -> Value {
    Value::Number(number as f64)
}

fn encode_invalid(given: &Parameters<'_>, settings: &mut Settings) -> mlua::Result<MultiValue> {
    given.at_most(1)?;
    if let Some(place) = given.word(1, &["off", "on", "null"], 1)? {
        settings.encode_invalid = [Invalid::Refused, Invalid::Written, Invalid::Null][place];
    }
    one(match settings.encode_invalid {
        Invalid::Refused => Value::Boolean(false),
        Invalid::Written => Value::Boolean(true),
        Invalid::Null => Value::String(given.lua.create_string("null")?),
    })
}

fn sparse_array(given: &Parameters<'_>, settings: &mut Settings) -> mlua::Result<MultiValue> {
    given.at_most(3)?;
    given.set_switch(1, &mut settings.converts_sparse)?;
    given.set_number(2, 0, MOST, &mut settings.sparse_ratio)?;
    given.set_number(3, 0, MOST, &mut settings.sparse_safe)?;
    Ok(MultiValue::from_iter([
        Value::Boolean(settings.converts_sparse),
        number(settings.sparse_ratio),
        number(settings.sparse_safe),
    ]))
}

type Setter = fn(&Parameters<'_>, &mut Settings) -> mlua::Result<MultiValue>;

const SETTERS: &[(&str, Setter)] = &[
    ("encode_sparse_array", sparse_array),
    ("encode_invalid_numbers", encode_invalid),
    ("encode_max_depth", |given, settings| {
        given.at_most(1)?;
        given.set_number(1, 1, MOST, &mut settings.encode_depth)?;
        one(number(settings.encode_depth))
    }),
    ("decode_max_depth", |given, settings| {
        given.at_most(1)?;
        given.set_number(1, 1, MOST, &mut settings.decode_depth)?;
        one(number(settings.decode_depth))
    }),
    ("encode_number_precision", |given, settings| {
        given.at_most(1)?;
        given.set_number(1, 1, 14, &mut settings.digits)?;
        one(number(settings.digits))
    }),
    ("encode_keep_buffer", |given, settings| {
        given.at_most(1)?;
        given.set_switch(1, &mut settings.keeps_buffer)?;
        one(Value::Boolean(settings.keeps_buffer))
    }),
    ("decode_invalid_numbers", |given, settings| {
        given.at_most(1)?;
        given.set_switch(1, &mut settings.decodes_invalid)?;
        one(Value::Boolean(settings.decodes_invalid))
    }),
];

/// The functions, for the prelude to put beside `encode` and `decode`.
pub(super) fn library(lua: &Lua, state: &Arc<RunState>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    for (name, set) in SETTERS {
        let state = state.clone();
        let set = *set;
        add(lua, &library, name, move |given| {
            set(given, &mut state.json.lock().unwrap_or_else(PoisonError::into_inner))
        })?;
    }
    Ok(library)
}
