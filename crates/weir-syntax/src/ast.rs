//! The syntax tree: what was written, with a span on every node, and nothing that is known only later.
//!
//! Names are not resolved, types not known, attach points split at their colons but not understood. Where the
//! text was faulty an `Invalid` node stands, so that the stages after it report the other faults too.

mod print;

use weir_source::Span;

pub use crate::ast::print::print;

/// A whole script.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Script {
    /// The C text before the probes, with blanks for all else, so that offsets are the script's; empty where there is none.
    pub c: String,
    pub config: Option<Config>,
    /// Files that are read with it, in quotes.
    pub imports: Vec<Name>,
    /// `macro` and `fn`: none once they are put in where they are called (weir-script).
    pub definitions: Vec<Definition>,
    /// `let @name = hash(100);`
    pub maps: Vec<MapDeclaration>,
    pub clauses: Vec<Clause>,
    /// The parser skipped something, so that a name without a definition may only seem to have none.
    pub incomplete: bool,
}

/// `config = { key = value; … }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    pub entries: Vec<ConfigEntry>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ConfigEntry {
    pub key: Name,
    pub value: Expr,
}

/// `macro name(…) { … }` or `fn name(…): type { … }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Definition {
    pub name: Name,
    pub kind: DefinitionKind,
    pub params: Vec<Parameter>,
    pub body: Block,
    /// The last expression, where no `;` ends it: of macros alone.
    pub value: Option<Box<Expr>>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum DefinitionKind {
    Macro,
    /// With the type that it returns, if one is written.
    Function(Option<TypeName>),
}

/// What is given where a macro or a function is called: `$x` a variable, `@x` a map, `x` an expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// With the `$` or `@`.
    pub name: Name,
    /// Of functions.
    pub ty: Option<TypeName>,
}

/// `let @name = kind(entries);`
#[derive(Clone, PartialEq, Debug)]
pub struct MapDeclaration {
    pub map: Name,
    pub kind: Name,
    /// None of a kind that has none.
    pub entries: Option<Expr>,
}

/// `probe, probe /predicate/ { … }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Clause {
    pub probes: Vec<Probe>,
    pub predicate: Option<Expr>,
    pub body: Block,
    pub span: Span,
}

/// One attach point: `uprobe:libc:malloc` has the parts `uprobe`, `libc` and `malloc`, quotes removed.
#[derive(Clone, PartialEq, Debug)]
pub struct Probe {
    /// Never empty.
    pub parts: Vec<Name>,
    pub span: Span,
}

/// A word and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    pub stmts: Vec<Stmt>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    Expr(Expr),
    /// `let $x: type = value`.
    Let {
        variable: Name,
        ty: Option<TypeName>,
        value: Option<Expr>,
    },
    /// `$x = value`, or `$x += value` with an operator.
    AssignVariable {
        variable: Name,
        op: Option<BinaryOp>,
        value: Expr,
    },
    AssignMap {
        map: MapRef,
        op: Option<BinaryOp>,
        value: Expr,
    },
    If {
        condition: Expr,
        then: Block,
        otherwise: Option<Block>,
        /// `if comptime`: the condition is a constant, and the block that it does not choose is not looked at.
        is_static: bool,
    },
    Block(Block),
    While {
        condition: Expr,
        body: Block,
    },
    /// `for ($variable : from..to)`: the end is not included.
    For {
        variable: Name,
        from: Expr,
        to: Expr,
        body: Block,
    },
    /// `for ($variable : @map)`.
    ForMap {
        variable: Name,
        map: Name,
        body: Block,
    },
    Unroll {
        count: Expr,
        body: Block,
    },
    Break,
    Continue,
    /// With what a function returns.
    Return(Option<Expr>),
    /// The parser has said what is wrong.
    Invalid,
}

