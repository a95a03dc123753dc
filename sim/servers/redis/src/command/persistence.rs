//! `SAVE`, `BGSAVE`, `BGREWRITEAOF`, `LASTSAVE`.

use super::super::persistence::{Child, append, rewrite, snapshot};
use super::super::state::Next;
use super::{Call, Failure, Outcome, SYNTAX, word};

/// What is asked of a server that has no disk.
fn no_disk() -> Failure {
    "ERR this server has no disk".into()
}

pub(super) fn save(call: &mut Call<'_>) -> Outcome {
    if call.state.kept.child == Some(Child::Snapshot) {
        return Err("ERR Background save already in progress".into());
    }
    match snapshot::save(call.shared, call.state, Some(call.client)) {
        true => Ok(()),
        false => Err(no_disk()),
    }
}

pub(super) fn bgsave(call: &mut Call<'_>) -> Outcome {
    let is_to_be_scheduled = match call.arguments.len() {
        1 => false,
        2 if call.is(1, "schedule") => true,
        _ => return Err(SYNTAX.into()),
    };
    let in_transaction = !call.may_block;
    match call.state.kept.child {
        Some(Child::Snapshot) => Err("ERR Background save already in progress".into()),
        child if child.is_some() || in_transaction => {
            if !is_to_be_scheduled && !in_transaction {
                return Err("ERR Another child process is active (AOF?): can't BGSAVE right now. \
                            Use BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible."
                    .into());
            }
            call.state.kept.snapshots.is_scheduled = true;
            call.reply.simple(b"Background saving scheduled");
            Ok(())
        }
        _ => match snapshot::begin(call.shared, call.state) {
            true => {
                call.reply.simple(b"Background saving started");
                Ok(())
            }
            false => Err(no_disk()),
        },
    }
}

pub(super) fn bgrewriteaof(call: &mut Call<'_>) -> Outcome {
    match call.state.kept.child {
        Some(Child::Rewrite) => {
            Err("ERR Background append only file rewriting already in progress".into())
        }
        child if child.is_some() || !call.may_block => {
            call.state.kept.append.rewrite_scheduled = true;
            call.reply.simple(b"Background append only file rewriting scheduled");
            Ok(())
        }
        _ => match rewrite::begin(call.shared, call.state, Some(call.client)) {
            true => Ok(()),
            false => Err(no_disk()),
        },
    }
}

/// `SHUTDOWN`: the process exits, and nobody hears of it but by the end of the connections.
/// With rules for snapshots, or if it is asked for, one is taken first.
pub(super) fn shutdown(call: &mut Call<'_>) -> Outcome {
    let mut saves = None;
    for given in call.arguments.from(1).iter() {
        match word(given).as_slice() {
            b"save" if saves != Some(false) => saves = Some(true),
            b"nosave" if saves != Some(true) => saves = Some(false),
            // Replicas are not waited for, and failures hold nobody up.
            b"now" | b"force" => {}
            b"abort" if call.arguments.len() == 2 => {
                return Err("ERR No shutdown in progress.".into());
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    if let Some(busy) = &call.state.busy
        && saves != Some(false)
    {
        return Err(busy.refusal().into());
    }
    if !call.may_block {
        return Err(
            "ERR SHUTDOWN without NOW or ABORT isn't allowed for DENY BLOCKING client".into()
        );
    }
    call.client.next = Some(Next::Abort);
    let has_rules = !call.state.kept.snapshots.rules.is_empty();
    if saves.unwrap_or(has_rules) && snapshot::save_and_end(call.shared, call.state) {
        return Ok(());
    }
    append::write(call.shared, call.state);
    call.shared.thread.end(None);
    Ok(())
}

pub(super) fn lastsave(call: &mut Call<'_>) -> Outcome {
    call.reply.integer(call.state.kept.snapshots.last_s);
    Ok(())
}
