//! Returns of functions and sessions, end to end: results and counts are the program's own; a session gives what its two
//! clauses give; the kernel's uretprobe agrees.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::paths::quoted;
use testkit::target::{self, Source};
use testkit::{Daemon, wait};

const SOURCE: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #ifdef __clang__
    #define PROBED __attribute__((noinline))
    #else
    #define PROBED __attribute__((noipa))
    #endif
    volatile int sink;
    PROBED long work(long n) {
        sink = n;
        for (long i = 0; i < n; i++)
            sink += i;
        return n * 3 - 5;
    }
    PROBED long nested(long n) {
        sink = n;
        return n <= 0 ? 1 : nested(n - 1) + n;
    }
    int main(int argc, char **argv) {
        long sum = 0;
        for (long i = 0; i < 1000; i++)
            sum += work(i % 11);
        printf("sum=%ld nested=%ld\n", sum, nested(20));
        return 0;
    }
"#;

fn program() -> PathBuf {
    target::build("returns", Source::Text(SOURCE), &["-O1"])
}

/// Runs `script`, in which APP is the program, on it; weir's own output.
fn trace(program: &Path, script: &str, flags: &[&str]) -> String {
    let script = script.replace("APP", &quoted(program));
    let (output, text) = traced(program, &script, flags);
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    let plain = Command::new(program).output().unwrap();
    assert_eq!(output.stdout, plain.stdout, "{script}");
    text
}

fn traced(program: &Path, script: &str, flags: &[&str]) -> (Output, String) {
    let folder = testkit::paths::target().join("returns-tests");
    std::fs::create_dir_all(&folder).unwrap();
    let out = folder.join(format!("{:?}-{}", std::thread::current().id(), std::process::id()));
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args(["trace", "-o"]).arg(&out).args(flags);
    let output = weir.args(["-e", script, "-c", &quoted(program)]).output().unwrap();
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    let _ = std::fs::remove_file(&out);
    (output, text)
}

