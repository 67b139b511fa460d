//! The bytes of a file → its text.

use std::fmt;

/// What Windows' editors begin a text with.
const MARK: char = '\u{feff}';

/// Where bytes are no text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotText {
    /// Counted from 1, as diagnostics count them.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// What is there.
    pub byte: u8,
}

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotText { line, column, byte } = self;
        write!(f, "the byte {byte:#04x} at line {line}, column {column} is not UTF-8")
    }
}

impl std::error::Error for NotText {}

/// The text that the bytes are, without a byte order mark at its start; or the first place where they are none.
pub fn text_of(bytes: Vec<u8>) -> Result<String, NotText> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(without_mark(text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let bytes = error.into_bytes();
            let before = without_mark(String::from_utf8_lossy(&bytes[..at]).into_owned());
            let line = before.rsplit('\n').next().unwrap_or_default();
            Err(NotText {
                line: 1 + before.matches('\n').count(),
                column: 1 + line.chars().count(),
                byte: bytes[at],
            })
        }
    }
}

/// The same text without a byte order mark at its start.
pub fn without_mark(text: String) -> String {
    text.strip_prefix(MARK).map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_left_out() {
        assert_eq!(text_of(b"\xef\xbb\xbfBEGIN {}".to_vec()), Ok("BEGIN {}".to_owned()));
        assert_eq!(text_of(b"\xef\xbb\xbf".to_vec()), Ok(String::new()));
        assert_eq!(text_of("a\u{feff}".as_bytes().to_vec()), Ok("a\u{feff}".to_owned()));
    }

    #[test]
    fn bytes_that_are_no_text_are_placed() {
        let place =
            |bytes: &[u8]| text_of(bytes.to_vec()).map_err(|place| (place.line, place.column, place.byte));
        assert_eq!(place(b"\xff"), Err((1, 1, 0xff)));
        assert_eq!(place(b"\xef\xbb\xbfab\xc3"), Err((1, 3, 0xc3)));
        assert_eq!(place("é\nüb\n".as_bytes()), Ok("é\nüb\n".to_owned()));
        assert_eq!(place(b"a\n\xc3\xa9b\x80c"), Err((2, 3, 0x80)));
    }
}
