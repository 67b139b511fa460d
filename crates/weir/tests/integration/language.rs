//! Macros, functions and loops over maps in the traced process.

use std::fs;
use std::process::Command;

use testkit::target::{self, Source};

const PROGRAM: &str = r#"
    __attribute__((noipa)) long handle(long kind, const char *name) { return kind + (name != 0); }
    int main(void) {
        static const char *const names[] = { "one", "two", "three" };
        for (int i = 0; i < 3000; i++)
            handle(i % 3, names[i % 3]);
        return 0;
    }
"#;

#[test]
fn scripts_have_structure_in_the_traced_process() {
    let program = target::build("language", Source::Text(PROGRAM), &["-O1"]);
    let out = testkit::paths::fresh("language", "out");
    let script = r#"
        let @last = lruhash(2);
        macro seen(@map, key) { @map[key]++ }
        fn label($kind: uint64) { if ($kind == 0) { return "zero"; } return "other"; }
        uprobe:APP:handle {
            _ = seen(@names, str(arg1));
            @labels[label(arg0)] = count();
            @last[arg0] = arg0;
            if (@names[str(arg1)] == 1000) {
                $sum = 0;
                for ($kv : @names) { $sum += $kv.1; }
                @sums = max($sum);
                @most = max(len(@last));
            }
        }
        END { for ($kv : @names) { if ($kv.0 == "three") { printf("three %d\n", $kv.1); } } }
    "#;
    let script = script.replace("APP", &testkit::paths::quoted(&program));
    let traced = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", "-q", "-e", &script, "-o"])
        .arg(&out)
        .arg("-c")
        .arg(testkit::paths::quoted(&program))
        .output()
        .unwrap();
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    let printed = fs::read_to_string(&out).unwrap();
    for line in [
        "three 1000",
        "@names[one]: 1000",
        "@names[three]: 1000",
        "@labels[zero]: 1000",
        "@labels[other]: 2000",
        "@sums: 3000",
        "@most: 2",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line} not in:\n{printed}");
    }
}

