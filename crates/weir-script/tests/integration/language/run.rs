//! What lowered programs do: random programs run as IR (before and after the passes), and as an evaluator of the language says they should.
//!
//! The evaluator here works on the program as it was made up, not on the tree or the IR, so that a fault of parser,
//! precedence, signs, scopes, short circuits or block parameters shows as another output.

use std::collections::HashMap;
use std::time::Duration;

use testkit::random::{Cases, Daily};
use weir_event::Action;
use weir_ir::{BinOp, BlockId, Builtin, CmpOp, Function, Module, Op, Terminator, Value};

use crate::language::compile;
use crate::language::soup::Random;

const VARIABLES: [&str; 3] = ["$a", "$b", "$c"];

enum Expr {
    Int(i64),
    Variable(usize),
    Step { variable: usize, increment: bool, prefix: bool },
    StepMap { increment: bool, prefix: bool },
    Map,
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
}

enum Stmt {
    Assign(usize, &'static str, Expr),
    Add(Expr),
    Print(Expr),
    If(Expr, Vec<Stmt>, Option<Vec<Stmt>>),
    /// A block with a variable of its own, which is printed at its end. Inner ones have other names: by depth.
    Inner(usize, Expr, Vec<Stmt>),
    /// Its variable is printed at the beginning of each round.
    For(usize, i64, i64, Vec<Stmt>),
    /// At most so many rounds, while the expression is not 0.
    While(usize, i64, Expr, Vec<Stmt>),
    Unroll(i64, Vec<Stmt>),
    Break,
    Continue,
    Return,
    Exit,
}

const OPS: &[&str] = &[
    "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "&&",
    "||",
];

fn make_expr(random: &mut Random, depth: usize) -> Expr {
    let more = |random: &mut Random| Box::new(make_expr(random, depth - 1));
    match random.below(if depth == 0 { 5 } else { 12 }) {
        0 => Expr::Int([0, 1, -1, 2, 7, 63, i64::MAX, i64::MIN][random.below(8)]),
        1 | 2 => Expr::Variable(random.below(3)),
        3 => {
            let (increment, prefix) = (random.below(2) == 0, random.below(2) == 0);
            match random.below(2) {
                0 => Expr::Step { variable: random.below(3), increment, prefix },
                _ => Expr::StepMap { increment, prefix },
            }
        }
        4 => Expr::Map,
        5 => Expr::Unary(["-", "!", "~", "(int32)", "(int8)"][random.below(5)], more(random)),
        6 => Expr::Ternary(more(random), more(random), more(random)),
        _ => Expr::Binary(OPS[random.below(OPS.len())], more(random), more(random)),
    }
}

fn make_block(random: &mut Random, depth: usize, in_loop: bool) -> Vec<Stmt> {
    (0..1 + random.below(4)).map(|_| make_stmt(random, depth, in_loop)).collect()
}

fn make_stmt(random: &mut Random, depth: usize, in_loop: bool) -> Stmt {
    match random.below(if depth == 0 { 9 } else { 19 }) {
        0..=3 => {
            let op =
                ["=", "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="][random.below(12)];
            Stmt::Assign(random.below(3), op, make_expr(random, 3))
        }
        4 => Stmt::Add(make_expr(random, 2)),
        5..=7 => Stmt::Print(make_expr(random, 3)),
        8 => match random.below(8) {
            0 => Stmt::Return,
            1 => Stmt::Exit,
            2 | 3 if in_loop => Stmt::Break,
            4 | 5 if in_loop => Stmt::Continue,
            _ => Stmt::Print(make_expr(random, 1)),
        },
        9 | 10 => Stmt::Inner(depth, make_expr(random, 2), make_block(random, depth - 1, in_loop)),
        11 => {
            let from = random.below(4) as i64 - 2;
            Stmt::For(depth, from, from + random.below(4) as i64 - 1, make_block(random, depth - 1, true))
        }
        12 => {
            let rounds = random.below(4) as i64;
            Stmt::While(depth, rounds, make_expr(random, 2), make_block(random, depth - 1, true))
        }
        13 => Stmt::Unroll(1 + random.below(3) as i64, make_block(random, depth - 1, true)),
        _ => {
            let otherwise = (random.below(2) == 0).then(|| make_block(random, depth - 1, in_loop));
            Stmt::If(make_expr(random, 3), make_block(random, depth - 1, in_loop), otherwise)
        }
    }
}

// As text.

fn expr_text(expr: &Expr, out: &mut String) {
    let step = |name: &str, increment: bool, prefix: bool| {
        let symbol = if increment { "++" } else { "--" };
        if prefix { format!("{symbol}{name}") } else { format!("{name}{symbol}") }
    };
    match expr {
        Expr::Int(value) => out.push_str(&format!("{value}")),
        Expr::Variable(variable) => out.push_str(VARIABLES[*variable]),
        Expr::Step { variable, increment, prefix } => {
            out.push_str(&step(VARIABLES[*variable], *increment, *prefix))
        }
        Expr::StepMap { increment, prefix } => out.push_str(&step("@m", *increment, *prefix)),
        Expr::Map => out.push_str("@m"),
        Expr::Unary(op, operand) => bracketed(&[op, " "], &[operand], out),
        Expr::Binary(op, left, right) => bracketed(&["", op], &[left, right], out),
        Expr::Ternary(a, b, c) => bracketed(&["", "?", ":"], &[a, b, c], out),
    }
}

fn bracketed(between: &[&str], operands: &[&Expr], out: &mut String) {
    out.push('(');
    for (symbol, operand) in between.iter().zip(operands) {
        out.push_str(symbol);
        out.push(' ');
        expr_text(operand, out);
        out.push(' ');
    }
    out.push(')');
}

fn block_text(block: &[Stmt], out: &mut String) {
    for stmt in block {
        match stmt {
            Stmt::Assign(variable, op, value) => {
                out.push_str(&format!("{} {op} ", VARIABLES[*variable]));
                expr_text(value, out);
            }
            Stmt::Add(value) => {
                out.push_str("@m += ");
                expr_text(value, out);
            }
            Stmt::Print(value) => {
                out.push_str("print((");
                expr_text(value, out);
                out.push_str(", 0))");
            }
            Stmt::If(condition, then, otherwise) => {
                out.push_str("if (");
                expr_text(condition, out);
                out.push_str(") {\n");
                block_text(then, out);
                out.push('}');
                if let Some(otherwise) = otherwise {
                    out.push_str(" else {\n");
                    block_text(otherwise, out);
                    out.push('}');
                }
            }
            Stmt::Inner(depth, value, block) => {
                out.push_str(&format!("{{ let $inner{depth} = "));
                expr_text(value, out);
                out.push_str(";\n");
                block_text(block, out);
                out.push_str(&format!("print(($inner{depth}, 0)) }}"));
            }
            Stmt::For(depth, from, to, block) => {
                out.push_str(&format!("for ($i{depth} : {from}..{to}) {{\nprint(($i{depth}, 0));\n"));
                block_text(block, out);
                out.push('}');
            }
            Stmt::While(depth, rounds, condition, block) => {
                out.push_str(&format!("{{ let $w{depth} = {rounds}; while ($w{depth}-- > 0 && "));
                expr_text(condition, out);
                out.push_str(") {\n");
                block_text(block, out);
                out.push_str("} }");
            }
            Stmt::Unroll(rounds, block) => {
                out.push_str(&format!("unroll({rounds}) {{\n"));
                block_text(block, out);
                out.push('}');
            }
            Stmt::Break => out.push_str("break"),
            Stmt::Continue => out.push_str("continue"),
            Stmt::Return => out.push_str("return"),
            Stmt::Exit => out.push_str("exit()"),
        }
        out.push_str(";\n");
    }
}

// As the language says.

#[derive(Default)]
pub(crate) struct State {
    variables: [i64; 3],
    map: i64,
    pub(crate) printed: Vec<i64>,
}

/// Where a statement leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
    Ended,
}

