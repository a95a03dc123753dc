//! What is decided about a server before it starts.

use std::collections::BTreeMap;
use std::time::Duration;

/// A server's settings. The defaults are those of ZooKeeper 3.8, but for limits that keep a
/// simulated server small.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The unit of time (`tickTime`).
    pub tick: Duration,
    /// How many ticks a follower may take to connect and to be synchronised (`initLimit`).
    pub init_limit: u32,
    /// How many ticks a follower may be out of touch (`syncLimit`).
    pub sync_limit: u32,
    /// The shortest session timeout that is granted; 2 ticks if `None`.
    pub min_session_timeout: Option<Duration>,
    /// The longest session timeout that is granted; 20 ticks if `None`.
    pub max_session_timeout: Option<Duration>,
    /// How many connections one address may have; 0 is any number (`maxClientCnxns`).
    pub connections_per_address: usize,
    /// Above so many unanswered requests a client with one of them is not read from
    /// (`globalOutstandingLimit`).
    pub outstanding_limit: usize,
    /// The longest request, bytes (`jute.maxbuffer`).
    pub request_limit_bytes: usize,
    /// After about so many transactions a snapshot is taken; each server draws between half
    /// and all of it (`snapCount`).
    pub snapshot_count: u64,
    /// How many transactions are synchronised at once at most
    /// (`zookeeper.maxBatchSize`).
    pub batch_limit: usize,
    /// How many committed transactions the leader has at hand for followers that come back
    /// (`zookeeper.commitLogCount`).
    pub commit_log_count: usize,
    /// Which four-letter words are answered (`4lw.commands.whitelist`); `*` is all of them.
    pub words: Vec<String>,
    /// How often the leader looks for empty containers (`znode.container.checkIntervalMs`).
    pub container_interval: Duration,
    /// How long a vote that a quorum agrees on waits for a better one
    /// (`FastLeaderElection.finalizeWait`).
    pub finalize_wait: Duration,
    /// How long the server's processor works on a read, and on a request that writes;
    /// requests queue for it. Nothing on a real machine, whose processor takes its own time.
    pub read_work: Duration,
    /// See [`read_work`](Settings::read_work).
    pub write_work: Duration,
    /// How large the tree may grow, bytes, as this server counts them (paths, data, 128 a
    /// znode); then creations and writes are refused with `QuotaExceeded`. ZooKeeper has no
    /// such limit but its heap.
    pub tree_limit_bytes: usize,
    /// How much may wait for a client that does not read, bytes; then it is closed.
    pub output_limit_bytes: usize,
    /// How many watches one connection may have; then it is closed. One of a path of more
    /// than 256 bytes counts for several.
    pub watch_limit: usize,
    /// The longest message between servers, bytes.
    pub packet_limit_bytes: usize,
    /// Bugs to be found; none by default.
    pub bugs: Bugs,
}

/// Bugs that a server can be given on purpose, so that checkers can show that they would
/// find them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bugs {
    /// Transactions are acknowledged before the disk has them.
    pub acknowledge_before_sync: bool,
    /// A follower that is told to cut its log does not.
    pub forget_truncation: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            tick: Duration::from_secs(2),
            init_limit: 10,
            sync_limit: 5,
            min_session_timeout: None,
            max_session_timeout: None,
            connections_per_address: 60,
            outstanding_limit: 1_000,
            request_limit_bytes: 0xf_ffff,
            snapshot_count: 100_000,
            batch_limit: 1_000,
            commit_log_count: 500,
            words: vec!["srvr".to_owned()],
            container_interval: Duration::from_secs(60),
            finalize_wait: Duration::from_millis(200),
            read_work: Duration::ZERO,
            write_work: Duration::ZERO,
            tree_limit_bytes: 256 * 1024 * 1024,
            output_limit_bytes: 64 * 1024 * 1024,
            watch_limit: 200_000,
            packet_limit_bytes: 64 * 1024 * 1024,
            bugs: Bugs::default(),
        }
    }
}

impl Settings {
    /// The session timeout that is granted to who would like `wanted_ms`, ms.
    pub fn negotiate(&self, wanted_ms: i32) -> i32 {
        let least = self.min_session_timeout.unwrap_or(self.tick * 2);
        let most = self.max_session_timeout.unwrap_or(self.tick * 20);
        let ms = |duration: Duration| i32::try_from(duration.as_millis()).unwrap_or(i32::MAX);
        wanted_ms.max(ms(least)).min(ms(most))
    }
}

/// A server's number in its ensemble (`myid`): 1 to 255.
pub type ServerId = u8;

/// The port for clients, of followers, and for elections, as in ZooKeeper's documentation.
pub const CLIENT_PORT: u16 = 2_181;
/// The port on which a leader listens for its followers.
pub const QUORUM_PORT: u16 = 2_888;
/// The port for elections.
pub const ELECTION_PORT: u16 = 3_888;

/// Where a member of an ensemble is reached by the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name or IP address.
    pub host: String,
    /// The port on which it listens for followers when it leads.
    pub quorum_port: u16,
    /// The port on which it takes part in elections.
    pub election_port: u16,
}

/// Who a server is, and who the others are (`myid` and the `server.N` lines).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ensemble {
    /// Its own number.
    pub me: ServerId,
    /// All members, itself among them; a server alone has none.
    pub members: BTreeMap<ServerId, Member>,
    /// The port for clients; 0 chooses a free one.
    pub client_port: u16,
}

impl Ensemble {
    /// A server that stands alone.
    pub fn alone(client_port: u16) -> Self {
        Ensemble { me: 0, members: BTreeMap::new(), client_port }
    }

    /// Member `me` of the servers on the machines `hosts`, numbered from 1 in this order,
    /// each on the usual ports. One host is a server that stands alone.
    pub fn of(me: ServerId, hosts: &[String]) -> Self {
        let member = |host: &String| Member {
            host: host.clone(),
            quorum_port: QUORUM_PORT,
            election_port: ELECTION_PORT,
        };
        let members = (1..).zip(hosts.iter().map(member)).collect();
        match hosts.len() {
            1 => Ensemble::alone(CLIENT_PORT),
            _ => Ensemble { me, members, client_port: CLIENT_PORT },
        }
    }

    /// Whether the server stands alone.
    pub fn is_alone(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether so many members are a quorum.
    pub fn is_quorum(&self, count: usize) -> bool {
        count > self.members.len() / 2
    }

    /// What `/zookeeper/config` says.
    pub fn config_text(&self) -> String {
        let mut text = String::new();
        for (id, member) in &self.members {
            let Member { host, quorum_port, election_port } = member;
            text.push_str(&format!(
                "server.{id}={host}:{quorum_port}:{election_port}:participant\n"
            ));
        }
        text.push_str("version=0");
        text
    }
}
