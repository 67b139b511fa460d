//! What an executable says of alignment is true: what does not say that it may misalign runs in a thread that checks alignment, where
//! any word at an odd address is a SIGBUS that ends this test.

use crate::engines;
use crate::random;

use std::fs;
use std::path::Path;
use std::time::Duration;

use engines::{Random, abis_for, only, program, verified};
use random::{around, maps, random_body, random_frame};
use testkit::random::{Cases, Daily};
use weir_ebpf::{Object, ProgramKind, helper};
use weir_jit::Flags;
use weir_rt::Executable;
use weir_rt::executable::{Frame, SiteAbi, may_misalign};
use weir_rt::local::LocalProgram;
use weir_verifier::{Limits, VerifiedProgram, verify};

const DAILY: Daily = Daily { seed: 0xa119, at_least: 300, at_most: 3_000, budget: Duration::from_secs(2) };

/// A program that runs what stands at `address` with the alignment check on.
fn checking(address: u64) -> Executable {
    let on = [0x9c, 0x81, 0x0c, 0x24, 0, 0, 4, 0, 0x9d]; // pushfq; orl $0x40000,(%rsp); popfq
    let off = [0x9c, 0x81, 0x24, 0x24, 0xff, 0xff, 0xfb, 0xff, 0x9d]; // pushfq; andl $~0x40000,(%rsp); popfq
    let mut code = on.to_vec();
    // Programs find their frame above the return address, so that of this one gives way.
    code.extend_from_slice(&[0x5b, 0x48, 0xb8]); // pop %rbx; movabs $address,%rax
    code.extend_from_slice(&address.to_le_bytes());
    code.extend_from_slice(&[0xff, 0xd0]); // call *%rax
    code.extend_from_slice(&off);
    code.extend_from_slice(&[0x53, 0xc3]); // push %rbx; ret
    Executable::by_hand("checking", code, Vec::new(), 0xffff)
}

/// Runs it, with the check on if that is to be survived; whether it is.
fn check(program: &VerifiedProgram, abi: &SiteAbi, flags: Flags, frame: Frame) -> bool {
    let executable = engines::compiled(program, abi, flags);
    if executable.may_misalign {
        return false;
    }
    let run = |checks: bool| {
        let segment = engines::segment_for(program.maps(), abi);
        let local = LocalProgram::load(&executable, &segment).expect("code fits");
        let checking = LocalProgram::load(&checking(local.address()), &segment).expect("code fits");
        let r0 = if checks { &checking } else { &local }.run(&mut frame.clone());
        (r0, engines::contents(&segment))
    };
    assert_eq!(run(true), run(false), "{}: {abi:?}", program.name());
    true
}

const FORMS: [Flags; 3] = [Flags::KeepIfPossible, Flags::Change, Flags::KeepEach];

fn objects() -> impl Iterator<Item = Object> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let paths = fs::read_dir(directory).expect("corpus").map(|entry| entry.expect("corpus").path());
    let texts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "s"));
    texts.map(|path| weir_ebpf::asm::parse(&fs::read_to_string(path).expect("readable")).expect("parses"))
}

#[test]
fn programs_of_the_corpus_that_are_aligned_run_with_the_check() {
    testkit::cpu::stay_on_this();
    let (mut aligned, mut not) = (0, 0);
    for object in objects() {
        for source in object.programs.iter().filter(|source| source.kind == ProgramKind::Probe) {
            let program = verified(source, &object.maps);
            for abi in abis_for(&program) {
                for flags in FORMS {
                    // Chance and the clock differ from run to run.
                    let frame = Frame::default();
                    let says_the_same = !source.insns.iter().any(|insn| VARIES.contains(&insn.imm));
                    *if says_the_same && check(&program, &abi, flags, frame) {
                        &mut aligned
                    } else {
                        &mut not
                    } += 1;
                }
            }
        }
    }
    assert!(aligned > 300 && not > 100, "{aligned} aligned, {not} not");
}

/// Helpers that give another answer each time.
const VARIES: [i32; 3] = [helper::KTIME_GET_NS, helper::GET_PRANDOM_U32, helper::KTIME_GET_BOOT_NS];

