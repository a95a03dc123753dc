//! Is a lock judged by what it itself declares?

use std::sync::Arc;
use std::time::Duration;

use lockstorm::host::BoxFuture;
use lockstorm::lock::{Guard, Lock, LockError, Owner, Promises};
use lockstorm_sim::check::{Kind, Setting};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::plan::{Fence, Seed};
use lockstorm_sim::storm::locks::{self, LockFactory};
use lockstorm_sim::storm::{self, Storm};

/// The lock of Redis, which promises what it cannot keep.
struct Boaster(Arc<dyn Lock>);

const BOAST: Promises = Promises {
    ordered_tokens: true,
    bypass_bound: Some(0),
    loss_notice_bound: Some(Duration::from_millis(5)),
};

impl Lock for Boaster {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        self.0.acquire(key, owner, patience)
    }

    fn takeover_bound(&self) -> Duration {
        self.0.takeover_bound()
    }

    fn promises(&self) -> Promises {
        BOAST
    }
}

fn boaster() -> LockFactory {
    locks::made_by(|host, plan| Ok(Arc::new(Boaster(locks::build(host, plan)?))))
}

#[test]
fn what_a_lock_declares_is_what_it_is_judged_by() {
    let plan = Storm::new("redis-failover").without_faults().plan_of(Seed(0)).unwrap();
    let boast = storm::run_with(&plan, &EventEngine, &boaster());
    let declared = |setting: Setting| {
        (setting.ordered_tokens, setting.bypass_bound, setting.loss_notice_bound_us)
    };
    assert_eq!(declared(boast.setting), (true, Some(0), Some(5_000)));
    let plain = storm::run(&plan, &EventEngine);
    assert_eq!(declared(plain.setting), (false, None, None));
    // A lock that polls serves whoever asks at the right moment: its queue has no order.
    assert!(boast.judgement.has_violation(Kind::Unfair));
    assert!(!plain.judgement.found(Kind::Unfair) && plain.judgement.verdict.is_safe());
    assert_eq!(boast.trace_hash, plain.trace_hash, "only the judge is told");
}

#[test]
fn tokens_that_fall_are_a_violation_only_where_they_were_promised_to_grow() {
    let storm = || Storm::new("redis-failover").fence(Fence::Full).seeds(60);
    let plain = storm().outcome();
    let fell = plain.kinds.get(&Kind::TokenRegression).copied().unwrap_or(0);
    assert!(fell > 0, "no failover lost an increment");
    assert_eq!(plain.violations_of(Kind::TokenRegression), 0);
    let boast = storm().lock_with(boaster()).outcome();
    assert_eq!(boast.violations_of(Kind::TokenRegression), fell);
}
