//! Static probes (USDT), end to end: listed, refused, traced. The oracle is the program itself: it prints what it
//! computed from registers, flags and red zone, which must be the same while it is probed.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::target::{self, Source};
use testkit::{Daemon, wait};

const DEADLINE: Duration = Duration::from_secs(120);

fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn program() -> String {
    target::program("usdt").display().to_string()
}

/// Runs `script` on the program for so many rounds; weir's output, without the program's own, which is checked.
fn traced(name: &str, path: &str, script: &str, rounds: u32) -> String {
    let file = testkit::paths::target().join(format!("usdt-{name}.out"));
    let command = format!("\"{path}\" {rounds}");
    let plain = Command::new(path).arg(rounds.to_string()).output().unwrap();
    let script = script.replace("APP", &format!("\"{path}\""));
    let output = weir(&["trace", "-q", "-o", file.to_str().unwrap(), "-e", &script, "-c", &command]);
    assert!(output.status.success(), "{name}: {}", err(&output));
    assert_eq!(out(&output), out(&plain), "{name}: the program computes the same");
    std::fs::read_to_string(&file).unwrap()
}

#[test]
fn every_hit_of_every_shape_is_counted_and_the_program_computes_the_same() {
    for (variant, path) in target::matrix("usdt", Source::Program("usdt.c"), &["-pthread"]) {
        let path = path.display().to_string();
        let script = "usdt:APP:values { @values = count(); } usdt:APP:weir:red_zone { @red_zone = count(); }
            usdt:APP:weir:flags { @flags = count(); } usdt:APP:guarded { @guarded = count(); }";
        let text = traced(&format!("shapes-{}", variant.to_string().replace(' ', "-")), &path, script, 2000);
        for name in ["values", "red_zone", "flags", "guarded"] {
            assert!(text.lines().any(|line| line == format!("@{name}: 2000")), "{variant}: {text}");
        }
    }
}

#[test]
fn a_site_before_a_call_is_reached() {
    let script = "usdt:APP:before_call { @ = count(); }";
    let sites =
        weir(&["trace", "--emit", "sites", "-e", &script.replace("APP", &format!("\"{}\"", program()))]);
    assert!(out(&sites).contains("jump over 2 instructions, the last a call"), "{}", out(&sites));
    assert_eq!(traced("before-call", &program(), script, 2000).trim(), "@: 2000");
}

#[test]
fn arguments_have_the_width_and_the_sign_that_the_note_says() {
    for (variant, path) in target::matrix("usdt", Source::Program("usdt.c"), &["-pthread"]) {
        let path = path.display().to_string();
        let script = "usdt:APP:values { printf(\"%d %d %d %d %d %d %u %s %d %d\\n\", \
            arg0, arg1, arg2, arg3, arg4, arg5, arg6, str(arg7), arg8, arg9); }";
        let text = traced(&format!("values-{}", variant.to_string().replace(' ', "-")), &path, script, 300);
        let expected: String = (1..=300i64)
            .map(|n| {
                let (tiny, byte, small, half) = ((-n) as i8, n as u8, (-2 * n) as i16, (3 * n) as u16);
                let counter = n - 1;
                format!(
                    "{n} {tiny} {byte} {small} {half} {} {} round -42 {counter}\n",
                    -(n << 33),
                    !(n as u64)
                )
            })
            .collect();
        assert_eq!(text.trim(), expected.trim(), "{variant}");
    }
}

#[test]
fn words_in_the_red_zone_are_arguments_too() {
    let text = traced("red-zone", &program(), "usdt:APP:red_zone { @[arg0, arg1] = count(); }", 3);
    for round in 1..=3 {
        assert!(text.contains(&format!("@[{round}, {}]: 1", round + 2)), "{text}");
    }
}

#[test]
fn signs_decide_comparisons_and_probe_and_func_have_names() {
    let script = "usdt:APP:values /arg1 < 0 && arg5 < -8589934592 && arg4 > 3/ { @[probe] = count(); }
        usdt:APP:weir:red_zone { @f[func] = count(); }";
    let text = traced("signs", &program(), script, 100);
    assert!(text.contains(&format!("@[usdt:{}:weir:values]: 99", program())), "{text}");
    assert!(text.contains("@f[red_zone]: 100"), "{text}");
}

