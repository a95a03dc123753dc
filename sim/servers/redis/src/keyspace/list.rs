//! A list: elements from the left to the right.

use std::collections::VecDeque;

use bytes::Bytes;

/// What an element costs besides its bytes.
const ELEMENT_BYTES: usize = 32;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum End {
    Left,
    Right,
}

/// A list. Never empty where commands can see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct List {
    elements: VecDeque<Bytes>,
    used_bytes: usize,
}

impl List {
    pub(in super::super) fn len(&self) -> usize {
        self.elements.len()
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    pub(in super::super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    pub(in super::super) fn get(&self, index: usize) -> Option<&Bytes> {
        self.elements.get(index)
    }

    /// The elements from the left.
    pub(in super::super) fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = &Bytes> + ExactSizeIterator {
        self.elements.iter()
    }

    pub(in super::super) fn push(&mut self, end: End, element: Bytes) {
        self.used_bytes += ELEMENT_BYTES + element.len();
        match end {
            End::Left => self.elements.push_front(element),
            End::Right => self.elements.push_back(element),
        }
    }

    pub(in super::super) fn pop(&mut self, end: End) -> Option<Bytes> {
        let element = match end {
            End::Left => self.elements.pop_front(),
            End::Right => self.elements.pop_back(),
        }?;
        self.used_bytes -= ELEMENT_BYTES + element.len();
        Some(element)
    }

    /// Puts an element before the one at `index`, or at the right end.
    pub(in super::super) fn insert(&mut self, index: usize, element: Bytes) {
        self.used_bytes += ELEMENT_BYTES + element.len();
        self.elements.insert(index, element);
    }

    /// Replaces an element. False if there is none at `index`.
    pub(in super::super) fn set(&mut self, index: usize, element: Bytes) -> bool {
        let Some(present) = self.elements.get_mut(index) else { return false };
        self.used_bytes = self.used_bytes + element.len() - present.len();
        *present = element;
        true
    }

    /// Removes equal elements, so many at most, from one end. How many there were.
    pub(in super::super) fn remove(&mut self, from: End, most: usize, element: &[u8]) -> usize {
        let mut removed = 0;
        let mut kept = VecDeque::with_capacity(self.elements.len());
        let mut elements = std::mem::take(&mut self.elements);
        while let Some(next) = match from {
            End::Left => elements.pop_front(),
            End::Right => elements.pop_back(),
        } {
            if removed < most && next == element {
                removed += 1;
                self.used_bytes -= ELEMENT_BYTES + next.len();
                continue;
            }
            match from {
                End::Left => kept.push_back(next),
                End::Right => kept.push_front(next),
            }
        }
        self.elements = kept;
        removed
    }

    /// Keeps the elements of a range only.
    pub(in super::super) fn keep(&mut self, range: std::ops::Range<usize>) {
        while self.len() > range.end {
            self.pop(End::Right);
        }
        for _ in 0..range.start {
            self.pop(End::Left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> List {
        let mut list = List::default();
        text.bytes().for_each(|byte| list.push(End::Right, Bytes::from(vec![byte])));
        list
    }

    fn text(list: &List) -> String {
        list.iter().map(|element| char::from(element[0])).collect()
    }

    #[test]
    fn both_ends_and_the_middle() {
        let mut letters = list("abcabc");
        assert_eq!(letters.remove(End::Right, 1, b"a"), 1);
        assert_eq!(text(&letters), "abcbc");
        assert_eq!(letters.remove(End::Left, usize::MAX, b"b"), 2);
        assert_eq!(text(&letters), "acc");
        letters.insert(1, Bytes::from_static(b"x"));
        assert!(letters.set(3, Bytes::from_static(b"y")) && !letters.set(4, Bytes::new()));
        assert_eq!(text(&letters), "axcy");
        letters.keep(1..3);
        assert_eq!(text(&letters), "xc");
        assert_eq!(letters.used_bytes(), 2 * (ELEMENT_BYTES + 1));
        assert_eq!(letters.pop(End::Left).as_deref(), Some(&b"x"[..]));
        letters.keep(1..1);
        assert_eq!((letters.used_bytes(), letters.is_empty()), (0, true));
    }
}
