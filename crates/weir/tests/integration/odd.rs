//! A thread that checks alignment (EFLAGS.AC) is not hurt by what weir does at odd addresses, and finds the check as it was: texts that are
//! compared in place, records whose fields follow one another without a gap, keys of odd sizes (tests/programs/odd.c).

use std::fs;
use std::process::{Command, Output};

use testkit::{paths, target};

/// The program checks alignment in every second one.
const ROUNDS: u64 = 2000;

#[track_caller]
fn weir(options: &[&str]) -> Output {
    let (program, rounds) = (target::program("odd").display().to_string(), ROUNDS.to_string());
    let options =
        options.iter().map(|option| option.replace("PROGRAM", &format!("\"{program}\""))).collect::<Vec<_>>();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(&options);
    if options[0] == "record" {
        command.args(["--", &program, &rounds]);
    } else {
        command.args(["-c", &format!("\"{program}\" {rounds}")]);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{options:?}: {output:?}");
    assert!(said.contains(&format!("changed 0\nrounds {ROUNDS}\n")), "{options:?}: {output:?}");
    output
}

/// A script counts all calls, whatever they were made with.
#[track_caller]
fn check(filter: &[&str], script: &str) {
    let output = weir(&[&["trace"], filter, &["-e", script]].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(&format!("@calls: {ROUNDS}\n")), "{script}: {output:?}");
}

#[test]
fn texts_are_compared_in_place() {
    let filter = "text == \"a text at an odd address\" && other != \"another\"";
    check(&["--filter", filter], "usdt:PROGRAM:odd:mixed { @calls = count(); }");
}

#[test]
fn texts_are_read_and_compared() {
    check(
        &[],
        "usdt:PROGRAM:odd:mixed / str(arg3) == \"a text at an odd address\" && str(arg5) != \"another\" / \
         { @calls = count(); @texts[str(arg5), arg0] = count(); }",
    );
}

#[test]
fn values_and_keys_are_of_odd_sizes() {
    check(
        &[],
        "uprobe:PROGRAM:odd_function { @calls = count(); @by[(int8)arg1, arg1, str(arg0, 14)] = sum(arg1); \
         if (arg1 % 7 == 0) { printf(\"%c %d %s %d\\n\", (int8)arg1, arg1, str(arg0), (int16)arg1); } } \
         uretprobe:PROGRAM:odd_function { @lasted[(int8)retval, retval] = count(); }",
    );
}

/// What is recorded of each event, by the name of a folder.
#[track_caller]
fn recorded(name: &str, options: &[&str]) -> u64 {
    let folder = paths::fresh("odd", name);
    let folder_name = folder.display().to_string();
    weir(&[&["record", "-o", &folder_name, "--size", "16M"], options].concat());
    let view = Command::new(env!("CARGO_BIN_EXE_weir")).args(["view", &folder_name]).output().unwrap();
    assert!(view.status.success(), "{view:?}");
    let lines = String::from_utf8_lossy(&view.stdout).lines().count() as u64;
    fs::remove_dir_all(&folder).unwrap();
    lines
}

#[test]
fn fields_are_recorded_one_behind_the_other() {
    assert_eq!(recorded("numbers", &["-e", "odd:numbers"]), ROUNDS);
}

#[test]
fn texts_and_bytes_are_recorded() {
    assert_eq!(recorded("mixed", &["-e", "odd:mixed", "-t", "procname"]), ROUNDS);
}

#[test]
fn events_are_recorded_whose_text_is_as_a_filter_says() {
    let filter = "text == \"a text at an odd address\" && other != \"another\"";
    assert_eq!(recorded("filtered", &["-e", "odd:mixed", "--filter", filter]), ROUNDS);
    assert_eq!(
        recorded("refused", &["-e", "odd:mixed", "--filter", "text == \"a text at an even address\""]),
        0
    );
}
