//! Where the master is: written down, or asked of sentinels.

use super::options::InvalidOptions;

/// Where the lock's Redis is to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// At this address, `name:port`, always.
    Direct(String),
    /// Where a sentinel says that the master is, asked anew for each connection.
    /// What is found there is used only if it calls itself a master.
    Sentinel {
        /// Addresses of sentinels, `name:port`, asked in this order until one answers.
        sentinels: Vec<String>,
        /// The name under which they monitor the master.
        master_name: String,
    },
}

impl Endpoint {
    /// Whether it could be connected to, by its form.
    pub(crate) fn check(&self) -> Result<(), InvalidOptions> {
        match self {
            Endpoint::Direct(address) => check_address(address),
            Endpoint::Sentinel { sentinels, master_name } => {
                if sentinels.is_empty() {
                    return Err(InvalidOptions::NoSentinels);
                }
                if master_name.is_empty() {
                    return Err(InvalidOptions::NoMasterName);
                }
                sentinels.iter().try_for_each(|address| check_address(address))
            }
        }
    }
}

fn check_address(address: &str) -> Result<(), InvalidOptions> {
    match address.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
        _ => Err(InvalidOptions::Address { address: address.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_name_and_a_port() {
        for good in ["redis-1:6379", "127.0.0.1:1", "[::1]:6379"] {
            assert_eq!(Endpoint::Direct(good.to_owned()).check(), Ok(()), "{good}");
        }
        for bad in ["", "redis-1", ":6379", "redis-1:", "redis-1:99999", "redis-1:x"] {
            assert!(Endpoint::Direct(bad.to_owned()).check().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sentinel_endpoint_needs_sentinels_and_a_name() {
        let endpoint = |sentinels: &[&str], name: &str| Endpoint::Sentinel {
            sentinels: sentinels.iter().map(|address| (*address).to_owned()).collect(),
            master_name: name.to_owned(),
        };
        assert_eq!(endpoint(&[], "mymaster").check(), Err(InvalidOptions::NoSentinels));
        assert_eq!(endpoint(&["s:26379"], "").check(), Err(InvalidOptions::NoMasterName));
        assert_eq!(endpoint(&["s:26379"], "mymaster").check(), Ok(()));
        assert!(endpoint(&["s:26379", "t"], "mymaster").check().is_err());
    }
}
