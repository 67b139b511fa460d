CREATE TABLE n(id INTEGER PRIMARY KEY, k TEXT, v REAL, b BLOB);
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000)
  INSERT INTO n SELECT x, printf('key%05d', x * 7919 % 20000), x * 0.5, zeroblob(x % 40) FROM c;
CREATE UNIQUE INDEX by_key ON n(k);
CREATE VIEW big AS SELECT * FROM n WHERE v > 9000;
SELECT count(*), sum(v), avg(length(b)), max(k) FROM n;
SELECT k, v FROM n WHERE k LIKE 'key1234%' ORDER BY k;
SELECT id % 7 AS d, count(*), group_concat(id) FROM n WHERE id < 50 GROUP BY d HAVING count(*) > 1 ORDER BY d DESC;
SELECT a.id, b.id FROM n a JOIN n b ON b.v = a.v * 2 WHERE a.id BETWEEN 100 AND 105;
SELECT id, sum(v) OVER (ORDER BY id ROWS 3 PRECEDING), rank() OVER (ORDER BY v DESC) FROM n LIMIT 5;
SELECT json_extract('{"a":[1,{"b":2}]}', '$.a[1].b'), hex(substr('weir', 2)), round(3.14159, 3), upper('x') || lower('Y');
CREATE TRIGGER t AFTER DELETE ON n BEGIN UPDATE n SET v = v + 1 WHERE id = old.id + 1; END;
BEGIN; DELETE FROM n WHERE id % 3 = 0; SAVEPOINT s; UPDATE n SET k = 'x' || id; ROLLBACK TO s; COMMIT;
SELECT count(*), sum(v) FROM n; SELECT count(*) FROM big;
SELECT * FROM n WHERE id = (SELECT max(id) FROM n) UNION SELECT 0, 'none', NULL, x'00ff';
EXPLAIN QUERY PLAN SELECT * FROM n WHERE k = 'key00001';
PRAGMA integrity_check; VACUUM; SELECT sum(pgsize) > 0 FROM dbstat LIMIT 0; ANALYZE; SELECT count(*) FROM sqlite_master;
