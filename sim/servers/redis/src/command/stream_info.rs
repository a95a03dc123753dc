//! `XINFO`: what there is to know of streams, their groups, and the groups' consumers.

use super::super::codec::ReplyEncoder;
use super::super::keyspace::stream::{Group, Id, Stream};
use super::stream::{reply_entry, reply_id};
use super::stream_group::no_group;
use super::{Call, Outcome};

pub(super) fn xinfo(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let Some(key) = arguments.get(2) else { return Err(call.unknown_subcommand_or_arity()) };
    if call.lookup_as::<Stream>(key)?.is_none() {
        return Err("ERR no such key".into());
    }
    match arguments[1].to_ascii_lowercase().as_slice() {
        b"stream" => stream(call, key),
        b"groups" => call.ask(key, |stream: Option<&Stream>, reply| {
            let Some(stream) = stream else { return };
            reply.array(stream.groups.len());
            for (name, group) in &stream.groups {
                describe_group(reply, stream, name, group);
            }
        }),
        _ => consumers(call, key),
    }
}

fn consumers(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    let Some(name) = call.arguments.get(3) else {
        return Err(call.unknown_subcommand_or_arity());
    };
    let now_ms = call.now_ms;
    let stream = call.lookup_as::<Stream>(key)?;
    if stream.is_none_or(|stream| !stream.groups.contains_key(name)) {
        return Err(no_group(name, key));
    }
    call.ask(key, |stream: Option<&Stream>, reply| {
        let Some(group) = stream.and_then(|stream| stream.groups.get(name)) else { return };
        reply.array(group.consumers.len());
        for (consumer, heard_ms) in &group.consumers {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(consumer);
            reply.bulk(b"pending");
            reply.integer(group.pending_of(consumer).count() as i64);
            reply.bulk(b"idle");
            reply.integer(now_ms.saturating_sub(*heard_ms).max(0));
        }
    })
}

fn integer_or_null(reply: &mut ReplyEncoder, integer: Option<i64>) {
    match integer {
        Some(integer) => reply.integer(integer),
        None => reply.null(),
    }
}

fn describe_group(reply: &mut ReplyEncoder, stream: &Stream, name: &[u8], group: &Group) {
    reply.map(6);
    reply.bulk(b"name");
    reply.bulk(name);
    reply.bulk(b"consumers");
    reply.integer(group.consumers.len() as i64);
    reply.bulk(b"pending");
    reply.integer(group.pending.len() as i64);
    reply.bulk(b"last-delivered-id");
    reply_id(reply, group.last_id);
    reply.bulk(b"entries-read");
    integer_or_null(reply, group.entries_read);
    reply.bulk(b"lag");
    integer_or_null(reply, stream.lag(group));
}

fn stream(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    let words = call.arguments.from(3);
    let mut count = 10;
    if !words.is_empty() {
        if !call.is(3, "full") || words.len() != 1 && (words.len() != 3 || !call.is(4, "count")) {
            return Err(call.unknown_subcommand_or_arity());
        }
        if words.len() == 3 {
            count = usize::try_from(call.integer(5)?).unwrap_or(10);
        }
    }
    let most = if count == 0 { usize::MAX } else { count };
    let is_full = !words.is_empty();
    call.ask(key, |stream: Option<&Stream>, reply| {
        let Some(stream) = stream else { return };
        reply.map(if is_full { 9 } else { 10 });
        describe(reply, stream);
        if is_full {
            describe_fully(reply, stream, most);
            return;
        }
        reply.bulk(b"groups");
        reply.integer(stream.groups.len() as i64);
        for (name, entry) in [
            (&b"first-entry"[..], stream.range(Id::LEAST, Id::MOST).next()),
            (&b"last-entry"[..], stream.range(Id::LEAST, Id::MOST).next_back()),
        ] {
            reply.bulk(name);
            match entry {
                Some((id, entry)) => reply_entry(reply, id, entry),
                None => reply.null(),
            }
        }
    })
}

fn describe(reply: &mut ReplyEncoder, stream: &Stream) {
    let nodes = stream.nodes() as i64;
    reply.bulk(b"length");
    reply.integer(stream.len() as i64);
    reply.bulk(b"radix-tree-keys");
    reply.integer(nodes);
    reply.bulk(b"radix-tree-nodes");
    // Of a tree of one key; of a larger one Redis tells how its keys share their beginnings.
    reply.integer(nodes + 1);
    reply.bulk(b"last-generated-id");
    reply_id(reply, stream.last_id);
    reply.bulk(b"max-deleted-entry-id");
    reply_id(reply, stream.max_deleted);
    reply.bulk(b"entries-added");
    reply.integer(stream.added as i64);
    reply.bulk(b"recorded-first-entry-id");
    reply_id(reply, stream.first_id());
}

fn describe_fully(reply: &mut ReplyEncoder, stream: &Stream, most: usize) {
    reply.bulk(b"entries");
    let entries: Vec<_> = stream.range(Id::LEAST, Id::MOST).take(most).collect();
    reply.array(entries.len());
    entries.iter().for_each(|(id, entry)| reply_entry(reply, *id, entry));
    reply.bulk(b"groups");
    reply.array(stream.groups.len());
    for (name, group) in &stream.groups {
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(name);
        reply.bulk(b"last-delivered-id");
        reply_id(reply, group.last_id);
        reply.bulk(b"entries-read");
        integer_or_null(reply, group.entries_read);
        reply.bulk(b"lag");
        integer_or_null(reply, stream.lag(group));
        reply.bulk(b"pel-count");
        reply.integer(group.pending.len() as i64);
        reply.bulk(b"pending");
        reply.array(group.pending.len().min(most));
        for (id, pending) in group.pending.iter().take(most) {
            reply.array(4);
            reply_id(reply, *id);
            reply.bulk(&pending.consumer);
            reply.integer(pending.delivered_at_ms);
            reply.integer(pending.deliveries);
        }
        reply.bulk(b"consumers");
        reply.array(group.consumers.len());
        for (consumer, heard_ms) in &group.consumers {
            describe_consumer(reply, group, consumer, *heard_ms, most);
        }
    }
}

fn describe_consumer(
    reply: &mut ReplyEncoder,
    group: &Group,
    consumer: &[u8],
    heard_ms: i64,
    most: usize,
) {
    let pending: Vec<_> = group.pending_of(consumer).collect();
    reply.map(4);
    reply.bulk(b"name");
    reply.bulk(consumer);
    reply.bulk(b"seen-time");
    reply.integer(heard_ms);
    reply.bulk(b"pel-count");
    reply.integer(pending.len() as i64);
    reply.bulk(b"pending");
    reply.array(pending.len().min(most));
    for (id, pending) in pending.iter().take(most) {
        reply.array(3);
        reply_id(reply, *id);
        reply.integer(pending.delivered_at_ms);
        reply.integer(pending.deliveries);
    }
}
