//! What an ensemble's broadcast promises, looked at while it runs: every server applies the
//! same transactions in the same order, each epoch has one leader, and none that a client was
//! told of is lost.
//!
//! It sees each server's log as the server tells it (found on its disk, logged, cut off), and
//! what it applies. What is in a log and decided by nobody must be gone before its server goes
//! on from there: a follower that cuts nothing off when it should has a tree of its own.
//! Junqueira, Reed, Serafini: "Zab: High-performance broadcast for primary-backup systems",
//! 2011, names the properties: integrity and agreement (one transaction of a number), total
//! order, primary order (no epoch with two leaders), and that a leader begins with all that
//! was delivered.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::Name;
use crate::server::zookeeper::observe::{Means, Observation};

/// No more breaks than so many are told of: one is enough to fail a run.
const MOST: usize = 8;

/// What is known of one server.
#[derive(Default)]
struct Server {
    /// The newest transaction that its disk has for good.
    logged: i64,
    /// The newest that it applied as decided, since it was started or synchronised.
    applied: i64,
    /// What its log has and nobody is known to have decided; what was decided since is taken
    /// out when it is looked at.
    undecided: BTreeSet<i64>,
    /// The newest transaction of the tree that it was sent as a whole, in which may be what it
    /// has no log of.
    sent_up_to: i64,
}

/// What is known of an ensemble.
#[derive(Default)]
pub(super) struct Broadcast {
    servers: BTreeMap<Name, Server>,
    /// The first bytes of the digest of each transaction, by its number.
    transactions: BTreeMap<i64, u64>,
    /// The transactions that some server knows to be decided.
    decided: BTreeSet<i64>,
    /// Of each epoch the newest transaction whose client has been answered.
    acknowledged: BTreeMap<i64, i64>,
    leaders: BTreeMap<i64, Name>,
    told: usize,
}

impl Broadcast {
    /// The server's program starts: what it applied before is not in its memory any more.
    pub(super) fn started(&mut self, name: &Name) {
        self.server(name).applied = 0;
    }

    /// Takes note of what the server tells, and says which promises it breaks.
    pub(super) fn observe(&mut self, name: &Name, observation: &Observation<'_>) -> Vec<String> {
        let mut breaks = Vec::new();
        match observation {
            Observation::Proposed { zxid, bytes } => breaks.extend(self.is(*zxid, bytes)),
            Observation::Logged { zxid } => {
                let is_decided = self.decided.contains(zxid);
                let server = self.server(name);
                server.logged = server.logged.max(*zxid);
                if !is_decided {
                    server.undecided.insert(*zxid);
                }
            }
            Observation::Committed { zxid } => {
                self.decided.insert(*zxid);
            }
            Observation::Applied { zxid, bytes, committed } => {
                breaks.extend(self.is(*zxid, bytes));
                if *committed {
                    breaks.extend(self.applied(name, *zxid));
                }
            }
            Observation::Acknowledged { zxid, .. } => {
                let newest = self.acknowledged.entry(epoch_of(*zxid)).or_default();
                *newest = (*newest).max(*zxid);
            }
            Observation::Recovered { zxid, log, .. } => {
                let undecided = log.iter().filter(|zxid| !self.decided.contains(zxid));
                let undecided: Vec<i64> = undecided.copied().collect();
                let server = self.server(name);
                (server.logged, server.applied) = (*zxid, 0);
                // Of a longer log only the newest are told; what came before them is still
                // there, or in a snapshot of it: what a crash loses is the end.
                let told_from = log.first().copied().unwrap_or(*zxid + 1);
                server.undecided.retain(|zxid| *zxid < told_from);
                server.undecided.extend(undecided);
            }
            Observation::Synchronised { zxid, means, lost, .. } => {
                // What a leader had not applied yet is cut off as well, and sent again behind
                // that: a log that goes as far has it.
                let is_gone = |lost: &&i64| *lost > zxid && self.decided.contains(lost);
                let cut = lost.iter().find(is_gone);
                breaks.extend(cut.map(|zxid| {
                    format!("{zxid:#x}, which was decided, was cut off from a server's log")
                }));
                // What it was sent it has yet to apply.
                let server = self.server(name);
                (server.logged, server.applied) = (*zxid, 0);
                server.undecided.retain(|zxid| !lost.contains(zxid));
                if *means == Means::Snapshot {
                    server.undecided.clear();
                    server.sent_up_to = *zxid;
                }
            }
            Observation::Leading { epoch } => breaks.extend(self.leads(name, *epoch)),
            _ => {}
        }
        breaks.truncate(MOST - self.told.min(MOST));
        self.told += breaks.len();
        breaks
    }

