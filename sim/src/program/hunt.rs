//! `lockstorm hunt`: many plans over worker processes; failures are repeated in a fresh
//! process, asked about under turmoil, and told: the first of its signature in full, the
//! others by counts, or by the line that runs them again.
//!
//! Order of things: [`Setup`] is what the flags ask for; `walk` goes the course and writes
//! down, `examine` looks at failures again, `tell` prints, `conclude` writes the files of a
//! campaign. [`finish`] is also what `merge` ends with.

mod conclude;
mod examine;
mod tell;
pub(super) mod walk;

use std::path::{Path, PathBuf};
use std::time::Duration;

use lockstorm_sim::check::Verdict;
use lockstorm_sim::hunt::Quarry;
use lockstorm_sim::hunt::campaign::{Before, IDENTITY_FILE, Identity, Journal, SCHEMA};
use lockstorm_sim::hunt::certificate::Certificate;
use lockstorm_sim::hunt::course::{Course, DEFAULT_RUNS, Seeds, Shard, Strategy};
use lockstorm_sim::hunt::examine::Examiner;
use lockstorm_sim::plan::Seed;
use lockstorm_sim::report::layout::{counted, grouped};
use lockstorm_sim::storm;
use lockstorm_sim::storm::environment::Environment;

use super::arguments::{DrawsArgument, Format, HuntArguments, StormArguments, StrategyArgument};
use super::exit::{self, Failure};
use super::plan_folder::PlanFolder;
use super::progress::is_quiet;
use super::run::quarry;
use super::say::{complain, say};
use walk::Walk;

/// What the flags ask for.
#[derive(Debug)]
pub struct Setup {
    /// For the commands that run a plan again.
    pub storm: StormArguments,
    /// What is hunted.
    pub quarry: Quarry,
    /// How.
    pub strategy: Strategy,
    /// From which seeds.
    pub seeds: Seeds,
    /// How many runs, if that was said.
    pub runs: Option<u64>,
    /// Until its time is over, of a campaign that was given no number of runs.
    pub endless: bool,
    /// How long, real time.
    pub duration: Option<Duration>,
    /// Which part.
    pub shard: Option<Shard>,
    /// Worker processes.
    pub jobs: u16,
    /// Whether everything is run again and compared.
    pub twice: bool,
    /// Whether all is written down.
    pub is_campaign: bool,
    /// Where.
    pub out: Option<PathBuf>,
    /// How it is told.
    pub format: Format,
    /// Who runs a failure again.
    pub examiner: Examiner,
    /// Whether what is kept is shrunk.
    pub shrinks: bool,
}

/// `lockstorm hunt`.
pub fn hunt(arguments: &HuntArguments, environment: &Environment) -> Result<u8, Failure> {
    let arguments = &arguments.within(environment)?;
    let setup = Setup::of(arguments)?;
    let against = arguments.against.as_deref().map(read_certificate).transpose()?;
    let mut course = setup.course()?;
    if let (Some(old), Some(new)) =
        (&against, course.certificate(&setup.quarry, &Default::default()))
        && old.head.subject != new.head.subject
    {
        return Err(Failure::usage(format!(
            "--against: this certificate is of {}, and {} is hunted; write the same flags",
            subject(old),
            subject(&new)
        )));
    }
    let folder = setup.out.as_deref().map(PlanFolder::open).transpose()?;
    let journal = match (setup.is_campaign, &setup.out) {
        (true, Some(out)) => Some(Journal::open(out, &setup.identity()?).map_err(Failure::Usage)?),
        _ => None,
    };
    if let (Some(journal), Some(out)) = (&journal, &setup.out)
        && let Some(before) = journal.before()
        && !is_quiet()
    {
        complain(goes_on(out, before, journal.elapsed_s(), setup.duration));
    }
    if !is_quiet() {
        setup.in_time(&course).into_iter().for_each(complain);
    }
    let mut walk = Walk::new(&setup, folder, journal);
    walk.go(&mut course)?;
    finish(&setup, &course, walk, against.as_ref())
}

/// From where a campaign goes on, and what of it is left.
fn goes_on(out: &Path, before: Before, hunted_s: u64, wanted: Option<Duration>) -> String {
    let (runs, cut) = (counted(before.runs, "run"), if before.is_cut { CUT } else { "" });
    let left = match wanted.map(|wanted| wanted.as_secs().saturating_sub(hunted_s)) {
        None => String::new(),
        Some(0) => "; its time is over, so nothing new is run: ask for more with --for".to_owned(),
        Some(left) => format!("; {} s are left", grouped(left)),
    };
    format!(
        "{}: goes on with the campaign there: {runs} in {} s so far, not made again{cut}{left}",
        out.display(),
        grouped(hunted_s)
    )
}

