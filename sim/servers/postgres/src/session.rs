//! One client's session: what belongs to it alone, and its life.
//!
//! Order of things: [`Session::serve`] reads messages and answers them; [`query`] runs
//! statements for both protocols; [`block`] is transactions; [`wait`] is every wait.

pub(crate) mod block;
mod message;
mod named;
mod query;
mod startup;
pub(crate) mod wait;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::host::Stream;
use tokio::sync::Notify;

use super::catalogue::RelationId;
use super::error::{SqlError, SqlResult};
use super::heap::{Row, TupleId};
use super::observe::Observation;
use super::parameters::Parameters;
use super::plan::{Field, Plan};
use super::sql::ast::Parsed;
use super::state::{Shared, State};
use super::transaction::{Block, Pid, Transaction, Xid};
use super::value::{Type, Value};

pub(crate) use message::serve;

/// A prepared statement.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// `None`: an empty statement.
    pub(crate) parsed: Option<Arc<Parsed>>,
    pub(crate) given: Vec<Option<Type>>,
    pub(crate) plan: Option<Arc<Plan>>,
}

/// A statement with its parameters, executed or not.
#[derive(Debug)]
pub(crate) struct Portal {
    pub(crate) parsed: Option<Arc<Parsed>>,
    pub(crate) plan: Option<Arc<Plan>>,
    pub(crate) given: Vec<Option<Type>>,
    pub(crate) parameters: Vec<Value>,
    pub(crate) formats: Vec<i16>,
    /// What is left of its result.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) sent: usize,
}

/// What a statement gave.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) fields: Option<Vec<Field>>,
    pub(crate) rows: Vec<Row>,
    pub(crate) tag: String,
    /// The tag ends with the number of rows sent.
    pub(crate) counts: bool,
}

/// What belongs to a session but for its connection.
pub(crate) struct Core {
    pub(crate) pid: Pid,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) parameters: Parameters,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) block: Block,
    /// What calls gave in the evaluation at hand.
    pub(crate) memo: Vec<Value>,
    pub(crate) memo_at: usize,
    pub(crate) notices: Vec<SqlError>,
    pub(crate) sequences: BTreeMap<RelationId, i64>,
    pub(crate) last_sequence: Option<RelationId>,
    /// µs since 2000.
    pub(crate) statement_began: i64,
    /// On the monotonic clock.
    pub(crate) statement_deadline: Option<Duration>,
    pub(crate) next_check: Option<Duration>,
    /// What the statement has made on its way to its result.
    pub(crate) made_bytes: usize,
    pub(crate) is_standby: bool,
    /// It looks at a world that stands still, there: nothing is changed, and nothing waited for.
    pub(crate) visits: Option<Arc<str>>,
    /// The rows of observed tables that the transaction locks.
    pub(crate) locked_rows: Vec<(RelationId, TupleId)>,
}

/// A session on its connection.
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) core: Core,
    pub(crate) stream: Stream,
    pub(crate) signal: Arc<Notify>,
    pub(crate) input: Vec<u8>,
    pub(crate) output: Vec<u8>,
    pub(crate) prepared: BTreeMap<String, Prepared>,
    pub(crate) portals: BTreeMap<String, Portal>,
    /// After an error in the extended protocol, until Sync.
    pub(crate) skips: bool,
}

impl Core {
    /// The start of the transaction.
    pub(crate) fn now(&self) -> i64 {
        self.transaction.as_ref().map_or(self.statement_began, |transaction| transaction.began)
    }

    pub(crate) fn depth(&self) -> usize {
        self.transaction.as_ref().map_or(0, |transaction| transaction.levels.len() - 1)
    }

    pub(crate) fn is_mine(&self, xid: Xid) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.mine.contains(&xid))
    }

    /// The number of the transaction's innermost part, given now if it has none.
    pub(crate) fn xid(&mut self, shared: &Shared, state: &mut State) -> Xid {
        let pid = self.pid;
        let Some(transaction) = self.transaction.as_mut() else { return 0 };
        let top = transaction.top_xid();
        let mut last = 0;
        for depth in 0..transaction.levels.len() {
            if let Some(xid) = transaction.levels[depth].xid {
                last = xid;
                continue;
            }
            let above = transaction.top_xid();
            last = state.running.begin(above, pid);
            transaction.levels[depth].xid = Some(last);
            transaction.mine.insert(last);
            let tag = super::locks::Tag::Transaction(last);
            let scope = super::locks::Scope::Transaction(depth);
            state.locks.acquire(pid, tag, super::locks::EXCLUSIVE, scope, false);
        }
        if top.is_none() {
            let xid = transaction.top_xid().unwrap_or(last);
            if let Some(backend) = state.backends.get_mut(&pid) {
                backend.xid = Some(xid);
            }
            let session = state.session(pid);
            shared.observer.observe(&Observation::Began { session, xid });
        }
        last
    }

    /// The number of the transaction itself.
    pub(crate) fn top_xid(&mut self, shared: &Shared, state: &mut State) -> Xid {
        if let Some(xid) = self.transaction.as_ref().and_then(Transaction::top_xid) {
            return xid;
        }
        self.xid(shared, state);
        self.transaction.as_ref().and_then(Transaction::top_xid).unwrap_or(0)
    }

    /// Refuses what changes data where only reading is allowed.
    pub(crate) fn may_write(&self, command: &str) -> SqlResult<()> {
        self.may_change(command)?;
        let is_read_only = self.transaction.as_ref().is_some_and(|one| one.read_only);
        if self.is_standby || is_read_only {
            let told = format!("cannot execute {command} in a read-only transaction");
            return Err(SqlError::new("25006", told));
        }
        Ok(())
    }

    /// Refuses what others would see, from who only visits.
    pub(crate) fn may_change(&self, command: &str) -> SqlResult<()> {
        let Some(instant) = &self.visits else { return Ok(()) };
        let told = format!("cannot execute {command}: lockstorm: the world stands still {instant}");
        Err(SqlError::new("25006", told).hint("It is there to be read; nothing is written."))
    }

    pub(crate) fn notify(&mut self, channel: &str, payload: &str) -> SqlResult<()> {
        self.may_change("NOTIFY")?;
        if payload.len() >= 8000 {
            return Err(SqlError::new("22023", "payload string too long"));
        }
        let one = (channel.to_owned(), payload.to_owned());
        if let Some(transaction) = &mut self.transaction
            && !transaction.notifications.contains(&one)
        {
            transaction.notifications.push(one);
        }
        Ok(())
    }
}
