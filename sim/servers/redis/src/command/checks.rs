//! What must hold before a command is queued or run: that there is memory for it, and that
//! this server takes writes.

use super::super::codec::Arguments;
use super::super::observe::Origin;
use super::super::script::{Flags, Sha};
use super::super::state::{Client, Role, Shared, State};
use super::*;

/// What a server of Redis uses without a single key, about: a lower `maxmemory` is exceeded
/// whatever is there.
const EMPTY_BYTES: usize = 512 * 1024;

/// Whether the data set is as large as it may be. A replica takes what its master sends.
pub(in super::super) fn is_out_of_memory(shared: &Shared, state: &State, client: &Client) -> bool {
    if client.origin == Origin::Master || state.is_replica() {
        return false;
    }
    let used = state.used_bytes();
    let limit = server::maxmemory(state);
    used > shared.settings.memory_bytes || limit > 0 && used + EMPTY_BYTES > limit
}

/// What a command does, by the flags of the table; of a script that says itself what it does,
/// this; of `EXEC`, what is queued.
pub(super) fn flags(
    state: &State,
    client: &Client,
    command: &Command,
    arguments: Arguments<'_>,
) -> u16 {
    if command.name == "exec" {
        let Some(queued) = &client.transaction else { return command.flags };
        let grows = queued.flags_of_any & (WRITE | DENY_OOM);
        return (command.flags | grows) & !(queued.flags_not_of_all & WHILE_STALE);
    }
    if command.flags & SCRIPT == 0 {
        return command.flags;
    }
    let subject = arguments.get(1).unwrap_or_default();
    let told = match command.name {
        "eval" | "eval_ro" => Flags::of_source(subject),
        "evalsha" | "evalsha_ro" => {
            let sha = Sha::parse(subject);
            sha.and_then(|sha| state.engine.as_ref()?.flags(&sha))
        }
        _ => state.functions.as_ref().and_then(|functions| functions.flags(subject)),
    };
    let Some(told) = told else { return command.flags };
    let mut flags = command.flags & !(WRITE | DENY_OOM | MAY_REPLICATE | WHILE_STALE);
    if !told.no_writes {
        flags |= WRITE;
    }
    if !told.no_writes && !told.allow_oom {
        flags |= DENY_OOM;
    }
    if told.allow_stale {
        flags |= WHILE_STALE;
    }
    flags
}

/// Refuses what may need memory, and whatever is queued, when there is none.
fn check_memory(shared: &Shared, state: &State, client: &Client, flags: u16) -> Outcome {
    let queues = client.transaction.is_some() && flags & NO_QUEUE == 0;
    if (queues || flags & DENY_OOM != 0) && is_out_of_memory(shared, state, client) {
        return Err(OUT_OF_MEMORY.into());
    }
    Ok(())
}

/// What must hold of the server before a write.
pub(in super::super) fn check_write(shared: &Shared, state: &State, client: &Client) -> Outcome {
    if client.origin == Origin::Master {
        if state.kept.refusal().is_some() {
            // As Redis does (`repl-ignore-disk-write-error no`): rather no replica than one
            // that keeps less than it acknowledges.
            shared.thread.end(Some("its master writes what it cannot keep"));
        }
        return Ok(());
    }
    if let Some(refusal) = &state.frozen {
        return Err(refusal.to_string().into());
    }
    if let Some(refusal) = state.kept.refusal() {
        return Err(refusal.into());
    }
    if state.is_replica() {
        return Err(READ_ONLY.into());
    }
    let (wanted, lag) = state.replicas_to_write(&shared.settings);
    if wanted > 0 {
        let now = shared.host.monotonic();
        if state.replication.good_replicas(now, lag) < wanted {
            return Err(NO_REPLICAS.into());
        }
    }
    Ok(())
}

/// Whether this is a replica that has no master and is not to answer with what is old.
pub(in super::super) fn is_stale(state: &State) -> bool {
    matches!(&state.role, Role::Replica { link, .. } if !link.is_up) && !state.serves_stale()
}

pub(in super::super) const MASTER_DOWN: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

/// Commands that a server takes in any state, as far as they are looked at here.
fn check_state(state: &State, command: &Command, flags: u16, word: Option<&[u8]>) -> Outcome {
    if flags & WHILE_STALE == 0 && is_stale(state) {
        return Err(MASTER_DOWN.into());
    }
    let Some(busy) = &state.busy else { return Ok(()) };
    let is_taken = match command.name {
        "script" => word.is_some_and(|word| word.eq_ignore_ascii_case(b"kill")),
        "function" => word.is_some_and(|word| {
            word.eq_ignore_ascii_case(b"kill") || word.eq_ignore_ascii_case(b"stats")
        }),
        _ => flags & WHILE_BUSY != 0,
    };
    if is_taken { Ok(()) } else { Err(busy.refusal().into()) }
}

/// Everything that is checked before a command with these flags is queued or run, beside its
/// arity.
pub(super) fn check(
    shared: &Shared,
    state: &State,
    client: &Client,
    command: &Command,
    flags: u16,
    arguments: Arguments<'_>,
) -> Outcome {
    if flags & NO_MULTI != 0 && client.transaction.is_some() {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    check_memory(shared, state, client, flags)?;
    if flags & WRITE != 0 {
        check_write(shared, state, client)?;
    } else if flags & MAY_REPLICATE != 0
        && let Some(refusal) = &state.frozen
    {
        return Err(refusal.to_string().into());
    } else if command.name == "ping"
        && client.origin != Origin::Master
        && let Some(refusal) = state.kept.refusal()
    {
        return Err(refusal.into());
    }
    if client.is_subscriber() && flags & OF_SUBSCRIBER == 0 {
        return Err(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
             are allowed in this context",
            command.name
        )
        .into());
    }
    check_state(state, command, flags, arguments.get(1))
}
