-- Version 3: a compacted run begins with a snapshot, after its floor.
ALTER TABLE perdure_run ADD COLUMN floor INTEGER NOT NULL DEFAULT 0;
