//! The disk of a simulated machine: append, synchronise, rename, read.
//!
//! What a program writes is in its kernel until it has been synchronised. A process
//! crash loses none of it. A machine crash keeps what was synchronised, and of the rest
//! a drawn prefix: pages that happened to have been written back, cut wherever a page or
//! a sector ended, so that a last record may be torn. A rename is atomic and, like on
//! ext4, durable only when its folder has been synchronised; until then a machine crash
//! may undo it.
//!
//! The device does one synchronisation at a time, each with a latency drawn from its own
//! stream, so that writers that wait together are served by one of them (group commit
//! is left to whoever writes). Faults make it slower, stall it, or fail it. A failed
//! synchronisation follows Linux ("fsyncgate"): it is told once, the pages count as clean
//! from then on, and what was in them is not on the disk whatever a later
//! synchronisation says.
//!
//! Order of things: [`Disk`] is a machine's disk and outlives its programs; [`Files`]
//! is the disk in a program's hands, with its host's timers; [`file`] holds the bytes.
//!
//! It is no file system: there are no folders, permissions, or limits but
//! [`Settings::capacity_bytes`].

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstorm::Host;
use tokio::sync::Notify;

use crate::draw::Draw;
use file::File;

/// How a disk behaves when nothing is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Median time of a synchronisation, µs.
    pub sync_median_us: u64,
    /// Median time of a read, µs.
    pub read_median_us: u64,
    /// Sigma of the underlying normal of both, in thousandths.
    pub sigma_milli: u64,
    /// All files together; more is "no space left on device". Bytes.
    pub capacity_bytes: u64,
}

impl Default for Settings {
    /// A cloud volume: fsync around a millisecond, reads around 100 µs.
    fn default() -> Self {
        Settings {
            sync_median_us: 1_000,
            read_median_us: 100,
            sigma_milli: 300,
            capacity_bytes: 1 << 30,
        }
    }
}

/// What is wrong with a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ailment {
    /// Every synchronisation and read takes so much longer, µs.
    pub extra_us: u64,
    /// Nothing completes.
    pub stalled: bool,
    /// Synchronisations fail.
    pub failing: bool,
}

/// How an ailment showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskSign {
    /// An operation took longer.
    Slowed,
    /// An operation had to wait for the end of the stall.
    Stalled,
    /// A synchronisation failed.
    Failed,
    /// A machine crash lost bytes that had been written and not synchronised.
    LostTail,
}

/// Hears of signs.
pub type SignListener = Arc<dyn Fn(DiskSign) + Send + Sync>;

/// The disk of one machine. Cloning gives another handle to the same disk.
#[derive(Clone)]
pub struct Disk(Arc<Shared>);

/// Tells files apart, whatever they are called: an inode's number.
type FileNumber = u64;

struct Shared {
    settings: Settings,
    state: Mutex<State>,
    /// Told when the ailment changes.
    changed: Notify,
    /// The device's queue: one synchronisation at a time, first come, first served.
    device: tokio::sync::Mutex<()>,
}

struct State {
    /// Every file that a name leads to, in the kernel or on the medium.
    files: BTreeMap<FileNumber, File>,
    next: FileNumber,
    /// Names as programs see them.
    names: BTreeMap<String, FileNumber>,
    /// Names as the medium has them.
    durable_names: BTreeMap<String, FileNumber>,
    ailment: Ailment,
    /// How often the machine has lost its power: what was mounted before is dead.
    outages: u64,
    latency: Draw,
    survival: Draw,
    listener: Option<SignListener>,
}

impl Disk {
    /// An empty disk. `machine` and `seed` key its draws.
    pub fn new(settings: Settings, seed: u64, machine: &str) -> Disk {
        Disk(Arc::new(Shared {
            settings,
            state: Mutex::new(State {
                files: BTreeMap::new(),
                next: 0,
                names: BTreeMap::new(),
                durable_names: BTreeMap::new(),
                ailment: Ailment::default(),
                outages: 0,
                latency: Draw::new(seed, "disk-latency", machine),
                survival: Draw::new(seed, "disk-survival", machine),
                listener: None,
            }),
            changed: Notify::new(),
            device: tokio::sync::Mutex::new(()),
        }))
    }