    fn server(&mut self, name: &Name) -> &mut Server {
        self.servers.entry(name.clone()).or_default()
    }

    /// One number, one transaction.
    fn is(&mut self, zxid: i64, bytes: &[u8]) -> Option<String> {
        let digest = *blake3::hash(bytes).as_bytes();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        let short = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let known = *self.transactions.entry(zxid).or_insert(short);
        (known != short).then(|| format!("{zxid:#x} is two different transactions"))
    }

    /// A server applies what is decided: nothing twice, and nothing left out.
    fn applied(&mut self, name: &Name, zxid: i64) -> Option<String> {
        self.decided.insert(zxid);
        let Broadcast { servers, decided, .. } = self;
        let server = servers.entry(name.clone()).or_default();
        server.undecided.retain(|zxid| !decided.contains(zxid));
        if let Some(nobodys) = server.undecided.range(..zxid).next().copied() {
            // Told once.
            server.undecided.clear();
            server.applied = zxid;
            return Some(format!(
                "{zxid:#x} was applied behind {nobodys:#x}, which nobody decided"
            ));
        }
        let before = std::mem::replace(&mut server.applied, zxid);
        if before >= zxid {
            return Some(format!("{zxid:#x} was applied after {before:#x}"));
        }
        if before == 0 {
            // What it has from its disk was applied before it knew what is decided.
            return None;
        }
        let between = self.decided.range(before + 1..zxid).next();
        between.map(|left_out| format!("{left_out:#x} was left out before {zxid:#x}"))
    }

    /// A leader has all that clients were told of, and its epoch for itself.
    fn leads(&mut self, name: &Name, epoch: i64) -> Option<String> {
        let other = self.leaders.insert(epoch, name.clone());
        if let Some(other) = other.filter(|other| other != name) {
            return Some(format!("epoch {epoch} has two leaders, {other} and {name}"));
        }
        let server = self.server(name);
        // All of its log is decided by that, and applied.
        server.applied = server.logged;
        let (log, sent_up_to) = (std::mem::take(&mut server.undecided), server.sent_up_to);
        self.decided.extend(log);
        // What was in a tree that it was sent is decided as well, and not known one by one:
        // of the others' logs nothing that may have been in it is held against them.
        for other in self.servers.values_mut() {
            other.undecided = other.undecided.split_off(&(sent_up_to + 1));
        }
        let has = self.server(name).logged;
        // One that stood still hears late that it leads: of what came after its epoch it knows
        // nothing, and decides nothing any more.
        let before = self.acknowledged.range(..epoch).next_back();
        let acknowledged = before.map_or(0, |(_, newest)| *newest);
        (has < acknowledged).then(|| {
            format!(
                "a client was answered for {acknowledged:#x}, and the new leader's log ends with \
                 {has:#x}"
            )
        })
    }
}

