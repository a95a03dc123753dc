//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::codec::{Arguments, ReplyEncoder};
use super::super::observe::Origin;
use super::super::state::{Client, Shared, State, Watcher};
use super::{Call, Named, Outcome, named, run};

pub(super) fn multi(call: &mut Call<'_>) -> Outcome {
    if call.client.transaction.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.client.transaction = Some(Box::default());
    call.reply.ok();
    Ok(())
}

/// Keeps a command with these flags for `EXEC`.
pub(super) fn queue(
    shared: &Shared,
    state: &mut State,
    client: &mut Client,
    flags: u16,
    arguments: Arguments<'_>,
    reply: &mut ReplyEncoder,
) {
    let Some(transaction) = &mut client.transaction else { return };
    let command = arguments.to_owned();
    transaction.bytes += command.memory_bytes();
    let limit = if client.origin == Origin::Master {
        shared.settings.resync_limit_bytes
    } else {
        shared.settings.requests.buffered_bytes
    };
    if transaction.bytes > limit {
        // A transaction is as bounded as the query buffer that it came through.
        transaction.failed = true;
        transaction.commands.clear();
        transaction.bytes = 0;
        let failure = b"ERR transaction exceeds the limit of the query buffer";
        state.statistics.answer(failure);
        reply.error(failure);
        return;
    }
    if !transaction.failed {
        transaction.commands.push(command);
        transaction.flags_of_any |= flags;
        transaction.flags_not_of_all |= !flags;
    }
    reply.simple(b"QUEUED");
}

pub(super) fn discard(call: &mut Call<'_>) -> Outcome {
    if call.client.transaction.take().is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    call.state.unwatch(call.client);
    call.reply.ok();
    Ok(())
}

pub(super) fn exec(call: &mut Call<'_>) -> Outcome {
    let Some(transaction) = call.client.transaction.take() else {
        return Err("ERR EXEC without MULTI".into());
    };
    let touched = watched_key_changed(call);
    call.state.unwatch(call.client);
    if transaction.failed {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    if touched {
        call.reply.null_array();
        return Ok(());
    }
    call.reply.array(transaction.commands.len());
    for command in &transaction.commands {
        let arguments = command.borrow();
        let Ok(Named { command: found, place, .. }) = named(arguments) else { continue };
        let mut inner = Call {
            shared: call.shared,
            state: &mut *call.state,
            client: &mut *call.client,
            arguments,
            reply: &mut *call.reply,
            pending: &mut *call.pending,
            now_ms: call.now_ms,
            name: found.name,
            may_block: false,
            is_of_script: false,
            ready: None,
        };
        run(&mut inner, found, place);
    }
    Ok(())
}

/// Changed, or expired since, which nobody may have noticed yet.
fn watched_key_changed(call: &mut Call<'_>) -> bool {
    let Some(touched) = &call.client.watch else { return false };
    let state = &*call.state;
    touched.load(Ordering::Relaxed)
        || call.client.watched.iter().any(|watched| {
            let mine = state.watches.get(watched).and_then(|watchers| {
                watchers.iter().find(|watcher| Arc::ptr_eq(&watcher.touched, touched))
            });
            let entry = state.databases[watched.0].get(&watched.1);
            mine.is_some_and(|watcher| !watcher.expired)
                && entry.is_some_and(|entry| entry.is_expired(call.now_ms))
        })
}

pub(super) fn watch(call: &mut Call<'_>) -> Outcome {
    if call.client.transaction.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let touched = call.client.watch.get_or_insert_with(|| Arc::new(AtomicBool::new(false))).clone();
    let database = call.client.database;
    for key in call.arguments.from(1).iter() {
        // Looked at without removing it: who watches changes nothing.
        let entry = call.state.databases[database].get(key);
        let expired = entry.is_some_and(|entry| entry.is_expired(call.now_ms));
        let key: (usize, Arc<[u8]>) = (database, key.into());
        if call.client.watched.insert(key.clone()) {
            let watcher = Watcher { touched: touched.clone(), expired };
            call.state.watches.entry(key).or_default().push(watcher);
        }
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn unwatch(call: &mut Call<'_>) -> Outcome {
    call.state.unwatch(call.client);
    call.reply.ok();
    Ok(())
}