    /// The disk in the hands of a program on `host`.
    pub fn mount(&self, host: &Host) -> Files {
        Files { disk: self.clone(), host: host.clone(), outages: self.lock().outages }
    }

    /// Has `listener` told of every sign from now on.
    pub fn on_sign(&self, listener: SignListener) {
        self.lock().listener = Some(listener);
    }

    /// Makes the disk ill, or well again.
    pub fn set_ailment(&self, ailment: Ailment) {
        self.lock().ailment = ailment;
        self.0.changed.notify_waiters();
    }

    /// What is wrong with it now.
    pub fn ailment(&self) -> Ailment {
        self.lock().ailment
    }

    /// The machine dies: what was not synchronised is lost, but for a drawn part of it.
    /// What its programs still do with it, in the step in which it died, fails.
    pub fn lose_power(&self) {
        let lost = {
            let state = &mut *self.lock();
            state.outages += 1;
            // A rename that the folder has not been synchronised after may be undone:
            // one draw for all of them, for a journal commits in order.
            if state.survival.chance(500) {
                state.durable_names = state.names.clone();
            } else {
                state.names = state.durable_names.clone();
            }
            state.forget_nameless();
            let mut lost = false;
            for file in state.files.values_mut() {
                lost |= file.lose_power(&mut state.survival);
            }
            lost
        };
        if lost {
            self.tell(DiskSign::LostTail);
        }
    }

    /// Bytes in all files, as a program sees them.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used_bytes()
    }

    fn tell(&self, sign: DiskSign) {
        let listener = self.lock().listener.clone();
        if let Some(listener) = listener {
            listener(sign);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn used_bytes(&self) -> u64 {
        self.files.values().map(File::len).sum()
    }

    fn number(&self, name: &str) -> io::Result<FileNumber> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{name}: no such file"));
        self.names.get(name).copied().ok_or_else(missing)
    }

    fn file(&mut self, name: &str) -> io::Result<&mut File> {
        let number = self.number(name)?;
        let gone = || io::Error::other(format!("{name}: a name without a file"));
        self.files.get_mut(&number).ok_or_else(gone)
    }

    /// The number of the file `name`, which is made if it is not there.
    fn make(&mut self, name: &str) -> FileNumber {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let number = self.next;
        self.next += 1;
        self.names.insert(name.to_owned(), number);
        self.files.insert(number, File::default());
        number
    }

    /// A file that no name leads to any more, nor would after a crash, is gone.
    fn forget_nameless(&mut self) {
        let State { files, names, durable_names, .. } = self;
        files.retain(|number, _| {
            let mut all = names.values().chain(durable_names.values());
            all.any(|named| named == number)
        });
    }

    /// A synchronised new file has its name on the medium, as ext4 does it. A renamed
    /// file keeps the name that the medium has for it until the names are synchronised.
    fn keep_name_of(&mut self, number: FileNumber) {
        if self.durable_names.values().any(|known| *known == number) {
            return;
        }
        let name = self.names.iter().find(|(_, named)| **named == number);
        if let Some((name, _)) = name.map(|(name, number)| (name.clone(), number)) {
            self.durable_names.entry(name).or_insert(number);
        }
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        formatter
            .debug_struct("Disk")
            .field("files", &state.files)
            .field("ailment", &state.ailment)
            .finish_non_exhaustive()
    }
}

/// A disk in a program's hands.
#[derive(Clone, Debug)]
pub struct Files {
    disk: Disk,
    host: Host,
    /// Of the machine, when it was mounted.
    outages: u64,
}

impl Files {
    /// Appends to the file `name`, which is made if it is not there, and tells its new
    /// length. The kernel takes the bytes at once.
    ///
    /// # Errors
    /// [`StorageFull`](io::ErrorKind::StorageFull) when the disk has no room for them;
    /// nothing of them is written then.
    pub fn append(&self, name: &str, bytes: &[u8]) -> io::Result<u64> {
        let capacity_bytes = self.disk.0.settings.capacity_bytes;
        let state = &mut *self.powered()?;
        if state.used_bytes().saturating_add(bytes.len() as u64) > capacity_bytes {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left on device"));
        }
        state.make(name);
        let file = state.file(name)?;
        file.append(bytes);
        Ok(file.len())
    }

