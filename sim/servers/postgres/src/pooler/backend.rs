//! A session at the server, as the pooler has it.

use std::collections::BTreeMap;
use std::io;
use std::task::{Context, Poll, Waker};

use lockstorm::Host;
use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::outlet::poll_read;
use super::pool::{Refusal, refusal};
use super::{PoolerSettings, TRACKED};
use crate::codec;

/// The protocol's version, 3.0.
const VERSION: u32 = 3 << 16;

#[derive(Debug)]
pub(super) struct Backend {
    pub(super) stream: Stream,
    /// What it said that nobody has looked at yet.
    pub(super) input: Vec<u8>,
    /// What it reports of its parameters.
    pub(super) parameters: BTreeMap<String, String>,
    /// Its process, and the secret for cancelling.
    pub(super) key: (i32, i32),
}

/// A message of a server, by its place in what was read.
pub(super) struct Message {
    pub(super) kind: u8,
    /// With its type and its length.
    pub(super) length: usize,
}

/// The first message, once it is whole.
pub(super) fn message(bytes: &[u8]) -> io::Result<Option<Message>> {
    let (Some(kind), Some(length)) = (bytes.first(), bytes.get(1..5)) else { return Ok(None) };
    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
    if length < 4 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((bytes.len() > length).then_some(Message { kind: *kind, length: length + 1 }))
}

/// A parameter's name and value, of a body that tells it.
pub(super) fn parameter(body: &[u8]) -> Option<(String, String)> {
    let mut texts = body.split(|byte| *byte == 0);
    let mut text = || Some(std::str::from_utf8(texts.next()?).ok()?.to_owned());
    Some((text()?, text()?))
}

impl Backend {
    /// Opens a session.
    ///
    /// # Errors
    /// What clients are to be told: the server's own word, if it has said one.
    pub(super) async fn dial(
        host: &Host,
        settings: &PoolerSettings,
        user: &str,
        database: &str,
    ) -> Result<Backend, Refusal> {
        let failed = |_: io::Error| refusal("pgbouncer cannot connect to server");
        let stream = host.connect(&settings.server).await.map_err(failed)?;
        let (input, parameters) = (Vec::new(), BTreeMap::new());
        let mut backend = Backend { stream, input, parameters, key: (0, 0) };
        let mut startup = vec![0; 4];
        startup.extend_from_slice(&VERSION.to_be_bytes());
        for text in ["user", user, "database", database, ""] {
            codec::text(&mut startup, text);
        }
        let length = startup.len() as u32;
        startup[..4].copy_from_slice(&length.to_be_bytes());
        backend.stream.write_all(&startup).await.map_err(failed)?;
        backend.stream.flush().await.map_err(failed)?;
        match backend.until_ready().await.map_err(failed)? {
            None => Ok(backend),
            Some(told) => Err(told),
        }
    }

    /// Sets what the client has otherwise than the session. What the server has against it, if
    /// it has.
    pub(super) async fn apply(
        &mut self,
        wanted: &BTreeMap<String, String>,
    ) -> io::Result<Option<Refusal>> {
        let mut query = String::new();
        for name in TRACKED {
            let (Some(wanted), Some(found)) = (wanted.get(name), self.parameters.get(name)) else {
                continue;
            };
            if !wanted.eq_ignore_ascii_case(found) {
                query.push_str(&format!("SET {name}='{}';", wanted.replace('\'', "''")));
            }
        }
        if query.is_empty() {
            return Ok(None);
        }
        let mut message = Vec::new();
        codec::message(&mut message, b'Q', |to| codec::text(to, &query));
        self.stream.write_all(&message).await?;
        self.stream.flush().await?;
        self.until_ready().await
    }

    /// Reads up to the next ReadyForQuery, for itself; or to an error, which it returns.
    async fn until_ready(&mut self) -> io::Result<Option<Refusal>> {
        loop {
            while let Some(Message { kind, length }) = message(&self.input)? {
                let bytes: Vec<u8> = self.input.drain(..length).collect();
                let body = &bytes[5..];
                self.heard(kind, body);
                match kind {
                    b'Z' => return Ok(None),
                    b'E' => return Ok(Some(bytes)),
                    // Anything but "you are in" asks for a password.
                    b'R' if body != [0; 4] => return Err(io::ErrorKind::PermissionDenied.into()),
                    _ => {}
                }
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Keeps what it says of itself.
    pub(super) fn heard(&mut self, kind: u8, body: &[u8]) {
        match (kind, body) {
            (b'S', _) => self.parameters.extend(parameter(body)),
            (b'K', [pid @ .., _, _, _, _]) if pid.len() == 4 => {
                let number = |bytes: &[u8]| {
                    bytes.iter().fold(0_i32, |number, byte| number << 8 | i32::from(*byte))
                };
                self.key = (number(pid), number(&body[4..]));
            }
            _ => {}
        }
    }

    /// Whether the server has not ended it while nobody used it.
    pub(super) fn is_alive(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match poll_read(&mut self.stream, &mut self.input, &mut context) {
                Poll::Pending => break,
                Poll::Ready(Ok(count)) if count > 0 => {}
                Poll::Ready(_) => return false,
            }
        }
        // What it may say unasked: notices, parameters, notifications. Anything else is why it
        // is about to end, or an answer that somebody has not waited for.
        while let Ok(Some(Message { kind, length })) = message(&self.input) {
            let body: Vec<u8> = self.input.drain(..length).skip(5).collect();
            if !matches!(kind, b'N' | b'S' | b'A') {
                return false;
            }
            self.heard(kind, &body);
        }
        self.input.is_empty()
    }
}
