//! Fast leader election: everybody tells everybody whom it would have lead, changes its mind
//! for a better one, and settles when a quorum agrees (`FastLeaderElection.lookForLeader`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::observe::Observation;
use super::super::settings::ServerId;
use super::super::state::{Role, Shared, State};
use super::vote::{Doing, Notification, Vote};
use super::{Looking, mail};

/// How soon this member says its vote again when it hears nothing.
const LEAST_PATIENCE: Duration = Duration::from_millis(200);
/// How late at most.
const MOST_PATIENCE: Duration = Duration::from_secs(60);

/// One election.
struct Election<'a> {
    shared: &'a Arc<Shared>,
    /// Votes of this round.
    votes: BTreeMap<ServerId, (Vote, Doing)>,
    /// Votes of those who have a leader.
    settled: BTreeMap<ServerId, (Vote, Doing)>,
}

/// Looks for a leader until one is found; it may be this member.
pub(super) async fn look(shared: &Arc<Shared>) -> Vote {
    let mut election = Election { shared, votes: BTreeMap::new(), settled: BTreeMap::new() };
    {
        let state = &mut *shared.lock();
        let round = state.vote.round.max(state.round) + 1;
        state.round = round;
        let proposed = own(shared, state, round);
        state.role = Role::Looking(Box::new(Looking { proposed }));
        shared.tell(&Observation::Looking);
        announce(shared, state);
    }
    let mut patience = LEAST_PATIENCE;
    loop {
        let Some(said) = next(shared, patience).await else {
            let state = &mut *shared.lock();
            if state.mail.has_delivered() {
                announce(shared, state);
            } else {
                for to in shared.ensemble.members.keys() {
                    mail::connect(shared, state, *to);
                }
            }
            patience = (patience * 2).min(MOST_PATIENCE);
            continue;
        };
        let is_member = |id: ServerId| shared.ensemble.members.contains_key(&id);
        if !is_member(said.from) || !is_member(said.vote.leader) {
            continue;
        }
        let found = match said.doing {
            Doing::Looking => election.hear_looking(&said).await,
            Doing::Following | Doing::Leading => election.hear_settled(&said),
        };
        if let Some(vote) = found {
            let state = &mut *shared.lock();
            state.vote = vote;
            state.round = vote.round;
            state.mail.inbox.clear();
            return vote;
        }
    }
}

/// The next vote that is heard, unless none comes for so long.
async fn next(shared: &Shared, patience: Duration) -> Option<Notification> {
    let heard = shared.until(|state| state.mail.inbox.pop_front());
    shared.host.timeout(patience, heard).await.ok()
}

/// A vote for oneself.
fn own(shared: &Shared, state: &State, round: i64) -> Vote {
    let (zxid, epoch) = (state.tree.last_zxid, state.current_epoch);
    Vote { leader: shared.ensemble.me, zxid, epoch, round }
}

fn proposed(state: &State) -> Vote {
    match &state.role {
        Role::Looking(looking) => looking.proposed,
        _ => state.vote,
    }
}

fn propose(state: &mut State, vote: Vote) {
    state.round = vote.round;
    if let Role::Looking(looking) = &mut state.role {
        looking.proposed = vote;
    }
}

/// Tells everybody, oneself as well.
fn announce(shared: &Arc<Shared>, state: &mut State) {
    let vote = proposed(state);
    for to in shared.ensemble.members.keys() {
        mail::send(shared, state, *to, Doing::Looking, vote);
    }
}

impl Election<'_> {
    /// The vote of one who looks as well.
    async fn hear_looking(&mut self, said: &Notification) -> Option<Vote> {
        let vote = said.vote;
        let mine = {
            let state = &mut *self.shared.lock();
            let mine = proposed(state);
            if vote.round < mine.round {
                return None;
            }
            if vote.round > mine.round {
                self.votes.clear();
                let own = own(self.shared, state, vote.round);
                propose(state, if vote.beats(&own) { vote } else { own });
                announce(self.shared, state);
            } else if vote.beats(&mine) {
                propose(state, vote);
                announce(self.shared, state);
            }
            proposed(state)
        };
        self.votes.insert(said.from, (vote, Doing::Looking));
        let agreeing = self.votes.values().filter(|(vote, _)| *vote == mine).count();
        if !self.shared.ensemble.is_quorum(agreeing) {
            return None;
        }
        // A better one may still speak up.
        let wait = self.shared.settings.finalize_wait;
        while let Some(later) = next(self.shared, wait).await {
            if later.vote.beats(&mine) {
                self.shared.lock().mail.inbox.push_front(later);
                return None;
            }
        }
        Some(mine)
    }

    /// The vote of one who follows or leads.
    fn hear_settled(&mut self, said: &Notification) -> Option<Vote> {
        let vote = said.vote;
        let round = self.shared.lock().round;
        if vote.round == round {
            self.votes.insert(said.from, (vote, said.doing));
            if self.agree(&self.votes, &vote) && self.leads(&self.votes, &vote, round) {
                return Some(vote);
            }
        }
        self.settled.insert(said.from, (vote, said.doing));
        (self.agree(&self.settled, &vote) && self.leads(&self.settled, &vote, round))
            .then_some(vote)
    }

    /// Whether a quorum has settled for this leader and epoch.
    fn agree(&self, votes: &BTreeMap<ServerId, (Vote, Doing)>, vote: &Vote) -> bool {
        let agrees = |(of, doing): &&(Vote, Doing)| match doing {
            Doing::Looking => of == vote,
            _ => (of.leader, of.epoch) == (vote.leader, vote.epoch),
        };
        self.shared.ensemble.is_quorum(votes.values().filter(agrees).count())
    }

    /// Whether the one that is voted for has said itself that it leads.
    fn leads(&self, votes: &BTreeMap<ServerId, (Vote, Doing)>, vote: &Vote, round: i64) -> bool {
        if vote.leader == self.shared.ensemble.me {
            return vote.round == round;
        }
        votes.get(&vote.leader).is_some_and(|(_, doing)| *doing == Doing::Leading)
    }
}
