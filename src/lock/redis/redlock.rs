//! The lock `redlock`: one record at each of several Redis servers that know nothing of
//! each other, held while a majority has it.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use lockstorm::Host;
//! # use lockstorm::lock::{Lock, Owner};
//! use lockstorm::lock::redis::Options;
//! use lockstorm::lock::redis::redlock::{Redlock, RedlockOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::tokio("app-1");
//! let servers: Vec<String> = (1..=5).map(|number| format!("redis-{number}:6379")).collect();
//! let lease = Duration::from_secs(10);
//! let redis = Options { command_timeout: Duration::from_millis(50), ..Options::new(lease) };
//! let lock = Redlock::new(host.clone(), &servers, RedlockOptions::new(redis))?;
//!
//! let owner = Owner::unique(&host);
//! let guard = lock.acquire("stock:42", &owner, Duration::from_secs(2)).await?;
//! guard.check()?; // no token: the clock is all that a holder has
//! println!("{:?}", guard.release().await);
//! # Ok(())
//! # }
//! ```
//!
//! # What it does
//! As Redis's documentation tells it ("Distributed Locks with Redis"): take the time; ask
//! the servers for the record with `SET NX PX`, each within the command timeout; held is
//! what a majority granted, if less than the lease has passed meanwhile. What is left of
//! the lease, less the drift allowance, is for how long. Otherwise all are told to forget
//! it, and it is tried again after a time with jitter, under another name
//! ([`OWNER_NUMBER_SEPARATOR`]): a release that the network held up, of a round that was given
//! up, must not delete the vote that a later round has won at the same server. (The
//! implementations that people use write one name in all rounds of an acquire.) A release
//! goes to all. Three ways are told:
//! - *one after another* ([`Ask::OneAfterAnother`]), how most tell it: dead servers cost a
//!   command timeout each, out of the lease;
//! - *in parallel* ([`Ask::Parallel`]): all at once, decided as soon as a majority has
//!   granted or can no longer;
//! - the *drift allowance* is [`Options::margin`], 1 % unless it is changed: zero is the
//!   short version ("elapsed < lease").
//!
//! # What it guarantees
//! No two owners hold a key at the same time, with any minority of the servers dead, slow
//! or cut off, as long as no server forgets a record that it granted and all clocks run
//! at one rate but for the drift allowance. *Hold* means: until [`Guard::check`] says that
//! the lease is over. **There are no fencing tokens**: no counter is common to the
//! servers, so nothing at the resource can tell an old holder from a new one.
//!
//! # Takeover
//! A holder that dies keeps others out until its lease ends; then a waiter gets in within
//! a retry and the time of two rounds, one of them spoiled by dead connections. Waiters
//! that split the servers among themselves cost a round each time; the jitter parts them,
//! and no bound is declared for how often that happens.
//!
//! # How it is known to fail
//! - **An amnesiac restart.** A server that granted, crashed and came back empty grants
//!   again: with two of three servers of a majority left, a second majority forms
//!   (without `appendfsync always`, or a restart later than the longest lease).
//! - **Clocks that step or run apart** by more than the drift allowance: servers expire by
//!   their wall clocks (Kleppmann, "How to do distributed locking", 2016).
//! - **A pause beyond the validity**, between the check and the write: without tokens no
//!   fence can stop it.
//! - **A longer wait than the lease** while asking: the round is given up, nobody is
//!   served.

use std::sync::Arc;
use std::time::Duration;

use super::OWNER_NUMBER_SEPARATOR;
use super::connection::Unanswered;
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::options::{Fencing, InvalidOptions, Options};
use super::patience::until_granted;
use super::records::Records;
use super::together::Together;
use super::unsettled::Unsettled;
use crate::host::{BoxFuture, Host};
use crate::lock::{Grant, Guard, GuardBackend, Lock, LockError, Owner, Release};

/// How the servers are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ask {
    /// Each when the one before has answered, or has not in time; always all of them.
    #[default]
    OneAfterAnother,
    /// All at once, until it is decided.
    Parallel,
}

