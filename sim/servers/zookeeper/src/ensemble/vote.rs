//! Votes, and the messages in which servers tell each other theirs
//! (`FastLeaderElection`).

use super::super::codec::{Malformed, Reader, Writer};
use super::super::settings::ServerId;

/// A vote: for whom, and how far that one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Vote {
    pub(in super::super) leader: ServerId,
    /// Its newest logged transaction.
    pub(in super::super) zxid: i64,
    /// The epoch of the leader that it last synchronised with.
    pub(in super::super) epoch: i64,
    /// The how-manieth election of the voter this is.
    pub(in super::super) round: i64,
}

impl Vote {
    /// Whether it is for a better leader: a later epoch, then a later transaction, then a
    /// larger number.
    pub(in super::super) fn beats(&self, other: &Vote) -> bool {
        let rank = |vote: &Vote| (vote.epoch, vote.zxid, vote.leader);
        rank(self) > rank(other)
    }
}

/// What a voter is doing, as the number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Doing {
    Looking = 0,
    Following = 1,
    Leading = 2,
}

/// Somebody's vote as it was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Notification {
    pub(in super::super) from: ServerId,
    pub(in super::super) doing: Doing,
    pub(in super::super) vote: Vote,
}

/// The format of messages (`Notification.CURRENTVERSION`).
const VERSION: i32 = 2;

impl Notification {
    /// The message that says so.
    pub(in super::super) fn write(&self, config: &str) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.int(self.doing as i32).long(i64::from(self.vote.leader)).long(self.vote.zxid);
        writer.long(self.vote.round).long(self.vote.epoch).int(VERSION).text(config);
        writer.into_bytes()
    }

    /// What the message of `from` says.
    ///
    /// # Errors
    /// When it says nothing.
    pub(in super::super) fn read(from: ServerId, bytes: &[u8]) -> Result<Notification, Malformed> {
        let mut reader = Reader::new(bytes);
        let doing = match reader.int()? {
            0 => Doing::Looking,
            1 => Doing::Following,
            2 => Doing::Leading,
            other => return Err(Malformed::Kind(other)),
        };
        let leader = reader.long()?;
        // Whom no member can be called is voted for by nobody.
        let leader = ServerId::try_from(leader).map_err(|_| Malformed::Kind(-1))?;
        let (zxid, round, epoch) = (reader.long()?, reader.long()?, reader.long()?);
        Ok(Notification { from, doing, vote: Vote { leader, zxid, epoch, round } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_better_leader_has_seen_more() {
        let vote = |epoch, zxid, leader| Vote { leader, zxid, epoch, round: 1 };
        assert!(vote(2, 1, 1).beats(&vote(1, 9, 3)));
        assert!(vote(1, 9, 1).beats(&vote(1, 8, 3)));
        assert!(vote(1, 8, 3).beats(&vote(1, 8, 1)));
        assert!(!vote(1, 8, 3).beats(&vote(1, 8, 3)));
    }

    #[test]
    fn messages_come_back() {
        let vote = Vote { leader: 3, zxid: 7, epoch: 5, round: 9 };
        let said = Notification { from: 2, doing: Doing::Leading, vote };
        let bytes = said.write("version=0");
        assert_eq!(Notification::read(2, &bytes), Ok(said));
        for cut in 0..36 {
            assert!(Notification::read(2, &bytes[..cut]).is_err());
        }
    }
}
