//! Shares names: a lock, its owner and an order stand in event after event.
//!
//! Whoever makes events asks here for each name and is given the one that it was given
//! lately, where there was one. Only lately: the events of a grant stand close together,
//! so a small table finds nearly all that could be shared, takes no more room however
//! long the history is, and no choice of names can make it slow.

use super::Name;

/// A table of the names met lately.
#[derive(Debug)]
pub struct Names {
    /// A name has one place, by its hash; the last that came has it.
    places: Vec<Option<Name>>,
}

impl Names {
    /// A table with room for about `room` names.
    pub fn with_room(room: usize) -> Names {
        Names { places: vec![None; room.next_power_of_two()] }
    }

    /// The name that reads `text`.
    pub fn of(&mut self, text: &str) -> Name {
        let place = place(text, self.places.len());
        match &mut self.places[place] {
            Some(known) if **known == *text => known.clone(),
            place => place.insert(Name::from(text)).clone(),
        }
    }
}

/// Where a name stands among `places`, a power of two: by FNV-1a, since names are short.
pub(crate) fn place(text: &str, places: usize) -> usize {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    // The low bits alone would know little of the first bytes.
    (hash ^ (hash >> 32)) as usize & (places - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_met_lately_is_shared() {
        let mut names = Names::with_room(8);
        let first = names.of("app-1/1");
        assert!(std::sync::Arc::ptr_eq(&first, &names.of("app-1/1")));
    }

    proptest! {
        #[test]
        fn whatever_is_forgotten_the_name_is_the_one_asked_for(
            texts in proptest::collection::vec("[a-c/]{0,3}", 0..40),
        ) {
            let mut names = Names::with_room(4);
            for text in texts {
                let name = names.of(&text);
                prop_assert_eq!(&*name, text.as_str());
            }
        }
    }
}
