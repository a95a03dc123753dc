//! What becomes of a script that has used up its budget of instructions.
//!
//! Redis lets a script run for ever. After a while it tells others that it is busy, and takes
//! next to nothing but the order to kill the script, which it refuses once the script has
//! written. Here such a script is not run any longer; but for everybody it still runs: what it
//! has written is there and goes to no replica and into no file, nobody is served, after
//! `busy-reply-threshold` others are told, and its client waits until somebody kills it.

use std::sync::PoisonError;

use super::super::blocking::{Blocked, block, refuse, unblock};
use super::super::command::{Call, Failure, Outcome};
use super::super::observe::Origin;
use super::super::state::{Busy, Next, State};
use super::Engine;

/// What is said in the middle of a transaction, which cannot wait: there it ends at once.
const NO_END: &str = "ERR Error running script: it exceeded its budget of instructions";

const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against the \
    dataset. You can either wait the script termination or kill the server in a hard way using \
    the SHUTDOWN NOSAVE command.";

impl Engine {
    /// The server goes on as one whose script does not end.
    pub(super) fn overrun(
        &self,
        call: &mut Call<'_>,
        name: &[u8],
        is_function: bool,
        has_written: bool,
    ) -> Outcome {
        let goes_on = call.may_block && call.state.frozen.is_none();
        if !goes_on || call.client.origin == Origin::Master {
            return Err(NO_END.into());
        }
        let mut text = b"ERR Script killed by user with SCRIPT KILL...".to_vec();
        let place = self.budget.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((source, line)) = place {
            text.extend_from_slice(b" script: ");
            text.extend_from_slice(name);
            text.extend_from_slice(format!(", on {source}:{line}.").as_bytes());
        }
        let failure = Failure::from(text);
        call.state.busy = Some(Busy { client: call.client.id, is_function, has_written, failure });
        block(&mut call.state.waiting, call.client, Blocked::Script);
        call.client.next = Some(Next::Block { timeout: None });
        let shared = call.shared.clone();
        shared.thread.begin_script();
        let told_after = shared.host.sleep(call.state.busy_after());
        let id = call.state.draw_id();
        call.shared.spawn("redis-script", id, async move {
            told_after.await;
            shared.thread.tell_of_script();
        });
        Ok(())
    }
}

/// `SCRIPT KILL` and `FUNCTION KILL`.
///
/// # Errors
/// When there is nothing to kill, or not in this way.
pub(in super::super) fn kill(call: &mut Call<'_>, of_function: bool) -> Outcome {
    let Some(busy) = &call.state.busy else {
        return Err("NOTBUSY No scripts in execution right now.".into());
    };
    if busy.has_written {
        return Err(UNKILLABLE.into());
    }
    if busy.is_function != of_function {
        return Err(busy.refusal().into());
    }
    let State { busy, clients, waiting, statistics, .. } = &mut *call.state;
    // Its client may have gone meanwhile.
    if let Some(busy) = busy.take()
        && let Some(client) = clients.get_mut(&busy.client)
    {
        refuse(statistics, client, &busy.failure.0);
        // That is the script's failure, not of this command.
        statistics.begin();
        unblock(waiting, client);
    }
    call.shared.thread.end_script();
    call.reply.ok();
    Ok(())
}
