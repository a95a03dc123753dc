//! What scripts reach through `redis` and the prelude: functions of ours, the errors
//! that they raise, and where in a script an error happened.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::super::codec::{OwnedArguments, Protocol, ReplyEncoder};
use super::super::command::{Call, execute_for_script};
use super::random::Random48;
use super::{CALL_INSTRUCTIONS, Run, Sha, bits, convert, json, json_settings, msgpack, packed};

/// What the host functions of a run work on besides the command call.
#[derive(Debug, Default)]
pub(super) struct RunState {
    pub(super) random: Mutex<Random48>,
    pub(super) resp3: AtomicBool,
    /// `redis.set_repl`: the bit of the replicas.
    pub(super) replicates: AtomicBool,
    /// What scripts have decided about `cjson`.
    pub(super) json: Mutex<json::Settings>,
}

/// An error that a script meets, its code first.
#[derive(Debug)]
struct Raised {
    text: Vec<u8>,
    /// It is a command's, and was counted.
    is_counted: bool,
}

/// An error of a library, which is a text without a code to those who catch it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct RaisedByLibrary(String);

impl std::fmt::Display for Raised {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.text.escape_ascii())
    }
}

impl std::error::Error for Raised {}

/// What a library raises names the line that called it, as C's `luaL_error` does.
pub(super) fn library_error(lua: &Lua, problem: String) -> mlua::Error {
    let line = lua.inspect_stack(1, |debug| debug.current_line()).flatten();
    let place = line.map_or(String::new(), |line| format!("user_script:{line}: "));
    mlua::Error::external(RaisedByLibrary(format!("{place}{problem}")))
}

/// The text of what a library has raised.
fn library_text(error: &mlua::Error) -> Option<String> {
    match error {
        mlua::Error::CallbackError { cause, .. } => library_text(cause),
        other => other.downcast_ref::<RaisedByLibrary>().map(|raised| raised.0.clone()),
    }
}

fn raise<T>(text: &[u8]) -> mlua::Result<T> {
    Err(mlua::Error::external(Raised { text: text.to_vec(), is_counted: false }))
}

/// The text of what was raised by a function of ours, or by the budget, and whether it was
/// counted as an error.
fn text_of(error: &mlua::Error) -> (Vec<u8>, bool) {
    match error {
        mlua::Error::CallbackError { cause, .. } => text_of(cause),
        mlua::Error::RuntimeError(text) => ([b"ERR ", text.as_bytes()].concat(), false),
        other => match other.downcast_ref::<Raised>() {
            Some(Raised { text, is_counted }) => (text.clone(), *is_counted),
            None => (format!("ERR {other}").into_bytes(), false),
        },
    }
}

