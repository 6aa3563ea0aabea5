//! Scans on the embedded pipeline.
