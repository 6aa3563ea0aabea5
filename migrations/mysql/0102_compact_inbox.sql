-- Why: the consumer side of the compact layout, for sandboxes and tests: a unique event id in the table
-- of effects, written in the effect's own transaction. It keeps no payload digest, so "the same id with
-- other content" cannot be told from a duplicate here.
CREATE TABLE IF NOT EXISTS `consumer_effects` (
  event_id   VARCHAR(255) NOT NULL,
  created_at DATETIME(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (event_id),
  KEY effects_created (created_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
