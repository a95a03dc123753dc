//! Does the shop's lock keep two buyers apart? Behind a fence it sells nothing twice, and
//! releases nobody else's grant. Its twin that releases without a look is found.

use lockstorm_sim::own;
use lockstorm_sim::plan::Fence;
use lockstorm_sim::storm::Storm;
use shop_lock::ShopLock;

#[test]
fn two_buyers_are_kept_apart() {
    Storm::new("redis-single")
        .own_lock(|node| async move {
            let lock = ShopLock::new(node.redis("redis-1").await?, node.lease());
            Ok(own::lock(lock, ShopLock::try_lock, ShopLock::unlock).token(|held| held.token))
        })
        .fence(Fence::Full)
        .seeds(200)
        .run();
}

mod hasty {
    //! The same lock, released by whoever comes.

    use std::panic::{AssertUnwindSafe, catch_unwind};

    use lockstorm_sim::own;
    use lockstorm_sim::plan::Fence;
    use lockstorm_sim::storm::Storm;
    use redis::{RedisResult, cmd};
    use shop_lock::{Held, ShopLock};

    async fn unlock(lock: &ShopLock, key: &str, _: &Held) -> RedisResult<bool> {
        cmd("DEL").arg(format!("shop:{key}")).query_async(&mut lock.redis()).await
    }

    #[test]
    fn a_release_without_a_look_is_found_made_small_and_told() {
        let storm = Storm::new("redis-single").fence(Fence::Full).seeds(200);
        let storm = storm.own_lock(|node| async move {
            let lock = ShopLock::new(node.redis("redis-1").await?, node.lease());
            Ok(own::lock(lock, ShopLock::try_lock, unlock).token(|held| held.token))
        });
        let panic = catch_unwind(AssertUnwindSafe(|| storm.run())).unwrap_err();
        let told = panic.downcast_ref::<String>().unwrap();
        println!("{told}");
        for part in ["VIOLATION", "wrong-release", "LOCKSTORM_PLAN=storm1:", "LOCKSTORM_SEED=0x"] {
            assert!(told.contains(part), "no {part} in\n{told}");
        }
        for part in ["deleted by somebody else", "a release must compare the owner"] {
            assert!(told.contains(part), "no {part} in\n{told}");
        }
    }
}