/// Options of the lock `redlock`. Make them with [`RedlockOptions::new`] and change
/// fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedlockOptions {
    /// Those that all locks on Redis have. The margin is Redlock's drift allowance. The
    /// command timeout is for each server; it should be small against the lease. Fencing
    /// is refused: there is nothing to count with.
    pub redis: Options,
    /// How the servers are asked.
    pub ask: Ask,
}

impl RedlockOptions {
    /// The defaults: one server after another.
    pub fn new(redis: Options) -> Self {
        RedlockOptions { redis, ask: Ask::OneAfterAnother }
    }
}

/// The lock `redlock`; see the module's text.
#[derive(Debug)]
pub struct Redlock {
    servers: Arc<Servers>,
    ask: Ask,
}

/// The servers, each with the records on it.
#[derive(Debug)]
struct Servers {
    host: Host,
    options: Options,
    records: Vec<Arc<Records>>,
}

impl Redlock {
    /// A lock kept at these servers, `name:port`, none of them another's replica. Nothing
    /// is connected yet.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first option, or address, that cannot work.
    pub fn new(
        host: Host,
        addresses: &[String],
        options: RedlockOptions,
    ) -> Result<Self, InvalidOptions> {
        let RedlockOptions { redis, ask } = options;
        if addresses.is_empty() {
            return Err(InvalidOptions::NoServers);
        }
        if redis.fencing != Fencing::None {
            return Err(InvalidOptions::NoTokens);
        }
        if let Some(twice) = (1..addresses.len()).find(|n| addresses[..*n].contains(&addresses[*n]))
        {
            return Err(InvalidOptions::SameServer { address: addresses[twice].clone() });
        }
        let records = addresses.iter().map(|address| {
            Records::new(host.clone(), Endpoint::Direct(address.clone()), redis.clone())
        });
        let records = records.collect::<Result<Vec<_>, _>>()?;
        let options = records[0].options().clone();
        Ok(Redlock { servers: Arc::new(Servers { host, options, records }), ask })
    }

    async fn acquire_within(
        &self,
        key: &str,
        owner: &Owner,
        patience: Duration,
    ) -> Result<Guard, LockError> {
        let (servers, options) = (&self.servers, &self.servers.options);
        let mut rounds = 0;
        let one_round = || {
            let voter = voter(owner, rounds);
            rounds += 1;
            async move { Ok(self.round(key, &voter).await?.map(|began| (began, voter))) }
        };
        let (asked_at, voter) =
            until_granted(&servers.host, options.retry, patience, one_round).await?;
        let grant = Grant {
            key: key.to_owned(),
            owner: owner.clone(),
            token: None,
            lease: options.lease,
            margin: options.margin,
            asked_at,
        };
        let majority = Majority { servers: servers.clone(), key: key.to_owned(), owner: voter };
        Ok(Guard::new(servers.host.clone(), grant, majority))
    }

    /// Asks all servers once: when that began, if a majority granted in time.
    async fn round(&self, key: &str, owner: &Owner) -> Result<Option<Duration>, Failure> {
        let servers = &self.servers;
        // Whatever was taken is given back unless the round is won, be it for want of a
        // majority or because the caller lost interest.
        let unanswered: Vec<Unanswered> =
            servers.records.iter().map(|_| Unanswered::default()).collect();
        let mut unsettled = Unsettled::new(&servers.host, {
            let (servers, key, owner) = (servers.clone(), key.to_owned(), owner.clone());
            let unanswered = unanswered.clone();
            move || -> BoxFuture<'static, ()> {
                let each = servers.records.iter().zip(&unanswered);
                let mut undoings = Together::of(each.map(|(records, unanswered)| {
                    Records::taking_back(records, &key, &owner, unanswered)
                }));
                // Best effort: the lease ends what this cannot.
                Box::pin(async move { while undoings.next().await.is_some() {} })
            }
        });
        let began = servers.host.monotonic();
        let mut tally = Tally::of(servers.records.len());
        let asks = servers.records.iter().zip(&unanswered);
        let asks = asks.map(|(records, unanswered)| records.take_unsettled(key, owner, unanswered));
        match self.ask {
            Ask::OneAfterAnother => {
                for ask in asks {
                    tally.count(ask.await.map(|taken| taken.is_some()));
                }
            }
            Ask::Parallel => {
                let mut asks = Together::of(asks);
                while let Some(answer) = asks.next().await {
                    tally.count(answer.map(|taken| taken.is_some()));
                    if tally.is_decided() {
                        break;
                    }
                }
            }
        }
        let elapsed = servers.host.monotonic().saturating_sub(began);
        let usable = servers.options.lease.saturating_sub(servers.options.margin);
        if tally.has_majority() && elapsed < usable {
            unsettled.settle();
            return Ok(Some(began));
        }
        // Before anybody tries again: what is still there would be in our own way.
        unsettled.undo().await;
        tally.refusal()
    }
}

