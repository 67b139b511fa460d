//! What is emitted loads in the kernel, whose verifier knows nothing of ours: every file, and random modules.

#[allow(dead_code, reason = "only the generator is used here")]
use crate::model;

use std::time::Duration;

use model::generate::{Menu, module};
use testkit::random::{Cases, Daily};
use testkit::{kernel, skip};
use weir_codegen::compile;
use weir_ir::{Builtin, Module, Op, Trigger, text};

/// Random modules of each kind; the kernel takes some 30 ms for one.
const DAILY: Daily = Daily { seed: 0, at_least: 6, at_most: 60, budget: Duration::from_secs(2) };

fn check(module: &Module) {
    // The kernel calls the session's functions by BTF ids of its own, which objects name by their names.
    let has_session = |function: &weir_ir::Function| {
        matches!(function.trigger, Trigger::Uretprobe { .. } | Trigger::Session { .. })
    };
    if module.functions.iter().any(has_session) {
        return;
    }
    let compiled = compile(module).unwrap_or_else(|error| panic!("{error}\n{}", text::print(module)));
    if let Err(error) = kernel::load(&compiled.object) {
        panic!("{error}\n{}\n{}", text::print(module), weir_ebpf::asm::print(&compiled.object));
    }
}

/// The kernel's context has no floating-point arguments.
fn without_floats(module: &mut Module) {
    for function in &mut module.functions {
        for inst in function.blocks.iter_mut().flat_map(|block| &mut block.insts) {
            if let Op::Builtin(Builtin::Float(_)) = inst.op {
                inst.op = Op::Int(0);
            }
        }
    }
}

fn kernel_takes_programs(test: &str) -> bool {
    match kernel::available() {
        Ok(()) => true,
        Err(reason) => {
            skip::skip(test, reason);
            false
        }
    }
}

#[test]
fn files_load_in_the_kernel() {
    if !kernel_takes_programs("weir-codegen::files_load_in_the_kernel") {
        return;
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files");
    for entry in std::fs::read_dir(folder).expect("the folder of files") {
        let path = entry.expect("an entry of the folder").path();
        if path.extension().is_some_and(|extension| extension == "ir") {
            check(&text::parse(&std::fs::read_to_string(&path).expect("a file")).expect("parses"));
        }
    }
}

#[test]
fn random_modules_load_in_the_kernel() {
    if !kernel_takes_programs("weir-codegen::random_modules_load_in_the_kernel") {
        return;
    }
    let cases = Cases::of("WEIR_MODULES", DAILY);
    for seed in (cases.seed()..).zip(cases).map(|(seed, _)| seed) {
        for string_bytes in [64, 1024] {
            let mut module = module(seed, Menu { string_bytes, clocks: true, sessions: false });
            without_floats(&mut module);
            check(&module);
            weir_ir::pass::optimise(&mut module);
            check(&module);
        }
    }
}
