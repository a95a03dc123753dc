//! Histories written by hand, for the checkers' tests.
//!
//! One lock `sku-42` on `redis-1`, one resource `stock-1`, clients named by their
//! attempts. Times are milliseconds; [`Sample::at`] sets the clock for what follows.

use crate::history::{
    AcquireOutcome, Attempt, BeliefEnd, Event, EventId, FaultFamily, History, OrderAnswer,
    RecordLoss, Renewal, StockOperation, What,
};
use lockstorm::lock::Release;

pub const KEY: &str = "sku-42";
pub const LEASE_MS: u64 = 1_000;
pub const MARGIN_MS: u64 = 10;

#[derive(Default)]
pub struct Sample {
    history: History,
    now_us: u64,
}

fn attempt(text: &str) -> Attempt {
    Attempt::parse(text).expect("an attempt, such as app-1/3")
}

fn client(text: &str) -> String {
    attempt(text).client.to_string()
}

impl Sample {
    pub fn new() -> Sample {
        Sample::default()
    }

    pub fn at(mut self, ms: u64) -> Sample {
        assert!(ms * 1_000 >= self.now_us, "time goes forwards");
        self.now_us = ms * 1_000;
        self
    }

    pub fn event(mut self, node: &str, what: What) -> Sample {
        let id = EventId(self.history.events.len() as u64);
        let event = Event { id, at_us: self.now_us, node: node.into(), cause: None, what };
        self.history.events.push(event);
        self
    }

    /// Ends the run now.
    pub fn end(mut self) -> History {
        self.history.ended_us = self.now_us;
        self.history
    }

    // -- the client ------------------------------------------------------------

    pub fn ask(self, who: &str) -> Sample {
        let what = What::AcquireInvoked { attempt: attempt(who), key: KEY.into(), shared: false };
        self.event(&client(who), what)
    }

    pub fn returned(self, who: &str, outcome: AcquireOutcome) -> Sample {
        let what = What::AcquireReturned { attempt: attempt(who), key: KEY.into(), outcome };
        self.event(&client(who), what)
    }

    pub fn granted(self, who: &str) -> Sample {
        self.granted_token(who, None)
    }

    pub fn granted_token(self, who: &str, token: impl Into<Option<u64>>) -> Sample {
        let token = token.into();
        let (lease_us, margin_us) = (LEASE_MS * 1_000, MARGIN_MS * 1_000);
        self.returned(who, AcquireOutcome::Granted { token, lease_us, margin_us })
    }

    /// Asked for, applied at `redis-1` and granted, all now.
    pub fn grant(self, who: &str) -> Sample {
        self.ask(who).set(who).granted(who)
    }

    /// The same on another server.
    pub fn grant_on(self, node: &str, who: &str) -> Sample {
        self.ask(who).set_on(node, who).granted(who)
    }

    /// The same with a fencing token.
    pub fn grant_token(self, who: &str, token: u64) -> Sample {
        self.ask(who).set(who).granted_token(who, token)
    }

    pub fn indeterminate(self, who: &str) -> Sample {
        self.returned(who, AcquireOutcome::Indeterminate { reason: "no reply".into() })
    }

    pub fn belief_ends(self, who: &str, reason: BeliefEnd) -> Sample {
        self.event(&client(who), What::BeliefEnded { attempt: attempt(who), reason })
    }

    pub fn release(self, who: &str) -> Sample {
        self.event(&client(who), What::ReleaseInvoked { attempt: attempt(who) })
    }

    pub fn release_returned(self, who: &str, release: Release) -> Sample {
        self.event(&client(who), What::ReleaseReturned { attempt: attempt(who), release })
    }

    /// Release invoked and applied, both now.
    pub fn let_go(self, who: &str) -> Sample {
        self.release(who).released(who)
    }

    /// Asked for another lock, or to share it.
    pub fn ask_for(self, who: &str, key: &str, shared: bool) -> Sample {
        let what = What::AcquireInvoked { attempt: attempt(who), key: key.into(), shared };
        self.event(&client(who), what)
    }

