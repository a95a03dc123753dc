//! A plan served to programs outside: its servers, their network and its faults at the pace of
//! real time, with doors for clients in any language.
//!
//! It is a storm's scene on the engine that keeps real time
//! ([`ServingEngine`]): the nodes, the conductor, the faults
//! and the watches are the same. In the place of the clients stand [`doors`]: a TCP port for each
//! app and server, whose [`passage`] carries bytes between a real socket and one of the simulated
//! network, on the app's node. So a cut between `app-1` and `redis-1` is a cut for whoever came
//! through that door. [`roll`] knows whose a record is, [`translate`] has sentinels name doors,
//! [`refusal`] says what cannot be done to a program outside.
//!
//! The plan's time begins with the first connection. Its draws are keyed as ever, its moments
//! are those of the real clock: no two sittings are the same.

pub mod doors;
mod passage;
pub mod refusal;
pub mod roll;
mod translate;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use lockstorm::host::BoxFuture;
use tokio::sync::Notify;

use super::locks::{self, LockFactory};
use super::observe::ConductorCell;
use super::{Manner, Run};
use crate::check::Setting;
use crate::engine::event::ServingEngine;
use crate::engine::{Control, Factory};
use crate::history::Name;
use crate::history::recorder::Listener;
use crate::plan::Plan;
use doors::Door;
use roll::Roll;
use translate::Translator;

/// What is served, beside the plan.
pub struct Serving {
    /// Where clients come in; [`doors::open`] makes them.
    pub doors: Vec<Door>,
    /// Keys of Redis that begin so are locks.
    pub locks: String,
    /// Ends the sitting before the plan's time is over.
    pub until: BoxFuture<'static, ()>,
    /// Hears of each event.
    pub news: Listener,
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Serving").field("doors", &self.doors).finish_non_exhaustive()
    }
}

/// Serves `plan` until its time is over, or until `serving` says so, and judges what its servers
/// saw. Ask [`refusal::check`] before.
pub fn serve(plan: &Plan, serving: Serving) -> Run {
    let served = Some(Served::new(serving));
    let factory: LockFactory = Arc::new(locks::build);
    super::staged(plan, &ServingEngine, &factory, Manner { served, ..Manner::default() })
}

/// What a judge must know of a plan that was served. Liveness is not judged: how patient
/// programs outside are is not known; nor is any fence of theirs.
pub(super) fn setting(plan: &Plan) -> Setting {
    Setting { quorum: locks::quorum(plan), faults: plan.faults.len(), ..Setting::default() }
}

type Action = Box<dyn FnOnce() + Send>;

/// A plan that is being served.
pub(super) struct Served {
    locks: String,
    news: Listener,
    /// For each app, where its doors are.
    addresses: BTreeMap<Name, BTreeMap<String, (u16, SocketAddr)>>,
    doors: Mutex<Vec<Door>>,
    until: Mutex<Option<BoxFuture<'static, ()>>>,
    /// Begins the plan's time.
    beginning: Mutex<Option<Action>>,
    /// Why it cannot be served.
    failure: OnceLock<String>,
    failed: Notify,
}

impl Served {
    fn new(serving: Serving) -> Arc<Served> {
        let Serving { doors, locks, until, news } = serving;
        Arc::new(Served {
            locks,
            news,
            addresses: doors::by_app(&doors),
            doors: Mutex::new(doors),
            until: Mutex::new(Some(until)),
            beginning: Mutex::default(),
            failure: OnceLock::new(),
            failed: Notify::new(),
        })
    }

    /// What hears of each event.
    pub(super) fn news(&self) -> Listener {
        self.news.clone()
    }

    /// Which keys of Redis are locks: how they begin.
    pub(super) fn locks(&self) -> &str {
        &self.locks
    }

    /// The stage stands: `begin` takes the conductor's place once somebody comes.
    pub(super) fn open(
        self: &Arc<Self>,
        control: Arc<dyn Control>,
        conductor: ConductorCell,
        begin: Action,
    ) {
        *lock(&self.beginning) = Some(begin);
        let Some(until) = lock(&self.until).take() else { return };
        let served = self.clone();
        // On the runtime of the run, and none of its nodes' tasks.
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = served.failed.notified() => {}
                () = until => {}
            }
            // Nobody begins it any more.
            drop(lock(&served.beginning).take());
            match conductor.get().and_then(Weak::upgrade) {
                Some(conductor) => conductor.interrupt(),
                None => control.finish(),
            }
        });
    }

    /// Somebody has come: the plan's time begins, if it has not.
    pub(super) fn begin(&self) {
        let begin = lock(&self.beginning).take();
        if let Some(begin) = begin {
            begin();
        }
    }

    /// It cannot be served, and ends.
    fn fail(&self, why: String) {
        // The first reason is told.
        let _ = self.failure.set(why);
        self.failed.notify_one();
    }

    /// Why it could not be served, if so.
    pub(super) fn failure(&self) -> Option<&String> {
        self.failure.get()
    }

    /// What an app's node runs: its doors.
    pub(super) fn factory(self: &Arc<Self>, name: &Name, roll: &Arc<Roll>) -> Factory {
        let (served, name, roll) = (self.clone(), name.clone(), roll.clone());
        Arc::new(move |host| {
            let doors: Vec<Door> =
                lock(&served.doors).extract_if(.., |door| door.app == name).collect();
            let (served, roll) = (served.clone(), roll.clone());
            Box::pin(async move {
                for door in doors {
                    let (inner, served, roll) = (host.clone(), served.clone(), roll.clone());
                    host.spawn("door", passage::attend(inner, door, served, roll));
                }
                std::future::pending::<()>().await;
            })
        })
    }

    /// What stands between a sentinel and an app; other servers name nobody.
    fn translator(&self, app: &Name, server: &Name) -> Option<Translator> {
        let addresses = self.addresses.get(app).filter(|_| server.starts_with("sentinel-"))?;
        Some(Translator::new(addresses.clone()))
    }
}

impl std::fmt::Debug for Served {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Served").field("locks", &self.locks).finish_non_exhaustive()
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
