//! What `DEBUG` does to the one thread: it sleeps, it writes and reads everything anew.

use std::sync::Arc;
use std::time::Duration;

use super::super::command::{Call, Failure};
use super::super::rdb;
use super::super::script::functions::Functions;
use super::super::state::{DATABASES, Shared, State};
use super::append::Phase;
use super::{load, occupy};

/// `DEBUG SLEEP`: nobody is served meanwhile.
pub(in super::super) fn sleep(call: &mut Call<'_>, time: Duration) {
    let sleeping = call.shared.host.sleep(time);
    if !call.may_block {
        // There is nobody to tell in the middle of a transaction.
        call.reply.ok();
        occupy(call.shared, call.state, None, async move {
            sleeping.await;
            Ok("OK")
        });
        return;
    }
    occupy(call.shared, call.state, Some(call.client), async move {
        sleeping.await;
        Ok("OK")
    });
}

/// `DEBUG RELOAD`: the data set through a snapshot and back.
pub(in super::super) fn reload(call: &mut Call<'_>) -> Result<(), Failure> {
    let file = rdb::write_file(call.state);
    let limit = call.shared.settings.resync_limit_bytes;
    let contents = rdb::read(&file, DATABASES, limit).map_err(|error| {
        Failure::from(format!("ERR Error trying to load the RDB dump: {error}"))
    })?;
    let functions = Functions::rebuilt(&call.shared.settings, &contents.libraries)?;
    let mut databases = contents.databases;
    if !call.state.is_replica() {
        load::drop_expired(&mut databases, call.shared.wall_ms());
    }
    replace(call.state, databases, functions);
    call.reply.ok();
    Ok(())
}

/// `DEBUG LOADAOF`: the data set from the append-only file, as it has been written.
pub(in super::super) fn load_append_only(call: &mut Call<'_>) -> Result<(), Failure> {
    if call.state.kept.append.phase != Phase::On {
        // Without one there is nothing to read, and the data set is empty then.
        return Err("ERR Error trying to load the AOF files, check server logs".into());
    }
    super::append::write(call.shared, call.state);
    let shared = call.shared.clone();
    occupy(call.shared, call.state, Some(call.client), async move {
        match read_again(&shared).await {
            Ok(()) => Ok("OK"),
            Err(_) => Err("ERR Error trying to load the AOF files, check server logs".to_owned()),
        }
    });
    Ok(())
}

async fn read_again(shared: &Arc<Shared>) -> Result<(), String> {
    let (manifest, files) = {
        let state = shared.lock();
        (state.kept.append.manifest.clone(), state.kept.files.clone())
    };
    let files = files.ok_or("this server has no disk")?;
    let mut loader = load::Loader::new(shared);
    for part in manifest.parts() {
        let bytes = files.read(&part.path()).await.map_err(|error| error.to_string())?;
        loader.load(&bytes)?;
    }
    let (databases, functions) = loader.take();
    replace(&mut shared.lock(), databases, functions);
    Ok(())
}

fn replace(
    state: &mut State,
    databases: Vec<super::super::keyspace::Database>,
    functions: Option<Box<Functions>>,
) {
    let old = std::mem::replace(&mut state.databases, databases);
    state.functions = functions;
    state.touch_replaced(&old, &(0..DATABASES));
}
