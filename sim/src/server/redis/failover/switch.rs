//! Replaces a master that is down, and keeps every other server following the one
//! that clients are told of.

use std::cmp::Reverse;
use std::io;
use std::time::Duration;

use super::Shared;
use super::client::Client;
use super::probe::inform;
use super::view::{Information, Role};

/// Looks after the cluster for ever, once every PING interval.
pub(super) async fn keep_a_master(shared: &Shared) {
    let settings = &shared.settings;
    let mut down = false;
    let mut looked_at = shared.host.monotonic();
    // The replica that a failover which did not finish has begun to promote.
    let mut promoting = None;
    loop {
        shared.host.sleep(settings.ping_every).await;
        let now = shared.host.monotonic();
        if now - looked_at > standstill(settings.down_after, settings.ping_every) {
            shared.view().begin_anew(now);
        }
        let denial = settings.down_after + 2 * settings.info_every;
        let was_down = down;
        down = shared.view().master_is_down(now, settings.down_after, denial);
        if down {
            if !was_down {
                shared.observer.master_down(&settings.nodes[shared.view().master]);
            }
            down = !replace(shared, &mut promoting).await;
        } else {
            promoting = None;
            correct(shared).await;
        }
        looked_at = shared.host.monotonic();
    }
}

/// Between two looks the controller itself stood still (paused, or starved) if they
/// are further apart than this. The probes' silence then proves nothing.
fn standstill(down_after: Duration, ping_every: Duration) -> Duration {
    (down_after / 2).max(2 * ping_every)
}

/// Promotes the best replica and tells clients. Whether there is a new master now.
async fn replace(shared: &Shared, promoting: &mut Option<usize>) -> bool {
    let Some(candidate) = choose(shared, *promoting).await else { return false };
    *promoting = Some(candidate);
    if promote(shared, candidate).await.is_err() {
        return false;
    }
    *promoting = None;
    let nodes = &shared.settings.nodes;
    let former = {
        let mut view = shared.view();
        let former = view.master;
        view.switch(candidate);
        for (index, server) in view.servers.iter_mut().enumerate() {
            if index != candidate {
                server.role = None;
            }
        }
        former
    };
    shared.settings.memory.remember(&nodes[candidate]);
    shared.observer.switched(&nodes[former], &nodes[candidate]);
    let now = shared.host.monotonic();
    for node in (0..nodes.len()).filter(|node| *node != candidate && *node != former) {
        if shared.view().is_reachable(node, now, shared.settings.down_after) {
            // Who does not hear it now is corrected later.
            let _ = follow(shared, node, candidate).await;
        }
    }
    true
}

/// Asks every reachable server but the master what it has, and chooses one to promote.
async fn choose(shared: &Shared, promoting: Option<usize>) -> Option<usize> {
    let settings = &shared.settings;
    let mut candidates = Vec::new();
    for node in 0..settings.nodes.len() {
        let now = shared.host.monotonic();
        let is_reachable = {
            let view = shared.view();
            node != view.master && view.is_reachable(node, now, settings.down_after)
        };
        if !is_reachable {
            continue;
        }
        let asked = async {
            let address = &settings.nodes[node];
            let mut client = Client::connect(&shared.host, address, settings.reply_timeout).await?;
            inform(&mut client).await
        };
        // Who does not answer now is not reachable after all.
        if let Ok(Some(information)) = asked.await {
            candidates.push((node, information));
        }
    }
    best(&candidates, promoting)
}

/// The replica that has received most; of equals the first. One whose promotion was
/// begun, and may have happened, comes before all others: a second master would be
/// worse than a shorter log.
fn best(candidates: &[(usize, Information)], promoting: Option<usize>) -> Option<usize> {
    if let Some((node, _)) = candidates.iter().find(|(node, _)| promoting == Some(*node)) {
        return Some(*node);
    }
    let replicas = candidates
        .iter()
        .filter(|(_, information)| matches!(information.role, Role::Replica { .. }));
    // `min_by_key` keeps the first of equals.
    replicas.min_by_key(|(_, information)| Reverse(information.offset)).map(|(node, _)| *node)
}