/// `@name[key, …]`. `keys` is empty for `@name`.
#[derive(Clone, PartialEq, Debug)]
pub struct MapRef {
    /// With the `@`.
    pub name: Name,
    pub keys: Vec<Expr>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
    /// Levels of the tree from here down, this one included; the parser bounds it.
    pub height: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// A literal with its sign: `-1` is one.
    Int {
        magnitude: u64,
        negative: bool,
    },
    /// A fraction with its sign.
    Double(f64),
    Str(String),
    /// A word that is no call: a builtin, if it is known.
    Name(String),
    /// With the `$`.
    Variable(String),
    Map(MapRef),
    /// `$1`.
    Param(u32),
    /// `$#`.
    ParamCount,
    Unary {
        op: UnaryOp,
        operand: Box<Expr>,
    },
    /// `++` and `--`; the operand is a variable or a map.
    Step {
        target: Box<Expr>,
        increment: bool,
        prefix: bool,
    },
    Binary {
        op: BinaryOp,
        op_span: Span,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    Ternary {
        condition: Box<Expr>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    Cast {
        ty: TypeName,
        operand: Box<Expr>,
    },
    /// `(float)farg0`: the argument is a number of 4 bytes.
    Float(Box<Expr>),
    Call {
        function: Name,
        args: Vec<Expr>,
    },
    /// Without parts it is no value.
    Tuple(Vec<Expr>),
    /// `(name = value, …)`
    Record(Vec<(Name, Expr)>),
    /// `{ statements; value }`.
    Block {
        body: Block,
        value: Option<Box<Expr>>,
    },
    /// A function's body where it is called: `return` ends it with its value.
    Inlined {
        function: Name,
        /// So many of the first statements declare its parameters.
        params: usize,
        body: Block,
        result: Option<TypeName>,
    },
    /// `tuple.1`.
    Part {
        tuple: Box<Expr>,
        index: u64,
    },
    /// `args.name`.
    Field(String),
    /// `*pointer`.
    Deref(Box<Expr>),
    /// `record.name` and `pointer->name`, which mean the same.
    Member {
        of: Box<Expr>,
        name: Name,
    },
    /// `array[index]` and `pointer[index]`.
    Index {
        of: Box<Expr>,
        index: Box<Expr>,
    },
    /// `sizeof(struct request)`.
    SizeOfType(TypeName),
    /// `sizeof(value)`, which is not evaluated.
    SizeOfValue(Box<Expr>),
    /// `offsetof(struct request, uri.data)`.
    OffsetOf {
        ty: TypeName,
        path: Vec<Name>,
    },
    /// `typeinfo(type)`, and of a value.
    TypeInfo(TypeName),
    /// The parser has said what is wrong.
    Invalid,
}

/// A type as it is written: `struct request *`, `uint8[16]`.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeName {
    pub base: TypeBase,
    /// In the order of the text.
    pub suffixes: Vec<TypeSuffix>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum TypeBase {
    Int(IntType),
    /// C's own: `unsigned long`, with one blank between its words.
    Basic(String),
    /// With its keyword: `struct request`.
    Tag(String),
    /// Of a `typedef`.
    Name(String),
    /// `typeof(value)`, which is not evaluated.
    Of(Box<Expr>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeSuffix {
    /// `*`
    Pointer,
    /// `[16]`
    Array(u32),
}

/// `int8` … `uint64`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IntType {
    pub bits: u32,
    pub signed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    Negate,
    BitNot,
    Not,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    LogicalOr,
    LogicalAnd,
    BitOr,
    BitXor,
    BitAnd,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
}

/// One row per binary operator: how it is written and how tightly it binds (C's order). Lines up with the
/// table in docs/language.md.
pub const BINARY_OPS: &[(BinaryOp, &str, u8)] = &[
    (BinaryOp::LogicalOr, "||", 1),
    (BinaryOp::LogicalAnd, "&&", 2),
    (BinaryOp::BitOr, "|", 3),
    (BinaryOp::BitXor, "^", 4),
    (BinaryOp::BitAnd, "&", 5),
    (BinaryOp::Eq, "==", 6),
    (BinaryOp::Ne, "!=", 6),
    (BinaryOp::Lt, "<", 7),
    (BinaryOp::Le, "<=", 7),
    (BinaryOp::Gt, ">", 7),
    (BinaryOp::Ge, ">=", 7),
    (BinaryOp::Shl, "<<", 8),
    (BinaryOp::Shr, ">>", 8),
    (BinaryOp::Add, "+", 9),
    (BinaryOp::Sub, "-", 9),
    (BinaryOp::Mul, "*", 10),
    (BinaryOp::Div, "/", 10),
    (BinaryOp::Mod, "%", 10),
];

/// The operators that can be written before `=`.
pub const ASSIGN_OPS: &[(&str, BinaryOp)] = &[
    ("+=", BinaryOp::Add),
    ("-=", BinaryOp::Sub),
    ("*=", BinaryOp::Mul),
    ("/=", BinaryOp::Div),
    ("%=", BinaryOp::Mod),
    ("&=", BinaryOp::BitAnd),
    ("|=", BinaryOp::BitOr),
    ("^=", BinaryOp::BitXor),
    ("<<=", BinaryOp::Shl),
    (">>=", BinaryOp::Shr),
];

/// The integer types that a cast or a declaration may name.
pub const INT_TYPES: &[(&str, IntType)] = &[
    ("int8", IntType { bits: 8, signed: true }),
    ("int16", IntType { bits: 16, signed: true }),
    ("int32", IntType { bits: 32, signed: true }),
    ("int64", IntType { bits: 64, signed: true }),
    ("uint8", IntType { bits: 8, signed: false }),
    ("uint16", IntType { bits: 16, signed: false }),
    ("uint32", IntType { bits: 32, signed: false }),
    ("uint64", IntType { bits: 64, signed: false }),
];

impl BinaryOp {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        // SANITY: BINARY_OPS has a row for every operator; a test asks for each.
        BINARY_OPS
            .iter()
            .find(|(op, _, _)| *op == self)
            .map(|(_, symbol, _)| *symbol)
            .expect("operator has a row")
    }

    /// `== != < <= > >=`.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }

    /// `&`, `|` and `^`.
    pub fn is_bitwise(self) -> bool {
        matches!(self, BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor)
    }

    /// `&&` and `||`.
    pub fn is_logical(self) -> bool {
        matches!(self, BinaryOp::LogicalAnd | BinaryOp::LogicalOr)
    }
}

impl UnaryOp {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            UnaryOp::Negate => "-",
            UnaryOp::BitNot => "~",
            UnaryOp::Not => "!",
        }
    }
}

