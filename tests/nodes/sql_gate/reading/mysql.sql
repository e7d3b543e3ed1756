SELECT 7 / 2, 7 DIV 2, 7 % 4, 7 MOD 4, -7 DIV 2, 2 - -3, 5 ^ 3, ~5 & 7, !1
SELECT 0xFF + 0, x'4142', 0b101 + 0, b'101' + 0, _utf8mb4'abc', N'abc', HEX('a')
SELECT 'it\'s', 'a\nb', "double ""quoted"" here", 'a\\b', 'a\%b', 'a\_b', 'a' 'b', '\0' = CHAR(0)
SELECT name FROM people WHERE name LIKE 'per\%cent\_'
SELECT name FROM people WHERE name LIKE 'back\\\\%'
SELECT name FROM people WHERE name LIKE 'per|%%' ESCAPE '|'
SELECT `name`, `people`.`age` FROM `people` ORDER BY `id`
SELECT name FROM people WHERE age <=> NULL
SELECT name FROM people WHERE NOT age <=> 34 ORDER BY id
SELECT 1 || 0, 1 && 0, 1 XOR 1, NOT 0, 1 OR 0 AND 0
SELECT IF(age > 30, 'y', 'n'), IFNULL(age, 0), ISNULL(age), NULLIF(age, 34) FROM people ORDER BY id
SELECT GROUP_CONCAT(name ORDER BY id DESC SEPARATOR '; '), GROUP_CONCAT(DISTINCT city ORDER BY city) FROM people
SELECT DATE_ADD('2024-01-31', INTERVAL 1 MONTH), '2024-01-31' + INTERVAL 1 DAY, DATE_SUB('2024-03-01', INTERVAL '1 2' DAY_HOUR)
SELECT DATE_FORMAT(day, '%d.%m.%Y %H:%i'), STR_TO_DATE('31.01.2024', '%d.%m.%Y'), YEAR(day), DATEDIFF(day, '2024-01-01') FROM orders ORDER BY id
SELECT EXTRACT(YEAR_MONTH FROM day), TIMESTAMPDIFF(DAY, '2024-01-01', day), WEEK(day, 3), LAST_DAY(day) FROM orders ORDER BY id
SELECT DATE '2024-01-01', TIME '10:00:00.5', TIMESTAMP '2024-01-01 10:00:00.25', DATE('2024-01-01 10:00'), TIMESTAMPADD(MINUTE, 5, '2024-01-01')
SELECT CAST('12' AS SIGNED) + 1, CAST(1 AS CHAR(5)), CAST('1.5' AS DECIMAL(5, 2)), CAST(-1 AS UNSIGNED), CONVERT('1', SIGNED), CAST('a' AS BINARY)
SELECT CONVERT('abc' USING latin1), CHAR(65, 66), CHAR(228 USING latin1), HEX(CONVERT('ä' USING latin1))
SELECT name REGEXP '^A', name RLIKE 'n', name NOT REGEXP 'x', REGEXP_REPLACE('a1b2', '[0-9]', 'x') FROM people ORDER BY id
SELECT name COLLATE utf8mb4_bin = 'ann' FROM people ORDER BY id
SELECT BINARY 'a' = 'A', 'a' = 'A'
SELECT JSON_EXTRACT('{"a": [1, 2]}', '$.a[1]'), JSON_UNQUOTE(JSON_EXTRACT('{"a": "x"}', '$.a')), JSON_OBJECT('a', 1), JSON_ARRAY(1, 'b')
SELECT SUBSTRING('hello', 2, 3), SUBSTRING('hello' FROM 2 FOR 3), SUBSTR('hello' FROM -3), MID('hello', 2, 2), LEFT('abc', 2), RIGHT('abc', 2)
SELECT TRIM(BOTH 'x' FROM 'xax'), TRIM(LEADING FROM '  a'), LTRIM(' a'), POSITION('l' IN 'hello'), LOCATE('l', 'hello', 4), INSTR('abc', 'b')
SELECT INSERT('abc', 2, 1, 'x'), REPEAT('a', 3), CONCAT('a', NULL), CONCAT_WS('-', 'a', NULL, 'b'), FIELD('b', 'a', 'b'), ELT(2, 'a', 'b'), LPAD('7', 3, '0')
SELECT LOG(2, 8), LOG(10), LN(10), LOG10(100), ROUND(2.5), TRUNCATE(1.789, 2), MOD(7, 3), POW(2, 3), CEILING(1.2), SIGN(-2)
SELECT id FROM people ORDER BY id LIMIT 1, 2
SELECT SQL_NO_CACHE id FROM people ORDER BY id
SELECT STRAIGHT_JOIN p.id FROM people p JOIN orders o ON o.person = p.id ORDER BY p.id, o.id
SELECT id FROM people USE INDEX (PRIMARY) WHERE id = 1
SELECT id FROM people FORCE INDEX (PRIMARY) ORDER BY id
SELECT city, COUNT(*) FROM people GROUP BY city WITH ROLLUP
SELECT 1 FROM DUAL WHERE 1 = 1
SELECT CASE WHEN 1 THEN 'a' ELSE 'b' END, 1 IN (1, 2), 3 BETWEEN 1 AND 5, 'a' BETWEEN 'b' AND 'c'
SELECT (1, 2) = (1, 2), (1, 2) < (1, 3), ROW(1, 2) = ROW(1, 2), (id, age) IN ((1, 34)) FROM people ORDER BY id
SELECT p.name, o.item FROM people p NATURAL JOIN orders o ORDER BY p.id
SELECT p.name, o.item FROM people p RIGHT JOIN orders o USING (id) ORDER BY o.id
SELECT id, SUM(price) OVER (PARTITION BY person ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders ORDER BY id
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n
SELECT @@session.autocommit IN (0, 1), @@version IS NOT NULL, @nothing
SELECT DATABASE() IS NOT NULL, USER() IS NOT NULL, CURRENT_USER() IS NOT NULL, NOW() > '2020-01-01', CURDATE() > '2020-01-01', CURRENT_TIMESTAMP(3) > '2020'
SELECT 1 -- comment
SELECT 1 # comment
SELECT 5--2
SELECT 1 /* plain */ + 1
SELECT STD(id), VARIANCE(id), BIT_OR(id), ANY_VALUE(1) FROM people
SELECT id FROM people WHERE id = ANY (SELECT person FROM orders) ORDER BY id
SELECT NOT id = 1, !(id = 1), -id FROM people ORDER BY id
SELECT SOUNDEX('a'), STRCMP('a', 'b'), REVERSE('abc'), SPACE(2), ASCII('A'), ORD('ä'), UNHEX('41'), MD5('a'), SHA1('a'), CRC32('a'), INET_ATON('1.2.3.4')
SELECT DISTINCT city FROM people ORDER BY city
SELECT name AS 'single', age AS "double", 1 AS `back` FROM people WHERE id = 1
SHOW TABLES
SHOW COLUMNS FROM people
SHOW INDEX FROM people
DESCRIBE people
EXPLAIN SELECT * FROM people WHERE id = 1
SELECT ASTEXT(GEOMETRYN(GEOMETRYFROMTEXT('MULTIPOINT(1 1, 2 2)'), 2)) AS a, ST_SRID(POINT(1, 1)) AS b
SHOW INDEX_STATISTICS
