//! The PostgreSQL servers of a storm: a primary whose tables are made as a migration makes
//! them, and standbys that follow it asynchronously.

pub mod dialling;

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::lock::postgres::{Endpoint, schema};
use lockstorm::stock::sql::{self, SqlStock, SqlStockOptions, Way};

use super::client::{KEY, OTHER_KEY};
use super::frozen::{Freezing, Window};
use super::observe::postgres::{ClusterWatch, Crowd, TABLES};
use super::served::roll::Roll;
use crate::disk::Disk;
use crate::engine::Factory;
use crate::fault::promotion::Controls;
use crate::history::{Name, Recorder, What};
use crate::plan::{POOLER_NODE, Plan, StockPlace};
use crate::server::postgres::pooler::{Pooler, PoolerSettings};
use crate::server::postgres::{Control, Costs, Primary, Server, Settings};

/// The port of every PostgreSQL server.
pub const PORT: u16 = 5_432;

/// The port of the pooler.
pub const POOLER_PORT: u16 = 6_432;

/// What is sold: the sku of the sale, and the other one of orders of two.
pub const SKUS: [i64; 2] = [42, 7];

/// The group of the task that makes the tables.
const MIGRATION: &str = "postgres-migration";

/// How long a step of the migration may take, and the wait before it is tried again.
const STEP: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(50);

/// How long a standby waits before it connects again: a tenth of PostgreSQL's default, which
/// is half of a storm.
const RECONNECT: Duration = Duration::from_millis(500);

/// The servers of one storm, through all their incarnations.
pub struct Cluster {
    plan: Plan,
    recorder: Recorder,
    watch: Arc<ClusterWatch>,
    controls: Controls,
}

impl Cluster {
    /// The servers of `plan`; `roll` knows the clients, where they are programs outside.
    pub fn new(plan: &Plan, recorder: &Recorder, roll: Option<Arc<Roll>>) -> Arc<Self> {
        let first = first(plan).into();
        let keys = [KEY, OTHER_KEY];
        let lease_us = plan.lock.lease.0;
        let watch = ClusterWatch::serving(recorder.clone(), first, lease_us, &keys, roll);
        let (plan, recorder) = (plan.clone(), recorder.clone());
        Arc::new(Cluster { plan, recorder, watch, controls: Controls::default() })
    }

    /// Builds the server `name`, whose files are on `disk`.
    pub(super) fn factory(
        self: &Arc<Self>,
        name: &Name,
        disk: &Disk,
        freezing: &Option<Arc<Freezing>>,
    ) -> Factory {
        let (cluster, name, disk) = (self.clone(), name.clone(), disk.clone());
        let freezing = freezing.clone();
        let watch = self.watch.of(name.clone());
        Arc::new(move |host| {
            watch.started();
            let files = disk.mount(&host);
            let settings = cluster.settings(&name);
            let is_first = settings.primary.is_none();
            let server = Server::new(host.clone(), settings, files, watch.clone());
            cluster.controls.enter(name.clone(), server.control());
            if let Some(freezing) = &freezing {
                freezing.enter(&name, Window::Postgres(server.control()));
            }
            let plan = is_first.then(|| cluster.plan.clone());
            let (recorder, name) = (cluster.recorder.clone(), name.clone());
            Box::pin(async move {
                if let Some(plan) = plan {
                    // It may be run again, and finishes what a crash has interrupted.
                    host.clone().spawn(MIGRATION, async move { migrate(host, &plan).await });
                }
                super::scene::ended(&recorder, &name, server.run().await);
            })
        })
    }

    /// Builds the pooler before the server.
    pub fn pooler_factory(&self, name: &Name) -> Factory {
        let settings = PoolerSettings {
            port: POOLER_PORT,
            server: format!("{}:{PORT}", first(&self.plan)),
            pool_size: usize::from(self.plan.topology.pooler),
            ..PoolerSettings::default()
        };
        let (recorder, name) = (self.recorder.clone(), name.clone());
        Arc::new(move |host| {
            let pooler = Pooler::new(host, settings.clone());
            let (recorder, name) = (recorder.clone(), name.clone());
            Box::pin(async move { super::scene::ended(&recorder, &name, pooler.run().await) })
        })
    }

    /// The doors to the servers.
    pub fn controls(&self) -> Controls {
        self.controls.clone()
    }