impl IntType {
    /// `uint32`.
    pub fn name(self) -> &'static str {
        // SANITY: only the rows of INT_TYPES are ever made.
        INT_TYPES.iter().find(|(_, ty)| *ty == self).map(|(name, _)| *name).expect("type has a row")
    }
}

impl TypeName {
    /// The integer type that it is, if it is one of weir's own names.
    pub fn int(&self) -> Option<IntType> {
        match self.base {
            TypeBase::Int(ty) if self.suffixes.is_empty() => Some(ty),
            _ => None,
        }
    }

    /// The value whose type it is.
    pub fn of(&self) -> Option<&Expr> {
        match &self.base {
            TypeBase::Of(value) => Some(value),
            _ => None,
        }
    }

    /// As it can be written, but for a value.
    pub fn text(&self) -> String {
        let mut text = match &self.base {
            TypeBase::Int(ty) => ty.name().to_string(),
            TypeBase::Basic(name) | TypeBase::Tag(name) | TypeBase::Name(name) => name.clone(),
            TypeBase::Of(_) => "typeof(…)".to_string(),
        };
        for suffix in &self.suffixes {
            match suffix {
                TypeSuffix::Pointer if text.ends_with('*') => text.push('*'),
                TypeSuffix::Pointer => text.push_str(" *"),
                TypeSuffix::Array(count) => text.push_str(&format!("[{count}]")),
            }
        }
        text
    }
}

