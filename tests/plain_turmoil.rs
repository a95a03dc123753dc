//! Our Redis and our lock as guests in an ordinary turmoil test.

use std::time::Duration;

use lockstorm::lock::redis::{Endpoint, Options, RedisLock};
use lockstorm::lock::{Lock, LockError, Owner, Release};
use lockstorm_sim::engine::turmoil::guest;
use lockstorm_sim::server::redis::Server;

#[test]
fn the_lock_excludes_and_its_lease_ends() -> turmoil::Result {
    let mut sim = turmoil::Builder::new().simulation_duration(Duration::from_secs(30)).build();
    sim.host("redis-1", || async { Ok(Server::alone(guest("redis-1", 7)).run().await?) });
    sim.client("app-1", async {
        let host = guest("app-1", 7);
        let endpoint = Endpoint::Direct("redis-1:6379".to_owned());
        let lock = RedisLock::new(host.clone(), endpoint, Options::new(Duration::from_secs(2)))?;
        let (first, second) = (Owner::unique(&host), Owner::unique(&host));

        let guard = lock.acquire("lock:sku-42", &first, Duration::ZERO).await?;
        let busy = lock.acquire("lock:sku-42", &second, Duration::ZERO).await;
        assert!(matches!(busy, Err(LockError::Busy)), "{busy:?}");

        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(guard.check().is_err(), "the lease is over");
        let other = lock.acquire("lock:sku-42", &second, Duration::ZERO).await?;
        assert_eq!(guard.release().await, Release::NotHeld);
        assert_eq!(other.release().await, Release::Released);
        Ok(())
    });
    sim.run()
}
