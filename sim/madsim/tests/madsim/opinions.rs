//! Is it known why an engine does not show what another shows, and is nothing said of what
//! only looks like that?

use std::sync::Arc;

use lockstorm_madsim::Madsim;
use lockstorm_sim::check::{Kind, Verdict};
use lockstorm_sim::plan::{Fence, Plan, Seed};
use lockstorm_sim::storm::locks::{self, LockFactory};
use lockstorm_sim::storm::opinion::{Claim, ask, explain};

/// So many draws are enough for what is always so.
const DRAWS: u32 = 8;

fn calm(settings: &[(&str, &str)]) -> Plan {
    let plan = Plan::from_seed_with("redis-single", "redis", Fence::Off, Seed(3), settings);
    plan.unwrap().without_faults()
}

/// Whether madsim agrees, and if something known is why it does not, what: the clause, if it is
/// a difference.
fn told(plan: &Plan, claim: Claim) -> (bool, Option<Option<&'static str>>) {
    let factory: LockFactory = Arc::new(locks::build);
    let opinion = ask(plan, &Madsim::default(), &claim, 0..DRAWS, &factory);
    let why = explain(plan, &claim, DRAWS, &factory);
    (opinion.agrees, why.map(|known| known.difference))
}

#[test]
fn what_hangs_on_fast_messages_is_explained_by_them_and_what_does_not_is_not() {
    let safe = Claim { verdict: Verdict::Safe, gravest: None };
    let (short, fast) = (("duration", "3s"), ("topology.latency", "250us"));
    // Nobody is served within that if a message takes a millisecond.
    let hasty = calm(&[short, fast, ("lock.command-timeout", "1800us")]);
    let slow = "messages of a connection take at least a millisecond each";
    assert_eq!(told(&hasty, safe), (false, Some(Some(slow))));
    // All engines agree, so nothing takes it away.
    assert_eq!(told(&calm(&[short, fast]), safe), (true, None));
    // No engine shows it.
    let oversell = Claim { verdict: Verdict::Violation, gravest: Some(Kind::Oversell) };
    assert_eq!(told(&calm(&[short, fast]), oversell), (false, Some(None)));
}
