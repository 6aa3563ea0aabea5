//! Header names our own messages carry. Other clients' names are only read, in [`super::death`].

/// Times an operator replayed the event, set by `operate`.
pub const REPLAYS: &str = "x-redrive-replays";
/// The operation whose replay this delivery is, set by `operate`.
pub const OPERATION: &str = "x-redrive-operation";
/// A producer's word on replays: `never` forbids them.
pub const REPLAY: &str = "x-redrive-replay";
/// Queue whose consumer failed.
pub const FAILED_QUEUE: &str = "x-redrive-failed-queue";
/// Why it failed, in the broker's vocabulary (`rejected`) or ours.
pub const REASON: &str = "x-redrive-reason";
/// Unique for one death, so that two deaths of an event never look like one.
pub const DEATH_ID: &str = "x-redrive-death-id";
/// When it died, seconds since the epoch.
pub const DIED_AT: &str = "x-redrive-died-at";
/// Exchange the failed delivery came through.
pub const SOURCE_EXCHANGE: &str = "x-redrive-source-exchange";
/// Routing key of the failed delivery.
pub const SOURCE_ROUTING_KEY: &str = "x-redrive-source-routing-key";
/// Short class of the error: the grouping key.
pub const ERROR_CLASS: &str = "x-error-class";
/// One line of what went wrong.
pub const ERROR_SUMMARY: &str = "x-error-summary";
/// Version of the consumer that failed.
pub const CONSUMER_VERSION: &str = "x-consumer-version";
/// Version of the producer.
pub const PRODUCER_VERSION: &str = "x-producer-version";
/// Attempts the consumer made.
pub const RETRY_COUNT: &str = "x-retry-count";
/// A `user-id` that was cleared, since only its owner may publish under it (H-01).
pub const ORIGINAL_USER_ID: &str = "x-redrive-original-user-id";
/// An `expiration` that was cleared: a dead letter must not expire (H-05).
pub const ORIGINAL_EXPIRATION: &str = "x-redrive-original-expiration";
/// A `CC` that was cleared: a dead letter goes to one queue (H-02).
pub const ORIGINAL_CC: &str = "x-redrive-original-cc";
/// Tries a consumer has made of a message that waits in, or comes from, a retry queue.
pub const ATTEMPT: &str = "x-redrive-attempt";
/// Why it was not the last try.
pub const RETRY_REASON: &str = "x-redrive-retry-reason";
/// Why a message was put aside.
pub const PARKED: &str = "x-redrive-parked";

/// Headers that describe one death. A replay starts without them, or the next death would be told
/// with the last one's words.
pub const DEATH_NOTES: [&str; 12] = [
    FAILED_QUEUE,
    REASON,
    DEATH_ID,
    DIED_AT,
    SOURCE_EXCHANGE,
    SOURCE_ROUTING_KEY,
    ERROR_CLASS,
    ERROR_SUMMARY,
    CONSUMER_VERSION,
    RETRY_COUNT,
    ATTEMPT,
    RETRY_REASON,
];

/// The key under which a saga's command has its effect once; its result carries it back.
pub const IDEMPOTENCY_KEY: &str = "idempotency_key";
/// The saga a command belongs to.
pub const SAGA_ID: &str = "saga_id";
