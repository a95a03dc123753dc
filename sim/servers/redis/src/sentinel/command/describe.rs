//! An instance as `SENTINEL MASTER`, `REPLICAS` and `SENTINELS` describe it.

use crate::codec::ReplyEncoder;
use crate::sentinel::instance::{Instance, Kind, Master, Ms, Peer, Reconfiguration, Replica};

/// Fields and their values, in order.
type Fields = Vec<(&'static str, String)>;

/// Appends a description.
pub(super) fn append(reply: &mut ReplyEncoder, fields: &Fields) {
    reply.map(fields.len());
    for (field, value) in fields {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

pub(super) fn master(master: &Master, now: Ms) -> Fields {
    let mut flags = Vec::new();
    if master.failover_in_progress {
        flags.push("failover_in_progress");
    }
    if master.failover_forced {
        flags.push("force_failover");
    }
    let o_down = master.o_down.then_some(now - master.o_down_since);
    let stage = master.failover_in_progress.then(|| master.stage.name());
    let mut fields = common(&master.instance, &flags, stage, o_down, now);
    fields.extend([
        ("config-epoch", master.config_epoch.to_string()),
        ("num-slaves", master.replicas.len().to_string()),
        ("num-other-sentinels", master.sentinels.len().to_string()),
        ("quorum", master.quorum.to_string()),
        ("failover-timeout", master.failover_timeout.to_string()),
        ("parallel-syncs", master.parallel_syncs.to_string()),
    ]);
    fields
}

pub(super) fn replica(replica: &Replica, now: Ms) -> Fields {
    let mut flags = Vec::new();
    if replica.is_promoted {
        flags.push("promoted");
    }
    flags.extend(match replica.reconfiguration {
        Reconfiguration::None => None,
        Reconfiguration::Sent => Some("reconf_sent"),
        Reconfiguration::InProgress => Some("reconf_inprog"),
        Reconfiguration::Done => Some("reconf_done"),
    });
    let mut fields = common(&replica.instance, &flags, None, None, now);
    let status = if replica.link_is_up { "ok" } else { "err" };
    fields.extend([
        ("master-link-down-time", replica.link_down.to_string()),
        ("master-link-status", status.to_owned()),
        ("master-host", replica.follows.clone().unwrap_or_else(|| "?".to_owned())),
        ("master-port", replica.follows_port.to_string()),
        ("slave-priority", replica.priority.to_string()),
        ("slave-repl-offset", replica.offset.to_string()),
        ("replica-announced", u8::from(replica.announced).to_string()),
    ]);
    fields
}

pub(super) fn sentinel(peer: &Peer, now: Ms) -> Fields {
    let flags: &[&str] = if peer.master_down { &["master_down"] } else { &[] };
    let mut fields = common(&peer.instance, flags, None, None, now);
    fields.extend([
        ("last-hello-message", (now - peer.hello_at).to_string()),
        ("voted-leader", peer.leader.clone().unwrap_or_else(|| "?".to_owned())),
        ("voted-leader-epoch", peer.leader_epoch.to_string()),
    ]);
    fields
}

/// What all kinds have. `flags` come after the common ones.
fn common(
    instance: &Instance,
    flags: &[&str],
    stage: Option<&str>,
    o_down: Option<Ms>,
    now: Ms,
) -> Fields {
    let link = &instance.link;
    let all = [
        instance.s_down.then_some("s_down"),
        o_down.map(|_| "o_down"),
        Some(instance.kind.name()),
        link.disconnected.then_some("disconnected"),
    ];
    let all = all.into_iter().flatten().chain(flags.iter().copied());
    let all = all.chain(instance.script_kill_sent.then_some("script_kill_sent"));
    let since = |time: Ms| if time == 0 { 0 } else { now - time };
    let mut fields = vec![
        ("name", instance.name.clone()),
        ("ip", instance.address.host.clone()),
        ("port", instance.address.port.to_string()),
        ("runid", instance.run_id.clone().unwrap_or_default()),
        ("flags", all.collect::<Vec<_>>().join(",")),
        ("link-pending-commands", link.expected.len().to_string()),
        ("link-refcount", "1".to_owned()),
    ];
    fields.extend(stage.map(|stage| ("failover-state", stage.to_owned())));
    fields.extend([
        ("last-ping-sent", since(link.ping_pending_since).to_string()),
        ("last-ok-ping-reply", (now - link.available_at).to_string()),
        ("last-ping-reply", (now - link.ponged_at).to_string()),
    ]);
    if instance.s_down {
        fields.push(("s-down-time", (now - instance.s_down_since).to_string()));
    }
    fields.extend(o_down.map(|time| ("o-down-time", time.to_string())));
    fields.push(("down-after-milliseconds", instance.down_after.to_string()));
    if instance.kind != Kind::Sentinel {
        fields.extend([
            ("info-refresh", since(instance.informed_at).to_string()),
            ("role-reported", instance.role.name().to_owned()),
            ("role-reported-time", (now - instance.role_since).to_string()),
        ]);
    }
    fields
}
