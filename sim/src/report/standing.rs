//! A world that stands still, told: where it stands, what every node is and has, which faults are
//! at work, and who holds the lock, by promise and by belief.

use crate::check::case::Case;
use crate::check::grants::Grant;
use crate::check::interval::Moment;
use crate::explain::names;
use crate::history::{Event, Name, What};
use crate::plan::{FaultKind, Micros};
use crate::report::layout::{counted, fold, grouped, pad, width};
use crate::report::manner::Manner;
use crate::storm::frozen::{Frozen, State, Watched, Window};
use crate::storm::observe::postgres::TABLES;
use crate::visible::visible;

/// So many keys, znodes or rows of one server are told.
const MOST_KEPT: usize = 6;

/// The text, without a line feed at its end.
pub fn standing(watched: &Watched, frozen: &Frozen, manner: &Manner) -> String {
    let mut text = Text { manner, lines: Vec::new() };
    place(&mut text, watched, frozen);
    text.heading("Nodes");
    let nodes: Vec<Row> = frozen.nodes().iter().map(|name| row(frozen, name)).collect();
    let widest = |cell: fn(&Row) -> &str| nodes.iter().map(|row| width(cell(row))).max();
    let names = widest(|row| &row.name).unwrap_or(0);
    let states = widest(|row| &row.state).unwrap_or(0);
    for row in &nodes {
        text.row(row, names, states);
    }
    let faults = faults_at_work(frozen);
    if !faults.is_empty() {
        text.heading("Faults at work");
        faults.iter().for_each(|fault| text.folded(2, fault));
    }
    holders(&mut text, watched, frozen);
    text.lines.join("\n")
}

/// What a node is, in a word or two: for the table of addresses, too.
pub fn role(frozen: &Frozen, name: &Name) -> String {
    match frozen.window(name) {
        None => role_of_name(name).to_owned(),
        Some(Window::Redis(window)) => match window.standing().follows {
            None => "master".to_owned(),
            Some((of, link)) => format!("replica of {of}, {}", link_word(link)),
        },
        Some(Window::Sentinel(_)) => "sentinel".to_owned(),
        Some(Window::Zookeeper(window)) => window.standing().mode.to_owned(),
        Some(Window::Postgres(control)) => {
            let role = if control.is_standby() { "standby" } else { "primary" };
            format!("{role}, timeline {}", control.timeline())
        }
    }
}

/// How a node is, in a word or two.
pub fn state(frozen: &Frozen, name: &Name) -> String {
    match frozen.state(name) {
        State::Up if is_cut_off(frozen, name) => "cut".to_owned(),
        state => state.word().to_owned(),
    }
}

struct Row {
    name: String,
    state: String,
    role: String,
    more: Vec<String>,
}

struct Text<'a> {
    manner: &'a Manner,
    lines: Vec<String>,
}

impl Text<'_> {
    fn heading(&mut self, text: &str) {
        self.lines.push(String::new());
        self.lines.push(self.manner.style.strong(text));
    }

    fn folded(&mut self, indent: usize, text: &str) {
        let text = self.manner.charset.fit(&visible(text));
        for (n, line) in fold(&text, self.manner.width.saturating_sub(indent)).iter().enumerate() {
            let deeper = if n > 0 { indent + 2 } else { indent };
            self.lines.push(format!("{:deeper$}{line}", ""));
        }
    }

    fn row(&mut self, row: &Row, names: usize, states: usize) {
        let head = format!("  {}  {}  ", pad(&row.name, names), pad(&row.state, states));
        let role = self.manner.charset.fit(&visible(&row.role));
        self.lines.push(format!("{head}{role}").trim_end().to_owned());
        let indent = width(&head);
        for line in &row.more {
            self.folded(indent, line);
        }
    }
}

