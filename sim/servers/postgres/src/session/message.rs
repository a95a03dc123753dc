//! The loop of a session: a message comes, it is answered.
//!
//! While a statement runs nothing is read, as in PostgreSQL: a client that dies then is
//! noticed when the statement ends, or by `client_connection_check_interval`.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm::host::Stream;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use super::startup::{Begun, begin};
use super::{Portal, Prepared, Session};
use crate::codec::{self, Bind, Frontend};
use crate::error::{SqlError, SqlResult};
use crate::observe::Observation;
use crate::plan::Field;
use crate::replication;
use crate::state::{Shared, tell_released};
use crate::transaction::Block;
use crate::value::{Type, Value, binary, text};

/// Above this what waits to be sent is sent, as by PostgreSQL.
const SEND_BYTES: usize = 8 * 1024;

/// Serves a connection until either side ends it.
pub(crate) async fn serve(shared: Arc<Shared>, stream: Stream) {
    let mut session = match begin(&shared, stream).await {
        Begun::Session(session) => session,
        Begun::Replication { stream, input, name } => {
            replication::send(shared, stream, input, name).await;
            return;
        }
        Begun::Over => return,
    };
    let mut code = None;
    if let Err(error) = session.serve().await {
        code = Some(error.fields().code);
        codec::error(&mut session.output, &error, "");
        // Whether it hears the reason is up to it.
        let _ = session.send().await;
    }
    session.leave(code);
}

