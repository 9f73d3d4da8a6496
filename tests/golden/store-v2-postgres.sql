CREATE TABLE public.perdure_blob (
    run_id text NOT NULL COLLATE pg_catalog."C",
    digest bytea NOT NULL,
    data bytea NOT NULL
)
PARTITION BY HASH (run_id);
CREATE TABLE public.perdure_blob_0 (
    run_id text CONSTRAINT perdure_blob_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    digest bytea CONSTRAINT perdure_blob_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_blob_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_blob_0 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_blob_1 (
    run_id text CONSTRAINT perdure_blob_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    digest bytea CONSTRAINT perdure_blob_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_blob_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_blob_1 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_blob_2 (
    run_id text CONSTRAINT perdure_blob_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    digest bytea CONSTRAINT perdure_blob_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_blob_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_blob_2 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_blob_3 (
    run_id text CONSTRAINT perdure_blob_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    digest bytea CONSTRAINT perdure_blob_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_blob_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_blob_3 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_blob_4 (
    run_id text CONSTRAINT perdure_blob_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    digest bytea CONSTRAINT perdure_blob_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_blob_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_blob_4 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_blob_5 (
    run_id text CONSTRAINT perdure_blob_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    digest bytea CONSTRAINT perdure_blob_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_blob_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_blob_5 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_blob_6 (
    run_id text CONSTRAINT perdure_blob_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    digest bytea CONSTRAINT perdure_blob_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_blob_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_blob_6 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_blob_7 (
    run_id text CONSTRAINT perdure_blob_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    digest bytea CONSTRAINT perdure_blob_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_blob_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_blob_7 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE SEQUENCE public.perdure_change
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE public.perdure_event (
    run_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    digest bytea NOT NULL,
    data bytea NOT NULL
)
PARTITION BY HASH (run_id);
CREATE TABLE public.perdure_event_0 (
    run_id text CONSTRAINT perdure_event_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_event_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_event_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_event_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_event_0 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_event_1 (
    run_id text CONSTRAINT perdure_event_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_event_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_event_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_event_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_event_1 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_event_2 (
    run_id text CONSTRAINT perdure_event_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_event_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_event_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_event_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_event_2 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_event_3 (
    run_id text CONSTRAINT perdure_event_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_event_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_event_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_event_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_event_3 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_event_4 (
    run_id text CONSTRAINT perdure_event_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_event_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_event_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_event_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_event_4 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_event_5 (
    run_id text CONSTRAINT perdure_event_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_event_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_event_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_event_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_event_5 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_event_6 (
    run_id text CONSTRAINT perdure_event_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_event_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_event_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_event_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_event_6 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_event_7 (
    run_id text CONSTRAINT perdure_event_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_event_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_event_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_event_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_event_7 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_gone (
    run_id text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL
)
PARTITION BY HASH (run_id);
CREATE TABLE public.perdure_gone_0 (
    run_id text CONSTRAINT perdure_gone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    at bigint CONSTRAINT perdure_gone_at_not_null NOT NULL
);
CREATE TABLE public.perdure_gone_1 (
    run_id text CONSTRAINT perdure_gone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    at bigint CONSTRAINT perdure_gone_at_not_null NOT NULL
);
CREATE TABLE public.perdure_gone_2 (
    run_id text CONSTRAINT perdure_gone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    at bigint CONSTRAINT perdure_gone_at_not_null NOT NULL
);
CREATE TABLE public.perdure_gone_3 (
    run_id text CONSTRAINT perdure_gone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    at bigint CONSTRAINT perdure_gone_at_not_null NOT NULL
);
CREATE TABLE public.perdure_gone_4 (
    run_id text CONSTRAINT perdure_gone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    at bigint CONSTRAINT perdure_gone_at_not_null NOT NULL
);
CREATE TABLE public.perdure_gone_5 (
    run_id text CONSTRAINT perdure_gone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    at bigint CONSTRAINT perdure_gone_at_not_null NOT NULL
);
CREATE TABLE public.perdure_gone_6 (
    run_id text CONSTRAINT perdure_gone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    at bigint CONSTRAINT perdure_gone_at_not_null NOT NULL
);
CREATE TABLE public.perdure_gone_7 (
    run_id text CONSTRAINT perdure_gone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    at bigint CONSTRAINT perdure_gone_at_not_null NOT NULL
);
CREATE TABLE public.perdure_inbox (
    run_id text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    data bytea NOT NULL,
    at bigint NOT NULL,
    taken boolean DEFAULT false NOT NULL
)
PARTITION BY HASH (run_id);
CREATE TABLE public.perdure_inbox_0 (
    run_id text CONSTRAINT perdure_inbox_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_inbox_position_not_null NOT NULL,
    id text CONSTRAINT perdure_inbox_id_not_null NOT NULL COLLATE pg_catalog."C",
    kind text CONSTRAINT perdure_inbox_kind_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_inbox_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_inbox_at_not_null NOT NULL,
    taken boolean DEFAULT false CONSTRAINT perdure_inbox_taken_not_null NOT NULL
);
CREATE TABLE public.perdure_inbox_1 (
    run_id text CONSTRAINT perdure_inbox_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_inbox_position_not_null NOT NULL,
    id text CONSTRAINT perdure_inbox_id_not_null NOT NULL COLLATE pg_catalog."C",
    kind text CONSTRAINT perdure_inbox_kind_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_inbox_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_inbox_at_not_null NOT NULL,
    taken boolean DEFAULT false CONSTRAINT perdure_inbox_taken_not_null NOT NULL
);
CREATE TABLE public.perdure_inbox_2 (
    run_id text CONSTRAINT perdure_inbox_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_inbox_position_not_null NOT NULL,
    id text CONSTRAINT perdure_inbox_id_not_null NOT NULL COLLATE pg_catalog."C",
    kind text CONSTRAINT perdure_inbox_kind_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_inbox_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_inbox_at_not_null NOT NULL,
    taken boolean DEFAULT false CONSTRAINT perdure_inbox_taken_not_null NOT NULL
);
CREATE TABLE public.perdure_inbox_3 (
    run_id text CONSTRAINT perdure_inbox_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_inbox_position_not_null NOT NULL,
    id text CONSTRAINT perdure_inbox_id_not_null NOT NULL COLLATE pg_catalog."C",
    kind text CONSTRAINT perdure_inbox_kind_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_inbox_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_inbox_at_not_null NOT NULL,
    taken boolean DEFAULT false CONSTRAINT perdure_inbox_taken_not_null NOT NULL
);
CREATE TABLE public.perdure_inbox_4 (
    run_id text CONSTRAINT perdure_inbox_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_inbox_position_not_null NOT NULL,
    id text CONSTRAINT perdure_inbox_id_not_null NOT NULL COLLATE pg_catalog."C",
    kind text CONSTRAINT perdure_inbox_kind_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_inbox_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_inbox_at_not_null NOT NULL,
    taken boolean DEFAULT false CONSTRAINT perdure_inbox_taken_not_null NOT NULL
);
CREATE TABLE public.perdure_inbox_5 (
    run_id text CONSTRAINT perdure_inbox_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_inbox_position_not_null NOT NULL,
    id text CONSTRAINT perdure_inbox_id_not_null NOT NULL COLLATE pg_catalog."C",
    kind text CONSTRAINT perdure_inbox_kind_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_inbox_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_inbox_at_not_null NOT NULL,
    taken boolean DEFAULT false CONSTRAINT perdure_inbox_taken_not_null NOT NULL
);
CREATE TABLE public.perdure_inbox_6 (
    run_id text CONSTRAINT perdure_inbox_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_inbox_position_not_null NOT NULL,
    id text CONSTRAINT perdure_inbox_id_not_null NOT NULL COLLATE pg_catalog."C",
    kind text CONSTRAINT perdure_inbox_kind_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_inbox_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_inbox_at_not_null NOT NULL,
    taken boolean DEFAULT false CONSTRAINT perdure_inbox_taken_not_null NOT NULL
);
CREATE TABLE public.perdure_inbox_7 (
    run_id text CONSTRAINT perdure_inbox_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_inbox_position_not_null NOT NULL,
    id text CONSTRAINT perdure_inbox_id_not_null NOT NULL COLLATE pg_catalog."C",
    kind text CONSTRAINT perdure_inbox_kind_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_inbox_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_inbox_at_not_null NOT NULL,
    taken boolean DEFAULT false CONSTRAINT perdure_inbox_taken_not_null NOT NULL
);
CREATE TABLE public.perdure_key (
    run_id text NOT NULL COLLATE pg_catalog."C",
    data bytea NOT NULL,
    at bigint NOT NULL
)
PARTITION BY HASH (run_id);
CREATE TABLE public.perdure_key_0 (
    run_id text CONSTRAINT perdure_key_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_key_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_key_at_not_null NOT NULL
);
CREATE TABLE public.perdure_key_1 (
    run_id text CONSTRAINT perdure_key_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_key_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_key_at_not_null NOT NULL
);
CREATE TABLE public.perdure_key_2 (
    run_id text CONSTRAINT perdure_key_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_key_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_key_at_not_null NOT NULL
);
CREATE TABLE public.perdure_key_3 (
    run_id text CONSTRAINT perdure_key_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_key_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_key_at_not_null NOT NULL
);
CREATE TABLE public.perdure_key_4 (
    run_id text CONSTRAINT perdure_key_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_key_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_key_at_not_null NOT NULL
);
CREATE TABLE public.perdure_key_5 (
    run_id text CONSTRAINT perdure_key_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_key_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_key_at_not_null NOT NULL
);
CREATE TABLE public.perdure_key_6 (
    run_id text CONSTRAINT perdure_key_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_key_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_key_at_not_null NOT NULL
);
CREATE TABLE public.perdure_key_7 (
    run_id text CONSTRAINT perdure_key_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    data bytea CONSTRAINT perdure_key_data_not_null NOT NULL,
    at bigint CONSTRAINT perdure_key_at_not_null NOT NULL
);
CREATE TABLE public.perdure_run (
    run_id text NOT NULL COLLATE pg_catalog."C",
    agent text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    due_at bigint DEFAULT 0 NOT NULL,
    info bytea DEFAULT '\x'::bytea NOT NULL,
    updated_at bigint NOT NULL,
    terminal boolean DEFAULT false NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    holder text COLLATE pg_catalog."C",
    held boolean DEFAULT false NOT NULL,
    died boolean DEFAULT false NOT NULL,
    lease_until bigint DEFAULT 0 NOT NULL,
    claims bigint DEFAULT 0 NOT NULL,
    seq bigint DEFAULT 0 NOT NULL,
    inbox bigint DEFAULT 0 NOT NULL,
    pending bigint DEFAULT 0 NOT NULL,
    asks boolean DEFAULT false NOT NULL,
    floor bigint DEFAULT 0 NOT NULL,
    wake_at bigint GENERATED ALWAYS AS (
CASE
    WHEN (pending > 0) THEN (0)::bigint
    ELSE due_at
END) STORED NOT NULL,
    queue text DEFAULT 'default'::text NOT NULL COLLATE pg_catalog."C",
    tags text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    priority bigint DEFAULT 0 NOT NULL,
    limit_key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    key_limit bigint DEFAULT 1 NOT NULL,
    parked_at bigint DEFAULT 0 NOT NULL
)
PARTITION BY HASH (run_id);
CREATE TABLE public.perdure_run_0 (
    run_id text CONSTRAINT perdure_run_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    agent text CONSTRAINT perdure_run_agent_not_null NOT NULL COLLATE pg_catalog."C",
    version text CONSTRAINT perdure_run_version_not_null NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    created_at bigint CONSTRAINT perdure_run_created_at_not_null NOT NULL,
    status text CONSTRAINT perdure_run_status_not_null NOT NULL COLLATE pg_catalog."C",
    due_at bigint DEFAULT 0 CONSTRAINT perdure_run_due_at_not_null NOT NULL,
    info bytea DEFAULT '\x'::bytea CONSTRAINT perdure_run_info_not_null NOT NULL,
    updated_at bigint CONSTRAINT perdure_run_updated_at_not_null NOT NULL,
    terminal boolean DEFAULT false CONSTRAINT perdure_run_terminal_not_null NOT NULL,
    epoch bigint DEFAULT 0 CONSTRAINT perdure_run_epoch_not_null NOT NULL,
    holder text COLLATE pg_catalog."C",
    held boolean DEFAULT false CONSTRAINT perdure_run_held_not_null NOT NULL,
    died boolean DEFAULT false CONSTRAINT perdure_run_died_not_null NOT NULL,
    lease_until bigint DEFAULT 0 CONSTRAINT perdure_run_lease_until_not_null NOT NULL,
    claims bigint DEFAULT 0 CONSTRAINT perdure_run_claims_not_null NOT NULL,
    seq bigint DEFAULT 0 CONSTRAINT perdure_run_seq_not_null NOT NULL,
    inbox bigint DEFAULT 0 CONSTRAINT perdure_run_inbox_not_null NOT NULL,
    pending bigint DEFAULT 0 CONSTRAINT perdure_run_pending_not_null NOT NULL,
    asks boolean DEFAULT false CONSTRAINT perdure_run_asks_not_null NOT NULL,
    floor bigint DEFAULT 0 CONSTRAINT perdure_run_floor_not_null NOT NULL,
    wake_at bigint GENERATED ALWAYS AS (
CASE
    WHEN (pending > 0) THEN (0)::bigint
    ELSE due_at
END) STORED CONSTRAINT perdure_run_wake_at_not_null NOT NULL,
    queue text DEFAULT 'default'::text CONSTRAINT perdure_run_queue_not_null NOT NULL COLLATE pg_catalog."C",
    tags text DEFAULT ''::text CONSTRAINT perdure_run_tags_not_null NOT NULL COLLATE pg_catalog."C",
    priority bigint DEFAULT 0 CONSTRAINT perdure_run_priority_not_null NOT NULL,
    limit_key text DEFAULT ''::text CONSTRAINT perdure_run_limit_key_not_null NOT NULL COLLATE pg_catalog."C",
    key_limit bigint DEFAULT 1 CONSTRAINT perdure_run_key_limit_not_null NOT NULL,
    parked_at bigint DEFAULT 0 CONSTRAINT perdure_run_parked_at_not_null NOT NULL
)
WITH (fillfactor='60');
CREATE TABLE public.perdure_run_1 (
    run_id text CONSTRAINT perdure_run_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    agent text CONSTRAINT perdure_run_agent_not_null NOT NULL COLLATE pg_catalog."C",
    version text CONSTRAINT perdure_run_version_not_null NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    created_at bigint CONSTRAINT perdure_run_created_at_not_null NOT NULL,
    status text CONSTRAINT perdure_run_status_not_null NOT NULL COLLATE pg_catalog."C",
    due_at bigint DEFAULT 0 CONSTRAINT perdure_run_due_at_not_null NOT NULL,
    info bytea DEFAULT '\x'::bytea CONSTRAINT perdure_run_info_not_null NOT NULL,
    updated_at bigint CONSTRAINT perdure_run_updated_at_not_null NOT NULL,
    terminal boolean DEFAULT false CONSTRAINT perdure_run_terminal_not_null NOT NULL,
    epoch bigint DEFAULT 0 CONSTRAINT perdure_run_epoch_not_null NOT NULL,
    holder text COLLATE pg_catalog."C",
    held boolean DEFAULT false CONSTRAINT perdure_run_held_not_null NOT NULL,
    died boolean DEFAULT false CONSTRAINT perdure_run_died_not_null NOT NULL,
    lease_until bigint DEFAULT 0 CONSTRAINT perdure_run_lease_until_not_null NOT NULL,
    claims bigint DEFAULT 0 CONSTRAINT perdure_run_claims_not_null NOT NULL,
    seq bigint DEFAULT 0 CONSTRAINT perdure_run_seq_not_null NOT NULL,
    inbox bigint DEFAULT 0 CONSTRAINT perdure_run_inbox_not_null NOT NULL,
    pending bigint DEFAULT 0 CONSTRAINT perdure_run_pending_not_null NOT NULL,
    asks boolean DEFAULT false CONSTRAINT perdure_run_asks_not_null NOT NULL,
    floor bigint DEFAULT 0 CONSTRAINT perdure_run_floor_not_null NOT NULL,
    wake_at bigint GENERATED ALWAYS AS (
CASE
    WHEN (pending > 0) THEN (0)::bigint
    ELSE due_at
END) STORED CONSTRAINT perdure_run_wake_at_not_null NOT NULL,
    queue text DEFAULT 'default'::text CONSTRAINT perdure_run_queue_not_null NOT NULL COLLATE pg_catalog."C",
    tags text DEFAULT ''::text CONSTRAINT perdure_run_tags_not_null NOT NULL COLLATE pg_catalog."C",
    priority bigint DEFAULT 0 CONSTRAINT perdure_run_priority_not_null NOT NULL,
    limit_key text DEFAULT ''::text CONSTRAINT perdure_run_limit_key_not_null NOT NULL COLLATE pg_catalog."C",
    key_limit bigint DEFAULT 1 CONSTRAINT perdure_run_key_limit_not_null NOT NULL,
    parked_at bigint DEFAULT 0 CONSTRAINT perdure_run_parked_at_not_null NOT NULL
)
WITH (fillfactor='60');
CREATE TABLE public.perdure_run_2 (
    run_id text CONSTRAINT perdure_run_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    agent text CONSTRAINT perdure_run_agent_not_null NOT NULL COLLATE pg_catalog."C",
    version text CONSTRAINT perdure_run_version_not_null NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    created_at bigint CONSTRAINT perdure_run_created_at_not_null NOT NULL,
    status text CONSTRAINT perdure_run_status_not_null NOT NULL COLLATE pg_catalog."C",
    due_at bigint DEFAULT 0 CONSTRAINT perdure_run_due_at_not_null NOT NULL,
    info bytea DEFAULT '\x'::bytea CONSTRAINT perdure_run_info_not_null NOT NULL,
    updated_at bigint CONSTRAINT perdure_run_updated_at_not_null NOT NULL,
    terminal boolean DEFAULT false CONSTRAINT perdure_run_terminal_not_null NOT NULL,
    epoch bigint DEFAULT 0 CONSTRAINT perdure_run_epoch_not_null NOT NULL,
    holder text COLLATE pg_catalog."C",
    held boolean DEFAULT false CONSTRAINT perdure_run_held_not_null NOT NULL,
    died boolean DEFAULT false CONSTRAINT perdure_run_died_not_null NOT NULL,
    lease_until bigint DEFAULT 0 CONSTRAINT perdure_run_lease_until_not_null NOT NULL,
    claims bigint DEFAULT 0 CONSTRAINT perdure_run_claims_not_null NOT NULL,
    seq bigint DEFAULT 0 CONSTRAINT perdure_run_seq_not_null NOT NULL,
    inbox bigint DEFAULT 0 CONSTRAINT perdure_run_inbox_not_null NOT NULL,
    pending bigint DEFAULT 0 CONSTRAINT perdure_run_pending_not_null NOT NULL,
    asks boolean DEFAULT false CONSTRAINT perdure_run_asks_not_null NOT NULL,
    floor bigint DEFAULT 0 CONSTRAINT perdure_run_floor_not_null NOT NULL,
    wake_at bigint GENERATED ALWAYS AS (
CASE
    WHEN (pending > 0) THEN (0)::bigint
    ELSE due_at
END) STORED CONSTRAINT perdure_run_wake_at_not_null NOT NULL,
    queue text DEFAULT 'default'::text CONSTRAINT perdure_run_queue_not_null NOT NULL COLLATE pg_catalog."C",
    tags text DEFAULT ''::text CONSTRAINT perdure_run_tags_not_null NOT NULL COLLATE pg_catalog."C",
    priority bigint DEFAULT 0 CONSTRAINT perdure_run_priority_not_null NOT NULL,
    limit_key text DEFAULT ''::text CONSTRAINT perdure_run_limit_key_not_null NOT NULL COLLATE pg_catalog."C",
    key_limit bigint DEFAULT 1 CONSTRAINT perdure_run_key_limit_not_null NOT NULL,
    parked_at bigint DEFAULT 0 CONSTRAINT perdure_run_parked_at_not_null NOT NULL
)
WITH (fillfactor='60');
CREATE TABLE public.perdure_run_3 (
    run_id text CONSTRAINT perdure_run_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    agent text CONSTRAINT perdure_run_agent_not_null NOT NULL COLLATE pg_catalog."C",
    version text CONSTRAINT perdure_run_version_not_null NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    created_at bigint CONSTRAINT perdure_run_created_at_not_null NOT NULL,
    status text CONSTRAINT perdure_run_status_not_null NOT NULL COLLATE pg_catalog."C",
    due_at bigint DEFAULT 0 CONSTRAINT perdure_run_due_at_not_null NOT NULL,
    info bytea DEFAULT '\x'::bytea CONSTRAINT perdure_run_info_not_null NOT NULL,
    updated_at bigint CONSTRAINT perdure_run_updated_at_not_null NOT NULL,
    terminal boolean DEFAULT false CONSTRAINT perdure_run_terminal_not_null NOT NULL,
    epoch bigint DEFAULT 0 CONSTRAINT perdure_run_epoch_not_null NOT NULL,
    holder text COLLATE pg_catalog."C",
    held boolean DEFAULT false CONSTRAINT perdure_run_held_not_null NOT NULL,
    died boolean DEFAULT false CONSTRAINT perdure_run_died_not_null NOT NULL,
    lease_until bigint DEFAULT 0 CONSTRAINT perdure_run_lease_until_not_null NOT NULL,
    claims bigint DEFAULT 0 CONSTRAINT perdure_run_claims_not_null NOT NULL,
    seq bigint DEFAULT 0 CONSTRAINT perdure_run_seq_not_null NOT NULL,
    inbox bigint DEFAULT 0 CONSTRAINT perdure_run_inbox_not_null NOT NULL,
    pending bigint DEFAULT 0 CONSTRAINT perdure_run_pending_not_null NOT NULL,
    asks boolean DEFAULT false CONSTRAINT perdure_run_asks_not_null NOT NULL,
    floor bigint DEFAULT 0 CONSTRAINT perdure_run_floor_not_null NOT NULL,
    wake_at bigint GENERATED ALWAYS AS (
CASE
    WHEN (pending > 0) THEN (0)::bigint
    ELSE due_at
END) STORED CONSTRAINT perdure_run_wake_at_not_null NOT NULL,
    queue text DEFAULT 'default'::text CONSTRAINT perdure_run_queue_not_null NOT NULL COLLATE pg_catalog."C",
    tags text DEFAULT ''::text CONSTRAINT perdure_run_tags_not_null NOT NULL COLLATE pg_catalog."C",
    priority bigint DEFAULT 0 CONSTRAINT perdure_run_priority_not_null NOT NULL,
    limit_key text DEFAULT ''::text CONSTRAINT perdure_run_limit_key_not_null NOT NULL COLLATE pg_catalog."C",
    key_limit bigint DEFAULT 1 CONSTRAINT perdure_run_key_limit_not_null NOT NULL,
    parked_at bigint DEFAULT 0 CONSTRAINT perdure_run_parked_at_not_null NOT NULL
)
WITH (fillfactor='60');
CREATE TABLE public.perdure_run_4 (
    run_id text CONSTRAINT perdure_run_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    agent text CONSTRAINT perdure_run_agent_not_null NOT NULL COLLATE pg_catalog."C",
    version text CONSTRAINT perdure_run_version_not_null NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    created_at bigint CONSTRAINT perdure_run_created_at_not_null NOT NULL,
    status text CONSTRAINT perdure_run_status_not_null NOT NULL COLLATE pg_catalog."C",
    due_at bigint DEFAULT 0 CONSTRAINT perdure_run_due_at_not_null NOT NULL,
    info bytea DEFAULT '\x'::bytea CONSTRAINT perdure_run_info_not_null NOT NULL,
    updated_at bigint CONSTRAINT perdure_run_updated_at_not_null NOT NULL,
    terminal boolean DEFAULT false CONSTRAINT perdure_run_terminal_not_null NOT NULL,
    epoch bigint DEFAULT 0 CONSTRAINT perdure_run_epoch_not_null NOT NULL,
    holder text COLLATE pg_catalog."C",
    held boolean DEFAULT false CONSTRAINT perdure_run_held_not_null NOT NULL,
    died boolean DEFAULT false CONSTRAINT perdure_run_died_not_null NOT NULL,
    lease_until bigint DEFAULT 0 CONSTRAINT perdure_run_lease_until_not_null NOT NULL,
    claims bigint DEFAULT 0 CONSTRAINT perdure_run_claims_not_null NOT NULL,
    seq bigint DEFAULT 0 CONSTRAINT perdure_run_seq_not_null NOT NULL,
    inbox bigint DEFAULT 0 CONSTRAINT perdure_run_inbox_not_null NOT NULL,
    pending bigint DEFAULT 0 CONSTRAINT perdure_run_pending_not_null NOT NULL,
    asks boolean DEFAULT false CONSTRAINT perdure_run_asks_not_null NOT NULL,
    floor bigint DEFAULT 0 CONSTRAINT perdure_run_floor_not_null NOT NULL,
    wake_at bigint GENERATED ALWAYS AS (
CASE
    WHEN (pending > 0) THEN (0)::bigint
    ELSE due_at
END) STORED CONSTRAINT perdure_run_wake_at_not_null NOT NULL,
    queue text DEFAULT 'default'::text CONSTRAINT perdure_run_queue_not_null NOT NULL COLLATE pg_catalog."C",
    tags text DEFAULT ''::text CONSTRAINT perdure_run_tags_not_null NOT NULL COLLATE pg_catalog."C",
    priority bigint DEFAULT 0 CONSTRAINT perdure_run_priority_not_null NOT NULL,
    limit_key text DEFAULT ''::text CONSTRAINT perdure_run_limit_key_not_null NOT NULL COLLATE pg_catalog."C",
    key_limit bigint DEFAULT 1 CONSTRAINT perdure_run_key_limit_not_null NOT NULL,
    parked_at bigint DEFAULT 0 CONSTRAINT perdure_run_parked_at_not_null NOT NULL
)
WITH (fillfactor='60');
CREATE TABLE public.perdure_run_5 (
    run_id text CONSTRAINT perdure_run_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    agent text CONSTRAINT perdure_run_agent_not_null NOT NULL COLLATE pg_catalog."C",
    version text CONSTRAINT perdure_run_version_not_null NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    created_at bigint CONSTRAINT perdure_run_created_at_not_null NOT NULL,
    status text CONSTRAINT perdure_run_status_not_null NOT NULL COLLATE pg_catalog."C",
    due_at bigint DEFAULT 0 CONSTRAINT perdure_run_due_at_not_null NOT NULL,
    info bytea DEFAULT '\x'::bytea CONSTRAINT perdure_run_info_not_null NOT NULL,
    updated_at bigint CONSTRAINT perdure_run_updated_at_not_null NOT NULL,
    terminal boolean DEFAULT false CONSTRAINT perdure_run_terminal_not_null NOT NULL,
    epoch bigint DEFAULT 0 CONSTRAINT perdure_run_epoch_not_null NOT NULL,
    holder text COLLATE pg_catalog."C",
    held boolean DEFAULT false CONSTRAINT perdure_run_held_not_null NOT NULL,
    died boolean DEFAULT false CONSTRAINT perdure_run_died_not_null NOT NULL,
    lease_until bigint DEFAULT 0 CONSTRAINT perdure_run_lease_until_not_null NOT NULL,
    claims bigint DEFAULT 0 CONSTRAINT perdure_run_claims_not_null NOT NULL,
    seq bigint DEFAULT 0 CONSTRAINT perdure_run_seq_not_null NOT NULL,
    inbox bigint DEFAULT 0 CONSTRAINT perdure_run_inbox_not_null NOT NULL,
    pending bigint DEFAULT 0 CONSTRAINT perdure_run_pending_not_null NOT NULL,
    asks boolean DEFAULT false CONSTRAINT perdure_run_asks_not_null NOT NULL,
    floor bigint DEFAULT 0 CONSTRAINT perdure_run_floor_not_null NOT NULL,
    wake_at bigint GENERATED ALWAYS AS (
CASE
    WHEN (pending > 0) THEN (0)::bigint
    ELSE due_at
END) STORED CONSTRAINT perdure_run_wake_at_not_null NOT NULL,
    queue text DEFAULT 'default'::text CONSTRAINT perdure_run_queue_not_null NOT NULL COLLATE pg_catalog."C",
    tags text DEFAULT ''::text CONSTRAINT perdure_run_tags_not_null NOT NULL COLLATE pg_catalog."C",
    priority bigint DEFAULT 0 CONSTRAINT perdure_run_priority_not_null NOT NULL,
    limit_key text DEFAULT ''::text CONSTRAINT perdure_run_limit_key_not_null NOT NULL COLLATE pg_catalog."C",
    key_limit bigint DEFAULT 1 CONSTRAINT perdure_run_key_limit_not_null NOT NULL,
    parked_at bigint DEFAULT 0 CONSTRAINT perdure_run_parked_at_not_null NOT NULL
)
WITH (fillfactor='60');
CREATE TABLE public.perdure_run_6 (
    run_id text CONSTRAINT perdure_run_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    agent text CONSTRAINT perdure_run_agent_not_null NOT NULL COLLATE pg_catalog."C",
    version text CONSTRAINT perdure_run_version_not_null NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    created_at bigint CONSTRAINT perdure_run_created_at_not_null NOT NULL,
    status text CONSTRAINT perdure_run_status_not_null NOT NULL COLLATE pg_catalog."C",
    due_at bigint DEFAULT 0 CONSTRAINT perdure_run_due_at_not_null NOT NULL,
    info bytea DEFAULT '\x'::bytea CONSTRAINT perdure_run_info_not_null NOT NULL,
    updated_at bigint CONSTRAINT perdure_run_updated_at_not_null NOT NULL,
    terminal boolean DEFAULT false CONSTRAINT perdure_run_terminal_not_null NOT NULL,
    epoch bigint DEFAULT 0 CONSTRAINT perdure_run_epoch_not_null NOT NULL,
    holder text COLLATE pg_catalog."C",
    held boolean DEFAULT false CONSTRAINT perdure_run_held_not_null NOT NULL,
    died boolean DEFAULT false CONSTRAINT perdure_run_died_not_null NOT NULL,
    lease_until bigint DEFAULT 0 CONSTRAINT perdure_run_lease_until_not_null NOT NULL,
    claims bigint DEFAULT 0 CONSTRAINT perdure_run_claims_not_null NOT NULL,
    seq bigint DEFAULT 0 CONSTRAINT perdure_run_seq_not_null NOT NULL,
    inbox bigint DEFAULT 0 CONSTRAINT perdure_run_inbox_not_null NOT NULL,
    pending bigint DEFAULT 0 CONSTRAINT perdure_run_pending_not_null NOT NULL,
    asks boolean DEFAULT false CONSTRAINT perdure_run_asks_not_null NOT NULL,
    floor bigint DEFAULT 0 CONSTRAINT perdure_run_floor_not_null NOT NULL,
    wake_at bigint GENERATED ALWAYS AS (
CASE
    WHEN (pending > 0) THEN (0)::bigint
    ELSE due_at
END) STORED CONSTRAINT perdure_run_wake_at_not_null NOT NULL,
    queue text DEFAULT 'default'::text CONSTRAINT perdure_run_queue_not_null NOT NULL COLLATE pg_catalog."C",
    tags text DEFAULT ''::text CONSTRAINT perdure_run_tags_not_null NOT NULL COLLATE pg_catalog."C",
    priority bigint DEFAULT 0 CONSTRAINT perdure_run_priority_not_null NOT NULL,
    limit_key text DEFAULT ''::text CONSTRAINT perdure_run_limit_key_not_null NOT NULL COLLATE pg_catalog."C",
    key_limit bigint DEFAULT 1 CONSTRAINT perdure_run_key_limit_not_null NOT NULL,
    parked_at bigint DEFAULT 0 CONSTRAINT perdure_run_parked_at_not_null NOT NULL
)
WITH (fillfactor='60');
CREATE TABLE public.perdure_run_7 (
    run_id text CONSTRAINT perdure_run_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    agent text CONSTRAINT perdure_run_agent_not_null NOT NULL COLLATE pg_catalog."C",
    version text CONSTRAINT perdure_run_version_not_null NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    created_at bigint CONSTRAINT perdure_run_created_at_not_null NOT NULL,
    status text CONSTRAINT perdure_run_status_not_null NOT NULL COLLATE pg_catalog."C",
    due_at bigint DEFAULT 0 CONSTRAINT perdure_run_due_at_not_null NOT NULL,
    info bytea DEFAULT '\x'::bytea CONSTRAINT perdure_run_info_not_null NOT NULL,
    updated_at bigint CONSTRAINT perdure_run_updated_at_not_null NOT NULL,
    terminal boolean DEFAULT false CONSTRAINT perdure_run_terminal_not_null NOT NULL,
    epoch bigint DEFAULT 0 CONSTRAINT perdure_run_epoch_not_null NOT NULL,
    holder text COLLATE pg_catalog."C",
    held boolean DEFAULT false CONSTRAINT perdure_run_held_not_null NOT NULL,
    died boolean DEFAULT false CONSTRAINT perdure_run_died_not_null NOT NULL,
    lease_until bigint DEFAULT 0 CONSTRAINT perdure_run_lease_until_not_null NOT NULL,
    claims bigint DEFAULT 0 CONSTRAINT perdure_run_claims_not_null NOT NULL,
    seq bigint DEFAULT 0 CONSTRAINT perdure_run_seq_not_null NOT NULL,
    inbox bigint DEFAULT 0 CONSTRAINT perdure_run_inbox_not_null NOT NULL,
    pending bigint DEFAULT 0 CONSTRAINT perdure_run_pending_not_null NOT NULL,
    asks boolean DEFAULT false CONSTRAINT perdure_run_asks_not_null NOT NULL,
    floor bigint DEFAULT 0 CONSTRAINT perdure_run_floor_not_null NOT NULL,
    wake_at bigint GENERATED ALWAYS AS (
CASE
    WHEN (pending > 0) THEN (0)::bigint
    ELSE due_at
END) STORED CONSTRAINT perdure_run_wake_at_not_null NOT NULL,
    queue text DEFAULT 'default'::text CONSTRAINT perdure_run_queue_not_null NOT NULL COLLATE pg_catalog."C",
    tags text DEFAULT ''::text CONSTRAINT perdure_run_tags_not_null NOT NULL COLLATE pg_catalog."C",
    priority bigint DEFAULT 0 CONSTRAINT perdure_run_priority_not_null NOT NULL,
    limit_key text DEFAULT ''::text CONSTRAINT perdure_run_limit_key_not_null NOT NULL COLLATE pg_catalog."C",
    key_limit bigint DEFAULT 1 CONSTRAINT perdure_run_key_limit_not_null NOT NULL,
    parked_at bigint DEFAULT 0 CONSTRAINT perdure_run_parked_at_not_null NOT NULL
)
WITH (fillfactor='60');
CREATE TABLE public.perdure_schema (
    version integer NOT NULL,
    at bigint NOT NULL
);
CREATE TABLE public.perdure_snapshot (
    run_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    digest bytea NOT NULL,
    data bytea NOT NULL
)
PARTITION BY HASH (run_id);
CREATE TABLE public.perdure_snapshot_0 (
    run_id text CONSTRAINT perdure_snapshot_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_snapshot_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_snapshot_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_snapshot_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_snapshot_0 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_snapshot_1 (
    run_id text CONSTRAINT perdure_snapshot_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_snapshot_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_snapshot_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_snapshot_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_snapshot_1 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_snapshot_2 (
    run_id text CONSTRAINT perdure_snapshot_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_snapshot_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_snapshot_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_snapshot_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_snapshot_2 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_snapshot_3 (
    run_id text CONSTRAINT perdure_snapshot_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_snapshot_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_snapshot_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_snapshot_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_snapshot_3 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_snapshot_4 (
    run_id text CONSTRAINT perdure_snapshot_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_snapshot_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_snapshot_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_snapshot_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_snapshot_4 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_snapshot_5 (
    run_id text CONSTRAINT perdure_snapshot_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_snapshot_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_snapshot_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_snapshot_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_snapshot_5 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_snapshot_6 (
    run_id text CONSTRAINT perdure_snapshot_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_snapshot_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_snapshot_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_snapshot_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_snapshot_6 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_snapshot_7 (
    run_id text CONSTRAINT perdure_snapshot_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint CONSTRAINT perdure_snapshot_seq_not_null NOT NULL,
    digest bytea CONSTRAINT perdure_snapshot_digest_not_null NOT NULL,
    data bytea CONSTRAINT perdure_snapshot_data_not_null NOT NULL
);
ALTER TABLE ONLY public.perdure_snapshot_7 ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE public.perdure_tombstone (
    run_id text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    data bytea NOT NULL
)
PARTITION BY HASH (run_id);
CREATE TABLE public.perdure_tombstone_0 (
    run_id text CONSTRAINT perdure_tombstone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_tombstone_position_not_null NOT NULL,
    data bytea CONSTRAINT perdure_tombstone_data_not_null NOT NULL
);
CREATE TABLE public.perdure_tombstone_1 (
    run_id text CONSTRAINT perdure_tombstone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_tombstone_position_not_null NOT NULL,
    data bytea CONSTRAINT perdure_tombstone_data_not_null NOT NULL
);
CREATE TABLE public.perdure_tombstone_2 (
    run_id text CONSTRAINT perdure_tombstone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_tombstone_position_not_null NOT NULL,
    data bytea CONSTRAINT perdure_tombstone_data_not_null NOT NULL
);
CREATE TABLE public.perdure_tombstone_3 (
    run_id text CONSTRAINT perdure_tombstone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_tombstone_position_not_null NOT NULL,
    data bytea CONSTRAINT perdure_tombstone_data_not_null NOT NULL
);
CREATE TABLE public.perdure_tombstone_4 (
    run_id text CONSTRAINT perdure_tombstone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_tombstone_position_not_null NOT NULL,
    data bytea CONSTRAINT perdure_tombstone_data_not_null NOT NULL
);
CREATE TABLE public.perdure_tombstone_5 (
    run_id text CONSTRAINT perdure_tombstone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_tombstone_position_not_null NOT NULL,
    data bytea CONSTRAINT perdure_tombstone_data_not_null NOT NULL
);
CREATE TABLE public.perdure_tombstone_6 (
    run_id text CONSTRAINT perdure_tombstone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_tombstone_position_not_null NOT NULL,
    data bytea CONSTRAINT perdure_tombstone_data_not_null NOT NULL
);
CREATE TABLE public.perdure_tombstone_7 (
    run_id text CONSTRAINT perdure_tombstone_run_id_not_null NOT NULL COLLATE pg_catalog."C",
    "position" bigint CONSTRAINT perdure_tombstone_position_not_null NOT NULL,
    data bytea CONSTRAINT perdure_tombstone_data_not_null NOT NULL
);
CREATE TABLE public.perdure_worker (
    worker text NOT NULL COLLATE pg_catalog."C",
    key bigint NOT NULL,
    began_at bigint NOT NULL,
    missed_at bigint
);
ALTER TABLE ONLY public.perdure_blob ATTACH PARTITION public.perdure_blob_0 FOR VALUES WITH (modulus 8, remainder 0);
ALTER TABLE ONLY public.perdure_blob ATTACH PARTITION public.perdure_blob_1 FOR VALUES WITH (modulus 8, remainder 1);
ALTER TABLE ONLY public.perdure_blob ATTACH PARTITION public.perdure_blob_2 FOR VALUES WITH (modulus 8, remainder 2);
ALTER TABLE ONLY public.perdure_blob ATTACH PARTITION public.perdure_blob_3 FOR VALUES WITH (modulus 8, remainder 3);
ALTER TABLE ONLY public.perdure_blob ATTACH PARTITION public.perdure_blob_4 FOR VALUES WITH (modulus 8, remainder 4);
ALTER TABLE ONLY public.perdure_blob ATTACH PARTITION public.perdure_blob_5 FOR VALUES WITH (modulus 8, remainder 5);
ALTER TABLE ONLY public.perdure_blob ATTACH PARTITION public.perdure_blob_6 FOR VALUES WITH (modulus 8, remainder 6);
ALTER TABLE ONLY public.perdure_blob ATTACH PARTITION public.perdure_blob_7 FOR VALUES WITH (modulus 8, remainder 7);
ALTER TABLE ONLY public.perdure_event ATTACH PARTITION public.perdure_event_0 FOR VALUES WITH (modulus 8, remainder 0);
ALTER TABLE ONLY public.perdure_event ATTACH PARTITION public.perdure_event_1 FOR VALUES WITH (modulus 8, remainder 1);
ALTER TABLE ONLY public.perdure_event ATTACH PARTITION public.perdure_event_2 FOR VALUES WITH (modulus 8, remainder 2);
ALTER TABLE ONLY public.perdure_event ATTACH PARTITION public.perdure_event_3 FOR VALUES WITH (modulus 8, remainder 3);
ALTER TABLE ONLY public.perdure_event ATTACH PARTITION public.perdure_event_4 FOR VALUES WITH (modulus 8, remainder 4);
ALTER TABLE ONLY public.perdure_event ATTACH PARTITION public.perdure_event_5 FOR VALUES WITH (modulus 8, remainder 5);
ALTER TABLE ONLY public.perdure_event ATTACH PARTITION public.perdure_event_6 FOR VALUES WITH (modulus 8, remainder 6);
ALTER TABLE ONLY public.perdure_event ATTACH PARTITION public.perdure_event_7 FOR VALUES WITH (modulus 8, remainder 7);
ALTER TABLE ONLY public.perdure_gone ATTACH PARTITION public.perdure_gone_0 FOR VALUES WITH (modulus 8, remainder 0);
ALTER TABLE ONLY public.perdure_gone ATTACH PARTITION public.perdure_gone_1 FOR VALUES WITH (modulus 8, remainder 1);
ALTER TABLE ONLY public.perdure_gone ATTACH PARTITION public.perdure_gone_2 FOR VALUES WITH (modulus 8, remainder 2);
ALTER TABLE ONLY public.perdure_gone ATTACH PARTITION public.perdure_gone_3 FOR VALUES WITH (modulus 8, remainder 3);
ALTER TABLE ONLY public.perdure_gone ATTACH PARTITION public.perdure_gone_4 FOR VALUES WITH (modulus 8, remainder 4);
ALTER TABLE ONLY public.perdure_gone ATTACH PARTITION public.perdure_gone_5 FOR VALUES WITH (modulus 8, remainder 5);
ALTER TABLE ONLY public.perdure_gone ATTACH PARTITION public.perdure_gone_6 FOR VALUES WITH (modulus 8, remainder 6);
ALTER TABLE ONLY public.perdure_gone ATTACH PARTITION public.perdure_gone_7 FOR VALUES WITH (modulus 8, remainder 7);
ALTER TABLE ONLY public.perdure_inbox ATTACH PARTITION public.perdure_inbox_0 FOR VALUES WITH (modulus 8, remainder 0);
ALTER TABLE ONLY public.perdure_inbox ATTACH PARTITION public.perdure_inbox_1 FOR VALUES WITH (modulus 8, remainder 1);
ALTER TABLE ONLY public.perdure_inbox ATTACH PARTITION public.perdure_inbox_2 FOR VALUES WITH (modulus 8, remainder 2);
ALTER TABLE ONLY public.perdure_inbox ATTACH PARTITION public.perdure_inbox_3 FOR VALUES WITH (modulus 8, remainder 3);
ALTER TABLE ONLY public.perdure_inbox ATTACH PARTITION public.perdure_inbox_4 FOR VALUES WITH (modulus 8, remainder 4);
ALTER TABLE ONLY public.perdure_inbox ATTACH PARTITION public.perdure_inbox_5 FOR VALUES WITH (modulus 8, remainder 5);
ALTER TABLE ONLY public.perdure_inbox ATTACH PARTITION public.perdure_inbox_6 FOR VALUES WITH (modulus 8, remainder 6);
ALTER TABLE ONLY public.perdure_inbox ATTACH PARTITION public.perdure_inbox_7 FOR VALUES WITH (modulus 8, remainder 7);
ALTER TABLE ONLY public.perdure_key ATTACH PARTITION public.perdure_key_0 FOR VALUES WITH (modulus 8, remainder 0);
ALTER TABLE ONLY public.perdure_key ATTACH PARTITION public.perdure_key_1 FOR VALUES WITH (modulus 8, remainder 1);
ALTER TABLE ONLY public.perdure_key ATTACH PARTITION public.perdure_key_2 FOR VALUES WITH (modulus 8, remainder 2);
ALTER TABLE ONLY public.perdure_key ATTACH PARTITION public.perdure_key_3 FOR VALUES WITH (modulus 8, remainder 3);
ALTER TABLE ONLY public.perdure_key ATTACH PARTITION public.perdure_key_4 FOR VALUES WITH (modulus 8, remainder 4);
ALTER TABLE ONLY public.perdure_key ATTACH PARTITION public.perdure_key_5 FOR VALUES WITH (modulus 8, remainder 5);
ALTER TABLE ONLY public.perdure_key ATTACH PARTITION public.perdure_key_6 FOR VALUES WITH (modulus 8, remainder 6);
ALTER TABLE ONLY public.perdure_key ATTACH PARTITION public.perdure_key_7 FOR VALUES WITH (modulus 8, remainder 7);
ALTER TABLE ONLY public.perdure_run ATTACH PARTITION public.perdure_run_0 FOR VALUES WITH (modulus 8, remainder 0);
ALTER TABLE ONLY public.perdure_run ATTACH PARTITION public.perdure_run_1 FOR VALUES WITH (modulus 8, remainder 1);
ALTER TABLE ONLY public.perdure_run ATTACH PARTITION public.perdure_run_2 FOR VALUES WITH (modulus 8, remainder 2);
ALTER TABLE ONLY public.perdure_run ATTACH PARTITION public.perdure_run_3 FOR VALUES WITH (modulus 8, remainder 3);
ALTER TABLE ONLY public.perdure_run ATTACH PARTITION public.perdure_run_4 FOR VALUES WITH (modulus 8, remainder 4);
ALTER TABLE ONLY public.perdure_run ATTACH PARTITION public.perdure_run_5 FOR VALUES WITH (modulus 8, remainder 5);
ALTER TABLE ONLY public.perdure_run ATTACH PARTITION public.perdure_run_6 FOR VALUES WITH (modulus 8, remainder 6);
ALTER TABLE ONLY public.perdure_run ATTACH PARTITION public.perdure_run_7 FOR VALUES WITH (modulus 8, remainder 7);
ALTER TABLE ONLY public.perdure_snapshot ATTACH PARTITION public.perdure_snapshot_0 FOR VALUES WITH (modulus 8, remainder 0);
ALTER TABLE ONLY public.perdure_snapshot ATTACH PARTITION public.perdure_snapshot_1 FOR VALUES WITH (modulus 8, remainder 1);
ALTER TABLE ONLY public.perdure_snapshot ATTACH PARTITION public.perdure_snapshot_2 FOR VALUES WITH (modulus 8, remainder 2);
ALTER TABLE ONLY public.perdure_snapshot ATTACH PARTITION public.perdure_snapshot_3 FOR VALUES WITH (modulus 8, remainder 3);
ALTER TABLE ONLY public.perdure_snapshot ATTACH PARTITION public.perdure_snapshot_4 FOR VALUES WITH (modulus 8, remainder 4);
ALTER TABLE ONLY public.perdure_snapshot ATTACH PARTITION public.perdure_snapshot_5 FOR VALUES WITH (modulus 8, remainder 5);
ALTER TABLE ONLY public.perdure_snapshot ATTACH PARTITION public.perdure_snapshot_6 FOR VALUES WITH (modulus 8, remainder 6);
ALTER TABLE ONLY public.perdure_snapshot ATTACH PARTITION public.perdure_snapshot_7 FOR VALUES WITH (modulus 8, remainder 7);
ALTER TABLE ONLY public.perdure_tombstone ATTACH PARTITION public.perdure_tombstone_0 FOR VALUES WITH (modulus 8, remainder 0);
ALTER TABLE ONLY public.perdure_tombstone ATTACH PARTITION public.perdure_tombstone_1 FOR VALUES WITH (modulus 8, remainder 1);
ALTER TABLE ONLY public.perdure_tombstone ATTACH PARTITION public.perdure_tombstone_2 FOR VALUES WITH (modulus 8, remainder 2);
ALTER TABLE ONLY public.perdure_tombstone ATTACH PARTITION public.perdure_tombstone_3 FOR VALUES WITH (modulus 8, remainder 3);
ALTER TABLE ONLY public.perdure_tombstone ATTACH PARTITION public.perdure_tombstone_4 FOR VALUES WITH (modulus 8, remainder 4);
ALTER TABLE ONLY public.perdure_tombstone ATTACH PARTITION public.perdure_tombstone_5 FOR VALUES WITH (modulus 8, remainder 5);
ALTER TABLE ONLY public.perdure_tombstone ATTACH PARTITION public.perdure_tombstone_6 FOR VALUES WITH (modulus 8, remainder 6);
ALTER TABLE ONLY public.perdure_tombstone ATTACH PARTITION public.perdure_tombstone_7 FOR VALUES WITH (modulus 8, remainder 7);
INSERT INTO public.perdure_blob_0 VALUES ('waits', '\x6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', '\x6c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c617267656c61726765');
INSERT INTO public.perdure_event_0 VALUES ('waits', 1, '\x6576656e7420312e2e2e2e2e2e2e2e2e', '\x6576656e742031');
INSERT INTO public.perdure_event_0 VALUES ('waits', 2, '\x6576656e7420322e2e2e2e2e2e2e2e2e', '\x6576656e742032');
INSERT INTO public.perdure_event_0 VALUES ('works', 1, '\x6576656e7420312e2e2e2e2e2e2e2e2e', '\x6576656e742031');
INSERT INTO public.perdure_event_0 VALUES ('works', 2, '\x6576656e7420322e2e2e2e2e2e2e2e2e', '\x6576656e742032');
INSERT INTO public.perdure_event_0 VALUES ('ended', 1, '\x6576656e7420312e2e2e2e2e2e2e2e2e', '\x6576656e742031');
INSERT INTO public.perdure_event_0 VALUES ('ended', 2, '\x6576656e7420322e2e2e2e2e2e2e2e2e', '\x6576656e742032');
INSERT INTO public.perdure_event_0 VALUES ('waits', 3, '\x6576656e7420332e2e2e2e2e2e2e2e2e', '\x6576656e742033');
INSERT INTO public.perdure_event_0 VALUES ('waits', 4, '\x6576656e7420342e2e2e2e2e2e2e2e2e', '\x6576656e742034');
INSERT INTO public.perdure_event_0 VALUES ('works', 3, '\x6576656e7420332e2e2e2e2e2e2e2e2e', '\x6576656e742033');
INSERT INTO public.perdure_event_0 VALUES ('ended', 3, '\x6576656e7420332e2e2e2e2e2e2e2e2e', '\x6576656e742033');
INSERT INTO public.perdure_gone_4 VALUES ('gone', 1750000000000000);
INSERT INTO public.perdure_inbox_0 VALUES ('works', 1, 'm1', 'signal', '\x', 1750000000000000, true);
INSERT INTO public.perdure_inbox_0 VALUES ('works', 2, 'm2', 'signal', '\x64617461', 1750000000000000, false);
INSERT INTO public.perdure_run_0 VALUES ('waits', 'a', '1', NULL, 1750000000000000, 'waiting', 4611686018427387904, '\x776879', 1750000000000000, false, 1, 'w1', false, false, 0, 0, 4, 0, 0, true, 0, DEFAULT, 'default', '', 0, '', 1, 0);
INSERT INTO public.perdure_run_0 VALUES ('works', 'a', '1', NULL, 1750000000000000, 'ready', 0, '\x', 1750000000000000, false, 1, 'w1', true, false, 1750000030000000, 1, 3, 2, 1, false, 0, DEFAULT, 'default', '', 0, '', 1, 0);
INSERT INTO public.perdure_run_0 VALUES ('ended', 'a', '1', NULL, 1750000000000000, 'succeeded', 0, '\x', 1750000000000000, true, 1, 'w1', false, false, 0, 0, 3, 0, 0, false, 0, DEFAULT, 'default', '', 0, '', 1, 0);
INSERT INTO public.perdure_schema VALUES (2, 1796017253380616);
INSERT INTO public.perdure_snapshot_0 VALUES ('waits', 3, '\x64646464646464646464646464646464', '\x7374617465');
INSERT INTO public.perdure_tombstone_4 VALUES ('gone', 1, '\x6b6579206f6e65');
INSERT INTO public.perdure_tombstone_4 VALUES ('gone', 2, '\x6b65792074776f');
SELECT pg_catalog.setval('public.perdure_change', 15, true);
ALTER TABLE ONLY public.perdure_blob
    ADD CONSTRAINT perdure_blob_pkey PRIMARY KEY (run_id, digest);
ALTER TABLE ONLY public.perdure_blob_0
    ADD CONSTRAINT perdure_blob_0_pkey PRIMARY KEY (run_id, digest);
ALTER TABLE ONLY public.perdure_blob_1
    ADD CONSTRAINT perdure_blob_1_pkey PRIMARY KEY (run_id, digest);
ALTER TABLE ONLY public.perdure_blob_2
    ADD CONSTRAINT perdure_blob_2_pkey PRIMARY KEY (run_id, digest);
ALTER TABLE ONLY public.perdure_blob_3
    ADD CONSTRAINT perdure_blob_3_pkey PRIMARY KEY (run_id, digest);
ALTER TABLE ONLY public.perdure_blob_4
    ADD CONSTRAINT perdure_blob_4_pkey PRIMARY KEY (run_id, digest);
ALTER TABLE ONLY public.perdure_blob_5
    ADD CONSTRAINT perdure_blob_5_pkey PRIMARY KEY (run_id, digest);
ALTER TABLE ONLY public.perdure_blob_6
    ADD CONSTRAINT perdure_blob_6_pkey PRIMARY KEY (run_id, digest);
ALTER TABLE ONLY public.perdure_blob_7
    ADD CONSTRAINT perdure_blob_7_pkey PRIMARY KEY (run_id, digest);
ALTER TABLE ONLY public.perdure_event
    ADD CONSTRAINT perdure_event_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_event_0
    ADD CONSTRAINT perdure_event_0_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_event_1
    ADD CONSTRAINT perdure_event_1_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_event_2
    ADD CONSTRAINT perdure_event_2_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_event_3
    ADD CONSTRAINT perdure_event_3_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_event_4
    ADD CONSTRAINT perdure_event_4_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_event_5
    ADD CONSTRAINT perdure_event_5_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_event_6
    ADD CONSTRAINT perdure_event_6_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_event_7
    ADD CONSTRAINT perdure_event_7_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_gone
    ADD CONSTRAINT perdure_gone_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_gone_0
    ADD CONSTRAINT perdure_gone_0_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_gone_1
    ADD CONSTRAINT perdure_gone_1_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_gone_2
    ADD CONSTRAINT perdure_gone_2_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_gone_3
    ADD CONSTRAINT perdure_gone_3_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_gone_4
    ADD CONSTRAINT perdure_gone_4_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_gone_5
    ADD CONSTRAINT perdure_gone_5_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_gone_6
    ADD CONSTRAINT perdure_gone_6_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_gone_7
    ADD CONSTRAINT perdure_gone_7_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_inbox
    ADD CONSTRAINT perdure_inbox_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_inbox_0
    ADD CONSTRAINT perdure_inbox_0_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_inbox
    ADD CONSTRAINT perdure_inbox_run_id_id_key UNIQUE (run_id, id);
ALTER TABLE ONLY public.perdure_inbox_0
    ADD CONSTRAINT perdure_inbox_0_run_id_id_key UNIQUE (run_id, id);
ALTER TABLE ONLY public.perdure_inbox_1
    ADD CONSTRAINT perdure_inbox_1_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_inbox_1
    ADD CONSTRAINT perdure_inbox_1_run_id_id_key UNIQUE (run_id, id);
ALTER TABLE ONLY public.perdure_inbox_2
    ADD CONSTRAINT perdure_inbox_2_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_inbox_2
    ADD CONSTRAINT perdure_inbox_2_run_id_id_key UNIQUE (run_id, id);
ALTER TABLE ONLY public.perdure_inbox_3
    ADD CONSTRAINT perdure_inbox_3_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_inbox_3
    ADD CONSTRAINT perdure_inbox_3_run_id_id_key UNIQUE (run_id, id);
ALTER TABLE ONLY public.perdure_inbox_4
    ADD CONSTRAINT perdure_inbox_4_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_inbox_4
    ADD CONSTRAINT perdure_inbox_4_run_id_id_key UNIQUE (run_id, id);
ALTER TABLE ONLY public.perdure_inbox_5
    ADD CONSTRAINT perdure_inbox_5_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_inbox_5
    ADD CONSTRAINT perdure_inbox_5_run_id_id_key UNIQUE (run_id, id);
ALTER TABLE ONLY public.perdure_inbox_6
    ADD CONSTRAINT perdure_inbox_6_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_inbox_6
    ADD CONSTRAINT perdure_inbox_6_run_id_id_key UNIQUE (run_id, id);
ALTER TABLE ONLY public.perdure_inbox_7
    ADD CONSTRAINT perdure_inbox_7_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_inbox_7
    ADD CONSTRAINT perdure_inbox_7_run_id_id_key UNIQUE (run_id, id);
ALTER TABLE ONLY public.perdure_key
    ADD CONSTRAINT perdure_key_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_key_0
    ADD CONSTRAINT perdure_key_0_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_key_1
    ADD CONSTRAINT perdure_key_1_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_key_2
    ADD CONSTRAINT perdure_key_2_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_key_3
    ADD CONSTRAINT perdure_key_3_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_key_4
    ADD CONSTRAINT perdure_key_4_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_key_5
    ADD CONSTRAINT perdure_key_5_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_key_6
    ADD CONSTRAINT perdure_key_6_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_key_7
    ADD CONSTRAINT perdure_key_7_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_run
    ADD CONSTRAINT perdure_run_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_run_0
    ADD CONSTRAINT perdure_run_0_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_run_1
    ADD CONSTRAINT perdure_run_1_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_run_2
    ADD CONSTRAINT perdure_run_2_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_run_3
    ADD CONSTRAINT perdure_run_3_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_run_4
    ADD CONSTRAINT perdure_run_4_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_run_5
    ADD CONSTRAINT perdure_run_5_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_run_6
    ADD CONSTRAINT perdure_run_6_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_run_7
    ADD CONSTRAINT perdure_run_7_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.perdure_snapshot
    ADD CONSTRAINT perdure_snapshot_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_snapshot_0
    ADD CONSTRAINT perdure_snapshot_0_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_snapshot_1
    ADD CONSTRAINT perdure_snapshot_1_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_snapshot_2
    ADD CONSTRAINT perdure_snapshot_2_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_snapshot_3
    ADD CONSTRAINT perdure_snapshot_3_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_snapshot_4
    ADD CONSTRAINT perdure_snapshot_4_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_snapshot_5
    ADD CONSTRAINT perdure_snapshot_5_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_snapshot_6
    ADD CONSTRAINT perdure_snapshot_6_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_snapshot_7
    ADD CONSTRAINT perdure_snapshot_7_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.perdure_tombstone
    ADD CONSTRAINT perdure_tombstone_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_tombstone_0
    ADD CONSTRAINT perdure_tombstone_0_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_tombstone_1
    ADD CONSTRAINT perdure_tombstone_1_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_tombstone_2
    ADD CONSTRAINT perdure_tombstone_2_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_tombstone_3
    ADD CONSTRAINT perdure_tombstone_3_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_tombstone_4
    ADD CONSTRAINT perdure_tombstone_4_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_tombstone_5
    ADD CONSTRAINT perdure_tombstone_5_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_tombstone_6
    ADD CONSTRAINT perdure_tombstone_6_pkey PRIMARY KEY (run_id, "position");
ALTER TABLE ONLY public.perdure_tombstone_7
    ADD CONSTRAINT perdure_tombstone_7_pkey PRIMARY KEY (run_id, "position");
CREATE INDEX perdure_inbox_waiting ON ONLY public.perdure_inbox USING btree (run_id, "position") WHERE (NOT taken);
CREATE INDEX perdure_inbox_0_run_id_position_idx ON public.perdure_inbox_0 USING btree (run_id, "position") WHERE (NOT taken);
CREATE INDEX perdure_inbox_1_run_id_position_idx ON public.perdure_inbox_1 USING btree (run_id, "position") WHERE (NOT taken);
CREATE INDEX perdure_inbox_2_run_id_position_idx ON public.perdure_inbox_2 USING btree (run_id, "position") WHERE (NOT taken);
CREATE INDEX perdure_inbox_3_run_id_position_idx ON public.perdure_inbox_3 USING btree (run_id, "position") WHERE (NOT taken);
CREATE INDEX perdure_inbox_4_run_id_position_idx ON public.perdure_inbox_4 USING btree (run_id, "position") WHERE (NOT taken);
CREATE INDEX perdure_inbox_5_run_id_position_idx ON public.perdure_inbox_5 USING btree (run_id, "position") WHERE (NOT taken);
CREATE INDEX perdure_inbox_6_run_id_position_idx ON public.perdure_inbox_6 USING btree (run_id, "position") WHERE (NOT taken);
CREATE INDEX perdure_inbox_7_run_id_position_idx ON public.perdure_inbox_7 USING btree (run_id, "position") WHERE (NOT taken);
CREATE INDEX perdure_run_free ON ONLY public.perdure_run USING btree (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE ((NOT terminal) AND (NOT held));
CREATE INDEX perdure_run_0_agent_version_parked_at_queue_tags_priority_w_idx ON public.perdure_run_0 USING btree (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE ((NOT terminal) AND (NOT held));
CREATE INDEX perdure_run_created ON ONLY public.perdure_run USING btree (created_at, run_id);
CREATE INDEX perdure_run_0_created_at_run_id_idx ON public.perdure_run_0 USING btree (created_at, run_id);
CREATE INDEX perdure_run_asks ON ONLY public.perdure_run USING btree (created_at, run_id) WHERE ((NOT terminal) AND asks);
CREATE INDEX perdure_run_0_created_at_run_id_idx1 ON public.perdure_run_0 USING btree (created_at, run_id) WHERE ((NOT terminal) AND asks);
CREATE INDEX perdure_run_open ON ONLY public.perdure_run USING btree (created_at, run_id, status) WHERE (NOT terminal);
CREATE INDEX perdure_run_0_created_at_run_id_status_idx ON public.perdure_run_0 USING btree (created_at, run_id, status) WHERE (NOT terminal);
CREATE INDEX perdure_run_holder ON ONLY public.perdure_run USING btree (holder) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_0_holder_idx ON public.perdure_run_0 USING btree (holder) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_lease ON ONLY public.perdure_run USING btree (lease_until) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_0_lease_until_idx ON public.perdure_run_0 USING btree (lease_until) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_key ON ONLY public.perdure_run USING btree (limit_key, held, agent, version, queue, tags, parked_at) WHERE ((NOT terminal) AND (limit_key <> ''::text));
CREATE INDEX perdure_run_0_limit_key_held_agent_version_queue_tags_parke_idx ON public.perdure_run_0 USING btree (limit_key, held, agent, version, queue, tags, parked_at) WHERE ((NOT terminal) AND (limit_key <> ''::text));
CREATE INDEX perdure_run_ended ON ONLY public.perdure_run USING btree (status, created_at, run_id) WHERE terminal;
CREATE INDEX perdure_run_0_status_created_at_run_id_idx ON public.perdure_run_0 USING btree (status, created_at, run_id) WHERE terminal;
CREATE INDEX perdure_run_1_agent_version_parked_at_queue_tags_priority_w_idx ON public.perdure_run_1 USING btree (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE ((NOT terminal) AND (NOT held));
CREATE INDEX perdure_run_1_created_at_run_id_idx ON public.perdure_run_1 USING btree (created_at, run_id);
CREATE INDEX perdure_run_1_created_at_run_id_idx1 ON public.perdure_run_1 USING btree (created_at, run_id) WHERE ((NOT terminal) AND asks);
CREATE INDEX perdure_run_1_created_at_run_id_status_idx ON public.perdure_run_1 USING btree (created_at, run_id, status) WHERE (NOT terminal);
CREATE INDEX perdure_run_1_holder_idx ON public.perdure_run_1 USING btree (holder) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_1_lease_until_idx ON public.perdure_run_1 USING btree (lease_until) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_1_limit_key_held_agent_version_queue_tags_parke_idx ON public.perdure_run_1 USING btree (limit_key, held, agent, version, queue, tags, parked_at) WHERE ((NOT terminal) AND (limit_key <> ''::text));
CREATE INDEX perdure_run_1_status_created_at_run_id_idx ON public.perdure_run_1 USING btree (status, created_at, run_id) WHERE terminal;
CREATE INDEX perdure_run_2_agent_version_parked_at_queue_tags_priority_w_idx ON public.perdure_run_2 USING btree (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE ((NOT terminal) AND (NOT held));
CREATE INDEX perdure_run_2_created_at_run_id_idx ON public.perdure_run_2 USING btree (created_at, run_id);
CREATE INDEX perdure_run_2_created_at_run_id_idx1 ON public.perdure_run_2 USING btree (created_at, run_id) WHERE ((NOT terminal) AND asks);
CREATE INDEX perdure_run_2_created_at_run_id_status_idx ON public.perdure_run_2 USING btree (created_at, run_id, status) WHERE (NOT terminal);
CREATE INDEX perdure_run_2_holder_idx ON public.perdure_run_2 USING btree (holder) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_2_lease_until_idx ON public.perdure_run_2 USING btree (lease_until) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_2_limit_key_held_agent_version_queue_tags_parke_idx ON public.perdure_run_2 USING btree (limit_key, held, agent, version, queue, tags, parked_at) WHERE ((NOT terminal) AND (limit_key <> ''::text));
CREATE INDEX perdure_run_2_status_created_at_run_id_idx ON public.perdure_run_2 USING btree (status, created_at, run_id) WHERE terminal;
CREATE INDEX perdure_run_3_agent_version_parked_at_queue_tags_priority_w_idx ON public.perdure_run_3 USING btree (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE ((NOT terminal) AND (NOT held));
CREATE INDEX perdure_run_3_created_at_run_id_idx ON public.perdure_run_3 USING btree (created_at, run_id);
CREATE INDEX perdure_run_3_created_at_run_id_idx1 ON public.perdure_run_3 USING btree (created_at, run_id) WHERE ((NOT terminal) AND asks);
CREATE INDEX perdure_run_3_created_at_run_id_status_idx ON public.perdure_run_3 USING btree (created_at, run_id, status) WHERE (NOT terminal);
CREATE INDEX perdure_run_3_holder_idx ON public.perdure_run_3 USING btree (holder) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_3_lease_until_idx ON public.perdure_run_3 USING btree (lease_until) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_3_limit_key_held_agent_version_queue_tags_parke_idx ON public.perdure_run_3 USING btree (limit_key, held, agent, version, queue, tags, parked_at) WHERE ((NOT terminal) AND (limit_key <> ''::text));
CREATE INDEX perdure_run_3_status_created_at_run_id_idx ON public.perdure_run_3 USING btree (status, created_at, run_id) WHERE terminal;
CREATE INDEX perdure_run_4_agent_version_parked_at_queue_tags_priority_w_idx ON public.perdure_run_4 USING btree (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE ((NOT terminal) AND (NOT held));
CREATE INDEX perdure_run_4_created_at_run_id_idx ON public.perdure_run_4 USING btree (created_at, run_id);
CREATE INDEX perdure_run_4_created_at_run_id_idx1 ON public.perdure_run_4 USING btree (created_at, run_id) WHERE ((NOT terminal) AND asks);
CREATE INDEX perdure_run_4_created_at_run_id_status_idx ON public.perdure_run_4 USING btree (created_at, run_id, status) WHERE (NOT terminal);
CREATE INDEX perdure_run_4_holder_idx ON public.perdure_run_4 USING btree (holder) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_4_lease_until_idx ON public.perdure_run_4 USING btree (lease_until) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_4_limit_key_held_agent_version_queue_tags_parke_idx ON public.perdure_run_4 USING btree (limit_key, held, agent, version, queue, tags, parked_at) WHERE ((NOT terminal) AND (limit_key <> ''::text));
CREATE INDEX perdure_run_4_status_created_at_run_id_idx ON public.perdure_run_4 USING btree (status, created_at, run_id) WHERE terminal;
CREATE INDEX perdure_run_5_agent_version_parked_at_queue_tags_priority_w_idx ON public.perdure_run_5 USING btree (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE ((NOT terminal) AND (NOT held));
CREATE INDEX perdure_run_5_created_at_run_id_idx ON public.perdure_run_5 USING btree (created_at, run_id);
CREATE INDEX perdure_run_5_created_at_run_id_idx1 ON public.perdure_run_5 USING btree (created_at, run_id) WHERE ((NOT terminal) AND asks);
CREATE INDEX perdure_run_5_created_at_run_id_status_idx ON public.perdure_run_5 USING btree (created_at, run_id, status) WHERE (NOT terminal);
CREATE INDEX perdure_run_5_holder_idx ON public.perdure_run_5 USING btree (holder) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_5_lease_until_idx ON public.perdure_run_5 USING btree (lease_until) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_5_limit_key_held_agent_version_queue_tags_parke_idx ON public.perdure_run_5 USING btree (limit_key, held, agent, version, queue, tags, parked_at) WHERE ((NOT terminal) AND (limit_key <> ''::text));
CREATE INDEX perdure_run_5_status_created_at_run_id_idx ON public.perdure_run_5 USING btree (status, created_at, run_id) WHERE terminal;
CREATE INDEX perdure_run_6_agent_version_parked_at_queue_tags_priority_w_idx ON public.perdure_run_6 USING btree (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE ((NOT terminal) AND (NOT held));
CREATE INDEX perdure_run_6_created_at_run_id_idx ON public.perdure_run_6 USING btree (created_at, run_id);
CREATE INDEX perdure_run_6_created_at_run_id_idx1 ON public.perdure_run_6 USING btree (created_at, run_id) WHERE ((NOT terminal) AND asks);
CREATE INDEX perdure_run_6_created_at_run_id_status_idx ON public.perdure_run_6 USING btree (created_at, run_id, status) WHERE (NOT terminal);
CREATE INDEX perdure_run_6_holder_idx ON public.perdure_run_6 USING btree (holder) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_6_lease_until_idx ON public.perdure_run_6 USING btree (lease_until) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_6_limit_key_held_agent_version_queue_tags_parke_idx ON public.perdure_run_6 USING btree (limit_key, held, agent, version, queue, tags, parked_at) WHERE ((NOT terminal) AND (limit_key <> ''::text));
CREATE INDEX perdure_run_6_status_created_at_run_id_idx ON public.perdure_run_6 USING btree (status, created_at, run_id) WHERE terminal;
CREATE INDEX perdure_run_7_agent_version_parked_at_queue_tags_priority_w_idx ON public.perdure_run_7 USING btree (agent, version, parked_at, queue, tags, priority, wake_at, updated_at) WHERE ((NOT terminal) AND (NOT held));
CREATE INDEX perdure_run_7_created_at_run_id_idx ON public.perdure_run_7 USING btree (created_at, run_id);
CREATE INDEX perdure_run_7_created_at_run_id_idx1 ON public.perdure_run_7 USING btree (created_at, run_id) WHERE ((NOT terminal) AND asks);
CREATE INDEX perdure_run_7_created_at_run_id_status_idx ON public.perdure_run_7 USING btree (created_at, run_id, status) WHERE (NOT terminal);
CREATE INDEX perdure_run_7_holder_idx ON public.perdure_run_7 USING btree (holder) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_7_lease_until_idx ON public.perdure_run_7 USING btree (lease_until) WHERE ((NOT terminal) AND held);
CREATE INDEX perdure_run_7_limit_key_held_agent_version_queue_tags_parke_idx ON public.perdure_run_7 USING btree (limit_key, held, agent, version, queue, tags, parked_at) WHERE ((NOT terminal) AND (limit_key <> ''::text));
CREATE INDEX perdure_run_7_status_created_at_run_id_idx ON public.perdure_run_7 USING btree (status, created_at, run_id) WHERE terminal;
ALTER INDEX public.perdure_blob_pkey ATTACH PARTITION public.perdure_blob_0_pkey;
ALTER INDEX public.perdure_blob_pkey ATTACH PARTITION public.perdure_blob_1_pkey;
ALTER INDEX public.perdure_blob_pkey ATTACH PARTITION public.perdure_blob_2_pkey;
ALTER INDEX public.perdure_blob_pkey ATTACH PARTITION public.perdure_blob_3_pkey;
ALTER INDEX public.perdure_blob_pkey ATTACH PARTITION public.perdure_blob_4_pkey;
ALTER INDEX public.perdure_blob_pkey ATTACH PARTITION public.perdure_blob_5_pkey;
ALTER INDEX public.perdure_blob_pkey ATTACH PARTITION public.perdure_blob_6_pkey;
ALTER INDEX public.perdure_blob_pkey ATTACH PARTITION public.perdure_blob_7_pkey;
ALTER INDEX public.perdure_event_pkey ATTACH PARTITION public.perdure_event_0_pkey;
ALTER INDEX public.perdure_event_pkey ATTACH PARTITION public.perdure_event_1_pkey;
ALTER INDEX public.perdure_event_pkey ATTACH PARTITION public.perdure_event_2_pkey;
ALTER INDEX public.perdure_event_pkey ATTACH PARTITION public.perdure_event_3_pkey;
ALTER INDEX public.perdure_event_pkey ATTACH PARTITION public.perdure_event_4_pkey;
ALTER INDEX public.perdure_event_pkey ATTACH PARTITION public.perdure_event_5_pkey;
ALTER INDEX public.perdure_event_pkey ATTACH PARTITION public.perdure_event_6_pkey;
ALTER INDEX public.perdure_event_pkey ATTACH PARTITION public.perdure_event_7_pkey;
ALTER INDEX public.perdure_gone_pkey ATTACH PARTITION public.perdure_gone_0_pkey;
ALTER INDEX public.perdure_gone_pkey ATTACH PARTITION public.perdure_gone_1_pkey;
ALTER INDEX public.perdure_gone_pkey ATTACH PARTITION public.perdure_gone_2_pkey;
ALTER INDEX public.perdure_gone_pkey ATTACH PARTITION public.perdure_gone_3_pkey;
ALTER INDEX public.perdure_gone_pkey ATTACH PARTITION public.perdure_gone_4_pkey;
ALTER INDEX public.perdure_gone_pkey ATTACH PARTITION public.perdure_gone_5_pkey;
ALTER INDEX public.perdure_gone_pkey ATTACH PARTITION public.perdure_gone_6_pkey;
ALTER INDEX public.perdure_gone_pkey ATTACH PARTITION public.perdure_gone_7_pkey;
ALTER INDEX public.perdure_inbox_pkey ATTACH PARTITION public.perdure_inbox_0_pkey;
ALTER INDEX public.perdure_inbox_run_id_id_key ATTACH PARTITION public.perdure_inbox_0_run_id_id_key;
ALTER INDEX public.perdure_inbox_waiting ATTACH PARTITION public.perdure_inbox_0_run_id_position_idx;
ALTER INDEX public.perdure_inbox_pkey ATTACH PARTITION public.perdure_inbox_1_pkey;
ALTER INDEX public.perdure_inbox_run_id_id_key ATTACH PARTITION public.perdure_inbox_1_run_id_id_key;
ALTER INDEX public.perdure_inbox_waiting ATTACH PARTITION public.perdure_inbox_1_run_id_position_idx;
ALTER INDEX public.perdure_inbox_pkey ATTACH PARTITION public.perdure_inbox_2_pkey;
ALTER INDEX public.perdure_inbox_run_id_id_key ATTACH PARTITION public.perdure_inbox_2_run_id_id_key;
ALTER INDEX public.perdure_inbox_waiting ATTACH PARTITION public.perdure_inbox_2_run_id_position_idx;
ALTER INDEX public.perdure_inbox_pkey ATTACH PARTITION public.perdure_inbox_3_pkey;
ALTER INDEX public.perdure_inbox_run_id_id_key ATTACH PARTITION public.perdure_inbox_3_run_id_id_key;
ALTER INDEX public.perdure_inbox_waiting ATTACH PARTITION public.perdure_inbox_3_run_id_position_idx;
ALTER INDEX public.perdure_inbox_pkey ATTACH PARTITION public.perdure_inbox_4_pkey;
ALTER INDEX public.perdure_inbox_run_id_id_key ATTACH PARTITION public.perdure_inbox_4_run_id_id_key;
ALTER INDEX public.perdure_inbox_waiting ATTACH PARTITION public.perdure_inbox_4_run_id_position_idx;
ALTER INDEX public.perdure_inbox_pkey ATTACH PARTITION public.perdure_inbox_5_pkey;
ALTER INDEX public.perdure_inbox_run_id_id_key ATTACH PARTITION public.perdure_inbox_5_run_id_id_key;
ALTER INDEX public.perdure_inbox_waiting ATTACH PARTITION public.perdure_inbox_5_run_id_position_idx;
ALTER INDEX public.perdure_inbox_pkey ATTACH PARTITION public.perdure_inbox_6_pkey;
ALTER INDEX public.perdure_inbox_run_id_id_key ATTACH PARTITION public.perdure_inbox_6_run_id_id_key;
ALTER INDEX public.perdure_inbox_waiting ATTACH PARTITION public.perdure_inbox_6_run_id_position_idx;
ALTER INDEX public.perdure_inbox_pkey ATTACH PARTITION public.perdure_inbox_7_pkey;
ALTER INDEX public.perdure_inbox_run_id_id_key ATTACH PARTITION public.perdure_inbox_7_run_id_id_key;
ALTER INDEX public.perdure_inbox_waiting ATTACH PARTITION public.perdure_inbox_7_run_id_position_idx;
ALTER INDEX public.perdure_key_pkey ATTACH PARTITION public.perdure_key_0_pkey;
ALTER INDEX public.perdure_key_pkey ATTACH PARTITION public.perdure_key_1_pkey;
ALTER INDEX public.perdure_key_pkey ATTACH PARTITION public.perdure_key_2_pkey;
ALTER INDEX public.perdure_key_pkey ATTACH PARTITION public.perdure_key_3_pkey;
ALTER INDEX public.perdure_key_pkey ATTACH PARTITION public.perdure_key_4_pkey;
ALTER INDEX public.perdure_key_pkey ATTACH PARTITION public.perdure_key_5_pkey;
ALTER INDEX public.perdure_key_pkey ATTACH PARTITION public.perdure_key_6_pkey;
ALTER INDEX public.perdure_key_pkey ATTACH PARTITION public.perdure_key_7_pkey;
ALTER INDEX public.perdure_run_free ATTACH PARTITION public.perdure_run_0_agent_version_parked_at_queue_tags_priority_w_idx;
ALTER INDEX public.perdure_run_created ATTACH PARTITION public.perdure_run_0_created_at_run_id_idx;
ALTER INDEX public.perdure_run_asks ATTACH PARTITION public.perdure_run_0_created_at_run_id_idx1;
ALTER INDEX public.perdure_run_open ATTACH PARTITION public.perdure_run_0_created_at_run_id_status_idx;
ALTER INDEX public.perdure_run_holder ATTACH PARTITION public.perdure_run_0_holder_idx;
ALTER INDEX public.perdure_run_lease ATTACH PARTITION public.perdure_run_0_lease_until_idx;
ALTER INDEX public.perdure_run_key ATTACH PARTITION public.perdure_run_0_limit_key_held_agent_version_queue_tags_parke_idx;
ALTER INDEX public.perdure_run_pkey ATTACH PARTITION public.perdure_run_0_pkey;
ALTER INDEX public.perdure_run_ended ATTACH PARTITION public.perdure_run_0_status_created_at_run_id_idx;
ALTER INDEX public.perdure_run_free ATTACH PARTITION public.perdure_run_1_agent_version_parked_at_queue_tags_priority_w_idx;
ALTER INDEX public.perdure_run_created ATTACH PARTITION public.perdure_run_1_created_at_run_id_idx;
ALTER INDEX public.perdure_run_asks ATTACH PARTITION public.perdure_run_1_created_at_run_id_idx1;
ALTER INDEX public.perdure_run_open ATTACH PARTITION public.perdure_run_1_created_at_run_id_status_idx;
ALTER INDEX public.perdure_run_holder ATTACH PARTITION public.perdure_run_1_holder_idx;
ALTER INDEX public.perdure_run_lease ATTACH PARTITION public.perdure_run_1_lease_until_idx;
ALTER INDEX public.perdure_run_key ATTACH PARTITION public.perdure_run_1_limit_key_held_agent_version_queue_tags_parke_idx;
ALTER INDEX public.perdure_run_pkey ATTACH PARTITION public.perdure_run_1_pkey;
ALTER INDEX public.perdure_run_ended ATTACH PARTITION public.perdure_run_1_status_created_at_run_id_idx;
ALTER INDEX public.perdure_run_free ATTACH PARTITION public.perdure_run_2_agent_version_parked_at_queue_tags_priority_w_idx;
ALTER INDEX public.perdure_run_created ATTACH PARTITION public.perdure_run_2_created_at_run_id_idx;
ALTER INDEX public.perdure_run_asks ATTACH PARTITION public.perdure_run_2_created_at_run_id_idx1;
ALTER INDEX public.perdure_run_open ATTACH PARTITION public.perdure_run_2_created_at_run_id_status_idx;
ALTER INDEX public.perdure_run_holder ATTACH PARTITION public.perdure_run_2_holder_idx;
ALTER INDEX public.perdure_run_lease ATTACH PARTITION public.perdure_run_2_lease_until_idx;
ALTER INDEX public.perdure_run_key ATTACH PARTITION public.perdure_run_2_limit_key_held_agent_version_queue_tags_parke_idx;
ALTER INDEX public.perdure_run_pkey ATTACH PARTITION public.perdure_run_2_pkey;
ALTER INDEX public.perdure_run_ended ATTACH PARTITION public.perdure_run_2_status_created_at_run_id_idx;
ALTER INDEX public.perdure_run_free ATTACH PARTITION public.perdure_run_3_agent_version_parked_at_queue_tags_priority_w_idx;
ALTER INDEX public.perdure_run_created ATTACH PARTITION public.perdure_run_3_created_at_run_id_idx;
ALTER INDEX public.perdure_run_asks ATTACH PARTITION public.perdure_run_3_created_at_run_id_idx1;
ALTER INDEX public.perdure_run_open ATTACH PARTITION public.perdure_run_3_created_at_run_id_status_idx;
ALTER INDEX public.perdure_run_holder ATTACH PARTITION public.perdure_run_3_holder_idx;
ALTER INDEX public.perdure_run_lease ATTACH PARTITION public.perdure_run_3_lease_until_idx;
ALTER INDEX public.perdure_run_key ATTACH PARTITION public.perdure_run_3_limit_key_held_agent_version_queue_tags_parke_idx;
ALTER INDEX public.perdure_run_pkey ATTACH PARTITION public.perdure_run_3_pkey;
ALTER INDEX public.perdure_run_ended ATTACH PARTITION public.perdure_run_3_status_created_at_run_id_idx;
ALTER INDEX public.perdure_run_free ATTACH PARTITION public.perdure_run_4_agent_version_parked_at_queue_tags_priority_w_idx;
ALTER INDEX public.perdure_run_created ATTACH PARTITION public.perdure_run_4_created_at_run_id_idx;
ALTER INDEX public.perdure_run_asks ATTACH PARTITION public.perdure_run_4_created_at_run_id_idx1;
ALTER INDEX public.perdure_run_open ATTACH PARTITION public.perdure_run_4_created_at_run_id_status_idx;
ALTER INDEX public.perdure_run_holder ATTACH PARTITION public.perdure_run_4_holder_idx;
ALTER INDEX public.perdure_run_lease ATTACH PARTITION public.perdure_run_4_lease_until_idx;
ALTER INDEX public.perdure_run_key ATTACH PARTITION public.perdure_run_4_limit_key_held_agent_version_queue_tags_parke_idx;
ALTER INDEX public.perdure_run_pkey ATTACH PARTITION public.perdure_run_4_pkey;
ALTER INDEX public.perdure_run_ended ATTACH PARTITION public.perdure_run_4_status_created_at_run_id_idx;
ALTER INDEX public.perdure_run_free ATTACH PARTITION public.perdure_run_5_agent_version_parked_at_queue_tags_priority_w_idx;
ALTER INDEX public.perdure_run_created ATTACH PARTITION public.perdure_run_5_created_at_run_id_idx;
ALTER INDEX public.perdure_run_asks ATTACH PARTITION public.perdure_run_5_created_at_run_id_idx1;
ALTER INDEX public.perdure_run_open ATTACH PARTITION public.perdure_run_5_created_at_run_id_status_idx;
ALTER INDEX public.perdure_run_holder ATTACH PARTITION public.perdure_run_5_holder_idx;
ALTER INDEX public.perdure_run_lease ATTACH PARTITION public.perdure_run_5_lease_until_idx;
ALTER INDEX public.perdure_run_key ATTACH PARTITION public.perdure_run_5_limit_key_held_agent_version_queue_tags_parke_idx;
ALTER INDEX public.perdure_run_pkey ATTACH PARTITION public.perdure_run_5_pkey;
ALTER INDEX public.perdure_run_ended ATTACH PARTITION public.perdure_run_5_status_created_at_run_id_idx;
ALTER INDEX public.perdure_run_free ATTACH PARTITION public.perdure_run_6_agent_version_parked_at_queue_tags_priority_w_idx;
ALTER INDEX public.perdure_run_created ATTACH PARTITION public.perdure_run_6_created_at_run_id_idx;
ALTER INDEX public.perdure_run_asks ATTACH PARTITION public.perdure_run_6_created_at_run_id_idx1;
ALTER INDEX public.perdure_run_open ATTACH PARTITION public.perdure_run_6_created_at_run_id_status_idx;
ALTER INDEX public.perdure_run_holder ATTACH PARTITION public.perdure_run_6_holder_idx;
ALTER INDEX public.perdure_run_lease ATTACH PARTITION public.perdure_run_6_lease_until_idx;
ALTER INDEX public.perdure_run_key ATTACH PARTITION public.perdure_run_6_limit_key_held_agent_version_queue_tags_parke_idx;
ALTER INDEX public.perdure_run_pkey ATTACH PARTITION public.perdure_run_6_pkey;
ALTER INDEX public.perdure_run_ended ATTACH PARTITION public.perdure_run_6_status_created_at_run_id_idx;
ALTER INDEX public.perdure_run_free ATTACH PARTITION public.perdure_run_7_agent_version_parked_at_queue_tags_priority_w_idx;
ALTER INDEX public.perdure_run_created ATTACH PARTITION public.perdure_run_7_created_at_run_id_idx;
ALTER INDEX public.perdure_run_asks ATTACH PARTITION public.perdure_run_7_created_at_run_id_idx1;
ALTER INDEX public.perdure_run_open ATTACH PARTITION public.perdure_run_7_created_at_run_id_status_idx;
ALTER INDEX public.perdure_run_holder ATTACH PARTITION public.perdure_run_7_holder_idx;
ALTER INDEX public.perdure_run_lease ATTACH PARTITION public.perdure_run_7_lease_until_idx;
ALTER INDEX public.perdure_run_key ATTACH PARTITION public.perdure_run_7_limit_key_held_agent_version_queue_tags_parke_idx;
ALTER INDEX public.perdure_run_pkey ATTACH PARTITION public.perdure_run_7_pkey;
ALTER INDEX public.perdure_run_ended ATTACH PARTITION public.perdure_run_7_status_created_at_run_id_idx;
ALTER INDEX public.perdure_snapshot_pkey ATTACH PARTITION public.perdure_snapshot_0_pkey;
ALTER INDEX public.perdure_snapshot_pkey ATTACH PARTITION public.perdure_snapshot_1_pkey;
ALTER INDEX public.perdure_snapshot_pkey ATTACH PARTITION public.perdure_snapshot_2_pkey;
ALTER INDEX public.perdure_snapshot_pkey ATTACH PARTITION public.perdure_snapshot_3_pkey;
ALTER INDEX public.perdure_snapshot_pkey ATTACH PARTITION public.perdure_snapshot_4_pkey;
ALTER INDEX public.perdure_snapshot_pkey ATTACH PARTITION public.perdure_snapshot_5_pkey;
ALTER INDEX public.perdure_snapshot_pkey ATTACH PARTITION public.perdure_snapshot_6_pkey;
ALTER INDEX public.perdure_snapshot_pkey ATTACH PARTITION public.perdure_snapshot_7_pkey;
ALTER INDEX public.perdure_tombstone_pkey ATTACH PARTITION public.perdure_tombstone_0_pkey;
ALTER INDEX public.perdure_tombstone_pkey ATTACH PARTITION public.perdure_tombstone_1_pkey;
ALTER INDEX public.perdure_tombstone_pkey ATTACH PARTITION public.perdure_tombstone_2_pkey;
ALTER INDEX public.perdure_tombstone_pkey ATTACH PARTITION public.perdure_tombstone_3_pkey;
ALTER INDEX public.perdure_tombstone_pkey ATTACH PARTITION public.perdure_tombstone_4_pkey;
ALTER INDEX public.perdure_tombstone_pkey ATTACH PARTITION public.perdure_tombstone_5_pkey;
ALTER INDEX public.perdure_tombstone_pkey ATTACH PARTITION public.perdure_tombstone_6_pkey;
ALTER INDEX public.perdure_tombstone_pkey ATTACH PARTITION public.perdure_tombstone_7_pkey;
