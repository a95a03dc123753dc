//! What makes one fault of a plan possible.

use std::collections::BTreeSet;

use super::{Problem, known_node, problem, rate, step};
use crate::plan::complaint::{Complaint, quoted};
use crate::plan::{
    Anchor, Fault, FaultKind, Micros, Operation, Phase, Plan, Ppm, STOCK_NODE, SignedMicros,
    StockPlace, When, groups, scenario,
};

/// The rules for one fault.
pub(super) struct FaultRules<'a> {
    pub plan: &'a Plan,
    pub fault: &'a Fault,
    pub at: String,
}

impl FaultRules<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.at)
    }

    /// A problem at the fault's key `name`, or else at the fault.
    fn problem<T>(
        &self,
        name: &str,
        what: impl Into<String>,
        mend: impl Into<String>,
    ) -> Result<T, Problem> {
        problem(&[&self.key(name), &self.at], what, mend)
    }

    pub fn check(&self) -> Result<(), Problem> {
        match &self.fault.kind {
            FaultKind::ProcessCrash { node } | FaultKind::MachineCrash { node } => {
                self.node(node)?;
                self.may_crash(node)?;
            }
            FaultKind::Pause { node, group } => {
                self.node(node)?;
                self.group(node, group.as_deref())?;
            }
            FaultKind::Hang { node } => self.client(node, "does no client's work", "pause it")?,
            FaultKind::Partition { from, to, .. } | FaultKind::Reset { from, to } => {
                self.sides(from, to)?;
            }
            FaultKind::SlowLink { from, to, extra } => {
                self.sides(from, to)?;
                self.extra(*extra)?;
            }
            FaultKind::ReplicationStall { node } => {
                self.node(node)?;
                self.may_stall(node)?;
            }
            FaultKind::Promote { node } => {
                self.node(node)?;
                self.may_promote(node)?;
            }
            FaultKind::ClockRate { node, ppm } => {
                self.node(node)?;
                rate(&self.key("rate"), *ppm)?;
                if *ppm == 0 {
                    return self.problem("rate", "a rate of 0ppm is no fault", "write another");
                }
            }
            FaultKind::ClockStep { node, by_us } => self.step(node, *by_us, "step")?,
            FaultKind::ClockSlew { node, by_us, ppm } => {
                self.step(node, *by_us, "slew")?;
                self.slew(node, *by_us, *ppm)?;
            }
            FaultKind::DiskSlow { node, extra } => {
                self.node(node)?;
                self.extra(*extra)?;
            }
            FaultKind::ClockFreeze { node }
            | FaultKind::DiskStall { node }
            | FaultKind::DiskError { node } => self.node(node)?,
            FaultKind::Cancel { .. } => self.cancel()?,
        }
        self.times()
    }

    fn node(&self, name: &str) -> Result<(), Problem> {
        known_node(self.plan, &self.key("node"), name)
    }

    /// A node that is a client, and not one that is or does `what`.
    fn client(&self, node: &str, what: &str, instead: &str) -> Result<(), Problem> {
        self.node(node)?;
        if self.plan.topology.app_nodes().iter().any(|app| app == node) {
            return Ok(());
        }
        self.problem("node", format!("{node} {what}"), format!("name a client, or {instead}"))
    }

    fn step(&self, node: &str, by_us: i64, noun: &str) -> Result<(), Problem> {
        self.node(node)?;
        step(&self.key("by"), by_us)?;
        if by_us == 0 {
            return self.problem("by", format!("a {noun} of 0s is no fault"), "write another");
        }
        Ok(())
    }

    /// Slews add up; a clock that runs backwards is none.
    fn slews_together(&self, node: &str) -> Result<(), Problem> {
        const STANDS_STILL_PPM: i64 = -1_000_000;
        let own = self.plan.clocks.iter().filter(|clock| clock.node == node);
        let mut slowest_ppm = own.map(|clock| clock.rate_ppm).min().unwrap_or(0).min(0);
        let mut slews = Vec::new();
        for fault in &self.plan.faults {
            match &fault.kind {
                FaultKind::ClockRate { node: held, ppm } if held == node => {
                    slowest_ppm = slowest_ppm.min(*ppm);
                }
                FaultKind::ClockSlew { node: held, by_us, ppm } if held == node && *by_us < 0 => {
                    slews.push((span(fault), i64::from(*ppm)));
                }
                _ => {}
            }
        }
        if slowest_ppm.saturating_sub(most_at_once(&slews)) > STANDS_STILL_PPM {
            return Ok(());
        }
        self.problem(
            "by",
            format!(
                "with all its slews that can run at once, {node}'s clock would stand still or run \
                 backwards"
            ),
            "write fewer of them, or lower rates",
        )
    }

    /// What `adjtimex` of Linux allows a clock to be off its rate.
    fn slew(&self, node: &str, by_us: i64, ppm: u32) -> Result<(), Problem> {
        const MOST_PPM: u32 = 100_000;
        let rate = Ppm(i64::from(ppm)).without_plus();
        if !(1..=MOST_PPM).contains(&ppm) {
            return self.problem(
                "rate",
                format!("no clock is slewed at {rate}"),
                "write a rate from 1ppm to 10%",
            );
        }
        self.slews_together(node)?;
        let takes = self.fault.kind.own_length().unwrap_or_default();
        let begins = match &self.fault.when {
            When::At(at) => *at,
            When::After { delay, .. } => *delay,
        };
        let end = self.plan.duration;
        if begins.0.saturating_add(takes.0) > end.0 {
            let by = SignedMicros(by_us);
            return self.problem(
                "by",
                format!(
                    "slewing {by} at {rate} takes {takes}, from {begins} longer than the storm \
                     ({end})"
                ),
                "write less, or a higher rate",
            );
        }
        Ok(())
    }

    fn cancel(&self) -> Result<(), Problem> {
        let FaultKind::Cancel { node, operation, ordinal, suspension, delay } = &self.fault.kind
        else {
            return Ok(());
        };
        self.client(node, "takes no lock", "crash it")?;
        if !FaultKind::CANCELLABLE.contains(operation) {
            return self.problem(
                "operation",
                format!("a {} is not to be cancelled", operation.name()),
                "write acquire or release",
            );
        }
        for (key, number) in [("ordinal", *ordinal), ("await", *suspension)] {
            if number == 0 {
                let what = format!("{key} is 0, and it is counted from 1");
                return self.problem(key, what, "write 1 for the first");
            }
        }
        if *delay >= self.plan.duration {
            let end = self.plan.duration;
            return self.problem(
                "delay",
                format!("a delay of {delay} is as long as the storm ({end})"),
                "write a shorter one",
            );
        }
        if self.fault.kind.own_begin().as_ref() != Some(&self.fault.when) {
            return problem(
                &[&self.at],
                "a cancel begins with its operation, and with nothing else",
                "leave out when it begins",
            );
        }
        Ok(())
    }

    fn may_crash(&self, node: &str) -> Result<(), Problem> {
        if node != STOCK_NODE {
            return Ok(());
        }
        self.problem(
            "node",
            format!("{node} must not crash: its books are what the verdict is judged by"),
            "pause it, or cut it off",
        )
    }

    fn may_stall(&self, node: &str) -> Result<(), Problem> {
        if !node.starts_with("redis-") {
            return self.problem(
                "node",
                format!("{node} replicates nothing"),
                "name a redis server",
            );
        }
        if self.plan.topology.replicas() == 0 {
            return self.problem(
                "node",
                format!("{node} has no replica that could lag"),
                "write redis = 2 or more in [topology], and no redis-mode",
            );
        }
        Ok(())
    }

    fn may_promote(&self, node: &str) -> Result<(), Problem> {
        let servers = self.plan.topology.postgres_nodes();
        if servers.iter().skip(1).any(|standby| standby == node) {
            return Ok(());
        }
        let mend = match servers.len() {
            0 | 1 => "write postgres = 2 in [topology], and name pg-2",
            _ => "name pg-2, or another that follows pg-1",
        };
        self.problem("node", format!("{node} is no standby"), mend)
    }

    fn group(&self, node: &str, group: Option<&str>) -> Result<(), Problem> {
        let known = groups::of_node(node);
        match group {
            Some(name) if !known.contains(&name) => {
                let complaint = Complaint::unknown("task group", name, known.iter().copied());
                let what = format!("{} on {node}", complaint.what);
                self.problem("group", what, complaint.mend)
            }
            _ => Ok(()),
        }
    }

    fn sides(&self, from: &[String], to: &[String]) -> Result<(), Problem> {
        let mut seen = BTreeSet::new();
        for (side, nodes) in [("from", from), ("to", to)] {
            if nodes.is_empty() {
                return self.problem(side, format!("{side} names nobody"), "name a node or more");
            }
            for (position, node) in nodes.iter().enumerate() {
                let at = format!("{}[{position}]", self.key(side));
                known_node(self.plan, &at, node)?;
                if !seen.insert(node) {
                    return problem(
                        &[&at],
                        format!("{node} is named twice"),
                        "name each node once, on one side",
                    );
                }
            }
        }
        Ok(())
    }

    fn extra(&self, extra: Micros) -> Result<(), Problem> {
        if extra == Micros(0) {
            return self.problem("extra", "0s more is no fault", "write a longer time");
        }
        if extra > self.plan.duration {
            return self.problem(
                "extra",
                format!("{extra} more is longer than the storm ({})", self.plan.duration),
                "write a shorter time, or a partition",
            );
        }
        Ok(())
    }

    fn times(&self) -> Result<(), Problem> {
        let end = self.plan.duration;
        let begins = match &self.fault.when {
            When::At(at) if *at >= end => {
                return self.problem(
                    "at",
                    format!("{at} is not before the end of the storm ({end})"),
                    "write an earlier time, or a longer duration",
                );
            }
            When::At(at) => *at,
            When::After { anchor, delay } => {
                self.anchor(anchor)?;
                if *delay >= end {
                    return self.problem(
                        "delay",
                        format!("a delay of {delay} is as long as the storm ({end})"),
                        "write a shorter one",
                    );
                }
                *delay
            }
        };
        match self.fault.lasts {
            Some(_) if self.fault.kind.ends_by_itself() => self.problem(
                "for",
                format!("a {} ends by itself", self.fault.kind.name()),
                "leave `for` out",
            ),
            Some(Micros(0)) => self.problem(
                "for",
                "a fault for 0s is no fault",
                "write a longer time, or leave `for` out to let it last until the storm is over",
            ),
            Some(lasts) if begins.0.saturating_add(lasts.0) > end.0 => self.problem(
                "for",
                format!("lasting {lasts} from {begins}, it ends after the storm ({end})"),
                "write a shorter time, or leave `for` out to let it last until the storm is over",
            ),
            _ => Ok(()),
        }
    }

    fn anchor(&self, anchor: &Anchor) -> Result<(), Problem> {
        let (plan, at) = (self.plan, self.key("after"));
        let apps = plan.topology.app_nodes();
        if !apps.contains(&anchor.client) {
            let known = apps.iter().map(String::as_str);
            let complaint = Complaint::unknown("client", &anchor.client, known);
            return Err(Problem { at: vec![at], complaint });
        }
        if let Err(complaint) = anchor.possible() {
            return Err(Problem { at: vec![at], complaint });
        }
        if anchor.operation == Operation::Read && plan.workload.stock != StockPlace::Memory {
            return problem(
                &[&at],
                "a read of the stock in SQL is told by nobody",
                "write an acquire, a release, or a sell",
            );
        }
        let of_record = matches!(anchor.operation, Operation::Acquire | Operation::Release)
            && matches!(anchor.phase, Phase::Applied | Phase::Replicated);
        let keeps_records = scenario::find_lock(&plan.lock.name).is_ok_and(|lock| lock.records);
        if of_record && !keeps_records {
            return problem(
                &[&at],
                format!(
                    "the lock {} keeps no record that could be {}",
                    quoted(&plan.lock.name),
                    anchor.phase.name()
                ),
                "write invoked or returned",
            );
        }
        let replicates_rows =
            plan.topology.postgres > 1 && plan.lock.name.starts_with("pg-lock-table");
        if anchor.phase == Phase::Replicated && plan.topology.replicas() == 0 && !replicates_rows {
            return problem(
                &[&at],
                "nothing is replicated: no redis server has a replica",
                "write redis = 2 or more in [topology], and no redis-mode, or another phase",
            );
        }
        Ok(())
    }
}

/// From when to when a fault is at work, µs; none for one that waits for an event.
fn span(fault: &Fault) -> Option<(u64, u64)> {
    let When::At(begins) = fault.when else { return None };
    let lasts = fault.lasts.or(fault.kind.own_length()).unwrap_or(Micros(u64::MAX));
    Some((begins.0, begins.0.saturating_add(lasts.0)))
}

/// The most that these slews can make together at one time, ppm: as many run as at the
/// beginning of one of them, and whichever wait for an event may begin then too.
fn most_at_once(slews: &[(Option<(u64, u64)>, i64)]) -> i64 {
    let at = |time_us: u64| {
        let runs = |span: &Option<(u64, u64)>| {
            span.is_none_or(|(begins, ends)| begins <= time_us && time_us < ends)
        };
        slews.iter().filter(|(span, _)| runs(span)).map(|(_, ppm)| ppm).sum::<i64>()
    };
    let begins = slews.iter().filter_map(|(span, _)| span.map(|(begins, _)| begins));
    begins.map(at).max().unwrap_or_else(|| slews.iter().map(|(_, ppm)| ppm).sum())
}
