//! A run as a trace of the trace event format (JSON), which ui.perfetto.dev and
//! chrome://tracing open.
//!
//! A node is a process; its threads are its events, and of a client what it was promised
//! and what it believed. Promises, beliefs, faults and times of being down are nestable
//! asynchronous slices, for they overlap; events are instants; what one node led another to
//! is a flow; offsets and the stock are counters. Times are µs of simulated time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::check::grants::Grants;
use crate::check::interval::Moment;
use crate::history::{EventId, StockOperation, What};
use crate::report::html::Source;
use crate::report::html::causes::Causes;
use crate::report::html::chinese::{Both, bounded};
use crate::report::html::document::within_bounds;
use crate::report::html::tracks::time;
use crate::report::subject::Subject;

const EVENTS: u64 = 1;
const PROMISED: u64 = 2;
const BELIEVED: u64 = 3;
const FAULTS: u64 = 4;

/// The trace of `source`.
pub fn trace(source: &Source<'_>) -> String {
    let history = source.history;
    let mut trace = Trace { events: Vec::new(), processes: BTreeMap::new(), slices: 0 };
    let subject = Subject::of(history, source.judgement);
    let causes = Causes::of(history, subject.as_ref());
    let told: BTreeSet<EventId> = subject.iter().flat_map(Subject::evidence).collect();
    let ended_us = time(history.ended_us);
    for event in history.iter() {
        trace.process(&event.node);
    }
    trace.grants(source, ended_us);
    trace.faults(source, ended_us);
    for event in history.iter() {
        let (process, at_us) = (trace.process(&event.node), time(event.at_us));
        let what = within_bounds(serde_json::to_value(&event.what).unwrap_or_default());
        let name = what["what"].as_str().unwrap_or("event").to_owned();
        let category = if told.contains(&event.id) { "evidence" } else { "event" };
        trace.events.push(json!({
            "ph": "X", "dur": 0, "name": name, "cat": category, "ts": at_us, "pid": process,
            "tid": EVENTS, "args": { "event": event.id.0, "what": what },
        }));
        let from = causes.get(event.id).iter().filter_map(|cause| history.get(*cause));
        for from in from.filter(|from| from.node != event.node) {
            let id = trace.slices;
            trace.slices += 1;
            let start = trace.process(&from.node);
            let flow = json!({ "name": "led to", "cat": "cause", "id": id, "tid": EVENTS });
            let with = |more: Value| merged(&flow, more);
            trace.events.push(with(json!({ "ph": "s", "ts": time(from.at_us), "pid": start })));
            let end = json!({ "ph": "f", "bp": "e", "ts": at_us, "pid": process });
            trace.events.push(with(end));
        }
        trace.counters(process, at_us, &event.what);
    }
    for finding in &source.judgement.findings {
        trace.events.push(json!({
            "ph": "i", "s": "g", "name": Both::of(&finding.sentence()).en, "cat": finding.kind.id(),
            "ts": time(finding.from_us), "pid": 0, "tid": 0,
        }));
    }
    trace.names();
    let document = json!({
        "displayTimeUnit": "ms",
        "otherData": {
            "lockstorm": env!("CARGO_PKG_VERSION"),
            "verdict": source.verdict().id(),
            "seed": source.is_ours.then(|| source.plan.seed.to_string()),
        },
        "traceEvents": trace.events,
    });
    document.to_string()
}

fn merged(one: &Value, more: Value) -> Value {
    match (one.clone(), more) {
        (Value::Object(mut one), Value::Object(more)) => {
            one.extend(more);
            Value::Object(one)
        }
        (one, _) => one,
    }
}

struct Trace {
    events: Vec<Value>,
    /// From 1; 0 is the run.
    processes: BTreeMap<String, u64>,
    slices: u64,
}

impl Trace {
    fn process(&mut self, node: &str) -> u64 {
        let next = self.processes.len() as u64 + 1;
        *self.processes.entry(bounded(node)).or_insert(next)
    }

