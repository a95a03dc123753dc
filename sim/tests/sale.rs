//! Does a flash sale sell exactly what there is, and what goes wrong when a layer is left
//! out? Here the shelf, the queue and the layers before them, with a real client, against a
//! simulated Redis on TCP; in `sale_storms` the whole sale on its nodes, while faults strike.

mod redis_support;
mod sale_storms;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::FencingToken;
use lockstorm::lock::redis::{Endpoint, Options, RedisLock};
use lockstorm::sale::admission::{Admission, AdmissionOptions};
use lockstorm::sale::books::{Books, BooksError, Recorded};
use lockstorm::sale::counter::{ByScript, Counter, Deduction, Layers, Locked, Naively};
use lockstorm::sale::funnel::{Funnel, Step};
use lockstorm::sale::gate::Gate;
use lockstorm::sale::orders::{Account, State};
use lockstorm::sale::queue::OrderQueue;
use lockstorm::sale::reconcile::{self, Difference, differences};
use lockstorm::sale::shelf::{Restock, Shelf, ShelfOptions, Taken};
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

/// Books in memory, for the half of the sale that comes before them; those of a sale are in
/// `sale_storms`.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<BTreeMap<Buyer, Wish>>>);

impl Ledger {
    fn account(&self) -> Account {
        let written = self.0.lock().unwrap();
        let orders: Vec<_> = written.values().map(|wish| (wish.clone(), State::Unpaid)).collect();
        Account { units: UNITS, free: i64::from(UNITS) - orders.len() as i64, orders }
    }
}

impl Books for Ledger {
    fn record<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Recorded, BooksError>> {
        let mut written = self.0.lock().unwrap();
        let recorded = match written.get(&wish.buyer) {
            Some(known) if known.order == wish.order => Recorded::Already,
            Some(_) => Recorded::OtherOrder,
            None => {
                written.insert(wish.buyer.clone(), wish.clone());
                Recorded::Now
            }
        };
        Box::pin(std::future::ready(Ok(recorded)))
    }
}

impl Sale {
    async fn open() -> Sale {
        let server = Ours::start().await;
        let host = Host::tokio("app-1");
        let endpoint = Endpoint::Direct(format!("127.0.0.1:{}", server.port));
        let command_timeout = Duration::from_secs(5);
        let options = ShelfOptions { command_timeout, ..ShelfOptions::default() };
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
        let funnel = self.funnel.clone();
        OrderWriter::new(self.shelf.clone(), self.queue(consumer), books, funnel, options)
    }

    async fn differences(&self, books: &Ledger) -> Vec<Difference> {
        differences(&self.shelf.inventory(&sku()).await.unwrap(), &books.account())
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

#[test]
fn the_naive_sale_oversells() {
    on_tokio(async {
        let sale = Sale::open().await;
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
        let sale = Sale::open().await;
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
        let sale = Sale::open().await;
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
}

/// A writer dies over its third order; another takes over.
async fn with_a_writer_that_dies(acknowledges_late: bool, writes_first: bool) -> (Sale, Ledger) {
    let sale = Sale::open().await;
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

/// Books that have sold all to somebody else.
struct SoldOut;

impl Books for SoldOut {
    fn record<'a>(&'a self, _: &'a Wish) -> BoxFuture<'a, Result<Recorded, BooksError>> {
        Box::pin(std::future::ready(Ok(Recorded::SoldOut)))
    }
}

#[test]
fn the_unit_of_an_order_that_the_books_refuse_goes_back() {
    on_tokio(async {
        let sale = Sale::open().await;
        let counter = sale.counter(Layers::default(), ByScript(sale.shelf.clone()));
        assert_eq!(sold(&rush(&counter, UNITS).await), UNITS);
        sale.queue("app-1").open().await.unwrap();
        let mut writer = sale.writer("app-1", SoldOut, WriterOptions::default());
        while writer.step().await.unwrap() > 0 {}
        assert_eq!(sale.funnel.of(Step::Unwritten), u64::from(UNITS));
        let seen = sale.shelf.inventory(&sku()).await.unwrap();
        assert_eq!((seen.left, seen.buyers), (Some(i64::from(UNITS)), vec![]));
        // Once, however often it is asked for.
        assert!(!sale.shelf.give_back(&wish(1, 1)).await.unwrap());
        assert_eq!(sale.shelf.inventory(&sku()).await.unwrap().left, Some(i64::from(UNITS)));
    });
}

#[test]
fn an_order_that_was_lost_from_the_queue_is_found_by_a_leader() {
    on_tokio(async {
        let sale = Sale::open().await;
        let books = Ledger::default();
        assert_eq!(sale.shelf.take_in_two_steps(&wish(1, 1)).await.unwrap(), Taken::Sold);
        // Its entry is acknowledged, and its writer dies before the books have it.
        let mut queue = sale.queue("app-1");
        queue.open().await.unwrap();
        let entry = queue.next(1).await.unwrap().remove(0);
        queue.acknowledge(&entry).await.unwrap();
        let seen = sale.shelf.inventory(&sku()).await.unwrap();
        let suspects: BTreeSet<OrderName> = BTreeSet::from([wish(1, 1).order]);
        let restock = reconcile::plan(&sku(), &seen, &books.account(), &suspects).unwrap();
        assert_eq!(restock.requeued, [wish(1, 1)]);
        assert!(sale.shelf.restock(&sku(), &restock, seen.moves, FencingToken(8)).await.unwrap());
        let mut writer = sale.writer("app-2", books.clone(), WriterOptions::default());
        while writer.step().await.unwrap() > 0 {}
        assert_eq!(sale.differences(&books).await, []);
    });
}

#[test]
fn a_leader_that_was_replaced_or_has_looked_too_long_ago_changes_nothing() {
    on_tokio(async {
        let sale = Sale::open().await;
        let restock = Restock { left: 99, ..Restock::default() };
        let seen = sale.shelf.inventory(&sku()).await.unwrap();
        let set = async |moves, token| {
            sale.shelf.restock(&sku(), &restock, moves, FencingToken(token)).await.unwrap()
        };
        assert!(!set(seen.moves, 6).await, "replaced");
        assert_eq!(sale.shelf.take(&wish(1, 1)).await.unwrap(), Taken::Sold);
        assert!(!set(seen.moves, 9).await, "moved since");
        let left = async || sale.shelf.inventory(&sku()).await.unwrap().left;
        assert_eq!(left().await, Some(i64::from(UNITS) - 1));
        let seen = sale.shelf.inventory(&sku()).await.unwrap();
        assert!(set(seen.moves, 9).await);
        assert_eq!(left().await, Some(99));
    });
}

#[test]
fn only_the_latest_leader_fills_the_shelf_and_only_once() {
    on_tokio(async {
        let sale = Sale::open().await;
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
        let sale = Sale::open().await;
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
        add.arg("sale:{sku-42}:orders").arg("*").arg("order").arg("of-nobody");
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