fn place(text: &mut Text<'_>, watched: &Watched, frozen: &Frozen) {
    let run = &watched.run;
    let (at, instant) = (Micros(frozen.now_us()), frozen.place.instant());
    text.lines
        .push(text.manner.style.strong(&format!("The world stands still {instant}, at {at}")));
    let plan = &run.plan;
    text.folded(2, &format!("plan {}, lock {}, seed {}", plan.scenario, plan.lock.name, plan.seed));
    if let Some(last) = frozen.history.events.last() {
        text.folded(2, &format!("happened: {}", told(last)));
    }
    let count = frozen.history.events.len();
    if let Some(next) = run.history.events.get(count) {
        text.folded(2, &format!("to come: {}", told(next)));
    }
}

/// An event with its number and time.
fn told(event: &Event) -> String {
    let head = format!("event {} at {}", event.id.0, Micros(event.at_us));
    match names::name(event) {
        Some(name) => format!("{head}: {name}"),
        None => format!("{head}, at {}", event.node),
    }
}

fn row(frozen: &Frozen, name: &Name) -> Row {
    let more = match frozen.window(name) {
        None => Vec::new(),
        Some(Window::Redis(window)) => of_redis(window),
        Some(Window::Sentinel(window)) => {
            let told = |(master, is_down): (String, bool)| {
                let down = if is_down { ", which it takes for down" } else { "" };
                format!("names {master} as the master{down}")
            };
            window.masters().into_iter().map(told).collect()
        }
        Some(Window::Zookeeper(window)) => of_zookeeper(window),
        Some(Window::Postgres(control)) => of_postgres(control),
    };
    Row { name: name.to_string(), state: state(frozen, name), role: role(frozen, name), more }
}

/// What a node without a living server is.
fn role_of_name(name: &str) -> &'static str {
    match name.split('-').next() {
        // Of a server that is down what counts is on its disk.
        Some("redis" | "sentinel" | "zk" | "pg") => "nothing of it is in memory",
        Some("pooler") => "pooler",
        Some("stock") => "stock",
        Some("app") => "client",
        _ => "",
    }
}

fn link_word(link: &str) -> &'static str {
    match link {
        "connected" => "link up",
        "sync" => "receiving the data set",
        _ => "link down",
    }
}

fn of_redis(window: &crate::server::redis::Window) -> Vec<String> {
    let standing = window.standing();
    let mut lines = vec![format!("offset {}", grouped(standing.offset))];
    for (address, acknowledged, held) in standing.replicas {
        let held = match held {
            0 => String::new(),
            held => format!(", {} wait for it here", counted(held, "byte")),
        };
        lines.push(format!("replica {address} has told of {}{held}", grouped(acknowledged)));
    }
    let (keys, count) = window.keys(MOST_KEPT);
    for kept in &keys {
        let (key, value) = (text_of(&kept.key), kept.value.as_deref().map(text_of));
        let left = match kept.remaining_ms {
            None => String::new(),
            Some(0) => ", its time has come".to_owned(),
            Some(ms) => format!(", {} left", Micros(ms * 1_000)),
        };
        lines.push(format!("{key} = {}{left}", value.unwrap_or_else(|| "a stream".to_owned())));
    }
    lines.extend(rest_of(count, keys.len(), "key"));
    lines
}

fn of_zookeeper(window: &crate::server::zookeeper::Window) -> Vec<String> {
    let standing = window.standing();
    let serves = if standing.serves { "" } else { ", serves nobody" };
    let undecided = match standing.undecided {
        0 => String::new(),
        count => format!(", {} not known to be decided", counted(count as u64, "transaction")),
    };
    let (epoch, sessions) = (standing.epoch, counted(standing.sessions as u64, "session"));
    let mut lines =
        vec![format!("zxid {:#x}, epoch {epoch}, {sessions}{undecided}{serves}", standing.zxid)];
    let (znodes, count) = window.znodes(MOST_KEPT);
    for znode in &znodes {
        let session = znode.session.map(|session| format!(", of session {session:#x}"));
        let (path, data) = (&znode.path, text_of(&znode.data));
        lines.push(format!("{path} = {data}{}", session.unwrap_or_default()));
    }
    lines.extend(rest_of(count, znodes.len(), "znode"));
    lines
}

