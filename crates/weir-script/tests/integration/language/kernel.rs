//! Scripts of the kernel: checked whole where that is asked for, refused by name where they are to run.

use weir_event::ctype::{CType, CTypes, Elsewhere, Member, Record, TypeId};
use weir_ir::sides::{Conflict, Side, Sides};
use weir_ir::{FoundFunction, FoundTracepoint, KERNEL, World, WorldError};
use weir_script::Options;

use crate::language::source;
use crate::language::world::TableWorld;

/// A kernel of one record, one function and two tracepoints.
struct Kernel;

fn int(types: &mut CTypes, bytes: u8) -> TypeId {
    types.add(CType::Int { bytes, signed: true, is_char: false })
}

fn record(types: &mut CTypes, name: &str, members: Vec<(&str, TypeId)>) -> TypeId {
    let mut offset = 0;
    let mut made = Vec::new();
    for (name, ty) in members {
        made.push(Member { name: name.to_string(), ty, offset, bits: None });
        offset += types.bytes(ty).unwrap_or(8).next_multiple_of(8);
    }
    types.add(CType::Record(Record { name: name.to_string(), bytes: offset, members: made }))
}

fn task(types: &mut CTypes) -> TypeId {
    let place = Elsewhere { binary: KERNEL.to_string(), offset: 1 };
    types.named("struct task_struct", Some(32), Some(place))
}

impl World for Kernel {
    fn functions(&self, binary: &str, pattern: &str) -> Result<Vec<FoundFunction>, WorldError> {
        TableWorld.functions(binary, pattern)
    }

    fn c_type(&self, binary: &str, name: &str, types: &mut CTypes) -> Option<TypeId> {
        let record = |types: &mut CTypes| {
            let (meta, task) = (int(types, 8), task(types));
            let pointer = types.add(CType::Pointer(task));
            record(types, name, vec![("meta", meta), ("task", pointer)])
        };
        match (binary, name) {
            (KERNEL, "struct task_struct") => Some(task(types)),
            (KERNEL, "struct bpf_iter__task") => Some(record(types)),
            _ => None,
        }
    }

    fn members(&self, place: &Elsewhere, types: &mut CTypes) -> Option<CType> {
        assert_eq!((place.binary.as_str(), place.offset), (KERNEL, 1));
        let (pid, task) = (int(types, 4), task(types));
        let parent = types.add(CType::Pointer(task));
        let char = types.add(CType::Int { bytes: 1, signed: true, is_char: true });
        let comm = types.add(CType::Array { element: char, count: 16 });
        let id = record(types, "struct task_struct", vec![("pid", pid), ("parent", parent), ("comm", comm)]);
        Some(types.get(id).clone())
    }

    fn tracepoints(&self, subsystem: &str, name: &str) -> Result<Vec<FoundTracepoint>, WorldError> {
        let all = ["sched_switch", "sched_wakeup"];
        let is_it = |known: &&str| name == "*" || *known == name;
        let found: Vec<FoundTracepoint> = all
            .into_iter()
            .filter(|known| subsystem == "sched" && is_it(known))
            .map(|name| FoundTracepoint { subsystem: subsystem.to_string(), name: name.to_string() })
            .collect();
        match found.is_empty() {
            true => Err(WorldError {
                message: format!("the kernel has no tracepoint {subsystem}:{name}"),
                hint: None,
            }),
            false => Ok(found),
        }
    }

    fn tracepoint_fields(&self, of: &FoundTracepoint, types: &mut CTypes) -> Result<TypeId, WorldError> {
        let (pid, wide) = (int(types, 4), int(types, 8));
        let own = if of.name == "sched_switch" { ("prev_state", wide) } else { ("target_cpu", pid) };
        Ok(record(types, &format!("args of {}", of.name), vec![("pid", pid), own]))
    }

