//! A request to cancel is for the statement of the client who has asked, and for no other.

use std::time::Duration;

use lockstorm_sim::server::postgres::pooler::PoolerSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_postgres::{CancelToken, NoTls};

use super::postgres_support::{Ours, connect, told};
use super::watched::Gate;
use super::{Holder, Running, on_tokio};

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

/// Asks, and waits until the pooler has done with it.
pub async fn ask_to_cancel(port: u16, token: CancelToken) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    token.cancel_query_raw(&mut stream, NoTls).await.unwrap();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
}

/// A client's statement that waits for the holder, and a request to cancel it that is held up.
async fn asked_into_the_gate(
    port: u16,
    holder: &Holder,
    gate: &Gate,
) -> (JoinHandle<String>, JoinHandle<()>) {
    let one = connect(port).await;
    let token = one.cancel_token();
    let waits = holder.holds_up(one).await;
    gate.set(false);
    let asking = tokio::spawn(ask_to_cancel(port, token));
    gate.is_waited_at().await;
    (waits, asking)
}

fn one_session() -> PoolerSettings {
    PoolerSettings { pool_size: 1, ..PoolerSettings::default() }
}

/// What else this limits takes far less.
fn impatient() -> PoolerSettings {
    PoolerSettings { connect_timeout: Duration::from_secs(1), ..one_session() }
}

const DONE: &str = "() #1";

#[test]
fn a_request_whose_statement_is_over_when_its_connection_is_there_is_dropped() {
    on_tokio(async {
        let server = Ours::start().await;
        let pooler = Running::before(server.port, one_session()).await;
        let (two, holder) = (connect(pooler.port).await, Holder::at(&server).await);
        let gate = &pooler.watched.gate;
        let (waits, asking) = asked_into_the_gate(pooler.port, &holder, gate).await;
        holder.let_go().await;
        assert_eq!(waits.await.unwrap(), DONE);
        holder.hold().await;
        let waits = holder.holds_up(two).await;
        gate.set(true);
        asking.await.unwrap();
        holder.let_go().await;
        assert_eq!(waits.await.unwrap(), DONE);
    });
}

#[test]
fn a_session_is_kept_from_others_while_a_request_is_on_its_way_to_it() {
    on_tokio(async {
        let (server, gate) = (Ours::start().await, Gate::open());
        let carried = carrier(server.port, gate.clone()).await;
        let pooler = Running::before(carried, one_session()).await;
        let (two, holder) = (connect(pooler.port).await, Holder::at(&server).await);
        let (waits, asking) = asked_into_the_gate(pooler.port, &holder, &gate).await;
        holder.let_go().await;
        assert_eq!(waits.await.unwrap(), DONE);
        holder.hold().await;
        let waits = tokio::spawn(async move { told(&two, super::AWAIT_HOLDER).await });
        // It would be struck.
        pooler.watched.waiting(1).await;
        gate.set(true);
        asking.await.unwrap();
        holder.is_awaited().await;
        holder.let_go().await;
        assert_eq!(waits.await.unwrap(), DONE);
    });
}

/// The connection for the request comes about too late.
#[test]
fn a_request_that_cannot_be_handed_on_in_time_is_dropped() {
    on_tokio(async {
        let server = Ours::start().await;
        let pooler = Running::before(server.port, impatient()).await;
        let holder = Holder::at(&server).await;
        let gate = &pooler.watched.gate;
        let (waits, asking) = asked_into_the_gate(pooler.port, &holder, gate).await;
        asking.await.unwrap();
        gate.set(true);
        holder.let_go().await;
        assert_eq!(waits.await.unwrap(), DONE);
    });
}

/// The server may have it before it, or may get it later.
#[test]
fn a_session_is_nobodys_next_whose_request_was_not_seen_through_in_time() {
    for ends_first in [false, true] {
        on_tokio(async move {
            let (server, gate) = (Ours::start().await, Gate::open());
            let carried = carrier(server.port, gate.clone()).await;
            let pooler = Running::before(carried, impatient()).await;
            let (two, holder) = (connect(pooler.port).await, Holder::at(&server).await);
            let session = "SELECT pg_backend_pid()";
            let pid = told(&two, session).await;
            let (waits, mut asking) = asked_into_the_gate(pooler.port, &holder, &gate).await;
            if !ends_first {
                (&mut asking).await.unwrap();
            }
            holder.let_go().await;
            assert_eq!(waits.await.unwrap(), DONE);
            assert_ne!(told(&two, session).await, pid);
            if ends_first {
                asking.await.unwrap();
            }
        });
    }
}
