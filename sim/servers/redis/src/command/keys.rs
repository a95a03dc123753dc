//! Keys of any type.

use super::super::glob;
use super::super::persistence::snapshot;
use super::super::pubsub::event::GENERIC;
use super::super::state::DATABASES;
use super::{Call, Outcome, SYNTAX};

/// `DEL`, and `UNLINK`, which differs in nothing that can be seen.
pub(super) fn del(call: &mut Call<'_>) -> Outcome {
    let keys = call.arguments.from(1);
    let mut deleted = 0;
    for key in keys.iter() {
        call.lookup(key);
        if call.remove(key) {
            call.notify(GENERIC, "del", key);
            deleted += 1;
        }
    }
    if deleted > 0 {
        call.propagate();
    }
    call.reply.integer(deleted);
    Ok(())
}

pub(super) fn exists(call: &mut Call<'_>) -> Outcome {
    let keys = call.arguments.from(1);
    let found = keys.iter().filter(|key| call.lookup(key).is_some()).count();
    call.reply.integer(found as i64);
    Ok(())
}

pub(super) fn type_(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let name = call.lookup(&arguments[1]).map_or("none", |entry| entry.value.type_name());
    call.reply.simple(name.as_bytes());
    Ok(())
}

pub(super) fn dbsize(call: &mut Call<'_>) -> Outcome {
    call.reply.integer(call.state.databases[call.client.database].len() as i64);
    Ok(())
}

/// In byte order; Redis' order is that of its hash table.
pub(super) fn keys(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let pattern = &arguments[1];
    call.pending.is_loose |= call.may_block;
    let database = &call.state.databases[call.client.database];
    let matching: Vec<_> = database
        .iter()
        .filter(|(key, _)| glob::matches(pattern, key, false))
        .map(|(key, _)| key.clone())
        .collect();
    let living: Vec<_> = matching.into_iter().filter(|key| call.lookup(key).is_some()).collect();
    call.reply.array(living.len());
    for key in living {
        call.reply.bulk(&key);
    }
    Ok(())
}

fn flush(call: &mut Call<'_>, databases: std::ops::Range<usize>) -> Outcome {
    let known = match call.arguments.len() {
        1 => true,
        2 => call.is(1, "sync") || call.is(1, "async"),
        _ => false,
    };
    if !known {
        return Err(SYNTAX.into());
    }
    let is_all = databases.len() == DATABASES;
    call.clear(databases);
    call.propagate();
    if is_all && !call.state.kept.snapshots.rules.is_empty() {
        // Else the next start would bring back what was there.
        snapshot::save(call.shared, call.state, None);
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn flushall(call: &mut Call<'_>) -> Outcome {
    flush(call, 0..DATABASES)
}

pub(super) fn flushdb(call: &mut Call<'_>) -> Outcome {
    let selected = call.client.database;
    flush(call, selected..selected + 1)
}
