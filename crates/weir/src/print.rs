//! What weir prints to standard output other than a trace: tables and text forms, all at once.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::failure::Failure;

/// Writes `text`. A reader that has gone (`weir ps | head -1`) is no fault; a full disk is.
pub(crate) fn print(text: &str) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Machine(anyhow::Error::new(error).context("writing to standard output")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Names come from files and processes that may have anything in them: no control characters reach the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_reach_the_terminal_without_control_characters() {
        assert_eq!(printable("a\x1b[31mb\n"), "a?[31mb?");
    }
}
