-- Why: a message nobody will try again must be kept whole (bytes, all properties, headers with their
-- types) and counted: the next death of the same event is a new death, not a duplicate.
--
-- Times are microseconds since the epoch. Everything a message can bring is
-- nullable, so that storing it cannot fail. (consumer_name, event_id) is unique; a message
-- without an id is a row of its own. dead_letters_died serves pages and groups, dead_letters_first the
-- oldest age, the other two look-ups by event and by aggregate.
CREATE TABLE IF NOT EXISTS `dead_letters` (
  dead_letter_id TEXT NOT NULL,
  consumer_name TEXT NOT NULL,
  event_id TEXT NULL,
  aggregate_id TEXT NULL,
  aggregate_version INTEGER NULL,
  event_type TEXT NULL,
  message_at INTEGER NULL,
  failed_queue TEXT NULL,
  source_exchange TEXT NULL,
  source_routing_key TEXT NULL,
  dead_letter_queue TEXT NOT NULL,
  reason TEXT NULL,
  error_class TEXT NOT NULL,
  error_summary TEXT NULL,
  stack_digest TEXT NULL,
  delivery_count INTEGER NULL,
  retry_count INTEGER NULL,
  first_died_at INTEGER NOT NULL,
  last_died_at INTEGER NOT NULL,
  deaths INTEGER NOT NULL DEFAULT 1,
  replays INTEGER NOT NULL DEFAULT 0,
  last_replayed_at INTEGER NULL,
  producer_version TEXT NULL,
  consumer_version TEXT NULL,
  trace_id TEXT NULL,
  replay_allowed INTEGER NOT NULL DEFAULT 1,
  owner TEXT NULL,
  status TEXT NOT NULL DEFAULT 'open',
  note TEXT NULL,
  version INTEGER NOT NULL DEFAULT 1,
  content_type TEXT NULL,
  content_encoding TEXT NULL,
  properties TEXT NOT NULL,
  headers TEXT NOT NULL,
  payload BLOB NOT NULL,
  payload_bytes INTEGER NOT NULL,
  payload_sha256 TEXT NOT NULL,
  operation_id TEXT NULL,
  created_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  updated_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  PRIMARY KEY (dead_letter_id),
  CONSTRAINT dead_letters_status_is_known
    CHECK (status IN ('open', 'replaying', 'replayed', 'resolved', 'repaired', 'discarded')),
  CONSTRAINT dead_letters_deaths_count CHECK (deaths >= 1)
);
CREATE UNIQUE INDEX IF NOT EXISTS dead_letters_identity ON `dead_letters` (consumer_name, event_id);
CREATE INDEX IF NOT EXISTS dead_letters_died ON `dead_letters` (status, last_died_at, dead_letter_id);
CREATE INDEX IF NOT EXISTS dead_letters_first ON `dead_letters` (status, first_died_at, dead_letter_id);
CREATE INDEX IF NOT EXISTS dead_letters_event ON `dead_letters` (event_id);
CREATE INDEX IF NOT EXISTS dead_letters_aggregate ON `dead_letters` (aggregate_id, aggregate_version);

-- Every death, so that a redelivery of one death (the acknowledgement was lost) is told from the next
-- one: they differ in the fingerprint. deaths_recorded serves the rate on the overview.
CREATE TABLE IF NOT EXISTS dead_letter_deaths (
  dead_letter_id TEXT NOT NULL,
  death_no INTEGER NOT NULL,
  died_at INTEGER NOT NULL,
  queue_name TEXT NULL,
  reason TEXT NULL,
  error TEXT NULL,
  fingerprint TEXT NOT NULL,
  operation_id TEXT NULL,
  recorded_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  PRIMARY KEY (dead_letter_id, death_no)
);
CREATE INDEX IF NOT EXISTS deaths_fingerprint ON dead_letter_deaths (fingerprint);
CREATE INDEX IF NOT EXISTS deaths_recorded ON dead_letter_deaths (recorded_at);