const CUT: &str = ", and one that was cut short, which is";

/// Examines, tells, writes the files of the end; the exit code.
fn finish(
    setup: &Setup,
    course: &Course,
    mut walk: Walk<'_>,
    against: Option<&Certificate>,
) -> Result<u8, Failure> {
    let examiner = setup.examiner.within(setup.afterwards());
    let (examined, unwritten) = examine::examine_all(setup, &examiner, &walk)?;
    walk.unwritten = walk.unwritten.take().or(unwritten);
    let twin = conclude::twin(setup, &examiner, &walk)?;
    tell::tell(setup, course, &walk, &examined, twin.as_ref());
    conclude::write(setup, course, &mut walk, &examined, twin.as_ref());
    if let Some(failure) = walk.unwritten.take() {
        return Err(failure);
    }
    let nondeterministic = examined.iter().any(|failure| failure.is_nondeterministic());
    if nondeterministic {
        return Ok(Verdict::Nondeterminism.exit_code());
    }
    if let (Some(old), Some(new)) =
        (against, course.certificate(&setup.quarry, &walk.book.outcomes))
    {
        return Ok(compare(old, &new, setup.format));
    }
    let is_blind = twin.is_some_and(|twin| !twin.is_seen());
    let verdict = walk.book.verdict();
    // A blind harness has not seen that anything is safe.
    Ok(if is_blind && verdict.is_safe() { Verdict::Unknown } else { verdict }.exit_code())
}

fn read_certificate(path: &Path) -> Result<Certificate, Failure> {
    let failed = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    Certificate::parse(&text).map_err(failed)
}

fn subject(certificate: &Certificate) -> String {
    let words = certificate.head.subject.iter().map(|(name, value)| format!("{name} {value}"));
    words.collect::<Vec<_>>().join(", ")
}

/// Tells what differs, beside JSON on standard error; the exit code.
fn compare(old: &Certificate, new: &Certificate, format: Format) -> u8 {
    let tell = |line: &str| match format {
        Format::Text => say(line),
        Format::Json => complain(line),
    };
    let differences = new.differences(old);
    if differences.is_empty() {
        tell("the certificate agrees with the older one");
        return exit::SAFE;
    }
    tell("the certificate differs from the older one (-):");
    differences.iter().for_each(|line| tell(line));
    exit::VIOLATION
}

/// A campaign that has hunted for its time looks at what it found for so much of it at
/// most, real time …
const AFTERWARDS_PART: u32 = 10;
/// … or for so long, where that is more.
const AFTERWARDS_LEAST: Duration = Duration::from_secs(60);

impl Setup {
    /// How long the failures of a campaign may be examined when its time is over. What has
    /// no time any more is told as it was found.
    fn afterwards(&self) -> Option<Duration> {
        self.duration.map(|duration| (duration / AFTERWARDS_PART).max(AFTERWARDS_LEAST))
    }

    fn of(arguments: &HuntArguments) -> Result<Setup, Failure> {
        let mut storm = arguments.storm.clone();
        storm.draws = storm.draws.or(Some(DrawsArgument::Wide));
        let quarry = quarry(&storm)?;
        let default =
            if storm.change.calm { StrategyArgument::Swarm } else { StrategyArgument::Portfolio };
        let strategy = arguments.strategy.unwrap_or(default).strategy();
        if arguments.against.is_some() && strategy != Strategy::Certify {
            return Err(Failure::usage("--against compares certificates; add --strategy certify"));
        }
        if storm.change.calm && strategy != Strategy::Swarm {
            let name = strategy.name();
            return Err(Failure::usage(format!(
                "--calm --strategy {name}: calm weather has no faults to try; leave out one of the \
                 two"
            )));
        }
        let program = std::env::current_exe().map_err(Failure::internal)?;
        let setup = Setup {
            storm,
            strategy,
            seeds: seeds(arguments)?,
            runs: arguments.seeds,
            endless: arguments.duration.is_some() && arguments.seeds.is_none(),
            duration: arguments.duration,
            shard: arguments.shard,
            jobs: arguments.jobs,
            twice: arguments.twice,
            is_campaign: arguments.duration.is_some() || arguments.shard.is_some(),
            out: arguments.out.clone(),
            format: arguments.format,
            examiner: Examiner::new(program, arguments.seed_limit),
            shrinks: !arguments.no_shrink,
            quarry,
        };
        let first = setup.seeds.first;
        let count = setup.runs.unwrap_or(DEFAULT_RUNS);
        if first.0.checked_add(count - 1).is_none() {
            return Err(Failure::usage(format!(
                "--seed {first} --seeds {count}: there are no seeds beyond 0x{:x}; begin earlier \
                 or ask for fewer",
                u64::MAX
            )));
        }
        // Refuse bad flags before any worker is started.
        setup.quarry.plan(first)?;
        Ok(setup)
    }

