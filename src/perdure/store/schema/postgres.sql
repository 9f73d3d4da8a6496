-- The tables of a perdure store in one PostgreSQL schema, version 2.
--
-- Every name begins with perdure_; a user's own tables may live beside them. Every table that grows with the runs is
-- partitioned by a hash of run_id, and each of its keys begins with run_id, so that a run's rows lie together and the
-- tables can be spread over several machines. Text compares by its bytes (collation C), as in every other store.

CREATE TABLE perdure_schema (                  -- one row per version that these tables have had
    version     integer NOT NULL,
    at          bigint  NOT NULL               -- microseconds, as every moment here
);

CREATE TABLE perdure_worker (                  -- living workers; a session lock on `key` is the sign of life
    worker      text    COLLATE "C" NOT NULL,
    key         bigint  NOT NULL,
    began_at    bigint  NOT NULL,
    missed_at   bigint                         -- since when nobody holds the lock; null while someone does
);

CREATE SEQUENCE perdure_change;                -- rises after every commit, for whoever waits for one
SELECT setval('perdure_change', 1);

CREATE TABLE perdure_run (
    run_id      text    COLLATE "C" NOT NULL,
    agent       text    COLLATE "C" NOT NULL,
    version     text    COLLATE "C" NOT NULL,
    parent      text    COLLATE "C",
    created_at  bigint  NOT NULL,
    status      text    COLLATE "C" NOT NULL,  -- opaque; only `terminal` has a meaning
    due_at      bigint  NOT NULL DEFAULT 0,
    info        bytea   NOT NULL DEFAULT '',
    updated_at  bigint  NOT NULL,
    terminal    boolean NOT NULL DEFAULT false,
    epoch       bigint  NOT NULL DEFAULT 0,    -- rises with every claim; the fence of every append
    holder      text    COLLATE "C",           -- who has or had the lease
    held        boolean NOT NULL DEFAULT false, -- until it is given back, swept after its end, or its holder is found dead
    died        boolean NOT NULL DEFAULT false, -- the holder's process was found dead
    lease_until bigint  NOT NULL DEFAULT 0,    -- 0 when it was given back
    claims      bigint  NOT NULL DEFAULT 0,    -- since the last progress, not given back
    seq         bigint  NOT NULL DEFAULT 0,    -- the last event
    inbox       bigint  NOT NULL DEFAULT 0,    -- the last message
    pending     bigint  NOT NULL DEFAULT 0,    -- messages not taken yet
    asks        boolean NOT NULL DEFAULT false, -- while people are asked for something
    floor       bigint  NOT NULL DEFAULT 0,    -- the last event that compaction took away
    wake_at     bigint  NOT NULL GENERATED ALWAYS AS (CASE WHEN pending > 0 THEN 0 ELSE due_at END) STORED,
    queue       text    COLLATE "C" NOT NULL DEFAULT 'default',
    tags        text    COLLATE "C" NOT NULL DEFAULT '', -- sorted, with spaces between them
    priority    bigint  NOT NULL DEFAULT 0,
    limit_key   text    COLLATE "C" NOT NULL DEFAULT '',
    key_limit   bigint  NOT NULL DEFAULT 1,    -- so many runs of the key are leased at once
    parked_at   bigint  NOT NULL DEFAULT 0,    -- not 0: the key was found full, and this is the place among those that wait
    PRIMARY KEY (run_id)
) PARTITION BY HASH (run_id);