    /// Cuts the file to `length` bytes; a shorter one is left as it is.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn truncate(&self, name: &str, length: u64) -> io::Result<()> {
        self.powered()?.file(name)?.truncate(length);
        Ok(())
    }

    /// Returns once all that was appended to `name` before the call is on the medium,
    /// and the file's name with it if the file is new.
    ///
    /// # Errors
    /// When there is no such file, or the device fails: told once, see the module.
    pub async fn sync(&self, name: &str) -> io::Result<()> {
        let (number, upto) = {
            let state = &mut *self.powered()?;
            (state.number(name)?, state.file(name)?.len())
        };
        let _turn = self.disk.0.device.lock().await;
        self.device_works(self.disk.0.settings.sync_median_us).await;
        let failing = {
            let state = &mut *self.powered()?;
            let failing = state.ailment.failing;
            if let Some(file) = state.files.get_mut(&number) {
                if failing { file.fail_sync(upto) } else { file.sync(upto) }
            }
            if !failing {
                state.keep_name_of(number);
            }
            failing
        };
        self.told(failing)
    }

    /// Gives the file `from` the name `to`, in place of whatever had it. Atomic;
    /// durable after [`sync_names`](Files::sync_names).
    ///
    /// # Errors
    /// When there is no such file.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let state = &mut *self.powered()?;
        let number = state.number(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), number);
        state.forget_nameless();
        Ok(())
    }

    /// Removes the file `name`; durable after [`sync_names`](Files::sync_names).
    ///
    /// # Errors
    /// When there is no such file.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let state = &mut *self.powered()?;
        state.number(name)?;
        state.names.remove(name);
        state.forget_nameless();
        Ok(())
    }

    /// Returns once all renames and removals before the call are on the medium.
    ///
    /// # Errors
    /// When the device fails; the names may then be as they were.
    pub async fn sync_names(&self) -> io::Result<()> {
        let names = self.powered()?.names.clone();
        let _turn = self.disk.0.device.lock().await;
        self.device_works(self.disk.0.settings.sync_median_us).await;
        let failing = {
            let state = &mut *self.powered()?;
            if !state.ailment.failing {
                state.durable_names = names;
                state.forget_nameless();
            }
            state.ailment.failing
        };
        self.told(failing)
    }

    /// All of the file's bytes.
    ///
    /// # Errors
    /// When there is no such file.
    pub async fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.device_works(self.disk.0.settings.read_median_us).await;
        Ok(self.powered()?.file(name)?.bytes())
    }

    /// The names of all files, in order.
    pub fn names(&self) -> Vec<String> {
        self.disk.lock().names.keys().cloned().collect()
    }

    /// The disk's state, as long as the machine has the power with which it was mounted.
    fn powered(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.lock();
        match state.outages == self.outages {
            true => Ok(state),
            false => Err(io::Error::other("the machine has lost its power")),
        }
    }

    fn told(&self, failing: bool) -> io::Result<()> {
        if failing {
            self.disk.tell(DiskSign::Failed);
            return Err(io::Error::other("input/output error"));
        }
        Ok(())
    }

    /// Waits as long as the device takes for one operation.
    async fn device_works(&self, median_us: u64) {
        let (drawn_us, extra_us) = {
            let sigma_milli = self.disk.0.settings.sigma_milli;
            let state = &mut *self.disk.lock();
            (state.latency.lognormal_us(median_us, sigma_milli), state.ailment.extra_us)
        };
        if extra_us > 0 {
            self.disk.tell(DiskSign::Slowed);
        }
        self.host.sleep(Duration::from_micros(drawn_us + extra_us)).await;
        loop {
            // Before the look: a change between it and the wait must not be missed.
            let changed = self.disk.0.changed.notified();
            if !self.disk.lock().ailment.stalled {
                return;
            }
            self.disk.tell(DiskSign::Stalled);
            changed.await;
        }
    }
}