    /// What somebody would rather know before the hunt than after it.
    fn in_time(&self, course: &Course) -> Vec<String> {
        let mut lines: Vec<String> = course.too_few_for_pairs().into_iter().collect();
        if let (false, Some(out)) = (self.is_campaign, &self.out) {
            lines.push(format!(
                "{}: what is found is kept there, and no journal: stopped, this hunt begins anew; \
                 for a campaign, which goes on where it was, add --for DURATION",
                out.display()
            ));
        }
        lines
    }

    fn course(&self) -> Result<Course, Failure> {
        let engine = storm::engine(&self.quarry.engine)
            .ok_or_else(|| Failure::internal("the engine is missing"))?;
        let Setup { quarry, strategy, seeds, runs, endless, .. } = self;
        Ok(Course::new(quarry, engine, *strategy, *seeds, *runs, *endless)?)
    }

    /// Which hunt this is.
    fn identity(&self) -> Result<Identity, Failure> {
        let program = std::fs::read(&self.examiner.program).map_err(Failure::internal)?;
        Ok(Identity {
            schema: SCHEMA,
            lockstorm: env!("CARGO_PKG_VERSION").to_owned(),
            build: blake3::hash(&program).to_hex()[..16].to_owned(),
            quarry: self.quarry.clone(),
            strategy: self.strategy,
            seeds: self.seeds,
            runs: self.runs,
            endless: self.endless,
            shard: self.shard,
        })
    }

    /// What `merge` goes on with.
    pub fn of_merged(identity: Identity, program: PathBuf, out: PathBuf) -> Setup {
        let quarry = identity.quarry;
        Setup {
            storm: StormArguments::of(&quarry),
            quarry,
            strategy: identity.strategy,
            seeds: identity.seeds,
            runs: identity.runs,
            endless: identity.endless,
            duration: None,
            shard: None,
            jobs: 1,
            twice: false,
            is_campaign: true,
            out: Some(out),
            format: Format::Text,
            examiner: Examiner::new(program, Duration::from_secs(120)),
            shrinks: true,
        }
    }
}

/// The merged journal is read as if it had been interrupted at its end.
pub fn finish_merged(setup: &Setup) -> Result<u8, Failure> {
    let out = setup.out.as_deref().unwrap_or(Path::new("."));
    let path = out.join(IDENTITY_FILE);
    let text = std::fs::read_to_string(&path).map_err(Failure::internal)?;
    let identity: Identity = serde_json::from_str(&text).map_err(Failure::internal)?;
    let mut course = setup.course()?;
    let journal = Journal::open(out, &identity).map_err(Failure::Usage)?;
    let mut walk = Walk::new(setup, Some(PlanFolder::open(out)?), Some(journal));
    walk.read_only = true;
    walk.go(&mut course)?;
    finish(setup, &course, walk, None)
}

/// Fresh seeds by date for a campaign, and the ones it has when it goes on.
fn seeds(arguments: &HuntArguments) -> Result<Seeds, Failure> {
    if let Some(seed) = arguments.seed {
        return Ok(Seeds { first: seed, calm: seed });
    }
    let calm = Seed(0);
    let Some(out) = arguments.out.as_deref().filter(|_| arguments.duration.is_some()) else {
        return Ok(Seeds { first: Seed(0), calm });
    };
    let known = std::fs::read_to_string(out.join(IDENTITY_FILE)).ok();
    let known = known.and_then(|text| serde_json::from_str::<Identity>(&text).ok());
    Ok(known.map_or_else(|| Seeds { first: seed_of_today(), calm }, |identity| identity.seeds))
}

/// `0x2026113000000000`: the date in UTC, read as hex, and room for as many seeds as a day
/// can run.
#[expect(clippy::disallowed_methods, reason = "which day it is; no storm reads it")]
fn seed_of_today() -> Seed {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    seed_of_day(since.map_or(0, |since| since.as_secs() / 86_400))
}

/// Of a day after 1970-01-01; the calendar after Howard Hinnant's `civil_from_days`.
fn seed_of_day(days: u64) -> Seed {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let digits = format!("{year:04}{month:02}{day:02}");
    Seed(u64::from_str_radix(&digits, 16).unwrap_or(0) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_seeds_are_dates() {
        for (days, seed) in [
            (0, "0x1970010100000000"),
            (11_016, "0x2000022900000000"),
            (20_787, "0x2026113000000000"),
            (20_788, "0x2026120100000000"),
        ] {
            assert_eq!(seed_of_day(days).to_string(), seed);
        }
    }
}
