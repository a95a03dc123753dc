//! What clients send: arrays of bulk strings, or lines typed by hand.
//!
//! A state machine that resumes where it stopped: a command that arrives in a
//! thousand pieces is looked at once. Errors are Redis' own, word for word; after
//! one the connection is answered and closed, so the decoder stays broken.

use super::arguments::{Arguments, Span};
use super::inline::split_line;
use super::number::parse_integer;

/// How long a line may be: inline commands and the counts before bulks.
const LINE_MAX_BYTES: usize = 64 * 1024;

/// What a read makes room for.
const READ_BYTES: usize = 4 * 1024;

/// Above this an idle buffer gives its memory back.
const KEPT_BYTES: usize = 64 * 1024;

/// Bounds on what a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// How many arguments one command may have. Each costs memory only once it has
    /// arrived.
    pub arguments: i64,
    /// How long one argument may be, bytes (`proto-max-bulk-len`).
    pub argument_bytes: i64,
    /// How much may lie in the query buffer, bytes (`client-query-buffer-limit`).
    /// Values of 4 GiB and more act as 4 GiB - 1.
    pub buffered_bytes: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits {
            arguments: i64::from(i32::MAX),
            argument_bytes: 512 * 1024 * 1024,
            buffered_bytes: 64 * 1024 * 1024,
        }
    }
}

/// What is wrong with a client's bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Answered, then closed.
    #[error("Protocol error: {0}")]
    Protocol(&'static str),
    /// Something else where the length of an argument must be. Answered, then closed.
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0))]
    Expected(u8),
    /// Closed without an answer, as Redis does.
    #[error("closing client that reached max query buffer length")]
    TooMuch,
}

impl RequestError {
    /// The error reply that is due before the connection is closed, if one is.
    pub fn reply(&self) -> Option<Vec<u8>> {
        match self {
            RequestError::Protocol(text) => {
                Some([b"ERR Protocol error: ", text.as_bytes()].concat())
            }
            RequestError::Expected(byte) => {
                Some([b"ERR Protocol error: expected '$', got '", &[*byte][..], b"'"].concat())
            }
            RequestError::TooMuch => None,
        }
    }
}

fn protocol<T>(text: &'static str) -> Result<T, RequestError> {
    Err(RequestError::Protocol(text))
}

/// Reads commands out of what has arrived.
#[derive(Debug)]
pub struct RequestDecoder {
    limits: RequestLimits,
    buffer: Vec<u8>,
    /// Where the command that is being read begins.
    start: usize,
    /// The first byte not looked at, at least `start`.
    cursor: usize,
    /// How far the search for the end of the current line has come.
    searched: usize,
    /// Bulks of the array still to come; 0 between commands.
    remaining: i64,
    /// The length of the bulk that is being read, once known.
    bulk: Option<usize>,
    /// Relative to `start`.
    spans: Vec<Span>,
    /// An inline command after its quotes were taken off; spans point in here.
    inline: Vec<u8>,
    /// Bytes of the stream before the buffer's first.
    discarded_bytes: u64,
    /// The last decoded command is over: forget it at the next call.
    delivered: bool,
}

enum Line {
    Missing,
    /// From the cursor to here, exclusive.
    Ends(usize),
}

impl RequestDecoder {
    /// An empty decoder.
    pub fn new(limits: RequestLimits) -> Self {
        RequestDecoder {
            limits: RequestLimits {
                buffered_bytes: limits.buffered_bytes.min(u32::MAX as usize),
                ..limits
            },
            buffer: Vec::new(),
            start: 0,
            cursor: 0,
            searched: 0,
            remaining: 0,
            bulk: None,
            spans: Vec::new(),
            inline: Vec::new(),
            discarded_bytes: 0,
            delivered: false,
        }
    }

    /// Where to read into: append, never remove. Has room for one read.
    pub fn buffer_mut(&mut self) -> &mut Vec<u8> {
        self.forget_delivered();
        if self.start == self.buffer.len() {
            self.rebase();
            self.buffer.clear();
            if self.buffer.capacity() > KEPT_BYTES {
                self.buffer.shrink_to(READ_BYTES);
            }
        } else if self.start >= READ_BYTES.max(self.buffer.len() / 2) {
            // Half of it is history: moving the rest costs less than it saves.
            self.buffer.drain(..self.start);
            self.rebase();
        }
        self.buffer.reserve(READ_BYTES);
        &mut self.buffer
    }

