SELECT 7 // 2, 7 / 2, 2 ** 3, 2 ^ 3, 5 % 3, xor(5, 3), @(-4), 5!
SELECT [1, 2, 3], [1, 2, 3][2], [1, 2, 3][1:2], [1, 2, 3][-1], [1, 2, 3][:2], [[1], [2, 3]]
SELECT {'a': 1, 'b': 'x'}, {'a': 1}.a, struct_pack(x := 1, y := 'b'), row(1, 'a')
SELECT MAP {'a': 1, 'b': 2}, MAP {'a': 1}['a'], map([1, 2], ['x', 'y'])
SELECT list_transform([1, 2, 3], x -> x + 1), list_filter([1, 2, 3], x -> x > 1)
SELECT list_transform([1, 2, 3], lambda x: x * 2), list_reduce([1, 2, 3], lambda a, b: a + b)
SELECT [x * 2 FOR x IN [1, 2, 3] IF x > 1]
SELECT * EXCLUDE (age, score) FROM people ORDER BY id
SELECT * REPLACE (age + 1 AS age) FROM people ORDER BY id
SELECT * RENAME (age AS years) FROM people ORDER BY id
SELECT COLUMNS('^n') FROM people ORDER BY id
SELECT min(COLUMNS(*)) FROM people
FROM people ORDER BY id
FROM people SELECT name, id WHERE id > 2 ORDER BY id
SELECT city, count(*) FROM people GROUP BY ALL ORDER BY ALL
SELECT name FROM people ORDER BY ALL
SELECT id, item FROM orders QUALIFY row_number() OVER (PARTITION BY person ORDER BY price DESC) = 1 ORDER BY id
SELECT DISTINCT ON (city) city, name FROM people ORDER BY city, id
SELECT date '2024-01-31' + INTERVAL 1 MONTH, date '2024-01-31' + INTERVAL '1 day', date '2024-03-01' - 1
SELECT date_trunc('month', day), date_part('year', day), extract(month FROM day), day + INTERVAL (id) DAY FROM orders ORDER BY id
SELECT strftime(day, '%d.%m.%Y'), strptime('31.01.2024', '%d.%m.%Y'), dayname(day) FROM orders ORDER BY id
SELECT TIMESTAMP '2024-01-01 10:00:00' AT TIME ZONE 'UTC', make_date(2024, 2, 29), epoch(TIMESTAMP '2024-01-01')
SELECT date_diff('day', DATE '2024-01-01', DATE '2024-02-01'), age(TIMESTAMP '2024-02-01', TIMESTAMP '2024-01-01')
SELECT '12'::INTEGER + 1, 1::VARCHAR || 'x', TRY_CAST('a' AS INTEGER), '2024-01-01'::DATE, 3.7::INT, '[1,2]'::INT[]
SELECT CAST(1.23456 AS DECIMAL(4, 2)), 1::HUGEINT, 255::UTINYINT, '{"a":1}'::JSON ->> 'a'
SELECT '{"a": [1, 2]}'::JSON -> 'a' -> 1, '{"a": {"b": 2}}' ->> '$.a.b', json_extract('{"a": 1}', '$.a')
SELECT '{"duck": "x"}'->>'duck' = 'x', json_extract_string('{"a": "b"}', 'a')
SELECT name FROM people WHERE name ILIKE 'a%' OR name NOT ILIKE '%o%' ORDER BY id
SELECT name ~ '^A.*', name !~ 'x', regexp_matches(name, 'n+'), name SIMILAR TO 'A.*' FROM people ORDER BY id
SELECT name ~~ 'A%', name !~~ 'A%', name ~~* 'a%' FROM people ORDER BY id
SELECT regexp_replace('a1b2', '[0-9]', 'x', 'g'), regexp_extract('a1b22', '([a-z])([0-9]+)', 2), regexp_split_to_array('a,b', ',')
SELECT name GLOB 'A*', name LIKE 'a%', starts_with(name, 'A'), name ^@ 'A' FROM people ORDER BY id
SELECT string_agg(name, '; ' ORDER BY id DESC), list(name ORDER BY id), array_agg(age ORDER BY id) FROM people
SELECT string_agg(DISTINCT item, ',' ORDER BY item) FROM orders
SELECT quantile_cont(price, 0.5), median(price), mode(item), approx_count_distinct(item), arg_max(item, price) FROM orders
SELECT max(id, 2), min(id, 2), first(item ORDER BY id), last(item ORDER BY id), any_value(1) FROM orders
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price) FROM orders
SELECT sum(price) FILTER (item = 'tea'), sum(price) FILTER (WHERE item = 'tea') FROM orders
SELECT city, age, count(*) FROM people GROUP BY ROLLUP (city, age) ORDER BY 1, 2, 3
SELECT city, age, count(*) FROM people GROUP BY CUBE (city, age) ORDER BY 1, 2, 3
SELECT city, age, grouping(city), count(*) FROM people GROUP BY GROUPING SETS ((city), (age), ()) ORDER BY 1, 2, 3, 4
SELECT unnest([1, 2, 3]) AS x, unnest({'a': 1, 'b': 2})
SELECT x FROM unnest([1, 2]) AS t(x)
SELECT i FROM range(3) t(i), generate_series(1, 2) g(j) WHERE i >= j ORDER BY ALL
SELECT * FROM range(1, 10, 3)
SELECT p.id, s.n FROM people p, LATERAL (SELECT count(*) AS n FROM orders o WHERE o.person = p.id) s ORDER BY 1
SELECT p.id, o.item FROM people p SEMI JOIN orders o ON o.person = p.id ORDER BY 1
SELECT p.id FROM people p SEMI JOIN orders o ON o.person = p.id ORDER BY 1
SELECT p.id FROM people p ANTI JOIN orders o ON o.person = p.id ORDER BY 1
SELECT a.id, b.id FROM people a POSITIONAL JOIN people b ORDER BY 1
SELECT a.id, b.day FROM orders a ASOF JOIN orders b ON a.day >= b.day ORDER BY 1
SELECT p.name, o.item FROM people p FULL OUTER JOIN orders o ON o.person = p.id ORDER BY ALL
SELECT * FROM people NATURAL JOIN (SELECT 1 AS id)
SELECT * FROM people JOIN orders USING (id) ORDER BY 1
PIVOT orders ON item USING sum(price) GROUP BY person ORDER BY person
SELECT * FROM (PIVOT orders ON item USING sum(price) GROUP BY person) ORDER BY person
SELECT * FROM (SELECT person, item, price FROM orders) PIVOT (sum(price) FOR item IN ('tea', 'milk')) ORDER BY person
SELECT * FROM (SELECT id, age, score FROM people) UNPIVOT (v FOR k IN (age, score)) ORDER BY ALL
UNPIVOT (SELECT id, age, score FROM people) ON age, score INTO NAME k VALUE v ORDER BY ALL
SELECT 0xFF, 1_000, 1e3, 'a' || 'b', E'a\nb', $$it's$$, $tag$x$tag$
SELECT '\x41'::BLOB, 'abc'::BLOB, x'41', encode('ü')
SELECT NULL IS NOT DISTINCT FROM NULL, 1 IS DISTINCT FROM 2, TRUE IS NOT FALSE, (1 = 1) IS TRUE
SELECT if(1 > 0, 'a', 'b'), ifnull(NULL, 1), greatest(1, 3, 2), least(2, 1), CASE WHEN 1 THEN 2 END
SELECT substring('hello' FROM 2 FOR 3), position('l' IN 'hello'), trim(BOTH 'x' FROM 'xax'), 'hello'[2:3], overlay('abc' PLACING 'x' FROM 2)
SELECT concat_ws('-', 'a', NULL, 'b'), format('{} {}', 1, 'x'), printf('%05d', 42), lpad('7', 3, '0'), repeat('ab', 2)
SELECT (1, 2) < (1, 3), (id, name) IN ((1, 'Ann')), id = ANY([1, 2]), id <= ALL(SELECT person FROM orders) FROM people ORDER BY id
SELECT id FROM people ORDER BY id LIMIT 40%
SELECT id FROM people ORDER BY id LIMIT (SELECT 2) OFFSET 1
SELECT id IN (SELECT person FROM orders) FROM people ORDER BY id
SELECT count(*) FROM people TABLESAMPLE 100%
SELECT count(*) FROM people USING SAMPLE 100%
SELECT id, sum(price) OVER (ORDER BY day RANGE BETWEEN INTERVAL 30 DAY PRECEDING AND CURRENT ROW) FROM orders ORDER BY id
SELECT lag(item IGNORE NULLS) OVER (ORDER BY id), first_value(item) OVER (ORDER BY id EXCLUDE CURRENT ROW) FROM orders
SELECT 'x' COLLATE NOCASE = 'X', name FROM people ORDER BY name COLLATE NOCASE DESC
WITH a AS MATERIALIZED (SELECT 1 AS x) FROM a
WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 3) FROM t ORDER BY n
SELECT 1 AS a UNION ALL BY NAME SELECT 2 AS b ORDER BY ALL
SELECT main.people.name, p.id FROM memory.main.people AS p, main.people WHERE p.id = people.id ORDER BY 2
SELECT id AS i, i + 1 AS j FROM people WHERE i > 2 ORDER BY j
SELECT p FROM people p WHERE id = 1
SELECT p.* FROM people p WHERE id = 1
SELECT [1, 2] || [3], list_contains([1], 1), [1, 2] && [2], [1, 2] @> [1], len([1]), array_length([1, 2])
SELECT struct_extract({'a': 1}, 'a'), {'a': {'b': 2}}.a.b, {'a b': 1}['a b']
SELECT 1 AS "a""b", 2 AS "select"
SELECT INTERVAL '1 year 2 months', INTERVAL 5 MINUTES, INTERVAL '01:30:00', INTERVAL '-1' DAY, to_days(3)
SELECT count() FROM people
SELECT 'a'.upper(), [3, 1].list_sort().list_first(), 'x'.concat('y')
SELECT typeof(1), typeof(1.5), typeof('a'), typeof(NULL), typeof([1]), typeof(DATE '2024-01-01'), typeof(1::UBIGINT)
SELECT CURRENT_DATE IS NOT NULL, now() IS NOT NULL, current_schema(), today() > DATE '2020-01-01', current_timestamp IS NOT NULL
SELECT GREATEST(DATE '2024-01-01', day) FROM orders ORDER BY id
SELECT hash('a') = hash('a'), md5('a'), sha256('a'), base64('a'::BLOB), bit_count(5)
SELECT TIME '10:00' + INTERVAL 1 HOUR, TIMESTAMPTZ '2024-01-01 00:00:00+02', '10:00'::TIME
SELECT 1 IN [1, 2], 'a' IN ('a', 'b'), 3 NOT IN (1, 2)
SELECT union_value(k := 1), ['a', NULL], NULL::INT[], []
SHOW TABLES
DESCRIBE people
DESCRIBE SELECT 1 AS x
SUMMARIZE SELECT id FROM people
EXPLAIN SELECT 1
SELECT i1.x, i2.a FROM people i1(x, y), orders i2(a, b) ORDER BY x, a LIMIT 3
SELECT 1_000.5 AS a, 12.50::DECIMAL(38, 2) AS b, sum(price) AS c, avg(price) AS d FROM orders
FROM VALUES (1, 'a'), (2, 'b') t(x, y) SELECT x, y ORDER BY x
(SELECT name, age FROM people) UNION ALL BY NAME (SELECT age, name FROM people) ORDER BY ALL
WITH RECURSIVE a(x) AS (SELECT 1), b(n, m) USING KEY (n) AS (SELECT 1, 1 UNION SELECT n, m + 1 FROM b WHERE m < 3) SELECT n, m FROM b
SELECT [UNPACK(COLUMNS(*)::VARCHAR)] AS v FROM (SELECT id, age FROM people) s ORDER BY v
DESCRIBE
EXPLAIN (FORMAT mermaid) SELECT 1
EXPLAIN (FORMAT query_tree_optimizer) SELECT 1
EXPLAIN ANALYZE (FORMAT json) SELECT 1
EXPLAIN ANALYZE (SELECT 1)
SHOW (SELECT id FROM people)
WITH RECURSIVE a(x) AS (SELECT 1), b(n) AS (FROM a SELECT x UNION ALL FROM b SELECT n + 1 WHERE n < 3) SELECT n FROM b ORDER BY n
SELECT pg_is_other_temp_schema(1), pg_conversion_is_visible(1)
