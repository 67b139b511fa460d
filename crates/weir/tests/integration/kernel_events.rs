//! `--engine kernel` at events that only the kernel sees: tracepoints, time, counters, beside probes of processes in one script.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use testkit::{skip, uprobe, wait};

use crate::call_sessions::{self, At};

/// A command that opens a file once, and the number of that process is that of the command.
const OPENS: &str = "cat /etc/hostname";
/// One that opens another file too, which is not there.
const OPENS_TWO: &str = "sh -c 'cat /etc/hostname; cat /no/such/file 2>/dev/null; true'";
/// One that computes for a while.
const COMPUTES: &str = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'";

pub(crate) fn available() -> bool {
    let kernel = testkit::kernel::available().map_err(|reason| reason.to_string());
    let ready = kernel.and_then(|()| uprobe::mount_tracefs().map_err(|reason| reason.to_string()));
    ready.map_err(|reason| skip::skip("kernel-events", reason)).is_ok()
}

/// Whether programs can be at functions of the kernel.
pub(crate) fn has_kprobes() -> bool {
    if !available() {
        return false;
    }
    let has = Path::new("/sys/bus/event_source/devices/kprobe").exists();
    if !has {
        skip::skip("kernel-events-kprobes", "this kernel has no kprobes; other_kernel has one that does");
    }
    has
}

pub(crate) fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
}

