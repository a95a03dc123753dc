//! A sentinel whose world stands still, as visitors see it: whom it takes for the master, and for
//! down. What would have it act is refused.

use std::io;
use std::sync::{Arc, OnceLock};

use lockstorm::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::instance::Master;
use super::service::LIMITS;
use super::{Shared, command, wall_ms};
use crate::codec::{Arguments, RequestDecoder};

/// What is seen of a sentinel from outside of its world.
#[derive(Clone, Default)]
pub struct Window(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Absent until it has read what it kept.
    shared: OnceLock<Arc<Shared>>,
    refusal: OnceLock<String>,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = self.0.shared.get().map(|shared| shared.host.clone());
        formatter.debug_tuple("Window").field(&host).finish()
    }
}

impl Window {
    pub(super) fn open(&self, shared: &Arc<Shared>) {
        let _ = self.0.shared.set(shared.clone());
    }

    /// From now on nothing of it is changed. `instant` says where the world stands, as a clause
    /// for people.
    pub fn freeze(&self, instant: &str) {
        let refusal = format!("READONLY lockstorm: the world stands still {instant}");
        let _ = self.0.refusal.set(format!("{refusal}; nothing is done"));
    }

    /// Whether the sentinel has ended, or has not yet begun.
    pub fn is_over(&self) -> bool {
        self.0.shared.get().is_none_or(|shared| shared.lock().clients.is_closed)
    }

    /// Where the masters are by its account, `name:port`, and whether enough sentinels agree that
    /// each is down.
    pub fn masters(&self) -> Vec<(String, bool)> {
        let Some(shared) = self.0.shared.get() else { return Vec::new() };
        let state = shared.lock();
        let told = |master: &Master| {
            let address = master.current_address();
            (format!("{}:{}", address.host, address.port), master.o_down)
        };
        state.core.masters.iter().map(told).collect()
    }

    /// Serves a visitor until either side ends it.
    pub async fn serve(self, mut stream: Stream) {
        let Some(shared) = self.0.shared.get() else { return };
        let Some(id) = shared.lock().clients.enter(stream.peer_addr()) else { return };
        // A connection that failed is a connection that ended.
        let _ = self.answer(shared, id, &mut stream).await;
        shared.lock().clients.all.remove(&id);
    }

    async fn answer(&self, shared: &Shared, id: u64, stream: &mut Stream) -> io::Result<()> {
        let mut requests = RequestDecoder::new(LIMITS);
        while stream.read_buf(requests.buffer_mut()).await? > 0 {
            let (output, closes) = self.execute_all(shared, id, &mut requests);
            stream.write_all(&output).await?;
            stream.flush().await?;
            if closes {
                return stream.shutdown().await;
            }
        }
        Ok(())
    }

    /// What is to be written, and whether it is the last.
    fn execute_all(
        &self,
        shared: &Shared,
        id: u64,
        requests: &mut RequestDecoder,
    ) -> (Vec<u8>, bool) {
        let mut guard = shared.lock();
        let state = &mut *guard;
        let Some(mut client) = state.clients.all.remove(&id) else { return (Vec::new(), true) };
        let now = wall_ms(&shared.host);
        while !client.closes {
            match requests.decode() {
                Ok(Some(arguments)) if acts(arguments) => {
                    let refusal = self.0.refusal.get().map_or("READONLY", String::as_str);
                    client.reply.error(refusal.as_bytes());
                }
                Ok(Some(arguments)) => command::execute(state, &mut client, arguments, now),
                Ok(None) => break,
                Err(error) => {
                    if let Some(text) = error.reply() {
                        client.reply.error(&text);
                    }
                    client.closes = true;
                }
            }
        }
        let output = client.reply.bytes().to_vec();
        client.reply.clear();
        let closes = client.closes;
        state.clients.all.insert(id, client);
        (output, closes)
    }
}

/// The words after `SENTINEL` that only ask.
const QUESTIONS: [&str; 11] = [
    "ckquorum",
    "get-master-addr-by-name",
    "help",
    "info-cache",
    "master",
    "masters",
    "myid",
    "pending-scripts",
    "replicas",
    "sentinels",
    "slaves",
];

fn acts(arguments: Arguments<'_>) -> bool {
    let is = |index: usize, word: &str| {
        arguments.get(index).is_some_and(|given| given.eq_ignore_ascii_case(word.as_bytes()))
    };
    let asks = QUESTIONS.iter().any(|word| is(1, word)) || (is(1, "config") && is(2, "get"));
    is(0, "publish") || (is(0, "sentinel") && !asks)
}
