//! Requests that only read, answered from this server's own tree.

use super::access;
use super::code::{Code, kind};
use super::codec::{Malformed, Reader, Writer};
use super::pipeline::Request;
use super::records::{Access, Identity, multi_header, permission, write_multi_header};
use super::reply;
use super::state::{Shared, State};
use super::tree::Node;
use super::watch::{Mode, Tables, Wanted};

impl From<Malformed> for Code {
    fn from(_: Malformed) -> Code {
        Code::MARSHALLING
    }
}

/// Answers a request of the connection `id`: writes the body of the reply.
pub(super) fn answer(
    shared: &Shared,
    state: &mut State,
    request: &Request,
    id: u64,
    body: &mut Writer,
) -> Result<(), Code> {
    let reader = &mut Reader::new(&request.body);
    match request.kind {
        kind::PING => Ok(()),
        kind::SYNC => {
            body.java_text(&reader.text()?);
            Ok(())
        }
        kind::EXISTS => exists(state, id, reader, body),
        kind::GET_DATA | kind::GET_CHILDREN | kind::GET_CHILDREN2 => {
            let (path, watch) = (reader.text()?, reader.boolean()?);
            look(state, request, request.kind, &path, watch.then_some(id), body)
        }
        kind::MULTI_READ => multi_read(shared, state, request, reader, body),
        kind::GET_ACL => get_access(state, request, reader, body),
        kind::GET_ALL_CHILDREN_NUMBER => {
            let path = reader.text()?;
            let node = state.tree.get(&path).ok_or(Code::NO_NODE)?;
            access::check(&node.access, permission::READ, &request.identities)?;
            body.count(state.tree.descendants(&path));
            Ok(())
        }
        kind::GET_EPHEMERALS => {
            let prefix = reader.text_or_null()?.unwrap_or_default();
            let all = matches!(prefix.trim(), "" | "/");
            let paths = state.tree.ephemerals.get(&request.session).into_iter().flatten();
            let paths: Vec<&str> =
                paths.map(String::as_str).filter(|path| all || path.starts_with(&prefix)).collect();
            body.java_texts(paths.into_iter());
            Ok(())
        }
        kind::WHO_AM_I => {
            body.count(request.identities.len());
            for Identity { scheme, id } in &*request.identities {
                let user = if scheme == "digest" { id.split(':').next().unwrap_or(id) } else { id };
                body.java_text(scheme).java_text(user);
            }
            Ok(())
        }
        _ => watching(shared, state, request.kind, id, reader, body),
    }
}

fn exists(
    state: &mut State,
    id: u64,
    reader: &mut Reader<'_>,
    body: &mut Writer,
) -> Result<(), Code> {
    let (path, watch) = (reader.text()?, reader.boolean()?);
    if path.contains('\0') {
        return Err(Code::BAD_ARGUMENTS);
    }
    if watch {
        state.watches.watch_data(&path, id);
    }
    state.tree.get(&path).ok_or(Code::NO_NODE)?.stat().write(body);
    Ok(())
}

/// Data or children of a znode, and a watch of them.
fn look(
    state: &mut State,
    request: &Request,
    kind: i32,
    path: &str,
    watcher: Option<u64>,
    body: &mut Writer,
) -> Result<(), Code> {
    let node = state.tree.get(path).ok_or(Code::NO_NODE)?;
    access::check(&node.access, permission::READ, &request.identities)?;
    write_node(kind, node, body);
    match watcher {
        Some(id) if kind == kind::GET_DATA => state.watches.watch_data(path, id),
        Some(id) => state.watches.watch_children(path, id),
        None => {}
    }
    Ok(())
}

fn write_node(kind: i32, node: &Node, body: &mut Writer) {
    if kind == kind::GET_DATA {
        body.buffer(node.data.as_deref());
    } else {
        body.java_texts(node.children.iter().map(|name| &**name));
    }
    if kind != kind::GET_CHILDREN {
        node.stat().write(body);
    }
}