    fn rebase(&mut self) {
        self.discarded_bytes += self.start as u64;
        self.cursor -= self.start;
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
    }

    /// Appends bytes; for callers that do not read into [`buffer_mut`](Self::buffer_mut).
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer_mut().extend_from_slice(bytes);
    }

    /// How many bytes have arrived and are not part of a decoded command.
    pub fn buffered_bytes(&self) -> usize {
        if self.delivered {
            self.buffer.len() - self.cursor
        } else {
            self.buffer.len() - self.start
        }
    }

    /// How many bytes of the stream have been decoded, empty commands included:
    /// what a replica's offset counts.
    pub fn consumed_bytes(&self) -> u64 {
        let here = if self.delivered { self.cursor } else { self.start };
        self.discarded_bytes + here as u64
    }

    /// How much memory is reserved, bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.buffer.capacity() + self.inline.capacity() + self.spans.capacity() * size_of::<Span>()
    }

    /// The bytes of the last decoded command as they came.
    pub fn last_command(&self) -> &[u8] {
        &self.buffer[self.start..self.cursor]
    }

    /// Takes everything that has arrived and is not decoded, as raw bytes: what
    /// follows the handshake of a replica is not RESP requests.
    pub fn take_rest(&mut self) -> Vec<u8> {
        self.forget_delivered();
        let rest = self.buffer.split_off(self.start);
        *self = RequestDecoder::new(self.limits);
        rest
    }

    fn forget_delivered(&mut self) {
        if std::mem::take(&mut self.delivered) {
            self.start = self.cursor;
            self.searched = self.cursor;
            self.spans.clear();
            self.inline.clear();
        }
    }

    /// The next command, or `None` until more has arrived. The arguments borrow the
    /// buffer until the next call.
    ///
    /// # Errors
    /// [`RequestError`]; the decoder is broken then, answer and close.
    pub fn decode(&mut self) -> Result<Option<Arguments<'_>>, RequestError> {
        self.forget_delivered();
        loop {
            if self.cursor == self.buffer.len() && self.remaining == 0 {
                return Ok(None);
            }
            let whole = if self.remaining > 0 {
                self.read_bulks()?
            } else if self.buffer[self.cursor] == b'*' {
                match self.read_count()? {
                    None => false,
                    // `*0` and `*-1` are commands of nothing: no answer.
                    Some(0) => {
                        self.start = self.cursor;
                        continue;
                    }
                    Some(count) => {
                        self.remaining = count;
                        self.read_bulks()?
                    }
                }
            } else {
                match self.read_inline()? {
                    None => false,
                    Some(0) => {
                        self.start = self.cursor;
                        continue;
                    }
                    Some(_) => true,
                }
            };
            if !whole {
                if self.buffer.len() - self.start > self.limits.buffered_bytes {
                    return Err(RequestError::TooMuch);
                }
                return Ok(None);
            }
            self.delivered = true;
            let bytes =
                if self.inline.is_empty() { &self.buffer[self.start..] } else { &self.inline[..] };
            return Ok(Some(Arguments { bytes, spans: &self.spans }));
        }
    }

    /// Finds `end` from the cursor on. Redis searches with `strchr`: a NUL ends the
    /// search, and the line is never found.
    fn find(&mut self, end: u8) -> Line {
        let from = self.searched.max(self.cursor);
        match self.buffer[from..].iter().position(|&byte| byte == end || byte == 0) {
            Some(offset) if self.buffer[from + offset] == end => {
                self.searched = self.cursor;
                Line::Ends(from + offset)
            }
            Some(offset) => {
                self.searched = from + offset;
                Line::Missing
            }
            None => {
                self.searched = self.buffer.len();
                Line::Missing
            }
        }
    }

    /// A line `X<integer>\r\n`: the bytes between X and `\r`, with the cursor behind it.
    fn counted_line(
        &mut self,
        too_big: &'static str,
    ) -> Result<Option<(usize, usize)>, RequestError> {
        match self.find(b'\r') {
            Line::Missing if self.buffer.len() - self.cursor > LINE_MAX_BYTES => protocol(too_big),
            Line::Missing => Ok(None),
            // The `\n` behind it must be there too, though nobody looks at it.
            Line::Ends(end) if end + 2 > self.buffer.len() => Ok(None),
            Line::Ends(end) => Ok(Some((self.cursor + 1, end))),
        }
    }

    fn read_count(&mut self) -> Result<Option<i64>, RequestError> {
        let Some((from, to)) = self.counted_line("too big mbulk count string")? else {
            return Ok(None);
        };
        match parse_integer(&self.buffer[from..to]) {
            Some(count) if count <= self.limits.arguments => {
                self.cursor = to + 2;
                Ok(Some(count.max(0)))
            }
            _ => protocol("invalid multibulk length"),
        }
    }

    fn read_bulks(&mut self) -> Result<bool, RequestError> {
        while self.remaining > 0 {
            let length = match self.bulk {
                Some(length) => length,
                None => match self.read_length()? {
                    None => return Ok(false),
                    Some(length) => *self.bulk.insert(length),
                },
            };
            if self.buffer.len() - self.cursor < length + 2 {
                return Ok(false);
            }
            // The limit on the buffer keeps both below 4 GiB.
            let from = (self.cursor - self.start) as u32;
            self.spans.push(Span { from, to: from + length as u32 });
            self.cursor += length + 2;
            self.searched = self.cursor;
            self.bulk = None;
            self.remaining -= 1;
        }
        Ok(true)
    }

    fn read_length(&mut self) -> Result<Option<usize>, RequestError> {
        let Some((from, to)) = self.counted_line("too big bulk count string")? else {
            return Ok(None);
        };
        // A NUL never comes here: it hides the end of its line.
        if self.buffer[self.cursor] != b'$' {
            return Err(RequestError::Expected(self.buffer[self.cursor]));
        }
        match parse_integer(&self.buffer[from..to]) {
            Some(length) if (0..=self.limits.argument_bytes).contains(&length) => {
                self.cursor = to + 2;
                Ok(usize::try_from(length).ok())
            }
            _ => protocol("invalid bulk length"),
        }
    }

    fn read_inline(&mut self) -> Result<Option<usize>, RequestError> {
        let end = match self.find(b'\n') {
            Line::Missing if self.buffer.len() - self.cursor > LINE_MAX_BYTES => {
                return protocol("too big inline request");
            }
            Line::Missing => return Ok(None),
            Line::Ends(end) => end,
        };
        let line = &self.buffer[self.cursor..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !split_line(line, &mut self.inline, &mut self.spans) {
            return protocol("unbalanced quotes in request");
        }
        self.cursor = end + 1;
        self.searched = self.cursor;
        if self.inline.is_empty() && !self.spans.is_empty() {
            // Only empty arguments (`""`): give the spans something to point into.
            self.inline.push(0);
        }
        Ok(Some(self.spans.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8], piece: usize) -> (Vec<Vec<Vec<u8>>>, Option<RequestError>) {
        let mut decoder = RequestDecoder::new(RequestLimits::default());
        let mut commands = Vec::new();
        for piece in bytes.chunks(piece.max(1)) {
            decoder.feed(piece);
            loop {
                match decoder.decode() {
                    Ok(None) => break,
                    Ok(Some(arguments)) => {
                        commands.push(arguments.iter().map(<[u8]>::to_vec).collect());
                    }
                    Err(error) => return (commands, Some(error)),
                }
            }
        }
        (commands, None)
    }

    fn error(bytes: &[u8]) -> String {
        all(bytes, usize::MAX).1.map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn pieces_do_not_matter() {
        let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\r\nb\0\r\nPING \"a\\x41\\n\" 'b\\'c'\r\n\r\n*0\r\n*-1\r\n*1\r\n$0\r\n\r\n\"\"\n";
        let (whole, none) = all(bytes, usize::MAX);
        assert_eq!(none, None);
        assert_eq!(whole.len(), 4);
        assert_eq!(whole[0][2], b"a\r\nb\0");
        assert_eq!(whole[1], [&b"PING"[..], b"aA\n", b"b'c"]);
        assert_eq!(whole[2], [b""]);
        assert_eq!(whole[3], [b""]);
        for piece in 1..bytes.len() {
            assert_eq!(all(bytes, piece), (whole.clone(), None), "in pieces of {piece}");
        }
    }

    #[test]
    fn errors_are_those_of_redis() {
        for (bytes, text) in [
            (&b"*x\r\n"[..], "Protocol error: invalid multibulk length"),
            (b"*2147483648\r\n", "Protocol error: invalid multibulk length"),
            (b"*1\r\n$-1\r\n", "Protocol error: invalid bulk length"),
            (b"*1\r\n$536870913\r\n", "Protocol error: invalid bulk length"),
            (b"*1\r\n$01\r\n", "Protocol error: invalid bulk length"),
            (b"*1\r\n:1\r\n", "Protocol error: expected '$', got ':'"),
            (b"*1\r\n\n1\r\n", "Protocol error: expected '$', got '\n'"),
            (b"SET \"a\r\n", "Protocol error: unbalanced quotes in request"),
            (b"SET \"a\"b\r\n", "Protocol error: unbalanced quotes in request"),
        ] {
            assert_eq!(error(bytes), text, "{}", bytes.escape_ascii());
        }
        let endless = vec![b'a'; LINE_MAX_BYTES + 1];
        assert_eq!(error(&endless), "Protocol error: too big inline request");
        let endless = [&b"*"[..], &endless].concat();
        assert_eq!(error(&endless), "Protocol error: too big mbulk count string");
        let endless = [&b"*1\r\n$"[..], &endless].concat();
        assert_eq!(error(&endless), "Protocol error: too big bulk count string");
    }

    #[test]
    fn declared_lengths_cost_nothing() {
        let mut decoder = RequestDecoder::new(RequestLimits::default());
        decoder.feed(b"*1048576\r\n$536870912\r\nabc");
        assert!(decoder.decode().unwrap().is_none());
        assert!(decoder.capacity_bytes() < 3 * READ_BYTES, "{}", decoder.capacity_bytes());
    }

    #[test]
    fn the_query_buffer_is_limited() {
        let limits = RequestLimits { buffered_bytes: 1_000, ..RequestLimits::default() };
        let mut decoder = RequestDecoder::new(limits);
        decoder.feed(b"*1\r\n$5000\r\n");
        decoder.feed(&[b'a'; 900]);
        assert!(decoder.decode().unwrap().is_none());
        decoder.feed(&[b'a'; 900]);
        assert_eq!(decoder.decode().unwrap_err(), RequestError::TooMuch);
    }

    #[test]
    fn a_long_pipeline_keeps_the_buffer_small() {
        let mut decoder = RequestDecoder::new(RequestLimits::default());
        for _ in 0..10_000 {
            decoder.feed(b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI");
            assert!(decoder.decode().unwrap().is_some());
            assert!(decoder.decode().unwrap().is_none());
            decoder.feed(b"NG\r\n");
            assert!(decoder.decode().unwrap().is_some());
        }
        assert!(decoder.capacity_bytes() < 4 * READ_BYTES, "{}", decoder.capacity_bytes());
    }

    fn command() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..6).prop_map(
            |arguments| {
                let mut bytes = Vec::new();
                super::super::append_command(&mut bytes, arguments.iter().map(Vec::as_slice));
                bytes
            },
        )
    }

    proptest! {
        #[test]
        fn hostile_bytes_neither_panic_nor_grow(
            mut bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..600),
                proptest::collection::vec(command(), 1..8).prop_map(|commands| commands.concat()),
                "[*$0-9\r\n\"' a-]{0,200}".prop_map(String::into_bytes),
            ],
            mutations in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            piece in 1usize..64,
        ) {
            for (index, byte) in mutations {
                if !bytes.is_empty() {
                    let index = index.index(bytes.len());
                    bytes[index] = byte;
                }
            }
            let whole = all(&bytes, usize::MAX);
            prop_assert_eq!(all(&bytes, piece), whole);
            let mut decoder = RequestDecoder::new(RequestLimits::default());
            decoder.feed(&bytes);
            while let Ok(Some(arguments)) = decoder.decode() {
                prop_assert!(!arguments.is_empty());
            }
            prop_assert!(decoder.capacity_bytes() <= 4 * READ_BYTES + 16 * bytes.len());
        }
    }
}
