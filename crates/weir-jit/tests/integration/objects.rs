//! C programs of `tests/bpf` that look at no context: the same answer from the interpreter, from the JIT for every kind
//! of site, and from the kernel, each on empty maps of its own.

use crate::engines;

use engines::{Held, abis, run_interpreter_holding, run_jit_holding, verified};
use testkit::{bpf, kernel, paths, skip};
use weir_ebpf::{Object, elf};
use weir_jit::Flags;
use weir_rt::executable::Frame;

/// File, and its programs.
const FILES: &[(&str, &[&str])] = &[
    ("bloom", &["filter"]),
    ("inner_maps", &["parity", "numbered"]),
    ("lpm", &["route"]),
    ("lru", &["pass"]),
    ("queue", &["fifo", "lifo"]),
];

fn object(name: &str) -> Option<elf::ObjectFile> {
    let folder = paths::target().join("bpf-corpus/jit");
    std::fs::create_dir_all(&folder).expect("the folder of what tests build");
    let path = folder.join(format!("{name}.o"));
    if !bpf::compile(&paths::root().join(format!("tests/bpf/{name}.c")), &path) {
        return None;
    }
    let bytes = std::fs::read(&path).expect("clang has written it");
    Some(elf::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// What its maps hold at first: map, key, held map.
fn held(file: &elf::ObjectFile) -> Vec<Held> {
    let of = |(map, origin): (usize, &elf::MapOrigin)| -> Vec<Held> {
        origin.held.iter().map(|(key, held)| (map, *key, *held as usize)).collect()
    };
    file.maps.iter().enumerate().flat_map(of).collect()
}

#[test]
fn programs_of_clang_answer_the_same_everywhere() {
    testkit::cpu::stay_on_this();
    let kernel_is_there = kernel::available();
    if let Err(reason) = &kernel_is_there {
        skip::skip("isa::kernel", reason);
    }
    for (name, programs) in FILES {
        let Some(file) = object(name) else { return };
        let (object, held) = (&file.object, held(&file));
        assert_eq!(object.programs.iter().map(|program| &program.name).collect::<Vec<_>>(), *programs);
        for program in &object.programs {
            let verified = verified(program, &object.maps);
            let wanted = run_interpreter_holding(&verified, Frame::default(), &held);
            for abi in abis() {
                for flags in [Flags::KeepIfPossible, Flags::Change] {
                    let found = run_jit_holding(&verified, &abi, flags, Frame::default(), &held);
                    assert_eq!(found, wanted, "{name}: {}: {abi:?}", program.name);
                }
            }
            if kernel_is_there.is_ok() {
                let alone = Object { maps: object.maps.clone(), programs: vec![program.clone()] };
                let found = kernel::run_holding(&alone, &held).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(found.r0, wanted.r0 as u32, "{name}: {} in the kernel", program.name);
            }
        }
    }
}
