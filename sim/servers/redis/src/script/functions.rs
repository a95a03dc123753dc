//! Libraries of functions (`FUNCTION LOAD`), which are part of the data set: replicas and
//! files have their sources.
//!
//! They have a Lua state of their own. A library is run once, when it is loaded, and
//! registers functions then; `FCALL` runs one of them.

use std::collections::BTreeMap;

use bytes::Bytes;
use mlua::{Function, Table, Value};

use super::super::command::{Call, Failure, Outcome};
use super::super::settings::Settings;
use super::{Engine, Flags, Script};

/// The libraries of a server.
#[derive(Debug)]
pub(in super::super) struct Functions {
    engine: Engine,
    /// Runs a library, and tells what it registers.
    load: Function,
    /// Runs a function.
    entry: Function,
    libraries: BTreeMap<Vec<u8>, Library>,
}

/// One of them.
#[derive(Debug)]
pub(in super::super) struct Library {
    pub(in super::super) source: Bytes,
    pub(in super::super) functions: BTreeMap<Vec<u8>, Registered>,
}

/// A function of a library.
#[derive(Debug)]
pub(in super::super) struct Registered {
    script: Script,
    pub(in super::super) description: Option<Vec<u8>>,
    pub(in super::super) flags: Vec<Vec<u8>>,
}

const NAME_RULE: &str = "ERR Library names can only contain letters, numbers, or underscores(_) \
    and must be at least one character long";

impl Functions {
    /// None yet.
    pub(in super::super) fn new(settings: &Settings) -> Result<Functions, Failure> {
        let engine = Engine::new(settings)?;
        engine.begin();
        let chunk = engine.lua.load(include_str!("libraries.lua")).set_name("=libraries");
        let (load, entry) = engine.lend.call(chunk.into_function()?)?;
        Ok(Functions { engine, load, entry, libraries: BTreeMap::new() })
    }

    /// Those of a data set.
    pub(in super::super) fn rebuilt(
        settings: &Settings,
        sources: &[Bytes],
    ) -> Result<Option<Box<Functions>>, Failure> {
        if sources.is_empty() {
            return Ok(None);
        }
        let mut functions = Functions::new(settings)?;
        for source in sources {
            functions.load(source, false)?;
        }
        Ok(Some(Box::new(functions)))
    }

    /// The sources of all libraries.
    pub(in super::super) fn sources(&self) -> Vec<Bytes> {
        self.libraries.values().map(|library| library.source.clone()).collect()
    }

    /// All libraries by name.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (&[u8], &Library)> {
        self.libraries.iter().map(|(name, library)| (&**name, library))
    }

    /// Removes a library; false if it is not there.
    pub(in super::super) fn delete(&mut self, name: &[u8]) -> bool {
        self.libraries.remove(name).is_some()
    }

    /// Loads a library, in place of one of the same name if that is wanted, and tells its name.
    pub(in super::super) fn load(
        &mut self,
        source: &[u8],
        replace: bool,
    ) -> Result<Vec<u8>, Failure> {
        let (name, body) = read_head(source)?;
        if self.libraries.contains_key(&name) && !replace {
            return Err([b"ERR Library '", &name[..], b"' already exists"].concat().into());
        }
        let functions = self.register(body)?;
        if functions.is_empty() {
            return Err("ERR No functions registered".into());
        }
        let others = self.libraries.iter().filter(|(other, _)| **other != name);
        let mut taken = others.flat_map(|(_, library)| library.functions.keys());
        if let Some(taken) = taken.find(|taken| functions.contains_key(*taken)) {
            return Err([b"ERR Function ", &taken[..], b" already exists"].concat().into());
        }
        let source = Bytes::copy_from_slice(source);
        self.libraries.insert(name.clone(), Library { source, functions });
        Ok(name)
    }

    /// Runs a library, and takes what it registers.
    fn register(&mut self, body: &[u8]) -> Result<BTreeMap<Vec<u8>, Registered>, Failure> {
        self.engine.make_room();
        self.engine.begin();
        let source = self.engine.lua.create_string(body)?;
        let loaded = self.load.call::<(Option<Table>, Value)>(source);
        let is_spent = self.engine.rearm()?;
        let entries = match loaded {
            _ if is_spent => return Err("ERR FUNCTION LOAD timeout".into()),
            Ok((Some(entries), _)) => entries,
            Ok((None, Value::String(problem))) => {
                return Err([b"ERR ", &problem.as_bytes()[..]].concat().into());
            }
            Ok(_) => return Err("ERR the library failed".into()),
            Err(error) => return Err(error.into()),
        };
        let mut functions = BTreeMap::new();
        for entry in entries.sequence_values::<Table>() {
            let entry = entry?;
            let name: mlua::LuaString = entry.raw_get("function_name")?;
            let callback: Function = entry.raw_get("callback")?;
            let description: Option<mlua::LuaString> = entry.raw_get("description")?;
            let names: Table = entry.raw_get("flags")?;
            let mut flags = Vec::new();
            for flag in names.sequence_values::<mlua::LuaString>() {
                flags.push(flag?.as_bytes().to_vec());
            }
            let has = |wanted: &[u8]| flags.iter().any(|flag| flag == wanted);
            let known = Flags {
                no_writes: has(b"no-writes"),
                allow_oom: has(b"allow-oom"),
                allow_stale: has(b"allow-stale"),
            };
            let registered = Registered {
                script: Script { function: callback, flags: Some(known) },
                description: description.map(|text| text.as_bytes().to_vec()),
                flags,
            };
            functions.insert(name.as_bytes().to_vec(), registered);
        }
        Ok(functions)
    }

    /// Whether there is such a function.
    pub(in super::super) fn has(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }

    /// What a function says of itself.
    pub(in super::super) fn flags(&self, name: &[u8]) -> Option<Flags> {
        self.find(name).and_then(|registered| registered.script.flags)
    }

    fn find(&self, name: &[u8]) -> Option<&Registered> {
        self.libraries.values().find_map(|library| library.functions.get(name))
    }

    /// Runs a function on behalf of `call`.
    pub(in super::super) fn run(
        &mut self,
        call: &mut Call<'_>,
        name: &[u8],
        keys: usize,
        read_only: bool,
    ) -> Outcome {
        let found = self.find(name).map(|registered| registered.script.clone());
        let script = found.ok_or("ERR Function not found")?;
        let entry = self.entry.clone();
        self.engine.run_within(call, &entry, script, name, keys, read_only)
    }
}

/// The name in `#!lua name=…`, and the library behind it. The line stays as an empty one.
fn read_head(source: &[u8]) -> Result<(Vec<u8>, &[u8]), Failure> {
    if !source.starts_with(b"#!") {
        return Err("ERR Missing library metadata".into());
    }
    let end = source.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or("ERR Invalid library metadata")?;
    let mut words = source[2..end].split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    let mut name = None;
    for word in words {
        let is_name = word.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"name="));
        if !is_name {
            return Err([b"ERR Invalid metadata value given: ", word].concat().into());
        }
        if name.replace(word[5..].to_vec()).is_some() {
            return Err("ERR Invalid metadata value, name argument was given multiple times".into());
        }
    }
    let name = name.ok_or("ERR Library name was not given")?;
    if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        return Err(NAME_RULE.into());
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err([b"ERR Engine '", engine, b"' not found"].concat().into());
    }
    Ok((name, &source[end..]))
}
