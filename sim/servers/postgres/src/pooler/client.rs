//! A client of the pooler.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::backend::{Message, message, parameter};
use super::{Key, Lent, Pool, Shared, TRACKED};
use crate::codec::{self, Opening};
use crate::error::{Severity, SqlError};

/// Tells why, and no more.
async fn refuse(stream: &mut Stream, error: &SqlError) {
    let mut output = Vec::new();
    codec::error(&mut output, &error.clone().severity(Severity::Fatal), "");
    // Whether it hears the reason is up to it.
    let _ = stream.write_all(&output).await;
    let _ = stream.flush().await;
}

/// Ends the client's entry with its task.
struct Entry {
    shared: Arc<Shared>,
    pid: i32,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.state().clients.remove(&self.pid);
    }
}

struct Client {
    entry: Entry,
    stream: Stream,
    input: Vec<u8>,
    pool: Arc<Pool>,
    /// What it has of the tracked parameters.
    parameters: BTreeMap<String, String>,
    lent: Option<Lent>,
    /// So many answers of "ready" are to come.
    awaited: usize,
}

pub(super) async fn serve(shared: Arc<Shared>, mut stream: Stream) {
    let mut input = Vec::new();
    let parameters = match opened(&mut stream, &mut input).await {
        Ok(Some(Opening::Startup { parameters, .. })) => parameters,
        Ok(Some(Opening::Cancel { pid, secret })) => return cancel(&shared, pid, secret).await,
        _ => return,
    };
    match entered(&shared, stream, input, &parameters).await {
        Ok(mut client) => {
            // Whatever ends it, a session in its use ends with it.
            let _ = client.relay().await;
        }
        Err((mut stream, told)) => refuse(&mut stream, &SqlError::fatal("08P01", told)).await,
    }
}

/// The first message; encryption is refused on the way.
async fn opened(stream: &mut Stream, input: &mut Vec<u8>) -> io::Result<Option<Opening>> {
    loop {
        while let Ok(Some((opening, length))) = codec::opening(input) {
            input.drain(..length);
            if opening != Opening::Encryption {
                return Ok(Some(opening));
            }
            stream.write_all(b"N").await?;
            stream.flush().await?;
        }
        if codec::opening(input).is_err() || stream.read_buf(input).await? == 0 {
            return Ok(None);
        }
    }
}

/// Hands a request to cancel on to the session that the client has, if it has one.
async fn cancel(shared: &Shared, pid: i32, secret: i32) {
    let linked = {
        let state = shared.state();
        let key = state.clients.get(&pid).filter(|key| key.secret == secret);
        key.and_then(|key| key.linked)
    };
    let Some((pid, secret)) = linked else { return };
    let Ok(mut stream) = shared.host.connect(&shared.settings.server).await else { return };
    let mut request = Vec::new();
    for number in [16, (1_234 << 16) | 5_678, pid, secret] {
        request.extend_from_slice(&i32::to_be_bytes(number));
    }
    // Whether it is heard nobody is told.
    let _ = stream.write_all(&request).await;
    let _ = stream.flush().await;
}

/// Lets a client in, once a server has said what its parameters are.
async fn entered(
    shared: &Arc<Shared>,
    mut stream: Stream,
    input: Vec<u8>,
    startup: &[(String, String)],
) -> Result<Client, (Stream, String)> {
    let (mut user, mut database, mut wanted) = (None, None, BTreeMap::new());
    for (name, value) in startup {
        let tracked = TRACKED.iter().find(|known| known.eq_ignore_ascii_case(name));
        match (name.as_str(), tracked) {
            ("user", _) => user = Some(value.as_str()),
            ("database", _) => database = Some(value.as_str()),
            (_, Some(tracked)) => {
                wanted.insert((*tracked).to_owned(), value.clone());
            }
            _ => return Err((stream, format!("unsupported startup parameter: {name}"))),
        }
    }
    let Some(user) = user else { return Err((stream, "no username supplied".to_owned())) };
    let pool = shared.pool(user, database.unwrap_or(user));
    let reported = match shared.welcome(&pool).await {
        Ok(reported) => reported,
        Err(told) => return Err((stream, told.to_owned())),
    };
    let mut parameters = reported.clone();
    parameters.retain(|name, _| TRACKED.contains(&name.as_str()));
    parameters.extend(wanted);
    let secret = shared.host.random("pooler-secret") as i32;
    let pid = {
        let mut state = shared.state();
        state.last_pid += 1;
        let pid = state.last_pid;
        state.clients.insert(pid, Key { secret, linked: None });
        pid
    };
    let entry = Entry { shared: shared.clone(), pid };
    let greeting = greeting(&reported, &parameters, (pid, secret));
    if stream.write_all(&greeting).await.is_err() || stream.flush().await.is_err() {
        return Err((stream, "the client has gone".to_owned()));
    }
    Ok(Client { entry, stream, input, pool, parameters, lent: None, awaited: 0 })
}