    fn kernel_functions(
        &self,
        module: Option<&str>,
        pattern: &str,
        _: bool,
    ) -> Result<Vec<String>, WorldError> {
        let found: &[&str] = match (module, pattern) {
            (None, "vfs_*") => &["vfs_read", "vfs_write"],
            (None, "w*") => &["wake_up"],
            _ => &[],
        };
        match found.is_empty() {
            true => Err(WorldError { message: format!("the kernel has no function {pattern}"), hint: None }),
            false => Ok(found.iter().map(|name| name.to_string()).collect()),
        }
    }

    fn kernel_function(&self, name: &str, types: &mut CTypes) -> Result<(TypeId, TypeId), WorldError> {
        if name != "wake_up" {
            return Err(WorldError {
                message: format!("the kernel's types (BTF) name no function `{name}`"),
                hint: None,
            });
        }
        let task = task(types);
        let pointer = types.add(CType::Pointer(task));
        Ok((record(types, "args of wake_up", vec![("p", pointer)]), int(types, 4)))
    }

    fn kernel_symbol(&self, name: &str) -> Result<u64, WorldError> {
        let known = (name == "seconds").then_some(0xffff_0000);
        known.ok_or_else(|| WorldError { message: format!("the kernel has no symbol `{name}`"), hint: None })
    }

    fn kernel_constant(&self, name: &str) -> Option<i64> {
        (name == "TASK_DEAD").then_some(128)
    }
}

/// What checking the whole script says, or that it is sound.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let options = Options { kernel: weir_script::Kernel::Checked, ..Options::default() };
    let faults = match weir_script::compile(&source(text), &options, &Kernel) {
        Ok((_, warnings)) => warnings,
        Err(faults) => faults,
    };
    let shown: Vec<String> = faults
        .iter()
        .map(|fault| {
            format!("`{}`: {}", &text[fault.span.start as usize..fault.span.end as usize], fault.message)
        })
        .collect();
    assert_eq!(shown, expected, "{text}");
}

#[test]
fn every_kind_of_probe_is_read() {
    for probe in [
        "kprobe:vfs_read",
        "k:vfs_read",
        "kprobe:vfs_read+4",
        "kprobe:ext4:ext4_sync_file",
        "kprobe:vfs_*",
        "kretprobe:vfs_read",
        "kr:x",
        "fentry:wake_up",
        "f:wake_up",
        "kfunc:wake_up",
        "fexit:wake_up",
        "kretfunc:wake_up",
        "fentry:w*",
        "fentry:bpf:prog",
        "tracepoint:sched:sched_switch",
        "t:sched:*",
        "TRACEPOINT:sched:sched_wakeup",
        "rawtracepoint:sched_switch",
        "rt:sched_switch",
        "profile:hz:99",
        "p:ms:10",
        "profile:1s",
        "software:page-faults:100",
        "s:faults",
        "hardware:cache-misses:1000000",
        "h:cycles",
        "watchpoint:0x1000:8:w",
        "w:0x1000:4:rw",
        "iter:task",
        "it:task_file",
    ] {
        check(&format!("{probe} {{ @ = count(); }}"), &[]);
        check(&format!("{probe} /pid == 1/ {{ @[comm, cpu] = count(); }}"), &[]);
    }
}

#[test]
fn a_probe_that_is_written_wrongly_says_how_it_is_written() {
    check("kprobe { }", &["`kprobe`: `kprobe` is written in another way"]);
    check("kretprobe:f+4 { }", &["`f+4`: a place inside of a function does not return"]);
    check("tracepoint:sched { }", &["`tracepoint:sched`: `tracepoint` is written in another way"]);
    check("tracepoint:sched:nope { }", &["`tracepoint:sched:nope`: the kernel has no tracepoint sched:nope"]);
    check("profile:99 { }", &["`99`: `profile:99` has no unit"]);
    check("profile:h:99 { }", &["`h`: `h` is no unit of time"]);
    check("software:page_faults { }", &["`page_faults`: `software` has no event `page_faults`"]);
    check("hardware:cycles:many { }", &["`many`: `many` is no number"]);
    check("watchpoint:0x10:3:w { }", &["`3`: 3 bytes cannot be watched"]);
    check("watchpoint:0x14:8:w { }", &["`0x14`: 8 bytes at 0x14 cannot be watched"]);
    check("watchpoint:0x10:8:rx { }", &["`rx`: `rx` is no mode of a watchpoint"]);
}

