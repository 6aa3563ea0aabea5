//! The in-process broker.