-- Claims: what is free, by lanes (agent, version, queue, tags, priority); in a lane at once (wake_at = 0) in the order of
-- the last change, or by its timer.
CREATE INDEX perdure_run_free ON perdure_run
    (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE NOT terminal AND NOT held;
-- Claims: who holds a key's places, and who waits for one.
CREATE INDEX perdure_run_key ON perdure_run (limit_key, held, agent, version, queue, tags, parked_at)
    WHERE NOT terminal AND limit_key <> '';
-- Claims: leases by their end, and by their holder.
CREATE INDEX perdure_run_lease ON perdure_run (lease_until) WHERE NOT terminal AND held;
CREATE INDEX perdure_run_holder ON perdure_run (holder) WHERE NOT terminal AND held;
-- Lists, newest first.
CREATE INDEX perdure_run_created ON perdure_run (created_at, run_id);
CREATE INDEX perdure_run_open ON perdure_run (created_at, run_id, status) WHERE NOT terminal;
CREATE INDEX perdure_run_asks ON perdure_run (created_at, run_id) WHERE NOT terminal AND asks;
CREATE INDEX perdure_run_ended ON perdure_run (status, created_at, run_id) WHERE terminal;

CREATE TABLE perdure_event (
    run_id      text    COLLATE "C" NOT NULL,
    seq         bigint  NOT NULL,
    digest      bytea   NOT NULL,              -- of the chain, after this event
    data        bytea   NOT NULL,
    PRIMARY KEY (run_id, seq)
) PARTITION BY HASH (run_id);

CREATE TABLE perdure_snapshot (
    run_id      text    COLLATE "C" NOT NULL,
    seq         bigint  NOT NULL,
    digest      bytea   NOT NULL,              -- of the chain, at this event
    data        bytea   NOT NULL,
    PRIMARY KEY (run_id, seq)
) PARTITION BY HASH (run_id);

CREATE TABLE perdure_blob (
    run_id      text    COLLATE "C" NOT NULL,
    digest      bytea   NOT NULL,
    data        bytea   NOT NULL,
    PRIMARY KEY (run_id, digest)
) PARTITION BY HASH (run_id);

CREATE TABLE perdure_inbox (
    run_id      text    COLLATE "C" NOT NULL,
    position    bigint  NOT NULL,
    id          text    COLLATE "C" NOT NULL,  -- the sender's; stays after the message was taken, so that it counts once
    kind        text    COLLATE "C" NOT NULL,
    data        bytea   NOT NULL,              -- emptied when taken
    at          bigint  NOT NULL,
    taken       boolean NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, position),
    UNIQUE (run_id, id)
) PARTITION BY HASH (run_id);
CREATE INDEX perdure_inbox_waiting ON perdure_inbox (run_id, position) WHERE NOT taken;

-- Ids of pruned runs, which stay taken, and what they left behind; and what compacted runs did.
CREATE TABLE perdure_gone (
    run_id      text    COLLATE "C" NOT NULL,
    at          bigint  NOT NULL,
    PRIMARY KEY (run_id)
) PARTITION BY HASH (run_id);
CREATE TABLE perdure_tombstone (
    run_id      text    COLLATE "C" NOT NULL,
    position    bigint  NOT NULL,
    data        bytea   NOT NULL,
    PRIMARY KEY (run_id, position)
) PARTITION BY HASH (run_id);

-- Keys of personal data, apart from the events that they open, so that they can be destroyed (data is empty then).
CREATE TABLE perdure_key (
    run_id      text    COLLATE "C" NOT NULL,
    data        bytea   NOT NULL,
    at          bigint  NOT NULL,
    PRIMARY KEY (run_id)
) PARTITION BY HASH (run_id);

-- What is compressed already is kept as it is; rows of runs are updated in place where they lie.
DO $$
DECLARE
    name text;
    part integer;
BEGIN
    FOREACH name IN ARRAY ARRAY['run', 'event', 'snapshot', 'blob', 'inbox', 'gone', 'tombstone', 'key'] LOOP
        FOR part IN 0..7 LOOP
            EXECUTE format(
                'CREATE TABLE perdure_%s_%s PARTITION OF perdure_%s FOR VALUES WITH (MODULUS 8, REMAINDER %s)%s',
                name, part, name, part, CASE WHEN name = 'run' THEN ' WITH (fillfactor = 60)' ELSE '' END
            );
            IF name IN ('event', 'snapshot', 'blob') THEN
                EXECUTE format('ALTER TABLE perdure_%s_%s ALTER COLUMN data SET STORAGE EXTERNAL', name, part);
            END IF;
        END LOOP;
    END LOOP;
END
$$;
