//! Which timers do not follow a node's clocks: the one table.
//!
//! A simulated host's timers run on the monotonic clock of its node. Third-party code on a
//! node sets its timers with tokio, and tokio's run at the true rate of simulated time. As
//! long as the node's clock does too there is no difference; with a rate of its own such
//! a timer fires too early or too late by that rate, so a run says which they are.
//!
//! Our own servers set every timer on their host, so a rate on their nodes is followed by
//! all they do. On a client a user's own lock may bring any library: what is not in the
//! table is not known here.

use std::fmt;

use serde::Serialize;

use crate::plan::{FaultKind, Plan};

/// Third-party code on nodes.
struct Library {
    name: &'static str,
    /// On nodes whose names begin so …
    nodes: &'static str,
    /// … and, on clients, under this lock.
    lock: Option<&'static str>,
    /// Its timers that are set there.
    set: &'static [&'static str],
}

/// Of `redis` the lock turns off the two timeouts that a multiplexed connection can have
/// (`set_response_timeout`, `set_connection_timeout`), and does not use its connection
/// manager, whose retries wait: every wait of the lock is the host's. Lua has no timers.
const LIBRARIES: [Library; 2] = [
    Library { name: "redis", nodes: CLIENTS, lock: Some("redis"), set: &[] },
    Library { name: "mlua", nodes: "redis-", lock: None, set: &[] },
];

const CLIENTS: &str = "app-";

/// Timers that did not follow the clocks of their nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DidNotFollow {
    /// The nodes on which a tokio timer of third-party code keeps the true rate, while
    /// their clocks have one of their own.
    pub nodes: Vec<String>,
    /// The third-party libraries in use there.
    pub libraries: Vec<Timers>,
}

/// The timers that a library sets with tokio.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Timers {
    /// The library.
    pub library: &'static str,
    /// Its timers; may be none.
    pub set: &'static [&'static str],
}

/// What a run of `plan` has to say of timers that did not follow: `None` where every
/// client's clock keeps its rate, and no other node with a rate has such timers.
pub fn did_not_follow(plan: &Plan) -> Option<DidNotFollow> {
    let is_used = |library: &&Library, node: &str| {
        node.starts_with(library.nodes) && library.lock.is_none_or(|lock| lock == plan.lock.name)
    };
    let concerns = |node: &str| {
        let mut libraries = LIBRARIES.iter().filter(|library| is_used(library, node));
        node.starts_with(CLIENTS) || libraries.any(|library| !library.set.is_empty())
    };
    let mut nodes = plan.topology.nodes();
    nodes.retain(|node| has_rate(plan, node) && concerns(node));
    if nodes.is_empty() {
        return None;
    }
    let used = LIBRARIES.iter().filter(|library| nodes.iter().any(|node| is_used(library, node)));
    let libraries = used.map(|Library { name, set, .. }| Timers { library: name, set }).collect();
    Some(DidNotFollow { nodes, libraries })
}

impl fmt::Display for DidNotFollow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<String> = self.libraries.iter().map(Timers::to_string).collect();
        let known =
            if known.is_empty() { "no library is in use".to_owned() } else { known.join(", ") };
        write!(formatter, "tokio's own keep the true rate on {} ({known})", self.nodes.join(", "))
    }
}

impl fmt::Display for Timers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.set {
            [] => write!(formatter, "{} sets none", self.library),
            set => write!(formatter, "of {}: {}", self.library, set.join(", ")),
        }
    }
}

/// Whether the clocks of the node run at another rate, at some time of the storm.
fn has_rate(plan: &Plan, name: &str) -> bool {
    let by_fault = |kind: &FaultKind| match kind {
        FaultKind::ClockRate { node, .. } | FaultKind::ClockSlew { node, .. } => node == name,
        _ => false,
    };
    plan.clocks.iter().any(|clock| clock.node == name && clock.rate_ppm != 0)
        || plan.faults.iter().any(|fault| by_fault(&fault.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::file;

    fn told(text: &str) -> Option<String> {
        let text = format!("schema = 1\nscenario = \"redis-single\"\n{text}");
        let plan = file::parse("plan.toml", &text).unwrap();
        did_not_follow(&plan).map(|timers| timers.to_string())
    }

    #[test]
    fn a_rate_on_a_client_is_told_with_the_timers_that_did_not_follow() {
        let clock = "[[clock]]\nnode = \"app-1\"\nrate = \"+5%\"\n";
        let slew =
            "[[fault]]\nkind = \"clock-slew\"\nnode = \"app-2\"\nby = \"1ms\"\nat = \"1s\"\n";
        let expected = "tokio's own keep the true rate on app-1, app-2 (redis sets none)";
        assert_eq!(told(&format!("{clock}{slew}")).as_deref(), Some(expected));
        let none = told(&format!("[lock]\nname = \"none\"\n{clock}"));
        assert!(none.unwrap().ends_with("(no library is in use)"));
    }

    #[test]
    fn true_rates_and_servers_have_nothing_to_tell() {
        assert_eq!(told("[[clock]]\nnode = \"app-1\"\noffset = \"2s\"\n"), None);
        assert_eq!(told("[[clock]]\nnode = \"redis-1\"\nrate = \"+5%\"\n"), None);
    }
}
