SELECT 0xFF, x'00ff', X'AB', typeof(x'00'), typeof(0xff)
SELECT "not a column"
SELECT [name], `age`, people.[city] FROM [people] ORDER BY id
SELECT name FROM people WHERE name GLOB 'B*'
SELECT name FROM people WHERE name NOT GLOB 'B*' ORDER BY id
SELECT name FROM people WHERE age IS 34 ORDER BY id
SELECT name FROM people WHERE age IS NOT 34 ORDER BY id
SELECT name FROM people WHERE age IS NOT DISTINCT FROM 34 ORDER BY id
SELECT name || '-' || ifnull(city, 'none') FROM people ORDER BY id
SELECT 1 || 2, '1' + '2', 'a' || NULL
SELECT 5 / 2, 5.0 / 2, 5 / 2.0, '5' / 2
SELECT log(100), log(2, 8), ln(10), log10(100), log2(8)
SELECT strftime('%Y-%m', day), date(day, '+1 month', 'start of month'), julianday(day) FROM orders ORDER BY id
SELECT unixepoch('2024-01-01'), datetime('2024-01-01', '+90 minutes'), time('12:30')
SELECT iif(age > 30, 'y', 'n'), typeof(age), typeof(score) FROM people ORDER BY id
SELECT group_concat(name, '; '), group_concat(name) FROM people
SELECT json_extract('{"a": {"b": [1, 2]}}', '$.a.b[1]'), '{"a": 1}' -> 'a', '{"a": "x"}' ->> '$.a'
SELECT '{"a": [1, {"b": 2}]}' -> '$.a[1].b', '[1,2]' ->> 1, '{"a b": 3}' ->> '$."a b"'
SELECT key, value, type FROM json_each('{"a": 1, "b": [2]}')
SELECT j.fullkey, j.atom FROM json_tree('{"a": {"b": 1}}') AS j ORDER BY j.id
SELECT name COLLATE NOCASE FROM people ORDER BY city COLLATE NOCASE, id
SELECT city = 'OSLO' COLLATE NOCASE FROM people ORDER BY id
SELECT max(1, 2, 3), min('a', 'b'), max(id) FROM people
SELECT * FROM people WHERE rowid = 2
SELECT rowid, _rowid_, oid FROM people ORDER BY rowid DESC
SELECT name FROM people INDEXED BY sqlite_autoindex_none_1 WHERE 0
SELECT sql IS NOT NULL, type, name FROM sqlite_master ORDER BY name
SELECT name, type, pk FROM pragma_table_info('people') ORDER BY cid
SELECT printf('%05.2f|%s|%d', 3.14159, 'x', 7), format('%q', 'it''s')
SELECT substr('hello', -3), substr('hello', 2), substr('hello', 2, -1), instr('hello', 'l')
SELECT CAST('12abc' AS INTEGER), CAST('1.5' AS REAL), CAST(1.9 AS INT), CAST(x'41' AS TEXT), CAST('x' AS BLOB)
SELECT CAST('7' AS NUMERIC), CAST(1 AS TEXT), CAST(' 3' AS INTEGER)
SELECT char(72, 105), unicode('A'), hex('abc'), quote('it''s'), quote(x'00')
SELECT total(age), avg(age), sum(NULL), count(NULL) FROM people
SELECT DISTINCT city FROM people ORDER BY city
SELECT ~5, -5 >> 1, 1 | 2 & 3, 'a' < 'b', 1 == 1
SELECT NOT NULL, NULL IS NULL, NULL ISNULL, 1 NOTNULL, 1 NOT NULL
SELECT id FROM people LIMIT 1, 2
SELECT id FROM people LIMIT -1 OFFSET 3
SELECT sum(id) OVER (ORDER BY id GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM orders
SELECT sum(id) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders
SELECT id, count(*) FILTER (WHERE item = 'tea') OVER (PARTITION BY person) FROM orders ORDER BY id
WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c WHERE x < 3) SELECT x FROM c
WITH a AS MATERIALIZED (SELECT 1 AS x) SELECT x FROM a
WITH a(x, y) AS NOT MATERIALIZED (SELECT 1, 2) SELECT x, y FROM a
SELECT * FROM people NATURAL JOIN (SELECT 1 AS id)
SELECT * FROM people JOIN (SELECT 1 AS id) USING (id)
SELECT p.id FROM people p LEFT JOIN orders o USING (id) ORDER BY 1
SELECT 'a' LIKE 'A', 'a' LIKE 'b' OR 1, 'a%' LIKE 'a\%' ESCAPE '\'
SELECT like('a%', 'abc'), glob('a*', 'abc')
SELECT soundex('Robert') IS NULL
SELECT 1 IN (), 1 IN (1, 2), 1 NOT IN (2), (1, 2) IN (SELECT 1, 2)
SELECT x.value FROM people, json_each('[1, 2]') x WHERE people.id = 1
SELECT date('2024-01-31', '+1 month'), date('now') IS NOT NULL, CURRENT_DATE IS NOT NULL, CURRENT_TIMESTAMP > '2020'
SELECT replace(name, '\', '/') FROM people WHERE id = 4
SELECT name FROM people WHERE name REGEXP 'x' AND 0
SELECT round(-2.5), round(2.5), round(1.005, 2), sign(-3), 7 % -3, pow(2, 10), sqrt(16), trunc(-1.7)
SELECT likely(1), unlikely(0), likelihood(1, 0.5), coalesce(NULL, NULL, 3)
SELECT trim('xxaxx', 'x'), ltrim('  a'), rtrim('a  '), upper('straße'), lower('ÄB')
SELECT EXISTS (SELECT 1), NOT EXISTS (SELECT 1 WHERE 0)
SELECT 9223372036854775807, -9223372036854775808, 1e999, -1e999
SELECT id AS "select", name AS 'single' FROM people WHERE id = 1
SELECT "people"."name" FROM main.people WHERE main.people.id = 2
