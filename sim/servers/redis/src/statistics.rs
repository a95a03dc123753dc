//! How often commands were called, refused and failed, and with which errors (`INFO`
//! `commandstats` and `errorstats`).
//!
//! A command has failed if errors were answered while it ran that no command inside it (of a
//! transaction, of a script) has failed with. How long commands take is not kept: here they
//! take no time.

use std::collections::BTreeMap;

use super::command::COUNTED;

/// Redis looks for the end of an error's code among so many bytes.
const CODE_BYTES: usize = 31;
/// Scripts make up codes: no more different ones are kept.
const CODES_MAX: usize = 1_024;

/// What is counted of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) calls: u64,
    /// It was not begun.
    pub(super) rejected: u64,
    pub(super) failed: u64,
}

/// Where a command is counted: its place among all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place(pub(super) u16);

/// All that is counted, since the server started or was told to begin anew.
#[derive(Debug)]
pub(super) struct Statistics {
    counts: Box<[Count]>,
    errors: BTreeMap<Vec<u8>, u64>,
    /// How many errors were answered.
    answered: u64,
    /// How many of those are some command's failure, or came before the command that runs.
    claimed: u64,
    /// How many errors the command that runs has answered that were counted where they arose:
    /// a script's, of the commands that it called.
    repeated: u64,
}

impl Default for Statistics {
    fn default() -> Self {
        let counts = vec![Count::default(); COUNTED].into_boxed_slice();
        let errors = BTreeMap::new();
        Statistics { counts, errors, answered: 0, claimed: 0, repeated: 0 }
    }
}

impl Statistics {
    /// Begins anew.
    pub(super) fn reset(&mut self) {
        *self = Statistics::default();
    }

    /// A command is about to run.
    pub(super) fn begin(&mut self) {
        self.claimed = self.answered;
    }

    /// It ran, or waits for something. One that waited `again` was called before it did.
    pub(super) fn end(&mut self, place: Place, again: bool) {
        let failed = u64::from(self.answered > self.claimed) + std::mem::take(&mut self.repeated);
        self.claimed = self.answered;
        if failed > 0 {
            self.fail(place, failed);
        }
        if let Some(count) = self.counts.get_mut(usize::from(place.0)).filter(|_| !again) {
            count.calls += 1;
        }
    }

    /// A command was refused with this error.
    pub(super) fn reject(&mut self, place: Option<Place>, error: &[u8]) {
        self.answer(error);
        // That is no failure of a script that called it.
        self.claimed = self.answered;
        if let Some(place) = place {
            self.count_rejected(place);
        }
    }

    fn count_rejected(&mut self, place: Place) {
        if let Some(count) = self.counts.get_mut(usize::from(place.0)) {
            count.rejected += 1;
        }
    }

    /// A command that had waited ended with an error.
    pub(super) fn fail(&mut self, place: Place, times: u64) {
        if let Some(count) = self.counts.get_mut(usize::from(place.0)) {
            count.failed += times;
        }
    }

    /// An error was answered.
    pub(super) fn answer(&mut self, error: &[u8]) {
        self.answered += 1;
        let end = error.iter().take(CODE_BYTES).position(|byte| *byte == b' ');
        let code = end.map_or(&b"ERR"[..], |end| &error[..end]);
        if let Some(count) = self.errors.get_mut(code) {
            *count += 1;
        } else if self.errors.len() < CODES_MAX {
            self.errors.insert(code.to_vec(), 1);
        }
    }

    /// The command that runs fails with an error, unless it repeats one that was counted.
    pub(super) fn answer_failure(&mut self, error: &[u8]) {
        if self.repeated == 0 {
            self.answer(error);
        }
    }

    /// The command that runs answers an error that was counted where it arose.
    pub(super) fn repeat(&mut self) {
        self.repeated += 1;
    }

    /// What was answered so is taken back.
    pub(super) fn forget_repeated(&mut self) {
        self.repeated = 0;
    }

    /// How many errors were answered.
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    /// The commands of which something was counted.
    pub(super) fn counts(&self) -> impl Iterator<Item = (Place, Count)> {
        let counts = (0..).map(Place).zip(self.counts.iter().copied());
        counts.filter(|(_, count)| *count != Count::default())
    }

    /// The codes of errors, and how often each was answered.
    pub(super) fn errors(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.errors.iter().map(|(code, count)| (code.as_slice(), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_cannot_make_up_codes_for_ever() {
        let mut statistics = Statistics::default();
        for number in 0..2 * CODES_MAX {
            statistics.answer(format!("C{number} of a script").as_bytes());
        }
        assert_eq!(statistics.errors().count(), CODES_MAX);
        assert_eq!(statistics.answered(), 2 * CODES_MAX as u64);
        statistics.answer(b"C0 again");
        assert_eq!(statistics.errors().next(), Some((&b"C0"[..], 2)));
    }
}
