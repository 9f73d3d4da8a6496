-- The tables of a perdure store in one SQLite file, version 2.
--
-- Every name begins with perdure_; a user's own tables may live beside them. A key of an event, snapshot or message is
-- one integer, run_no << 32 | number, so that a run's rows lie together and need no second index. Events are an
-- ordinary (rowid) table on purpose: without a rowid, rows above a quarter of a page would spill into overflow pages.

CREATE TABLE perdure_run (
    run_no      INTEGER PRIMARY KEY,
    run_id      TEXT    NOT NULL UNIQUE,
    agent       TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    parent      TEXT,
    created_at  INTEGER NOT NULL,           -- microseconds, as every moment here
    status      TEXT    NOT NULL,           -- opaque; only `terminal` has a meaning
    terminal    INTEGER NOT NULL DEFAULT 0,
    epoch       INTEGER NOT NULL DEFAULT 0, -- rises with every claim; the fence of every append
    holder      TEXT,                       -- who has or had the lease
    held        INTEGER NOT NULL DEFAULT 0, -- 1 until it is given back, swept after its end, or its holder's death is seen
    died        INTEGER NOT NULL DEFAULT 0, -- 1 when the holder's process was found dead
    lease_until INTEGER NOT NULL DEFAULT 0, -- 0 when it was given back
    due_at      INTEGER NOT NULL DEFAULT 0,
    claims      INTEGER NOT NULL DEFAULT 0, -- since the last progress, not given back
    seq_floor   INTEGER NOT NULL DEFAULT 0, -- the last event when this row was written; fewer are damage
    inbox       INTEGER NOT NULL DEFAULT 0, -- position of the last message
    pending     INTEGER NOT NULL DEFAULT 0, -- messages not taken yet
    info        BLOB    NOT NULL DEFAULT x'',
    asks        INTEGER NOT NULL DEFAULT 0, -- 1 while people are asked for something
    updated_at  INTEGER NOT NULL,
    wake_at     INTEGER NOT NULL GENERATED ALWAYS AS (iif(pending > 0, 0, due_at)) VIRTUAL,
    queue       TEXT    NOT NULL DEFAULT 'default',
    tags        TEXT    NOT NULL DEFAULT '', -- sorted, with spaces between them
    priority    INTEGER NOT NULL DEFAULT 0,
    limit_key   TEXT    NOT NULL DEFAULT '',
    key_limit   INTEGER NOT NULL DEFAULT 1, -- so many runs of the key are leased at once
    parked_at   INTEGER NOT NULL DEFAULT 0, -- not 0: the key was found full, and this is the place among those that wait
    floor       INTEGER NOT NULL DEFAULT 0  -- the last event that compaction took away
) STRICT;

-- Claims: what is free, by lanes (agent, version, queue, tags, priority); in a lane at once (wake_at = 0) in the order of
-- the last change, or by its timer.
CREATE INDEX perdure_run_free ON perdure_run
    (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE terminal = 0 AND held = 0;
-- Claims: who holds a key's places, and who waits for one.
CREATE INDEX perdure_run_key ON perdure_run (limit_key, held, agent, version, queue, tags, parked_at)
    WHERE terminal = 0 AND limit_key <> '';
-- Claims: leases by their end, and by their holder. `due` reads the first one alone.
CREATE INDEX perdure_run_lease ON perdure_run (lease_until, wake_at) WHERE terminal = 0 AND held = 1;
CREATE INDEX perdure_run_holder ON perdure_run (holder) WHERE terminal = 0 AND held = 1;
-- Lists, newest first.
CREATE INDEX perdure_run_created ON perdure_run (created_at, run_id);
CREATE INDEX perdure_run_open ON perdure_run (created_at, run_id, status) WHERE terminal = 0;
CREATE INDEX perdure_run_asks ON perdure_run (created_at, run_id) WHERE terminal = 0 AND asks = 1;
CREATE INDEX perdure_run_ended ON perdure_run (status, created_at, run_id) WHERE terminal = 1;

CREATE TABLE perdure_event (
    key    INTEGER PRIMARY KEY,             -- run_no << 32 | seq
    digest BLOB    NOT NULL,                -- of the chain, after this event
    data   BLOB    NOT NULL
) STRICT;

CREATE TABLE perdure_snapshot (
    key    INTEGER PRIMARY KEY,             -- run_no << 32 | seq
    digest BLOB    NOT NULL,                -- of the chain, at this event
    data   BLOB    NOT NULL
) STRICT;

CREATE TABLE perdure_blob (
    run_no INTEGER NOT NULL,
    digest BLOB    NOT NULL,
    data   BLOB    NOT NULL,
    UNIQUE (run_no, digest)
) STRICT;

CREATE TABLE perdure_inbox (
    key    INTEGER PRIMARY KEY,             -- run_no << 32 | position
    run_no INTEGER NOT NULL,
    id     TEXT    NOT NULL,                -- the sender's; stays after the message was taken, so that it counts once
    kind   TEXT    NOT NULL,
    data   BLOB    NOT NULL,                -- emptied when taken
    at     INTEGER NOT NULL,
    taken  INTEGER NOT NULL DEFAULT 0,
    UNIQUE (run_no, id)
) STRICT;
CREATE INDEX perdure_inbox_waiting ON perdure_inbox (key) WHERE taken = 0;

-- Ids of pruned runs, which stay taken, and what they left behind; and what compacted runs did.
CREATE TABLE perdure_gone (
    run_id TEXT    PRIMARY KEY,
    at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE perdure_tombstone (
    run_id TEXT    NOT NULL,
    data   BLOB    NOT NULL
) STRICT;
CREATE INDEX perdure_tombstone_run ON perdure_tombstone (run_id);

-- Keys of personal data, apart from the events that they open, so that they can be destroyed (data is empty then).
CREATE TABLE perdure_key (
    run_id TEXT    PRIMARY KEY,
    data   BLOB    NOT NULL,
    at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
