//! Streams: appending, ranges, trimming.

use bytes::Bytes;

use super::super::codec::ReplyEncoder;
use super::super::codec::number::{c_string, parse_c_unsigned, parse_integer};
use super::super::keyspace::stream::{Bound, Entry, Id, Stream, Trim};
use super::super::pubsub::event::STREAM;
use super::{Call, Failure, Outcome, SYNTAX, wrong_arity};

const INVALID_ID: &str = "ERR Invalid stream ID specified as stream command argument";

/// An unsigned number as Redis reads the parts of ids (`string2ull`): what is negative by its own
/// strict rules is none, and all else is C's to read.
fn part(text: &[u8]) -> Option<u64> {
    match parse_integer(text) {
        Some(number) => u64::try_from(number).ok(),
        None => parse_c_unsigned(text),
    }
}

/// Longer texts are no ids, also where what is behind a NUL makes them so.
fn is_short(text: &[u8]) -> bool {
    text.len() < 128
}

/// `ms` or `ms-seq`; `missing` is the number where there is none.
pub(super) fn strict_id(text: &[u8], missing: u64) -> Result<Id, Failure> {
    let is_short = is_short(text);
    let text = c_string(text);
    let (ms, seq) = match text.iter().position(|byte| *byte == b'-') {
        None => (part(text), Some(missing)),
        Some(at) => (part(&text[..at]), part(&text[at + 1..])),
    };
    match (ms, seq) {
        (Some(ms), Some(seq)) if is_short => Ok(Id { ms, seq }),
        _ => Err(INVALID_ID.into()),
    }
}

/// As [`strict_id`], or `-` for the least and `+` for the largest id.
fn id(text: &[u8], missing: u64) -> Result<Id, Failure> {
    match c_string(text) {
        b"-" if is_short(text) => Ok(Id::LEAST),
        b"+" if is_short(text) => Ok(Id::MOST),
        _ => strict_id(text, missing),
    }
}

pub(super) fn loose_id(text: &[u8]) -> Result<Id, Failure> {
    id(text, 0)
}

/// The first id of a range; `(` excludes the one that follows it.
pub(super) fn range_start(text: &[u8]) -> Result<Id, Failure> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            strict_id(rest, 0)?.next().ok_or("ERR invalid start ID for the interval".into())
        }
        text => id(text, 0),
    }
}

/// The last id of a range; `(` excludes the one that follows it.
pub(super) fn range_end(text: &[u8]) -> Result<Id, Failure> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => strict_id(rest, u64::MAX)?
            .previous()
            .ok_or("ERR invalid end ID for the interval".into()),
        text => id(text, u64::MAX),
    }
}

pub(super) fn reply_id(reply: &mut ReplyEncoder, id: Id) {
    reply.bulk(id.to_string().as_bytes());
}

pub(super) fn reply_entry(reply: &mut ReplyEncoder, id: Id, entry: &Entry) {
    reply.array(2);
    reply_id(reply, id);
    reply.array(entry.fields.len());
    entry.fields.iter().for_each(|field| reply.bulk(field));
}

/// The id that `XADD` is to use.
enum Wanted {
    /// `*`
    Any,
    /// `ms-*`
    At(u64),
    This(Id),
}

/// What stands before the fields of `XADD`, and in `XTRIM`.
struct Options {
    trim: Option<Trim>,
    /// Where the bound of the trim is, and the sign before it if there is one.
    trim_place: usize,
    only_if_there: bool,
    wanted: Wanted,
    /// Where the id is.
    id_place: usize,
}

const TWO_BOUNDS: &str =
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";

