//! What others may tell a sentinel: whoever can write to one of the servers can say hello
//! in anybody's name. Real sentinels have no such bounds.

use super::instance::Ms;

/// No interval is longer, ms: some are multiplied by ten.
pub(super) const LONGEST_MS: Ms = Ms::MAX / 16;

/// No epoch is later: others count on from it.
pub(super) const LAST_EPOCH: u64 = 1 << 62;

/// So many masters are watched at most.
pub(super) const MOST_MASTERS: usize = 256;

/// So many replicas, and so many other sentinels, of one master are known at most; each costs
/// two connections.
pub(super) const MOST_OF_ONE_MASTER: usize = 256;

/// Whether it can stand in the configuration file: a word of its own on its line.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(|letter: char| letter.is_whitespace() || letter.is_control())
}
