//! Scripts with events of the kernel and probes of processes: the former run in the kernel, the latter in the processes, and what they print is one.

use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::paths::quoted;
use testkit::target::{self, Source};
use testkit::{skip, wait};

use crate::kernel_events::{available, weir};

/// A command that opens this file once.
const OPENS: &str = "cat /etc/hostname";

/// What a script prints of a command, which has nothing else to say.
#[track_caller]
fn printed(script: &str, command: &str) -> String {
    let output = weir(&["-e", script, "-c", command]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), &said[..]), (Some(0), ""), "{script}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn check(script: &str, wanted: &[&str]) {
    let printed = printed(script, OPENS);
    for line in wanted {
        assert!(printed.lines().any(|found| found == *line), "{script}: no line {line:?} in {printed:?}");
    }
}

#[test]
fn each_clause_runs_where_its_events_are() {
    if !available() {
        return;
    }
    check(
        "uprobe:libc:setlocale { @locale[comm] = count(); printf(\"user %d\\n\", pid == cpid); } \
         tracepoint:syscalls:sys_enter_openat /pid == cpid/ { @[str(args.filename)] = count(); } \
         tracepoint:sched:sched_process_exec /pid == cpid/ { printf(\"kernel %s\\n\", comm); }",
        &["@locale[cat]: 1", "@[/etc/hostname]: 1", "user 1", "kernel cat"],
    );
}

#[test]
fn what_both_sides_count_is_added_up_when_it_is_printed() {
    if !available() {
        return;
    }
    // A process's exec is seen once, as is its call.
    let script = "uprobe:libc:setlocale { @n = count(); @sum = sum(40); @least = min(3); @most = max(3); @h = hist(4); @by[\"user\"] = count(); @by[comm] = count(); } \
         tracepoint:sched:sched_process_exec /pid == cpid/ { @n = count(); @sum = sum(2); @least = min(5); @most = max(5); @h = hist(4); @by[\"kernel\"] = count(); @by[comm] = count(); }";
    let wanted =
        ["@n: 2", "@sum: 42", "@least: 3", "@most: 5", "@by[user]: 1", "@by[kernel]: 1", "@by[cat]: 2"];
    check(script, &wanted);
    assert!(printed(script, OPENS).contains("[4, 8)                 2 |"));
    // Also while it runs, and nothing is left of what is cleared.
    let script = "uprobe:libc:setlocale { @n = count(); } tracepoint:sched:sched_process_exec /pid == cpid/ { @n = count(); } \
         uprobe:libc:fclose /@done != 1/ { @done = 1; print(@n); clear(@n); }";
    let printed = printed(script, OPENS);
    assert!(printed.contains("@n: 2\n") && printed.matches("@n").count() == 1, "{printed}");
}

#[test]
fn clauses_that_are_at_no_place_run_where_their_maps_are() {
    if !available() {
        return;
    }
    check(
        "BEGIN { @user = 1; } BEGIN { @kernel = 10; } BEGIN { printf(\"begins\\n\"); } \
         uprobe:libc:setlocale { @user += 1; } \
         tracepoint:sched:sched_process_exec /pid == cpid/ { @kernel += 1; } \
         END { printf(\"user %d\\n\", @user); } END { printf(\"kernel %d\\n\", @kernel); }",
        &["begins", "user 2", "kernel 11", "@user: 2", "@kernel: 11"],
    );
}

#[test]
fn stacks_of_each_side_have_the_names_of_that_side() {
    if !available() {
        return;
    }
    let printed = printed(
        "uprobe:libc:setlocale { @u[ustack(1)] = count(); print(ustack(1)); } \
         tracepoint:sched:sched_process_exec /pid == cpid/ { @k[kstack(3)] = count(); @three[kstack(1)] = count(); print(kstack(1)); }",
        OPENS,
    );
    assert!(printed.contains("@u[\n    setlocale+0\n]: 1\n"), "{printed}");
    assert!(printed.contains("@k[\n    ") && printed.contains("bprm_execve+"), "{printed}");
    assert!(!printed.contains("    0x"), "{printed}");
}

