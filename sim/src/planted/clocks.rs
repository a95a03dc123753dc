//! Bugs of clocks: who judges that a lease is over.

use std::sync::Arc;

use lockstorm::host::BoxFuture;
use lockstorm::lock::Lock;

use super::Half;
use super::desk::{Answer, Ask, Desk, Failure};
use super::recipe::{Recipe, lock};

/// Writes the record, or takes over one whose time has come. `KEYS[1]` the record, `KEYS[2]`
/// its end in ms of the Unix epoch, `ARGV[1]` the owner, `ARGV[2]` the lease in ms, `ARGV[3]`
/// what time it is, or nothing: then the server's clock says.
const TAKE_OVER: &str = "\
local now = tonumber(ARGV[3])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local is_free = redis.call('SET', KEYS[1], ARGV[1], 'NX')
if not is_free and tonumber(redis.call('GET', KEYS[2]) or '0') > now then
  return 0
end
if not is_free then redis.call('SET', KEYS[1], ARGV[1]) end
redis.call('SET', KEYS[2], string.format('%.0f', now + ARGV[2]))
return 1";

/// retools#18, occurrent#659, the SETNX and GETSET of old Redis documents: the record says when it
/// ends, by the clock of whoever wrote it, and whoever asks compares with its own.
pub(super) fn client_clock_expiry(desk: Desk, half: Half) -> Arc<dyn Lock> {
    struct Judged(Half);
    impl Recipe for Judged {
        fn take<'a>(
            &'a self,
            desk: &'a Desk,
            ask: &'a Ask,
        ) -> BoxFuture<'a, Result<Answer, Failure>> {
            Box::pin(async move {
                let mut command = redis::cmd("EVAL");
                command.arg(TAKE_OVER).arg(2).arg(&ask.key).arg(format!("ends:{}", ask.key));
                command.arg(ask.owner.as_str()).arg(desk.lease_ms());
                match self.0 {
                    Half::Planted => command.arg(desk.host.wall().as_millis().to_string()),
                    Half::Mended => command.arg(""),
                };
                desk.taking(ask, &command).await
            })
        }
    }
    lock(desk, Judged(half))
}
