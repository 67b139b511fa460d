//! Every program of `corpus/`: the answer that its comments state, from the interpreter and from the JIT for every
//! kind of site, and the same maps afterwards.

use crate::engines;

use std::fs;
use std::path::Path;

use engines::{abis_for, number, run_interpreter, run_jit, slot, verified};
use weir_ebpf::Object;
use weir_jit::Flags;
use weir_rt::executable::{Frame, TidSource};

/// What the comments after a program line say.
#[derive(Clone, Debug, Default)]
struct Case {
    name: String,
    frame: Frame,
    r0: Option<u64>,
}

#[test]
fn programs_give_their_known_answer_in_both_engines() {
    testkit::cpu::stay_on_this();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut programs = 0;
    for entry in fs::read_dir(&directory).expect("corpus") {
        let path = entry.expect("corpus").path();
        if path.extension().is_some_and(|extension| extension == "s") {
            programs += check_file(&path);
        }
    }
    assert!(programs >= 100, "only {programs} programs");
}

fn check_file(path: &Path) -> usize {
    let text = fs::read_to_string(path).expect("readable");
    let object = weir_ebpf::asm::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let cases = cases(&text);
    assert_eq!(cases.len(), object.programs.len(), "{}", path.display());
    for (index, case) in cases.iter().enumerate() {
        check(&object, index, case);
    }
    cases.len()
}

fn check(object: &Object, index: usize, case: &Case) {
    let source = &object.programs[index];
    assert_eq!(source.name, case.name);
    let expected = case.r0.unwrap_or_else(|| panic!("{}: no answer given", case.name));
    let program = verified(source, &object.maps);
    let interpreted = run_interpreter(&program, case.frame);
    assert_eq!(interpreted.r0, expected, "{}: interpreter", case.name);
    for abi in abis_for(&program) {
        for flags in [Flags::KeepIfPossible, Flags::Change] {
            let executed = run_jit(&program, &abi, flags, case.frame);
            let text = || {
                let executable = weir_jit::compile_with(&program, &abi, flags).expect("compiled before");
                weir_jit::disassemble(&executable, object)
            };
            assert_eq!(executed.r0, expected, "{}: {abi:?}\n{}", case.name, text());
            assert_eq!(executed.maps, interpreted.maps, "{}: {abi:?}\n{}", case.name, text());
        }
    }
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("program \"") {
            let name = rest.split('"').next().expect("a closing quote").to_owned();
            cases.push(Case { name, ..Case::default() });
        }
        let Some(case) = cases.last_mut() else { continue };
        if let Some(fields) = line.strip_prefix("; context ") {
            set_context(&mut case.frame, fields);
        } else if let Some(answer) = line.strip_prefix("; r0 = ") {
            case.r0 = Some(number(answer.trim()));
        }
    }
    cases
}

/// `di = 1 si = 0x2`
fn set_context(frame: &mut Frame, fields: &str) {
    let words: Vec<&str> = fields.split_whitespace().collect();
    for field in words.chunks(3) {
        let [name, "=", value] = field else { panic!("context {fields}") };
        match slot(name) {
            Some(slot) => frame.regs[slot] = number(value),
            None if *name == "cookie" => frame.cookie = number(value),
            None => panic!("context {fields}"),
        }
    }
}

#[test]
fn tid_comes_from_where_the_site_says() {
    let (_, program) = engines::only("program \"tid\" probe\ncall get_current_pid_tgid\nexit\n");
    let mut abi = engines::shared_abi(true);
    let by_syscall = run_jit(&program, &abi, Flags::default(), Frame::default()).r0;
    assert_eq!(by_syscall >> 32, u64::from(std::process::id()));
    assert_eq!(by_syscall as u32, nix::unistd::gettid().as_raw() as u32);

    // Any word within reach of the thread pointer may stand for the thread id.
    let rseq_cpu = engines::rseq_offset() + 4;
    abi.tid = TidSource::ThreadControlBlock { offset: rseq_cpu };
    abi.pid = 0x8765_4321;
    let by_word = run_jit(&program, &abi, Flags::default(), Frame::default()).r0;
    assert_eq!(by_word >> 32, 0x8765_4321);
    assert!((by_word as u32) < engines::cpus());
}
