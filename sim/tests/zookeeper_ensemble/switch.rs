//! A [`Switch`] that is followed through a server, and how old it says its value is.

use std::sync::Arc;
use std::time::Duration;

use super::sound;
use super::zookeeper_support::cluster::{Cluster, Place};
use lockstorm::lock::zookeeper::Options;
use lockstorm::lock::zookeeper::switch::Switch;
use lockstorm_interpose::Senses;
use lockstorm_sim::engine::senses;

const SETTINGS: i32 = 40;

fn switch(place: &Place, app: u8, server: u8) -> Switch {
    let options = Options::new(Duration::from_secs(2));
    Switch::new(place.app(app), &[format!("zk-{server}:2181")], options, "degradation").unwrap()
}

/// Sets it now and then, and meanwhile reads what a follower knows each 500 µs. How many
/// readings there were of a value that had been replaced, and which of them claimed to be of a
/// moment at which another value was set already.
async fn follow(place: Arc<Place>) -> (usize, Vec<String>) {
    place.sleep_ms(1_000).await;
    let leader = place.leader().expect("somebody leads");
    let (operator, follower) = (switch(&place, 1, leader), switch(&place, 2, leader % 3 + 1));
    let (mut old, mut wrong) = (0, Vec::new());
    for version in 0..SETTINGS {
        let set = operator.set(format!("{version}").as_bytes(), None).await;
        assert_eq!(set, Ok(version));
        let set_us = place.now_us();
        // Not in step with the heartbeats.
        let until_us = set_us + 200_000 + u64::from(version.unsigned_abs()) * 7_300;
        while place.now_us() < until_us {
            let reading = follower.reading();
            if reading.version != Some(version) {
                old += 1;
                let age_us = reading.age.map_or(u64::MAX, |age| age.as_micros() as u64);
                if place.now_us().saturating_sub(age_us) > set_us {
                    wrong
                        .push(format!("{:?} behind {version}: {:?}", reading.version, reading.age));
                }
            }
            place.host().sleep(Duration::from_micros(500)).await;
        }
        assert_eq!(follower.reading().version, Some(version), "it is told within 200 ms");
    }
    (old, wrong)
}

#[test]
fn a_switch_does_not_claim_that_a_replaced_value_is_fresh() {
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
    let mut cluster = Cluster::new(3);
    cluster.apps = 2;
    cluster.links.median_us = 5_000;
    let (old, wrong) = sound(&mut cluster.run(follow));
    assert!(old >= SETTINGS as usize, "it is not known at once");
    assert_eq!(wrong, [""; 0]);
}