impl Expr {
    /// A node over `kind`, with its height.
    pub fn new(kind: ExprKind, span: Span) -> Expr {
        let height = 1 + children(&kind).into_iter().map(|e| e.height).max().unwrap_or(0);
        Expr { kind, span, height }
    }

    /// It may be a text in memory.
    pub fn is_text_place(&self) -> bool {
        self.is_place() || matches!(self.kind, ExprKind::Field(_))
    }

    /// It lies in memory.
    pub fn is_place(&self) -> bool {
        matches!(self.kind, ExprKind::Deref(_) | ExprKind::Member { .. } | ExprKind::Index { .. })
    }
}

/// The expressions directly below.
pub fn children(kind: &ExprKind) -> Vec<&Expr> {
    match kind {
        ExprKind::Int { .. }
        | ExprKind::Double(_)
        | ExprKind::Str(_)
        | ExprKind::Name(_)
        | ExprKind::Variable(_)
        | ExprKind::Param(_)
        | ExprKind::ParamCount
        | ExprKind::Field(_)
        | ExprKind::Invalid => Vec::new(),
        ExprKind::SizeOfType(ty) | ExprKind::OffsetOf { ty, .. } | ExprKind::TypeInfo(ty) => {
            ty.of().into_iter().collect()
        }
        ExprKind::Cast { ty, operand } => ty.of().into_iter().chain([&**operand]).collect(),
        ExprKind::Map(map) => map.keys.iter().collect(),
        ExprKind::Unary { operand, .. }
        | ExprKind::Float(operand)
        | ExprKind::Deref(operand)
        | ExprKind::SizeOfValue(operand) => {
            vec![operand]
        }
        ExprKind::Member { of, .. } => vec![of],
        ExprKind::Index { of, index } => vec![of, index],
        ExprKind::Step { target, .. } => vec![target],
        ExprKind::Binary { left, right, .. } => vec![left, right],
        ExprKind::Ternary { condition, then, otherwise } => vec![condition, then, otherwise],
        ExprKind::Call { args, .. } => args.iter().collect(),
        ExprKind::Tuple(parts) => parts.iter().collect(),
        ExprKind::Record(parts) => parts.iter().map(|(_, part)| part).collect(),
        ExprKind::Block { body, value } => of_block(body).into_iter().chain(value.as_deref()).collect(),
        ExprKind::Inlined { body, .. } => of_block(body),
        ExprKind::Part { tuple, .. } => vec![tuple],
    }
}

/// The expressions of a block's statements, and of the blocks in it.
pub fn of_block(block: &Block) -> Vec<&Expr> {
    let mut found = Vec::new();
    for stmt in &block.stmts {
        match &stmt.kind {
            StmtKind::Expr(value)
            | StmtKind::AssignVariable { value, .. }
            | StmtKind::Return(Some(value)) => found.push(value),
            StmtKind::Let { ty, value, .. } => {
                found.extend(ty.iter().filter_map(TypeName::of));
                found.extend(value);
            }
            StmtKind::AssignMap { map, value, .. } => {
                found.extend(&map.keys);
                found.push(value);
            }
            StmtKind::If { condition, then, otherwise, .. } => {
                found.push(condition);
                found.extend(of_block(then));
                found.extend(otherwise.iter().flat_map(of_block));
            }
            StmtKind::While { condition: over, body } | StmtKind::Unroll { count: over, body } => {
                found.push(over);
                found.extend(of_block(body));
            }
            StmtKind::For { from, to, body, .. } => {
                found.extend([from, to]);
                found.extend(of_block(body));
            }
            StmtKind::Block(body) | StmtKind::ForMap { body, .. } => found.extend(of_block(body)),
            StmtKind::Return(None) | StmtKind::Break | StmtKind::Continue | StmtKind::Invalid => {}
        }
    }
    found
}
