-- Why: an inbox that keeps every row for ever grows for ever, and one that forgets in silence lets an old
-- event take effect twice. Rows older than the policy move here (or go), a batch at a time, and
-- inbox_horizons says how far the forgetting has come: the console refuses to replay what is older.
--
-- The consumer looks into its inbox only; the archive answers the question "was this ever processed?". The
-- primary key serves that look-up, archive_processed the pruning of the archive by age.
CREATE TABLE IF NOT EXISTS consumer_inbox_archive (
  consumer_name  VARCHAR(191) NOT NULL,
  event_id       VARCHAR(255) NOT NULL,
  payload_sha256 CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  processed_at   DATETIME(6)  NOT NULL,
  archived_at    DATETIME(6)  NOT NULL,
  PRIMARY KEY (consumer_name, event_id),
  KEY archive_processed (consumer_name, processed_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Ids processed at or before horizon_at may have been forgotten by the inbox of that consumer.
CREATE TABLE IF NOT EXISTS inbox_horizons (
  consumer_name VARCHAR(191) NOT NULL,
  horizon_at    DATETIME(6)  NOT NULL,
  updated_at    DATETIME(6)  NOT NULL,
  PRIMARY KEY (consumer_name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
