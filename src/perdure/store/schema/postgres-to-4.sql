-- Version 4: keys of personal data.
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
