create table if not exists visit (day text primary key, people integer not null);
insert or replace into visit values ('2026-11-23', 41), ('2026-11-24', 57), ('2026-11-25', 63);
