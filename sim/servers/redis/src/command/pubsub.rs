//! `SUBSCRIBE` and its kin, `PUBLISH`, `PUBSUB`.

use super::super::codec::ReplyEncoder;
use super::super::glob;
use super::super::pubsub::{self, Space};
use super::{Call, Outcome};

/// The answer to one name of a subscription or its end.
fn answer(reply: &mut ReplyEncoder, kind: &str, name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(kind.as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.integer(count as i64);
}

fn add(call: &mut Call<'_>, space: Space) -> Outcome {
    let limit = call.shared.settings.subscriber_output_limit_bytes;
    call.client.mailbox.set_limit(limit);
    for name in call.arguments.from(1).iter() {
        call.state.subscribers.subscribe(call.client, space, name);
        answer(call.reply, call.name, Some(name), call.client.subscriptions.count(space));
    }
    Ok(())
}

fn remove(call: &mut Call<'_>, space: Space) -> Outcome {
    let given = call.arguments.from(1);
    if !given.is_empty() {
        for name in given.iter() {
            call.state.subscribers.unsubscribe(call.client, space, name);
            answer(call.reply, call.name, Some(name), call.client.subscriptions.count(space));
        }
        return Ok(());
    }
    if call.client.subscriptions.len(space) == 0 {
        answer(call.reply, call.name, None, call.client.subscriptions.count(space));
    }
    for name in call.client.subscriptions.names(space) {
        call.state.subscribers.unsubscribe(call.client, space, &name);
        answer(call.reply, call.name, Some(&name), call.client.subscriptions.count(space));
    }
    Ok(())
}

pub(super) fn subscribe(call: &mut Call<'_>) -> Outcome {
    add(call, Space::Channels)
}

pub(super) fn unsubscribe(call: &mut Call<'_>) -> Outcome {
    remove(call, Space::Channels)
}

pub(super) fn psubscribe(call: &mut Call<'_>) -> Outcome {
    add(call, Space::Patterns)
}

pub(super) fn punsubscribe(call: &mut Call<'_>) -> Outcome {
    remove(call, Space::Patterns)
}

pub(super) fn ssubscribe(call: &mut Call<'_>) -> Outcome {
    if !call.may_block {
        return Err("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client".into());
    }
    add(call, Space::Shards)
}

pub(super) fn sunsubscribe(call: &mut Call<'_>) -> Outcome {
    remove(call, Space::Shards)
}

fn send(call: &mut Call<'_>, space: Space) -> Outcome {
    let arguments = call.arguments;
    let receivers =
        pubsub::publish(call.state, Some(call.client), space, &arguments[1], &arguments[2]);
    // Also when nobody listens here: somebody may at a replica.
    call.propagate_to_replicas();
    call.reply.integer(receivers as i64);
    Ok(())
}

pub(super) fn publish(call: &mut Call<'_>) -> Outcome {
    send(call, Space::Channels)
}

pub(super) fn spublish(call: &mut Call<'_>) -> Outcome {
    send(call, Space::Shards)
}

pub(super) fn pubsub(call: &mut Call<'_>) -> Outcome {
    let count = call.arguments.len();
    match call.arguments[1].to_ascii_lowercase().as_slice() {
        b"channels" if count <= 3 => channels(call, Space::Channels),
        b"shardchannels" if count <= 3 => channels(call, Space::Shards),
        b"numsub" => numbers(call, Space::Channels),
        b"shardnumsub" => numbers(call, Space::Shards),
        b"numpat" => {
            call.reply.integer(call.state.subscribers.of(Space::Patterns).len() as i64);
            Ok(())
        }
        _ => Err(call.unknown_subcommand_or_arity()),
    }
}

fn channels(call: &mut Call<'_>, space: Space) -> Outcome {
    let pattern = call.arguments.get(2);
    let names: Vec<_> = call
        .state
        .subscribers
        .of(space)
        .keys()
        .filter(|name| pattern.is_none_or(|pattern| glob::matches(pattern, name, false)))
        .collect();
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name));
    Ok(())
}

fn numbers(call: &mut Call<'_>, space: Space) -> Outcome {
    let names = call.arguments.from(2);
    call.reply.array(names.len() * 2);
    for name in names.iter() {
        let count = call.state.subscribers.of(space).get(name).map_or(0, Vec::len);
        call.reply.bulk(name);
        call.reply.integer(count as i64);
    }
    Ok(())
}
