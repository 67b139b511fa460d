//! Macros and functions, put in where they are called; scripts that are imported, put before the script.
//!
//! A call becomes a block of its own: parameters are replaced (a function's are variables that are assigned first), and the
//! names of other variables of the body become names that nothing else has. Each copy of a body has places of its own, behind the
//! end of the text, by which the later stages keep what they find out; [`Origins`] leads back from them.

mod find;
mod origin;

use std::collections::HashMap;
use std::rc::Rc;

use weir_ir::World;
use weir_source::{Diagnostic, SourceFile, Span};

use crate::ast::{
    Block, Clause, Definition, DefinitionKind, Expr, ExprKind, MapRef, Name, Parameter, Script, Stmt,
    StmtKind, TypeBase, TypeName, children,
};
use crate::limits;
use crate::syntax::parse;

pub(crate) use crate::expand::origin::Origins;

/// A script without definitions and imports.
pub(crate) struct Expanded {
    pub script: Script,
    /// Headers that it imports.
    pub headers: Vec<String>,
    pub origins: Origins,
    pub diagnostics: Vec<Diagnostic>,
}

/// Puts in what the script defines and imports.
pub(crate) fn expand(mut script: Script, file: &SourceFile, world: &dyn World) -> Expanded {
    let mut expander = Expander {
        origins: Origins::of(file),
        definitions: Vec::new(),
        headers: Vec::new(),
        imported: Vec::new(),
        diagnostics: Vec::new(),
        nodes: 0,
        has_given_up: false,
        depth: 0,
        copies: 0,
    };
    let mut clauses = Vec::new();
    let mut maps = Vec::new();
    // What is no file has a name such as `<-e>`.
    let from = Some(file.name.as_str()).filter(|name| !name.starts_with('<'));
    let imports = std::mem::take(&mut script.imports);
    if let Some(own) = from.filter(|_| !imports.is_empty()) {
        let name = own.rsplit('/').next().unwrap_or(own);
        expander.imported.extend(world.import(name, from).map(|(path, _)| path));
    }
    for import in imports {
        let read = expander.import(&import, from, world);
        maps.extend(read.maps);
        clauses.extend(read.clauses);
        script.incomplete |= read.incomplete;
    }
    expander.definitions.extend(std::mem::take(&mut script.definitions).into_iter().map(Rc::new));
    expander.refuse_doubles();
    clauses.append(&mut script.clauses);
    let frame = Frame::default();
    script.clauses = clauses.into_iter().map(|clause| expander.clause(&frame, clause)).collect();
    maps.append(&mut script.maps);
    script.maps = maps;
    script.incomplete |= !expander.diagnostics.is_empty();
    let Expander { headers, origins, diagnostics, .. } = expander;
    Expanded { script, headers, origins, diagnostics }
}

struct Expander {
    origins: Origins,
    definitions: Vec<Rc<Definition>>,
    headers: Vec<String>,
    /// Paths of what was imported.
    imported: Vec<String>,
    diagnostics: Vec<Diagnostic>,
    /// Nodes that were copied.
    nodes: usize,
    has_given_up: bool,
    /// Levels of what is being put in.
    depth: u32,
    /// Bodies that were put in.
    copies: u32,
}

/// What a body is copied with.
#[derive(Default)]
struct Frame {
    /// How far its places move.
    shift: u32,
    /// The number that makes its variables its own; 0 outside of bodies.
    copy: u32,
    /// A macro's: maps must be parameters.
    is_macro: bool,
    parameters: HashMap<String, Expr>,
    /// What is being put in, outermost first.
    around: Vec<String>,
}

