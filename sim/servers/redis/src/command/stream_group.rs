//! Groups of consumers: made, set, acknowledged to, and what consumers take over from others.

use super::super::keyspace::stream::{Entry, Group, Id, Pending, Stream};
use super::super::pubsub::event::STREAM;
use super::stream::{loose_id, range_end, range_start, reply_entry, reply_id, strict_id};
use super::stream_read::{propagate_claim, propagate_last_id};
use super::{Call, Failure, NOT_AN_INTEGER, Outcome, SYNTAX, shown};

const NO_STREAM: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for \
                         CREATE you may want to use the MKSTREAM option to create an empty stream \
                         automatically.";

/// No such group of a key that is there.
pub(super) fn no_group(group: &[u8], key: &[u8]) -> Failure {
    let text = [
        &b"NOGROUP No such consumer group '"[..],
        shown(group),
        b"' for key name '",
        shown(key),
        b"'",
    ];
    text.concat().into()
}

/// No such key, or no such group of it.
fn no_key_or_group(key: &[u8], group: &[u8]) -> Failure {
    let text =
        [&b"NOGROUP No such key '"[..], shown(key), b"' or consumer group '", shown(group), b"'"];
    text.concat().into()
}

pub(super) fn xgroup(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let word = arguments[1].to_ascii_lowercase();
    let (creates, sets) = (word == b"create", word == b"setid");
    let (mut make, mut read) = (false, None);
    let mut index = 5;
    while index < arguments.len() {
        if creates && call.is(index, "mkstream") {
            make = true;
        } else if (creates || sets) && call.is(index, "entriesread") && index + 1 < arguments.len()
        {
            index += 1;
            let given = call.integer(index)?;
            if given < -1 {
                return Err("ERR value for ENTRIESREAD must be positive or -1".into());
            }
            read = Some(given).filter(|given| *given >= 0);
        } else {
            return Err(call.unknown_subcommand_or_arity());
        }
        index += 1;
    }
    let (key, name) = (&arguments[2], &arguments[3]);
    let stream = call.lookup_as::<Stream>(key)?;
    if stream.is_none() && !make {
        return Err(NO_STREAM.into());
    }
    let last = stream.map_or(Id::LEAST, |stream| stream.last_id);
    let is_known = stream.is_some_and(|stream| stream.groups.contains_key(name));
    if !is_known && matches!(word.as_slice(), b"setid" | b"createconsumer" | b"delconsumer") {
        return Err(no_group(name, key));
    }
    match word.as_slice() {
        b"create" => {
            let id = if call.is(4, "$") { last } else { strict_id(&arguments[4], 0)? };
            create(call, id, read, is_known)
        }
        b"setid" => {
            let id = if call.is(4, "$") { last } else { loose_id(&arguments[4])? };
            call.update(key, |stream: &mut Stream| {
                if let Some(group) = stream.groups.get_mut(name) {
                    (group.last_id, group.entries_read) = (id, read);
                }
            })?;
            call.reply.ok();
            call.notify(STREAM, "xgroup-setid", key);
            call.propagate();
            Ok(())
        }
        b"destroy" => {
            if is_known {
                call.update(key, |stream: &mut Stream| stream.groups.remove(name))?;
                call.notify(STREAM, "xgroup-destroy", key);
                call.propagate();
                // Who waits for it waits in vain.
                call.state.waiting.note_change(call.client.database, key);
            }
            call.reply.integer(i64::from(is_known));
            Ok(())
        }
        b"createconsumer" => consumer(call, true),
        _ => consumer(call, false),
    }
}

