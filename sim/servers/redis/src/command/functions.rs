//! `FUNCTION` and `FCALL`.

use super::super::codec::number::parse_integer;
use super::super::glob;
use super::super::script::functions::Functions;
use super::super::script::overrun;
use super::{Call, Failure, Outcome, check_write, is_word, shown, word};

/// Works on the libraries, which are out of the state meanwhile.
fn with_functions<T>(
    call: &mut Call<'_>,
    work: impl FnOnce(&mut Functions, &mut Call<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut functions = match call.state.functions.take() {
        Some(functions) => functions,
        None => Box::new(Functions::new(&call.shared.settings)?),
    };
    let result = work(&mut functions, call);
    call.state.functions = Some(functions);
    result
}

fn run(call: &mut Call<'_>, read_only: bool) -> Outcome {
    let arguments = call.arguments;
    let name = &arguments[1];
    if !call.state.functions.as_ref().is_some_and(|functions| functions.has(name)) {
        return Err("ERR Function not found".into());
    }
    let count = parse_integer(&arguments[2]).ok_or("ERR Bad number of keys provided")?;
    if count > arguments.len() as i64 - 3 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let count = usize::try_from(count).map_err(|_| "ERR Number of keys can't be negative")?;
    with_functions(call, |functions, call| functions.run(call, name, count, read_only))
}

pub(super) fn fcall(call: &mut Call<'_>) -> Outcome {
    run(call, false)
}

pub(super) fn fcall_ro(call: &mut Call<'_>) -> Outcome {
    run(call, true)
}

pub(super) fn function(call: &mut Call<'_>) -> Outcome {
    match call.arguments[1].to_ascii_lowercase().as_slice() {
        b"load" => load(call),
        b"delete" => delete(call),
        b"flush" => flush(call),
        b"list" => list(call),
        b"stats" => {
            stats(call);
            Ok(())
        }
        b"kill" => overrun::kill(call, true),
        _ => Err(call.unknown_subcommand()),
    }
}

fn load(call: &mut Call<'_>) -> Outcome {
    check_write(call.shared, call.state, call.client)?;
    let arguments = call.arguments;
    let last = arguments.len() - 1;
    let mut replace = false;
    for option in arguments.part(2..last).iter() {
        if !is_word(option, "replace") {
            return Err([b"ERR Unknown option given: ", shown(option)].concat().into());
        }
        replace = true;
    }
    let source = &arguments[last];
    let name = with_functions(call, |functions, _| functions.load(source, replace))?;
    call.propagate();
    call.reply.bulk(&name);
    Ok(())
}

fn delete(call: &mut Call<'_>) -> Outcome {
    check_write(call.shared, call.state, call.client)?;
    let arguments = call.arguments;
    if !with_functions(call, |functions, _| Ok(functions.delete(&arguments[2])))? {
        return Err("ERR Library not found".into());
    }
    call.propagate();
    call.reply.ok();
    Ok(())
}

fn flush(call: &mut Call<'_>) -> Outcome {
    check_write(call.shared, call.state, call.client)?;
    let count = call.arguments.len();
    if count > 3 || count == 3 && !call.is(2, "sync") && !call.is(2, "async") {
        return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into());
    }
    call.state.functions = None;
    call.propagate();
    call.reply.ok();
    Ok(())
}

fn list(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let (mut pattern, mut with_code) = (None, false);
    let mut index = 2;
    while index < arguments.len() {
        match word(&arguments[index]).as_slice() {
            b"withcode" if !with_code => with_code = true,
            b"libraryname" if pattern.is_none() => {
                index += 1;
                pattern =
                    Some(arguments.get(index).ok_or("ERR library name argument was not given")?);
            }
            _ => {
                let given = shown(&arguments[index]);
                return Err([b"ERR Unknown argument ", given].concat().into());
            }
        }
        index += 1;
    }
    let functions = call.state.functions.as_deref();
    let all = functions.into_iter().flat_map(Functions::iter);
    let found: Vec<_> = all
        .filter(|(name, _)| pattern.is_none_or(|pattern| glob::matches(pattern, name, true)))
        .collect();
    let reply = &mut *call.reply;
    reply.array(found.len());
    for (name, library) in found {
        reply.map(if with_code { 4 } else { 3 });
        reply.bulk(b"library_name");
        reply.bulk(name);
        reply.bulk(b"engine");
        reply.bulk(b"LUA");
        reply.bulk(b"functions");
        reply.array(library.functions.len());
        for (name, function) in &library.functions {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(name);
            reply.bulk(b"description");
            match &function.description {
                Some(text) => reply.bulk(text),
                None => reply.null(),
            }
            reply.bulk(b"flags");
            reply.set(function.flags.len());
            function.flags.iter().for_each(|flag| reply.simple(flag));
        }
        if with_code {
            reply.bulk(b"library_code");
            reply.bulk(&library.source);
        }
    }
    Ok(())
}

fn stats(call: &mut Call<'_>) {
    let functions = call.state.functions.as_deref();
    let libraries = functions.into_iter().flat_map(Functions::iter);
    let counts: Vec<usize> = libraries.map(|(_, library)| library.functions.len()).collect();
    let reply = &mut *call.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    reply.null();
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(counts.len() as i64);
    reply.bulk(b"functions_count");
    reply.integer(counts.iter().sum::<usize>() as i64);
}
