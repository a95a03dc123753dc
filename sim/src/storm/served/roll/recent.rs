//! A map of at most so many entries: beyond that, what was longest not written is forgotten.

use std::collections::BTreeMap;

/// See the module.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    most: usize,
    /// How often something was written: ages, of which each is somebody's once.
    writes: u64,
    by_key: BTreeMap<K, (u64, V)>,
    by_age: BTreeMap<u64, K>,
}

impl<K: Ord + Clone, V> Recent<K, V> {
    /// Nothing yet.
    pub(super) fn new(most: usize) -> Self {
        Recent { most, writes: 0, by_key: BTreeMap::new(), by_age: BTreeMap::new() }
    }

    /// What is under this key.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.by_key.get(key).map(|(_, value)| value)
    }

    /// Writes it. Tells what is there no more: what was under this key, or else what had to go.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.writes += 1;
        self.by_age.insert(self.writes, key.clone());
        if let Some((age, old)) = self.by_key.insert(key, (self.writes, value)) {
            self.by_age.remove(&age);
            return Some(old);
        }
        if self.by_key.len() <= self.most {
            return None;
        }
        let (_, oldest) = self.by_age.pop_first()?;
        self.by_key.remove(&oldest).map(|(_, value)| value)
    }

    /// Forgets it.
    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let (age, value) = self.by_key.remove(key)?;
        self.by_age.remove(&age);
        Some(value)
    }

    /// The keys from this one on, in their order.
    pub(super) fn keys_from(&self, first: K) -> impl Iterator<Item = &K> {
        self.by_key.range(first..).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_whatever_it_is_called() {
        let mut recent = Recent::new(2);
        assert_eq!(recent.insert("z", 1), None);
        assert_eq!(recent.insert("a", 2), None);
        assert_eq!(recent.insert("m", 3), Some(1), "the first that came, not the least");
        assert_eq!(recent.insert("a", 4), Some(2), "written again, it is the newest");
        assert_eq!(recent.insert("b", 5), Some(3));
        assert_eq!(recent.get(&"a"), Some(&4));
        assert_eq!(recent.remove(&"a"), Some(4));
        assert_eq!(recent.insert("c", 6), None);
        assert_eq!(recent.keys_from("b").copied().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(recent.by_age.len(), recent.by_key.len());
    }
}
