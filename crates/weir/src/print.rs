//! What weir prints other than a trace: tables and text forms to standard output, messages to standard error, each all at once.
//!
//! Guaranteed: a reader that has gone ends no run. What std's macros print they print or panic, and a panic would hide the
//! results of a run; so they are used nowhere in this crate (`xtask/tests/layout.rs`).

use std::borrow::Cow;
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

/// Names come from files and processes that may have anything in them: no control characters reach the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Text of a traced process: its control characters as C writes them, and bytes that are no UTF-8 where a terminal may take them for some. A tab stays.
pub(crate) fn escaped(text: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
    if text.iter().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => out.push(b'\t'),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                c if c.is_control() => out.extend_from_slice(format!("\\x{:02x}", c as u32).as_bytes()),
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for &byte in chunk.invalid() {
            match byte {
                0x80..=0x9f => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
                byte => out.push(byte),
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_reach_the_terminal_without_control_characters() {
        let check = |text: &[u8], want: &[u8]| assert_eq!(escaped(text), want);
        check(b"a b\t~", b"a b\t~");
        check(b"\x1b[31mred\n\r\x07\x7f", b"\\x1b[31mred\\n\\r\\x07\\x7f");
        check("gr\u{fc}n \u{9b}31m".as_bytes(), "gr\u{fc}n \\x9b31m".as_bytes());
        check(b"latin \xe9 \x9b31m", b"latin \xe9 \\x9b31m");
    }

    #[test]
    fn names_reach_the_terminal_without_control_characters() {
        assert_eq!(printable("a\x1b[31mb\n"), "a?[31mb?");
    }
}