/// The prelude's functions of ours, but for `call`, which each run brings.
pub(super) fn functions(
    lua: &Lua,
    run_state: &Arc<RunState>,
    limit_bytes: usize,
) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    host.raw_set(
        "sha1hex",
        lua.create_function(|lua, values: MultiValue| {
            let mut values = values.into_iter();
            let (Some(value), None) = (values.next(), values.next()) else {
                return raise(b"ERR wrong number of arguments");
            };
            let text = lua.coerce_string(value)?;
            let sha = Sha::of(text.as_ref().map(|text| text.as_bytes()).as_deref().unwrap_or(b""));
            lua.create_string(sha.as_bytes())
        })?,
    )?;
    host.raw_set(
        "error_text",
        lua.create_function(|lua, text: mlua::LuaString| {
            let text = text.as_bytes();
            let prefixed = text.strip_prefix(b"-").unwrap_or(&text);
            lua.create_string(convert::error_text(prefixed))
        })?,
    )?;
    host.raw_set(
        "text_of",
        lua.create_function(|lua, raised: Value| {
            let (text, is_counted) = match raised {
                Value::Error(error) => text_of(&error),
                _ => (b"ERR unknown error".to_vec(), false),
            };
            Ok((lua.create_string(text)?, is_counted.then_some(true)))
        })?,
    )?;
    let state = run_state.clone();
    host.raw_set(
        "setresp",
        lua.create_function(move |_, version: i64| {
            state.resp3.store(version == 3, Ordering::Relaxed);
            Ok(())
        })?,
    )?;
    let state = run_state.clone();
    host.raw_set(
        "set_repl",
        lua.create_function(move |_, flags: i64| {
            state.replicates.store(flags & 2 != 0, Ordering::Relaxed);
            Ok(())
        })?,
    )?;
    host.raw_set(
        "library_text",
        lua.create_function(|_, raised: Value| match raised {
            Value::Error(error) => Ok(library_text(&error)),
            _ => Ok(None),
        })?,
    )?;
    let state = run_state.clone();
    host.raw_set(
        "json_encode",
        lua.create_function(move |lua, values: MultiValue| {
            let mut values = values.into_iter();
            let (Some(value), None) = (values.next(), values.next()) else {
                return Err(library_error(
                    lua,
                    "bad argument #1 to 'encode' (expected 1 argument)".into(),
                ));
            };
            let settings = *state.json.lock().unwrap_or_else(PoisonError::into_inner);
            let text = json::encode(&value, settings, limit_bytes)
                .map_err(|problem| library_error(lua, problem))?;
            lua.create_string(text)
        })?,
    )?;
    let state = run_state.clone();
    host.raw_set(
        "json_decode",
        lua.create_function(move |lua, values: MultiValue| {
            let mut values = values.into_iter();
            let (Some(value), None) = (values.next(), values.next()) else {
                return Err(library_error(
                    lua,
                    "bad argument #1 to 'decode' (expected 1 argument)".into(),
                ));
            };
            let kind = value.type_name();
            let Some(text) = lua.coerce_string(value)? else {
                let text = format!("bad argument #1 to 'decode' (string expected, got {kind})");
                return Err(library_error(lua, text));
            };
            let settings = *state.json.lock().unwrap_or_else(PoisonError::into_inner);
            json::decode(lua, &text.as_bytes(), settings)
                .map_err(|problem| library_error(lua, problem))
        })?,
    )?;
    host.raw_set("json_null", Value::NULL)?;
    host.raw_set(
        "library",
        lua.create_function(move |lua, name: mlua::LuaString| match &*name.as_bytes() {
            b"bit" => bits::library(lua).map(Some),
            b"struct" => packed::library(lua).map(Some),
            b"cmsgpack" => msgpack::library(lua, limit_bytes).map(Some),
            _ => Ok(None),
        })?,
    )?;
    let state = run_state.clone();
    host.raw_set(
        "json_settings",
        lua.create_function(move |lua, ()| json_settings::library(lua, &state))?,
    )?;
    host.raw_set("repetition", lua.create_function(|lua, rep: Function| repetition(lua, rep))?)?;
    let state = run_state.clone();
    host.raw_set(
        "random",
        lua.create_function(move |_, ()| {
            Ok(state.random.lock().unwrap_or_else(PoisonError::into_inner).unit())
        })?,
    )?;
    let state = run_state.clone();
    host.raw_set(
        "randomseed",
        lua.create_function(move |_, seed: f64| {
            *state.random.lock().unwrap_or_else(PoisonError::into_inner) =
                Random48::new(seed as i64);
            Ok(())
        })?,
    )?;
    Ok(host)
}

