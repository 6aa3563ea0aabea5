//! Contract suites: what every adapter of a port must do, run against each of them.

mod store;
