//! Keeps what is known of one server up to date: PING often, INFO sometimes and on
//! every new connection, over a connection that is opened again whenever it fails.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::client::Client;
use super::view::Information;
use crate::server::redis::codec::Reply;

/// Probes the server at position `node` for ever.
pub(super) async fn probe(shared: Arc<Shared>, node: usize) {
    let settings = &shared.settings;
    loop {
        let address = &settings.nodes[node];
        if let Ok(mut client) = Client::connect(&shared.host, address, settings.reply_timeout).await
        {
            // Ends with the connection, which is all that its error would say.
            let _ = converse(&shared, node, &mut client).await;
        }
        shared.host.sleep(settings.ping_every).await;
    }
}

async fn converse(shared: &Shared, node: usize, client: &mut Client) -> io::Result<()> {
    let mut informed_at: Option<Duration> = None;
    loop {
        let pong = client.ask(&[b"PING"]).await?;
        let now = shared.host.monotonic();
        if is_alive(&pong) {
            shared.view().answered(node, now);
        }
        // A switch makes roles out of date before their time.
        let is_unknown = shared.view().servers[node].role.is_none();
        let is_due = informed_at.is_none_or(|at| now - at >= shared.settings.info_every);
        if is_due || is_unknown {
            informed_at = Some(now);
            if let Some(information) = inform(client).await? {
                shared.view().informed(node, information.role, shared.host.monotonic());
            }
        }
        shared.host.sleep(shared.settings.ping_every).await;
    }
}

/// What the server says of itself; `None` when it does not say.
pub(super) async fn inform(client: &mut Client) -> io::Result<Option<Information>> {
    let reply = client.ask(&[b"INFO", b"replication"]).await?;
    Ok(reply.text().and_then(Information::parse))
}

/// A server that is loading, or has lost its own master, lives: as Sentinel has it.
fn is_alive(pong: &Reply) -> bool {
    match pong {
        Reply::Simple(text) => &text[..] == b"PONG",
        Reply::Error(text) => text.starts_with(b"LOADING") || text.starts_with(b"MASTERDOWN"),
        _ => false,
    }
}
