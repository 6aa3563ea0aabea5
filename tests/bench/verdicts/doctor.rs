//! The stage of the stories, and the load on it.

#[path = "../../stories/doctor/consumer.rs"]
mod consumer;
#[path = "../../stories/doctor/healthy.rs"]
pub mod healthy;
#[path = "../../stories/doctor/stage.rs"]
pub mod stage;
