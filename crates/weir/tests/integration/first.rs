//! What somebody types who sees weir for the first time.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use testkit::paths::quoted;
use testkit::target;

const COUNT: &str = "{ @calls = count(); }";

fn weir() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.stdin(Stdio::null());
    command
}

/// Prints its parameters and calls `step` as often as the first says.
fn program() -> PathBuf {
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        __attribute__((noinline)) int step(int n) { __asm__ volatile("" : "+r"(n)); return n * 3 + 1; }
        int main(int argc, char **argv)
        {
            int sum = 0;
            alarm(600);
            for (int n = 0; n < atoi(argv[1]); n++)
                sum += step(n);
            for (int n = 1; n < argc; n++)
                fprintf(stderr, "[%s]", argv[n]);
            return sum == 7;
        }
    "#;
    target::build("first-steps", target::Source::Text(source), &["-O2"])
}

#[track_caller]
fn counts(output: &Output, calls: u64) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains(&format!("@calls: {calls}\n")), "{out}{err}");
}

#[test]
fn a_script_is_traced_without_a_subcommand() {
    let program = program();
    let script = format!("uprobe:{}:step {COUNT}", quoted(&program));
    let command = format!("{} 20", quoted(&program));
    counts(&weir().args(["-e", &script, "-c", &command]).output().unwrap(), 20);
    let file = testkit::paths::target().join("first-steps.bt");
    std::fs::write(&file, &script).unwrap();
    counts(&weir().arg(&file).args(["-c", &command]).output().unwrap(), 20);
    let help = weir().args(["help", "trace"]).output().unwrap();
    assert!(
        help.status.success() && help.stdout == weir().args(["trace", "--help"]).output().unwrap().stdout
    );
}

#[test]
fn a_command_comes_after_two_dashes_as_the_shell_has_split_it() {
    let program = program();
    let script = format!("uprobe:{}:step {COUNT}", quoted(&program));
    let output =
        weir().args(["-e", &script, "--"]).arg(&program).args(["7", "a b", "-x", ""]).output().unwrap();
    counts(&output, 7);
    assert!(String::from_utf8_lossy(&output.stderr).contains("[7][a b][-x][]"), "{output:?}");
}

#[test]
fn a_script_may_come_from_standard_input() {
    let program = program();
    let mut command = weir();
    command.args(["trace", "-", "-c"]).arg(format!("{} 5", quoted(&program)));
    let mut weir =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let script = format!("uprobe:{}:step {COUNT}", quoted(&program));
    weir.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    counts(&weir.wait_with_output().unwrap(), 5);
    let wrong = self::weir().args(["trace", "-"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
}

/// Where `head` has seen enough, the run ends as at Ctrl-C: the command too, and nothing is reported.
#[test]
fn a_reader_that_goes_away_ends_a_run_quietly() {
    let program = program();
    let script = format!("uprobe:{}:step {{ printf(\"%d\\n\", arg0); }}", quoted(&program));
    let mut command = weir();
    command.args(["-q", "-e", &script, "--"]).arg(&program).arg("2000000000");
    let mut weir = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(weir.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "0");
    drop(lines);
    let output = weir.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
