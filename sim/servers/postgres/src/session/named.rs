//! What a session keeps under names: prepared statements and portals, within bounds.

use super::{Portal, Prepared, Session};
use crate::error::{SqlError, SqlResult};
use crate::state::row_bytes;

/// So many of either.
const MOST_NAMED: usize = 10_000;

impl Session {
    /// Keeps a prepared statement, if there is room for it beside the session's others. The one
    /// of this name goes: it takes no room.
    pub(super) fn keep_prepared(&mut self, name: String, prepared: Prepared) -> SqlResult<()> {
        self.prepared.remove(&name);
        let texts = self.prepared.values().filter_map(|one| one.parsed.as_ref());
        let bytes: usize = texts.map(|parsed| parsed.text.len()).sum();
        // What is parsed takes many times its text.
        let most_bytes = self.shared.settings.message_bytes / 4;
        if self.prepared.len() >= MOST_NAMED || bytes > most_bytes {
            return Err(too_many("Too many prepared statements."));
        }
        self.prepared.insert(name, prepared);
        Ok(())
    }

    /// The same of a portal, with what it was given and what is left of its result.
    pub(super) fn keep_portal(&mut self, name: String, portal: Portal) -> SqlResult<()> {
        self.portals.remove(&name);
        let all = || self.portals.values();
        let given: usize = all().map(|one| row_bytes(&one.parameters)).sum();
        let rows = all().filter_map(|one| one.outcome.as_ref()).flat_map(|outcome| &outcome.rows);
        let left: usize = rows.map(|row| row_bytes(row)).sum();
        let settings = &self.shared.settings;
        let is_full = given > settings.message_bytes || left > settings.result_bytes;
        if self.portals.len() >= MOST_NAMED || is_full {
            return Err(too_many("Too many portals."));
        }
        self.portals.insert(name, portal);
        Ok(())
    }
}

fn too_many(told: &str) -> SqlError {
    SqlError::new("53200", "out of memory").detail(told)
}
