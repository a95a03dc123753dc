//! Scripts: Lua 5.1 as Redis 7.0 runs it, sandboxed and bounded.
//!
//! Order of things: names of scripts ([`Sha`]), the [`Engine`] (one for each
//! server: its cache of scripts, its bounds), one run. What values become on their
//! way in and out is in [`convert`], what scripts can call in [`host`], Redis' random
//! numbers in [`random`], the world that scripts see in `prelude.lua`.
//!
//! Bounds: memory by the allocator, time by an instruction budget, results by their
//! elements and bytes. The budget's hook arms itself for every instruction once it is
//! spent, so that no `pcall` in a loop survives it. What it cannot interrupt is one
//! instruction or one call into Lua's C library, which may cost as much as the memory is
//! large (`..` of long strings, `table.concat` in a loop), or more with a pathological
//! pattern of `string.find`; a real server hangs there too.
//!
//! A script that has used up its budget is taken for one that never ends: [`overrun`].
//!
//! Libraries: `cjson` in [`json`], `cmsgpack` in [`msgpack`], `struct` in [`packed`], `bit` in
//! [`bits`]; all but the first are made for those who ask for them. Left out: the debugger.

mod bits;
mod convert;
pub(super) mod functions;
mod host;
mod json;
mod json_settings;
mod library;
mod msgpack;
pub(super) mod overrun;
mod packed;
mod random;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mlua::debug::HookTriggers;
use mlua::{Function, IntoLuaMulti, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};
use sha1::{Digest, Sha1};

use super::codec::{Arguments, OwnedArguments, ReplyEncoder};
use super::command::{
    Call, Failure, MASTER_DOWN, Outcome, ScriptMemory, check_write, is_out_of_memory, is_stale,
};
use super::settings::Settings;
use host::RunState;

/// How often the budget is looked at, instructions.
const HOOK_EVERY: u32 = 10_000;

/// What one element of a result costs, instructions of the budget.
const ELEMENT_INSTRUCTIONS: u64 = 10;

/// What one command costs that a script calls, instructions of the budget: about as much as
/// the time that it takes.
const CALL_INSTRUCTIONS: u64 = 50;

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

/// A compiled script.
#[derive(Clone, Debug)]
struct Script {
    function: Function,
    flags: Option<Flags>,
}

/// What a script that begins with `#!lua` says of itself. Without that line nothing is
/// known and everything is looked at as it comes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub(super) no_writes: bool,
    pub(super) allow_oom: bool,
    pub(super) allow_stale: bool,
}

impl Flags {
    /// What a script says of itself that may not have been loaded; one that says it wrongly
    /// says nothing.
    pub(super) fn of_source(source: &[u8]) -> Option<Flags> {
        read_shebang(source).ok().and_then(|(flags, _)| flags)
    }
}

/// More keys and arguments than these are handed over in tables.
const STRINGS_OF_A_CALL: usize = 64;

/// How much a script may still run.
#[derive(Debug, Default)]
struct Budget {
    left: AtomicU64,
    is_spent: AtomicBool,
    /// The source and the line that ran when it was spent.
    place: Mutex<Option<(String, usize)>>,
}

impl Budget {
    /// Takes from it; that it is spent is noticed by the hook.
    fn charge(&self, instructions: u64) {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(instructions), Ordering::Relaxed);
    }
}

/// A Lua state and the scripts that were loaded into it.
pub(super) struct Engine {
    lua: Lua,
    compile: Function,
    entry: Function,
    /// Gives a function what the entry is made of.
    lend: Function,
    scripts: BTreeMap<Sha, Script>,
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

impl From<mlua::Error> for Failure {
    fn from(error: mlua::Error) -> Self {
        match error {
            mlua::Error::MemoryError(_) => "ERR not enough memory".into(),
            error => format!("ERR the script engine failed: {error}").into(),
        }
    }
}

impl Engine {
    /// An engine without scripts.
    pub(super) fn new(settings: &Settings) -> Result<Engine, Failure> {
        Ok(Engine::build(settings, RunState::default())?)
    }

