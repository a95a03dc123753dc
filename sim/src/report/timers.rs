//! Which timers do not follow a node's clocks: the one table.
//!
//! A simulated host's timers run on the monotonic clock of its node. Third-party code on a
//! node sets its timers with tokio, and tokio's run at the true rate of simulated time. As
//! long as the node's clock does too there is no difference; with a rate of its own such
//! a timer fires too early or too late by that rate, so a run says which they are.
//!
//! Our servers, the failover controller and the stock set every timer on their host, and
//! Lua has none: a rate on their nodes is followed by all they do.

use crate::plan::{FaultKind, Plan};

/// Third-party code with timers of its own, on clients.
struct Library {
    name: &'static str,
    /// The lock of ours that stands on it.
    lock: &'static str,
    /// Its timers that are set while that lock is used.
    set: &'static [&'static str],
}

/// Of `redis` the lock turns off the two timeouts that a multiplexed connection can have
/// (`set_response_timeout`, `set_connection_timeout`), and does not use its connection
/// manager, whose retries wait: every wait of the lock is the host's.
const LIBRARIES: [Library; 1] = [Library { name: "redis", lock: "redis", set: &[] }];

/// What a run of `plan` has to say of timers that did not follow: `None` where every client's
/// clock keeps its rate.
pub fn did_not_follow(plan: &Plan) -> Option<String> {
    let apps = plan.topology.app_nodes();
    let is_off = |app: &&String| {
        let from_the_start =
            plan.clocks.iter().any(|clock| clock.node == **app && clock.rate_ppm != 0);
        let by_fault = plan.faults.iter().any(|fault| match &fault.kind {
            FaultKind::ClockRate { node, .. } | FaultKind::ClockSlew { node, .. } => node == *app,
            _ => false,
        });
        from_the_start || by_fault
    };
    let off: Vec<&str> = apps.iter().filter(is_off).map(String::as_str).collect();
    if off.is_empty() {
        return None;
    }
    let libraries = LIBRARIES.iter().filter(|library| library.lock == plan.lock.name);
    let known = libraries.map(|Library { name, set, .. }| match set {
        [] => format!("{name} sets none"),
        set => format!("of {name}: {}", set.join(", ")),
    });
    let known: Vec<String> = known.collect();
    let known = if known.is_empty() { "no library is in use".to_owned() } else { known.join(", ") };
    Some(format!("tokio's own keep the true rate on {} ({known})", off.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::file;

    fn told(text: &str) -> Option<String> {
        let text = format!("schema = 1\nscenario = \"redis-single\"\n{text}");
        did_not_follow(&file::parse("plan.toml", &text).unwrap())
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
