-- Version 2: places in the queue and limits per key; a floor for compacted runs; keys of personal data;
-- and indexes for the few runs of one status among many of others.
ALTER TABLE perdure_run ADD COLUMN queue TEXT NOT NULL DEFAULT 'default';
ALTER TABLE perdure_run ADD COLUMN tags TEXT NOT NULL DEFAULT '';
ALTER TABLE perdure_run ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE perdure_run ADD COLUMN limit_key TEXT NOT NULL DEFAULT '';
ALTER TABLE perdure_run ADD COLUMN key_limit INTEGER NOT NULL DEFAULT 1;
ALTER TABLE perdure_run ADD COLUMN parked_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE perdure_run ADD COLUMN floor INTEGER NOT NULL DEFAULT 0;
DROP INDEX perdure_run_free;
CREATE INDEX perdure_run_free ON perdure_run
    (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE terminal = 0 AND held = 0;
CREATE INDEX perdure_run_key ON perdure_run (limit_key, held, agent, version, queue, tags, parked_at)
    WHERE terminal = 0 AND limit_key <> '';
CREATE INDEX perdure_run_ended ON perdure_run (status, created_at, run_id) WHERE terminal = 1;
DROP INDEX perdure_run_open;
CREATE INDEX perdure_run_open ON perdure_run (created_at, run_id, status) WHERE terminal = 0;
-- Keys of personal data, apart from the events that they open, so that they can be destroyed (data is empty then).
CREATE TABLE perdure_key (
    run_id TEXT    PRIMARY KEY,
    data   BLOB    NOT NULL,
    at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
