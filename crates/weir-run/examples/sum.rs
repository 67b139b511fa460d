//! Counts how often a command comes to some functions, by thread, and adds up: `sum PROBE COMMAND…`, as in
//! `sum uprobe:libc:malloc ls -l`.

use std::process::ExitCode;

use weir_run::{Notices, Options, Run, Script, Start};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (Some(probe), command) = (words.next(), words.collect::<Vec<_>>()) else {
        eprintln!("usage: sum PROBE COMMAND…");
        return ExitCode::from(2);
    };
    let script = Script::new("sum", &format!("{probe} {{ @calls[tid] = count(); }}"));
    match sum(script, command) {
        Ok((threads, calls)) => {
            println!("{calls} calls by {threads} threads");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("sum: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The number of keys of `@calls`, and the sum of their values.
fn sum(script: Script, command: Vec<String>) -> Result<(usize, u64), weir_run::Failure> {
    let mut options = Options::default();
    options.command = Some(command);
    let notices = Notices::to(|notice| eprintln!("sum: {notice}"));
    let mut running = Run::new(script, options, notices)?.start(Start::silently())?;
    while !running.poll()? {
        running.wait(&[])?;
    }
    running.end()?;
    let entries = running.entries("@calls").unwrap_or_default();
    // A count is one word.
    let counts =
        entries.iter().filter_map(|entry| entry.value.first_chunk().copied().map(u64::from_le_bytes));
    Ok((entries.len(), counts.sum()))
}
