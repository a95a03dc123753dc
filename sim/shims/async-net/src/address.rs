//! What can be connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A place to connect to, as `name:port`. It is resolved by whoever connects: on a
/// simulated node names are those of nodes, which no resolver of this machine knows.
pub trait AsyncToSocketAddrs {
    /// The place as `name:port`.
    fn place(&self) -> String;
}

/// Things that are written as places.
macro_rules! written {
    ($($written:ty),*) => {$(
        impl AsyncToSocketAddrs for $written {
            fn place(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

written!(SocketAddr, SocketAddrV4, SocketAddrV6, str, String);

/// Addresses beside a port.
macro_rules! beside_port {
    ($($address:ty),*) => {$(
        impl AsyncToSocketAddrs for ($address, u16) {
            fn place(&self) -> String {
                SocketAddr::from((self.0, self.1)).to_string()
            }
        }
    )*};
}

beside_port!(IpAddr, Ipv4Addr, Ipv6Addr);

impl AsyncToSocketAddrs for (&str, u16) {
    fn place(&self) -> String {
        match self.0.parse::<IpAddr>() {
            Ok(address) => SocketAddr::from((address, self.1)).to_string(),
            Err(_) => format!("{}:{}", self.0, self.1),
        }
    }
}

impl AsyncToSocketAddrs for (String, u16) {
    fn place(&self) -> String {
        (self.0.as_str(), self.1).place()
    }
}

impl<T: AsyncToSocketAddrs + ?Sized> AsyncToSocketAddrs for &T {
    fn place(&self) -> String {
        (**self).place()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_as_a_resolver_reads_them() {
        assert_eq!(("zk-1", 2181).place(), "zk-1:2181");
        assert_eq!(("::1".to_owned(), 2181).place(), "[::1]:2181");
        assert_eq!((&"192.168.0.1:7").place(), "192.168.0.1:7");
        assert_eq!((Ipv6Addr::LOCALHOST, 7).place(), "[::1]:7");
        assert_eq!(SocketAddr::from(([127, 0, 0, 1], 7)).place(), "127.0.0.1:7");
    }
}
