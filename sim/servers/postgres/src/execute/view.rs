//! `pg_locks`, `pg_stat_activity` and their like: the state as rows.

use crate::evaluate::Environment;
use crate::heap::Row;
use crate::locks::{Line, MODE_NAMES, Tag};
use crate::plan::View;
use crate::session::wait::DATABASE_ID;
use crate::state::Backend;
use crate::transaction::Pid;
use crate::value::Value;

fn int(number: impl Into<i64>) -> Value {
    Value::Int(number.into())
}

fn moment(us: Option<i64>) -> Value {
    us.map_or(Value::Null, Value::Timestamp)
}

impl Environment<'_> {
    pub(super) fn view(&self, view: View) -> Vec<Row> {
        match view {
            View::Locks => self.state.locks.lines().iter().map(lock).collect(),
            View::Activity => {
                let backends = self.state.backends.iter();
                backends.map(|(pid, backend)| activity(*pid, backend)).collect()
            }
            View::Replication => {
                let is_synchronous = |name: &String| {
                    let names = &self.shared.settings.synchronous_standby_names;
                    names.iter().any(|known| known == "*" || known == name)
                };
                let standbys = self.state.standbys.values();
                standbys
                    .map(|standby| {
                        let sync = if is_synchronous(&standby.name) { "sync" } else { "async" };
                        let row = [
                            int(standby.pid),
                            Value::text(&standby.name),
                            Value::text("streaming"),
                            Value::text(sync),
                        ];
                        row.into()
                    })
                    .collect()
            }
            View::Settings => {
                let all = self.core.parameters.all().into_iter();
                all.map(|(name, value)| [Value::text(name), Value::text(value)].into()).collect()
            }
        }
    }
}

fn lock(line: &Line) -> Row {
    let mut row = vec![Value::Null; 16];
    row[1] = int(DATABASE_ID);
    let kind = match line.tag {
        Tag::Relation(id) => {
            row[2] = int(id);
            "relation"
        }
        Tag::Tuple(id, tuple) => {
            row[2] = int(id);
            row[3] = int(0);
            row[4] = Value::Int((tuple % 32_768) as i64);
            "tuple"
        }
        Tag::Transaction(xid) => {
            row[1] = Value::Null;
            row[6] = Value::Int((xid % (1 << 32)) as i64);
            "transactionid"
        }
        Tag::AdvisoryBig(key) => {
            row[7] = int((key >> 32) as u32);
            row[8] = int(key as u32);
            row[9] = int(1);
            "advisory"
        }
        Tag::AdvisoryPair(one, other) => {
            row[7] = int(one as u32);
            row[8] = int(other as u32);
            row[9] = int(2);
            "advisory"
        }
    };
    row[0] = Value::text(kind);
    row[10] = Value::text(format!("{}/1", line.pid));
    row[11] = int(line.pid);
    row[12] = Value::text(MODE_NAMES[usize::from(line.mode)]);
    row[13] = Value::Bool(line.granted);
    row[14] = Value::Bool(false);
    row.into()
}

fn activity(pid: Pid, backend: &Backend) -> Row {
    let (wait_type, wait) = match backend.wait {
        Some((kind, name)) => (Value::text(kind), Value::text(name)),
        None if backend.state.starts_with("idle") => {
            (Value::text("Client"), Value::text("ClientRead"))
        }
        None => (Value::Null, Value::Null),
    };
    let row = [
        Value::text(&backend.database),
        int(pid),
        Value::text(&backend.user),
        Value::text(&backend.application_name),
        Value::Timestamp(backend.started),
        moment(backend.transaction_began),
        Value::Timestamp(backend.query_started),
        Value::Timestamp(backend.state_changed),
        wait_type,
        wait,
        Value::text(backend.state),
        backend.xid.map_or(Value::Null, |xid| Value::Int((xid % (1 << 32)) as i64)),
        Value::text(&*backend.query),
        Value::text("client backend"),
    ];
    row.into()
}