impl Lock for Redlock {
    fn acquire<'a>(
        &'a self,
        key: &'a str,
        owner: &'a Owner,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Guard, LockError>> {
        Box::pin(self.acquire_within(key, owner, patience))
    }

    fn takeover_bound(&self) -> Duration {
        let (servers, options) = (&self.servers, &self.servers.options);
        let in_a_row = match self.ask {
            Ask::OneAfterAnother => u32::try_from(servers.records.len()).unwrap_or(u32::MAX),
            Ask::Parallel => 1,
        };
        // A round asks, and gives back; asking connects, and commands.
        let round = 2 * options.command_timeout * (in_a_row + 1);
        options.lease + 2 * options.retry + 2 * round
    }
}

impl Servers {
    /// Tells all servers to forget the owner's record, at once.
    fn releasing(self: &Arc<Self>, key: &str, owner: &Owner) -> BoxFuture<'static, Release> {
        let releases = self.records.iter().map(|records| Records::releasing(records, key, owner));
        let mut releases = Together::of(releases);
        let majority = majority(self.records.len());
        Box::pin(async move {
            let mut answers = Vec::new();
            while let Some(release) = releases.next().await {
                answers.push(release);
            }
            what_was_released(answers, majority)
        })
    }
}

/// What the servers' answers to a release come to.
fn what_was_released(answers: Vec<Release>, majority: usize) -> Release {
    let (mut released, mut unanswered, mut reason) = (0, 0, None);
    for answer in answers {
        match answer {
            Release::Released => released += 1,
            Release::NotHeld => {}
            Release::Indeterminate { reason: why } => {
                unanswered += 1;
                reason = Some(why);
            }
        }
    }
    match reason {
        _ if released >= majority => Release::Released,
        // Those that did not answer could still have made up a majority.
        Some(reason) if released + unanswered >= majority => Release::Indeterminate { reason },
        _ => Release::NotHeld,
    }
}

/// The records behind a guard.
struct Majority {
    servers: Arc<Servers>,
    key: String,
    /// As the round that was won has it.
    owner: Owner,
}

impl GuardBackend for Majority {
    fn release(&mut self) -> BoxFuture<'static, Release> {
        self.servers.releasing(&self.key, &self.owner)
    }
}

/// In whose name a round asks, after so many that were given up. The first asks in the owner's
/// own, unless that could be read as some other owner's with a number: no two rounds of any two
/// owners may have one name.
fn voter(owner: &Owner, before: u64) -> Owner {
    if before == 0 && !owner.as_str().contains(OWNER_NUMBER_SEPARATOR) {
        return owner.clone();
    }
    Owner::named(format!("{owner}{OWNER_NUMBER_SEPARATOR}{before}"))
}

/// More than half.
fn majority(servers: usize) -> usize {
    servers / 2 + 1
}

/// What the servers have said so far.
struct Tally {
    servers: usize,
    granted: usize,
    busy: usize,
    /// The last failure of those that failed.
    failure: Option<Failure>,
    failed: usize,
    /// How many of those may have granted: the request was sent.
    unanswered: usize,
}