    /// Another engine without scripts (`SCRIPT FLUSH`), whose random numbers go on.
    pub(super) fn flushed(&self, settings: &Settings) -> Result<Engine, Failure> {
        let random = *self.run_state.random.lock().unwrap_or_else(PoisonError::into_inner);
        let run_state = RunState { random: Mutex::new(random), ..RunState::default() };
        Ok(Engine::build(settings, run_state)?)
    }

    fn build(settings: &Settings, run_state: RunState) -> mlua::Result<Engine> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        // Panics in our callbacks are bugs and may end the process.
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let run_state = Arc::new(run_state);
        let functions = host::functions(&lua, &run_state, settings.script_memory_bytes)?;
        let locate = lua.create_function(|lua, ()| Ok(host::locate(lua)))?;
        let world = lua.create_table()?;
        let (compile, entry, lend) = lua
            .load(include_str!("script/prelude.lua"))
            .set_name("=prelude")
            .call::<(Function, Function, Function)>((
                functions,
                locate,
                world,
                host::constants(&lua)?,
            ))?;
        lua.set_memory_limit(settings.script_memory_bytes)?;
        let budget = Arc::new(Budget::default());
        let engine = Engine {
            lua,
            compile,
            entry,
            lend,
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

    /// How many scripts are loaded.
    pub(super) fn len(&self) -> usize {
        self.scripts.len()
    }

    /// Whether a script is loaded.
    pub(super) fn has(&self, sha: &Sha) -> bool {
        self.scripts.contains_key(sha)
    }

    /// What a loaded script says of itself.
    pub(super) fn flags(&self, sha: &Sha) -> Option<Flags> {
        self.scripts.get(sha).and_then(|script| script.flags)
    }

    /// Loads a script.
    pub(super) fn load(&mut self, source: &[u8]) -> Result<Sha, Failure> {
        let sha = Sha::of(source);
        if self.has(&sha) {
            return Ok(sha);
        }
        self.make_room();
        let (flags, body) = read_shebang(source)?;
        let function = self.compile(body)?;
        if self.scripts.len() >= SCRIPTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.scripts.remove(&oldest);
        }
        self.scripts.insert(sha, Script { function, flags });
        self.order.push_back(sha);
        Ok(sha)
    }

    /// Compiled by Lua's own `loadstring`, whose errors are bytes: sources need not be UTF-8.
    fn compile(&self, source: &[u8]) -> Result<Function, Failure> {
        // The prelude's part of it is Lua, and counted.
        self.begin();
        let compiled = self
            .lua
            .create_string(source)
            .and_then(|source| self.compile.call::<(Option<Function>, Value)>(source));
        let message = match compiled {
            Ok((Some(function), _)) => return Ok(function),
            Ok((None, Value::String(message))) => message.as_bytes().to_vec(),
            Ok((None, _)) => b"unknown error".to_vec(),
            Err(mlua::Error::MemoryError(_)) => b"not enough memory".to_vec(),
            Err(error) => error.to_string().into_bytes(),
        };
        Err([b"ERR Error compiling script (new function): ", &message[..]].concat().into())
    }

    /// Collects garbage; forgets all scripts if they are what fills the memory.
    fn make_room(&mut self) {
        if self.lua.used_memory() <= self.memory_bytes / 2 {
            return;
        }
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
        let Some(script) = self.scripts.get(sha).cloned() else {
            return Err("NOSCRIPT No matching script. Please use EVAL.".into());
        };
        let entry = self.entry.clone();
        self.run_within(call, &entry, script, sha.as_bytes(), keys, read_only)
    }

