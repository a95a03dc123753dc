//! What must hold before a command is queued or run: that there is such a command, with
//! so many arguments, that there is memory for it, and that this server takes writes.

use super::super::codec::{Arguments, OwnedArguments};
use super::super::observe::Origin;
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

/// Refuses what may need memory, and whatever is queued, when there is none.
fn check_memory(shared: &Shared, state: &State, client: &Client, command: &Command) -> Outcome {
    let queues = client.transaction.is_some() && command.flags & NO_QUEUE == 0;
    let executes_growth = command.name == "exec"
        && client.transaction.as_ref().is_some_and(|transaction| {
            transaction.commands.iter().any(|queued| {
                find(&queued.borrow()[0]).is_some_and(|queued| queued.flags & DENY_OOM != 0)
            })
        });
    if (queues || executes_growth || command.flags & DENY_OOM != 0)
        && is_out_of_memory(shared, state, client)
    {
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
fn check_state(state: &State, client: &Client, command: &Command, word: Option<&[u8]>) -> Outcome {
    let is_of_no_data = |queued: &OwnedArguments| {
        find(&queued.borrow()[0]).is_none_or(|queued| queued.flags & WHILE_STALE != 0)
    };
    let queued = client.transaction.as_ref().filter(|_| command.name == "exec");
    let needs_master = command.flags & WHILE_STALE == 0
        || queued.is_some_and(|queued| !queued.commands.iter().all(is_of_no_data));
    if needs_master && is_stale(state) {
        return Err(MASTER_DOWN.into());
    }
    let Some(busy) = &state.busy else { return Ok(()) };
    let is_taken = match command.name {
        "script" => word.is_some_and(|word| word.eq_ignore_ascii_case(b"kill")),
        "function" => word.is_some_and(|word| {
            word.eq_ignore_ascii_case(b"kill") || word.eq_ignore_ascii_case(b"stats")
        }),
        _ => command.flags & WHILE_BUSY != 0,
    };
    if is_taken { Ok(()) } else { Err(busy.refusal().into()) }
}

/// Everything that is checked before a command is queued or run.
pub(super) fn check(
    shared: &Shared,
    state: &State,
    client: &Client,
    named: &Named,
    arguments: Arguments<'_>,
) -> Outcome {
    named.check_arity(arguments.len())?;
    let command = named.command;
    if command.flags & NO_MULTI != 0 && client.transaction.is_some() {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    check_memory(shared, state, client, command)?;
    if command.flags & WRITE != 0 {
        check_write(shared, state, client)?;
    } else if command.name == "ping"
        && client.origin != Origin::Master
        && let Some(refusal) = state.kept.refusal()
    {
        return Err(refusal.into());
    }
    if client.is_subscriber() && command.flags & OF_SUBSCRIBER == 0 {
        return Err(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
             are allowed in this context",
            command.name
        )
        .into());
    }
    check_state(state, client, command, arguments.get(1))
}
