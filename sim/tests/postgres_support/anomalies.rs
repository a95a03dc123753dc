//! The anomalies of Hermitage, for PostgreSQL, as steps of three transactions.

/// An anomaly: its name, as Hermitage has it, what three transactions do, and whether
/// REPEATABLE READ refuses one of them (`40001`) where READ COMMITTED lets all of them pass.
pub struct Anomaly {
    pub name: &'static str,
    pub steps: &'static [(usize, &'static str)],
    pub is_refused: bool,
}

const fn passes(name: &'static str, steps: &'static [(usize, &'static str)]) -> Anomaly {
    Anomaly { name, steps, is_refused: false }
}

const fn refused(name: &'static str, steps: &'static [(usize, &'static str)]) -> Anomaly {
    Anomaly { name, steps, is_refused: true }
}

pub const ANOMALIES: &[Anomaly] = &[
    refused(
        "G0, dirty writes",
        &[
            (0, "UPDATE t SET v = 11 WHERE id = 1"),
            (1, "UPDATE t SET v = 12 WHERE id = 1"),
            (0, "UPDATE t SET v = 21 WHERE id = 2"),
            (0, "COMMIT"),
            (0, "SELECT * FROM t ORDER BY id"),
            (1, "UPDATE t SET v = 22 WHERE id = 2"),
            (1, "COMMIT"),
        ],
    ),
    passes(
        "G1a, aborted reads",
        &[
            (0, "UPDATE t SET v = 101 WHERE id = 1"),
            (1, "SELECT * FROM t ORDER BY id"),
            (0, "ROLLBACK"),
            (1, "SELECT * FROM t ORDER BY id"),
        ],
    ),
    passes(
        "G1b, intermediate reads",
        &[
            (0, "UPDATE t SET v = 101 WHERE id = 1"),
            (1, "SELECT * FROM t ORDER BY id"),
            (0, "UPDATE t SET v = 11 WHERE id = 1"),
            (0, "COMMIT"),
            (1, "SELECT * FROM t ORDER BY id"),
        ],
    ),
    passes(
        "G1c, circular information flow",
        &[
            (0, "UPDATE t SET v = 11 WHERE id = 1"),
            (1, "UPDATE t SET v = 22 WHERE id = 2"),
            (0, "SELECT * FROM t WHERE id = 2"),
            (1, "SELECT * FROM t WHERE id = 1"),
        ],
    ),
    refused(
        "OTV, observed transaction vanishes",
        &[
            (0, "UPDATE t SET v = 11 WHERE id = 1"),
            (0, "UPDATE t SET v = 19 WHERE id = 2"),
            (1, "UPDATE t SET v = 12 WHERE id = 1"),
            (0, "COMMIT"),
            (2, "SELECT * FROM t WHERE id = 1"),
            (1, "UPDATE t SET v = 18 WHERE id = 2"),
            (2, "SELECT * FROM t WHERE id = 2"),
            (1, "COMMIT"),
            (2, "SELECT * FROM t WHERE id = 2"),
            (2, "SELECT * FROM t WHERE id = 1"),
        ],
    ),
    passes(
        "PMP, predicate many preceders, reading",
        &[
            (0, "SELECT * FROM t WHERE v = 30"),
            (1, "INSERT INTO t (id, v) VALUES (3, 30)"),
            (1, "COMMIT"),
            (0, "SELECT * FROM t WHERE v % 3 = 0"),
        ],
    ),
    refused(
        "PMP, predicate many preceders, writing",
        &[
            (0, "UPDATE t SET v = v + 10"),
            (1, "DELETE FROM t WHERE v = 20"),
            (0, "COMMIT"),
            (1, "SELECT * FROM t WHERE v = 20"),
        ],
    ),
    refused(
        "P4, lost update",
        &[
            (0, "SELECT * FROM t WHERE id = 1"),
            (1, "SELECT * FROM t WHERE id = 1"),
            (0, "UPDATE t SET v = 11 WHERE id = 1"),
            (1, "UPDATE t SET v = 11 WHERE id = 1"),
            (0, "COMMIT"),
        ],
    ),
    passes(
        "G-single, read skew",
        &[
            (0, "SELECT * FROM t WHERE id = 1"),
            (1, "SELECT * FROM t WHERE id = 1"),
            (1, "SELECT * FROM t WHERE id = 2"),
            (1, "UPDATE t SET v = 12 WHERE id = 1"),
            (1, "UPDATE t SET v = 18 WHERE id = 2"),
            (1, "COMMIT"),
            (0, "SELECT * FROM t WHERE id = 2"),
        ],
    ),
    passes(
        "G-single, read skew by predicates",
        &[
            (0, "SELECT * FROM t WHERE v % 5 = 0 ORDER BY id"),
            (1, "UPDATE t SET v = 12 WHERE v = 10"),
            (1, "COMMIT"),
            (0, "SELECT * FROM t WHERE v % 3 = 0 ORDER BY id"),
        ],
    ),
    refused(
        "G-single, read skew and a write by predicate",
        &[
            (0, "SELECT * FROM t WHERE id = 1"),
            (1, "SELECT * FROM t ORDER BY id"),
            (1, "UPDATE t SET v = 12 WHERE id = 1"),
            (1, "UPDATE t SET v = 18 WHERE id = 2"),
            (1, "COMMIT"),
            (0, "DELETE FROM t WHERE v = 20"),
        ],
    ),
    passes(
        "G2-item, write skew",
        &[
            (0, "SELECT * FROM t WHERE id IN (1, 2) ORDER BY id"),
            (1, "SELECT * FROM t WHERE id IN (1, 2) ORDER BY id"),
            (0, "UPDATE t SET v = 11 WHERE id = 1"),
            (1, "UPDATE t SET v = 21 WHERE id = 2"),
        ],
    ),
    passes(
        "G2, anti-dependency cycles",
        &[
            (0, "SELECT * FROM t WHERE v % 3 = 0"),
            (1, "SELECT * FROM t WHERE v % 3 = 0"),
            (0, "INSERT INTO t (id, v) VALUES (3, 30)"),
            (1, "INSERT INTO t (id, v) VALUES (4, 42)"),
            (0, "COMMIT"),
            (1, "COMMIT"),
            (2, "SELECT * FROM t WHERE v % 3 = 0 ORDER BY id"),
        ],
    ),
    passes(
        "G2, with two anti-dependencies",
        &[
            (0, "SELECT * FROM t ORDER BY id"),
            (1, "UPDATE t SET v = v + 5 WHERE id = 2"),
            (1, "COMMIT"),
            (2, "SELECT * FROM t ORDER BY id"),
            (2, "COMMIT"),
            (0, "UPDATE t SET v = 0 WHERE id = 1"),
        ],
    ),
];