impl Session {
    /// # Errors
    /// What the connection ends with; `Ok` if the client ended it.
    async fn serve(&mut self) -> SqlResult<()> {
        loop {
            let message = match self.next().await? {
                Some(message) => message,
                None => return Ok(()),
            };
            let (kind, body) = message;
            match self.answer(kind, &body).await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// The session is over: its transaction, its locks, its place.
    fn leave(&mut self, code: Option<&'static str>) {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let session = state.session(self.core.pid);
        shared.observer.observe(&Observation::SessionEnding { session, code });
        self.core.abort(&shared, &mut state);
        let pid = self.core.pid;
        let held: Vec<_> = state.locks.session_holdings(pid);
        state.locks.leave(pid);
        let released = held.into_iter().map(|(tag, mode, _)| (tag, mode));
        tell_released(&*shared.observer, session, released);
        state.backends.remove(&pid);
        shared.observer.observe(&Observation::SessionEnded { session });
    }

    /// Sends what is waiting.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        let output = std::mem::take(&mut self.output);
        self.stream.write_all(&output).await?;
        self.stream.flush().await
    }

    pub(super) async fn send_if_much(&mut self) -> SqlResult<()> {
        if self.output.len() >= SEND_BYTES {
            self.send().await.map_err(lost)?;
        }
        Ok(())
    }

    /// The next message; `None` when the client has gone.
    async fn next(&mut self) -> SqlResult<Option<(u8, Vec<u8>)>> {
        loop {
            if let Some((kind, length)) =
                codec::frame(&self.input, self.shared.settings.message_bytes)?
            {
                let body = self.input[5..length].to_vec();
                self.input.drain(..length);
                return Ok(Some((kind, body)));
            }
            if !self.output.is_empty() && self.send().await.is_err() {
                return Ok(None);
            }
            if !self.read().await? {
                return Ok(None);
            }
        }
    }

    /// Reads more, while the client is idle. False: it has gone.
    async fn read(&mut self) -> SqlResult<bool> {
        let parameters = &self.core.parameters;
        let limit = match self.core.block {
            Block::None => parameters.time("idle_session_timeout"),
            _ => parameters.time("idle_in_transaction_session_timeout"),
        };
        // A message half come is not idleness.
        let limit = limit.filter(|_| self.input.is_empty());
        if let Some(limit) = limit {
            let session = self.shared.lock().session(self.core.pid);
            self.shared.observer.observe(&Observation::Idle { session, limit });
        }
        let deadline = limit.map(|limit| self.shared.host.monotonic() + limit);
        loop {
            let now = self.shared.host.monotonic();
            let mut sleep =
                deadline.map(|deadline| self.shared.host.sleep(deadline.saturating_sub(now)));
            let signal = self.signal.clone();
            let mut signalled = pin!(signal.notified());
            let (stream, input) = (&mut self.stream, &mut self.input);
            let event = std::future::poll_fn(|context: &mut Context<'_>| {
                if signalled.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Event::Signalled);
                }
                let mut buffer = [0; 4096];
                let mut buffer = ReadBuf::new(&mut buffer);
                match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                    Poll::Ready(Ok(())) => {
                        input.extend_from_slice(buffer.filled());
                        return Poll::Ready(Event::Read(buffer.filled().len()));
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(Event::Read(0)),
                    Poll::Pending => {}
                }
                match &mut sleep {
                    Some(sleep) => sleep.as_mut().poll(context).map(|()| Event::TimedOut),
                    None => Poll::Pending,
                }
            })
            .await;
            match event {
                Event::Read(count) => return Ok(count > 0),
                Event::TimedOut if self.core.block == Block::None => {
                    let told = "terminating connection due to idle-session timeout";
                    return Err(SqlError::fatal("57P05", told));
                }
                Event::TimedOut => {
                    let told = "terminating connection due to idle-in-transaction timeout";
                    return Err(SqlError::fatal("25P03", told));
                }
                Event::Signalled => {
                    self.take_signals()?;
                    if !self.output.is_empty() && self.send().await.is_err() {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// What others have for an idle session.
    fn take_signals(&mut self) -> SqlResult<()> {
        {
            let mut state = self.shared.lock();
            let Some(backend) = state.backends.get_mut(&self.core.pid) else { return Ok(()) };
            if backend.terminated {
                let told = "terminating connection due to administrator command";
                return Err(SqlError::fatal("57P01", told));
            }
            // There is nothing to cancel any more.
            backend.cancelled = false;
        }
        if self.core.block == Block::None {
            self.take_mail();
        }
        Ok(())
    }

    fn take_mail(&mut self) {
        let mail = match self.shared.lock().backends.get_mut(&self.core.pid) {
            Some(backend) => std::mem::take(&mut backend.mail),
            None => return,
        };
        for (pid, channel, payload) in mail {
            codec::message(&mut self.output, b'A', |to| {
                to.extend_from_slice(&pid.to_be_bytes());
                codec::text(to, &channel);
                codec::text(to, &payload);
            });
        }
    }

    /// Ready for the next query.
    pub(super) fn ready(&mut self) {
        if self.core.block == Block::None {
            self.take_mail();
        }
        for (name, value) in self.core.parameters.take_changed() {
            self.tell_parameter(name, &value);
        }
        let (status, state) = match self.core.block {
            Block::None | Block::Implicit => (b'I', "idle"),
            Block::Explicit => (b'T', "idle in transaction"),
            Block::Failed => (b'E', "idle in transaction (aborted)"),
        };
        self.set_state(state, None);
        codec::message(&mut self.output, b'Z', |to| to.push(status));
    }

    pub(super) fn set_state(&mut self, name: &'static str, query: Option<&Arc<str>>) {
        let now = self.shared.wall();
        let mut state = self.shared.lock();
        let Some(backend) = state.backends.get_mut(&self.core.pid) else { return };
        backend.state = name;
        backend.state_changed = now;
        if let Some(query) = query {
            backend.query = query.clone();
            backend.query_started = now;
        }
    }

    pub(super) fn tell_notices(&mut self) {
        for notice in std::mem::take(&mut self.core.notices) {
            let least = self.core.parameters.get("client_min_messages").unwrap_or_default();
            let is_told = match notice.fields().severity.word() {
                "NOTICE" => !matches!(least.as_str(), "warning" | "error"),
                _ => least != "error",
            };
            if is_told {
                codec::error(&mut self.output, &notice, "");
            }
        }
    }

    /// Answers one message. False: the client has said goodbye.
    async fn answer(&mut self, kind: u8, body: &[u8]) -> SqlResult<bool> {
        let is_extended = b"PBDCEH".contains(&kind);
        if self.skips && kind != b'S' && kind != b'X' {
            return Ok(true);
        }
        let mut statement: Arc<str> = "".into();
        let answered = match codec::decode(kind, body) {
            Ok(Frontend::Terminate) => return Ok(false),
            Ok(Frontend::Query(query)) => {
                statement = query.into();
                self.simple(&statement).await
            }
            Ok(Frontend::Sync) => self.sync().await,
            Ok(message) => self.extended(message, &mut statement).await,
            Err(error) => Err(error),
        };
        if let Err(error) = answered {
            self.core.statement_deadline = None;
            self.tell_notices();
            self.fail();
            if error.is_fatal() {
                return Err(error);
            }
            codec::error(&mut self.output, &error, &statement);
            if is_extended {
                self.skips = true;
            } else {
                self.portals.clear();
                self.ready();
            }
        }
        self.send_if_much().await?;
        Ok(true)
    }

    async fn sync(&mut self) -> SqlResult<()> {
        self.skips = false;
        if matches!(self.core.block, Block::None | Block::Implicit) {
            self.commit().await?;
            self.portals.clear();
        }
        self.core.statement_deadline = None;
        self.tell_notices();
        self.ready();
        Ok(())
    }

    async fn extended(&mut self, message: Frontend, statement: &mut Arc<str>) -> SqlResult<()> {
        match message {
            Frontend::Parse { name, query, types } => {
                *statement = query.into();
                self.parse(name, statement, &types).await
            }
            Frontend::Bind(bind) => self.bind(bind, statement),
            Frontend::Describe { kind: b'S', name } => self.describe_statement(&name),
            Frontend::Describe { kind: b'P', name } => self.describe_portal(&name),
            Frontend::Describe { .. } => {
                Err(SqlError::new("08P01", "invalid DESCRIBE message subtype"))
            }
            Frontend::Close { kind, name } => {
                match kind {
                    b'S' => drop(self.prepared.remove(&name)),
                    b'P' => drop(self.portals.remove(&name)),
                    _ => return Err(SqlError::new("08P01", "invalid CLOSE message subtype")),
                }
                codec::message(&mut self.output, b'3', |_| {});
                Ok(())
            }
            Frontend::Execute { portal, most } => {
                self.execute_portal(&portal, most, statement).await
            }
            Frontend::Flush => self.send().await.map_err(lost),
            // COPY is not here: what comes of it is left over from a failed one.
            _ => Ok(()),
        }
    }

    async fn parse(&mut self, name: String, query: &Arc<str>, types: &[u32]) -> SqlResult<()> {
        self.begin_statement(Some(query));
        if name.is_empty() {
            // Whatever comes of this one.
            self.prepared.remove("");
        }
        let mut all = crate::sql::parse(query)?;
        if all.len() > 1 {
            let told = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new("42601", told));
        }
        let parsed = all.pop().map(Arc::new);
        if let Some(parsed) = &parsed {
            self.check_failed(&parsed.statement)?;
        }
        let mut given = Vec::new();
        for oid in types {
            given.push(match oid {
                0 | 705 => None,
                oid => Some(Type::of_oid(*oid).ok_or_else(|| {
                    SqlError::new(
                        "0A000",
                        format!("the simulated server does not have the type with OID {oid}"),
                    )
                })?),
            });
        }
        let plan = match &parsed {
            Some(parsed) => {
                self.ensure_transaction_for(&parsed.statement);
                Some(self.plan(parsed, &given).await?)
            }
            None => None,
        };
        if !name.is_empty() && self.prepared.contains_key(&name) {
            let told = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new("42P05", told));
        }
        self.keep_prepared(name, Prepared { parsed, given, plan })?;
        codec::message(&mut self.output, b'1', |_| {});
        Ok(())
    }

    fn bind(&mut self, bind: Bind, statement: &mut Arc<str>) -> SqlResult<()> {
        let Some(prepared) = self.prepared.get(&bind.statement) else {
            return Err(missing_statement(&bind.statement));
        };
        if let Some(parsed) = &prepared.parsed {
            *statement = parsed.text.clone();
            let (parsed, query) = (parsed.clone(), parsed.text.clone());
            self.begin_statement(Some(&query));
            self.check_failed(&parsed.statement)?;
        }
        let Some(prepared) = self.prepared.get(&bind.statement) else {
            return Err(missing_statement(&bind.statement));
        };
        let types = prepared.plan.as_ref().map_or(&[][..], |plan| &plan.parameters);
        if bind.formats.len() > 1 && bind.formats.len() != bind.values.len() {
            let (formats, values) = (bind.formats.len(), bind.values.len());
            let told =
                format!("bind message has {formats} parameter formats but {values} parameters");
            return Err(SqlError::new("08P01", told));
        }
        if bind.values.len() != types.len() {
            let (given, name, wanted) = (bind.values.len(), &bind.statement, types.len());
            let told = format!(
                "bind message supplies {given} parameters, but prepared statement \"{name}\" requires {wanted}"
            );
            return Err(SqlError::new("08P01", told));
        }
        let mut parameters = Vec::new();
        for (index, (value, data_type)) in bind.values.iter().zip(types).enumerate() {
            let format = format_of(&bind.formats, index);
            parameters.push(match (value, format) {
                (None, _) => Value::Null,
                (Some(bytes), 0) => text::read(*data_type, binary::utf8(bytes)?)?,
                (Some(bytes), 1) => binary::read(*data_type, bytes, index + 1)?,
                (_, format) => return Err(unknown_format(format)),
            });
        }
        let columns =
            prepared.plan.as_ref().and_then(|plan| plan.fields.as_ref()).map_or(0, Vec::len);
        if bind.results.len() > 1 && bind.results.len() != columns {
            let given = bind.results.len();
            let told =
                format!("bind message has {given} result formats but query has {columns} columns");
            return Err(SqlError::new("08P01", told));
        }
        if let Some(format) = bind.results.iter().find(|format| !(0..=1).contains(*format)) {
            return Err(unknown_format(*format));
        }
        let portal = Portal {
            parsed: prepared.parsed.clone(),
            plan: prepared.plan.clone(),
            given: prepared.given.clone(),
            parameters,
            formats: bind.results,
            outcome: None,
            sent: 0,
        };
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            let told = format!("cursor \"{}\" already exists", bind.portal);
            return Err(SqlError::new("42P03", told));
        }
        self.keep_portal(bind.portal, portal)?;
        codec::message(&mut self.output, b'2', |_| {});
        Ok(())
    }

