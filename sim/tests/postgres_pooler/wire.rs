//! Messages as bytes: what of them is under way when a session could be given to somebody else.

use std::sync::Arc;

use lockstorm_sim::server::postgres::pooler::PoolerSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::postgres_support::{connect, told};
use super::watched::turn;
use super::{Pooled, Running, on_tokio};

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

/// A statement without a name, parsed, bound and executed; no Sync.
fn batch(statement: &str) -> Vec<u8> {
    let parse = [&b"\0"[..], statement.as_bytes(), b"\0\0\0"].concat();
    [message(b'P', &parse), message(b'B', &[0; 8]), message(b'E', &[0; 5])].concat()
}

fn query(statement: &str) -> Vec<u8> {
    message(b'Q', &[statement.as_bytes(), b"\0"].concat())
}

/// A client that has been let in.
async fn raw(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    stream.write_u32(body.len() as u32 + 4).await.unwrap();
    stream.write_all(body).await.unwrap();
    until(&mut stream, b'Z').await;
    stream
}

/// The kinds of what is said, up to one of this kind; the last body.
async fn until(stream: &mut (impl AsyncReadExt + Unpin), last: u8) -> (Vec<u8>, Vec<u8>) {
    let mut kinds = Vec::new();
    loop {
        let kind = stream.read_u8().await.unwrap();
        let mut body = vec![0; stream.read_u32().await.unwrap() as usize - 4];
        stream.read_exact(&mut body).await.unwrap();
        kinds.push(kind);
        if kind == last {
            return (kinds, body);
        }
    }
}

#[test]
fn a_session_is_nobody_elses_while_a_batch_is_under_way() {
    on_tokio(async {
        let pooled = Pooled::start(1).await;
        let mut one = raw(pooled.port).await;
        let two = connect(pooled.port).await;
        let first = [batch("SELECT 1"), message(b'S', b"")].concat();
        let second = [batch("SELECT 2"), message(b'H', b"")].concat();
        one.write_all(&[first, second].concat()).await.unwrap();
        assert_eq!(until(&mut one, b'Z').await.0, b"12DCZ");
        assert_eq!(until(&mut one, b'C').await.0, b"12DC");
        let asks = tokio::spawn(async move { told(&two, "SELECT 3").await });
        // The second batch has not been ended.
        pooled.pooler.watched.waiting(1).await;
        one.write_all(&message(b'S', b"")).await.unwrap();
        assert_eq!(until(&mut one, b'Z').await.0, b"Z");
        assert_eq!(asks.await.unwrap(), "(3) #1");
    });
}

/// What the server skips after an error it does not answer.
#[test]
fn a_query_that_is_skipped_does_not_keep_the_session() {
    on_tokio(async {
        let pooled = Pooled::start(1).await;
        let mut one = raw(pooled.port).await;
        let two = connect(pooled.port).await;
        let asked = [batch("SELECT nonsense"), query("SELECT 1"), message(b'S', b"")];
        one.write_all(&asked.concat()).await.unwrap();
        assert_eq!(until(&mut one, b'Z').await.0, b"EZ");
        assert_eq!(told(&two, "SELECT 3").await, "(3) #1");
    });
}

/// Both sides have more to say than any buffer holds.
#[test]
fn both_directions_are_carried_at_the_same_time() {
    on_tokio(async {
        const QUERIES: usize = 200;
        let pooled = Pooled::start(1).await;
        let (mut answers, mut questions) = raw(pooled.port).await.into_split();
        let long = query(&format!("SELECT '{}'", "x".repeat(64 * 1024)));
        let asking = tokio::spawn(async move {
            for _ in 0..QUERIES {
                questions.write_all(&long).await.unwrap();
            }
            questions
        });
        for _ in 0..QUERIES {
            assert_eq!(until(&mut answers, b'Z').await.0, b"TDCZ");
        }
        drop(asking.await.unwrap());
    });
}

/// When something is said that nobody has asked for: when the test wants it, and then it is.
#[derive(Default)]
struct Unasked {
    wanted: Notify,
    said: Notify,
}

/// A server in a few bytes: it answers each query with the number of its connection, and after
/// "stray" once more.
async fn straying(listener: TcpListener, unasked: Arc<Unasked>) {
    for number in 1.. {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(stray(stream, number, unasked.clone()));
    }
}

async fn stray(mut stream: TcpStream, number: u32, unasked: Arc<Unasked>) {
    let startup = stream.read_u32().await.unwrap() as usize - 4;
    stream.read_exact(&mut vec![0; startup]).await.unwrap();
    let greeting = [message(b'R', &[0; 4]), message(b'K', &[0; 8]), message(b'Z', b"I")];
    stream.write_all(&greeting.concat()).await.unwrap();
    loop {
        let (kinds, text) = until(&mut stream, b'Q').await;
        assert_eq!(kinds, b"Q");
        let column = [&b"\0\x01n\0"[..], &[0; 6], &[0, 0, 0, 25], &[0; 8]].concat();
        let row = [&b"\0\x01\0\0\0\x01"[..], number.to_string().as_bytes()].concat();
        let done = message(b'C', b"SELECT 1\0");
        let answer = [message(b'T', &column), message(b'D', &row), done.clone()].concat();
        stream.write_all(&[answer, message(b'Z', b"I")].concat()).await.unwrap();
        unasked.wanted.notified().await;
        let more = match &text[..] {
            b"stray\0" => done,
            _ => [
                message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mhi\0\0"),
                message(b'S', b"a\0b\0"),
                message(b'A', b"\0\0\0\0c\0\0"),
            ]
            .concat(),
        };
        stream.write_all(&more).await.unwrap();
        unasked.said.notify_one();
    }
}

#[test]
fn a_session_that_answers_what_nobody_has_asked_is_given_to_nobody() {
    on_tokio(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let unasked = Arc::<Unasked>::default();
        let server = tokio::spawn(straying(listener, unasked.clone()));
        let settings = PoolerSettings { pool_size: 1, ..PoolerSettings::default() };
        let pooler = Running::before(port, settings).await;
        let one = connect(pooler.port).await;
        for (statement, connection) in [("good", "(1)"), ("stray", "(1)"), ("good", "(2)")] {
            // The session has been given back by now.
            assert!(told(&one, statement).await.starts_with(connection), "{statement}");
            unasked.wanted.notify_one();
            unasked.said.notified().await;
            turn().await;
        }
        server.abort();
    });
}
