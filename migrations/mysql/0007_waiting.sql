-- Why: an event that arrives before the one it builds on must neither be lost nor be marked as done. It
-- waits here, whole, until the missing version has been applied or its deadline is over. It has no
-- inbox row while it waits.
--
-- applied_versions holds the last version of each aggregate a consumer has applied. A consumer locks its
-- row before it decides "next", "stale" or "gap", so that a gap cannot close between the look and the
-- parking. The primary key serves every statement.
CREATE TABLE IF NOT EXISTS applied_versions (
  consumer_name VARCHAR(191) NOT NULL,
  aggregate_id  VARCHAR(255) NOT NULL,
  version       BIGINT       NOT NULL,
  updated_at    DATETIME(6)  NOT NULL,
  PRIMARY KEY (consumer_name, aggregate_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- attempted_at is the last attempt; the deadline is counted from it, so that an old event that was sent
-- again a moment ago is not given up at once. lease_until is set while a worker makes a dead letter of
-- the row. waiting_sequence finds the successor of a version, waiting_deadline what is overdue,
-- waiting_parked the oldest age.
CREATE TABLE IF NOT EXISTS waiting_events (
  consumer_name   VARCHAR(191) NOT NULL,
  event_id        VARCHAR(255) NOT NULL,
  aggregate_id    VARCHAR(255) NOT NULL,
  version         BIGINT       NOT NULL,
  missing_version BIGINT       NOT NULL,
  exchange_name   VARCHAR(255) NOT NULL,
  routing_key     VARCHAR(255) NOT NULL,
  properties      LONGTEXT     NOT NULL,
  headers         LONGTEXT     NOT NULL,
  payload         LONGBLOB     NOT NULL,
  payload_sha256  CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  parked_at       DATETIME(6)  NOT NULL,
  attempted_at    DATETIME(6)  NOT NULL,
  attempts        BIGINT       NOT NULL DEFAULT 1,
  deadline_at     DATETIME(6)  NOT NULL,
  lease_until     DATETIME(6)  NULL,
  PRIMARY KEY (consumer_name, event_id),
  KEY waiting_sequence (consumer_name, aggregate_id, version),
  KEY waiting_deadline (consumer_name, deadline_at),
  KEY waiting_parked (consumer_name, parked_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
