//! Makes events of operations.

use std::collections::BTreeMap;

use serde_json::json;

use lockstorm::lock::Release;

use super::value::Value;
use super::{Model, Wording};
use crate::history::file::error::Complaint;
use crate::history::file::read::MOST_EVENTS;
use crate::history::file::{Header, Recorded};
use crate::history::{
    AcquireOutcome, Attempt, Event, EventId, History, NO_END, Name, OrderAnswer, What,
};

/// The lock of a history that has but one.
const KEY: &str = "lock";
/// The stock.
const STOCK: &str = "stock";
/// An add may sell so many units at once.
const MOST_AT_ONCE: i64 = 10_000;

/// One process, which Jepsen keeps single-threaded.
struct Process {
    name: Name,
    /// How many attempts it has made.
    attempts: u32,
    /// Of its newest attempt: how often it was granted and not released.
    held: u32,
    /// The operation that is under way.
    open: Option<Open>,
}

enum Open {
    Acquire(Attempt),
    Release(Attempt),
    Add { amount: i64, number: u64 },
    Read { adds_done: bool },
    Unknown,
}

/// The conversion.
pub(super) struct Converting {
    wording: Wording,
    history: History,
    /// The line of each event, and of the operation at hand.
    lines: Vec<u64>,
    line: u64,
    processes: BTreeMap<i64, Process>,
    /// How many adds are under way, have begun.
    adds: (u64, u64),
    /// What was added before anything was sold.
    stocked: i64,
    /// The last read with nothing under way: left.
    counted: Option<i64>,
    seen_stock: bool,
}

type Done = Result<(), Complaint>;

impl Converting {
    pub fn new(wording: Wording) -> Converting {
        Converting {
            wording,
            history: History::default(),
            lines: Vec::new(),
            line: 1,
            processes: BTreeMap::new(),
            adds: (0, 0),
            stocked: 0,
            counted: None,
            seen_stock: false,
        }
    }

    fn is(&self, is: impl Fn(Model) -> bool) -> bool {
        self.wording.model.is_some_and(is)
    }

    /// Takes the next operation, which ends on `line`.
    pub fn operation(&mut self, operation: &Value, line: u64) -> Done {
        self.line = line;
        if !matches!(operation, Value::Map(_)) {
            return complain("this is no operation", "write maps, as Jepsen does");
        }
        let Some(process) = operation.get("process") else {
            return complain("the operation has no :process", "write maps, as Jepsen does");
        };
        // The nemesis, and whoever else is no process.
        let Value::Integer(process) = process else { return Ok(()) };
        let time = match operation.get("time") {
            Some(Value::Integer(ns)) if *ns < 0 => {
                let what = format!(":time is {ns}");
                return complain(what, "times are ns since the beginning, 0 or more");
            }
            Some(Value::Integer(ns)) => u64::try_from(*ns).unwrap_or(0) / 1_000,
            None | Some(Value::Nil) => 0,
            Some(_) => return complain(":time is no whole number", "write ns"),
        };
        // Threads may write down a time after one of another that is later.
        let at_us = self.history.events.last().map_or(0, |event| event.at_us).max(time);
        let (Some(Value::Keyword(kind)), Some(Value::Keyword(f))) =
            (operation.get("type"), operation.get("f"))
        else {
            let what = "the operation needs keywords as :type and :f";
            return complain(what, "write maps, as Jepsen does");
        };
        if self.history.events.len() >= MOST_EVENTS {
            let what = format!("there are more than {MOST_EVENTS} events");
            return complain(what, "cut the history where everything is quiet");
        }
        let value = operation.get("value").unwrap_or(&Value::Nil);
        match kind.as_str() {
            "invoke" => self.invoke(*process, f, value, at_us),
            "ok" | "fail" | "info" => {
                let error = operation.get("error").map(reason).unwrap_or_default();
                self.complete(*process, kind, value, &error, at_us)
            }
            other => complain(format!(":type is :{other}"), "allowed: :invoke, :ok, :fail, :info"),
        }
    }

    fn push(&mut self, node: Name, at_us: u64, what: What) {
        let id = EventId(self.history.events.len() as u64);
        self.history.events.push(Event { id, at_us, node, cause: None, what });
        self.lines.push(self.line);
    }

    fn invoke(&mut self, process: i64, f: &str, value: &Value, at_us: u64) -> Done {
        let reentrant = self.is(Model::is_reentrant);
        let processes = &mut self.processes;
        let known = processes.entry(process).or_insert_with(|| Process {
            name: format!("process-{process}").into(),
            attempts: 0,
            held: 0,
            open: None,
        });
        if known.open.is_some() {
            let what = format!("process {process} begins something while it is at something");
            return complain(what, "a Jepsen process does one thing at a time");
        }
        let name = known.name.clone();
        let (open, what) = match f {
            "acquire" | "lock" => {
                if known.held == 0 || !reentrant {
                    known.attempts += 1;
                }
                let attempt = Attempt { client: name.clone(), ordinal: known.attempts };
                let key = KEY.into();
                let what = What::AcquireInvoked { attempt: attempt.clone(), key, shared: false };
                (Open::Acquire(attempt), Some(what))
            }
            "release" | "unlock" => {
                if known.held == 0 {
                    // It holds nothing: whose lock this releases, the checkers ask.
                    known.attempts += 1;
                }
                known.held = known.held.saturating_sub(1);
                let attempt = Attempt { client: name.clone(), ordinal: known.attempts };
                let what = What::ReleaseInvoked { attempt: attempt.clone() };
                (Open::Release(attempt), Some(what))
            }
            "add" | "sell" => {
                let Value::Integer(amount) = value else {
                    return complain(":add needs a whole number", "a negative one sells");
                };
                if amount.abs() > MOST_AT_ONCE && *amount < 0 {
                    let what = format!(":add sells {} units at once", amount.unsigned_abs());
                    return complain(what, "sell at most 10000 at once");
                }
                self.adds = (self.adds.0 + 1, self.adds.1 + 1);
                (Open::Add { amount: *amount, number: self.adds.1 }, None)
            }
            "read" => (Open::Read { adds_done: self.adds.0 == 0 }, None),
            _ => (Open::Unknown, None),
        };
        known.open = Some(open);
        if let Some(what) = what {
            self.push(name, at_us, what);
        }
        Ok(())
    }

