//! Commands about masters and replicas.

use std::time::Duration;

use super::super::blocking::{Blocked, block};
use super::super::codec::number::parse_integer;
use super::super::replication::change_role;
use super::super::settings::Master;
use super::super::state::{Next, Position, Role};
use super::{Call, NOT_AN_INTEGER, Outcome, SYNTAX, connection, shown, word};

pub(super) fn replicaof(call: &mut Call<'_>) -> Outcome {
    if call.is(1, "no") && call.is(2, "one") {
        change_role(call.shared, call.state, None);
        call.reply.ok();
        return Ok(());
    }
    let port = parse_integer(&call.arguments[2])
        .and_then(|port| u16::try_from(port).ok())
        .ok_or("ERR Invalid master port")?;
    let host = String::from_utf8_lossy(&call.arguments[1]).into_owned();
    let master = Master { host, port };
    if matches!(&call.state.role, Role::Replica { master: current, .. } if *current == master) {
        call.reply.simple(b"OK Already connected to specified master");
        return Ok(());
    }
    change_role(call.shared, call.state, Some(master));
    call.reply.ok();
    Ok(())
}

pub(super) fn replconf(call: &mut Call<'_>) -> Outcome {
    let pairs = call.arguments.from(1);
    if !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    for index in (0..pairs.len()).step_by(2) {
        let value = &pairs[index + 1];
        match word(&pairs[index]).as_slice() {
            b"listening-port" => call.client.listening_port = connection::port(value)?,
            b"ip-address" => {
                call.client.announced_ip = Some(String::from_utf8_lossy(value).into_owned());
            }
            // What a replica can do beyond what is asked of it here.
            b"capa" | b"rdb-only" | b"rdb-filter-only" => {}
            // Outside of a replication link nobody listens to these, and no answer
            // is due.
            b"ack" | b"getack" => return Ok(()),
            _ => {
                let text = [b"ERR Unrecognized REPLCONF option: ", shown(&pairs[index])].concat();
                return Err(text.into());
            }
        }
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn psync(call: &mut Call<'_>) -> Outcome {
    if !call.may_block {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    let offset = parse_integer(&call.arguments[2]).ok_or(NOT_AN_INTEGER)?;
    if let Role::Replica { link, .. } = &call.state.role
        && !link.is_up
    {
        return Err("NOMASTERLINK Can't SYNC while not connected with my master".into());
    }
    let id = String::from_utf8_lossy(&call.arguments[1]).into_owned();
    let from = u64::try_from(offset).ok();
    call.client.next = Some(Next::Follow(Position { id, from, is_old: false }));
    Ok(())
}

/// What replicas of old ask for, and whoever only wants to read the stream.
pub(super) fn sync(call: &mut Call<'_>) -> Outcome {
    if let Role::Replica { link, .. } = &call.state.role
        && !link.is_up
    {
        return Err("NOMASTERLINK Can't SYNC while not connected with my master".into());
    }
    let position = Position { id: String::new(), from: None, is_old: true };
    call.client.next = Some(Next::Follow(position));
    Ok(())
}

pub(super) fn wait(call: &mut Call<'_>) -> Outcome {
    if call.state.is_replica() {
        return Err("ERR WAIT cannot be used with replica instances. Please also note that since \
                    Redis 4.0 if a replica is configured to be writable (which is not the default) \
                    writes to replicas are just local and are not propagated."
            .into());
    }
    let replicas = call.integer(1)?;
    let timeout_ms =
        parse_integer(&call.arguments[2]).ok_or("ERR timeout is not an integer or out of range")?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| "ERR timeout is negative")?;
    let offset = call.client.write_offset;
    let acknowledged = call.state.replication.acknowledged(offset);
    if acknowledged as i64 >= replicas || !call.may_block {
        call.reply.integer(acknowledged as i64);
        return Ok(());
    }
    let count = usize::try_from(replicas).unwrap_or(0);
    block(&mut call.state.waiting, call.client, Blocked::Replicas { count, offset });
    let timeout = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
    call.client.next = Some(Next::Block { timeout });
    // The replicas tell their offsets once a second, and when asked: by whoever runs this
    // command, once it has taken note of the offset.
    call.state.replication.ask_for_acknowledgement();
    Ok(())
}

pub(super) fn role(call: &mut Call<'_>) -> Outcome {
    let reply = &mut *call.reply;
    let offset = call.state.replication.offset as i64;
    match &call.state.role {
        Role::Master => {
            reply.array(3);
            reply.bulk(b"master");
            reply.integer(offset);
            let online: Vec<_> =
                call.state.replication.replicas.values().filter(|replica| replica.online).collect();
            reply.array(online.len());
            for replica in online {
                reply.array(3);
                reply.bulk(replica.ip.as_bytes());
                reply.bulk_integer(i64::from(replica.port));
                reply.bulk_integer(replica.acked as i64);
            }
        }
        Role::Replica { master, link } => {
            reply.array(5);
            reply.bulk(b"slave");
            reply.bulk(master.host.as_bytes());
            reply.integer(i64::from(master.port));
            reply.bulk(link.state_name().as_bytes());
            reply.integer(if link.is_up { offset } else { -1 });
        }
    }
    Ok(())
}
