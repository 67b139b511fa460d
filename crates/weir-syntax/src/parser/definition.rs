//! What stands outside of clauses: `macro`, `fn`, `import`, and declarations of maps.

use weir_source::Span;

use crate::ast::{
    Block, Definition, DefinitionKind, Expr, ExprKind, MapDeclaration, Name, Parameter, Script, Stmt,
    StmtKind,
};
use crate::parser::Parser;
use crate::parser::role::Role;
use crate::token::TokenKind;

impl Parser<'_> {
    /// Reads a definition, if one stands here.
    pub(super) fn definition(&mut self, script: &mut Script) -> bool {
        match self.keyword_ahead() {
            "macro" => script.definitions.extend(self.macro_or_function(true)),
            "fn" | "subprog" => script.definitions.extend(self.macro_or_function(false)),
            "import" => script.imports.extend(self.import()),
            "let" => script.maps.extend(self.map_declaration()),
            _ => return false,
        }
        if self.recovering {
            self.skip_past_block();
        }
        true
    }

    fn macro_or_function(&mut self, is_macro: bool) -> Option<Definition> {
        const HINT: &str = "write `macro name($variable, @map, expression) { … }`";
        let start = self.bump().span;
        let name = self.name_of(HINT)?;
        let mut params = Vec::new();
        let has_bracket = self.expect("(", "after the name");
        while has_bracket && !self.recovering && !self.peek().is(")") {
            params.extend(self.parameter(is_macro));
            if !self.peek().is(")") && !self.expect(",", "between the parameters") {
                break;
            }
        }
        if self.recovering || !self.expect(")", "after the parameters") {
            return None;
        }
        let kind = match is_macro {
            true => DefinitionKind::Macro,
            false if self.eat(":") => DefinitionKind::Function(Some(self.type_name()?)),
            false => DefinitionKind::Function(None),
        };
        if !self.peek().is("{") {
            self.expect("{", "after the head of the definition");
            return None;
        }
        let (body, value) = if is_macro { self.valued_block() } else { (self.block(), None) };
        let span = start.to(body.span);
        Some(Definition { name, kind, params, body, value, span })
    }

    /// A block whose last statement may be a value: an expression that no `;` ends. The next token is its `{`.
    pub(super) fn valued_block(&mut self) -> (Block, Option<Box<Expr>>) {
        self.ends_in_value = false;
        let open = self.peek_span();
        let mut body = self.block();
        self.roles.set(open.start as usize, Role::ValueBlock);
        let value = if self.ends_in_value { self.last_value(&mut body) } else { None };
        (body, value.filter(|value| value.kind != ExprKind::Invalid).map(Box::new))
    }

    /// Takes the expression out with which a block ends, or the block within it that ends so.
    fn last_value(&mut self, body: &mut Block) -> Option<Expr> {
        let Stmt { kind, span } = body.stmts.pop()?;
        match kind {
            StmtKind::Expr(value) => return Some(value),
            StmtKind::Block(mut inner) => {
                if let Some(value) = self.last_value(&mut inner) {
                    self.roles.set(inner.span.start as usize, Role::ValueBlock);
                    let value = Some(Box::new(value));
                    return Some(Expr::new(ExprKind::Block { body: inner, value }, span));
                }
                body.stmts.push(Stmt { kind: StmtKind::Block(inner), span });
            }
            kind => body.stmts.push(Stmt { kind, span }),
        }
        None
    }

    fn parameter(&mut self, is_macro: bool) -> Option<Parameter> {
        let token = self.bump();
        let name = Name { text: self.text_of(token.span), span: token.span };
        let fits = match token.kind {
            TokenKind::Variable => true,
            TokenKind::Ident | TokenKind::Map => is_macro,
            _ => false,
        };
        if !fits {
            let hint = match is_macro {
                true => {
                    "parameters of macros are `$variable`, `@map` or a name that stands for an expression"
                }
                false => "parameters of functions are `$name: type`",
            };
            self.fault(token.span, &format!("`{}` is no parameter", name.text), hint);
            return None;
        }
        let ty = if !is_macro && self.eat(":") { Some(self.type_name()?) } else { None };
        Some(Parameter { name, ty })
    }

    fn import(&mut self) -> Option<Name> {
        self.bump();
        let token = self.bump();
        let TokenKind::Str(text) = token.kind else {
            self.fault(token.span, "expected a path in quotes after `import`", "write `import \"lib.bt\";`");
            return None;
        };
        self.expect(";", "after the path");
        Some(Name { text, span: token.span })
    }

    fn map_declaration(&mut self) -> Option<MapDeclaration> {
        const HINT: &str = "write `let @name = hash(100);`";
        self.bump();
        let token = self.bump();
        if token.kind != TokenKind::Map {
            self.fault(token.span, "expected a map after `let`, outside of clauses", HINT);
            return None;
        }
        let map = Name { text: self.text_of(token.span), span: token.span };
        if !self.expect("=", "after the map") {
            return None;
        }
        let kind = self.name_of(HINT)?;
        if !self.expect("(", "after the kind of map") {
            return None;
        }
        let entries = if self.peek().is(")") { None } else { Some(self.expr()) };
        if self.recovering || !self.expect(")", "after the number of entries") {
            return None;
        }
        self.expect(";", "after the declaration");
        Some(MapDeclaration { map, kind, entries })
    }

    fn name_of(&mut self, hint: &str) -> Option<Name> {
        let span: Span = self.peek_span();
        if *self.peek() != TokenKind::Ident {
            let found = self.found();
            self.fault(span, &format!("expected a name, found {found}"), hint);
            return None;
        }
        self.bump();
        Some(Name { text: self.text_of(span), span })
    }
}
