-- Why: events must be written in the business transaction, and claimed, watched and repaired without
-- ever walking the backlog.
--
-- Times are microseconds since the epoch. The payload is text:
-- the bytes must go out as they were written.
-- outbox_due serves claims and the pending and failed pages, outbox_lease the lease pane,
-- outbox_created ages and the newest-first page, outbox_aggregate a sequence. It is not unique: a
-- repaired event keeps the version of its original.
CREATE TABLE IF NOT EXISTS `outbox_events` (
  event_id TEXT NOT NULL,
  aggregate_id TEXT NOT NULL,
  aggregate_version INTEGER NOT NULL,
  event_type TEXT NOT NULL,
  schema_version INTEGER NOT NULL DEFAULT 1,
  payload TEXT NOT NULL,
  headers TEXT NULL,
  exchange_name TEXT NULL,
  routing_key TEXT NULL,
  trace_id TEXT NULL,
  causation_id TEXT NULL,
  status TEXT NOT NULL DEFAULT 'pending',
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  claim_token TEXT NULL,
  lease_until INTEGER NULL,
  last_error TEXT NULL,
  created_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  sent_at INTEGER NULL,
  PRIMARY KEY (event_id),
  CONSTRAINT outbox_status_is_known CHECK (status IN ('pending', 'sending', 'sent', 'failed')),
  CONSTRAINT outbox_claim_is_whole CHECK (status <> 'sending' OR (claim_token IS NOT NULL AND lease_until IS NOT NULL)),
  CONSTRAINT outbox_attempts_count CHECK (attempts >= 0)
);
CREATE INDEX IF NOT EXISTS outbox_due ON `outbox_events` (status, next_attempt_at, event_id);
CREATE INDEX IF NOT EXISTS outbox_lease ON `outbox_events` (status, lease_until, event_id);
CREATE INDEX IF NOT EXISTS outbox_created ON `outbox_events` (status, created_at, event_id);
CREATE INDEX IF NOT EXISTS outbox_aggregate ON `outbox_events` (aggregate_id, aggregate_version);