fn ir(program: &Path, script: &str) -> String {
    let script = script.replace("APP", &quoted(program));
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = weir.args(["trace", "--emit", "ir", "-e", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn has_line(text: &str, line: &str) {
    assert!(text.lines().any(|other| other == line), "no `{line}` in:\n{text}");
}

/// What `work` returns, summed by the rule in the source.
fn results() -> i64 {
    (0..1000).map(|i| (i % 11) * 3 - 5).sum()
}

#[test]
fn results_and_names_are_those_of_every_call() {
    for (variant, program) in target::matrix("returns", Source::Text(SOURCE), &[]) {
        let script = "uretprobe:APP:work { @sum = sum((int64)retval); @n[probe, func] = count(); } \
                      uprobe:APP:work { @entries = count(); }";
        let text = trace(&program, script, &[]);
        assert!(text.contains("@entries: 1000\n"), "{variant:?}: {text}");
        has_line(&text, &format!("@sum: {}", results()));
        has_line(&text, &format!("@n[uretprobe:{}:work, work]: 1000", program.display()));
    }
}

#[test]
fn a_clause_may_be_at_both_ends() {
    let text = trace(&program(), "uprobe:APP:work, uretprobe:APP:work { @ = count(); }", &[]);
    has_line(&text, "@: 2000");
}

#[test]
fn each_return_of_nested_calls_runs() {
    let script = "uretprobe:APP:nested { @n = count(); @max = max(retval); }";
    let text = trace(&program(), script, &[]);
    has_line(&text, "@n: 21");
    has_line(&text, "@max: 211");
}

/// Both scripts have the same output; whether they are a session is as said.
#[track_caller]
fn same_fused_and_unfused(script: &str, is_session: bool) {
    let program = program();
    assert_eq!(ir(&program, script).contains("set_session_cookie"), is_session, "{script}");
    let fused = trace(&program, script, &["-q"]);
    let apart = trace(&program, script, &["-q", "--no-sessions"]);
    assert_eq!(fused, apart, "{script}");
    // The script sees something.
    assert!(fused.contains("@out"), "{fused}");
}

#[test]
fn a_session_gives_what_its_two_clauses_give() {
    same_fused_and_unfused(
        "uprobe:APP:work { @s[tid] = arg0; } \
         uretprobe:APP:work { @out[@s[tid]] = sum(retval); delete(@s[tid]); }",
        true,
    );
    same_fused_and_unfused(
        "uprobe:APP:work /arg0 > 5/ { @s[tid] = arg0 + 1; @n = count(); } \
         uretprobe:APP:work { @out[@s[tid]] = sum(retval); delete(@s[tid]); } END { clear(@s); }",
        true,
    );
    same_fused_and_unfused(
        "uprobe:APP:work /arg0 > 5/ { @s[tid] = nsecs; } \
         uretprobe:APP:work /@s[tid]/ { @out[nsecs >= @s[tid]] = count(); delete(@s[tid]); }",
        true,
    );
    same_fused_and_unfused(
        "uprobe:APP:work /arg0 > 5/ { @s[tid] = nsecs; } \
         uretprobe:APP:work /has_key(@s, tid)/ { @out = count(); delete(@s, tid); }",
        true,
    );
    same_fused_and_unfused(
        "uprobe:APP:work { @s[tid] = arg0; } uretprobe:APP:work /@s[tid]/ { @out = count(); delete(@s[tid]); }",
        false,
    );
}

#[test]
fn each_return_of_a_session_sees_its_own_entry() {
    let script = "uprobe:APP:nested { @s[tid] = arg0; } \
                  uretprobe:APP:nested { @out[@s[tid]] = max(retval); delete(@s[tid]); }";
    let text = trace(&program(), script, &[]);
    for n in 0..=20 {
        has_line(&text, &format!("@out[{n}]: {}", 1 + n * (n + 1) / 2));
    }
}

/// `@c` of bpftrace for the same script; none where it cannot be had.
fn of_bpftrace(program: &Path, script: &str) -> Option<String> {
    let script = script.replace("APP", &quoted(program));
    let mut bpftrace = Command::new("bpftrace");
    // Its -c is split at blanks, however they are quoted: the path has none.
    let (folder, name) = (program.parent().unwrap(), program.file_name().unwrap());
    bpftrace.current_dir(folder).args(["-q", "-e", &script, "-c"]).arg(Path::new(".").join(name));
    let output = match bpftrace.output() {
        Ok(output) if output.status.success() => output,
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
            testkit::skip::skip("returns-bpftrace", why);
            return None;
        }
        Err(error) => {
            testkit::skip::skip("returns-bpftrace", format!("bpftrace: {error}"));
            return None;
        }
    };
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn bpftrace_says_the_same() {
    // A program of its own: the kernel probes it in every process.
    let source = format!("{SOURCE}/* for bpftrace */\n");
    let program = target::build("returns-kernel", Source::Text(&source), &["-O1"]);
    let script = "uprobe:APP:work { @s[tid] = arg0; } \
                  uretprobe:APP:work { @out[@s[tid]] = count(); @sum = sum((int64)retval); delete(@s[tid]); }";
    let Some(theirs) = of_bpftrace(&program, script) else { return };
    let maps = |text: &str| -> Vec<String> {
        let mut lines: Vec<String> = text.lines().filter(|l| l.starts_with('@')).map(String::from).collect();
        lines.sort();
        lines
    };
    assert_eq!(maps(&trace(&program, script, &["-q"])), maps(&theirs));
}

#[test]
fn registers_are_those_of_the_place() {
    let binary = weir_symbols::Binary::open(&program()).unwrap();
    let work = &binary.find("work").unwrap()[0];
    let script = "uprobe:APP:work { @same = min(reg(\"di\") == arg0); @ip[reg(\"ip\") & 0xfff] = count(); @sp = max(reg(\"sp\") & 15); \
                  @flags = min((reg(\"flags\") & 2) != 0); } \
                  uretprobe:APP:work { @result = min(reg(\"rax\") == retval); @back = max(reg(\"sp\") & 15); }";
    let text = trace(&program(), script, &[]);
    // At an entry 8 more than a multiple of 16, behind the return 0.
    for line in ["@same: 1", "@sp: 8", "@flags: 1", "@result: 1", "@back: 0"] {
        has_line(&text, line);
    }
    has_line(&text, &format!("@ip[{}]: 1000", work.address.0 & 0xfff));
}

#[test]
fn a_run_ends_with_what_it_has_covered() {
    let program = program();
    let script = "uprobe:APP:work, uprobe:APP:nested { @ = count(); } uretprobe:APP:work { @r = count(); } \
                  uretprobe:libc:exit { @never = count(); }";
    let text = trace(&program, script, &["-f", "json"]);
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "summary");
    let data = &last["data"];
    assert_eq!((&data["places"], &data["attached"]), (&3.into(), &3.into()), "{data}");
    let probe = |index: usize| &data["probes"][index];
    assert_eq!(probe(0)["entries"], 1021, "{data}");
    assert_eq!((&probe(1)["entries"], &probe(1)["returns"]), (&1000.into(), &1000.into()), "{data}");
    // exit() does not come back.
    assert_eq!((&probe(2)["entries"], &probe(2)["missed"]["unwound"]), (&1.into(), &1.into()), "{data}");
    let script = script.replace("APP", &quoted(&program));
    let (output, _) = traced(&program, &script, &["-v"]);
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(messages.contains("weir: 3 places: 3 probed\n"), "{messages}");
    assert!(messages.contains(": 1 entries, 0 returns, 1 missed: unwound 1\n"), "{messages}");
}

/// Functions of which some look at their own return address.
const PEEKING: &str = r#"
    #include <stdio.h>
    __asm__(".globl peeks\n.type peeks,@function\npeeks: .cfi_startproc\n mov (%rsp),%rax\n add %rdi,%rax\n sub (%rsp),%rax\n ret\n.cfi_endproc\n.size peeks,.-peeks");
    extern long peeks(long);
    __attribute__((noipa)) long plain(long x) { return x * 3; }
    int main(void) {
        long sum = 0;
        for (long i = 0; i < 100; i++) sum += peeks(i) + plain(i);
        printf("sum %ld\n", sum);
        return 0;
    }
"#;

/// With `probes` for both ends of both functions, one of which cannot be probed at its return.
#[track_caller]
fn check_peeking(probes: &str, names_it: bool) {
    let program = target::build("peeking", Source::Text(PEEKING), &["-O1"]);
    let script = format!("config = {{ missing_probes = \"warn\" }} {probes}");
    let script = script.replace("APP", &quoted(&program));
    let plain = format!("weir: returns of 1 of {} functions are not seen:", if names_it { 2 } else { 0 });
    for flags in [&["-v"][..], &[]] {
        let (output, text) = traced(&program, &script, flags);
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{messages}");
        for line in ["@entries[peeks]: 100", "@entries[plain]: 100", "@[plain]: 100"] {
            has_line(&text, line);
        }
        assert!(!text.contains("@[peeks]"), "{text}");
        assert!(messages.contains("return-unproved 1"), "{messages}");
        assert!(!names_it || messages.contains(&plain), "{messages}");
        let is_named = messages.contains(&format!("{}:peeks (return): return-unproved: ", program.display()));
        assert_eq!(is_named, !flags.is_empty(), "{messages}");
    }
    let (_, text) = traced(&program, &script, &["-f", "json"]);
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["data"]["returns_refused"]["return-unproved"], 1, "{last}");
}

#[test]
fn returns_that_cannot_be_caught_are_told_and_entries_are_probed() {
    let both = "uprobe:APP:peeks, uprobe:APP:plain { @entries[func] = count(); } \
                uretprobe:APP:peeks, uretprobe:APP:plain { @[func] = count(); }";
    check_peeking(both, true);
    let by_pattern = "uprobe:APP:p* { @entries[func] = count(); } uretprobe:APP:p* { @[func] = count(); }";
    check_peeking(by_pattern, false);
    // A session of both: what is at the entry runs.
    let fused = "uprobe:APP:peeks, uprobe:APP:plain { @s[tid] = arg0; @entries[func] = count(); } \
                 uretprobe:APP:peeks, uretprobe:APP:plain { @[func] = count(); @sum = sum(@s[tid]); delete(@s[tid]); }";
    check_peeking(fused, true);
}

/// Calls that do not end as others do: each way with a function that is called through, and with one whose return address
/// is replaced, as it has an argument on the stack.
const MISSING: &str = r#"
    #include <pthread.h>
    #include <setjmp.h>
    #include <stdio.h>
    #define PROBED extern "C" __attribute__((noipa))
    #define STACKED long, long, long, long, long, long
    #define SIX 1, 2, 3, 4, 5, 6
    static jmp_buf back; static volatile long sum;
    PROBED long throws(long n) { if (n % 3 == 0) throw n; return n + 1; }
    PROBED long throws_stacked(STACKED, long n) { if (n % 3 == 0) throw n; return n + 1; }
    PROBED long jumps(long n) { if (n % 4 == 0) longjmp(back, 1); return n + 1; }
    PROBED long jumps_stacked(STACKED, long n) { if (n % 4 == 0) longjmp(back, 1); return n + 1; }
    PROBED long ends(long n) { if (n % 2) pthread_exit(0); return n + 1; }
    PROBED long ends_stacked(STACKED, long n) { if (n % 2) pthread_exit(0); return n + 1; }
    PROBED long odd(long n, long sum);
    PROBED long even(long n, long sum) { return n == 0 ? sum : odd(n - 1, sum + n); }
    PROBED long odd(long n, long sum) { return n == 0 ? -sum : even(n - 1, sum ^ n); }
    PROBED long deep(STACKED, long n) { long r = n == 0 ? 1 : deep(SIX, n - 1) + 1; sum = r; return r; }
    static void add(long n) { __atomic_fetch_add(&sum, n, __ATOMIC_RELAXED); }
    static void *work(void *n) { add(ends((long)n) + ends_stacked(SIX, (long)n)); return 0; }
    static void *work_stacked(void *n) { add(ends_stacked(SIX, (long)n)); return 0; }
    int main() {
    #if WAY == 1
        for (long n = 0; n < 300; n++) {
            try { sum = sum + throws(n); } catch (long) { sum = sum + 7; }
            try { sum = sum + throws_stacked(SIX, n); } catch (long) { sum = sum + 7; }
        }
    #elif WAY == 2
        for (volatile long n = 0; n < 400; n++) {
            if (setjmp(back) == 0) sum = sum + jumps(n);
            if (setjmp(back) == 0) sum = sum + jumps_stacked(SIX, n);
        }
    #elif WAY == 3
        for (long n = 0; n < 20; n++) {
            pthread_t threads[2];
            pthread_create(&threads[0], 0, work, (void *)n); pthread_create(&threads[1], 0, work_stacked, (void *)n);
            pthread_join(threads[0], 0); pthread_join(threads[1], 0);
        }
    #elif WAY == 4
        for (int n = 0; n < 10; n++) sum = sum + even(1000, 1);
    #elif WAY == 5
        sum = sum + deep(SIX, 20000);
    #endif
        printf("sum %ld\n", sum);
    }
"#;

fn missing(way: u32) -> PathBuf {
    let define = format!("-DWAY={way}");
    let flags = ["-O2", "-pthread", "-w", "-x", "c++", &define];
    target::build_with("g++", &format!("missing-{way}"), Source::Text(MISSING), &flags)
}

/// What the summary says that a run of the `way` has counted, with a clause for each of `functions`.
#[track_caller]
fn summary_of(way: u32, functions: &[&str]) -> serde_json::Value {
    let program = missing(way);
    let clause = |name: &&str| format!("uretprobe:APP:{name} {{ @[func] = count(); }} ");
    let script: String = functions.iter().map(clause).collect();
    let text = trace(&program, &script, &["-f", "json"]);
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    add_up(&last["data"]);
    last["data"].clone()
}

/// Each call that was entered is a return or a miss with a name: for each probe, and for all together.
#[track_caller]
fn add_up(data: &serde_json::Value) {
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let sum = |object: &serde_json::Value| object.as_object().unwrap().values().map(number).sum::<u64>();
    let mut missed = 0;
    for probe in data["probes"].as_array().unwrap() {
        assert_eq!(number(&probe["entries"]), number(&probe["returns"]) + sum(&probe["missed"]), "{probe}");
        missed += sum(&probe["missed"]);
    }
    assert_eq!(sum(&data["missed"]), missed, "{data}");
}

/// Of the probe of each function: entries, returns and the misses of that name.
#[track_caller]
fn check_missing(way: u32, expected: &[(&str, u64, u64, &str, u64)]) {
    let functions: Vec<&str> = expected.iter().map(|row| row.0).collect();
    let data = summary_of(way, &functions);
    for (&(name, entries, returns, reason, missed), probe) in
        expected.iter().zip(data["probes"].as_array().unwrap())
    {
        let found = (&probe["entries"], &probe["returns"], &probe["missed"][reason]);
        assert_eq!(found, (&entries.into(), &returns.into(), &missed.into()), "{name}: {data}");
    }
}

#[test]
fn calls_that_end_otherwise_are_misses_with_a_name() {
    check_missing(1, &[("throws", 300, 200, "unwound", 100), ("throws_stacked", 300, 200, "unwound", 100)]);
    check_missing(2, &[("jumps", 400, 300, "unwound", 100), ("jumps_stacked", 400, 300, "unwound", 100)]);
    check_missing(3, &[("ends", 20, 10, "unwound", 10), ("ends_stacked", 30, 20, "unwound", 10)]);
}

#[test]
fn returns_behind_too_many_tail_calls_are_misses_with_a_name() {
    let data = summary_of(4, &["even", "odd"]);
    // Of each chain of 1001 calls, 64 are seen to return.
    assert_eq!(data["missed"]["tail-depth"], 10 * (1001 - 64), "{data}");
    assert_eq!(data["missed"]["unwound"], 0, "{data}");
    let program = missing(4);
    let script =
        format!("uretprobe:\"{0}\":even, uretprobe:\"{0}\":odd {{ @ = count(); }}", program.display());
    let (output, text) = traced(&program, &script, &[]);
    has_line(&text, "@: 640");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(messages.contains("weir: 9370 returns were missed: tail-depth 9370\n"), "{messages}");
}

#[test]
fn returns_without_a_record_are_misses_with_a_name() {
    let data = summary_of(5, &["deep"]);
    assert_eq!(data["probes"][0]["entries"], 20001, "{data}");
    let lost = data["missed"]["no-record"].as_u64().unwrap();
    // There are fewer records than that.
    assert!((20001 - 16384..15000).contains(&lost), "{data}");
    assert_eq!(data["probes"][0]["missed"]["no-record"], lost, "{data}");
    assert_eq!(data["missed"]["unwound"], 0, "{data}");
}

/// Three threads wait in four calls of each kind until a line comes in.
const WAITING: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    #include <unistd.h>
    #define PROBED __attribute__((noipa))
    static int gates[2]; static volatile int running;
    PROBED long waits(long n) {
        char byte;
        if (n == 0) { __sync_fetch_and_add(&running, 1); return read(gates[0], &byte, 1); }
        long r = waits(n - 1);
        __asm__ volatile("" : "+r"(r));
        return r + 1;
    }
    PROBED long waits_stacked(long a, long b, long c, long d, long e, long f, long n) {
        long r = n == 0 ? waits(3) : waits_stacked(1, 2, 3, 4, 5, 6, n - 1);
        __asm__ volatile("" : "+r"(r));
        return r + 1;
    }
    PROBED long over(long n) { return n + 1; }
    static void *work(void *none) { return (void *)waits_stacked(1, 2, 3, 4, 5, 6, 3); }
    int main(void) {
        char line[64]; pthread_t threads[3]; long sum = 0; void *result;
        pipe(gates);
        puts("ready"); fflush(stdout);
        fgets(line, sizeof line, stdin);
        for (long n = 0; n < 100; n++) sum += over(n);
        for (int n = 0; n < 3; n++) pthread_create(&threads[n], 0, work, 0);
        /* Each of them is inside its calls by then, whether it has begun to read or not. The verdict depends on `running` alone. */
        while (running < 3) usleep(1000);
        puts("waiting"); fflush(stdout);
        fgets(line, sizeof line, stdin);
        write(gates[1], "abc", 3);
        for (int n = 0; n < 3; n++) { pthread_join(threads[n], &result); sum += (long)result; }
        printf("sum %ld\n", sum);
        return 0;
    }
"#;

#[test]
fn calls_that_are_still_running_are_pending() {
    const DEADLINE: Duration = Duration::from_secs(60);
    let program = target::build("waiting", Source::Text(WAITING), &["-O2", "-pthread", "-w"]);
    let mut daemon = Command::new(&program);
    daemon.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut daemon = Daemon::spawn(daemon).unwrap();
    daemon.line_with("ready", DEADLINE).unwrap();
    let out = testkit::paths::target().join(format!("pending-{}", std::process::id()));
    let names = ["waits", "waits_stacked", "over"];
    let clause = |name| format!("uretprobe:\"{}\":{name} {{ @[func] = count(); }} ", program.display());
    let script = names.map(clause).concat() + "interval:ms:20 { printf(\"armed\"); }";
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args(["trace", "-f", "json", "-e", &script, "-p", &daemon.pid().to_string(), "-o"]).arg(&out);
    let mut weir = Daemon::spawn(weir).unwrap();
    let text = || std::fs::read_to_string(&out).unwrap_or_default();
    let is_armed = wait::until(DEADLINE, || text().contains("armed") || !weir.is_running());
    assert!(is_armed && weir.is_running(), "{}", text());
    daemon.write("go\n").unwrap();
    daemon.line_with("waiting", DEADLINE).unwrap();
    weir.signal(Signal::SIGINT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    daemon.write("go\n").unwrap();
    let ended = daemon.finish(DEADLINE).unwrap();
    assert!(ended.status.success() && ended.stdout.contains("sum 5074"), "{}", ended.stdout);
    let text = text();
    let _ = std::fs::remove_file(out);
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let data = &last["data"];
    add_up(data);
    for (probe, (entries, returns)) in [(12, 0), (12, 0), (100, 100)].into_iter().enumerate() {
        let probe = &data["probes"][probe];
        let pending = &probe["missed"]["pending"];
        let found = (&probe["entries"], &probe["returns"], pending);
        assert_eq!(found, (&entries.into(), &returns.into(), &(entries - returns).into()), "{data}");
    }
    assert_eq!((&data["missed"]["pending"], &data["missed"]["unwound"]), (&24.into(), &0.into()), "{data}");
}
