//! Saying why: the story of one event, one aggregate, one saga or one operation. Reads through
//! `observe`, decides in pure functions, writes nothing.

pub mod journey;
