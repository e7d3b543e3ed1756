rows|INSERT INTO victim VALUES (9, 'x')
rows|UPDATE victim SET name = 'x'
rows|DELETE FROM victim
rows|TRUNCATE victim
rows|MERGE INTO victim USING (SELECT 1 AS id) s ON victim.id = s.id WHEN MATCHED THEN DELETE
rows|INSERT INTO victim VALUES (9, 'x') RETURNING id
rows|WITH a AS (DELETE FROM victim RETURNING *) SELECT * FROM a
rows|WITH a AS (INSERT INTO victim VALUES (9, 'x') RETURNING *) SELECT * FROM a
rows|WITH a AS (UPDATE victim SET name = 'x' RETURNING *) SELECT * FROM a
rows|WITH RECURSIVE a AS (SELECT 1), b AS (DELETE FROM victim RETURNING id) SELECT * FROM b
rows|SELECT * FROM (WITH a AS (DELETE FROM victim RETURNING *) SELECT * FROM a) s
rows|SELECT 1; DELETE FROM victim
rows|SELECT 1; COMMIT; DELETE FROM victim
rows|COMMIT; DELETE FROM victim
rows|ROLLBACK; DELETE FROM victim
rows|/* SELECT */ DELETE FROM victim
rows|/* /* nested */ SELECT */ DELETE FROM victim
rows|SELECT 1 /* /* */ */; DELETE FROM victim
rows|EXPLAIN ANALYZE DELETE FROM victim
rows|EXPLAIN (ANALYZE) INSERT INTO victim VALUES (9, 'x')
rows|EXPLAIN (ANALYZE, VERBOSE) WITH a AS (DELETE FROM victim RETURNING *) SELECT * FROM a
rows|PREPARE p AS DELETE FROM victim; EXECUTE p
rows|DO $$ BEGIN DELETE FROM victim; END $$
rows|SELECT destroy()
rows|SELECT * FROM destroy()
rows|SELECT (v).destroy_row FROM victim v
rows|CALL destroyer()
rows|COPY victim FROM PROGRAM 'echo 9'
rows|COPY victim FROM '{secret}'
rows|SELECT nextval('counter')
rows|SELECT setval('counter', 99)
rows|SELECT ('counter'::regclass).nextval
rows|SELECT query_to_xml('DELETE FROM victim', true, false, '')
rows|SELECT * FROM ts_stat('DELETE FROM victim')
rows|SELECT database_to_xml(true, true, '')
rows|SELECT lo_create(4711)
rows|SELECT lo_from_bytea(4712, 'x')
rows|SELECT lo_unlink(1)
rows|SELECT U&"\0064estroy"()
rows|SELECT "destroy"()
rows|SELECT public.destroy()
schema|CREATE TABLE made (a int)
schema|CREATE TEMP TABLE made (a int)
schema|CREATE TABLE made AS SELECT 1
schema|SELECT * INTO made FROM victim
schema|SELECT 1 AS a INTO TEMP made
schema|WITH a AS (SELECT 1 AS b) SELECT * INTO made FROM a
schema|CREATE VIEW made AS SELECT 1
schema|CREATE FUNCTION made() RETURNS int LANGUAGE sql AS 'SELECT 1'
schema|CREATE EXTENSION vector
schema|CREATE ROLE made
schema|DROP TABLE victim
schema|DROP OWNED BY CURRENT_USER
schema|ALTER TABLE victim RENAME TO made
schema|ALTER ROLE CURRENT_USER SET work_mem = '1MB'
schema|GRANT ALL ON victim TO PUBLIC
schema|COMMENT ON TABLE victim IS 'x'
schema|REFRESH MATERIALIZED VIEW shown
schema|REINDEX TABLE victim
schema|CLUSTER victim
schema|ANALYZE victim
schema|VACUUM
file_written|COPY victim TO '{out}'
file_written|COPY (SELECT 1) TO '{out}'
file_written|COPY (SELECT 1) TO PROGRAM 'cat > {out}'
file_written|SELECT lo_export(1, '{out}')
file_read|SELECT pg_read_file('{secret}')
file_read|SELECT pg_catalog.pg_read_file('{secret}')
file_read|SELECT "pg_read_file"('{secret}')
file_read|SELECT U&"pg\005fread_file"('{secret}')
file_read|SELECT pg_read_binary_file('{secret}')
file_read|SELECT ('{secret}'::text).pg_read_file
file_read|SELECT x.pg_read_file FROM unnest(ARRAY['{secret}']) x
file_read|SELECT (pg_stat_file('{secret}')).size
file_read|SELECT * FROM pg_ls_dir('{folder}')
file_read|SELECT pg_ls_logdir()
file_read|SELECT lo_import('{secret}')
file_read|SELECT lo_get(lo_import('{secret}'))
file_read|SELECT * FROM pg_read_file('{secret}') AS f
file_read|SELECT (SELECT pg_read_file('{secret}'))
file_read|SELECT 1 ORDER BY pg_read_file('{secret}')
file_read|SELECT CASE WHEN true THEN pg_read_file('{secret}') END
file_read|SELECT array_agg(pg_read_file('{secret}'))
file_read|VALUES (pg_read_file('{secret}'))
file_read|COPY victim TO STDOUT
file_read|SELECT * FROM dblink('dbname=postgres', 'SELECT 1') AS t(a int)
file_read|SELECT query_to_xml('SELECT pg_read_file(''{secret}'')', true, false, '')
setting|SET transaction_read_only = off
setting|SET TRANSACTION READ WRITE
setting|SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE
setting|SET statement_timeout = 0
setting|SET ROLE postgres
setting|SET SESSION AUTHORIZATION DEFAULT
setting|RESET ALL
setting|DISCARD ALL
setting|SELECT set_config('transaction_read_only', 'off', true)
setting|SELECT set_config('default_transaction_read_only', 'off', false)
setting|SELECT set_config('statement_timeout', '0', false)
setting|SELECT set_config('search_path', 'evil', false)
setting|SELECT pg_catalog.set_config('work_mem', '1MB', false)
setting|ALTER SYSTEM SET work_mem = '1MB'
setting|SELECT pg_reload_conf()
setting|SELECT pg_rotate_logfile()
setting|SELECT setseed(0.5)
setting|LOAD 'auto_explain'
setting|CHECKPOINT
setting|SELECT pg_switch_wal()
setting|SELECT pg_create_restore_point('x')
setting|SELECT pg_logical_emit_message(false, 'a', 'b')
setting|SELECT pg_create_physical_replication_slot('made')
setting|SELECT pg_stat_reset()
setting|SELECT pg_export_snapshot()
setting|SELECT pg_terminate_backend(pg_backend_pid())
setting|SELECT pg_cancel_backend(pg_backend_pid())
setting|SELECT pg_promote()
lock|SELECT * FROM victim FOR UPDATE
lock|SELECT * FROM victim FOR SHARE
lock|SELECT * FROM victim FOR NO KEY UPDATE SKIP LOCKED
lock|SELECT * FROM (SELECT * FROM victim FOR UPDATE) s
lock|LOCK TABLE victim
lock|LOCK TABLE victim IN ACCESS EXCLUSIVE MODE
lock|SELECT pg_advisory_lock(4711)
lock|SELECT pg_try_advisory_lock(4711)
lock|SELECT pg_advisory_lock_shared(4711)
lock|SELECT (4711::bigint).pg_advisory_lock
lock|LISTEN canary
lock|NOTIFY canary
lock|SELECT pg_notify('canary', 'x')
lock|SELECT pg_sleep(0.2)
lock|DECLARE c CURSOR WITH HOLD FOR SELECT 1