    fn complete(
        &mut self,
        process: i64,
        kind: &str,
        value: &Value,
        error: &str,
        at_us: u64,
    ) -> Done {
        let Some(known) = self.processes.get_mut(&process) else {
            return complain(
                format!("process {process} ends something that it did not begin"),
                "write the :invoke before",
            );
        };
        let Some(open) = known.open.take() else {
            return complain(
                format!("process {process} ends something that it did not begin"),
                "write the :invoke before",
            );
        };
        let name = known.name.clone();
        match open {
            Open::Acquire(attempt) => {
                if kind == "ok" {
                    known.held += 1;
                }
                let outcome = self.acquired(kind, value, error);
                let key = KEY.into();
                self.push(name, at_us, What::AcquireReturned { attempt, key, outcome });
            }
            Open::Release(attempt) => {
                let release = match kind {
                    "ok" => Release::Released,
                    "fail" => Release::NotHeld,
                    _ => Release::Indeterminate { reason: error.to_owned() },
                };
                self.push(name, at_us, What::ReleaseReturned { attempt, release });
            }
            Open::Add { amount, number } => {
                self.adds.0 -= 1;
                return self.added(&name, (amount, number), kind, error, at_us);
            }
            Open::Read { adds_done } => {
                if let (Value::Integer(left), "ok", true) =
                    (value, kind, adds_done && self.adds.0 == 0)
                {
                    self.counted = Some(*left);
                }
                self.seen_stock = true;
            }
            Open::Unknown => {}
        }
        Ok(())
    }

    fn acquired(&self, kind: &str, value: &Value, error: &str) -> AcquireOutcome {
        match kind {
            "ok" => AcquireOutcome::Granted {
                // An invalid fence is nil or below 1: a grant without a token.
                token: match value {
                    Value::Integer(token) if self.is(Model::is_fenced) && *token > 0 => {
                        u64::try_from(*token).ok()
                    }
                    _ => None,
                },
                lease_us: self.wording.lease_us.unwrap_or(NO_END),
                margin_us: 0,
            },
            "fail" => AcquireOutcome::Busy,
            _ => AcquireOutcome::Indeterminate { reason: error.to_owned() },
        }
    }

    fn added(
        &mut self,
        name: &Name,
        (amount, number): (i64, u64),
        kind: &str,
        error: &str,
        at_us: u64,
    ) -> Done {
        self.seen_stock = true;
        // What was counted before is no longer what is there.
        self.counted = None;
        if amount >= 0 {
            match kind {
                "ok" => self.stocked = self.stocked.saturating_add(amount),
                "info" if self.wording.units.is_none() => {
                    let what = "an :add of units came to no end that is known";
                    return complain(what, "say how many units there were: --units COUNT");
                }
                _ => {}
            }
            return Ok(());
        }
        let answer = match kind {
            "ok" => OrderAnswer::Accepted,
            "fail" if error.contains("sold-out") => OrderAnswer::SoldOut,
            "fail" => OrderAnswer::Refused,
            _ => OrderAnswer::Indeterminate,
        };
        for unit in 1..=amount.unsigned_abs() {
            let order = format!("{name}/add-{number}/{unit}").into();
            self.push(name.clone(), at_us, What::OrderReturned { order, answer });
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<Recorded, Complaint> {
        let ended_us = self.history.events.last().map_or(0, |event| event.at_us);
        if let (Some(left), true) = (self.counted, self.seen_stock) {
            let stocked = u32::try_from(self.stocked).unwrap_or(u32::MAX);
            let units = self.wording.units.unwrap_or(stocked);
            self.push(STOCK.into(), ended_us, What::StockCounted { units, left, reserved: 0 });
        }
        self.history.ended_us = ended_us;
        let is_counter = self.is(|model| model == Model::Counter);
        let ordered_tokens = self.is(Model::is_fenced);
        let setting = json!({ "ordered_tokens": ordered_tokens });
        if is_counter && !self.seen_stock {
            return Err(Complaint::new("there is no :add and no :read", "choose another --model"));
        }
        let header = Header { setting, ..Header::default() };
        Ok(Recorded { header, history: self.history, lines: self.lines })
    }
}

/// Why something failed, for people.
fn reason(value: &Value) -> String {
    match value {
        Value::Keyword(text) | Value::Text(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::List(values) => values.iter().map(reason).collect::<Vec<_>>().join(" "),
        Value::Nil | Value::Map(_) | Value::Other => String::new(),
    }
}

fn complain<T>(what: impl Into<String>, mend: &str) -> Result<T, Complaint> {
    Err(Complaint::new(what, mend))
}
