SELECT 1
SELECT 1 AS "One", 2 AS two, 3 three
SELECT * FROM people ORDER BY id
SELECT name FROM people WHERE name = 'O''Hara'
SELECT name FROM people WHERE name LIKE 'back\%' ESCAPE '!' ORDER BY id
SELECT name FROM people WHERE name LIKE 'per!%cent!_' ESCAPE '!'
SELECT name FROM people WHERE name LIKE '%\%' ORDER BY 1
SELECT '\n', '\\', 'it''s', '--no comment', '/* none */', ';'
SELECT 1 -- a comment
SELECT /* one */ 1 /* two */ + 1
SELECT 1 - -1, - -1, 2 - (-3), -(-4), - (2 + 3)
SELECT 7 / 2, 7 % 4, -7 / 2, -7 % 4, 7.0 / 2
SELECT 2 + 3 * 4, (2 + 3) * 4, 2 - 3 - 4, 2 - (3 - 4), 100 / 5 / 2, 100 / (5 / 2)
SELECT 1.50, .5, 1e3, 1.5e-2, 0.1 + 0.2
SELECT NOT TRUE, NOT (1 = 2), TRUE AND FALSE OR TRUE, TRUE AND (FALSE OR TRUE)
SELECT age IS NULL, age IS NOT NULL, age FROM people ORDER BY id
SELECT name FROM people WHERE age BETWEEN 20 AND 40 ORDER BY id
SELECT name FROM people WHERE age NOT BETWEEN 20 AND 40 ORDER BY id
SELECT name FROM people WHERE city IN ('Oslo', 'Rome') ORDER BY id
SELECT name FROM people WHERE city NOT IN ('Oslo') ORDER BY id
SELECT name FROM people WHERE id IN (SELECT person FROM orders WHERE item = 'tea') ORDER BY id
SELECT name FROM people p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.person = p.id AND o.price > 2.6) ORDER BY id
SELECT CASE WHEN age > 40 THEN 'old' WHEN age IS NULL THEN '?' ELSE 'young' END AS how FROM people ORDER BY id
SELECT CASE city WHEN 'Oslo' THEN 1 ELSE 0 END FROM people ORDER BY id
SELECT city, COUNT(*), COUNT(age), SUM(score), MIN(name), MAX(age), AVG(score) FROM people GROUP BY city ORDER BY city
SELECT COUNT(DISTINCT city) FROM people
SELECT DISTINCT item FROM orders ORDER BY item
SELECT city, COUNT(*) AS n FROM people GROUP BY city HAVING COUNT(*) > 1 ORDER BY n DESC, city
SELECT p.name, o.item FROM people p JOIN orders o ON o.person = p.id ORDER BY o.id
SELECT p.name, o.item FROM people AS p LEFT JOIN orders AS o ON o.person = p.id AND o.item = 'tea' ORDER BY p.id, o.id
SELECT p.name, o.item FROM people p LEFT OUTER JOIN orders o ON (o.person = p.id) WHERE o.id IS NULL ORDER BY p.id
SELECT a.id, b.id FROM people a CROSS JOIN people b WHERE a.id < b.id ORDER BY 1, 2
SELECT a.id, b.id FROM people a, people b WHERE a.id = b.id ORDER BY 1
SELECT id, item FROM orders ORDER BY price DESC, id ASC LIMIT 3
SELECT id FROM orders ORDER BY id LIMIT 2 OFFSET 1
SELECT 1 UNION SELECT 2 UNION ALL SELECT 2 ORDER BY 1
SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 2
SELECT id FROM people EXCEPT SELECT person FROM orders ORDER BY 1
SELECT id FROM people INTERSECT SELECT person FROM orders ORDER BY 1
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS x FROM a) SELECT a.x, b.x FROM a, b
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n ORDER BY i
SELECT * FROM (SELECT id, name FROM people) AS sub WHERE id > 2 ORDER BY id
SELECT (SELECT MAX(price) FROM orders) AS top, (SELECT COUNT(*) FROM people)
SELECT id, ROW_NUMBER() OVER (ORDER BY price DESC, id) FROM orders ORDER BY id
SELECT id, SUM(price) OVER (PARTITION BY person ORDER BY id) FROM orders ORDER BY id
SELECT id, SUM(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM orders ORDER BY id
SELECT id, SUM(id) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) FROM orders ORDER BY id
SELECT id, LAG(id, 1, -1) OVER (ORDER BY id), LEAD(id) OVER (ORDER BY id) FROM orders ORDER BY id
SELECT id, FIRST_VALUE(item) OVER w, RANK() OVER w FROM orders WINDOW w AS (PARTITION BY person ORDER BY id) ORDER BY id
SELECT id, NTILE(2) OVER (ORDER BY id), DENSE_RANK() OVER (ORDER BY item) FROM orders ORDER BY id
SELECT COALESCE(age, 0), NULLIF(city, 'Rome') FROM people ORDER BY id
SELECT UPPER(name), LOWER(name), LENGTH(name), TRIM('  x '), SUBSTR(name, 2, 3), REPLACE(name, 'a', 'b') FROM people ORDER BY id
SELECT ROUND(2.567, 2), ABS(-3), FLOOR(-1.5), CEIL(1.2)
SELECT CAST('12' AS INTEGER) + 1, CAST(12 AS VARCHAR(10))
SELECT "name" FROM "people" WHERE "people"."id" = 1
SELECT name, age FROM people ORDER BY age DESC NULLS LAST, name
SELECT name, age FROM people ORDER BY age NULLS FIRST, name
SELECT COUNT(*) FILTER (WHERE age > 20) FROM people
SELECT 1 WHERE 1 <> 2 AND 2 != 3 AND 3 >= 3 AND NOT 4 < 3
SELECT 5 & 3, 5 | 3, 1 << 4, 255 >> 2
SELECT -id FROM people ORDER BY -id
SELECT id FROM people WHERE (id, age) = (1, 34)
SELECT ((1)), (((2)))
VALUES (1, 'a'), (2, 'b')
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v ORDER BY 1
SELECT 'ä€😀' AS "ünï", LENGTH('ä€😀')
