//! Standing in a lock's queue until it is one's turn, or until patience is over.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::failure::Failure;
use super::held::Held;
use super::names::{Kind, Turn};
use super::options::{InvalidOptions, Options};
use super::place::{Folder, Node, Place};
use super::session::Sessions;
use crate::host::Host;
use crate::lock::{Grant, Guard, LockError, Owner, Promises};

/// The queues of all locks under one folder.
#[derive(Debug)]
pub(super) struct Queues {
    sessions: Arc<Sessions>,
    root: String,
}

/// How far an attempt has come.
enum Stage {
    /// It has no session; or the last try failed so.
    Opening(Option<Failure>),
    /// A place was asked for, and whose turn it is.
    Asking,
    /// Somebody else is before it.
    Waiting,
}

/// Why an attempt ended without a grant.
enum Ended {
    Busy,
    /// Before it had a place.
    Outside(Failure),
    /// Its place is gone with its session: another would stand at the end of the queue, and
    /// who waits must not be passed over without being told.
    PlaceLost(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Ended {
        Ended::PlaceLost(failure)
    }
}

/// A place whose turn it is.
pub(super) struct Turned {
    pub(super) place: Place,
    pub(super) node: Node,
}

impl Queues {
    /// The queues in the folder `section` of the options' root.
    pub(super) fn new(
        host: Host,
        servers: &[String],
        options: Options,
        section: &str,
    ) -> Result<Self, InvalidOptions> {
        let sessions = Sessions::new(host, servers, options)?;
        let root = format!("{}/{section}", sessions.options().root);
        Ok(Queues { sessions, root })
    }

    pub(super) fn host(&self) -> &Host {
        self.sessions.host()
    }

    pub(super) fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    pub(super) fn options(&self) -> &Options {
        self.sessions.options()
    }

    pub(super) fn folder(&self, key: &str) -> Folder {
        Folder::new(self.root.clone(), key)
    }

    /// What all locks in a queue promise: tokens are zxids of places, whose order is that of
    /// the queue; nobody is let in before whoever stands before it; a holder that is not
    /// confirmed stops by its own clock.
    pub(super) fn promises(&self) -> Promises {
        Promises {
            ordered_tokens: true,
            bypass_bound: Some(0),
            loss_notice_bound: Some(self.options().negotiated()),
        }
    }

    /// A guard of `key`, once it is its turn.
    pub(super) async fn acquire(
        &self,
        key: &str,
        owner: &Owner,
        kind: Kind,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let turned = self.enter(key, owner, kind, patience).await?;
        let held = Held::new(turned.place, self.options().command_timeout);
        let grant = grant(key, owner, &turned.node, &held);
        Ok(Guard::new(self.host().clone(), grant, held))
    }

    /// Stands in the queue of `key` until it is its turn. Dropped before that, or out of
    /// patience, the place is given up.
    pub(super) async fn enter(
        &self,
        key: &str,
        owner: &Owner,
        kind: Kind,
        patience: Duration,
    ) -> Result<Turned, LockError> {
        let stage = Mutex::new(Stage::Opening(None));
        let limit = patience.max(self.options().command_timeout);
        let folder = self.folder(key);
        let standing = self.stand(&folder, owner, kind, patience, &stage);
        match self.host().timeout(limit, standing).await {
            Ok(result) => result,
            Err(_) => Err(out_of_time(stage.into_inner().unwrap_or_else(PoisonError::into_inner))),
        }
    }

    /// Tries until granted or refused; the caller's patience is the caller's matter.
    async fn stand(
        &self,
        folder: &Folder,
        owner: &Owner,
        kind: Kind,
        patience: Duration,
        stage: &Mutex<Stage>,
    ) -> Result<Turned, LockError> {
        loop {
            let failure = match self.stand_once(folder, owner, kind, patience, stage).await {
                Ok(turned) => return Ok(turned),
                Err(Ended::Busy) => return Err(LockError::Busy),
                Err(Ended::PlaceLost(failure)) => return Err(failure.into()),
                Err(Ended::Outside(failure)) => failure,
            };
            if patience.is_zero() || !failure.may_pass() {
                return Err(failure.into());
            }
            set(stage, Stage::Opening(Some(failure)));
            self.host().sleep(self.options().retry).await;
        }
    }

    async fn stand_once(
        &self,
        folder: &Folder,
        owner: &Owner,
        kind: Kind,
        patience: Duration,
        stage: &Mutex<Stage>,
    ) -> Result<Turned, Ended> {
        let session = self.sessions.ready().await.map_err(Ended::Outside)?;
        set(stage, Stage::Asking);
        let place = Place::new(session, folder.clone(), kind);
        let node = place.take(owner).await.map_err(Ended::Outside)?;
        loop {
            match place.turn(&node).await? {
                Turn::Ours => break,
                Turn::Gone => return Err(gone(&place)),
                Turn::After(_) if patience.is_zero() => return Err(Ended::Busy),
                Turn::After(before) => {
                    set(stage, Stage::Waiting);
                    place.wait_for(&before).await?;
                }
            }
        }
        confirmed(&place).await?;
        Ok(Turned { place, node })
    }
}

/// The facts of a grant.
pub(super) fn grant(key: &str, owner: &Owner, node: &Node, held: &Held) -> Grant {
    Grant {
        key: key.to_owned(),
        owner: owner.clone(),
        token: Some(node.token),
        lease: WHILE_IT_LIVES,
        margin: Duration::ZERO,
        asked_at: held.session().confirmed(),
    }
}

/// A place is kept for as long as its session lives: a grant has no lease of its own. Until
/// when its holder may rely on the session, the guard asks the session.
const WHILE_IT_LIVES: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// Waits until the leader has confirmed the session recently: whoever was let in after a
/// pause must not begin with a session that is over.
async fn confirmed(place: &Place) -> Result<(), Failure> {
    let session = place.session();
    loop {
        let mut changed = std::pin::pin!(session.changed().notified());
        // Before it is looked at: what changes in between is not missed.
        changed.as_mut().enable();
        if let Some(reason) = session.over() {
            return Err(Failure::Over { reason: reason.to_owned() });
        }
        if session.deadline() > session.host().monotonic() {
            return Ok(());
        }
        changed.await;
    }
}

fn gone(place: &Place) -> Ended {
    match place.session().over() {
        Some(reason) => Failure::Over { reason: reason.to_owned() }.into(),
        None => Failure::Vanished.into(),
    }
}

fn set(stage: &Mutex<Stage>, new: Stage) {
    *stage.lock().unwrap_or_else(PoisonError::into_inner) = new;
}

fn out_of_time(stage: Stage) -> LockError {
    match stage {
        Stage::Opening(Some(failure)) => failure.into(),
        Stage::Opening(None) => {
            let reason = "no server opened a session in time".to_owned();
            Failure::Unreachable { reason }.into()
        }
        Stage::Asking => LockError::Indeterminate { reason: "no reply in time".to_owned() },
        Stage::Waiting => LockError::TimedOut,
    }
}
