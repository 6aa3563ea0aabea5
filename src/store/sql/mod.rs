//! One SQL implementation of the store port, rendered from the mapping, per dialect.
