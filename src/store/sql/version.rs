//! What kind of server answers, from its version string. MariaDB may put `5.5.5-` in front.

/// Product and version of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Which product.
    pub product: Product,
    /// Major, minor, patch.
    pub version: (u32, u32, u32),
    /// e.g. `MariaDB 10.11.19`.
    pub shown: String,
}

/// Products this adapter knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// MySQL and what is built from it.
    MySql,
    /// MariaDB.
    MariaDb,
    /// SQLite.
    Sqlite,
}

impl Product {
    /// The word in facts and configuration.
    pub const fn word(self) -> &'static str {
        match self {
            Self::MySql => "mysql",
            Self::MariaDb => "mariadb",
            Self::Sqlite => "sqlite",
        }
    }
}

impl Server {
    /// Reads `SELECT VERSION()` of MySQL or MariaDB; `None` for anything else.
    pub fn parse_mysql(version: &str) -> Option<Self> {
        let is_mariadb = version.to_ascii_lowercase().contains("mariadb");
        let plain = if is_mariadb {
            version.strip_prefix("5.5.5-").unwrap_or(version)
        } else {
            version
        };
        let numbers = numbers(plain)?;
        let (product, name) = if is_mariadb {
            (Product::MariaDb, "MariaDB")
        } else {
            (Product::MySql, "MySQL")
        };
        Some(Self {
            product,
            version: numbers,
            shown: format!("{name} {}.{}.{}", numbers.0, numbers.1, numbers.2),
        })
    }

    /// Reads `sqlite_version()`.
    pub fn parse_sqlite(version: &str) -> Option<Self> {
        let numbers = numbers(version)?;
        Some(Self {
            product: Product::Sqlite,
            version: numbers,
            shown: format!("SQLite {version}"),
        })
    }

    /// Why this server cannot be used, if it cannot: the claim needs SKIP LOCKED, the clock of
    /// SQLite needs `unixepoch('subsec')`.
    pub fn too_old(&self) -> Option<String> {
        let (needed, minimum) = match self.product {
            Product::MySql => ((8, 0, 1), "MySQL 8.0.1"),
            Product::MariaDb => ((10, 6, 0), "MariaDB 10.6"),
            Product::Sqlite => ((3, 42, 0), "SQLite 3.42"),
        };
        (self.version < needed).then(|| {
            let why = if self.product == Product::Sqlite {
                "a clock with fractions of a second"
            } else {
                "SKIP LOCKED"
            };
            format!(
                "{} is too old: {why} needs {minimum} or newer; upgrade the server",
                self.shown
            )
        })
    }
}

fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .next()?
        .split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    let patch = parts.next().and_then(|p| p.parse().ok()).unwrap_or(0);
    Some((major, minor, patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("10.5.28-MariaDB", "MariaDB 10.5.28", true)]
    #[case("5.5.5-10.11.19-MariaDB-0+deb12u1", "MariaDB 10.11.19", false)]
    #[case("5.7.44-log", "MySQL 5.7.44", true)]
    #[case("8.0.36-28.1 Percona", "MySQL 8.0.36", false)]
    #[case("8.0.0-dmr", "MySQL 8.0.0", true)]
    #[case("11.8.2-MariaDB", "MariaDB 11.8.2", false)]
    #[case("9.7.4-2", "MySQL 9.7.4", false)]
    fn q_09_versions_are_read_and_old_ones_refused(
        #[case] version: &str,
        #[case] shown: &str,
        #[case] is_too_old: bool,
    ) {
        let server = Server::parse_mysql(version).expect("a version");
        assert_eq!(server.shown, shown);
        assert_eq!(server.too_old().is_some(), is_too_old, "{version}");
    }

    #[test]
    fn q_09_another_product_is_not_guessed() {
        assert_eq!(Server::parse_mysql("PostgreSQL 9.4"), None);
        assert_eq!(
            Server::parse_sqlite("3.50.2").map(|s| s.too_old().is_some()),
            Some(false)
        );
    }
}
