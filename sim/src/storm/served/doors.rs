//! The doors: for each app of a plan and each of its servers a TCP port on loopback.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

use crate::history::Name;
use crate::plan::{POOLER_NODE, Plan};
use crate::server::redis::sentinel;
use crate::server::zookeeper;
use crate::storm::{postgres, scene};

/// A door: whoever comes through it is the app, and reaches the server.
#[derive(Debug)]
pub struct Door {
    /// Whose.
    pub app: Name,
    /// To whom.
    pub server: Name,
    /// The server's own port.
    pub port: u16,
    /// Where it is.
    pub address: SocketAddr,
    pub(super) listener: TcpListener,
}

/// A port that could not be had.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// It is taken, or not ours to take.
    #[error("port {port}: {error}")]
    NotFree {
        /// Which.
        port: u16,
        /// Why.
        error: io::Error,
    },
    /// There are not so many.
    #[error("port {first}: there are not {wanted} after it")]
    TooFew {
        /// The first.
        first: u16,
        /// How many doors there are.
        wanted: usize,
    },
}

/// Opens the doors of `plan`, app by app, on ports from `first` on; on free ones if it is 0.
///
/// # Errors
/// When one of the ports cannot be had.
pub fn open(plan: &Plan, address: IpAddr, first: u16) -> Result<Vec<Door>, DoorError> {
    let servers = servers(plan);
    let apps = plan.topology.app_nodes();
    let pairs = apps.iter().flat_map(|app| servers.iter().map(move |server| (app, server)));
    let pairs: Vec<_> = pairs.collect();
    let wanted = pairs.len();
    let mut doors = Vec::with_capacity(wanted);
    for (number, (app, (server, port))) in pairs.into_iter().enumerate() {
        let number = u16::try_from(number).ok();
        let outer = match first {
            0 => Some(0),
            first => number.and_then(|number| first.checked_add(number)),
        };
        let outer = outer.ok_or(DoorError::TooFew { first, wanted })?;
        let listener = listen(address, outer);
        let (listener, address) =
            listener.map_err(|error| DoorError::NotFree { port: outer, error })?;
        let (app, server) = (app.as_str().into(), server.as_str().into());
        doors.push(Door { app, server, port: *port, address, listener });
    }
    Ok(doors)
}

fn listen(address: IpAddr, port: u16) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((address, port))?;
    // The runtime asks for it.
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// The servers that a client outside may ask, and their ports.
fn servers(plan: &Plan) -> Vec<(String, u16)> {
    let port = |node: &str| match node.split('-').next() {
        Some("redis") => Some(scene::REDIS_PORT),
        Some("sentinel") => Some(sentinel::PORT),
        Some("zk") => Some(zookeeper::CLIENT_PORT),
        Some("pg") => Some(postgres::PORT),
        _ if node == POOLER_NODE => Some(postgres::POOLER_PORT),
        _ => None,
    };
    let nodes = plan.topology.nodes().into_iter();
    nodes.filter_map(|node| port(&node).map(|port| (node, port))).collect()
}

/// For each app, where its doors are, by the server's name.
pub(super) fn by_app(doors: &[Door]) -> BTreeMap<Name, BTreeMap<String, (u16, SocketAddr)>> {
    let mut apps: BTreeMap<Name, BTreeMap<String, (u16, SocketAddr)>> = BTreeMap::new();
    for door in doors {
        let of_app = apps.entry(door.app.clone()).or_default();
        of_app.insert(door.server.to_string(), (door.port, door.address));
    }
    apps
}