#[test]
fn fields_and_arguments_have_the_types_that_the_kernel_says() {
    check("tracepoint:sched:sched_switch /args.prev_state == TASK_DEAD/ { @[args->pid] = count(); }", &[]);
    check("fentry:wake_up { printf(\"%s %d\\n\", args.p->parent.comm, args.p->pid); print(args.p); }", &[]);
    check("fexit:wake_up { @[args.p->comm] = sum(retval); }", &[]);
    check("kprobe:f { $t = (struct task_struct *)arg0; @[$t->parent->comm, func] = count(); }", &[]);
    check("kretprobe:f { @ = hist(retval); }", &[]);
    check("profile:hz:99 { @[kstack, ustack(perf, 5), comm] = count(); }", &[]);
    check("iter:task { print(curtask.comm); }", &[]);
    check("interval:s:1 { $a = kaddr(\"avenrun\"); print(*($a + 8)); }", &[]);
    check("kprobe:f { @name[tid] = func; @symbol[tid] = ksym(arg0); }", &[]);
    check("kprobe:no_* { @ = count(); }", &["`kprobe:no_*`: the kernel has no function no_*"]);
    check(
        "tracepoint:sched:* { @ = args.prev_state; }",
        &["`args.prev_state`: `tracepoint:sched:sched_wakeup` has no field `prev_state`"],
    );
    check("kprobe:vfs_*, kprobe:no_* { @ = count(); }", &["`kprobe:no_*`: the kernel has no function no_*"]);
    assert!(in_kernel("kprobe:vfs_*, kprobe:no_* { @ = count(); }").contains("\"vfs_write\""));
    check("tracepoint:sched:* { @ = args.pid; }", &[]);
    check(
        "tracepoint:sched:sched_switch { @ = arg0; }",
        &["`arg0`: `tracepoint:sched:sched_switch` has no `arg0`"],
    );
    check("kprobe:f { @ = args.x; }", &["`args.x`: the arguments of `kprobe:f` have no names"]);
    check("profile:hz:99 { @ = args.x; }", &["`args.x`: `profile:hz:99` has no arguments"]);
    check(
        "kretprobe:f { @ = arg0; }",
        &["`arg0`: `arg0` is of a call's beginning, but `kretprobe:f` runs at its end"],
    );
    check(
        "kprobe:f { @ = retval; }",
        &["`retval`: `retval` is known when a call has returned, but `kprobe:f` runs before"],
    );
    check(
        "fentry:nope { @ = args.x; }",
        &["`fentry:nope`: the kernel's types (BTF) name no function `nope`"],
    );
    check("fentry:wake_up { @ = args.p.pidd; }", &["`pidd`: `struct task_struct` has no member `pidd`"]);
    check("kprobe:f { @ = curtask.pidd; }", &["`pidd`: `struct task_struct` has no member `pidd`"]);
    check("kprobe:f { @ = TASK_DEAF; }", &["`TASK_DEAF`: unknown name `TASK_DEAF`"]);
    check("kprobe:f { @[kstack(perff)] = count(); }", &["`perff`: there is no mode of stacks `perff`"]);
    check("kprobe:f { @[ksym()] = count(); }", &["`ksym`: `ksym` takes 1 argument, but none is given"]);
}

