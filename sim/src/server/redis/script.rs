//! Scripts: Lua 5.1 as Redis 7.0 runs it, sandboxed and bounded.
//!
//! Order of things: names of scripts ([`Sha`]), the [`Engine`] (one for each
//! server: its cache of scripts, its bounds), one run. What values become on their
//! way in and out is in [`convert`], Redis' random numbers in [`random`], the world
//! that scripts see in `prelude.lua`.
//!
//! Bounds: memory by the allocator, time by an instruction budget. The budget's hook
//! arms itself for every instruction once it is spent, so that no `pcall` in a loop
//! survives it. What it cannot interrupt is one call into Lua's C library, such as a
//! pathological `string.find`; a real server hangs there too.
//!
//! Left out: `cjson`, `cmsgpack`, `struct`, `bit`, the debugger.

mod convert;
mod random;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mlua::chunk::ChunkMode;
use mlua::debug::HookTriggers;
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};
use sha1::{Digest, Sha1};

use super::codec::{OwnedArguments, Protocol, ReplyEncoder};
use super::command::{Call, Failure, Outcome, execute_for_script};
use super::settings::Settings;
use random::Random48;

/// How often the budget is looked at, instructions.
const HOOK_EVERY: u32 = 10_000;

/// How many scripts are kept; the oldest goes first, and its callers load it again.
const SCRIPTS_MAX: usize = 1_000;

/// The name of a script: the SHA-1 of its source, 40 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sha([u8; 40]);

impl Sha {
    fn of(source: &[u8]) -> Sha {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 40];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(Sha1::digest(source)) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Sha(hex)
    }

    /// A name that a client gave, in any case.
    pub(super) fn parse(text: &[u8]) -> Option<Sha> {
        let mut hex: [u8; 40] = text.try_into().ok()?;
        hex.make_ascii_lowercase();
        Some(Sha(hex))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// How much a script may still run.
#[derive(Debug, Default)]
struct Budget {
    left: AtomicU64,
    is_spent: AtomicBool,
}

/// What the host functions of a run work on besides the command call.
#[derive(Debug, Default)]
struct RunState {
    random: Mutex<Random48>,
    resp3: AtomicBool,
    /// `redis.set_repl`: the bit of the replicas.
    replicates: AtomicBool,
}

/// A Lua state and the scripts that were loaded into it.
pub(super) struct Engine {
    lua: Lua,
    /// The table `redis`, where each run puts its `call`.
    redis: Table,
    environment: Table,
    entry: Function,
    scripts: BTreeMap<Sha, Function>,
    order: VecDeque<Sha>,
    budget: Arc<Budget>,
    run_state: Arc<RunState>,
    instructions: u64,
    memory_bytes: usize,
    /// Kept for its memory.
    arguments: OwnedArguments,
    reply: ReplyEncoder,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Engine").field("scripts", &self.scripts.len()).finish()
    }
}

fn broken(error: mlua::Error) -> Failure {
    format!("ERR the script engine failed: {error}").into()
}

impl Engine {
    /// An engine without scripts.
    pub(super) fn new(settings: &Settings) -> Result<Engine, Failure> {
        Engine::build(settings, RunState::default()).map_err(broken)
    }

    /// Another engine without scripts (`SCRIPT FLUSH`), whose random numbers go on.
    pub(super) fn flushed(&self, settings: &Settings) -> Result<Engine, Failure> {
        let random = *self.run_state.random.lock().unwrap_or_else(PoisonError::into_inner);
        let run_state = RunState { random: Mutex::new(random), ..RunState::default() };
        Engine::build(settings, run_state).map_err(broken)
    }