/// A single word under a key is one that both sides can see; a text is not.
#[test]
fn a_map_that_both_sides_need_has_the_script_run_in_the_kernel() {
    if !available() {
        return;
    }
    let script = "uprobe:libc:setlocale /pid == cpid/ { @seen[tid] = comm; } \
         tracepoint:syscalls:sys_enter_openat /@seen[tid] == \"cat\"/ { @after[str(args.filename)] = count(); }";
    let output = weir(&["-e", script, "-c", OPENS]);
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("@after[/etc/hostname]: 1\n"), "{printed}{said}");
    assert!(said.contains("@seen is needed in the kernel and in processes"), "{said}");
    // With what the kernel does not do.
    let output = weir(&["--follow", "-e", script, "-c", OPENS]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not --follow") && output.status.code() != Some(0), "{said}");
}

#[test]
fn what_one_side_writes_the_other_reads() {
    if !available() {
        return;
    }
    let script = "uprobe:libc:setlocale { @seen[tid] = 1; @name = comm; @rounds++; } \
         tracepoint:syscalls:sys_enter_openat /@seen[tid]/ { @by[@name] = count(); @rounds++; @last = nsecs; } \
         uprobe:libc:fclose /@last && !@closed/ { @closed = 1; @late = nsecs < @last; delete(@seen[tid]); }";
    for engine in ["auto", "kernel"] {
        let output = weir(&["--engine", engine, "-e", script, "-c", OPENS]);
        let (printed, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        for line in ["@by[cat]: ", "@name: cat", "@closed: 1", "@late: 0"] {
            assert!(
                printed.lines().any(|found| found.starts_with(line)),
                "{engine}: no {line:?} in {printed}{said}"
            );
        }
        assert!(!printed.contains("@seen["), "{engine}: {printed}");
        assert_eq!(said, "", "{engine}");
    }
    // Also in processes that come later.
    let output = weir(&["--follow", "-e", script, "-c", "sh -c 'cat /etc/hostname; true'"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("@by[cat]: ") && printed.contains("@closed: 1"), "{printed}");
}

/// Threads each of which makes a system call and then calls `f`, as often as the second argument says; the first says how many.
const CALLS: &str = "#include <pthread.h>\n#include <stdlib.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
    static long times;\n\
    __attribute__((noinline)) void f(long n) { __asm__ volatile(\"nop; nop; nop; nop; nop; nop; nop; nop\" : : \"r\"(n)); }\n\
    static void *work(void *unused) { for (long n = 0; n < times; n++) { syscall(SYS_getppid); f(n); } return unused; }\n\
    int main(int count, char **words) { pthread_t threads[64]; int n = atoi(words[1]); times = atol(words[2]);\n\
    for (int i = 0; i < n; i++) pthread_create(&threads[i], 0, work, 0);\n\
    for (int i = 0; i < n; i++) pthread_join(threads[i], 0); return count > 3 && pause(); }\n";

/// No update of either side is lost, and what the kernel wrote at a system call is there when the same thread calls a function after it.
#[test]
fn no_update_is_lost_under_eight_threads() {
    if !available() {
        return;
    }
    let path = target::build("shared-map", Source::Text(CALLS), &["-pthread", "-O1"]);
    let script = format!(
        "tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {{ @start[tid] = nsecs; @in++; @sum[tid % 4]++; @of[tid]++; }} \
         uprobe:{path}:f {{ if (@start[tid] == 0) {{ @stale++; }} if (@start[tid] > nsecs + 1000000) {{ @stale++; }} @calls = count(); @of[tid]--; @sum[tid % 4]++; @in--; delete(@start[tid]); }}",
        path = quoted(&path)
    );
    let output = weir(&["-e", &script, "-c", &format!("{} 8 5000", quoted(&path))]);
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &said[..]), (Some(0), ""), "{printed}");
    let values = |name: &str| -> Vec<i64> {
        let of = |line: &str| {
            let (key, value) = line.rsplit_once(": ")?;
            key.starts_with(name).then(|| value.parse().unwrap_or_else(|_| panic!("{line}")))
        };
        printed.lines().filter_map(of).collect()
    };
    assert_eq!(values("@in"), [0], "{printed}");
    assert_eq!(values("@calls"), [40_000], "{printed}");
    assert_eq!(values("@sum[").iter().sum::<i64>(), 80_000, "{printed}");
    assert_eq!(values("@of["), [0; 8], "{printed}");
    assert!(!printed.contains("@stale") && !printed.contains("@start"), "{printed}");
}

/// A switch and a threshold that weir itself sets are read by programs in the kernel at their next event.
#[test]
fn a_switch_that_user_space_sets_is_seen_in_the_kernel() {
    if !available() {
        return;
    }
    let path = target::build("shared-map", Source::Text(CALLS), &["-pthread", "-O1"]);
    // The thread itself closes the gate at its tenth call: not one event of the kernel's is counted after that.
    let script = format!(
        "BEGIN {{ @open = 1; @least = 3; }} \
         tracepoint:syscalls:sys_enter_getppid /pid == cpid && @open/ {{ @n++; if (@n > @least) {{ @over = count(); }} }} \
         uprobe:{path}:f {{ if (arg0 == 9) {{ @open = 0; }} }}",
        path = quoted(&path)
    );
    let output = weir(&["-e", &script, "-c", &format!("{} 1 100", quoted(&path))]);
    let printed = String::from_utf8_lossy(&output.stdout);
    for line in ["@n: 10", "@over: 7", "@open: 0", "@least: 3"] {
        assert!(printed.lines().any(|found| found == line), "no {line:?} in {printed}");
    }
}

/// In a PID namespace `tid` would be another key in the process than in the kernel.
#[test]
fn a_process_whose_numbers_are_others_than_the_kernels_is_refused() {
    if !available() {
        return;
    }
    let path = target::build("shared-map", Source::Text(CALLS), &["-pthread", "-O1"]);
    let mut target = Command::new("unshare")
        .args(["--fork", "--pid", "--kill-child"])
        .arg(&path)
        .args(["1", "100000000"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", target.id());
    let child = wait::until_some(Duration::from_secs(20), || {
        let child = std::fs::read_to_string(&children).ok()?.trim().to_owned();
        let program = std::fs::read_link(format!("/proc/{child}/exe")).ok()?;
        (program == path).then_some(child)
    });
    let child = child.expect("the program runs");
    let trace = |body: &str| {
        let script = format!(
            "tracepoint:syscalls:sys_enter_getppid {{ @on[{body}] = 1; }} uprobe:{}:f {{ @n += @on[{body}]; if (@n > 3) {{ exit(); }} }}",
            quoted(&path)
        );
        weir(&["-e", &script, "-p", &child])
    };
    let refused = trace("tid");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("PID namespace") && said.contains("--engine kernel"), "{said}");
    assert_ne!(refused.status.code(), Some(0), "{said}");
    // What does not ask for them is the same on both sides.
    let traced = trace("1");
    assert_eq!(traced.status.code(), Some(0), "{}", String::from_utf8_lossy(&traced.stderr));
    target.kill().unwrap();
    target.wait().unwrap();
}

/// Nothing of the maps stays in the process, however weir ends.
#[test]
fn a_process_has_nothing_of_the_maps_when_weir_is_gone() {
    if !available() {
        return;
    }
    let path = target::build("shared-map", Source::Text(CALLS), &["-pthread", "-O1"]);
    let script = format!(
        "tracepoint:syscalls:sys_enter_getppid {{ @n[tid]++; }} uprobe:{}:f {{ @m[1] = @n[tid]; @seen++; }} interval:ms:10 /@seen/ {{ printf(\"seen\\n\"); @seen = 0; }}",
        quoted(&path)
    );
    let mut target = Command::new(&path).args(["2", "100000000"]).stdin(Stdio::null()).spawn().unwrap();
    let pid = target.id().to_string();
    let maps = || std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let is_clean = || !maps().contains("bpf-map") && !maps().contains("memfd:weir");
    let begin = || {
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        let mut weir = weir.args(["-e", &script, "-p", &pid]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufReader::new(weir.stdout.take().unwrap());
        let mut line = String::new();
        while line != "seen\n" {
            line.clear();
            assert!(std::io::BufRead::read_line(&mut lines, &mut line).unwrap() > 0, "weir ended");
        }
        assert!(maps().contains("bpf-map"), "{}", maps());
        (weir, lines)
    };
    let (mut weir, _lines) = begin();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(weir.id() as i32), nix::sys::signal::Signal::SIGINT)
        .unwrap();
    weir.wait().unwrap();
    assert!(is_clean(), "{}", maps());
    // After `kill -9` the next weir takes them out.
    let (mut weir, _lines) = begin();
    weir.kill().unwrap();
    weir.wait().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(["detach", "-p", &pid]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(is_clean(), "{}", maps());
    target.kill().unwrap();
    target.wait().unwrap();
}

#[test]
fn processes_that_come_later_are_probed_as_without_the_kernels_events() {
    if !available() {
        return;
    }
    let script = "uprobe:libc:setlocale { @[comm] = count(); } tracepoint:sched:sched_process_exec { @exec[comm] = count(); }";
    let output =
        weir(&["--follow", "-e", script, "-c", "sh -c 'cat /etc/hostname; cat /etc/hostname; true'"]);
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("@[cat]: 2\n") && printed.contains("@exec[cat]: "), "{printed}{said}");
}

#[test]
fn a_list_is_read_beside_processes() {
    if !available() {
        return;
    }
    let own = std::process::id();
    let script = format!(
        "iter:task /ctx->task->pid == {own}/ {{ @listed = count(); }} uprobe:libc:setlocale {{ @ = count(); }}"
    );
    check(&script, &["@listed: 1", "@: 1"]);
}

#[test]
fn what_would_be_put_into_every_clause_is_refused() {
    if !available() {
        return;
    }
    let script = "uprobe:libc:setlocale { @ = count(); } tracepoint:sched:sched_switch { @n = count(); }";
    let output = weir(&["--filter", "pid == 1", "-e", script, "-c", OPENS]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("--filter is not for events of the kernel") && output.status.code() != Some(0),
        "{said}"
    );
}

#[test]
fn what_a_run_would_do_says_where_each_clause_runs() {
    if !available() {
        return;
    }
    let script = "tracepoint:sched:sched_switch { @k = count(); } uprobe:libc:setlocale { @u = count(); } BEGIN { @k = count(); } END { }";
    let explained = |arguments: &[&str]| {
        let output = weir(&[arguments, &["--explain", "-e", script, "-c", OPENS]].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    let rows = |text: &str| -> Vec<String> {
        let rows =
            text.lines().skip_while(|line| *line != "PROGRAMS").skip(2).take_while(|line| !line.is_empty());
        rows.map(|line| line.split_whitespace().skip(1).take(4).collect::<Vec<_>>().join(" ")).collect()
    };
    let wanted = [
        "tracepoint:sched:sched_switch in the kernel",
        "uprobe:libc:setlocale in the process",
        "BEGIN in the kernel",
        "END in weir 2",
    ];
    let auto = explained(&[]);
    assert_eq!(rows(&auto), wanted, "{auto}");
    let kernel = explained(&["--engine", "kernel"]);
    assert!(rows(&kernel).iter().all(|row| row.contains("in the kernel")), "{kernel}");
}

/// Eight threads, each with 20,000 calls and 2,000 system calls.
const BUSY: &str = "#include <pthread.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
    __attribute__((noinline)) void hit(int i) { __asm__ volatile(\"nop; nop; nop; nop; nop; nop\" :: \"r\"(i) : \"memory\"); }\n\
    static void *work(void *unused) { for (int i = 0; i < 20000; i++) { hit(i); if (i % 10 == 0) syscall(SYS_getppid); } return unused; }\n\
    int main(void) { pthread_t all[8]; for (int i = 0; i < 8; i++) pthread_create(&all[i], 0, work, 0);\n\
    for (int i = 0; i < 8; i++) pthread_join(all[i], 0); return 0; }\n";

#[test]
fn no_count_is_lost_under_threads_of_both_sides() {
    if !available() {
        return;
    }
    let program = target::build("both-sides", Source::Text(BUSY), &["-O1", "-pthread"]);
    let script = format!(
        "uprobe:\"{}\":hit {{ @all = count(); @by[tid] = count(); @user = sum(arg0); }} \
         tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {{ @all = count(); @by[tid] = count(); @kernel[tid] = count(); }}",
        program.display()
    );
    let printed = printed(&script, &quoted(&program));
    let sum = |map: &str| -> (usize, u64) {
        let counts = printed.lines().filter(|line| line.starts_with(&format!("{map}[")));
        let counts: Vec<u64> = counts.filter_map(|line| line.rsplit_once(": ")?.1.parse().ok()).collect();
        (counts.len(), counts.iter().sum())
    };
    assert_eq!((sum("@by"), sum("@kernel")), ((8, 176_000), (8, 16_000)), "{printed}");
    assert!(printed.contains("@all: 176000\n"), "{printed}");
    assert!(printed.contains(&format!("@user: {}\n", 8_u64 * (0..20_000).sum::<u64>())), "{printed}");
}

/// What needs rights says which; what needs none runs.
#[test]
fn without_rights_the_kernels_half_names_what_is_missing() {
    if !available() || !nix::unistd::geteuid().is_root() {
        return;
    }
    // For everybody to read.
    let folder = std::env::temp_dir().join(format!("weir-both-sides-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let copy = folder.join("weir");
    std::fs::copy(env!("CARGO_BIN_EXE_weir"), &copy).unwrap();
    let unprivileged = |script: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
        let output = command.args(["-e", script, "-c", OPENS]).current_dir("/").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = unprivileged("uprobe:libc:setlocale { @ = count(); }");
    assert_eq!((code, &said[..]), (Some(0), ""));
    for script in [
        "software:page-faults:1 { @ = count(); }",
        "uprobe:libc:setlocale { @u = count(); } software:page-faults:1 { @ = count(); }",
        "iter:task { @ = count(); }",
    ] {
        let (code, said) = unprivileged(script);
        assert!(code == Some(3) && said.contains("needs root, or CAP_BPF"), "{script}: {said}");
    }
    let (code, said) = unprivileged("tracepoint:sched:sched_switch { @ = count(); }");
    assert!(code != Some(0) && said.contains("be root"), "{said}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// The kernel has no programs of weir's any more when it was killed.
#[test]
fn nothing_is_left_in_the_kernel_after_a_kill() {
    if !available() {
        return;
    }
    let name = format!("t{}", std::process::id() % 100_000);
    let script = format!(
        "BEGIN {{ printf(\"begins\\n\"); }} tracepoint:sched:sched_switch {{ @{name} = count(); }} uprobe:libc:setlocale {{ @ = count(); }}"
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["-q", "-e", &script, "-c", "sleep 20"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let maps = || {
        let listed = Command::new("bpftool").args(["map", "show"]).output().ok()?;
        Some(String::from_utf8_lossy(&listed.stdout).contains(&name))
    };
    let is_there = wait::until(Duration::from_secs(30), || maps() != Some(false));
    child.kill().unwrap();
    child.wait().unwrap();
    if maps().is_none() {
        return skip::skip("bpftool", "it lists what the kernel has");
    }
    assert!(is_there);
    assert!(wait::until(Duration::from_secs(30), || maps() == Some(false)), "a map is left");
}
