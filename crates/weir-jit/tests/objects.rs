//! C programs of `tests/bpf` that look at no context: the same answer from the interpreter, from the JIT for every kind of
//! site, and from the kernel, each on empty maps of its own.

mod engines;

use engines::{abis, run_interpreter, run_jit, verified};
use testkit::{bpf, kernel, paths, skip};
use weir_ebpf::{Object, elf};
use weir_jit::Flags;
use weir_rt::executable::Frame;

/// File, and its programs.
const FILES: &[(&str, &[&str])] =
    &[("bloom", &["filter"]), ("lpm", &["route"]), ("lru", &["pass"]), ("queue", &["fifo", "lifo"])];

fn object(name: &str) -> Option<Object> {
    let folder = paths::target().join("bpf-corpus/jit");
    std::fs::create_dir_all(&folder).expect("the folder of what tests build");
    let path = folder.join(format!("{name}.o"));
    if !bpf::compile(&paths::root().join(format!("tests/bpf/{name}.c")), &path) {
        return None;
    }
    let bytes = std::fs::read(&path).expect("clang has written it");
    Some(elf::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}")).object)
}

#[test]
fn programs_of_clang_answer_the_same_everywhere() {
    engines::stay_on_this_cpu();
    let kernel_is_there = kernel::available();
    if let Err(reason) = &kernel_is_there {
        skip::skip("isa::kernel", reason);
    }
    for (name, programs) in FILES {
        let Some(object) = object(name) else { return };
        assert_eq!(object.programs.iter().map(|program| &program.name).collect::<Vec<_>>(), *programs);
        for program in &object.programs {
            let verified = verified(program, &object.maps);
            let wanted = run_interpreter(&verified, Frame::default());
            for abi in abis() {
                for flags in [Flags::KeepIfPossible, Flags::Change] {
                    let found = run_jit(&verified, &abi, flags, Frame::default());
                    assert_eq!(found, wanted, "{name}: {}: {abi:?}", program.name);
                }
            }
            if kernel_is_there.is_ok() {
                let alone = Object { maps: object.maps.clone(), programs: vec![program.clone()] };
                let found = kernel::run(&alone, &[]).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(found.r0, wanted.r0 as u32, "{name}: {} in the kernel", program.name);
            }
        }
    }
}
