//! A server in a few bytes, for tests: it says yes to every simple query but one.

use lockstorm::Host;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How it refuses that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severe {
    /// The session goes on.
    Error,
    /// The session ends.
    Fatal,
}

/// Runs a test beside a server that refuses `refused`; the test is told where it is.
pub(crate) fn served(
    refused: &'static str,
    severity: Severe,
    test: impl AsyncFnOnce(Host, String),
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, refused, severity));
            }
        });
        test(Host::tokio("app-1"), address).await;
    });
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

async fn serve(mut stream: TcpStream, refused: &str, severity: Severe) {
    let startup = stream.read_u32().await.unwrap_or(4) as usize;
    let _ = stream.read_exact(&mut vec![0; startup - 4]).await;
    let greeting = [message(b'R', &[0; 4]), message(b'K', &[0; 8]), message(b'Z', b"I")].concat();
    let _ = stream.write_all(&greeting).await;
    while let Ok(kind) = stream.read_u8().await {
        let mut body = vec![0; stream.read_u32().await.unwrap_or(4) as usize - 4];
        if kind != b'Q' || stream.read_exact(&mut body).await.is_err() {
            return;
        }
        let text = String::from_utf8_lossy(&body);
        let fields = match severity {
            Severe::Error => &b"SERROR\0VERROR\0C40001\0Mno\0\0"[..],
            Severe::Fatal => &b"SFATAL\0VFATAL\0C57P01\0Mno\0\0"[..],
        };
        let is_refused = text.trim_end_matches('\0') == refused;
        let answer = match (is_refused, text.starts_with("SHOW")) {
            (true, _) => message(b'E', fields),
            (false, false) => message(b'C', b"DONE\0"),
            (false, true) => {
                let column = [&b"\0\x01state\0"[..], &[0; 6], &[0, 0, 0, 25], &[0; 8]].concat();
                let row = message(b'D', b"\0\x01\0\0\0\x03off");
                [message(b'T', &column), row, message(b'C', b"SHOW\0")].concat()
            }
        };
        let _ = stream.write_all(&answer).await;
        if is_refused && severity == Severe::Fatal {
            return;
        }
        let _ = stream.write_all(&message(b'Z', b"I")).await;
    }
}