fn run_block(block: &[Stmt], state: &mut State) -> Flow {
    block.iter().map(|stmt| run_stmt(stmt, state)).find(|flow| *flow != Flow::On).unwrap_or(Flow::On)
}

/// One round of a loop after the other, as long as `asks` says that there is one.
fn run_loop(block: &[Stmt], state: &mut State, asks: &mut dyn FnMut(&mut State) -> bool) -> Flow {
    while asks(state) {
        match run_block(block, state) {
            Flow::On | Flow::Continue => {}
            Flow::Break => break,
            Flow::Ended => return Flow::Ended,
        }
    }
    Flow::On
}

fn run_stmt(stmt: &Stmt, state: &mut State) -> Flow {
    match stmt {
        Stmt::Assign(variable, op, value) => {
            let old = state.variables[*variable];
            let value = eval(value, state);
            state.variables[*variable] =
                if *op == "=" { value } else { arithmetic(op.trim_end_matches('='), old, value) };
        }
        Stmt::Add(value) => {
            let value = eval(value, state);
            state.map = state.map.wrapping_add(value);
        }
        Stmt::Print(value) => {
            let value = eval(value, state);
            state.printed.push(value);
        }
        Stmt::If(condition, then, otherwise) => {
            if eval(condition, state) != 0 {
                return run_block(then, state);
            }
            return otherwise.as_ref().map_or(Flow::On, |otherwise| run_block(otherwise, state));
        }
        Stmt::Inner(_, value, block) => {
            let value = eval(value, state);
            let flow = run_block(block, state);
            if flow != Flow::On {
                return flow;
            }
            state.printed.push(value);
        }
        Stmt::For(_, from, to, block) => {
            let mut next = *from;
            return run_loop(block, state, &mut |state| {
                let is_before = next < *to;
                state.printed.extend(is_before.then_some(next));
                next += 1;
                is_before
            });
        }
        Stmt::While(_, rounds, condition, block) => {
            let mut left = *rounds;
            return run_loop(block, state, &mut |state| {
                left -= 1;
                left >= 0 && eval(condition, state) != 0
            });
        }
        Stmt::Unroll(rounds, block) => {
            let mut left = *rounds;
            return run_loop(block, state, &mut |_| {
                left -= 1;
                left >= 0
            });
        }
        Stmt::Break => return Flow::Break,
        Stmt::Continue => return Flow::Continue,
        Stmt::Return | Stmt::Exit => return Flow::Ended,
    }
    Flow::On
}

