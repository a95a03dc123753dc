//! What the functions do.

use std::time::Duration;

use super::{Environment, Evaluated, Need, Stop};
use crate::catalogue::{Kind, RelationId};
use crate::error::{SqlError, SqlResult};
use crate::locks::{Acquired, EXCLUSIVE, Mode, SHARE, Scope, Tag};
use crate::observe::Observation;
use crate::parameters::Parameters;
use crate::plan::Function;
use crate::state::advisory_key;
use crate::value::{Numeric, Value};
use crate::wal::Record;

/// Values of a sequence are logged so many at a time, and skipped after a crash.
const SEQUENCE_LOG: u32 = 32;

impl Environment<'_> {
    pub(super) fn call(&mut self, function: Function, arguments: &[Value]) -> Evaluated<Value> {
        Ok(match function {
            Function::Now => Value::Timestamp(self.core.now()),
            Function::StatementTimestamp => Value::Timestamp(self.core.statement_began),
            Function::ClockTimestamp => Value::Timestamp(self.shared.wall()),
            Function::Sleep => {
                let Value::Float(seconds) = arguments[0] else { return Ok(Value::Null) };
                let seconds = seconds.clamp(0.0, 1e9);
                let until = self.shared.host.monotonic() + Duration::from_secs_f64(seconds);
                return Err(Stop::Wait(Need::Sleep(until)));
            }
            Function::BackendPid => Value::Int(self.core.pid.into()),
            Function::TerminateBackend | Function::CancelBackend => {
                self.core.may_change("pg_terminate_backend() or pg_cancel_backend()")?;
                self.signal(function, arguments[0].int())
            }
            Function::TransactionId => {
                self.core.may_change("txid_current()")?;
                Value::Int(self.core.top_xid(self.shared, self.state) as i64)
            }
            Function::TransactionIdIfAssigned => {
                let xid =
                    self.core.transaction.as_ref().and_then(|transaction| transaction.top_xid());
                xid.map_or(Value::Null, |xid| Value::Int(xid as i64))
            }
            Function::AdvisoryLock { shared, of_transaction, tries } => {
                self.core.may_change("pg_advisory_lock()")?;
                return self.advisory_lock(arguments, shared, of_transaction, tries);
            }
            Function::AdvisoryUnlock { shared } => self.advisory_unlock(arguments, shared),
            Function::AdvisoryUnlockAll => {
                self.advisory_unlock_all();
                Value::Void
            }
            Function::NextValue => self.next_value(arguments[0].str())?,
            Function::CurrentValue => {
                let (id, name) = self.sequence(arguments[0].str())?;
                let value = self.core.sequences.get(&id).copied().ok_or_else(|| {
                    let told = format!(
                        "currval of sequence \"{name}\" is not yet defined in this session"
                    );
                    SqlError::new("55000", told)
                })?;
                Value::Int(value)
            }
            Function::LastValue => {
                let id = self.core.last_sequence.and_then(|id| self.core.sequences.get(&id));
                Value::Int(*id.ok_or_else(|| {
                    SqlError::new("55000", "lastval is not yet defined in this session")
                })?)
            }
            Function::SetValue => self.set_value(arguments)?,
            Function::SetConfig => {
                let name = arguments[0].str();
                if name.is_empty() {
                    return Err(SqlError::new("22004", "SET requires parameter name").into());
                }
                let value = (!arguments[1].is_null()).then(|| arguments[1].str().to_owned());
                let local = arguments[2].bool() == Some(true);
                self.core.set_parameter(self.shared, self.state, name, value.as_deref(), local)?;
                Value::text(self.core.parameters.get(name)?)
            }
            Function::CurrentSetting => {
                let name = arguments[0].str();
                let may_miss = arguments.get(1).and_then(Value::bool) == Some(true);
                match self.core.show(name) {
                    Ok(value) => Value::text(value),
                    Err(_) if may_miss && !Parameters::is_known(name) => Value::Null,
                    Err(_) if may_miss => Value::Null,
                    Err(error) => return Err(error.into()),
                }
            }
            Function::IsInRecovery => Value::Bool(self.state.is_standby),
            Function::Promote => {
                self.core.may_change("pg_promote()")?;
                if !self.state.is_standby {
                    let told = "recovery is not in progress";
                    let hint = "Recovery control functions can only be executed during recovery.";
                    return Err(SqlError::new("55000", told).hint(hint).into());
                }
                self.shared.ask_for_promotion();
                return Err(Stop::Wait(Need::Promotion));
            }
            Function::BlockingPids => {
                let pids = self.state.locks.blockers(arguments[0].int() as i32);
                Value::Array(pids.into_iter().map(|pid| Value::Int(pid.into())).collect())
            }
            Function::IsolationTestIsBlocked => {
                let pids = self.state.locks.blockers(arguments[0].int() as i32);
                let Value::Array(interesting) = &arguments[1] else { return Ok(Value::Null) };
                let is_it = |pid: &i32| interesting.contains(&Value::Int((*pid).into()));
                Value::Bool(pids.iter().any(is_it))
            }
            Function::Random => {
                let bits = self.shared.host.random("postgres-random") >> 11;
                Value::Float(bits as f64 / (1u64 << 53) as f64)
            }
            Function::Version => {
                let version = crate::VERSION;
                Value::text(format!("PostgreSQL {version} (simulated by lockstorm)"))
            }
            Function::CurrentUser => Value::text(&self.core.user),
            Function::CurrentDatabase => Value::text(&self.core.database),
            Function::CurrentSchema => Value::text("public"),
            Function::Notify => {
                let (channel, payload) = (arguments[0].str(), arguments[1].str());
                if channel.is_empty() {
                    return Err(SqlError::new("22023", "channel name cannot be empty").into());
                }
                self.core.notify(channel, payload)?;
                Value::Void
            }
            other => pure(other, arguments)?,
        })
    }

    fn signal(&mut self, function: Function, pid: i64) -> Value {
        let Some(backend) = self.state.backends.get_mut(&(pid as i32)) else {
            let told = format!("PID {pid} is not a PostgreSQL server process");
            self.core.notices.push(SqlError::warning("01000", told));
            return Value::Bool(false);
        };
        match function {
            Function::TerminateBackend => backend.terminated = true,
            // Who does nothing has nothing that could be cancelled.
            _ => backend.cancelled = backend.state == "active",
        }
        backend.signal.notify_one();
        Value::Bool(true)
    }

    fn advisory_lock(
        &mut self,
        arguments: &[Value],
        shared: bool,
        of_transaction: bool,
        tries: bool,
    ) -> Evaluated<Value> {
        let tag = advisory_tag(arguments);
        let mode = if shared { SHARE } else { EXCLUSIVE };
        let scope = match of_transaction {
            true => Scope::Transaction(self.core.depth()),
            false => Scope::Session,
        };
        let pid = self.core.pid;
        let acquired = self.state.locks.acquire(pid, tag, mode, scope, !tries);
        match acquired {
            Acquired::Granted => self.tell_advisory(tag, mode, scope),
            Acquired::Busy => return Ok(Value::Bool(false)),
            Acquired::Deadlock { other, other_mode } => {
                return Err(Stop::Wait(Need::Deadlock { tag, mode, other, other_mode }));
            }
            Acquired::Queued => {
                let session = self.state.session(pid);
                if let Some(key) = advisory_key(tag) {
                    self.shared.observer.observe(&Observation::AdvisoryAwaited { session, key });
                }
                return Err(Stop::Wait(Need::Lock { tag, mode, scope }));
            }
        }
        Ok(if tries { Value::Bool(true) } else { Value::Void })
    }

    pub(crate) fn tell_advisory(&self, tag: Tag, mode: Mode, scope: Scope) {
        let Some(key) = advisory_key(tag) else { return };
        let session = self.state.session(self.core.pid);
        let (shared, of_transaction) = (mode == SHARE, scope != Scope::Session);
        let told = Observation::AdvisoryLocked { session, key, shared, of_transaction };
        self.shared.observer.observe(&told);
    }

    fn advisory_unlock(&mut self, arguments: &[Value], shared: bool) -> Value {
        let tag = advisory_tag(arguments);
        let (pid, mode) = (self.core.pid, if shared { SHARE } else { EXCLUSIVE });
        let session = self.state.session(pid);
        let is_released = self.state.locks.release_session(pid, tag, mode);
        if !is_released {
            let name = crate::locks::MODE_NAMES[usize::from(mode)];
            let told = format!("you don't own a lock of type {name}");
            self.core.notices.push(SqlError::warning("01000", told));
        } else if let Some(key) = advisory_key(tag) {
            let left = self.state.locks.holds_of(pid, tag, mode);
            let told = Observation::AdvisoryReleased { session, key, shared, left };
            self.shared.observer.observe(&told);
        }
        Value::Bool(is_released)
    }

    pub(crate) fn advisory_unlock_all(&mut self) {
        let pid = self.core.pid;
        for (tag, mode, count) in self.state.locks.session_holdings(pid) {
            for _ in 0..count {
                self.state.locks.release_session(pid, tag, mode);
            }
            if let Some(key) = advisory_key(tag) {
                let (session, shared) = (self.state.session(pid), mode == SHARE);
                let left = self.state.locks.holds_of(pid, tag, mode);
                let told = Observation::AdvisoryReleased { session, key, shared, left };
                self.shared.observer.observe(&told);
            }
        }
    }

    fn sequence(&self, written: &str) -> SqlResult<(RelationId, String)> {
        let bare = written.strip_prefix("public.").unwrap_or(written);
        let name = match bare.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(quoted) => quoted.to_owned(),
            None => bare.to_ascii_lowercase(),
        };
        let is_mine = |xid| self.core.is_mine(xid);
        let found = self.state.catalogue.find(&name, is_mine);
        let relation = found.and_then(|id| Some((id, self.state.catalogue.get(id)?)));
        match relation {
            Some((id, relation)) if matches!(relation.kind, Kind::Sequence(_)) => Ok((id, name)),
            Some(_) => Err(SqlError::new("42809", format!("\"{name}\" is not a sequence"))),
            None => Err(SqlError::new("42P01", format!("relation \"{written}\" does not exist"))),
        }
    }

    fn next_value(&mut self, written: &str) -> SqlResult<Value> {
        self.core.may_write("nextval()")?;
        let (id, name) = self.sequence(written)?;
        let Some(sequence) = self.state.catalogue.sequence_mut(id) else {
            return Err(SqlError::new("42P01", format!("relation \"{written}\" does not exist")));
        };
        let step = |sequence: &crate::catalogue::Sequence, from: i64| {
            let next = from.checked_add(sequence.increment);
            let is_in = |next: &i64| (sequence.minimum..=sequence.maximum).contains(next);
            match next.filter(is_in) {
                Some(next) => Some(next),
                None if sequence.cycle && sequence.increment > 0 => Some(sequence.minimum),
                None if sequence.cycle => Some(sequence.maximum),
                None => None,
            }
        };
        let next = match sequence.is_called {
            true => step(sequence, sequence.last),
            false => Some(sequence.last),
        };
        let Some(next) = next else {
            let (end, limit) = match sequence.increment > 0 {
                true => ("maximum", sequence.maximum),
                false => ("minimum", sequence.minimum),
            };
            let told = format!("nextval: reached {end} value of sequence \"{name}\" ({limit})");
            return Err(SqlError::new("2200H", told));
        };
        sequence.last = next;
        sequence.is_called = true;
        if sequence.logged == 0 {
            let mut logged = next;
            for _ in 0..SEQUENCE_LOG {
                logged = step(sequence, logged).unwrap_or(logged);
            }
            sequence.logged = SEQUENCE_LOG;
            self.state.wal.append(&Record::Sequence { id, last: logged, is_called: true });
            // A commit must follow, so that whoever has the number finds it logged.
            self.core.top_xid(self.shared, self.state);
        } else {
            sequence.logged -= 1;
        }
        self.core.sequences.insert(id, next);
        self.core.last_sequence = Some(id);
        Ok(Value::Int(next))
    }

    fn set_value(&mut self, arguments: &[Value]) -> SqlResult<Value> {
        self.core.may_write("setval()")?;
        let (id, name) = self.sequence(arguments[0].str())?;
        let value = arguments[1].int();
        let is_called = arguments.get(2).and_then(Value::bool) != Some(false);
        if let Some(sequence) = self.state.catalogue.sequence_mut(id) {
            if !(sequence.minimum..=sequence.maximum).contains(&value) {
                let (low, high) = (sequence.minimum, sequence.maximum);
                let told = format!(
                    "setval: value {value} is out of bounds for sequence \"{name}\" ({low}..{high})"
                );
                return Err(SqlError::new("22003", told));
            }
            sequence.last = value;
            sequence.is_called = is_called;
            sequence.logged = 0;
        }
        self.state.wal.append(&Record::Sequence { id, last: value, is_called });
        self.core.top_xid(self.shared, self.state);
        if is_called {
            self.core.sequences.insert(id, value);
            self.core.last_sequence = Some(id);
        }
        Ok(Value::Int(value))
    }
}

