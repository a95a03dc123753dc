//! What can be said of the lock without a server; `tests/lock_on_real_redis.rs` has
//! the rest.

use super::*;

/// A port of this machine on which nobody listens.
async fn closed_port(host: &Host) -> u16 {
    host.listen(0).await.unwrap().port()
}

fn options() -> Options {
    Options { retry: Duration::from_millis(10), ..Options::new(Duration::from_secs(1)) }
}

#[tokio::test]
async fn a_backend_that_cannot_be_reached_certainly_did_not_grant() {
    let host = Host::tokio("app-1");
    let endpoint = Endpoint::Direct(format!("127.0.0.1:{}", closed_port(&host).await));
    let lock = RedisLock::new(host.clone(), endpoint, options()).unwrap();
    let error = lock.acquire("k", &Owner::named("a"), Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, LockError::Backend { .. }), "{error}");
}

#[tokio::test]
async fn connecting_is_tried_again_for_as_long_as_patience_lasts() {
    let host = Host::tokio("app-1");
    let endpoint = Endpoint::Direct(format!("127.0.0.1:{}", closed_port(&host).await));
    let lock = RedisLock::new(host.clone(), endpoint, options()).unwrap();
    let began = host.monotonic();
    let patience = Duration::from_millis(60);
    let error = lock.acquire("k", &Owner::named("a"), patience).await.unwrap_err();
    assert!(matches!(error, LockError::Backend { .. }), "{error}");
    assert!(host.monotonic() - began >= patience);
}

#[tokio::test]
async fn a_server_that_never_answers_leaves_the_attempt_indeterminate() {
    let host = Host::tokio("app-1");
    let listener = host.listen(0).await.unwrap();
    let endpoint = Endpoint::Direct(format!("127.0.0.1:{}", listener.port()));
    let options = Options { command_timeout: Duration::from_millis(50), ..options() };
    let lock = RedisLock::new(host.clone(), endpoint, options).unwrap();
    // The kernel accepts; nobody reads.
    let error = lock.acquire("k", &Owner::named("a"), Duration::from_secs(9)).await.unwrap_err();
    assert!(matches!(error, LockError::Indeterminate { .. }), "{error}");
}

#[tokio::test]
async fn sentinels_that_cannot_be_reached_are_all_named() {
    let host = Host::tokio("app-1");
    let (one, two) = (closed_port(&host).await, closed_port(&host).await);
    let endpoint = Endpoint::Sentinel {
        sentinels: vec![format!("127.0.0.1:{one}"), format!("127.0.0.1:{two}")],
        master_name: "mymaster".to_owned(),
    };
    let lock = RedisLock::new(host, endpoint, options()).unwrap();
    let error = lock.acquire("k", &Owner::named("a"), Duration::ZERO).await.unwrap_err();
    let LockError::Backend { reason } = error else { panic!("{error}") };
    assert!(reason.contains(&one.to_string()) && reason.contains(&two.to_string()), "{reason}");
}

#[test]
fn options_that_cannot_work_are_refused_before_anything_is_connected() {
    let refused = |endpoint: &str, lease_ms| {
        RedisLock::new(
            Host::tokio("app-1"),
            Endpoint::Direct(endpoint.to_owned()),
            Options::new(Duration::from_millis(lease_ms)),
        )
        .unwrap_err()
    };
    assert_eq!(refused("r:1", 0), InvalidOptions::ShortLease { lease: Duration::ZERO });
    assert_eq!(refused("r", 1000), InvalidOptions::Address { address: "r".to_owned() });
}

#[test]
fn the_takeover_bound_covers_lease_retry_and_a_reconnect() {
    let lock = RedisLock::new(
        Host::tokio("app-1"),
        Endpoint::Direct("r:1".to_owned()),
        Options::new(Duration::from_secs(10)),
    )
    .unwrap();
    assert_eq!(lock.takeover_bound(), Duration::from_millis(10_000 + 50 + 1_000));
}

#[test]
fn the_takeover_bound_counts_every_sentinel() {
    let sentinels = (1..=3).map(|n| format!("s-{n}:26379")).collect();
    let endpoint = Endpoint::Sentinel { sentinels, master_name: "mymaster".to_owned() };
    let options = Options::new(Duration::from_secs(10));
    let lock = RedisLock::new(Host::tokio("app-1"), endpoint, options).unwrap();
    assert_eq!(lock.takeover_bound(), Duration::from_millis(10_000 + 50 + 7 * 250));
}