fn eval(expr: &Expr, state: &mut State) -> i64 {
    fn step(place: &mut i64, increment: bool, prefix: bool) -> i64 {
        let old = *place;
        *place = old.wrapping_add(if increment { 1 } else { -1 });
        if prefix { *place } else { old }
    }
    match expr {
        Expr::Int(value) => *value,
        Expr::Variable(variable) => state.variables[*variable],
        Expr::Step { variable, increment, prefix } => {
            step(&mut state.variables[*variable], *increment, *prefix)
        }
        Expr::StepMap { increment, prefix } => step(&mut state.map, *increment, *prefix),
        Expr::Map => state.map,
        Expr::Unary(op, operand) => {
            let value = eval(operand, state);
            match *op {
                "-" => value.wrapping_neg(),
                "!" => i64::from(value == 0),
                "~" => !value,
                "(int32)" => i64::from(value as i32),
                _ => i64::from(value as i8),
            }
        }
        Expr::Binary("&&", left, right) => i64::from(eval(left, state) != 0 && eval(right, state) != 0),
        Expr::Binary("||", left, right) => i64::from(eval(left, state) != 0 || eval(right, state) != 0),
        Expr::Binary(op, left, right) => {
            let left = eval(left, state);
            let right = eval(right, state);
            arithmetic(op, left, right)
        }
        Expr::Ternary(a, b, c) => {
            if eval(a, state) != 0 {
                eval(b, state)
            } else {
                eval(c, state)
            }
        }
    }
}

/// Signed, as every value of these programs is.
fn arithmetic(op: &str, a: i64, b: i64) -> i64 {
    match op {
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" if b == 0 => 0,
        "/" => a.wrapping_div(b),
        "%" if b == 0 => a,
        "%" => a.wrapping_rem(b),
        "&" => a & b,
        "|" => a | b,
        "^" => a ^ b,
        "<<" => a.wrapping_shl(b as u32),
        ">>" => (a as u64).wrapping_shr(b as u32) as i64,
        "==" => i64::from(a == b),
        "!=" => i64::from(a != b),
        "<" => i64::from(a < b),
        "<=" => i64::from(a <= b),
        ">" => i64::from(a > b),
        _ => i64::from(a >= b),
    }
}

// As IR.

