//! What is seen when some of it cannot be: on fakes, because only fakes hang on command.

mod counting;
mod fakes;
mod feeding;
mod looking;
mod queueing;
mod real;
