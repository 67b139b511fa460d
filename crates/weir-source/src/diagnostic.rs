//! A fault in a user's text, and how it is shown: file:line:column, the line, a caret, a hint.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::{SourceFile, Span};

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// Nothing can be done with the text.
    Error,
    /// The text can be used; its author may have meant something else.
    Warning,
}

/// A second place worth showing, such as where a map was first used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// What is marked.
    pub span: Span,
    /// What is said of it there.
    pub text: String,
}

/// One fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Whether the text can be used.
    pub severity: Severity,
    /// The place that the message is about.
    pub span: Span,
    /// What is wrong: lower case, no final period, with what was given and what the limit is.
    pub message: String,
    /// Other places that belong to it.
    pub labels: Vec<Label>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// One that stops, without hint and labels.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            span,
            message: message.into(),
            labels: Vec::new(),
            hint: None,
        }
    }

    /// One that does not.
    pub fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// With what to write instead, or where to look.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// With another place marked.
    pub fn with_label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push(Label { span, text: text.into() });
        self
    }
}

/// The text shown to the user for `diagnostics`, in the order given. `color` adds terminal colours.
pub fn render(file: &SourceFile, diagnostics: &[Diagnostic], color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut out = String::new();
    for diagnostic in diagnostics {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let range = |span: Span| {
            let end = (span.end as usize).min(file.text.len());
            (span.start as usize).min(end)..end
        };
        let mut snippet = Snippet::source(&file.text)
            .path(&file.name)
            .annotation(AnnotationKind::Primary.span(range(diagnostic.span)));
        for label in &diagnostic.labels {
            snippet = snippet.annotation(AnnotationKind::Context.span(range(label.span)).label(&label.text));
        }
        let mut group = level.primary_title(&diagnostic.message).element(snippet);
        if let Some(hint) = &diagnostic.hint {
            group = group.element(Level::HELP.message(hint));
        }
        out.push_str(&renderer.render(&[group]));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_place_line_caret_and_hint() {
        let file = SourceFile { name: "<-e>".into(), text: "BEGIN { x }\n".into() };
        let fault = Diagnostic::error(Span::new(8, 9), "unknown name `x`").with_hint("maps start with `@`");
        let text = render(&file, &[fault], false);
        for part in ["unknown name `x`", "<-e>:1:9", "BEGIN { x }", "^", "maps start with `@`"] {
            assert!(text.contains(part), "{part} not in:\n{text}");
        }
    }
}
