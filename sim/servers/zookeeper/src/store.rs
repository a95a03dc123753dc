//! What a server keeps on its disk: transaction logs, snapshots, two epochs
//! (`FileTxnLog`, `FileSnap`, `QuorumPeer`).
//!
//! A log file `log.ZXID` begins with the transaction of that number; each start of a server
//! and each snapshot begins a new one. A record is a checksum, a length, the transaction and
//! `B`, as in ZooKeeper: a torn end is found out and counts for nothing. A snapshot
//! `snapshot.ZXID` holds the tree after that transaction and has its checksum at its end. The
//! epochs are files that are replaced as a whole.
//!
//! Order of things: the names, reading everything, the log, snapshots, epochs.

use std::io;
use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard};

use super::codec::{Reader, Writer};
use super::snapshot::{self, StreamReader, malformed};
use super::transaction::Transaction;
use super::tree::Tree;
use lockstorm_machine::disk::Files;

/// `ZKLG`, version 2, of no particular database.
const LOG_HEAD: &[u8; 16] = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0";
/// `ZKSN`, likewise.
const SNAPSHOT_HEAD: &[u8; 16] = b"ZKSN\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff";
/// What a record of the log ends with.
const RECORD_END: u8 = b'B';
/// How many snapshots are kept (`autopurge.snapRetainCount`).
const KEPT_SNAPSHOTS: usize = 3;

/// Which of the two epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Epoch {
    /// The newest of which a leader's proposal was accepted.
    Accepted,
    /// That of the leader that this server last synchronised with.
    Current,
}

impl Epoch {
    fn file(self) -> &'static str {
        match self {
            Epoch::Accepted => "acceptedEpoch",
            Epoch::Current => "currentEpoch",
        }
    }
}

/// A server's files.
#[derive(Clone, Debug)]
pub(super) struct Store {
    files: Files,
    limit_bytes: usize,
    one_snapshot: Arc<Mutex<()>>,
}

/// The right to write a snapshot, or to do what none may be written meanwhile: a tree that was
/// taken before a log is cut must not come to the disk after it.
pub(super) struct Snapshots<'a> {
    store: &'a Store,
    _held: MutexGuard<'a, ()>,
}

/// What was found on the disk.
#[derive(Debug)]
pub(super) struct Found {
    /// With everything that the logs have, decided or not.
    pub(super) tree: Tree,
    /// The newest transactions of the logs after the snapshot, in order.
    pub(super) newest: Vec<Arc<Transaction>>,
    pub(super) accepted_epoch: i64,
    pub(super) current_epoch: i64,
}

fn log_name(zxid: i64) -> String {
    format!("log.{zxid:016x}")
}

fn snapshot_name(zxid: i64) -> String {
    format!("snapshot.{zxid:016x}")
}

/// Adler-32, as in RFC 1950.
fn checksum(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (mut low, mut high) = (1_u32, 0_u32);
    // So many bytes cannot overflow the sums.
    for chunk in bytes.chunks(5_552) {
        for byte in chunk {
            low += u32::from(*byte);
            high += low;
        }
        low %= MODULUS;
        high %= MODULUS;
    }
    high << 16 | low
}

/// The transactions of a log file up to the first record that is none, each with where it
/// begins, and where the last whole one ends.
fn records(bytes: &[u8]) -> (Vec<(usize, Arc<Transaction>)>, usize) {
    let mut transactions = Vec::new();
    let mut end = LOG_HEAD.len().min(bytes.len());
    if !bytes.starts_with(LOG_HEAD) {
        return (transactions, 0);
    }
    let mut reader = Reader::new(&bytes[end..]);
    let record = |reader: &mut Reader<'_>| {
        let sum = reader.long().ok()?;
        let record = reader.buffer().ok()??;
        let whole = reader.take(1).ok()? == [RECORD_END] && i64::from(checksum(record)) == sum;
        Transaction::read(record).ok().filter(|_| whole)
    };
    while let Some(transaction) = record(&mut reader) {
        transactions.push((end, transaction));
        end = bytes.len() - reader.rest().len();
    }
    (transactions, end)
}

