//! Pieces of screen that know nothing of pipelines.

pub mod doc;
pub mod field;
pub mod hex;
pub mod json;
pub mod list;
pub mod paint;
pub mod sparkline;
pub mod table;
pub mod toast;
