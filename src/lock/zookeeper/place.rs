//! A place in a queue: an ephemeral sequential node, ours from before the request is sent.
//!
//! A request whose reply was lost may have made the node, which would close the lock for as
//! long as the session lives. So a place is found again by its mark, and a place that is
//! given up is deleted as often as it takes, until the session is over.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

use super::failure::{Failure, is_lost};
use super::names::{self, Kind, Turn};
use super::session::{Interest, Session};
use crate::lock::{FencingToken, Owner, Release};

/// Whoever can reach the ensemble may do what it likes: locks have no access lists.
const EVERYBODY: Acls<'static> = Acls::anyone_all();

fn ephemeral() -> CreateOptions<'static> {
    CreateMode::EphemeralSequential.with_acls(EVERYBODY)
}

/// A node of ours.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Its name in the folder.
    pub(super) name: String,
    /// The zxid of its creation: larger for each place than for all before it.
    pub(super) token: FencingToken,
}

/// A place in a queue, or a request for one. Dropped, it is given up.
pub(super) struct Place {
    session: Arc<Session>,
    _interest: Interest,
    folder: Folder,
    mark: String,
    /// Known once the reply has come, or the node was found.
    node: Mutex<Option<Node>>,
    /// Whether it is given up already.
    left: bool,
}

/// The folder of a lock, and the folder of all locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    root: String,
    path: String,
}