#[test]
fn clauses_of_processes_are_compiled_beside_those_of_the_kernel() {
    let text = "BEGIN { @a = 1; } kprobe:f { @a = 2; @b = kstack; } uprobe:libc:malloc { @c = count(); } interval:s:1 { print(kaddr(\"x\")); }";
    let options = Options { kernel: weir_script::Kernel::Checked, ..Options::default() };
    let (module, _) = weir_script::compile(&source(text), &options, &Kernel).unwrap();
    let names: Vec<&str> = module.functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(names, ["BEGIN", "uprobe:libc:malloc"]);
    weir_ir::check::check(&module).unwrap();
}

#[test]
fn what_is_of_the_kernel_is_refused_by_name_where_it_is_to_run() {
    let refused = |text: &str| -> Vec<String> {
        let faults = weir_script::compile(&source(text), &Options::default(), &Kernel).expect_err(text);
        faults.into_iter().map(|fault| fault.message).collect()
    };
    let wanted = |what: &str| format!("not supported by weir yet: {what}");
    assert_eq!(refused("k:f { @ = 1; }"), [wanted("`kprobe` probes")]);
    assert_eq!(
        refused("t:sched:sched_switch { @[kstack] = count(); }"),
        [wanted("`tracepoint` probes"), wanted("the builtin `kstack`")]
    );
    assert_eq!(refused("uprobe:libc:malloc { print(curtask); }"), [wanted("the builtin `curtask`")]);
    assert_eq!(refused("BEGIN { print(kaddr(\"x\")); }"), [wanted("the function `kaddr`")]);
}

/// The module of a script that runs in the kernel.
#[track_caller]
fn in_kernel(text: &str) -> String {
    let options = Options { kernel: weir_script::Kernel::Runs, ..Options::default() };
    let (module, _) =
        weir_script::compile(&source(text), &options, &Kernel).unwrap_or_else(|faults| panic!("{faults:?}"));
    weir_ir::check::check(&module).unwrap();
    let printed = weir_ir::text::print(&module);
    assert_eq!(weir_ir::text::parse(&printed).as_ref(), Ok(&module));
    printed
}

#[test]
fn probes_of_the_kernel_run_there() {
    for (probe, site) in [
        ("kprobe:vfs_read", "function \"vfs_read\" 0 entry"),
        ("kprobe:vfs_read+4", "function \"vfs_read\" 4 entry"),
        ("kprobe:ext4:ext4_sync_file", "function \"ext4:ext4_sync_file\" 0 entry"),
        ("kretprobe:vfs_read", "function \"vfs_read\" 0 return"),
        ("tracepoint:sched:sched_switch", "tracepoint \"sched\" \"sched_switch\""),
        ("rawtracepoint:sched_switch", "raw_tracepoint \"sched_switch\""),
        ("profile:hz:100", "clock 10000000"),
        ("software:faults", "software 2 100"),
        ("software:cs:7", "software 3 7"),
        ("hardware:cache-misses:1000", "hardware 3 1000"),
        ("watchpoint:0x1000:8:w", "watchpoint 4096 8 2"),
        ("w:4096:4:rw", "watchpoint 4096 4 3"),
        ("iter:task", "iterator \"task\""),
    ] {
        let module = in_kernel(&format!("{probe} /pid == 1/ {{ @[comm, probe, cpu] = count(); }}"));
        assert!(module.contains(" kernel span") && module.contains(&format!("site {site} 0\n")), "{module}");
    }
}

