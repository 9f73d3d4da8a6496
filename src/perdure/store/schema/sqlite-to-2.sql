-- Version 2: queues, tags, priorities, and limits per key.
ALTER TABLE perdure_run ADD COLUMN queue TEXT NOT NULL DEFAULT 'default';
ALTER TABLE perdure_run ADD COLUMN tags TEXT NOT NULL DEFAULT '';
ALTER TABLE perdure_run ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE perdure_run ADD COLUMN limit_key TEXT NOT NULL DEFAULT '';
ALTER TABLE perdure_run ADD COLUMN key_limit INTEGER NOT NULL DEFAULT 1;
ALTER TABLE perdure_run ADD COLUMN parked_at INTEGER NOT NULL DEFAULT 0;
DROP INDEX perdure_run_free;
CREATE INDEX perdure_run_free ON perdure_run
    (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE terminal = 0 AND held = 0;
CREATE INDEX perdure_run_key ON perdure_run (limit_key, held, agent, version, queue, tags, parked_at)
    WHERE terminal = 0 AND limit_key <> '';