/// `string.rep` around Lua's own. A function of ours, not of Lua: in `return
/// string.rep(…)` the script's frame must stay, because errors name it.
fn repetition(lua: &Lua, rep: Function) -> mlua::Result<Function> {
    lua.create_function(move |lua, values: MultiValue| {
        let wrong = |number: usize, wanted: &str| {
            let given = values.get(number - 1).map_or("no value", Value::type_name);
            let place = match lua.inspect_stack(1, |debug| debug.current_line()).flatten() {
                Some(line) => format!("user_script:{line}: "),
                None => String::new(),
            };
            let text = format!("bad argument #{number} to 'rep' ({wanted} expected, got {given})");
            raise(format!("ERR {place}{text}").as_bytes())
        };
        let text = values.front().cloned().unwrap_or(Value::Nil);
        let Some(text) = lua.coerce_string(text)? else { return wrong(1, "string") };
        let count = values.get(1).cloned().unwrap_or(Value::Nil);
        let Some(count) = lua.coerce_number(count)? else { return wrong(2, "number") };
        if text.as_bytes().is_empty() {
            return Ok(text);
        }
        rep.call((text, count))
    })
}

/// `redis.call`: one command, its reply as a Lua value. Errors are raised.
pub(super) fn command(
    lua: &Lua,
    call: &mut Call<'_>,
    run_state: &RunState,
    run: &mut Run,
    values: MultiValue,
    scratch: &mut OwnedArguments,
    reply: &mut ReplyEncoder,
) -> mlua::Result<Value> {
    scratch.clear();
    run.budget.charge(CALL_INSTRUCTIONS);
    if values.is_empty() {
        return raise(b"ERR Please specify at least one argument for this redis lib call");
    }
    for value in &values {
        if !convert::push_argument(scratch, value) {
            return raise(b"ERR Lua redis lib command arguments must be strings or integers");
        }
    }
    let resp3 = run_state.resp3.load(Ordering::Relaxed);
    reply.clear();
    // It becomes Lua's.
    reply.set_limit(call.shared.settings.script_memory_bytes);
    reply.set_protocol(if resp3 { Protocol::Resp3 } else { Protocol::Resp2 });
    let mut silent = Default::default();
    let replicates = run_state.replicates.load(Ordering::Relaxed);
    let mut inner = Call {
        shared: call.shared,
        state: &mut *call.state,
        client: &mut *call.client,
        arguments: scratch.borrow(),
        reply: &mut *reply,
        pending: if replicates { &mut *call.pending } else { &mut silent },
        now_ms: call.now_ms,
        name: call.name,
        may_block: false,
        is_of_script: true,
        ready: None,
    };
    match execute_for_script(&mut inner, run.read_only, &mut run.memory) {
        Ok(()) if reply.is_full() => raise(b"ERR the reply exceeds the limit of Lua's memory"),
        Ok(()) => convert::value(lua, reply.bytes(), resp3),
        Err(failure) => {
            Err(mlua::Error::external(Raised { text: failure.0.into_owned(), is_counted: true }))
        }
    }
}

/// Where the function that failed is: called by the error handler, so two levels up,
/// or three when a function of the C library raised the error.
pub(super) fn locate(lua: &Lua) -> (Option<String>, Option<usize>) {
    let level = |level| {
        lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let name = source.source.map(|name| name.into_owned());
            (source.what == "C" || name.as_deref() == Some("=prelude"), name, debug.current_line())
        })
    };
    // Our own wrappers around C functions count as C.
    for depth in 2..8 {
        match level(depth) {
            Some((true, ..)) => continue,
            Some((false, name, line)) => return (name, line),
            None => break,
        }
    }
    (None, None)
}

/// The innermost function of a script that runs now: its source and its line. For the hook.
pub(super) fn running(lua: &Lua) -> Option<(String, usize)> {
    (0..16).find_map(|depth| {
        lua.inspect_stack(depth, |debug| {
            let name = debug.source().source?.into_owned();
            if name.starts_with("@user_") { Some((name, debug.current_line()?)) } else { None }
        })?
    })
}

pub(super) fn constants(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
        ("REDIS_VERSION_NUM", 0x0007_000f),
    ] {
        table.raw_set(name, value)?;
    }
    table.raw_set("REDIS_VERSION", super::super::VERSION)?;
    Ok(table)
}