    /// Another lock, asked for, applied without a lease and granted, all now.
    pub fn grant_of(self, who: &str, key: &str) -> Sample {
        let (owner, lease_us) = (who.into(), crate::history::NO_END);
        let set = What::RecordSet { key: key.into(), owner, lease_us: None, shared: false };
        let outcome = AcquireOutcome::Granted { token: None, lease_us, margin_us: 0 };
        let returned = What::AcquireReturned { attempt: attempt(who), key: key.into(), outcome };
        self.ask_for(who, key, false).event("redis-1", set).event(&client(who), returned)
    }

    /// Granted to share.
    pub fn grant_shared(self, who: &str) -> Sample {
        let (key, owner) = (KEY.into(), who.into());
        let set = What::RecordSet { key, owner, lease_us: Some(LEASE_MS * 1_000), shared: true };
        self.ask_for(who, KEY, true).event("redis-1", set).granted(who)
    }

    pub fn renew(self, who: &str) -> Sample {
        self.event(&client(who), What::RenewInvoked { attempt: attempt(who) })
    }

    pub fn renewed(self, who: &str, renewal: Renewal) -> Sample {
        self.event(&client(who), What::RenewReturned { attempt: attempt(who), renewal })
    }

    // -- the record --------------------------------------------------------------

    pub fn set(self, owner: &str) -> Sample {
        self.set_on("redis-1", owner)
    }

    pub fn set_on(self, node: &str, owner: &str) -> Sample {
        self.set_lease(node, owner, Some(LEASE_MS))
    }

    pub fn set_lease(self, node: &str, owner: &str, lease_ms: Option<u64>) -> Sample {
        let lease_us = lease_ms.map(|ms| ms * 1_000);
        let (key, owner) = (KEY.into(), owner.into());
        self.event(node, What::RecordSet { key, owner, lease_us, shared: false })
    }

    pub fn extended(self, owner: &str) -> Sample {
        let lease_us = LEASE_MS * 1_000;
        let (key, owner) = (KEY.into(), owner.into());
        self.event("redis-1", What::RecordExtended { key, owner, lease_us })
    }

    pub fn released(self, owner: &str) -> Sample {
        self.event("redis-1", What::RecordReleased { key: KEY.into(), owner: owner.into() })
    }

    pub fn expired(self, owner: &str) -> Sample {
        self.event("redis-1", What::RecordExpired { key: KEY.into(), owner: owner.into() })
    }

    pub fn refused(self, owner: &str, held_by: &str) -> Sample {
        let (owner, held_by) = (owner.into(), held_by.into());
        self.event("redis-1", What::RecordRefused { key: KEY.into(), owner, held_by })
    }

    pub fn waits(self, who: &str, key: &str) -> Sample {
        self.event("redis-1", What::WaitBegan { key: key.into(), owner: who.into() })
    }

    pub fn waits_no_more(self, who: &str, key: &str) -> Sample {
        self.event("redis-1", What::WaitEnded { key: key.into(), owner: who.into() })
    }

    pub fn session_expired(self, owner: &str) -> Sample {
        let (session, records) = ("0x1".to_owned(), vec![(KEY.into(), owner.into())]);
        self.event("redis-1", What::SessionExpired { session, records })
    }

    pub fn lost(self, node: &str, owner: &str, how: RecordLoss) -> Sample {
        self.event(node, What::RecordLost { key: KEY.into(), owner: owner.into(), how })
    }

    pub fn broadcast_broken(self, node: &str) -> Sample {
        self.event(node, What::BroadcastBroken { how: "it has not 0x100000002".to_owned() })
    }

    pub fn promoted(self, node: &str, owners: &[&str]) -> Sample {
        let records = owners.iter().map(|owner| (KEY.into(), (*owner).into())).collect();
        self.event(node, What::Promoted { offset: 1, records })
    }

