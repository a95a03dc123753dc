//! Does the stock in PostgreSQL's tables, on a real server, sell what each way promises, and
//! fail where theory says?

mod on_real_postgres;

use std::sync::Arc;
use std::time::Duration;

use lockstorm::stock::sql::{
    Check, Isolation, Order, Outcome, SellError, SqlStock, SqlStockOptions, Truth, Way,
};
use on_real_postgres::{Bench, Proxy, When, bench};

const SKU: i64 = 42;
const OTHER: i64 = 43;

fn options(way: Way) -> SqlStockOptions {
    SqlStockOptions { command_timeout: Duration::from_secs(2), ..SqlStockOptions::new(way) }
}

fn optimistic(check: Check) -> Way {
    Way::Optimistic { check, isolation: Isolation::ReadCommitted }
}

fn stock(bench: &Bench, way: Way) -> SqlStock {
    SqlStock::new(bench.host.clone(), bench.endpoint(), options(way)).unwrap()
}

/// Sells `units` of them to so many buyers at once; how many were told that they have one.
async fn rush(stock: &Arc<SqlStock>, sku: i64, buyers: u32) -> usize {
    let mut tasks = Vec::new();
    for buyer in 0..buyers {
        let stock = stock.clone();
        tasks.push(tokio::spawn(async move {
            let order = Order::of_one(format!("o{buyer}"), format!("u{buyer}"), sku);
            loop {
                match stock.buy(&order, 1_000).await {
                    Ok((Outcome::Sold { .. }, _)) => return true,
                    Ok((Outcome::SoldOut { .. }, _)) => return false,
                    Ok((Outcome::Busy, _)) => tokio::time::sleep(Duration::from_millis(3)).await,
                    other => panic!("{other:?}"),
                }
            }
        }));
    }
    let mut sold = 0;
    for task in tasks {
        sold += usize::from(task.await.unwrap());
    }
    sold
}

fn units_of(truth: &Truth) -> Vec<i64> {
    truth.sales.iter().map(|(unit, _)| *unit).collect()
}

#[tokio::test]
async fn each_safe_way_sells_each_unit_once_and_all_of_them() {
    let bench = bench!();
    let ways = [
        Way::ForUpdate { nowait: false },
        Way::ForUpdate { nowait: true },
        optimistic(Check::Read),
        optimistic(Check::Statement),
        Way::Optimistic { check: Check::Statement, isolation: Isolation::RepeatableRead },
        Way::Conditional,
    ];
    for (number, way) in (1..).zip(ways) {
        let stock = Arc::new(stock(&bench, way));
        stock.offer(number, 8).await.unwrap();
        let buyers: u32 = 12;
        let sold = rush(&stock, number, buyers).await;
        let truth = stock.truth(number).await.unwrap();
        assert_eq!(units_of(&truth), (1..=8).collect::<Vec<_>>(), "{way:?}");
        assert_eq!((truth.units, truth.left, sold), (8, 0, 8), "{way:?}");
        assert_eq!(truth.orders.len(), 8, "{way:?}");
        let usage = stock.usage();
        assert!(usage.peak <= 10 && usage.lent == 0, "{usage:?}");
        bench.ask("TRUNCATE orders, ledger").await;
    }
}

/// The statement as it is taught compares the version and forgets the count.
#[tokio::test]
async fn the_taught_optimistic_statement_oversells_unless_somebody_looks_at_the_count() {
    let bench = bench!();
    for (sku, check, left) in
        [(1, Check::Nothing, -1), (2, Check::Read, 0), (3, Check::Statement, 0)]
    {
        let stock = stock(&bench, optimistic(check));
        stock.offer(sku, 1).await.unwrap();
        for buyer in ["a", "b"] {
            let order = Order::of_one(format!("{buyer}{sku}"), buyer, sku);
            let (outcome, _) = stock.buy(&order, 5).await.unwrap();
            let sells = buyer == "a" || check == Check::Nothing;
            assert_eq!(matches!(outcome, Outcome::Sold { .. }), sells, "{check:?} {buyer}");
        }
        assert_eq!(stock.truth(sku).await.unwrap().left, left, "{check:?}");
    }
}

