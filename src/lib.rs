//! redrive: the console for a stuck message pipeline.
//!
//! In reading order: [`base`] (what knows nothing of pipelines), [`model`] (nouns and transitions),
//! [`mapping`] (whose column is what), [`config`], the two ports [`store`] and [`broker`], [`ports`]
//! (one context, connected), the services [`pipeline`], [`operate`], [`observe`], [`diagnose`],
//! [`exporter`], [`reconcile`],
//! [`sandbox`], [`drill`], then
//! [`assembly`], and the two faces [`cli`] and [`tui`]. Who may know whom is checked by
//! `tests/tidy.rs` and explained in `docs/ARCHITECTURE.md`.

pub mod alert;
pub mod assembly;
pub mod base;
pub mod broker;
pub mod cli;
pub mod config;
pub mod diagnose;
pub mod drill;
pub mod exporter;
pub mod mapping;
pub mod model;
pub mod observe;
pub mod operate;
pub mod pipeline;
pub mod ports;
pub mod reconcile;
pub mod sandbox;
pub mod store;
pub mod tui;
