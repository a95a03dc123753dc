//! What the server answers, in RESP2 or RESP3, and commands as a client or a
//! master writes them.
//!
//! Appends to one buffer without the formatting machinery; the connection writes
//! the buffer once per batch of commands.

use super::number::{append_integer, format_double};

/// The version of the protocol a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// RESP2: what every connection begins with.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

impl Protocol {
    /// As `HELLO` tells it.
    pub fn number(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}

/// What the longest header takes: a kind, 20 digits, a line break.
const HEADER_BYTES: usize = 23;

/// Appends replies to a buffer, with RESP2's substitutes for what only RESP3 has.
/// Beyond a limit nothing more is appended: a reply that long goes to nobody.
#[derive(Debug)]
pub struct ReplyEncoder {
    bytes: Vec<u8>,
    protocol: Protocol,
    limit_bytes: usize,
    is_full: bool,
}

impl Default for ReplyEncoder {
    fn default() -> Self {
        ReplyEncoder::with_limit(usize::MAX)
    }
}

impl ReplyEncoder {
    /// An empty buffer.
    pub fn new(protocol: Protocol) -> Self {
        ReplyEncoder { protocol, ..ReplyEncoder::default() }
    }

    /// An empty buffer for at most `limit_bytes`.
    pub fn with_limit(limit_bytes: usize) -> Self {
        let protocol = Protocol::default();
        ReplyEncoder { bytes: Vec::new(), protocol, limit_bytes, is_full: false }
    }

    /// Changes how much may be in the buffer.
    pub fn set_limit(&mut self, limit_bytes: usize) {
        self.limit_bytes = limit_bytes;
    }

    /// Whether something was left out since the last [`clear`](Self::clear), because it
    /// would have gone beyond the limit.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Forgets what was appended, and whether the buffer was full.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.is_full = false;
    }

    /// Whether there is room for `count` bytes more. If not, there is none for anything
    /// from here on: a reply with a gap would be another reply.
    fn has_room(&mut self, count: usize) -> bool {
        self.is_full |= self.bytes.len().saturating_add(count) > self.limit_bytes;
        !self.is_full
    }

