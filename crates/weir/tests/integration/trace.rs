//! End to end: scripts traced on real programs, against what the programs do untraced and what the kernel counts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::paths::quoted;
use testkit::target;
use weir_symbols::Binary;

const SQLITE: [&str; 3] = [
    "sqlite3",
    ":memory:",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<200000) \
     SELECT count(*), sum(length(hex(x))) FROM c;",
];

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

/// Where weir writes its own output in the test `name`.
fn out_file(name: &str) -> PathBuf {
    let folder = testkit::paths::target().join("trace-tests");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// Runs `script` on `command`; the target's output, and weir's own.
fn trace(name: &str, script: &str, command: &str) -> (Output, String) {
    let out = out_file(name);
    let output = weir().args(["trace", "-o"]).arg(&out).args(["-e", script, "-c", command]).output().unwrap();
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    assert!(
        output.status.success(),
        "{name}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    (output, text)
}

/// The number that follows `name: ` in weir's output.
fn number(text: &str, name: &str) -> u64 {
    let prefix = format!("{name}: ");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap_or_else(|| panic!("no `{name}` in:\n{text}"))
}

fn is_installed(program: &str) -> bool {
    let installed = Command::new("which").arg(program).output().is_ok_and(|output| output.status.success());
    if !installed {
        testkit::skip::skip("trace", format!("{program} is not installed"));
    }
    installed
}

#[test]
fn counts_the_mallocs_of_sqlite_as_the_kernel_does() {
    if !is_installed("sqlite3") {
        return;
    }
    let plain = Command::new(SQLITE[0]).args(&SQLITE[1..]).output().unwrap();
    let script = "uprobe:libc:malloc { @bytes = hist(arg0); @calls = count(); }";
    let command = format!("sqlite3 :memory: \"{}\"", SQLITE[2]);
    let (traced, text) = trace("sqlite", script, &command);
    assert_eq!(traced.stdout, plain.stdout);
    let calls = number(&text, "@calls");
    let in_histogram: u64 = text
        .lines()
        .skip_while(|line| !line.starts_with("@bytes:"))
        .filter_map(|line| {
            line.strip_prefix('[')?.split_once('|')?.0.split_whitespace().last()?.parse::<u64>().ok()
        })
        .sum();
    assert_eq!(in_histogram, calls, "{text}");
    let libc = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    let binary = Binary::open(libc).unwrap();
    let offset = binary.file_offset(binary.find("malloc").unwrap()[0].address).unwrap();
    match testkit::uprobe::count_hits(libc, offset.0, &SQLITE) {
        Ok((hits, _)) => assert_eq!(calls, hits),
        Err(unavailable) => testkit::skip::skip("sqlite-kernel-count", unavailable),
    }
}

#[test]
fn is_armed_before_constructors_run() {
    let source = r#"
        #include <stdio.h>
        __attribute__((noinline)) void foo(void) { __asm__ volatile("nop;nop;nop;nop;nop"); }
        __attribute__((constructor)) static void first(void) { for (int i = 0; i < 3; i++) foo(); }
        int main(void) { foo(); return 0; }
    "#;
    for (variant, path) in target::matrix("constructor", target::Source::Text(source), &[]) {
        let script = format!("uprobe:\"{}\":foo {{ @ = count(); }}", path.display());
        let (_, text) = trace("constructor", &script, &quoted(&path));
        assert_eq!(number(&text, "@"), 4, "{variant:?}");
    }
}

#[test]
fn loses_no_count_of_eight_threads_under_signals() {
    let program = target::program("threads");
    let script = format!("uprobe:\"{}\":foo {{ @ = count(); @by[tid != 0] = count(); }}", program.display());
    let (output, text) = trace("threads", &script, &format!("{} 8 400000 200", quoted(&program)));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let total =
        stdout.split("total=").nth(1).unwrap().split_whitespace().next().unwrap().parse::<u64>().unwrap();
    assert_eq!(number(&text, "@"), total);
    assert_eq!(number(&text, "@by[1]"), total, "{text}");
}

#[test]
fn wildcards_and_lists_find_the_functions_of_stripped_programs() {
    let source = r#"
        volatile int seen;
        #define PROBED __attribute__((noinline, visibility("default")))
        PROBED int step_one(int x) { seen = x; return x + 1; }
        PROBED int step_two(int x) { seen = x; return x + 2; }
        PROBED int other(int x) { seen = x; return x + 3; }
        int main(void) {
            int x = 0;
            for (int i = 0; i < 10; i++) x = step_one(x);
            for (int i = 0; i < 20; i++) x = step_two(x);
            for (int i = 0; i < 30; i++) x = other(x);
            return x != 140;
        }
    "#;
    // Stripped, with the functions among the dynamic symbols; each linkage that has those.
    for linkage in ["-pie", "-no-pie"] {
        let flags = ["-O2", "-s", "-rdynamic", if linkage == "-pie" { "-fPIE" } else { "-fno-pie" }, linkage];
        let path = target::build("stripped", target::Source::Text(source), &flags);
        let path = path.display();
        let script = format!(
            "uprobe:\"{path}\":step_*, uprobe:\"{path}\":other {{ @[func] = count(); @args[func] = max(arg0); }} \
             uprobe:\"{path}\":step_one /arg0 >= 5/ {{ @late = count(); @sum = sum(arg0); }} \
             uprobe:\"{path}\":other {{ @probes[probe] = count(); }}"
        );
        let (_, text) = trace("stripped", &script, &format!("\"{path}\""));
        for (name, value) in [
            ("@[step_one]", 10),
            ("@[step_two]", 20),
            ("@[other]", 30),
            ("@args[step_one]", 9),
            ("@args[step_two]", 48),
            ("@late", 5),
            ("@sum", 5 + 6 + 7 + 8 + 9),
        ] {
            assert_eq!(number(&text, name), value, "{linkage} {name}: {text}");
        }
        assert_eq!(number(&text, &format!("@probes[uprobe:{path}:other]")), 30, "{text}");
    }
}

#[test]
fn prints_strings_tuples_and_values_from_the_target() {
    let source = r#"
        __attribute__((noinline)) int greet(const char *name, long n) {
            __asm__ volatile("" :: "r"(name), "r"(n)); return 0;
        }
        int main(void) { greet("alice", 3); greet("bob", -4); greet("alice", 5); return 0; }
    "#;
    let path = target::build("greet", target::Source::Text(source), &["-O0"]);
    let path = path.display();
    let script = format!(
        "BEGIN {{ printf(\"begin\\n\"); @start = 7; }} \
         uprobe:\"{path}\":greet {{ $n = (int64)arg1; printf(\"%s %d %s\\n\", str(arg0), $n, func); \
           @by[str(arg0), comm] = sum($n); @last = str(arg0); @start += 1; \
           if (pid == tid) {{ @main++; }} else {{ @other++; }} @stats = stats($n); @avg = avg($n); @min = min($n); }} \
         END {{ printf(\"end %d\\n\", @start); delete(@start); }}"
    );
    let (_, text) = trace("greet", &script, &format!("\"{path}\""));
    assert!(text.contains("begin\nalice 3 greet\nbob -4 greet\nalice 5 greet\nend 10\n"), "{text}");
    let comm: String = path.to_string().rsplit('/').next().unwrap().chars().take(15).collect();
    assert_eq!(number(&text, &format!("@by[alice, {comm}]")), 8, "{text}");
    for line in ["@last: alice", "@main: 3", "@avg: 1", "@min: -4", "@stats: count 3, average 1, total 4"] {
        assert!(text.lines().any(|given| given == line), "{line} is not in:\n{text}");
    }
    assert!(!text.contains("@start"), "{text}");
}

#[test]
fn writes_json_lines() {
    let out = out_file("json");
    let script = "BEGIN { @x[1, \"a\"] = 2; @h = hist(5); printf(\"hi\\n\"); print((1, 2)); exit() }";
    let status = weir().args(["trace", "-f", "json", "-e", script, "-o"]).arg(&out).status().unwrap();
    assert!(status.success());
    let text = std::fs::read_to_string(&out).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_type =
        |wanted: &str| lines.iter().find(|line| line["type"] == wanted).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(of_type("attached_probes")["data"]["probes"], 1);
    assert_eq!(of_type("printf")["data"], "hi\n");
    assert_eq!(of_type("map")["data"]["@x"]["1,a"], 2);
    assert_eq!(of_type("hist")["data"]["@h"][0]["count"], 1);
}

#[test]
fn intervals_run_and_exit_sets_the_code() {
    let script = "interval:ms:20 { @n++; if (@n == 3) { printf(\"third\\n\"); exit(7); } }";
    let output = weir().args(["trace", "-q", "-e", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("third\n"), "{text}");
}

#[test]
fn every_stage_can_be_printed() {
    let script = "uprobe:libc:malloc /arg0 > 8/ { @[comm] = hist(arg0); }";
    for (stage, part) in
        [("ast", "malloc"), ("ir", "aggregate"), ("ebpf", "call 0x1"), ("asm", "ret"), ("sites", "malloc")]
    {
        let output = weir().args(["trace", "--emit", stage, "-e", script]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains(part), "{stage}: {text}");
    }
}

#[test]
fn bad_pointers_are_errors_and_nobody_sees_a_fault() {
    let program = target::program("strings");
    let script = format!("uprobe:\"{}\":take {{ @[str(arg0)] = count(); }}", program.display());
    for mode in ["plain", "blocked", "handler"] {
        let (output, text) = trace("strings", &script, &format!("{} {mode} 100000", quoted(&program)));
        let stdout = String::from_utf8(output.stdout).unwrap();
        let field =
            |name: &str| stdout.split(name).nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        assert_eq!(field("handler_runs="), "0", "{mode}: {stdout}");
        assert_eq!(field("own_fault="), if mode == "handler" { "handled" } else { "none" }, "{stdout}");
        assert_eq!(number(&text, "@[]").to_string(), field("bad="), "{mode}: {text}");
        assert_eq!(number(&text, "@[good string]").to_string(), field("good="), "{mode}: {text}");
    }
}

#[test]
fn a_handler_installed_after_attach_does_not_run() {
    let program = target::program("strings");
    let mut command = Command::new(&program);
    command.args(["handler", "100000", "wait"]);
    let mut server = testkit::Daemon::spawn(command).unwrap();
    let deadline = std::time::Duration::from_secs(120);
    server.line_with("ready", deadline).unwrap();
    let out = out_file("handler-after-attach");
    let script = format!(
        "uprobe:\"{}\":take {{ @[str(arg0)] = count(); }} BEGIN {{ printf(\"begun\\n\"); }}",
        program.display()
    );
    let mut weir = weir();
    weir.args(["trace", "-v", "-e", &script, "-p", &server.pid().to_string(), "-o"]).arg(&out);
    let weir = testkit::Daemon::spawn(weir).unwrap();
    let armed = || weir_text_is_patched(server.pid(), &program, "take");
    assert!(testkit::wait::until(deadline, armed), "never armed");
    server.write("\n").unwrap();
    let ended = server.finish(deadline).unwrap();
    assert!(ended.stdout.contains("handler_runs=0"), "{}", ended.stdout);
    assert!(ended.stdout.contains("own_fault=handled"), "{}", ended.stdout);
    let weir = weir.finish(deadline).unwrap();
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(weir.status.success(), "{}", weir.stderr);
    assert!(number(&text, "@[]") >= 100_000, "{text}");
}

#[test]
fn a_target_whose_seccomp_filter_kills_lives_on() {
    if !nix::unistd::geteuid().is_root() {
        return testkit::skip::skip("seccomp", "suspending a filter needs CAP_SYS_ADMIN");
    }
    let program = target::program("seccomp");
    let deadline = std::time::Duration::from_secs(120);
    let mut command = Command::new(&program);
    // Seconds, after which it ends by itself.
    command.arg("600");
    let mut server = testkit::Daemon::spawn(command).unwrap();
    server.line_with("ready", deadline).unwrap();
    let status = format!("/proc/{}/status", server.pid());
    let is_filtered = || std::fs::read_to_string(&status).unwrap().contains("\nSeccomp:\t2");
    assert!(testkit::wait::until(deadline, is_filtered), "it sets no filter");
    let script = format!(
        "uprobe:\"{}\":take {{ @calls = count(); @read[str(arg0), comm] = count(); @tid = tid; @n += 1; }} \
         interval:ms:20 /@n > 20/ {{ exit() }}",
        program.display()
    );
    let output = weir().args(["trace", "-e", &script, "-p", &server.pid().to_string()]).output().unwrap();
    let (text, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{said}");
    let calls = number(&text, "@calls");
    assert!(calls > 20, "{text}");
    assert_eq!(number(&text, "@read[, ]"), calls, "{text}");
    assert!(said.contains(&format!("{calls} reads of the target's memory are forbidden")), "{said}");
    assert!(said.contains(&format!("{calls} uses of comm are forbidden")), "{said}");
    // The thread's id stands in its control block.
    assert_eq!(number(&text, "@tid"), u64::from(server.pid()), "{text}");
    server.close_stdin();
    let ended = server.finish(deadline).unwrap();
    assert!(ended.status.success() && ended.stdout.contains("calls="), "{ended:?}");
}

/// True if the function's bytes in the process differ from its file.
fn weir_text_is_patched(pid: u32, path: &Path, function: &str) -> bool {
    let binary = Binary::open(path).unwrap();
    let function = binary.find(function).unwrap()[0].clone();
    let Ok(maps) = weir_symbols::maps::read(pid) else { return false };
    let identity = binary.identity().unwrap();
    let Some(at) = weir_symbols::maps::to_virtual(&maps, identity, &binary, function.address) else {
        return false;
    };
    let Ok(memory) = std::fs::File::open(format!("/proc/{pid}/mem")) else { return false };
    let mut bytes = vec![0; function.size as usize];
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, at.0).is_ok()
        && Some(&bytes[..]) != binary.bytes(function.address, bytes.len())
}

#[test]
fn output_goes_on_after_a_burst_that_the_ring_could_not_hold() {
    let source = r#"
        #include <stdio.h>
        volatile long seen;
        __attribute__((noinline)) void foo(long n, const char *s) { seen = n; __asm__ volatile("" :: "r"(s)); }
        int main(void) {
            for (long n = 0; n < 5000; n++) foo(n, "burst");
            getchar();
            for (long n = 5000; n < 5050; n++) foo(n, "after");
            return 0;
        }
    "#;
    let path = target::build("burst", target::Source::Text(source), &["-O1"]);
    let script = format!(
        "uprobe:\"{}\":foo {{ @all = count(); printf(\"%d %s\\n\", arg0, str(arg1)); }} END {{ printf(\"end\\n\"); }}",
        path.display()
    );
    let out = out_file("burst");
    let _ = std::fs::remove_file(&out);
    let mut command = weir();
    command.args(["trace", "-o"]).arg(&out).args(["-e", &script, "-c", &quoted(&path)]);
    let mut weir = testkit::Daemon::spawn(command).unwrap();
    let lines = |text: &str, word: &str| text.lines().filter(|line| line.ends_with(word)).count();
    let lost = |line: &str| line.strip_prefix("Lost ")?.strip_suffix(" events")?.parse::<usize>().ok();
    let burst = |text: &str| lines(text, " burst") + text.lines().filter_map(lost).sum::<usize>();
    // The program goes on, on the same standard input, when all that it did before was printed or is said to be lost.
    let is_read = || std::fs::read_to_string(&out).is_ok_and(|text| burst(&text) == 5000);
    assert!(testkit::wait::until(std::time::Duration::from_secs(120), is_read), "the burst is not read");
    weir.write("\n").unwrap();
    let ended = weir.finish(std::time::Duration::from_secs(120)).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    let text = std::fs::read_to_string(&out).unwrap();
    assert_eq!(lines(&text, " after"), 50, "{text}");
    assert_eq!(burst(&text), 5000, "{text}");
    assert!(lines(&text, "end") == 1 && lines(&text, " burst") > 0, "{text}");
    assert_eq!(number(&text, "@all"), 5050);
}

/// Counts what a loop's body and an instruction behind a function's first do.
#[test]
fn instructions_and_source_lines_are_probed() {
    let source = "#line 1 \"lines.c\"\n\
        volatile int sink;\n\
        __attribute__((noipa)) int one(int n) {\n\
            sink = n;\n\
            for (int i = 0; i < n; i++)\n\
                sink += i;\n\
            return n + 1;\n\
        }\n\
        int main(void) { for (int i = 0; i < 1000; i++) one(i % 7); return 0; }\n";
    let program = target::build("source-lines", target::Source::Text(source), &["-O1", "-g"]);
    let binary = Binary::open(&program).unwrap();
    let body = binary.source_line("lines.c", 5).unwrap()[0];
    let one = &binary.find("one").unwrap()[0];
    let (path, offset) = (program.display(), body.0 - one.address.0);
    let script = format!(
        "uprobe:\"{path}\"@lines.c:5 {{ @line = count(); @arg = max(arg0); }} \
         uprobe:\"{path}\":lines.c:3 {{ @first[func] = count(); }} \
         uprobe:\"{path}\":one+{offset} {{ @offset = count(); }} uprobe:\"{path}\":{body:#x} {{ @address = count(); }} \
         uprobe:\"{path}\":one {{ @entry = count(); }} uprobe:\"{path}\":one+0 {{ @zero = count(); }}",
        body = body.0
    );
    let (_, text) = trace("source-lines", &script, &format!("\"{path}\""));
    // 142 times 0 + 1 + … + 6, then 0 + … + 5.
    for name in ["@line", "@offset", "@address"] {
        assert_eq!(number(&text, name), 142 * 21 + 15, "{text}");
    }
    assert_eq!((number(&text, "@arg"), number(&text, "@first[one]")), (6, 1000), "{text}");
    // A function's first instruction is its entry.
    assert_eq!((number(&text, "@entry"), number(&text, "@zero")), (1000, 1000), "{text}");
}

/// What a script of BEGIN prints, in text and as JSON.
fn printed(script: &str, format: &str) -> String {
    let output = weir().args(["trace", "-q", "-f", format, "-e", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_map_without_keys_is_shown_after_zero_and_not_after_clear() {
    let check = |set: &str, zeroed: &str, text: &str| {
        let script = |what: &str| format!("BEGIN {{ @ = {set}; {what}(@); exit(); }}");
        let json = printed(&script("zero"), "json");
        assert!(json.contains(&format!("\"data\": {{\"@\": {zeroed}}}")), "{set}: {json}");
        let found = printed(&script("zero"), "text");
        assert!(found.lines().any(|line| line == text), "{set}: {found}");
        assert!(!printed(&script("clear"), "text").contains('@'), "{set}");
        assert!(!printed(&script("clear"), "json").contains('@'), "{set}");
        // Either is undone by what is counted next.
        let again =
            |what: &str| format!("BEGIN {{ @ = {set}; {what}(@); }} interval:ms:5 {{ @ = {set}; exit(); }}");
        let once = printed(&format!("BEGIN {{ @ = {set}; exit(); }}"), "text").replace('\n', "");
        for what in ["zero", "clear"] {
            let counted = printed(&again(what), "text").replace('\n', "");
            assert_eq!(counted, once, "{set} after {what}");
        }
    };
    check("count()", "0", "@: 0");
    check("sum(5)", "0", "@: 0");
    check("min(5)", "0", "@: 0");
    check("max(5)", "0", "@: 0");
    check("avg(5)", "0", "@: 0");
    check("stats(5)", "{\"count\": 0, \"average\": 0, \"total\": 0}", "@: count 0, average 0, total 0");
    check("hist(5)", "[]", "@:");
    check("lhist(5, 0, 10, 1)", "[]", "@:");
    // One that was never set stays so, but for a count.
    assert!(!printed("BEGIN { zero(@h); exit(); } interval:s:99 { @h = hist(1); }", "json").contains("@h"));
}

#[test]
fn bits_are_shown_in_the_width_of_the_value() {
    let script = "BEGIN { printf(\"%x %X %o %u|%lx|%d|%x %x|%x\\n\", (int32)-1, (int16)-2, (int8)-1, (int32)-1, \
                  (int32)-1, (int32)-1, (uint32)-1, -1, (int64)-1); exit(); }";
    let text = printed(script, "text");
    let want = "ffffffff FFFFFFFE 37777777777 4294967295|ffffffffffffffff|-1|ffffffff ffffffffffffffff|ffffffffffffffff";
    assert_eq!(text.lines().next(), Some(want), "{text}");
}

#[test]
fn what_is_hit_after_exit_prints_nothing_more() {
    let source = "
        #include <unistd.h>
        __attribute__((noinline)) void foo(long n) { __asm__ volatile(\"nopw 512(%%rax,%%rax)\" :: \"r\"(n)); }
        int main(void) { for (long n = 0; n < 1000; n++) foo(n); char byte; read(0, &byte, 1); return 0; }
    ";
    let path = target::build("after-exit", target::Source::Text(source), &["-O1"]);
    let script = format!(
        "uprobe:\"{}\":foo {{ printf(\"%d\\n\", arg0); @last = arg0; print(@last); if (arg0 == 4) {{ exit(); }} }} \
         END {{ printf(\"end\\n\"); clear(@last); }}",
        path.display()
    );
    let (_, text) = trace("after-exit", &script, &quoted(&path));
    let numbers = (0..5).flat_map(|n| [n.to_string(), "@last".to_owned()]);
    let shown = text.lines().filter(|line| !line.is_empty());
    let shown = shown.map(|line| if line.starts_with("@last: ") { "@last" } else { line });
    let shown: Vec<&str> = shown.filter(|line| !line.starts_with("Attaching")).collect();
    let want: Vec<String> = numbers.chain(["end".to_owned()]).collect();
    assert_eq!(shown, want, "{text}");
}

/// What a program has in its strings must not reach a terminal as commands, nor make lines.
#[test]
fn control_characters_of_strings_are_escaped_in_text() {
    let source = r#"
        __attribute__((noinline)) void foo(const char *text) { __asm__ volatile("nopw 512(%%rax,%%rax)" :: "r"(text)); }
        int main(void) { foo("a\x1b[31mb\nc\x9b\xc3\xbc"); return 0; }
    "#;
    let path = target::build("escapes", target::Source::Text(source), &["-O1"]);
    let script = |what: &str| format!("uprobe:\"{}\":foo {{ {what} }}", path.display());
    let what = "printf(\"%s|%.5s|\\n\", str(arg0), str(arg0)); @[str(arg0)] = 1; print((1, str(arg0)));";
    let (_, text) = trace("escapes", &script(what), &quoted(&path));
    let shown = "a\\x1b[31mb\\nc\\x9b\u{fc}";
    for line in [format!("{shown}|a\\x1b[31|"), format!("(1, {shown})"), format!("@[{shown}]: 1")] {
        assert!(text.lines().any(|given| given == line), "{line} is not in:\n{text}");
    }
    let out = out_file("escapes.json");
    let args =
        ["trace", "-f", "json", "-e", &script("printf(\"%s\", str(arg0));"), "-c", &quoted(&path), "-o"];
    assert!(weir().args(args).arg(&out).status().unwrap().success());
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.contains(r#""data": "a\u001b[31mb\nc"#), "{text}");
}
