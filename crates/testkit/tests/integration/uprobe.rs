//! The kernel's count of calls equals what programs say of themselves.

use std::path::Path;
use std::process::Output;

use testkit::skip::skip;
use testkit::{target, uprobe};
use weir_symbols::Binary;

/// The hits of `function` while `arguments` run, and the program's output; `None` (and a skip) where that cannot be.
fn hits(test: &str, program: &Path, function: &str, arguments: &[&str]) -> Option<(u64, Output)> {
    let binary = Binary::open(program).unwrap();
    let address = binary.find(function).unwrap()[0].address;
    let offset = binary.file_offset(address).unwrap().0;
    let command = [&[program.to_str().unwrap()], arguments].concat();
    uprobe::count_hits(program, offset, &command).map_err(|why| skip(test, why)).ok()
}

fn field(output: &Output, name: &str) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout);
    let value = text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name} in {output:?}")).parse().unwrap()
}

#[test]
fn counts_each_call_of_a_plain_program() {
    let program = target::program("overhead");
    let Some((count, output)) = hits("testkit::uprobe::plain", &program, "foo", &["0", "20", "2000"]) else {
        return;
    };
    assert_eq!((count, field(&output, "calls")), (2000, 2000));
    assert!(output.status.success());
}

#[test]
fn counts_all_threads_and_signal_handlers() {
    let program = target::program("threads");
    let Some((count, output)) = hits("testkit::uprobe::threads", &program, "foo", &["4", "1000", "300"])
    else {
        return;
    };
    assert_eq!(count, field(&output, "total"), "{output:?}");
}

#[test]
fn counts_no_child_process() {
    let text = "#include <unistd.h>\n#include <sys/wait.h>\n\
        __attribute__((noinline)) void foo(void) { __asm__ volatile(\"\" ::: \"memory\"); }\n\
        int main(void) { if (fork() == 0) { for (int i = 0; i < 100; i++) foo(); _exit(0); } wait(0); foo(); return 0; }";
    let program = target::build("forks", target::Source::Text(text), &["-O2"]);
    let Some((count, _)) = hits("testkit::uprobe::fork", &program, "foo", &[]) else { return };
    assert_eq!(count, 1);
}

#[test]
fn counts_from_the_first_instruction() {
    let text = "__attribute__((noinline)) void foo(void) { __asm__ volatile(\"\" ::: \"memory\"); }\n\
        __attribute__((constructor)) static void early(void) { foo(); }\n\
        __attribute__((destructor)) static void late(void) { foo(); }\n\
        int main(void) { foo(); return 0; }";
    let program = target::build("constructor", target::Source::Text(text), &["-O2"]);
    let Some((count, _)) = hits("testkit::uprobe::constructor", &program, "foo", &[]) else { return };
    assert_eq!(count, 3);
}

#[test]
fn counts_a_library_function_of_a_real_program_the_same_in_each_run() {
    let name = "testkit::uprobe::sqlite3";
    let libc = Binary::open(Path::new("/lib/x86_64-linux-gnu/libc.so.6")).unwrap();
    let offset = libc.file_offset(libc.find("malloc").unwrap()[0].address).unwrap().0;
    let query =
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<2000) SELECT sum(x) FROM c;";
    if std::process::Command::new("sqlite3").arg("-version").output().is_err() {
        return skip(name, "sqlite3 is not installed");
    }
    let count = || uprobe::count_hits(libc.path(), offset, &["sqlite3", ":memory:", query]);
    let (first, second) = match (count(), count()) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(why), _) | (_, Err(why)) => return skip(name, why),
    };
    assert_eq!(String::from_utf8_lossy(&first.1.stdout), "2001000\n");
    assert!(first.0 > 100, "{}", first.0);
    assert_eq!(first.0, second.0);
}

#[test]
fn a_command_that_is_not_there_is_an_error() {
    let program = target::program("overhead");
    let offset = 0x1000;
    let result = uprobe::count_hits(&program, offset, &["/nonexistent/command"]);
    assert!(result.is_err());
}

#[test]
fn a_file_that_is_not_there_is_an_error_and_nothing_runs() {
    let result = uprobe::count_hits(Path::new("/nonexistent/file"), 0, &["true"]);
    assert!(result.is_err());
}
