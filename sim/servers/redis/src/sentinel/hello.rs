//! What sentinels tell each other through the servers that they watch: that they are
//! there, their epoch, and whom they take for the master. The newer epoch wins.

use super::bounds::{LAST_EPOCH, is_word};
use super::core::{Core, Me};
use super::instance::{Address, Master, Ms};
use crate::codec::Reply;

/// A hello, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hello<'a> {
    from: Address,
    id: &'a str,
    epoch: u64,
    name: &'a str,
    master: Address,
    config_epoch: u64,
}

impl<'a> Hello<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let parts: Vec<&str> = text.split(',').collect();
        let [host, port, id, epoch, name, master_host, master_port, config_epoch] = parts[..]
        else {
            return None;
        };
        if ![host, id, master_host].into_iter().all(is_word) {
            return None;
        }
        let epoch_of = |text: &str| text.parse().ok().filter(|epoch| *epoch <= LAST_EPOCH);
        Some(Hello {
            from: Address::new(host, port.parse().ok()?),
            id,
            epoch: epoch_of(epoch)?,
            name,
            master: Address::new(master_host, master_port.parse().ok()?),
            config_epoch: epoch_of(config_epoch)?,
        })
    }
}

impl Core {
    /// Something came over a subscription.
    pub(super) fn heard(&mut self, message: &Reply, now: Ms) {
        let Some([kind, _, text]) = message.as_array() else { return };
        let is_message = kind.text() == Some(&b"message"[..]);
        if let Some(text) = text.text().filter(|_| is_message) {
            self.hello(text, now);
        }
    }

    /// A hello came, through a server or from its sender itself. One of our own is not news.
    pub(super) fn hello(&mut self, text: &[u8], now: Ms) {
        let Some(hello) = Hello::parse(text).filter(|hello| hello.id != self.me.id) else { return };
        let name = hello.name.as_bytes();
        let named = |master: &Master| master.instance.name.as_bytes() == name;
        let Some(index) = self.masters.iter().position(named) else { return };
        let is_known = |master: &Master| {
            master.sentinels.iter().any(|peer| {
                peer.instance.name == hello.id && peer.instance.address.is_same(&hello.from)
            })
        };
        if !is_known(&self.masters[index]) {
            self.meet(index, &hello, now);
        }
        self.masters[index].note_hello(&mut self.me, &hello, now);
    }

    /// A sentinel that is new, or has moved.
    fn meet(&mut self, index: usize, hello: &Hello<'_>, now: Ms) {
        let (me, master) = (&mut self.me, &mut self.masters[index]);
        let before = master.sentinels.len();
        master.sentinels.retain(|peer| peer.instance.name != hello.id);
        let moved = master.sentinels.len() < before;
        let from = &hello.from;
        if moved {
            let text =
                format!("{} ip {} port {} for {}", master.shown(), from.host, from.port, hello.id);
            me.tell("+sentinel-address-switch", text);
        } else {
            let other = master.sentinels.iter().find(|peer| peer.instance.address.is_same(from));
            if let Some(other) = other {
                // Another had this address: it is gone, whatever it watched.
                let gone = other.instance.name.clone();
                me.tell("+sentinel-invalid-addr", master.shown_of(&other.instance));
                for master in &mut self.masters {
                    master.sentinels.retain(|peer| peer.instance.name != gone);
                }
            }
        }
        let (me, master) = (&mut self.me, &mut self.masters[index]);
        if !master.add_sentinel(hello.id, from.clone(), now) {
            return;
        }
        if let Some(added) = master.sentinels.last().filter(|_| !moved) {
            me.tell("+sentinel", master.shown_of(&added.instance));
        }
        me.must_save();
    }
}

impl Master {
    fn note_hello(&mut self, me: &mut Me, hello: &Hello<'_>, now: Ms) {
        if hello.epoch > me.current_epoch {
            me.current_epoch = hello.epoch;
            me.must_save();
            me.tell("+new-epoch", hello.epoch.to_string());
        }
        if self.config_epoch < hello.config_epoch {
            self.config_epoch = hello.config_epoch;
            if !self.instance.address.is_same(&hello.master) {
                let sender = self.sentinels.iter().find(|peer| peer.instance.name == hello.id);
                let sender = sender.map(|peer| self.shown_of(&peer.instance));
                me.tell("+config-update-from", sender.unwrap_or_default());
                self.tell_switch(me, &hello.master);
                self.reset_to(me, hello.master.clone(), now);
            }
        }
        let sender = self.sentinels.iter_mut().find(|peer| peer.instance.name == hello.id);
        if let Some(sender) = sender {
            sender.hello_at = now;
        }
    }
}
