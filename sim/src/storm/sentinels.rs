//! The sentinels of a storm, as they are long after they were set up: their configuration
//! files know the replicas and each other.

use std::sync::Arc;
use std::time::Duration;

use super::frozen::{Freezing, Window};
use super::observe::SentinelWatch;
use super::scene::REDIS_PORT;
use crate::disk::Disk;
use crate::draw::Draw;
use crate::engine::Factory;
use crate::history::{Name, Recorder};
use crate::plan::Plan;
use crate::server::redis::sentinel::{
    Keeping, KnownSentinel, MasterSettings, PORT, Sentinel, Settings,
};

/// The name under which clients ask for the master.
pub const MASTER_NAME: &str = "mymaster";

/// How long a step of a failover may take, and half of the time until the next try: what
/// Redis' own tests of Sentinel set. Its default, three minutes, is longer than storms.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Builds the sentinel `name`, which keeps what it writes down on `disk`.
pub(super) fn factory(
    plan: &Plan,
    name: &Name,
    disk: &Disk,
    recorder: &Recorder,
    freezing: &Option<Arc<Freezing>>,
) -> Factory {
    let watch = Arc::new(SentinelWatch::new(name.clone(), recorder.clone()));
    let mut settings = settings(plan, name);
    settings.keeping = Keeping::Disk(disk.clone());
    let (recorder, name, freezing) = (recorder.clone(), name.clone(), freezing.clone());
    Arc::new(move |host| {
        let sentinel = Sentinel::new(host, settings.clone(), watch.clone());
        if let Some(freezing) = &freezing {
            freezing.enter(&name, Window::Sentinel(sentinel.window()));
        }
        let (recorder, name) = (recorder.clone(), name.clone());
        Box::pin(async move {
            if let Err(error) = sentinel.run().await {
                super::scene::ended(&recorder, &name, Err(error));
            }
        })
    })
}

fn settings(plan: &Plan, name: &str) -> Settings {
    let topology = &plan.topology;
    let at = |node: &String| format!("{node}:{REDIS_PORT}");
    let redis = topology.redis_nodes();
    let quorum = u32::from(topology.quorum());
    let mut master = MasterSettings::new(MASTER_NAME, at(&redis[0]), quorum);
    master.down_after = Duration::from_micros(topology.down_after.0);
    master.failover_timeout = FAILOVER_TIMEOUT;
    master.replicas = redis[1..].iter().map(at).collect();
    let others = topology.sentinel_nodes().into_iter().filter(|other| other != name);
    let known =
        |other: String| KnownSentinel { id: id(plan, &other), address: format!("{other}:{PORT}") };
    master.sentinels = others.map(known).collect();
    let mut settings = Settings::new(name);
    settings.id = Some(id(plan, name));
    settings.masters = vec![master];
    settings
}

/// 160 bits as 40 hex digits, drawn for each sentinel.
fn id(plan: &Plan, name: &str) -> String {
    let mut draw = Draw::new(plan.seed.0, "sentinel-id", name);
    (0..40).filter_map(|_| char::from_digit(draw.below(16) as u32, 16)).collect()
}