#[test]
fn a_wildcard_takes_places_whose_arguments_lie_differently() {
    let text = traced("wildcard", &program(), "usdt:APP:weir:*ed* { @[probe] = sum(arg0); }", 10);
    for name in ["guarded", "red_zone"] {
        assert!(text.contains(&format!(":weir:{name}]: 55")), "{text}");
    }
}

#[test]
fn functions_and_static_probes_share_a_clause() {
    let text =
        traced("mixed", &program(), "uprobe:APP:red_zone, usdt:APP:flags { @[probe] = sum(arg0); }", 10);
    assert!(text.contains("uprobe:") && text.contains(":red_zone]: 55"), "{text}");
    // 0x7fffffff + 1, ten times.
    assert!(text.contains(":weir:flags]: 21474836480"), "{text}");
}

/// The program, which does `what` until its input is closed, and then tells.
fn running(what: &str) -> (Daemon, String) {
    let path = program();
    let mut command = Command::new(&path);
    command.arg(what);
    let mut daemon = Daemon::spawn(command).unwrap();
    daemon.line_with("ready", DEADLINE).unwrap();
    (daemon, path)
}

/// The semaphore of the running program, and where it stands.
fn semaphore(pid: u32, path: &str) -> u16 {
    let binary = weir_symbols::Binary::open(Path::new(path)).unwrap();
    let probe = binary.find_static(None, "guarded").unwrap()[0];
    let maps = weir_symbols::maps::read(pid).unwrap();
    let file = weir_symbols::maps::identity_of(&maps, &binary, Path::new(path)).unwrap();
    let bias = weir_symbols::maps::load_bias(&maps, file, &binary).unwrap();
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut bytes = [0; 2];
    let at = probe.semaphore.unwrap().0.wrapping_add(bias);
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, at).unwrap();
    u16::from_le_bytes(bytes)
}

