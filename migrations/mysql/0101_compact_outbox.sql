-- Why: the compact layout as its teams have it, for sandboxes and tests. A real one exists already and
-- is never changed by us; what it lacks is an index or two, which `redrive check` names.
-- outbox_available serves claims and pages, outbox_status_created ages, outbox_aggregate a sequence.
CREATE TABLE IF NOT EXISTS `outbox_events` (
  message_id     CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  aggregate_type VARCHAR(100)  NOT NULL,
  aggregate_id   VARCHAR(191)  NOT NULL,
  event_type     VARCHAR(191)  NOT NULL,
  payload        LONGTEXT      NOT NULL,
  status         VARCHAR(16)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'PENDING',
  available_at   DATETIME(6)   NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  retry_count    INT           NOT NULL DEFAULT 0,
  last_error     VARCHAR(1000) NULL,
  created_at     DATETIME(6)   NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  updated_at     DATETIME(6)   NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (message_id),
  KEY outbox_available (status, available_at),
  KEY outbox_status_created (status, created_at),
  KEY outbox_aggregate (aggregate_id, created_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
