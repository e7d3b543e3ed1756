SELECT 7 / 2, 2 ^ 3, 5 # 3, @ (-4), |/ 16, ||/ 27, ~5
SELECT ARRAY[1, 2, 3], (ARRAY[1, 2, 3])[2], (ARRAY[1, 2, 3])[1:2], ARRAY[[1, 2], [3, 4]], '{1,2}'::int[]
SELECT ARRAY[1, 2] || 3, ARRAY[1, 2] && ARRAY[2], ARRAY[1, 2] @> ARRAY[1], ARRAY[1] <@ ARRAY[1, 2], 1 = ANY(ARRAY[1, 2])
SELECT ARRAY(SELECT id FROM people ORDER BY id), array_agg(id ORDER BY id DESC), cardinality(array_agg(id)) FROM people
SELECT '{"a": {"b": [1, 2]}}'::jsonb -> 'a' -> 'b' -> 1, '{"a": 1}'::json ->> 'a', '[1, 2]'::jsonb -> -1
SELECT '{"a": {"b": 2}}'::jsonb #> '{a,b}', '{"a": {"b": 2}}'::jsonb #>> '{a,b}', '{"a": 1}'::jsonb ->> 'a' = '1'
SELECT '{"a": 1}'::jsonb ? 'a', '{"a": 1}'::jsonb ?| ARRAY['a', 'b'], '{"a": 1}'::jsonb ?& ARRAY['a', 'b']
SELECT '{"a": 1, "b": 2}'::jsonb @> '{"a": 1}', '{"a": 1}'::jsonb <@ '{"a": 1, "b": 2}', '{"a": 1}'::jsonb - 'a'
SELECT '{"a": 1}'::jsonb || '{"b": 2}', '[1, 2]'::jsonb - 0, '{"a": {"b": 1}}'::jsonb #- '{a,b}'
SELECT '{"a": [1, 2, 3]}'::jsonb @? '$.a[*] ? (@ > 2)', '{"a": 1}'::jsonb @@ '$.a == 1'
SELECT jsonb_path_query('{"a": [1, 2, 3]}', '$.a[*] ? (@ > 1)')
SELECT ('{"a": {"b": 1}}'::jsonb)['a']['b'], jsonb_build_object('a', 1, 'b', ARRAY[1, 2])
SELECT key, value FROM jsonb_each('{"a": 1, "b": 2}') ORDER BY key
SELECT * FROM jsonb_to_recordset('[{"a": 1, "b": "x"}]') AS t(a int, b text)
SELECT * FROM json_to_record('{"a": 1, "b": [1, 2]}') AS t(a int, b int[])
SELECT E'a\nb', E'it\'s', E'\\', E'\x41', E'\u00e4', 'a\nb', $$it's$$, $tag$x $$ y$tag$
SELECT U&'d\0061t\+000061', N'abc', B'101', X'1F', x'ff'
SELECT 'a' 'b'
SELECT '12'::int + 1, 1::text || 'x', '2024-01-31'::date + 1, 'abc'::varchar(2), 3.7::int, '1.50'::numeric(10, 1)
SELECT CAST('1' AS double precision), CAST(1 AS smallint), CAST('t' AS boolean), 'x'::char(3) || '|', int '5', text 'abc'
SELECT date '2024-01-31' + interval '1 month', timestamp '2024-01-01 10:00' - interval '90 minutes', interval '1 year 2 months 3 days'
SELECT interval '1' day, interval '2' hour, interval '1-2' year to month, '1 day'::interval * 2, interval '10:30'
SELECT date_trunc('month', day), extract(year FROM day), date_part('dow', day), day - date '2024-01-01' FROM orders ORDER BY id
SELECT to_char(day, 'DD.MM.YYYY'), to_date('31.01.2024', 'DD.MM.YYYY'), age(timestamp '2024-02-01', timestamp '2024-01-01') FROM orders ORDER BY id
SELECT timestamp '2024-01-01 10:00' AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Oslo', timestamptz '2024-01-01 00:00+02' AT TIME ZONE 'UTC'
SELECT (date '2024-01-01', date '2024-02-01') OVERLAPS (date '2024-01-15', interval '1 month')
SELECT name FROM people WHERE name ILIKE 'a%' OR name NOT ILIKE '%o%' ORDER BY id
SELECT name ~ '^A', name ~* '^a', name !~ 'x', name !~* 'X', name ~~ 'A%', name !~~* 'a%' FROM people ORDER BY id
SELECT name SIMILAR TO '(A|B)%', name NOT SIMILAR TO 'A%', name LIKE 'back\\%', name LIKE '%\%%', name LIKE ANY (ARRAY['A%', 'B%']) FROM people ORDER BY id
SELECT regexp_replace('a1b2', '\d', 'x', 'g'), regexp_matches('a1b2', '[a-z]\d', 'g'), regexp_split_to_array('a, b', ',\s*')
SELECT substring('hello' FROM 2 FOR 3), substring('hello' FROM 'l+'), position('l' IN 'hello'), overlay('abc' PLACING 'x' FROM 2 FOR 1), substring('abc' FOR 2)
SELECT trim(BOTH 'x' FROM 'xax'), trim(LEADING FROM '  a'), trim(TRAILING 'x' FROM 'axx'), btrim('xax', 'x'), trim('  a ')
SELECT substring('abc', 2), substr('abc', 2, 1), left('abc', -1), right('abc', 2), strpos('abc', 'b'), split_part('a,b', ',', 2)
SELECT string_agg(name, '; ' ORDER BY id DESC), string_agg(DISTINCT item, ',' ORDER BY item) FROM orders JOIN people ON people.id = person AND FALSE
SELECT string_agg(DISTINCT item, ',' ORDER BY item) FROM orders
SELECT DISTINCT ON (city) city, name FROM people ORDER BY city, id DESC
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price), mode() WITHIN GROUP (ORDER BY item) FROM orders
SELECT city, age, grouping(city, age), count(*) FROM people GROUP BY ROLLUP (city, age) ORDER BY 1, 2, 3
SELECT city, age, count(*) FROM people GROUP BY CUBE (city, age) ORDER BY 1, 2, 3
SELECT city, age, count(*) FROM people GROUP BY GROUPING SETS ((city), (age), ()) ORDER BY 1, 2, 3
SELECT p.id, s.n FROM people p, LATERAL (SELECT count(*) AS n FROM orders o WHERE o.person = p.id) s ORDER BY 1
SELECT p.id, s.item FROM people p LEFT JOIN LATERAL (SELECT item FROM orders o WHERE o.person = p.id ORDER BY o.id LIMIT 1) s ON TRUE ORDER BY 1
SELECT p.id, x FROM people p CROSS JOIN LATERAL unnest(ARRAY[1, 2]) AS x WHERE p.id = 1
SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a', 'b']) WITH ORDINALITY AS t(n, s, i)
SELECT * FROM ROWS FROM (generate_series(1, 2), generate_series(5, 7)) AS t(a, b)
SELECT * FROM generate_series(1, 10, 3) AS g(x)
SELECT d::date FROM generate_series(date '2024-01-01', date '2024-01-03', interval '1 day') AS d
SELECT generate_series(1, 3), unnest(ARRAY['a', 'b', 'c'])
SELECT sum(id) OVER (ORDER BY id GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM orders
SELECT id, sum(price) OVER (ORDER BY day RANGE BETWEEN interval '30 days' PRECEDING AND CURRENT ROW) FROM orders ORDER BY id
SELECT id, last_value(item) OVER (PARTITION BY person ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM orders ORDER BY id
SELECT id FROM people ORDER BY id FETCH FIRST 2 ROWS ONLY
SELECT age FROM people WHERE age IS NOT NULL ORDER BY age FETCH FIRST 2 ROWS WITH TIES
SELECT id FROM people ORDER BY id OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY
SELECT NULL IS NOT DISTINCT FROM NULL, 1 IS DISTINCT FROM 2, TRUE IS NOT FALSE, (NULL = 1) IS UNKNOWN, (1 = 1) IS TRUE, 1 ISNULL, 1 NOTNULL
SELECT ROW(1, 'a'), (1, 2) < (1, 3), (id, name) IN ((1, 'Ann')), ROW(1, NULL) IS NULL FROM people ORDER BY id
SELECT p FROM people p WHERE id = 1
SELECT (p).name, (p).id + 1, p.* FROM people p WHERE id = 1
SELECT row_to_json(p), to_jsonb(p) -> 'name' FROM people p WHERE id = 1
SELECT id = ANY(SELECT person FROM orders), id > ALL(SELECT 2), id <> ALL(ARRAY[1, 2]), id = SOME(ARRAY[3]) FROM people ORDER BY id
SELECT name COLLATE "C" FROM people ORDER BY name COLLATE "C" DESC, id
SELECT 'a' < 'B' COLLATE "C", 'x' COLLATE pg_catalog."default"
SELECT 1 OPERATOR(pg_catalog.+) 2, 3 OPERATOR(pg_catalog.*) 4
SELECT to_tsvector('english', 'the fat cats') @@ to_tsquery('english', 'cat & fat'), 'a:1'::tsvector
SELECT int4range(1, 5) @> 3, '[1,5)'::int4range && int4range(4, 9), int4range(1, 3) -|- int4range(3, 5), int4range(1, 3) << int4range(5, 6)
SELECT point '(1,2)' <-> point '(4,6)', box '((0,0),(1,1))' @> point '(0.5,0.5)', inet '10.0.0.1' <<= inet '10.0.0.0/8'
SELECT 5 & 3, 5 | 3, 1 << 4, 255 >> 2, 5 # 1, -5 % 3
SELECT - 2 ^ 2, (-2) ^ 2, 2 ^ 3 ^ 2, NOT 1 = 2, 1 + 2::text::int, -1::text, (-1)::text
SELECT 1 < 2 = true, 1 + 1 || 'a', 'a' || 1 + 1 WHERE FALSE
SELECT coalesce(NULL, 1), nullif(1, 1), greatest(1, 3, NULL), least(2, 1), num_nulls(1, NULL)
SELECT format('%I %L %s', 'a b', 'it''s', 1), quote_ident('a b'), quote_literal('x'), concat_ws('-', 'a', NULL, 'b'), md5('a'), encode('a'::bytea, 'hex')
SELECT '\x4142'::bytea, convert_from('\x41'::bytea, 'UTF8'), decode('QQ==', 'base64'), 'a\\b'::bytea
SELECT count(*) FILTER (WHERE age > 20), bool_and(age > 1), every(age > 1), json_agg(name ORDER BY id), jsonb_object_agg(id, name) FROM people
SELECT current_schema, current_database() IS NOT NULL, current_user IS NOT NULL, CURRENT_DATE IS NOT NULL, LOCALTIMESTAMP IS NOT NULL, current_timestamp(0) IS NOT NULL
SELECT extract(epoch FROM interval '1 hour'), make_interval(days => 3), make_date(2024, 2, 29), justify_days(interval '35 days')
SELECT pg_typeof(1), pg_typeof(1.5), pg_typeof('a'), pg_typeof(NULL), pg_typeof(now()::date), 'people'::regclass, 'int4'::regtype
SELECT relname FROM pg_catalog.pg_class WHERE relname = 'people' AND relkind = 'r'
SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'people' ORDER BY ordinal_position
SELECT count(*) FROM people TABLESAMPLE BERNOULLI (100)
SELECT count(*) FROM ONLY people
TABLE people ORDER BY id
(SELECT 1 AS a UNION SELECT 2) UNION ALL (SELECT 2 LIMIT 1) ORDER BY a
WITH t AS MATERIALIZED (SELECT 1 AS x), u AS NOT MATERIALIZED (SELECT 2 AS y) SELECT * FROM t, u
WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT * FROM t ORDER BY n
WITH RECURSIVE t(id, p) AS (SELECT 1, 0 UNION ALL SELECT id + 1, id FROM t WHERE id < 3) SEARCH DEPTH FIRST BY id SET o SELECT id, p FROM t ORDER BY o
SELECT v.a, v.b FROM (VALUES (1, 'a'), (2, 'b')) AS v(a, b) ORDER BY v.a
SELECT count(*) FROM people NATURAL JOIN (SELECT 1 AS id) s
SELECT p.id, o.id FROM people p FULL JOIN orders o ON o.person = p.id ORDER BY 1, 2
SELECT id, a.item FROM orders a JOIN orders b USING (id) ORDER BY id
SELECT xmlelement(name foo, 'a'), xpath('/a/text()', '<a>b</a>'::xml)
SELECT x.* FROM xmltable('/r/i' PASSING '<r><i>1</i><i>2</i></r>'::xml COLUMNS v int PATH '.') AS x
SELECT jt.* FROM json_table('[{"a": 1}, {"a": 2}]'::jsonb, '$[*]' COLUMNS (a int PATH '$.a')) AS jt
SELECT json_object('a': 1, 'b': 'x'), json_array(1, 2), json_value('{"a": 1}'::jsonb, '$.a'), '{"a":1}' IS JSON
SELECT '1'::int::text::varchar, 1::numeric(5, 2)::text, ARRAY[1, 2]::text[], 'a'::"char", '1'::pg_catalog.int4
SELECT normalize('é', NFC), 'é' IS NORMALIZED, chr(65), ascii('A'), initcap('ab cd'), ceil(1.2), floor(-1.5), decode('41', 'hex')
SELECT 'infinity'::timestamp, 'NaN'::float8, -0.0::float8, 1e-7, 1_000, 0x1F, 0b11, 0o17
SELECT count(*) AS "Count", sum(age) AS "SUM" FROM people
SELECT 1 AS "a""b", 2 AS "select", 3 AS ä
SELECT NOT EXISTS (SELECT 1 WHERE FALSE), EXISTS (SELECT)
SELECT CASE WHEN NULL THEN 1 END, CASE 1 WHEN 1, 2 THEN 3 END WHERE FALSE
SELECT (SELECT array_agg(x) FROM (SELECT 1 AS x UNION SELECT 2 ORDER BY 1) s)
SELECT timezone('UTC', timestamp '2024-01-01'), date_bin('15 minutes', timestamp '2024-01-01 10:07', timestamp '2024-01-01')
EXPLAIN (COSTS OFF) SELECT 1
SHOW server_encoding
SELECT i::text = '02:00:00' AS a, i, to_json(interval '1 day') AS b, to_json(i) AS c FROM (SELECT interval '2 hours' AS i) s
SELECT i1.x, i2.a FROM people i1(x, y), (orders i2(a, b) JOIN orders o(c) ON a = c) ORDER BY x, a LIMIT 3
SELECT 1_000.5 AS a, 1e1_0 AS b, 12.50::numeric(4, 2) AS c, 12.50 AS d, avg(price) AS e FROM orders
SELECT date '0044-03-15 BC' AS a, timestamp '10000-01-01 10:00' AS b, '1e400'::jsonb AS c, '\x616263'::bytea AS d
EXPLAIN ANALYZE (SELECT 1)
EXPLAIN VERBOSE (SELECT id FROM people)
SELECT current_query() LIKE 'SELECT%', txid_status(1), pg_jit_available() IS NULL
