-- Why: a reconciliation run and what it found must be kept, with what could not be read: "nothing to
-- compare" is not "clean". fingerprint makes the second look after the grace time find the same
-- difference again instead of reporting it twice.
CREATE TABLE IF NOT EXISTS scans (
  scan_id     CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  rule_name   VARCHAR(191) NOT NULL,
  state       VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  actor       VARCHAR(255) NOT NULL,
  started_at  DATETIME(6)  NOT NULL,
  finished_at DATETIME(6)  NULL,
  rows_read   BIGINT       NOT NULL DEFAULT 0,
  unread      LONGTEXT     NULL,
  PRIMARY KEY (scan_id),
  KEY scans_started (started_at),
  CONSTRAINT scans_state_is_known CHECK (state IN ('running', 'finished', 'stopped', 'failed'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS findings (
  finding_id   CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  scan_id      CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  class        VARCHAR(64)   NOT NULL,
  subject      VARCHAR(512)  NOT NULL,
  fingerprint  CHAR(64)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  evidence     LONGTEXT      NOT NULL,
  owner        VARCHAR(191)  NULL,
  state        VARCHAR(16)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'open',
  first_seen_at DATETIME(6)  NOT NULL,
  last_seen_at DATETIME(6)   NOT NULL,
  PRIMARY KEY (finding_id),
  UNIQUE KEY findings_fingerprint (fingerprint),
  KEY findings_open (state, last_seen_at),
  KEY findings_scan (scan_id),
  CONSTRAINT findings_state_is_known CHECK (state IN ('open', 'gone', 'accepted'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
