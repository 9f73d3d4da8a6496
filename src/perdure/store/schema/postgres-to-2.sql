-- Version 2: places in the queue and limits per key; a floor for compacted runs; keys of personal data;
-- and indexes for the few runs of one status among many of others.
ALTER TABLE perdure_run
    ADD COLUMN queue text COLLATE "C" NOT NULL DEFAULT 'default',
    ADD COLUMN tags text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN priority bigint NOT NULL DEFAULT 0,
    ADD COLUMN limit_key text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN key_limit bigint NOT NULL DEFAULT 1,
    ADD COLUMN parked_at bigint NOT NULL DEFAULT 0,
    ADD COLUMN floor bigint NOT NULL DEFAULT 0;
DROP INDEX perdure_run_free;
CREATE INDEX perdure_run_free ON perdure_run
    (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE NOT terminal AND NOT held;
CREATE INDEX perdure_run_key ON perdure_run (limit_key, held, agent, version, queue, tags, parked_at)
    WHERE NOT terminal AND limit_key <> '';
CREATE INDEX perdure_run_ended ON perdure_run (status, created_at, run_id) WHERE terminal;
DROP INDEX perdure_run_open;
CREATE INDEX perdure_run_open ON perdure_run (created_at, run_id, status) WHERE NOT terminal;
-- Keys of personal data, apart from the events that they open, so that they can be destroyed (data is empty then).
CREATE TABLE perdure_key (
    run_id      text    COLLATE "C" NOT NULL,
    data        bytea   NOT NULL,
    at          bigint  NOT NULL,
    PRIMARY KEY (run_id)
) PARTITION BY HASH (run_id);
DO $$
BEGIN
    FOR part IN 0..7 LOOP
        EXECUTE format(
            'CREATE TABLE perdure_key_%s PARTITION OF perdure_key FOR VALUES WITH (MODULUS 8, REMAINDER %s)',
            part, part
        );
    END LOOP;
END
$$;
