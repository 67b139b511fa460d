//! The tree as text: as a filter that reads back as the same tree, and one node a line.

use std::fmt::Write as _;

use crate::ast::{Ast, ClauseKind, Constant, Item, NodeId, NodeKind, Path, Pattern, StepKind};

/// A filter with parentheses around every operator; parsed again, it is the same tree but for spans.
pub fn text(ast: &Ast) -> String {
    let mut out = String::new();
    write(ast, ast.root(), &mut out);
    for clause in &ast.clauses {
        out.push(' ');
        out.push_str(&clause_text(&clause.kind));
    }
    out
}

/// One node a line, two blanks a level, as `weir filter explain` shows it.
pub fn tree(ast: &Ast) -> String {
    let mut out = String::new();
    for clause in &ast.clauses {
        out.push_str(&clause_text(&clause.kind));
        out.push('\n');
    }
    let mut left = vec![(ast.root(), 0)];
    while let Some((id, level)) = left.pop() {
        let (title, below) = match &ast.node(id).kind {
            NodeKind::Unary(op, operand) => (op.symbol().to_owned(), vec![*operand]),
            NodeKind::Binary(op, a, b) => (op.symbol().to_owned(), vec![*b, *a]),
            NodeKind::In(operand, items) => (format!("in {}", list_text(items)), vec![*operand]),
            leaf => (leaf_text(leaf), Vec::new()),
        };
        // SANITY: writing to a String cannot fail.
        writeln!(out, "{:1$}{title}", "", level * 2).expect("a String takes everything");
        left.extend(below.into_iter().map(|id| (id, level + 1)));
    }
    out
}

fn write(ast: &Ast, id: NodeId, out: &mut String) {
    match &ast.node(id).kind {
        NodeKind::Unary(op, operand) => {
            out.push_str(op.symbol());
            out.push('(');
            write(ast, *operand, out);
            out.push(')');
        }
        NodeKind::Binary(op, a, b) => {
            out.push('(');
            write(ast, *a, out);
            let _ = write!(out, " {} ", op.symbol());
            write(ast, *b, out);
            out.push(')');
        }
        NodeKind::In(operand, items) => {
            out.push('(');
            write(ast, *operand, out);
            let _ = write!(out, " in {})", list_text(items));
        }
        leaf => out.push_str(&leaf_text(leaf)),
    }
}

fn leaf_text(leaf: &NodeKind) -> String {
    match leaf {
        NodeKind::Int(value) => value.to_string(),
        NodeKind::Float(value) => float_text(*value),
        NodeKind::Str(pattern) => quoted(pattern),
        NodeKind::Regex(text) => quoted_regex(text),
        NodeKind::Field(path) => path_text(path),
        NodeKind::Context(name) => format!("$ctx.{name}"),
        NodeKind::Unary(..) | NodeKind::Binary(..) | NodeKind::In(..) => {
            unreachable!("an operator is no leaf")
        }
    }
}

/// As messages name a field too.
pub(crate) fn path_text(path: &Path) -> String {
    let mut text = path.name.clone();
    for step in &path.steps {
        // SANITY: writing to a String cannot fail.
        match &step.kind {
            StepKind::Member(name) => write!(text, ".{name}"),
            StepKind::Index(index) => write!(text, "[{index}]"),
        }
        .expect("a String takes everything");
    }
    text
}

/// The shortest text that is read as this number; beyond the largest number for what is infinite.
fn float_text(value: f64) -> String {
    if value.is_infinite() { "1e999".to_owned() } else { format!("{value:?}") }
}

fn list_text(items: &[Item]) -> String {
    let items: Vec<String> = items.iter().map(item_text).collect();
    format!("({})", items.join(", "))
}

pub(crate) fn item_text(item: &Item) -> String {
    match &item.to {
        None => constant_text(&item.from),
        Some(to) => format!("{}..{}", constant_text(&item.from), constant_text(to)),
    }
}

fn constant_text(constant: &Constant) -> String {
    match constant {
        Constant::Int(value) => value.to_string(),
        Constant::Float(value) if value.is_sign_negative() => format!("-{}", float_text(-value)),
        Constant::Float(value) => float_text(*value),
        Constant::Str(pattern) => quoted(pattern),
    }
}

fn clause_text(clause: &ClauseKind) -> String {
    match clause {
        ClauseKind::Sample { kept, of } => format!("sample {kept}/{of}"),
        ClauseKind::Rate { count, unit } => format!("rate {count}/{}", unit.name()),
    }
}

/// In quotes that it does not contain; of one with both kinds, the double ones as `\x22`, which means the same.
fn quoted_regex(text: &str) -> String {
    match (text.contains('"'), text.contains('\'')) {
        (false, _) => return format!("\"{text}\""),
        (true, false) => return format!("'{text}'"),
        (true, true) => {}
    }
    let (mut body, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('"', _) | ('\\', Some('"')) => body.push_str("\\x22"),
            (c, escaped) => body.extend([Some(c), escaped].into_iter().flatten()),
        }
    }
    format!("\"{body}\"")
}

/// In the quotes that it does not contain; no string contains both.
fn quoted(pattern: &Pattern) -> String {
    let escape = |piece: &String| piece.replace('\\', "\\\\").replace('*', "\\*");
    let body = pattern.pieces.iter().map(escape).collect::<Vec<_>>().join("*");
    let quote = if body.contains('"') { '\'' } else { '"' };
    format!("{quote}{body}{quote}")
}
