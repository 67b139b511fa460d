//! Every instruction of `weir_ebpf::form`, with edge values: the cases of `isa/` (its README says how they are written)
//! in the interpreter, the JIT and the kernel, and reserved fields that are not zero.

use crate::engines;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use engines::{abis, number};
use weir_ebpf::form::{self, Form};
use weir_ebpf::insn::{LD_IMM64, MAY_GOTO, alu, class, jmp, mode, pseudo, size, source};
use weir_ebpf::{Insn, Object, Program, ProgramKind, asm};
use weir_jit::Flags;
use weir_kernel::{Input, KernelError, Maps};
use weir_rt::executable::Frame;
use weir_rt::local::LocalProgram;
use weir_rt::segment::Segment;
use weir_rt::{Context, ContextMut};
use weir_verifier::{Limits, RejectionKind, VerifiedProgram, verify};

/// One line of a file.
#[derive(Clone, Debug)]
struct Case {
    line: String,
    object: Object,
    inputs: [u64; 2],
    result: u64,
    kernel_refuses: bool,
    /// Of socket filters.
    packet: Option<Vec<u8>>,
}

/// One file.
struct Cases {
    name: String,
    /// First version of Linux that has the instructions.
    kernel: (u32, u32),
    cases: Vec<Case>,
}

/// These maps are there in every case: inputs, result, and an empty one with keys.
const MAPS: &str = "map @in array key 4 value 16 entries 1\nmap @out array key 4 value 8 entries 1
map @keys hash key 8 value 8 entries 16\n";
const PROBE: &str = "program \"case\" probe\n";
const FILTER: &str = "program \"case\" socket\n";
const BEFORE: &str = "r1 = map[@in][0] ll\nr6 = *(u64 *)(r1 + 0)\nr7 = *(u64 *)(r1 + 8)\nr0 = r6\nr1 = r7\n";
/// A packet load wants the context in r6.
const BEFORE_PACKET: &str =
    "r6 = r1\nr1 = map[@in][0] ll\nr7 = *(u64 *)(r1 + 0)\nr8 = *(u64 *)(r1 + 8)\nr0 = r7\nr1 = r8\n";
const AFTER: &str = "r1 = map[@out][0] ll\n*(u64 *)(r1 + 0) = r0\nr0 = 0\nexit\n";

fn files() -> Vec<Cases> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/isa");
    let mut paths: Vec<_> =
        fs::read_dir(directory).expect("isa").map(|entry| entry.expect("isa").path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    paths.iter().map(|path| cases(name(path), &fs::read_to_string(path).expect("readable"))).collect()
}

fn cases(name: String, text: &str) -> Cases {
    let mut file = Cases { name, kernel: (0, 0), cases: Vec::new() };
    let mut packet = None;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(bytes) = line.strip_prefix("packet ") {
            packet = Some(bytes.split_whitespace().map(|byte| number(&format!("0x{byte}")) as u8).collect());
            continue;
        }
        match line.strip_prefix("kernel ").and_then(|version| version.split_once('.')) {
            Some((major, minor)) => file.kernel = (number(major) as u32, number(minor) as u32),
            None => file.cases.push(case(line, packet.clone())),
        }
    }
    file
}

fn case(line: &str, packet: Option<Vec<u8>>) -> Case {
    let kernel_refuses = line.starts_with('!');
    let (code, values) = line.trim_start_matches('!').split_once('?').unwrap_or_else(|| panic!("{line}"));
    let (code, functions) = code.split_once(";;").unwrap_or((code, ""));
    let lines = |code: &str| code.replace(';', "\n");
    let (kind, before) = if packet.is_some() { (FILTER, BEFORE_PACKET) } else { (PROBE, BEFORE) };
    let text = format!("{MAPS}{kind}{before}{}\n{AFTER}{}\n", lines(code), lines(functions));
    let object = asm::parse(&text).unwrap_or_else(|error| panic!("{line}: {error}\n{text}"));
    let values: Vec<&str> = values.split_whitespace().collect();
    let [a, b, "=>", result] = values[..] else { panic!("{line}") };
    let inputs = [number(a), number(b)];
    Case { line: line.to_owned(), object, inputs, result: number(result), kernel_refuses, packet }
}

