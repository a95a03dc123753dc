//! A follower: finds its leader, gets to where that is, and from then on logs, acknowledges
//! and applies what it is told (`Follower`, `Learner`).
//!
//! What the leader sent before it was established is on the disk before the follower says
//! that it is synchronised, then the epoch, then the acknowledgement. (ZooKeeper 3.8.0
//! acknowledges first and could lose what it had acknowledged: ZOOKEEPER-4643, -4646.)
//!
//! Order of things: [`Following`] under the state's lock, connecting, synchronising, serving.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::host::Stream;
use tokio::io::{AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::Notify;

use super::super::code::kind;
use super::super::codec::{Reader, Writer};
use super::super::observe::{Means, Observation};
use super::super::pipeline::{self, Request};
use super::super::server::recover;
use super::super::settings::ServerId;
use super::super::snapshot::{self, StreamReader, malformed};
use super::super::state::{Role, Shared, State};
use super::super::store::Epoch;
use super::super::transaction::Transaction;
use super::super::{logger, reply};
use super::packet::{self, PROTOCOL, Packet, SIGNATURE, epoch_of, is_start, message, start_of};
use super::vote::Vote;

/// How often a leader is tried to be reached.
const TRIES: u32 = 5;
/// How long between (`zookeeper.leaderConnectDelayDuringRetryMs`).
const RETRY: Duration = Duration::from_millis(100);

/// A follower, or one that is about to be.
pub(in super::super) struct Following {
    /// What the leader is to hear.
    output: Vec<u8>,
    wake: Arc<Notify>,
    /// The clients' `sync`s under way: whose, which.
    syncs: VecDeque<(i64, i32)>,
    /// The clients that wait to hear whether their session goes on, by session.
    pub(super) revalidations: BTreeMap<i64, u64>,
}

impl Following {
    pub(super) fn say(&mut self, kind: i32, zxid: i64, data: Option<&[u8]>) {
        let mut writer = Writer::new();
        packet::write(&mut writer, kind, zxid, data);
        self.output.extend_from_slice(writer.bytes());
        self.wake.notify_one();
    }

    pub(super) fn forward(&mut self, request: &Request) {
        if request.kind == kind::SYNC {
            self.syncs.push_back((request.session, request.xid));
        }
        let mut data = Writer::new();
        data.long(request.session).int(request.xid).int(request.kind).raw(&request.body);
        let mut writer = Writer::new();
        packet::write_with(&mut writer, message::REQUEST, data.bytes(), &request.identities);
        self.output.extend_from_slice(writer.bytes());
        self.wake.notify_one();
    }
}

/// Why following ended.
pub(super) enum Ended {
    /// The link failed, or the leader said what cannot be.
    Link(io::Error),
    /// The disk failed.
    Disk(io::Error),
}

/// Takes note of why following ended.
///
/// # Errors
/// When the disk failed.
pub(super) fn note_end(shared: &Shared, leader: ServerId, ended: Ended) -> io::Result<()> {
    match ended {
        Ended::Link(error) => {
            shared.tell(&Observation::Left { leader, why: &error.to_string() });
            Ok(())
        }
        Ended::Disk(error) => Err(error),
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Ended::Link(error)
    }
}

/// What was read from the leader before it was established.
#[derive(Default)]
struct Inbound {
    proposals: Vec<Arc<Transaction>>,
    /// How many of them are decided.
    decided: usize,
}

/// A follower's link.
struct Follower {
    shared: Arc<Shared>,
    leader: ServerId,
    stream: BufReader<ReadHalf<Stream>>,
}

/// Follows until that ends.
pub(super) async fn follow(shared: &Arc<Shared>, vote: Vote) -> Ended {
    let wake = Arc::new(Notify::new());
    {
        let state = &mut *shared.lock();
        state.role = Role::Following(Box::new(Following {
            output: Vec::new(),
            wake: wake.clone(),
            syncs: VecDeque::new(),
            revalidations: BTreeMap::new(),
        }));
    }
    let stream = match reach(shared, vote.leader).await {
        Ok(stream) => stream,
        Err(error) => return Ended::Link(error),
    };
    let (read, write) = tokio::io::split(stream);
    let writer = shared.spawn("zookeeper-follower", {
        let (shared, wake) = (shared.clone(), wake.clone());
        async move {
            // The reader will notice.
            let _ = write_out(&shared, write, &wake).await;
        }
    });
    let stream = BufReader::new(read);
    let mut follower = Follower { shared: shared.clone(), leader: vote.leader, stream };
    let ended = follower.run().await;
    shared.stop(writer);
    match ended {
        Ok(never) => match never {},
        Err(ended) => ended,
    }
}

/// Connects to the leader, which may not be one yet.
async fn reach(shared: &Shared, leader: ServerId) -> io::Result<Stream> {
    let member = shared.ensemble.members.get(&leader);
    let member = member.ok_or_else(|| malformed("a leader that is no member"))?;
    let address = format!("{}:{}", member.host, member.quorum_port);
    let limit = shared.settings.tick * shared.settings.init_limit;
    let end = shared.host.monotonic() + limit;
    let mut failure = io::Error::from(io::ErrorKind::TimedOut);
    for _ in 0..TRIES {
        let left = end.saturating_sub(shared.host.monotonic());
        match shared.host.timeout(left, shared.host.connect(&address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(_) => break,
        }
        shared.host.sleep(RETRY).await;
    }
    Err(failure)
}

async fn write_out(
    shared: &Shared,
    mut stream: WriteHalf<Stream>,
    wake: &Arc<Notify>,
) -> io::Result<()> {
    loop {
        let output = {
            let state = &mut *shared.lock();
            match &mut state.role {
                Role::Following(following) if Arc::ptr_eq(&following.wake, wake) => {
                    std::mem::take(&mut following.output)
                }
                _ => return Ok(()),
            }
        };
        if output.is_empty() {
            wake.notified().await;
            continue;
        }
        stream.write_all(&output).await?;
    }
}

fn say(state: &mut State, kind: i32, zxid: i64, data: Option<&[u8]>) {
    if let Role::Following(following) = &mut state.role {
        following.say(kind, zxid, data);
    }
}

/// Nothing: following does not end well.
enum Never {}

impl Follower {
    async fn run(&mut self) -> Result<Never, Ended> {
        let shared = self.shared.clone();
        let (init, sync) = {
            let settings = &shared.settings;
            (settings.tick * settings.init_limit, settings.tick * settings.sync_limit)
        };
        let epoch = self.register(init).await?;
        let (means, lost) = self.receive_base(init).await?;
        let mut inbound = Inbound::default();
        loop {
            let packet = self.hear(init).await?;
            match packet.kind {
                message::NEW_LEADER => break,
                _ => inbound.take(&packet)?,
            }
        }
        self.settle(epoch, means, &lost, &mut inbound).await?;
        loop {
            let packet = self.hear(sync).await?;
            match packet.kind {
                message::UP_TO_DATE => break,
                message::PING => ping(&mut shared.lock(), packet.zxid),
                _ => {
                    let state = &mut *shared.lock();
                    self.take_early(state, &mut inbound, &packet)?;
                }
            }
        }
        self.begin(&mut shared.lock(), epoch, &inbound)?;
        loop {
            let packet = self.hear(sync).await?;
            take(&shared, &mut shared.lock(), &packet)?;
        }
    }

    async fn hear(&mut self, limit: Duration) -> io::Result<Packet> {
        let most = self.shared.settings.packet_limit_bytes;
        let read = packet::read(&mut self.stream, most);
        let read = self.shared.host.timeout(limit, read).await;
        read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// Tells the leader who this is and accepts its epoch.
    async fn register(&mut self, limit: Duration) -> Result<i64, Ended> {
        let shared = self.shared.clone();
        {
            let state = &mut *shared.lock();
            let mut data = Writer::new();
            data.long(i64::from(shared.ensemble.me)).int(PROTOCOL).long(0);
            let zxid = start_of(state.accepted_epoch);
            say(state, message::FOLLOWER_INFO, zxid, Some(data.bytes()));
        }
        let info = self.hear(limit).await?;
        if info.kind != message::LEADER_INFO {
            return Err(malformed("no leader").into());
        }
        let epoch = epoch_of(info.zxid);
        let (accepted, current) = {
            let state = shared.lock();
            (state.accepted_epoch, state.current_epoch)
        };
        // One that has accepted this epoch before cannot do so again, but may follow.
        let told = match epoch.cmp(&accepted) {
            std::cmp::Ordering::Less => {
                return Err(malformed("a leader of an epoch that is over").into());
            }
            std::cmp::Ordering::Equal => -1,
            std::cmp::Ordering::Greater => {
                shared.store.set_epoch(Epoch::Accepted, epoch).await.map_err(Ended::Disk)?;
                i32::try_from(current).unwrap_or(i32::MAX)
            }
        };
        let state = &mut *shared.lock();
        state.accepted_epoch = epoch;
        let zxid = state.tree.last_zxid;
        say(state, message::ACK_EPOCH, zxid, Some(&told.to_be_bytes()));
        Ok(epoch)
    }

    /// What the leader begins with: nothing, the end of the log to cut off, or a whole tree.
    async fn receive_base(&mut self, limit: Duration) -> Result<(Means, Vec<i64>), Ended> {
        let packet = self.hear(limit).await?;
        match packet.kind {
            message::DIFFERENCE => Ok((Means::Difference, Vec::new())),
            message::TRUNCATION => {
                let lost = self.truncate(packet.zxid).await?;
                Ok((Means::Truncation, lost))
            }
            message::SNAPSHOT => {
                let lost = self.receive_tree(packet.zxid, limit).await?;
                Ok((Means::Snapshot, lost))
            }
            _ => Err(malformed("nothing to begin with").into()),
        }
    }

    async fn truncate(&mut self, zxid: i64) -> Result<Vec<i64>, Ended> {
        let shared = &self.shared;
        if shared.settings.bugs.forget_truncation {
            return Ok(Vec::new());
        }
        // Until the tree is what the log has, no snapshot of it.
        let snapshots = shared.store.snapshots().await;
        let lost = snapshots.truncate(zxid).await.map_err(Ended::Disk)?;
        recover(shared).await.map_err(Ended::Disk)?;
        let last = shared.lock().tree.last_zxid;
        // Less was left than the leader takes for granted: it must hear so.
        if last != zxid && !is_start(zxid) {
            return Err(malformed("a log that does not have where it was to be cut").into());
        }
        Ok(lost)
    }

    async fn receive_tree(&mut self, zxid: i64, limit: Duration) -> Result<Vec<i64>, Ended> {
        let shared = self.shared.clone();
        let most = shared.settings.packet_limit_bytes.max(2 * shared.settings.tree_limit_bytes);
        let stream = &mut self.stream;
        let read = async {
            let mut reader = StreamReader::new(stream, most);
            let tree = snapshot::read(&mut reader).await?;
            match reader.text().await? == SIGNATURE {
                true => Ok(tree),
                false => Err(malformed("a snapshot without its end")),
            }
        };
        let read = shared.host.timeout(limit, read).await;
        let mut tree = read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        tree.last_zxid = zxid;
        let snapshots = shared.store.snapshots().await;
        let lost = snapshots.truncate(zxid).await.map_err(Ended::Disk)?;
        {
            let state = &mut *shared.lock();
            tree.set_config(&shared.ensemble.config_text(), 0);
            state.tree = tree;
            state.commit_log.clear();
            state.log.rolls = true;
        }
        Ok(lost)
    }

    /// Puts on the disk what the leader has sent, then its epoch, and says so.
    async fn settle(
        &mut self,
        epoch: i64,
        means: Means,
        lost: &[i64],
        inbound: &mut Inbound,
    ) -> Result<(), Ended> {
        let shared = self.shared.clone();
        // The tree first, for the log only goes on from it; then what is decided; what is not
        // stays in the log.
        if means == Means::Snapshot {
            let snapshots = shared.store.snapshots().await;
            logger::take_snapshot(&shared, snapshots).await.map_err(Ended::Disk)?;
        }
        if !shared.settings.bugs.acknowledge_before_sync
            && let Some(first) = inbound.proposals.first()
        {
            let first = first.zxid();
            shared.store.append(first, &inbound.proposals).await.map_err(Ended::Disk)?;
        } else if let Some(first) = inbound.proposals.first() {
            shared.store.write_out(first.zxid(), &inbound.proposals).map_err(Ended::Disk)?;
        }
        shared.store.set_epoch(Epoch::Current, epoch).await.map_err(Ended::Disk)?;
        let state = &mut *shared.lock();
        state.current_epoch = epoch;
        state.log.rolls = true;
        for transaction in &inbound.proposals {
            state.undecided.insert(transaction.zxid(), transaction.clone());
        }
        let zxid = inbound.proposals.last().map_or(state.tree.last_zxid, |last| last.zxid());
        shared.tell(&Observation::Synchronised { leader: self.leader, means, zxid, lost });
        say(state, message::ACK, start_of(epoch), None);
        for transaction in &inbound.proposals {
            shared.tell(&Observation::Logged { zxid: transaction.zxid() });
        }
        for transaction in &inbound.proposals[inbound.decided..] {
            say(state, message::ACK, transaction.zxid(), None);
        }
        Ok(())
    }

    /// What comes between the acknowledgement of the leader and its beginning: logged as it
    /// comes, applied when it begins.
    fn take_early(
        &self,
        state: &mut State,
        inbound: &mut Inbound,
        packet: &Packet,
    ) -> io::Result<()> {
        let count = inbound.proposals.len();
        inbound.take(packet)?;
        for transaction in &inbound.proposals[count..] {
            pipeline::log(&self.shared, state, transaction.clone());
        }
        Ok(())
    }

    /// The leader serves: so does this follower.
    fn begin(&self, state: &mut State, epoch: i64, inbound: &Inbound) -> io::Result<()> {
        let shared = &self.shared;
        for transaction in &inbound.proposals[..inbound.decided] {
            pipeline::decide(shared, state, transaction.clone());
        }
        say(state, message::ACK, start_of(epoch), None);
        state.vote.epoch = epoch;
        state.serving = true;
        shared.tell(&Observation::Following { leader: self.leader, epoch });
        Ok(())
    }
}

impl Inbound {
    fn take(&mut self, packet: &Packet) -> io::Result<()> {
        match packet.kind {
            message::PROPOSAL => {
                let transaction =
                    Transaction::read(packet.data()?).map_err(|_| malformed("no transaction"))?;
                let last = self.proposals.last().map(|last| last.zxid());
                if last.is_some_and(|last| last >= transaction.zxid()) {
                    return Err(malformed("a transaction out of order"));
                }
                self.proposals.push(transaction);
            }
            message::COMMIT => {
                let next = self.proposals.get(self.decided).map(|next| next.zxid());
                if next != Some(packet.zxid) {
                    return Err(malformed("a decision of what was not proposed"));
                }
                self.decided += 1;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Answers a ping with the sessions that were heard of since the last.
fn ping(state: &mut State, zxid: i64) {
    let mut data = Writer::new();
    for (session, timeout_ms) in std::mem::take(&mut state.touched) {
        data.long(session).int(timeout_ms);
    }
    say(state, message::PING, zxid, Some(data.bytes()));
}

/// The leader said something.
fn take(shared: &Shared, state: &mut State, packet: &Packet) -> io::Result<()> {
    match packet.kind {
        message::PING => ping(state, packet.zxid),
        message::PROPOSAL => {
            let transaction =
                Transaction::read(packet.data()?).map_err(|_| malformed("no transaction"))?;
            let last =
                state.undecided.last_key_value().map_or(state.tree.last_zxid, |(last, _)| *last);
            if transaction.zxid() <= last {
                return Err(malformed("a transaction out of order"));
            }
            pipeline::log(shared, state, transaction);
        }
        message::COMMIT => {
            let next = state.undecided.first_key_value().map(|(_, next)| next.clone());
            let next = next.filter(|next| next.zxid() == packet.zxid);
            let next = next.ok_or_else(|| malformed("a decision of what was not proposed"))?;
            pipeline::decide(shared, state, next);
        }
        message::REVALIDATE => {
            let mut data = Reader::new(packet.data()?);
            let (Ok(session), Ok(valid)) = (data.long(), data.boolean()) else {
                return Err(malformed("no session"));
            };
            let Role::Following(following) = &mut state.role else { return Ok(()) };
            if let Some(id) = following.revalidations.remove(&session) {
                reply::let_in(shared, state, id, valid);
            }
        }
        message::SYNC => {
            let Role::Following(following) = &mut state.role else { return Ok(()) };
            if let Some((session, xid)) = following.syncs.pop_front() {
                pipeline::synchronised(shared, state, session, xid);
            }
        }
        _ => {}
    }
    Ok(())
}
