//! Families of faults that strike alone: the columns of the matrix.
//!
//! A storm of a hunt has several families at once; here a plan has faults of one, and the
//! circumstances without which it could show nothing (a clock matters where sections last as
//! long as leases, a disk where servers wait for it). What of it a seed draws, it draws
//! from streams of the family's own name.
//!
//! Order of things: [`LoneFamily`] and [`LONE_FAMILIES`], the table; circumstances; then the
//! strikes in the order of the table, those against servers in `servers`.

mod clients;
mod servers;

use super::families::master;
use super::{Plan, Seed, Weather};
use crate::draw::Draw;
use crate::plan::complaint::Complaint;
use crate::plan::{Fault, Micros, PlanError, RedisPersistence, StockPlace};

/// A family of faults that can strike alone.
#[derive(Clone, Copy)]
pub struct LoneFamily {
    /// Its name after `--families`.
    pub name: &'static str,
    /// What strikes, in one line.
    pub english: &'static str,
    /// The same in Chinese.
    pub chinese: &'static str,
    /// Whether such a thing can happen in this plan.
    at_home: fn(&Plan) -> bool,
    /// What else must be so for it to matter.
    circumstances: fn(&mut Plan, &mut Draw),
    /// What it is this time.
    strike: fn(&Weather<'_>, &mut Draw) -> Vec<Fault>,
}

impl std::fmt::Debug for LoneFamily {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("LoneFamily").field(&self.name).finish()
    }
}

impl LoneFamily {
    /// Whether its faults can happen in this plan.
    pub fn is_at_home(&self, plan: &Plan) -> bool {
        (self.at_home)(plan)
    }

    /// Whether it has faults at all: one of them is the calm that the others are compared with.
    pub fn has_faults(&self) -> bool {
        self.name != NO_FAULT
    }
}

/// The family without faults.
pub const NO_FAULT: &str = "none";

const fn family(
    name: &'static str,
    english: &'static str,
    chinese: &'static str,
    strike: fn(&Weather<'_>, &mut Draw) -> Vec<Fault>,
) -> LoneFamily {
    LoneFamily { name, english, chinese, at_home: |_| true, circumstances: attentive, strike }
}

impl LoneFamily {
    const fn at(self, at_home: fn(&Plan) -> bool) -> LoneFamily {
        LoneFamily { at_home, ..self }
    }

    const fn when(self, circumstances: fn(&mut Plan, &mut Draw)) -> LoneFamily {
        LoneFamily { circumstances, ..self }
    }
}

/// All of them.
pub const LONE_FAMILIES: &[LoneFamily] = &[
    family(NO_FAULT, "no fault", "无故障", |_, _| Vec::new())
        .when(as_it_is),
    family("holder-crash", "the holder's program or machine dies", "持有者进程或机器崩溃", clients::crash),
    family(
        "holder-pause",
        "the holder stands still for longer than its lease; some clients look at the clock afterwards, some do not",
        "持有者停顿超过租约；醒来后有的看时钟，有的不看",
        clients::pause,
    )
    .when(some_careless_and_long),
    family(
        "renewer-pause",
        "the task that renews stands still, the work goes on",
        "续期任务停住，业务照常进行",
        clients::renewer,
    )
    .at(clients::has_renewer)
    .when(long_and_some_careless),
    family(
        "holder-hang",
        "the holder's work stands still, the rest of its program goes on",
        "持有者的业务挂住，程序其余部分照常运行",
        clients::hang,
    )
    .when(some_careless_and_long),
    family(
        "holder-cut-off",
        "the holder loses sight of the lock's servers",
        "持有者与锁服务器断开",
        clients::cut_off,
    )
    .at(has_servers),
    family(
        "one-way-cut",
        "requests arrive, replies do not",
        "请求能到，应答回不来",
        clients::one_way,
    )
    .at(has_servers),
    family(
        "slow-link",
        "messages between a client and the servers, or the stock, take longer",
        "客户端与服务器或库存之间的消息变慢",
        clients::slow_link,
    ),
    family(
        "reply-lost",
        "a connection breaks when the request has been applied",
        "请求已执行，连接断开，应答丢失",
        clients::reply_lost,
    ),
    family(
        "request-lost",
        "a connection breaks before the request is applied",
        "请求未执行，连接断开",
        clients::request_lost,
    ),
    family("cancel", "a client drops an acquire or a release half-way", "客户端中途放弃加锁或释放", clients::cancel),
    family(
        "server-process-crash",
        "a server's program dies and is started again",
        "服务器进程崩溃后重启",
        servers::process_crash,
    )
    .at(has_servers),
    family(
        "server-machine-crash",
        "a server's machine dies, with what its disk has not kept",
        "服务器机器崩溃，未落盘的数据丢失",
        servers::machine_crash,
    )
    .at(has_servers),
    family("server-pause", "a server stands still", "服务器停顿", servers::pause).at(has_servers),
    family(
        "split",
        "the deciding server and some clients are cut off from the rest",
        "主导的服务器与部分客户端一起被隔开",
        servers::split,
    )
    .at(has_several_servers),
    family(
        "lagging-failover",
        "the deciding server dies while others are behind it, and one of them takes over",
        "主导的服务器在其余落后时崩溃，由落后者接替",
        servers::lagging_failover,
    )
    .at(can_fail_over),
    family(
        "clock-rate",
        "a server's or a client's clocks run 0.05 % to 20 % fast or slow",
        "服务器或客户端的时钟快慢 0.05 % 至 20 %",
        servers::clock_rate,
    )
    .at(has_servers)
    .when(as_long_as_leases),
    family("clock-step", "a server's wall clock jumps", "服务器的墙上时钟跳变", servers::clock_step)
        .at(has_servers)
        .when(as_long_as_leases),
    family(
        "clock-slew",
        "a server's or a client's clocks are slewed",
        "服务器或客户端的时钟被渐进校正",
        servers::clock_slew,
    )
    .at(has_servers)
    .when(as_long_as_leases),
    family(
        "clock-freeze",
        "a server's wall clock stands still",
        "服务器的墙上时钟停走",
        servers::clock_freeze,
    )
    .at(has_servers)
    .when(as_long_as_leases),
    family(
        "disk",
        "a server's disk is slow, stands still or fails; Redis synchronises its file before it answers",
        "服务器磁盘变慢、停滞或出错；Redis 先落盘再应答",
        servers::disk,
    )
    .at(has_servers)
    .when(synchronised),
];

/// The family of this name.
///
/// # Errors
/// A complaint with the known names.
pub fn find_family(name: &str) -> Result<&'static LoneFamily, Complaint> {
    LONE_FAMILIES.iter().find(|family| family.name == name).ok_or_else(|| {
        let known = LONE_FAMILIES.iter().map(|family| family.name);
        Complaint::unknown("family of faults", name, known)
    })
}

