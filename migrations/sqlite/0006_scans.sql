-- Why: a reconciliation run and what it found must be kept, with what could not be read: "nothing to
-- compare" is not "clean". fingerprint makes the second look after the grace time find the same
-- difference again instead of reporting it twice.
CREATE TABLE IF NOT EXISTS scans (
  scan_id TEXT NOT NULL,
  rule_name TEXT NOT NULL,
  state TEXT NOT NULL,
  actor TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  finished_at INTEGER NULL,
  rows_read INTEGER NOT NULL DEFAULT 0,
  unread TEXT NULL,
  PRIMARY KEY (scan_id),
  CONSTRAINT scans_state_is_known CHECK (state IN ('running', 'finished', 'stopped', 'failed'))
);
CREATE INDEX IF NOT EXISTS scans_started ON scans (started_at);

CREATE TABLE IF NOT EXISTS findings (
  finding_id TEXT NOT NULL,
  scan_id TEXT NOT NULL,
  class TEXT NOT NULL,
  subject TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  evidence TEXT NOT NULL,
  owner TEXT NULL,
  state TEXT NOT NULL DEFAULT 'open',
  first_seen_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  PRIMARY KEY (finding_id),
  CONSTRAINT findings_state_is_known CHECK (state IN ('open', 'gone', 'accepted'))
);
CREATE UNIQUE INDEX IF NOT EXISTS findings_fingerprint ON findings (fingerprint);
CREATE INDEX IF NOT EXISTS findings_open ON findings (state, last_seen_at);
CREATE INDEX IF NOT EXISTS findings_scan ON findings (scan_id);
