rows|INSERT INTO victim VALUES (9, 'x')
rows|INSERT OR REPLACE INTO victim VALUES (1, 'x')
rows|UPDATE victim SET name = 'x'
rows|DELETE FROM victim
rows|TRUNCATE victim
rows|DELETE FROM victim RETURNING *
rows|INSERT INTO victim VALUES (9, 'x') RETURNING id
rows|WITH a AS (SELECT 1 AS i) DELETE FROM victim WHERE id IN (SELECT i FROM a)
rows|WITH a AS (DELETE FROM victim RETURNING *) SELECT * FROM a
rows|WITH a AS (INSERT INTO victim VALUES (9, 'x') RETURNING id) FROM a
rows|MERGE INTO victim USING (SELECT 1 AS id) s ON victim.id = s.id WHEN MATCHED THEN DELETE
rows|SELECT 1; DELETE FROM victim
rows|FROM victim; DELETE FROM victim
rows|SELECT 1 /* ; */ ; DELETE FROM victim
rows|/* SELECT */ DELETE FROM victim
rows|-- SELECT\nDELETE FROM victim
rows|EXPLAIN ANALYZE DELETE FROM victim
rows|EXPLAIN ANALYZE INSERT INTO victim VALUES (9, 'x')
rows|DESCRIBE DELETE FROM victim
rows|SUMMARIZE DELETE FROM victim
rows|PREPARE p AS DELETE FROM victim; EXECUTE p
rows|EXECUTE p
rows|COMMIT; DELETE FROM victim
rows|ROLLBACK; BEGIN; DELETE FROM victim; COMMIT
rows|FROM query('DELETE FROM victim')
rows|SELECT * FROM query('DELETE FROM victim')
rows|SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT nextval(''counter'')'))
rows|PRAGMA json_execute_serialized_sql('{}')
rows|SELECT nextval('counter')
rows|SELECT setval('counter', 99)
rows|COPY victim FROM '{secret}'
rows|IMPORT DATABASE '{folder}'
schema|CREATE TABLE made (a INTEGER)
schema|CREATE TEMP TABLE made (a INTEGER)
schema|CREATE TABLE made AS SELECT 1
schema|CREATE OR REPLACE TABLE victim AS SELECT 1
schema|SELECT * INTO made FROM victim
schema|CREATE VIEW made AS SELECT 1
schema|CREATE MACRO made(a) AS a + 1
schema|CREATE SCHEMA made
schema|CREATE SEQUENCE made
schema|CREATE TYPE made AS ENUM ('a')
schema|CREATE INDEX made ON victim (name)
schema|DROP TABLE victim
schema|DROP VIEW IF EXISTS shown
schema|ALTER TABLE victim RENAME TO made
schema|ALTER TABLE victim ADD COLUMN extra INTEGER
schema|COMMENT ON TABLE victim IS 'x'
file_written|COPY victim TO '{out}'
file_written|COPY (SELECT 1) TO '{out}' (FORMAT CSV)
file_written|EXPORT DATABASE '{out}'
file_written|ATTACH '{out}' AS other
file_written|ATTACH '{out}' (TYPE SQLITE)
file_written|CALL copy_database('memory', '{out}')
file_written|SELECT * FROM pragma_copy_database('memory', '{out}')
file_written|SET profiling_output = '{out}'
file_written|SET log_query_path = '{out}'
file_written|CALL enable_logging(storage = 'file', storage_config = {'path': '{out}'})
file_read|SELECT * FROM '{secret}'
file_read|FROM '{secret}'
file_read|SELECT * FROM "{secret}"
file_read|SELECT * FROM read_csv('{secret}')
file_read|SELECT * FROM read_csv_auto(['{secret}'])
file_read|SELECT * FROM read_text('{secret}')
file_read|SELECT content FROM read_blob('{secret}')
file_read|SELECT * FROM glob('{folder}/*')
file_read|SELECT * FROM sniff_csv('{secret}')
file_read|SELECT * FROM read_json('{secret}')
file_read|SELECT * FROM read_parquet('{secret}')
file_read|SELECT * FROM parquet_metadata('{secret}')
file_read|SELECT * FROM query_table('{secret}')
file_read|SELECT * FROM query('SELECT * FROM ''{secret}''')
file_read|SELECT ('{secret}').read_text()
file_read|SELECT * FROM (FROM read_text('{secret}'))
file_read|WITH a AS (FROM read_text('{secret}')) FROM a
file_read|SELECT (SELECT content FROM read_text('{secret}'))
file_read|PIVOT '{secret}' ON a
file_read|SUMMARIZE '{secret}'
file_read|DESCRIBE '{secret}'
file_read|SELECT * FROM sqlite_scan('{secret}', 'a')
file_read|SELECT * FROM postgres_scan('host=localhost', 'public', 'a')
file_read|ATTACH '{secret}' (READ_ONLY)
file_read|SELECT * FROM 'https://localhost:1/a.csv'
file_read|SELECT * FROM read_csv('s3://bucket/a.csv')
file_read|SELECT getenv('PATH')
file_read|SELECT * FROM secret_frame
setting|SET memory_limit = '50MB'
setting|SET threads = 1
setting|SET enable_external_access = true
setting|SET lock_configuration = false
setting|RESET enable_external_access
setting|SET GLOBAL TimeZone = 'Asia/Tokyo'
setting|SET SESSION schema = 'main'
setting|SET VARIABLE secret = 1
setting|PRAGMA enable_profiling
setting|PRAGMA memory_limit = '50MB'
setting|INSTALL httpfs
setting|LOAD httpfs
setting|LOAD '{secret}'
setting|UPDATE EXTENSIONS
setting|USE main
setting|CREATE SECRET made (TYPE S3)
setting|SELECT * FROM duckdb_secrets()
setting|DETACH memory
setting|CHECKPOINT
setting|VACUUM ANALYZE
setting|SELECT write_log('x')
setting|CALL enable_logging()
