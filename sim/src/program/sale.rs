//! `lockstorm sale`: a whole flash sale in storms, with all its layers or without some.

use clap::{Args, ValueEnum};
use lockstorm_sim::check::Verdict;
use lockstorm_sim::plan::scenario::{LOCKS, LockKind, Needs, find_lock};
use lockstorm_sim::plan::{Complaint, PlanError, Seed, file};
use lockstorm_sim::sale::campaign::Request;
use lockstorm_sim::sale::{GateBy, Part, SaleRun, Setup, Way, shrunk};
use lockstorm_sim::storm;

use super::arguments::EngineArgument;
use super::exit::Failure;
use super::progress::Progress;
use super::say::say;

/// `sale`.
#[derive(Debug, Args)]
pub struct SaleArguments {
    /// The first seed.
    #[arg(long, default_value = "0x0")]
    pub seed: Seed,
    /// How many seeds; of one the whole story is told.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub seeds: u64,
    /// The naive sale: the stock is read and written later, the books take what they are told.
    #[arg(long, conflicts_with = "pessimistic")]
    pub naive: bool,
    #[arg(long, requires = "naive", help = locks())]
    pub lock: Option<String>,
    /// The sale in the database alone: each request locks the row of the stock.
    #[arg(long)]
    pub pessimistic: bool,
    /// What the gate before the database looks at.
    #[arg(long, value_enum, default_value_t = GateArgument::Count, requires = "pessimistic")]
    pub gate_by: GateArgument,
    #[arg(long, value_name = "PART,…", value_delimiter = ',', help = parts())]
    pub without: Vec<Part>,
    /// The database has an asynchronous standby that may be promoted: its books then forget
    /// what they have acknowledged.
    #[arg(long, conflicts_with = "pessimistic")]
    pub standby: bool,
    /// Nothing goes wrong.
    #[arg(long)]
    pub calm: bool,
    /// How many units there are.
    #[arg(long, default_value_t = Setup::default().units, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub units: u32,
    /// How many buyers there are for each unit.
    #[arg(long, default_value_t = Setup::default().demand, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub demand: u32,
    /// How many buyers come each second while the rush lasts.
    #[arg(long, value_name = "BUYERS", default_value_t = Setup::default().rush_per_second, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rush: u32,
    /// What carries the storms.
    #[arg(long, value_enum, default_value_t = EngineArgument::Event)]
    pub engine: EngineArgument,
    /// How many storms at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
}

/// `--gate-by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GateArgument {
    /// How many are inside.
    Count,
    /// How long somebody waits for a connection.
    PoolWait,
}

/// Whether a lock can be held around the deduction: it needs no more than a sale has.
fn fits(lock: &LockKind) -> bool {
    let needs = [Needs::Master, Needs::Replicas, Needs::Sentinel, Needs::Ensemble];
    needs.contains(&lock.needs) && !lock.has_readers()
}

fn locks() -> String {
    let names = LOCKS.iter().filter(|lock| fits(lock)).map(|lock| lock.name);
    format!("With this lock around it, of: {}", names.collect::<Vec<_>>().join(", "))
}

fn parts() -> String {
    let names = Part::ALL.iter().map(|part| part.name());
    format!("Without these parts, of: {}", names.collect::<Vec<_>>().join(", "))
}

impl SaleArguments {
    fn request(&self) -> Result<Request, Failure> {
        if self.seed.0.checked_add(self.seeds - 1).is_none() {
            let (first, last) = (self.seed, u64::MAX);
            return Err(Failure::usage(format!(
                "--seed {first} --seeds {}: there are no seeds beyond 0x{last:x}; begin earlier or \
                 ask for fewer",
                self.seeds
            )));
        }
        let way = match (self.naive, self.pessimistic) {
            (true, _) => Way::Naive,
            (_, true) => Way::Pessimistic,
            _ => Way::Shelf,
        };
        let lock = self.lock.as_ref();
        if let Some(lock) = lock.filter(|lock| !find_lock(lock).is_ok_and(fits)) {
            let known = LOCKS.iter().filter(|lock| fits(lock)).map(|lock| lock.name);
            return Err(PlanError::named("--lock", Complaint::unknown("lock", lock, known)).into());
        }
        let gate_by = match self.gate_by {
            GateArgument::Count => GateBy::Count,
            GateArgument::PoolWait => GateBy::PoolWait,
        };
        let setup = Setup {
            units: self.units,
            demand: self.demand,
            rush_per_second: self.rush,
            way,
            lock: self.lock.clone(),
            gate_by,
            without: self.without.clone(),
            has_standby: self.standby,
            ..Setup::default()
        };
        let whole = Setup { without: Vec::new(), ..setup.clone() };
        if let Some(part) = self.without.iter().find(|part| !whole.has(**part)) {
            return Err(Failure::usage(format!(
                "--without {part}: this sale does not have it in the first place; leave it out"
            )));
        }
        Ok(Request {
            setup,
            first: self.seed,
            seeds: self.seeds,
            has_faults: !self.calm,
            jobs: usize::from(self.jobs),
        })
    }
}

/// `lockstorm sale`. The exit code is that of the verdict on all.
pub fn sale(arguments: &SaleArguments) -> Result<u8, Failure> {
    let request = arguments.request()?;
    let name = arguments.engine.name();
    let engine = storm::engine(name)
        .ok_or_else(|| Failure::internal(format!("there is no engine {name}")))?;
    if request.seeds == 1 {
        let run = request.storm(request.first).run(engine.as_ref());
        say(story(&run));
        if run.judged.verdict == Verdict::Violation && !run.storm.plan.faults.is_empty() {
            say(format!(
                "\nwithout what it does not need:\n{}",
                story(&shrunk(&run, engine.as_ref()))
            ));
        }
        return Ok(run.judged.verdict.exit_code());
    }
    let bar = Progress::new("sales", Some(request.seeds));
    let campaign = request.run(engine.as_ref(), || bar.inc());
    drop(bar);
    say(campaign.text().trim_end());
    Ok(campaign.verdict().exit_code())
}

/// One sale, told.
fn story(run: &SaleRun) -> String {
    let (plan, judged) = (&run.storm.plan, &run.judged);
    let mut lines = vec![format!(
        "sale {} on {}: {}, {} of {} sold, trace {}",
        plan.seed,
        run.run.engine,
        judged.verdict,
        judged.sold,
        run.storm.setup.units,
        run.run.trace_hash
    )];
    lines.extend(plan.faults.iter().map(|fault| format!("  fault  {}", file::inline_fault(fault))));
    lines.extend(judged.broken.iter().map(|one| format!("  {}: {one}", one.kind())));
    lines.extend(judged.unknown.map(|why| format!("  unknown: {why}")));
    lines.extend(run.run.ending.told().map(|why| format!("  {why}")));
    for difference in run.facts.differences().unwrap_or_default() {
        lines.push(format!("  in the end: {difference:?}"));
    }
    for (node, used) in run.facts.connections() {
        lines.push(format!(
            "  {node}: {} connections at most, {} times none in time, longest wait {} ms; of {} \
             other questions {} had no answer in time",
            used.peak,
            used.refusals,
            used.longest_wait.as_millis(),
            used.others,
            used.others_failed
        ));
    }
    if let Some((median, slowest)) = run.facts.latency_us() {
        let ms = |us: u64| us / 1_000;
        lines.push(format!(
            "  first answer after {} ms (median), {} ms (99 %)",
            ms(median),
            ms(slowest)
        ));
    }
    for (step, count) in run.facts.funnel.all() {
        lines.push(format!("  {:<17} {count:>6}", step.name()));
    }
    lines.join("\n")
}
