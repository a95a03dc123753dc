//! Four-letter words: what an operator asks with `nc` (`FourLetterCommands`).

use std::fmt::Write as _;

use super::VERSION;
use super::state::{Client, Role, Shared, State};

/// The words that are known.
const WORDS: [&str; 18] = [
    "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srst",
    "srvr", "stat", "stmk", "wchc", "wchp", "wchs",
];

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// The word that these bytes are, if they are one.
pub(super) fn word(bytes: [u8; 4]) -> Option<&'static str> {
    WORDS.into_iter().find(|word| word.as_bytes() == bytes)
}

/// What is answered to a word.
pub(super) fn answer(shared: &Shared, state: &mut State, word: &str) -> String {
    let allowed = shared.settings.words.iter().any(|allowed| allowed == "*" || allowed == word);
    if !allowed {
        return format!("{word} is not executed because it is not in the whitelist.\n");
    }
    match word {
        "ruok" => return "imok".to_owned(),
        "isro" => return if state.serving { "rw" } else { "null" }.to_owned(),
        "envi" => return format!("Environment:\nzookeeper.version={VERSION}\n"),
        _ if !state.serving => return NOT_SERVING.to_owned(),
        _ => {}
    }
    match word {
        "srvr" => summary(state, None),
        "stat" => {
            let clients = state.clients.values().map(|client| connection(client, true));
            let clients = clients.collect::<String>();
            summary(state, Some(&clients))
        }
        "cons" => {
            let clients = state.clients.values().map(|client| connection(client, false));
            clients.collect::<String>() + "\n"
        }
        "mntr" => monitor(shared, state),
        "conf" => configuration(shared, state),
        "crst" => "Connection stats reset.\n".to_owned(),
        "srst" => {
            state.statistics = Default::default();
            "Server stats reset.\n".to_owned()
        }
        "dirs" => "datadir_size: 0\nlogdir_size: 0\n".to_owned(),
        "dump" => dump(state),
        "wchs" => {
            let (connections, paths, total) = state.watches.summary();
            format!("{connections} connections watching {paths} paths\nTotal watches:{total}\n")
        }
        "wchp" | "wchc" => watches(state, word),
        // `gtmk`, `stmk`, `hash`: there are no traces and no digests.
        _ => String::new(),
    }
}

fn summary(state: &State, clients: Option<&str>) -> String {
    let mut text = format!("Zookeeper version: {VERSION}\n");
    if let Some(clients) = clients {
        let _ = writeln!(text, "Clients:\n{clients}");
    }
    let of = &state.statistics;
    let average = of.latency_sum_ms as f64 / of.answered.max(1) as f64;
    let _ = writeln!(
        text,
        "Latency min/avg/max: {}/{average:.1}/{}\nReceived: {}\nSent: {}\nConnections: {}\n\
         Outstanding: {}\nZxid: {:#x}\nMode: {}\nNode count: {}",
        of.latency_least_ms,
        of.latency_most_ms,
        of.received,
        of.sent,
        state.clients.len(),
        state.in_process,
        state.tree.last_zxid,
        state.mode(),
        state.tree.nodes.len() + 1,
    );
    text
}

fn connection(client: &Client, brief: bool) -> String {
    let readable = u8::from(client.may_ask());
    let mut text = format!(
        " /{}[{readable}](queued={},recved={},sent={}",
        client.peer, client.unanswered, client.received, client.sent
    );
    if !brief && client.session != 0 {
        let _ = write!(
            text,
            ",sid={:#x},lop={},est={},to={}",
            client.session, client.last_operation, client.since_ms, client.timeout_ms
        );
        if client.last_xid >= 0 {
            let _ = write!(text, ",lcxid={:#x}", client.last_xid);
        }
        let _ = write!(text, ",lzxid={:#x}", client.last_zxid);
    }
    text + ")\n"
}

