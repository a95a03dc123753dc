//! How operations on the stock travel: one JSON object a line, one line a message,
//! lines no longer than [`MAX_LINE_BYTES`].
//!
//! ```text
//! → {"operation":"read","owner":"app-1/3","token":7}
//! ← {"answer":"level","left":2,"next_unit":1}
//! → {"operation":"sell","owner":"app-1/3","token":7,"unit":1,"order":"app-1/3"}
//! ← {"answer":"sold"}
//! ```
//!
//! `token` may be null or left out; `sharing` is `exclusive` unless it says `shared`.
//! Replies come in the order of their requests. What is not a request is answered by
//! one `error`, and the connection ends.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::fence::{Sharing, Shown};
use crate::host::Stream;
use crate::lock::{FencingToken, Owner};

/// How long a line may be, its end included.
pub const MAX_LINE_BYTES: usize = 4096;

/// What is asked of the stock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Which units are left?
    Read {
        /// Who asks.
        owner: Owner,
        /// Under which token.
        #[serde(default)]
        token: Option<FencingToken>,
        /// Under which kind of grant.
        #[serde(default)]
        sharing: Sharing,
    },
    /// Sell this unit under this order.
    Sell {
        /// Who asks.
        owner: Owner,
        /// Under which token.
        #[serde(default)]
        token: Option<FencingToken>,
        /// Under which kind of grant.
        #[serde(default)]
        sharing: Sharing,
        /// From 1.
        unit: u32,
        /// The order's name; a repeated order is the same sale.
        order: String,
    },
}

impl Request {
    /// A question for what is left, asked under `shown`.
    pub fn read(shown: &Shown) -> Self {
        Request::Read { owner: shown.owner.clone(), token: shown.token, sharing: shown.sharing }
    }

    /// A sale, asked for under `shown`.
    pub fn sell(shown: &Shown, unit: u32, order: &str) -> Self {
        Request::Sell {
            owner: shown.owner.clone(),
            token: shown.token,
            sharing: shown.sharing,
            unit,
            order: order.to_owned(),
        }
    }

    /// The grant it is asked under.
    pub fn shown(&self) -> Shown {
        let (Request::Read { owner, token, sharing } | Request::Sell { owner, token, sharing, .. }) =
            self;
        Shown { owner: owner.clone(), token: *token, sharing: *sharing }
    }
}

/// What the stock answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// What is left.
    Level {
        /// How many units nobody has bought.
        left: u32,
        /// The first of them.
        next_unit: Option<u32>,
    },
    /// The order has the unit.
    Sold,
    /// Not done, certainly.
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// This was no request; the connection ends here.
    Error {
        /// What is wrong with it, for people.
        reason: String,
    },
}

/// Why no message could be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The connection ended or failed.
    Io(io::Error),
    /// The peer sent what is no message, for people.
    Malformed(String),
}

/// Reads messages off a stream, and writes them to it.
#[derive(Debug)]
pub(crate) struct Lines {
    stream: Stream,
    /// What has come and is not read yet; never more than a line.
    buffer: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(stream: Stream) -> Self {
        Lines { stream, buffer: Vec::new() }
    }

    /// The next message; `None` when the peer has closed between messages.
    pub(crate) async fn read<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ReadError> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let end = searched + end;
                let message = serde_json::from_slice(&self.buffer[..end])
                    .map_err(|error| ReadError::Malformed(error.to_string()));
                self.buffer.drain(..=end);
                return message.map(Some);
            }
            searched = self.buffer.len();
            if searched >= MAX_LINE_BYTES {
                return Err(ReadError::Malformed(format!(
                    "a line has more than {MAX_LINE_BYTES} bytes"
                )));
            }
            let mut chunk = [0; 512];
            let room = chunk.len().min(MAX_LINE_BYTES - searched);
            match self.stream.read(&mut chunk[..room]).await.map_err(ReadError::Io)? {
                0 if searched == 0 => return Ok(None),
                0 => return Err(ReadError::Io(io::ErrorKind::UnexpectedEof.into())),
                length => self.buffer.extend_from_slice(&chunk[..length]),
            }
        }
    }

    /// Writes one message.
    pub(crate) async fn write(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stream.write_all(&line).await?;
        self.stream.flush().await
    }

    /// Says that nothing more will be written.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_read_like_the_module_text_says() {
        let text = r#"{"operation":"read","owner":"app-1/3","token":7}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        assert_eq!(request, Request::read(&Shown::new("app-1/3", Some(7))));
        let text = r#"{"operation":"sell","owner":"a","unit":1,"order":"o","sharing":"shared"}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        assert_eq!(request.shown(), Shown { sharing: Sharing::Shared, ..Shown::new("a", None) });
        let reply = Reply::Level { left: 2, next_unit: Some(1) };
        insta::assert_snapshot!(
            serde_json::to_string(&reply).unwrap(),
            @r#"{"answer":"level","left":2,"next_unit":1}"#
        );
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for bad in [
            "",
            "{}",
            r#"{"operation":"read"}"#,
            r#"{"operation":"read","owner":"a","unit":1}"#,
            r#"{"operation":"steal","owner":"a"}"#,
            r#"{"operation":"sell","owner":"a","unit":-1,"order":"o"}"#,
            r#"{"operation":"read","owner":"a","token":1e9}"#,
        ] {
            assert!(serde_json::from_str::<Request>(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn requests_come_back_as_they_were(
            owner in ".{0,20}",
            token in proptest::option::of(any::<u64>()),
            share in any::<bool>(),
            sale in proptest::option::of((any::<u32>(), ".{0,20}")),
        ) {
            let sharing = if share { Sharing::Shared } else { Sharing::Exclusive };
            let shown = Shown { sharing, ..Shown::new(owner, token) };
            let request = match sale {
                Some((unit, order)) => Request::sell(&shown, unit, &order),
                None => Request::read(&shown),
            };
            let line = serde_json::to_vec(&request).unwrap();
            prop_assert!(!line.contains(&b'\n'));
            prop_assert_eq!(serde_json::from_slice::<Request>(&line).unwrap(), request);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = serde_json::from_slice::<Request>(&bytes);
        }
    }
}