impl Folder {
    pub(super) fn new(root: String, key: &str) -> Self {
        let path = format!("{root}/{}", names::folder(key));
        Folder { root, path }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Makes it. The servers remove it again once it has been used and is empty; where they
    /// are too old to do that, it stays.
    async fn make(&self, client: &Client) -> Result<(), Error> {
        let root = CreateMode::Persistent.with_acls(EVERYBODY);
        let made = async {
            client.mkdir(&self.root, &root).await?;
            let options = CreateMode::Container.with_acls(EVERYBODY);
            match client.create(&self.path, &[], &options).await {
                Err(Error::Unimplemented) => client.create(&self.path, &[], &root).await,
                made => made,
            }
        };
        match made.await {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Place {
    /// A request for a place that is about to be sent.
    pub(super) fn new(session: Arc<Session>, folder: Folder, kind: Kind) -> Self {
        let mark = names::mark(session.host(), kind);
        let interest = session.interest();
        Place { session, _interest: interest, folder, mark, node: Mutex::default(), left: false }
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The node, if it is known.
    pub(super) fn node(&self) -> Option<Node> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks for the place in `owner`'s name until there is one, or the ensemble says why not.
    pub(super) async fn take(&self, owner: &Owner) -> Result<Node, Failure> {
        let client = self.session.client();
        loop {
            let sent = self.session.host().monotonic();
            let path = self.folder.path_of(&self.mark);
            let node = match client.create(&path, owner.as_str().as_bytes(), &ephemeral()).await {
                Ok((stat, sequence)) => {
                    self.session.confirm(sent);
                    let name = format!("{}{sequence}", self.mark);
                    Some(Node { name, token: token(stat.czxid) })
                }
                Err(error) if is_lost(&error) => self.find().await?,
                Err(Error::NoNode) => match self.folder.make(client).await {
                    Ok(()) => None,
                    Err(error) if is_lost(&error) => None,
                    Err(error) => return Err(Failure::of(&error)),
                },
                Err(error) => return Err(Failure::of(&error)),
            };
            if let Some(node) = node {
                *self.node.lock().unwrap_or_else(PoisonError::into_inner) = Some(node.clone());
                return Ok(node);
            }
        }
    }

    /// The node, if the request that was not answered made it. The server has first caught
    /// up with the leader: what was asked through another server is applied, or refused
    /// because the session has moved.
    async fn find(&self) -> Result<Option<Node>, Failure> {
        let client = self.session.client();
        loop {
            let found = async {
                let sent = self.session.host().monotonic();
                client.sync(self.folder.path()).await?;
                self.session.confirm(sent);
                let children = client.list_children(self.folder.path()).await?;
                let Some(name) = children.into_iter().find(|name| name.starts_with(&self.mark))
                else {
                    return Ok(None);
                };
                let stat = client.check_stat(&self.folder.path_of(&name)).await?;
                Ok(stat.map(|stat| Node { name, token: token(stat.czxid) }))
            };
            match found.await {
                Ok(found) => return Ok(found),
                Err(Error::NoNode) => return Ok(None),
                Err(error) if is_lost(&error) => continue,
                Err(error) => return Err(Failure::of(&error)),
            }
        }
    }

    /// Whose turn it is.
    pub(super) async fn turn(&self, node: &Node) -> Result<Turn, Failure> {
        loop {
            return match self.session.client().list_children(self.folder.path()).await {
                Ok(children) => Ok(names::turn(&children, &node.name)),
                Err(Error::NoNode) => Ok(Turn::Gone),
                Err(error) if is_lost(&error) => continue,
                Err(error) => Err(Failure::of(&error)),
            };
        }
    }

    /// Waits until the node `before` is gone: nobody else is woken by that.
    pub(super) async fn wait_for(&self, before: &str) -> Result<(), Failure> {
        let path = self.folder.path_of(before);
        loop {
            return match self.session.client().get_and_watch_data(&path).await {
                Ok((_, _, watcher)) => {
                    watcher.changed().await;
                    Ok(())
                }
                Err(Error::NoNode) => Ok(()),
                Err(error) if is_lost(&error) => continue,
                Err(error) => Err(Failure::of(&error)),
            };
        }
    }

    /// Gives it back and tells how that went, within `patience`; it goes on after that.
    pub(super) fn leave(mut self, patience: Duration) -> impl Future<Output = Release> + Send {
        self.left = true;
        let host = self.session.host().clone();
        let (told, hears) = oneshot::channel();
        let leaving = self.leaving();
        host.spawn("release", async move {
            // Nobody may be waiting any more.
            let _ = told.send(leaving.await);
        });
        async move {
            match host.timeout(patience, hears).await {
                Ok(Ok(release)) => release,
                _ => Release::Indeterminate { reason: "no reply".to_owned() },
            }
        }
    }

    /// Deletes the node until that is answered or the session is over.
    fn leaving(&self) -> impl Future<Output = Release> + Send + use<> {
        let (session, folder) = (self.session.clone(), self.folder.clone());
        let (mark, mut known) = (self.mark.clone(), self.node());
        // The place of this task, which is not given up: it looks for the node again.
        let sought = Place {
            session: session.clone(),
            _interest: session.interest(),
            folder: folder.clone(),
            mark,
            node: Mutex::default(),
            left: true,
        };
        async move {
            let mut was_asked = false;
            loop {
                if known.is_none() {
                    match sought.find().await {
                        Ok(Some(node)) => known = Some(node),
                        Ok(None) => return Release::NotHeld,
                        Err(failure) => return ended(&failure),
                    }
                }
                let Some(node) = &known else { continue };
                let path = folder.path_of(&node.name);
                match session.client().delete(&path, None).await {
                    Ok(()) => return Release::Released,
                    // The request before this one was answered to nobody.
                    Err(Error::NoNode) if was_asked => return Release::Released,
                    Err(Error::NoNode) => return Release::NotHeld,
                    Err(error) if is_lost(&error) => was_asked = true,
                    Err(error) => return ended(&Failure::of(&error)),
                }
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.left {
            let leaving = self.leaving();
            self.session.host().spawn("release", async move {
                // Best effort: the end of the session ends what this cannot.
                let _ = leaving.await;
            });
        }
    }
}

fn ended(failure: &Failure) -> Release {
    match failure {
        Failure::Over { .. } => Release::NotHeld,
        other => Release::Indeterminate { reason: other.to_string() },
    }
}

fn token(czxid: i64) -> FencingToken {
    // A zxid is an epoch and a counter; it is never negative.
    FencingToken(u64::try_from(czxid).unwrap_or(0))
}

impl std::fmt::Debug for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Place")
            .field("folder", &self.folder.path)
            .field("mark", &self.mark)
            .field("node", &self.node())
            .finish_non_exhaustive()
    }
}
