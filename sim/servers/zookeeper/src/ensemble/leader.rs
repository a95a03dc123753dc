//! A leader: a new epoch, followers, proposals and their acknowledgements (`Leader.lead`).
//!
//! Order of things: [`Leading`] and what may be done with it under the state's lock, then
//! the steps of a leader's life.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::super::codec::Writer;
use super::super::observe::Observation;
use super::super::server::{begin_to_decide, expire};
use super::super::settings::{Ensemble, ServerId};
use super::super::state::{Role, Shared, State};
use super::super::store::Epoch;
use super::super::transaction::Transaction;
use super::packet::{self, message, start_of};

/// A leader, or one that is about to be.
pub(in super::super) struct Leading {
    /// Tells this time of leading from others.
    pub(super) number: u64,
    /// The epoch that it proposes.
    pub(super) epoch: i64,
    /// Whose epochs are known.
    pub(super) connecting: BTreeSet<ServerId>,
    /// The new epoch is known and written down.
    pub(super) epoch_is_set: bool,
    /// Who has accepted it.
    pub(super) electing: BTreeSet<ServerId>,
    pub(super) is_elected: bool,
    /// Who is where this leader is.
    pub(super) synchronised: BTreeSet<ServerId>,
    pub(super) is_established: bool,
    /// It decides and serves.
    pub(super) is_running: bool,
    /// How far it was itself: its epoch and its newest transaction.
    pub(super) summary: (i64, i64),
    /// Sent out and not decided: who has it on disk.
    outstanding: BTreeMap<i64, (Arc<Transaction>, BTreeSet<ServerId>)>,
    last_proposed: i64,
    last_decided: i64,
    /// `sync`s that wait for a transaction.
    syncs: BTreeMap<i64, Vec<u64>>,
    pub(super) tick: u64,
    pub(super) links: BTreeMap<u64, Link>,
    /// Why it is to lead no more.
    over: Option<String>,
}

/// The way to a follower.
pub(super) struct Link {
    pub(super) server: ServerId,
    /// What it is to hear.
    pub(super) output: Vec<u8>,
    pub(super) wake: Arc<Notify>,
    /// It is sent proposals and pings.
    pub(super) is_forwarded: bool,
    /// It has acknowledged its new leader.
    pub(super) is_synchronised: bool,
    /// Until which tick it counts as in touch.
    pub(super) deadline: u64,
    /// The oldest proposal that it has not acknowledged and the newest, with when they were
    /// sent (`SyncLimitCheck`).
    oldest: Option<(i64, Duration)>,
    newest: Option<(i64, Duration)>,
    /// To be cut.
    pub(super) is_over: bool,
}

impl Link {
    pub(super) fn new(server: ServerId, deadline: u64) -> Link {
        Link {
            server,
            output: Vec::new(),
            wake: Arc::new(Notify::new()),
            is_forwarded: false,
            is_synchronised: false,
            deadline,
            oldest: None,
            newest: None,
            is_over: false,
        }
    }

    pub(super) fn say(&mut self, kind: i32, zxid: i64, data: Option<&[u8]>) {
        let mut writer = Writer::new();
        packet::write(&mut writer, kind, zxid, data);
        self.say_raw(writer.bytes());
    }

    pub(super) fn say_raw(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        self.wake.notify_one();
    }

    fn note_proposal(&mut self, zxid: i64, now: Duration) {
        if !self.is_synchronised {
            return;
        }
        match self.oldest {
            None => self.oldest = Some((zxid, now)),
            Some(_) => self.newest = Some((zxid, now)),
        }
    }

    pub(super) fn note_acknowledgement(&mut self, zxid: i64) {
        if self.oldest.is_some_and(|(oldest, _)| oldest == zxid) {
            self.oldest = self.newest.take();
        } else if self.newest.is_some_and(|(newest, _)| newest == zxid) {
            self.newest = None;
        }
    }

    /// Whether a proposal has waited for its acknowledgement for longer than `limit`.
    fn is_late(&self, now: Duration, limit: Duration) -> bool {
        self.oldest.is_some_and(|(_, at)| now.saturating_sub(at) >= limit)
    }
}

impl Leading {
    fn new(number: u64, summary: (i64, i64)) -> Leading {
        Leading {
            number,
            epoch: -1,
            connecting: BTreeSet::new(),
            epoch_is_set: false,
            electing: BTreeSet::new(),
            is_elected: false,
            synchronised: BTreeSet::new(),
            is_established: false,
            is_running: false,
            summary,
            outstanding: BTreeMap::new(),
            last_proposed: summary.1,
            last_decided: summary.1,
            syncs: BTreeMap::new(),
            tick: 0,
            links: BTreeMap::new(),
            over: None,
        }
    }

    /// Ends it.
    pub(in super::super) fn end(&mut self, why: &str) {
        self.over.get_or_insert_with(|| why.to_owned());
    }

