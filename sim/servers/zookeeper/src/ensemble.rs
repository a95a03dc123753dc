//! Several servers that are one (Zab, as in `QuorumPeer`, `Leader`, `Learner`).
//!
//! A member looks for a leader, then leads or follows until that ends, and looks again. What
//! a leader decides is on the disks of a quorum before anybody hears of it; a new leader is
//! one that has all of it, and brings its followers to where it is before it goes on.
//!
//! Order of things: [`vote`] and [`mail`] carry [`election`]s; [`packet`] is what leaders and
//! followers say; [`leader`] leads, with a [`learner`] for each follower; [`follower`]
//! follows. Here: what the rest of the server asks of all that, and a member's life.

mod election;
mod follower;
mod leader;
mod learner;
mod mail;
mod packet;
mod vote;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm::host::Listener;

pub(super) use follower::Following;
pub(super) use leader::Leading;
pub(super) use mail::Mail;
pub(super) use vote::Vote;

use super::codec::Writer;
use super::observe::Observation;
use super::pipeline::{self, Request};
use super::server::Peers;
use super::settings::ServerId;
use super::state::{Role, Shared, State};
use super::transaction::Transaction;

/// How long a listener that failed is left alone.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A member that looks for a leader.
pub(super) struct Looking {
    /// For whom it votes.
    pub(super) proposed: Vote,
}

/// Sends a request of a client of this follower to the leader.
pub(super) fn forward(state: &mut State, request: &Request) {
    let Role::Following(following) = &mut state.role else { return };
    following.forward(request);
}

/// Sends out a transaction to all followers, if this is a leader.
pub(super) fn propose(shared: &Shared, state: &mut State, transaction: &Arc<Transaction>) {
    let Role::Leading(leading) = &mut state.role else { return };
    leading.propose(shared.host.monotonic(), transaction);
    if transaction.zxid() & 0xffff_ffff == 0xffff_ffff {
        leading.end("the numbers of this epoch are used up");
        shared.changed.notify_waiters();
    }
}

/// The disk of member `by` has a transaction of this leader.
pub(super) fn acknowledged(shared: &Shared, state: &mut State, by: ServerId, zxid: i64) {
    let Role::Leading(leading) = &mut state.role else { return };
    let Some((transaction, syncs)) = leading.acknowledged(&shared.ensemble, by, zxid) else {
        return;
    };
    pipeline::decide(shared, state, transaction);
    if let Role::Leading(leading) = &mut state.role {
        for sync in syncs {
            leading.answer_sync(sync);
        }
    }
}

/// The disk of this follower has a transaction.
pub(super) fn acknowledge(state: &mut State, zxid: i64) {
    let Role::Following(following) = &mut state.role else { return };
    following.say(packet::message::ACK, zxid, None);
}

/// Asks the leader whether a session goes on, for the client `id` of this follower.
pub(super) fn revalidate(state: &mut State, id: u64, session: i64, timeout_ms: i32) {
    let Role::Following(following) = &mut state.role else { return };
    let mut data = Writer::new();
    data.long(session).int(timeout_ms);
    following.revalidations.insert(session, id);
    following.say(packet::message::REVALIDATE, -1, Some(data.bytes()));
}

/// A member's life: elections, and what comes of them.
///
/// # Errors
/// When the disk fails.
pub(super) async fn live(shared: &Arc<Shared>, peers: Peers) -> io::Result<()> {
    let mut elect = pin!(mail::listen(shared, &peers.election));
    let mut accept = pin!(accept(shared, &peers.quorum));
    let mut roles = pin!(roles(shared));
    std::future::poll_fn(|context: &mut Context<'_>| {
        // They do not end.
        let _: Poll<()> = elect.as_mut().poll(context);
        let _: Poll<()> = accept.as_mut().poll(context);
        roles.as_mut().poll(context)
    })
    .await
}

async fn roles(shared: &Arc<Shared>) -> io::Result<()> {
    shared.spawn_containers();
    loop {
        let vote = election::look(shared).await;
        if vote.leader == shared.ensemble.me {
            leader::lead(shared).await?;
        } else {
            // Whatever ended it, the next election comes.
            let ended = follower::follow(shared, vote).await;
            follower::note_end(shared, vote.leader, ended)?;
        }
        wind_down(shared, vote).await;
    }
}

/// Ends a role: clients go, the log is finished, and what is in it counts from now on,
/// decided or not, for a leader has to be somebody who has everything.
async fn wind_down(shared: &Shared, vote: Vote) {
    {
        let state = &mut *shared.lock();
        state.role = Role::Looking(Box::new(Looking { proposed: vote }));
        state.stop_serving();
    }
    shared.changed.notify_waiters();
    shared.until(|state| state.log.is_idle().then_some(())).await;
    let state = &mut *shared.lock();
    for transaction in std::mem::take(&mut state.undecided).into_values() {
        state.tree.apply(&transaction, &mut Vec::new());
        pipeline::keep(shared, state, &transaction);
        let (zxid, bytes) = (transaction.zxid(), &*transaction.bytes);
        shared.tell(&Observation::Applied { zxid, bytes, committed: false });
    }
    state.log.rolls = true;
}

/// Takes connections of followers. One that comes a little early waits.
async fn accept(shared: &Arc<Shared>, listener: &Listener) {
    loop {
        let Ok(stream) = listener.accept().await else {
            shared.host.sleep(ACCEPT_RETRY).await;
            continue;
        };
        let shared_too = shared.clone();
        shared.spawn("zookeeper-learner", async move {
            learner::serve(shared_too, stream).await;
        });
    }
}