impl Expander {
    fn import(&mut self, path: &Name, from: Option<&str>, world: &dyn World) -> Script {
        let nothing = Script { incomplete: true, ..Script::default() };
        let text = &path.text;
        if text.ends_with(".bpf.c") {
            let message = format!("not supported by weir yet: `import` of C programs: `{text}`");
            self.error(path.span, message, "scripts (`.bt`) and headers (`.h`) can be imported");
            return nothing;
        }
        if self.imported.len() == limits::IMPORTS_MAX {
            let message = format!("too many imports: the limit is {}", limits::IMPORTS_MAX);
            self.error(path.span, message, "put several files into one");
            return nothing;
        }
        let (found, text) = match world.import(text, from) {
            Ok(found) => found,
            Err(error) => {
                let diagnostic = Diagnostic::error(path.span, format!("cannot import: {}", error.message));
                let hint = error.hint.unwrap_or_else(|| "write the path of a script or a header".to_owned());
                self.push(diagnostic.with_hint(hint));
                return nothing;
            }
        };
        if found.ends_with(".h") {
            self.headers.push(found);
            return Script::default();
        }
        if self.imported.contains(&found) {
            return Script::default();
        }
        self.imported.push(found.clone());
        let file = SourceFile { name: found.clone(), text };
        let (mut script, faults) = parse(&file);
        let Some(shift) = self.origins.import(&file, path.span) else {
            self.too_much(path.span);
            return nothing;
        };
        self.diagnostics.extend(faults.into_iter().map(|fault| moved_diagnostic(fault, shift)));
        let misplaced = match (&script.config, script.c.is_empty()) {
            (Some(config), _) => {
                Some((config.span, "a `config` block in an imported script", "put it in the script itself"))
            }
            (None, false) => {
                Some((Span::new(0, 1), "C text in an imported script", "put it in a header, and import that"))
            }
            (None, true) => None,
        };
        if let Some((span, what, hint)) = misplaced {
            self.error(moved(span, shift), format!("not supported by weir yet: {what}"), hint);
        }
        let frame = Frame { shift, ..Frame::default() };
        let mut all = Script { incomplete: script.incomplete, ..Script::default() };
        for import in std::mem::take(&mut script.imports) {
            let import = Name { span: moved(import.span, shift), ..import };
            let read = self.import(&import, Some(&found), world);
            all.maps.extend(read.maps);
            all.clauses.extend(read.clauses);
            all.incomplete |= read.incomplete;
        }
        let before = std::mem::take(&mut self.definitions);
        let definitions: Vec<Rc<Definition>> =
            script.definitions.into_iter().map(|d| Rc::new(self.definition(&frame, d))).collect();
        let clauses: Vec<Clause> =
            script.clauses.into_iter().map(|clause| self.clause(&frame, clause)).collect();
        self.definitions = before;
        self.definitions.extend(definitions);
        all.clauses.extend(clauses);
        all.maps.extend(script.maps.into_iter().map(|mut declaration| {
            declaration.map.span = moved(declaration.map.span, shift);
            declaration.kind.span = moved(declaration.kind.span, shift);
            declaration.entries = declaration.entries.map(|entries| self.expr(&frame, entries));
            declaration
        }));
        all
    }

    /// With its places moved, its calls as they are.
    fn definition(&mut self, frame: &Frame, definition: Definition) -> Definition {
        let kind = match definition.kind {
            DefinitionKind::Function(Some(ty)) => DefinitionKind::Function(Some(self.type_name(frame, ty))),
            other => other,
        };
        let params: Vec<Parameter> = definition
            .params
            .into_iter()
            .map(|mut param| {
                param.name.span = moved(param.name.span, frame.shift);
                param.ty = param.ty.map(|ty| self.type_name(frame, ty));
                param
            })
            .collect();
        Definition {
            name: self.name(frame, definition.name),
            kind,
            params,
            body: self.block(frame, definition.body),
            value: definition.value.map(|value| Box::new(self.expr(frame, *value))),
            span: moved(definition.span, frame.shift),
        }
    }

