//! The nouns of a message pipeline and their legal transitions. Pure: no I/O, no async, no SQL and
//! no AMQP client.

pub mod alert;
pub mod audit;
pub mod count;
pub mod dead_letter;
pub mod filter;
pub mod ids;
pub mod inbox;
pub mod message;
pub mod numbers;
pub mod operation;
pub mod outbox;
pub mod page;
pub mod saga;
pub mod scan;
pub mod trouble;
pub mod waiting;