#[test]
fn what_the_kernel_gives_is_read_where_it_lies() {
    let module = in_kernel("tracepoint:sched:sched_switch { @[args.prev_state] = count(); @p = args.pid; }");
    assert!(module.contains("= field "), "{module}");
    let module = in_kernel("kprobe:f { @[kstack, ksym(arg0)] = count(); @s[kstack(perf, 5)] = count(); }");
    assert!(module.contains("= kernel_stack perf 5") && module.contains("= kernel_symbol v"), "{module}");
    let module = in_kernel("iter:task { @[ctx->task->comm] = count(); @c = ctx; }");
    assert!(module.contains("= field 8 8") && module.contains("= context"), "{module}");
    let module = in_kernel("interval:s:1 { $a = kaddr(\"seconds\"); print(*($a + 8)); print(kptr($a)); }");
    assert!(module.contains("int 4294901760"), "{module}");
    let module = in_kernel("rawtracepoint:x { @ = arg2; }");
    assert!(module.contains("= field 16 8"), "{module}");
    // A result lies behind the arguments.
    let module = in_kernel("fexit:wake_up { @[args.p] = count(); @r = sum(retval); }");
    assert!(module.contains("= field 0 8") && module.contains("= field 8 4"), "{module}");
    let module = in_kernel(
        "kprobe:f { @ = curtask.pid; @name[curtask->comm] = count(); if (arg0 == TASK_DEAD) { @d = 1; } }",
    );
    assert!(module.contains("= task") && module.contains("= arg 0"), "{module}");
}

#[test]
fn one_function_is_for_all_tracepoints_that_have_the_fields_in_the_same_place() {
    let functions = |text: &str| in_kernel(text).matches("\nfn ").count();
    assert_eq!(functions("tracepoint:sched:* { @[probe] = count(); }"), 1);
    assert_eq!(functions("tracepoint:sched:* { @ = args.pid; }"), 1);
    assert_eq!(functions("tracepoint:sched:sched_switch, kprobe:f { @ = count(); }"), 2);
    assert_eq!(functions("kprobe:f, kretprobe:f { @ = count(); }"), 2);
    assert_eq!(functions("software:cs:1, hardware:cycles:1 { @[probetype] = count(); }"), 2);
    assert_eq!(functions("kprobe:vfs_* { @[func] = count(); }"), 1);
    assert_eq!(functions("fentry:wake_up, fexit:wake_up { @ = count(); }"), 2);
    assert_eq!(functions("rawtracepoint:a, rawtracepoint:b { @[probe] = count(); }"), 2);
}

#[test]
fn what_weir_only_checks_is_refused_in_the_kernel_too() {
    let refused = |text: &str| -> Vec<String> {
        let options = Options { kernel: weir_script::Kernel::Runs, ..Options::default() };
        let faults = weir_script::compile(&source(text), &options, &Kernel).expect_err(text);
        faults.into_iter().map(|fault| fault.message).collect()
    };
    let not_yet = |what: &str| vec![format!("not supported by weir yet: {what}")];
    assert_eq!(refused("fentry:bpf:prog { @ = 1; }"), not_yet("`fentry` probes"));
    assert_eq!(
        refused("fentry:ext4:ext4_sync_file { @ = 1; }")[0],
        "the kernel's types (BTF) name no function `ext4:ext4_sync_file`"
    );
    assert_eq!(refused("iter:task:list { @ = 1; }"), not_yet("`iter` probes"));
    assert_eq!(refused("kprobe:f { @ = kaddr(\"x\"); }"), ["the kernel has no symbol `x`"]);
    assert_eq!(refused("kprobe:f { $n = 1; @ = kaddr($n); }"), ["`kaddr` takes a string literal"]);
    assert_eq!(refused("uprobe:libc:malloc { @ = kaddr(\"seconds\"); }"), not_yet("the function `kaddr`"));
    assert_eq!(refused("uprobe:libc:malloc { @[kstack] = count(); }"), not_yet("the builtin `kstack`"));
    assert_eq!(refused("profile:hz:9 { @[func] = count(); }"), not_yet("`func` at a probe of the kernel's"));
    assert_eq!(refused("uprobe:libc:malloc { @ = curtask; }"), not_yet("the builtin `curtask`"));
    assert_eq!(
        refused("tracepoint:sched:sched_switch { @ = reg(\"ip\"); }"),
        ["`tracepoint:sched:sched_switch` has no registers"]
    );
}

