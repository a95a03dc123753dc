use std::future::Future;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::stock::{FenceMode, StockClient, StockError};

const LIMIT: Duration = Duration::from_secs(5);

/// Writes decisions down, one line each.
#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl StockObserver for Diary {
    fn decided(&self, decision: &Decision<'_>) {
        let line = format!(
            "{} {:?} {:?} {}",
            decision.shown.owner,
            decision.shown.token.map(|token| token.0),
            decision.operation,
            decision.refusal.as_deref().unwrap_or("accepted"),
        );
        self.0.lock().unwrap().push(line);
    }
}

struct Bench {
    host: Host,
    stock: Arc<Mutex<Stock>>,
    diary: Arc<Diary>,
    address: String,
    port: u16,
    task: crate::host::Task,
}

async fn bench(units: u32, mode: FenceMode) -> Bench {
    let host = Host::tokio("stock");
    let stock = Arc::new(Mutex::new(Stock::new(units, mode)));
    let diary = Arc::new(Diary::default());
    let (task, port) = start(&host, &stock, &diary, 0).await;
    Bench { host, stock, diary, address: format!("127.0.0.1:{port}"), port, task }
}

async fn start(
    host: &Host,
    stock: &Arc<Mutex<Stock>>,
    diary: &Arc<Diary>,
    port: u16,
) -> (crate::host::Task, u16) {
    let server = StockServer::new(host.clone(), port, stock.clone(), diary.clone());
    let listener = host.listen(port).await.unwrap();
    let port = listener.port();
    let task = host.spawn("stock", async move { server.serve(&listener).await });
    (task, port)
}

impl Bench {
    fn client(&self) -> StockClient {
        StockClient::new(self.host.clone(), self.address.clone(), LIMIT)
    }

    /// Sends bytes, says that no more will come, and returns all that is answered.
    async fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.host.connect(&self.address).await.unwrap();
        // The server may end the connection before it has read everything.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }
}

#[tokio::test]
async fn operations_are_answered_and_told_to_the_observer() {
    let bench = bench(2, FenceMode::Full).await;
    let mut client = bench.client();
    let (old, new) = (Shown::new("a", Some(1)), Shown::new("b", Some(2)));
    assert_eq!(client.read(&old).await, Ok(Level { left: 2, next_unit: Some(1) }));
    assert_eq!(client.sell(&new, 1, "x").await, Ok(()));
    assert_eq!(client.sell(&new, 1, "x").await, Ok(()));
    assert!(matches!(client.read(&old).await, Err(StockError::Refused { .. })));
    assert!(matches!(client.sell(&new, 9, "y").await, Err(StockError::Refused { .. })));
    insta::assert_snapshot!(bench.diary.0.lock().unwrap().join("\n"), @r#"
    a Some(1) Read(Some(Level { left: 2, next_unit: Some(1) })) accepted
    b Some(2) Sell { unit: 1, order: "x", repeated: false } accepted
    b Some(2) Sell { unit: 1, order: "x", repeated: true } accepted
    a Some(1) Read(None) token 1 is older than 2, which has been seen
    b Some(2) Sell { unit: 9, order: "y", repeated: false } there is no unit 9: they are numbered from 1 to 2
    "#);
    assert_eq!(bench.stock.lock().unwrap().sales().len(), 1);
}

#[tokio::test]
async fn the_stock_survives_its_server_and_the_client_reconnects() {
    let bench = bench(2, FenceMode::Off).await;
    let mut client = bench.client();
    let shown = Shown::new("a", None);
    client.sell(&shown, 1, "x").await.unwrap();
    bench.task.abort();
    // Connections are tasks of their own; make the client's go with its server.
    client = bench.client();
    while client.read(&shown).await.is_ok() {
        client = bench.client();
    }
    assert!(matches!(client.read(&shown).await, Err(StockError::Unreachable { .. })));
    start(&bench.host, &bench.stock, &bench.diary, bench.port).await;
    assert_eq!(client.read(&shown).await, Ok(Level { left: 1, next_unit: Some(2) }));
}

#[tokio::test]
async fn no_reply_is_indeterminate_and_the_next_operation_reconnects() {
    let host = Host::tokio("app-1");
    let listener = host.listen(0).await.unwrap();
    let address = format!("127.0.0.1:{}", listener.port());
    let mut client = StockClient::new(host.clone(), address, Duration::from_millis(400));
    let sold = client.sell(&Shown::new("a", None), 1, "x").await;
    assert!(matches!(sold, Err(StockError::Indeterminate { .. })), "{sold:?}");

    let silent = listener.accept().await.unwrap();
    let stock = Arc::new(Mutex::new(Stock::new(1, FenceMode::Off)));
    let server = StockServer::new(host.clone(), listener.port(), stock, Arc::new(Unobserved));
    host.spawn("stock", async move { server.serve(&listener).await });
    assert_eq!(client.sell(&Shown::new("a", None), 1, "x").await, Ok(()));
    drop(silent);
}

#[tokio::test]
async fn an_operation_that_is_given_up_leaves_no_reply_behind() {
    let bench = bench(2, FenceMode::Off).await;
    let mut client = bench.client();
    let shown = Shown::new("a", None);
    client.read(&shown).await.unwrap();
    let mut sale = Box::pin(client.sell(&shown, 1, "x"));
    let given_up = std::future::poll_fn(|context| Poll::Ready(sale.as_mut().poll(context))).await;
    assert!(given_up.is_pending());
    drop(sale);
    // Would be taken for the sale's reply, were the connection kept.
    client.read(&shown).await.unwrap();
}

#[tokio::test]
async fn what_is_no_request_gets_one_error_and_the_end() {
    let bench = bench(1, FenceMode::Off).await;
    let good = "{\"operation\":\"read\",\"owner\":\"a\"}\n";
    let level = "{\"answer\":\"level\",\"left\":1,\"next_unit\":1}\n";
    assert_eq!(bench.send(good.as_bytes()).await, level);
    let answer = bench.send(format!("{good}nonsense\n{good}").as_bytes()).await;
    insta::assert_snapshot!(answer, @r#"
    {"answer":"level","left":1,"next_unit":1}
    {"answer":"error","reason":"expected ident at line 1 column 2"}
    "#);
    let answer = bench.send(&vec![b'x'; crate::stock::wire::MAX_LINE_BYTES]).await;
    insta::assert_snapshot!(answer, @r#"{"answer":"error","reason":"a line has more than 4096 bytes"}"#);
    let answer = bench.send(&[b'['; 3000]).await;
    assert_eq!(answer, "");
    let answer = bench.send(&[vec![b'['; 3000], vec![b'\n']].concat()).await;
    assert!(answer.starts_with("{\"answer\":\"error\""), "{answer}");
    // Half a request is none.
    assert_eq!(bench.send(&good.as_bytes()[..10]).await, "");
}

#[tokio::test]
async fn connections_beyond_the_limit_are_told_so() {
    let bench = bench(1, FenceMode::Off).await;
    let server = StockServer::new(bench.host.clone(), 0, bench.stock.clone(), bench.diary.clone());
    let places: Vec<_> = (0..MAX_CONNECTIONS).map(|_| Place::take(&server.connections)).collect();
    assert!(places.iter().all(Option::is_some));
    assert!(Place::take(&server.connections).is_none());
    drop(places);
    assert!(Place::take(&server.connections).is_some());
}