/// Two read the same version: one writes, the other is told to read again.
#[tokio::test]
async fn a_version_that_somebody_changed_is_a_conflict_at_both_levels() {
    let bench = bench!();
    for (sku, isolation) in [(1, Isolation::ReadCommitted), (2, Isolation::RepeatableRead)] {
        let stock = stock(&bench, Way::Optimistic { check: Check::Statement, isolation });
        stock.offer(sku, 5).await.unwrap();
        let seen = stock.read(&[sku]).await.unwrap();
        let order = |name: &str| Order::of_one(format!("{name}{sku}"), name, sku);
        let sold = stock.sell(&order("a"), &seen).await.unwrap();
        assert_eq!(sold, Outcome::Sold { units: vec![1], repeated: false });
        assert_eq!(stock.sell(&order("b"), &seen).await.unwrap(), Outcome::Conflict { sku });
        let (sold, tried) = stock.buy(&order("b"), 3).await.unwrap();
        assert_eq!(sold, Outcome::Sold { units: vec![2], repeated: false });
        assert_eq!(tried, 1);
    }
}

#[tokio::test]
async fn read_and_write_back_without_a_lock_sells_one_unit_twice() {
    let bench = bench!();
    let stock = stock(&bench, Way::UnderLock);
    stock.offer(SKU, 5).await.unwrap();
    let (one, other) = (stock.read(&[SKU]).await.unwrap(), stock.read(&[SKU]).await.unwrap());
    stock.sell(&Order::of_one("a", "a", SKU), &one).await.unwrap();
    stock.sell(&Order::of_one("b", "b", SKU), &other).await.unwrap();
    let truth = stock.truth(SKU).await.unwrap();
    assert_eq!((units_of(&truth), truth.left), (vec![1, 1], 4));
}

#[tokio::test]
async fn an_order_is_one_order_however_often_it_is_asked_for() {
    let bench = bench!();
    for (sku, way) in [(1, Way::Conditional), (2, Way::ForUpdate { nowait: false })] {
        let stock = stock(&bench, way);
        stock.offer(sku, 5).await.unwrap();
        let order = Order::of_one(format!("o{sku}"), "u", sku);
        let sold = |repeated| Outcome::Sold { units: vec![1], repeated };
        assert_eq!(stock.sell(&order, &[]).await.unwrap(), sold(false));
        assert_eq!(stock.sell(&order, &[]).await.unwrap(), sold(true));
        let again = Order::of_one(format!("another{sku}"), "u", sku);
        assert_eq!(stock.sell(&again, &[]).await.unwrap(), Outcome::BoughtBefore { sku });
        assert_eq!(stock.truth(sku).await.unwrap().sales.len(), 1);
        // At the same time: one waits for the other's transaction.
        let order = Order::of_one(format!("twice{sku}"), "v", sku);
        let (one, other) = tokio::join!(stock.sell(&order, &[]), stock.sell(&order, &[]));
        let repeated = [one, other].map(|sold| match sold.unwrap() {
            Outcome::Sold { units, repeated } if units == [2] => repeated,
            other => panic!("{other:?}"),
        });
        assert_ne!(repeated[0], repeated[1]);
    }
}

/// COMMIT was sent and no reply came: it was committed, or it was not, and asking tells.
#[tokio::test]
async fn a_lost_commit_reply_is_settled_by_asking_for_the_order_again() {
    let bench = bench!();
    for (sku, when) in [(1, When::AfterItArrived), (2, When::BeforeItArrives)] {
        let proxy = Proxy::before(&bench, "COMMIT\0", when).await;
        let through =
            SqlStock::new(bench.host.clone(), proxy.endpoint(), options(Way::Conditional));
        let (through, direct) = (through.unwrap(), stock(&bench, Way::Conditional));
        direct.offer(sku, 5).await.unwrap();
        let order = Order::of_one(format!("o{sku}"), "u", sku);
        let sold = through.sell(&order, &[]).await;
        assert_eq!(proxy.cuts(), 1);
        let truth = direct.truth(sku).await.unwrap();
        match when {
            When::AfterItArrived => {
                let repeated = Outcome::Sold { units: vec![1], repeated: true };
                assert_eq!(sold, Ok(repeated));
                assert_eq!((truth.left, truth.sales.len()), (4, 1));
            }
            When::BeforeItArrives => {
                let error = sold.unwrap_err();
                assert!(matches!(error, SellError::Unreachable { .. }), "{error}");
                assert_eq!((truth.left, truth.sales.len()), (5, 0));
                let sold = through.sell(&order, &[]).await.unwrap();
                assert_eq!(sold, Outcome::Sold { units: vec![1], repeated: false });
            }
        }
    }
}

