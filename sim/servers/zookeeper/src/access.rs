//! Who may do what: the schemes `world`, `auth`, `digest` and `ip`.
//!
//! A client is whoever its address says and whoever it has proved to be with a password
//! (`addauth digest name:password`). There is no superuser, no SASL, no certificate.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use base64::Engine as _;
use sha1::{Digest as _, Sha1};

use super::code::Code;
use super::records::{Access, Identity};

/// No list has more entries than a request has room for, though one entry may stand for all
/// identities of who asks.
const MOST_ENTRIES: usize = 100_000;

/// What a list counts for in the tree, bytes: nothing if it is the one that nearly every
/// znode has.
pub(super) fn size_bytes(list: &[Access]) -> usize {
    let entry = |access: &Access| 64 + access.who.scheme.len() + access.who.id.len();
    match list {
        [only] if *only == Access::open() => 0,
        list => list.iter().map(entry).sum(),
    }
}

/// Whoever knows `name:password`, as access lists name them
/// (`DigestAuthenticationProvider.generateDigest`).
pub(super) fn digest_identity(secret: &[u8]) -> Option<Identity> {
    let name = secret.split(|byte| *byte == b':').next()?;
    let hash = Sha1::digest(secret);
    let hash = base64::engine::general_purpose::STANDARD.encode(hash);
    Some(Identity::new("digest", format!("{}:{hash}", String::from_utf8_lossy(name))))
}

/// Whether somebody who is all of `identities` may do `wanted`, the sum of the permissions of
/// which one is needed.
pub(super) fn check(list: &[Access], wanted: i32, identities: &[Identity]) -> Result<(), Code> {
    let may = |access: &Access| access.permissions & wanted != 0 && is_meant(access, identities);
    match list.is_empty() || list.iter().any(may) {
        true => Ok(()),
        false => Err(Code::NO_AUTH),
    }
}

fn is_meant(access: &Access, identities: &[Identity]) -> bool {
    let who = &access.who;
    if who.scheme == "world" && who.id == "anyone" {
        return true;
    }
    identities.iter().filter(|identity| identity.scheme == who.scheme).any(|identity| {
        match who.scheme.as_str() {
            "ip" => Network::read(&who.id).is_some_and(|network| network.holds(&identity.id)),
            _ => identity.id == who.id,
        }
    })
}

/// A list as it is kept: without repetitions, `auth` replaced by who asks
/// (`PrepRequestProcessor.fixupACL`).
pub(super) fn settle(wanted: &[Access], identities: &[Identity]) -> Result<Vec<Access>, Code> {
    let mut settled = Vec::new();
    let mut met = BTreeSet::new();
    for access in wanted {
        if !met.insert(access) {
            continue;
        }
        if settled.len() > MOST_ENTRIES {
            return Err(Code::INVALID_ACL);
        }
        let who = &access.who;
        match who.scheme.as_str() {
            "world" if who.id == "anyone" => settled.push(access.clone()),
            "auth" => {
                let before = settled.len();
                // An address is nobody's proof.
                let proved = identities.iter().filter(|identity| identity.scheme != "ip");
                settled.extend(proved.map(|identity| Access {
                    permissions: access.permissions,
                    who: identity.clone(),
                }));
                if settled.len() == before {
                    return Err(Code::INVALID_ACL);
                }
            }
            "digest" if who.id.split(':').count() == 2 => settled.push(access.clone()),
            "ip" if Network::read(&who.id).is_some() => settled.push(access.clone()),
            _ => return Err(Code::INVALID_ACL),
        }
    }
    match settled.is_empty() {
        true => Err(Code::INVALID_ACL),
        false => Ok(settled),
    }
}

/// An address and how many of its bits count.
struct Network {
    bits: u32,
    mask: u32,
}

impl Network {
    fn read(text: &str) -> Option<Network> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, length.parse::<u32>().ok()?),
            None => (text, 32),
        };
        let bits = u32::from(address.parse::<Ipv4Addr>().ok()?);
        let mask = match length {
            0 => 0,
            1..=32 => u32::MAX << (32 - length),
            _ => return None,
        };
        Some(Network { bits, mask })
    }

    fn holds(&self, address: &str) -> bool {
        let address = address.parse::<Ipv4Addr>().map(u32::from);
        address.is_ok_and(|address| address & self.mask == self.bits & self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::permission;

    fn access(permissions: i32, scheme: &str, id: &str) -> Access {
        Access { permissions, who: Identity::new(scheme, id) }
    }

    #[test]
    fn whoever_is_named_may() {
        let me = [Identity::new("ip", "10.1.2.3"), digest_identity(b"super:test").unwrap()];
        // The example of ZooKeeper's documentation.
        assert_eq!(me[1].id, "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
        let may = |list: &[Access]| check(list, permission::READ, &me).is_ok();
        assert!(may(&[]) && may(&[Access::open()]));
        assert!(may(&[access(1, "ip", "10.1.0.0/16")]) && may(&[access(1, "ip", "10.1.2.3")]));
        assert!(may(&[access(1, "digest", &me[1].id)]));
        assert!(!may(&[access(2, "digest", &me[1].id)]));
        assert!(!may(&[access(31, "ip", "10.2.0.0/16")]));
    }

    #[test]
    fn lists_are_settled() {
        let me = [Identity::new("ip", "10.1.2.3"), digest_identity(b"a:b").unwrap()];
        assert_eq!(settle(&[], &me), Err(Code::INVALID_ACL));
        assert_eq!(settle(&[access(1, "auth", "")], &me[..1]), Err(Code::INVALID_ACL));
        assert_eq!(settle(&[access(1, "auth", "")], &me), Ok(vec![access(1, "digest", &me[1].id)]));
        let open = [Access::open(), Access::open()];
        assert_eq!(settle(&open, &me), Ok(vec![Access::open()]));
        for (scheme, id) in [("ip", "10"), ("ip", "1.2.3.4/33"), ("digest", "a"), ("x509", "a")] {
            assert_eq!(settle(&[access(1, scheme, id)], &me), Err(Code::INVALID_ACL));
        }
    }
}
