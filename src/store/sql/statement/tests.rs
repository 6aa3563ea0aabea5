//! Snapshots of every statement of every layout and dialect.
