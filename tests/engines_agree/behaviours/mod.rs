//! All behaviours, in the order of the table.

mod closing;
mod connecting;
mod crashing;
mod cutting;
mod data;
mod watching;

use crate::behaviour::Behaviour;

pub fn all() -> Vec<Behaviour> {
    let groups = [
        ("Connecting", connecting::all()),
        ("Data", data::all()),
        ("Cuts", cutting::all()),
        ("Closing", closing::all()),
        ("Crashes and pauses", crashing::all()),
        ("Silent peers", watching::all()),
    ];
    let named = groups.into_iter().flat_map(|(group, behaviours)| {
        behaviours.into_iter().map(move |behaviour| Behaviour { group, ..behaviour })
    });
    named.collect()
}
