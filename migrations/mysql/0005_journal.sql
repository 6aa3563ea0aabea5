-- Why: an operator's action must outlive the terminal it was started from. The intent is committed
-- before anything is sent, the outcome after; what happened in between is known or said to be unknown.
--
-- active_key holds the dead letter while an item is not final and is NULL afterwards: the unique key
-- lets one active item hold a letter, and any number of finished ones remember it.
CREATE TABLE IF NOT EXISTS operations (
  operation_id CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  verb         VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  state        VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  actor        VARCHAR(255) NOT NULL,
  reason       TEXT         NOT NULL,
  ticket       VARCHAR(255) NULL,
  plan_digest  VARCHAR(64)  NOT NULL,
  plan_text    LONGTEXT     NOT NULL,
  created_at   DATETIME(6)  NOT NULL,
  finished_at  DATETIME(6)  NULL,
  PRIMARY KEY (operation_id),
  KEY operations_created (created_at),
  KEY operations_unfinished (state, created_at),
  CONSTRAINT operations_state_is_known CHECK (state IN ('running', 'finished', 'unknown'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS operation_items (
  operation_id   CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  item_no        BIGINT        NOT NULL,
  event_id       VARCHAR(255)  NULL,
  consumer_name  VARCHAR(191)  NULL,
  dead_letter_id CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NULL,
  active_key     CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NULL,
  state          VARCHAR(16)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  token          CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  lease_until    DATETIME(6)   NULL,
  published_at   DATETIME(6)   NULL,
  evidence       VARCHAR(2000) NULL,
  deaths_before  BIGINT        NOT NULL DEFAULT 0,
  new_event_id   VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin NULL,
  updated_at     DATETIME(6)   NOT NULL,
  PRIMARY KEY (operation_id, item_no),
  UNIQUE KEY operation_items_holder (active_key),
  KEY operation_items_letter (dead_letter_id, state),
  CONSTRAINT operation_items_state_is_known CHECK (state IN ('reserved', 'publishing', 'published',
    'consumed', 'died_again', 'unroutable', 'refused', 'unknown', 'applied'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The link from an event to the one that replaced it: chains of any length show as lineage.
CREATE TABLE IF NOT EXISTS repairs (
  repair_id         CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  operation_id      CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  original_event_id VARCHAR(255) NULL,
  dead_letter_id    CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  new_event_id      CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  diff              LONGTEXT     NOT NULL,
  reason            TEXT         NOT NULL,
  actor             VARCHAR(255) NOT NULL,
  created_at        DATETIME(6)  NOT NULL,
  PRIMARY KEY (repair_id),
  UNIQUE KEY repairs_new_event (new_event_id),
  KEY repairs_original (original_event_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Append-only; each entry carries the hash of the one before. The account of the console needs INSERT
-- and SELECT here, nothing else.
CREATE TABLE IF NOT EXISTS audit_log (
  seq           BIGINT       NOT NULL,
  recorded_at   DATETIME(6)  NOT NULL,
  actor         VARCHAR(255) NOT NULL,
  action_word   VARCHAR(64)  NOT NULL,
  phase         VARCHAR(32)  NOT NULL,
  operation_id  CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NULL,
  subject       VARCHAR(512) NOT NULL,
  reason        TEXT         NOT NULL,
  detail        LONGTEXT     NOT NULL,
  previous_hash CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  hash          CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (seq),
  KEY audit_log_operation (operation_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The end of the chain: locked while an entry is appended, so that the chain has no forks; and what
-- tells a chain whose end was cut off.
CREATE TABLE IF NOT EXISTS audit_head (
  head_id SMALLINT NOT NULL,
  seq     BIGINT   NOT NULL,
  hash    CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (head_id),
  CONSTRAINT audit_head_is_one_row CHECK (head_id = 1)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT INTO audit_head (head_id, seq, hash)
SELECT 1, 0, '0000000000000000000000000000000000000000000000000000000000000000'
FROM (SELECT 1 AS one) seed WHERE NOT EXISTS (SELECT 1 FROM audit_head WHERE head_id = 1);
