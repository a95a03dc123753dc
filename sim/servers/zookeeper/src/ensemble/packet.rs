//! Messages between a leader and its followers (`QuorumPacket`), one behind the other
//! without lengths.

use std::io;

use tokio::io::AsyncRead;

use super::super::codec::Writer;
use super::super::records::Identity;
use super::super::snapshot::{StreamReader, malformed};

/// Kinds of messages (`Leader`).
#[allow(missing_docs, reason = "they are ZooKeeper's names")]
pub(in super::super) mod message {
    pub const REQUEST: i32 = 1;
    pub const PROPOSAL: i32 = 2;
    pub const ACK: i32 = 3;
    pub const COMMIT: i32 = 4;
    pub const PING: i32 = 5;
    pub const REVALIDATE: i32 = 6;
    pub const SYNC: i32 = 7;
    pub const NEW_LEADER: i32 = 10;
    pub const FOLLOWER_INFO: i32 = 11;
    pub const UP_TO_DATE: i32 = 12;
    pub const DIFFERENCE: i32 = 13;
    pub const TRUNCATION: i32 = 14;
    pub const SNAPSHOT: i32 = 15;
    pub const LEADER_INFO: i32 = 17;
    pub const ACK_EPOCH: i32 = 18;
}

/// What the two sides speak (`0x10000`: with epochs).
pub(in super::super) const PROTOCOL: i32 = 0x1_0000;

/// What stands behind a snapshot.
pub(in super::super) const SIGNATURE: &str = "BenWasHere";

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Packet {
    pub(in super::super) kind: i32,
    pub(in super::super) zxid: i64,
    pub(in super::super) data: Option<Vec<u8>>,
    pub(in super::super) identities: Vec<Identity>,
}

/// Writes a message without identities.
pub(in super::super) fn write(writer: &mut Writer, kind: i32, zxid: i64, data: Option<&[u8]>) {
    writer.int(kind).long(zxid).buffer(data).int(-1);
}

/// Writes a message with identities.
pub(in super::super) fn write_with(
    writer: &mut Writer,
    kind: i32,
    data: &[u8],
    identities: &[Identity],
) {
    writer.int(kind).long(-1).buffer(Some(data)).count(identities.len());
    for identity in identities {
        identity.write(writer);
    }
}

/// Reads a message of at most so many bytes.
///
/// # Errors
/// When the stream ends or fails, or the bytes are none.
pub(in super::super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    limit_bytes: usize,
) -> io::Result<Packet> {
    let mut reader = StreamReader::new(stream, limit_bytes);
    let mut packet = Packet {
        kind: reader.int().await?,
        zxid: reader.long().await?,
        data: reader.buffer().await?,
        identities: Vec::new(),
    };
    for _ in 0..reader.count().await? {
        let scheme = reader.text().await?;
        packet.identities.push(Identity { scheme, id: reader.text().await? });
    }
    Ok(packet)
}

impl Packet {
    /// Its data, which must be there.
    pub(in super::super) fn data(&self) -> io::Result<&[u8]> {
        self.data.as_deref().ok_or_else(|| malformed("a message without its data"))
    }
}

/// The epoch of a transaction's number.
pub(in super::super) fn epoch_of(zxid: i64) -> i64 {
    zxid >> 32
}

/// The number before the first transaction of an epoch.
pub(in super::super) fn start_of(epoch: i64) -> i64 {
    epoch << 32
}

/// Whether this is the number before the first transaction of an epoch.
pub(in super::super) fn is_start(zxid: i64) -> bool {
    zxid & 0xffff_ffff == 0
}