#[test]
fn random_programs_that_are_aligned_run_with_the_check() {
    testkit::cpu::stay_on_this();
    let mut cases = Cases::of("WEIR_ALIGNED", DAILY);
    let mut random = Random(cases.seed());
    let maps = maps();
    let mut aligned = 0;
    for _ in cases.by_ref() {
        let source = program(around(&random_body(&mut random, true)));
        let limits = Limits { explored_insns_max: 10_000, ..Limits::default() };
        let Ok(program) = verify(&source, &maps, &limits) else { continue };
        let abi = random.pick(&abis_for(&program));
        let (flags, frame) = (random.pick(&FORMS), random_frame(&mut random));
        aligned += u64::from(check(&program, &abi, flags, frame));
    }
    assert!(aligned > cases.given() / 2, "{aligned} aligned");
}

/// The helpers that are said to touch no memory but words of weir's own do not.
#[test]
fn helpers_that_are_trusted_run_with_the_check() {
    let simple = [
        "ktime_get_ns",
        "ktime_get_boot_ns",
        "ktime_get_coarse_ns",
        "ktime_get_tai_ns",
        "jiffies64",
        "get_current_pid_tgid",
        "get_current_uid_gid",
        "get_smp_processor_id",
        "get_numa_node_id",
        "get_prandom_u32",
    ];
    for name in simple {
        let (_, program) = only(&format!("program \"p\" probe\ncall {name}\nr0 = 0\nexit\n"));
        trusted(&program);
    }
    // Into the ring of all, by the helper, and into that of the CPU, in line.
    for flags in ["", " flags 0x80000000"] {
        for end in ["submit", "discard"] {
            trusted(&only(&record(flags, end, 8)).1);
        }
    }
    let trusted = (0..256).filter(|id| !may_misalign(*id)).count();
    assert_eq!(trusted, simple.len() + 3, "a helper that is trusted and not looked at");
}

/// A program that stores a word at so many bytes in a record of its own.
fn record(flags: &str, end: &str, at: u32) -> String {
    format!(
        "map @ring ringbuf key 0 value 0 entries 4096{flags}
program \"record\" probe
r6 = *(u64 *)(r1 + 112)
r1 = map[@ring] ll
r2 = 40
r3 = 0
call ringbuf_reserve
if r0 == 0 goto out
*(u64 *)(r0 + {at}) = r6
*(u8 *)(r0 + 33) = r6
r1 = r0
r2 = 0
call ringbuf_{end}
out:
r0 = 0
exit
"
    )
}

/// It is said to be aligned, and runs so.
#[track_caller]
fn trusted(program: &VerifiedProgram) {
    for abi in abis_for(program) {
        assert!(check(program, &abi, Flags::default(), Frame::default()), "{}: {abi:?}", program.name());
    }
}

fn may_misalign_of(text: &str) -> bool {
    engines::compiled(&only(text).1, &engines::rseq_abi(false), Flags::default()).may_misalign
}

#[test]
fn odd_places_of_records_and_texts_are_told() {
    for (at, is_odd) in [(0, false), (8, false), (24, false), (1, true), (4, true), (30, true)] {
        assert_eq!(may_misalign_of(&record("", "submit", at)), is_odd, "a word at {at}");
    }
    let map = "map @ array key 4 value 96 entries 2\n";
    let place = |before: &str, access: &str| {
        format!(
            "{map}program \"p\" probe\nr6 = *(u64 *)(r1 + 112)\nr6 &= 15\n{before}\nr1 = map[@][0] ll\nr1 += r6\n{access}\nr0 = 0\nexit\n"
        )
    };
    for (before, access, is_odd) in [
        ("r6 <<= 1", "r0 = *(u16 *)(r1 + 4)", false),
        ("r6 <<= 1", "r0 = *(u32 *)(r1 + 4)", true),
        ("r6 <<= 2", "*(u32 *)(r1 + 2) = 7", true),
        ("r6 <<= 1", "*(u8 *)(r1 + 1) = 7", false),
        ("r6 = 3", "r0 = *(u32 *)(r1 + 0)", true),
        ("r6 = 3", "r0 = *(u64 *)(r1 + 5)", false),
    ] {
        assert_eq!(may_misalign_of(&place(before, access)), is_odd, "{before}; {access}");
    }
    // Bytes that become one load.
    let bytes = "r0 = *(u8 *)(r1 + 0)\nr2 = *(u8 *)(r1 + 1)\nr2 <<= 8\nr0 |= r2\nexit";
    assert!(may_misalign_of(&place("r6 <<= 1", bytes)));
}
