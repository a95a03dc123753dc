//! What outlives a restart: the lines that Sentinel keeps in its own configuration file.
//!
//! The file is written anew with every change, beside the old one, and takes its place
//! when it is on the medium.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use lockstorm::Host;

use super::core::Core;
use super::instance::{Address, Master, Ms};
use lockstorm_machine::disk::{Disk, Files};

const FILE: &str = "sentinel.conf";
const NEW_FILE: &str = "sentinel.conf.new";

/// Where a sentinel keeps its state.
#[derive(Clone, Debug)]
pub enum Keeping {
    /// With whoever made the settings: it is there after every crash.
    Memory(Memory),
    /// On its machine's disk.
    Disk(Disk),
}

/// A configuration file that no crash touches. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Option<String>>>);

impl Memory {
    /// What was written last.
    pub fn text(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The same in the hands of a program.
pub(super) enum Storage {
    Memory(Memory),
    Disk(Files),
}

impl Storage {
    /// Opens it, and reads what is there.
    pub(super) async fn open(keeping: &Keeping, host: &Host) -> io::Result<(Self, Option<String>)> {
        match keeping {
            Keeping::Memory(memory) => Ok((Storage::Memory(memory.clone()), memory.text())),
            Keeping::Disk(disk) => {
                let files = disk.mount(host);
                if !files.names().iter().any(|name| name == FILE) {
                    return Ok((Storage::Disk(files), None));
                }
                let bytes = files.read(FILE).await?;
                let text = String::from_utf8(bytes)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                Ok((Storage::Disk(files), Some(text)))
            }
        }
    }

    pub(super) async fn save(&self, text: &str) -> io::Result<()> {
        match self {
            Storage::Memory(memory) => {
                *memory.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
                Ok(())
            }
            Storage::Disk(files) => {
                // One may be left of a write that a crash cut short.
                let _ = files.remove(NEW_FILE);
                files.append(NEW_FILE, text.as_bytes())?;
                files.sync(NEW_FILE).await?;
                files.rename(NEW_FILE, FILE)?;
                files.sync_names().await
            }
        }
    }
}

impl Core {
    /// The lines to keep.
    pub(super) fn configuration(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "sentinel myid {}", self.me.id);
        for master in &self.masters {
            master.write(&mut text);
        }
        let _ = writeln!(text, "sentinel current-epoch {}", self.me.current_epoch);
        text
    }

    /// Takes over what was kept, in place of the settings. Lines that are not understood
    /// say nothing.
    pub(super) fn restore(&mut self, text: &str, now: Ms) {
        self.masters.clear();
        let default_down_after = self.me.timing.default_down_after;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["sentinel", directive, rest @ ..] = words.as_slice() else { continue };
            match (*directive, rest) {
                ("myid", [id]) => self.me.id = (*id).to_owned(),
                ("current-epoch", [epoch]) => {
                    self.me.current_epoch = epoch.parse().unwrap_or(0);
                }
                ("monitor", [name, host, port, quorum]) => {
                    let Ok(port) = port.parse() else { continue };
                    let (name, address) = ((*name).to_owned(), Address::new(*host, port));
                    let quorum = quorum.parse().unwrap_or(1);
                    let master = Master::new(name, address, quorum, default_down_after, now);
                    self.masters.push(master);
                }
                (directive, [name, rest @ ..]) => {
                    if let Some(master) = self.master(name.as_bytes()) {
                        master.read(directive, rest, now);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Master {
    fn write(&self, text: &mut String) {
        let name = &self.instance.name;
        let master = self.current_address();
        let quorum = self.quorum;
        let _ = writeln!(text, "sentinel monitor {name} {} {} {quorum}", master.host, master.port);
        for (directive, number) in [
            ("down-after-milliseconds", self.instance.down_after),
            ("failover-timeout", self.failover_timeout),
            ("parallel-syncs", Ms::from(self.parallel_syncs)),
        ] {
            let _ = writeln!(text, "sentinel {directive} {name} {number}");
        }
        for (directive, epoch) in
            [("config-epoch", self.config_epoch), ("leader-epoch", self.leader_epoch)]
        {
            let _ = writeln!(text, "sentinel {directive} {name} {epoch}");
        }
        for replica in &self.replicas {
            // While one is promoted the former master is written in its place.
            let own = &replica.instance.address;
            let Address { host, port } =
                if own.is_same(master) { &self.instance.address } else { own };
            let _ = writeln!(text, "sentinel known-replica {name} {host} {port}");
        }
        for peer in &self.sentinels {
            let (Address { host, port }, id) = (&peer.instance.address, &peer.instance.name);
            let _ = writeln!(text, "sentinel known-sentinel {name} {host} {port} {id}");
        }
    }

    fn read(&mut self, directive: &str, rest: &[&str], now: Ms) {
        let number = rest.first().and_then(|word| word.parse::<Ms>().ok());
        match (directive, rest, number) {
            ("down-after-milliseconds", _, Some(ms)) => self.set_down_after(ms),
            ("failover-timeout", _, Some(ms)) => self.failover_timeout = ms,
            ("parallel-syncs", _, Some(count)) => {
                self.parallel_syncs = u32::try_from(count).unwrap_or(1);
            }
            ("config-epoch", [epoch], _) => self.config_epoch = epoch.parse().unwrap_or(0),
            ("leader-epoch", [epoch], _) => self.leader_epoch = epoch.parse().unwrap_or(0),
            ("known-replica", [host, port], _) => {
                if let Ok(port) = port.parse() {
                    self.add_replica(Address::new(*host, port), now);
                }
            }
            ("known-sentinel", [host, port, id], _) => {
                if let Ok(port) = port.parse() {
                    self.add_sentinel(id, Address::new(*host, port), now);
                }
            }
            _ => {}
        }
    }

    /// For the master and all who belong to it.
    pub(super) fn set_down_after(&mut self, ms: Ms) {
        self.instance.down_after = ms;
        let replicas = self.replicas.iter_mut().map(|replica| &mut replica.instance);
        let sentinels = self.sentinels.iter_mut().map(|peer| &mut peer.instance);
        replicas.chain(sentinels).for_each(|instance| instance.down_after = ms);
    }
}
