//! `EVAL` and its kin.

use super::super::codec::number::parse_integer;
use super::super::script::{Engine, Sha, overrun};
use super::{Call, Failure, NOT_AN_INTEGER, Outcome};

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// How many of the arguments behind the script and the count are keys.
fn key_count(call: &Call<'_>) -> Result<usize, Failure> {
    let count = parse_integer(&call.arguments[2]).ok_or(NOT_AN_INTEGER)?;
    let count = usize::try_from(count).map_err(|_| "ERR Number of keys can't be negative")?;
    if count > call.arguments.len() - 3 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    Ok(count)
}

/// Works on the engine, which is out of the state meanwhile.
fn with_engine<T>(
    call: &mut Call<'_>,
    work: impl FnOnce(&mut Engine, &mut Call<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut engine = match call.state.engine.take() {
        Some(engine) => engine,
        None => Engine::new(&call.shared.settings)?,
    };
    let result = work(&mut engine, call);
    call.state.engine = Some(engine);
    result
}

fn run_source(call: &mut Call<'_>, read_only: bool) -> Outcome {
    let keys = key_count(call)?;
    with_engine(call, |engine, call| {
        let source = call.arguments.get(1).unwrap_or_default();
        let sha = engine.load(source)?;
        engine.run(call, &sha, keys, read_only)
    })
}

fn run_loaded(call: &mut Call<'_>, read_only: bool) -> Outcome {
    let keys = key_count(call)?;
    let sha = Sha::parse(&call.arguments[1]).ok_or(NO_SCRIPT)?;
    with_engine(call, |engine, call| {
        if !engine.has(&sha) {
            return Err(NO_SCRIPT.into());
        }
        engine.run(call, &sha, keys, read_only)
    })
}

pub(super) fn eval(call: &mut Call<'_>) -> Outcome {
    run_source(call, false)
}

pub(super) fn eval_ro(call: &mut Call<'_>) -> Outcome {
    run_source(call, true)
}

pub(super) fn evalsha(call: &mut Call<'_>) -> Outcome {
    run_loaded(call, false)
}

pub(super) fn evalsha_ro(call: &mut Call<'_>) -> Outcome {
    run_loaded(call, true)
}

pub(super) fn script(call: &mut Call<'_>) -> Outcome {
    let count = call.arguments.len();
    match call.arguments[1].to_ascii_lowercase().as_slice() {
        b"load" if count == 3 => {
            let source = call.arguments.get(2).unwrap_or_default();
            let sha = with_engine(call, |engine, _| engine.load(source))?;
            call.reply.bulk(sha.as_bytes());
        }
        b"exists" if count >= 3 => {
            let shas = call.arguments.from(2);
            call.reply.array(shas.len());
            for sha in shas.iter() {
                let known = Sha::parse(sha)
                    .is_some_and(|sha| call.state.engine.as_ref().is_some_and(|e| e.has(&sha)));
                call.reply.integer(i64::from(known));
            }
        }
        b"flush" if count == 2 || count == 3 => {
            if count == 3 && !call.is(2, "sync") && !call.is(2, "async") {
                return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into());
            }
            if let Some(engine) = &call.state.engine {
                call.state.engine = Some(engine.flushed(&call.shared.settings)?);
            }
            call.reply.ok();
        }
        b"kill" if count == 2 => overrun::kill(call, false)?,
        name @ (b"load" | b"exists" | b"flush" | b"kill") => {
            return Err(call.wrong_arity_of(&String::from_utf8_lossy(name)));
        }
        _ => return Err(call.unknown_subcommand()),
    }
    Ok(())
}
