//! Statements on scans and findings. Indexes as in `0006_scans.sql` and `0010_scan_progress.sql`.

/// Columns of a scan; `scan.rs` reads them by position.
macro_rules! scan {
    () => {
        "scan_id, rule_name, state, actor, {us(started_at)}, {us(finished_at)}, {us(lease_until)}, rows_read, \
unread, progress"
    };
}

/// Columns of a finding; `scan.rs` reads them by position.
macro_rules! finding {
    () => {
        "finding_id, rule_name, scan_id, state, {us(first_seen_at)}, {us(last_seen_at)}, owner, note, class, \
subject, evidence"
    };
}

super::statements! {
    /// Statements on scans and findings.
    ScanStatements {
        /// A scan that starts. Binds id, rule, actor, progress, token, lease.
        begin: "INSERT INTO scans
  (scan_id, rule_name, state, actor, started_at, finished_at, rows_read, unread, progress, token, lease_until)
VALUES (?, ?, 'running', ?, {now}, NULL, 0, NULL, ?, ?, {now_plus})",
        /// One that nobody works on is taken over, guarded by state and by the database's clock. Primary key,
        /// one row or none. Binds token, lease, id.
        resume: "UPDATE scans SET state = 'running', token = ?, lease_until = {now_plus}, finished_at = NULL
WHERE scan_id = ? AND (state IN ('stopped', 'failed') OR (state = 'running' AND lease_until <= {now}))",
        /// It moves on, fenced by its token. Primary key, one row or none. Binds rows, unread, progress, lease, id,
        /// token.
        step: "UPDATE scans SET rows_read = ?, unread = ?, progress = ?, lease_until = {now_plus}
WHERE scan_id = ? AND token = ? AND state = 'running'",
        /// It ends, fenced by its token. Primary key, one row or none. Binds state, rows, unread, progress, id,
        /// token.
        end: "UPDATE scans SET state = ?, rows_read = ?, unread = ?, progress = ?, finished_at = {now}, lease_until = NULL
WHERE scan_id = ? AND token = ? AND state = 'running'",
        /// Somebody stops it; its holder's token is worthless from here. Primary key, one row or none. Binds id.
        stop: "UPDATE scans SET state = 'stopped', finished_at = {now}, token = NULL, lease_until = NULL
WHERE scan_id = ? AND state = 'running'",
        /// The scan that writes findings, locked, so that it cannot be taken over in between. Primary key, one
        /// row or none. Binds id, token.
        hold: "SELECT 1 FROM scans WHERE scan_id = ? AND token = ? AND state = 'running'{for_update}",
        /// Newest scans. (started_at). Binds limit.
        page_first: concat!("SELECT ", scan!(), " FROM scans ORDER BY started_at DESC, scan_id DESC LIMIT ?"),
        /// Scans before a cursor. (started_at). Binds at, at, id, limit.
        page_after: concat!("SELECT ", scan!(), " FROM scans
WHERE started_at <= {at} AND (started_at < {at} OR scan_id < ?) ORDER BY started_at DESC, scan_id DESC LIMIT ?"),
        /// Scans by the start of their id. Primary key range, at most 20. Binds lower and upper bound.
        by_prefix: concat!("SELECT ", scan!(), " FROM scans WHERE scan_id >= ? AND scan_id < ? ORDER BY scan_id LIMIT 20"),

        /// A difference is seen again; one that was gone is open again, since now. Unique key, one row or none.
        /// The first time is set before the state: MySQL reads what it has just set. Binds scan, rule, class,
        /// subject, evidence, subject's time, fingerprint.
        seen: "UPDATE findings SET scan_id = ?, rule_name = ?, class = ?, subject = ?, evidence = ?, subject_at = {at},
  first_seen_at = CASE WHEN state = 'gone' THEN {now} ELSE first_seen_at END, last_seen_at = {now}, state = 'open'
WHERE fingerprint = ?",
        /// A new difference; unique on the fingerprint. Binds id, scan, rule, class, subject, fingerprint, evidence,
        /// subject's time.
        add: "INSERT INTO findings
  (finding_id, scan_id, rule_name, class, subject, fingerprint, evidence, subject_at, state, first_seen_at, last_seen_at)
VALUES (?, ?, ?, ?, ?, ?, ?, {at}, 'open', {now}, {now})",
        /// Open findings of a rule that a scan did not see again, nor another one since it began; none once the
        /// scan is not the token's. (rule, state, finding_id), at most the limit of those. Binds rule, scan, scan,
        /// token, flag, since, limit.
        unseen: "SELECT finding_id FROM findings WHERE rule_name = ? AND state = 'open' AND scan_id <> ?
  AND last_seen_at <= (SELECT started_at FROM scans WHERE scan_id = ? AND token = ? AND state = 'running')
  AND (? = 0 OR subject_at IS NULL OR subject_at >= {at}) ORDER BY finding_id LIMIT ?",
        /// They are gone, unless another scan saw them meanwhile. Primary key. Binds ids, rule, scan, scan, token.
        clear: "UPDATE findings SET state = 'gone' WHERE finding_id IN ({ids}) AND rule_name = ? AND state = 'open'
  AND scan_id <> ?
  AND last_seen_at <= (SELECT started_at FROM scans WHERE scan_id = ? AND token = ? AND state = 'running')",
        /// Findings in one state, last seen first. (state, last_seen_at). Binds state, limit.
        findings_first: concat!("SELECT ", finding!(), " FROM findings WHERE state = ?
ORDER BY last_seen_at DESC, finding_id DESC LIMIT ?"),
        /// The same after a cursor; a range at any depth. Binds state, at, at, id, limit.
        findings_after: concat!("SELECT ", finding!(), " FROM findings
WHERE state = ? AND last_seen_at <= {at} AND (last_seen_at < {at} OR finding_id < ?)
ORDER BY last_seen_at DESC, finding_id DESC LIMIT ?"),
        /// Findings by the start of their id. Primary key range, at most 20. Binds lower and upper bound.
        findings_by_prefix: concat!("SELECT ", finding!(), " FROM findings
WHERE finding_id >= ? AND finding_id < ? ORDER BY finding_id LIMIT 20"),
        /// Open findings, counted as far as the limit. (state, last_seen_at). Binds limit.
        open: "SELECT COUNT(*) FROM (SELECT 1 FROM findings WHERE state = 'open' LIMIT ?) n",
        /// Owner and note; a flag of 0 keeps what is there. Primary key, one row. Binds flag, owner, flag, note, id.
        annotate: "UPDATE findings SET owner = CASE WHEN ? = 1 THEN ? ELSE owner END,
  note = CASE WHEN ? = 1 THEN ? ELSE note END WHERE finding_id = ?",
    }
}
