//! Does a flash sale sell exactly what there is, and what goes wrong when a layer is left
//! out? The production code of the sale, with a real client, against a simulated Redis on
//! TCP.

mod redis_support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::FencingToken;
use lockstorm::lock::redis::{Endpoint, Options, RedisLock};
use lockstorm::sale::admission::{Admission, AdmissionOptions};
use lockstorm::sale::books::{Books, BooksError, Ledger, Recorded};
use lockstorm::sale::counter::{ByScript, Counter, Deduction, Layers, Locked, Naively};
use lockstorm::sale::funnel::{Funnel, Step};
use lockstorm::sale::gate::Gate;
use lockstorm::sale::queue::OrderQueue;
use lockstorm::sale::reconcile::{Difference, reconcile};
use lockstorm::sale::shelf::{Shelf, ShelfOptions, Taken};
use lockstorm::sale::switch::{Flip, Mode};
use lockstorm::sale::writer::{OrderWriter, WriterOptions};
use lockstorm::sale::{Buyer, OrderName, Sku, Wish};
use redis_support::{Ours, on_tokio};

const UNITS: u32 = 5;

fn sku() -> Sku {
    Sku::new("sku-42").unwrap()
}

fn wish(buyer: u32, order: u32) -> Wish {
    let (buyer, order) = (format!("buyer-{buyer}"), format!("order-{buyer}-{order}"));
    Wish { order: OrderName::new(order).unwrap(), buyer: Buyer::new(buyer).unwrap(), sku: sku() }
}

struct Sale {
    _server: Ours,
    host: Host,
    endpoint: Endpoint,
    shelf: Shelf,
    funnel: Funnel,
}

impl Sale {
    async fn open(unpaid: Duration) -> Sale {
        let server = Ours::start().await;
        let host = Host::tokio("app-1");
        let endpoint = Endpoint::Direct(format!("127.0.0.1:{}", server.port));
        let command_timeout = Duration::from_secs(5);
        let options = ShelfOptions { unpaid, command_timeout, ..ShelfOptions::default() };
        let shelf = Shelf::new(host.clone(), endpoint.clone(), options).unwrap();
        assert!(shelf.preheat(&sku(), UNITS, FencingToken(7)).await.unwrap());
        Sale { _server: server, host, endpoint, shelf, funnel: Funnel::default() }
    }

    fn counter<D: Deduction>(&self, layers: Layers, deduction: D) -> Counter<D> {
        Counter::new(self.host.clone(), layers, deduction, self.funnel.clone())
    }

    fn queue(&self, consumer: &str) -> OrderQueue {
        OrderQueue::new(self.shelf.clone(), sku(), consumer, Duration::ZERO)
    }

    fn writer<B: Books>(&self, consumer: &str, books: B, options: WriterOptions) -> OrderWriter<B> {
        let (host, funnel) = (self.host.clone(), self.funnel.clone());
        OrderWriter::new(host, self.queue(consumer), books, funnel, options)
    }

    async fn differences(&self, books: &Ledger) -> Vec<Difference> {
        let shelf = self.shelf.inventory(&sku()).await.unwrap();
        reconcile(UNITS, &sku(), &shelf, &books.orders())
    }
}

