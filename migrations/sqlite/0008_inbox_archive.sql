-- Why: an inbox that keeps every row for ever grows for ever, and one that forgets in silence lets an old
-- event take effect twice. Rows older than the policy move here (or go), a batch at a time, and
-- inbox_horizons says how far the forgetting has come: the console refuses to replay what is older.
--
-- The consumer looks into its inbox only; the archive answers the question "was this ever processed?". The
-- primary key serves that look-up, archive_processed the pruning of the archive by age.
CREATE TABLE IF NOT EXISTS consumer_inbox_archive (
  consumer_name TEXT NOT NULL,
  event_id TEXT NOT NULL,
  payload_sha256 TEXT NOT NULL,
  processed_at INTEGER NOT NULL,
  archived_at INTEGER NOT NULL,
  PRIMARY KEY (consumer_name, event_id)
);
CREATE INDEX IF NOT EXISTS archive_processed ON consumer_inbox_archive (consumer_name, processed_at);

-- Ids processed at or before horizon_at may have been forgotten by the inbox of that consumer.
CREATE TABLE IF NOT EXISTS inbox_horizons (
  consumer_name TEXT NOT NULL,
  horizon_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (consumer_name)
);