/// Each part is answered for itself. Whoever asks for more than may wait for a client is closed.
fn multi_read(
    shared: &Shared,
    state: &mut State,
    request: &Request,
    reader: &mut Reader<'_>,
    body: &mut Writer,
) -> Result<(), Code> {
    let mut wanted = Vec::new();
    while let Some(kind) = multi_header(reader)? {
        if !matches!(kind, kind::GET_DATA | kind::GET_CHILDREN) {
            return Err(Code::MARSHALLING);
        }
        // The watch that follows the path is not set by a read of many.
        wanted.push((kind, reader.text()?));
        reader.boolean()?;
    }
    for (kind, path) in wanted {
        if body.bytes().len() > shared.settings.output_limit_bytes {
            // A few bytes may ask for a megabyte: nobody would be sent the whole.
            if let Some(client) = request.client.and_then(|id| state.clients.get_mut(&id)) {
                client.kill();
            }
            return Err(Code::MARSHALLING);
        }
        let mut part = Writer::new();
        match look(state, request, kind, &path, None, &mut part) {
            Ok(()) => {
                write_multi_header(body, kind, false, 0);
                body.raw(part.bytes());
            }
            Err(code) => {
                write_multi_header(body, kind::ERROR, false, code.0);
                body.int(code.0);
            }
        }
    }
    write_multi_header(body, -1, true, -1);
    Ok(())
}

/// Whoever may not change the list does not see what it has of passwords.
fn get_access(
    state: &mut State,
    request: &Request,
    reader: &mut Reader<'_>,
    body: &mut Writer,
) -> Result<(), Code> {
    let path = reader.text()?;
    let node = state.tree.get(&path).ok_or(Code::NO_NODE)?;
    let wanted = permission::READ | permission::ADMIN;
    access::check(&node.access, wanted, &request.identities)?;
    let sees_all = access::check(&node.access, permission::ADMIN, &request.identities).is_ok();
    let shown = node.access.iter().map(|access| {
        let mut access = access.clone();
        if !sees_all && access.who.scheme == "digest" {
            let name = access.who.id.split(':').next().unwrap_or_default().to_owned();
            access.who.id = name + ":x";
        }
        access
    });
    Access::write_list(&shown.collect::<Vec<_>>(), body);
    node.stat().write(body);
    Ok(())
}

/// What only concerns watches.
fn watching(
    shared: &Shared,
    state: &mut State,
    kind: i32,
    id: u64,
    reader: &mut Reader<'_>,
    body: &mut Writer,
) -> Result<(), Code> {
    match kind {
        kind::SET_WATCHES | kind::SET_WATCHES2 => {
            let mut wanted = Wanted {
                relative_zxid: reader.long()?,
                data: reader.texts()?,
                exist: reader.texts()?,
                child: reader.texts()?,
                ..Wanted::default()
            };
            if kind == kind::SET_WATCHES2 {
                wanted.persistent = reader.texts()?;
                wanted.recursive = reader.texts()?;
            }
            let mut events = Vec::new();
            let State { watches, tree, .. } = state;
            watches.set(tree, id, &wanted, &mut events);
            reply::tell_events(shared, state, &events);
        }
        kind::ADD_WATCH => {
            let path = reader.text()?;
            let mode = match reader.int()? {
                0 => Mode::Persistent,
                1 => Mode::Recursive,
                _ => return Err(Code::MARSHALLING),
            };
            state.watches.add(&path, id, mode);
            body.int(0);
        }
        kind::CHECK_WATCHES | kind::REMOVE_WATCHES => {
            let path = reader.text()?;
            let tables = Tables::from_number(reader.int()?).ok_or(Code::MARSHALLING)?;
            // A real server looks for the end of the parent's path there, and stumbles.
            if kind == kind::CHECK_WATCHES && !path.is_empty() && !path.contains('/') {
                return Err(Code::MARSHALLING);
            }
            let found = match kind {
                kind::CHECK_WATCHES => state.watches.contains(&path, tables),
                _ => state.watches.remove(&path, tables, id),
            };
            return if found { Ok(()) } else { Err(Code::NO_WATCHER) };
        }
        _ => return Err(Code::UNIMPLEMENTED),
    }
    Ok(())
}
