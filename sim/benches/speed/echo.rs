//! The echo load: clients ask one server every 100 ms for 60 simulated seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockstorm::Host;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::engine::world::World;
use lockstorm_sim::engine::{Engine, Factory, Kernel, Links, Stage};
use lockstorm_sim::history::{Name, Recorder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::seconds;

/// How long it lasts, simulated.
pub const ECHO_SECONDS: u64 = 60;

/// Both engines, then how the cost of a request grows with the number of nodes, and a
/// hundred nodes on one engine against forty on the other.
pub fn load() {
    println!("echo load: clients ask one server every 100 ms, {ECHO_SECONDS} simulated s\n");
    println!("hosts   event ×real   µs per request   turmoil ×real   µs per request   ratio");
    let mut on_turmoil_s = f64::NAN;
    for hosts in [10_u16, 20, 40] {
        let (event_s, event_requests) = echo(&EventEngine, hosts);
        let (turmoil_s, turmoil_requests) = echo(&Turmoil::default(), hosts);
        println!(
            "{hosts:>5}   {:>11.0}   {:>14.2}   {:>13.1}   {:>14.1}   {:>5.0}",
            ECHO_SECONDS as f64 / event_s,
            event_s * 1e6 / event_requests as f64,
            ECHO_SECONDS as f64 / turmoil_s,
            turmoil_s * 1e6 / turmoil_requests as f64,
            turmoil_s / event_s,
        );
        on_turmoil_s = turmoil_s;
    }
    growth(on_turmoil_s);
}

/// Requests of hosts of different numbers cost the same; a hundred hosts cost a small
/// part of what forty cost under turmoil.
fn growth(forty_on_turmoil_s: f64) {
    println!("\nevent alone: what a request costs as the number of hosts grows\n");
    println!("hosts   requests   µs per request   against 5 hosts");
    let mut of_five = 0.0;
    let mut hundred_s = 0.0;
    for hosts in [5_u16, 10, 20, 50, 100] {
        // The best of three: the noise of a machine only ever adds.
        let runs = (0..3).map(|_| echo(&EventEngine, hosts));
        let (least_s, requests) = runs.fold((f64::MAX, 1), |(least, _), (s, r)| (least.min(s), r));
        let each_us = least_s * 1e6 / requests as f64;
        if hosts == 5 {
            of_five = each_us;
        }
        hundred_s = least_s;
        println!("{hosts:>5}   {requests:>8}   {each_us:>14.2}   {:>15.2}", each_us / of_five);
    }
    println!(
        "\n100 hosts on event take {:.4} of what 40 hosts take on turmoil\n",
        hundred_s / forty_on_turmoil_s
    );
}

/// So many hosts on this engine: real seconds, and requests that were answered.
pub fn echo(engine: &dyn Engine, hosts: u16) -> (f64, u64) {
    let names = std::iter::once(Name::from("server"))
        .chain((1..hosts).map(|number| Name::from(format!("client-{number}"))));
    let world = World::new(1, names);
    let requests = Arc::new(AtomicU64::new(0));
    let mut factories: Vec<Factory> = vec![Arc::new(|host| Box::pin(serve(host)))];
    for _ in 1..hosts {
        let requests = requests.clone();
        factories.push(Arc::new(move |host| Box::pin(ask(host, requests.clone()))));
    }
    let clock = world.clone();
    let stage = Stage {
        world,
        factories,
        links: Links { median_us: 250, sigma_milli: 400 },
        kernel: Kernel::default(),
        ends_at_us: ECHO_SECONDS * 1_000_000,
        recorder: Recorder::new(move || clock.now_us()),
        opening: Box::new(|_| ()),
    };
    let elapsed = seconds(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| engine.run(stage));
        });
    });
    (elapsed, requests.load(Ordering::Relaxed).max(1))
}

async fn serve(host: Host) {
    let Ok(listener) = host.listen(7).await else { return };
    while let Ok(mut stream) = listener.accept().await {
        host.spawn("echo", async move {
            let mut buffer = [0; 128];
            while let Ok(count) = stream.read(&mut buffer).await {
                if count == 0 || stream.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        });
    }
}

async fn ask(host: Host, requests: Arc<AtomicU64>) {
    let Ok(mut stream) = host.connect("server:7").await else { return };
    let (question, mut answer) = ([7; 100], [0; 100]);
    loop {
        host.sleep(Duration::from_millis(100)).await;
        let asked = stream.write_all(&question).await;
        if asked.is_err() || stream.read_exact(&mut answer).await.is_err() {
            return;
        }
        requests.fetch_add(1, Ordering::Relaxed);
    }
}
