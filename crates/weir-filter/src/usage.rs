//! Which fields a filter names, before anything is known of the event: whoever makes the event's schema may ask what of it is
//! wanted, and which addresses of unknown meaning are to be strings.

use weir_source::Span;

use crate::ast::{Ast, Constant, Item, NodeId, NodeKind};

/// A field that is named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldUse {
    /// As the filter writes it, with its steps.
    pub name: String,
    /// Where it stands in the text.
    pub span: Span,
    /// It is compared with a string.
    pub is_text: bool,
}

/// Every mention of a field, in the order of the text.
pub fn fields(ast: &Ast) -> Vec<FieldUse> {
    let mut is_text = vec![false; ast.nodes.len()];
    let is_string = |id: NodeId| matches!(ast.node(id).kind, NodeKind::Str(_) | NodeKind::Regex(_));
    for node in &ast.nodes {
        match &node.kind {
            NodeKind::Binary(op, left, right) if op.is_comparison() || op.is_match() => {
                is_text[left.0 as usize] |= is_string(*right);
                is_text[right.0 as usize] |= is_string(*left);
            }
            NodeKind::In(value, items) => {
                let has_string = |item: &Item| matches!(item.from, Constant::Str(_));
                is_text[value.0 as usize] |= items.iter().any(has_string);
            }
            _ => {}
        }
    }
    let mut found: Vec<FieldUse> = Vec::new();
    for (node, is_text) in ast.nodes.iter().zip(is_text) {
        if let NodeKind::Field(path) = &node.kind {
            let is_text = is_text && path.steps.is_empty();
            found.push(FieldUse { name: path.name.clone(), span: node.span, is_text });
        }
    }
    found.sort_by_key(|field| field.span.start);
    found
}

/// Where it asks for something of the moment at which it is evaluated: a sample, a rate, a context by `$ctx`.
pub fn of_the_moment(ast: &Ast) -> Option<Span> {
    let context = ast.nodes.iter().find(|node| matches!(node.kind, NodeKind::Context(_)));
    context.map(|node| node.span).or_else(|| Some(ast.clauses.first()?.span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, bool)]) {
        let ast = crate::parse(text).unwrap_or_else(|fault| panic!("{text}: {}", fault.message));
        let found: Vec<(String, bool)> = fields(&ast).into_iter().map(|f| (f.name, f.is_text)).collect();
        let expected: Vec<(String, bool)> = expected.iter().map(|(n, t)| ((*n).to_owned(), *t)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn what_is_compared_with_a_string_is_text() {
        check("a > 1 && b == \"x*\" || !('y' != c)", &[("a", false), ("b", true), ("c", true)]);
        check("a == b && b", &[("a", false), ("b", false), ("b", false)]);
        check("a =~ \"x.*\" && b in (\"x\", \"y\")", &[("a", true), ("b", true)]);
        check("1", &[]);
    }
}
