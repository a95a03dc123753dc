//! What the controller knows: of each server when it last answered and what it calls
//! itself, and which of them is the master.

use std::time::Duration;

/// What a server says of itself in INFO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It takes writes.
    Master,
    /// It follows another server.
    Replica {
        /// Whom, `name:port`.
        master: String,
    },
}

/// What INFO replication says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Information {
    pub(super) role: Role,
    /// How much of the replication stream the server has, bytes.
    pub(super) offset: u64,
}

impl Information {
    /// Reads the section, or `None` where it has no role.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let number = |name: &str| field(name).and_then(|digits| digits.parse().ok());
        match field("role")? {
            "master" => {
                let offset = number("master_repl_offset").unwrap_or(0);
                Some(Information { role: Role::Master, offset })
            }
            "slave" => {
                let master = format!("{}:{}", field("master_host")?, field("master_port")?);
                let offset = number("slave_repl_offset");
                let offset = offset.or_else(|| number("master_repl_offset")).unwrap_or(0);
                Some(Information { role: Role::Replica { master }, offset })
            }
            _ => None,
        }
    }
}

/// What is known of one server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// When it last gave a valid reply to PING, on the controller's clock.
    pub(super) answered_at: Duration,
    /// What it last said of itself; `None` when that is out of date.
    pub(super) role: Option<Role>,
    /// Since when it, being the master, has called itself a replica.
    pub(super) denies_since: Option<Duration>,
}

/// What is known of all servers, in the order of the settings.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) servers: Vec<Server>,
    /// The master's position.
    pub(super) master: usize,
}

impl View {
    /// Nothing has been heard yet, and nobody is late.
    pub(super) fn new(servers: usize, master: usize, now: Duration) -> Self {
        let server = Server { answered_at: now, role: None, denies_since: None };
        View { servers: vec![server; servers], master }
    }

    /// Begins counting anew: what was not heard while standing still says nothing.
    pub(super) fn begin_anew(&mut self, now: Duration) {
        for server in &mut self.servers {
            server.answered_at = now;
            server.denies_since = None;
        }
    }

    /// A server gave a valid reply.
    pub(super) fn answered(&mut self, server: usize, now: Duration) {
        self.servers[server].answered_at = now;
    }

    /// A server said what it is.
    pub(super) fn informed(&mut self, server: usize, role: Role, now: Duration) {
        let denies = server == self.master && role != Role::Master;
        let known = &mut self.servers[server];
        known.denies_since = denies.then(|| known.denies_since.unwrap_or(now));
        known.role = Some(role);
    }

    /// Clients are told of another master from now on.
    pub(super) fn switch(&mut self, master: usize) {
        self.servers[self.master].denies_since = None;
        self.master = master;
        self.servers[master].role = Some(Role::Master);
        self.servers[master].denies_since = None;
    }

    /// Whether a server has answered lately.
    pub(super) fn is_reachable(&self, server: usize, now: Duration, down_after: Duration) -> bool {
        now.saturating_sub(self.servers[server].answered_at) <= down_after
    }

    /// Whether the master is to be replaced: it has been silent for longer than
    /// `down_after`, or has called itself a replica for longer than `denial`.
    pub(super) fn master_is_down(
        &self,
        now: Duration,
        down_after: Duration,
        denial: Duration,
    ) -> bool {
        let denies = self.servers[self.master]
            .denies_since
            .is_some_and(|since| now.saturating_sub(since) > denial);
        denies || !self.is_reachable(self.master, now, down_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn information_is_read_as_real_servers_write_it() {
        let master = b"# Replication\r\nrole:master\r\nconnected_slaves:1\r\n\
            slave0:ip=127.0.0.1,port=7002,state=online,offset=56,lag=0\r\n\
            master_failover_state:no-failover\r\nmaster_repl_offset:57\r\n\
            second_repl_offset:-1\r\n";
        let expected = Information { role: Role::Master, offset: 57 };
        assert_eq!(Information::parse(master), Some(expected));
        let replica = b"# Replication\r\nrole:slave\r\nmaster_host:redis-1\r\n\
            master_port:6379\r\nmaster_link_status:up\r\nslave_read_repl_offset:43\r\n\
            slave_repl_offset:42\r\nmaster_repl_offset:42\r\n";
        let role = Role::Replica { master: "redis-1:6379".to_owned() };
        assert_eq!(Information::parse(replica), Some(Information { role, offset: 42 }));
        for nothing in [&b""[..], b"role:sentinel\r\n", b"role:slave\r\n", b"\xff"] {
            assert_eq!(Information::parse(nothing), None);
        }
    }

    #[test]
    fn a_master_is_down_after_silence_and_up_again_with_a_reply() {
        let mut view = View::new(2, 0, SECOND);
        let down = |view: &View, now| view.master_is_down(now, SECOND, 2 * SECOND);
        assert!(!down(&view, 2 * SECOND));
        assert!(down(&view, 2 * SECOND + Duration::from_millis(1)));
        view.answered(1, 3 * SECOND);
        assert!(down(&view, 3 * SECOND));
        view.answered(0, 3 * SECOND);
        assert!(!down(&view, 3 * SECOND));
        view.begin_anew(9 * SECOND);
        assert!(!down(&view, 9 * SECOND));
    }

    #[test]
    fn a_master_that_calls_itself_a_replica_for_long_is_down() {
        let mut view = View::new(2, 0, Duration::ZERO);
        let follows = |view: &mut View, now| {
            view.answered(0, now);
            view.informed(0, Role::Replica { master: "redis-2:6379".to_owned() }, now);
        };
        follows(&mut view, SECOND);
        follows(&mut view, 3 * SECOND);
        assert!(!view.master_is_down(3 * SECOND, SECOND, 2 * SECOND));
        follows(&mut view, 4 * SECOND);
        assert!(view.master_is_down(4 * SECOND, SECOND, 2 * SECOND));
        view.informed(0, Role::Master, 4 * SECOND);
        assert!(!view.master_is_down(4 * SECOND, SECOND, 2 * SECOND));
    }
}
