//! Prints how many functions of installed binaries can be patched, by technique, and why the others cannot: planning
//! alone, nothing is attached.
//!
//! `cargo run -p weir-probe --example ladder [--returns] [--refused] [--each] [FILE…]`; without files, those that issue
//! boards quote. `--returns` tells how their returns can be caught instead. `--refused` lists every refused function with
//! its first bytes, `--each` every function with what is to be done to it, for comparing two versions of the planner.
//! Counted are sized FUNC symbols; IFUNC symbols are resolvers, and are counted beside them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use weir_probe::window::Window;
use weir_probe::{Refusal, plan_functions, plan_returns};
use weir_symbols::{Binary, Function, FunctionKind};

const USUAL: [&str; 7] = [
    "/bin/bash",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libcrypto.so.3",
    "/lib/x86_64-linux-gnu/libsqlite3.so.0",
    "/usr/bin/sqlite3",
    "/usr/bin/redis-server",
    "/usr/bin/python3",
];

fn main() {
    let (flags, mut files): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    if files.is_empty() {
        files = USUAL.map(String::from).to_vec();
    }
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let plan = if has("--returns") { returns } else { patches };
    for file in files {
        let start = Instant::now();
        match Binary::open(Path::new(&file)) {
            Ok(binary) => {
                let functions = binary.functions().len();
                println!("{file}: {functions} functions found in {:.0?}", start.elapsed());
                table(&binary, plan, has("--refused"), has("--each"));
            }
            Err(error) => println!("{file}: {error}"),
        }
    }
}

/// What is planned for a function: its technique, and everything about it.
type Planned = Result<(String, String), Refusal>;

fn table(
    binary: &Binary,
    plan: fn(&[(&Binary, &Function)]) -> Vec<Planned>,
    lists_refused: bool,
    lists_each: bool,
) {
    let sized = |function: &&Function| function.size > 0 && function.kind == FunctionKind::Plain;
    let functions: Vec<&Function> = binary.functions().iter().filter(sized).collect();
    let sites: Vec<_> = functions.iter().map(|&function| (binary, function)).collect();
    let start = Instant::now();
    let outcomes = plan(&sites);
    let took = start.elapsed();
    let (mut planned, mut refused) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
    for (function, outcome) in functions.iter().zip(&outcomes) {
        if lists_each {
            let each = outcome.as_ref().map_or_else(Refusal::to_string, |(_, each)| each.clone());
            println!("{:#x} {each}", function.address.0);
        }
        match outcome {
            Ok((technique, _)) => *planned.entry(technique.clone()).or_default() += 1,
            Err(refusal) => {
                *refused.entry(reason(refusal)).or_default() += 1;
                if lists_refused {
                    let bytes = binary.bytes(function.address, function.size.min(16) as usize);
                    println!(
                        "{} {:#x}+{}: {refusal} {bytes:02x?}",
                        function.name, function.address.0, function.size
                    );
                }
            }
        }
    }
    let (good, all) = (planned.values().sum::<usize>(), functions.len());
    let share = 100.0 * good as f64 / all.max(1) as f64;
    let indirect = binary.functions().iter().filter(|f| f.kind == FunctionKind::Indirect).count();
    println!("{}: {good} of {all} = {share:.2} % in {took:.0?} ({indirect} IFUNC)", binary.path().display());
    println!("  planned: {planned:?}\n  refused: {refused:?}");
}

fn patches(functions: &[(&Binary, &Function)]) -> Vec<Planned> {
    let each = |window: Window| (window.technique(), window_text(&window));
    plan_functions(functions).into_iter().map(|outcome| outcome.map(each)).collect()
}

fn returns(functions: &[(&Binary, &Function)]) -> Vec<Planned> {
    let each = |returns| (format!("{returns:?}"), format!("{returns:?}"));
    plan_returns(functions).into_iter().map(|outcome| outcome.map(each)).collect()
}

/// The code, or of what could not be proved the part that is not about one instruction.
fn reason(refusal: &Refusal) -> String {
    match refusal {
        Refusal::ReturnUnproved { detail, .. } => detail.split(") ").last().unwrap_or(detail).into(),
        other => other.code(),
    }
}

fn window_text(window: &Window) -> String {
    format!(
        "{:#x} {} {:02x?} {:02x?} {:?} {} {}",
        window.address,
        window.technique(),
        window.bytes,
        window.padding,
        window.shape,
        window.uprobe_unsafe,
        window.inside
    )
}
