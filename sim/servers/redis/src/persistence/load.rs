//! What a server does before it serves: it reads what it kept.
//!
//! Order of things: [`open`], with an append-only file or a snapshot; the files of the first
//! one by one, command by command ([`Command`]); what the data set becomes.
//!
//! An append-only file is executed by a server of its own, which follows a master that is
//! the file: a replica neither refuses its master's commands nor lets their keys expire.
//! Whoever watches the real one is told of the result only.

use std::io;
use std::sync::Arc;

use super::super::codec::{ReplyEncoder, RequestDecoder, RequestLimits};
use super::super::command::{Failure, execute, is_command};
use super::super::gate::ReplicationGate;
use super::super::keyspace::Database;
use super::super::observe::{Observation, Origin, Unobserved};
use super::super::rdb;
use super::super::replication::{FollowerLink, fields, strings};
use super::super::script::functions::Functions;
use super::super::settings::{ConfigFile, Master, Settings};
use super::super::state::{Client, DATABASES, Role, Shared, State};
use super::append::Phase;
use super::manifest::{self, Manifest};
use super::{Persistence, now_s, rewrite, snapshot};
use lockstorm_machine::disk::Files;

/// How much of a reply is made before it is discarded.
const DISCARDED_MAX_BYTES: usize = 64 * 1024;

/// Why a server does not start.
type Refusal = String;

/// Mounts the disk and reads what is on it.
///
/// # Errors
/// When a file is damaged, or the disk fails: Redis says so in its log and exits.
pub(in super::super) async fn open(shared: &Arc<Shared>) -> Result<(), Refusal> {
    let Some(disk) = &shared.settings.disk else { return Ok(()) };
    let files = disk.mount(&shared.host);
    shared.lock().kept.files = Some(files.clone());
    if shared.settings.persistence.append_only {
        return open_append_only(shared, &files).await;
    }
    if !files.names().iter().any(|name| name == snapshot::FILE) {
        if shared.settings.persistence != Persistence::none() {
            // Whoever watches learns that what an earlier incarnation had is gone.
            tell(shared, &shared.lock());
        }
        return Ok(());
    }
    let file = files.read(snapshot::FILE).await.map_err(refusal)?;
    let limit = shared.settings.resync_limit_bytes;
    let contents = rdb::read(&file, DATABASES, limit).map_err(refusal)?;
    let mut state = shared.lock();
    let is_master = shared.config.master().is_none();
    match contents.history {
        None => {}
        // Replicas of the former incarnation can go on where it was.
        Some((id, offset)) if is_master => state.replication.follow_on(id, offset),
        Some((id, offset)) => state.replication.resume(id, offset),
    }
    state.functions = Functions::rebuilt(&shared.settings, &contents.libraries).map_err(failed)?;
    let mut databases = contents.databases;
    if is_master {
        drop_expired(&mut databases, shared.wall_ms());
    }
    take(shared, &mut state, databases);
    Ok(())
}

fn failed(failure: Failure) -> Refusal {
    String::from_utf8_lossy(&failure.0).into_owned()
}

fn refusal(error: impl std::fmt::Display) -> Refusal {
    error.to_string()
}

/// A master drops from a snapshot what has expired meanwhile.
pub(super) fn drop_expired(databases: &mut [Database], now_ms: i64) {
    for database in databases {
        while let Some(key) = database.first_expired(now_ms) {
            database.remove(&key);
        }
    }
}

/// The data set is the server's.
fn take(shared: &Shared, state: &mut State, databases: Vec<Database>) {
    state.databases = databases;
    tell(shared, state);
}

/// Tells whoever watches what the data set is that the server begins with.
fn tell(shared: &Shared, state: &State) {
    shared.observer.observe(&Observation::Loaded {
        strings: strings(&state.databases),
        fields: fields(&state.databases),
    });
}

async fn open_append_only(shared: &Arc<Shared>, files: &Files) -> Result<(), Refusal> {
    let path = manifest::path();
    let mut manifest = match files.read(&path).await {
        Ok(text) => Manifest::parse(&text).ok_or("the manifest is damaged")?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Manifest::default(),
        Err(error) => return Err(refusal(error)),
    };
    let mut loader = Loader::new(shared);
    let (mut earlier_bytes, mut newest_bytes) = (0, 0);
    let paths: Vec<String> = manifest.parts().map(super::manifest::Part::path).collect();
    for (number, path) in paths.iter().enumerate() {
        let bytes = files.read(path).await.map_err(refusal)?;
        let valid = loader.load(&bytes).map_err(|why| format!("{path}: {why}"))?;
        if valid < bytes.len() {
            let is_last = number + 1 == paths.len();
            if !is_last || !shared.settings.persistence.load_truncated {
                return Err(format!("{path} ends too early"));
            }
            files.truncate(path, valid as u64).map_err(refusal)?;
        }
        earlier_bytes += newest_bytes;
        newest_bytes = valid as u64;
    }
    let is_new = manifest.is_empty();
    if is_new {
        let path = manifest.add_base().path();
        let base = rdb::write_base(&vec![Database::default(); DATABASES], &[]);
        earlier_bytes = base.len() as u64;
        let beside = "temp-rewriteaof-1.aof";
        super::write_whole(files, beside, &path, &base).await.map_err(refusal)?;
    }
    if manifest.increments.is_empty() {
        earlier_bytes += newest_bytes;
        newest_bytes = 0;
        manifest.add_increment();
    }
    let path = manifest.increments.last().map(super::manifest::Part::path).unwrap_or_default();
    files.append(&path, &[]).map_err(refusal)?;
    if is_new || !paths.contains(&path) {
        rewrite::keep(files, &manifest).await.map_err(refusal)?;
    }
    let (databases, functions) = loader.take();
    let mut state = shared.lock();
    state.functions = functions;
    let append = &mut state.kept.append;
    append.phase = Phase::On;
    append.manifest = manifest;
    append.open(path, newest_bytes, now_s(shared));
    append.earlier_bytes = earlier_bytes;
    append.rewritten_bytes = earlier_bytes;
    if !is_new {
        take(shared, &mut state, databases);
    }
    Ok(())
}

