//! When do the kernels of the event engine act, to the microsecond, and how much do
//! they keep? What a program sees of them beside Linux is in `tests/engines_agree.rs`.

mod stage;

#[path = "engine_kernels/bounds.rs"]
mod bounds;
#[path = "engine_kernels/links.rs"]
mod links;
#[path = "engine_kernels/storm.rs"]
mod storm;
#[path = "engine_kernels/timers.rs"]
mod timers;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Stream;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::world::NodeId;
use lockstorm_sim::engine::{Control, Kernel};
use stage::{Log, Scene, echo, ms, note};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(1);

fn at_us(control: &Arc<dyn Control>, at_us: u64, act: impl FnOnce(&dyn Control) + Send + 'static) {
    let acting = control.clone();
    control.after(at_us, Box::new(move || act(&*acting)));
}

fn at(control: &Arc<dyn Control>, at_ms: u64, act: impl FnOnce(&dyn Control) + Send + 'static) {
    at_us(control, at_ms * 1_000, act);
}

fn cut(control: &dyn Control) {
    control.cut(CLIENT, SERVER);
    control.cut(SERVER, CLIENT);
}

fn heal(control: &dyn Control) {
    control.heal(CLIENT, SERVER);
    control.heal(SERVER, CLIENT);
}

/// Notes each read, until the end or an error.
async fn reads(host: &Host, log: &Log, stream: &mut Stream) {
    let mut buffer = [0; 64];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => return note(log, host, "end"),
            Ok(count) => note(log, host, &String::from_utf8_lossy(&buffer[..count])),
            Err(error) => return note(log, host, &error.kind().to_string()),
        }
    }
}

/// A server that accepts one connection and notes what it reads.
async fn reader(host: Host, log: Log) {
    let listener = host.listen(7).await.unwrap();
    let mut stream = listener.accept().await.unwrap();
    note(&log, &host, "accepted");
    reads(&host, &log, &mut stream).await;
    std::future::pending::<()>().await;
}

/// A client that writes at 100 ms and notes what it reads.
async fn writes_at_100_ms(host: Host, log: Log) {
    let mut stream = host.connect("server:7").await.unwrap();
    host.sleep(ms(98)).await;
    stream.write_all(b"hi").await.unwrap();
    reads(&host, &log, &mut stream).await;
}