    fn clause(&mut self, frame: &Frame, mut clause: Clause) -> Clause {
        for probe in &mut clause.probes {
            probe.span = moved(probe.span, frame.shift);
            probe.parts.iter_mut().for_each(|part| part.span = moved(part.span, frame.shift));
        }
        Clause {
            probes: clause.probes,
            predicate: clause.predicate.map(|predicate| self.expr(frame, predicate)),
            body: self.block(frame, clause.body),
            span: moved(clause.span, frame.shift),
        }
    }

    /// Definitions of which one would never be called, and parameters of one name.
    fn refuse_doubles(&mut self) {
        let kind = |name: &str| name.chars().next().filter(|first| matches!(first, '$' | '@'));
        let takes = |definition: &Definition| -> Vec<Option<char>> {
            let is_macro = definition.kind == DefinitionKind::Macro;
            let kind = |param: &Parameter| if is_macro { kind(&param.name.text) } else { None };
            definition.params.iter().map(kind).collect()
        };
        for (index, definition) in self.definitions.clone().iter().enumerate() {
            let name = &definition.name;
            let earlier = self.definitions[..index]
                .iter()
                .find(|earlier| earlier.name.text == name.text && takes(earlier) == takes(definition));
            if let Some(earlier) = earlier {
                let message = format!("`{}` is defined twice", name.text);
                let diagnostic =
                    Diagnostic::error(name.span, message).with_label(earlier.name.span, "defined here");
                self.push(diagnostic.with_hint("give one of them another name, or other parameters"));
            }
            for (at, param) in definition.params.iter().enumerate() {
                if definition.params[..at].iter().any(|other| other.name.text == param.name.text) {
                    let message = format!("`{}` is a parameter twice", param.name.text);
                    self.error(param.name.span, message, "give each a name of its own");
                }
            }
        }
        // What takes a variable or a map comes before what takes any expression.
        self.definitions.sort_by_key(|known| takes(known).iter().filter(|kind| kind.is_none()).count());
    }

    // Calls.

    /// What the call stands for; none where nothing of the name is defined.
    fn call(&mut self, frame: &Frame, name: &Name, args: &mut Vec<Expr>, span: Span) -> Option<Expr> {
        let candidates: Vec<Rc<Definition>> =
            self.definitions.iter().filter(|known| known.name.text == name.text).cloned().collect();
        let first = candidates.first()?.clone();
        let invalid = Expr::new(ExprKind::Invalid, span);
        let fitting = candidates.into_iter().find(|candidate| unfitting(candidate, args).is_none());
        let Some(definition) = fitting else {
            // SANITY: it is one of those that do not fit.
            let (at, message) = unfitting(&first, args).expect("it does not fit");
            let diagnostic = Diagnostic::error(at.unwrap_or(span), message);
            let diagnostic = diagnostic.with_label(first.name.span, "defined here");
            self.push(diagnostic.with_hint(format!("call it as `{}`", head(&first))));
            return Some(invalid);
        };
        if frame.around.contains(&name.text) || frame.around.len() == limits::EXPANSION_DEPTH_MAX {
            let message = match frame.around.contains(&name.text) {
                true => format!("`{}` calls itself", name.text),
                false => format!(
                    "calls of macros and functions are nested too deeply: the limit is {}",
                    limits::EXPANSION_DEPTH_MAX
                ),
            };
            self.error(
                span,
                message,
                "each call is put in where it stands, so that none may lead back to itself; use a loop",
            );
            return Some(invalid);
        }
        let length = definition.span.end - definition.span.start;
        let Some(base) = self.origins.copy(definition.span, (&name.text, span)) else {
            self.too_much(span);
            return Some(invalid);
        };
        self.copies += 1;
        let mut inner = Frame {
            shift: base.wrapping_sub(definition.span.start),
            copy: self.copies,
            is_macro: definition.kind == DefinitionKind::Macro,
            parameters: HashMap::new(),
            around: frame.around.iter().chain([&name.text]).cloned().collect(),
        };
        debug_assert!(base.checked_add(length).is_some());
        self.depth += 1;
        let kind = match &definition.kind {
            DefinitionKind::Macro => {
                for (param, arg) in definition.params.iter().zip(args.drain(..)) {
                    // A map that is an expression is its value.
                    let is_value =
                        !param.name.text.starts_with(['$', '@']) && matches!(arg.kind, ExprKind::Map(_));
                    let arg = if is_value { valued(arg) } else { arg };
                    inner.parameters.insert(param.name.text.clone(), arg);
                }
                let body = self.block(&inner, definition.body.clone());
                let value = definition.value.clone().map(|value| Box::new(self.expr(&inner, *value)));
                ExprKind::Block { body, value }
            }
            DefinitionKind::Function(result) => {
                let mut stmts = Vec::new();
                for (param, arg) in definition.params.iter().zip(args.drain(..)) {
                    let variable = self.variable_name(&inner, param.name.clone());
                    let ty = param.ty.clone().map(|ty| self.type_name(&inner, ty));
                    let kind = StmtKind::Let { variable, ty, value: Some(arg) };
                    stmts.push(Stmt { kind, span: moved(param.name.span, inner.shift) });
                }
                let params = stmts.len();
                let mut body = self.block(&inner, definition.body.clone());
                body.stmts.splice(0..0, stmts);
                let result = result.clone().map(|ty| self.type_name(&inner, ty));
                let function = Name { text: name.text.clone(), span: name.span };
                ExprKind::Inlined { function, params, body, result }
            }
        };
        self.depth -= 1;
        let expr = Expr::new(kind, span);
        if expr.height + self.depth > limits::NESTING_MAX {
            let message = format!("too deeply nested: the limit is {} levels", limits::NESTING_MAX);
            self.error(span, message, "use scratch variables for the parts");
            return Some(invalid);
        }
        Some(expr)
    }

