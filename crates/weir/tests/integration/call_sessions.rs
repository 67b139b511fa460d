//! Clauses at the entry and at the return of a function, which become one program at both ends: the same three scripts count the same in the process, at
//! uprobes of the kernel, and (in [`kernel_events`](crate::kernel_events)) at functions of the kernel.

use std::process::Command;

use testkit::skip;

/// Opens two files twice, of which one is not there: it ends with 1.
const OPENS: &str = "cat /etc/hostname /no/such/file /etc/hostname /no/such/file";

/// Where a function that opens a file is probed, and what has the path at its entry.
pub(crate) struct At {
    pub(crate) entry: &'static str,
    pub(crate) exit: &'static str,
    pub(crate) path: &'static str,
}

/// Scripts, and what each counts of [`OPENS`]: an entry that leaves its return out, a time stamp, a place that the return knows.
fn scripts(At { entry, exit, path }: &At) -> [(String, u64); 3] {
    let is_ours =
        format!("comm == \"cat\" && (str({path}) == \"/etc/hostname\" || str({path}) == \"/no/such/file\")");
    [
        (
            format!(
                "{entry} /comm == \"cat\" && str({path}) == \"/etc/hostname\"/ {{ @kept[tid] = 1; }} \
                 {exit} /@kept[tid]/ {{ @ = count(); delete(@kept[tid]); }}"
            ),
            2,
        ),
        (
            format!(
                "{entry} /{is_ours}/ {{ @start[tid] = nsecs; }} \
                 {exit} /@start[tid]/ {{ if (nsecs - @start[tid] < 60000000000) {{ @ = count(); }} delete(@start[tid]); }}"
            ),
            4,
        ),
        (
            format!(
                "{entry} /{is_ours}/ {{ @kept[tid] = 1; }} \
                 {exit} /@kept[tid]/ {{ @[probe] = count(); delete(@kept[tid]); }}"
            ),
            4,
        ),
    ]
}

/// One engine counts what each script is to count; whether the two clauses became one.
#[track_caller]
pub(crate) fn check(engine: &str, at: &At) -> bool {
    let weir = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["-q", "--engine", engine])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            matches!(output.status.code(), Some(0 | 1)) && !said.contains("error"),
            "{arguments:?}: {said}"
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let mut all_fused = true;
    for (script, wanted) in scripts(at) {
        let printed = weir(&["-e", &script, "-c", OPENS]);
        // `@: 2`, or with the place of the return: `@[uretprobe:…]: 4`.
        let kind = at.exit.split_once(':').map_or("", |(kind, _)| kind);
        let mut lines =
            printed.lines().filter(|line| line.starts_with("@: ") || line.starts_with(&format!("@[{kind}:")));
        let count = lines.next().and_then(|line| line.rsplit_once(": ")?.1.parse::<u64>().ok());
        assert_eq!(count, Some(wanted), "{engine}: {script}: {printed}");
        all_fused &= weir(&["--emit", "ir", "-e", &script]).contains("session_cookie");
    }
    all_fused
}

#[test]
fn of_functions_of_processes_count_the_same_in_both_engines() {
    if let Err(reason) = testkit::kernel::available() {
        return skip::skip("call-sessions", reason);
    }
    let at = At { entry: "uprobe:libc:open64", exit: "uretprobe:libc:open64", path: "arg0" };
    assert!(check("user", &at));
    let has_sessions = weir_kernel::Features::of_kernel().session.is_some();
    assert_eq!(check("kernel", &at), has_sessions);
}