impl Store {
    pub(super) fn new(files: Files, limit_bytes: usize) -> Self {
        Store { files, limit_bytes, one_snapshot: Arc::default() }
    }

    /// Waits for its turn to write a snapshot.
    pub(super) async fn snapshots(&self) -> Snapshots<'_> {
        Snapshots { store: self, _held: self.one_snapshot.lock().await }
    }

    /// The same without waiting; none while another has it.
    pub(super) fn try_snapshots(&self) -> Option<Snapshots<'_>> {
        let held = self.one_snapshot.try_lock().ok()?;
        Some(Snapshots { store: self, _held: held })
    }

    /// The zxids in the names of files that begin with `prefix`, in order.
    fn numbered(&self, prefix: &str) -> Vec<i64> {
        let number = |name: &String| i64::from_str_radix(name.strip_prefix(prefix)?, 16).ok();
        self.files.names().iter().filter_map(number).collect()
    }

    /// Reads everything: the newest snapshot that is whole, then the logs.
    pub(super) async fn load(&self, newest: usize) -> io::Result<Found> {
        let mut tree = Tree::new();
        for zxid in self.numbered("snapshot.").into_iter().rev() {
            if let Ok(mut read) = self.read_snapshot(zxid).await {
                read.last_zxid = zxid;
                tree = read;
                break;
            }
        }
        let mut found = Found {
            tree,
            newest: Vec::new(),
            accepted_epoch: self.epoch(Epoch::Accepted).await?,
            current_epoch: self.epoch(Epoch::Current).await?,
        };
        for first in self.numbered("log.") {
            let name = log_name(first);
            let bytes = self.files.read(&name).await?;
            let (transactions, end) = records(&bytes);
            // A torn end must not stand before what is appended from now on.
            if end < LOG_HEAD.len() {
                self.files.remove(&name)?;
            } else if end < bytes.len() {
                self.files.truncate(&name, end as u64)?;
            }
            for (_, transaction) in transactions {
                // What is older than the snapshot may be of a history that was given up.
                if transaction.zxid() > found.tree.last_zxid {
                    found.tree.apply(&transaction, &mut Vec::new());
                    found.newest.push(transaction);
                }
            }
            let surplus = found.newest.len().saturating_sub(newest);
            found.newest.drain(..surplus);
        }
        // A process crash leaves the end of the log in the kernel: it counts from now on, so
        // the disk must have it.
        if let Some(last) = self.numbered("log.").last() {
            self.files.sync(&log_name(*last)).await?;
        }
        Ok(found)
    }

    async fn read_snapshot(&self, zxid: i64) -> io::Result<Tree> {
        let bytes = self.files.read(&snapshot_name(zxid)).await?;
        let body = bytes.strip_prefix(SNAPSHOT_HEAD).ok_or_else(|| malformed("no snapshot"))?;
        let (mut body, end) =
            body.split_last_chunk::<13>().ok_or_else(|| malformed("cut short"))?;
        let sum = i64::from(checksum(&bytes[..bytes.len() - end.len()]));
        if end[..8] != sum.to_be_bytes() {
            return Err(malformed("a snapshot with another checksum"));
        }
        snapshot::read(&mut StreamReader::new(&mut body, self.limit_bytes)).await
    }

    /// Appends transactions to the log file that begins with `first`, and returns once the
    /// disk has them.
    pub(super) async fn append(&self, first: i64, batch: &[Arc<Transaction>]) -> io::Result<()> {
        self.write_out(first, batch)?;
        self.files.sync(&log_name(first)).await
    }

    /// Appends transactions without waiting for the disk.
    pub(super) fn write_out(&self, first: i64, batch: &[Arc<Transaction>]) -> io::Result<()> {
        let name = log_name(first);
        let mut writer = Writer::new();
        if !self.files.names().contains(&name) {
            writer.raw(LOG_HEAD);
        }
        for transaction in batch {
            writer.long(i64::from(checksum(&transaction.bytes)));
            writer.buffer(Some(&transaction.bytes)).raw(&[RECORD_END]);
        }
        self.files.append(&name, writer.bytes())?;
        Ok(())
    }

    async fn truncate(&self, zxid: i64) -> io::Result<Vec<i64>> {
        let mut lost = Vec::new();
        let mut cut = None;
        // From the end: whatever a crash leaves, there is no hole in it.
        for first in self.numbered("log.").into_iter().rev() {
            let name = log_name(first);
            let bytes = self.files.read(&name).await?;
            let (transactions, _) = records(&bytes);
            let keep = transactions.iter().position(|(_, transaction)| transaction.zxid() > zxid);
            let Some(keep) = keep else {
                if transactions.is_empty() {
                    continue;
                }
                break;
            };
            lost.extend(transactions[keep..].iter().map(|(_, transaction)| transaction.zxid()));
            if keep > 0 {
                cut = Some((name, transactions[keep].0 as u64));
                break;
            }
            self.files.remove(&name)?;
        }
        // Snapshots of what is no more.
        for later in self.numbered("snapshot.").into_iter().filter(|later| *later > zxid) {
            self.files.remove(&snapshot_name(later))?;
        }
        self.files.sync_names().await?;
        if let Some((name, length)) = cut {
            self.files.truncate(&name, length)?;
            self.files.sync(&name).await?;
        }
        lost.sort_unstable();
        Ok(lost)
    }

    /// Removes the snapshots and logs that newer ones have made needless.
    pub(super) fn purge(&self) -> io::Result<()> {
        let snapshots = self.numbered("snapshot.");
        let Some(needless) = snapshots.len().checked_sub(KEPT_SNAPSHOTS) else { return Ok(()) };
        for zxid in &snapshots[..needless] {
            self.files.remove(&snapshot_name(*zxid))?;
        }
        let oldest = snapshots[needless];
        let logs = self.numbered("log.");
        for pair in logs.windows(2) {
            if pair[1] <= oldest + 1 {
                self.files.remove(&log_name(pair[0]))?;
            }
        }
        Ok(())
    }

    /// One of the epochs; 0 before the first.
    async fn epoch(&self, which: Epoch) -> io::Result<i64> {
        match self.files.read(which.file()).await {
            Ok(text) => {
                let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                number.ok_or_else(|| malformed("an epoch that is no number"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Writes one of the epochs, for good.
    pub(super) async fn set_epoch(&self, which: Epoch, epoch: i64) -> io::Result<()> {
        self.replace(which.file(), epoch.to_string().as_bytes()).await
    }

    async fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = format!("{name}.tmp");
        // Left over from a crash.
        if self.files.names().contains(&new) {
            self.files.remove(&new)?;
        }
        self.files.append(&new, bytes)?;
        self.files.sync(&new).await?;
        self.files.rename(&new, name)?;
        self.files.sync_names().await
    }
}

impl Snapshots<'_> {
    /// Keeps the tree `bytes` as of `zxid`, for good.
    pub(super) async fn write(&self, zxid: i64, tree: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(SNAPSHOT_HEAD.len() + tree.len() + 13);
        bytes.extend_from_slice(SNAPSHOT_HEAD);
        bytes.extend_from_slice(tree);
        let sum = i64::from(checksum(&bytes));
        bytes.extend_from_slice(&sum.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 1, b'/']);
        self.store.replace(&snapshot_name(zxid), &bytes).await
    }

    /// Cuts off everything after `zxid`, for good, and tells what was cut off.
    pub(super) async fn truncate(&self, zxid: i64) -> io::Result<Vec<i64>> {
        self.store.truncate(zxid).await
    }
}

#[cfg(test)]
mod tests {
    use lockstorm::Host;

    use super::*;
    use crate::code::kind;
    use crate::records::Access;
    use crate::transaction::{Change, Header};
    use lockstorm_machine::disk::{Disk, Settings};

    fn with_host<F: Future<Output = ()>>(test: impl FnOnce(Host) -> F) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async { test(Host::tokio("zk-1")).await });
    }

    fn create(zxid: i64) -> Arc<Transaction> {
        let header = Header { session: 1, xid: 0, zxid, time_ms: 0, kind: kind::CREATE };
        let change = Change::Create {
            path: format!("/{zxid}"),
            data: Some(vec![7; 100]),
            access: vec![Access::open()],
            ephemeral: false,
            parent_cversion: zxid as i32,
        };
        Transaction::new(header, change)
    }

    #[test]
    fn what_was_appended_is_there_after_a_crash_and_a_torn_end_is_not() {
        for seed in 0..40 {
            with_host(|host| async move {
                let disk = Disk::new(Settings::default(), seed, "zk-1");
                let store = Store::new(disk.mount(&host), 1 << 20);
                let batch: Vec<_> = (1..=5).map(create).collect();
                store.append(1, &batch[..3]).await.unwrap();
                store.write_out(1, &batch[3..]).unwrap();
                disk.lose_power();
                let store = Store::new(disk.mount(&host), 1 << 20);
                let found = store.load(100).await.unwrap();
                assert!((3..=5).contains(&found.tree.last_zxid));
                assert_eq!(found.newest.len() as i64, found.tree.last_zxid);
                assert_eq!(found.tree.nodes.len() as i64, 4 + found.tree.last_zxid);
                // The next incarnation writes its own file.
                store.append(9, &[create(9)]).await.unwrap();
                assert_eq!(store.load(100).await.unwrap().tree.last_zxid, 9);
            });
        }
    }

    #[test]
    fn logs_are_cut_across_files() {
        with_host(|host| async move {
            let disk = Disk::new(Settings::default(), 1, "zk-1");
            let store = Store::new(disk.mount(&host), 1 << 20);
            let batch: Vec<_> = (1..=6).map(create).collect();
            store.append(1, &batch[..4]).await.unwrap();
            store.append(5, &batch[4..]).await.unwrap();
            assert_eq!(store.truncate(2).await.unwrap(), [3, 4, 5, 6]);
            disk.lose_power();
            let store = Store::new(disk.mount(&host), 1 << 20);
            assert_eq!(store.load(100).await.unwrap().tree.last_zxid, 2);
            assert!(store.truncate(2).await.unwrap().is_empty());
        });
    }

    #[test]
    fn snapshots_replace_logs_and_a_torn_one_is_passed_over() {
        with_host(|host| async move {
            let disk = Disk::new(Settings::default(), 1, "zk-1");
            let files = disk.mount(&host);
            let store = Store::new(files.clone(), 1 << 20);
            let mut tree = Tree::new();
            for zxid in 1..=6 {
                store.append(zxid, &[create(zxid)]).await.unwrap();
                tree.apply(&create(zxid), &mut Vec::new());
                let mut writer = Writer::new();
                snapshot::write(&tree, &mut writer);
                store.snapshots().await.write(zxid, writer.bytes()).await.unwrap();
            }
            store.purge().unwrap();
            let names = files.names().join(" ");
            assert_eq!(
                names.replace("0000000000000", ""),
                "log.005 log.006 snapshot.004 snapshot.005 snapshot.006"
            );
            assert_eq!(store.load(100).await.unwrap().tree, tree);
            files.truncate(&snapshot_name(6), 100).unwrap();
            assert_eq!(store.load(100).await.unwrap().tree, tree);
            store.set_epoch(Epoch::Accepted, 7).await.unwrap();
            store.set_epoch(Epoch::Accepted, 8).await.unwrap();
            assert_eq!(store.load(1).await.unwrap().accepted_epoch, 8);
        });
    }

    #[test]
    fn snapshots_of_one_transaction_are_written_one_after_the_other() {
        with_host(|host| async move {
            let disk = Disk::new(Settings::default(), 1, "zk-1");
            let store = Store::new(disk.mount(&host), 1 << 20);
            let mut writer = Writer::new();
            snapshot::write(&Tree::new(), &mut writer);
            let write = async || store.snapshots().await.write(7, writer.bytes()).await;
            let (one, other, skipped) = tokio::join!(write(), write(), async {
                tokio::task::yield_now().await;
                store.try_snapshots().is_none()
            });
            one.and(other).unwrap();
            assert!(skipped, "a third one would have been written at once with them");
            assert!(store.try_snapshots().is_some());
            assert_eq!(store.load(1).await.unwrap().tree.last_zxid, 7);
        });
    }

    #[test]
    fn the_checksum_is_adlers() {
        assert_eq!(checksum(b"Wikipedia"), 0x11e6_0398);
    }
}
