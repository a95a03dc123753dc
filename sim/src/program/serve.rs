//! `lockstorm serve`: simulated servers on TCP ports.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Listener;
use lockstorm_sim::disk::{self, Disk};
use lockstorm_sim::server::postgres;
use lockstorm_sim::server::redis::observe::Unobserved;
use lockstorm_sim::server::redis::sentinel::{self, MasterSettings, PORT, Sentinel};
use lockstorm_sim::server::redis::{ConfigFile, ReplicationGate, Server, Settings};
use lockstorm_sim::server::zookeeper;

use super::arguments::{ServePostgres, ServeRedis, ServeVerb, ServeZookeeper};
use super::exit::{self, Failure};
use super::say::say;

/// The most of each: more need more ports than a table of them can be read.
const MOST: u16 = 100;

/// How long an instance may be silent before a sentinel takes it for down; `SENTINEL SET
/// mymaster down-after-milliseconds` changes it.
const DOWN_AFTER: Duration = Duration::from_secs(5);

/// How much memory the scripts of one Redis server may use.
const SCRIPT_MEMORY_BYTES: usize = 128 * 1024 * 1024;

/// The most servers of an ensemble.
const MOST_SERVERS: u8 = 9;

/// Serves until interrupted.
pub fn serve(verb: &ServeVerb) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::internal)?;
    match verb {
        ServeVerb::Redis(wanted) => runtime.block_on(serve_redis(wanted)),
        ServeVerb::Postgres(wanted) => runtime.block_on(serve_postgres(wanted)),
        ServeVerb::Zookeeper(wanted) => runtime.block_on(serve_zookeeper(wanted)),
    }
}

async fn serve_zookeeper(wanted: &ServeZookeeper) -> Result<u8, Failure> {
    check_zookeeper(wanted)?;
    let mut listening = Vec::new();
    let mut members = BTreeMap::new();
    for number in 1..=wanted.servers {
        let host = host(format!("zk-{number}"), wanted.address);
        let position = u16::from(number) - 1;
        let (host, client) = listen(host, wanted.port, position, "--port").await?;
        let (host, quorum) = listen(host, 0, 0, "--port").await?;
        let (host, election) = listen(host, 0, 0, "--port").await?;
        let member = zookeeper::Member {
            host: wanted.address.to_string(),
            quorum_port: quorum.port(),
            election_port: election.port(),
        };
        members.insert(number, member);
        listening.push((number, host, client, zookeeper::Peers { quorum, election }));
    }
    let mut tasks = Vec::new();
    for (me, host, client, peers) in listening {
        say(format!("zookeeper listens on {}", shown(wanted.address, client.port())));
        // Nothing outlives the program: what the servers keep is on disks of its own.
        let files = Disk::new(disk::Settings::default(), 0, host.name()).mount(&host);
        let client_port = client.port();
        let (ensemble, peers) = match wanted.servers {
            1 => (zookeeper::Ensemble::alone(client_port), None),
            _ => {
                let members = members.clone();
                (zookeeper::Ensemble { me, members, client_port }, Some(peers))
            }
        };
        let settings =
            zookeeper::Settings { words: vec!["*".to_owned()], ..zookeeper::Settings::default() };
        let observer = Arc::new(zookeeper::observe::Unobserved);
        let server = zookeeper::Server::new(host, settings, ensemble, files, observer);
        tasks.push(tokio::spawn(server.run_on(zookeeper::Listeners { client, peers })));
    }
    for task in tasks {
        task.await.map_err(Failure::internal)?.map_err(Failure::internal)?;
    }
    Ok(exit::SAFE)
}

fn check_zookeeper(wanted: &ServeZookeeper) -> Result<(), Failure> {
    if !(1..=MOST_SERVERS).contains(&wanted.servers) {
        let what = format!("--servers {}: write 1 to {MOST_SERVERS}", wanted.servers);
        return Err(Failure::usage(format!("{what}; odd numbers make sense")));
    }
    if wanted.servers > 1 && wanted.address.is_unspecified() {
        let what = format!("--address {}: servers tell each other where they are", wanted.address);
        return Err(Failure::usage(format!("{what}; give the address by which they are reached")));
    }
    Ok(())
}

