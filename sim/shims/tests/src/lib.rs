//! A client as third parties write them: against the published APIs of `async-io`,
//! `async-net`, `asyncs` and `futures-timer`, without a word about any simulator. The tests
//! run it in storms and outside of them.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use async_io::Timer;
use async_net::TcpStream;
use asyncs::select;
use asyncs::task::{self, JoinHandle};
use futures_lite::{AsyncReadExt, AsyncWriteExt, StreamExt};
use futures_timer::Delay;

/// Hears what a client does, from within the task that does it.
pub trait Listener: Clone + Send + Sync + 'static {
    /// Something happened.
    fn hear(&self, what: &str);
}

/// Says `words` to an echo and hears them back.
///
/// # Errors
/// What the network says, and [`io::ErrorKind::TimedOut`] when the echo takes longer than
/// `patience`.
pub async fn say(stream: &mut TcpStream, words: &str, patience: Duration) -> io::Result<()> {
    let mut answer = vec![0; words.len()];
    let exchange = async {
        stream.write_all(words.as_bytes()).await?;
        stream.read_exact(&mut answer).await
    };
    select! {
        biased;
        read = exchange => read?,
        _ = Timer::after(patience) => return Err(io::ErrorKind::TimedOut.into()),
    }
    if answer == words.as_bytes() { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Connects to an echo and says `rounds` things to it, one each `period`, in a task of its
/// own, telling `listener` of each. Gives the number of words that came back.
///
/// # Errors
/// What the network says of connecting.
pub async fn chat(
    (host, port): (&str, u16),
    period: Duration,
    rounds: usize,
    listener: impl Listener,
) -> io::Result<JoinHandle<usize>> {
    let mut stream = TcpStream::connect((host, port)).await?;
    listener.hear("connected");
    let talk = async move {
        let mut ticks = pin!(Timer::interval(period).take(rounds));
        let mut heard = 0;
        while ticks.next().await.is_some() {
            match say(&mut stream, "word", period * 100).await {
                Ok(()) => heard += 1,
                Err(error) => {
                    listener.hear(&format!("failed: {:?}", error.kind()));
                    break;
                }
            }
            listener.hear("echoed");
        }
        // Over for the other side as well.
        let _ = stream.close().await;
        heard
    };
    Ok(task::Builder::new().name("chat").spawn(talk))
}

/// Does `work`, or nothing after `limit`.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut delay = Delay::new(Duration::ZERO);
    delay.reset(limit);
    select! {
        biased;
        done = work => Some(done),
        _ = delay => None,
    }
}
