//! babeltrace2 as the judge of traces in CTF 2, which it reads from 2.1 on.
//!
//! In: `$BABELTRACE2`, or else the program of that name that is installed. Out: lines, written as 2.0 writes them, which is how weir does.

use std::path::Path;
use std::process::Command;

/// What it prints of a trace with these options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Lines(Vec<String>),
    /// It was ended by a signal: 2.1.1 has faults of its own, in optional fields and in numbers of 16 bits.
    Crashed,
    /// There is none that reads CTF 2.
    Missing,
}

/// Asks it.
///
/// # Panics
/// If it refuses the trace or says anything else.
pub fn read_ctf_2(trace: &Path, options: &[&str]) -> Answer {
    let program = std::env::var_os("BABELTRACE2").unwrap_or("babeltrace2".into());
    let Ok(version) = Command::new(&program).arg("--version").output() else { return Answer::Missing };
    if !reads_ctf_2(&String::from_utf8_lossy(&version.stdout)) {
        return Answer::Missing;
    }
    let output = Command::new(&program).args(options).arg(trace).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    if output.status.code().is_none_or(|code| code > 128) {
        return Answer::Crashed;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{}: {}: {said}", trace.display(), output.status);
    Answer::Lines(String::from_utf8_lossy(&output.stdout).lines().map(as_2_0_has_it).collect())
}

/// `Babeltrace 2.1.1 "Brossard"`.
fn reads_ctf_2(version: &str) -> bool {
    let number = version.split_whitespace().nth(1).unwrap_or_default();
    let mut parts = number.split('.').map(|part| part.parse().unwrap_or(0u32));
    (parts.next(), parts.next()) >= (Some(2), Some(1))
}

/// Several labels of one value stand in braces since 2.1.
fn as_2_0_has_it(line: &str) -> String {
    line.replace("( { \"", "( \"").replace("\" } : container", "\" : container")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        assert!(reads_ctf_2("Babeltrace 2.1.1 \"Brossard\"") && reads_ctf_2("Babeltrace 2.10.0"));
        assert!(!reads_ctf_2("Babeltrace 2.0.4 \"Amqui\"") && !reads_ctf_2("BabelTrace Trace Viewer 1.5"));
        let line = "e: { n = ( { \"z\", \"a\" } : container = 1 ), m = ( \"a\" : container = 0 ) }";
        assert_eq!(
            as_2_0_has_it(line),
            "e: { n = ( \"z\", \"a\" : container = 1 ), m = ( \"a\" : container = 0 ) }"
        );
    }
}
