//! `BITFIELD`: integers of any width at any place of a string.
//!
//! Order of things: what is asked for, integers within bytes, what becomes of those that do
//! not fit, the command.

use super::super::pubsub::event::STRING;
use super::{Call, Failure, Outcome, SYNTAX, word};

/// What becomes of a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    /// Its low bits are kept.
    Wrap,
    /// The nearest that fits takes its place.
    Saturate,
    /// Nothing is written, and null is answered.
    Fail,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

/// How an integer is kept: 1 to 64 bits, 63 without a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    is_signed: bool,
    bits: u32,
}

struct Operation {
    action: Action,
    form: Form,
    offset: u64,
    overflow: Overflow,
}

fn form(text: &[u8]) -> Option<Form> {
    let (is_signed, digits) = match text.split_first()? {
        (b'i', digits) => (true, digits),
        (b'u', digits) => (false, digits),
        _ => return None,
    };
    let bits = super::super::codec::number::parse_integer(super::shown(digits))?;
    let bits = u32::try_from(bits).ok().filter(|bits| *bits >= 1)?;
    (bits <= if is_signed { 64 } else { 63 }).then_some(Form { is_signed, bits })
}

fn operations(call: &Call<'_>) -> Result<Vec<Operation>, Failure> {
    const BAD_TYPE: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is \
                            not supported but i64 is.";
    let arguments = call.arguments;
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut index = 2;
    while index < arguments.len() {
        let more = arguments.len() - index - 1;
        if call.is(index, "overflow") && more >= 1 {
            overflow = match word(&arguments[index + 1]).as_slice() {
                b"wrap" => Overflow::Wrap,
                b"sat" => Overflow::Saturate,
                b"fail" => Overflow::Fail,
                _ => return Err("ERR Invalid OVERFLOW type specified".into()),
            };
            index += 2;
            continue;
        }
        let is_get = call.is(index, "get") && more >= 2;
        let is_set = call.is(index, "set") && more >= 3;
        let is_added = call.is(index, "incrby") && more >= 3;
        if !(is_get || is_set || is_added) {
            return Err(SYNTAX.into());
        }
        let form = form(&arguments[index + 1]).ok_or(BAD_TYPE)?;
        let offset = call.bit_offset(&arguments[index + 2], Some(form.bits))?;
        let action = match (is_get, is_set) {
            (true, _) => Action::Get,
            (_, true) => Action::Set(call.integer(index + 3)?),
            _ => Action::Add(call.integer(index + 3)?),
        };
        operations.push(Operation { action, form, offset, overflow });
        index += if is_get { 3 } else { 4 };
    }
    Ok(operations)
}

/// The integer at a place; behind the end there are zeros.
fn read(text: &[u8], form: Form, offset: u64) -> i128 {
    let mut bits: u64 = 0;
    for at in offset..offset + u64::from(form.bits) {
        let byte = usize::try_from(at >> 3).ok().and_then(|place| text.get(place)).copied();
        bits = bits << 1 | u64::from(byte.unwrap_or(0) >> (7 - (at & 7)) & 1);
    }
    form.value(bits)
}

fn write(text: &mut [u8], form: Form, offset: u64, value: i128) {
    for place in 0..u64::from(form.bits) {
        let bit = (value >> (u64::from(form.bits) - 1 - place) & 1) as u8;
        let at = offset + place;
        let shift = 7 - (at & 7);
        let byte = &mut text[(at >> 3) as usize];
        *byte = *byte & !(1 << shift) | bit << shift;
    }
}

impl Form {
    /// The number that so many low bits are.
    fn value(self, bits: u64) -> i128 {
        let low = i128::from(bits) & ((1i128 << self.bits) - 1);
        let is_negative = self.is_signed && low >> (self.bits - 1) & 1 == 1;
        if is_negative { low - (1i128 << self.bits) } else { low }
    }

    fn least_and_most(self) -> (i128, i128) {
        match self.is_signed {
            true => (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1),
            false => (0, (1i128 << self.bits) - 1),
        }
    }

    /// The number that takes the place of this one; `None`: none does.
    fn fitted(self, value: i128, overflow: Overflow) -> Option<i128> {
        let (least, most) = self.least_and_most();
        if (least..=most).contains(&value) {
            return Some(value);
        }
        match overflow {
            Overflow::Wrap => Some(self.value(value as u64)),
            Overflow::Saturate => Some(if value > most { most } else { least }),
            Overflow::Fail => None,
        }
    }
}

fn bitfield_of(call: &mut Call<'_>, only_reads: bool) -> Outcome {
    let operations = operations(call)?;
    let arguments = call.arguments;
    let key = &arguments[1];
    let written = operations.iter().filter(|operation| !matches!(operation.action, Action::Get));
    let last = written.map(|operation| operation.offset + u64::from(operation.form.bits) - 1).max();
    if last.is_some() && only_reads {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    let (mut text, has_grown) = match last {
        Some(last) => call.string_with_bit(key, last)?,
        None => (call.lookup_string(key)?.map_or_else(Vec::new, |text| text.to_vec()), false),
    };
    call.reply.array(operations.len());
    let mut has_changed = false;
    for Operation { action, form, offset, overflow } in operations {
        let before = read(&text, form, offset);
        let wanted = match action {
            Action::Get => {
                call.reply.integer(before as i64);
                continue;
            }
            // What has no sign is as large as its bits say.
            Action::Set(value) if !form.is_signed => i128::from(value as u64),
            Action::Set(value) => i128::from(value),
            Action::Add(value) => before + i128::from(value),
        };
        let Some(value) = form.fitted(wanted, overflow) else {
            call.reply.null();
            continue;
        };
        let told = if matches!(action, Action::Set(_)) { before } else { value };
        call.reply.integer(told as i64);
        write(&mut text, form, offset, value);
        has_changed |= has_grown || before != value;
    }
    if has_changed || has_grown {
        call.put_bits(key, text);
    }
    if has_changed {
        call.notify(STRING, "setbit", key);
        call.propagate();
    }
    Ok(())
}

pub(super) fn bitfield(call: &mut Call<'_>) -> Outcome {
    bitfield_of(call, false)
}

pub(super) fn bitfield_ro(call: &mut Call<'_>) -> Outcome {
    bitfield_of(call, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_survive_their_bits_at_any_place() {
        for bits in 1..=64 {
            for is_signed in [true, false] {
                let form = Form { is_signed, bits };
                if !is_signed && bits == 64 {
                    continue;
                }
                let (least, most) = form.least_and_most();
                for (offset, value) in
                    [(0, least), (3, most), (13, -1i128.max(least)), (64, most / 3)]
                {
                    let mut text = vec![0xaa; 20];
                    let value = form.fitted(value, Overflow::Wrap).unwrap();
                    write(&mut text, form, offset, value);
                    assert_eq!(read(&text, form, offset), value, "{form:?} {offset}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit() {
        let byte = Form { is_signed: true, bits: 8 };
        assert_eq!(byte.fitted(128, Overflow::Wrap), Some(-128));
        assert_eq!(byte.fitted(-300, Overflow::Saturate), Some(-128));
        assert_eq!(byte.fitted(200, Overflow::Fail), None);
        assert!(form(b"u64").is_none() && form(b"i65").is_none() && form(b"i0").is_none());
    }
}