#[test]
fn a_record_of_the_kernel_is_named_where_a_binary_is_probed() {
    let warning = "`struct task_struct *`: `struct task_struct` is the kernel's: the debug information of /opt/app has none";
    check(
        "uprobe:./app:main { print(((struct task_struct *)arg0)->pid); print(((struct task_struct *)arg1)->pid); }",
        &[warning],
    );
    // Where nothing but its address matters, and where the kernel's is meant.
    check("uprobe:./app:main { $t = (struct task_struct *)arg0; print($t); }", &[]);
    check("kprobe:f { print(((struct task_struct *)arg0)->pid); }", &[]);
    check(
        "struct task_struct { int pid; }; uprobe:./app:main { print(((struct task_struct *)arg0)->pid); }",
        &[],
    );
}

/// Where the clauses of a script run and its maps are (`k` and `p`, `b` for both, `s` for one map of both), by name; or the map that both sides need.
#[track_caller]
fn sides(text: &str, wanted: Result<(&str, &str), &str>) {
    sides_with(&[], text, wanted);
}

/// The same where places of these clauses cannot be patched.
#[track_caller]
fn sides_with(stands_in: &[(usize, Side)], text: &str, wanted: Result<(&str, &str), &str>) {
    let options = Options { kernel: weir_script::Kernel::Runs, ..Options::default() };
    let (module, _) =
        weir_script::compile(&source(text), &options, &Kernel).unwrap_or_else(|faults| panic!("{faults:?}"));
    let stands_in = stands_in.iter().copied().collect();
    let found = Sides::of(&module, &stands_in, &|| true).map(|Sides { in_kernel, in_processes, maps }| {
        let functions = in_kernel.iter().zip(&in_processes).map(|is_in| match is_in {
            (true, true) => 'b',
            (true, false) => 'k',
            (false, true) => 'p',
            (false, false) => '-',
        });
        let functions: String = functions.collect();
        let letter = |side: &Side| match side {
            Side::Processes => 'p',
            Side::Kernel => 'k',
            Side::Both => 'b',
            Side::Shared => 's',
        };
        (functions, maps.iter().map(letter).collect::<String>())
    });
    let wanted = wanted.map(|(functions, maps)| (functions.to_string(), maps.to_string()));
    assert_eq!(found.map_err(|Conflict { map }| map), wanted.map_err(str::to_string), "{text}");
}

#[test]
fn a_map_is_where_the_clauses_are_that_name_it() {
    sides("kprobe:f { @a = 1; } uprobe:libc:malloc { @b = 1; }", Ok(("kp", "kp")));
    sides("kprobe:f { @a = 1; } uprobe:libc:malloc { print(@a); }", Ok(("kp", "k")));
    sides("kprobe:f { @a = 1; } uprobe:libc:malloc { @b = @a; }", Ok(("kp", "sp")));
    sides("kprobe:f /@b/ { @a = 1; } uprobe:libc:malloc { @b = 1; }", Ok(("kp", "sk")));
    sides("kprobe:f { @a = count(); } uprobe:libc:malloc { @a = count(); }", Ok(("kp", "b")));
    sides("kprobe:f { @a[kstack] = count(); } uprobe:libc:malloc { @a[ustack] = count(); }", Err("@a"));
    sides("kprobe:f { @a[tid] = max(1); } uprobe:libc:malloc { @a[tid] = max(2); }", Ok(("kp", "b")));
    sides("kprobe:f { @a = tseries(1, 1s, 3); } uprobe:libc:malloc { @a = tseries(1, 1s, 3); }", Err("@a"));
}

