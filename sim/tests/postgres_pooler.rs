//! What a client keeps of a session, and what it finds of others', behind a pooler in
//! transaction mode.

mod postgres_support;

#[path = "postgres_pooler/cancels.rs"]
mod cancels;
#[path = "postgres_pooler/failures.rs"]
mod failures;
#[path = "postgres_pooler/watched.rs"]
mod watched;
#[path = "postgres_pooler/wire.rs"]
mod wire;

use std::time::Duration;

use cancels::ask_to_cancel;
use lockstorm_sim::server::postgres::pooler::{Pooler, PoolerSettings};
use postgres_support::{Ours, connect, connect_closable, told};
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use watched::{Watched, turn, until};

/// Runs a test, for as long as a test may take: what is waited for may never come.
fn on_tokio(test: impl Future<Output = ()>) {
    postgres_support::on_tokio(async {
        tokio::time::timeout(Duration::from_secs(60), test).await.unwrap();
    });
}

/// A server, and a pooler of so many sessions before it.
struct Pooled {
    server: Ours,
    port: u16,
    pooler: Running,
}

/// A pooler alone.
struct Running {
    port: u16,
    watched: Watched,
    task: JoinHandle<()>,
}

impl Pooled {
    async fn start(pool_size: usize) -> Pooled {
        Pooled::start_with(PoolerSettings { pool_size, ..PoolerSettings::default() }).await
    }

    async fn start_with(settings: PoolerSettings) -> Pooled {
        let server = Ours::start().await;
        let pooler = Running::before(server.port, settings).await;
        Pooled { server, port: pooler.port, pooler }
    }

    /// With two clients.
    async fn with_two(pool_size: usize) -> (Pooled, Client, Client) {
        let pooled = Pooled::start(pool_size).await;
        let (one, two) = (connect(pooled.port).await, connect(pooled.port).await);
        (pooled, one, two)
    }
}

impl Running {
    /// Before whatever listens on a port.
    async fn before(server_port: u16, settings: PoolerSettings) -> Running {
        let watched = Watched::new();
        let host = watched.host(&settings);
        let listener = host.listen(0).await.unwrap();
        let port = listener.port();
        let server_at = format!("127.0.0.1:{server_port}");
        let pooler = Pooler::new(host, PoolerSettings { server: server_at, ..settings });
        let task = tokio::spawn(async move {
            pooler.run_on(listener).await.unwrap();
        });
        Running { port, watched, task }
    }
}

/// A client that has an advisory lock directly at the server, so that a statement which asks
/// for it takes as long as the test wants.
struct Holder(Client);

/// Asks for the holder's lock.
const AWAIT_HOLDER: &str = "SELECT pg_advisory_xact_lock(1)";

impl Holder {
    async fn at(server: &Ours) -> Holder {
        let holder = Holder(connect(server.port).await);
        holder.hold().await;
        holder
    }

    async fn hold(&self) {
        assert_eq!(told(&self.0, "SELECT pg_try_advisory_lock(1)").await, "(t) #1");
    }

    async fn let_go(&self) {
        assert_eq!(told(&self.0, "SELECT pg_advisory_unlock(1)").await, "(t) #1");
    }

    /// Until one statement waits for the lock.
    async fn is_awaited(&self) {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        while told(&self.0, waiting).await != "(1) #1" {
            turn().await;
        }
    }

