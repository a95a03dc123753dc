//! The text of `INFO`.

use std::fmt::Write as _;

use super::super::persistence::Child;
use super::super::pubsub::Space;
use super::super::script::functions::Functions;
use super::super::state::{Role, Shared, State};
use super::super::statistics::Count;

use super::server::{eviction_policy, maxmemory};
use super::table::name_at;

type Section = fn(&mut String, &Shared, &State);

const SECTIONS: &[(&str, Section)] = &[
    ("server", server),
    ("clients", clients),
    ("memory", memory),
    ("persistence", persistence),
    ("stats", stats),
    ("replication", replication),
    ("commandstats", commandstats),
    ("errorstats", errorstats),
    ("cluster", cluster),
    ("keyspace", keyspace),
];

/// Told only when it is asked for, or all is.
const SELDOM: &str = "commandstats";

/// The sections named (in lower case), or those that are told when none is.
pub(in super::super) fn text(shared: &Shared, state: &State, wanted: &[Vec<u8>]) -> String {
    let is_wanted = |words: &[&[u8]]| wanted.iter().any(|name| words.contains(&name.as_slice()));
    let all = is_wanted(&[b"all", b"everything"]);
    let default = all || wanted.is_empty() || is_wanted(&[b"default"]);
    let mut text = String::new();
    for (name, section) in SECTIONS {
        if all
            || default && *name != SELDOM
            || wanted.iter().any(|wanted| wanted == name.as_bytes())
        {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            section(&mut text, shared, state);
        }
    }
    text
}

/// Appends `name:value` lines.
macro_rules! lines {
    ($text:expr, "", $($name:literal: $value:expr),* $(,)?) => {
        $(let _ = write!($text, concat!($name, ":{}\r\n"), $value);)*
    };
    ($text:expr, $title:literal, $($name:literal: $value:expr),* $(,)?) => {
        $text.push_str(concat!("# ", $title, "\r\n"));
        // Writing to a string cannot fail.
        $(let _ = write!($text, concat!($name, ":{}\r\n"), $value);)*
    };
}

fn server(text: &mut String, shared: &Shared, state: &State) {
    let uptime = shared.host.monotonic().saturating_sub(shared.started).as_secs();
    lines!(text, "Server",
        "redis_version": super::super::VERSION,
        "redis_git_sha1": "00000000",
        "redis_git_dirty": 0,
        "redis_build_id": "lockstorm",
        "redis_mode": "standalone",
        "os": "lockstorm",
        "arch_bits": 64,
        "monotonic_clock": "lockstorm host",
        "multiplexing_api": "lockstorm",
        "process_id": 1,
        "process_supervised": "no",
        "run_id": shared.run_id,
        "tcp_port": state.port,
        "server_time_usec": shared.host.wall().as_micros(),
        "uptime_in_seconds": uptime,
        "uptime_in_days": uptime / 86_400,
        "hz": 10,
        "configured_hz": 10,
        "executable": "lockstorm",
        "config_file": "",
        "io_threads_active": 0,
    );
}

fn clients(text: &mut String, shared: &Shared, state: &State) {
    let blocked = state.clients.values().filter(|client| client.blocked.is_some()).count();
    lines!(text, "Clients",
        // And the one that asks.
        "connected_clients": state.clients.len() + 1,
        "cluster_connections": 0,
        "maxclients": shared.settings.max_clients,
        "client_recent_max_input_buffer": 0,
        "client_recent_max_output_buffer": 0,
        "blocked_clients": blocked,
        "tracking_clients": 0,
        "clients_in_timeout_table": 0,
    );
}

fn memory(text: &mut String, _: &Shared, state: &State) {
    let scripts_bytes = state.engine.as_ref().map_or(0, |engine| engine.used_bytes());
    let functions = state.functions.as_deref().into_iter();
    let libraries: Vec<usize> =
        functions.flat_map(Functions::iter).map(|(_, library)| library.functions.len()).collect();
    lines!(text, "Memory",
        "used_memory": state.used_bytes(),
        "used_memory_dataset": state.used_bytes(),
        "used_memory_vm_eval": scripts_bytes,
        "used_memory_lua": scripts_bytes,
        "number_of_cached_scripts": state.engine.as_ref().map_or(0, |engine| engine.len()),
        "number_of_libraries": libraries.len(),
        "number_of_functions": libraries.iter().sum::<usize>(),
        "maxmemory": maxmemory(state),
        "maxmemory_policy": eviction_policy(state),
    );
}

fn persistence(text: &mut String, _: &Shared, state: &State) {
    let (snapshots, append) = (&state.kept.snapshots, &state.kept.append);
    let status = |is_well| if is_well { "ok" } else { "err" };
    lines!(text, "Persistence",
        "loading": 0,
        "async_loading": 0,
        "rdb_changes_since_last_save": snapshots.changes,
        "rdb_bgsave_in_progress": u8::from(state.kept.child == Some(Child::Snapshot)),
        "rdb_last_save_time": snapshots.last_s,
        "rdb_last_bgsave_status": status(!snapshots.has_failed),
        "rdb_saves": snapshots.taken,
        "aof_enabled": u8::from(append.is_on()),
        "aof_rewrite_in_progress": u8::from(state.kept.child == Some(Child::Rewrite)),
        "aof_rewrite_scheduled": u8::from(append.rewrite_scheduled),
        "aof_last_bgrewrite_status": status(!append.last_rewrite_failed),
        "aof_rewrites": append.rewrites,
        "aof_last_write_status": status(append.is_well()),
    );
    if append.is_on() {
        lines!(text, "",
            "aof_current_size": append.earlier_bytes + append.written,
            "aof_base_size": append.rewritten_bytes,
            "aof_pending_rewrite": 0,
            "aof_buffer_length": append.waiting_bytes(),
            "aof_pending_bio_fsync": u8::from(append.is_syncing()),
            "aof_delayed_fsync": append.delayed_syncs,
        );
    }
}

