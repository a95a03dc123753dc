//! What clients may ask a sentinel: where the master is, and the few commands that
//! client libraries send before they ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockstorm::host::{Listener, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Shared;
use crate::server::redis::codec::{
    Arguments, Protocol, ReplyEncoder, RequestDecoder, RequestLimits,
};

/// How many clients are served at once; more are told so and closed.
const MAX_CLIENTS: usize = 10_000;

/// A sentinel's clients send short commands: more is hostile.
const LIMITS: RequestLimits =
    RequestLimits { arguments: 1_024, argument_bytes: 16 * 1024, buffered_bytes: 64 * 1024 };

/// Answers clients for ever.
pub(super) async fn serve(shared: Arc<Shared>, listener: Listener) {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept().await {
            Ok(stream) => {
                let place = Place::take(&clients);
                let serving = attend(shared.clone(), stream, place);
                shared.host.spawn("failover-client", serving);
            }
            // Usually a lack of descriptors: trying at once would only spin.
            Err(_) => shared.host.sleep(Duration::from_millis(10)).await,
        }
    }
}

/// One of the [`MAX_CLIENTS`], given back when dropped.
struct Place(Arc<AtomicUsize>, bool);

impl Place {
    fn take(clients: &Arc<AtomicUsize>) -> Place {
        let before = clients.fetch_add(1, Ordering::Relaxed);
        Place(clients.clone(), before < MAX_CLIENTS)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn attend(shared: Arc<Shared>, mut stream: Stream, place: Place) {
    let mut decoder = RequestDecoder::new(LIMITS);
    let mut reply = ReplyEncoder::new(Protocol::Resp2);
    let mut goes_on = place.1;
    if !goes_on {
        reply.error(b"ERR max number of clients reached");
    }
    loop {
        while goes_on {
            match decoder.decode() {
                Ok(Some(arguments)) => goes_on = answer(&shared, arguments, &mut reply),
                Ok(None) => break,
                Err(error) => {
                    if let Some(text) = error.reply() {
                        reply.error(&text);
                    }
                    goes_on = false;
                }
            }
        }
        if stream.write_all(reply.bytes()).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        reply.bytes_mut().clear();
        if !goes_on {
            // The peer may be gone already; there is nothing left to say either way.
            let _ = stream.shutdown().await;
            return;
        }
        match stream.read_buf(decoder.buffer_mut()).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Answers one command; whether the conversation goes on.
fn answer(shared: &Shared, arguments: Arguments<'_>, reply: &mut ReplyEncoder) -> bool {
    match arguments[0].to_ascii_uppercase().as_slice() {
        b"PING" if arguments.len() == 1 => reply.simple(b"PONG"),
        b"PING" => reply.bulk(&arguments[1]),
        b"HELLO" => hello(arguments, reply),
        b"CLIENT" => reply.ok(),
        b"ROLE" => {
            reply.array(2);
            reply.bulk(b"sentinel");
            reply.array(1);
            reply.bulk(shared.settings.master_name.as_bytes());
        }
        b"INFO" => reply.bulk(info(shared).as_bytes()),
        b"SENTINEL" => sentinel(shared, arguments, reply),
        b"QUIT" => {
            reply.ok();
            return false;
        }
        _ => {
            let name = String::from_utf8_lossy(&arguments[0]);
            let name: String = name.chars().take(128).collect();
            reply.error(format!("ERR unknown command '{name}'").as_bytes());
        }
    }
    true
}

fn hello(arguments: Arguments<'_>, reply: &mut ReplyEncoder) {
    match arguments.get(1) {
        None => {}
        Some(b"2") => reply.set_protocol(Protocol::Resp2),
        Some(b"3") => reply.set_protocol(Protocol::Resp3),
        Some(_) => return reply.error(b"NOPROTO unsupported protocol version"),
    }
    reply.map(4);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(b"7.0.15");
    reply.bulk(b"proto");
    reply.integer(reply.protocol().number());
    reply.bulk(b"mode");
    reply.bulk(b"sentinel");
}

fn sentinel(shared: &Shared, arguments: Arguments<'_>, reply: &mut ReplyEncoder) {
    let subcommand = arguments.get(1).unwrap_or_default().to_ascii_uppercase();
    match (subcommand.as_slice(), arguments.len()) {
        (b"GET-MASTER-ADDR-BY-NAME", 3) => {
            if &arguments[2] != shared.settings.master_name.as_bytes() {
                return reply.null_array();
            }
            let (name, port) = master(shared);
            reply.array(2);
            reply.bulk(name.as_bytes());
            reply.bulk(port.as_bytes());
        }
        (b"MASTERS", 2) => {
            reply.array(1);
            described(shared, reply);
        }
        (b"MASTER", 3) if &arguments[2] == shared.settings.master_name.as_bytes() => {
            described(shared, reply);
        }
        (b"MASTER", 3) => reply.error(b"ERR No such master with that name"),
        _ => {
            let subcommand = String::from_utf8_lossy(&subcommand);
            let subcommand: String = subcommand.chars().take(128).collect();
            let text =
                format!("ERR unknown subcommand or wrong number of arguments for '{subcommand}'");
            reply.error(text.as_bytes());
        }
    }
}

/// The master as a sentinel describes it, in the fields that clients read.
fn described(shared: &Shared, reply: &mut ReplyEncoder) {
    let (name, port) = master(shared);
    let replicas = (shared.settings.nodes.len() - 1).to_string();
    let down_after_ms = shared.settings.down_after.as_millis().to_string();
    let fields = [
        ("name", shared.settings.master_name.as_str()),
        ("ip", name),
        ("port", port),
        ("flags", if is_down(shared) { "s_down,o_down,master" } else { "master" }),
        ("down-after-milliseconds", down_after_ms.as_str()),
        ("num-slaves", replicas.as_str()),
        ("num-other-sentinels", "0"),
        ("quorum", "1"),
    ];
    reply.map(fields.len());
    for (field, value) in fields {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

fn info(shared: &Shared) -> String {
    let (name, port) = master(shared);
    let status = if is_down(shared) { "odown" } else { "ok" };
    format!(
        "# Server\r\nredis_version:7.0.15\r\nredis_mode:sentinel\r\n\r\n# Sentinel\r\n\
         sentinel_masters:1\r\nmaster0:name={},status={status},address={name}:{port},slaves={},\
         sentinels=1\r\n",
        shared.settings.master_name,
        shared.settings.nodes.len() - 1,
    )
}

fn master(shared: &Shared) -> (&str, &str) {
    let address = &shared.settings.nodes[shared.view().master];
    address.rsplit_once(':').unwrap_or((address, "6379"))
}

fn is_down(shared: &Shared) -> bool {
    let settings = &shared.settings;
    let denial = settings.down_after + 2 * settings.info_every;
    shared.view().master_is_down(shared.host.monotonic(), settings.down_after, denial)
}
