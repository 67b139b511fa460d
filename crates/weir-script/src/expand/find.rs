//! `find(@map, key, $value)` → `{ let key = …; has_key(@map, key) ? { $value = @map[key]; true } : false }`, with a name for the key that no
//! text can have, so that it is evaluated once.

use weir_source::Span;

use crate::ast::{Block, Expr, ExprKind, MapRef, Name, Stmt, StmtKind};

/// The name of the key.
const KEY: &str = "$find key";

/// The entry, if the call is one of `find`, with arguments as it takes them. The check refuses others.
pub(super) fn entry(function: &Name, args: &[Expr], span: Span) -> Option<Expr> {
    let [map, key, value] = args else { return None };
    let (ExprKind::Map(of), ExprKind::Variable(into)) = (&map.kind, &value.kind) else { return None };
    if function.text != "find" || !of.keys.is_empty() {
        return None;
    }
    let name = |text: &str, span: Span| Name { text: text.to_owned(), span };
    let held = || Expr::new(ExprKind::Variable(KEY.to_owned()), key.span);
    let truth = |word: &str| Expr::new(ExprKind::Name(word.to_owned()), span);
    let stmt = |kind| Stmt { kind, span };
    let has_key =
        ExprKind::Call { function: name("has_key", function.span), args: vec![map.clone(), held()] };
    let entry = MapRef { keys: vec![held()], ..of.clone() };
    let assign = StmtKind::AssignVariable {
        variable: name(into, value.span),
        op: None,
        value: Expr::new(ExprKind::Map(entry), map.span),
    };
    let found = ExprKind::Block {
        body: Block { stmts: vec![stmt(assign)], span },
        value: Some(Box::new(truth("true"))),
    };
    let chosen = ExprKind::Ternary {
        condition: Box::new(Expr::new(has_key, span)),
        then: Box::new(Expr::new(found, span)),
        otherwise: Box::new(truth("false")),
    };
    let key_is = StmtKind::Let { variable: name(KEY, key.span), ty: None, value: Some(key.clone()) };
    let all = ExprKind::Block {
        body: Block { stmts: vec![stmt(key_is)], span },
        value: Some(Box::new(Expr::new(chosen, span))),
    };
    Some(Expr::new(all, span))
}