    /// How many came to the servers.
    pub fn crowd(&self) -> Crowd {
        self.watch.crowd()
    }

    /// The primary of the newest timeline, which is where an operator sends everybody in the
    /// end.
    fn newest(&self) -> Option<(Name, Control)> {
        let primaries =
            self.controls.all().into_iter().filter(|(_, control)| !control.is_standby());
        // Of one timeline there is one; the first name decides nothing.
        primaries.rev().max_by_key(|(_, control)| control.timeline())
    }

    /// The committed rows of a table at that primary, and its name.
    pub fn rows(&self, table: &str) -> Option<(Name, Vec<TableRow>)> {
        self.newest().map(|(name, control)| (name, control.rows(table)))
    }

    /// Tells what the books of the stock in SQL say.
    pub fn tell_books(&self, recorder: &Recorder) {
        let Some((name, control)) = self.newest() else { return };
        let of_sku = |table: &str, column: &str| {
            let rows = control.rows(table).into_iter();
            let sku = SKUS[0].to_string();
            rows.filter(move |row| field(row, column) == Some(sku.as_str())).collect::<Vec<_>>()
        };
        let stock = of_sku("stock", "id");
        let Some(row) = stock.first() else { return };
        let number = |name| field(row, name).and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
        let (units, left) = (u32::try_from(number("units")).unwrap_or(0), number("count"));
        let sale = |row: &Vec<(String, Option<String>)>| {
            let unit = field(row, "unit")?.parse::<u32>().ok()?;
            Some((unit, Name::from(field(row, "order_key")?)))
        };
        let mut sales: Vec<(u32, Name)> = of_sku("ledger", "sku").iter().filter_map(sale).collect();
        sales.sort();
        recorder.record(&name, What::Ledger { units, sales });
        recorder.record(&name, What::StockCounted { units, left, reserved: 0 });
    }

    fn settings(&self, name: &str) -> Settings {
        let first = first(&self.plan);
        let is_first = *first == *name;
        Settings {
            port: PORT,
            primary: (!is_first).then_some(Primary { host: first, port: PORT }),
            name: name.to_owned(),
            replication_retry: RECONNECT,
            observed_tables: TABLES.iter().map(|table| (*table).to_owned()).collect(),
            max_connections: usize::from(self.plan.topology.max_connections),
            costs: Costs::MEASURED,
            ..Settings::default()
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cluster").finish_non_exhaustive()
    }
}

/// A row: the name of each column, and what is in it as text.
pub type TableRow = Vec<(String, Option<String>)>;

/// What is in this column.
pub fn field<'r>(row: &'r [(String, Option<String>)], name: &str) -> Option<&'r str> {
    row.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.as_deref())
}

/// The primary at first.
fn first(plan: &Plan) -> String {
    plan.topology.postgres_nodes().into_iter().next().unwrap_or_default()
}

/// Where clients look for the primary: at the pooler before it, if there is one; else at each
/// server, the first one first.
pub fn endpoint(plan: &Plan) -> Endpoint {
    if plan.topology.pooler > 0 {
        return Endpoint::at(format!("{POOLER_NODE}:{POOLER_PORT}"));
    }
    let nodes = plan.topology.postgres_nodes().into_iter();
    Endpoint::among(nodes.map(|node| format!("{node}:{PORT}")))
}

/// Makes the tables, and puts what is sold on sale.
async fn migrate(host: Host, plan: &Plan) {
    let endpoint = Endpoint::at(format!("{}:{PORT}", first(plan)));
    let has_stock = plan.workload.stock != StockPlace::Memory;
    loop {
        if make(&host, &endpoint, has_stock.then_some(plan.workload.units)).await {
            return;
        }
        host.sleep(AGAIN).await;
    }
}

async fn make(host: &Host, endpoint: &Endpoint, units: Option<u32>) -> bool {
    if schema::install(host, endpoint, STEP).await.is_err() {
        return false;
    }
    let Some(units) = units else { return true };
    if sql::install(host, endpoint, STEP).await.is_err() {
        return false;
    }
    let options = SqlStockOptions::new(Way::Conditional);
    let Ok(stock) = SqlStock::new(host.clone(), endpoint.clone(), options) else { return false };
    for sku in SKUS {
        if stock.offer(sku, units).await.is_err() {
            return false;
        }
    }
    true
}
