//! A PostgreSQL standby becomes a primary: what an operator, or a tool that watches servers,
//! does when it takes the primary for dead. It is over at once, and nobody asks the old
//! primary. Shows at once, unless there was no standby that could be promoted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Begun, Ground};
use crate::history::Name;
use crate::server::postgres::Control;

/// The PostgreSQL servers of a storm, in their newest incarnations.
#[derive(Clone, Debug, Default)]
pub struct Controls(Arc<Mutex<BTreeMap<Name, Control>>>);

impl Controls {
    /// The server of this name begins a life.
    pub fn enter(&self, name: Name, control: Control) {
        self.lock().insert(name, control);
    }

    /// All of them, by their names.
    pub fn all(&self) -> Vec<(Name, Control)> {
        self.lock().iter().map(|(name, control)| (name.clone(), control.clone())).collect()
    }

    fn find(&self, name: &str) -> Option<Control> {
        self.lock().get(name).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Control>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn narration(node: &str) -> String {
    format!("{node} is promoted, whatever its primary does")
}

pub(super) fn begin(node: &str, ground: &Ground) -> Begun {
    let is_up = ground.find(node).is_some_and(|id| ground.world.is_up(id));
    match ground.controls.find(node).filter(|_| is_up) {
        Some(control) if control.promote() => Begun::Showed(format!("{node} is promoted")),
        _ => Begun::Void,
    }
}