    // Copies.

    fn block(&mut self, frame: &Frame, block: Block) -> Block {
        let stmts = block.stmts.into_iter().map(|stmt| self.stmt(frame, stmt)).collect();
        Block { stmts, span: moved(block.span, frame.shift) }
    }

    fn stmt(&mut self, frame: &Frame, stmt: Stmt) -> Stmt {
        let kind = match stmt.kind {
            StmtKind::Expr(expr) => StmtKind::Expr(self.expr(frame, expr)),
            StmtKind::Let { variable, ty, value } => StmtKind::Let {
                variable: self.variable_name(frame, variable),
                ty: ty.map(|ty| self.type_name(frame, ty)),
                value: value.map(|value| self.expr(frame, value)),
            },
            StmtKind::AssignVariable { variable, op, value } => StmtKind::AssignVariable {
                variable: self.variable_name(frame, variable),
                op,
                value: self.expr(frame, value),
            },
            StmtKind::AssignMap { map, op, value } => {
                StmtKind::AssignMap { map: self.map_ref(frame, map), op, value: self.expr(frame, value) }
            }
            StmtKind::If { condition, then, otherwise, is_static } => StmtKind::If {
                condition: self.expr(frame, condition),
                then: self.block(frame, then),
                otherwise: otherwise.map(|block| self.block(frame, block)),
                is_static,
            },
            StmtKind::Block(block) => StmtKind::Block(self.block(frame, block)),
            StmtKind::While { condition, body } => {
                StmtKind::While { condition: self.expr(frame, condition), body: self.block(frame, body) }
            }
            StmtKind::For { variable, from, to, body } => StmtKind::For {
                variable: self.variable_name(frame, variable),
                from: self.expr(frame, from),
                to: self.expr(frame, to),
                body: self.block(frame, body),
            },
            StmtKind::ForMap { variable, map, body } => StmtKind::ForMap {
                variable: self.variable_name(frame, variable),
                map: self.map_name(frame, map),
                body: self.block(frame, body),
            },
            StmtKind::Unroll { count, body } => {
                StmtKind::Unroll { count: self.expr(frame, count), body: self.block(frame, body) }
            }
            StmtKind::Return(value) => StmtKind::Return(value.map(|value| self.expr(frame, value))),
            StmtKind::Break => StmtKind::Break,
            StmtKind::Continue => StmtKind::Continue,
            StmtKind::Invalid => StmtKind::Invalid,
        };
        Stmt { kind, span: moved(stmt.span, frame.shift) }
    }

