//! Schedules of three sessions in which our server once answered as no PostgreSQL does.

/// Its name, the isolation level, and what is done by whom.
pub type ByHand = (&'static str, &'static str, &'static [(usize, &'static str)]);

pub const BY_HAND: &[ByHand] = &[
    (
        "whoever waited for FOR UPDATE meets the version that came of it, FOR KEY SHARE too",
        "READ COMMITTED",
        &[
            (1, "SELECT id FROM t WHERE id = 1 FOR UPDATE"),
            (1, "UPDATE t SET v = 11 WHERE id = 1"),
            (0, "SELECT id, v FROM t WHERE id = 1 FOR KEY SHARE"),
            (1, "COMMIT"),
        ],
    ),
    (
        "and finds nothing where it no longer matches",
        "READ COMMITTED",
        &[
            (1, "SELECT id FROM t WHERE id = 1 FOR UPDATE"),
            (1, "UPDATE t SET v = 11 WHERE id = 1"),
            (0, "SELECT id, v FROM t WHERE v = 10 FOR KEY SHARE"),
            (1, "COMMIT"),
        ],
    ),
    (
        "an update that leaves the key alone lets FOR KEY SHARE through",
        "READ COMMITTED",
        &[
            (1, "UPDATE t SET v = 11 WHERE id = 1"),
            (0, "SELECT id, v FROM t WHERE id = 1 FOR KEY SHARE"),
            (1, "COMMIT"),
            (2, "SELECT id, v FROM t WHERE id = 1 FOR KEY SHARE"),
        ],
    ),
    (
        "in REPEATABLE READ the snapshot is older than such a wait",
        "REPEATABLE READ",
        &[
            (0, "SELECT id, v FROM t ORDER BY id"),
            (1, "SELECT id FROM t WHERE id = 1 FOR UPDATE"),
            (1, "UPDATE t SET v = 11 WHERE id = 1"),
            (0, "SELECT id, v FROM t WHERE id = 1 FOR KEY SHARE"),
            (1, "COMMIT"),
        ],
    ),
    (
        "LOCK TABLE takes no snapshot",
        "REPEATABLE READ",
        &[
            (1, "UPDATE t SET v = 11 WHERE id = 1"),
            (0, "LOCK TABLE t IN SHARE MODE"),
            (1, "COMMIT"),
            (0, "SELECT id, v FROM t ORDER BY id"),
        ],
    ),
    (
        "behind LOCK TABLE the isolation may still be chosen",
        "READ COMMITTED",
        &[
            (0, "LOCK TABLE t IN SHARE MODE"),
            (0, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"),
            (0, "SELECT id, v FROM t ORDER BY id"),
            (0, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"),
        ],
    ),
    (
        "LOCK TABLE NOWAIT goes before no waiter",
        "READ COMMITTED",
        &[
            (0, "LOCK TABLE t IN SHARE MODE"),
            (1, "LOCK TABLE t IN ROW EXCLUSIVE MODE"),
            (0, "LOCK TABLE t IN ACCESS EXCLUSIVE MODE NOWAIT"),
        ],
    ),
    (
        "abs() of the least integer is out of range",
        "READ COMMITTED",
        &[
            (0, "UPDATE t SET v = abs((-2147483647)::int4 - 1) WHERE id = 1"),
            (1, "SELECT abs((-32768)::int2)"),
            (2, "SELECT abs((-32767)::int2), abs(-2147483647), abs(-5000000000)"),
        ],
    ),
];