    // -- the resource --------------------------------------------------------------

    pub fn read(self, owner: &str, next_unit: u32) -> Sample {
        let operation = StockOperation::Read { left: 1, next_unit: Some(next_unit) };
        self.effect(owner, None, operation, true)
    }

    pub fn sell(self, owner: &str, unit: u32) -> Sample {
        let order = format!("order-of-{owner}").into();
        self.effect(owner, None, StockOperation::Sell { unit, order }, true)
    }

    pub fn effect(
        self,
        owner: &str,
        token: Option<u64>,
        operation: StockOperation,
        accepted: bool,
    ) -> Sample {
        let refusal = (!accepted).then(|| "refused".into());
        let owner = owner.into();
        self.event("stock-1", What::Effect { owner, token, operation, accepted, refusal })
    }

    /// A read that shows a token.
    pub fn fenced_read(self, owner: &str, token: u64, accepted: bool) -> Sample {
        let operation = StockOperation::Read { left: 1, next_unit: Some(1) };
        self.effect(owner, Some(token), operation, accepted)
    }

    pub fn ledger(self, units: u32, sales: &[(u32, &str)]) -> Sample {
        let sales =
            sales.iter().map(|(unit, owner)| (*unit, format!("order-of-{owner}").into())).collect();
        self.event("stock-1", What::Ledger { units, sales })
    }

    pub fn reserve(self, owner: &str, unit: u32) -> Sample {
        let order = format!("order-of-{owner}").into();
        self.effect(owner, None, StockOperation::Reserve { unit, order }, true)
    }

    pub fn cancel(self, owner: &str, unit: u32) -> Sample {
        let order = format!("order-of-{owner}").into();
        self.effect(owner, None, StockOperation::Cancel { unit, order }, true)
    }

    /// A buyer was told what became of its order.
    pub fn answered(self, owner: &str, answer: OrderAnswer) -> Sample {
        let order = format!("order-of-{owner}").into();
        self.event(&client(owner), What::OrderReturned { order, answer })
    }

    pub fn counted(self, units: u32, left: i64) -> Sample {
        self.event("stock-1", What::StockCounted { units, left, reserved: 0 })
    }

    // -- nodes and faults ------------------------------------------------------------

    pub fn crash(self, node: &str) -> Sample {
        self.event(node, What::NodeCrashed { machine: false })
    }

    /// A fault that begins and touches something at once.
    pub fn fault(self, fault: usize, family: FaultFamily, node: &str) -> Sample {
        let what = What::FaultTouched { fault, how: "it did".into() };
        self.inert_fault(fault, family, node).event(node, what)
    }

    /// A fault of the link between two nodes that touches something at once.
    pub fn link_fault(self, fault: usize, family: FaultFamily, ends: [&str; 2]) -> Sample {
        let description = format!("{family:?} between {} and {}", ends[0], ends[1]);
        let targets = ends.map(Into::into).to_vec();
        let what = What::FaultTouched { fault, how: "it did".into() };
        self.event(ends[0], What::FaultBegan { fault, family, targets, description })
            .event(ends[0], what)
    }

    pub fn fault_ended(self, fault: usize, node: &str) -> Sample {
        self.event(node, What::FaultEnded { fault })
    }

    /// A node that comes back with an empty memory, in which a record of `owner` was.
    pub fn restarted(self, node: &str, owner: &str) -> Sample {
        self.event(node, What::NodeStarted { incarnation: 2 }).lost(node, owner, RecordLoss::Crash)
    }

    /// A fault that begins.
    pub fn inert_fault(self, fault: usize, family: FaultFamily, node: &str) -> Sample {
        let description = format!("{family:?} of {node}");
        let targets = vec![node.into()];
        self.event(node, What::FaultBegan { fault, family, targets, description })
    }

    pub fn healed(self) -> Sample {
        self.event("storm", What::Healed)
    }
}