/// What the case is run with: a probe's registers, or its packet.
enum Given {
    Frame(Frame),
    Packet(Context),
}

impl Given {
    fn of(case: &Case) -> Given {
        match case.packet.as_deref().and_then(|packet| packet.split_at_checked(LINK_BYTES)) {
            Some((link, bytes)) => Given::Packet(Context::socket(link, bytes)),
            None => Given::Frame(Frame::default()),
        }
    }

    fn context(&mut self) -> ContextMut<'_> {
        match self {
            Given::Frame(frame) => frame.into(),
            Given::Packet(context) => context.into(),
        }
    }
}

/// Bytes of a packet's link header.
const LINK_BYTES: usize = 14;

/// What the case leaves in `@out`, after `run` on fresh maps.
fn result(case: &Case, run: impl FnOnce(&Segment) -> u64) -> u64 {
    let segment = engines::segment(&case.object.maps, engines::cpus());
    let input: Vec<u8> = case.inputs.iter().flat_map(|value| value.to_le_bytes()).collect();
    set(&segment, &input);
    assert_eq!(run(&segment), 0, "{}", case.line);
    let value = segment.map(1).lookup(&0u32.to_le_bytes()).expect("an array has its elements");
    u64::from_le_bytes(value.try_into().expect("8 bytes"))
}

/// Sets the value of `@in` as a program would: the tests' side of a segment only reads.
fn set(segment: &Segment, input: &[u8]) {
    let words: Vec<u64> =
        input.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect();
    let text = format!(
        "{MAPS}{PROBE}r1 = map[@in][0] ll\nr2 = {:#x} ll\n*(u64 *)(r1 + 0) = r2\nr2 = {:#x} ll\n*(u64 *)(r1 + 8) = r2\nr0 = 0\nexit",
        words[0], words[1]
    );
    let object = asm::parse(&text).expect("is assembly text");
    let program = verified(&object);
    let environment = weir_interp::Environment { segment };
    weir_interp::run(&program, &environment, &mut Frame::default()).expect("verified");
}

fn verified(object: &Object) -> VerifiedProgram {
    engines::verified(&object.programs[0], &object.maps)
}

#[test]
fn every_case_in_the_interpreter() {
    for case in files().iter().flat_map(|file| &file.cases) {
        let program = verified(&case.object);
        let got = result(case, |segment| {
            let environment = weir_interp::Environment { segment };
            weir_interp::run(&program, &environment, Given::of(case).context())
                .unwrap_or_else(|fault| panic!("{}: {fault}", case.line))
        });
        assert_eq!(got, case.result, "{}: {got:#x}", case.line);
    }
}

/// Packet loads are left to the checking interpreter.
#[test]
fn every_case_in_the_threaded_interpreter() {
    let (mut run, mut left) = (0, 0);
    for case in files().iter().flat_map(|file| &file.cases) {
        let program = verified(&case.object);
        let got = result(case, |segment| match weir_interp::threaded::Threaded::of(&program, segment) {
            Some(threaded) => {
                run += 1;
                threaded.run(Given::of(case).context())
            }
            None => {
                left += 1;
                assert!(
                    program.insns().iter().any(|insn| insn.class() == 0 && !insn.is_wide()),
                    "{}",
                    case.line
                );
                let environment = weir_interp::Environment { segment };
                weir_interp::run(&program, &environment, Given::of(case).context()).expect("verified")
            }
        });
        assert_eq!(got, case.result, "{}: {got:#x}", case.line);
    }
    assert!(run > 1500 && left < 200, "{run} cases run, {left} left out");
}

#[test]
fn every_case_in_the_jit() {
    testkit::cpu::stay_on_this();
    // Nothing here is per CPU, so that shifts alone tell the sites apart.
    let mut abis = abis();
    abis.dedup_by_key(|abi| abi.bmi2);
    for case in files().iter().flat_map(|file| &file.cases) {
        let program = verified(&case.object);
        for abi in &abis {
            for flags in [Flags::Change, Flags::KeepEach] {
                let executable = engines::compiled(&program, abi, flags);
                let got = result(case, |segment| {
                    LocalProgram::load(&executable, segment)
                        .expect("code fits")
                        .run(Given::of(case).context())
                });
                let text = || weir_jit::disassemble(&executable, &case.object);
                assert_eq!(got, case.result, "{}: {got:#x} {abi:?}\n{}", case.line, text());
            }
        }
    }
}

