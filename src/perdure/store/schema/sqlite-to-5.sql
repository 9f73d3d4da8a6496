-- Version 5: the few runs of one status among many of others.
CREATE INDEX perdure_run_ended ON perdure_run (status, created_at, run_id) WHERE terminal = 1;
DROP INDEX perdure_run_open;
CREATE INDEX perdure_run_open ON perdure_run (created_at, run_id, status) WHERE terminal = 0;
