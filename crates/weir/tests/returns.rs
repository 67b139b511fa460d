//! Returns of functions and sessions, end to end: results and counts are the program's own; a session gives what its two
//! clauses give; the kernel's uretprobe agrees.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::target::{self, Source};

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
    let script = script.replace("APP", &program.display().to_string());
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
    let output = weir.args(["-e", script, "-c"]).arg(program).output().unwrap();
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    let _ = std::fs::remove_file(&out);
    (output, text)
}

fn ir(program: &Path, script: &str) -> String {
    let script = script.replace("APP", &program.display().to_string());
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
    let script = script.replace("APP", &program.display().to_string());
    let mut bpftrace = Command::new("bpftrace");
    let output = match bpftrace.args(["-q", "-e", &script, "-c"]).arg(program).output() {
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
    assert_eq!((&probe(2)["entries"], &probe(2)["missed"]["not-returned"]), (&1.into(), &1.into()), "{data}");
    let script = script.replace("APP", &program.display().to_string());
    let (output, _) = traced(&program, &script, &["-v"]);
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(messages.contains("weir: 3 places: 3 probed\n"), "{messages}");
    assert!(messages.contains(": 1 entries, 0 returns, 1 missed: not-returned 1\n"), "{messages}");
}
