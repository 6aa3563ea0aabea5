-- Why: the story of one event tells who replayed it. A replay of a row in the outbox has no dead letter
-- to be found by, so its operation is found by its event. operation_items_event serves that look-up.
CREATE INDEX IF NOT EXISTS operation_items_event ON operation_items (event_id);
