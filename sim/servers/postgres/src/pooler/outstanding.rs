//! What a client has asked of its session, and what of it is not answered yet.
//!
//! A session may be given to another client only when nothing of this is left: bytes that are
//! under way would be answered to somebody else. The server answers in order; after an error in
//! the extended protocol it skips everything up to the next Sync.

use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Outstanding {
    /// The kinds of messages, as they were sent.
    asked: VecDeque<u8>,
    /// The server has told of an error since it was last ready.
    has_failed: bool,
}

impl Outstanding {
    /// A message goes to the server.
    pub(super) fn ask(&mut self, kind: u8) {
        // Flush and the bytes of a COPY have no answers of their own.
        if !matches!(kind, b'H' | b'd' | b'c' | b'f' | b'p') {
            self.asked.push_back(kind);
        }
    }

    /// A message came from the server.
    pub(super) fn answer(&mut self, kind: u8) {
        match kind {
            b'1' => self.end_of(b"P"),
            b'2' => self.end_of(b"B"),
            b'3' => self.end_of(b"C"),
            b'T' | b'n' => self.end_of(b"D"),
            b'C' | b'I' | b's' => self.end_of(b"E"),
            b'E' => self.has_failed = true,
            b'Z' => self.is_ready(),
            _ => {}
        }
    }

    /// The first one is over, if it is one of these: not, for instance, a query of which this
    /// is but one result.
    fn end_of(&mut self, kinds: &[u8]) {
        if self.asked.front().is_some_and(|asked| kinds.contains(asked)) {
            self.asked.pop_front();
        }
    }

    fn is_ready(&mut self) {
        let is_of_its_own = self.asked.front().is_some_and(|kind| b"QSF".contains(kind));
        if is_of_its_own {
            self.asked.pop_front();
        } else if std::mem::take(&mut self.has_failed) {
            // What was skipped, and the Sync that ended it.
            while self.asked.pop_front().is_some_and(|kind| kind != b'S') {}
        }
        self.has_failed = false;
    }

    /// Whether everything is answered.
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_over(asked: &[u8], answered: &[u8]) -> bool {
        let mut outstanding = Outstanding::default();
        asked.iter().for_each(|kind| outstanding.ask(*kind));
        answered.iter().for_each(|kind| outstanding.answer(*kind));
        outstanding.is_empty()
    }

    #[test]
    fn it_is_over_when_each_is_answered_and_not_before() {
        for (asked, answered) in [
            (&b"Q"[..], &b"TDCTDCZ"[..]),
            (b"PBDES", b"12TDCZ"),
            (b"PDS", b"1tTZ"),
            (b"PDS", b"1tnZ"),
            (b"PBESPBES", b"12CZ12CZ"),
            (b"PBES", b"EZ"),
            // The query was skipped.
            (b"PBEQS", b"12EZ"),
            (b"QPBES", b"EZ12IZ"),
        ] {
            assert!(is_over(asked, answered), "{asked:?} {answered:?}");
            assert!(!is_over(asked, &answered[..answered.len() - 1]), "{asked:?} {answered:?}");
        }
        // The first batch is answered, the second is on its way.
        assert!(!is_over(b"PBESPBEH", b"12CZ"));
        assert!(!is_over(b"PBESB", b"12CZ"));
    }
}
