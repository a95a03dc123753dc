//! `DEBUG`, as far as tests of clients and of servers use it; see
//! [`debug_command`](super::super::Settings::debug_command).

use std::time::Duration;

use super::super::codec::number::parse_double;
use super::super::persistence;
use super::{Call, Outcome, debug_protocol, word};

const REFUSED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set \
    to \"local\", you can run it from a local connection, otherwise you need to set this option \
    in the configuration file, and then restart the server.";

pub(super) fn debug(call: &mut Call<'_>) -> Outcome {
    if !call.shared.settings.debug_command {
        return Err(REFUSED.into());
    }
    let count = call.arguments.len();
    match word(&call.arguments[1]).as_slice() {
        b"sleep" if count == 3 => {
            let seconds = parse_double(&call.arguments[2]).filter(|seconds| *seconds >= 0.0);
            let seconds = seconds.unwrap_or(0.0).min(86_400.0);
            persistence::sleep(call, Duration::from_secs_f64(seconds));
        }
        b"set-active-expire" if count == 3 => {
            call.state.expires_actively = !call.is(2, "0");
            call.reply.ok();
        }
        // One encoding for each type: there is nothing to choose.
        b"quicklist-packed-threshold" | b"listpack" if count >= 3 => {
            call.reply.ok();
        }
        b"set-disable-deny-scripts" if count == 3 => {
            call.state.allows_all_in_scripts = !call.is(2, "0");
            call.reply.ok();
        }
        b"protocol" if count == 3 => debug_protocol::protocol(call)?,
        b"reload" => persistence::reload(call)?,
        b"loadaof" if count == 2 => persistence::load_append_only(call)?,
        b"change-repl-id" if count == 2 => call.reply.ok(),
        b"object" if count == 3 => {
            let arguments = call.arguments;
            // Also one whose time has come: looking at it changes nothing.
            let database = &call.state.databases[call.client.database];
            let entry = database.get(&arguments[2]).ok_or("ERR no such key")?;
            let kind = entry.value.type_name();
            let bytes = entry.value.memory_bytes();
            let text = format!(
                "Value at:0x0 refcount:1 type:{kind} serializedlength:{bytes} lru:0 lru_seconds_idle:0"
            );
            call.reply.simple(text.as_bytes());
        }
        _ => return Err(call.unknown_subcommand_or_arity()),
    }
    Ok(())
}
