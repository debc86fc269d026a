//! A store that checks fencing tokens: a table in SQLite.
//!
//! Each row keeps the largest token with which it was written, and a write with a smaller token changes nothing. One
//! statement compares and writes, so no other write can happen in between. The row is on the disk before the writer
//! gets its answer.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Result, params};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Store(Connection);

impl Store {
    /// Opens the store in `file`, and creates the file if it does not exist.
    pub(crate) fn open(file: &Path) -> Result<Self> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS counters (
                name  TEXT PRIMARY KEY,
                value INTEGER NOT NULL DEFAULT 0,
                token INTEGER NOT NULL DEFAULT 0
            )",
        )?;
        Ok(Self(connection))
    }

    /// Returns the value of a counter for the holder with this fencing token, or 0 if the counter was never written.
    /// From now on the store refuses smaller tokens. Returns `None` if the store refuses this token.
    ///
    /// If reads did not record the token, the store would accept a write of an older holder between this read and the
    /// newer holder's write. The newer holder's write would then undo the older holder's change.
    pub(crate) fn read(&self, name: &str, token: u64) -> Result<Option<i64>> {
        let mut row = self.0.prepare(
            "INSERT INTO counters (name, token) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET token = ?2 WHERE token <= ?2 RETURNING value",
        )?;
        row.query_row(params![name, number(token)], |row| row.get(0))
            .optional()
    }

    /// Writes the value of a counter for the holder with this fencing token. Returns `false` if a holder with a larger
    /// token has used the counter before.
    pub(crate) fn write(&self, name: &str, value: i64, token: u64) -> Result<bool> {
        let written = self.0.execute(
            "INSERT INTO counters (name, value, token) VALUES (?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET value = ?2, token = ?3 WHERE token <= ?3",
            params![name, value, number(token)],
        )?;
        Ok(written == 1)
    }
}

/// Returns a fencing token as the database stores it. Tokens are below 2^53.
fn number(token: u64) -> i64 {
    i64::try_from(token).unwrap_or(i64::MAX)
}
