//! Strings as arrays of bits, the highest bit of the first byte first.

use bytes::Bytes;

use super::super::pubsub::event::{GENERIC, STRING};
use super::{Call, Failure, Outcome, SYNTAX, word};

const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";

impl Call<'_> {
    /// The place of a bit that an argument names; in units of `unit` bits behind a `#`.
    pub(super) fn bit_offset(&self, text: &[u8], unit: Option<u32>) -> Result<u64, Failure> {
        let (digits, unit) = match (text.strip_prefix(b"#"), unit) {
            (Some(digits), Some(unit)) => (digits, i64::from(unit)),
            _ => (text, 1),
        };
        let settings = &self.shared.settings;
        // Nor may one string be larger than the whole data set.
        let longest = u64::try_from(settings.requests.argument_bytes).unwrap_or(u64::MAX);
        let limit = longest.min(settings.memory_bytes as u64);
        super::super::codec::number::parse_integer(digits)
            .and_then(|offset| offset.checked_mul(unit))
            .and_then(|offset| u64::try_from(offset).ok())
            .filter(|offset| offset >> 3 < limit)
            .ok_or(BAD_OFFSET.into())
    }

    /// The string under a key, long enough to have the bit at `last`, and whether it grew.
    pub(super) fn string_with_bit(
        &mut self,
        key: &[u8],
        last: u64,
    ) -> Result<(Vec<u8>, bool), Failure> {
        let limit = self.shared.settings.memory_bytes;
        let length = usize::try_from(last >> 3).ok().filter(|length| *length < limit);
        let length = length.ok_or(BAD_OFFSET)? + 1;
        let present = self.lookup_string(key)?.map(|text| text.to_vec());
        let has_grown = present.as_ref().is_none_or(|text| text.len() < length);
        let mut text = present.unwrap_or_default();
        text.resize(text.len().max(length), 0);
        Ok((text, has_grown))
    }

    /// Puts a changed string back, which keeps its expiry.
    pub(super) fn put_bits(&mut self, key: &[u8], text: Vec<u8>) {
        let expires_at_ms = self.lookup_expiry(key).flatten();
        self.put_string(key, Bytes::from(text), expires_at_ms);
    }
}

pub(super) fn setbit(call: &mut Call<'_>) -> Outcome {
    const BAD_BIT: &str = "ERR bit is not an integer or out of range";
    let arguments = call.arguments;
    let key = &arguments[1];
    let offset = call.bit_offset(&arguments[2], None)?;
    let bit = match call.integer(3) {
        Ok(bit @ (0 | 1)) => bit as u8,
        _ => return Err(BAD_BIT.into()),
    };
    let (mut text, has_grown) = call.string_with_bit(key, offset)?;
    let shift = 7 - (offset & 7);
    let byte = &mut text[(offset >> 3) as usize];
    let before = *byte >> shift & 1;
    *byte = *byte & !(1 << shift) | bit << shift;
    if has_grown || before != bit {
        call.put_bits(key, text);
        call.notify(STRING, "setbit", key);
        call.propagate();
    }
    call.reply.integer(i64::from(before));
    Ok(())
}

pub(super) fn getbit(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let offset = call.bit_offset(&arguments[2], None)?;
    let text = call.lookup_string(&arguments[1])?.cloned().unwrap_or_default();
    let byte = usize::try_from(offset >> 3).ok().and_then(|at| text.get(at)).copied();
    call.reply.integer(i64::from(byte.unwrap_or(0) >> (7 - (offset & 7)) & 1));
    Ok(())
}

/// The ends of a range, both of which count, from the right where they are negative.
/// `None`: it is empty.
fn ends(start: i64, end: i64, length: i64) -> Option<(i64, i64)> {
    let from_left =
        |index: i64| if index < 0 { index.saturating_add(length).max(0) } else { index };
    let (start, end) = (from_left(start), from_left(end).min(length - 1));
    (start <= end).then_some((start, end))
}

/// Whether places are those of bits, by the word at `index`, if it is there.
fn counts_bits(call: &Call<'_>, index: usize) -> Result<bool, Failure> {
    match call.arguments.get(index) {
        None => Ok(false),
        Some(_) if call.is(index, "byte") => Ok(false),
        Some(_) if call.is(index, "bit") => Ok(true),
        Some(_) => Err(SYNTAX.into()),
    }
}

