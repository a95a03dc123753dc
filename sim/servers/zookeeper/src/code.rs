//! Kinds of requests and codes of errors, as numbers on the wire (`ZooDefs.OpCode`,
//! `KeeperException.Code`).

/// Kinds of requests and transactions.
pub mod kind {
    #![allow(missing_docs, reason = "they are ZooKeeper's names")]

    pub const CREATE: i32 = 1;
    pub const DELETE: i32 = 2;
    pub const EXISTS: i32 = 3;
    pub const GET_DATA: i32 = 4;
    pub const SET_DATA: i32 = 5;
    pub const GET_ACL: i32 = 6;
    pub const SET_ACL: i32 = 7;
    pub const GET_CHILDREN: i32 = 8;
    pub const SYNC: i32 = 9;
    pub const PING: i32 = 11;
    pub const GET_CHILDREN2: i32 = 12;
    pub const CHECK: i32 = 13;
    pub const MULTI: i32 = 14;
    pub const CREATE2: i32 = 15;
    pub const RECONFIG: i32 = 16;
    pub const CHECK_WATCHES: i32 = 17;
    pub const REMOVE_WATCHES: i32 = 18;
    pub const CREATE_CONTAINER: i32 = 19;
    pub const DELETE_CONTAINER: i32 = 20;
    pub const CREATE_TTL: i32 = 21;
    pub const MULTI_READ: i32 = 22;
    pub const AUTH: i32 = 100;
    pub const SET_WATCHES: i32 = 101;
    pub const SASL: i32 = 102;
    pub const GET_EPHEMERALS: i32 = 103;
    pub const GET_ALL_CHILDREN_NUMBER: i32 = 104;
    pub const SET_WATCHES2: i32 = 105;
    pub const ADD_WATCH: i32 = 106;
    pub const WHO_AM_I: i32 = 107;
    pub const CREATE_SESSION: i32 = -10;
    pub const CLOSE_SESSION: i32 = -11;
    pub const ERROR: i32 = -1;

    /// Whether a client's request of this kind is known (`Request.isValid`).
    pub fn is_known(kind: i32) -> bool {
        matches!(
            kind,
            CREATE..=SYNC
                | PING..=MULTI_READ
                | SET_WATCHES
                | GET_EPHEMERALS..=WHO_AM_I
                | CREATE_SESSION
                | CLOSE_SESSION
        )
    }

    /// Whether it takes a transaction (`CommitProcessor.needCommit` without `sync`).
    pub fn is_write(kind: i32) -> bool {
        matches!(
            kind,
            CREATE
                | CREATE2
                | CREATE_CONTAINER
                | CREATE_TTL
                | DELETE
                | DELETE_CONTAINER
                | SET_DATA
                | SET_ACL
                | CHECK
                | MULTI
                | RECONFIG
                | CREATE_SESSION
                | CLOSE_SESSION
        )
    }
}

/// What a reply says about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Code(pub i32);

impl Code {
    #![allow(missing_docs, reason = "they are ZooKeeper's names")]

    pub const OK: Code = Code(0);
    pub const RUNTIME_INCONSISTENCY: Code = Code(-2);
    pub const MARSHALLING: Code = Code(-5);
    pub const UNIMPLEMENTED: Code = Code(-6);
    pub const BAD_ARGUMENTS: Code = Code(-8);
    pub const UNKNOWN_SESSION: Code = Code(-12);
    pub const NO_NODE: Code = Code(-101);
    pub const NO_AUTH: Code = Code(-102);
    pub const BAD_VERSION: Code = Code(-103);
    pub const NO_CHILDREN_FOR_EPHEMERALS: Code = Code(-108);
    pub const NODE_EXISTS: Code = Code(-110);
    pub const NOT_EMPTY: Code = Code(-111);
    pub const SESSION_EXPIRED: Code = Code(-112);
    pub const INVALID_ACL: Code = Code(-114);
    pub const AUTH_FAILED: Code = Code(-115);
    pub const SESSION_MOVED: Code = Code(-118);
    pub const NOT_READ_ONLY: Code = Code(-119);
    pub const NO_WATCHER: Code = Code(-121);
    pub const RECONFIG_DISABLED: Code = Code(-123);
    pub const QUOTA_EXCEEDED: Code = Code(-125);
}