    pub(in super::super) fn learner_count(&self) -> usize {
        self.links.len()
    }

    pub(in super::super) fn synced_count(&self) -> usize {
        self.links.values().filter(|link| self.is_in_touch(link)).count()
    }

    fn is_in_touch(&self, link: &Link) -> bool {
        !link.is_over && self.tick <= link.deadline
    }

    /// Member `of` has accepted this epoch before: the new one is later.
    pub(super) fn hear_epoch(&mut self, ensemble: &Ensemble, of: ServerId, accepted: i64) {
        if self.knows_epoch(ensemble) {
            return;
        }
        self.epoch = self.epoch.max(accepted + 1);
        self.connecting.insert(of);
    }

    fn knows_epoch(&self, ensemble: &Ensemble) -> bool {
        self.connecting.contains(&ensemble.me) && ensemble.is_quorum(self.connecting.len())
    }

    /// Member `of` accepts the epoch; it is as far as `summary` says. False: it is further
    /// than this leader.
    pub(super) fn hear_acceptance(
        &mut self,
        ensemble: &Ensemble,
        of: ServerId,
        summary: (i64, i64),
    ) -> bool {
        if self.is_elected {
            return true;
        }
        if summary.0 != -1 {
            if summary > self.summary {
                return false;
            }
            self.electing.insert(of);
        }
        self.is_elected =
            self.electing.contains(&ensemble.me) && ensemble.is_quorum(self.electing.len());
        true
    }

    /// Member `of` is where this leader is.
    pub(super) fn hear_synchronised(&mut self, ensemble: &Ensemble, of: ServerId) {
        self.synchronised.insert(of);
        self.is_established |= ensemble.is_quorum(self.synchronised.len());
    }

    /// Sends out a transaction.
    pub(in super::super) fn propose(&mut self, now: Duration, transaction: &Arc<Transaction>) {
        let zxid = transaction.zxid();
        self.last_proposed = zxid;
        self.outstanding.insert(zxid, (transaction.clone(), BTreeSet::new()));
        for link in self.links.values_mut().filter(|link| link.is_forwarded) {
            link.say(message::PROPOSAL, zxid, Some(&transaction.bytes));
            link.note_proposal(zxid, now);
        }
    }

    /// What a follower that is at `since` must still hear of what is under way.
    pub(super) fn catch_up(&mut self, number: u64, since: i64) {
        let Some(link) = self.links.get_mut(&number) else { return };
        for (zxid, (transaction, _)) in self.outstanding.range(since + 1..) {
            link.say(message::PROPOSAL, *zxid, Some(&transaction.bytes));
        }
        link.is_forwarded = true;
    }

    /// Member `by` has a transaction on disk. Tells the transaction if it is decided now,
    /// and which `sync`s waited for it.
    pub(in super::super) fn acknowledged(
        &mut self,
        ensemble: &Ensemble,
        by: ServerId,
        zxid: i64,
    ) -> Option<(Arc<Transaction>, Vec<u64>)> {
        let (_, by_whom) = self.outstanding.get_mut(&zxid)?;
        by_whom.insert(by);
        let is_first = self.outstanding.first_key_value().is_some_and(|(first, _)| *first == zxid);
        let (_, by_whom) = self.outstanding.get(&zxid)?;
        if !is_first || !ensemble.is_quorum(by_whom.len()) {
            return None;
        }
        let (transaction, _) = self.outstanding.remove(&zxid)?;
        self.last_decided = zxid;
        for link in self.links.values_mut().filter(|link| link.is_forwarded) {
            link.say(message::COMMIT, zxid, None);
        }
        Some((transaction, self.syncs.remove(&zxid).unwrap_or_default()))
    }

    /// A follower's client wants its server to be as far as this leader is now.
    pub(super) fn hear_sync(&mut self, link: u64) {
        if self.outstanding.is_empty() {
            self.answer_sync(link);
        } else {
            self.syncs.entry(self.last_proposed).or_default().push(link);
        }
    }

    /// Tells a follower that its client's `sync` is as far.
    pub(in super::super) fn answer_sync(&mut self, link: u64) {
        if let Some(link) = self.links.get_mut(&link) {
            link.say(message::SYNC, 0, None);
        }
    }
}

/// The leader that this server is, if it is still the one with this number.
pub(super) fn leading(state: &mut State, number: u64) -> Option<&mut Leading> {
    match &mut state.role {
        Role::Leading(leading) if leading.number == number && leading.over.is_none() => {
            Some(leading)
        }
        _ => None,
    }
}

