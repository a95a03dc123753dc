//! A sorted set: members and their scores, in the order of the scores; members of the same
//! score in byte order.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// What a member costs besides its bytes.
const MEMBER_BYTES: usize = 72;

/// Up to so many members of so many bytes Redis keeps a listpack.
const SMALL_MEMBERS: usize = 128;
const SMALL_MEMBER_BYTES: usize = 64;

/// A score: a number, never NaN. The two zeros are the same.
#[derive(Clone, Copy, Debug)]
struct Score(f64);

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

/// A limit of a range of scores, or of members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Limit<T> {
    pub(in super::super) value: T,
    pub(in super::super) is_excluded: bool,
}

/// A limit of a range of members that have the same score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum Name<'a> {
    Lowest,
    Highest,
    Bytes(Limit<&'a [u8]>),
}

/// A sorted set. Never empty where commands can see it.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct SortedSet {
    scores: BTreeMap<Arc<[u8]>, f64>,
    order: BTreeSet<(Score, Arc<[u8]>)>,
    used_bytes: usize,
    /// It was once larger than a listpack may be.
    is_large: bool,
}

impl PartialEq for SortedSet {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for SortedSet {}

impl SortedSet {
    pub(in super::super) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    pub(in super::super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// As `OBJECT ENCODING` tells it.
    pub(in super::super) fn encoding(&self) -> &'static str {
        if self.is_large { "skiplist" } else { "listpack" }
    }

    pub(in super::super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Members and scores in their order.
    pub(in super::super) fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = (&Arc<[u8]>, f64)> + ExactSizeIterator {
        self.order.iter().map(|(score, member)| (member, score.0))
    }

    /// Sets a member's score. True if the member was not there.
    pub(in super::super) fn insert(&mut self, member: &[u8], score: f64) -> bool {
        // A listpack keeps whole numbers as integers, which have one zero.
        let score = if score == 0.0 && !self.is_large { 0.0 } else { score };
        if let Some((member, previous)) = self.scores.get_key_value(member) {
            let member = member.clone();
            self.order.remove(&(Score(*previous), member.clone()));
            self.order.insert((Score(score), member.clone()));
            self.scores.insert(member, score);
            return false;
        }
        let member: Arc<[u8]> = member.into();
        self.used_bytes += MEMBER_BYTES + member.len();
        self.order.insert((Score(score), member.clone()));
        self.is_large |= self.scores.len() >= SMALL_MEMBERS || member.len() > SMALL_MEMBER_BYTES;
        self.scores.insert(member, score);
        true
    }

    /// Removes a member. False if it was not there.
    pub(in super::super) fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.scores.remove_entry(member) else { return false };
        self.used_bytes -= MEMBER_BYTES + member.len();
        self.order.remove(&(Score(score), member));
        true
    }

    /// The place of a member, from 0.
    pub(in super::super) fn rank(&self, member: &[u8]) -> Option<usize> {
        let (member, score) = self.scores.get_key_value(member)?;
        let before = (Bound::Unbounded, Bound::Excluded((Score(*score), member.clone())));
        Some(self.order.range(before).count())
    }

    /// Members whose scores are within limits, in their order.
    pub(in super::super) fn by_score(
        &self,
        least: Limit<f64>,
        most: Limit<f64>,
    ) -> impl DoubleEndedIterator<Item = (&Arc<[u8]>, f64)> {
        let nobody: Arc<[u8]> = Arc::from(&[][..]);
        let from = if least.is_excluded { least.value.next_up() } else { least.value };
        let lower = if least.is_excluded && least.value == f64::INFINITY {
            None
        } else {
            Some(Bound::Included((Score(from), nobody.clone())))
        };
        let upper = match (most.is_excluded, most.value) {
            (false, f64::INFINITY) => Bound::Unbounded,
            (false, value) => Bound::Excluded((Score(value.next_up()), nobody)),
            (true, value) => Bound::Excluded((Score(value), nobody)),
        };
        let is_empty = match (&lower, &upper) {
            (None, _) => true,
            (Some(Bound::Included(lower)), Bound::Excluded(upper)) => lower > upper,
            _ => false,
        };
        let range = (!is_empty).then(|| (lower.unwrap_or(Bound::Unbounded), upper));
        range
            .into_iter()
            .flat_map(|range| self.order.range(range))
            .map(|(score, member)| (member, score.0))
    }

    /// Members within limits; it has a meaning where all scores are the same.
    pub(in super::super) fn by_name<'a>(
        &'a self,
        least: Name<'a>,
        most: Name<'a>,
    ) -> impl DoubleEndedIterator<Item = (&'a Arc<[u8]>, f64)> {
        self.iter().filter(move |(member, _)| {
            let is_above = match least {
                Name::Lowest => true,
                Name::Highest => false,
                Name::Bytes(limit) if limit.is_excluded => ***member > *limit.value,
                Name::Bytes(limit) => ***member >= *limit.value,
            };
            is_above
                && match most {
                    Name::Lowest => false,
                    Name::Highest => true,
                    Name::Bytes(limit) if limit.is_excluded => ***member < *limit.value,
                    Name::Bytes(limit) => ***member <= *limit.value,
                }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(value: f64) -> Limit<f64> {
        Limit { value, is_excluded: false }
    }

    fn beyond(value: f64) -> Limit<f64> {
        Limit { value, is_excluded: true }
    }

    #[test]
    fn ranges_of_scores() {
        let mut set = SortedSet::default();
        let (least, most) = (f64::NEG_INFINITY, f64::INFINITY);
        for (member, score) in
            [("a", 1.0), ("b", 2.0), ("c", 2.0), ("z", -0.0), ("y", 0.0), ("-", least), ("+", most)]
        {
            assert!(set.insert(member.as_bytes(), score));
        }
        let names = |least, most| -> String {
            set.by_score(least, most).map(|(member, _)| char::from(member[0])).collect()
        };
        assert_eq!(names(at(least), at(most)), "-yzabc+");
        assert_eq!(names(beyond(least), beyond(most)), "yzabc");
        assert_eq!(names(at(0.0), beyond(2.0)), "yza");
        assert_eq!(names(beyond(0.0), at(2.0)), "abc");
        assert_eq!(names(at(2.0), at(1.0)), "");
        assert_eq!(names(beyond(most), at(most)), "");
        assert_eq!(names(at(least), beyond(least)), "");
        assert_eq!(names(at(most), at(most)), "+");
        assert_eq!(set.rank(b"a"), Some(3));
        let mut set = set.clone();
        assert!(!set.insert(b"a", 5.0) && set.remove(b"b") && !set.remove(b"b"));
        assert_eq!(set.rank(b"a"), Some(4));
        assert_eq!(set.used_bytes(), 6 * (MEMBER_BYTES + 1));
    }
}
