-- Why: the row a consumer writes in the transaction of its effect is what makes a second delivery
-- harmless, and the proof that a replay was consumed. The payload's digest tells "the same again"
-- from "the same id with other content". inbox_processed serves the rate on the overview.
-- The id has room for message ids of other people's clients.
CREATE TABLE IF NOT EXISTS `consumer_inbox` (
  consumer_name TEXT NOT NULL,
  event_id TEXT NOT NULL,
  payload_sha256 TEXT NOT NULL,
  processed_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  PRIMARY KEY (consumer_name, event_id)
);
CREATE INDEX IF NOT EXISTS inbox_processed ON `consumer_inbox` (consumer_name, processed_at);
