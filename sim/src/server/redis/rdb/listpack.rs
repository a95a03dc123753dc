//! Listpacks, in which Redis packs small hashes. Reading only.

use bytes::Bytes;

/// The elements of a listpack; `None` when it is damaged.
pub(super) fn elements(packed: &[u8]) -> Option<Vec<Bytes>> {
    // Total bytes, number of elements (65535: not known), elements, 0xff.
    let (total, rest) = packed.split_first_chunk::<4>()?;
    let (_, mut rest) = rest.split_first_chunk::<2>()?;
    if u32::from_le_bytes(*total) as usize != packed.len() {
        return None;
    }
    let mut elements = Vec::new();
    loop {
        if rest == [0xff] {
            return Some(elements);
        }
        let (element, length) = element(rest)?;
        elements.push(element);
        // Behind each element its length, for reading backwards.
        let backwards = match length {
            0..128 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        };
        rest = rest.get(length + backwards..)?;
    }
}

/// The first element and how many bytes it takes.
fn element(rest: &[u8]) -> Option<(Bytes, usize)> {
    let integer = |integer: i64, length| {
        Some((Bytes::copy_from_slice(itoa::Buffer::new().format(integer).as_bytes()), length))
    };
    let string = |header: usize, length: usize| {
        let bytes = rest.get(header..header.checked_add(length)?)?;
        Some((Bytes::copy_from_slice(bytes), header + length))
    };
    // The low bytes of a little-endian integer, its sign in the topmost.
    let signed = |count: usize| {
        let mut bytes = [0; 8];
        bytes[8 - count..].copy_from_slice(rest.get(1..=count)?);
        integer(i64::from_le_bytes(bytes) >> (64 - 8 * count), 1 + count)
    };
    let first = *rest.first()?;
    match first {
        0..0x80 => integer(i64::from(first), 1),
        0x80..0xc0 => string(1, usize::from(first & 0x3f)),
        0xc0..0xe0 => {
            let low = i64::from(first & 0x1f) << 8 | i64::from(*rest.get(1)?);
            integer(low - if low >= 1 << 12 { 1 << 13 } else { 0 }, 2)
        }
        0xe0..0xf0 => string(2, usize::from(first & 0xf) << 8 | usize::from(*rest.get(1)?)),
        0xf0 => {
            let length = u32::from_le_bytes(rest.get(1..5)?.try_into().ok()?);
            string(5, usize::try_from(length).ok()?)
        }
        0xf1 => signed(2),
        0xf2 => signed(3),
        0xf3 => signed(4),
        0xf4 => signed(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(body: &[u8]) -> Vec<u8> {
        let total = (body.len() + 7) as u32;
        [&total.to_le_bytes()[..], &[0, 0], body, &[0xff]].concat()
    }

    #[test]
    fn every_encoding() {
        let body = [
            &b"\x05\x01"[..],
            b"\x83abc\x04",
            b"\xdf\xff\x02",
            b"\xe0\x02xy\x04",
            b"\xf0\x01\0\0\0z\x06",
            b"\xf1\x00\x80\x03",
            b"\xf2\xff\xff\xff\x04",
            b"\xf3\x00\x00\x01\x00\x05",
            b"\xf4\xff\xff\xff\xff\xff\xff\xff\x7f\x09",
        ]
        .concat();
        let expected =
            ["5", "abc", "-1", "xy", "z", "-32768", "-1", "65536", "9223372036854775807"];
        assert_eq!(elements(&packed(&body)).unwrap(), expected);
        assert_eq!(elements(&packed(b"")).unwrap(), Vec::<Bytes>::new());
        assert_eq!(elements(&packed(b"\xff")), None);
        assert_eq!(elements(b"\x07\0\0\0\0\0"), None);
    }

    proptest! {
        #[test]
        fn damage_is_noticed_or_harmless(body in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = elements(&packed(&body));
            let _ = elements(&body);
        }
    }
}
