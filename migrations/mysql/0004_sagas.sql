-- Why: a process over several services has to be seen while it runs: which step, since when, what
-- compensates it, which message it waits for. Each side of a step has its own idempotency key, so that
-- neither can be asked for twice. sagas_stale serves the list, stalest first.
CREATE TABLE IF NOT EXISTS `sagas` (
  saga_id      CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  saga_type    VARCHAR(191) NOT NULL,
  business_key VARCHAR(191) NOT NULL,
  state        VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'running',
  version      BIGINT       NOT NULL DEFAULT 1,
  deadline_at  DATETIME(6)  NULL,
  lease_token  CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NULL,
  lease_until  DATETIME(6)  NULL,
  created_at   DATETIME(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  updated_at   DATETIME(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (saga_id),
  UNIQUE KEY sagas_business (saga_type, business_key),
  KEY sagas_stale (state, updated_at),
  KEY sagas_deadline (state, deadline_at),
  CONSTRAINT sagas_lease_is_whole CHECK ((lease_token IS NULL) = (lease_until IS NULL))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS saga_steps (
  saga_id            CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  step_no            INT           NOT NULL,
  name               VARCHAR(191)  NOT NULL,
  forward_state      VARCHAR(16)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'pending',
  compensation_state VARCHAR(16)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'pending',
  attempts           INT           NOT NULL DEFAULT 0,
  forward_key        VARCHAR(191)  NULL,
  compensation_key   VARCHAR(191)  NULL,
  event_id           VARCHAR(255)  NULL,
  result             LONGTEXT      NULL,
  last_error         VARCHAR(2000) NULL,
  timeout_at         DATETIME(6)   NULL,
  updated_at         DATETIME(6)   NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (saga_id, step_no),
  UNIQUE KEY saga_steps_forward (forward_key),
  UNIQUE KEY saga_steps_compensation (compensation_key),
  KEY saga_steps_event (event_id),
  CONSTRAINT saga_steps_forward_is_known
    CHECK (forward_state IN ('pending', 'in_flight', 'succeeded', 'failed', 'unknown', 'skipped')),
  CONSTRAINT saga_steps_compensation_is_known
    CHECK (compensation_state IN ('pending', 'in_flight', 'succeeded', 'failed', 'unknown', 'skipped'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
