//! When keys expire: asking and changing.

use super::super::pubsub::event::GENERIC;
use super::{Call, Failure, Outcome, shown, word};

#[derive(Default)]
struct Conditions {
    if_none: bool,
    if_any: bool,
    if_greater: bool,
    if_less: bool,
}

fn conditions(call: &Call<'_>) -> Result<Conditions, Failure> {
    let mut conditions = Conditions::default();
    for given in call.arguments.from(3).iter() {
        let flag = match word(given).as_slice() {
            b"nx" => &mut conditions.if_none,
            b"xx" => &mut conditions.if_any,
            b"gt" => &mut conditions.if_greater,
            b"lt" => &mut conditions.if_less,
            _ => return Err([b"ERR Unsupported option ", shown(given)].concat().into()),
        };
        *flag = true;
    }
    let Conditions { if_none, if_any, if_greater, if_less } = conditions;
    if if_none && (if_any || if_greater || if_less) {
        return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
    }
    if if_greater && if_less {
        return Err("ERR GT and LT options at the same time are not compatible".into());
    }
    Ok(conditions)
}

impl Conditions {
    fn hold(&self, current: Option<i64>, wanted: i64) -> bool {
        !(self.if_none && current.is_some()
            || self.if_any && current.is_none()
            // No expiry counts as infinitely late.
            || self.if_greater && current.is_none_or(|current| wanted <= current)
            || self.if_less && current.is_some_and(|current| wanted >= current))
    }
}

/// `base_ms` is added to the argument, which counts units of `unit_ms`.
fn change(call: &mut Call<'_>, base_ms: i64, unit_ms: i64) -> Outcome {
    let conditions = conditions(call)?;
    let wanted = call.integer(2)?;
    let at_ms = wanted
        .checked_mul(unit_ms)
        .and_then(|milliseconds| milliseconds.checked_add(base_ms))
        .ok_or_else(|| format!("ERR invalid expire time in '{}' command", call.name))?;
    let arguments = call.arguments;
    let key = &arguments[1];
    let holds = call.lookup_expiry(key).is_some_and(|current| conditions.hold(current, at_ms));
    if !holds {
        call.reply.integer(0);
        return Ok(());
    }
    if at_ms <= call.now_ms && !call.state.is_replica() {
        call.remove(key);
        call.notify(GENERIC, "del", key);
        call.propagate_as([&b"DEL"[..], key]);
    } else {
        call.put_expiry(key, Some(at_ms));
        call.notify(GENERIC, "expire", key);
        let mut number = itoa::Buffer::new();
        // As Redis rewrites it: the conditions stay, and so does the name that fits already.
        let name = if call.name == "pexpireat" { &arguments[0] } else { b"PEXPIREAT" };
        let mut command = vec![name, key, number.format(at_ms).as_bytes()];
        command.extend(arguments.from(3).iter());
        call.propagate_as(command);
    }
    call.reply.integer(1);
    Ok(())
}

pub(super) fn expire(call: &mut Call<'_>) -> Outcome {
    change(call, call.now_ms, 1_000)
}

pub(super) fn pexpire(call: &mut Call<'_>) -> Outcome {
    change(call, call.now_ms, 1)
}

pub(super) fn expireat(call: &mut Call<'_>) -> Outcome {
    change(call, 0, 1_000)
}

pub(super) fn pexpireat(call: &mut Call<'_>) -> Outcome {
    change(call, 0, 1)
}

pub(super) fn persist(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    let expires = call.lookup_expiry(key).flatten().is_some();
    if expires {
        call.put_expiry(key, None);
        call.notify(GENERIC, "persist", key);
        call.propagate();
    }
    call.reply.integer(i64::from(expires));
    Ok(())
}

/// -2 without the key, -1 without an expiry, else what `tell` makes of it.
fn ask(call: &mut Call<'_>, tell: impl FnOnce(i64, i64) -> i64) -> Outcome {
    let arguments = call.arguments;
    let answer = match call.lookup_expiry(&arguments[1]) {
        None => -2,
        Some(None) => -1,
        Some(Some(at_ms)) => tell(at_ms, call.now_ms),
    };
    call.reply.integer(answer);
    Ok(())
}

fn seconds(milliseconds: i64) -> i64 {
    milliseconds.saturating_add(500) / 1_000
}

pub(super) fn ttl(call: &mut Call<'_>) -> Outcome {
    ask(call, |at_ms, now_ms| seconds(at_ms.saturating_sub(now_ms).max(0)))
}

pub(super) fn pttl(call: &mut Call<'_>) -> Outcome {
    ask(call, |at_ms, now_ms| at_ms.saturating_sub(now_ms).max(0))
}

pub(super) fn expiretime(call: &mut Call<'_>) -> Outcome {
    ask(call, |at_ms, _| seconds(at_ms))
}

pub(super) fn pexpiretime(call: &mut Call<'_>) -> Outcome {
    ask(call, |at_ms, _| at_ms)
}