#[test]
fn a_clause_of_both_sides_only_adds_to_its_maps() {
    let script = "uprobe:libc:malloc { @a = count(); } uprobe:libc:free { @b[tid] = 1; } END { print(@a); }";
    sides_with(&[(0, Side::Both)], script, Ok(("bpp", "bp")));
    sides_with(&[(0, Side::Kernel)], script, Ok(("kpp", "kp")));
    sides_with(&[(1, Side::Kernel)], script, Ok(("pkp", "pk")));
    sides_with(&[(1, Side::Both)], script, Ok(("pbp", "ps")));
    sides_with(
        &[(1, Side::Both)],
        "uprobe:libc:malloc { @a = count(); } uprobe:libc:free { @b[tid] = comm; }",
        Err("@b"),
    );
    sides_with(&[(0, Side::Both)], "uprobe:libc:malloc { @a[ustack] = count(); }", Err("@a"));
    // One that the other clause only reads.
    let script = "uprobe:libc:malloc { @a = 1; } uprobe:libc:free { @b = @a; }";
    sides_with(&[(0, Side::Kernel)], script, Ok(("kp", "sp")));
    sides_with(&[(0, Side::Kernel), (1, Side::Kernel)], script, Ok(("kk", "kk")));
}

#[test]
fn both_sides_see_maps_of_single_words_and_maps_without_keys() {
    let options = Options { kernel: weir_script::Kernel::Runs, ..Options::default() };
    let text = "kprobe:f { @a = 1; } uprobe:libc:malloc { @b = @a; }";
    let (module, _) = weir_script::compile(&source(text), &options, &Kernel).unwrap();
    assert_eq!(Sides::of(&module, &[].into(), &|| false).unwrap_err().map, "@a", "an old kernel");
    let check = |write: &str, read: &str, wanted| {
        sides(&format!("kprobe:f {{ {write} }} uprobe:libc:malloc {{ {read} }}"), wanted);
    };
    check("@a[tid] = nsecs;", "@b = nsecs - @a[tid]; delete(@a[tid]);", Ok(("kp", "sp")));
    check("@a[tid, comm] = 1;", "@b = @a[tid, comm];", Ok(("kp", "sp")));
    check("@a++;", "@a--;", Ok(("kp", "s")));
    check("@a = comm;", "print(@a);print(1); @b = @a;", Ok(("kp", "sp")));
    check("@a = (1, comm);", "@b = @a.0;", Ok(("kp", "sp")));
    // No single word; stacks; what is added up and read.
    check("@a[tid] = comm;", "@b = @a[tid];", Err("@a"));
    check("@a[tid] = (1, 2);", "@b = @a[tid].0;", Err("@a"));
    check("@a[kstack] = 1;", "if (@a[ustack]) { @b = 1; }", Err("@a"));
    check("@a[tid] = count();", "if (@a[tid] > 3) { @b = 1; }", Err("@a"));
}

#[test]
fn a_clause_at_no_place_is_on_the_side_of_its_maps() {
    sides("BEGIN { @c = 1; } kprobe:f { @a = 1; } uprobe:libc:malloc { @b = 1; }", Ok(("pkp", "pkp")));
    sides("BEGIN { @a = 1; } kprobe:f { @a = 2; } uprobe:libc:malloc { @b = 1; }", Ok(("kkp", "kp")));
    sides("BEGIN { @b = 1; } kprobe:f { @a = 2; } uprobe:libc:malloc { @b = 1; }", Ok(("pkp", "pk")));
    // By way of another map.
    let text = "interval:s:1 { @c = 1; } END { @c = 2; @a = 1; } kprobe:f { @a = 2; } uprobe:libc:malloc { @b = 1; }";
    sides(text, Ok(("kkkp", "kkp")));
    sides("BEGIN { @a = 1; @b = 1; } kprobe:f { @a = 2; } uprobe:libc:malloc { @b = 1; }", Ok(("pkp", "sp")));
    sides(
        "END { @a = count(); } kprobe:f { @a = count(); } uprobe:libc:malloc { @a = count(); }",
        Ok(("pkp", "b")),
    );
    sides(
        "END { if (@a > 3) { exit(); } } kprobe:f { @a = count(); } uprobe:libc:malloc { @a = count(); }",
        Err("@a"),
    );
    // Memory that it reads is the kernel's.
    sides(
        "BEGIN { print(*kaddr(\"seconds\")); } uprobe:libc:malloc { @b = 1; } kprobe:f { @a = 1; }",
        Ok(("kpk", "pk")),
    );
}
