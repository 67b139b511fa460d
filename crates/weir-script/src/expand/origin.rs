//! Where copied text came from.

use weir_source::{Diagnostic, SourceFile, Span};

/// Leads from places behind the end of the text back to places in it.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Origins {
    text_bytes: u32,
    /// In the order of their bases.
    regions: Vec<Region>,
    /// Where the next begins.
    next: u32,
}

#[derive(Clone, PartialEq, Debug)]
struct Region {
    base: u32,
    bytes: u32,
    from: From,
}

#[derive(Clone, PartialEq, Debug)]
enum From {
    /// A definition, and the call of it.
    Copy { definition: Span, name: String, call: Span },
    /// Another file, and the `import` of it.
    File { file: SourceFile, import: Span },
}

/// Calls that a message names.
const CALLS_SHOWN: usize = 4;

/// A mark between a variable's name and the number of its copy; no name has it.
const MARK: char = '#';

/// The name of a variable in one copy of a body.
pub(super) fn own_name(name: &str, copy: u32) -> String {
    format!("{name}{MARK}{copy}")
}

impl Origins {
    pub(super) fn of(file: &SourceFile) -> Origins {
        let text_bytes = file.text.len() as u32;
        Origins { text_bytes, regions: Vec::new(), next: text_bytes + 1 }
    }

    /// Places for a copy of a definition. None where there are none left.
    pub(super) fn copy(&mut self, definition: Span, (name, call): (&str, Span)) -> Option<u32> {
        let bytes = definition.end - definition.start;
        self.add(bytes, From::Copy { definition, name: name.to_string(), call })
    }

    /// Places for another file: how far its own move.
    pub(super) fn import(&mut self, file: &SourceFile, import: Span) -> Option<u32> {
        self.add(u32::try_from(file.text.len()).ok()?, From::File { file: file.clone(), import })
    }

    fn add(&mut self, bytes: u32, from: From) -> Option<u32> {
        let base = self.next;
        self.next = base.checked_add(bytes)?.checked_add(1)?;
        self.regions.push(Region { base, bytes, from });
        Some(base)
    }

    fn region(&self, at: u32) -> Option<&Region> {
        if at <= self.text_bytes {
            return None;
        }
        let index = self.regions.partition_point(|region| region.base <= at).checked_sub(1)?;
        let region = &self.regions[index];
        (at <= region.base + region.bytes).then_some(region)
    }

    /// The place in the script's own text.
    pub(crate) fn place(&self, span: Span) -> Span {
        self.trace(span, &mut Vec::new(), &mut None)
    }

    /// The place in another file, if it is in one: `lib.bt:3:10`.
    pub(crate) fn elsewhere(&self, span: Span) -> Option<String> {
        let mut elsewhere = None;
        self.trace(span, &mut Vec::new(), &mut elsewhere);
        elsewhere.filter(|place| !place.is_empty())
    }

    /// Notes the calls on the way, and the place in another file.
    fn trace(&self, span: Span, calls: &mut Vec<(Span, String)>, elsewhere: &mut Option<String>) -> Span {
        let Some(region) = self.region(span.start) else {
            let end = if span.end <= self.text_bytes { span.end } else { span.start + 1 };
            return Span { end, ..span };
        };
        let end = if span.end <= region.base + region.bytes { span.end } else { span.start + 1 };
        let inside = Span { start: span.start - region.base, end: end - region.base };
        match &region.from {
            From::Copy { definition, name, call } => {
                calls.push((*call, name.clone()));
                let start = definition.start;
                self.trace(Span { start: inside.start + start, end: inside.end + start }, calls, elsewhere)
            }
            From::File { file, import } => {
                if elsewhere.is_none() {
                    let before = &file.text[..(inside.start as usize).min(file.text.len())];
                    let line = 1 + before.matches('\n').count();
                    let column = 1 + before.chars().rev().take_while(|c| *c != '\n').count();
                    *elsewhere = Some(format!("{}:{line}:{column}", file.name));
                }
                self.trace(*import, calls, &mut Some(String::new()))
            }
        }
    }

    /// The diagnostic as the script's author knows its places and names.
    pub(crate) fn restore(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        let (mut calls, mut elsewhere) = (Vec::new(), None);
        diagnostic.span = self.trace(diagnostic.span, &mut calls, &mut elsewhere);
        if let Some(place) = elsewhere {
            diagnostic.message = format!("{place}: {}", diagnostic.message);
        }
        for label in &mut diagnostic.labels {
            label.span = self.place(label.span);
        }
        for (call, name) in calls.into_iter().take(CALLS_SHOWN) {
            let span = self.place(call);
            diagnostic = diagnostic.with_label(span, format!("`{name}` is called here"));
        }
        diagnostic.message = without_marks(&diagnostic.message);
        diagnostic.hint = diagnostic.hint.map(|hint| without_marks(&hint));
        diagnostic
    }
}

/// Variables by the names that they have in the text.
fn without_marks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let name = at + 1 + weir_syntax::word_length(&rest[at + 1..]);
        out.push_str(&rest[..name]);
        rest = &rest[name..];
        if out.ends_with(|c: char| c != '$')
            && let Some(number) = rest.strip_prefix(MARK)
        {
            rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_marks_and_nothing_else() {
        assert_eq!(without_marks("`$x#12` is `$#`, `$y#3`#4 and $1"), "`$x` is `$#`, `$y`#4 and $1");
    }

    #[test]
    fn places_lead_back_through_copies() {
        let file = SourceFile { name: "a".into(), text: "0123456789".into() };
        let mut origins = Origins::of(&file);
        let outer = origins.copy(Span::new(2, 6), ("m", Span::new(8, 9))).unwrap();
        let inner =
            origins.copy(Span::new(outer as usize, outer as usize + 4), ("n", Span::new(7, 8))).unwrap();
        let span = Span { start: inner + 1, end: inner + 3 };
        assert_eq!(origins.place(span), Span::new(3, 5));
        assert_eq!(origins.place(Span::new(1, 2)), Span::new(1, 2));
        // One that begins in the text and ends in a copy is where it begins.
        assert_eq!(origins.place(Span { start: 1, end: inner }), Span::new(1, 2));
    }
}
