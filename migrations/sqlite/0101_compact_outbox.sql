-- Why: the compact layout as its teams have it, for sandboxes and tests. A real one exists already and
-- is never changed by us; what it lacks is an index or two, which `redrive check` names.
-- outbox_available serves claims and pages, outbox_status_created ages, outbox_aggregate a sequence.
CREATE TABLE IF NOT EXISTS `outbox_events` (
  message_id TEXT NOT NULL,
  aggregate_type TEXT NOT NULL,
  aggregate_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  payload TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'PENDING',
  available_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  retry_count INTEGER NOT NULL DEFAULT 0,
  last_error TEXT NULL,
  created_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  updated_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  PRIMARY KEY (message_id)
);
CREATE INDEX IF NOT EXISTS outbox_available ON `outbox_events` (status, available_at, message_id);
CREATE INDEX IF NOT EXISTS outbox_status_created ON `outbox_events` (status, created_at, message_id);
CREATE INDEX IF NOT EXISTS outbox_aggregate ON `outbox_events` (aggregate_id, created_at);