#[test]
fn a_script_knows_the_command() {
    let program = target::build("language", Source::Text(PROGRAM), &["-O1"]);
    let script = format!(
        "BEGIN {{ printf(\"begins %d\\n\", has_cpid && cpid != pid); @command = cpid; }}
         uprobe:{}:handle /@seen == 0/ {{ @seen = 1; printf(\"same %d\\n\", pid == cpid && pid == @command); }}
         END {{ printf(\"ends %d\\n\", @command == cpid); clear(@command); clear(@seen); }}",
        testkit::paths::quoted(&program)
    );
    let engines: &[&[&str]] = match testkit::kernel::available().is_ok() {
        true => &[&["-q"], &["-q", "--engine", "kernel"]],
        false => &[&["-q"]],
    };
    for options in engines {
        let traced = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("trace")
            .args(*options)
            .args(["-e", &script, "-c", &testkit::paths::quoted(&program)])
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&traced.stdout);
        let said = String::from_utf8_lossy(&traced.stderr);
        assert_eq!(printed.trim_end(), "begins 1\nsame 1\nends 1", "{options:?}: {said}");
    }
}

#[test]
fn commands_of_a_script_print_in_order_where_the_script_does() {
    let script = "BEGIN { printf(\"one\\n\"); system(\"echo two %d\", 2); printf(\"three\\n\"); }";
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["trace", "-q", "-e", script])
            .args(arguments)
            .output()
            .unwrap()
    };
    let out = testkit::paths::fresh("system", "out");
    let printed = run(&["--unsafe", "-o", out.to_str().unwrap()]);
    assert!(printed.status.success() && printed.stdout.is_empty(), "{printed:?}");
    assert_eq!(fs::read_to_string(&out).unwrap().trim_end(), "one\ntwo 2\nthree");
    let json = String::from_utf8(run(&["--unsafe", "-f", "json"]).stdout).unwrap();
    assert!(json.contains(r#"{"type": "system", "data": "two 2\n"}"#), "{json}");
    let refused = run(&[]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--unsafe"), "{refused:?}");
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn a_script_without_events_ends_by_itself() {
    let run = |script: &str| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_weir")).args(["trace", "-q", "-e", script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(
        run("BEGIN { printf(\"one\\n\"); } BEGIN { @x = 1; } END { printf(\"end\\n\"); }"),
        "one\nend\n\n\n@x: 1\n"
    );
    let code = |script: &str| {
        Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["trace", "-q", "-e", script])
            .output()
            .unwrap()
            .status
            .code()
    };
    assert_eq!((code("END { exit(5); }"), code("END { assert(0, \"no\"); }")), (Some(5), Some(1)));
    assert_eq!(run("END { printf(\"end\\n\"); }"), "end\n\n\n");
}

#[test]
fn names_of_sites_are_compared_where_they_decide() {
    let program = target::build("language", Source::Text(PROGRAM), &["-O1"]);
    let path = testkit::paths::quoted(&program).to_string();
    let script = format!(
        "uprobe:{path}:handle /func == \"handle\"/ {{ @yes = count(); if (probe != \"x\") {{ @too = count(); }} }} \
         uprobe:{path}:handle {{ @m[1] = arg0 + 5; if (arg0 == 2) {{ @shown++; if (@shown == 1) {{ print(@m[1]); }} }} delete(@m, 1); }}"
    );
    let traced = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", "-q", "-e", &script, "-c", &path])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&traced.stdout);
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    assert!(
        printed.starts_with("7\n") && printed.contains("@yes: 3000") && printed.contains("@too: 3000"),
        "{printed}"
    );
}

const SIGNALLED: &str = r#"
    #include <signal.h>
    #include <stdio.h>
    #include <unistd.h>
    #include <pthread.h>
    static volatile long counts[65];
    static volatile int last, by;
    static void on(int signal) { counts[signal]++; last = signal; by = gettid(); }
    __attribute__((noipa)) long handle(long kind) { return kind * 1000 + 7; }
    static void *thread(void *unused) {
        handle(12);
        printf("own thread %d\n", by == gettid());
        return unused;
    }
    int main(void) {
        signal(SIGUSR1, on);
        signal(SIGUSR2, on);
        for (int i = 0; i < 100; i++)
            handle(i % 2);
        printf("usr1 %ld\n", counts[SIGUSR1]);
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &one, 0);
        pthread_sigmask(SIG_UNBLOCK, &one, 0);
        pthread_t other;
        pthread_create(&other, 0, thread, 0);
        pthread_join(other, 0);
        handle(3);
        printf("both %ld %ld, last %d\n", counts[SIGUSR1], counts[SIGUSR2], last);
        fflush(stdout);
        handle(4);
        puts("never");
        return 0;
    }
"#;

#[test]
fn scripts_send_signals_to_the_process_they_are_in() {
    let program = target::build("signalled", Source::Text(SIGNALLED), &["-O1", "-pthread"]);
    let script = r#"
        uprobe:APP:handle /arg0 == 1/ { signal("SIGUSR1"); @usr1 = count(); }
        uprobe:APP:handle /arg0 == 12/ { signal_thread(arg0); }
        uprobe:APP:handle /arg0 == 3/ { signal("usr1"); if (pid) { signal_thread(SIGUSR2); } }
        uprobe:APP:handle /arg0 == 4/ { signal("KILL"); printf("it is over: %d\n", arg0); }
    "#;
    let script = script.replace("APP", &testkit::paths::quoted(&program)).replace("SIGUSR2", "12");
    let engines: &[&[&str]] = match testkit::kernel::available().is_ok() {
        true => &[&["-q"], &["-q", "--engine", "kernel"]],
        false => &[&["-q"]],
    };
    for options in engines {
        let run = |more: &[&str]| {
            let out = Command::new(env!("CARGO_BIN_EXE_weir"))
                .arg("trace")
                .args(*options)
                .args(more)
                .args(["-e", &script, "-c", &testkit::paths::quoted(&program)])
                .output()
                .unwrap();
            (
                String::from_utf8_lossy(&out.stdout).into_owned(),
                String::from_utf8_lossy(&out.stderr).into_owned(),
            )
        };
        let (printed, said) = run(&["--unsafe"]);
        for line in ["usr1 50", "own thread 1", "both 51 2, last 12", "it is over: 4", "@usr1: 50"] {
            assert!(
                printed.lines().any(|printed| printed == line),
                "{options:?}: {line} not in:\n{printed}{said}"
            );
        }
        assert!(!printed.contains("never"), "{options:?}: {printed}");
        let (_, said) = run(&[]);
        assert!(said.contains("`signal` is an unsafe function being used in safe mode"), "{said}");
    }
}

const PARAMETERS: &str = r#"
    struct point { int x, y; };
    enum color { RED, BLUE };
    __attribute__((noipa)) long draw(const char *name, int n, struct point *at, unsigned short u, enum color c, char sign)
    { return name[0] + n + at->x + u + c + sign; }
    __attribute__((noipa)) long outer(struct point *at) { long sum = draw("it", -5, at, 65535, BLUE, 'x'); __asm__ volatile(""); return sum + 1; }
    int main(void) { struct point at = { 7, 8 }; return outer(&at) == 0; }
"#;

#[test]
fn all_arguments_are_one_value() {
    let program =
        target::build("whole-args", Source::Text(PARAMETERS), &["-O1", "-g", "-fno-omit-frame-pointer"]);
    let script = r#"
        uprobe:APP:draw {
            $a = args;
            printf("%s %d %d %d %d\n", str($a.name), $a.n, args.at->y, $a.u, $a.c);
            printf("%d\n", $a.at->x);
            print((args.n, 1));
            @kept[args] = len(ustack);
            @two = len(ustack(2));
            @stack = ustack;
            printf("all: ");
            print(args);
        }
    "#;
    let out = testkit::paths::fresh("whole-args", "out");
    let traced = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", "-q", "-e", &script.replace("APP", &testkit::paths::quoted(&program)), "-o"])
        .arg(&out)
        .args(["-c", &testkit::paths::quoted(&program)])
        .output()
        .unwrap();
    let printed = fs::read_to_string(&out).unwrap_or_default();
    let said = String::from_utf8_lossy(&traced.stderr);
    for line in [
        "it -5 8 65535 1\n",
        "\n7\n",
        "(-5, 1)\n",
        "@two: 2\n",
        ".n = -5, .at = 0x",
        ".u = 65535, .c = BLUE, .sign = 120 }",
    ] {
        assert!(printed.contains(line), "{line:?} not in:\n{printed}{said}");
    }
    let kept: Vec<&str> = printed.lines().filter(|line| line.starts_with("@kept[{ .name = 0x")).collect();
    let [kept] = kept[..] else { panic!("{printed}") };
    let frames: usize = kept.rsplit(' ').next().unwrap().parse().unwrap();
    let (_, stack) = printed.split_once("@stack: \n").unwrap();
    let shown = stack.lines().take_while(|line| line.starts_with(' ')).count();
    assert!(frames >= 2 && frames == shown, "{printed}");
}
