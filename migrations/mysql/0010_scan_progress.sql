-- Why: a scan of a large table is stopped, killed and resumed. progress says how far it is and what it
-- counted; token fences its writes and lease_until tells a dead scanner from a slow one. A finding needs
-- its rule to be cleared when a complete scan no longer sees it, and the time of the row it is about, so
-- that a scan that looks less far back does not clear it. findings_rule serves the clearing.
ALTER TABLE scans ADD COLUMN progress LONGTEXT NULL;
ALTER TABLE scans ADD COLUMN token CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL;
ALTER TABLE scans ADD COLUMN lease_until DATETIME(6) NULL;
ALTER TABLE findings ADD COLUMN rule_name VARCHAR(191) NOT NULL DEFAULT '';
ALTER TABLE findings ADD COLUMN note VARCHAR(2000) NULL;
ALTER TABLE findings ADD COLUMN subject_at DATETIME(6) NULL;
ALTER TABLE findings ADD KEY findings_rule (rule_name, state, finding_id);