fn stats(text: &mut String, _: &Shared, state: &State) {
    lines!(text, "Stats",
        "total_error_replies": state.statistics.answered(),
        "sync_full": state.replication.full_syncs,
        "sync_partial_ok": state.replication.partial_syncs,
        "sync_partial_err": 0,
        "pubsub_channels": state.subscribers.of(Space::Channels).len(),
        "pubsub_patterns": state.subscribers.of(Space::Patterns).len(),
        "pubsubshard_channels": state.subscribers.of(Space::Shards).len(),
    );
}

fn replication(text: &mut String, shared: &Shared, state: &State) {
    text.push_str("# Replication\r\n");
    let now = shared.host.monotonic();
    match &state.role {
        Role::Master => text.push_str("role:master\r\n"),
        Role::Replica { master, link } => {
            let status = if link.is_up { "up" } else { "down" };
            let _ = write!(
                text,
                "role:slave\r\nmaster_host:{}\r\nmaster_port:{}\r\nmaster_link_status:{status}\r\n\
                 master_last_io_seconds_ago:{}\r\nmaster_sync_in_progress:{}\r\n\
                 slave_read_repl_offset:{offset}\r\nslave_repl_offset:{offset}\r\n",
                master.host,
                master.port,
                if link.is_up { now.saturating_sub(link.heard_at).as_secs() as i64 } else { -1 },
                u8::from(link.is_syncing),
                offset = state.replication.offset,
            );
            if !link.is_up {
                let down = link.down_since.map_or(-1, |since| {
                    i64::try_from(now.saturating_sub(since).as_secs()).unwrap_or(i64::MAX)
                });
                let _ = write!(text, "master_link_down_since_seconds:{down}\r\n");
            }
            text.push_str("slave_priority:100\r\nslave_read_only:1\r\nreplica_announced:1\r\n");
        }
    }
    let replication = &state.replication;
    let _ = write!(text, "connected_slaves:{}\r\n", replication.replicas.len());
    let (wanted, lag) = state.replicas_to_write(&shared.settings);
    if wanted > 0 {
        let good = replication.good_replicas(now, lag);
        let _ = write!(text, "min_slaves_good_slaves:{good}\r\n");
    }
    for (index, replica) in replication.replicas.values().enumerate() {
        let _ = write!(
            text,
            "slave{index}:ip={},port={},state={},offset={},lag={}\r\n",
            replica.ip,
            replica.port,
            if replica.online { "online" } else { "wait_bgsave" },
            replica.acked,
            now.saturating_sub(replica.heard_at).as_secs(),
        );
    }
    let (first, length) = replication.backlog_extent();
    let _ = write!(
        text,
        "master_failover_state:no-failover\r\nmaster_replid:{}\r\nmaster_replid2:{}\r\n\
         master_repl_offset:{}\r\nsecond_repl_offset:{}\r\nrepl_backlog_active:{}\r\n\
         repl_backlog_size:{}\r\nrepl_backlog_first_byte_offset:{first}\r\n\
         repl_backlog_histlen:{length}\r\n",
        replication.id,
        replication
            .previous
            .as_ref()
            .map_or("0000000000000000000000000000000000000000", |previous| {
                previous.id.as_str()
            }),
        replication.offset,
        replication.previous.as_ref().map_or(-1, |previous| previous.end as i64),
        u8::from(replication.is_fed()),
        shared.settings.backlog_bytes,
    );
}

fn commandstats(text: &mut String, _: &Shared, state: &State) {
    text.push_str("# Commandstats\r\n");
    for (place, count) in state.statistics.counts() {
        let Some((name, word)) = name_at(place) else { continue };
        // Browsers say these, and are sent away.
        if matches!(name, "host:" | "post") {
            continue;
        }
        let (bar, word) = word.map_or(("", ""), |word| ("|", word));
        let Count { calls, rejected, failed } = count;
        let _ = write!(
            text,
            "cmdstat_{name}{bar}{word}:calls={calls},usec=0,usec_per_call=0.00,\
             rejected_calls={rejected},failed_calls={failed}\r\n",
        );
    }
}

fn errorstats(text: &mut String, _: &Shared, state: &State) {
    text.push_str("# Errorstats\r\n");
    for (code, count) in state.statistics.errors() {
        // What would end the name, or the line, is shown as something else.
        let shown = String::from_utf8_lossy(code).replace(['#', ':', '\n', '\r'], "_");
        let _ = write!(text, "errorstat_{shown}:count={count}\r\n");
    }
}

fn cluster(text: &mut String, _: &Shared, _: &State) {
    lines!(text, "Cluster", "cluster_enabled": 0);
}

fn keyspace(text: &mut String, _: &Shared, state: &State) {
    text.push_str("# Keyspace\r\n");
    for (number, database) in state.databases.iter().enumerate() {
        if !database.is_empty() {
            let (keys, expires) = (database.len(), database.expiring_len());
            let _ = write!(text, "db{number}:keys={keys},expires={expires},avg_ttl=0\r\n");
        }
    }
}