    fn describe_statement(&mut self, name: &str) -> SqlResult<()> {
        let Some(prepared) = self.prepared.get(name) else { return Err(missing_statement(name)) };
        let types = prepared.plan.as_ref().map_or(&[][..], |plan| &plan.parameters);
        codec::message(&mut self.output, b't', |to| {
            to.extend_from_slice(&(types.len() as u16).to_be_bytes());
            for data_type in types {
                to.extend_from_slice(&data_type.oid().to_be_bytes());
            }
        });
        let fields = prepared.plan.as_ref().and_then(|plan| plan.fields.clone());
        self.tell_fields(fields.as_deref(), &[]);
        Ok(())
    }

    fn describe_portal(&mut self, name: &str) -> SqlResult<()> {
        let Some(portal) = self.portals.get(name) else { return Err(missing_portal(name)) };
        let fields = portal.plan.as_ref().and_then(|plan| plan.fields.clone());
        let formats = portal.formats.clone();
        self.tell_fields(fields.as_deref(), &formats);
        Ok(())
    }

    /// RowDescription, or NoData.
    pub(super) fn tell_fields(&mut self, fields: Option<&[Field]>, formats: &[i16]) {
        let Some(fields) = fields else {
            codec::message(&mut self.output, b'n', |_| {});
            return;
        };
        codec::message(&mut self.output, b'T', |to| {
            to.extend_from_slice(&(fields.len() as u16).to_be_bytes());
            for (index, field) in fields.iter().enumerate() {
                codec::text(to, &field.name);
                let (table, column) = field.origin.unwrap_or((0, 0));
                to.extend_from_slice(&table.to_be_bytes());
                to.extend_from_slice(&column.to_be_bytes());
                to.extend_from_slice(&field.data_type.oid().to_be_bytes());
                to.extend_from_slice(&field.data_type.size().to_be_bytes());
                let modifier = field.length.map_or(-1, |length| length.saturating_add(4));
                to.extend_from_slice(&modifier.to_be_bytes());
                to.extend_from_slice(&format_of(formats, index).to_be_bytes());
            }
        });
    }