/// A server that executes files.
pub(super) struct Loader {
    shared: Arc<Shared>,
    client: Client,
    discarded: ReplyEncoder,
}

impl Loader {
    pub(super) fn new(shared: &Shared) -> Loader {
        let settings = Settings { disk: None, ..shared.settings.clone() };
        let own = Shared::new(
            shared.host.clone(),
            settings,
            ConfigFile::new(),
            ReplicationGate::new(),
            Arc::new(Unobserved),
        );
        let master = Master { host: String::new(), port: 0 };
        own.lock().role = Role::Replica { master, link: FollowerLink::default() };
        let nobody = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
        Loader {
            client: Client::new(0, Origin::Master, nobody, shared.host.monotonic()),
            discarded: ReplyEncoder::with_limit(DISCARDED_MAX_BYTES),
            shared: own,
        }
    }

    pub(super) fn take(&self) -> (Vec<Database>, Option<Box<Functions>>) {
        let mut state = self.shared.lock();
        (std::mem::take(&mut state.databases), state.functions.take())
    }

    /// Executes a file and tells how much of it is whole: a prefix, if its end is torn.
    pub(super) fn load(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        self.client.database = 0;
        if bytes.starts_with(b"REDIS") {
            let limit = self.shared.settings.resync_limit_bytes;
            let contents = rdb::read(bytes, DATABASES, limit).map_err(refusal)?;
            let mut state = self.shared.lock();
            state.databases = contents.databases;
            state.functions =
                Functions::rebuilt(&self.shared.settings, &contents.libraries).map_err(failed)?;
            return Ok(bytes.len());
        }
        let mut decoder = RequestDecoder::new(RequestLimits {
            arguments: i64::from(i32::MAX),
            argument_bytes: i64::from(u32::MAX),
            buffered_bytes: self.shared.settings.resync_limit_bytes,
        });
        let (mut valid, mut before_transaction) = (0, 0);
        while valid < bytes.len() {
            let length = match Command::measure(&bytes[valid..]) {
                Command::Whole { length } => length,
                Command::Torn => break,
                Command::Malformed => return Err("bad file format".to_owned()),
            };
            decoder.feed(&bytes[valid..valid + length]);
            let command = decoder.decode().map_err(refusal)?;
            let Some(command) = command else { return Err("bad file format".to_owned()) };
            if !is_command(&command[0]) {
                let name = String::from_utf8_lossy(&command[0]).into_owned();
                return Err(format!("unknown command '{name}'"));
            }
            if command[0].eq_ignore_ascii_case(b"multi") {
                before_transaction = valid;
            }
            let mut state = self.shared.lock();
            execute(&self.shared, &mut state, &mut self.client, command, &mut self.discarded);
            self.client.next = None;
            self.discarded.clear();
            valid += length;
        }
        // A transaction that has no end was not executed, and is not to be.
        if self.client.transaction.take().is_some() {
            return Ok(before_transaction);
        }
        Ok(valid)
    }
}

/// The next command of an append-only file.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Whole { length: usize },
    Torn,
    Malformed,
}

impl Command {
    /// Only what Redis writes is taken: arrays of strings.
    fn measure(bytes: &[u8]) -> Command {
        let mut at = 0;
        let count = match number_of(bytes, &mut at, b'*') {
            Ok(count) if count >= 1 => count,
            Ok(_) => return Command::Malformed,
            Err(short) => return short,
        };
        for _ in 0..count {
            let length = match number_of(bytes, &mut at, b'$') {
                Ok(length) => length,
                Err(short) => return short,
            };
            let Some(end) = at.checked_add(length).and_then(|end| end.checked_add(2)) else {
                return Command::Malformed;
            };
            if end > bytes.len() {
                return Command::Torn;
            }
            at = end;
        }
        Command::Whole { length: at }
    }
}

/// A line of a sign and a number, from `at` on.
fn number_of(bytes: &[u8], at: &mut usize, sign: u8) -> Result<usize, Command> {
    let rest = &bytes[*at..];
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
        let is_so_far = rest.first().is_none_or(|first| *first == sign);
        return Err(if is_so_far { Command::Torn } else { Command::Malformed });
    };
    let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
    let number = line.strip_prefix(&[sign]).and_then(|digits| std::str::from_utf8(digits).ok());
    let number = number.and_then(|digits| digits.parse().ok()).ok_or(Command::Malformed)?;
    *at += end + 1;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_whole_torn_or_malformed() {
        let whole = b"*2\r\n$3\r\nDEL\r\n$1\r\na\r\n";
        assert_eq!(Command::measure(whole), Command::Whole { length: whole.len() });
        for length in 0..whole.len() {
            assert_eq!(Command::measure(&whole[..length]), Command::Torn, "{length}");
        }
        for bad in
            [&b"PING\r\n"[..], b"*0\r\n", b"*x\r\n", b"*1\r\n+OK\r\n", b"*1\r\n$-1\r\n", b"x"]
        {
            assert_eq!(Command::measure(bad), Command::Malformed, "{bad:?}");
        }
    }
}