impl Tally {
    fn of(servers: usize) -> Tally {
        Tally { servers, granted: 0, busy: 0, failure: None, failed: 0, unanswered: 0 }
    }

    fn count(&mut self, answer: Result<bool, Failure>) {
        match answer {
            Ok(true) => self.granted += 1,
            Ok(false) => self.busy += 1,
            Err(failure) => {
                self.failed += 1;
                self.unanswered += usize::from(matches!(failure, Failure::NoReply { .. }));
                self.failure = Some(failure);
            }
        }
    }

    fn has_majority(&self) -> bool {
        self.granted >= majority(self.servers)
    }

    /// Whether nothing that is still to come can change it.
    fn is_decided(&self) -> bool {
        let open = self.servers - self.granted - self.busy - self.failed;
        self.has_majority() || self.granted + open < majority(self.servers)
    }

    /// What a round comes to that was not won: busy, where servers that answered have
    /// others' records; the failure, where too few answered at all. Where those that did
    /// not answer could have made up a majority, nobody knows.
    fn refusal(self) -> Result<Option<Duration>, Failure> {
        let possible = self.granted + self.unanswered >= majority(self.servers);
        match self.failure {
            Some(failure) if self.unanswered > 0 && possible => {
                let reason = format!(
                    "{} of {} servers did not answer, the last failure: {failure}",
                    self.unanswered, self.servers
                );
                Err(Failure::Scattered { reason })
            }
            Some(failure) if self.failed > self.servers - majority(self.servers) => {
                let reason = format!(
                    "{} of {} servers failed, the last: {failure}",
                    self.failed, self.servers
                );
                // Nothing that they may have written counts: the round was given up.
                Err(Failure::NotSent { reason })
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(answers: &[Result<bool, ()>]) -> Tally {
        let mut tally = Tally::of(5);
        for answer in answers {
            tally.count(answer.map_err(|()| Failure::NotSent { reason: "down".to_owned() }));
        }
        tally
    }

    #[test]
    fn three_of_five_are_a_majority_and_two_are_none() {
        assert!(!tally(&[Ok(true), Ok(true)]).is_decided());
        assert!(tally(&[Ok(true), Ok(true), Ok(true)]).has_majority());
        assert!(tally(&[Ok(false), Ok(false), Err(())]).is_decided());
        assert!(!tally(&[Ok(true), Ok(true), Ok(false), Err(())]).is_decided());
    }

    #[test]
    fn a_round_is_busy_for_others_and_failed_for_want_of_servers() {
        let busy = [Ok(true), Ok(true), Ok(false), Err(()), Err(())];
        assert_eq!(tally(&busy).refusal(), Ok(None));
        let failed = [Ok(true), Ok(true), Err(()), Err(()), Err(())];
        let failure = tally(&failed).refusal().unwrap_err();
        assert_eq!(failure.to_string(), "3 of 5 servers failed, the last: down");
        assert!(failure.may_pass());
    }

    #[test]
    fn replies_that_could_have_made_up_a_majority_leave_a_round_unknown() {
        let silent = || Failure::NoReply { reason: "silence".to_owned() };
        let refusal = |granted: usize, unanswered: usize, busy: usize| {
            let mut tally = Tally::of(granted + unanswered + busy);
            (0..granted).for_each(|_| tally.count(Ok(true)));
            (0..unanswered).for_each(|_| tally.count(Err(silent())));
            (0..busy).for_each(|_| tally.count(Ok(false)));
            tally.refusal()
        };
        assert!(matches!(refusal(2, 1, 2), Err(Failure::Scattered { .. })));
        assert!(matches!(refusal(0, 3, 2), Err(Failure::Scattered { .. })));
        assert_eq!(refusal(1, 1, 3), Ok(None));
        assert_eq!(refusal(3, 0, 2), Ok(None));
    }

    #[test]
    fn a_release_is_unknown_only_while_the_silent_could_make_up_a_majority() {
        let release = |released: usize, unanswered: usize, not_held: usize| {
            let silent = Release::Indeterminate { reason: "silence".to_owned() };
            let mut answers = vec![Release::Released; released];
            answers.extend(vec![silent; unanswered]);
            answers.extend(vec![Release::NotHeld; not_held]);
            let majority = majority(answers.len());
            what_was_released(answers, majority)
        };
        assert_eq!(release(3, 1, 0), Release::Released);
        assert_eq!(release(1, 1, 2), Release::NotHeld);
        assert_eq!(release(2, 0, 2), Release::NotHeld);
        assert!(matches!(release(2, 1, 1), Release::Indeterminate { .. }));
        assert!(matches!(release(2, 1, 2), Release::Indeterminate { .. }));
        assert_eq!(release(1, 1, 3), Release::NotHeld);
    }

    #[test]
    fn each_round_has_a_name_of_its_own() {
        let owner = Owner::named("a");
        assert_eq!([0, 1, 2].map(|before| voter(&owner, before).to_string()), ["a", "a#1", "a#2"]);
    }

    /// A caller names owners as it likes, also as if they were numbered.
    #[test]
    fn no_round_of_one_owner_has_the_name_of_another_owners() {
        let owners = ["a", "a#", "a#0", "a#1", "a#1#1", "a#1#0", "#", "", "#1"];
        let names: std::collections::BTreeSet<String> = owners
            .iter()
            .flat_map(|owner| (0..4).map(|before| voter(&Owner::named(*owner), before)))
            .map(|voter| voter.to_string())
            .collect();
        assert_eq!(names.len(), owners.len() * 4);
    }

    #[tokio::test]
    async fn what_is_ready_together_comes_in_order() {
        let host = Host::tokio("app-1");
        let waits = [20, 0, 10].map(|ms| {
            let host = host.clone();
            async move {
                host.sleep(Duration::from_millis(ms)).await;
                ms
            }
        });
        let mut together = Together::of(waits.into_iter());
        let mut came = Vec::new();
        while let Some(ms) = together.next().await {
            came.push(ms);
        }
        assert_eq!(came, [0, 10, 20]);
    }

    #[test]
    fn servers_that_cannot_make_a_majority_are_refused() {
        let redlock = |addresses: &[&str], fencing| {
            let addresses: Vec<String> = addresses.iter().map(|a| (*a).to_owned()).collect();
            let redis = Options { fencing, ..Options::new(Duration::from_secs(10)) };
            Redlock::new(Host::tokio("app-1"), &addresses, RedlockOptions::new(redis))
                .map(drop)
                .unwrap_err()
                .to_string()
        };
        insta::assert_snapshot!(redlock(&[], Fencing::None),
            @"there are no servers: name at least one as name:port, better three or five");
        insta::assert_snapshot!(redlock(&["a:1", "b:1", "a:1"], Fencing::None),
            @"`a:1` is named twice: one server has one vote, name each once");
        insta::assert_snapshot!(redlock(&["a:1", "b:1"], Fencing::Counter),
            @"redlock has no fencing tokens: no counter is common to its servers, leave them off");
    }

    #[test]
    fn the_takeover_bound_has_two_rounds_in_it() {
        let servers: Vec<String> = (1..=5).map(|n| format!("redis-{n}:6379")).collect();
        let bound = |ask| {
            let redis = Options {
                command_timeout: Duration::from_millis(50),
                ..Options::new(Duration::from_secs(10))
            };
            let options = RedlockOptions { ask, ..RedlockOptions::new(redis) };
            Redlock::new(Host::tokio("app-1"), &servers, options).unwrap().takeover_bound()
        };
        assert_eq!(bound(Ask::OneAfterAnother), Duration::from_millis(10_000 + 100 + 1_200));
        assert_eq!(bound(Ask::Parallel), Duration::from_millis(10_000 + 100 + 400));
    }
}
