//! For each planted bug the plan that is directed at it.

/// The bug, the seed, and the faults that are directed at it.
pub struct Directed {
    pub bug: &'static str,
    pub seed: u64,
    /// Settings beside those of the bug's storm.
    pub settings: &'static [(&'static str, &'static str)],
    pub faults: &'static str,
}

const fn by(bug: &'static str, faults: &'static str) -> Directed {
    Directed { bug, seed: 1, settings: &[], faults }
}

/// Every section is slow.
const SLOW: (&str, &str) = ("workload.slow-per-mille", "1000");

pub const DIRECTED: &[Directed] = &[
    by("no-deadline", PAUSED_PAST_ITS_LEASE),
    by("bare-del", PAUSED_PAST_ITS_LEASE),
    Directed {
        seed: 2,
        settings: &[SLOW],
        // Its GET is answered while it stands still; its lease ends meanwhile.
        ..by(
            "get-then-del",
            r#"
[[fault]]
kind = "slow-link"
from = "app-1"
to = "redis-1"
extra = "20ms"
after = "app-1 release 2 invoked"
for = "1s"

[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 release 2 invoked"
delay = "30ms"
for = "480ms"
"#,
        )
    },
    by("setnx-then-expire", HOLDER_DIES_AS_IT_IS_GRANTED),
    by("waiters-renew", HOLDER_DIES_AS_IT_IS_GRANTED),
    by("lease-cut-to-seconds", ""),
    Directed {
        seed: 2,
        settings: &[SLOW],
        // After its first renewal.
        ..by(
            "expire-in-seconds",
            r#"
[[fault]]
kind = "process-crash"
node = "app-1"
after = "app-1 read 1 applied"
delay = "500ms"
"#,
        )
    },
    Directed { seed: 2, settings: &[SLOW], ..by("loss-not-noticed", CUT_OFF_PAST_ITS_LEASE) },
    Directed {
        seed: 2,
        settings: &[SLOW],
        ..by(
            "renewal-not-retried",
            r#"
[[fault]]
kind = "partition"
from = "app-1"
to = "redis-1"
after = "app-1 read 1 applied"
delay = "200ms"
for = "600ms"
"#,
        )
    },
    Directed {
        settings: &[SLOW, ("topology.apps", "2")],
        ..by("stale-renewal-entry", CUT_OFF_PAST_ITS_LEASE)
    },
    by(
        "renewal-outlives-hold",
        r#"
[[fault]]
kind = "reset"
from = "app-1"
to = "redis-1"
after = "app-1 release 3 invoked"
delay = "100us"
"#,
    ),
    Directed {
        seed: 2,
        settings: &[SLOW],
        ..by(
            "armed-by-callback",
            r#"
[[fault]]
kind = "cancel"
node = "app-1"
operation = "acquire"
ordinal = 1
await = 1
delay = "300us"
"#,
        )
    },
    Directed { seed: 2, settings: &[SLOW], ..by("renew-without-owner", PAUSED_IN_LONG_WORK) },
    Directed { seed: 2, settings: &[SLOW], ..by("renew-by-set", PAUSED_IN_LONG_WORK) },
    Directed {
        seed: 2,
        ..by(
            "resent-del",
            r#"
[[fault]]
kind = "partition"
from = "redis-1"
to = "app-1"
one-way = true
after = "app-1 release 3 applied"
for = "450ms"
"#,
        )
    },
    Directed {
        settings: &[SLOW],
        ..by(
            "own-record-as-new",
            r#"
[[fault]]
kind = "partition"
from = "redis-1"
to = "app-1"
one-way = true
after = "app-1 acquire 1 applied"
for = "480ms"
"#,
        )
    },
    Directed {
        seed: 2,
        settings: &[SLOW],
        // The reply is lost, and the request sent again.
        ..by(
            "counted-again",
            r#"
[[fault]]
kind = "partition"
from = "redis-1"
to = "app-1"
one-way = true
after = "app-1 acquire 1 applied"
for = "480ms"
"#,
        )
    },
    Directed {
        seed: 2,
        settings: &[SLOW],
        // It dies in the queue.
        ..by(
            "ghost-in-queue",
            r#"
[[fault]]
kind = "process-crash"
node = "app-2"
after = "app-2 acquire 2 invoked"
delay = "50ms"
"#,
        )
    },
    Directed {
        seed: 2,
        settings: &[SLOW],
        ..by(
            "lease-from-reply",
            r#"
[[fault]]
kind = "slow-link"
from = "app-1"
to = "redis-1"
extra = "200ms"
at = "0s"
for = "8s"
"#,
        )
    },
    by("client-clock-expiry", A_CLOCK_AHEAD),
    by("token-from-clock", A_CLOCK_AHEAD),
    by(
        "local-lock-kept",
        r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 3 applied"
for = "1.2s"

[[fault]]
kind = "pause"
node = "app-2"
after = "app-2 read 6 applied"
for = "1.2s"
"#,
    ),
    by("released-regardless", PAUSED_PAST_ITS_LEASE),
    by("released-at-once", ""),
    by("get-then-set", ""),
    Directed {
        seed: 4,
        // What is sent again of the given-up attempt comes after the next one was granted.
        ..by(
            "one-owner-a-process",
            r#"
[[fault]]
kind = "partition"
from = "app-1"
to = "redis-1"
after = "app-1 acquire 3 invoked"
for = "640ms"
"#,
        )
    },
    by("open-on-timeout", PAUSED_PAST_ITS_LEASE),
    by(
        "open-on-error",
        r#"
[[fault]]
kind = "partition"
from = "app-1"
to = "redis-1"
at = "2s"
for = "2s"
"#,
    ),
    by(
        "token-before-lock",
        r#"
[[fault]]
kind = "slow-link"
from = "app-1"
to = "redis-1"
extra = "100ms"
at = "1s"
for = "4s"
"#,
    ),
    by("token-expires", PAUSED_PAST_ITS_LEASE),
    Directed {
        settings: &[SLOW],
        // Who waits is subscribed no more, and the other stops soon after.
        ..by(
            "woken-by-message-alone",
            r#"
[[fault]]
kind = "reset"
from = "app-1"
to = "redis-1"
at = "9300ms"

[[fault]]
kind = "reset"
from = "app-2"
to = "redis-1"
at = "9300ms"
"#,
        )
    },
    Directed {
        settings: &[SLOW, ("topology.apps", "2")],
        // A round takes more than half of the lease; the other asks while that is worked.
        ..by(
            "lease-from-last-vote",
            r#"
[[fault]]
kind = "slow-link"
from = "app-1"
to = ["redis-1", "redis-2", "redis-3", "redis-4", "redis-5"]
extra = "70ms"
at = "0s"
for = "8s"

[[fault]]
kind = "pause"
node = "app-2"
at = "0s"
for = "900ms"
"#,
        )
    },
    by(
        "half-is-enough",
        r#"
[[fault]]
kind = "partition"
from = "app-1"
to = ["redis-1", "redis-2", "redis-3"]
at = "1s"
for = "4s"

[[fault]]
kind = "partition"
from = ["app-2", "app-3"]
to = ["redis-4", "redis-5"]
at = "1s"
for = "4s"
"#,
    ),
    by("session-ignored", PAUSED_PAST_ITS_LEASE),
    by(
        "stands-behind-itself",
        r#"
[[fault]]
kind = "reset"
from = "app-1"
to = ["zk-1", "zk-2", "zk-3"]
after = "app-1 acquire 3 applied"
"#,
    ),
    by(
        "place-left-behind",
        r#"
[[fault]]
kind = "cancel"
node = "app-1"
operation = "acquire"
ordinal = 3
await = 2
"#,
    ),
    Directed {
        settings: &[SLOW],
        // By then another has come and stands behind it.
        ..by(
            "gone-means-ours",
            r#"
[[fault]]
kind = "cancel"
node = "app-1"
operation = "acquire"
ordinal = 3
await = 4
delay = "1s"
"#,
        )
    },
    Directed { settings: &[SLOW], ..by("searched-unsorted", "") },
    Directed { settings: &[SLOW], ..by("row-deleted-by-key", PAUSED_PAST_ITS_LEASE) },
    by(
        "expiry-of-clients",
        r#"
[[fault]]
kind = "clock-step"
node = "app-2"
by = "10s"
at = "1s"
"#,
    ),
    by("row-without-expiry", HOLDER_DIES_AS_IT_IS_GRANTED),
    by("connection-not-watched", PAUSED_PAST_ITS_LEASE),
    by(
        "vanished-client-kept",
        // With nothing on its way to it: what is sent again would find a machine that has
        // come back and knows of no connection.
        r#"
[[fault]]
kind = "machine-crash"
node = "app-1"
after = "app-1 read 3 applied"
delay = "5ms"
"#,
    ),
    by("released-before-commit", SLOW_COMMITS),
    by("unlocked-one-by-one", ""),
    by("version-read-late", ""),
    by("state-goes-round", ""),
];

/// The disk of the database takes its time with each commit.
const SLOW_COMMITS: &str = r#"
[[fault]]
kind = "disk-slow"
node = "pg-1"
extra = "20ms"
at = "1s"
for = "6s"
"#;

const PAUSED_PAST_ITS_LEASE: &str = r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 3 applied"
for = "5.03s"
"#;

const HOLDER_DIES_AS_IT_IS_GRANTED: &str = r#"
[[fault]]
kind = "process-crash"
node = "app-1"
after = "app-1 acquire 3 applied"
"#;

const CUT_OFF_PAST_ITS_LEASE: &str = r#"
[[fault]]
kind = "partition"
from = "app-1"
to = "redis-1"
after = "app-1 read 1 applied"
for = "1.2s"
"#;

const PAUSED_IN_LONG_WORK: &str = r#"
[[fault]]
kind = "pause"
node = "app-1"
after = "app-1 read 1 applied"
for = "1.2s"
"#;

const A_CLOCK_AHEAD: &str = r#"
[[fault]]
kind = "clock-step"
node = "app-2"
by = "10s"
at = "1s"
"#;