fn create(call: &mut Call<'_>, id: Id, read: Option<i64>, is_known: bool) -> Outcome {
    let arguments = call.arguments;
    let (key, name) = (&arguments[2], &arguments[3]);
    if is_known {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    let is_new = call.lookup(key).is_none();
    let group = Group { last_id: id, entries_read: read, ..Group::default() };
    let add = |stream: &mut Stream| {
        stream.groups.insert(name.into(), group);
    };
    if is_new {
        call.change(key, add)?;
    } else {
        call.update(key, add)?;
    }
    call.reply.ok();
    call.notify(STREAM, "xgroup-create", key);
    call.propagate();
    Ok(())
}

/// `CREATECONSUMER`, `DELCONSUMER`.
fn consumer(call: &mut Call<'_>, creates: bool) -> Outcome {
    let arguments = call.arguments;
    let (key, name, consumer) = (&arguments[2], &arguments[3], &arguments[4]);
    let now_ms = call.now_ms;
    let (changed, pending) = call.update(key, |stream: &mut Stream| {
        let Some(group) = stream.groups.get_mut(name) else { return (false, 0) };
        if creates {
            return (group.hear(consumer, now_ms), 0);
        }
        let before = group.pending.len();
        group.pending.retain(|_, pending| *pending.consumer != *consumer);
        (group.consumers.remove(consumer).is_some(), before - group.pending.len())
    })?;
    if changed {
        let event = if creates { "xgroup-createconsumer" } else { "xgroup-delconsumer" };
        call.notify(STREAM, event, key);
        call.propagate();
    }
    call.reply.integer(if creates { i64::from(changed) } else { pending as i64 });
    Ok(())
}

pub(super) fn xack(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let (key, name) = (&arguments[1], &arguments[2]);
    let stream = call.lookup_as::<Stream>(key)?;
    if stream.is_none_or(|stream| !stream.groups.contains_key(name)) {
        call.reply.integer(0);
        return Ok(());
    }
    let ids = arguments.from(3).iter().map(|text| strict_id(text, 0));
    let ids = ids.collect::<Result<Vec<Id>, _>>()?;
    let acknowledged = call.update(key, |stream: &mut Stream| {
        let Some(group) = stream.groups.get_mut(name) else { return 0 };
        ids.iter().filter(|id| group.pending.remove(id).is_some()).count()
    })?;
    if acknowledged > 0 {
        call.propagate();
    }
    call.reply.integer(acknowledged as i64);
    Ok(())
}

pub(super) fn xpending(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let (key, name) = (&arguments[1], &arguments[2]);
    if arguments.len() != 3 && !(6..=9).contains(&arguments.len()) {
        return Err(SYNTAX.into());
    }
    if arguments.len() == 3 {
        check_group(call, key, name)?;
        return call.ask(key, |stream: Option<&Stream>, reply| {
            let Some(group) = stream.and_then(|stream| stream.groups.get(name)) else { return };
            reply.array(4);
            reply.integer(group.pending.len() as i64);
            let ids = group.pending.keys().next().zip(group.pending.keys().next_back());
            let Some((first, last)) = ids else {
                reply.null();
                reply.null();
                return reply.null_array();
            };
            reply_id(reply, *first);
            reply_id(reply, *last);
            let busy: Vec<(&[u8], usize)> = group
                .consumers
                .keys()
                .map(|consumer| (&**consumer, group.pending_of(consumer).count()))
                .filter(|(_, count)| *count > 0)
                .collect();
            reply.array(busy.len());
            for (consumer, count) in busy {
                reply.array(2);
                reply.bulk(consumer);
                reply.bulk_integer(count as i64);
            }
        });
    }
    let (mut idle_ms, mut first) = (0, 3);
    if call.is(3, "idle") {
        idle_ms = call.integer(4)?;
        if arguments.len() < 8 {
            return Err(SYNTAX.into());
        }
        first = 5;
    }
    let count = usize::try_from(call.integer(first + 2)?).unwrap_or(0);
    let (from, to) = (range_start(&arguments[first])?, range_end(&arguments[first + 1])?);
    let consumer = arguments.get(first + 3);
    check_group(call, key, name)?;
    let now_ms = call.now_ms;
    call.ask(key, |stream: Option<&Stream>, reply| {
        let Some(group) = stream.and_then(|stream| stream.groups.get(name)) else { return };
        let idle = |pending: &Pending| now_ms.saturating_sub(pending.delivered_at_ms);
        let found: Vec<(&Id, &Pending)> = group
            .pending
            .iter()
            .filter(|(id, pending)| {
                (from..=to).contains(*id)
                    && consumer.is_none_or(|consumer| *pending.consumer == *consumer)
                    && (idle_ms == 0 || idle(pending) >= idle_ms)
            })
            .take(count)
            .collect();
        reply.array(found.len());
        for (id, pending) in found {
            reply.array(4);
            reply_id(reply, *id);
            reply.bulk(&pending.consumer);
            reply.integer(idle(pending).max(0));
            reply.integer(pending.deliveries);
        }
    })
}

fn check_group(call: &mut Call<'_>, key: &[u8], name: &[u8]) -> Outcome {
    let stream = call.lookup_as::<Stream>(key)?;
    if stream.is_none_or(|stream| !stream.groups.contains_key(name)) {
        return Err(no_key_or_group(key, name));
    }
    Ok(())
}

/// How entries are taken over.
struct Claim {
    /// Only what nobody has touched for so long.
    idle_ms: i64,
    /// What counts as the time of the delivery, Unix milliseconds.
    at_ms: i64,
    deliveries: Option<i64>,
    /// Also what nobody was given.
    force: bool,
    only_ids: bool,
}

/// What became of an entry that is to be taken over.
enum Claimed {
    /// It is left alone.
    No,
    /// It is there no more, and pending no more.
    Gone(Pending),
    Yes(Pending, Entry),
}

fn claim_one(
    call: &mut Call<'_>,
    key: &[u8],
    name: &[u8],
    consumer: &[u8],
    id: Id,
    claim: &Claim,
) -> Result<Claimed, Failure> {
    let now_ms = call.now_ms;
    let (claimed, is_new) = call.update(key, |stream: &mut Stream| {
        let entry = stream.get(id).cloned();
        let Some(group) = stream.groups.get_mut(name) else { return (Claimed::No, false) };
        let Some(entry) = entry else {
            return (group.pending.remove(&id).map_or(Claimed::No, Claimed::Gone), false);
        };
        let present = group.pending.get(&id);
        let is_busy = present.is_some_and(|pending| {
            claim.idle_ms > 0 && now_ms.saturating_sub(pending.delivered_at_ms) < claim.idle_ms
        });
        if is_busy || present.is_none() && !claim.force {
            return (Claimed::No, false);
        }
        let before = present.map_or(1, |pending| pending.deliveries);
        let deliveries = match claim.deliveries {
            Some(deliveries) => deliveries,
            None if claim.only_ids => before,
            None => before.saturating_add(1),
        };
        let is_new = group.hear(consumer, now_ms);
        let pending =
            Pending { consumer: consumer.into(), delivered_at_ms: claim.at_ms, deliveries };
        group.pending.insert(id, pending.clone());
        (Claimed::Yes(pending, entry), is_new)
    })?;
    if is_new {
        call.notify(STREAM, "xgroup-createconsumer", key);
    }
    let last = last_id(call, key, name);
    if let Claimed::Yes(pending, _) | Claimed::Gone(pending) = &claimed {
        propagate_claim(call, key, name, id, pending, last);
    }
    Ok(claimed)
}

fn last_id(call: &mut Call<'_>, key: &[u8], name: &[u8]) -> Id {
    let stream = call.lookup_as::<Stream>(key).ok().flatten();
    stream.and_then(|stream| stream.groups.get(name)).map_or(Id::LEAST, |group| group.last_id)
}

fn reply_claimed(call: &mut Call<'_>, claimed: &[(Id, Entry)], only_ids: bool) {
    call.reply.array(claimed.len());
    for (id, entry) in claimed {
        if only_ids {
            reply_id(call.reply, *id);
        } else {
            reply_entry(call.reply, *id, entry);
        }
    }
}

pub(super) fn xclaim(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let (key, name, consumer) = (&arguments[1], &arguments[2], &arguments[3]);
    check_group(call, key, name)?;
    let integer = |index: usize, what: &'static str| {
        super::parse_integer(&arguments[index]).ok_or_else(|| Failure::from(what))
    };
    let idle_ms = integer(4, "ERR Invalid min-idle-time argument for XCLAIM")?.max(0);
    let ids: Vec<Id> = arguments.from(5).iter().map_while(|text| strict_id(text, 0).ok()).collect();
    let mut claim = Claim { idle_ms, at_ms: -1, deliveries: None, force: false, only_ids: false };
    let mut given_last = Id::LEAST;
    let mut index = 5 + ids.len();
    while index < arguments.len() {
        let has_more = index + 1 < arguments.len();
        if call.is(index, "force") {
            claim.force = true;
        } else if call.is(index, "justid") {
            claim.only_ids = true;
        } else if has_more && call.is(index, "idle") {
            index += 1;
            let idle = integer(index, "ERR Invalid IDLE option argument for XCLAIM")?;
            claim.at_ms = call.now_ms.saturating_sub(idle);
        } else if has_more && call.is(index, "time") {
            index += 1;
            claim.at_ms = integer(index, "ERR Invalid TIME option argument for XCLAIM")?;
        } else if has_more && call.is(index, "retrycount") {
            index += 1;
            let count = integer(index, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
            claim.deliveries = Some(count).filter(|count| *count >= 0);
        } else if has_more && call.is(index, "lastid") {
            index += 1;
            given_last = strict_id(&arguments[index], 0)?;
        } else {
            let option = shown(&arguments[index]);
            return Err([b"ERR Unrecognized XCLAIM option '", option, b"'"].concat().into());
        }
        index += 1;
    }
    if !(0..=call.now_ms).contains(&claim.at_ms) {
        claim.at_ms = call.now_ms;
    }
    let is_further = given_last > last_id(call, key, name);
    if is_further {
        call.update(key, |stream: &mut Stream| {
            if let Some(group) = stream.groups.get_mut(name) {
                group.last_id = given_last;
            }
        })?;
    }
    let (mut claimed, mut is_told) = (Vec::new(), false);
    for id in ids {
        match claim_one(call, key, name, consumer, id, &claim)? {
            Claimed::No => {}
            Claimed::Gone(_) => is_told = true,
            Claimed::Yes(_, entry) => {
                is_told = true;
                claimed.push((id, entry));
            }
        }
    }
    if is_further && !is_told {
        let read = call
            .lookup_as::<Stream>(key)?
            .and_then(|stream| stream.groups.get(name))
            .and_then(|group| group.entries_read);
        propagate_last_id(call, key, name, given_last, read);
    }
    reply_claimed(call, &claimed, claim.only_ids);
    Ok(())
}

pub(super) fn xautoclaim(call: &mut Call<'_>) -> Outcome {
    const TRIES: usize = 10;
    let arguments = call.arguments;
    let (key, name, consumer) = (&arguments[1], &arguments[2], &arguments[3]);
    let idle_ms = super::parse_integer(&arguments[4])
        .ok_or("ERR Invalid min-idle-time argument for XAUTOCLAIM")?
        .max(0);
    let from = range_start(&arguments[5])?;
    let (mut count, mut only_ids) = (100, false);
    let mut index = 6;
    while index < arguments.len() {
        if call.is(index, "count") && index + 1 < arguments.len() {
            index += 1;
            let given = call.at_least(index, 1, "ERR COUNT must be > 0")?;
            if given > i64::MAX / 16 {
                return Err("ERR COUNT must be > 0".into());
            }
            count = usize::try_from(given).map_err(|_| NOT_AN_INTEGER)?;
        } else if call.is(index, "justid") {
            only_ids = true;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    check_group(call, key, name)?;
    let pending: Vec<Id> = call
        .lookup_as::<Stream>(key)?
        .and_then(|stream| stream.groups.get(name))
        .map(|group| group.pending.range(from..).map(|(id, _)| *id).collect())
        .unwrap_or_default();
    let claim = Claim { idle_ms, at_ms: call.now_ms, deliveries: None, force: false, only_ids };
    let (mut claimed, mut gone, mut looked) = (Vec::new(), Vec::new(), 0);
    for id in &pending {
        if looked >= count.saturating_mul(TRIES) || claimed.len() + gone.len() >= count {
            break;
        }
        looked += 1;
        match claim_one(call, key, name, consumer, *id, &claim)? {
            Claimed::No => {}
            Claimed::Gone(_) => gone.push(*id),
            Claimed::Yes(_, entry) => claimed.push((*id, entry)),
        }
    }
    call.reply.array(3);
    reply_id(call.reply, pending.get(looked).copied().unwrap_or(Id::LEAST));
    reply_claimed(call, &claimed, only_ids);
    call.reply.array(gone.len());
    gone.iter().for_each(|id| reply_id(call.reply, *id));
    Ok(())
}
