//! What becomes of a storm in a program that has not installed the interposer? A timer
//! that would bring the real clock into the run is refused, with the mend.

#[path = "../../../tests/stage/mod.rs"]
mod stage;

use std::panic::{AssertUnwindSafe, catch_unwind};

use async_io::Timer;
use lockstorm::Host;
use lockstorm_sim::engine::event::EventEngine;
use stage::{Log, Scene, note};

#[test]
fn an_instant_of_the_real_clock_is_refused() {
    let log = Scene::new(&["app"]).node(|host: Host, log: Log| async move {
        let made = catch_unwind(AssertUnwindSafe(|| Timer::after(stage::ms(5))));
        let payload = made.expect_err("the real clock came into a run");
        let why = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        note(&log, &host, &why.unwrap_or_default());
    });
    let log = log.run(&EventEngine, |_| {});
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].contains("call lockstorm_interpose::install"), "{log:?}");
}
