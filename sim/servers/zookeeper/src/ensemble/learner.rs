//! A leader's side of the link to a follower (`LearnerHandler`).
//!
//! Order of things: the new epoch, how the follower gets to where the leader is, its
//! acknowledgement, then what it says as long as the link lives.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::host::Stream;
use tokio::io::{AsyncWriteExt, BufReader, ReadHalf, WriteHalf};

use super::super::code::kind;
use super::super::codec::{Reader, Writer};
use super::super::observe::Observation;
use super::super::pipeline::{self, Request};
use super::super::session::Owner;
use super::super::settings::ServerId;
use super::super::snapshot::{self, malformed};
use super::super::state::{Role, Shared, State};
use super::super::transaction::Transaction;
use super::leader::{Leading, Link, leading};
use super::packet::{self, PROTOCOL, Packet, SIGNATURE, epoch_of, is_start, message, start_of};

/// How long a follower may be ahead of the leader in seeing who leads.
const EARLY: Duration = Duration::from_secs(1);

/// Serves a connection of a follower until either side ends it.
pub(super) async fn serve(shared: Arc<Shared>, stream: Stream) {
    let leads = shared.until(|state| match &state.role {
        Role::Leading(leading) => Some(leading.number),
        _ => None,
    });
    let Ok(number) = shared.host.timeout(EARLY, leads).await else { return };
    let link = {
        let state = &mut *shared.lock();
        let link = state.draw_id();
        let Some(leading) = leading(state, number) else { return };
        let settings = &shared.settings;
        let deadline = u64::from(settings.init_limit) + u64::from(settings.sync_limit);
        // Whose it is, is still to be heard.
        leading.links.insert(link, Link::new(0, leading.tick + deadline));
        link
    };
    let (read, write) = tokio::io::split(stream);
    let handler =
        Handler { shared: shared.clone(), number, link, server: 0, stream: BufReader::new(read) };
    let writer = shared.spawn("zookeeper-learner", {
        let shared = shared.clone();
        async move {
            let _ = write_out(&shared, number, link, write).await;
        }
    });
    let mut handler = handler;
    let over = shared.until(|state| match leading(state, number) {
        Some(leading) => leading.links.get(&link).is_none_or(|link| link.is_over).then_some(()),
        None => Some(()),
    });
    let mut over = std::pin::pin!(over);
    {
        let mut run = std::pin::pin!(handler.run());
        std::future::poll_fn(|context| {
            if over.as_mut().poll(context).is_ready() {
                return std::task::Poll::Ready(());
            }
            run.as_mut().poll(context).map(|_| ())
        })
        .await;
    }
    shared.stop(writer);
    if let Some(leading) = leading(&mut shared.lock(), number) {
        leading.links.remove(&link);
    }
    shared.changed.notify_waiters();
}

async fn write_out(
    shared: &Shared,
    number: u64,
    link: u64,
    mut stream: WriteHalf<Stream>,
) -> io::Result<()> {
    loop {
        let (output, wake) = {
            let state = &mut *shared.lock();
            let Some(leading) = leading(state, number) else { return Ok(()) };
            let Some(link) = leading.links.get_mut(&link) else { return Ok(()) };
            (std::mem::take(&mut link.output), link.wake.clone())
        };
        if output.is_empty() {
            wake.notified().await;
            continue;
        }
        if let Err(error) = stream.write_all(&output).await {
            let state = &mut *shared.lock();
            if let Some(leading) = leading(state, number)
                && let Some(link) = leading.links.get_mut(&link)
            {
                link.is_over = true;
            }
            shared.changed.notify_waiters();
            return Err(error);
        }
    }
}

struct Handler {
    shared: Arc<Shared>,
    number: u64,
    link: u64,
    server: ServerId,
    stream: BufReader<ReadHalf<Stream>>,
}

/// This server leads no more, or not this follower.
fn gone() -> io::Error {
    io::Error::other("the link is no more")
}

impl Handler {
    async fn run(&mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        let (init, sync) = {
            let settings = &shared.settings;
            (settings.tick * settings.init_limit, settings.tick * settings.sync_limit)
        };
        let since = self.discover(init).await?;
        let epoch = {
            let state = &mut *shared.lock();
            synchronise(&shared, state, self.number, self.link, since).ok_or_else(gone)?
        };
        let packet = self.hear(init).await?;
        if packet.kind != message::ACK || packet.zxid != start_of(epoch) {
            return Err(malformed("no acknowledgement of a new leader"));
        }
        self.with(|leading, link, me| {
            leading.hear_synchronised(&me.ensemble, link);
        })?;
        shared.changed.notify_waiters();
        self.until(init, |leading| leading.is_established).await?;
        self.until(init, |leading| leading.is_running).await?;
        {
            let state = &mut *shared.lock();
            let leading = leading(state, self.number).ok_or_else(gone)?;
            let link = leading.links.get_mut(&self.link).ok_or_else(gone)?;
            link.is_synchronised = true;
            link.say(message::UP_TO_DATE, -1, None);
        }
        loop {
            let packet = self.hear(sync).await?;
            take(&shared, &mut shared.lock(), self, &packet)?;
        }
    }

