-- Why: the consumer side of the compact layout, for sandboxes and tests: a unique event id in the table
-- of effects, written in the effect's own transaction. It keeps no payload digest, so "the same id with
-- other content" cannot be told from a duplicate here.
CREATE TABLE IF NOT EXISTS `consumer_effects` (
  event_id TEXT NOT NULL,
  created_at INTEGER NOT NULL DEFAULT (CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
  PRIMARY KEY (event_id)
);
CREATE INDEX IF NOT EXISTS effects_created ON `consumer_effects` (created_at);
