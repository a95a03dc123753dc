//! Keyspace events: what became of a key, told on channels to whoever asked for it.
//!
//! Off until `CONFIG SET notify-keyspace-events`. An event is told at the instant at which
//! the change is made; one of expiry when the key is removed, not when its time has come.

use super::super::pubsub::{Space, event, publish};
use super::super::state::{Client, State};
use super::Call;

/// Tells an event of a key, if its class is asked for.
pub(super) fn notify(
    state: &mut State,
    mut current: Option<&mut Client>,
    database: usize,
    class: u16,
    name: &str,
    key: &[u8],
) {
    if state.notified_events & class == 0 {
        return;
    }
    if state.notified_events & event::ON_KEY != 0 {
        let channel = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
        let current = current.as_deref_mut();
        publish(state, current, Space::Channels, &channel, name.as_bytes());
    }
    if state.notified_events & event::ON_EVENT != 0 {
        let channel = format!("__keyevent@{database}__:{name}");
        publish(state, current, Space::Channels, channel.as_bytes(), key);
    }
}

impl Call<'_> {
    /// Tells an event of a key of this client's database.
    pub(super) fn notify(&mut self, class: u16, name: &str, key: &[u8]) {
        if self.state.notified_events & class != 0 {
            let database = self.client.database;
            notify(self.state, Some(self.client), database, class, name, key);
        }
    }
}