/// All at once, as a sale begins.
async fn rush<D: Deduction>(counter: &Counter<D>, buyers: u32) -> Vec<Step> {
    let wishes: Vec<Wish> = (0..buyers).map(|buyer| wish(buyer, 1)).collect();
    let asked: Vec<BoxFuture<'_, Step>> =
        wishes.iter().map(|wish| Box::pin(counter.serve(wish)) as BoxFuture<'_, Step>).collect();
    together(asked).await
}

async fn together<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut waiting: Vec<(usize, BoxFuture<'_, T>)> = futures.into_iter().enumerate().collect();
    let mut done: Vec<(usize, T)> = Vec::new();
    std::future::poll_fn(|context| {
        waiting.retain_mut(|(index, future)| match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => {
                done.push((*index, value));
                false
            }
            std::task::Poll::Pending => true,
        });
        match waiting.is_empty() {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, value)| value).collect()
}

fn sold(steps: &[Step]) -> u32 {
    u32::try_from(steps.iter().filter(|step| **step == Step::Sold).count()).unwrap()
}

const LONG: Duration = Duration::from_secs(900);

#[test]
fn the_naive_sale_oversells() {
    on_tokio(async {
        let sale = Sale::open(LONG).await;
        let counter = sale.counter(Layers::default(), Naively(sale.shelf.clone()));
        assert!(sold(&rush(&counter, 50).await) > UNITS);
        let books = Ledger::default();
        let mut writer = sale.writer("app-1", books.clone(), WriterOptions::default());
        sale.queue("app-1").open().await.unwrap();
        while writer.step().await.unwrap() > 0 {}
        let found = sale.differences(&books).await;
        assert!(found.iter().any(|one| matches!(one, Difference::Oversold { .. })), "{found:?}");
    });
}

#[test]
fn a_lock_around_the_naive_sale_sells_what_there_is() {
    on_tokio(async {
        let sale = Sale::open(LONG).await;
        let options =
            Options { retry: Duration::from_millis(1), ..Options::new(Duration::from_secs(60)) };
        let lock = RedisLock::new(sale.host.clone(), sale.endpoint.clone(), options).unwrap();
        let locked = Locked {
            inner: Naively(sale.shelf.clone()),
            lock: Arc::new(lock),
            host: sale.host.clone(),
            patience: Duration::from_secs(60),
        };
        assert_eq!(sold(&rush(&sale.counter(Layers::default(), locked), 20).await), UNITS);
    });
}

#[test]
fn the_whole_sale_sells_exactly_what_there_is_and_all_agree() {
    on_tokio(async {
        let sale = Sale::open(LONG).await;
        let admission = Admission::new(AdmissionOptions::default(), sale.host.monotonic());
        let switch = Flip::default();
        let layers = Layers {
            switch: Some(Arc::new(switch.clone())),
            admission: Some(Arc::new(Mutex::new(admission))),
            gate: Some(Gate::new(sale.host.clone(), 8, 200, Duration::from_secs(30))),
        };
        let counter = sale.counter(layers, ByScript(sale.shelf.clone()));
        let steps = rush(&counter, 20 * UNITS).await;
        assert_eq!(sold(&steps), UNITS);
        assert_eq!(sale.funnel.gaps(), 0, "{:?}", sale.funnel.all());
        // The same wishes again: the same answers, and no further unit.
        let again = rush(&counter, 20 * UNITS).await;
        assert_eq!(again.iter().filter(|step| **step == Step::Again).count(), UNITS as usize);
        assert_eq!(sold(&again), 0);
        // A second order of a buyer who has one.
        let happy = (0..20 * UNITS).find(|buyer| steps[*buyer as usize] == Step::Sold).unwrap();
        assert_eq!(counter.serve(&wish(happy, 2)).await, Step::Taken);
        switch.set(Mode::Degraded);
        assert_eq!(counter.serve(&wish(999, 1)).await, Step::Degraded);
        let books = Ledger::default();
        sale.queue("app-1").open().await.unwrap();
        let mut writer = sale.writer("app-1", books.clone(), WriterOptions::default());
        while writer.step().await.unwrap() > 0 {}
        assert_eq!(sale.differences(&books).await, []);
        assert_eq!(sale.funnel.of(Step::Written), u64::from(UNITS));
        assert_eq!(sale.queue("app-1").depth().await.unwrap(), (0, u64::from(UNITS)));
    });
}

/// Books that break down after so many orders, before or after they have written one.
#[derive(Clone)]
struct Breaking {
    ledger: Ledger,
    left: Arc<AtomicU32>,
    writes_first: bool,
}

impl Books for Breaking {
    fn record<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Recorded, BooksError>> {
        Box::pin(async move {
            let works = self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if works.is_ok() || self.writes_first {
                let recorded = self.ledger.record(wish).await?;
                if works.is_ok() {
                    return Ok(recorded);
                }
            }
            Err(BooksError { reason: "the books are closed".to_owned() })
        })
    }

    fn strike<'a>(&'a self, order: &'a OrderName) -> BoxFuture<'a, Result<(), BooksError>> {
        self.ledger.strike(order)
    }
}

/// A writer dies over its third order; another takes over.
async fn with_a_writer_that_dies(acknowledges_late: bool, writes_first: bool) -> (Sale, Ledger) {
    let sale = Sale::open(LONG).await;
    let counter = sale.counter(Layers::default(), ByScript(sale.shelf.clone()));
    assert_eq!(sold(&rush(&counter, UNITS).await), UNITS);
    let books = Ledger::default();
    let left = Arc::new(AtomicU32::new(2));
    let breaking = Breaking { ledger: books.clone(), left, writes_first };
    sale.queue("app-1").open().await.unwrap();
    let options = WriterOptions { acknowledges_late, ..WriterOptions::default() };
    let mut first = sale.writer("app-1", breaking, options);
    assert!(first.step().await.is_err());
    drop(first);
    let mut second = sale.writer("app-2", books.clone(), options);
    while second.step().await.unwrap() > 0 {}
    (sale, books)
}

#[test]
fn what_a_dead_writer_had_begun_is_written_once_by_the_next() {
    on_tokio(async {
        for writes_first in [false, true] {
            let (sale, books) = with_a_writer_that_dies(true, writes_first).await;
            assert_eq!(sale.differences(&books).await, [], "{writes_first}");
            let rewritten = sale.funnel.of(Step::Rewritten);
            assert_eq!(rewritten, u64::from(writes_first), "{:?}", sale.funnel.all());
        }
    });
}

#[test]
fn a_writer_that_acknowledges_early_loses_an_order() {
    on_tokio(async {
        let (sale, books) = with_a_writer_that_dies(false, false).await;
        let found = sale.differences(&books).await;
        assert!(found.iter().any(|one| matches!(one, Difference::NotInBooks { .. })), "{found:?}");
    });
}

#[test]
fn a_unit_that_nobody_pays_for_goes_back_and_is_sold_again() {
    on_tokio(async {
        let sale = Sale::open(Duration::from_millis(30)).await;
        let counter = sale.counter(Layers::default(), ByScript(sale.shelf.clone()));
        let books = Ledger::default();
        sale.queue("app-1").open().await.unwrap();
        let mut writer = sale.writer("app-1", books.clone(), WriterOptions::default());
        assert_eq!(sold(&rush(&counter, UNITS).await), UNITS);
        assert!(sale.shelf.pay(&sku(), &wish(0, 1).order).await.unwrap());
        assert!(!sale.shelf.pay(&sku(), &wish(0, 1).order).await.unwrap(), "paid once");
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert_eq!(sale.shelf.return_unpaid(&sku(), 100).await.unwrap(), UNITS - 1);
        assert_eq!(sale.shelf.return_unpaid(&sku(), 100).await.unwrap(), 0);
        // Too late: the unit is another's.
        assert!(!sale.shelf.pay(&sku(), &wish(1, 1).order).await.unwrap());
        assert_eq!(counter.serve(&wish(100, 1)).await, Step::Sold);
        while writer.step().await.unwrap() > 0 {}
        assert_eq!(sale.differences(&books).await, []);
        assert_eq!(books.orders().len(), 2);
    });
}

#[test]
fn only_the_latest_leader_fills_the_shelf_and_only_once() {
    on_tokio(async {
        let sale = Sale::open(LONG).await;
        assert_eq!(sale.shelf.take(&wish(1, 1)).await.unwrap(), Taken::Sold);
        for (token, why) in [(6, "replaced"), (7, "again"), (8, "a later one, after the first")] {
            assert!(!sale.shelf.preheat(&sku(), 100, FencingToken(token)).await.unwrap(), "{why}");
        }
        assert_eq!(sale.shelf.inventory(&sku()).await.unwrap().left, Some(i64::from(UNITS) - 1));
        let other = Wish { sku: Sku::new("other").unwrap(), ..wish(1, 1) };
        assert_eq!(sale.shelf.take(&other).await.unwrap(), Taken::Closed);
    });
}

#[test]
fn an_entry_of_nobodys_making_is_put_aside() {
    on_tokio(async {
        let sale = Sale::open(LONG).await;
        let stream =
            tokio::net::TcpStream::connect(("127.0.0.1", sale._server.port)).await.unwrap();
        let (mut connection, driver) = redis::aio::MultiplexedConnection::new_with_config(
            &redis::RedisConnectionInfo::default(),
            stream,
            redis::AsyncConnectionConfig::new(),
        )
        .await
        .unwrap();
        tokio::spawn(driver);
        let mut add = redis::cmd("XADD");
        add.arg("sale:{sku-42}:orders").arg("*").arg("what").arg("nonsense");
        let id: String = add.query_async(&mut connection).await.unwrap();
        let mut queue = sale.queue("app-1");
        queue.open().await.unwrap();
        queue.open().await.unwrap();
        assert_eq!(queue.next(10).await.unwrap(), []);
        assert_eq!(queue.depth().await.unwrap(), (0, 1));
        let mut aside = redis::cmd("LRANGE");
        aside.arg("sale:{sku-42}:refused").arg(0).arg(-1);
        let aside: Vec<String> = aside.query_async(&mut connection).await.unwrap();
        assert_eq!(aside, [id]);
    });
}
