//! Gives each owner and each lock of a history a number, so that a sweep asks the text of
//! a name once and then counts.
//!
//! A small table of the names met lately stands before the map of all of them: the events
//! of a grant stand close together, and a name that is found there costs neither a search
//! nor a comparison with any other name.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::history::names::place;
use crate::history::{Attempt, Name};

/// A name's number in a [`Roster`], from 0.
pub(super) type Number = u32;

/// All names, numbered in the order in which they came.
pub(super) struct Roster {
    names: Vec<Name>,
    numbers: BTreeMap<Name, Number>,
    /// By the hash of its text the number of the name that came last.
    lately: Vec<Number>,
    /// An attempt as text, while it is looked for.
    text: String,
}

const PLACES: usize = 1 << 12;

impl Roster {
    /// A roster without names.
    pub fn new() -> Roster {
        let lately = vec![Number::MAX; PLACES];
        Roster { names: Vec::new(), numbers: BTreeMap::new(), lately, text: String::new() }
    }

    /// The number of this name.
    pub fn of(&mut self, name: &Name) -> Number {
        self.number(name, |_| name.clone())
    }

    /// The number of the owner that this attempt is.
    pub fn of_attempt(&mut self, attempt: &Attempt) -> Number {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        // A string takes everything.
        let _ = write!(text, "{attempt}");
        let number = self.number(&text, |text| Name::from(text));
        self.text = text;
        number
    }

    /// The name of this number.
    pub fn name(&self, number: Number) -> &Name {
        &self.names[number as usize]
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    fn number(&mut self, text: &str, name: impl FnOnce(&str) -> Name) -> Number {
        let place = place(text, PLACES);
        let lately = self.lately[place];
        if self.names.get(lately as usize).is_some_and(|known| **known == *text) {
            return lately;
        }
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None => {
                // More names than this are more events than are read.
                let number = Number::try_from(self.names.len()).unwrap_or(Number::MAX);
                let name = name(text);
                self.names.push(name.clone());
                self.numbers.insert(name, number);
                number
            }
        };
        self.lately[place] = number;
        number
    }
}
