//! Subscribing to a sentinel's events, and the PUBLISH by which sentinels greet each other.

use super::{Call, Outcome};
use crate::sentinel::watch::HELLO_CHANNEL;

pub(super) fn subscribe(call: &mut Call<'_>, patterns: bool) -> Outcome {
    for channel in call.arguments.from(1).iter() {
        let client = &mut *call.client;
        let known = if patterns { &mut client.patterns } else { &mut client.channels };
        known.insert(channel.to_vec());
        confirm(call, if patterns { "psubscribe" } else { "subscribe" }, Some(channel));
    }
    Ok(())
}

/// Without arguments: from all of them.
pub(super) fn unsubscribe(call: &mut Call<'_>, patterns: bool) -> Outcome {
    let word = if patterns { "punsubscribe" } else { "unsubscribe" };
    let known = if patterns { &call.client.patterns } else { &call.client.channels };
    let given: Vec<Vec<u8>> = match call.arguments.len() {
        1 => known.iter().cloned().collect(),
        _ => call.arguments.from(1).iter().map(<[u8]>::to_vec).collect(),
    };
    if given.is_empty() {
        confirm(call, word, None);
    }
    for channel in given {
        let client = &mut *call.client;
        let known = if patterns { &mut client.patterns } else { &mut client.channels };
        known.remove(&channel);
        confirm(call, word, Some(&channel));
    }
    Ok(())
}

fn confirm(call: &mut Call<'_>, word: &str, channel: Option<&[u8]>) {
    let count = call.client.subscriptions();
    let reply = &mut call.client.reply;
    reply.push(3);
    reply.bulk(word.as_bytes());
    match channel {
        Some(channel) => reply.bulk(channel),
        None => reply.null(),
    }
    reply.integer(count as i64);
}

/// Nothing but hellos is taken.
pub(super) fn publish(call: &mut Call<'_>) -> Outcome {
    if &call.arguments[1] != HELLO_CHANNEL {
        return Err("ERR Only HELLO messages are accepted by Sentinel instances.".to_owned());
    }
    let text = call.arguments.get(2).unwrap_or_default();
    call.state.core.hello(text, call.now);
    call.client.reply.integer(1);
    Ok(())
}
