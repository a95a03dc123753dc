//! What a client sees when something goes wrong: its own statement, its server, those who wait
//! beside it.

use lockstorm_sim::disk::{self, Disk};
use lockstorm_sim::server::postgres::Settings;
use lockstorm_sim::server::postgres::pooler::PoolerSettings;

use super::postgres_support::{Ours, connect, connect_closable, told, try_connect};
use super::watched::until;
use super::{AWAIT_HOLDER, Holder, Pooled, Running, on_tokio};

#[test]
fn a_transaction_that_has_failed_keeps_its_session_until_it_is_rolled_back() {
    on_tokio(async {
        let (pooled, one, two) = Pooled::with_two(2).await;
        told(&one, "BEGIN; SELECT pg_advisory_xact_lock(7)").await;
        let pid = told(&one, "SELECT pg_backend_pid()").await;
        assert_eq!(told(&one, "SELECT nonsense").await, "42703");
        assert_eq!(told(&one, "SELECT 1").await, "25P02");
        assert_ne!(told(&two, "SELECT pg_backend_pid()").await, pid);
        assert_eq!(told(&one, "ROLLBACK").await, "#0");
        assert_eq!(told(&two, "SELECT pg_try_advisory_xact_lock(7)").await, "(t) #1");
        // It was used last.
        assert_eq!(told(&one, "BEGIN").await, "#0");
        assert_eq!(pooled.server.control.sessions(), 2);
    });
}

#[test]
fn a_server_that_dies_in_the_middle_of_a_statement_is_told_of() {
    on_tokio(async {
        let server = Ours::start().await;
        let settings = PoolerSettings { pool_size: 1, ..PoolerSettings::default() };
        let pooler = Running::before(server.port, settings).await;
        let (one, holder) = (connect(pooler.port).await, Holder::at(&server).await);
        let asks = tokio::spawn(async move {
            let error = one.simple_query(AWAIT_HOLDER).await.unwrap_err();
            let told = error.as_db_error().unwrap();
            format!("{} {} {}", told.severity(), told.code().code(), told.message())
        });
        holder.is_awaited().await;
        let _ = server.crash().await;
        assert_eq!(asks.await.unwrap(), "FATAL 08P01 server conn crashed?");
        // Nobody else is there, and nothing can be opened.
        let two = connect(pooler.port).await;
        assert_eq!(told(&two, "SELECT 1").await, "08P01");
        assert_eq!(told(&two, "SELECT 1").await, "closed");
    });
}

#[test]
fn a_client_that_leaves_while_it_waits_takes_no_session_along() {
    on_tokio(async {
        let pooled = Pooled::start(1).await;
        let one = connect(pooled.port).await;
        let (two, socket) = connect_closable(pooled.port).await.unwrap();
        told(&one, "CREATE SEQUENCE asked; BEGIN").await;
        let session = "SELECT pg_backend_pid()";
        let pid = told(&one, session).await;
        let leaves = tokio::spawn(async move { told(&two, "SELECT nextval('asked')").await });
        pooled.pooler.watched.waiting(1).await;
        socket.abort();
        assert_eq!(leaves.await.unwrap(), "closed");
        // It is noticed before its turn.
        pooled.pooler.watched.waiting(0).await;
        let three = connect(pooled.port).await;
        let asks = tokio::spawn(async move { told(&three, session).await });
        pooled.pooler.watched.waiting(1).await;
        assert_eq!(told(&one, "COMMIT").await, "#0");
        assert_eq!(asks.await.unwrap(), pid);
        assert_eq!(told(&one, "SELECT nextval('asked')").await, "(1) #1");
    });
}

#[test]
fn who_waits_gets_the_first_session_that_is_free_and_not_its_own() {
    on_tokio(async {
        let (pooled, one, two) = Pooled::with_two(2).await;
        let gate = &pooled.pooler.watched.gate;
        told(&one, "BEGIN").await;
        gate.set(false);
        let asks = tokio::spawn(async move { told(&two, "SELECT 2").await });
        gate.is_waited_at().await;
        assert_eq!(told(&one, "COMMIT").await, "#0");
        assert_eq!(asks.await.unwrap(), "(2) #1");
    });
}

async fn of_few_connections(max_connections: usize) -> Ours {
    let disk = Disk::new(disk::Settings::default(), 0, "pg-1");
    let ours = Ours::start_on(disk, Settings { max_connections, ..Settings::default() }).await;
    // Whoever has looked whether it is up has left.
    until(|| ours.control.sessions() == 0).await;
    ours
}

#[test]
fn who_is_refused_a_connection_is_refused_by_the_server_only_where_there_is_no_other() {
    on_tokio(async {
        let server = of_few_connections(2).await;
        let settings = PoolerSettings { pool_size: 3, ..PoolerSettings::default() };
        let pooler = Running::before(server.port, settings).await;
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(connect(pooler.port).await);
        }
        let [one, two, three] = <[_; 3]>::try_from(clients).unwrap();
        told(&one, "BEGIN").await;
        told(&two, "BEGIN").await;
        // A third session is refused (53300), and the two others come free.
        let asks = tokio::spawn(async move { told(&three, "SELECT 3").await });
        pooler.watched.dialled(3).await;
        pooler.watched.waiting(1).await;
        assert_eq!(told(&two, "COMMIT").await, "#0");
        assert_eq!(asks.await.unwrap(), "(3) #1");
        drop((one, two, pooler));
        until(|| server.control.sessions() == 0).await;
        // Others have all that there are.
        let (_direct, _another) = (connect(server.port).await, connect(server.port).await);
        let settings = PoolerSettings::default();
        let pooler = Running::before(server.port, settings).await;
        assert!(try_connect(pooler.port).await.is_none());
        let error = refused(pooler.port).await;
        assert_eq!(error, "53300 sorry, too many clients already");
    });
}

/// Why a client is not let in.
async fn refused(port: u16) -> String {
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut config = tokio_postgres::Config::new();
    config.user("postgres").dbname("postgres");
    let Err(error) = config.connect_raw(stream, tokio_postgres::NoTls).await else {
        panic!("it is let in")
    };
    let told = error.as_db_error().unwrap();
    format!("{} {}", told.code().code(), told.message())
}
