//! What a client reads: replies in RESP2 and RESP3.
//!
//! For our own small clients (a replica's handshake, a sentinel) and
//! for tests. An explicit stack with a depth limit instead of recursion, resuming
//! where it stopped; declared lengths allocate nothing.

use bytes::{Buf, Bytes, BytesMut};

use super::number::parse_integer;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+OK`.
    Simple(Bytes),
    /// `-ERR …`.
    Error(Bytes),
    /// `:1`.
    Integer(i64),
    /// `$…`, and verbatim text without its format.
    Bulk(Bytes),
    /// `$-1`, `*-1`, `_`.
    Null,
    /// `*…`.
    Array(Vec<Reply>),
    /// `%…`, in the order of the wire.
    Map(Vec<(Reply, Reply)>),
    /// `~…`, in the order of the wire.
    Set(Vec<Reply>),
    /// `>…`: nobody asked for it.
    Push(Vec<Reply>),
    /// `#t`.
    Boolean(bool),
    /// `,…` as text: no float bits in histories.
    Double(Bytes),
    /// `(…` as text.
    BigNumber(Bytes),
}

impl Reply {
    /// The bytes of a simple or bulk string.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Reply::Simple(bytes) | Reply::Bulk(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The text of an error.
    pub fn as_error(&self) -> Option<&[u8]> {
        match self {
            Reply::Error(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The elements of an array.
    pub fn as_array(&self) -> Option<&[Reply]> {
        match self {
            Reply::Array(elements) => Some(elements),
            _ => None,
        }
    }
}

/// What is wrong with a server's bytes. The connection is of no more use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// No reply begins so.
    #[error("a reply cannot begin with '{}'", .0.escape_ascii())]
    Kind(u8),
    /// A number is missing, malformed or out of range.
    #[error("malformed number in a reply")]
    Number,
    /// Other bytes stand where a line must end.
    #[error("a reply does not end with CRLF")]
    Ending,
    /// A line without end.
    #[error("a line of a reply is longer than 64 KiB")]
    Line,
    /// Aggregates within aggregates.
    #[error("a reply nests deeper than {0}")]
    Depth(usize),
    /// More than the limit has arrived and no reply is whole.
    #[error("a reply is longer than {0} bytes")]
    TooMuch(usize),
}

const LINE_MAX_BYTES: usize = 64 * 1024;
const DEPTH_MAX: usize = 32;

#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Array,
    Map,
    Set,
    Push,
}

#[derive(Debug)]
struct Open {
    aggregate: Aggregate,
    remaining: u64,
    elements: Vec<Reply>,
}

/// Reads replies out of what has arrived.
#[derive(Debug)]
pub struct ReplyDecoder {
    buffer: BytesMut,
    /// How far the search for the end of the first line has come.
    searched: usize,
    /// The bulk that is being read, its verbatim flag.
    bulk: Option<(usize, bool)>,
    open: Vec<Open>,
    /// Bytes that the open aggregates have taken so far.
    taken: usize,
    limit_bytes: usize,
}

impl ReplyDecoder {
    /// An empty decoder of replies of at most `limit_bytes` each.
    pub fn new(limit_bytes: usize) -> Self {
        ReplyDecoder {
            buffer: BytesMut::new(),
            searched: 0,
            bulk: None,
            open: Vec::new(),
            taken: 0,
            limit_bytes,
        }
    }

    /// Where to read into: append, never remove.
    pub fn buffer_mut(&mut self) -> &mut BytesMut {
        self.buffer.reserve(4 * 1024);
        &mut self.buffer
    }

    /// Takes what has arrived and is not decoded, as raw bytes: after its handshake
    /// a replica reads no replies.
    pub fn take_rest(&mut self) -> BytesMut {
        std::mem::take(self).buffer
    }

    /// The next whole reply, or `None` until more has arrived.
    ///
    /// # Errors
    /// [`ReplyError`]; the decoder is broken then.
    pub fn decode(&mut self) -> Result<Option<Reply>, ReplyError> {
        loop {
            let Some(reply) = self.element()? else {
                if self.taken + self.buffer.len() > self.limit_bytes {
                    return Err(ReplyError::TooMuch(self.limit_bytes));
                }
                return Ok(None);
            };
            if let Some(reply) = self.close(reply) {
                self.taken = 0;
                return Ok(Some(reply));
            }
        }
    }