/// A weir that counts what `daemon` prepares: it is attached. It says `counts` when it has counted some.
fn counts_guarded(daemon: &Daemon, path: &str) -> Daemon {
    let script = format!(
        "usdt:\"{path}\":guarded {{ @ = count(); @some = 1; }}
        interval:ms:5 {{ if (@some == 1 && @told == 0) {{ @told = 1; printf(\"counts\\n\"); }} }}
        END {{ clear(@some); clear(@told); }}"
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["trace", "-q", "-e", &script, "-p", &daemon.pid().to_string()]);
    let tracer = Daemon::spawn(command).unwrap();
    assert!(wait::until(DEADLINE, || semaphore(daemon.pid(), path) == 1), "raised");
    tracer
}

#[test]
fn a_semaphore_counts_weir_while_it_is_attached() {
    let (mut daemon, path) = running("prepare");
    assert_eq!(semaphore(daemon.pid(), &path), 0);
    let mut tracer = counts_guarded(&daemon, &path);
    daemon.line_with("begins", DEADLINE).unwrap();
    tracer.line_with("counts", DEADLINE).unwrap();
    tracer.signal(Signal::SIGINT).unwrap();
    let text = tracer.finish(DEADLINE).unwrap().stdout;
    assert_eq!(semaphore(daemon.pid(), &path), 0, "lowered");
    let hits = text.lines().find_map(|line| line.strip_prefix("@: ")?.parse::<u64>().ok());
    let hits = hits.unwrap_or_else(|| panic!("{text}"));
    daemon.close_stdin();
    let said = daemon.line_with("prepared", DEADLINE).unwrap();
    // The one thread may stand between the test of the semaphore and the probe when weir leaves: what it has prepared then
    // is nobody's. It is never raised before weir counts, so there is none the other way round.
    let is_all = [hits, hits + 1].iter().any(|prepared| said == format!("prepared {prepared} semaphore 0"));
    assert!(hits > 0 && is_all, "{said} and {hits} hits");
}

#[test]
fn the_semaphore_of_a_killed_weir_is_lowered_by_the_next() {
    let (mut daemon, path) = running("prepare");
    let pid = daemon.pid().to_string();
    let tracer = counts_guarded(&daemon, &path);
    tracer.signal(Signal::SIGKILL).unwrap();
    tracer.finish(DEADLINE).unwrap();
    assert_eq!(semaphore(daemon.pid(), &path), 1, "nobody was there to lower it");
    let detached = weir(&["detach", "-p", &pid]);
    assert!(detached.status.success(), "{}", err(&detached));
    assert_eq!(semaphore(daemon.pid(), &path), 0);
    // Once more, with nothing left to do.
    assert_eq!(weir(&["detach", "-p", &pid]).status.code(), Some(1));
    assert_eq!(semaphore(daemon.pid(), &path), 0);
    daemon.close_stdin();
    assert!(daemon.line_with("prepared", DEADLINE).unwrap().contains("semaphore 0"));
}

/// What `run` gives when the threads of the program are stopped in time: where the machine has no CPU for one for as long
/// as they may be held, weir attaches to nothing and says so.
fn in_time(run: impl Fn() -> Output) -> Output {
    let is_in_time = |output: &Output| !err(output).starts_with("weir: thread");
    wait::until_some(DEADLINE, || Some(run()).filter(is_in_time)).expect("the threads stop")
}

#[test]
fn a_weir_that_dies_at_any_write_leaves_a_semaphore_that_the_next_puts_right() {
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return testkit::skip::skip("kill", "strace is not installed");
    }
    let (mut daemon, path) = running("threads");
    let pid = daemon.pid().to_string();
    let script = format!("usdt:\"{path}\":guarded {{ @ = count(); }} interval:ms:20 {{ exit(); }}");
    let mut raised = 0;
    for point in 1..100 {
        let inject = format!("inject=pwrite64:signal=KILL:when={point}");
        let output = in_time(|| {
            let mut weir_itself = Command::new("strace");
            weir_itself.args(["-f", "-o", "/dev/null", "-e", "trace=pwrite64", "-e", &inject]);
            weir_itself.args([env!("CARGO_BIN_EXE_weir"), "trace", "-q", "-e", &script, "-p", &pid]);
            weir_itself.output().unwrap()
        });
        let is_done = output.status.success();
        raised += semaphore(daemon.pid(), &path);
        let detached = in_time(|| weir(&["detach", "-p", &pid]));
        assert_eq!(semaphore(daemon.pid(), &path), 0, "death at write {point}: {}", err(&detached));
        if is_done {
            assert!(raised > 0 && point > 5, "{raised} of {point} deaths left it raised");
            daemon.close_stdin();
            assert!(daemon.line_with("wrong", DEADLINE).unwrap().contains("wrong 0"));
            return;
        }
    }
    panic!("weir never came to its end");
}

#[test]
fn attaching_and_detaching_again_and_again_changes_no_result() {
    let (mut daemon, path) = running("threads");
    let pid = daemon.pid().to_string();
    // It ends when it has seen all four, which threads that wait for a CPU may come to late.
    let script = format!(
        "usdt:\"{path}\":values {{ @values = count(); @seen[0] = 1; }}
        usdt:\"{path}\":red_zone {{ @red_zone = sum(arg0); @seen[1] = 1; }}
        usdt:\"{path}\":flags {{ @flags = max(arg0); @seen[2] = 1; }}
        usdt:\"{path}\":guarded {{ @guarded = sum(arg0); @seen[3] = 1; }}
        interval:ms:20 /@seen[0] && @seen[1] && @seen[2] && @seen[3]/ {{ exit(); }}"
    );
    for _ in 0..20 {
        let output = in_time(|| weir(&["trace", "-q", "-e", &script, "-p", &pid]));
        assert!(output.status.success(), "{}", err(&output));
        for name in ["@values: ", "@red_zone: ", "@flags: 2147483648", "@guarded: "] {
            assert!(out(&output).contains(name), "{}", out(&output));
        }
        assert_eq!(semaphore(daemon.pid(), &path), 0);
    }
    daemon.close_stdin();
    let said = daemon.line_with("wrong", DEADLINE).unwrap();
    assert!(said.contains("wrong 0, some batches 1"), "{said}");
}

/// The script is refused with this message, and exit code 1.
#[track_caller]
fn refused(script: &str, message: &str) {
    let script = script.replace("APP", &format!("\"{}\"", program()));
    let output = weir(&["trace", "-e", &script, "-c", "true"]);
    assert_eq!(output.status.code(), Some(1), "{script}");
    assert!(err(&output).contains(message), "{script}: {}", err(&output));
}

#[test]
fn what_cannot_be_probed_is_refused_with_the_reason() {
    refused("usdt:APP:flag { @ = count(); }", "did you mean flags?");
    refused("usdt:APP:flags { @ = arg1; }", "has no `arg1`");
    refused("usdt:APP:weir:*e* { @ = arg0; }", "weir:before_call` has no `arg0`");
    refused(
        "uprobe:APP:values*, usdt:APP:values { @ = arg6; }",
        "not supported by weir yet: `arg6` of a function",
    );
    refused("usdt:APP { @ = 1; }", "`usdt` needs a binary and a name");
}

/// `weir list` with these arguments prints exactly these lines.
#[track_caller]
fn listed(args: &[&str], expected: &[&str]) {
    let args: Vec<String> = args.iter().map(|arg| arg.replace("APP", &program())).collect();
    let args: Vec<&str> = ["list"].into_iter().chain(args.iter().map(String::as_str)).collect();
    let output = weir(&args);
    let lines: Vec<String> = out(&output).lines().map(|line| line.replace(&program(), "APP")).collect();
    assert_eq!(lines, expected, "{args:?}: {}", err(&output));
    assert_eq!(output.status.code(), Some(0), "{args:?}");
}

#[test]
fn list_shows_static_probes_and_functions_by_pattern() {
    let all = [
        "usdt:APP:weir:before_call",
        "usdt:APP:weir:flags",
        "usdt:APP:weir:guarded",
        "usdt:APP:weir:red_zone",
        "usdt:APP:weir:values",
    ];
    listed(&["usdt:APP:*"], &all);
    listed(&["usdt:APP"], &all);
    listed(&["U:APP:w*:*"], &all);
    listed(&["usdt:APP:red*", "usdt:APP:weir:flags"], &[all[1], all[3]]);
    listed(&["uprobe:APP:red_*", "u:APP:calle?"], &["uprobe:APP:callee", "uprobe:APP:red_zone"]);
    listed(&["*:APP:red*"], &["uprobe:APP:red_zone", all[3]]);
    listed(&["uretprobe:APP:red*", "ur:APP:calle?"], &["uretprobe:APP:callee", "uretprobe:APP:red_zone"]);
}

#[test]
fn list_shows_types_and_operands_when_asked() {
    let output = weir(&["list", "-v", &format!("usdt:{}:red_zone", program())]);
    let text = out(&output);
    let place = text.lines().nth(1).unwrap().trim();
    assert!(
        place.starts_with("0x") && place.ends_with(", (uint64 8@-8(%rsp), uint64 8@-128(%rsp))"),
        "{text}"
    );
    let output = out(&weir(&["list", "-v", &format!("usdt:{}:guarded", program())]));
    assert!(output.contains(", semaphore 0x") && output.contains("(int32 -4@%"), "{output}");
}

#[test]
fn list_says_what_it_does_not_find() {
    let check = |pattern: &str, message: &str| {
        let output = weir(&["list", &pattern.replace("APP", &program())]);
        assert_eq!((output.status.code(), out(&output)), (Some(1), String::new()), "{pattern}");
        assert!(err(&output).contains(message), "{pattern}: {}", err(&output));
    };
    check("usdt:APP:flag", "did you mean flags?");
    check("usdt:APP:wier:flags", "did you mean weir:flags?");
    check("uprobe:APP:mian", "did you mean main?");
    check("uprobe:/no/such:x", "no such file: /no/such");
    check("kprobe:vfs_read:x", "no kind of probe is named \"kprobe\"; there are uprobe, uretprobe, usdt");
    check("usdt:*:*", "add -p PID");
    check("usdt:APP:a:b:c", "two parts after the binary");
}

#[test]
fn list_looks_at_what_a_process_maps() {
    let (daemon, path) = running("prepare");
    let pid = daemon.pid().to_string();
    let text = out(&weir(&["list", "-p", &pid, "usdt:*:guarded", "uprobe:libc*:malloc"]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.contains(&format!("usdt:{path}:weir:guarded").as_str()), "{text}");
    assert!(lines.iter().any(|line| line.starts_with("uprobe:") && line.ends_with(":malloc")), "{text}");
    let everything = weir(&["list", "-p", &pid]);
    assert!(everything.status.success() && out(&everything).lines().count() > 2000);
    let elsewhere = weir(&["list", "-p", &pid, "uprobe:/usr/bin/env:*"]);
    assert_eq!(elsewhere.status.code(), Some(1));
    assert!(err(&elsewhere).contains("does not map /usr/bin/env"), "{}", err(&elsewhere));
}

/// Headers of LTTng-UST and of SystemTap, which tracepoints with notes are compiled with.
fn lttng_headers() -> bool {
    let include = ["/usr/include", "/usr/include/x86_64-linux-gnu"].map(Path::new);
    let missing = ["lttng/tracepoint.h", "sys/sdt.h"]
        .into_iter()
        .find(|header| !include.iter().any(|folder| folder.join(header).exists()));
    if let Some(header) = missing {
        testkit::skip::skip("lttng-sdt", format!("no {header}; LTTng's tracepoints are not traced"));
    }
    missing.is_none()
}

/// Without LTTng, and without running: by the descriptors in the file.
#[test]
fn events_of_lttng_are_listed_by_their_descriptors() {
    if !lttng_headers() {
        return;
    }
    let folder = testkit::paths::target().join("testkit");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("lttng-ferry-{}", std::process::id()));
    let mut compile = Command::new("gcc");
    compile
        .current_dir(testkit::paths::root().join("tests/lttng"))
        .args(["-O2", "-s", "-I.", "-o"])
        .arg(&path);
    let output = compile.args(["ferry.c", "-llttng-ust", "-ldl"]).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let path = path.display().to_string();
    let listed = weir(&["list", "-v", &format!("lttng:{path}:*")]);
    let expected = format!(
        "lttng:{path}:ferry:boarded
    level warning, (int32 ticket, hex uint8 colour, network uint16 port, network hex uint32 address, float height, double weight, \
         string name, int64[2] two, text[3] code, uint16[] seats, text[] letters, \
         int32 {{car = 1, sun = 5..9, crew = 10, below = -3}} deck, int32 hidden (for filters alone))
lttng:{path}:ferry:horn
    level debug, ()
lttng:{path}:ferry:lands
    no level, (int64 minutes)
lttng:{path}:ferry:leaves
    no level, (int64 minutes)
"
    );
    assert_eq!(out(&listed), expected);
    let some = weir(&["list", &format!("lttng:{path}:ferry:l*")]);
    assert_eq!(out(&some), format!("lttng:{path}:ferry:lands\nlttng:{path}:ferry:leaves\n"));
    let none = weir(&["list", &format!("lttng:{path}:ferry:sinks")]);
    let said = "no event of PATH matches ferry:sinks; it has ferry:";
    assert!(err(&none).contains(&said.replace("PATH", &path)), "{}", err(&none));
    let other = weir(&["list", "lttng:/usr/bin/env:*"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(err(&other).contains("/usr/bin/env has no events of LTTng-UST"), "{}", err(&other));
    std::fs::remove_file(&path).unwrap();
}

/// LTTng need not run; what it has to be told, it does not say.
#[test]
fn tracepoints_of_lttng_are_static_probes_where_they_are_compiled_with_notes() {
    if !lttng_headers() {
        return;
    }
    let folder = testkit::paths::target().join("testkit");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("lttng-sales");
    let mut compile = Command::new("gcc");
    compile.current_dir(testkit::paths::root().join("tests/lttng"));
    compile.args(["-O2", "-I.", "-DLTTNG_UST_HAVE_SDT_INTEGRATION", "-o"]).arg(&path);
    let output = compile.args(["sales.c", "-llttng-ust", "-ldl"]).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let path = path.display().to_string();
    let listed = weir(&["list", "-v", &format!("usdt:{path}:*")]);
    assert!(out(&listed).starts_with(&format!("usdt:{path}:shop:sale\n")), "{}", out(&listed));
    let run = |args: &[&str]| {
        let mut command = Command::new(args[0]);
        // It waits for a daemon otherwise.
        command.args(&args[1..]).env("LTTNG_UST_REGISTER_TIMEOUT", "0").output().unwrap()
    };
    let kept = out(&run(&[&path, "1000"]));
    let script = format!("usdt:\"{path}\":shop:sale {{ @ = count(); @cents = sum(arg2); }}");
    let filter = "arg0 < 0 && arg1 == 'book*' && arg2 > 500";
    let file = format!("{path}.out");
    let command = format!("\"{path}\" 1000");
    let weir = env!("CARGO_BIN_EXE_weir");
    let output = run(&[weir, "trace", "-q", "-o", &file, "-e", &script, "-c", &command, "--filter", filter]);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(out(&output), kept);
    let traced = std::fs::read_to_string(&file).unwrap();
    assert!(kept.trim() != "0" && traced.contains(&format!("@: {}\n", kept.trim())), "{kept}: {traced}");
}
