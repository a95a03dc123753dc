//! Reading what is new in streams: alone (`XREAD`), or as a consumer of a group
//! (`XREADGROUP`), at once or once there is something.

use super::super::blocking::Wanted;
use super::super::codec::{Arguments, OwnedArguments};
use super::super::keyspace::stream::{Entry, Id, Pending, Stream};
use super::super::pubsub::event::STREAM;
use super::stream::{reply_entry, reply_id, strict_id};
use super::waiting::{self, Timeout};
use super::{Call, Failure, Outcome, SYNTAX, c_string, shown};

/// So many entries at most go to a client that has waited without saying how many.
const AFTER_WAITING: usize = 1_000;

/// From where a stream is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Behind an id; of a group: what its consumer has not acknowledged.
    Behind(Id),
    /// `>`: what the group was not given yet.
    New,
}

struct Request<'a> {
    /// `None`: it does not wait.
    timeout: Option<Timeout>,
    count: Option<usize>,
    no_ack: bool,
    group: Option<(&'a [u8], &'a [u8])>,
    streams: Arguments<'a>,
    ids: Arguments<'a>,
    /// Where the ids begin.
    ids_place: usize,
}

fn request<'a>(call: &Call<'a>, of_group: bool) -> Result<Request<'a>, Failure> {
    let arguments = call.arguments;
    let mut request = Request {
        timeout: None,
        count: None,
        no_ack: false,
        group: None,
        streams: arguments.part(0..0),
        ids: arguments.part(0..0),
        ids_place: 0,
    };
    let mut index = 1;
    while index < arguments.len() {
        let more = arguments.len() - index - 1;
        if more > 0 && call.is(index, "block") {
            if call.is_of_script {
                let name = shown(&arguments[0]);
                let text = b" command is not allowed with BLOCK option from scripts";
                return Err([b"ERR ", name, &text[..]].concat().into());
            }
            request.timeout = Some(waiting::milliseconds(&arguments[index + 1])?);
            index += 1;
        } else if more > 0 && call.is(index, "count") {
            let count = call.integer(index + 1)?;
            request.count = usize::try_from(count).ok().filter(|count| *count > 0);
            index += 1;
        } else if more > 0 && call.is(index, "streams") {
            if !more.is_multiple_of(2) {
                return Err("ERR Unbalanced XREAD list of streams: for each stream key an ID or \
                            '$' must be specified."
                    .into());
            }
            request.ids_place = index + 1 + more / 2;
            request.streams = arguments.part(index + 1..request.ids_place);
            request.ids = arguments.from(request.ids_place);
            break;
        } else if more > 1 && call.is(index, "group") {
            if !of_group {
                return Err("ERR The GROUP option is only supported by XREADGROUP. You called \
                            XREAD instead."
                    .into());
            }
            request.group = arguments.get(index + 1).zip(arguments.get(index + 2));
            index += 2;
        } else if call.is(index, "noack") {
            if !of_group {
                return Err("ERR The NOACK option is only supported by XREADGROUP. You called \
                            XREAD instead."
                    .into());
            }
            request.no_ack = true;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    if request.streams.is_empty() {
        return Err(SYNTAX.into());
    }
    if of_group && request.group.is_none() {
        return Err("ERR Missing GROUP option for XREADGROUP".into());
    }
    Ok(request)
}

/// From where one of the streams is read.
fn start(call: &mut Call<'_>, request: &Request<'_>, index: usize) -> Result<Start, Failure> {
    let key = &request.streams[index];
    let stream = call.lookup_as::<Stream>(key)?;
    if let Some((group, _)) = request.group
        && stream.is_none_or(|stream| !stream.groups.contains_key(group))
    {
        if call.ready.is_some() {
            return Err(
                "NOGROUP the consumer group this client was blocked on no longer exists".into()
            );
        }
        return Err([
            &b"NOGROUP No such key '"[..],
            shown(key),
            b"' or consumer group '",
            shown(group),
            b"' in XREADGROUP with GROUP option",
        ]
        .concat()
        .into());
    }
    match (c_string(&request.ids[index]), request.group) {
        (b"$", Some(_)) => Err("ERR The $ ID is meaningless in the context of XREADGROUP: you \
                                want to read the history of this consumer by specifying a proper \
                                ID, or use the > ID to get new messages. The $ ID would just \
                                return an empty result set."
            .into()),
        (b"$", None) => Ok(Start::Behind(stream.map_or(Id::LEAST, |stream| stream.last_id))),
        (b">", None) => Err("ERR The > ID can be specified only when calling XREADGROUP using \
                             the GROUP <group> <consumer> option."
            .into()),
        (b">", Some(_)) => Ok(Start::New),
        _ => Ok(Start::Behind(strict_id(&request.ids[index], 0)?)),
    }
}

/// Whether there is something to tell of a stream now.
fn has_news(call: &mut Call<'_>, request: &Request<'_>, index: usize, from: Start) -> bool {
    let key = &request.streams[index];
    let Ok(Some(stream)) = call.lookup_as::<Stream>(key) else { return false };
    let last = stream.last_entry_id();
    match (from, request.group) {
        // What a consumer has not acknowledged is told also when it is nothing.
        (Start::Behind(_), Some(_)) => true,
        (Start::Behind(id), None) => !stream.is_empty() && last > id,
        (Start::New, group) => {
            let group = group.and_then(|(group, _)| stream.groups.get(group));
            !stream.is_empty() && group.is_some_and(|group| last > group.last_id)
        }
    }
}

fn read(call: &mut Call<'_>, of_group: bool) -> Outcome {
    let mut request = request(call, of_group)?;
    let mut places = Vec::new();
    for index in 0..request.streams.len() {
        if call.looks_at(&request.streams[index]) {
            places.push((index, start(call, &request, index)?));
        }
    }
    if call.ready.is_some() {
        request.count = request.count.or(Some(AFTER_WAITING));
    }
    let mut served = places.clone();
    served.retain(|(index, from)| has_news(call, &request, *index, *from));
    if served.is_empty() {
        let Some(timeout) = request.timeout.filter(|_| call.may_block) else {
            call.reply.null_array();
            return Ok(());
        };
        let wanted = if of_group { Wanted::StreamOfGroup } else { Wanted::Stream };
        let command = resolved(call.arguments, &request, &places);
        call.wait_as(command, request.streams, wanted, timeout);
        return Ok(());
    }
    let protocol_pairs = call.reply.protocol() == super::super::codec::Protocol::Resp3;
    if protocol_pairs {
        call.reply.map(served.len());
    } else {
        call.reply.array(served.len());
    }
    for (index, from) in served {
        if !protocol_pairs {
            call.reply.array(2);
        }
        call.reply.bulk(&request.streams[index]);
        let key = &request.streams[index];
        match (from, request.group) {
            (Start::Behind(id), None) => tell(call, key, id, request.count)?,
            (Start::Behind(id), Some((group, consumer))) => {
                tell_history(call, key, id, request.count, group, consumer)?;
            }
            (Start::New, Some(names)) => deliver(call, key, &request, names)?,
            (Start::New, None) => call.reply.array(0),
        }
    }
    Ok(())
}

/// The command with the ids that `$` stands for now: it may run again later.
fn resolved(
    arguments: Arguments<'_>,
    request: &Request<'_>,
    places: &[(usize, Start)],
) -> OwnedArguments {
    let mut command = OwnedArguments::new();
    for (place, word) in arguments.iter().enumerate() {
        let index = place.checked_sub(request.ids_place);
        let from = places.iter().find(|(known, _)| Some(*known) == index).map(|(_, from)| *from);
        match from {
            Some(Start::Behind(id)) => command.push(id.to_string().as_bytes()),
            _ => command.push(word),
        }
    }
    command
}

fn tell(call: &mut Call<'_>, key: &[u8], behind: Id, count: Option<usize>) -> Outcome {
    call.ask(key, |stream: Option<&Stream>, reply| {
        let entries: Vec<(Id, &Entry)> = stream
            .zip(behind.next())
            .into_iter()
            .flat_map(|(stream, first)| stream.range(first, Id::MOST))
            .take(count.unwrap_or(usize::MAX))
            .collect();
        reply.array(entries.len());
        entries.iter().for_each(|(id, entry)| reply_entry(reply, *id, entry));
    })
}

/// Enters a consumer that is heard of for the first time. What it is given tells the replicas
/// of it; where nothing will, it is told by itself.
fn hear(call: &mut Call<'_>, key: &[u8], group: &[u8], consumer: &[u8], tells: bool) -> Outcome {
    let now_ms = call.now_ms;
    let is_new = call.update(key, |stream: &mut Stream| {
        stream.groups.get_mut(group).is_some_and(|group| group.hear(consumer, now_ms))
    })?;
    if is_new {
        call.notify(STREAM, "xgroup-createconsumer", key);
        if tells {
            call.propagate_as([&b"XGROUP"[..], b"CREATECONSUMER", key, group, consumer]);
        }
    }
    Ok(())
}

/// What a consumer was given and has not acknowledged.
fn tell_history(
    call: &mut Call<'_>,
    key: &[u8],
    behind: Id,
    count: Option<usize>,
    group: &[u8],
    consumer: &[u8],
) -> Outcome {
    hear(call, key, group, consumer, false)?;
    let now_ms = call.now_ms;
    let told = call.update(key, |stream: &mut Stream| {
        let ids: Vec<Id> = stream
            .groups
            .get(group)
            .into_iter()
            .flat_map(|group| group.pending_of(consumer))
            .map(|(id, _)| id)
            .filter(|id| *id > behind)
            .take(count.unwrap_or(usize::MAX))
            .collect();
        let told: Vec<(Id, Option<Entry>)> =
            ids.into_iter().map(|id| (id, stream.get(id).cloned())).collect();
        let group = stream.groups.get_mut(group);
        let Some(group) = group else { return told };
        for (id, entry) in &told {
            if let (Some(_), Some(pending)) = (entry, group.pending.get_mut(id)) {
                pending.delivered_at_ms = now_ms;
                pending.deliveries += 1;
            }
        }
        told
    })?;
    call.reply.array(told.len());
    for (id, entry) in &told {
        match entry {
            Some(entry) => reply_entry(call.reply, *id, entry),
            None => {
                call.reply.array(2);
                reply_id(call.reply, *id);
                call.reply.null_array();
            }
        }
    }
    Ok(())
}

/// Gives a consumer what its group was not given yet.
fn deliver(
    call: &mut Call<'_>,
    key: &[u8],
    request: &Request<'_>,
    (group, consumer): (&[u8], &[u8]),
) -> Outcome {
    hear(call, key, group, consumer, request.no_ack)?;
    let (now_ms, no_ack) = (call.now_ms, request.no_ack);
    let most = request.count.unwrap_or(usize::MAX);
    let given = call.update(key, |stream: &mut Stream| {
        let last = stream.groups.get(group).map_or(Id::MOST, |group| group.last_id);
        let given: Vec<(Id, Entry)> = last
            .next()
            .into_iter()
            .flat_map(|first| stream.range(first, Id::MOST))
            .take(most)
            .map(|(id, entry)| (id, entry.clone()))
            .collect();
        let mut lasts = Vec::with_capacity(given.len());
        for (id, _) in &given {
            stream.note_read(group, *id);
            let Some(group) = stream.groups.get_mut(group) else { continue };
            lasts.push((group.last_id, group.entries_read));
            if !no_ack {
                let consumer = consumer.into();
                let pending = Pending { consumer, delivered_at_ms: now_ms, deliveries: 1 };
                group.pending.insert(*id, pending);
            }
        }
        (given, lasts)
    })?;
    let (given, lasts) = given;
    call.reply.array(given.len());
    for (id, entry) in &given {
        reply_entry(call.reply, *id, entry);
    }
    if no_ack {
        if let Some((last, read)) = lasts.last() {
            propagate_last_id(call, key, group, *last, *read);
        }
    } else {
        for ((id, _), (last, _)) in given.iter().zip(&lasts) {
            let pending =
                Pending { consumer: consumer.into(), delivered_at_ms: now_ms, deliveries: 1 };
            propagate_claim(call, key, group, *id, &pending, *last);
        }
    }
    Ok(())
}

/// Tells the replicas how far a group is.
pub(super) fn propagate_last_id(
    call: &mut Call<'_>,
    key: &[u8],
    group: &[u8],
    last: Id,
    read: Option<i64>,
) {
    let (last, read) = (last.to_string(), read.unwrap_or(-1).to_string());
    call.propagate_as([
        &b"XGROUP"[..],
        b"SETID",
        key,
        group,
        last.as_bytes(),
        b"ENTRIESREAD",
        read.as_bytes(),
    ]);
}

/// Tells the replicas who has been given an entry.
pub(super) fn propagate_claim(
    call: &mut Call<'_>,
    key: &[u8],
    group: &[u8],
    id: Id,
    pending: &Pending,
    last: Id,
) {
    let (id, last) = (id.to_string(), last.to_string());
    let (time, count) = (pending.delivered_at_ms.to_string(), pending.deliveries.to_string());
    call.propagate_as([
        &b"XCLAIM"[..],
        key,
        group,
        &pending.consumer,
        b"0",
        id.as_bytes(),
        b"TIME",
        time.as_bytes(),
        b"RETRYCOUNT",
        count.as_bytes(),
        b"FORCE",
        b"JUSTID",
        b"LASTID",
        last.as_bytes(),
    ]);
}

pub(super) fn xread(call: &mut Call<'_>) -> Outcome {
    read(call, false)
}

pub(super) fn xreadgroup(call: &mut Call<'_>) -> Outcome {
    read(call, true)
}