fn greeting(
    reported: &BTreeMap<String, String>,
    own: &BTreeMap<String, String>,
    (pid, secret): (i32, i32),
) -> Vec<u8> {
    let mut output = Vec::new();
    codec::message(&mut output, b'R', |to| to.extend_from_slice(&[0; 4]));
    for (name, value) in reported {
        codec::message(&mut output, b'S', |to| {
            codec::text(to, name);
            codec::text(to, own.get(name).unwrap_or(value));
        });
    }
    codec::message(&mut output, b'K', |to| {
        to.extend_from_slice(&pid.to_be_bytes());
        to.extend_from_slice(&secret.to_be_bytes());
    });
    codec::message(&mut output, b'Z', |to| to.push(b'I'));
    output
}

/// Who has said something.
enum Heard {
    Client(usize),
    Server(usize),
}

impl Client {
    /// Carries messages until one side ends.
    async fn relay(&mut self) -> io::Result<()> {
        loop {
            while self.hand_on().await? {}
            match self.hear().await? {
                Heard::Client(0) | Heard::Server(0) => return Ok(()),
                Heard::Client(_) => {}
                Heard::Server(_) => self.hand_back().await?,
            }
        }
    }

    /// Waits for either; the server comes first.
    async fn hear(&mut self) -> io::Result<Heard> {
        let Client { stream, input, lent, .. } = self;
        let mut client = std::pin::pin!(stream.read_buf(input));
        let Some(Lent { backend, .. }) = lent else { return client.await.map(Heard::Client) };
        let mut server = std::pin::pin!(backend.stream.read_buf(&mut backend.input));
        poll_fn(|context| {
            if let Poll::Ready(read) = server.as_mut().poll(context) {
                return Poll::Ready(read.map(Heard::Server));
            }
            client.as_mut().poll(context).map(|read| read.map(Heard::Client))
        })
        .await
    }

    /// Hands the next whole message on to a session; false if there is none yet.
    async fn hand_on(&mut self) -> io::Result<bool> {
        let most = self.entry.shared.settings.message_bytes;
        let (kind, length) = match codec::frame(&self.input, most) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(false),
            Err(error) => {
                refuse(&mut self.stream, &error).await;
                return Err(io::ErrorKind::InvalidData.into());
            }
        };
        if kind == b'X' {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if self.lent.is_none() {
            self.link().await?;
        }
        let bytes: Vec<u8> = self.input.drain(..length).collect();
        // A query and a Sync are each answered by one "ready".
        self.awaited += usize::from(matches!(kind, b'Q' | b'S' | b'F'));
        if let Some(Lent { backend, .. }) = &mut self.lent {
            backend.stream.write_all(&bytes).await?;
            backend.stream.flush().await?;
        }
        Ok(true)
    }

    /// Takes a session for a transaction.
    async fn link(&mut self) -> io::Result<()> {
        let shared = self.entry.shared.clone();
        let mut lent = match shared.lend(&self.pool).await {
            Ok(lent) => lent,
            Err(told) => {
                refuse(&mut self.stream, &SqlError::fatal("08P01", told)).await;
                return Err(io::ErrorKind::TimedOut.into());
            }
        };
        lent.backend.apply(&self.parameters).await?;
        self.say_linked(Some(lent.backend.key));
        self.lent = Some(lent);
        Ok(())
    }

    fn say_linked(&self, linked: Option<(i32, i32)>) {
        if let Some(key) = self.entry.shared.state().clients.get_mut(&self.entry.pid) {
            key.linked = linked;
        }
    }

    /// Hands on what the session has said, and gives it back where a transaction is over.
    async fn hand_back(&mut self) -> io::Result<()> {
        let mut output = Vec::new();
        let mut is_over = false;
        if let Some(Lent { backend, .. }) = &mut self.lent {
            while let Some(Message { kind, length }) = message(&backend.input)? {
                let bytes: Vec<u8> = backend.input.drain(..length).collect();
                let body = &bytes[5..];
                backend.heard(kind, body);
                if kind == b'S' {
                    let told = parameter(body);
                    let tracked = told.filter(|(name, _)| TRACKED.contains(&name.as_str()));
                    self.parameters.extend(tracked);
                }
                if kind == b'Z' {
                    self.awaited = self.awaited.saturating_sub(1);
                    is_over = self.awaited == 0 && body == b"I";
                }
                output.extend_from_slice(&bytes);
            }
        }
        if is_over && let Some(lent) = self.lent.take() {
            self.say_linked(None);
            lent.give_back();
        }
        self.stream.write_all(&output).await?;
        self.stream.flush().await
    }
}
