//! A place whose turn it is, in its holder's hands.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::place::Place;
use super::session::Session;
use crate::host::BoxFuture;
use crate::lock::{GuardBackend, Release};

/// What a guard stands on. What it has once called lost stays lost: whoever was told has
/// stopped, also if the session turns out to have lived.
pub(super) struct Held {
    /// `None` once it is given back.
    place: Option<Place>,
    session: Arc<Session>,
    told: Arc<OnceLock<String>>,
    command_timeout: Duration,
}

impl Held {
    pub(super) fn new(place: Place, command_timeout: Duration) -> Self {
        let session = place.session().clone();
        Held { place: Some(place), session, told: Arc::default(), command_timeout }
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

/// Why a holder must stop, if it must: expired and suspended are told apart.
fn lost(session: &Session, told: &OnceLock<String>) -> Option<String> {
    if let Some(reason) = told.get() {
        return Some(reason.clone());
    }
    let reason = match session.over() {
        Some(over) => over,
        None if session.deadline() > session.host().monotonic() => return None,
        None if session.is_connected() => {
            "suspended: the leader has not confirmed our session in time, it may have expired"
        }
        None => "suspended: no server has our session, it may have expired",
    };
    Some(told.get_or_init(|| reason.to_owned()).clone())
}

impl GuardBackend for Held {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        match self.place.take() {
            Some(place) => Box::pin(place.leave(self.command_timeout)),
            None => Box::pin(std::future::ready(Release::NotHeld)),
        }
    }

    fn lost(&self) -> Option<String> {
        lost(&self.session, &self.told)
    }

    fn told(&self) -> BoxFuture<'static, ()> {
        let (session, told) = (self.session.clone(), self.told.clone());
        Box::pin(async move {
            loop {
                let mut changed = std::pin::pin!(session.changed().notified());
                // Before it is looked at: what changes in between is not missed.
                changed.as_mut().enable();
                if lost(&session, &told).is_some() {
                    return;
                }
                let left = session.deadline().saturating_sub(session.host().monotonic());
                // Woken or out of time, it is looked at again.
                let _ = session.host().timeout(left, changed).await;
            }
        })
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.session.deadline())
    }
}
