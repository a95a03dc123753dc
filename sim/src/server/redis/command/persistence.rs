//! `SAVE`, `BGSAVE`, `BGREWRITEAOF`, `LASTSAVE`.

use super::super::persistence::{Child, rewrite, snapshot};
use super::{Call, Failure, Outcome, SYNTAX};

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

pub(super) fn lastsave(call: &mut Call<'_>) -> Outcome {
    call.reply.integer(call.state.kept.snapshots.last_s);
    Ok(())
}
