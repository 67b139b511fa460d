//! What is recorded beside an event's own fields, by LTTng's names and shorter ones.

use std::fmt;
use std::str::FromStr;

/// What is recorded beside an event's own fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Context {
    /// The process's id.
    Vpid,
    /// The thread's id.
    Vtid,
    /// The thread's name (its comm).
    Procname,
    /// The processor.
    CpuId,
    /// The user's id.
    Vuid,
    /// The number of the process's control group.
    CgroupId,
    /// The address of the place.
    Ip,
    /// The return addresses of the calls that led there.
    CallstackUser,
}

/// A context, its names, the one that is shown first, and what it is.
type Row = (Context, [&'static str; 2], &'static str);

/// In the order in which they are listed. Where there is no shorter name, the second is the first.
const ROWS: [Row; 8] = [
    (Context::Vpid, ["vpid", "pid"], "The process's id"),
    (Context::Vtid, ["vtid", "tid"], "The thread's id"),
    (Context::Procname, ["procname", "comm"], "The thread's name (its comm)"),
    (Context::CpuId, ["cpu_id", "cpu"], "The processor"),
    (Context::Vuid, ["vuid", "uid"], "The user's id"),
    (
        Context::CgroupId,
        ["cgroup_id", "cgroup"],
        "The number of the process's control group (version 2), as weir has seen it last: it looks every 100 ms",
    ),
    (Context::Ip, ["ip", "ip"], "The address of the place"),
    (
        Context::CallstackUser,
        ["callstack-user", "ustack"],
        "Where the thread was and the return addresses of the calls that led there, innermost first, at most 127, by frame pointers",
    ),
];

impl Context {
    /// Every context, in the order in which they are listed.
    pub fn all() -> impl Iterator<Item = Context> {
        ROWS.iter().map(|(context, ..)| *context)
    }

    /// As LTTng calls it.
    pub fn name(self) -> &'static str {
        self.row().1[0]
    }

    /// The shorter name; the same where there is none.
    pub fn alias(self) -> &'static str {
        self.row().1[1]
    }

    /// What it is, in a line.
    pub fn about(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> &'static Row {
        // SANITY: the test below finds each in the table.
        ROWS.iter().find(|(context, ..)| *context == self).expect("a row of the table")
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Context {
    type Err = String;

    fn from_str(name: &str) -> Result<Context, String> {
        let row = ROWS.iter().find(|(_, names, _)| names.contains(&name));
        row.map(|(context, ..)| *context).ok_or(format!("there is no context `{}`", name.escape_debug()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_have_lttng_s_names_and_shorter_ones() {
        for (names, wanted) in [
            (["vpid", "pid"], Context::Vpid),
            (["cgroup_id", "cgroup"], Context::CgroupId),
            (["callstack-user", "ustack"], Context::CallstackUser),
        ] {
            assert_eq!(names.map(str::parse), [Ok(wanted), Ok(wanted)]);
            assert_eq!([wanted.name(), wanted.alias()], names);
        }
        assert!("callstack-kernel".parse::<Context>().unwrap_err().contains("no context `callstack-kernel`"));
    }

    #[test]
    fn each_is_in_the_table_once() {
        use Context::{CallstackUser, CgroupId, CpuId, Ip, Procname, Vpid, Vtid, Vuid};
        let all = [Vpid, Vtid, Procname, CpuId, Vuid, CgroupId, Ip, CallstackUser];
        assert!(Context::all().eq(all));
        assert!(
            all.iter().all(|context| context.name().parse() == Ok(*context) && !context.about().is_empty())
        );
    }
}
