//! How the returns of all sized functions of some binaries can be caught:
//! `cargo run -p weir-probe --example returns -- [--refused] [FILE...]`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use weir_probe::{Refusal, plan_returns};
use weir_symbols::{Binary, Function, FunctionKind};

const USUAL: [&str; 4] = [
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/bin/bash",
    "/lib/x86_64-linux-gnu/libsqlite3.so.0",
    "/usr/bin/python3",
];

fn main() {
    let (flags, mut files): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    if files.is_empty() {
        files = USUAL.map(String::from).to_vec();
    }
    for file in files {
        match Binary::open(Path::new(&file)) {
            Ok(binary) => table(&binary, flags.iter().any(|flag| flag == "--refused")),
            Err(error) => println!("{file}: {error}"),
        }
    }
}

fn table(binary: &Binary, lists_refused: bool) {
    let sized = |function: &&Function| function.size > 0 && function.kind == FunctionKind::Plain;
    let functions: Vec<_> =
        binary.functions().iter().filter(sized).map(|function| (binary, function)).collect();
    let start = Instant::now();
    let outcomes = plan_returns(&functions);
    let took = start.elapsed();
    let (mut planned, mut refused) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
    for ((_, function), outcome) in functions.iter().zip(&outcomes) {
        match outcome {
            Ok(returns) => *planned.entry(format!("{returns:?}")).or_default() += 1,
            Err(refusal) => {
                let reason = match refusal {
                    Refusal::ReturnUnproved { detail, .. } => {
                        detail.split(") ").last().unwrap_or(detail).into()
                    }
                    other => other.code(),
                };
                *refused.entry(reason).or_default() += 1;
                if lists_refused {
                    println!("{} {:#x}+{}: {refusal}", function.name, function.address.0, function.size);
                }
            }
        }
    }
    let (good, all) = (planned.values().sum::<usize>(), functions.len());
    let share = 100.0 * good as f64 / all.max(1) as f64;
    println!("{}: {good} of {all} = {share:.2} % in {took:.0?}", binary.path().display());
    println!("  caught: {planned:?}\n  refused: {refused:#?}");
}
