-- Why: an operator's action must outlive the terminal it was started from. The intent is committed
-- before anything is sent, the outcome after; what happened in between is known or said to be unknown.
--
-- active_key holds the dead letter while an item is not final and is NULL afterwards: the unique key
-- lets one active item hold a letter, and any number of finished ones remember it.
CREATE TABLE IF NOT EXISTS operations (
  operation_id TEXT NOT NULL,
  verb TEXT NOT NULL,
  state TEXT NOT NULL,
  actor TEXT NOT NULL,
  reason TEXT NOT NULL,
  ticket TEXT NULL,
  plan_digest TEXT NOT NULL,
  plan_text TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  finished_at INTEGER NULL,
  PRIMARY KEY (operation_id),
  CONSTRAINT operations_state_is_known CHECK (state IN ('running', 'finished', 'unknown'))
);
CREATE INDEX IF NOT EXISTS operations_created ON operations (created_at, operation_id);
CREATE INDEX IF NOT EXISTS operations_unfinished ON operations (state, created_at, operation_id);

CREATE TABLE IF NOT EXISTS operation_items (
  operation_id TEXT NOT NULL,
  item_no INTEGER NOT NULL,
  event_id TEXT NULL,
  consumer_name TEXT NULL,
  dead_letter_id TEXT NULL,
  active_key TEXT NULL,
  state TEXT NOT NULL,
  token TEXT NOT NULL,
  lease_until INTEGER NULL,
  published_at INTEGER NULL,
  evidence TEXT NULL,
  deaths_before INTEGER NOT NULL DEFAULT 0,
  new_event_id TEXT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (operation_id, item_no),
  CONSTRAINT operation_items_state_is_known CHECK (state IN ('reserved', 'publishing', 'published',
    'consumed', 'died_again', 'unroutable', 'refused', 'unknown', 'applied'))
);
CREATE UNIQUE INDEX IF NOT EXISTS operation_items_holder ON operation_items (active_key);
CREATE INDEX IF NOT EXISTS operation_items_letter ON operation_items (dead_letter_id, state);

-- The link from an event to the one that replaced it: chains of any length show as lineage.
CREATE TABLE IF NOT EXISTS repairs (
  repair_id TEXT NOT NULL,
  operation_id TEXT NOT NULL,
  original_event_id TEXT NULL,
  dead_letter_id TEXT NOT NULL,
  new_event_id TEXT NOT NULL,
  diff TEXT NOT NULL,
  reason TEXT NOT NULL,
  actor TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (repair_id)
);
CREATE UNIQUE INDEX IF NOT EXISTS repairs_new_event ON repairs (new_event_id);
CREATE INDEX IF NOT EXISTS repairs_original ON repairs (original_event_id);

-- Append-only; each entry carries the hash of the one before. The account of the console needs INSERT
-- and SELECT here, nothing else.
CREATE TABLE IF NOT EXISTS audit_log (
  seq INTEGER NOT NULL,
  recorded_at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  action_word TEXT NOT NULL,
  phase TEXT NOT NULL,
  operation_id TEXT NULL,
  subject TEXT NOT NULL,
  reason TEXT NOT NULL,
  detail TEXT NOT NULL,
  previous_hash TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (seq)
);
CREATE INDEX IF NOT EXISTS audit_log_operation ON audit_log (operation_id);

-- The end of the chain: locked while an entry is appended, so that the chain has no forks; and what
-- tells a chain whose end was cut off.
CREATE TABLE IF NOT EXISTS audit_head (
  head_id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (head_id),
  CONSTRAINT audit_head_is_one_row CHECK (head_id = 1)
);

INSERT INTO audit_head (head_id, seq, hash)
SELECT 1, 0, '0000000000000000000000000000000000000000000000000000000000000000'
FROM (SELECT 1 AS one) seed WHERE NOT EXISTS (SELECT 1 FROM audit_head WHERE head_id = 1);
