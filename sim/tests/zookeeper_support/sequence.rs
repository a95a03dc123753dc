//! Drawn sequences of turns.

use super::ask::{Ask, Drawer};
use super::draw::Draw;

/// How many sessions take turns.
pub const SESSIONS: usize = 3;
/// How many turns a sequence has.
const TURNS: usize = 24;

/// What a session does in its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Ask(Vec<Ask>),
    /// Its connection ends without a word; its session is left.
    Drop,
    /// It goes on at this server (counted from its own), with the old connection still open.
    Move {
        by: usize,
    },
    /// It tries to go on with a wrong password.
    Mistake,
    /// It tries to connect having seen what no server has.
    Ahead,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub who: usize,
    pub act: Act,
}

/// The turns that this seed draws.
pub fn sequence(seed: u64, servers: usize, root: &str) -> Vec<Turn> {
    let draw = &mut Draw::new(seed, "sequence");
    let mut turns = Vec::new();
    for _ in 0..TURNS {
        let who = draw.below(SESSIONS);
        let mut drawer = Drawer { draw, root, is_ensemble: servers > 1 };
        let act = match drawer.draw.below(40) {
            0 => Act::Drop,
            1 => Act::Move { by: drawer.draw.below(3) },
            2 if drawer.draw.one_in(2) => Act::Mistake,
            2 => Act::Ahead,
            3..=6 => Act::Ask(vec![drawer.out_of_turn()]),
            _ => {
                let count = 1 + drawer.draw.below(4);
                let mut asks: Vec<Ask> = (0..count).map(|_| drawer.in_turn()).collect();
                if let Some(last) = asks.iter().position(Ask::is_given_up_half_way) {
                    asks.truncate(last + 1);
                }
                Act::Ask(asks)
            }
        };
        turns.push(Turn { who, act });
    }
    turns
}