    /// The next message, within `limit`.
    async fn hear(&mut self, limit: Duration) -> io::Result<Packet> {
        let most = self.shared.settings.packet_limit_bytes;
        let read = packet::read(&mut self.stream, most);
        let read = self.shared.host.timeout(limit, read).await;
        read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    fn with<T>(&self, act: impl FnOnce(&mut Leading, ServerId, &Shared) -> T) -> io::Result<T> {
        let state = &mut *self.shared.lock();
        let leading = leading(state, self.number).ok_or_else(gone)?;
        Ok(act(leading, self.server, &self.shared))
    }

    async fn until(
        &self,
        limit: Duration,
        mut condition: impl FnMut(&mut Leading) -> bool,
    ) -> io::Result<()> {
        let number = self.number;
        let come = self.shared.until(|state| match leading(state, number) {
            None => Some(Err(gone())),
            Some(leading) => condition(leading).then_some(Ok(())),
        });
        let come = self.shared.host.timeout(limit, come).await;
        come.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// Who it is, which epochs it knows, and how far it is.
    async fn discover(&mut self, limit: Duration) -> io::Result<i64> {
        let shared = self.shared.clone();
        let info = self.hear(limit).await?;
        if info.kind != message::FOLLOWER_INFO {
            return Err(malformed("no follower"));
        }
        let mut data = Reader::new(info.data()?);
        let server = data.long().ok().and_then(|number| ServerId::try_from(number).ok());
        let is_member = |id: &ServerId| shared.ensemble.members.contains_key(id);
        self.server = server
            .filter(|id| is_member(id) && *id != shared.ensemble.me)
            .ok_or_else(|| malformed("a follower that is no member"))?;
        {
            let state = &mut *shared.lock();
            let leading = leading(state, self.number).ok_or_else(gone)?;
            leading.hear_epoch(&shared.ensemble, self.server, epoch_of(info.zxid));
            leading.links.get_mut(&self.link).ok_or_else(gone)?.server = self.server;
        }
        shared.changed.notify_waiters();
        self.until(limit, |leading| leading.epoch_is_set).await?;
        {
            let state = &mut *shared.lock();
            let leading = leading(state, self.number).ok_or_else(gone)?;
            let zxid = start_of(leading.epoch);
            let link = leading.links.get_mut(&self.link).ok_or_else(gone)?;
            link.say(message::LEADER_INFO, zxid, Some(&PROTOCOL.to_be_bytes()));
        }
        let accepted = self.hear(limit).await?;
        if accepted.kind != message::ACK_EPOCH {
            return Err(malformed("no acknowledgement of an epoch"));
        }
        let epoch = Reader::new(accepted.data()?).int().map_err(|_| malformed("no epoch"))?;
        let summary = (i64::from(epoch), accepted.zxid);
        let is_behind = self.with(|leading, server, shared| {
            leading.hear_acceptance(&shared.ensemble, server, summary)
        })?;
        if !is_behind {
            return Err(malformed("a follower that is ahead of its leader"));
        }
        shared.changed.notify_waiters();
        self.until(limit, |leading| leading.is_elected).await?;
        Ok(accepted.zxid)
    }
}

/// Sends a follower that is at `since` what it needs to be where this leader is, and from
/// then on everything (`syncFollower`). Tells the epoch.
fn synchronise(
    shared: &Shared,
    state: &mut State,
    number: u64,
    link_number: u64,
    since: i64,
) -> Option<i64> {
    let State { role, tree, commit_log, .. } = state;
    let Role::Leading(leading) = role else { return None };
    if leading.number != number {
        return None;
    }
    let epoch = leading.epoch;
    let link = leading.links.get_mut(&link_number)?;
    let newest = commit_log.back().map_or(tree.last_zxid, |last| last.zxid());
    let oldest = commit_log.front().map_or(tree.last_zxid, |first| first.zxid());
    let mut at = since;
    let mut writer = Writer::new();
    let plan = if tree.last_zxid == since {
        packet::write(&mut writer, message::DIFFERENCE, since, None);
        true
    } else if since > newest && !is_start(since) {
        packet::write(&mut writer, message::TRUNCATION, newest, None);
        at = newest;
        true
    } else if (oldest..=newest).contains(&since) {
        difference(commit_log.iter(), since, newest, &mut writer, &mut at)
    } else if is_start(since) && since > newest {
        packet::write(&mut writer, message::DIFFERENCE, newest, None);
        true
    } else {
        false
    };
    if !plan {
        writer = Writer::new();
        at = tree.last_zxid;
        packet::write(&mut writer, message::SNAPSHOT, at, None);
        snapshot::write(tree, &mut writer);
        writer.text(SIGNATURE);
    }
    link.say_raw(writer.bytes());
    leading.catch_up(link_number, at);
    let config = shared.ensemble.config_text();
    let link = leading.links.get_mut(&link_number)?;
    link.say(message::NEW_LEADER, start_of(epoch), Some(config.as_bytes()));
    Some(epoch)
}

/// Sends what comes after `since`, cutting off what the follower has and this leader has not.
/// False: that takes a snapshot (`queueCommittedProposals`).
fn difference<'a>(
    log: impl Iterator<Item = &'a Arc<Transaction>>,
    since: i64,
    newest: i64,
    writer: &mut Writer,
    at: &mut i64,
) -> bool {
    let mut before = None;
    let mut has_begun = false;
    for transaction in log {
        let zxid = transaction.zxid();
        if zxid < since {
            before = Some(zxid);
            continue;
        }
        if !has_begun {
            has_begun = true;
            if zxid == since || is_start(since) {
                packet::write(writer, message::DIFFERENCE, newest, None);
            } else {
                match before {
                    Some(before) if epoch_of(zxid) == epoch_of(since) => {
                        packet::write(writer, message::TRUNCATION, before, None);
                    }
                    // A log is not cut across epochs.
                    _ => return false,
                }
            }
            if zxid == since {
                continue;
            }
        }
        packet::write(writer, message::PROPOSAL, zxid, Some(&transaction.bytes));
        packet::write(writer, message::COMMIT, zxid, None);
        *at = zxid;
    }
    has_begun
}

/// A follower said something.
fn take(shared: &Shared, state: &mut State, handler: &Handler, packet: &Packet) -> io::Result<()> {
    let sync_limit = u64::from(shared.settings.sync_limit);
    let leading = leading(state, handler.number).ok_or_else(gone)?;
    let deadline = leading.tick + sync_limit;
    let link = leading.links.get_mut(&handler.link).ok_or_else(gone)?;
    link.deadline = deadline;
    match packet.kind {
        message::ACK => {
            link.note_acknowledgement(packet.zxid);
            super::acknowledged(shared, state, handler.server, packet.zxid);
        }
        message::PING => touch(shared, state, packet)?,
        message::REVALIDATE => revalidate(shared, state, handler, packet)?,
        message::REQUEST => request(shared, state, handler, packet)?,
        _ => {}
    }
    Ok(())
}

/// The sessions that the follower has heard of.
fn touch(shared: &Shared, state: &mut State, packet: &Packet) -> io::Result<()> {
    let now = shared.host.monotonic();
    let Some(tracker) = &mut state.tracker else { return Ok(()) };
    let mut data = Reader::new(packet.data.as_deref().unwrap_or_default());
    while let (Ok(session), Ok(timeout_ms)) = (data.long(), data.int()) {
        tracker.touch(session, timeout_ms, now);
    }
    Ok(())
}

/// Whether a session goes on: through this follower from now on.
fn revalidate(
    shared: &Shared,
    state: &mut State,
    handler: &Handler,
    packet: &Packet,
) -> io::Result<()> {
    let now = shared.host.monotonic();
    let mut data = Reader::new(packet.data()?);
    let (Ok(session), Ok(timeout_ms)) = (data.long(), data.int()) else {
        return Err(malformed("no session"));
    };
    let Some(tracker) = &mut state.tracker else { return Ok(()) };
    let valid = tracker.touch(session, timeout_ms, now);
    if valid && tracker.set_owner(session, Some(Owner::Link(handler.link))).is_some() {
        shared.tell(&Observation::SessionMoved { session });
    }
    let mut answer = Writer::new();
    answer.long(session).boolean(valid);
    let leading = leading(state, handler.number).ok_or_else(gone)?;
    let link = leading.links.get_mut(&handler.link).ok_or_else(gone)?;
    link.say(message::REVALIDATE, packet.zxid, Some(answer.bytes()));
    Ok(())
}

/// A request of one of its clients.
fn request(
    shared: &Shared,
    state: &mut State,
    handler: &Handler,
    packet: &Packet,
) -> io::Result<()> {
    let data = packet.data()?;
    let mut reader = Reader::new(data);
    let (Ok(session), Ok(xid), Ok(kind)) = (reader.long(), reader.int(), reader.int()) else {
        return Err(malformed("no request"));
    };
    if kind == kind::SYNC {
        leading(state, handler.number).ok_or_else(gone)?.hear_sync(handler.link);
        return Ok(());
    }
    if !kind::is_write(kind) {
        return Err(malformed("a request that is not for the leader"));
    }
    let mut request = Request::internal(session, kind, reader.rest().to_vec().into());
    request.xid = xid;
    request.identities = packet.identities.clone().into();
    request.owner = Some(Owner::Link(handler.link));
    pipeline::submit(shared, state, request);
    Ok(())
}
