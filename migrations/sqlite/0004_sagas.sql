-- Why: a process over several services has to be seen while it runs: which step, since when, what
-- compensates it, which message it waits for. Each side of a step has its own idempotency key, so that
-- neither can be asked for twice. sagas_stale serves the list, stalest first.
CREATE TABLE IF NOT EXISTS `sagas` (
  saga_id TEXT NOT NULL,
  saga_type TEXT NOT NULL,
  business_key TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'running',
  version INTEGER NOT NULL DEFAULT 1,
  deadline_at INTEGER NULL,
  lease_token TEXT NULL,
  lease_until INTEGER NULL,
  created_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  updated_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  PRIMARY KEY (saga_id),
  CONSTRAINT sagas_lease_is_whole CHECK ((lease_token IS NULL) = (lease_until IS NULL))
);
CREATE UNIQUE INDEX IF NOT EXISTS sagas_business ON `sagas` (saga_type, business_key);
CREATE INDEX IF NOT EXISTS sagas_stale ON `sagas` (state, updated_at, saga_id);
CREATE INDEX IF NOT EXISTS sagas_deadline ON `sagas` (state, deadline_at);

CREATE TABLE IF NOT EXISTS saga_steps (
  saga_id TEXT NOT NULL,
  step_no INTEGER NOT NULL,
  name TEXT NOT NULL,
  forward_state TEXT NOT NULL DEFAULT 'pending',
  compensation_state TEXT NOT NULL DEFAULT 'pending',
  attempts INTEGER NOT NULL DEFAULT 0,
  forward_key TEXT NULL,
  compensation_key TEXT NULL,
  event_id TEXT NULL,
  result TEXT NULL,
  last_error TEXT NULL,
  timeout_at INTEGER NULL,
  updated_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  PRIMARY KEY (saga_id, step_no),
  CONSTRAINT saga_steps_forward_is_known
    CHECK (forward_state IN ('pending', 'in_flight', 'succeeded', 'failed', 'unknown', 'skipped')),
  CONSTRAINT saga_steps_compensation_is_known
    CHECK (compensation_state IN ('pending', 'in_flight', 'succeeded', 'failed', 'unknown', 'skipped'))
);
CREATE UNIQUE INDEX IF NOT EXISTS saga_steps_forward ON saga_steps (forward_key);
CREATE UNIQUE INDEX IF NOT EXISTS saga_steps_compensation ON saga_steps (compensation_key);
CREATE INDEX IF NOT EXISTS saga_steps_event ON saga_steps (event_id);