    fn expr(&mut self, frame: &Frame, expr: Expr) -> Expr {
        let span = moved(expr.span, frame.shift);
        // The script itself has bounds of its own.
        self.nodes += usize::from(frame.copy > 0 || frame.shift > 0);
        if self.nodes >= limits::EXPANSION_NODES_MAX {
            if !std::mem::replace(&mut self.has_given_up, true) {
                self.too_much(span);
            }
            return Expr::new(ExprKind::Invalid, span);
        }
        let kind = match expr.kind {
            ExprKind::Name(name) => {
                if let Some(given) = frame.parameters.get(&name) {
                    self.nodes += size(given, limits::EXPANSION_NODES_MAX);
                    return given.clone();
                }
                let is_macro =
                    |known: &Rc<Definition>| known.name.text == name && known.kind == DefinitionKind::Macro;
                if self.definitions.iter().any(is_macro) {
                    let name = Name { text: name, span };
                    if let Some(put) = self.call(frame, &name, &mut Vec::new(), span) {
                        return put;
                    }
                    ExprKind::Name(name.text)
                } else {
                    ExprKind::Name(name)
                }
            }
            ExprKind::Call { function, args } => {
                let mut args: Vec<Expr> = args.into_iter().map(|arg| self.expr(frame, arg)).collect();
                let function = self.name(frame, function);
                if let Some(put) = self.call(frame, &function, &mut args, span) {
                    return put;
                }
                match find::entry(&function, &args, span) {
                    Some(put) => return put,
                    None => ExprKind::Call { function, args },
                }
            }
            ExprKind::Variable(text) => {
                let name = self.variable_name(frame, Name { text, span: expr.span });
                ExprKind::Variable(name.text)
            }
            ExprKind::Map(map) => ExprKind::Map(self.map_ref(frame, map)),
            ExprKind::Unary { op, operand } => ExprKind::Unary { op, operand: self.boxed(frame, operand) },
            ExprKind::Step { target, increment, prefix } => {
                ExprKind::Step { target: self.boxed(frame, target), increment, prefix }
            }
            ExprKind::Binary { op, op_span, left, right } => ExprKind::Binary {
                op,
                op_span: moved(op_span, frame.shift),
                left: self.boxed(frame, left),
                right: self.boxed(frame, right),
            },
            ExprKind::Ternary { condition, then, otherwise } => ExprKind::Ternary {
                condition: self.boxed(frame, condition),
                then: self.boxed(frame, then),
                otherwise: self.boxed(frame, otherwise),
            },
            ExprKind::Cast { ty, operand } => {
                ExprKind::Cast { ty: self.type_name(frame, ty), operand: self.boxed(frame, operand) }
            }
            ExprKind::Float(operand) => ExprKind::Float(self.boxed(frame, operand)),
            ExprKind::Tuple(parts) => {
                ExprKind::Tuple(parts.into_iter().map(|part| self.expr(frame, part)).collect())
            }
            ExprKind::Record(parts) => {
                let part = |(name, value)| (self.name(frame, name), self.expr(frame, value));
                ExprKind::Record(parts.into_iter().map(part).collect())
            }
            ExprKind::Block { body, value } => ExprKind::Block {
                body: self.block(frame, body),
                value: value.map(|value| self.boxed(frame, value)),
            },
            ExprKind::Inlined { function, params, body, result } => ExprKind::Inlined {
                function: self.name(frame, function),
                params,
                body: self.block(frame, body),
                result: result.map(|ty| self.type_name(frame, ty)),
            },
            ExprKind::Part { tuple, index } => ExprKind::Part { tuple: self.boxed(frame, tuple), index },
            ExprKind::Deref(operand) => ExprKind::Deref(self.boxed(frame, operand)),
            ExprKind::Member { of, name } => {
                ExprKind::Member { of: self.boxed(frame, of), name: self.name(frame, name) }
            }
            ExprKind::Index { of, index } => {
                ExprKind::Index { of: self.boxed(frame, of), index: self.boxed(frame, index) }
            }
            ExprKind::SizeOfType(ty) => self.size_of(frame, ty),
            ExprKind::TypeInfo(ty) => ExprKind::TypeInfo(self.type_name(frame, ty)),
            ExprKind::SizeOfValue(operand) => ExprKind::SizeOfValue(self.boxed(frame, operand)),
            ExprKind::OffsetOf { ty, path } => ExprKind::OffsetOf {
                ty: self.type_name(frame, ty),
                path: path.into_iter().map(|name| self.name(frame, name)).collect(),
            },
            kind @ (ExprKind::Int { .. }
            | ExprKind::Double(_)
            | ExprKind::Str(_)
            | ExprKind::Param(_)
            | ExprKind::ParamCount
            | ExprKind::Field(_)
            | ExprKind::Invalid) => kind,
        };
        Expr::new(kind, span)
    }

