//! What must hold before a command is queued or run: that there is such a command, with
//! so many arguments, that there is memory for it, and that this server takes writes.

use super::super::codec::Arguments;
use super::super::observe::Origin;
use super::super::state::{Client, Shared, State};
use super::*;

/// Whether the data set is as large as it may be. Nothing is evicted (`noeviction`), and
/// a replica takes what its master sends.
pub(in super::super) fn is_out_of_memory(shared: &Shared, state: &State, client: &Client) -> bool {
    if client.origin == Origin::Master || state.is_replica() {
        return false;
    }
    let limit = match server::maxmemory(state) {
        0 => shared.settings.memory_bytes,
        limit => limit.min(shared.settings.memory_bytes),
    };
    state.used_bytes() > limit
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
            shared.thread.end();
        }
        return Ok(());
    }
    if let Some(refusal) = state.kept.refusal() {
        return Err(refusal.into());
    }
    if state.is_replica() {
        return Err(READ_ONLY.into());
    }
    let wanted = shared.settings.min_replicas_to_write;
    if wanted > 0 {
        let now = shared.host.monotonic();
        if state.replication.good_replicas(now, shared.settings.min_replicas_max_lag) < wanted {
            return Err(NO_REPLICAS.into());
        }
    }
    Ok(())
}

/// Everything that is checked before a command is queued or run.
pub(super) fn check(
    shared: &Shared,
    state: &State,
    client: &Client,
    arguments: Arguments<'_>,
) -> Result<&'static Command, Failure> {
    let command = find(&arguments[0]).ok_or_else(|| unknown(arguments))?;
    if !command.accepts(arguments.len()) {
        return Err(wrong_arity(command.name));
    }
    check_subcommand(command.name, arguments)?;
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
    Ok(command)
}
