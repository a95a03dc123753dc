//! The whole tree as bytes, as ZooKeeper 3.8 sends it to a follower and keeps it in a
//! snapshot (`SerializeUtils.serializeSnapshot`): sessions, access lists under numbers, then
//! each znode behind its path, parents first; the path `/` is the end.
//!
//! It is read from a stream, for a leader sends it without its length. What is read is
//! bounded by a limit that the caller names.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::codec::Writer;
use super::path;
use super::records::{Access, Identity, Stat};
use super::tree::{Node, Tree};

/// The number of the list by which everybody may do everything.
const OPEN: i64 = -1;

/// Writes `tree`.
pub(super) fn write(tree: &Tree, writer: &mut Writer) {
    writer.count(tree.sessions.len());
    for (session, timeout_ms) in &tree.sessions {
        writer.long(*session).int(*timeout_ms);
    }
    let open = [Access::open()];
    let mut numbers: BTreeMap<&[Access], i64> = BTreeMap::new();
    for node in tree.nodes.values().filter(|node| *node.access != open) {
        let next = numbers.len() as i64 + 1;
        numbers.entry(&node.access).or_insert(next);
    }
    writer.count(numbers.len());
    for (list, number) in &numbers {
        writer.long(*number);
        Access::write_list(list, writer);
    }
    // In byte order every parent comes before its children.
    for (path, node) in &tree.nodes {
        writer.text(if path == "/" { "" } else { path }).buffer(node.data.as_deref());
        writer.long(numbers.get(&*node.access).copied().unwrap_or(OPEN));
        let stat = &node.stat;
        writer.long(stat.czxid).long(stat.mzxid).long(stat.ctime_ms).long(stat.mtime_ms);
        writer.int(stat.version).int(stat.cversion).int(stat.aversion);
        writer.long(stat.ephemeral_owner).long(stat.pzxid);
    }
    writer.text("/");
}

/// Reads values from a stream; never more than so many bytes.
pub(super) struct StreamReader<'a, R> {
    stream: &'a mut R,
    left_bytes: usize,
}

pub(super) fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl<'a, R: AsyncRead + Unpin> StreamReader<'a, R> {
    pub(super) fn new(stream: &'a mut R, limit_bytes: usize) -> Self {
        StreamReader { stream, left_bytes: limit_bytes }
    }

    fn spend(&mut self, bytes: usize) -> io::Result<()> {
        self.left_bytes = self
            .left_bytes
            .checked_sub(bytes)
            .ok_or_else(|| malformed("more bytes than this server takes"))?;
        Ok(())
    }

    pub(super) async fn int(&mut self) -> io::Result<i32> {
        self.spend(4)?;
        self.stream.read_i32().await
    }

    pub(super) async fn long(&mut self) -> io::Result<i64> {
        self.spend(8)?;
        self.stream.read_i64().await
    }

    pub(super) async fn buffer(&mut self) -> io::Result<Option<Vec<u8>>> {
        let length = self.int().await?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| malformed("a negative length"))?;
        self.spend(length)?;
        // A length that is not followed by as much must not cost its memory.
        let mut bytes = Vec::with_capacity(length.min(64 * 1024));
        let read = (&mut *self.stream).take(length as u64).read_to_end(&mut bytes).await?;
        if read < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(bytes))
    }

    pub(super) async fn text(&mut self) -> io::Result<String> {
        let bytes = self.buffer().await?.ok_or_else(|| malformed("a null"))?;
        String::from_utf8(bytes).map_err(|_| malformed("text that is not UTF-8"))
    }

    /// The count of a vector; what it holds is spent element by element.
    pub(super) async fn count(&mut self) -> io::Result<usize> {
        let count = self.int().await?;
        match count {
            -1 => Ok(0),
            count => usize::try_from(count).map_err(|_| malformed("a negative count")),
        }
    }
}

/// Reads a tree, but for its newest transaction, which stands elsewhere.
///
/// # Errors
/// When the bytes are none.
pub(super) async fn read<R: AsyncRead + Unpin>(
    reader: &mut StreamReader<'_, R>,
) -> io::Result<Tree> {
    let mut tree = Tree::bare();
    for _ in 0..reader.count().await? {
        let session = reader.long().await?;
        tree.sessions.insert(session, reader.int().await?);
    }
    let mut lists: BTreeMap<i64, Arc<[Access]>> = BTreeMap::new();
    lists.insert(OPEN, Arc::from([Access::open()]));
    for _ in 0..reader.count().await? {
        let number = reader.long().await?;
        let mut list = Vec::new();
        for _ in 0..reader.count().await? {
            let permissions = reader.int().await?;
            let scheme = reader.text().await?;
            let who = Identity { scheme, id: reader.text().await? };
            list.push(Access { permissions, who });
        }
        lists.insert(number, list.into());
    }
    loop {
        let mut path = reader.text().await?;
        if path == "/" {
            break;
        }
        if path.is_empty() {
            path = "/".to_owned();
        }
        let data = reader.buffer().await?.map(Arc::from);
        let list = lists.get(&reader.long().await?);
        let access = list.ok_or_else(|| malformed("a znode with an unknown access list"))?.clone();
        let stat = Stat {
            czxid: reader.long().await?,
            mzxid: reader.long().await?,
            ctime_ms: reader.long().await?,
            mtime_ms: reader.long().await?,
            version: reader.int().await?,
            cversion: reader.int().await?,
            aversion: reader.int().await?,
            ephemeral_owner: reader.long().await?,
            pzxid: reader.long().await?,
            ..Stat::default()
        };
        let parent = path::parent(&path).and_then(|parent| tree.get(parent));
        if (path != "/" && parent.is_none()) || tree.get(&path).is_some() {
            return Err(malformed("a znode without a parent, or twice"));
        }
        tree.put(path, Node::new(data, access, stat));
    }
    match tree.get("/") {
        Some(_) => Ok(tree),
        None => Err(malformed("a tree without a root")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::transaction::{Header, Transaction};

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn back(bytes: &[u8]) -> io::Result<Tree> {
        let mut stream = bytes;
        block_on(async { read(&mut StreamReader::new(&mut stream, 1 << 20)).await })
    }

    proptest! {
        #[test]
        fn trees_come_back(
            changes in prop::collection::vec(
                crate::transaction::tests::change(), 0..40,
            ),
            cut: prop::sample::Index,
        ) {
            let mut tree = Tree::new();
            for (zxid, (kind, change)) in (1..).zip(changes) {
                let header = Header { session: 1 + zxid % 3, xid: 0, zxid, time_ms: zxid, kind };
                tree.apply(&Transaction::new(header, change), &mut Vec::new());
            }
            let mut writer = Writer::new();
            write(&tree, &mut writer);
            let mut read = back(writer.bytes()).unwrap();
            read.last_zxid = tree.last_zxid;
            prop_assert_eq!(&read, &tree);
            prop_assert!(back(&writer.bytes()[..cut.index(writer.bytes().len())]).is_err());
        }

        #[test]
        fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = back(&bytes);
        }
    }
}
