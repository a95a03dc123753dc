//! madsim's own check of determinism, on our servers: it runs a stage twice, and compares
//! every draw of its scheduler and the time at which it is made.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::stage::{program, stage};
use lockstorm::Host;
use lockstorm_madsim::carry;
use lockstorm_sim::engine::world::NodeId;
use lockstorm_sim::engine::{Ending, Factory};
use lockstorm_sim::server::redis::observe::Unobserved;
use lockstorm_sim::server::redis::sentinel::{self, MasterSettings, Sentinel};
use lockstorm_sim::server::redis::{ConfigFile, ReplicationGate, Server, Settings};
use madsim::Config;
use madsim::runtime::Runtime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PORT: u16 = 6_379;

fn redis(name: &'static str, config: ConfigFile) -> Factory {
    program(move |host| {
        let settings =
            Settings { port: PORT, announced_name: Some(name.to_owned()), ..Settings::default() };
        let gate = ReplicationGate::new();
        let server = Server::new(host, settings, config.clone(), gate, Arc::new(Unobserved));
        async move {
            let _ = server.run().await;
        }
    })
}

fn watching() -> Factory {
    program(|host| {
        let mut master = MasterSettings::new("mymaster", format!("redis-1:{PORT}"), 1);
        master.replicas = vec![format!("redis-2:{PORT}")];
        let mut settings = sentinel::Settings::new("sentinel-1".to_owned());
        settings.masters = vec![master];
        let sentinel = Sentinel::new(host, settings, Arc::new(sentinel::Unobserved));
        async move {
            let _ = sentinel.run().await;
        }
    })
}

/// Writes, waits for the answer, and begins again with a new connection where that fails.
async fn write(host: Host) {
    loop {
        // The server may be down: the next try comes.
        let _ = write_until_it_fails(&host).await;
        host.sleep(Duration::from_millis(100)).await;
    }
}

async fn write_until_it_fails(host: &Host) -> io::Result<()> {
    let limit = Duration::from_millis(500);
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let address = format!("redis-1:{PORT}");
    let mut stream = host.timeout(limit, host.connect(&address)).await.map_err(late)??;
    loop {
        let value = host.random("value") % 1_000;
        let command = format!("SET key {value:03} PX 3000\r\n");
        stream.write_all(command.as_bytes()).await?;
        let mut answer = [0; 5];
        host.timeout(limit, stream.read_exact(&mut answer)).await.map_err(late)??;
        host.sleep(Duration::from_millis(40)).await;
    }
}

/// A master, a replica, a sentinel and two writers; the master's machine dies and comes back,
/// and a writer is cut off for a while.
fn servers() -> impl Future<Output = Ending> {
    let programs = [
        ("redis-1", redis("redis-1", ConfigFile::new())),
        ("redis-2", redis("redis-2", ConfigFile::replica_of("redis-1", PORT))),
        ("sentinel-1", watching()),
        ("writer-1", program(write)),
        ("writer-2", program(write)),
    ];
    carry(stage(20, programs, |control| {
        let (master, writer) = (NodeId(0), NodeId(3));
        let on = |ms: u64, act: fn(&dyn lockstorm_sim::engine::Control, NodeId, NodeId)| {
            let struck = control.clone();
            control.after(ms * 1_000, Box::new(move || act(&*struck, master, writer)));
        };
        on(3_000, |control, master, writer| control.cut(writer, master));
        on(4_000, |control, master, writer| control.heal(writer, master));
        on(6_000, |control, master, _| control.crash_machine(master));
        on(9_000, |control, master, _| control.start(master));
        on(12_000, |control, master, _| control.pause(master, None));
        on(13_000, |control, master, _| control.resume(master, None));
    }))
}

#[test]
fn our_servers_pass_madsims_own_check() {
    for seed in 0..3 {
        let ending = Runtime::check_determinism(seed, Config::default(), servers);
        assert_eq!(ending.stuck, None);
        assert!(ending.messages > 1_000, "{ending:?}");
    }
}

/// It sleeps for as long as this process is old, in its way.
fn leaky() -> impl Future<Output = Ending> {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    let runs = RUNS.fetch_add(1, Ordering::Relaxed);
    let sleeper = program(move |host| async move {
        loop {
            host.sleep(Duration::from_millis(10 * runs)).await;
        }
    });
    carry(stage(1, [("node", sleeper)], |_| ()))
}

#[test]
fn the_check_finds_a_stage_that_is_another_one_the_second_time() {
    let checked =
        std::panic::catch_unwind(|| Runtime::check_determinism(0, Config::default(), leaky));
    let panic = checked.expect_err("it is another one");
    let text = lockstorm_sim::engine::world::panic_message(&*panic);
    assert!(text.contains("non-determinism detected"), "{text}");
}