    /// A nestable asynchronous slice.
    fn slice(&mut self, process: u64, thread: u64, name: &str, from_us: u64, to_us: u64) {
        let id = format!("slice-{}", self.slices);
        self.slices += 1;
        let category = ["", "event", "promise", "belief", "fault"];
        let category = category.get(thread as usize).copied().unwrap_or("event");
        let base = json!({
            "name": name, "cat": category, "id": id, "pid": process, "tid": thread,
        });
        self.events.push(merged(&base, json!({ "ph": "b", "ts": from_us })));
        self.events.push(merged(&base, json!({ "ph": "e", "ts": to_us.max(from_us) })));
    }

    fn grants(&mut self, source: &Source<'_>, ended_us: u64) {
        let setting = source.setting;
        let grants = Grants::of(source.history, setting.lock_has_records, setting.quorum);
        let end = |to: Moment| time(to.at_us).min(ended_us);
        for grant in grants.rows() {
            let process = self.process(grant.client().map_or(&*grant.owner, |client| client));
            let owner = bounded(&grant.owner);
            for piece in &grant.promise {
                let name = format!("promised to {owner}");
                self.slice(process, PROMISED, &name, time(piece.from.at_us), end(piece.to));
            }
            if let Some(belief) = grant.belief {
                let name = format!("{owner} believes to hold it");
                self.slice(process, BELIEVED, &name, time(belief.from.at_us), end(belief.to));
            }
        }
    }

    fn faults(&mut self, source: &Source<'_>, ended_us: u64) {
        let mut open: BTreeMap<usize, (Vec<u64>, String, u64)> = BTreeMap::new();
        let mut down: BTreeMap<u64, u64> = BTreeMap::new();
        for event in source.history.iter() {
            let at_us = time(event.at_us);
            match &event.what {
                What::FaultBegan { fault, targets, description, .. } => {
                    let targets = targets.iter().map(|target| self.process(target)).collect();
                    open.insert(*fault, (targets, bounded(description), at_us));
                }
                What::FaultEnded { fault } => {
                    if let Some((targets, text, from_us)) = open.remove(fault) {
                        for process in targets {
                            self.slice(process, FAULTS, &text, from_us, at_us);
                        }
                    }
                }
                What::NodeCrashed { .. } | What::ProgramEnded { .. } => {
                    let process = self.process(&event.node);
                    down.entry(process).or_insert(at_us);
                }
                What::NodeStarted { .. } => {
                    let process = self.process(&event.node);
                    if let Some(from_us) = down.remove(&process) {
                        self.slice(process, FAULTS, "down", from_us, at_us);
                    }
                }
                _ => {}
            }
        }
        for (targets, text, from_us) in open.into_values() {
            for process in targets {
                self.slice(process, FAULTS, &text, from_us, ended_us);
            }
        }
        for (process, from_us) in down {
            self.slice(process, FAULTS, "down", from_us, ended_us);
        }
    }

    fn counters(&mut self, process: u64, at_us: u64, what: &What) {
        let (name, value): (&str, Value) = match what {
            What::ReplicationPosition { offset }
            | What::Promoted { offset, .. }
            | What::Resynchronised { offset, .. } => ("replication offset", (*offset).into()),
            What::Effect {
                operation: StockOperation::Read { left, .. }, accepted: true, ..
            } => ("units left", (*left).into()),
            What::StockCounted { left, .. } => ("units left", (*left).into()),
            What::ClockChanged { offset_us, .. } => ("wall clock ahead, µs", (*offset_us).into()),
            _ => return,
        };
        self.events.push(json!({
            "ph": "C", "name": name, "ts": at_us, "pid": process, "args": { "value": value },
        }));
    }

    fn names(&mut self) {
        let mut named = vec![json!({
            "ph": "M", "name": "process_name", "pid": 0, "args": { "name": "verdict" },
        })];
        for (node, process) in &self.processes {
            named.push(json!({
                "ph": "M", "name": "process_name", "pid": process, "args": { "name": node },
            }));
            named.push(json!({
                "ph": "M", "name": "process_sort_index", "pid": process,
                "args": { "sort_index": process },
            }));
            let threads = [
                (EVENTS, "events"),
                (PROMISED, "promise"),
                (BELIEVED, "belief"),
                (FAULTS, "faults"),
            ];
            for (thread, name) in threads {
                named.push(json!({
                    "ph": "M", "name": "thread_name", "pid": process, "tid": thread,
                    "args": { "name": name },
                }));
            }
        }
        named.append(&mut self.events);
        self.events = named;
    }
}
