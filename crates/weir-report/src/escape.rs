//! Text of a traced process, as it may reach a terminal.

use std::borrow::Cow;

/// Text of a traced process: its control characters as C writes them, and bytes that are no UTF-8 where a terminal may take them for some. A tab stays.
pub(crate) fn escaped(text: &[u8]) -> Cow<'_, [u8]> {
    // All bytes are looked at, so that many are at once.
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
    if text.iter().fold(true, |all, byte| all & is_plain(byte)) {
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
}
