//! Journeys: everything known about one event, aggregate, saga or operation, in time order, over all
//! services.
//!
//! `find` says what an id means, `gather` reads it by key, `story` tells it (pure), `lanes` lays it out
//! for a terminal. What could not be read is in the story as such and never as absent.

mod facts;
mod find;
mod gather;
pub mod lanes;
pub mod story;

pub use facts::{Role, Subject};
pub use find::TraceError;
pub use story::{Evidence, Finding, Moment, Story, Tone, What};

use crate::observe::Observer;

/// The story of whatever has this id.
///
/// # Errors
/// [`TraceError`] when the id means nothing, too much, or cannot be looked for.
pub async fn trace(observer: &Observer, id: &str) -> Result<Story, TraceError> {
    let subject = find::find(observer, id.trim()).await?;
    Ok(tell(observer, subject).await)
}

/// The story of a subject that is known.
pub async fn tell(observer: &Observer, subject: Subject) -> Story {
    let facts = gather::Gatherer::new(observer).gather(subject).await;
    Story::of(&facts)
}
