-- Why: a message nobody will try again must be kept whole (bytes, all properties, headers with their
-- types) and counted: the next death of the same event is a new death, not a duplicate.
--
-- Names have 255 characters of four bytes: AMQP allows 255 bytes. Everything a message can bring is
-- nullable or has room, so that storing it cannot fail. (consumer_name, event_id) is unique; a message
-- without an id is a row of its own. dead_letters_died serves pages and groups, dead_letters_first the
-- oldest age, the other two look-ups by event and by aggregate.
CREATE TABLE IF NOT EXISTS `dead_letters` (
  dead_letter_id     CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  consumer_name      VARCHAR(191)  NOT NULL,
  event_id           VARCHAR(255)  NULL,
  aggregate_id       VARCHAR(255)  NULL,
  aggregate_version  BIGINT        NULL,
  event_type         VARCHAR(255)  NULL,
  message_at         DATETIME(6)   NULL,
  failed_queue       VARCHAR(255)  NULL,
  source_exchange    VARCHAR(255)  NULL,
  source_routing_key VARCHAR(255)  NULL,
  dead_letter_queue  VARCHAR(255)  NOT NULL,
  reason             VARCHAR(255)  NULL,
  error_class        VARCHAR(255)  NOT NULL,
  error_summary      VARCHAR(2000) NULL,
  stack_digest       VARCHAR(64)   NULL,
  delivery_count     BIGINT        NULL,
  retry_count        BIGINT        NULL,
  first_died_at      DATETIME(6)   NOT NULL,
  last_died_at       DATETIME(6)   NOT NULL,
  deaths             BIGINT        NOT NULL DEFAULT 1,
  replays            BIGINT        NOT NULL DEFAULT 0,
  last_replayed_at   DATETIME(6)   NULL,
  producer_version   VARCHAR(255)  NULL,
  consumer_version   VARCHAR(255)  NULL,
  trace_id           VARCHAR(255)  NULL,
  replay_allowed     SMALLINT      NOT NULL DEFAULT 1,
  owner              VARCHAR(191)  NULL,
  status             VARCHAR(16)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'open',
  note               VARCHAR(2000) NULL,
  version            BIGINT        NOT NULL DEFAULT 1,
  content_type       VARCHAR(255)  NULL,
  content_encoding   VARCHAR(255)  NULL,
  properties         LONGTEXT      NOT NULL,
  headers            LONGTEXT      NOT NULL,
  payload            LONGBLOB      NOT NULL,
  payload_bytes      BIGINT        NOT NULL,
  payload_sha256     CHAR(64)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  operation_id       CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NULL,
  created_at         DATETIME(6)   NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  updated_at         DATETIME(6)   NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (dead_letter_id),
  UNIQUE KEY dead_letters_identity (consumer_name, event_id),
  KEY dead_letters_died (status, last_died_at),
  KEY dead_letters_first (status, first_died_at),
  KEY dead_letters_event (event_id),
  KEY dead_letters_aggregate (aggregate_id, aggregate_version),
  CONSTRAINT dead_letters_status_is_known
    CHECK (status IN ('open', 'replaying', 'replayed', 'resolved', 'repaired', 'discarded')),
  CONSTRAINT dead_letters_deaths_count CHECK (deaths >= 1)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Every death, so that a redelivery of one death (the acknowledgement was lost) is told from the next
-- one: they differ in the fingerprint. deaths_recorded serves the rate on the overview.
CREATE TABLE IF NOT EXISTS dead_letter_deaths (
  dead_letter_id CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  death_no       BIGINT        NOT NULL,
  died_at        DATETIME(6)   NOT NULL,
  queue_name     VARCHAR(255)  NULL,
  reason         VARCHAR(255)  NULL,
  error          VARCHAR(2000) NULL,
  fingerprint    VARCHAR(128)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  operation_id   CHAR(36)      CHARACTER SET ascii COLLATE ascii_bin NULL,
  recorded_at    DATETIME(6)   NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (dead_letter_id, death_no),
  KEY deaths_fingerprint (fingerprint),
  KEY deaths_recorded (recorded_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
