//! Several servers that are one.

use std::io;
use std::sync::Arc;

use super::pipeline::Request;
use super::server::Peers;
use super::settings::ServerId;
use super::state::{Shared, State};
use super::transaction::Transaction;

pub(super) struct Looking;
pub(super) struct Leading;
pub(super) struct Following;

impl Leading {
    pub(super) fn learner_count(&self) -> usize {
        0
    }
    pub(super) fn synced_count(&self) -> usize {
        0
    }
}

pub(super) fn forward(_state: &mut State, _request: &Request) {}
pub(super) fn propose(_shared: &Shared, _state: &mut State, _transaction: &Arc<Transaction>) {}
pub(super) fn acknowledged(_shared: &Shared, _state: &mut State, _by: ServerId, _zxid: i64) {}
pub(super) fn acknowledge(_state: &mut State, _zxid: i64) {}
pub(super) fn revalidate(_state: &mut State, _id: u64, _session: i64, _timeout_ms: i32) {}

pub(super) async fn live(_shared: &Arc<Shared>, _peers: Peers) -> io::Result<()> {
    let what = "servers that are several are still to come";
    Err(io::Error::new(io::ErrorKind::Unsupported, what))
}
