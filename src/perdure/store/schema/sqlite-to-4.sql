-- Version 4: keys of personal data.
-- Keys of personal data, apart from the events that they open, so that they can be destroyed (data is empty then).
CREATE TABLE perdure_key (
    run_id TEXT    PRIMARY KEY,
    data   BLOB    NOT NULL,
    at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
