rows|INSERT INTO victim VALUES (9, 'x')
rows|REPLACE INTO victim VALUES (1, 'x')
rows|UPDATE victim SET name = 'x'
rows|DELETE FROM victim
rows|TRUNCATE victim
rows|INSERT INTO victim VALUES (9, 'x') RETURNING id
rows|WITH a AS (SELECT 1 AS i) DELETE FROM victim WHERE id IN (SELECT i FROM a)
rows|DELETE v FROM victim v JOIN victim w ON v.id = w.id
rows|SELECT 1; DELETE FROM victim
rows|SELECT 1 /*! ; DELETE FROM victim */
rows|/*! DELETE FROM victim */
rows|/*!50000 DELETE FROM victim */
rows|/*M! DELETE FROM victim */
rows|/*M!100000 DELETE FROM victim */
rows|SELECT 1 -- \n; DELETE FROM victim
rows|SELECT 1 #\n; DELETE FROM victim
rows|EXPLAIN ANALYZE DELETE FROM victim
rows|ANALYZE DELETE FROM victim
rows|ANALYZE UPDATE victim SET name = 'x'
rows|PREPARE p FROM 'DELETE FROM victim'
rows|EXECUTE IMMEDIATE 'DELETE FROM victim'
rows|CALL destroy_all()
rows|SELECT destroy()
rows|DO destroy()
rows|BEGIN NOT ATOMIC DELETE FROM victim; END
rows|COMMIT AND CHAIN
rows|START TRANSACTION
rows|LOAD DATA INFILE '{secret}' INTO TABLE victim
rows|LOAD DATA LOCAL INFILE '{secret}' INTO TABLE victim
rows|HANDLER victim OPEN
rows|SELECT NEXTVAL(counter)
rows|SELECT NEXT VALUE FOR counter
rows|SELECT SETVAL(counter, 99)
schema|CREATE TABLE made (a INT)
schema|CREATE TEMPORARY TABLE made (a INT)
schema|CREATE TABLE made AS SELECT 1
schema|CREATE OR REPLACE TABLE victim (a INT)
schema|CREATE VIEW made AS SELECT 1
schema|CREATE PROCEDURE made() SELECT 1
schema|CREATE FUNCTION made() RETURNS INT RETURN 1
schema|CREATE EVENT made ON SCHEDULE EVERY 1 DAY DO DELETE FROM victim
schema|CREATE USER made
schema|CREATE DATABASE made
schema|DROP TABLE victim
schema|DROP DATABASE IF EXISTS nowhere
schema|ALTER TABLE victim RENAME TO made
schema|RENAME TABLE victim TO made
schema|GRANT ALL ON *.* TO CURRENT_USER
schema|OPTIMIZE TABLE victim
schema|ANALYZE TABLE victim
schema|REPAIR TABLE victim
schema|INSTALL SONAME 'x'
file_written|SELECT * INTO OUTFILE '{out}' FROM victim
file_written|SELECT 1 INTO OUTFILE '{out}'
file_written|SELECT 1 INTO DUMPFILE '{out}'
file_written|SELECT 1 /*!50000 INTO OUTFILE '{out}' */
file_written|SELECT 1 /*! INTO OUTFILE '{out}' */
file_written|SELECT 1 /*M! INTO OUTFILE '{out}' */
file_written|SELECT 1 UNION SELECT 2 INTO OUTFILE '{out}'
file_written|(SELECT 1 INTO OUTFILE '{out}')
file_read|SELECT LOAD_FILE('{secret}')
file_read|SELECT load_file('{secret}')
file_read|SELECT `LOAD_FILE`('{secret}')
file_read|SELECT /*! LOAD_FILE('{secret}') */
file_read|SELECT 1 UNION SELECT LOAD_FILE('{secret}')
file_read|SELECT 1 ORDER BY LOAD_FILE('{secret}')
file_read|SELECT (SELECT LOAD_FILE('{secret}'))
setting|SET @a = 1
setting|SET GLOBAL max_connections = 10
setting|SET SESSION sql_mode = ''
setting|SET TRANSACTION READ WRITE
setting|SET SESSION TRANSACTION READ WRITE
setting|SET STATEMENT max_statement_time = 0 FOR SELECT 1
setting|SET autocommit = 1
setting|SELECT @a := 1
setting|SELECT @a := @a + 1 FROM victim
setting|SELECT 1 INTO @a
setting|SELECT id INTO @a FROM victim LIMIT 1
setting|SELECT /*+ SET_VAR(max_execution_time = 0) */ @a := 1
setting|USE mysql
setting|FLUSH TABLES
setting|FLUSH TABLES WITH READ LOCK
setting|RESET QUERY CACHE
setting|KILL CONNECTION_ID()
setting|KILL QUERY 1
setting|SHUTDOWN
setting|PURGE BINARY LOGS BEFORE NOW()
setting|CHANGE MASTER TO MASTER_HOST = 'x'
setting|XA START 'a'
lock|SELECT * FROM victim FOR UPDATE
lock|SELECT * FROM victim LOCK IN SHARE MODE
lock|SELECT * FROM victim FOR UPDATE NOWAIT
lock|SELECT * FROM (SELECT * FROM victim FOR UPDATE) s
lock|SELECT 1 /*! FROM victim FOR UPDATE */
lock|LOCK TABLES victim WRITE
lock|SELECT GET_LOCK('a', 0)
lock|SELECT RELEASE_ALL_LOCKS()
lock|SELECT SLEEP(0.2)
lock|SELECT BENCHMARK(10, MD5('a'))
lock|SELECT MASTER_POS_WAIT('a', 1, 1)
