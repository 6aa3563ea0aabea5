//! Every answer on a sandbox with rows.