    pub(super) fn tell_row(&mut self, fields: &[Field], row: &[Value], formats: &[i16]) {
        codec::message(&mut self.output, b'D', |to| {
            to.extend_from_slice(&(row.len() as u16).to_be_bytes());
            for (index, (value, field)) in row.iter().zip(fields).enumerate() {
                if value.is_null() {
                    to.extend_from_slice(&(-1i32).to_be_bytes());
                    continue;
                }
                let at = to.len();
                to.extend_from_slice(&[0; 4]);
                match format_of(formats, index) {
                    1 => binary::write(field.data_type, value, to),
                    _ => to.extend_from_slice(text::write(value).as_bytes()),
                }
                let length = (to.len() - at - 4) as i32;
                to[at..at + 4].copy_from_slice(&length.to_be_bytes());
            }
        });
    }

    pub(super) fn complete(&mut self, tag: &str) {
        codec::message(&mut self.output, b'C', |to| codec::text(to, tag));
    }
}

enum Event {
    Read(usize),
    Signalled,
    TimedOut,
}

/// One format for each, one for all, or text.
fn format_of(formats: &[i16], index: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(index).copied().unwrap_or(0),
    }
}

fn unknown_format(format: i16) -> SqlError {
    SqlError::new("22023", format!("unsupported format code: {format}"))
}

pub(super) fn missing_statement(name: &str) -> SqlError {
    let told = match name {
        "" => "unnamed prepared statement does not exist".to_owned(),
        name => format!("prepared statement \"{name}\" does not exist"),
    };
    SqlError::new("26000", told)
}

pub(super) fn missing_portal(name: &str) -> SqlError {
    SqlError::new("34000", format!("portal \"{name}\" does not exist"))
}

pub(super) fn lost(_: io::Error) -> SqlError {
    SqlError::fatal("08006", "connection to client lost")
}

/// How long a statement may take from now on.
pub(super) fn deadline(now: Duration, limit: Option<Duration>) -> Option<Duration> {
    limit.map(|limit| now + limit)
}
