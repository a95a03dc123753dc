//! The words after `SENTINEL`.

use super::{Call, Outcome, accepts, describe, set, unknown_subcommand, wrong_arity};
use crate::glob;
use crate::sentinel::bounds::{LAST_EPOCH, MOST_MASTERS, is_word};
use crate::sentinel::instance::{Address, Master};

const NO_SUCH_MASTER: &str = "ERR No such master with that name";

type Run = fn(&mut Call<'_>) -> Outcome;

/// Name, arity with `SENTINEL` itself (negative: at least so many), and what it does.
const SUBCOMMANDS: &[(&str, i16, Run)] = &[
    ("ckquorum", 3, ckquorum),
    ("config", -3, set::config),
    ("debug", -2, set::debug),
    ("failover", 3, failover),
    ("flushconfig", 2, |call| {
        call.state.core.me.must_save();
        call.client.reply.ok();
        Ok(())
    }),
    ("get-master-addr-by-name", 3, get_master),
    ("help", 2, help),
    ("info-cache", -3, info_cache),
    ("is-master-down-by-addr", 6, is_master_down),
    ("master", 3, |call| {
        let now = call.now;
        let fields = describe::master(named(call)?, now);
        describe::append(&mut call.client.reply, &fields);
        Ok(())
    }),
    ("masters", 2, masters),
    ("monitor", 6, monitor),
    ("myid", 2, |call| {
        let id = call.state.core.me.id.clone();
        call.client.reply.bulk(id.as_bytes());
        Ok(())
    }),
    ("pending-scripts", 2, |call| {
        call.client.reply.array(0);
        Ok(())
    }),
    ("remove", 3, remove),
    ("replicas", 3, replicas),
    ("reset", 3, reset),
    ("sentinels", 3, sentinels),
    ("set", -5, set::set),
    ("simulate-failure", -3, simulate_failure),
    ("slaves", 3, replicas),
];

pub(super) fn sentinel(call: &mut Call<'_>) -> Outcome {
    // Looked up by all of its bytes, as the names of commands are.
    let given = &call.arguments[1];
    let found = SUBCOMMANDS.iter().find(|(name, ..)| given.eq_ignore_ascii_case(name.as_bytes()));
    let Some((name, arity, run)) = found else {
        return Err(unknown_subcommand("sentinel", &call.arguments[1]));
    };
    if !accepts(*arity, call.arguments.len()) {
        return Err(wrong_arity(&format!("sentinel|{name}")));
    }
    run(call)
}

fn named<'a>(call: &'a mut Call<'_>) -> Result<&'a mut Master, String> {
    let name = call.arguments.get(2).unwrap_or_default();
    call.state.core.master(name).ok_or_else(|| NO_SUCH_MASTER.to_owned())
}

fn ckquorum(call: &mut Call<'_>) -> Outcome {
    let (usable, quorum, majority) = named(call)?.quorum_is_reachable();
    if quorum && majority {
        let text = format!(
            "OK {usable} usable Sentinels. Quorum and failover authorization can be reached"
        );
        call.client.reply.simple(text.as_bytes());
        return Ok(());
    }
    let mut reasons = Vec::new();
    if !quorum {
        reasons
            .push("Not enough available Sentinels to reach the specified quorum for this master");
    }
    if !majority {
        reasons
            .push("Not enough available Sentinels to reach the majority and authorize a failover");
    }
    Err(format!("NOQUORUM {usable} usable Sentinels. {}", reasons.join(". ")))
}

fn failover(call: &mut Call<'_>) -> Outcome {
    let now = call.now;
    named(call)?;
    let core = &mut call.state.core;
    let name = call.arguments.get(2).unwrap_or_default();
    let me = &mut core.me;
    let found = core.masters.iter_mut().find(|master| master.instance.name.as_bytes() == name);
    let Some(master) = found else { return Err(NO_SUCH_MASTER.to_owned()) };
    if master.failover_in_progress {
        return Err("INPROG Failover already in progress".to_owned());
    }
    if master.best_replica(me, now).is_none() {
        return Err("NOGOODSLAVE No suitable replica to promote".to_owned());
    }
    master.start_failover(me, now);
    master.failover_forced = true;
    call.client.reply.ok();
    Ok(())
}

fn get_master(call: &mut Call<'_>) -> Outcome {
    let address = named(call).map(|master| master.current_address().clone());
    let reply = &mut call.client.reply;
    match address {
        Err(_) => reply.null_array(),
        Ok(Address { host, port }) => {
            reply.array(2);
            reply.bulk(host.as_bytes());
            reply.bulk_integer(i64::from(port));
        }
    }
    Ok(())
}

fn info_cache(call: &mut Call<'_>) -> Outcome {
    let now = call.now;
    let wanted: Vec<Vec<u8>> = call.arguments.from(2).iter().map(<[u8]>::to_vec).collect();
    let is_wanted = |master: &&Master| {
        wanted.iter().any(|name| name.as_slice() == master.instance.name.as_bytes())
    };
    let masters: Vec<&Master> = call.state.core.masters.iter().filter(is_wanted).collect();
    let reply = &mut call.client.reply;
    reply.array(masters.len() * 2);
    for master in masters {
        reply.bulk(master.instance.name.as_bytes());
        reply.array(master.replicas.len() + 1);
        let replicas = master.replicas.iter().map(|replica| &replica.instance);
        for instance in std::iter::once(&master.instance).chain(replicas) {
            reply.array(2);
            let at = instance.informed_at;
            reply.integer(if at == 0 { 0 } else { now - at });
            match &instance.info {
                Some(info) => reply.bulk(info),
                None => reply.null(),
            }
        }
    }
    Ok(())
}

/// Another sentinel asks whether the master at an address is down, and perhaps for a vote.
fn is_master_down(call: &mut Call<'_>) -> Outcome {
    let (host, port) = (call.text(2), call.integer(3)?);
    let (epoch, candidate) = (call.integer(4)?, call.text(5));
    let now = call.now;
    let core = &mut call.state.core;
    let port = u16::try_from(port).unwrap_or(0);
    let found = core.masters.iter_mut().find(|master| master.instance.address.is(&host, port));
    let is_tilted = core.me.tilt;
    let is_down = found.as_ref().is_some_and(|master| !is_tilted && master.instance.s_down);
    let (leader, leader_epoch) = match found {
        Some(master) if candidate != "*" => {
            let epoch = u64::try_from(epoch).unwrap_or(0).min(LAST_EPOCH);
            master.vote(&mut core.me, epoch, &candidate, now)
        }
        _ => (None, 0),
    };
    let reply = &mut call.client.reply;
    reply.array(3);
    reply.integer(i64::from(is_down));
    reply.bulk(leader.as_deref().unwrap_or("*").as_bytes());
    reply.integer(i64::try_from(leader_epoch).unwrap_or(i64::MAX));
    Ok(())
}

fn masters(call: &mut Call<'_>) -> Outcome {
    let reply = &mut call.client.reply;
    reply.array(call.state.core.masters.len());
    for master in &call.state.core.masters {
        describe::append(reply, &describe::master(master, call.now));
    }
    Ok(())
}

fn replicas(call: &mut Call<'_>) -> Outcome {
    let now = call.now;
    let announced = named(call)?.replicas.iter().filter(|replica| replica.announced);
    let all: Vec<_> = announced.map(|replica| describe::replica(replica, now)).collect();
    let reply = &mut call.client.reply;
    reply.array(all.len());
    all.iter().for_each(|fields| describe::append(reply, fields));
    Ok(())
}

fn sentinels(call: &mut Call<'_>) -> Outcome {
    let now = call.now;
    let all = named(call)?.sentinels.iter();
    let all: Vec<_> = all.map(|peer| describe::sentinel(peer, now)).collect();
    let reply = &mut call.client.reply;
    reply.array(all.len());
    all.iter().for_each(|fields| describe::append(reply, fields));
    Ok(())
}

fn monitor(call: &mut Call<'_>) -> Outcome {
    let quorum = call.integer(5).map_err(|_| "ERR Invalid quorum")?;
    let port = call.integer(4).map_err(|_| "ERR Invalid port")?;
    if quorum <= 0 {
        return Err("ERR Quorum must be 1 or greater.".to_owned());
    }
    let port = u16::try_from(port).map_err(|_| "ERR Invalid port number.")?;
    let (name, host, now) = (call.text(2), call.text(3), call.now);
    if !is_word(&name) || !is_word(&host) {
        return Err("ERR A name, or a host, is one word.".to_owned());
    }
    let core = &mut call.state.core;
    if core.masters.len() == MOST_MASTERS {
        return Err("ERR Too many masters.".to_owned());
    }
    if core.master(name.as_bytes()).is_some() {
        return Err("ERR Duplicate master name.".to_owned());
    }
    let down_after = core.me.timing.default_down_after;
    let quorum = u32::try_from(quorum).unwrap_or(u32::MAX);
    let mut master = Master::new(name, Address::new(host, port), quorum, down_after, now);
    master.failover_timeout = core.me.timing.default_failover_timeout;
    core.me.must_save();
    core.me.tell("+monitor", format!("{} quorum {quorum}", master.shown()));
    core.masters.push(master);
    call.client.reply.ok();
    Ok(())
}

fn remove(call: &mut Call<'_>) -> Outcome {
    let shown = named(call)?.shown();
    let core = &mut call.state.core;
    core.me.tell("-monitor", shown);
    let name = call.arguments.get(2).unwrap_or_default();
    core.masters.retain(|master| master.instance.name.as_bytes() != name);
    core.me.must_save();
    call.client.reply.ok();
    Ok(())
}

fn reset(call: &mut Call<'_>) -> Outcome {
    let pattern = call.arguments.get(2).unwrap_or_default();
    let core = &mut call.state.core;
    let mut count = 0;
    for master in &mut core.masters {
        if glob::matches(pattern, master.instance.name.as_bytes(), false) {
            master.reset(true, call.now);
            core.me.tell("+reset-master", master.shown());
            count += 1;
        }
    }
    call.client.reply.integer(count);
    Ok(())
}

fn simulate_failure(call: &mut Call<'_>) -> Outcome {
    let mut crash = super::super::core::Crash::default();
    for index in 2..call.arguments.len() {
        if call.is(index, "crash-after-election") {
            crash.after_election = true;
        } else if call.is(index, "crash-after-promotion") {
            crash.after_promotion = true;
        } else if call.is(index, "help") {
            let reply = &mut call.client.reply;
            reply.array(2);
            reply.bulk(b"crash-after-election");
            reply.bulk(b"crash-after-promotion");
            return Ok(());
        } else {
            return Err("ERR Unknown failure simulation specified".to_owned());
        }
    }
    call.state.core.me.crash = crash;
    call.client.reply.ok();
    Ok(())
}

fn help(call: &mut Call<'_>) -> Outcome {
    let reply = &mut call.client.reply;
    reply.array(SUBCOMMANDS.len() + 1);
    let title = b"SENTINEL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:";
    reply.simple(title);
    for (name, ..) in SUBCOMMANDS {
        reply.simple(name.to_uppercase().as_bytes());
    }
    Ok(())
}