    /// The protocol of what is appended from now on.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// The protocol in use.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// What was appended.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was appended, to be written, truncated or taken.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn header(&mut self, kind: u8, number: i64) {
        if !self.has_room(HEADER_BYTES) {
            return;
        }
        self.bytes.push(kind);
        append_integer(&mut self.bytes, number);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// What needs no conversion.
    fn raw(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        if !self.has_room(text.len() + 3) {
            return;
        }
        self.bytes.reserve(text.len() + 3);
        self.bytes.push(kind);
        // A line ends at its first line break: Redis writes spaces instead.
        if text.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            let cleaned = text.iter().map(|byte| match byte {
                b'\r' | b'\n' => b' ',
                other => *other,
            });
            self.bytes.extend(cleaned);
        } else {
            self.bytes.extend_from_slice(text);
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// `+OK` and its like.
    pub fn simple(&mut self, text: &[u8]) {
        self.line(b'+', text);
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// An error: its code, a space, its text. Line breaks become spaces.
    pub fn error(&mut self, text: &[u8]) {
        self.line(b'-', text);
    }

    /// An integer.
    pub fn integer(&mut self, integer: i64) {
        self.header(b':', integer);
    }

    /// A string of any bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        if !self.has_room(bytes.len() + HEADER_BYTES + 2) {
            return;
        }
        self.bytes.reserve(bytes.len() + 16);
        self.header(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// An integer as a string.
    pub fn bulk_integer(&mut self, integer: i64) {
        let mut buffer = itoa::Buffer::new();
        self.bulk(buffer.format(integer).as_bytes());
    }

    /// Nothing, where a string would be.
    pub fn null(&mut self) {
        self.raw(if self.resp3() { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Nothing, where an array would be.
    pub fn null_array(&mut self) {
        self.raw(if self.resp3() { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// An array of `length` replies, which follow.
    pub fn array(&mut self, length: usize) {
        self.header(b'*', length as i64);
    }

    /// A map of `length` pairs, which follow. RESP2: a flat array.
    pub fn map(&mut self, length: usize) {
        if self.resp3() {
            self.header(b'%', length as i64);
        } else {
            self.array(length * 2);
        }
    }

    /// A set of `length` replies, which follow. RESP2: an array.
    pub fn set(&mut self, length: usize) {
        self.header(if self.resp3() { b'~' } else { b'*' }, length as i64);
    }

    /// An unasked-for message of `length` replies, which follow. RESP2: an array.
    pub fn push(&mut self, length: usize) {
        self.header(if self.resp3() { b'>' } else { b'*' }, length as i64);
    }

    /// What is known besides of the reply that follows it: a map of `length` pairs, which
    /// follow. RESP2 has none: then nothing may follow either.
    pub fn attribute(&mut self, length: usize) {
        if self.resp3() {
            self.header(b'|', length as i64);
        }
    }

    /// A double. RESP2: a string.
    pub fn double(&mut self, double: f64) {
        let text = format_double(double);
        if self.resp3() {
            self.line(b',', text.as_bytes());
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// True or false. RESP2: 1 or 0.
    pub fn boolean(&mut self, boolean: bool) {
        match (self.resp3(), boolean) {
            (true, true) => self.raw(b"#t\r\n"),
            (true, false) => self.raw(b"#f\r\n"),
            (false, boolean) => self.integer(i64::from(boolean)),
        }
    }

    /// An integer of any size, as decimal text. RESP2: a string.
    pub fn big_number(&mut self, digits: &[u8]) {
        if self.resp3() {
            self.line(b'(', digits);
        } else {
            self.bulk(digits);
        }
    }

    /// Text for people; `format` is `txt` or `mkd`. RESP2: a string.
    pub fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        if self.resp3() {
            if !self.has_room(text.len() + HEADER_BYTES + 6) {
                return;
            }
            self.header(b'=', text.len() as i64 + 4);
            self.bytes.extend_from_slice(format);
            self.bytes.push(b':');
            self.bytes.extend_from_slice(text);
            self.bytes.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text);
        }
    }
}

/// Appends a command as clients and masters send it: an array of bulk strings.
pub fn append_command<'a, I>(bytes: &mut Vec<u8>, arguments: I)
where
    I: IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
{
    let arguments = arguments.into_iter();
    bytes.push(b'*');
    append_integer(bytes, arguments.len() as i64);
    bytes.extend_from_slice(b"\r\n");
    for argument in arguments {
        bytes.push(b'$');
        append_integer(bytes, argument.len() as i64);
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_type(protocol: Protocol) -> String {
        let mut reply = ReplyEncoder::new(protocol);
        reply.simple(b"a\r\nb");
        reply.error(b"ERR no");
        reply.integer(-7);
        reply.bulk(b"x");
        reply.bulk_integer(12);
        reply.null();
        reply.null_array();
        reply.array(0);
        reply.map(1);
        reply.set(2);
        reply.push(3);
        reply.double(2.5);
        reply.boolean(true);
        reply.big_number(b"123");
        reply.verbatim(b"txt", b"t");
        String::from_utf8_lossy(reply.bytes()).replace("\r\n", " ")
    }

    #[test]
    fn types_of_both_protocols() {
        assert_eq!(
            every_type(Protocol::Resp2),
            "+a  b -ERR no :-7 $1 x $2 12 $-1 *-1 *0 *2 *2 *3 $3 2.5 :1 $3 123 $1 t "
        );
        assert_eq!(
            every_type(Protocol::Resp3),
            "+a  b -ERR no :-7 $1 x $2 12 _ _ *0 %1 ~2 >3 ,2.5 #t (123 =5 txt:t "
        );
    }

    #[test]
    fn beyond_its_limit_nothing_is_appended() {
        let mut reply = ReplyEncoder::with_limit(100);
        reply.bulk(b"fits");
        reply.bulk(&[b'x'; 90]);
        assert!(reply.is_full());
        // Also what would fit again.
        reply.ok();
        assert_eq!(reply.bytes(), b"$4\r\nfits\r\n");
        reply.clear();
        reply.ok();
        assert!(!reply.is_full());
        assert_eq!(reply.bytes(), b"+OK\r\n");
    }

    #[test]
    fn commands_are_arrays_of_bulks() {
        let mut bytes = Vec::new();
        append_command(&mut bytes, [&b"GET"[..], b""]);
        assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
    }
}
