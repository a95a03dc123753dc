//! `lockstorm serve --plan`: a plan's servers and faults for programs outside.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;

use lockstorm::host::BoxFuture;
use lockstorm_sim::check::InertFault;
use lockstorm_sim::history::file as history_file;
use lockstorm_sim::history::file::Recorded;
use lockstorm_sim::history::{Event, What};
use lockstorm_sim::plan::Plan;
use lockstorm_sim::report::recorded::Told;
use lockstorm_sim::storm::served::doors::{self, Door};
use lockstorm_sim::storm::served::{self, Serving, refusal};
use lockstorm_sim::whole_file;

use super::arguments::ServePlan;
use super::exit::Failure;
use super::plan_source::load_any;
use super::run::quarry;
use super::say::{complain, manner, say};

/// Serves until the plan's time is over or somebody interrupts; the exit code is the verdict's.
pub fn serve(arguments: &ServePlan) -> Result<u8, Failure> {
    let plan = plan(arguments)?;
    refusal::check(&plan).map_err(|why| Failure::usage(format!("serve: {why}")))?;
    let doors = doors::open(&plan, Ipv4Addr::LOCALHOST.into(), arguments.port);
    let doors = doors.map_err(|error| {
        Failure::usage(format!("{error}; choose others with --port, 0 takes free ones"))
    })?;
    if let Some(path) = &arguments.ports {
        whole_file::write(path, &table(&doors))
            .map_err(|error| unwritten("--ports", path, error))?;
    }
    say(opening(&plan, &doors, &arguments.locks));
    let run = served::serve(
        &plan,
        Serving {
            doors,
            locks: arguments.locks.clone(),
            until: interrupted(),
            news: Arc::new(|event| news(event).into_iter().for_each(say)),
        },
    );
    if let Some(why) = run.ending.told() {
        complain(format!("the sitting came to no end: {why}"));
    }
    let failure = arguments.history.as_ref().and_then(|path| {
        let saved = history_file::save(path, &run.header(), &run.history);
        saved.err().map(|error| unwritten("--history", path, error))
    });
    let name = arguments.history.as_ref().map(|path| path.display().to_string());
    let name = name.unwrap_or_else(|| format!("{}, seed {}", plan.scenario, plan.seed));
    let (header, judgement) = (run.header(), &run.judgement);
    let recorded = Recorded { header, history: run.history.clone(), lines: Vec::new() };
    say("");
    say(Told { file: &name, recorded: &recorded, judgement }.text(&manner()));
    judgement.goals.inert.iter().map(inert).for_each(say);
    match failure {
        // After what it came to: that is not lost with its history.
        Some(failure) => Err(failure),
        None => Ok(judgement.verdict.exit_code()),
    }
}

/// A file that could not be written.
fn unwritten(flag: &str, path: &Path, error: impl Display) -> Failure {
    let mend = "look at the path and its rights, or name another file";
    Failure::usage(format!("{flag} {}: {error}; {mend}", path.display()))
}

/// The plan that is asked for.
fn plan(arguments: &ServePlan) -> Result<Plan, Failure> {
    let storm = &arguments.storm;
    if storm.engine.is_some() {
        let what = "--engine: programs outside are served in real time, on no engine; leave it out";
        return Err(Failure::usage(what));
    }
    if storm.change.fence.is_some() {
        let what = "--fence: what programs outside do at their resource is theirs; leave it out";
        return Err(Failure::usage(what));
    }
    match (&arguments.plan, arguments.seed) {
        (Some(path), _) => storm.change.of_file(load_any(path)?),
        (None, Some(seed)) => Ok(quarry(storm)?.plan(seed)?),
        (None, None) => Err(Failure::usage(
            "serve: name a server (redis, zookeeper, postgres), or a plan with --plan or --seed",
        )),
    }
}

/// What is said before anybody comes.
fn opening(plan: &Plan, doors: &[Door], locks: &str) -> String {
    let faults = match plan.faults.len() {
        0 => "no faults".to_owned(),
        1 => "1 fault".to_owned(),
        many => format!("{many} faults"),
    };
    let mut lines = vec![
        format!(
            "{}, seed {}: {faults} in {}, on {} ports of {}",
            plan.scenario,
            plan.seed,
            plan.duration,
            doors.len(),
            Ipv4Addr::LOCALHOST
        ),
        "In real time: what happens is the plan's, its moments are not the same twice. A run of"
            .to_owned(),
        "this is seeded, not deterministic, and nothing replays it.".to_owned(),
        format!(
            "Locks: Redis keys that begin with `{locks}`, numbered ephemeral znodes, advisory locks."
        ),
        String::new(),
    ];
    for door in doors {
        lines.push(format!("  {:<6}  {:<11} {}", door.app, door.server, door.address));
    }
    lines.push(String::new());
    lines.push(
        "The plan's time begins with the first connection; Ctrl-C ends it sooner.".to_owned(),
    );
    lines.join("\n")
}

/// The doors for programs: by app, by server.
fn table(doors: &[Door]) -> String {
    let mut apps: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for door in doors {
        apps.entry(&door.app).or_default().insert(&door.server, door.address.to_string());
    }
    // Maps of text: it cannot fail.
    serde_json::to_string_pretty(&apps).unwrap_or_default() + "\n"
}

/// A fault that did nothing, and why that may be.
fn inert(inert: &InertFault) -> String {
    let number = inert.fault + 1;
    match inert.began {
        Some(_) => format!("  fault {number} was inert, it met nobody: {}", inert.description),
        None => format!("  fault {number} was inert: what it waited for never came"),
    }
}

/// What is said of an event as it happens.
fn news(event: &Event) -> Option<String> {
    let node = &event.node;
    let what = match &event.what {
        What::FaultBegan { description, .. } => description.clone(),
        What::FaultTouched { how, .. } => how.clone(),
        What::FaultEnded { fault } => format!("fault {} is over", fault + 1),
        What::MasterSwitched { from, to } => format!("{node} names {to} the master, not {from}"),
        What::Promoted { .. } => format!("{node} is promoted"),
        What::Leading { epoch } => format!("{node} leads, epoch {epoch}"),
        What::ProgramEnded { how } => format!("the program of {node} has ended: {how}"),
        What::Healed => "every fault is over".to_owned(),
        _ => return None,
    };
    let (seconds, millis) = (event.at_us / 1_000_000, event.at_us / 1_000 % 1_000);
    Some(format!("{seconds:>5}.{millis:03} s  {what}"))
}

/// Completes when somebody wants this to end: Ctrl-C, or a termination. Where no signal can be
/// waited for, the plan's time ends it.
fn interrupted() -> BoxFuture<'static, ()> {
    Box::pin(async {
        let asked = async {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let (mut asked, mut terminated) = (std::pin::pin!(asked), std::pin::pin!(terminated()));
        std::future::poll_fn(|context| match asked.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => terminated.as_mut().poll(context),
        })
        .await;
    })
}

async fn terminated() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut signals) = signal(SignalKind::terminate()) {
            signals.recv().await;
            return;
        }
    }
    std::future::pending::<()>().await;
}
