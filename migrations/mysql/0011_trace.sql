-- Why: the story of one event tells who replayed it. A replay of a row in the outbox has no dead letter
-- to be found by, so its operation is found by its event. operation_items_event serves that look-up.
ALTER TABLE operation_items ADD KEY operation_items_event (event_id);
