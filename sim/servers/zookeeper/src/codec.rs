//! Jute, ZooKeeper's serialisation: big-endian integers, strings and buffers behind a
//! length, vectors behind a count, −1 for null (`zookeeper.jute`, `BinaryInputArchive`).
//!
//! Order of things: what is wrong with bytes, the reader, the writer, frames.
//!
//! The reader copies nothing but text, allocates nothing that its input does not hold, and
//! never panics. What comes after a record is left alone, as in ZooKeeper.

use bytes::Bytes;

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// They end within a value.
    #[error("the bytes end within a value")]
    Truncated,
    /// A length or a count is negative or larger than what is there.
    #[error("a length of {0}")]
    Length(i32),
    /// There is a null where a value must be.
    #[error("a null")]
    Null,
    /// A number that says what follows says nothing that is known.
    #[error("an unknown kind, {0}")]
    Kind(i32),
}

/// Reads values from bytes, one after another.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// So many bytes.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(Malformed::Truncated);
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(Malformed::Truncated);
        };
        self.rest = rest;
        Ok(*taken)
    }

    /// A boolean: every byte but 0 is true, as in Java.
    ///
    /// # Errors
    /// At the end of the bytes.
    pub fn boolean(&mut self) -> Result<bool, Malformed> {
        let [byte] = self.array()?;
        Ok(byte != 0)
    }

    /// An `int`.
    ///
    /// # Errors
    /// At the end of the bytes.
    pub fn int(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// A `long`.
    ///
    /// # Errors
    /// At the end of the bytes.
    pub fn long(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A buffer; `None` for null.
    ///
    /// # Errors
    /// When its length is not −1 and not what is there.
    pub fn buffer(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let length = self.int()?;
        match usize::try_from(length) {
            Ok(count) if count <= self.rest.len() => self.take(count).map(Some),
            Err(_) if length == -1 => Ok(None),
            _ => Err(Malformed::Length(length)),
        }
    }

    /// A string; `None` for null. What is not UTF-8 becomes U+FFFD, as in Java.
    ///
    /// # Errors
    /// As [`buffer`](Reader::buffer).
    pub fn text_or_null(&mut self) -> Result<Option<String>, Malformed> {
        Ok(self.buffer()?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    }

    /// A string that must be there.
    ///
    /// # Errors
    /// As [`buffer`](Reader::buffer), and of a null.
    pub fn text(&mut self) -> Result<String, Malformed> {
        self.text_or_null()?.ok_or(Malformed::Null)
    }

    /// The count of a vector whose elements have at least `least_bytes` bytes each; `None`
    /// for null.
    ///
    /// # Errors
    /// When so many cannot be there.
    pub fn count(&mut self, least_bytes: usize) -> Result<Option<usize>, Malformed> {
        let count = self.int()?;
        match usize::try_from(count) {
            Ok(number) if number <= self.rest.len() / least_bytes.max(1) => Ok(Some(number)),
            Err(_) if count == -1 => Ok(None),
            _ => Err(Malformed::Length(count)),
        }
    }

    /// A vector of strings that must be there.
    ///
    /// # Errors
    /// As [`count`](Reader::count) and [`text`](Reader::text).
    pub fn texts(&mut self) -> Result<Vec<String>, Malformed> {
        let count = self.count(4)?.ok_or(Malformed::Null)?;
        (0..count).map(|_| self.text()).collect()
    }
}

/// Writes values, one after another.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Nothing written.
    pub fn new() -> Self {
        Writer::default()
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// What was written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// A boolean.
    pub fn boolean(&mut self, value: bool) -> &mut Self {
        self.raw(&[u8::from(value)])
    }

    /// An `int`.
    pub fn int(&mut self, value: i32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// A `long`.
    pub fn long(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// A length or a count.
    pub fn count(&mut self, count: usize) -> &mut Self {
        // Nothing of two gigabytes is ever built here.
        self.int(i32::try_from(count).unwrap_or(i32::MAX))
    }

    /// A buffer, or null.
    pub fn buffer(&mut self, value: Option<&[u8]>) -> &mut Self {
        match value {
            Some(bytes) => self.count(bytes.len()).raw(bytes),
            None => self.int(-1),
        }
    }

    /// A string.
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.buffer(Some(value.as_bytes()))
    }

    /// A string as Java's servers write it: what lies beyond the basic plane is two surrogates
    /// of three bytes each, which is no UTF-8 (`BinaryOutputArchive.stringToByteBuffer`). Their
    /// clients see it so; our own servers write [`text`](Self::text) to each other and to disks.
    pub fn java_text(&mut self, value: &str) -> &mut Self {
        if value.chars().all(|character| character.len_utf16() == 1) {
            return self.text(value);
        }
        let mut bytes = Vec::with_capacity(value.len() + 2);
        for unit in value.encode_utf16() {
            // Each of them is below 2^16: six bits, six bits, and four.
            let low = |shift: u16| 0x80 | (unit >> shift & 0x3f) as u8;
            match unit {
                0..0x80 => bytes.push(unit as u8),
                0x80..0x800 => bytes.extend([0xc0 | (unit >> 6) as u8, low(0)]),
                _ => bytes.extend([0xe0 | (unit >> 12) as u8, low(6), low(0)]),
            }
        }
        self.buffer(Some(&bytes))
    }

    /// A vector of strings, each as [`java_text`](Self::java_text).
    pub fn java_texts<'a>(&mut self, values: impl ExactSizeIterator<Item = &'a str>) -> &mut Self {
        self.count(values.len());
        for value in values {
            self.java_text(value);
        }
        self
    }

    /// A vector of strings.
    pub fn texts<'a>(&mut self, values: impl ExactSizeIterator<Item = &'a str>) -> &mut Self {
        self.count(values.len());
        for value in values {
            self.text(value);
        }
        self
    }
}

/// Cuts what a connection brings into frames: a length, then so many bytes.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: bytes::BytesMut,
}

