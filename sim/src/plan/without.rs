//! Nodes that are taken out of a plan, and with them what was to happen to them.
//!
//! All draws hang on names ([`crate::draw`]), so a client that is taken out by its name moves
//! nobody else's. Closing the gap that it leaves gives others new names, and with them other
//! draws: that is a step of its own.

use std::collections::BTreeMap;

use super::{Plan, StruckMut, When, app_node};

impl Plan {
    /// The plan without the client of this name. Faults of it alone, or anchored to what it
    /// does, and its clock go with it; what every other client draws stays as it was.
    /// `None` where it is not there, or nobody else is.
    pub fn without_client(&self, name: &str) -> Option<Plan> {
        let clients = self.topology.app_nodes();
        if clients.len() < 2 || !clients.iter().any(|client| client == name) {
            return None;
        }
        let mut plan = self.clone();
        plan.take_out_client(name);
        Some(plan)
    }

    pub(super) fn take_out_client(&mut self, name: &str) {
        // The last ones read: whoever stays does what it did.
        if self.reads(name) {
            self.workload.readers -= 1;
        }
        let topology = &mut self.topology;
        topology.absent.extend((1..=topology.apps).find(|number| app_node(*number) == name));
        while topology.absent.remove(&topology.apps) {
            topology.apps -= 1;
        }
        self.strip(name);
    }

    /// The plan with its clients numbered from 1 on without a gap. Whoever gets another name
    /// draws otherwise.
    #[must_use]
    pub fn with_clients_in_a_row(&self) -> Plan {
        let clients = self.topology.app_nodes();
        let mut plan = self.clone();
        plan.topology.absent.clear();
        plan.topology.apps = u16::try_from(clients.len()).unwrap_or(u16::MAX);
        plan.rename(&clients.into_iter().zip((1..).map(app_node)).collect());
        plan
    }

    /// Takes a node that is gone out of clocks and faults; faults of it alone go with it.
    pub(crate) fn strip(&mut self, gone: &str) {
        self.clocks.retain(|clock| clock.node != gone);
        self.faults.retain_mut(|fault| {
            if matches!(&fault.when, When::After { anchor, .. } if anchor.client == gone) {
                return false;
            }
            match fault.kind.struck_mut() {
                StruckMut::Node(node) => node != gone,
                StruckMut::Sides(from, to) => {
                    from.retain(|node| node != gone);
                    to.retain(|node| node != gone);
                    !from.is_empty() && !to.is_empty()
                }
            }
        });
    }

    /// Gives nodes other names, in clocks and faults, all at once.
    pub(crate) fn rename(&mut self, names: &BTreeMap<String, String>) {
        let renamed = |name: &mut String| {
            if let Some(other) = names.get(name) {
                other.clone_into(name);
            }
        };
        self.clocks.iter_mut().for_each(|clock| renamed(&mut clock.node));
        for fault in &mut self.faults {
            if let When::After { anchor, .. } = &mut fault.when {
                renamed(&mut anchor.client);
            }
            match fault.kind.struck_mut() {
                StruckMut::Node(node) => renamed(node),
                StruckMut::Sides(from, to) => from.iter_mut().chain(to).for_each(renamed),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Fence, Seed, file, scenario};

    const STORM: &str = r#"schema = 1
scenario = "redis-failover"

[topology]
apps = 4

[[clock]]
node = "app-2"
rate = "+5%"

[[fault]]
kind = "pause"
node = "app-4"
after = "app-2 acquire 3 applied"

[[fault]]
kind = "partition"
from = ["app-2", "app-3"]
to = "redis-1"
after = "app-4 acquire 3 applied"
"#;

    #[test]
    fn any_client_can_be_taken_out_and_what_is_left_keeps_its_names() {
        let plan = file::parse("storm.toml", STORM).unwrap();
        let without = plan.without_client("app-2").unwrap();
        assert_eq!(without.topology.app_nodes(), ["app-1", "app-3", "app-4"]);
        assert!(without.check().is_ok());
        let text = file::write(&without);
        assert!(text.contains("absent = \"app-2\""), "{text}");
        assert_eq!(file::parse("without.toml", &text).unwrap(), without);
        // What struck it, or hung on what it did, is gone; of a side it is taken out.
        let faults: Vec<String> = without.faults.iter().map(file::inline_fault).collect();
        let left = r#"{ kind = "partition", from = ["app-3"], to = ["redis-1"], after = "app-4 acquire 3 applied" }"#;
        assert_eq!(faults, [left]);
        assert!(without.clocks.is_empty());
        let row = without.with_clients_in_a_row();
        assert_eq!(row.topology.app_nodes(), ["app-1", "app-2", "app-3"]);
        let faults: Vec<String> = row.faults.iter().map(file::inline_fault).collect();
        assert_eq!(faults, [left.replace("app-3", "app-2").replace("app-4", "app-3")]);
        // Of the last the number goes, and with it the gaps before it.
        let two = without.without_client("app-4").and_then(|plan| plan.without_client("app-3"));
        assert_eq!(two.as_ref().map(|plan| plan.topology.apps), Some(1));
        assert_eq!(two.unwrap().without_client("app-1"), None);
        assert_eq!(plan.without_client("app-9"), None);
    }

    #[test]
    fn a_seed_draws_for_others_what_it_drew_with_the_absent() {
        let whole = Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(3)).unwrap();
        for absent in ["app-1", "app-2"] {
            let base = [("topology.absent", absent)];
            let drawn = Plan::from_seed_with("redis-failover", "redis", Fence::Off, Seed(3), &base);
            assert_eq!(drawn.ok(), whole.without_client(absent));
        }
        let plan = scenario::default_plan("redis-failover", "redis", Fence::Off).unwrap();
        let told = |absent| plan.clone().with_set("topology.absent", absent).unwrap_err();
        let told = ["app-3", "app-7", "app-02", "redis-1"].map(|absent| told(absent).to_string());
        insta::assert_snapshot!(told.join("\n"), @r#"
        --set topology.absent: app-3 cannot be absent: the last client, app-3, is there; write names of clients before app-3, or fewer apps
        --set topology.absent: app-7 cannot be absent: the last client, app-3, is there; write names of clients before app-3, or fewer apps
        --set topology.absent: "app-02" is no client; write names of clients, such as "app-2, app-4"
        --set topology.absent: "redis-1" is no client; write names of clients, such as "app-2, app-4"
        "#);
    }
}