    /// What a statement gives that waits for the lock; it waits now.
    async fn holds_up(&self, client: Client) -> JoinHandle<String> {
        let asks = tokio::spawn(async move { told(&client, AWAIT_HOLDER).await });
        self.is_awaited().await;
        asks
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[test]
fn a_session_advisory_lock_stays_with_the_session_that_anybody_may_have_next() {
    on_tokio(async {
        let (_pooled, one, two) = Pooled::with_two(2).await;
        assert_eq!(told(&one, "SELECT pg_try_advisory_lock(7)").await, "(t) #1");
        // The session was used last, so it is used next: the lock is "its own".
        assert_eq!(told(&two, "SELECT pg_try_advisory_lock(7)").await, "(t) #1");
        // While that session is in a transaction, the other one cannot have the lock, nor
        // give it back.
        assert_eq!(told(&two, "BEGIN").await, "#0");
        assert_eq!(told(&one, "SELECT pg_try_advisory_lock(7)").await, "(f) #1");
        assert_eq!(told(&one, "SELECT pg_advisory_unlock(7)").await, "(f) #1");
        assert_eq!(told(&two, "ROLLBACK").await, "#0");
    });
}

#[test]
fn a_transaction_has_one_session_and_its_locks() {
    on_tokio(async {
        let (pooled, one, two) = Pooled::with_two(2).await;
        told(&one, "BEGIN; SELECT pg_advisory_xact_lock(7)").await;
        let pid = told(&one, "SELECT pg_backend_pid()").await;
        assert_eq!(told(&two, "SELECT pg_try_advisory_xact_lock(7)").await, "(f) #1");
        assert_ne!(told(&two, "SELECT pg_backend_pid()").await, pid);
        assert_eq!(told(&one, "SELECT pg_backend_pid()").await, pid);
        told(&one, "COMMIT").await;
        assert_eq!(told(&two, "SELECT pg_try_advisory_xact_lock(7)").await, "(t) #1");
        assert_eq!(pooled.server.control.sessions(), 2);
    });
}

#[test]
fn a_setting_is_everybodys_but_for_those_that_are_tracked() {
    on_tokio(async {
        let (_pooled, one, two) = Pooled::with_two(1).await;
        told(&two, "SET application_name = 'two'").await;
        told(&one, "SET lock_timeout = 5; SET application_name = 'one'").await;
        assert_eq!(told(&two, "SHOW lock_timeout").await, "(5ms) #0");
        assert_eq!(told(&two, "SHOW application_name").await, "(two) #0");
        assert_eq!(told(&one, "SHOW application_name").await, "(one) #0");
    });
}

#[test]
fn an_empty_setting_is_one_as_well() {
    on_tokio(async {
        let (_pooled, one, two) = Pooled::with_two(1).await;
        assert_eq!(told(&one, "SET application_name = 'one'").await, "#0");
        assert_eq!(told(&two, "SHOW application_name").await, "() #0");
        assert_eq!(told(&one, "SHOW application_name").await, "(one) #0");
    });
}

#[test]
fn a_prepared_statement_stays_behind() {
    on_tokio(async {
        let (_pooled, one, two) = Pooled::with_two(2).await;
        let statement = one.prepare("SELECT 1").await.unwrap();
        // In the session that was used last it is still there …
        assert!(one.query(&statement, &[]).await.is_ok());
        // … and while another client has that session it is not.
        told(&two, "BEGIN").await;
        let error = one.query(&statement, &[]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "26000");
        told(&two, "ROLLBACK").await;
        // A statement without a name lives for the transaction that it is in.
        assert!(
            one.query_typed("SELECT $1::int", &[(&1_i32, tokio_postgres::types::Type::INT4)])
                .await
                .is_ok()
        );
    });
}

#[test]
fn who_leaves_within_a_transaction_takes_the_session_along() {
    on_tokio(async {
        let pooled = Pooled::start(1).await;
        let (one, socket) = connect_closable(pooled.port).await.unwrap();
        told(&one, "CREATE TABLE t(id int)").await;
        told(&one, "BEGIN; INSERT INTO t VALUES (1)").await;
        let two = connect(pooled.port).await;
        let waits = tokio::spawn(async move { told(&two, "SELECT count(*) FROM t").await });
        // There is one session.
        pooled.pooler.watched.waiting(1).await;
        socket.abort();
        assert_eq!(waits.await.unwrap(), "(0) #1");
    });
}

#[test]
fn who_waits_too_long_for_a_session_is_sent_away() {
    on_tokio(async {
        // The first one waits for a connection as well.
        let wait_timeout = Duration::from_secs(1);
        let settings = PoolerSettings { pool_size: 1, wait_timeout, ..PoolerSettings::default() };
        let pooled = Pooled::start_with(settings).await;
        let (one, two) = (connect(pooled.port).await, connect(pooled.port).await);
        told(&one, "BEGIN").await;
        assert_eq!(told(&two, "SELECT 1").await, "08P01");
        assert_eq!(told(&two, "SELECT 1").await, "closed");
        assert_eq!(told(&one, "COMMIT").await, "#0");
    });
}

#[test]
fn a_request_to_cancel_reaches_the_session_that_is_at_work() {
    on_tokio(async {
        let pooled = Pooled::start(1).await;
        let (one, holder) = (connect(pooled.port).await, Holder::at(&pooled.server).await);
        let token = one.cancel_token();
        let waits = holder.holds_up(one).await;
        ask_to_cancel(pooled.port, token).await;
        assert_eq!(waits.await.unwrap(), "57014");
    });
}

#[test]
fn a_session_that_ended_while_nobody_used_it_is_not_given_out() {
    on_tokio(async {
        let pooled = Pooled::start(1).await;
        let one = connect(pooled.port).await;
        let first = told(&one, "SELECT pg_backend_pid(); SET idle_session_timeout = 20").await;
        until(|| pooled.server.control.sessions() == 0).await;
        assert_ne!(told(&one, "SELECT pg_backend_pid()").await + " #0", first);
        // What was set went with the session.
        assert_eq!(told(&one, "SHOW idle_session_timeout").await, "(0) #0");
    });
}
