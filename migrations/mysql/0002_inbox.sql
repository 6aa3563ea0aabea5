-- Why: the row a consumer writes in the transaction of its effect is what makes a second delivery
-- harmless, and the proof that a replay was consumed. The payload's digest tells "the same again"
-- from "the same id with other content". inbox_processed serves the rate on the overview.
-- The id has room for message ids of other people's clients.
CREATE TABLE IF NOT EXISTS `consumer_inbox` (
  consumer_name  VARCHAR(191) NOT NULL,
  event_id       VARCHAR(255) NOT NULL,
  payload_sha256 CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  processed_at   DATETIME(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (consumer_name, event_id),
  KEY inbox_processed (consumer_name, processed_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