    /// A name in `sizeof` may be a parameter.
    fn size_of(&mut self, frame: &Frame, ty: TypeName) -> ExprKind {
        match self.type_name(frame, ty) {
            TypeName { base: TypeBase::Of(value), suffixes, .. } if suffixes.is_empty() => {
                ExprKind::SizeOfValue(value)
            }
            ty => ExprKind::SizeOfType(ty),
        }
    }

    #[allow(clippy::boxed_local, reason = "nodes have boxes")]
    fn boxed(&mut self, frame: &Frame, expr: Box<Expr>) -> Box<Expr> {
        Box::new(self.expr(frame, *expr))
    }

    fn name(&self, frame: &Frame, name: Name) -> Name {
        Name { span: moved(name.span, frame.shift), ..name }
    }

    /// A name may be a parameter's: of a type that is given as `typeof(type)`, or of a value.
    fn type_name(&mut self, frame: &Frame, ty: TypeName) -> TypeName {
        let TypeName { base, suffixes, span } = ty;
        let span = moved(span, frame.shift);
        match base {
            TypeBase::Of(value) => TypeName { base: TypeBase::Of(self.boxed(frame, value)), suffixes, span },
            TypeBase::Name(name) => match frame.parameters.get(&name) {
                Some(Expr { kind: ExprKind::TypeInfo(given), .. }) => {
                    let suffixes = given.suffixes.iter().copied().chain(suffixes).collect();
                    TypeName { base: given.base.clone(), suffixes, span }
                }
                Some(given) => TypeName { base: TypeBase::Of(Box::new(given.clone())), suffixes, span },
                None => TypeName { base: TypeBase::Name(name), suffixes, span },
            },
            base => TypeName { base, suffixes, span },
        }
    }

    fn variable_name(&self, frame: &Frame, name: Name) -> Name {
        let span = moved(name.span, frame.shift);
        let text = match frame.parameters.get(&name.text).map(|given| &given.kind) {
            Some(ExprKind::Variable(given)) => given.clone(),
            _ if frame.copy == 0 => name.text,
            _ => origin::own_name(&name.text, frame.copy),
        };
        Name { text, span }
    }

    fn map_ref(&mut self, frame: &Frame, map: MapRef) -> MapRef {
        MapRef {
            name: self.map_name(frame, map.name),
            keys: map.keys.into_iter().map(|key| self.expr(frame, key)).collect(),
            span: moved(map.span, frame.shift),
        }
    }