impl Plan {
    /// What `seed` draws for the storm of `base`, which has no faults, when this family of
    /// faults strikes alone.
    ///
    /// # Errors
    /// An unknown family.
    pub fn struck_by(base: Plan, family: &str, seed: Seed) -> Result<Plan, PlanError> {
        let family = find_family(family);
        let family = family.map_err(|complaint| PlanError::named("--families", complaint))?;
        let mut plan = Plan { seed, ..base };
        let stream = format!("plan/alone/{}", family.name);
        (family.circumstances)(&mut plan, &mut Draw::new(seed.0, &stream, "circumstances"));
        let weather = Weather { plan: &plan };
        plan.faults = (family.strike)(&weather, &mut Draw::new(seed.0, &stream, "what"));
        Ok(plan)
    }
}

/// Clients look at their deadline, and enough sections last for a good part of the lease for a
/// fault to find somebody inside until others have noticed it.
fn attentive(plan: &mut Plan, _: &mut Draw) {
    plan.workload.slow_work = Micros(plan.lock.lease.0 / 2);
    plan.workload.slow_per_mille = 300;
}

/// As the scenario has it.
fn as_it_is(_: &mut Plan, _: &mut Draw) {}

/// In half of the plans clients do not look at their deadline; their work alone is short. The
/// storm has room for whoever stands still for two leases.
fn some_careless_and_long(plan: &mut Plan, draw: &mut Draw) {
    plan.duration = plan.duration.max(Micros(plan.lock.lease.0 * 4));
    plan.workload.slow_per_mille = 0;
    plan.workload.deadline_check = draw.chance(500);
}

/// Sections of a lease and more, which only a renewed lock bears.
fn long_and_some_careless(plan: &mut Plan, draw: &mut Draw) {
    let lease_us = plan.lock.lease.0;
    plan.duration = plan.duration.max(Micros(lease_us * 4));
    plan.workload.work = Micros(lease_us / 2);
    plan.workload.slow_work = Micros(lease_us / 2 * 3);
    plan.workload.slow_per_mille = 500;
    plan.workload.patience = Micros(lease_us * 2);
    plan.workload.deadline_check = draw.chance(500);
}

/// Sections that last until the lease ends, of clients that look at their deadline.
fn as_long_as_leases(plan: &mut Plan, _: &mut Draw) {
    let lease_us = plan.lock.lease.0.min(3_000_000);
    plan.lock.lease = Micros(lease_us);
    plan.duration = plan.duration.max(Micros(12_000_000));
    plan.workload.slow_work = Micros(lease_us / 10 * 8);
    plan.workload.slow_per_mille = 800;
    plan.workload.patience = Micros(lease_us * 2);
}

/// Where a server's disk matters.
fn synchronised(plan: &mut Plan, draw: &mut Draw) {
    attentive(plan, draw);
    if plan.topology.redis > 0 {
        plan.topology.persistence = RedisPersistence::AofAlways;
    }
}

/// Whether the plan's lock, or its stock, is kept by servers that can be struck.
fn has_servers(plan: &Plan) -> bool {
    uses_servers(plan) && !plan.topology.lock_servers().is_empty()
}

fn has_several_servers(plan: &Plan) -> bool {
    uses_servers(plan) && plan.topology.lock_servers().len() > 1
}

fn can_fail_over(plan: &Plan) -> bool {
    let topology = &plan.topology;
    let redis = topology.replicas() > 0 && topology.sentinels > 0;
    uses_servers(plan) && (redis || topology.zookeeper > 2 || topology.postgres > 1)
}

/// Where nobody asks the servers nothing that strikes them matters.
fn uses_servers(plan: &Plan) -> bool {
    plan.lock.name != "none" || plan.workload.stock != StockPlace::Memory
}

/// Mostly the server that decides at first, else any.
fn server(weather: &Weather<'_>, draw: &mut Draw) -> String {
    let servers = weather.plan.topology.lock_servers();
    let any = draw.pick(&servers).cloned();
    let first = draw.chance(700);
    any.filter(|_| !first).unwrap_or_else(|| master(weather.plan))
}

#[cfg(test)]
mod tests;
