//! `lockstorm serve`: a simulated server on a TCP port.

use std::sync::Arc;

use lockstorm::Host;
use lockstorm_sim::server::redis::observe::Unobserved;
use lockstorm_sim::server::redis::{ConfigFile, ReplicationGate, Server, Settings};

use super::arguments::ServeVerb;
use super::exit::{self, Failure};

/// Serves until interrupted.
pub fn serve(verb: &ServeVerb) -> Result<u8, Failure> {
    let ServeVerb::Redis { port } = verb;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::internal)?;
    runtime.block_on(async {
        let settings = Settings { port: *port, ..Settings::default() };
        let server = Server::new(
            Host::tokio("redis-1"),
            settings,
            ConfigFile::new(None),
            ReplicationGate::default(),
            Arc::new(Unobserved),
        );
        let listening = server.bind().await.map_err(|error| {
            Failure::usage(format!("port {port}: {error}; choose another with --port"))
        })?;
        println!("redis listens on 127.0.0.1:{}", listening.port());
        listening.run().await.map_err(Failure::internal)?;
        Ok(exit::SAFE)
    })
}