/// What a script prints in the kernel on a command.
#[track_caller]
fn printed(script: &str, command: &str) -> String {
    let output = weir(&["-q", "--engine", "kernel", "-e", script, "-c", command]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{script}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn check(script: &str, command: &str, wanted: &[&str]) {
    let printed = printed(script, command);
    for line in wanted {
        assert!(printed.lines().any(|found| found == *line), "{script}: no line {line:?} in {printed:?}");
    }
}

/// A script that weir does not run says why.
#[track_caller]
fn refused(script: &str, wanted: &str) {
    let output = weir(&["--engine", "kernel", "-e", script, "-c", "true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(wanted) && output.status.code() != Some(0), "{script}: {said}");
}

/// The count that a script leaves in `@`.
#[track_caller]
fn count(script: &str, command: &str) -> u64 {
    let printed = printed(script, command);
    let line = printed.lines().find_map(|line| line.strip_prefix("@: ")?.parse().ok());
    line.unwrap_or_else(|| panic!("{script}: {printed:?}"))
}

#[test]
fn fields_of_tracepoints_are_read() {
    if !available() {
        return;
    }
    check(
        "tracepoint:syscalls:sys_enter_openat /pid == cpid/ { @[str(args.filename), probe] = count(); }",
        OPENS,
        &["@[/etc/hostname, tracepoint:syscalls:sys_enter_openat]: 1"],
    );
    // Words of 4 bytes, with a sign.
    check(
        "tracepoint:syscalls:sys_enter_close /pid == cpid/ { @ = args.__syscall_nr; } tracepoint:syscalls:sys_exit_close /pid == cpid/ { @ret = args.ret; }",
        OPENS,
        &["@: 3", "@ret: 0"],
    );
    // An array, by a number that is known.
    let closed = "tracepoint:raw_syscalls:sys_enter /pid == cpid && args.id == 3 && args.args[0] < 1024/ { @ = count(); }";
    assert!(count(closed, OPENS) >= 3);
    // Text elsewhere in the record, and in it.
    check(
        "tracepoint:sched:sched_process_exec /pid == cpid/ { @[str(args.filename), args.pid == pid] = count(); }",
        "sh -c 'exec /bin/cat /etc/hostname'",
        &["@[/bin/cat, 1]: 1"],
    );
    check(
        "tracepoint:sched:sched_process_exit /pid == cpid/ { @[args.comm] = count(); }",
        OPENS,
        &["@[cat]: 1"],
    );
}

#[test]
fn a_pattern_of_tracepoints_is_one_program_or_as_many_as_there_are_layouts() {
    if !available() {
        return;
    }
    check(
        "tracepoint:syscalls:sys_enter_open, tracepoint:syscalls:sys_enter_openat /pid == cpid/ { @[probe] = count(); @file[str(args.filename)] = count(); }",
        OPENS,
        &["@file[/etc/hostname]: 1"],
    );
}

#[test]
fn raw_tracepoints_have_their_arguments() {
    if !available() {
        return;
    }
    // openat.
    let opened = count("rawtracepoint:sys_enter /pid == cpid && arg1 == 257/ { @ = count(); }", OPENS);
    assert!(opened >= 1, "{opened}");
}

#[test]
fn time_and_counters_are_sampled() {
    if !available() {
        return;
    }
    let samples = count("profile:hz:999 /pid == cpid/ { @ = count(); }", COMPUTES);
    assert!(samples >= 5, "{samples}");
    let faults = count("software:page-faults:1 /pid == cpid/ { @ = count(); }", OPENS);
    assert!(faults >= 5, "{faults}");
}

#[test]
fn functions_have_registers() {
    if !has_kprobes() {
        return;
    }
    check(
        "kprobe:do_sys_openat2 /pid == cpid/ { @[str(arg1), probe, func] = count(); }",
        OPENS,
        &["@[/etc/hostname, kprobe:do_sys_openat2, do_sys_openat2]: 1"],
    );
    // What a call was given is kept until it returns; its result has the sign of an error.
    check(
        "kprobe:do_sys_openat2 /comm == \"cat\"/ { @name[tid] = arg1; } \
         kretprobe:do_sys_openat2 /@name[tid]/ { @[str(@name[tid]), (int32)retval < 0] = count(); delete(@name[tid]); }",
        OPENS_TWO,
        &["@[/etc/hostname, 0]: 1", "@[/no/such/file, 1]: 1"],
    );
    check(
        "kprobe:do_sys_openat2 /pid == cpid/ { @[str(ctx->si), ctx->si == arg1] = count(); }",
        OPENS,
        &["@[/etc/hostname, 1]: 1"],
    );
    // Behind its first instructions, of which there are some.
    assert!(count("kprobe:do_sys_openat2+0 /pid == cpid/ { @ = count(); }", OPENS) >= 1);
}

#[test]
fn a_pattern_of_functions_is_one_program() {
    if !has_kprobes() {
        return;
    }
    let each = printed("kprobe:vfs_* /pid == cpid/ { @[func, probe] = count(); }", OPENS);
    assert!(each.contains("@[vfs_read, kprobe:vfs_read]: "), "{each}");
    assert!(each.lines().filter(|line| line.starts_with("@[vfs_")).count() > 2, "{each}");
    // Of each, one for itself; what a pattern of one means has its name as well.
    let typed = printed(
        "fentry:vfs_rea?, fentry:vfs_r*d /pid == cpid/ { @[func, probe, args.count > 0] = count(); }",
        OPENS,
    );
    assert!(typed.contains("@[vfs_read, fentry:vfs_read, 1]: "), "{typed}");
    let both = "kprobe:vfs_read, kprobe:vfs_open, kretprobe:vfs_read, kretprobe:vfs_open /pid == cpid/ { @[probe] = count(); }";
    let opened = "kprobe:vfs_open, kretprobe:vfs_open /pid == cpid/ { @[probe] = count(); }";
    for (script, function) in [(both, "vfs_read"), (opened, "vfs_open")] {
        let found = printed(script, OPENS);
        let of = |probe: &str| {
            let line = format!("@[{probe}:{function}]: ");
            found.lines().find_map(|one| one.strip_prefix(&line)?.parse::<u64>().ok())
        };
        assert!(of("kprobe").is_some() && of("kprobe") == of("kretprobe"), "{found}");
    }
}

/// A clause at the entry and one at the return of a function are one program at both ends, where the kernel has such (Linux 6.10), and count the
/// same where it has not.
#[test]
fn functions_keep_a_word_from_their_entry_to_their_return() {
    if !has_kprobes() {
        return;
    }
    // A time stamp; the return knows its place; some entries keep nothing, so that their returns do nothing.
    let script = "kprobe:do_sys_openat2 /comm == \"cat\" && str(arg1) != \"/no/such/file\"/ { @start[tid] = nsecs; } \
         kretprobe:do_sys_openat2 /@start[tid]/ { @[func, probe] = count(); @took = max(nsecs - @start[tid]); delete(@start[tid]); } \
         tracepoint:syscalls:sys_enter_openat /comm == \"cat\" && str(args.filename) != \"/no/such/file\"/ { @all = count(); }";
    let both = printed(script, OPENS_TWO);
    let value = |map: &str| {
        let line = both.lines().find_map(|line| line.strip_prefix(&format!("{map}: "))?.parse::<u64>().ok());
        line.unwrap_or_else(|| panic!("{map}: {both}"))
    };
    let returns = value("@[do_sys_openat2, kretprobe:do_sys_openat2]");
    assert!(returns >= 1 && returns == value("@all") && value("@took") > 0, "{both}");
    let ir = weir(&["--engine", "kernel", "--emit", "ir", "-e", script]);
    let ir = String::from_utf8(ir.stdout).unwrap();
    let has_calls = weir_kernel::keeps_calls_of("do_sys_openat2");
    assert_eq!(ir.contains("site call \"do_sys_openat2\""), has_calls, "{ir}");
    assert_eq!(ir.contains("session_cookie"), has_calls, "{ir}");
    // The same as in processes.
    let at = At { entry: "kprobe:do_sys_openat2", exit: "kretprobe:do_sys_openat2", path: "arg1" };
    assert_eq!(call_sessions::check("kernel", &at), has_calls);
    // What a link of many does not take has two programs.
    let inside = "kprobe:do_sys_openat2+0 /pid == cpid/ { @s[tid] = 1; } kretprobe:do_sys_openat2 /@s[tid]/ { @ = count(); delete(@s[tid]); }";
    assert!(count(inside, OPENS) >= 1);
}

#[test]
fn functions_with_types_have_arguments_by_name_and_results() {
    if !has_kprobes() {
        return;
    }
    check(
        "fentry:do_sys_openat2 /pid == cpid/ { @[str(args.filename), args.how->flags & 3, args.dfd, func] = count(); }",
        OPENS,
        &["@[/etc/hostname, 0, -100, do_sys_openat2]: 1"],
    );
    check(
        "fexit:do_sys_openat2 /comm == \"cat\"/ { @[str(args.filename), retval < 0] = count(); }",
        OPENS_TWO,
        &["@[/etc/hostname, 0]: 1", "@[/no/such/file, 1]: 1"],
    );
    // An address is one also in calculations; a first argument, and a result that is an address.
    check(
        "fentry:vfs_read /pid == cpid/ { @[str(args.file->f_path.dentry->d_name.name), ((uint64)args.file >> 56) == 0xff, args.count > 0] = count(); }",
        OPENS,
        &["@[hostname, 1, 1]: 2"],
    );
}

#[test]
fn a_function_that_is_not_there_is_refused_by_name() {
    if !has_kprobes() {
        return;
    }
    refused("kprobe:vfs_raed { @ = count(); }", "vfs_raed");
    refused("fentry:vfs_raed { @ = count(); }", "name no function `vfs_raed`");
    refused("kprobe:no_such_* { @ = count(); }", "has no function no_such_*");
    refused("fentry:vfs_read { @ = args.fille; }", "did you mean `args.file`?");
    refused("fentry:vfs_read { @ = arg0; }", "its fields have names");
}

#[test]
fn memory_of_both_sides_is_read() {
    if !available() {
        return;
    }
    let printed = printed(
        "tracepoint:syscalls:sys_enter_openat /pid == cpid && str(args.filename) == \"/etc/hostname\"/ \
         { printf(\"%d %s %d\\n\", curtask->tgid == pid, curtask->comm, curtask->real_parent->tgid != pid); }",
        OPENS,
    );
    assert!(printed.contains("1 cat 1\n"), "{printed}");
}

#[test]
fn stacks_and_addresses_of_the_kernel_have_names() {
    if !available() {
        return;
    }
    // At tracepoints of system calls older kernels (6.1) have the process's registers, and no stack of their own.
    let script = "tracepoint:sched:sched_process_exit /pid == cpid/ { @[kstack(4)] = count(); } \
        tracepoint:syscalls:sys_enter_openat /pid == cpid/ { @user[ustack(2)] = count(); } \
        software:page-faults:1 /pid == cpid/ { print(kstack(perf, 1)); @ip[ksym(curtask->sched_class)] = count(); }";
    let printed = printed(script, OPENS);
    assert!(printed.contains("do_exit+") && printed.contains("([kernel.kallsyms])"), "{printed}");
    assert!(!printed.contains("are lost"), "{printed}");
}

#[test]
fn probes_of_the_kernel_and_of_processes_share_maps() {
    if !available() {
        return;
    }
    check(
        "uprobe:libc:setlocale /pid == cpid/ { @seen[tid] = 1; } \
         tracepoint:syscalls:sys_enter_openat /@seen[tid]/ { @after[str(args.filename)] = count(); } \
         tracepoint:sched:sched_process_exit /@seen[tid]/ { delete(@seen[tid]); }",
        OPENS,
        &["@after[/etc/hostname]: 1"],
    );
}

#[test]
fn without_a_process_a_run_ends_when_the_script_says_so() {
    if !available() {
        return;
    }
    let script = "tracepoint:sched:sched_switch { @ = count(); } interval:ms:300 { exit(); }";
    let output = weir(&["--engine", "kernel", "-e", script]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("Attaching 2 probes...\n") && said.contains("@: "), "{said}");
}

/// What weir prints of a script, which ends by itself.
#[track_caller]
fn printed_alone(script: &str) -> String {
    let output = weir(&["-q", "-e", script]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{script}: {said}");
    assert_eq!(said, "", "{script}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn what_the_kernel_lists_is_read_to_its_end() {
    if !available() {
        return;
    }
    let own = std::process::id();
    let tasks = printed_alone(&format!(
        "BEGIN {{ printf(\"begin\\n\"); }} iter:task {{ @all = count(); if (ctx->task->pid == {own}) {{ printf(\"%s %d\\n\", ctx->task->comm, ctx->task->tgid); }} }} END {{ printf(\"end\\n\"); }}"
    ));
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert!(tasks.starts_with(&format!("begin\n{} {own}\nend\n", comm.trim_end())), "{tasks}");
    // Whatever is printed, the ring has room for it: one line for each.
    let mapped = printed_alone(
        "iter:task_vma { @ = count(); printf(\"%-200s %lx\\n\", ctx->task->comm, ctx->vma->vm_start); }",
    );
    let lines = mapped.lines().filter(|line| line.len() > 200).count();
    assert!(lines > 20 && mapped.ends_with(&format!("\n@: {lines}")), "{lines} of {mapped}");
    // A file that this process has open.
    let path = testkit::paths::fresh("kernel-events", "open");
    let file = std::fs::File::create(&path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    let found = printed_alone(&format!(
        "iter:task_file /ctx->task->pid == {own} && ctx->fd == {number}/ {{ printf(\"%s\\n\", str(ctx->file->f_path.dentry->d_name.name)); }}"
    ));
    assert_eq!(found, name);
    let refused = weir(&["-e", "iter:no_such { @ = count(); }"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("iterator of no_such") && refused.status.code() != Some(0), "{said}");
}

#[test]
fn memory_that_is_watched_is_seen_to_change_in_every_thread() {
    if !available() {
        return;
    }
    static WATCHED: AtomicU64 = AtomicU64::new(0);
    let (address, own) = (WATCHED.as_ptr() as usize, std::process::id());
    let script = format!(
        "watchpoint:{address:#x}:8:w {{ @seen++; @[tid == {own}] = count(); if (@seen == 50) {{ exit(); }} }}"
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["-q", "-e", &script, "-p", &own.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Threads that come later have it too, each once.
    let ended = wait::until(Duration::from_secs(60), || {
        std::thread::spawn(|| WATCHED.fetch_add(1, Ordering::Relaxed)).join().unwrap();
        child.try_wait().unwrap().is_some()
    });
    if !ended {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Until the probe is out there may be some more.
    let count = |map: &str| {
        printed.lines().find_map(|line| line.strip_prefix(map)?.parse::<u64>().ok()).unwrap_or_default()
    };
    let seen = count("@seen: ");
    assert!(ended && seen >= 50 && count("@[0]: ") == seen && !printed.contains("@[1]"), "{printed}{said}");
    let fifth: String = (0..5).map(|n| format!("watchpoint:{:#x}:8:w {{ @ = 1; }} ", 4096 + 8 * n)).collect();
    refused(&fifth, "the processor watches four places at most");
}

#[test]
fn symbols_of_the_kernel_have_addresses() {
    if !available() {
        return;
    }
    let listed = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let line = listed.lines().find(|line| line.ends_with(" do_exit")).unwrap();
    let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let printed = printed_alone("BEGIN { printf(\"%lu\\n\", kaddr(\"do_exit\")); exit(); }");
    assert_eq!(printed, address.to_string());
    // Not all kernels list what is no function.
    if listed.lines().any(|line| line.ends_with(" linux_banner")) {
        let printed = printed_alone("BEGIN { printf(\"%s\\n\", str(kaddr(\"linux_banner\"))); exit(); }");
        assert!(printed.starts_with("Linux version "), "{printed}");
    }
    refused("BEGIN { print(kaddr(\"do_exitt\")); }", "did you mean do_exit");
}

#[test]
fn what_the_kernel_does_not_have_is_refused_by_name() {
    if !available() {
        return;
    }
    refused("tracepoint:sched:sched_swich { @ = count(); }", "did you mean sched_switch");
    refused("tracepoint:sched:sched_switch { @ = args.prev_pidd; }", "did you mean `args.prev_pid`?");
    refused("rawtracepoint:no_such_event { @ = count(); }", "the raw tracepoint no_such_event");
    refused("tracepoint:sched:sched_switch { @ = arg0; }", "has no `arg0`");
    if !Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        refused("kprobe:vfs_read { @ = count(); }", "this kernel has no kprobes");
    }
}

#[test]
fn a_script_with_events_of_the_kernel_runs_in_it() {
    let refused = weir(&["--engine", "user", "-e", "tracepoint:sched:sched_switch { @ = count(); }"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("without `--engine user`"), "{said}");
    if !available() {
        return;
    }
    let script = "tracepoint:syscalls:sys_enter_openat /pid == cpid/ { @[str(args.filename)] = count(); }";
    let output = weir(&["-e", script, "-c", OPENS]);
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("@[/etc/hostname]: 1\n") && said.is_empty(), "{printed}{said}");
    // Probes of processes run there too where they need the same map, which is told.
    let script = "uprobe:libc:setlocale /pid == cpid/ { @[1] = comm; } software:page-faults:1 { @faults[@[1]] = count(); }";
    let output = weir(&["-e", script, "-c", OPENS]);
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        printed.contains("@[1]: cat\n") && said.contains("each hit of a function traps"),
        "{printed}{said}"
    );
    // What is recorded is of processes.
    let folder = testkit::paths::fresh("kernel-events", "trace");
    let recorded = weir(&[
        "record",
        "-o",
        folder.to_str().unwrap(),
        "-e",
        "tracepoint:sched:sched_switch",
        "--",
        "true",
    ]);
    let said = String::from_utf8_lossy(&recorded.stderr);
    assert!(
        said.contains("it is not a provider and an event") && recorded.status.code() != Some(0),
        "{said}"
    );
}

#[test]
fn what_a_commands_loader_does_is_seen() {
    if !available() {
        return;
    }
    // Nothing else maps code.
    let mapped = count(
        "tracepoint:syscalls:sys_enter_mmap /pid == cpid && (args.prot & 4) != 0/ { @ = count(); }",
        OPENS,
    );
    assert!(mapped >= 1, "{mapped}");
}

/// Maps that processes and the kernel share: what programs do to them is done by functions of weir's, which each kernel's verifier has to take.
#[test]
fn functions_on_shared_maps_do_what_the_kernels_own_do() {
    if !available() {
        return;
    }
    assert!(weir_kernel::shares_maps());
    for words in [1, 2, 4, 7, 32] {
        let (control, buckets) = (0, 4096);
        let (nodes, node_stride) = (buckets + 8 * 64, (24 + 8 * words as u64).next_multiple_of(16));
        let bytes = nodes + 96 * node_stride;
        let table = weir_ebpf::map::Table {
            map: 0,
            key_bytes: 8 * words,
            control,
            buckets,
            bucket_mask: 63,
            nodes,
            node_count: 96,
            max_entries: 32,
            node_stride: node_stride as u32,
            seed: 0x5eed,
        };
        let key: String = (1..=words).map(|word| format!("*(u64 *)(r10 - {}) = r1\n", 8 * word)).collect();
        let (key_at, value_at) = (8 * words, 8 * words + 8);
        let call = |helper: &str| {
            format!(
                "r4 = 0\nr3 = r10\nr3 += -{value_at}\nr2 = r10\nr2 += -{key_at}\nr1 = map[@] ll\ncall {helper}\n"
            )
        };
        // Twice set, looked up, deleted twice, looked up: each answer adds to the result.
        let text = format!(
            "map @ hash key {} value 8 entries 32\nprogram \"p\" memory 64\n\
             r1 = 5\n{key}r1 = 7\n*(u64 *)(r10 - {value_at}) = r1\n{update}r6 = r0\n\
             r1 = 9\n*(u64 *)(r10 - {value_at}) = r1\n{update}r6 += r0\n\
             {lookup}if r0 == 0 goto absent\nr0 = *(u64 *)(r0 + 0)\nr6 += r0\n\
             {delete}r6 += r0\n{delete}if w0 != -2 goto absent\nr6 += 100\n\
             {lookup}if r0 != 0 goto absent\nr6 += 1000\nabsent:\nr0 = r6\nexit\n",
            8 * words,
            update = call("map_update_elem"),
            lookup = call("map_lookup_elem"),
            delete = call("map_delete_elem"),
        );
        let object = weir_ebpf::asm::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let array = weir_ebpf::MapSpec {
            flags: weir_ebpf::map::flag::MMAPABLE,
            ..weir_ebpf::MapSpec::new(".in_kernel", weir_ebpf::MapKind::Array, 4, bytes as u32, 1)
        };
        for shared in [false, true] {
            let mut maps = weir_kernel::Maps::create(&[object.maps[0].clone(), array.clone()]).unwrap();
            if shared {
                let (tables, scalars) = (vec![table.clone()], Vec::new());
                maps.use_tables(weir_kernel::Tables { array: 1, bytes, tables, scalars });
            }
            let program = weir_kernel::load(&object.programs[0], &maps);
            let program = program.unwrap_or_else(|error| panic!("{words} words: {error}"));
            let input = weir_kernel::Input { bytes: &[0; 64], context: &[] };
            assert_eq!(program.run(input, 1).unwrap().r0, 1109, "{words} words, shared: {shared}");
        }
    }
}

#[test]
fn functions_that_are_not_there_are_left_out_where_the_script_says_so() {
    if !has_kprobes() {
        return;
    }
    let script = |missing: &str| {
        format!(
            "config = {{ missing_probes = \"{missing}\" }} kprobe:no_such_function, kprobe:vfs_open {{ @ = count(); }}"
        )
    };
    let output = weir(&["-q", "-e", &script("error"), "-c", OPENS]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no_such_function") && output.status.code() != Some(0), "{said}");
    for missing in ["warn", "ignore"] {
        let output = weir(&["-e", &script(missing), "-c", OPENS]);
        let (printed, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(printed.contains("@: ") && !printed.contains("@: 0\n"), "{printed}{said}");
        assert_eq!(said.contains("no_such_function"), missing == "warn", "{said}");
    }
}
