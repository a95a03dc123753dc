//! `lockstorm serve`: a simulated server on a TCP port.

use lockstorm::Host;
use lockstorm_sim::server::redis::Server;

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
        let host = Host::tokio("redis-1");
        let listener = host.listen(*port).await.map_err(|error| {
            Failure::usage(format!("port {port}: {error}; choose another with --port"))
        })?;
        println!("redis listens on 127.0.0.1:{}", listener.port());
        Server::alone(host).run_on(listener).await;
        Ok(exit::SAFE)
    })
}