/// Each order waits for what the other has: whoever looks first after the deadlock timeout
/// is undone, and told.
#[tokio::test]
async fn two_skus_in_opposite_order_deadlock_and_one_is_told() {
    let bench = bench!();
    for (pair, way) in [
        (0, Way::Conditional),
        (2, Way::ForUpdate { nowait: false }),
        (4, optimistic(Check::Statement)),
    ] {
        let stock = stock(&bench, way);
        let (first, second) = (100 + pair, 101 + pair);
        for sku in [first, second] {
            stock.offer(sku, 100).await.unwrap();
        }
        let mut told = None;
        // They meet within a few tries, if not in the first.
        for round in 0..200 {
            let one = Order {
                key: format!("a{pair}-{round}"),
                user: format!("a{round}"),
                skus: vec![first, second],
            };
            let other = Order {
                key: format!("b{pair}-{round}"),
                user: format!("b{round}"),
                skus: vec![second, first],
            };
            let seen = stock.read(&[first, second]).await.unwrap();
            let (one, other) = tokio::join!(stock.sell(&one, &seen), stock.sell(&other, &seen));
            let failed = [one, other].into_iter().filter_map(Result::err).collect::<Vec<_>>();
            assert!(failed.len() < 2, "{failed:?}");
            if let Some(error) = failed.into_iter().next() {
                told = Some(error);
                break;
            }
        }
        let told = told.unwrap_or_else(|| panic!("{way:?}: no deadlock"));
        assert!(
            matches!(&told, SellError::RolledBack { code, message }
                if code == "40P01" && message == "deadlock detected"),
            "{told}"
        );
        let truth = stock.truth(first).await.unwrap();
        let sold = i64::try_from(truth.sales.len()).unwrap();
        assert_eq!(truth.left + sold, 100, "what was rolled back left nothing");
    }
}

/// Who waits for a hot row waits with a connection.
#[tokio::test]
async fn a_hot_row_exhausts_the_connections() {
    let bench = bench!();
    let way = Way::ForUpdate { nowait: false };
    let lock_timeout = Duration::from_millis(900);
    let options = SqlStockOptions {
        connections: 2,
        lock_timeout,
        command_timeout: Duration::from_millis(500),
        ..options(way)
    };
    let stock = SqlStock::new(bench.host.clone(), bench.endpoint(), options).unwrap();
    for sku in [SKU, OTHER] {
        stock.offer(sku, 5).await.unwrap();
    }
    let other = bench.client().await;
    other.batch_execute("BEGIN; SELECT * FROM stock WHERE id = 42 FOR UPDATE").await.unwrap();
    let hot = |name: &str| Order::of_one(name, name, SKU);
    let (a, b, cold) = (hot("a"), hot("b"), Order::of_one("c", "c", OTHER));
    let (a, b, cold) =
        tokio::join!(stock.sell(&a, &[]), stock.sell(&b, &[]), stock.sell(&cold, &[]));
    assert_eq!((a.unwrap(), b.unwrap()), (Outcome::Busy, Outcome::Busy));
    let usage = stock.usage();
    assert_eq!(usage.peak, 2, "{usage:?}");
    assert!(usage.longest_wait >= lock_timeout - Duration::from_millis(50), "{usage:?}");
    // Somebody whose row nobody has was kept out by those who wait.
    assert!(matches!(cold, Err(SellError::Unreachable { .. }) | Ok(Outcome::Sold { .. })));
    other.batch_execute("ROLLBACK").await.unwrap();
    let sold = stock.sell(&hot("a"), &[]).await.unwrap();
    assert_eq!(sold, Outcome::Sold { units: vec![1], repeated: false });
}