/// The upper half of a transaction's number.
fn epoch_of(zxid: i64) -> i64 {
    zxid >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "zk-1";
    const B: &str = "zk-2";

    fn breaks(observations: &[(&str, Observation<'_>)]) -> Vec<String> {
        let mut broadcast = Broadcast::default();
        let observed = observations
            .iter()
            .flat_map(|(name, observation)| broadcast.observe(&Name::from(*name), observation));
        observed.collect()
    }

    fn applied(zxid: i64, bytes: &[u8]) -> Observation<'_> {
        Observation::Applied { zxid, bytes, committed: true }
    }

    #[test]
    fn what_zab_does_breaks_nothing() {
        let whole = [
            (A, Observation::Leading { epoch: 1 }),
            (A, Observation::Proposed { zxid: 1, bytes: b"x" }),
            (A, Observation::Logged { zxid: 1 }),
            (B, Observation::Logged { zxid: 1 }),
            (A, Observation::Committed { zxid: 1 }),
            (A, applied(1, b"x")),
            (B, applied(1, b"x")),
            (A, Observation::Acknowledged { zxid: 1, session: 1, xid: 1, code: 0 }),
            (B, Observation::Recovered { zxid: 1, epoch: 1, log: &[1] }),
            (B, Observation::Leading { epoch: 2 }),
            (B, applied(2, b"y")),
        ];
        assert_eq!(breaks(&whole), [""; 0]);
    }

    #[test]
    fn an_order_that_is_broken_is_told() {
        let two = [(A, applied(1, b"x")), (B, applied(1, b"y"))];
        assert_eq!(breaks(&two), ["0x1 is two different transactions"]);
        let again = [(A, applied(2, b"x")), (A, applied(2, b"x"))];
        assert_eq!(breaks(&again), ["0x2 was applied after 0x2"]);
        let gap = [
            (A, applied(1, b"1")),
            (B, applied(1, b"1")),
            (B, applied(2, b"2")),
            (A, applied(3, b"3")),
        ];
        assert_eq!(breaks(&gap), ["0x2 was left out before 0x3"]);
    }

    #[test]
    fn what_nobody_decided_is_told() {
        let log = &[1, 2];
        let kept = |lost| {
            let (leader, means) = (2, Means::Truncation);
            [
                (A, Observation::Logged { zxid: 1 }),
                (A, Observation::Logged { zxid: 2 }),
                (A, Observation::Recovered { zxid: 2, epoch: 1, log }),
                (B, Observation::Logged { zxid: 1 }),
                (B, Observation::Leading { epoch: 2 }),
                (A, Observation::Synchronised { leader, means, zxid: 1, lost }),
                (A, applied(0x10, b"x")),
            ]
        };
        assert_eq!(breaks(&kept(&[2])), [""; 0]);
        let expected = "0x10 was applied behind 0x2, which nobody decided";
        assert_eq!(breaks(&kept(&[])), [expected]);
        // The new leader's log is decided as a whole, though only its end is told.
        let long = |log| {
            [
                (A, Observation::Logged { zxid: 1 }),
                (A, Observation::Logged { zxid: 2 }),
                (A, Observation::Logged { zxid: 3 }),
                (B, Observation::Logged { zxid: 1 }),
                (A, Observation::Recovered { zxid: 3, epoch: 1, log }),
                (A, Observation::Leading { epoch: 2 }),
                (B, applied(3, b"x")),
            ]
        };
        assert_eq!(breaks(&long(&[3])), [""; 0]);
        assert_eq!(breaks(&long(&[1, 2, 3])), [""; 0]);
    }

    #[test]
    fn a_leader_that_must_not_be_is_told() {
        let rivals =
            [(A, Observation::Leading { epoch: 1 }), (B, Observation::Leading { epoch: 1 })];
        assert_eq!(breaks(&rivals), ["epoch 1 has two leaders, zk-1 and zk-2"]);
        let lost = [
            (A, Observation::Logged { zxid: 5 }),
            (A, Observation::Acknowledged { zxid: 5, session: 1, xid: 1, code: 0 }),
            (B, Observation::Logged { zxid: 4 }),
            (B, Observation::Leading { epoch: 2 }),
        ];
        let expected = "a client was answered for 0x5, and the new leader's log ends with 0x4";
        assert_eq!(breaks(&lost), [expected]);
        let of_second = 2 << 32;
        let late = [
            (A, Observation::Logged { zxid: 5 }),
            (A, Observation::Leading { epoch: 2 }),
            (A, Observation::Logged { zxid: of_second }),
            (A, Observation::Acknowledged { zxid: of_second, session: 1, xid: 1, code: 0 }),
            (B, Observation::Logged { zxid: 5 }),
            (B, Observation::Leading { epoch: 1 }),
        ];
        assert_eq!(breaks(&late), [""; 0]);
    }

    #[test]
    fn what_was_decided_and_is_cut_off_is_told() {
        // A leader's log is cut at what it has applied; the rest is sent again.
        let cut = |zxid, lost| {
            let means = Means::Truncation;
            [
                (A, Observation::Logged { zxid: 1 }),
                (A, Observation::Logged { zxid: 2 }),
                (A, applied(1, b"x")),
                (A, applied(2, b"x")),
                (A, Observation::Synchronised { leader: 2, means, zxid, lost }),
            ]
        };
        assert_eq!(breaks(&cut(2, &[2])), [""; 0]);
        let expected = "0x2, which was decided, was cut off from a server's log";
        assert_eq!(breaks(&cut(1, &[2])), [expected]);
    }
}
