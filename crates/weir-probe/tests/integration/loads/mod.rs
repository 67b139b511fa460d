//! Installed programs, and what keeps nearly every part of them at work, for tests that probe all of their functions.

pub(crate) const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";
pub(crate) const SQLITE: &str = "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0";

/// A command, its words apart by 0x1f, which writes to the file that `$OUT` is replaced by.
pub(crate) const DATABASE: &str = "sqlite3\x1f-batch\x1f:memory:\x1f.output \"$OUT\"\x1fcreate table t(a integer primary key, b text, c real); \
    with recursive n(i) as (select 1 union all select i+1 from n where i < 3000) insert into t select i, \
    hex(i*7919), i/3.0 from n; create index u on t(b); select a, b, round(c, 3) from t where b like '%3A%' \
    order by c desc; select count(*), sum(a), group_concat(b) from t where a % 97 = 0; delete from t where \
    a % 2; select json_group_array(a) from t where a < 99; explain query plan select * from t where b = 'x';";

/// Computes the same again and again, until a line comes: `same`, or the first other result and a failure.
pub(crate) const SHELL: &str = r#"f() { local y=$1 s=; while ((y--)); do s=$s$((y*y)); s=${s/44/x}; done; echo ${#s} ${s:7:30}; }
    expected=$(f 60); echo ready
    until read -t 0; do found=$(f 60); [[ $found == "$expected" ]] || { echo "$found"; exit 1; }; done
    echo same"#;
