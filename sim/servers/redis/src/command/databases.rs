//! From one database to another.

use super::super::codec::number::parse_integer;
use super::super::pubsub::event::GENERIC;
use super::{Call, Failure, Outcome};

const OUT_OF_RANGE: &str = "ERR DB index is out of range";

fn number(call: &Call<'_>, index: usize, unreadable: &'static str) -> Result<i32, Failure> {
    let number = parse_integer(&call.arguments[index]).ok_or(unreadable)?;
    i32::try_from(number).map_err(|_| unreadable.into())
}

impl Call<'_> {
    /// # Errors
    /// When there is no such database.
    fn existing(&self, number: i32) -> Result<usize, Failure> {
        let count = self.state.databases.len();
        let number = usize::try_from(number).ok().filter(|number| *number < count);
        number.ok_or(OUT_OF_RANGE.into())
    }
}

pub(super) fn move_(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    // The same words as `SELECT` has for what is no number of 32 bits.
    let unreadable = match parse_integer(&arguments[2]) {
        Some(_) => "ERR value is out of range, value must between -2147483648 and 2147483647",
        None => super::NOT_AN_INTEGER,
    };
    let wanted = number(call, 2, unreadable)?;
    let target = call.existing(wanted)?;
    let own = call.client.database;
    if target == own {
        return Err("ERR source and destination objects are the same".into());
    }
    let Some(entry) = call.lookup(key).cloned() else {
        call.reply.integer(0);
        return Ok(());
    };
    call.client.database = target;
    let is_taken = call.lookup(key).is_some();
    call.client.database = own;
    if is_taken {
        call.reply.integer(0);
        return Ok(());
    }
    call.remove(key);
    call.place(target, key, entry.value, entry.expires_at_ms);
    call.notify(GENERIC, "move_from", key);
    call.client.database = target;
    call.notify(GENERIC, "move_to", key);
    call.client.database = own;
    call.propagate();
    call.reply.integer(1);
    Ok(())
}

/// Those who look at one database see the other from now on. Observers, who know nothing of
/// databases, are not told.
pub(super) fn swapdb(call: &mut Call<'_>) -> Outcome {
    let first = number(call, 1, "ERR invalid first DB index")?;
    let second = number(call, 2, "ERR invalid second DB index")?;
    let (first, second) = (call.existing(first)?, call.existing(second)?);
    if first != second {
        call.state.swap_databases(first, second, call.now_ms);
    }
    call.propagate();
    call.reply.ok();
    Ok(())
}
