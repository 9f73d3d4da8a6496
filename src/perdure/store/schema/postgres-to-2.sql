-- Version 2: queues, tags, priorities, and limits per key.
ALTER TABLE perdure_run
    ADD COLUMN queue text COLLATE "C" NOT NULL DEFAULT 'default',
    ADD COLUMN tags text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN priority bigint NOT NULL DEFAULT 0,
    ADD COLUMN limit_key text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN key_limit bigint NOT NULL DEFAULT 1,
    ADD COLUMN parked_at bigint NOT NULL DEFAULT 0;
DROP INDEX perdure_run_free;
CREATE INDEX perdure_run_free ON perdure_run
    (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE NOT terminal AND NOT held;
CREATE INDEX perdure_run_key ON perdure_run (limit_key, held, agent, version, queue, tags, parked_at)
    WHERE NOT terminal AND limit_key <> '';
