//! How a connection begins: refusal of encryption, cancel requests, who it is.

use std::sync::Arc;

use lockstorm::host::{Keepalive, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::{Core, Session};
use crate::codec::{self, Opening};
use crate::error::{SqlError, SqlResult};
use crate::observe::Observation;
use crate::parameters::Parameters;
use crate::state::{Backend, Shared};
use crate::transaction::{Block, Pid};

/// How long a client may take to say who it is (`authentication_timeout`).
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
/// So many connections may be about to say who they are, or twice as many as may be served, as
/// many as PostgreSQL's postmaster takes; the next is refused before it does.
const MOST_ENTERING: usize = 512;

/// What a connection turned out to be.
pub(super) enum Begun {
    Session(Box<Session>),
    /// A standby wants the log.
    Replication {
        stream: Stream,
        input: Vec<u8>,
        name: String,
    },
    Over,
}

pub(super) async fn begin(shared: &Arc<Shared>, mut stream: Stream) -> Begun {
    let is_crowded = {
        let mut state = shared.lock();
        let most = MOST_ENTERING.max(shared.settings.max_connections.saturating_mul(2));
        let is_crowded = state.entering >= most;
        state.entering += usize::from(!is_crowded);
        is_crowded
    };
    if is_crowded {
        let error = too_many(shared, &stream);
        refuse(&mut stream, &error).await;
        return Begun::Over;
    }
    let opened = shared.host.timeout(PATIENCE, open(&mut stream)).await;
    shared.lock().entering -= 1;
    let (parameters, input) = match opened {
        Ok(Ok(Some(Opened { opening: Opening::Startup { parameters, .. }, input }))) => {
            (parameters, input)
        }
        Ok(Ok(Some(Opened { opening: Opening::Cancel { pid, secret }, .. }))) => {
            cancel(shared, pid, secret);
            return Begun::Over;
        }
        Ok(Err(error)) => {
            refuse(&mut stream, &error).await;
            return Begun::Over;
        }
        _ => return Begun::Over,
    };
    let connect = shared.settings.costs.connect;
    let frozen = shared.frozen.get();
    if !connect.is_zero() && frozen.is_none() {
        shared.host.sleep(connect).await;
    }
    let replication = parameters.iter().find(|(name, _)| name == "replication");
    if let (Some(_), Some(instant)) = (replication, frozen) {
        let told = format!("lockstorm: the world stands still {instant}; nobody follows it");
        refuse(&mut stream, &SqlError::fatal("55000", told)).await;
        return Begun::Over;
    }
    if replication.is_some() {
        let named = parameters.into_iter().find(|(name, _)| name == "application_name");
        let name = named.map_or_else(|| "walreceiver".to_owned(), |(_, name)| name);
        return Begun::Replication { stream, input, name };
    }
    match enter(shared, &stream, &parameters) {
        Ok((core, signal)) => {
            let mut session = Session {
                shared: shared.clone(),
                core,
                stream,
                signal,
                input,
                output: Vec::new(),
                prepared: Default::default(),
                portals: Default::default(),
                skips: false,
            };
            session.greet();
            Begun::Session(Box::new(session))
        }
        Err(error) => {
            refuse(&mut stream, &error).await;
            Begun::Over
        }
    }
}

struct Opened {
    opening: Opening,
    input: Vec<u8>,
}

/// Reads up to the startup message, refusing encryption on the way.
async fn open(stream: &mut Stream) -> SqlResult<Option<Opened>> {
    let mut input = Vec::new();
    let mut refused = 0;
    loop {
        while let Some((opening, length)) = codec::opening(&input)? {
            input.drain(..length);
            if opening != Opening::Encryption {
                return Ok(Some(Opened { opening, input }));
            }
            refused += 1;
            if refused > 2 || !input.is_empty() {
                let told = "received unencrypted data after SSL request";
                return Err(SqlError::fatal("08P01", told));
            }
            if stream.write_all(b"N").await.is_err() || stream.flush().await.is_err() {
                return Ok(None);
            }
        }
        match stream.read_buf(&mut input).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
    }
}

pub(super) async fn refuse(stream: &mut Stream, error: &SqlError) {
    let mut output = Vec::new();
    let error = error.clone().severity(crate::error::Severity::Fatal);
    codec::error(&mut output, &error, "");
    // Whether it hears the reason is up to it.
    let _ = stream.write_all(&output).await;
    let _ = stream.flush().await;
}

/// There is no place for this one. None is kept for superusers: all users are, here.
fn too_many(shared: &Shared, stream: &Stream) -> SqlError {
    shared.observer.observe(&Observation::TooManyConnections { peer: stream.peer_addr() });
    SqlError::fatal("53300", "sorry, too many clients already")
}

fn cancel(shared: &Shared, pid: Pid, secret: i32) {
    let mut state = shared.lock();
    if let Some(backend) = state.backends.get_mut(&pid)
        && backend.secret == secret
        && backend.state == "active"
    {
        backend.cancelled = true;
        backend.signal.notify_one();
    }
}

/// Takes a place among the backends.
fn enter(
    shared: &Arc<Shared>,
    stream: &Stream,
    startup: &[(String, String)],
) -> SqlResult<(Core, Arc<Notify>)> {
    let given = |name: &str| {
        startup.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    let Some(user) = given("user").filter(|user| !user.is_empty()) else {
        return Err(SqlError::fatal(
            "28000",
            "no PostgreSQL user name specified in startup packet",
        ));
    };
    let database =
        given("database").filter(|name| !name.is_empty()).unwrap_or_else(|| user.clone());
    let mut parameters = Parameters::default();
    for (name, value) in startup {
        match name.as_str() {
            "user" | "database" => {}
            "options" => give_options(&mut parameters, value)?,
            name if name.starts_with("_pq_.") => {}
            name => parameters.give(name, value)?,
        }
    }
    let wall = shared.wall();
    let secret = shared.host.random("postgres-secret") as i32;
    let mut state = shared.lock();
    if !state.is_ready {
        let told = "the database system is starting up";
        return Err(SqlError::fatal("57P03", told));
    }
    let is_visit = shared.frozen.get().is_some();
    if state.backends.len() >= shared.settings.max_connections && !is_visit {
        return Err(too_many(shared, stream));
    }
    parameters.fix("session_authorization", &user);
    parameters.fix("in_hot_standby", if state.is_standby { "on" } else { "off" });
    parameters.fix("max_connections", &shared.settings.max_connections.to_string());
    if shared.settings.deadlock_timeout != std::time::Duration::from_secs(1) {
        let told = format!("{}ms", shared.settings.deadlock_timeout.as_millis());
        parameters.give("deadlock_timeout", &told)?;
    }
    let pid = state.draw_pid();
    let signal = Arc::new(Notify::new());
    state.locks.enter(pid, signal.clone());
    let application_name = parameters.get("application_name").unwrap_or_default();
    let backend = Backend {
        peer: stream.peer_addr(),
        secret,
        user: user.clone(),
        database: database.clone(),
        application_name: application_name.clone(),
        state: "idle",
        query: "".into(),
        started: wall,
        query_started: wall,
        state_changed: wall,
        transaction_began: None,
        xid: None,
        horizon: None,
        wait: None,
        signal: signal.clone(),
        cancelled: false,
        terminated: false,
        channels: Default::default(),
        mail: Vec::new(),
    };
    state.backends.insert(pid, backend);
    let session = state.session(pid);
    shared.observer.observe(&Observation::Named { session, name: &application_name });
    let core = Core {
        pid,
        user,
        database,
        parameters,
        transaction: None,
        block: Block::None,
        memo: Vec::new(),
        memo_at: 0,
        notices: Vec::new(),
        sequences: Default::default(),
        last_sequence: None,
        statement_began: wall,
        statement_deadline: None,
        next_check: None,
        made_bytes: 0,
        is_standby: state.is_standby,
        visits: shared.frozen.get().cloned(),
        locked_rows: Vec::new(),
    };
    Ok((core, signal))
}

/// `-c name=value` and `--name=value` of the parameter `options`.
fn give_options(parameters: &mut Parameters, options: &str) -> SqlResult<()> {
    let mut words = options.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("-c") {
            Some("") => words.next().unwrap_or_default(),
            Some(rest) => rest,
            None => word.strip_prefix("--").unwrap_or_default(),
        };
        let Some((name, value)) = setting.split_once('=') else {
            let told = format!("invalid command-line argument for server process: {word}");
            return Err(SqlError::fatal("42601", told));
        };
        parameters.give(&name.replace('-', "_"), value)?;
    }
    Ok(())
}

impl Session {
    /// Tells the client that it is in, and what it should know.
    fn greet(&mut self) {
        self.apply_keepalive();
        codec::message(&mut self.output, b'R', |to| to.extend_from_slice(&0i32.to_be_bytes()));
        for (name, value) in self.core.parameters.reported() {
            self.tell_parameter(name, &value);
        }
        let secret = {
            let state = self.shared.lock();
            state.backends.get(&self.core.pid).map_or(0, |backend| backend.secret)
        };
        let pid = self.core.pid;
        codec::message(&mut self.output, b'K', |to| {
            to.extend_from_slice(&pid.to_be_bytes());
            to.extend_from_slice(&secret.to_be_bytes());
        });
        self.ready();
    }

    pub(super) fn tell_parameter(&mut self, name: &str, value: &str) {
        codec::message(&mut self.output, b'S', |to| {
            codec::text(to, name);
            codec::text(to, value);
        });
    }

    /// Probes the client's kernel as the parameters say.
    pub(super) fn apply_keepalive(&mut self) {
        let seconds = |name, default| {
            let found = self.core.parameters.number(name);
            std::time::Duration::from_secs(if found == 0 { default } else { found })
        };
        let keepalive = Keepalive {
            idle: seconds("tcp_keepalives_idle", 7_200),
            interval: seconds("tcp_keepalives_interval", 75),
            count: (self.core.parameters.number("tcp_keepalives_count") as u32).max(1),
        };
        let limit = self.core.parameters.number("tcp_user_timeout");
        let limit = (limit > 0).then(|| std::time::Duration::from_millis(limit));
        // Where the transport cannot, nobody is probed.
        let _ = self.stream.set_keepalive(Some(keepalive));
        let _ = self.stream.set_user_timeout(limit);
    }
}
