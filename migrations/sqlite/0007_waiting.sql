-- Why: an event that arrives before the one it builds on must neither be lost nor be marked as done. It
-- waits here, whole, until the missing version has been applied or its deadline is over. It has no
-- inbox row while it waits.
--
-- applied_versions holds the last version of each aggregate a consumer has applied. A consumer locks its
-- row before it decides "next", "stale" or "gap", so that a gap cannot close between the look and the
-- parking. The primary key serves every statement.
CREATE TABLE IF NOT EXISTS applied_versions (
  consumer_name TEXT NOT NULL,
  aggregate_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (consumer_name, aggregate_id)
);

-- attempted_at is the last attempt; the deadline is counted from it, so that an old event that was sent
-- again a moment ago is not given up at once. lease_until is set while a worker makes a dead letter of
-- the row. waiting_sequence finds the successor of a version, waiting_deadline what is overdue,
-- waiting_parked the oldest age.
CREATE TABLE IF NOT EXISTS waiting_events (
  consumer_name TEXT NOT NULL,
  event_id TEXT NOT NULL,
  aggregate_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  missing_version INTEGER NOT NULL,
  exchange_name TEXT NOT NULL,
  routing_key TEXT NOT NULL,
  properties TEXT NOT NULL,
  headers TEXT NOT NULL,
  payload BLOB NOT NULL,
  payload_sha256 TEXT NOT NULL,
  parked_at INTEGER NOT NULL,
  attempted_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 1,
  deadline_at INTEGER NOT NULL,
  lease_until INTEGER,
  PRIMARY KEY (consumer_name, event_id)
);
CREATE INDEX IF NOT EXISTS waiting_sequence ON waiting_events (consumer_name, aggregate_id, version);
CREATE INDEX IF NOT EXISTS waiting_deadline ON waiting_events (consumer_name, deadline_at);
CREATE INDEX IF NOT EXISTS waiting_parked ON waiting_events (consumer_name, parked_at);
