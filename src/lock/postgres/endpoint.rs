//! Where the database is, and who asks.

use std::fmt;

use super::options::InvalidOptions;

/// A PostgreSQL primary, by the addresses at which it may be.
///
/// With one address, that server is asked whatever it is. With several, the first that
/// takes writes (`transaction_read_only` is off) is the primary, as libpq finds it with
/// `target_session_attrs=read-write`. An old primary that was not told of its successor
/// takes writes as well: no list of addresses keeps it from being found.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `name:port` of each server, in the order in which they are tried.
    pub servers: Vec<String>,
    /// The database's name.
    pub database: String,
    /// The role to log in as.
    pub user: String,
    /// The role's password; `None` where none is asked for.
    pub password: Option<String>,
}

impl Endpoint {
    /// One server, the database and the role `postgres`, no password.
    pub fn at(server: impl Into<String>) -> Self {
        Endpoint::among([server.into()])
    }

    /// Several servers of which one is the primary; otherwise the same.
    pub fn among(servers: impl IntoIterator<Item = String>) -> Self {
        Endpoint {
            servers: servers.into_iter().collect(),
            database: "postgres".to_owned(),
            user: "postgres".to_owned(),
            password: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), InvalidOptions> {
        if self.servers.is_empty() {
            return Err(InvalidOptions::NoServers);
        }
        for address in &self.servers {
            let port = address.rsplit_once(':').filter(|(name, _)| !name.is_empty());
            if port.and_then(|(_, port)| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
                return Err(InvalidOptions::Address { address: address.clone() });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Endpoint")
            .field("servers", &self.servers)
            .field("database", &self.database)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_connected_to_are_refused() {
        assert_eq!(Endpoint::at("pg-1:5432").check(), Ok(()));
        assert_eq!(Endpoint::among([]).check(), Err(InvalidOptions::NoServers));
        for address in ["pg-1", "pg-1:", ":5432", "pg-1:0", "pg-1:99999"] {
            let refused = Endpoint::at(address).check().unwrap_err().to_string();
            assert!(refused.contains(address), "{refused}");
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let endpoint = Endpoint { password: Some("secret".to_owned()), ..Endpoint::at("pg-1:1") };
        assert!(!format!("{endpoint:?}").contains("secret"));
    }
}
