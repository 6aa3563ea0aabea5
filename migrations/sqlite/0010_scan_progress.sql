-- Why: a scan of a large table is stopped, killed and resumed. progress says how far it is and what it
-- counted; token fences its writes and lease_until tells a dead scanner from a slow one. A finding needs
-- its rule to be cleared when a complete scan no longer sees it, and the time of the row it is about, so
-- that a scan that looks less far back does not clear it. findings_rule serves the clearing.
ALTER TABLE scans ADD COLUMN progress TEXT NULL;
ALTER TABLE scans ADD COLUMN token TEXT NULL;
ALTER TABLE scans ADD COLUMN lease_until INTEGER NULL;
ALTER TABLE findings ADD COLUMN rule_name TEXT NOT NULL DEFAULT '';
ALTER TABLE findings ADD COLUMN note TEXT NULL;
ALTER TABLE findings ADD COLUMN subject_at INTEGER NULL;
CREATE INDEX IF NOT EXISTS findings_rule ON findings (rule_name, state, finding_id);