fn monitor(shared: &Shared, state: &State) -> String {
    let of = &state.statistics;
    let average = of.latency_sum_ms as f64 / of.answered.max(1) as f64;
    let (_, _, watches) = state.watches.summary();
    let ephemerals: usize = state.tree.ephemerals.values().map(|paths| paths.len()).sum();
    let mut rows = vec![
        ("version", VERSION.to_owned()),
        ("server_state", state.mode().to_owned()),
        ("avg_latency", format!("{average:.1}")),
        ("min_latency", of.latency_least_ms.to_string()),
        ("max_latency", of.latency_most_ms.to_string()),
        ("packets_received", of.received.to_string()),
        ("packets_sent", of.sent.to_string()),
        ("num_alive_connections", state.clients.len().to_string()),
        ("outstanding_requests", state.in_process.to_string()),
        ("znode_count", (state.tree.nodes.len() + 1).to_string()),
        ("watch_count", watches.to_string()),
        ("ephemerals_count", ephemerals.to_string()),
        ("approximate_data_size", state.tree.bytes().to_string()),
        ("global_sessions", state.tree.sessions.len().to_string()),
    ];
    if let Role::Leading(leading) = &state.role {
        rows.push(("learners", leading.learner_count().to_string()));
        rows.push(("synced_followers", leading.synced_count().to_string()));
    }
    if !shared.ensemble.is_alone() {
        rows.push(("quorum_size", shared.ensemble.members.len().to_string()));
    }
    rows.into_iter().map(|(name, value)| format!("zk_{name}\t{value}\n")).collect()
}

fn configuration(shared: &Shared, state: &State) -> String {
    let of = &shared.settings;
    let mut text = format!(
        "clientPort={}\nsecureClientPort=-1\ndataDir=/version-2\ndataDirSize=0\n\
         dataLogDir=/version-2\ndataLogSize=0\ntickTime={}\nmaxClientCnxns={}\n\
         minSessionTimeout={}\nmaxSessionTimeout={}\nclientPortListenBacklog=-1\nserverId={}\n",
        state.client_port,
        of.tick.as_millis(),
        of.connections_per_address,
        of.negotiate(0),
        of.negotiate(i32::MAX),
        shared.ensemble.me,
    );
    if !shared.ensemble.is_alone() {
        let _ = writeln!(
            text,
            "initLimit={}\nsyncLimit={}\nelectionAlg=3\nelectionPort={}\nquorumPort={}\npeerType=0",
            of.init_limit,
            of.sync_limit,
            shared.ensemble.members.get(&shared.ensemble.me).map_or(0, |me| me.election_port),
            shared.ensemble.members.get(&shared.ensemble.me).map_or(0, |me| me.quorum_port),
        );
        text.push_str("membership: \n");
        text.push_str(&shared.ensemble.config_text());
    }
    text
}

fn dump(state: &State) -> String {
    let mut text =
        format!("SessionTracker dump:\nGlobal Sessions({}):\n", state.tree.sessions.len());
    for (session, timeout_ms) in &state.tree.sessions {
        let _ = writeln!(text, "{session:#x}\t{timeout_ms}ms");
    }
    let _ = writeln!(
        text,
        "ephemeral nodes dump:\nSessions with Ephemerals ({}):",
        state.tree.ephemerals.len()
    );
    for (session, paths) in &state.tree.ephemerals {
        let _ = writeln!(text, "{session:#x}:");
        for path in paths {
            let _ = writeln!(text, "\t{path}");
        }
    }
    text
}

fn watches(state: &State, word: &str) -> String {
    let session = |connection: u64| state.clients.get(&connection).map_or(0, |of| of.session);
    let mut text = String::new();
    if word == "wchp" {
        for (path, connections) in state.watches.by_path() {
            let _ = writeln!(text, "{path}");
            for connection in connections {
                let _ = writeln!(text, "\t{:#x}", session(connection));
            }
        }
    } else {
        for (connection, paths) in state.watches.by_connection() {
            let _ = writeln!(text, "{:#x}", session(connection));
            for path in paths {
                let _ = writeln!(text, "\t{path}");
            }
        }
    }
    text + "\n"
}