    fn map_name(&mut self, frame: &Frame, name: Name) -> Name {
        let span = moved(name.span, frame.shift);
        match frame.parameters.get(&name.text).map(|given| &given.kind) {
            Some(ExprKind::Map(given)) => Name { text: given.name.text.clone(), span },
            _ => {
                if frame.is_macro {
                    let message = format!("`{}` is no parameter of the macro", name.text);
                    let hint = format!("give the map to it: `macro name({})`", name.text);
                    self.error(span, message, &hint);
                }
                Name { text: name.text, span }
            }
        }
    }

    // Faults.

    fn error(&mut self, span: Span, message: String, hint: &str) {
        self.push(Diagnostic::error(span, message).with_hint(hint));
    }

    fn push(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < limits::DIAGNOSTICS_GATHERED_MAX {
            self.diagnostics.push(diagnostic);
        }
    }

    fn too_much(&mut self, span: Span) {
        let message = format!(
            "macros and imports make the script too long: the limit is {} expressions",
            limits::EXPANSION_NODES_MAX
        );
        self.error(span, message, "use loops, and fewer macros within macros");
    }
}

/// `{ expr }`: its value alone.
fn valued(expr: Expr) -> Expr {
    let span = expr.span;
    let body = Block { stmts: Vec::new(), span };
    Expr::new(ExprKind::Block { body, value: Some(Box::new(expr)) }, span)
}

/// Why these arguments are not those of the definition, and which of them is not.
fn unfitting(definition: &Definition, args: &[Expr]) -> Option<(Option<Span>, String)> {
    let name = &definition.name.text;
    let (wanted, given) = (definition.params.len(), args.len());
    if wanted != given {
        let arguments = if wanted == 1 { "argument" } else { "arguments" };
        return Some((None, format!("`{name}` takes {wanted} {arguments}, not {given}")));
    }
    if definition.kind != DefinitionKind::Macro {
        return None;
    }
    definition.params.iter().zip(args).find_map(|(param, arg)| {
        let is_plain_map = matches!(&arg.kind, ExprKind::Map(map) if map.keys.is_empty());
        let wanted = match &param.name.text {
            name if name.starts_with('$') && !matches!(arg.kind, ExprKind::Variable(_)) => {
                "a scratch variable"
            }
            name if name.starts_with('@') && !is_plain_map => "a map",
            _ => return None,
        };
        let given = match &arg.kind {
            ExprKind::Invalid => return None,
            ExprKind::Variable(_) => "a scratch variable",
            ExprKind::Map(map) if map.keys.is_empty() => "a map",
            ExprKind::Map(_) => "an entry of a map",
            ExprKind::Int { .. } | ExprKind::Str(_) | ExprKind::Double(_) => "a literal",
            _ => "an expression",
        };
        Some((Some(arg.span), format!("`{name}` takes {wanted} as `{}`, not {given}", param.name.text)))
    })
}

/// `name($a, @b)`
fn head(definition: &Definition) -> String {
    let params: Vec<&str> = definition.params.iter().map(|param| param.name.text.as_str()).collect();
    format!("{}({})", definition.name.text, params.join(", "))
}

/// Nodes of an expression, or `most`, if there are more.
fn size(expr: &Expr, most: usize) -> usize {
    let mut total = 1;
    for child in children(&expr.kind) {
        if total >= most {
            break;
        }
        total += size(child, most - total);
    }
    total
}

fn moved(span: Span, shift: u32) -> Span {
    Span { start: span.start.wrapping_add(shift), end: span.end.wrapping_add(shift) }
}

fn moved_diagnostic(mut diagnostic: Diagnostic, shift: u32) -> Diagnostic {
    diagnostic.span = moved(diagnostic.span, shift);
    diagnostic.labels.iter_mut().for_each(|label| label.span = moved(label.span, shift));
    diagnostic
}