    /// Puts a whole element where it belongs and closes what it completes.
    fn close(&mut self, mut reply: Reply) -> Option<Reply> {
        while let Some(open) = self.open.last_mut() {
            open.elements.push(reply);
            open.remaining -= 1;
            if open.remaining > 0 {
                return None;
            }
            let Open { aggregate, elements, .. } = self.open.pop()?;
            reply = aggregate.into_reply(elements);
        }
        Some(reply)
    }

    fn advance(&mut self, count: usize) {
        self.buffer.advance(count);
        self.searched = 0;
        self.taken += count;
    }

    /// The next scalar or empty aggregate; opens the others.
    fn element(&mut self) -> Result<Option<Reply>, ReplyError> {
        loop {
            if let Some((length, verbatim)) = self.bulk {
                return self.finish_bulk(length, verbatim);
            }
            let Some(end) = self.line_end()? else {
                return Ok(None);
            };
            let kind = self.buffer[0];
            let number = || parse_integer(&self.buffer[1..end]).ok_or(ReplyError::Number);
            let length = || match number()? {
                -1 => Ok(None),
                length => u64::try_from(length).map(Some).map_err(|_| ReplyError::Number),
            };
            let reply = match kind {
                b'+' | b'-' | b',' | b'(' => {
                    self.buffer.advance(1);
                    let text = self.buffer.split_to(end - 1).freeze();
                    self.taken += end;
                    self.advance(2);
                    match kind {
                        b'+' => Reply::Simple(text),
                        b'-' => Reply::Error(text),
                        b',' => Reply::Double(text),
                        _ => Reply::BigNumber(text),
                    }
                }
                b':' => {
                    let integer = number()?;
                    self.advance(end + 2);
                    Reply::Integer(integer)
                }
                b'_' if end == 1 => {
                    self.advance(3);
                    Reply::Null
                }
                b'#' if end == 2 && matches!(self.buffer[1], b't' | b'f') => {
                    let boolean = self.buffer[1] == b't';
                    self.advance(4);
                    Reply::Boolean(boolean)
                }
                b'$' | b'=' | b'!' => {
                    let Some(length) = length()? else {
                        self.advance(end + 2);
                        return Ok(Some(Reply::Null));
                    };
                    let length = usize::try_from(length).map_err(|_| ReplyError::Number)?;
                    if length > self.limit_bytes {
                        return Err(ReplyError::TooMuch(self.limit_bytes));
                    }
                    self.advance(end + 2);
                    self.bulk = Some((length, kind == b'='));
                    continue;
                }
                b'*' | b'%' | b'~' | b'>' => {
                    let length = length()?;
                    self.advance(end + 2);
                    match self.open(kind, length)? {
                        Some(reply) => reply,
                        None => continue,
                    }
                }
                b'_' | b'#' => return Err(ReplyError::Ending),
                other => return Err(ReplyError::Kind(other)),
            };
            return Ok(Some(reply));
        }
    }

    fn open(&mut self, kind: u8, length: Option<u64>) -> Result<Option<Reply>, ReplyError> {
        let aggregate = match kind {
            b'*' => Aggregate::Array,
            b'%' => Aggregate::Map,
            b'~' => Aggregate::Set,
            _ => Aggregate::Push,
        };
        let remaining = match (aggregate, length) {
            (_, None) => return Ok(Some(Reply::Null)),
            (_, Some(0)) => return Ok(Some(aggregate.into_reply(Vec::new()))),
            (Aggregate::Map, Some(pairs)) => pairs.checked_mul(2).ok_or(ReplyError::Number)?,
            (_, Some(length)) => length,
        };
        if self.open.len() == DEPTH_MAX {
            return Err(ReplyError::Depth(DEPTH_MAX));
        }
        self.open.push(Open { aggregate, remaining, elements: Vec::new() });
        Ok(None)
    }

    fn finish_bulk(&mut self, length: usize, verbatim: bool) -> Result<Option<Reply>, ReplyError> {
        if self.buffer.len() < length + 2 {
            return Ok(None);
        }
        if &self.buffer[length..length + 2] != b"\r\n" {
            return Err(ReplyError::Ending);
        }
        let mut text = self.buffer.split_to(length).freeze();
        self.taken += length;
        self.advance(2);
        self.bulk = None;
        if verbatim {
            // `txt:` before the text.
            text.advance(text.len().min(4));
        }
        Ok(Some(Reply::Bulk(text)))
    }