fn bit(text: &[u8], at: i64) -> u8 {
    text[(at >> 3) as usize] >> (7 - (at & 7)) & 1
}

pub(super) fn bitcount(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let Some(text) = call.lookup_string(&arguments[1])?.cloned() else {
        call.reply.integer(0);
        return Ok(());
    };
    let bits = 8 * text.len() as i64;
    let (first, last) = match arguments.len() {
        2 => (0, bits - 1),
        4 | 5 => {
            let (start, end) = (call.integer(2)?, call.integer(3)?);
            if start < 0 && end < 0 && start > end {
                call.reply.integer(0);
                return Ok(());
            }
            let unit = if counts_bits(call, 4)? { 1 } else { 8 };
            match ends(start, end, bits / unit) {
                Some((start, end)) => (start * unit, end * unit + unit - 1),
                None => (0, -1),
            }
        }
        _ => return Err(SYNTAX.into()),
    };
    let mut count = 0;
    let mut at = first;
    while at <= last {
        if at & 7 == 0 && at + 7 <= last {
            count += i64::from(text[(at >> 3) as usize].count_ones());
            at += 8;
        } else {
            count += i64::from(bit(&text, at));
            at += 1;
        }
    }
    call.reply.integer(count);
    Ok(())
}

pub(super) fn bitpos(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let wanted = match call.integer(2)? {
        wanted @ (0 | 1) => wanted as u8,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let Some(text) = call.lookup_string(&arguments[1])?.cloned() else {
        // As if there were zeros without an end.
        call.reply.integer(if wanted == 1 { -1 } else { 0 });
        return Ok(());
    };
    let bits = 8 * text.len() as i64;
    let has_end = arguments.len() > 4;
    let range = match arguments.len() {
        3 => ends(0, -1, bits),
        4..=6 => {
            let start = call.integer(3)?;
            let unit = if counts_bits(call, 5)? { 1 } else { 8 };
            let end = if has_end { call.integer(4)? } else { i64::MAX };
            ends(start, end, bits / unit).map(|(start, end)| (start * unit, end * unit + unit - 1))
        }
        _ => return Err(SYNTAX.into()),
    };
    let Some((first, last)) = range else {
        call.reply.integer(-1);
        return Ok(());
    };
    let barren = if wanted == 1 { 0 } else { 0xff };
    let mut at = first;
    while at <= last {
        if at & 7 == 0 && at + 7 <= last && text[(at >> 3) as usize] == barren {
            at += 8;
        } else if bit(&text, at) == wanted {
            call.reply.integer(at);
            return Ok(());
        } else {
            at += 1;
        }
    }
    // Behind a string without a clear bit the next would be clear, unless an end was given.
    call.reply.integer(if wanted == 0 && !has_end { last + 1 } else { -1 });
    Ok(())
}

pub(super) fn bitop(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let combine: fn(u8, u8) -> u8 = match word(&arguments[1]).as_slice() {
        b"and" => |left, right| left & right,
        b"or" => |left, right| left | right,
        b"xor" => |left, right| left ^ right,
        b"not" if arguments.len() == 4 => |left, _| !left,
        b"not" => return Err("ERR BITOP NOT must be called with a single source key.".into()),
        _ => return Err(SYNTAX.into()),
    };
    let is_not = call.is(1, "not");
    let target = &arguments[2];
    let mut texts = Vec::new();
    for key in arguments.from(3).iter() {
        texts.push(call.lookup_string(key)?.cloned().unwrap_or_default());
    }
    let length = texts.iter().map(Bytes::len).max().unwrap_or(0);
    let mut result = texts.first().map_or_else(Vec::new, |text| text.to_vec());
    result.resize(length, 0);
    if is_not {
        result.iter_mut().for_each(|byte| *byte = combine(*byte, 0));
    }
    for text in texts.iter().skip(1) {
        for (at, byte) in result.iter_mut().enumerate() {
            *byte = combine(*byte, text.get(at).copied().unwrap_or(0));
        }
    }
    call.lookup(target);
    if length > 0 {
        call.put_string(target, Bytes::from(result), None);
        call.notify(STRING, "set", target);
        call.propagate();
    } else if call.remove(target) {
        call.notify(GENERIC, "del", target);
        call.propagate();
    }
    call.reply.integer(length as i64);
    Ok(())
}
