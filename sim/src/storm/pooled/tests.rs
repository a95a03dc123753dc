use super::answering::{self, Severe};
use super::*;
use crate::storm::connections::PoolWatch;

fn buyer(host: Host, address: String) -> PooledSale {
    let (patience, command_timeout) = (Duration::from_secs(5), Duration::from_secs(5));
    let dialer = Dialer { host: host.clone(), servers: vec![address], limit: command_timeout };
    let pool = Pool::builder(Sessions(dialer)).max_size(1).build().unwrap();
    let watch = PoolWatch::default();
    NodePool { host, pool, watch, patience, command_timeout }.buyer()
}

#[test]
fn a_session_that_is_ended_while_it_commits_may_have_committed() {
    answering::served("COMMIT", Severe::Fatal, async |host, address| {
        let mut buyer = buyer(host, address);
        buyer.begin().await.unwrap();
        let error = buyer.commit().await.unwrap_err();
        assert!(matches!(error, SellError::Indeterminate { .. }), "{error:?}");
    });
    answering::served("COMMIT", Severe::Error, async |host, address| {
        let mut buyer = buyer(host, address);
        buyer.begin().await.unwrap();
        let error = buyer.commit().await.unwrap_err();
        assert!(matches!(error, SellError::RolledBack { .. }), "{error:?}");
    });
}

#[test]
fn what_was_never_begun_is_not_committed() {
    answering::served("BEGIN", Severe::Error, async |host, address| {
        let mut buyer = buyer(host, address);
        let error = buyer.commit().await.unwrap_err();
        assert!(matches!(error, SellError::Unreachable { .. }), "{error:?}");
        buyer.roll_back().await;
    });
}