impl Frames {
    /// Where bytes that were read go.
    pub fn buffer_mut(&mut self) -> &mut bytes::BytesMut {
        &mut self.buffer
    }

    /// The first four bytes, if they are there, without taking them.
    pub fn peek(&self) -> Option<[u8; 4]> {
        self.buffer.first_chunk().copied()
    }

    /// The next frame without its length; `None` when it is not there yet.
    ///
    /// # Errors
    /// When its length is negative or above `limit_bytes`.
    pub fn next(&mut self, limit_bytes: usize) -> Result<Option<Bytes>, Malformed> {
        let Some(length) = self.peek().map(i32::from_be_bytes) else { return Ok(None) };
        let Ok(count) = usize::try_from(length) else { return Err(Malformed::Length(length)) };
        if count > limit_bytes {
            return Err(Malformed::Length(length));
        }
        if self.buffer.len() < 4 + count {
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(4 + count);
        let _ = frame.split_to(4);
        Ok(Some(frame.freeze()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            flag: bool,
            int: i32,
            long: i64,
            buffer in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
            text in ".{0,20}",
            texts in prop::collection::vec(".{0,8}", 0..6),
        ) {
            let mut writer = Writer::new();
            writer.boolean(flag).int(int).long(long).buffer(buffer.as_deref()).text(&text);
            writer.texts(texts.iter().map(String::as_str));
            let mut reader = Reader::new(writer.bytes());
            prop_assert_eq!(reader.boolean().unwrap(), flag);
            prop_assert_eq!(reader.int().unwrap(), int);
            prop_assert_eq!(reader.long().unwrap(), long);
            prop_assert_eq!(reader.buffer().unwrap(), buffer.as_deref());
            prop_assert_eq!(reader.text().unwrap(), text);
            prop_assert_eq!(reader.texts().unwrap(), texts);
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader::new(&bytes);
            let _ = reader.clone().texts();
            let _ = reader.clone().count(68);
            while reader.text().is_ok() {}
            let mut frames = Frames::default();
            frames.buffer_mut().extend_from_slice(&bytes);
            while let Ok(Some(_)) = frames.next(32) {}
        }
    }

    #[test]
    fn javas_servers_write_surrogates_of_three_bytes_each() {
        let written = |text: &str| {
            let mut writer = Writer::new();
            writer.java_text(text);
            writer.into_bytes()
        };
        let behind_length = |bytes: &[u8]| {
            let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
            [&length[..], bytes].concat()
        };
        // U+1F600 is the surrogates D83D and DE00, among characters of one, two, three bytes.
        let bytes = b"a\xc3\xa4\xe2\x82\xac\xed\xa0\xbd\xed\xb8\x80\0";
        assert_eq!(written("a\u{e4}\u{20ac}\u{1f600}\0"), behind_length(bytes));
        // As far as the basic plane goes it is UTF-8, a NUL and the last of it included.
        for text in ["", "/a", "\u{e4}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{ffff}", "\0"] {
            assert_eq!(written(text), behind_length(text.as_bytes()));
        }
        let mut writer = Writer::new();
        writer.java_texts(["a", "\u{10000}"].into_iter());
        let bytes = b"\0\0\0\x02\0\0\0\x01a\0\0\0\x06\xed\xa0\x80\xed\xb0\x80";
        assert_eq!(writer.bytes(), bytes);
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        for length in [-2, i32::MIN, i32::MAX, 1] {
            let bytes = length.to_be_bytes();
            assert_eq!(Reader::new(&bytes).buffer(), Err(Malformed::Length(length)));
            assert_eq!(Reader::new(&bytes).count(4), Err(Malformed::Length(length)));
        }
        assert_eq!(Reader::new(&(-1_i32).to_be_bytes()).text(), Err(Malformed::Null));
        assert_eq!(Reader::new(&[0, 0, 0]).int(), Err(Malformed::Truncated));
    }
}
