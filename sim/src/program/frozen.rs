//! `lockstorm replay --until`: a run that stands still, told, and with `--serve` its servers on
//! TCP ports of this machine.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Listener;
use lockstorm_sim::plan::Plan;
use lockstorm_sim::report::layout::{pad, width};
use lockstorm_sim::report::standing::{role, standing, state};
use lockstorm_sim::storm::frozen::{Frozen, Until, Window, watched};
use lockstorm_sim::storm::locks;

use super::arguments::{EngineArgument, EngineChoice, Format, ReplayArguments};
use super::exit::{self, Failure};
use super::progress::Waiting;
use super::say::{manner, say};

/// Where the servers are opened: for this machine alone.
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// How long a listener that failed is left alone.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Refuses what does not go with standing still, before anything is run.
///
/// # Errors
/// In one line with the mend.
pub fn check(arguments: &ReplayArguments) -> Result<(), Failure> {
    let Some(_) = arguments.until else {
        return match arguments.serve {
            false => Ok(()),
            true => Err(Failure::usage(
                "--serve: a run is over in no time; say where it is to stand still, such as \
                 --until violation",
            )),
        };
    };
    if arguments.engine.is_some_and(|engine| engine != EngineChoice::One(EngineArgument::Event)) {
        return Err(Failure::usage(
            "--until: no other engine can stand still; leave --engine (or LOCKSTORM_ENGINE) out, for \
             the event engine",
        ));
    }
    if arguments.format != Format::Text || !arguments.files.is_empty() {
        return Err(Failure::usage(
            "--until: where a world stands is told as text alone; leave out --format and the \
             files, and replay once more without --until for these",
        ));
    }
    Ok(())
}

/// Replays `plan` up to `until`, tells where the world stands, and with `serves` opens its
/// servers until interrupted.
///
/// # Errors
/// When the run has no such event, or does not repeat.
pub fn stand(plan: &Plan, until: Until, serves: bool) -> Result<u8, Failure> {
    let waiting = Waiting::begin();
    let watched = watched(plan, &(Arc::new(locks::build) as locks::LockFactory));
    drop(waiting);
    let place = watched.place(until).map_err(|why| Failure::usage(format!("--until: {why}")))?;
    let frozen = watched.freeze(place).map_err(|why| Failure::Nondeterminism(why.to_string()))?;
    let told = standing(&watched, &frozen, &manner());
    match serves {
        true => serve(&frozen, &told)?,
        false => say(told),
    }
    Ok(exit::SAFE)
}

/// A server that is open: who listens where, and what is seen.
type Door = (Host, Listener, Window);

/// Opens every server that lives, says so and what was `told`, and serves visitors until
/// interrupted.
fn serve(frozen: &Frozen, told: &str) -> Result<(), Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(Failure::internal)?.block_on(async {
        let (doors, rows) = open(frozen).await?;
        if doors.is_empty() {
            let instant = frozen.place.instant();
            let mend = "leave --serve out, or choose another event";
            return Err(Failure::usage(format!("--serve: no server lives {instant}; {mend}")));
        }
        // Who reads line by line knows with the first that all are open.
        say(format!("The servers are open on {ADDRESS}, to be read:"));
        say(table(&rows));
        say(format!("\n{told}\n\n{}", look_with(&doors)));
        for door in doors.into_iter().map(|door| tokio::spawn(receive(door))).collect::<Vec<_>>() {
            door.await.map_err(Failure::internal)?;
        }
        Ok(())
    })
}

/// Opens every server that lives; what is told of each, under a heading.
async fn open(frozen: &Frozen) -> Result<(Vec<Door>, Vec<[String; 4]>), Failure> {
    let mut doors = Vec::new();
    let mut rows = vec![["node", "address", "state", "role"].map(str::to_owned)];
    for name in frozen.nodes().into_iter().filter(|name| is_server(name)) {
        let address = match frozen.window(&name) {
            None => "not opened".to_owned(),
            Some(window) => {
                let host = Host::tokio_at(name.to_string(), ADDRESS);
                let listener = host.listen(0).await.map_err(Failure::internal)?;
                let address = SocketAddr::new(ADDRESS, listener.port()).to_string();
                doors.push((host, listener, window.clone()));
                address
            }
        };
        rows.push([name.to_string(), address, state(frozen, &name), role(frozen, &name)]);
    }
    Ok((doors, rows))
}

/// Whether a node is one that clients of a database connect to.
fn is_server(name: &str) -> bool {
    let of = |sort: &str| name.starts_with(sort);
    of("redis-") || of("sentinel-") || of("zk-") || of("pg-")
}

/// Serves visitors for ever.
async fn receive((host, listener, window): Door) {
    loop {
        match listener.accept().await {
            Ok(stream) => drop(tokio::spawn(window.clone().serve(stream))),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            // Out of descriptors.
            Err(_) => host.sleep(ACCEPT_RETRY).await,
        }
    }
}

fn table(rows: &[[String; 4]]) -> String {
    let widths: Vec<usize> = (0..4)
        .map(|column| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0))
        .collect();
    let line = |row: &[String; 4]| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, most)| pad(cell, *most)).collect();
        format!("  {}", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// How one looks at the first server of each kind.
fn look_with(doors: &[Door]) -> String {
    let first = |is: fn(&Window) -> bool| {
        doors.iter().find(|(_, _, window)| is(window)).map(|(_, listener, _)| listener.port())
    };
    let redis = first(|window| matches!(window, Window::Redis(_)));
    let zookeeper = first(|window| matches!(window, Window::Zookeeper(_)));
    let postgres = first(|window| matches!(window, Window::Postgres(_)));
    let mut lines = Vec::new();
    let with = |port: Option<u16>, command: &dyn Fn(u16) -> String| port.map(command);
    lines
        .extend(with(redis, &|port| format!("  redis-cli -h {ADDRESS} -p {port} GET lock:sku-42")));
    lines.extend(with(zookeeper, &|port| format!("  zkCli.sh -r -server {ADDRESS}:{port}")));
    lines.extend(with(postgres, &|port| {
        format!("  psql -h {ADDRESS} -p {port} -U postgres postgres")
    }));
    lines.push(
        "  Time stands: leases do not run out. Writes are refused. Ctrl-C ends it.".to_owned(),
    );
    lines.join("\n")
}
