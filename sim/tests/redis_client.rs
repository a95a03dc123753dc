//! The `redis` crate, the client of Rust services, talks to our server.

mod redis_support;

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, Script};
use redis_support::{Ours, on_tokio};

async fn connect(port: u16, protocol: ProtocolVersion) -> MultiplexedConnection {
    let info = RedisConnectionInfo::default().set_protocol(protocol);
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(5)));
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&info, stream, config).await.unwrap();
    tokio::spawn(driver);
    connection
}

#[test]
fn a_lock_and_its_scripts() {
    on_tokio(async {
        let server = Ours::start().await;
        for protocol in [ProtocolVersion::RESP2, ProtocolVersion::RESP3] {
            let mut connection = connect(server.port, protocol).await;
            let mut set = redis::cmd("SET");
            set.arg("lock").arg("me").arg("NX").arg("PX").arg(10_000);
            let granted: Option<String> = set.query_async(&mut connection).await.unwrap();
            assert_eq!(granted.as_deref(), Some("OK"));
            let busy: Option<String> = set.query_async(&mut connection).await.unwrap();
            assert_eq!(busy, None);
            // EVALSHA, NOSCRIPT, SCRIPT LOAD, EVALSHA.
            let script = Script::new(
                "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) \
                 else return 0 end",
            );
            for (owner, released) in [("you", 0), ("me", 1), ("me", 0)] {
                let count: i64 =
                    script.key("lock").arg(owner).invoke_async(&mut connection).await.unwrap();
                assert_eq!(count, released, "{owner}");
            }
            let _: () =
                redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut connection).await.unwrap();
        }
    });
}

#[test]
fn a_pipeline_keeps_its_order() {
    on_tokio(async {
        let server = Ours::start().await;
        let mut connection = connect(server.port, ProtocolVersion::RESP3).await;
        let mut pipeline = redis::pipe();
        for _ in 0..1_000 {
            pipeline.cmd("INCR").arg("n");
        }
        let counts: Vec<i64> = pipeline.query_async(&mut connection).await.unwrap();
        assert_eq!(counts, (1..=1_000).collect::<Vec<i64>>());
        let (one, two): (i64, i64) = redis::pipe()
            .atomic()
            .cmd("SET")
            .arg("t")
            .arg(1)
            .ignore()
            .cmd("INCR")
            .arg("t")
            .cmd("INCR")
            .arg("t")
            .query_async(&mut connection)
            .await
            .unwrap();
        assert_eq!((one, two), (2, 3));
    });
}