/// Leads as long as a quorum follows.
///
/// # Errors
/// When the disk fails.
pub(super) async fn lead(shared: &Arc<Shared>) -> io::Result<()> {
    let number = {
        let state = &mut *shared.lock();
        let number = state.draw_id();
        let summary = (state.current_epoch, state.tree.last_zxid);
        let mut leading = Leading::new(number, summary);
        leading.hear_epoch(&shared.ensemble, shared.ensemble.me, state.accepted_epoch);
        state.role = Role::Leading(Box::new(leading));
        shared.changed.notify_waiters();
        number
    };
    let established = establish(shared, number).await?;
    if let Some(epoch) = established {
        let expiry = shared.spawn("zookeeper-sessions", {
            let shared = shared.clone();
            async move { expire(&shared).await }
        });
        let why = preside(shared, number).await;
        shared.stop(expiry);
        shared.tell(&Observation::SteppedDown { epoch, why: &why });
    }
    Ok(())
}

/// Waits for something about this leader, no longer than followers may take to come.
async fn await_quorum(
    shared: &Shared,
    number: u64,
    mut condition: impl FnMut(&mut Leading) -> bool,
) -> bool {
    let limit = shared.settings.tick * shared.settings.init_limit;
    let come = shared.until(|state| match leading(state, number) {
        None => Some(false),
        Some(leading) => condition(leading).then_some(true),
    });
    shared.host.timeout(limit, come).await.unwrap_or(false)
}

/// Agrees with a quorum on a new epoch and brings it to where this leader is. `None`: there
/// is no quorum.
async fn establish(shared: &Arc<Shared>, number: u64) -> io::Result<Option<i64>> {
    let ensemble = &shared.ensemble;
    if !await_quorum(shared, number, |leading| leading.knows_epoch(ensemble)).await {
        return Ok(None);
    }
    let Some(epoch) = leading(&mut shared.lock(), number).map(|leading| leading.epoch) else {
        return Ok(None);
    };
    shared.store.set_epoch(Epoch::Accepted, epoch).await?;
    {
        let state = &mut *shared.lock();
        state.accepted_epoch = epoch;
        let Some(leading) = leading(state, number) else { return Ok(None) };
        leading.epoch_is_set = true;
        let summary = leading.summary;
        leading.hear_acceptance(ensemble, ensemble.me, summary);
        shared.changed.notify_waiters();
    }
    if !await_quorum(shared, number, |leading| leading.is_elected).await {
        return Ok(None);
    }
    shared.store.set_epoch(Epoch::Current, epoch).await?;
    {
        let state = &mut *shared.lock();
        state.current_epoch = epoch;
        let Some(leading) = leading(state, number) else { return Ok(None) };
        leading.hear_synchronised(ensemble, ensemble.me);
        shared.changed.notify_waiters();
    }
    if !await_quorum(shared, number, |leading| leading.is_established).await {
        return Ok(None);
    }
    begin(shared, &mut shared.lock(), number, epoch);
    Ok(Some(epoch))
}

/// A quorum is where this leader is: what it has is decided, and it goes on from there.
fn begin(shared: &Shared, state: &mut State, number: u64, epoch: i64) {
    let start = start_of(epoch);
    let Some(leading) = leading(state, number) else { return };
    leading.is_running = true;
    leading.last_proposed = start;
    leading.last_decided = start;
    state.vote.epoch = epoch;
    state.tree.last_zxid = state.tree.last_zxid.max(start);
    begin_to_decide(shared, state, start);
    shared.tell(&Observation::Leading { epoch });
    state.serving = true;
    shared.changed.notify_waiters();
}

/// Pings followers twice a tick and looks once whether they are a quorum. Tells why it ended.
async fn preside(shared: &Arc<Shared>, number: u64) -> String {
    let settings = &shared.settings;
    let mut counts = false;
    loop {
        let over = shared.until(|state| match &state.role {
            Role::Leading(leading) if leading.number == number => leading.over.clone(),
            _ => Some("another role".to_owned()),
        });
        if let Ok(why) = shared.host.timeout(settings.tick / 2, over).await {
            return why;
        }
        let state = &mut *shared.lock();
        let now = shared.host.monotonic();
        let Some(leading) = leading(state, number) else { return "another role".to_owned() };
        if counts {
            leading.tick += 1;
        }
        let mut together: BTreeSet<ServerId> = BTreeSet::from([shared.ensemble.me]);
        let in_touch = leading.links.values().filter(|link| leading.is_in_touch(link));
        let members = &shared.ensemble.members;
        together.extend(in_touch.map(|link| link.server).filter(|id| members.contains_key(id)));
        if counts && !shared.ensemble.is_quorum(together.len()) {
            return format!(
                "only {} of {} are in touch",
                together.len(),
                shared.ensemble.members.len()
            );
        }
        counts = !counts;
        let (last_proposed, limit) = (leading.last_proposed, settings.tick * settings.sync_limit);
        for link in leading.links.values_mut().filter(|link| link.is_forwarded) {
            if link.is_late(now, limit) {
                link.is_over = true;
                shared.changed.notify_waiters();
            } else {
                link.say(message::PING, last_proposed, None);
            }
        }
    }
}
