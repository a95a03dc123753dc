//! Does turmoil, as our reference engine, look to a program like a network? What it
//! cannot do is asserted too: docs/engines.md lists it.

mod stage;

#[path = "engine_turmoil/faults.rs"]
mod faults;
#[path = "engine_turmoil/network.rs"]
mod network;
#[path = "engine_turmoil/runs.rs"]
mod runs;

use std::sync::Arc;

use lockstorm::Host;
use lockstorm_sim::engine::Control;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::engine::world::NodeId;
use stage::{Log, Scene, echo, ms, note};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(1);
const ENGINE: Turmoil = Turmoil { reseed: 0, tick_ms: 1 };

fn at(control: &Arc<dyn Control>, after_ms: u64, act: impl FnOnce(&dyn Control) + Send + 'static) {
    let acting = control.clone();
    control.after(after_ms * 1_000, Box::new(move || act(&*acting)));
}

fn cut(control: &dyn Control) {
    control.cut(CLIENT, SERVER);
    control.cut(SERVER, CLIENT);
}

fn heal(control: &dyn Control) {
    control.heal(CLIENT, SERVER);
    control.heal(SERVER, CLIENT);
}

async fn reads_to_the_end(host: Host, log: Log) {
    let listener = host.listen(7).await.unwrap();
    let mut stream = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).await;
    note(&log, &host, &format!("{} bytes, {}", bytes.len(), end.is_ok()));
}