    /// Runs a compiled script, or a function of a library, through its entry. Errors name it.
    fn run_within(
        &mut self,
        call: &mut Call<'_>,
        entry: &Function,
        script: Script,
        name: &[u8],
        keys: usize,
        read_only: bool,
    ) -> Outcome {
        let Script { function, flags } = script;
        let was_out = is_out_of_memory(call.shared, call.state, call.client);
        check_flags(call, flags, was_out)?;
        if read_only && flags.is_some_and(|flags| !flags.no_writes) {
            return Err("ERR Can not execute a script with write flag using *_ro command.".into());
        }
        let allow_oom = flags.is_some_and(|flags| flags.allow_oom);
        let mut run = Run {
            read_only: read_only || flags.is_some_and(|flags| flags.no_writes),
            memory: ScriptMemory { was_out: was_out && !allow_oom, has_written: false },
            budget: self.budget.clone(),
        };
        self.make_room();
        self.begin();
        let mut arguments = std::mem::take(&mut self.arguments);
        let mut reply = std::mem::take(&mut self.reply);
        let database = call.client.database;
        let scratch = (&mut arguments, &mut reply);
        let result = self.enter(call, entry, function, keys, &mut run, scratch);
        // SELECT inside a script ends with it.
        call.client.database = database;
        self.arguments = arguments;
        self.reply = reply;
        let is_spent = self.rearm()?;
        if is_spent {
            let is_function = *entry != self.entry;
            return self.overrun(call, name, is_function, run.memory.has_written);
        }
        self.settle(call, name, result)
    }

    /// The hook rests again, if the budget was spent; true then.
    fn rearm(&self) -> mlua::Result<bool> {
        let is_spent = self.budget.is_spent.load(Ordering::Relaxed);
        if is_spent {
            self.arm(HOOK_EVERY)?;
        }
        Ok(is_spent)
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
        entry: &Function,
        function: Function,
        keys: usize,
        run: &mut Run,
        (scratch, reply): (&mut OwnedArguments, &mut ReplyEncoder),
    ) -> mlua::Result<MultiValue> {
        let rest = call.arguments.from(3);
        let unlimited = Unlimited::begin(&self.lua, self.memory_bytes)?;
        let parameters = self.parameters(keys, &rest)?;
        let run_state = &self.run_state;
        self.lua.scope(|scope| {
            let command = scope.create_function_mut(|lua, values: MultiValue| {
                host::command(lua, call, run_state, run, values, scratch, reply)
            })?;
            unlimited.end()?;
            entry.call::<MultiValue>((function, command, parameters))
        })
    }

    /// The keys and arguments as the prelude's entry takes them.
    fn parameters(&self, keys: usize, rest: &Arguments<'_>) -> mlua::Result<MultiValue> {
        if rest.len() > STRINGS_OF_A_CALL {
            let key_table = strings(&self.lua, rest.iter().take(keys))?;
            let argument_table = strings(&self.lua, rest.iter().skip(keys))?;
            return (key_table, argument_table).into_lua_multi(&self.lua);
        }
        let mut parameters = Vec::with_capacity(rest.len() + 1);
        parameters.push(Value::Integer(keys as mlua::Integer));
        for item in rest.iter() {
            parameters.push(Value::String(self.lua.create_string(item)?));
        }
        Ok(MultiValue::from_vec(parameters))
    }

    /// Turns the end of a run into a reply.
    fn settle(
        &self,
        call: &mut Call<'_>,
        name: &[u8],
        result: mlua::Result<MultiValue>,
    ) -> Outcome {
        let mut values = result?.into_iter();
        match values.next() {
            Some(Value::Boolean(true)) => {
                let value = values.next().unwrap_or(Value::Nil);
                let resp3 = self.run_state.resp3.load(Ordering::Relaxed);
                let elements = self.instructions / ELEMENT_INSTRUCTIONS;
                let statistics = &mut call.state.statistics;
                let replied = convert::reply(call.reply, statistics, &value, resp3, elements);
                if replied.is_err() {
                    statistics.forget_repeated();
                }
                replied
            }
            Some(Value::Boolean(false)) => {
                let (failure, is_counted) = run_error(name, values);
                if is_counted {
                    call.state.statistics.repeat();
                }
                Err(failure)
            }
            _ => Err([&b"ERR "[..], &run_error(name, values).0.0].concat().into()),
        }
    }
}

/// What is made for a run before it begins. Its size is the request's, so the limit is
/// looked at once it is there: under a limit `mlua` makes every value in a protected call
/// of its own, which costs several times what the value does.
struct Unlimited<'a> {
    lua: &'a Lua,
    memory_bytes: usize,
}

