//! What weir prints other than a trace: tables and text forms to standard output, messages to standard error, each all at once.
//!
//! Guaranteed: a reader that has gone ends no run. What std's macros print they print or panic, and a panic would hide the
//! results of a run; so they are used nowhere in this crate (`xtask/tests/layout.rs`).

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use crate::failure::Failure;

/// Writes `text`. A reader that has gone (`weir ps | head -1`) is no fault; a full disk is.
pub(crate) fn print(text: &str) -> Result<ExitCode, Failure> {
    print_on(text).map(|_| ExitCode::SUCCESS)
}

/// The same for what is printed bit by bit: whether anybody still reads it.
pub(crate) fn print_on(text: &str) -> Result<bool, Failure> {
    print_bytes_on(text.as_bytes())
}

/// The same for what need not be UTF-8.
pub(crate) fn print_bytes_on(bytes: &[u8]) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Machine(anyhow::Error::new(error).context("writing to standard output"))),
        Ok(()) => Ok(true),
    }
}

/// Writes a message to standard error. Whoever has shut it wants no messages: nothing else changes by that.
pub(crate) fn tell_text(text: &str) {
    let _ = is_heard(text);
}

/// The same for what is told again and again: whether anybody can still read it.
pub(crate) fn is_heard(text: &str) -> bool {
    io::stderr().write_all(text.as_bytes()).is_ok()
}

/// Messages are coloured: on a terminal, unless `NO_COLOR` says otherwise.
pub(crate) fn is_coloured() -> bool {
    io::stderr().is_terminal() && wants_colour()
}

/// `NO_COLOR` is not set, or empty (no-color.org).
pub(crate) fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// [`tell_text`] with a line that is formatted as by `format!`.
macro_rules! tell {
    ($($parts:tt)*) => {
        $crate::print::tell_text(&(format!($($parts)*) + "\n"))
    };
}
pub(crate) use tell;

pub(crate) use weir_source::printable;
