//! Listpacks, in which Redis packs small collections and the entries of streams.

use bytes::Bytes;

/// How many bytes tell the length of an element behind it.
fn length_bytes(length: usize) -> usize {
    match length {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// A listpack that is being written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    body: Vec<u8>,
    count: usize,
}

impl Writer {
    /// Behind each element its length, for reading backwards: all groups of bits but the
    /// first have their topmost bit set.
    fn end(&mut self, from: usize) {
        let length = self.body.len() - from;
        let groups = length_bytes(length);
        for index in (0..groups).rev() {
            let group = (length >> (7 * index) & 0x7f) as u8;
            self.body.push(if index + 1 == groups { group } else { group | 0x80 });
        }
        self.count += 1;
    }

    pub(super) fn integer(&mut self, integer: i64) {
        let from = self.body.len();
        match integer {
            0..=127 => self.body.push(integer as u8),
            _ => {
                self.body.push(0xf4);
                self.body.extend_from_slice(&integer.to_le_bytes());
            }
        }
        self.end(from);
    }

    pub(super) fn string(&mut self, string: &[u8]) {
        let from = self.body.len();
        match string.len() {
            length @ 0..64 => self.body.push(0x80 | length as u8),
            length @ 64..4096 => {
                self.body.extend([0xe0 | (length >> 8) as u8, (length & 0xff) as u8]);
            }
            length => {
                self.body.push(0xf0);
                self.body.extend_from_slice(&(length as u32).to_le_bytes());
            }
        }
        self.body.extend_from_slice(string);
        self.end(from);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let total = (self.body.len() + 7) as u32;
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        [&total.to_le_bytes()[..], &count.to_le_bytes(), &self.body, &[0xff]].concat()
    }
}

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
        rest = rest.get(length + length_bytes(length)..)?;
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

    #[test]
    fn what_is_written_is_read() {
        let long = vec![b'x'; 70_000];
        let mut writer = Writer::default();
        let strings = [&b""[..], b"abc", &long[..63], &long[..64], &long[..5000], &long];
        strings.iter().for_each(|string| writer.string(string));
        [0, 127, 128, -1].into_iter().for_each(|integer| writer.integer(integer));
        let read = elements(&writer.finish()).unwrap();
        assert!(read.iter().zip(strings).all(|(read, string)| read == string));
        assert_eq!(read[6..], ["0", "127", "128", "-1"]);
    }

    proptest! {
        #[test]
        fn damage_is_noticed_or_harmless(body in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = elements(&packed(&body));
            let _ = elements(&body);
        }
    }
}
