//! What an engine does otherwise than Linux: the one table of it.

use crate::behaviours;

/// A deviation of an engine from a behaviour.
pub struct Deviation {
    pub engine: &'static str,
    pub behaviour: &'static str,
    /// What it does instead, for people.
    pub text: &'static str,
    /// What the programs see instead.
    pub outcome: &'static [&'static str],
}

const ALL: &[Deviation] = &[];

/// The deviation of `engine` from `behaviour`, if it has one.
pub fn of(engine: &str, behaviour: &str) -> Option<&'static Deviation> {
    ALL.iter().find(|it| it.engine == engine && it.behaviour == behaviour)
}

/// Every line of the table is of an engine and a behaviour, once, and says something.
pub fn check() -> Result<(), String> {
    let behaviours = behaviours::all();
    for (index, deviation) in ALL.iter().enumerate() {
        let Deviation { engine, behaviour, text, outcome } = deviation;
        let place = format!("{engine} × {behaviour}");
        let Some(known) = behaviours.iter().find(|it| it.name == *behaviour) else {
            return Err(format!("{place}: there is no such behaviour"));
        };
        if !["event", "turmoil"].contains(engine) || text.is_empty() {
            return Err(format!("{place}: name an engine and say what it does"));
        }
        if known.expected == *outcome {
            return Err(format!("{place}: that is what Linux does"));
        }
        if ALL[..index].iter().any(|it| it.engine == *engine && it.behaviour == *behaviour) {
            return Err(format!("{place}: it stands there twice"));
        }
    }
    Ok(())
}