/// Runs the function on these arguments; the programs have one map and print pairs.
pub(crate) fn run_ir(module: &Module, function: &Function, args: &[i64], state: &mut State) {
    let mut values: HashMap<Value, i64> = HashMap::new();
    let mut at = BlockId(0);
    loop {
        let block = &function.blocks[at.0 as usize];
        for inst in &block.insts {
            let get = |value: &Value| values[value];
            let result = match &inst.op {
                Op::Int(value) => *value,
                Op::Builtin(Builtin::Arg(index) | Builtin::Float(index)) => args[*index as usize],
                Op::Bin(op, a, b) => binary(*op, get(a), get(b)),
                Op::Cmp(op, a, b) => i64::from(compare(*op, get(a), get(b))),
                Op::MayLoop => 1,
                Op::MapGet { .. } => state.map,
                Op::MapAdd { delta, .. } => {
                    let new = state.map.wrapping_add(get(delta));
                    std::mem::replace(&mut state.map, new)
                }
                Op::MapSet { value, .. } => {
                    state.map = get(value);
                    0
                }
                Op::Emit { action, args } => {
                    if let Action::PrintValue { .. } = module.schema.actions[action.0 as usize] {
                        state.printed.push(get(&args[0]));
                    }
                    0
                }
                other => panic!("these programs have no {other:?}"),
            };
            if let Some(value) = inst.result {
                values.insert(value, result);
            }
        }
        let (to, args) = match &block.end {
            Terminator::Return => return,
            Terminator::Accept => panic!("these programs are no filters"),
            Terminator::Jump { to, args } => (*to, args),
            Terminator::Branch { condition, then, then_args, otherwise, otherwise_args } => {
                if values[condition] != 0 { (*then, then_args) } else { (*otherwise, otherwise_args) }
            }
        };
        let arguments: Vec<i64> = args.iter().map(|value| values[value]).collect();
        for (param, argument) in function.blocks[to.0 as usize].params.iter().zip(arguments) {
            values.insert(*param, argument);
        }
        at = to;
    }
}

fn binary(op: BinOp, a: i64, b: i64) -> i64 {
    match op {
        BinOp::Add => arithmetic("+", a, b),
        BinOp::Sub => arithmetic("-", a, b),
        BinOp::Mul => arithmetic("*", a, b),
        BinOp::SDiv => arithmetic("/", a, b),
        BinOp::SMod => arithmetic("%", a, b),
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl => arithmetic("<<", a, b),
        BinOp::LShr => arithmetic(">>", a, b),
        BinOp::AShr => a.wrapping_shr(b as u32),
        BinOp::UDiv | BinOp::UMod => panic!("all values are signed"),
    }
}

fn compare(op: CmpOp, a: i64, b: i64) -> bool {
    match op {
        CmpOp::Eq => a == b,
        CmpOp::Ne => a != b,
        CmpOp::SLt => a < b,
        CmpOp::SLe => a <= b,
        CmpOp::SGt => a > b,
        CmpOp::SGe => a >= b,
        // The language's own are signed; those of doubles' bits are not.
        CmpOp::ULt => (a as u64) < b as u64,
        CmpOp::ULe => a as u64 <= b as u64,
        CmpOp::UGt => a as u64 > b as u64,
        CmpOp::UGe => a as u64 >= b as u64,
    }
}

fn program_text(program: &[Stmt]) -> String {
    let mut text =
        String::from("uprobe:libc:malloc {\n$a = (int64)arg0; $b = (int64)arg1; let $c = 5; @m += 0;\n");
    block_text(program, &mut text);
    text + "print(($a, 0)); print(($b, 0)); print(($c, 0)); }"
}

/// The text of a program that compiles.
pub(crate) fn random_program(random: &mut Random) -> String {
    program_text(&make_block(random, 3, false))
}

#[test]
fn random_programs_do_what_the_language_says() {
    let daily = Daily { seed: 0x5eed_0003, at_least: 300, at_most: 3_000, budget: Duration::from_secs(2) };
    let mut cases = Cases::of("WEIR_BLOCKS", daily);
    let mut random = Random(cases.seed());
    let mut lines = 0;
    for _ in cases.by_ref() {
        let program = make_block(&mut random, 3, false);
        let text = program_text(&program);
        let (module, _) = compile(&text).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"));
        let mut optimised = module.clone();
        weir_ir::pass::optimise(&mut optimised);
        for args in [[0, 0], [1, -1], [-7, 3], [i64::MAX, 64]] {
            let mut expected = State { variables: [args[0], args[1], 5], ..State::default() };
            if run_block(&program, &mut expected) == Flow::On {
                expected.printed.extend(expected.variables);
            }
            for module in [&module, &optimised] {
                let mut found = State::default();
                run_ir(module, &module.functions[0], &args, &mut found);
                assert_eq!((&found.printed, found.map), (&expected.printed, expected.map), "{args:?} {text}");
            }
            lines += expected.printed.len();
        }
    }
    assert!(lines as u64 > 6 * cases.given(), "the programs print something: {lines}");
}