impl<'a> Unlimited<'a> {
    fn begin(lua: &'a Lua, memory_bytes: usize) -> mlua::Result<Self> {
        lua.set_memory_limit(0)?;
        Ok(Unlimited { lua, memory_bytes })
    }

    /// The limit holds again, also for what was made.
    fn end(self) -> mlua::Result<()> {
        if self.memory_bytes > 0 && self.lua.used_memory() > self.memory_bytes {
            return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
        }
        Ok(())
    }
}

impl Drop for Unlimited<'_> {
    fn drop(&mut self) {
        // Fails only where Lua's memory is not ours to limit.
        let _ = self.lua.set_memory_limit(self.memory_bytes);
    }
}

/// What is known of one run.
struct Run {
    read_only: bool,
    memory: ScriptMemory,
    budget: Arc<Budget>,
}

const NOT_WITHOUT_MEMORY: &str = "OOM allow-oom flag is not set on the script, can not run it \
    when used memory > 'maxmemory'";

/// A script that says what it does is refused before it begins. That is looked at before it is
/// called or queued; what has come about since within its transaction is seen here.
fn check_flags(call: &Call<'_>, flags: Option<Flags>, was_out: bool) -> Outcome {
    if is_stale(call.state) && !flags.is_some_and(|flags| flags.allow_stale) {
        return Err(MASTER_DOWN.into());
    }
    let Some(flags) = flags else { return Ok(()) };
    if !flags.no_writes {
        // Redis asks for the role before it looks at the command's own kind.
        check_write(call.shared, call.state, call.client)?;
    }
    if was_out && !flags.no_writes && !flags.allow_oom {
        return Err(NOT_WITHOUT_MEMORY.into());
    }
    Ok(())
}

/// The message, the source and the line of a script's error, as Redis words them; and whether
/// it is the error of a command, counted already.
fn run_error(name: &[u8], mut values: impl Iterator<Item = Value>) -> (Failure, bool) {
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
    let is_counted = matches!(values.next(), Some(Value::Boolean(true)));
    if let Some((source, line)) = source.zip(line) {
        message.extend_from_slice(b" script: ");
        message.extend_from_slice(name);
        message.extend_from_slice(b", on ");
        message.extend_from_slice(&source);
        message.push(b':');
        message.extend_from_slice(&line);
        message.push(b'.');
    }
    (message.into(), is_counted)
}

/// `#!lua flags=…`. The line stays as an empty one, so that line numbers are right.
fn read_shebang(source: &[u8]) -> Result<(Option<Flags>, &[u8]), Failure> {
    if !source.starts_with(b"#!") {
        return Ok((None, source));
    }
    let end = source.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or("ERR Invalid script shebang")?;
    let mut words = source[..end].split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err([b"ERR Unexpected engine in script shebang: ", engine].concat().into());
    }
    let mut flags = Flags::default();
    for word in words {
        let Some(names) = word.strip_prefix(b"flags=") else {
            return Err([b"ERR Unknown lua shebang option: ", word].concat().into());
        };
        for name in names.split(|byte| *byte == b',').filter(|_| !names.is_empty()) {
            match name {
                b"no-writes" => flags.no_writes = true,
                b"allow-oom" => flags.allow_oom = true,
                b"allow-stale" => flags.allow_stale = true,
                // There is no cluster.
                b"no-cluster" | b"allow-cross-slot-keys" => {}
                _ => {
                    let text = [b"ERR Unexpected flag in script shebang: ", name].concat();
                    return Err(text.into());
                }
            }
        }
    }
    Ok((Some(flags), &source[end..]))
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
            *budget.place.lock().unwrap_or_else(PoisonError::into_inner) = host::running(lua);
        }
        // A script that catches the error meets it again at once. Each time: it is only the
        // coroutine that is running whose instructions are counted anew.
        arm(lua, budget.clone(), 1)?;
        Err(mlua::Error::runtime("the budget of instructions is spent"))
    })
}

#[cfg(test)]
mod tests;
