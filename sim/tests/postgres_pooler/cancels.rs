//! A request to cancel is for the statement of the client who has asked, and for no other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::{BoxFuture, Listener, Machine, Stream, Task};
use lockstorm_sim::server::postgres::pooler::PoolerSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_postgres::{CancelToken, NoTls};

use super::Running;
use super::postgres_support::{Ours, connect, on_tokio, told};

/// What is shut is passed when it is opened.
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub fn open() -> Gate {
        Gate(Arc::new(watch::Sender::new(true)))
    }

    pub fn set(&self, is_open: bool) {
        self.0.send_replace(is_open);
    }

    async fn pass(&self) {
        self.0.subscribe().wait_for(|is_open| *is_open).await.unwrap();
    }
}

/// A machine whose connections take as long as its gate is shut.
struct Gated(Host, Gate);

impl Machine for Gated {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn wall(&self) -> Duration {
        self.0.wall()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration)
    }

    fn spawn(&self, group: &'static str, future: BoxFuture<'static, ()>) -> Task {
        self.0.spawn(group, future)
    }

    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Stream>> {
        let (host, gate, address) = (self.0.clone(), self.1.clone(), address.to_owned());
        Box::pin(async move {
            gate.pass().await;
            host.connect(&address).await
        })
    }

    fn listen(&self, port: u16) -> BoxFuture<'static, io::Result<Listener>> {
        let host = self.0.clone();
        Box::pin(async move { host.listen(port).await })
    }

    fn random(&self, purpose: &'static str) -> u64 {
        self.0.random(purpose)
    }
}

pub fn gated(gate: &Gate) -> Host {
    Host::new(Gated(Host::tokio("pooler-1"), gate.clone()))
}

/// Carries connections to a port; requests to cancel wait at the gate.
async fn carrier(to: u16, gate: Gate) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            let gate = gate.clone();
            tokio::spawn(async move {
                let mut first = [0; 8];
                from.read_exact(&mut first).await.unwrap();
                if first[4..] == [4, 210, 22, 46] {
                    gate.pass().await;
                }
                let mut stream = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                stream.write_all(&first).await.unwrap();
                let _ = copy_bidirectional(&mut from, &mut stream).await;
            });
        }
    });
    port
}

async fn ask_to_cancel(port: u16, token: CancelToken) {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let _ = token.cancel_query_raw(stream, NoTls).await;
}

fn one_session() -> PoolerSettings {
    PoolerSettings { pool_size: 1, ..PoolerSettings::default() }
}

const SHORT: Duration = Duration::from_millis(100);

#[test]
fn a_request_whose_statement_is_over_when_its_connection_is_there_is_dropped() {
    on_tokio(async {
        let (server, gate) = (Ours::start().await, Gate::open());
        let pooler = Running::before(server.port, gated(&gate), one_session()).await;
        let (one, two) = (connect(pooler.port).await, connect(pooler.port).await);
        let token = one.cancel_token();
        let sleeps = tokio::spawn(async move { told(&one, "SELECT 1, pg_sleep(0.2)").await });
        tokio::time::sleep(SHORT).await;
        gate.set(false);
        let asking = tokio::spawn(ask_to_cancel(pooler.port, token));
        assert_eq!(sleeps.await.unwrap(), "(1,) #1");
        let sleeps = tokio::spawn(async move { told(&two, "SELECT 2, pg_sleep(0.3)").await });
        tokio::time::sleep(SHORT).await;
        gate.set(true);
        assert_eq!(sleeps.await.unwrap(), "(2,) #1");
        asking.await.unwrap();
    });
}

#[test]
fn a_session_is_kept_from_others_while_a_request_is_on_its_way_to_it() {
    on_tokio(async {
        let (server, gate) = (Ours::start().await, Gate::open());
        let carried = carrier(server.port, gate.clone()).await;
        let pooler = Running::before(carried, Host::tokio("pooler-1"), one_session()).await;
        let (one, two) = (connect(pooler.port).await, connect(pooler.port).await);
        let token = one.cancel_token();
        let sleeps = tokio::spawn(async move { told(&one, "SELECT 1, pg_sleep(0.2)").await });
        tokio::time::sleep(SHORT).await;
        gate.set(false);
        let asking = tokio::spawn(ask_to_cancel(pooler.port, token));
        assert_eq!(sleeps.await.unwrap(), "(1,) #1");
        let sleeps = tokio::spawn(async move { told(&two, "SELECT 2, pg_sleep(0.2)").await });
        tokio::time::sleep(4 * SHORT).await;
        assert!(!sleeps.is_finished(), "it would be struck");
        gate.set(true);
        assert_eq!(sleeps.await.unwrap(), "(2,) #1");
        asking.await.unwrap();
    });
}

/// The connection for the request comes about too late.
#[test]
fn a_request_that_cannot_be_handed_on_in_time_is_dropped() {
    on_tokio(async {
        let (server, gate) = (Ours::start().await, Gate::open());
        let settings = PoolerSettings { connect_timeout: SHORT, ..one_session() };
        let pooler = Running::before(server.port, gated(&gate), settings).await;
        let one = connect(pooler.port).await;
        let token = one.cancel_token();
        let sleeps = tokio::spawn(async move { told(&one, "SELECT 1, pg_sleep(0.6)").await });
        tokio::time::sleep(SHORT).await;
        gate.set(false);
        ask_to_cancel(pooler.port, token).await;
        tokio::time::sleep(2 * SHORT).await;
        gate.set(true);
        assert_eq!(sleeps.await.unwrap(), "(1,) #1");
    });
}
