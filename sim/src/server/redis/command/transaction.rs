//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::codec::{Arguments, ReplyEncoder};
use super::super::observe::Origin;
use super::super::state::{Client, Shared, Transaction};
use super::{Call, Outcome, WRITE, check_write, find, run};

pub(super) fn multi(call: &mut Call<'_>) -> Outcome {
    if call.client.transaction.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.client.transaction = Some(Box::default());
    call.reply.ok();
    Ok(())
}

/// Keeps a command for `EXEC`.
pub(super) fn queue(
    shared: &Shared,
    client: &mut Client,
    arguments: Arguments<'_>,
    reply: &mut ReplyEncoder,
) {
    let Some(transaction) = &mut client.transaction else { return };
    let command = arguments.to_owned();
    transaction.bytes += command.memory_bytes();
    let limit = if client.origin == Origin::Master {
        usize::MAX
    } else {
        shared.settings.requests.buffered_bytes
    };
    if transaction.bytes > limit {
        // A transaction is as bounded as the query buffer that it came through.
        transaction.failed = true;
        transaction.commands.clear();
        transaction.bytes = 0;
        reply.error(b"ERR transaction exceeds the limit of the query buffer");
        return;
    }
    if !transaction.failed {
        transaction.commands.push(command);
    }
    reply.simple(b"QUEUED");
}

pub(super) fn discard(call: &mut Call<'_>) -> Outcome {
    if call.client.transaction.take().is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    call.client.unwatch();
    call.reply.ok();
    Ok(())
}

pub(super) fn exec(call: &mut Call<'_>) -> Outcome {
    let Some(transaction) = call.client.transaction.take() else {
        return Err("ERR EXEC without MULTI".into());
    };
    let touched = watched_key_changed(call);
    call.client.unwatch();
    if let Some(failure) = first_refusal(call, &transaction) {
        return Err(failure);
    }
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
        let Some(found) = find(&arguments[0]) else { continue };
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
        };
        run(&mut inner, found);
    }
    Ok(())
}

/// The server may have become a replica since the commands were queued.
fn first_refusal(call: &Call<'_>, transaction: &Transaction) -> Option<super::Failure> {
    let writes = transaction
        .commands
        .iter()
        .any(|command| find(&command.borrow()[0]).is_some_and(|found| found.flags & WRITE != 0));
    if !writes {
        return None;
    }
    let failure = check_write(call.shared, call.state, call.client).err()?;
    let mut text = b"EXECABORT Transaction discarded because of: ".to_vec();
    text.extend_from_slice(&failure.0);
    Some(text.into())
}

/// Changed, or expired since, which nobody may have noticed yet.
fn watched_key_changed(call: &mut Call<'_>) -> bool {
    let expired = call.client.watched.iter().any(|(database, key)| {
        call.state.databases[*database]
            .get(key)
            .and_then(|entry| entry.expires_at_ms)
            .is_some_and(|at_ms| call.now_ms > at_ms)
    });
    expired || call.client.watch.as_ref().is_some_and(|touched| touched.load(Ordering::Relaxed))
}

pub(super) fn watch(call: &mut Call<'_>) -> Outcome {
    if call.client.transaction.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let touched = call.client.watch.get_or_insert_with(|| Arc::new(AtomicBool::new(false))).clone();
    let database = call.client.database;
    for key in call.arguments.from(1).iter() {
        // What has expired already is watched as absent.
        let present = call.lookup(key).is_some();
        let key: Arc<[u8]> = key.into();
        if present {
            call.client.watched.push((database, key.clone()));
        }
        call.state.watches.entry((database, key)).or_default().push(touched.clone());
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn unwatch(call: &mut Call<'_>) -> Outcome {
    call.client.unwatch();
    call.reply.ok();
    Ok(())
}