#[test]
fn every_case_in_the_kernel() {
    if let Err(reason) = testkit::kernel::available() {
        return testkit::skip::skip("isa::kernel", reason);
    }
    let version = testkit::kernel::version();
    let mut differ = Vec::new();
    for file in files() {
        if version < file.kernel {
            testkit::skip::skip(
                &format!("isa::kernel::{}", file.name),
                format!("Linux {version:?} is older than {:?}", file.kernel),
            );
            continue;
        }
        for case in &file.cases {
            match run_in_kernel(case) {
                Ok(result) if !case.kernel_refuses && result == case.result.to_le_bytes() => {}
                Err(KernelError::Refused { .. }) if case.kernel_refuses => {}
                Ok(result) => differ.push(format!("{}: {result:x?}", case.line)),
                Err(error) => differ.push(format!("{}: {error}", case.line)),
            }
        }
    }
    assert!(differ.is_empty(), "{} differ\n{}", differ.len(), differ.join("\n"));
}

/// What the case leaves in `@out`: as a socket filter, since the kernel runs no probes by hand.
fn run_in_kernel(case: &Case) -> Result<Vec<u8>, KernelError> {
    let maps = Maps::create(&case.object.maps)?;
    let input: Vec<u8> = case.inputs.iter().flat_map(|value| value.to_le_bytes()).collect();
    maps.update(0, &[0; 4], &input)?;
    let program = Program { kind: ProgramKind::SocketFilter, ..case.object.programs[0].clone() };
    let packet = case.packet.as_deref().unwrap_or(&[0; LINK_BYTES]);
    weir_kernel::load(&program, &maps)?.run(Input { bytes: packet, context: &[] }, 1)?;
    Ok(maps.lookup(1, &[0; 4])?.expect("an array has its elements"))
}

/// Instructions that weir does not run: calls of kernel functions, and wide loads of the kernel's objects.
/// `weir-verifier` refuses them as unsupported.
fn is_left_out(form: &Form) -> bool {
    let is_kernel_call = form.opcode == class::JMP | jmp::CALL && form.src == Some(pseudo::KERNEL);
    let is_kernel_object = form.opcode == LD_IMM64 && matches!(form.src, Some(1..=3));
    is_kernel_call || is_kernel_object
}

#[test]
fn every_instruction_has_a_case() {
    let files = files();
    let mut tried = BTreeSet::new();
    let forms = form::all();
    for insn in files.iter().flat_map(|file| &file.cases).flat_map(|case| &case.object.programs[0].insns) {
        tried.extend(forms.iter().position(|form| form.is(*insn)));
    }
    let missing: Vec<String> = forms
        .iter()
        .enumerate()
        .filter(|(index, form)| !tried.contains(index) && !is_left_out(form))
        .map(|(_, form)| format!("{:#04x} {}", form.opcode, form.text()))
        .collect();
    assert!(missing.is_empty(), "no case for {missing:#?}");
    let count: usize = files.iter().map(|file| file.cases.len()).sum();
    println!("{count} cases for {} of {} instructions", tried.len(), forms.len());
}

#[test]
fn what_is_left_out_is_unsupported() {
    for form in form::all().iter().filter(|form| is_left_out(form)) {
        let rejection = verify(&around(form_insns(form)).programs[0], &[], &Limits::default())
            .expect_err("is not run by weir");
        assert_eq!(rejection.kind, RejectionKind::Unsupported, "{rejection}");
    }
}