    fn build(settings: &Settings, run_state: RunState) -> mlua::Result<Engine> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        // Panics in our callbacks are bugs and may end the process.
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let run_state = Arc::new(run_state);
        let host = host_functions(&lua, &run_state)?;
        let locate = lua.create_function(|lua, ()| Ok(locate(lua)))?;
        let world = lua.create_table()?;
        let (environment, redis, entry): (Table, Table, Function) = lua
            .load(include_str!("script/prelude.lua"))
            .set_name("=prelude")
            .call((host, locate, world, constants(&lua)?))?;
        lua.set_memory_limit(settings.script_memory_bytes)?;
        let budget = Arc::new(Budget::default());
        let engine = Engine {
            lua,
            redis,
            environment,
            entry,
            scripts: BTreeMap::new(),
            order: VecDeque::new(),
            budget,
            run_state,
            instructions: settings.script_instructions,
            memory_bytes: settings.script_memory_bytes,
            arguments: OwnedArguments::new(),
            reply: ReplyEncoder::default(),
        };
        engine.arm(HOOK_EVERY)?;
        Ok(engine)
    }

    fn arm(&self, every: u32) -> mlua::Result<()> {
        arm(&self.lua, self.budget.clone(), every)
    }

    /// How much memory the engine uses.
    pub(super) fn used_bytes(&self) -> usize {
        self.lua.used_memory()
    }

    /// Whether a script is loaded.
    pub(super) fn has(&self, sha: &Sha) -> bool {
        self.scripts.contains_key(sha)
    }

    /// Loads a script.
    pub(super) fn load(&mut self, source: &[u8]) -> Result<Sha, Failure> {
        let sha = Sha::of(source);
        if self.has(&sha) {
            return Ok(sha);
        }
        if self.lua.used_memory() > self.memory_bytes / 2 {
            self.make_room();
        }
        let body = strip_shebang(source)?;
        let function = self
            .lua
            .load(body)
            .set_name("@user_script")
            .set_mode(ChunkMode::Text)
            .set_environment(self.environment.clone())
            .into_function()
            .map_err(|error| compile_error(&error))?;
        if self.scripts.len() >= SCRIPTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.scripts.remove(&oldest);
        }
        self.scripts.insert(sha, function);
        self.order.push_back(sha);
        Ok(sha)
    }

    /// Collects garbage; forgets all scripts if they are what fills the memory.
    fn make_room(&mut self) {
        // Finalizers cannot fail here: scripts have none.
        let _ = self.lua.gc_collect();
        if self.lua.used_memory() > self.memory_bytes / 2 {
            self.scripts.clear();
            self.order.clear();
            let _ = self.lua.gc_collect();
        }
    }

    /// Runs a loaded script on behalf of `call`: its first `keys` arguments after
    /// the count are keys.
    pub(super) fn run(
        &mut self,
        call: &mut Call<'_>,
        sha: &Sha,
        keys: usize,
        read_only: bool,
    ) -> Outcome {
        let Some(function) = self.scripts.get(sha).cloned() else {
            return Err("NOSCRIPT No matching script. Please use EVAL.".into());
        };
        self.begin();
        let mut arguments = std::mem::take(&mut self.arguments);
        let mut reply = std::mem::take(&mut self.reply);
        let database = call.client.database;
        let result = self.enter(call, function, keys, read_only, &mut arguments, &mut reply);
        // SELECT inside a script ends with it.
        call.client.database = database;
        self.arguments = arguments;
        self.reply = reply;
        let outcome = self.settle(call, sha, result);
        if self.budget.is_spent.load(Ordering::Relaxed) {
            self.arm(HOOK_EVERY).map_err(broken)?;
        }
        outcome
    }

    fn begin(&self) {
        self.budget.left.store(self.instructions, Ordering::Relaxed);
        self.budget.is_spent.store(false, Ordering::Relaxed);
        self.run_state.resp3.store(false, Ordering::Relaxed);
        self.run_state.replicates.store(true, Ordering::Relaxed);
    }

    fn enter(
        &self,
        call: &mut Call<'_>,
        function: Function,
        keys: usize,
        read_only: bool,
        scratch: &mut OwnedArguments,
        reply: &mut ReplyEncoder,
    ) -> mlua::Result<MultiValue> {
        let rest = call.arguments.from(3);
        let key_table = strings(&self.lua, rest.iter().take(keys))?;
        let argument_table = strings(&self.lua, rest.iter().skip(keys))?;
        let run_state = &self.run_state;
        self.lua.scope(|scope| {
            let command = scope.create_function_mut(|lua, values: MultiValue| {
                command(lua, call, run_state, read_only, values, scratch, reply)
            })?;
            self.redis.raw_set("call", command)?;
            self.entry.call::<MultiValue>((function, key_table, argument_table))
        })
    }

    /// Turns the end of a run into a reply.
    fn settle(&self, call: &mut Call<'_>, sha: &Sha, result: mlua::Result<MultiValue>) -> Outcome {
        if self.budget.is_spent.load(Ordering::Relaxed) {
            return Err("ERR Error running script: it exceeded its budget of instructions".into());
        }
        let values = match result {
            Ok(values) => values,
            Err(mlua::Error::MemoryError(_)) => return Err("ERR not enough memory".into()),
            Err(error) => return Err(broken(error)),
        };
        let mut values = values.into_iter();
        if matches!(values.next(), Some(Value::Boolean(true))) {
            let value = values.next().unwrap_or(Value::Nil);
            let resp3 = self.run_state.resp3.load(Ordering::Relaxed);
            return convert::reply(call.reply, &value, resp3).map_err(broken);
        }
        Err(run_error(sha, values))
    }
}

