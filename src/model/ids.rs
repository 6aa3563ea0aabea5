//! A type for every identity, so that one is never passed for another. All are strings on the
//! outside (JSON, flags, columns).

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes the text as it stands.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

macro_rules! generated_id {
    ($(#[$doc:meta])* $name:ident) => {
        id!($(#[$doc])* $name);

        impl $name {
            /// A new UUIDv7: unique, and ordered by the time it was made.
            pub fn generate() -> Self {
                Self(uuid::Uuid::now_v7().to_string())
            }
        }
    };
}

generated_id! {
    /// One immutable fact. Made once, never changed, the same at every delivery.
    EventId
}
id! {
    /// The business entity whose events must stay in order.
    AggregateId
}
id! {
    /// A consumer's name in its inbox.
    ConsumerName
}
generated_id! {
    /// Fences a claim: only the holder of the token may complete the rows it took.
    ClaimToken
}
generated_id! {
    /// One stored dead letter.
    DeadLetterId
}
generated_id! {
    /// One operator action.
    OperationId
}
generated_id! {
    /// One saga instance.
    SagaId
}
generated_id! {
    /// One reconciliation run.
    ScanId
}
generated_id! {
    /// One difference a scan found.
    FindingId
}