/// The fields of an instruction that say nothing, and must be zero.
fn reserved(form: &Form) -> &'static [&'static str] {
    let operation = form.opcode & 0xf0;
    let by_register = form.opcode & source::X != 0;
    match form.opcode & 0x07 {
        class::ALU | class::ALU64 => match operation {
            alu::END => &["src", "off"],
            alu::NEG => &["src", "off", "imm"],
            _ if by_register => &["imm"],
            _ => &["src"],
        },
        class::JMP | class::JMP32 => match operation {
            _ if form.opcode == MAY_GOTO => &["dst", "src", "imm"],
            jmp::JA if form.opcode & 0x07 == class::JMP => &["dst", "src", "imm"],
            jmp::JA => &["dst", "src", "off"],
            jmp::CALL => &["dst", "off"],
            jmp::EXIT => &["dst", "src", "off", "imm"],
            _ if by_register => &["imm"],
            _ => &["src"],
        },
        class::LD if form.opcode == LD_IMM64 => &["off"],
        class::LD if form.opcode & 0xe0 == mode::ABS => &["dst", "src", "off"],
        class::LD => &["dst", "off"],
        class::ST => &["src"],
        class::LDX => &["imm"],
        _ if form.opcode & 0xe0 == mode::MEM => &["imm"],
        _ => &[],
    }
}

#[test]
fn reserved_fields_that_are_not_zero_are_refused() {
    let kernel = testkit::kernel::available();
    if let Err(reason) = &kernel {
        testkit::skip::skip("isa::kernel", reason);
    }
    let (mut refused, mut kernel_takes) = (0, Vec::new());
    for form in form::all().iter().filter(|form| !is_left_out(form)) {
        for field in reserved(form) {
            let mut insns = form_insns(form);
            match *field {
                "dst" => insns[0].dst = 1,
                "src" => insns[0].src = 1,
                "off" => insns[0].off = 7,
                _ => insns[0].imm = 1,
            }
            let object = around(insns);
            let rejection = verify(&object.programs[0], &object.maps, &Limits::default())
                .expect_err(&format!("{field} of {}", form.text()));
            assert_eq!((rejection.kind, rejection.at), (RejectionKind::Unsafe, Some(FIRST)), "{rejection}");
            refused += 1;
            if kernel.is_ok() && testkit::kernel::load(&object).is_ok() {
                kernel_takes.push(format!("{field} of {}", form.text()));
            }
        }
    }
    assert!(refused > 150, "{refused}");
    assert!(kernel_takes.is_empty(), "the kernel takes {kernel_takes:#?}");
}

/// Slot of the instruction under test in [`around`].
const FIRST: usize = 3;

/// Registers and the stack are ready for any instruction of `form_insns`.
fn around(insns: Vec<Insn>) -> Object {
    let text = "map @in array key 4 value 16 entries 1\nprogram \"p\" probe\n*(u64 *)(r10 - 8) = 0\nr0 = 0\nr1 = 0\nr0 = 0\nexit";
    let is_packet_load = insns[0].class() == class::LD && !insns[0].is_wide();
    let filter = text.replace("probe\n", "socket\n").replace("= 0\nr0 = 0\nr1", "= 0\nr6 = r1\nr1");
    let mut object = asm::parse(if is_packet_load { &filter } else { text }).expect("is assembly text");
    object.programs[0].insns.splice(FIRST..FIRST, insns);
    object
}

/// The instruction with operands that do no harm: r0, r1 where a source is needed, the 8 bytes below r10.
fn form_insns(form: &Form) -> Vec<Insn> {
    let by_register = form.opcode & source::X != 0 && form.opcode & 0x07 >= class::ALU;
    let mut insn = Insn {
        opcode: form.opcode,
        dst: 0,
        src: form.src.unwrap_or(u8::from(by_register && form.opcode & 0xf0 != alu::END)),
        off: form.off.unwrap_or(0),
        imm: form.imm.unwrap_or(0),
    };
    match form.opcode & 0x07 {
        class::LD if form.opcode & 0xe0 == mode::IND => insn.src = 1,
        class::LDX => (insn.src, insn.off) = (10, -8),
        class::ST | class::STX => (insn.dst, insn.off) = (10, -8),
        _ => {}
    }
    if matches!(form.opcode & 0x07, class::ALU | class::ALU64)
        && by_register
        && insn.opcode & 0xf0 == alu::NEG
    {
        insn.src = 0;
    }
    if form.opcode == class::JMP | jmp::CALL && form.src == Some(pseudo::HELPER) {
        insn.imm = weir_ebpf::helper::KTIME_GET_NS;
    }
    let is_wide = form.opcode == class::LD | mode::IMM | size::DW;
    if is_wide { vec![insn, Insn::default()] } else { vec![insn] }
}
