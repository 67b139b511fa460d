//! Objects of a newer clang, for every version of the instruction set (`-mcpu=v1` to `v4`): read, verified; programs of
//! packets give one result in interpreter and machine code.

use crate::engines;
use crate::wire;

use testkit::{bpf, paths, skip};
use weir_ebpf::elf::{self, ObjectFile};
use weir_interp::Environment;
use weir_jit::Flags;
use weir_rt::Context;
use weir_rt::local::LocalProgram;

/// The newest clang that Debian 12 has; instructions of v4 came with 18.
const CLANG: &str = "clang-19";
const CPUS: [&str; 4] = ["v1", "v2", "v3", "v4"];

#[test]
fn objects_of_a_newer_clang_are_verified_and_run() {
    testkit::cpu::stay_on_this();
    let folder = paths::target().join("newer-clang");
    std::fs::create_dir_all(&folder).expect("a folder");
    let (mut verified, mut compared) = (0, 0);
    for source in ["tests/bpf", "tests/bpf/packets"].into_iter().flat_map(bpf::sources) {
        let object = folder.join(source.with_extension("o").file_name().expect("a name"));
        for cpu in CPUS {
            let compiled = bpf::compile_with(CLANG, &[&format!("-mcpu={cpu}")], &source, &object);
            if let Err(missing) = compiled {
                return skip::skip("newer-clang", missing);
            }
            let file = elf::read(&std::fs::read(&object).expect("was just written"));
            let file = file.unwrap_or_else(|error| panic!("{cpu} {}: {error}", source.display()));
            for index in 0..file.object.programs.len() {
                let program = engines::verified(&file.object.programs[index], &file.object.maps);
                verified += 1;
                let is_alone = file.maps.iter().all(|origin| origin.programs.is_empty());
                if program.kind().is_packet() && is_alone {
                    compare(&file, &program);
                    compared += 1;
                }
            }
        }
    }
    println!("{verified} programs, of which {compared} compared");
    assert!(verified > 150 && compared > 40, "{verified} {compared}");
}

/// Each engine has maps of its own, which hold from packet to packet.
fn compare(file: &ObjectFile, program: &weir_verifier::VerifiedProgram) {
    let abi = engines::abis().pop().expect("there is one");
    let [own, of_code] = [(); 2].map(|()| engines::segment_for(program.maps(), &abi));
    for segment in [&own, &of_code] {
        segment.fill(&file.maps).expect("what the file says fits");
    }
    let code = LocalProgram::load(&engines::compiled(program, &abi, Flags::Change), &of_code);
    let code = code.expect("code fits");
    for packet in wire::whole() {
        let [mut one, mut other] =
            [(); 2].map(|()| Context::received(program.kind(), &packet).expect("a kind of packets"));
        let expected = weir_interp::run(program, &Environment { segment: &own }, &mut one).expect("verified");
        assert_eq!(code.run(&mut other), expected, "{}: {packet:02x?}", program.name());
        assert_eq!(other.bytes(), one.bytes(), "{}: {packet:02x?}", program.name());
    }
    assert_eq!(engines::contents(&of_code), engines::contents(&own), "{}", program.name());
}
