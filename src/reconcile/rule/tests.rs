//! Classification of keys, from evidence that comes bit by bit.
