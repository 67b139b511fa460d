//! C text before the probes: where it begins and ends. What it means is read in [`weir_header`].

use weir_source::Span;

use crate::parser::Parser;
use crate::parser::role::Role;

impl Parser<'_> {
    /// Passes over a directive or a declaration of C, if one stands here.
    pub(super) fn c_text_ahead(&mut self) -> bool {
        let start = self.lexer.position;
        let rest = &self.lexer.text[start..];
        let length = match self.keyword_ahead() {
            _ if rest.starts_with('#') => directive(rest),
            "struct" | "union" | "enum" => declaration(rest, true),
            "typedef" => declaration(rest, false),
            _ => return false,
        };
        self.lexer.position += length;
        self.c.push(Span::new(start, start + length));
        self.roles.set(start, Role::C { end: start + length });
        true
    }

    /// All of it, at the offsets that it has in the script.
    pub(super) fn c_text(&self) -> String {
        let (Some(last), text) = (self.c.last(), self.lexer.text) else { return String::new() };
        let mut out = String::with_capacity(last.end as usize);
        let mut at = 0;
        for span in &self.c {
            let between = &text[at..span.start as usize];
            // A byte for each byte.
            out.extend(between.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            out.push_str(&text[span.start as usize..span.end as usize]);
            at = span.end as usize;
        }
        out
    }
}

/// Bytes of a directive: its line, and those that it goes on in.
fn directive(text: &str) -> usize {
    let mut length = 0;
    for line in text.split_inclusive('\n') {
        length += line.len();
        if !line.trim_end_matches(['\n', '\r']).ends_with('\\') {
            break;
        }
    }
    length
}

/// Bytes of a declaration: to its `;`, or, with `may_end_in_body`, to a body that no `;` follows.
fn declaration(text: &str, may_end_in_body: bool) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut open) = (0, 0u32);
    while at < bytes.len() {
        let rest = &text[at..];
        let length = match bytes[at] {
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            quote @ (b'"' | b'\'') => quoted(rest.as_bytes(), quote),
            _ => 1,
        };
        match bytes[at] {
            b'{' => open += 1,
            b'}' => open = open.saturating_sub(1),
            b';' if open == 0 => return at + 1,
            _ => {}
        }
        at += length;
        while !text.is_char_boundary(at) {
            at += 1;
        }
        if bytes[at - 1] == b'}' && length == 1 && open == 0 && may_end_in_body {
            let after = text[at..].trim_start();
            let ends = !after.starts_with([';', '*']) && !after.starts_with("__attribute__");
            if ends {
                return at;
            }
        }
    }
    bytes.len()
}

/// Bytes of a literal: to the same quote, or the end of its line.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != quote && text[at] != b'\n' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}
