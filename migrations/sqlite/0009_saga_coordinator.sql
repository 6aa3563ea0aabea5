-- Why: a saga has to be moved on by itself, by one coordinator at a time, and after a restart from its
-- rows alone. due_at is its timer: NULL while only an answer or a person can move it, so that sagas_due
-- holds only what is waiting for its time, and a claim takes the longest due first without reading the
-- others. A claim pushes due_at to the end of its lease: a coordinator that died is taken over then.
-- failures pushes it further for a saga that cannot be moved, so that it holds up no other.
-- attention_at lists what a person has to see, longest waiting first.
ALTER TABLE `sagas` ADD COLUMN saga_data TEXT NULL;
ALTER TABLE `sagas` ADD COLUMN expires_at INTEGER NULL;
ALTER TABLE `sagas` ADD COLUMN due_at INTEGER NULL;
ALTER TABLE `sagas` ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE `sagas` ADD COLUMN last_error TEXT NULL;
ALTER TABLE `sagas` ADD COLUMN leased_by TEXT NULL;
ALTER TABLE `sagas` ADD COLUMN attention TEXT NULL;
ALTER TABLE `sagas` ADD COLUMN attention_at INTEGER NULL;
ALTER TABLE `sagas` ADD COLUMN owner TEXT NULL;
ALTER TABLE `sagas` ADD COLUMN evidence TEXT NULL;
CREATE INDEX IF NOT EXISTS sagas_due ON `sagas` (saga_type, due_at);
CREATE INDEX IF NOT EXISTS sagas_attention ON `sagas` (attention_at);
ALTER TABLE saga_steps ADD COLUMN queries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE saga_steps ADD COLUMN conflict_text TEXT NULL;