fn of_postgres(control: &crate::server::postgres::Control) -> Vec<String> {
    if !control.is_ready() {
        return vec!["reads its log and takes nobody".to_owned()];
    }
    let sessions = counted(control.sessions() as u64, "session");
    let mut lines = vec![format!("log up to {}, {sessions}", grouped(control.position()))];
    for table in TABLES {
        let rows = control.rows(table);
        for row in rows.iter().take(MOST_KEPT) {
            let cells = row
                .iter()
                .map(|(column, value)| format!("{column}={}", value.as_deref().unwrap_or("null")));
            lines.push(format!("{table}: {}", cells.collect::<Vec<_>>().join(" ")));
        }
        lines.extend(rest_of(rows.len(), rows.len().min(MOST_KEPT), &format!("row of {table}")));
    }
    lines
}

/// That there is more than was told.
fn rest_of(count: usize, told: usize, what: &str) -> Option<String> {
    (count > told).then(|| match what.split_once(' ') {
        None => format!("and {} more", counted((count - told) as u64, what)),
        Some((one, of)) => format!("and {} more {of}", counted((count - told) as u64, one)),
    })
}

/// Bytes as people read them.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The faults that have begun and not ended, in order of their beginning.
fn at_work(frozen: &Frozen) -> Vec<&Event> {
    let has_ended = |wanted: usize, after: &Event| {
        let later = frozen.history.iter().skip_while(|event| event.id <= after.id);
        later
            .into_iter()
            .any(|event| matches!(event.what, What::FaultEnded { fault } if fault == wanted))
    };
    let is_going = |event: &&Event| match event.what {
        What::FaultBegan { fault, .. } => !has_ended(fault, event),
        _ => false,
    };
    frozen.history.iter().filter(is_going).collect()
}

fn faults_at_work(frozen: &Frozen) -> Vec<String> {
    let told = |event: &&Event| match &event.what {
        What::FaultBegan { description, .. } => {
            Some(format!("since {}: {description}", Micros(event.at_us)))
        }
        _ => None,
    };
    at_work(frozen).iter().filter_map(told).collect()
}

/// Whether a node is on the smaller side of a cut.
fn is_cut_off(frozen: &Frozen, name: &Name) -> bool {
    at_work(frozen).into_iter().any(|event| {
        let What::FaultBegan { fault, .. } = event.what else { return false };
        let Some(fault) = frozen.plan.faults.get(fault) else { return false };
        let FaultKind::Partition { from, to, .. } = &fault.kind else { return false };
        let smaller = if from.len() <= to.len() { from } else { to };
        smaller.iter().any(|cut| **cut == **name)
    })
}

/// Who holds which lock, by what the whole run tells: a grant whose reply is under way is
/// promised already.
fn holders(text: &mut Text<'_>, watched: &Watched, frozen: &Frozen) {
    let run = &watched.run;
    let now_us = frozen.now_us();
    let moment = match frozen.history.events.last() {
        Some(last) if last.at_us == now_us => Moment::of(last),
        _ => Moment::at(now_us),
    };
    let case = Case::new(&run.history, run.setting);
    let holds = |grant: &&Grant| {
        grant.is_promised(moment) || grant.belief.is_some_and(|belief| belief.contains(moment))
    };
    let held: Vec<&Grant> = case.grants.rows().iter().filter(holds).collect();
    text.heading("Holders");
    if held.is_empty() {
        text.folded(2, "nobody holds a lock, neither by promise nor by belief");
    }
    for grant in held {
        let believes = grant.belief.is_some_and(|belief| belief.contains(moment));
        // For how long is not told here: that the holder will give it back is the future's, and
        // the lease that is left stands beside the record.
        let promised =
            if grant.is_promised(moment) { "is promised it" } else { "is not promised it" };
        let believes = if believes { "believes to hold it" } else { "does not believe to hold it" };
        let (owner, key) = (&grant.owner, &grant.key);
        text.folded(2, &format!("{owner} of {key}: {promised}, {believes}"));
    }
}
