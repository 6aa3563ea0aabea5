-- Why: events must be written in the business transaction, and claimed, watched and repaired without
-- ever walking the backlog.
--
-- event_id first in the primary key (ascii: prefix look-ups are cheap). The payload is text, not JSON:
-- MySQL's JSON type rewrites numbers and key order, and the bytes must go out as they were written.
-- outbox_due serves claims and the pending and failed pages, outbox_lease the lease pane,
-- outbox_created ages and the newest-first page, outbox_aggregate a sequence. It is not unique: a
-- repaired event keeps the version of its original.
CREATE TABLE IF NOT EXISTS `outbox_events` (
  event_id          CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  aggregate_id      VARCHAR(191)  NOT NULL,
  aggregate_version BIGINT        NOT NULL,
  event_type        VARCHAR(191)  NOT NULL,
  schema_version    INT           NOT NULL DEFAULT 1,
  payload           LONGTEXT      NOT NULL,
  headers           LONGTEXT      NULL,
  exchange_name     VARCHAR(255)  NULL,
  routing_key       VARCHAR(255)  NULL,
  trace_id          VARCHAR(255)  NULL,
  causation_id      VARCHAR(255)  NULL,
  status            VARCHAR(16)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'pending',
  attempts          INT           NOT NULL DEFAULT 0,
  next_attempt_at   DATETIME(6)   NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  claim_token       CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NULL,
  lease_until       DATETIME(6)   NULL,
  last_error        VARCHAR(1000) NULL,
  created_at        DATETIME(6)   NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  sent_at           DATETIME(6)   NULL,
  PRIMARY KEY (event_id),
  KEY outbox_due (status, next_attempt_at),
  KEY outbox_lease (status, lease_until),
  KEY outbox_created (status, created_at),
  KEY outbox_aggregate (aggregate_id, aggregate_version),
  CONSTRAINT outbox_status_is_known CHECK (status IN ('pending', 'sending', 'sent', 'failed')),
  CONSTRAINT outbox_claim_is_whole CHECK (status <> 'sending' OR (claim_token IS NOT NULL AND lease_until IS NOT NULL)),
  CONSTRAINT outbox_attempts_count CHECK (attempts >= 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