    /// Where the first line's `\r\n` is.
    fn line_end(&mut self) -> Result<Option<usize>, ReplyError> {
        let found = self.buffer[self.searched..].windows(2).position(|pair| pair == b"\r\n");
        match found {
            Some(0) if self.searched == 0 => Err(ReplyError::Kind(b'\r')),
            Some(offset) => Ok(Some(self.searched + offset)),
            None if self.buffer.len() > LINE_MAX_BYTES => Err(ReplyError::Line),
            None => {
                self.searched = self.buffer.len().saturating_sub(1);
                Ok(None)
            }
        }
    }
}

impl Default for ReplyDecoder {
    fn default() -> Self {
        ReplyDecoder::new(64 * 1024 * 1024)
    }
}

impl Aggregate {
    fn into_reply(self, elements: Vec<Reply>) -> Reply {
        match self {
            Aggregate::Array => Reply::Array(elements),
            Aggregate::Set => Reply::Set(elements),
            Aggregate::Push => Reply::Push(elements),
            Aggregate::Map => {
                let mut pairs = Vec::with_capacity(elements.len() / 2);
                let mut elements = elements.into_iter();
                while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
                    pairs.push((key, value));
                }
                Reply::Map(pairs)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8], piece: usize) -> (Vec<Reply>, Option<ReplyError>) {
        let mut decoder = ReplyDecoder::new(1 << 20);
        let mut replies = Vec::new();
        for piece in bytes.chunks(piece) {
            decoder.buffer_mut().extend_from_slice(piece);
            loop {
                match decoder.decode() {
                    Ok(None) => break,
                    Ok(Some(reply)) => replies.push(reply),
                    Err(error) => return (replies, Some(error)),
                }
            }
        }
        (replies, None)
    }

    const ALL: &[u8] =
        b"+OK\r\n-ERR x\r\n:-5\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n_\r\n*2\r\n:1\r\n*1\r\n$0\r\n\r\n\
        %1\r\n+k\r\n~1\r\n#t\r\n>1\r\n,1.5\r\n(123\r\n=5\r\ntxt:t\r\n*0\r\n";

    #[test]
    fn every_type_in_any_pieces() {
        let (whole, error) = all(ALL, usize::MAX);
        assert_eq!(error, None);
        assert_eq!(whole.len(), 13);
        assert_eq!(whole[7].as_array().unwrap()[0], Reply::Integer(1));
        assert_eq!(whole[11], Reply::Bulk(Bytes::from_static(b"t")));
        for piece in 1..ALL.len() {
            assert_eq!(all(ALL, piece).0, whole);
        }
    }

    #[test]
    fn bounds_are_kept() {
        assert_eq!(all(&b"*1\r\n".repeat(200_000), 4096).1, Some(ReplyError::Depth(DEPTH_MAX)));
        assert_eq!(all(b"$99999999\r\n", 64).1, Some(ReplyError::TooMuch(1 << 20)));
        assert_eq!(all(&[b'+'; 70_000], 4096).1, Some(ReplyError::Line));
        assert_eq!(all(b"$1\r\nabcd", 64).1, Some(ReplyError::Ending));
        assert_eq!(all(b"*4611686018427387904\r\n:1\r\n", 64), (vec![], None));
    }

    proptest! {
        #[test]
        fn hostile_bytes_do_not_panic(
            mut bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..300),
                Just(ALL.to_vec()),
                "[*$%~>+:#_,=0-9\r\na-]{0,200}".prop_map(String::into_bytes),
            ],
            mutations in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            piece in 1usize..32,
        ) {
            for (index, byte) in mutations {
                if !bytes.is_empty() {
                    let index = index.index(bytes.len());
                    bytes[index] = byte;
                }
            }
            let whole = all(&bytes, usize::MAX);
            prop_assert_eq!(all(&bytes, piece), whole);
        }

        #[test]
        fn agrees_with_the_redis_crate(bytes in "[*$+:0-9\r\na-]{0,60}") {
            let (ours, _) = all(bytes.as_bytes(), usize::MAX);
            if let (Some(first), Ok(theirs)) = (ours.first(), redis::parse_redis_value(bytes.as_bytes())) {
                let same = match (first, theirs) {
                    (Reply::Null, redis::Value::Nil)
                    | (Reply::Error(_), redis::Value::ServerError(_))
                    | (Reply::Simple(_), redis::Value::Okay | redis::Value::SimpleString(_)) => true,
                    (Reply::Integer(ours), redis::Value::Int(theirs)) => *ours == theirs,
                    (Reply::Bulk(ours), redis::Value::BulkString(theirs)) => *ours == theirs,
                    (Reply::Array(ours), redis::Value::Array(theirs)) => ours.len() == theirs.len(),
                    (ours, theirs) => {
                        return Err(TestCaseError::fail(format!("{ours:?} is not {theirs:?}")));
                    }
                };
                prop_assert!(same);
            }
        }
    }
}
