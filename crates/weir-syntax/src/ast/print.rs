//! The text form of the tree, printed by `--emit ast`: one node a line, two blanks a level.
//!
//! Deterministic and complete but for spans: two scripts that print alike mean the same. Strings are quoted with
//! Rust's escapes. It is for reading and for tests, and is not parsed back (the script itself is the text that is).

use std::fmt::Write;

use crate::ast::{
    Block, Clause, Definition, DefinitionKind, Expr, ExprKind, MapDeclaration, MapRef, Name, Probe, Script,
    Stmt, StmtKind, TypeName,
};

/// The whole script, each line ended.
pub fn print(script: &Script) -> String {
    let mut printer = Printer { out: String::new(), level: 0 };
    printer.line("script");
    printer.below(|p| {
        if !script.c.is_empty() {
            p.line(&format!("c {:?}", script.c.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
        if let Some(config) = &script.config {
            p.line("config");
            p.below(|p| {
                for entry in &config.entries {
                    p.line(&format!("set {}", entry.key.text));
                    p.below(|p| p.expr(&entry.value));
                }
            });
        }
        script.imports.iter().for_each(|path| p.line(&format!("import {:?}", path.text)));
        script.maps.iter().for_each(|map| p.map_declaration(map));
        script.definitions.iter().for_each(|definition| p.definition(definition));
        script.clauses.iter().for_each(|clause| p.clause(clause));
    });
    printer.out
}

struct Printer {
    out: String,
    level: usize,
}

impl Printer {
    fn map_declaration(&mut self, declaration: &MapDeclaration) {
        self.line(&format!("declare {} {}", declaration.map.text, declaration.kind.text));
        self.below(|p| declaration.entries.iter().for_each(|entries| p.expr(entries)));
    }

    fn definition(&mut self, definition: &Definition) {
        let typed =
            |ty: &Option<TypeName>| ty.as_ref().map(|ty| format!(": {}", ty.text())).unwrap_or_default();
        let params: Vec<String> = definition
            .params
            .iter()
            .map(|param| format!("{}{}", param.name.text, typed(&param.ty)))
            .collect();
        let (word, result) = match &definition.kind {
            DefinitionKind::Macro => ("macro", String::new()),
            DefinitionKind::Function(result) => ("fn", typed(result)),
        };
        self.line(&format!("{word} {}({}){result}", definition.name.text, params.join(", ")));
        self.below(|p| p.with_value(&definition.body, definition.value.as_deref()));
    }

    /// A block, and the value that it ends in.
    fn with_value(&mut self, body: &Block, value: Option<&Expr>) {
        self.block("body", body);
        if let Some(value) = value {
            self.over("value", &[value]);
        }
    }

    fn clause(&mut self, clause: &Clause) {
        self.line("clause");
        self.below(|p| {
            clause.probes.iter().for_each(|probe| p.probe(probe));
            if let Some(predicate) = &clause.predicate {
                p.line("predicate");
                p.below(|p| p.expr(predicate));
            }
            p.block("body", &clause.body);
        });
    }

    fn probe(&mut self, probe: &Probe) {
        let parts: Vec<String> = probe.parts.iter().map(probe_part).collect();
        self.line(&format!("probe {}", parts.join(":")));
    }

    fn block(&mut self, title: &str, block: &Block) {
        self.line(title);
        self.below(|p| block.stmts.iter().for_each(|stmt| p.stmt(stmt)));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Expr(expr) => self.expr(expr),
            StmtKind::Let { variable, ty, value } => {
                let ty = ty.as_ref().map(|ty| format!(": {}", ty.text())).unwrap_or_default();
                self.line(&format!("let {}{ty}", variable_text(&variable.text)));
                self.below(|p| value.iter().for_each(|value| p.expr(value)));
            }
            StmtKind::AssignVariable { variable, op, value } => {
                self.line(&format!("{}=", op.map(|op| op.symbol()).unwrap_or_default()));
                self.below(|p| {
                    p.line(&format!("variable {}", variable.text));
                    p.expr(value);
                });
            }
            StmtKind::AssignMap { map, op, value } => {
                self.line(&format!("{}=", op.map(|op| op.symbol()).unwrap_or_default()));
                self.below(|p| {
                    p.map(map);
                    p.expr(value);
                });
            }
            StmtKind::If { condition, then, otherwise, is_static } => {
                self.line(if *is_static { "if comptime" } else { "if" });
                self.below(|p| {
                    p.expr(condition);
                    p.block("then", then);
                    if let Some(otherwise) = otherwise {
                        p.block("else", otherwise);
                    }
                });
            }
            StmtKind::Block(block) => self.block("block", block),
            StmtKind::While { condition, body } => self.loop_over("while", &[condition], body),
            StmtKind::For { variable, from, to, body } => {
                self.loop_over(&format!("for {}", variable.text), &[from, to], body);
            }
            StmtKind::ForMap { variable, map, body } => {
                self.loop_over(&format!("for {} of {}", variable.text, map.text), &[], body);
            }
            StmtKind::Unroll { count, body } => self.loop_over("unroll", &[count], body),
            StmtKind::Break => self.line("break"),
            StmtKind::Continue => self.line("continue"),
            StmtKind::Return(None) => self.line("return"),
            StmtKind::Return(Some(value)) => self.over("return", &[value]),
            StmtKind::Invalid => self.line("invalid"),
        }
    }

    fn loop_over(&mut self, title: &str, over: &[&Expr], body: &Block) {
        self.line(title);
        self.below(|p| {
            over.iter().for_each(|expr| p.expr(expr));
            p.block("body", body);
        });
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Int { magnitude, negative } => {
                self.line(&format!("int {}{magnitude}", if *negative { "-" } else { "" }));
            }
            ExprKind::Double(value) => self.line(&format!("double {value:?}")),
            ExprKind::Str(text) => self.line(&format!("string {text:?}")),
            ExprKind::Name(name) => self.line(&format!("builtin {name}")),
            ExprKind::Variable(name) => self.line(&format!("variable {}", variable_text(name))),
            ExprKind::Map(map) => self.map(map),
            ExprKind::Param(index) => self.line(&format!("param ${index}")),
            ExprKind::ParamCount => self.line("param $#"),
            ExprKind::Unary { op, operand } => self.over(op.symbol(), &[operand]),
            ExprKind::Step { target, increment, prefix } => {
                let symbol = if *increment { "++" } else { "--" };
                self.over(&format!("{symbol} {}", if *prefix { "before" } else { "after" }), &[target]);
            }
            ExprKind::Binary { op, left, right, .. } => self.over(op.symbol(), &[left, right]),
            ExprKind::Ternary { condition, then, otherwise } => {
                self.over("?:", &[condition, then, otherwise])
            }
            ExprKind::Float(operand) => self.over("float", &[operand]),
            ExprKind::Cast { ty, operand } => {
                let below: Vec<&Expr> = ty.of().into_iter().chain([&**operand]).collect();
                self.over(&format!("cast {}", ty.text()), &below);
            }
            ExprKind::Call { function, args } => {
                self.over(&format!("call {}", function.text), &args.iter().collect::<Vec<_>>());
            }
            ExprKind::Tuple(parts) => self.over("tuple", &parts.iter().collect::<Vec<_>>()),
            ExprKind::Record(parts) => {
                let names: Vec<&str> = parts.iter().map(|(name, _)| name.text.as_str()).collect();
                let values: Vec<&Expr> = parts.iter().map(|(_, value)| value).collect();
                self.over(&format!("record {}", names.join(" ")), &values);
            }
            ExprKind::Block { body, value } => {
                self.line("block");
                self.below(|p| p.with_value(body, value.as_deref()));
            }
            ExprKind::Inlined { function, body, .. } => {
                self.line(&format!("inlined {}", function.text));
                self.below(|p| p.block("body", body));
            }
            ExprKind::Part { tuple, index } => self.over(&format!("part {index}"), &[tuple]),
            ExprKind::Field(name) => self.line(&format!("field {name}")),
            ExprKind::Deref(operand) => self.over("dereference", &[operand]),
            ExprKind::Member { of, name } => self.over(&format!("member {}", name.text), &[of]),
            ExprKind::Index { of, index } => self.over("index", &[of, index]),
            ExprKind::SizeOfType(ty) => self.with_type("sizeof", ty, ""),
            ExprKind::TypeInfo(ty) => self.with_type("typeinfo", ty, ""),
            ExprKind::SizeOfValue(operand) => self.over("sizeof", &[operand]),
            ExprKind::OffsetOf { ty, path } => {
                let path: Vec<&str> = path.iter().map(|name| name.text.as_str()).collect();
                self.with_type("offsetof", ty, &format!(" {}", path.join(".")));
            }
            ExprKind::Invalid => self.line("invalid"),
        }
    }

    fn with_type(&mut self, title: &str, ty: &TypeName, rest: &str) {
        let below: Vec<&Expr> = ty.of().into_iter().collect();
        self.over(&format!("{title} {}{rest}", ty.text()), &below);
    }

    fn map(&mut self, map: &MapRef) {
        self.over(&format!("map {}", map.name.text), &map.keys.iter().collect::<Vec<_>>());
    }

    fn over(&mut self, title: &str, children: &[&Expr]) {
        self.line(title);
        self.below(|p| children.iter().for_each(|child| p.expr(child)));
    }

    fn line(&mut self, text: &str) {
        // SANITY: writing to a String cannot fail.
        writeln!(self.out, "{:1$}{text}", "", self.level * 2).expect("a String takes everything");
    }

    fn below(&mut self, print: impl FnOnce(&mut Printer)) {
        self.level += 1;
        print(self);
        self.level -= 1;
    }
}

/// The variable of `a ?: b` is named by its place, which is not printed.
fn variable_text(name: &str) -> &str {
    if name.starts_with("$?") { "$?" } else { name }
}

/// A part as it can be written: in quotes where it has a character that would end it.
fn probe_part(part: &Name) -> String {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, ',' | ':' | '{' | '"' | '\\');
    if !part.text.is_empty() && part.text.chars().all(plain) {
        part.text.clone()
    } else {
        format!("{:?}", part.text)
    }
}