/// The message, the source and the line of a script's error, as Redis words them.
fn run_error(sha: &Sha, mut values: impl Iterator<Item = Value>) -> Failure {
    let text_of = |value: Option<Value>| match value {
        Some(Value::String(text)) => Some(text.as_bytes().to_vec()),
        Some(Value::Integer(integer)) => Some(integer.to_string().into_bytes()),
        Some(Value::Number(number)) => Some(super::codec::number::general(number, 14).into_bytes()),
        _ => None,
    };
    // An error without a text: a real server does not survive it.
    let mut message = text_of(values.next()).unwrap_or_else(|| b"ERR unknown error".to_vec());
    let source = text_of(values.next());
    let line = text_of(values.next());
    if let Some((source, line)) = source.zip(line) {
        message.extend_from_slice(b" script: ");
        message.extend_from_slice(sha.as_bytes());
        message.extend_from_slice(b", on ");
        message.extend_from_slice(&source);
        message.push(b':');
        message.extend_from_slice(&line);
        message.push(b'.');
    }
    message.into()
}

fn compile_error(error: &mlua::Error) -> Failure {
    let text = match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        other => other.to_string(),
    };
    format!("ERR Error compiling script (new function): {text}").into()
}

/// `#!lua flags=…`: only the engine is looked at. The line stays as an empty one,
/// so that line numbers are right.
fn strip_shebang(source: &[u8]) -> Result<&[u8], Failure> {
    if !source.starts_with(b"#!") {
        return Ok(source);
    }
    let end = source.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or("ERR Invalid script shebang")?;
    let line = &source[..end];
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err([b"ERR Unexpected engine in script shebang: ", engine].concat().into());
    }
    if let Some(option) = words.find(|word| !word.starts_with(b"flags=")) {
        return Err([b"ERR Unknown lua shebang option: ", option].concat().into());
    }
    Ok(&source[end..])
}

fn strings<'a>(lua: &Lua, items: impl Iterator<Item = &'a [u8]>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for item in items {
        table.raw_push(lua.create_string(item)?)?;
    }
    Ok(table)
}

fn arm(lua: &Lua, budget: Arc<Budget>, every: u32) -> mlua::Result<()> {
    let triggers = HookTriggers::new().every_nth_instruction(every);
    lua.set_global_hook(triggers, move |lua, _| {
        let left = budget.left.load(Ordering::Relaxed);
        if left > u64::from(every) {
            budget.left.store(left - u64::from(every), Ordering::Relaxed);
            return Ok(VmState::Continue);
        }
        budget.left.store(0, Ordering::Relaxed);
        if !budget.is_spent.swap(true, Ordering::Relaxed) {
            // A script that catches the error meets it again at once.
            arm(lua, budget.clone(), 1)?;
        }
        Err(mlua::Error::runtime("the budget of instructions is spent"))
    })
}

/// Where the function that failed is: called by the error handler, so two levels up,
/// or three when a function of the C library raised the error.
fn locate(lua: &Lua) -> (Option<String>, Option<usize>) {
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

fn constants(lua: &Lua) -> mlua::Result<Table> {
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
    table.raw_set("REDIS_VERSION", super::VERSION)?;
    Ok(table)
}

/// An error that a script meets, its code first.
#[derive(Debug)]
struct Raised(Vec<u8>);

impl std::fmt::Display for Raised {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0.escape_ascii())
    }
}

impl std::error::Error for Raised {}

fn raise<T>(text: &[u8]) -> mlua::Result<T> {
    Err(mlua::Error::external(Raised(text.to_vec())))
}

/// The text of what was raised by a function of ours, or by the budget.
fn text_of(error: &mlua::Error) -> Vec<u8> {
    match error {
        mlua::Error::CallbackError { cause, .. } => text_of(cause),
        mlua::Error::RuntimeError(text) => [b"ERR ", text.as_bytes()].concat(),
        other => match other.downcast_ref::<Raised>() {
            Some(Raised(text)) => text.clone(),
            None => format!("ERR {other}").into_bytes(),
        },
    }
}

/// The prelude's functions of ours, but for `call`, which each run brings.
fn host_functions(lua: &Lua, run_state: &Arc<RunState>) -> mlua::Result<Table> {
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
        lua.create_function(|lua, raised: Value| match raised {
            Value::Error(error) => lua.create_string(text_of(&error)),
            _ => lua.create_string("ERR unknown error"),
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

/// `redis.call`: one command, its reply as a Lua value. Errors are raised.
fn command(
    lua: &Lua,
    call: &mut Call<'_>,
    run_state: &RunState,
    read_only: bool,
    values: MultiValue,
    scratch: &mut OwnedArguments,
    reply: &mut ReplyEncoder,
) -> mlua::Result<Value> {
    scratch.clear();
    if values.is_empty() {
        return raise(b"ERR Please specify at least one argument for this redis lib call");
    }
    for value in &values {
        if !convert::push_argument(scratch, value) {
            return raise(b"ERR Lua redis lib command arguments must be strings or integers");
        }
    }
    let resp3 = run_state.resp3.load(Ordering::Relaxed);
    reply.bytes_mut().clear();
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
    };
    match execute_for_script(&mut inner, read_only) {
        Ok(()) => convert::value(lua, reply.bytes(), resp3),
        Err(failure) => raise(&failure.0),
    }
}

#[cfg(test)]
mod tests;