fn options(call: &Call<'_>, adds: bool) -> Result<Options, Failure> {
    let arguments = call.arguments;
    let mut options = Options {
        trim: None,
        trim_place: 0,
        only_if_there: false,
        wanted: Wanted::Any,
        id_place: arguments.len(),
    };
    let mut limit = None;
    let mut index = 2;
    while index < arguments.len() {
        let more = arguments.len() - index - 1;
        if adds && call.is(index, "*") {
            options.id_place = index;
            break;
        } else if more > 0 && (call.is(index, "maxlen") || call.is(index, "minid")) {
            if options.trim.is_some() {
                return Err(TWO_BOUNDS.into());
            }
            let by_length = call.is(index, "maxlen");
            let about = more >= 2 && call.is(index + 1, "~");
            let has_sign = about || more >= 2 && call.is(index + 1, "=");
            index += 1 + usize::from(has_sign);
            let to = if by_length {
                let length = call.integer(index)?;
                let length =
                    usize::try_from(length).map_err(|_| "ERR The MAXLEN argument must be >= 0.")?;
                Bound::Length(length)
            } else {
                Bound::Least(strict_id(&arguments[index], 0)?)
            };
            options.trim = Some(Trim { to, about, limit: 0 });
            options.trim_place = index;
        } else if more > 0 && call.is(index, "limit") {
            index += 1;
            let given = call.integer(index)?;
            limit =
                Some(usize::try_from(given).map_err(|_| "ERR The LIMIT argument must be >= 0.")?);
        } else if adds && call.is(index, "nomkstream") {
            options.only_if_there = true;
        } else if adds {
            options.wanted = wanted(&arguments[index])?;
            options.id_place = index;
            break;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    match (&mut options.trim, limit) {
        (None, Some(limit)) if limit > 0 => {
            return Err("ERR syntax error, LIMIT cannot be used without specifying a trimming \
                        strategy"
                .into());
        }
        (None, _) if !adds => {
            return Err("ERR syntax error, XTRIM must be called with a trimming strategy".into());
        }
        (Some(trim), Some(_)) if !trim.about => {
            return Err(
                "ERR syntax error, LIMIT cannot be used without the special ~ option".into()
            );
        }
        // A hundred nodes at once, if nothing else is said.
        (Some(trim), limit) if trim.about => trim.limit = limit.unwrap_or(10_000),
        _ => {}
    }
    Ok(options)
}

fn wanted(text: &[u8]) -> Result<Wanted, Failure> {
    if let Some(ms) = c_string(text).strip_suffix(b"-*").filter(|ms| !ms.contains(&b'-')) {
        let ms = part(ms).filter(|_| is_short(text));
        return ms.map(Wanted::At).ok_or(INVALID_ID.into());
    }
    Ok(Wanted::This(strict_id(text, 0)?))
}

impl Wanted {
    /// The id of the next entry.
    fn choose(&self, last: Id, now_ms: i64) -> Result<Id, Failure> {
        const SMALL: &str = "ERR The ID specified in XADD is equal or smaller than the target \
                             stream top item";
        match *self {
            Wanted::Any => {
                let now = Id { ms: u64::try_from(now_ms).unwrap_or(0), seq: 0 };
                // An entry of this millisecond, or of a later one: the clock has gone back.
                let id = if now > last { Some(now) } else { last.next() };
                id.ok_or(SMALL.into())
            }
            Wanted::At(ms) if ms == last.ms => {
                let seq = last.seq.checked_add(1).ok_or(SMALL)?;
                Ok(Id { ms, seq })
            }
            Wanted::At(ms) if ms > last.ms => Ok(Id { ms, seq: 0 }),
            Wanted::This(id) if id > last => Ok(id),
            Wanted::At(_) | Wanted::This(_) => Err(SMALL.into()),
        }
    }
}

pub(super) fn xadd(call: &mut Call<'_>) -> Outcome {
    let options = options(call, true)?;
    let arguments = call.arguments;
    let fields = arguments.from(options.id_place + 1);
    if fields.is_empty() || !fields.len().is_multiple_of(2) {
        return Err(wrong_arity(call.name));
    }
    if matches!(options.wanted, Wanted::This(Id::LEAST)) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let key = &arguments[1];
    let last = call.lookup_as::<Stream>(key)?.map(|stream| stream.last_id);
    if last.is_none() && options.only_if_there {
        call.reply.null();
        return Ok(());
    }
    if last == Some(Id::MOST) {
        return Err(
            "ERR The stream has exhausted the last possible ID, unable to add more items".into()
        );
    }
    let id = options.wanted.choose(last.unwrap_or(Id::LEAST), call.now_ms)?;
    let trimmed = call
        .change(key, |stream: &mut Stream| {
            stream.append(id, fields.iter().map(Bytes::copy_from_slice).collect());
            let trimmed = options.trim.map_or(0, |trim| stream.trim(trim));
            (trimmed, stream.len(), stream.first_id())
        })?
        .0;
    call.notify(STREAM, "xadd", key);
    if trimmed.0 > 0 {
        call.notify(STREAM, "xtrim", key);
    }
    propagate(call, &options, Some(id), (trimmed.1, trimmed.2));
    reply_id(call.reply, id);
    Ok(())
}

/// Sends the command to the replicas with what was chosen here: the id, and how much was
/// trimmed where that was left open.
fn propagate(call: &mut Call<'_>, options: &Options, id: Option<Id>, rest: (usize, Id)) {
    let mut words: Vec<Vec<u8>> = call.arguments.iter().map(<[u8]>::to_vec).collect();
    if let Some(id) = id
        && let Some(word) = words.get_mut(options.id_place)
    {
        *word = id.to_string().into_bytes();
    }
    if let Some(trim) = options.trim
        && trim.about
    {
        words[options.trim_place - 1] = b"=".to_vec();
        words[options.trim_place] = match trim.to {
            Bound::Length(_) => rest.0.to_string().into_bytes(),
            Bound::Least(_) => rest.1.to_string().into_bytes(),
        };
    }
    call.propagate_as(words.iter().map(Vec::as_slice));
}

pub(super) fn xtrim(call: &mut Call<'_>) -> Outcome {
    let options = options(call, false)?;
    let arguments = call.arguments;
    let key = &arguments[1];
    let Some(trim) = options.trim else { return Err(SYNTAX.into()) };
    // Looked at first: what removes nothing is no change.
    let Some(stream) = call.lookup_as::<Stream>(key)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let mut tried = stream.clone();
    let trimmed = tried.trim(trim);
    if trimmed > 0 {
        let rest = (tried.len(), tried.first_id());
        call.change(key, |stream: &mut Stream| *stream = tried)?;
        call.notify(STREAM, "xtrim", key);
        propagate(call, &options, None, rest);
    }
    call.reply.integer(trimmed as i64);
    Ok(())
}

pub(super) fn xlen(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    call.ask(&arguments[1], |stream: Option<&Stream>, reply| {
        reply.integer(stream.map_or(0, Stream::len) as i64);
    })
}

pub(super) fn xdel(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    let Some(stream) = call.lookup_as::<Stream>(key)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let ids =
        arguments.from(2).iter().map(|text| strict_id(text, 0)).collect::<Result<Vec<Id>, _>>()?;
    let is_known = ids.iter().any(|id| stream.get(*id).is_some());
    let mut deleted = 0;
    if is_known {
        deleted = call
            .change(key, |stream: &mut Stream| {
                ids.iter().filter(|id| stream.delete(**id)).count() as i64
            })?
            .0;
        call.notify(STREAM, "xdel", key);
        call.propagate();
    }
    call.reply.integer(deleted);
    Ok(())
}

fn range(call: &mut Call<'_>, reversed: bool) -> Outcome {
    let arguments = call.arguments;
    let (first, last) = if reversed { (3, 2) } else { (2, 3) };
    let from = range_start(&arguments[first])?;
    let to = range_end(&arguments[last])?;
    let mut count = None;
    let mut index = 4;
    while index < arguments.len() {
        if !call.is(index, "count") || index + 1 >= arguments.len() {
            return Err(SYNTAX.into());
        }
        count = Some(usize::try_from(call.integer(index + 1)?).unwrap_or(0));
        index += 2;
    }
    call.ask(&arguments[1], |stream: Option<&Stream>, reply| {
        let Some(stream) = stream else { return reply.array(0) };
        if count == Some(0) {
            return reply.null_array();
        }
        let most = count.unwrap_or(usize::MAX);
        let entries: Vec<(Id, &Entry)> = if reversed {
            stream.range(from, to).rev().take(most).collect()
        } else {
            stream.range(from, to).take(most).collect()
        };
        reply.array(entries.len());
        entries.iter().for_each(|(id, entry)| reply_entry(reply, *id, entry));
    })
}

pub(super) fn xrange(call: &mut Call<'_>) -> Outcome {
    range(call, false)
}

pub(super) fn xrevrange(call: &mut Call<'_>) -> Outcome {
    range(call, true)
}

/// `XSETID`: what a stream remembers of ids, set by hand.
pub(super) fn xsetid(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let id = strict_id(&arguments[2], 0)?;
    let (mut added, mut deleted) = (None, None);
    let mut index = 3;
    while index < arguments.len() {
        if index + 1 >= arguments.len() {
            return Err(SYNTAX.into());
        }
        if call.is(index, "entriesadded") {
            let given = call.integer(index + 1)?;
            added = Some(u64::try_from(given).map_err(|_| "ERR entries_added must be positive")?);
        } else if call.is(index, "maxdeletedid") {
            let given = strict_id(&arguments[index + 1], 0)?;
            if given > id {
                return Err("ERR The ID specified in XSETID is smaller than the provided \
                            max_deleted_entry_id"
                    .into());
            }
            deleted = Some(given);
        } else {
            return Err(SYNTAX.into());
        }
        index += 2;
    }
    let key = &arguments[1];
    let stream = call.lookup_as::<Stream>(key)?.ok_or("ERR no such key")?;
    if !stream.is_empty() {
        if id < stream.last_entry_id() {
            return Err(
                "ERR The ID specified in XSETID is smaller than the target stream top item".into(),
            );
        }
        if added.is_some_and(|added| added < stream.len() as u64) {
            return Err("ERR The entries_added specified in XSETID is smaller than the target \
                        stream length"
                .into());
        }
    }
    call.update(key, |stream: &mut Stream| {
        stream.last_id = id;
        stream.added = added.unwrap_or(stream.added);
        stream.max_deleted = deleted.filter(|id| *id != Id::LEAST).unwrap_or(stream.max_deleted);
    })?;
    call.notify(STREAM, "xsetid", key);
    call.propagate();
    call.reply.ok();
    Ok(())
}