/// Makes a replica a master and waits until it says so.
async fn promote(shared: &Shared, node: usize) -> io::Result<()> {
    let settings = &shared.settings;
    let began = shared.host.monotonic();
    reconfigure(shared, node, &[b"REPLICAOF", b"NO", b"ONE"]).await?;
    loop {
        let mut client =
            Client::connect(&shared.host, &settings.nodes[node], settings.reply_timeout).await?;
        if let Some(information) = inform(&mut client).await?
            && information.role == Role::Master
        {
            return Ok(());
        }
        if shared.host.monotonic() - began > settings.promotion_timeout {
            return Err(io::ErrorKind::TimedOut.into());
        }
        shared.host.sleep(settings.ping_every).await;
    }
}

/// Points at the master whoever says that it is a master too, or follows another.
/// Only while the master answers and calls itself one: else there is nobody to follow.
async fn correct(shared: &Shared) {
    let settings = &shared.settings;
    let now = shared.host.monotonic();
    let (master, astray) = {
        let view = shared.view();
        let master = view.master;
        if view.servers[master].role != Some(Role::Master) {
            return;
        }
        let right = &settings.nodes[master];
        let astray = (0..settings.nodes.len()).filter(|node| {
            let follows_another = match &view.servers[*node].role {
                None => false,
                Some(Role::Master) => true,
                Some(Role::Replica { master }) => master != right,
            };
            *node != master && follows_another && view.is_reachable(*node, now, settings.down_after)
        });
        (master, astray.collect::<Vec<_>>())
    };
    for node in astray {
        // It is tried again at the next look, if this fails.
        let _ = follow(shared, node, master).await;
    }
}

/// Tells a server to follow another.
async fn follow(shared: &Shared, node: usize, master: usize) -> io::Result<()> {
    let address = &shared.settings.nodes[master];
    let (name, port) = address.rsplit_once(':').unwrap_or((address, "6379"));
    reconfigure(shared, node, &[b"REPLICAOF", name.as_bytes(), port.as_bytes()]).await?;
    // Out of date now; the next probe asks at once.
    shared.view().servers[node].role = None;
    Ok(())
}

/// Sends a REPLICAOF and what Sentinel sends with it: the configuration is written
/// down, and clients are sent away so that they ask anew who the master is.
async fn reconfigure(shared: &Shared, node: usize, replicaof: &[&[u8]]) -> io::Result<()> {
    let settings = &shared.settings;
    let mut client =
        Client::connect(&shared.host, &settings.nodes[node], settings.reply_timeout).await?;
    let reply = client.ask(replicaof).await?;
    if let Some(error) = reply.as_error() {
        return Err(io::Error::other(String::from_utf8_lossy(error).into_owned()));
    }
    // A server without a configuration file refuses the first, which changes nothing.
    let _ = client.ask(&[b"CONFIG", b"REWRITE"]).await;
    let _ = client.ask(&[b"CLIENT", b"KILL", b"TYPE", b"normal"]).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(node: usize, offset: u64) -> (usize, Information) {
        let role = Role::Replica { master: "redis-1:6379".to_owned() };
        (node, Information { role, offset })
    }

    #[test]
    fn the_replica_that_has_received_most_is_promoted() {
        assert_eq!(best(&[], None), None);
        assert_eq!(best(&[replica(1, 10), replica(2, 12)], None), Some(2));
        assert_eq!(best(&[replica(1, 12), replica(2, 12)], None), Some(1));
        let stranger = (2, Information { role: Role::Master, offset: 99 });
        assert_eq!(best(&[replica(1, 10), stranger], None), Some(1));
    }

    #[test]
    fn a_promotion_that_was_begun_is_finished_before_another() {
        let begun = (1, Information { role: Role::Master, offset: 3 });
        assert_eq!(best(&[begun, replica(2, 12)], Some(1)), Some(1));
        assert_eq!(best(&[replica(2, 12)], Some(1)), Some(2));
    }
}
