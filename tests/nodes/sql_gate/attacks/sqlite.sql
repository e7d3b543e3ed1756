rows|INSERT INTO victim VALUES (9, 'x')
rows|UPDATE victim SET name = 'x'
rows|DELETE FROM victim
rows|REPLACE INTO victim VALUES (1, 'x')
rows|INSERT INTO victim SELECT id + 10, name FROM victim
rows|INSERT INTO victim VALUES (9, 'x') RETURNING id
rows|UPDATE victim SET name = 'x' RETURNING *
rows|DELETE FROM victim RETURNING *
rows|WITH a AS (SELECT 1) INSERT INTO victim SELECT 9, 'x' FROM a
rows|WITH a AS (SELECT 1 AS i) DELETE FROM victim WHERE id IN (SELECT i FROM a)
rows|WITH a AS (SELECT 1) UPDATE victim SET name = 'x'
rows|WITH a AS (DELETE FROM victim RETURNING *) SELECT * FROM a
rows|INSERT INTO victim VALUES (1, 'y') ON CONFLICT (id) DO UPDATE SET name = 'y'
rows|SELECT 1; DELETE FROM victim
rows|SELECT 1; DELETE FROM victim; --
rows|SELECT 1 /* ; */ ; DELETE FROM victim
rows|/* SELECT */ DELETE FROM victim
rows|-- SELECT 1\nDELETE FROM victim
rows|EXPLAIN SELECT 1; DELETE FROM victim
rows|;DELETE FROM victim
rows|(DELETE FROM victim)
rows|SELECT * FROM (DELETE FROM victim RETURNING id)
rows|SELECT (DELETE FROM victim)
rows|BEGIN; DELETE FROM victim; COMMIT
rows|COMMIT; DELETE FROM victim
rows|ROLLBACK; DELETE FROM victim; COMMIT
rows|END; DELETE FROM victim
rows|SAVEPOINT a; DELETE FROM victim; RELEASE a
rows|SELECT 1 WHERE '\'; DELETE FROM victim; --' = ''
rows|SELECT 'a''; DELETE FROM victim; --
rows|INSERT INTO note (note) VALUES ('rebuild')
rows|UPDATE sqlite_master SET sql = '' WHERE name = 'victim'
rows|DELETE FROM sqlite_schema
rows|REINDEX; DELETE FROM victim
schema|CREATE TABLE made (a)
schema|CREATE TEMP TABLE made (a)
schema|CREATE TABLE made AS SELECT * FROM victim
schema|CREATE VIEW made AS SELECT 1
schema|CREATE TEMP VIEW made AS SELECT 1
schema|CREATE INDEX made ON victim (name)
schema|CREATE TRIGGER made AFTER INSERT ON victim BEGIN DELETE FROM victim; END
schema|CREATE TEMP TRIGGER made AFTER INSERT ON victim BEGIN DELETE FROM victim; END
schema|CREATE VIRTUAL TABLE made USING fts5(a)
schema|DROP TABLE victim
schema|DROP TABLE IF EXISTS victim
schema|DROP INDEX victim_name
schema|ALTER TABLE victim RENAME TO made
schema|ALTER TABLE victim ADD COLUMN extra
schema|ALTER TABLE victim DROP COLUMN name
schema|ANALYZE
schema|VACUUM
schema|REINDEX
file_written|VACUUM INTO '{out}'
file_written|ATTACH DATABASE '{out}' AS other
file_written|ATTACH '{out}' AS other; CREATE TABLE other.made (a)
file_written|SELECT writefile('{out}', 'x')
file_written|SELECT edit('x', 'touch {out}')
file_read|ATTACH DATABASE '{secret}' AS other
file_read|ATTACH DATABASE 'file:{secret}?mode=ro&immutable=1' AS other
file_read|SELECT readfile('{secret}')
file_read|SELECT * FROM fsdir('{folder}')
file_read|SELECT * FROM csv('{secret}')
file_read|CREATE VIRTUAL TABLE temp.made USING csv(filename='{secret}')
setting|SELECT load_extension('{secret}')
setting|SELECT load_extension('mod_spatialite', 'init')
setting|SELECT fts3_tokenizer('simple', x'4141414141414141')
setting|SELECT FTS3_TOKENIZER('simple')
setting|DETACH DATABASE main
setting|PRAGMA query_only = OFF
setting|PRAGMA query_only(0)
setting|PRAGMA writable_schema = ON
setting|PRAGMA journal_mode = DELETE
setting|PRAGMA journal_mode(WAL)
setting|PRAGMA main.user_version = 77
setting|PRAGMA application_id = 77
setting|PRAGMA synchronous = OFF
setting|PRAGMA foreign_keys = OFF
setting|PRAGMA temp_store_directory = '{folder}'
setting|PRAGMA trusted_schema = ON
setting|PRAGMA cell_size_check = ON
setting|PRAGMA locking_mode = EXCLUSIVE
setting|PRAGMA wal_checkpoint(TRUNCATE)
setting|PRAGMA optimize
setting|PRAGMA incremental_vacuum
setting|PRAGMA shrink_memory
setting|SELECT * FROM pragma_journal_mode('DELETE')
setting|SELECT * FROM pragma_user_version(77)
setting|SELECT * FROM pragma_writable_schema(1)
lock|BEGIN EXCLUSIVE
lock|BEGIN IMMEDIATE