fn advisory_tag(arguments: &[Value]) -> Tag {
    match arguments {
        [one, other] => Tag::AdvisoryPair(one.int() as i32, other.int() as i32),
        _ => Tag::AdvisoryBig(arguments[0].int()),
    }
}

/// The magnitude of an integer of a type that ends at `most`.
fn absolute(argument: &Value, most: i64, type_name: &str) -> SqlResult<Value> {
    let Value::Int(number) = argument else { return Ok(argument.clone()) };
    let within = number.checked_abs().filter(|number| *number <= most);
    let out = || SqlError::new("22003", format!("{type_name} out of range"));
    within.map(Value::Int).ok_or_else(out)
}

/// Functions of their arguments alone.
pub(super) fn pure(function: Function, arguments: &[Value]) -> SqlResult<Value> {
    let text = || arguments[0].str();
    Ok(match function {
        Function::AbsoluteInt2 => absolute(&arguments[0], i64::from(i16::MAX), "smallint")?,
        Function::AbsoluteInt4 => absolute(&arguments[0], i64::from(i32::MAX), "integer")?,
        Function::Absolute => match &arguments[0] {
            Value::Int(number) => Value::Int(
                number
                    .checked_abs()
                    .ok_or_else(|| SqlError::new("22003", "bigint out of range"))?,
            ),
            Value::Float(number) => Value::Float(number.abs()),
            other => other.clone(),
        },
        Function::Modulo => match arguments[1].int() {
            0 => return Err(SqlError::new("22012", "division by zero")),
            other => Value::Int(arguments[0].int().checked_rem(other).unwrap_or(0)),
        },
        Function::Length => Value::Int(text().chars().count() as i64),
        Function::Upper => Value::text(text().to_ascii_uppercase()),
        Function::Lower => Value::text(text().to_ascii_lowercase()),
        Function::Substring => {
            let from = arguments[1].int();
            let to = match arguments.get(2).map(Value::int) {
                Some(length) if length < 0 => {
                    return Err(SqlError::new("22011", "negative substring length not allowed"));
                }
                Some(length) => from + length,
                None => i64::MAX,
            };
            let skipped = (from - 1).max(0) as usize;
            let taken = (to - from.max(1)).max(0) as usize;
            Value::text(text().chars().skip(skipped).take(taken).collect::<String>())
        }
        Function::Repeat => {
            let count = arguments[1].int().max(0) as usize;
            if text().len().saturating_mul(count) > 1 << 24 {
                return Err(SqlError::new("54000", "requested length too large"));
            }
            Value::text(text().repeat(count))
        }
        Function::ExtractEpoch => match &arguments[0] {
            Value::Timestamp(us) => {
                let us = us.saturating_add(crate::value::EPOCH_US);
                match Numeric::parse(&format!("{us}e-6")) {
                    Some(number) => Value::Numeric(number?),
                    None => Value::Null,
                }
            }
            Value::Interval(interval) => {
                match Numeric::parse(&format!("{:.6}", interval.seconds())) {
                    Some(number) => Value::Numeric(number?),
                    None => Value::Null,
                }
            }
            _ => Value::Null,
        },
        Function::HashText => Value::Int(i64::from(hash_bytes(text().as_bytes()) as i32)),
        _ => Value::Null,
    })
}

/// Bob Jenkins' lookup3 as PostgreSQL seeds it.
fn hash_bytes(bytes: &[u8]) -> u32 {
    let start = 0x9e37_79b9u32.wrapping_add(bytes.len() as u32).wrapping_add(3_923_095);
    let (mut a, mut b, mut c) = (start, start, start);
    let word =
        |bytes: &[u8]| bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let mut chunks = bytes.chunks_exact(12);
    for chunk in &mut chunks {
        a = a.wrapping_add(word(&chunk[..4]));
        b = b.wrapping_add(word(&chunk[4..8]));
        c = c.wrapping_add(word(&chunk[8..]));
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
    }
    let rest = chunks.remainder();
    let part = |from: usize, to: usize| word(&rest[from.min(rest.len())..to.min(rest.len())]);
    a = a.wrapping_add(part(0, 4));
    b = b.wrapping_add(part(4, 8));
    // The lowest byte of c is kept for the length.
    c = c.wrapping_add(part(8, 12) << 8);
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}
