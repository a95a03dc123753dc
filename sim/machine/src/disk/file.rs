//! The bytes of one file: those on the medium, and those that the kernel still has.

use crate::draw::Draw;

/// What a disk writes as a whole: a crash never tears a sector.
const SECTOR_BYTES: u64 = 512;

/// One file.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    bytes: Vec<u8>,
    /// So many bytes from the start count as synchronised.
    synced: u64,
    /// From here on, below `synced`, a failed synchronisation left the medium without the
    /// bytes: neither they nor what follows survives a machine crash.
    hole_at: Option<u64>,
}

impl File {
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn truncate(&mut self, length: u64) {
        self.bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        self.synced = self.synced.min(self.len());
        self.hole_at = self.hole_at.filter(|at| *at < self.len());
    }

    /// All up to this length is on the medium, but for what an earlier failure lost.
    pub(super) fn sync(&mut self, upto: u64) {
        self.synced = self.synced.max(upto.min(self.len()));
    }

    /// The pages up to this length count as clean and are not on the medium.
    pub(super) fn fail_sync(&mut self, upto: u64) {
        let upto = upto.min(self.len());
        if upto > self.synced {
            self.hole_at = self.hole_at.or(Some(self.synced));
            self.synced = upto;
        }
    }

    /// The machine died: true if bytes were lost. Of what was not synchronised, whole
    /// sectors from its start survive, as many as are drawn.
    pub(super) fn lose_power(&mut self, survival: &mut Draw) -> bool {
        let length = self.len();
        // One draw for each file, always: what one lost moves no other's.
        let reached = self.synced + survival.below(length - self.synced + 1);
        let whole = if reached == length { length } else { reached / SECTOR_BYTES * SECTOR_BYTES };
        let survives = self.hole_at.unwrap_or(whole.max(self.synced));
        self.truncate(survives);
        self.synced = self.len();
        self.hole_at = None;
        self.len() < length
    }
}