async fn serve_redis(wanted: &ServeRedis) -> Result<u8, Failure> {
    check(wanted)?;
    let mut listeners = Vec::new();
    for number in 0..=wanted.replicas {
        let host = host(format!("redis-{}", number + 1), wanted.address);
        listeners.push(listen(host, wanted.port, number, "--port").await?);
    }
    let mut sentinels = Vec::new();
    for number in 0..wanted.sentinels {
        let host = host(format!("sentinel-{}", number + 1), wanted.address);
        let first = if wanted.port == 0 { 0 } else { PORT };
        sentinels.push(listen(host, first, number, "--port 0, which takes free ones").await?);
    }
    let master = listeners[0].1.port();
    let mut tasks = Vec::new();
    for (number, (host, listener)) in listeners.into_iter().enumerate() {
        let shown = shown(wanted.address, listener.port());
        let (config, whom) = match number {
            0 => (ConfigFile::new(), String::new()),
            _ => {
                let config = ConfigFile::replica_of(wanted.address.to_string(), master);
                (config, format!(", a replica of port {master}"))
            }
        };
        say(format!("redis listens on {shown}{whom}"));
        let gate = ReplicationGate::new();
        // In memory, and gone with the program: what is kept can be asked for again.
        let disk = Disk::new(disk::Settings::default(), 0, &format!("redis-{}", number + 1));
        let settings = Settings {
            port: listener.port(),
            disk: Some(disk),
            debug_command: true,
            // Scripts of suites build large tables; a storm's servers are many.
            script_memory_bytes: SCRIPT_MEMORY_BYTES,
            ..Settings::default()
        };
        let server = Server::new(host, settings, config, gate, Arc::new(Unobserved));
        tasks.push(tokio::spawn(async move {
            let port = listener.port();
            let how = match server.run_on(listener).await {
                Ok(()) => "it was shut down".to_owned(),
                Err(error) => error.to_string(),
            };
            say(format!("redis at port {port} has ended: {how}"));
        }));
    }
    for (host, listener) in sentinels {
        say(format!("sentinel listens on {}", shown(wanted.address, listener.port())));
        let sentinel = watching(host, wanted, master);
        tasks.push(tokio::spawn(async move {
            // It has no disk that could fail.
            let _ = sentinel.run_on(listener).await;
        }));
    }
    for task in tasks {
        task.await.map_err(Failure::internal)?;
    }
    Ok(exit::SAFE)
}

/// A PostgreSQL server whose disk is memory: it forgets everything when it ends.
async fn serve_postgres(wanted: &ServePostgres) -> Result<u8, Failure> {
    let host = host("pg-1".to_owned(), wanted.address);
    let (host, listener) = listen(host, wanted.port, 0, "--port").await?;
    let files = Disk::new(disk::Settings::default(), 0, "pg-1").mount(&host);
    say(format!("postgres listens on {}", shown(wanted.address, listener.port())));
    let settings = postgres::Settings { port: listener.port(), ..Default::default() };
    let observer = Arc::new(postgres::observe::Unobserved);
    let server = postgres::Server::new(host, settings, files, observer);
    server.run_on(listener).await.map_err(Failure::internal)?;
    Ok(exit::SAFE)
}

fn check(wanted: &ServeRedis) -> Result<(), Failure> {
    for (flag, number) in [("--replicas", wanted.replicas), ("--sentinels", wanted.sentinels)] {
        if number > MOST {
            return Err(Failure::usage(format!("{flag} {number}: write at most {MOST}")));
        }
    }
    if wanted.sentinels > 0 && wanted.replicas == 0 {
        let what = format!("--sentinels {}: there is no replica to promote", wanted.sentinels);
        return Err(Failure::usage(format!("{what}; add --replicas 2")));
    }
    let is_many = wanted.replicas > 0 || wanted.sentinels > 0;
    if is_many && wanted.address.is_unspecified() {
        let what = format!("--address {}: servers tell each other where they are", wanted.address);
        return Err(Failure::usage(format!("{what}; give the address by which they are reached")));
    }
    Ok(())
}

fn host(name: String, address: IpAddr) -> Host {
    Host::tokio_at(name, address)
}

async fn listen(
    host: Host,
    first: u16,
    number: u16,
    flag: &str,
) -> Result<(Host, Listener), Failure> {
    let port = match first {
        0 => Some(0),
        first => first.checked_add(number),
    };
    let Some(port) = port else {
        return Err(Failure::usage(format!("port {first}: there are not enough after it")));
    };
    let listened = host.listen(port).await;
    let listener = listened.map_err(|error| {
        Failure::usage(format!("port {port}: {error}; choose another with {flag}"))
    })?;
    Ok((host, listener))
}

fn shown(address: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}

/// A sentinel that has still to meet the replicas and the others.
fn watching(host: Host, wanted: &ServeRedis, master: u16) -> Sentinel {
    let quorum = u32::from(wanted.sentinels / 2 + 1);
    let address = format!("{}:{master}", wanted.address);
    let mut master = MasterSettings::new("mymaster", address, quorum);
    master.down_after = DOWN_AFTER;
    let mut settings = sentinel::Settings::new(wanted.address.to_string());
    settings.masters = vec![master];
    Sentinel::new(host, settings, Arc::new(sentinel::Unobserved))
}
