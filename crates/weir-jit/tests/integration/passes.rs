//! What each pass makes of bytecode, what it leaves alone, and that all of them together change no result.
//!
//! A case is bytecode and the machine code it becomes, without prologue and epilogue. Programs get memory at r1, the
//! value of a map; the verifier knows nothing of its bytes.

use crate::engines;

use std::time::Duration;

use engines::{Random, only, verified};
use testkit::random::{Cases, Daily};
use weir_ebpf::MapSpec;
use weir_jit::{Flags, Passes};
use weir_rt::executable::{Frame, LanePolicy, SiteAbi, TidSource};

/// A site that does not depend on the machine.
fn abi(bmi2: bool) -> SiteAbi {
    SiteAbi { pid: 42, tid: TidSource::Syscall, lanes: LanePolicy::Shared, cpus: 4, bmi2, reads_ticks: true }
}

/// `body` between a pointer to the map's value in r1 and the exit.
fn text(body: &str) -> String {
    let lines: String = body.split(';').map(|line| format!("{}\n", line.trim())).collect();
    format!(
        "map @m array key 4 value 64 entries 1\nprogram \"p\" probe\nr1 = map[@m][0] + 0x0 ll\n{lines}exit\n"
    )
}

/// The instructions of the body, in AT&T syntax, a line each.
fn code(body: &str, passes: Passes) -> Vec<String> {
    let (object, program) = only(&text(body));
    let executable = engines::compiled(&program, &abi(true), Flags::Only(passes));
    let shown = weir_jit::disassemble(&executable, &object);
    let instructions = shown.lines().filter(|line| line.starts_with("  ")).map(|line| line[40..].trim());
    let kept =
        |text: &&str| !["push", "pop", "ret", "movabsq $0, %rdi"].iter().any(|start| text.starts_with(start));
    instructions.filter(kept).map(str::to_owned).collect()
}

/// With all passes `body` becomes `expected` (`;` between).
fn becomes(body: &str, expected: &str) {
    let expected: Vec<&str> = expected.split(';').map(str::trim).collect();
    assert_eq!(code(body, Passes::ALL), expected, "{body}");
    agrees(body);
}

/// `pass` changes nothing.
fn is_left_alone(body: &str, pass: Passes) {
    assert_eq!(code(body, pass), code(body, Passes::NONE), "{body}");
    agrees(body);
}

/// `pass` changes something.
fn is_changed(body: &str, pass: Passes) {
    assert_ne!(code(body, pass), code(body, Passes::NONE), "{body}");
    agrees(body);
}

/// Interpreter and every form of code give the same result and leave the same memory.
fn agrees(body: &str) {
    let (object, program) = only(&text(body));
    agree(&object.maps, &program, &mut Random(1), body);
}

fn agree(maps: &[MapSpec], program: &weir_verifier::VerifiedProgram, random: &mut Random, what: &str) {
    let each = Passes::each().flat_map(|pass| [pass, Passes::without(pass)]);
    let forms: Vec<Passes> = each.chain([Passes::ALL, Passes::NONE]).collect();
    for round in 0..3 {
        let mut frame = Frame::default();
        frame.regs.fill_with(|| random.value());
        let memory: Vec<u8> = (0..64).map(|_| if round == 0 { 0x81 } else { random.next() as u8 }).collect();
        let segment = || {
            let segment = engines::segment(maps, engines::cpus());
            segment.map(0).update(&0u32.to_le_bytes(), &memory, 0).expect("an element");
            segment
        };
        let own = segment();
        let environment = weir_interp::Environment { segment: &own };
        let r0 = weir_interp::run(program, &environment, &mut frame.clone()).expect("verified");
        let expected = (r0, engines::contents(&own));
        for &passes in &forms {
            for bmi2 in [false, engines::has_bmi2()] {
                let abi = SiteAbi { cpus: engines::cpus(), ..abi(bmi2) };
                let segment = segment();
                let executable = engines::compiled(program, &abi, Flags::Only(passes));
                let local = weir_rt::local::LocalProgram::load(&executable, &segment).expect("code fits");
                let got = (local.run(&mut frame.clone()), engines::contents(&segment));
                assert_eq!(got, expected, "{passes:?} {bmi2}\n{what}");
            }
        }
    }
}

const HALF: &str = "r0 = *(u8 *)(r1 + 4); r2 = *(u8 *)(r1 + 5); r2 <<= 8; r0 |= r2";
const HALF_SWAPPED: &str = "r0 = *(u8 *)(r1 + 5); r2 = *(u8 *)(r1 + 4); r2 <<= 8; r0 |= r2";

#[test]
fn neighbouring_bytes_become_one_load() {
    becomes(HALF, "movzwl 4(%rdi), %eax");
    becomes(HALF_SWAPPED, "movzwl 4(%rdi), %eax; rorw $8, %ax; movzwl %ax, %eax");
    becomes(&format!("{HALF}; r0 = be16 r0"), "movzwl 4(%rdi), %eax; rorw $8, %ax; movzwl %ax, %eax");
    becomes(
        "w0 = *(u8 *)(r1 + 1); w2 = *(u8 *)(r1 + 0); w0 <<= 8; w0 |= w2; r3 = *(u8 *)(r1 + 3); w3 <<= 8; \
         r2 = *(u8 *)(r1 + 2); w3 |= w2; w3 <<= 16; w0 |= w3",
        "movl (%rdi), %eax",
    );
    becomes(
        "r0 = *(u32 *)(r1 + 0); r2 = *(u16 *)(r1 + 4); r3 = *(u16 *)(r1 + 6); r2 <<= 32; r3 <<= 48; r0 ^= r3; \
         r0 += r2",
        "movq (%rdi), %rax",
    );
}

#[test]
fn bytes_behind_a_pointer_that_moved_become_one_load() {
    becomes(
        "r0 = *(u8 *)(r1 + 4); r3 = r1; r1 += 2; r2 = *(u8 *)(r1 + 3); r2 <<= 8; r0 |= r2",
        "movzwl 4(%rdi), %eax",
    );
}

#[test]
fn bytes_that_are_no_neighbours_stay() {
    is_left_alone("r0 = *(u8 *)(r1 + 4); r2 = *(u8 *)(r1 + 6); r2 <<= 8; r0 |= r2", Passes::GATHER);
    is_left_alone("r0 = *(u8 *)(r1 + 4); r2 = *(u8 *)(r1 + 5); r2 <<= 16; r0 |= r2", Passes::GATHER);
    is_left_alone("r0 = *(u8 *)(r1 + 4); r2 = *(u8 *)(r1 + 5); r2 <<= 7; r0 |= r2", Passes::GATHER);
    is_left_alone("r0 = *(u8 *)(r1 + 4); r2 = *(u8 *)(r1 + 4); r2 <<= 8; r0 |= r2", Passes::GATHER);
}

#[test]
fn bytes_that_overlap_stay() {
    is_left_alone("r0 = *(u16 *)(r1 + 4); r2 = *(u8 *)(r1 + 5); r2 <<= 8; r0 |= r2", Passes::GATHER);
    is_left_alone("r0 = *(u16 *)(r1 + 4); r2 = *(u16 *)(r1 + 5); r2 <<= 8; r0 += r2", Passes::GATHER);
}

#[test]
fn signed_bytes_stay() {
    is_left_alone("r0 = *(u8 *)(r1 + 4); r2 = *(s8 *)(r1 + 5); r2 <<= 8; r0 |= r2", Passes::GATHER);
    is_left_alone("r0 = *(s8 *)(r1 + 4); r2 = *(u8 *)(r1 + 5); r2 <<= 8; r0 |= r2", Passes::GATHER);
}

#[test]
fn a_store_between_keeps_bytes_apart() {
    let between = |store: &str| {
        format!("r3 = r10; r0 = *(u8 *)(r1 + 4); {store}; r2 = *(u8 *)(r1 + 5); r2 <<= 8; r0 |= r2")
    };
    is_left_alone(&between("*(u8 *)(r1 + 4) = 7"), Passes::GATHER);
    is_left_alone(&between("*(u64 *)(r1 + 0) = 7"), Passes::GATHER);
    is_left_alone(
        &between("lock *(u32 *)(r1 + 4) += r10; r3 = r10").replace("+= r10", "+= r0"),
        Passes::GATHER,
    );
    // A store to the stack is none to the map.
    is_changed(&between("*(u8 *)(r10 - 4) = 7"), Passes::GATHER);
}

#[test]
fn a_store_after_the_last_byte_keeps_the_old_ones() {
    is_left_alone(
        "r0 = *(u8 *)(r1 + 4); r2 = *(u8 *)(r1 + 5); *(u8 *)(r1 + 4) = 7; r2 <<= 8; r0 |= r2",
        Passes::GATHER,
    );
}

#[test]
fn a_jump_into_a_chain_keeps_it() {
    is_left_alone(
        "r3 = *(u64 *)(r1 + 8); r0 = 1; if r3 == 0 goto middle; r0 = *(u8 *)(r1 + 4); middle:; \
         r2 = *(u8 *)(r1 + 5); r2 <<= 8; r0 |= r2",
        Passes::GATHER,
    );
}

#[test]
fn a_base_that_the_last_byte_replaces_is_used_before() {
    let offset = "r2 = *(u64 *)(r1 + 0); r2 &= 7; r1 += r2";
    let masked = "movq (%rdi), %rsi; andq $7, %rsi";
    becomes(
        &format!(
            "{offset}; r0 = *(u8 *)(r1 + 1); r1 = *(u8 *)(r1 + 0); w1 <<= 8; w1 |= w0; r0 = r1; r0 += r2"
        ),
        &format!(
            "{masked}; movzwl (%rdi,%rsi), %edi; rorw $8, %di; movzwl %di, %edi; leaq (%rdi,%rsi), %rax"
        ),
    );
    // A store after the last byte does not matter to a load in its place.
    becomes(
        "r2 = *(u8 *)(r1 + 4); r0 = r1; r0 = *(u8 *)(r0 + 5); *(u8 *)(r1 + 4) = 7; r0 <<= 8; r0 |= r2",
        "movzwl 4(%rdi), %eax; movb $7, 4(%rdi)",
    );
}

#[test]
fn a_base_that_is_gone_keeps_its_bytes() {
    for body in [
        "r0 = *(u8 *)(r1 + 4); r2 = *(u8 *)(r1 + 5); r1 = r2; r2 <<= 8; r0 |= r2; r0 += r1",
        // What the last byte made is used besides.
        "r2 = *(u8 *)(r1 + 4); r1 = *(u8 *)(r1 + 5); r3 = r1; r1 <<= 8; r1 |= r2; r0 = r1; r0 += r3",
        "r2 = *(u8 *)(r1 + 4); r1 = *(u8 *)(r1 + 5); r1 <<= 8; r3 = r1; r1 |= r2; r0 = r1; r0 ^= r3",
        "r2 = *(u8 *)(r1 + 4); r1 = *(u8 *)(r1 + 5); r1 <<= 8; r3 = 1; r3 += r1; r1 |= r2; r0 = r1; r0 ^= r3",
    ] {
        is_left_alone(body, Passes::GATHER);
    }
}

#[test]
fn opposite_shifts_become_a_rotation() {
    let load = "r0 = *(u64 *)(r1 + 0)";
    becomes(
        &format!("{load}; r2 = r0; r2 <<= 13; r0 >>= 51; r2 |= r0; r0 = r2; r0 += r2"),
        "movq (%rdi), %rax; rorxq $0x33, %rax, %rsi; leaq (%rsi,%rsi), %rax",
    );
    becomes(
        &format!("{load}; w2 = w0; w2 >>= 17; w0 <<= 15; w0 |= w2"),
        "movq (%rdi), %rax; roll $0xf, %eax",
    );
    becomes(
        &format!("{load}; r2 = r0; r2 >>= 1; r0 <<= 63; r0 += r2"),
        "movq (%rdi), %rax; rolq $0x3f, %rax",
    );
}

#[test]
fn shifts_that_do_not_turn_stay() {
    let load = "r0 = *(u64 *)(r1 + 0)";
    for body in [
        "r2 = r0; r2 <<= 13; r0 >>= 50; r0 |= r2",
        "r2 = r0; r2 <<= 13; r0 += 1; r0 >>= 51; r0 |= r2",
        "r2 = r0; r2 <<= 13; r0 s>>= 51; r0 |= r2",
        "w2 = w0; w2 <<= 13; r0 >>= 51; r0 |= r2",
        "r2 = r0; r2 <<= 13; r0 >>= 51; r0 &= r2",
        // One of the shifted values is needed itself.
        "r2 = r0; r2 <<= 13; r0 >>= 51; r2 |= r0; r0 += r2",
        "r2 = r0; r2 <<= 13; r0 >>= 51; r3 = r0; r0 |= r2; r0 += r3",
    ] {
        is_left_alone(&format!("{load}; {body}"), Passes::ROTATIONS);
    }
}

/// What weir's `hist` makes of its value in r2: r4 is the bucket, r3 lost.
fn bucket(label: usize) -> String {
    let halve = |log2: u32| {
        let constant =
            if log2 == 5 { "w3 = -1".into() } else { format!("r3 = {}", (1u64 << (1 << log2)) - 1) };
        format!("{constant}; r3 -= r2; r3 >>= 63; r3 <<= {log2}; r2 >>= r3; r4 += r3; ")
    };
    let (high, low) = (halve(5) + &halve(4), halve(3) + &halve(2) + &halve(1));
    format!(
        "if r2 s> 0 goto positive{label}; r4 = r2; r4 s>>= 63; r4 += 1; goto done{label}; positive{label}:; r4 = 2; \
         if r2 <= 0xffff goto low{label}; {high} low{label}:; {low} r2 >>= 1; r2 &= 1; r4 += r2; done{label}:"
    )
}

const IN_R2: &str = "r2 = *(u64 *)(r1 + 0)";

#[test]
fn the_highest_bit_is_found_at_once() {
    let body = format!("{IN_R2}; {}; r0 = r4", bucket(0));
    is_changed(&body, Passes::HIGHEST);
    let text = code(&body, Passes::ALL).join("; ");
    assert!(text.contains("bsrq") && !text.contains("$0xffff"), "{text}");
    let near_powers = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
    for value in near_powers.chain([u64::MAX, u64::MAX - 1, i64::MIN as u64 + 2]) {
        agrees(&format!(
            "r2 = {value} ll; *(u64 *)(r10 - 8) = r2; r2 = *(u64 *)(r10 - 8); {}; r0 = r4",
            bucket(0)
        ));
    }
}

#[test]
fn what_only_looks_like_the_highest_bit_stays() {
    let bucket = bucket(0);
    for body in [
        // What the steps leave behind is used.
        format!("{IN_R2}; {bucket}; r0 = r4; r0 += r2"),
        format!("{IN_R2}; r3 = 7; {bucket}; r0 = r4; r0 += r3"),
        // Numbers below 0, and 0.
        format!("{IN_R2}; {bucket}; r0 = r4").replace("s> 0", "s> -1"),
        format!("{IN_R2}; {bucket}; r0 = r4").replace("s> 0", "> 0"),
        format!("{IN_R2}; if r2 == 9 goto positive0; {bucket}; r0 = r4"),
        // In the middle.
        format!("{IN_R2}; r4 = 2; if r2 == 9 goto low0; {bucket}; r0 = r4"),
        format!("{IN_R2}; {bucket}; r0 = r4").replace("goto done0", "r2 = 5"),
        // Another step, another comparison, another first number.
        format!("{IN_R2}; {bucket}; r0 = r4").replace("r3 = 15;", "r3 = 14;"),
        format!("{IN_R2}; {bucket}; r0 = r4").replace("<<= 2", "<<= 3"),
        format!("{IN_R2}; {bucket}; r0 = r4").replace("0xffff", "0xfff"),
        format!("{IN_R2}; {bucket}; r0 = r4").replace("r4 = 2", "r4 = 3"),
        format!("{IN_R2}; {bucket}; r0 = r4").replace("r2 &= 1", "r2 &= 3"),
    ] {
        is_left_alone(&body, Passes::HIGHEST);
    }
}

#[test]
fn addresses_take_in_their_arithmetic() {
    let load = "r2 = *(u64 *)(r1 + 0); r2 &= 7";
    let masked = "movq (%rdi), %rsi; andq $7, %rsi";
    becomes(
        &format!("{load}; r1 += r2; r0 = *(u8 *)(r1 + 9)"),
        &format!("{masked}; movzbl 9(%rdi,%rsi), %eax"),
    );
    becomes(
        &format!("{load}; r3 = r2; r3 <<= 2; r1 += r3; r0 = *(u32 *)(r1 + 4); r0 += r2"),
        &format!("{masked}; movl 4(%rdi,%rsi,4), %eax; addq %rsi, %rax"),
    );
    becomes(
        &format!("{load}; r2 += 3; r1 += r2; r1 += 2; *(u8 *)(r1 + 1) = 5; r0 = 0"),
        &format!("{masked}; movb $5, 6(%rdi,%rsi); xorl %eax, %eax"),
    );
}

#[test]
fn an_address_that_is_used_otherwise_stays() {
    let load = "r2 = *(u64 *)(r1 + 0); r2 &= 7; r0 = 0";
    for body in [
        // As a value.
        "r2 += 5; r1 += r2; r3 = *(u8 *)(r1 + 9); r0 = r2",
        // The index is another one by then.
        "r1 += r2; r2 *= 3; r0 = *(u8 *)(r1 + 9); r0 += r2",
        // Behind a jump.
        "r1 += r2; if r2 == 5 goto over; r0 = *(u8 *)(r1 + 9); over:",
    ] {
        agrees(&format!("{load}; {body}"));
    }
    is_left_alone(&format!("{load}; r1 += r2; r2 *= 3; r0 = *(u8 *)(r1 + 9); r0 += r2"), Passes::ABSORB);
    is_left_alone(
        &format!("{load}; r1 += r2; if r2 == 5 goto over; r0 = *(u8 *)(r1 + 9); over:"),
        Passes::ABSORB,
    );
}

#[test]
fn moves_become_third_operands() {
    let load = "r2 = *(u64 *)(r1 + 0); r3 = *(u64 *)(r1 + 8); *(u64 *)(r1 + 0) = r3";
    let loaded = "movq (%rdi), %rsi; movq 8(%rdi), %rdx; movq %rdx, (%rdi)";
    for (body, expected) in [
        ("r0 = r2; r0 += r3", "leaq (%rsi,%rdx), %rax"),
        ("w0 = w2; w0 += 5", "leal 5(%rsi), %eax"),
        ("r0 = r2; r0 -= 5", "leaq -5(%rsi), %rax"),
        ("r0 = r2; r0 *= 7", "imulq $7, %rsi, %rax"),
        ("r0 = r2; r0 *= 9", "leaq (%rsi,%rsi,8), %rax"),
        ("r0 = r2; r0 >>= r3", "shrxq %rdx, %rsi, %rax"),
        ("r0 = r2; r0 &= 255", "movzbl %sil, %eax"),
        ("r0 = r2; r0 &= 65535", "movzwl %si, %eax"),
        ("r0 = r3; r4 = r2; r4 -= r0; r0 = r4", "movq %rsi, %rcx; subq %rdx, %rcx; movq %rcx, %rax"),
    ] {
        becomes(&format!("{load}; {body}"), &format!("{loaded}; {expected}"));
    }
}

#[test]
fn extensions_of_what_is_extended_go() {
    let cases = [
        ("w0 = *(u32 *)(r1 + 0); r0 <<= 32; r0 >>= 32", "movl (%rdi), %eax"),
        ("r0 = *(u64 *)(r1 + 0); r0 <<= 32; r0 >>= 32", "movq (%rdi), %rax; movl %eax, %eax"),
        ("r0 = *(u64 *)(r1 + 0); r0 <<= 32; r0 >>= 35", "movq (%rdi), %rax; shrl $3, %eax"),
        ("r0 = *(u64 *)(r1 + 0); r0 <<= 32; r0 s>>= 32", "movq (%rdi), %rax; movslq %eax, %rax"),
        ("r2 = *(u32 *)(r1 + 0); w2 = w2; r0 = r2; r0 += r2", "movl (%rdi), %esi; leaq (%rsi,%rsi), %rax"),
    ];
    for (body, expected) in cases {
        becomes(&body.replace("w0 = *", "r0 = *"), expected);
    }
}

#[test]
fn masks_of_what_has_no_more_bits_go() {
    let cases = [
        ("r0 = *(u8 *)(r1 + 0); r0 &= 255", "movzbl (%rdi), %eax"),
        ("r0 = *(u8 *)(r1 + 0); w0 &= -1", "movzbl (%rdi), %eax"),
        ("r0 = *(u16 *)(r1 + 0); r0 = le16 r0", "movzwl (%rdi), %eax"),
        ("r0 = *(u32 *)(r1 + 0); r0 >>= 24; r0 &= 0xff", "movl (%rdi), %eax; shrq $0x18, %rax"),
        (
            "r2 = *(u8 *)(r1 + 0); r0 = r2; r0 &= 255; r0 -= r2",
            "movzbl (%rdi), %esi; movq %rsi, %rax; subq %rsi, %rax",
        ),
        ("r0 = *(u16 *)(r1 + 0); r0 &= 255", "movzwl (%rdi), %eax; movzbl %al, %eax"),
        ("r0 = *(s8 *)(r1 + 0); r0 &= 255", "movsbq (%rdi), %rax; movzbl %al, %eax"),
        ("r0 = *(u8 *)(r1 + 0); r0 += 1; r0 &= 255", "movzbl (%rdi), %eax; addq $1, %rax; movzbl %al, %eax"),
    ];
    for (body, expected) in cases {
        becomes(body, expected);
    }
}

#[test]
fn shifts_to_the_left_and_back_are_one_extension() {
    let load = ("r0 = *(u64 *)(r1 + 0)", "movq (%rdi), %rax");
    let cases = [
        ("r0 <<= 56; r0 s>>= 56", "movsbq %al, %rax"),
        ("r0 <<= 48; r0 s>>= 48", "movswq %ax, %rax"),
        ("w0 <<= 24; w0 s>>= 24", "movsbl %al, %eax"),
        ("w0 <<= 16; w0 s>>= 16", "movswl %ax, %eax"),
        ("w0 <<= 24; w0 >>= 24", "movzbl %al, %eax"),
        ("r0 <<= 48; r0 >>= 48", "andq $0xffff, %rax"),
        ("w0 <<= 24; w0 s>>= 23", "shll $0x18, %eax; sarl $0x17, %eax"),
        ("r0 <<= 24; r0 s>>= 24", "shlq $0x18, %rax; sarq $0x18, %rax"),
    ];
    for (body, expected) in cases {
        becomes(&format!("{}; {body}", load.0), &format!("{}; {expected}", load.1));
    }
}

#[test]
fn comparisons_that_arithmetic_has_made_go() {
    let load = "r0 = *(u64 *)(r1 + 0); r2 = *(u64 *)(r1 + 8)";
    let cases = [
        ("r0 -= r2; if r0 != 0", "subq %rsi, %rax; jne"),
        ("w0 += 3; if w0 == 0", "addl $3, %eax; je"),
        ("r0 &= 6; if r0 s> 0", "andq $6, %rax; jg"),
        ("r0 ^= r2; if r0 s< 0", "xorq %rsi, %rax; jl"),
        ("r0 >>= 3; if r0 == 0", "shrq $3, %rax; je"),
    ];
    for (body, expected) in cases {
        let body = format!("{load}; {body} goto over; r0 = r2; over:");
        let expected: Vec<&str> = expected.split(';').map(str::trim).collect();
        let code = code(&body, Passes::FLAGS);
        let starts = code[2..4].iter().zip(&expected).all(|(line, start)| line.starts_with(start));
        assert!(starts, "{body}: {code:?}");
        agrees(&body);
    }
}

#[test]
fn comparisons_that_arithmetic_has_not_made_stay() {
    let load = "r0 = *(u64 *)(r1 + 0); r2 = *(u64 *)(r1 + 8)";
    let cases = [
        // Overflow and carry are not those of a comparison with 0.
        "r0 -= r2; if r0 s> 0 goto over",
        "r0 += r2; if r0 s< 0 goto over",
        // Of the other width, of another register, of another time.
        "r0 -= r2; if w0 != 0 goto over",
        "w0 -= w2; if r0 != 0 goto over",
        "r0 -= r2; if r2 != 0 goto over",
        "r0 -= r2; r2 += 1; if r0 != 0 goto over",
        "r0 *= r2; if r0 != 0 goto over",
        // Another way leads to the comparison.
        "if r2 == 7 goto there; r0 -= r2; there:; if r0 != 0 goto over",
    ];
    for body in cases {
        is_left_alone(&format!("{load}; {body}; r0 = r2; over:"), Passes::FLAGS);
    }
}

#[test]
fn a_jump_back_to_a_test_becomes_the_test() {
    let body = "r0 = 0; r2 = 0; goto body; head:; r2 += 1; if r2 == 9 goto out; body:; r3 = *(u8 *)(r1 + 0); \
                r0 += r3; if r3 == 7 goto out; goto head; out:";
    let expected = "xorl %eax, %eax; xorl %esi, %esi; jmp 0x1a; addq $1, %rsi; cmpq $9, %rsi; je 0x30; \
                    movzbl (%rdi), %edx; addq %rdx, %rax; cmpq $7, %rdx; je 0x30; addq $1, %rsi; cmpq $9, %rsi; \
                    jne 0x1a";
    let expected: Vec<&str> = expected.split(';').map(str::trim).collect();
    assert_eq!(code(body, Passes::INVERSIONS), expected);
    agrees(body);
    let other = |old: &str, new: &str| is_left_alone(&body.replace(old, new), Passes::INVERSIONS);
    // No test is the opposite of this one; a division is more than an instruction or two.
    other("if r2 == 9", "if r2 & 8");
    other("r2 += 1;", "r2 += 1; r0 /= r2;");
    other("r2 += 1;", &format!("r2 += 1; {}", "r0 += r2; ".repeat(8)));
}

#[test]
fn choices_between_constants_become_conditional_moves() {
    becomes(
        "r2 = *(u8 *)(r1 + 0); r0 = 48; if r2 > 9 goto over; r0 = 87; over:",
        "movzbl (%rdi), %esi; movl $0x30, %eax; cmpq $9, %rsi; movl $0x57, %r11d; cmovbeq %r11, %rax",
    );
    let both = [("r0 = 1", "r0 = 0", "setab %al"), ("r0 = 0", "r0 = 1", "setbeb %al")];
    for (before, arm, set) in both {
        becomes(
            &format!("r2 = *(u8 *)(r1 + 0); {before}; if r2 > 9 goto over; {arm}; over:"),
            &format!("movzbl (%rdi), %esi; xorl %eax, %eax; cmpq $9, %rsi; {set}"),
        );
    }
    becomes(
        "r2 = *(u8 *)(r1 + 0); if r2 == 0 goto other; r0 = 1; if r2 > 9 goto over; r0 = 0; goto over; other:; \
         r0 = r2; over:",
        "movzbl (%rdi), %esi; testq %rsi, %rsi; je 0x1d; xorl %eax, %eax; cmpq $9, %rsi; setab %al; jmp 0x20; \
         movq %rsi, %rax",
    );
    is_left_alone(
        "r2 = *(u8 *)(r1 + 0); r0 = 1; if r2 > 9 goto over; r0 = 0; goto other; over:; r0 += 2; other:",
        Passes::DIAMONDS,
    );
    is_left_alone("r2 = *(u8 *)(r1 + 0); r0 = r2; if r2 > 9 goto over; r0 = 87; over:", Passes::DIAMONDS);
    is_left_alone("r2 = *(u8 *)(r1 + 0); r0 = 1; if r2 > 9 goto over; r0 += 87; over:", Passes::DIAMONDS);
}

#[test]
fn a_branch_over_a_jump_becomes_the_opposite_branch() {
    let body = "r0 = 0; r2 = 0; top:; r0 += r2; r2 += 1; if r2 == 9 goto out; goto top; out:";
    let expected =
        ["xorl %eax, %eax", "xorl %esi, %esi", "addq %rsi, %rax", "addq $1, %rsi", "cmpq $9, %rsi", "jne 4"];
    assert_eq!(code(body, Passes::JUMPS), expected);
    agrees(body);
}

#[test]
fn loops_begin_at_round_addresses() {
    let body = "r0 = 0; r2 = 0; top:; r0 += r2; r2 += 1; if r2 != 9 goto top";
    assert_eq!(code(body, Passes::ALIGN).last().unwrap(), "jne 0x20");
    agrees(body);
}

#[test]
fn division_by_a_constant_multiplies() {
    let load = "r2 = *(u64 *)(r1 + 0)";
    becomes(
        &format!("{load}; w0 = w2; w0 /= 1000"),
        "movq (%rdi), %rsi; movl %esi, %eax; imulq $0x10624dd3, %rax; shrq $0x26, %rax",
    );
    for divisor in [3, 5, 6, 7, 10, 11, 14, 28, 641, 1000, 0x7fff_ffff, 0x7fff_fffe] {
        for (registers, reg) in [("r0 = r2; r3 = r2; r0", "r3"), ("w0 = w2; w3 = w2; w0", "w3")] {
            let body =
                |op: &str| format!("{load}; {registers} {op}= {divisor}; {reg} += 5; {reg} {op}= {divisor}");
            for op in ["/", "%"] {
                agrees(&format!("{}; r0 += r3", body(op)));
                agrees(&format!("{load}; r3 = r2; r2 {op}= {divisor}; r0 = r2; r0 ^= r3"));
            }
        }
    }
}

#[test]
fn counts_of_shifts_need_no_mask() {
    let load = "r2 = *(u64 *)(r1 + 0); r0 = *(u64 *)(r1 + 8)";
    let loaded = "movq (%rdi), %rsi; movq 8(%rdi), %rax";
    becomes(&format!("{load}; r2 &= 63; r0 <<= r2"), &format!("{loaded}; shlxq %rsi, %rax, %rax"));
    becomes(&format!("{load}; w2 &= 127; w0 >>= w2"), &format!("{loaded}; shrxl %esi, %eax, %eax"));
    is_left_alone(&format!("{load}; r2 &= 31; r0 <<= r2"), Passes::ABSORB);
    is_left_alone(&format!("{load}; r2 &= 63; r0 <<= r2; r0 += r2"), Passes::ABSORB);
}

#[test]
fn load_change_and_store_are_one_update() {
    let load = "r2 = *(u64 *)(r1 + 0)";
    for (body, expected) in [
        (
            "r3 = *(u64 *)(r1 + 8); r3 += 1; *(u64 *)(r1 + 8) = r3; r0 = r2",
            "addq $1, 8(%rdi); movq %rsi, %rax",
        ),
        (
            "r3 = *(u8 *)(r1 + 8); r3 ^= r2; *(u8 *)(r1 + 8) = r3; r0 = r2",
            "xorb %sil, 8(%rdi); movq %rsi, %rax",
        ),
        (
            "r3 = *(u16 *)(r1 + 8); w3 &= 4095; *(u16 *)(r1 + 8) = r3; r0 = r2",
            "andw $0xfff, 8(%rdi); movq %rsi, %rax",
        ),
        (
            "r2 &= 7; r1 += r2; r3 = *(u32 *)(r1 + 8); r3 -= r2; *(u32 *)(r1 + 8) = r3; r0 = r2",
            "andq $7, %rsi; subl %esi, 8(%rdi,%rsi); movq %rsi, %rax",
        ),
    ] {
        becomes(&format!("{load}; {body}"), &format!("movq (%rdi), %rsi; {expected}"));
    }
}

#[test]
fn what_is_no_update_stays() {
    let load = "r2 = *(u64 *)(r1 + 0); r4 = 0";
    for body in [
        "r3 = *(u64 *)(r1 + 8); r3 += 1; *(u64 *)(r1 + 16) = r3; r0 = r2",
        "r3 = *(u32 *)(r1 + 8); r3 += 1; *(u64 *)(r1 + 8) = r3; r0 = r2",
        "r3 = *(u64 *)(r1 + 8); w3 += 1; *(u64 *)(r1 + 8) = r3; r0 = r2",
        "r3 = *(u64 *)(r1 + 8); r3 += r3; *(u64 *)(r1 + 8) = r3; r0 = r2",
        "r3 = *(u64 *)(r1 + 8); r3 += 1; *(u64 *)(r1 + 8) = r2; r0 = r3",
        "r3 = *(u64 *)(r1 + 8); r3 += 1; *(u64 *)(r1 + 8) = r3; r0 = r3",
        "r3 = *(u64 *)(r1 + 8); r3 <<= 1; *(u64 *)(r1 + 8) = r3; r0 = r2",
        "r3 = *(u64 *)(r1 + 8); if r2 == 5 goto over; r3 += 1; over:; *(u64 *)(r1 + 8) = r3; r0 = r2",
        "r3 = *(u64 *)(r1 + 8); r3 += 1; if r2 == 5 goto over; *(u64 *)(r1 + 8) = r3; over:; r0 = r2",
    ] {
        is_left_alone(&format!("{load}; {body}"), Passes::UPDATES);
    }
}

#[test]
fn places_on_the_stack_become_registers() {
    let load = "r2 = *(u64 *)(r1 + 0)";
    for (body, expected) in [
        (
            "*(u64 *)(r10 - 8) = r2; r2 += 1; r0 = *(u64 *)(r10 - 8); r0 *= r2",
            "movq %rsi, %r9; addq $1, %rsi; movq %rsi, %rax; imulq %r9, %rax",
        ),
        (
            "*(u32 *)(r10 - 8) = r2; r2 += 1; r0 = *(s32 *)(r10 - 8); r0 ^= r2",
            "movl %esi, %r9d; addq $1, %rsi; movslq %r9d, %rax; xorq %rsi, %rax",
        ),
        (
            "*(u64 *)(r10 - 8) = -7; r0 = *(u32 *)(r10 - 8); r0 ^= r2",
            "movq $-7, %r9; movl %r9d, %eax; xorq %rsi, %rax",
        ),
    ] {
        let got = code(&format!("{load}; {body}"), Passes::ALL);
        assert!(!got.join(";").contains("rsp"), "{got:?} {expected}");
        agrees(&format!("{load}; {body}"));
    }
}

#[test]
fn places_that_something_else_reaches_stay() {
    let load = "r2 = *(u64 *)(r1 + 0); *(u64 *)(r10 - 16) = r2";
    for body in [
        // Another place overlaps.
        "*(u32 *)(r10 - 12) = 5; r0 = *(u64 *)(r10 - 16)",
        "*(u8 *)(r10 - 16) = 5; r0 = *(u64 *)(r10 - 16)",
        "*(u32 *)(r10 - 16) = 5; r0 = *(u64 *)(r10 - 16)",
        "r0 = *(u16 *)(r10 - 16)",
        "r0 = *(u64 *)(r10 - 16); lock *(u64 *)(r10 - 16) += r2; r2 = *(u64 *)(r10 - 16); r0 += r2",
        // A pointer that moved by what is not known.
        "*(u64 *)(r10 - 8) = 7; r3 = r10; r3 += -16; if r2 == 5 goto over; r3 += 8; over:; *(u64 *)(r3 + 0) = 3; \
         r0 = *(u64 *)(r10 - 16)",
    ] {
        is_left_alone(&format!("{load}; {body}"), Passes::PROMOTE);
    }
}

#[test]
fn a_register_for_a_place_outlives_calls() {
    let body = "r2 = *(u64 *)(r1 + 0); r3 = *(u64 *)(r1 + 8); *(u64 *)(r10 - 8) = r2; *(u64 *)(r10 - 16) = r3; \
                r1 = r3; call f; r2 = *(u64 *)(r10 - 8); r0 += r2; r0 ^= r2; r2 = *(u64 *)(r10 - 8); r0 *= r2; r2 = *(u64 *)(r10 - 16); r0 -= r2; exit; \
                f:; *(u64 *)(r10 - 8) = r1; r1 *= r1; r0 = *(u64 *)(r10 - 8); r0 += r1; r1 = *(u64 *)(r10 - 8); r0 *= r1";
    is_changed(body, Passes::PROMOTE);
    assert!(code(body, Passes::ALL).join(";").contains("%r12"));
}

#[test]
fn random_idioms_agree() {
    let daily = Daily { seed: 0x1d10, at_least: 25, at_most: 250, budget: Duration::from_secs(2) };
    let mut cases = Cases::of("WEIR_IDIOMS", daily);
    let mut random = Random(cases.seed());
    let mut changed = vec![0; Passes::each().count()];
    for _ in cases.by_ref() {
        let body = random_idioms(&mut random);
        let object = weir_ebpf::asm::parse(&text(&body)).unwrap_or_else(|error| panic!("{error}\n{body}"));
        let program = verified(&object.programs[0], &object.maps);
        agree(&object.maps, &program, &mut random, &body.replace(';', "\n"));
        let of = |passes| engines::compiled(&program, &abi(true), Flags::Only(passes)).code;
        for (pass, changed) in Passes::each().zip(&mut changed) {
            *changed += u64::from(of(pass) != of(Passes::NONE));
        }
    }
    // Jumps to jumps are not among the idioms.
    assert!(changed[1..].iter().all(|&count| count > cases.given() / 50), "{changed:?}");
}

/// Straight code full of what passes look for, with mistakes in it; r1 stays the memory, r0 and r2 to r7 are numbers.
fn random_idioms(random: &mut Random) -> String {
    let mut lines = Vec::new();
    for reg in [0, 2, 3, 4, 5, 6, 7] {
        lines.push(format!("r{reg} = *(u{} *)(r1 + {})", random.pick(&[8, 16, 32, 64]), 8 * reg));
    }
    lines.push("*(u64 *)(r10 - 8) = r2; *(u64 *)(r10 - 16) = r3".into());
    for number in 0..6 {
        let idiom = random_idiom(random, number);
        // A line that is lost, or another between, makes an idiom something else.
        for line in idiom {
            match random.below(12) {
                0 => {}
                1 => lines.extend([line, random_line(random)]),
                _ => lines.push(line),
            }
        }
    }
    for reg in [2, 3, 4, 5, 6, 7] {
        lines.push(format!("r0 *= 31; r0 ^= r{reg}"));
    }
    lines.push("r2 = *(u64 *)(r10 - 8); r0 ^= r2; r2 = *(u64 *)(r10 - 16); r0 += r2".into());
    lines.join("; ")
}

fn number(random: &mut Random) -> u64 {
    random.pick(&[0, 2, 3, 4, 5, 6, 7])
}

fn random_line(random: &mut Random) -> String {
    let (a, b) = (number(random), number(random));
    let offset = random.below(56);
    match random.below(10) {
        0 => format!("r{a} = r{b}"),
        1 => format!("w{a} = w{b}"),
        2 => format!("r{a} += r{b}"),
        3 => format!("w{a} ^= w{b}"),
        4 => format!("*(u8 *)(r1 + {offset}) = r{a}"),
        5 => format!("*(u{} *)(r10 - 16) = r{a}", random.pick(&[8, 16, 32, 64])),
        6 => format!("r{a} = *(u64 *)(r1 + {offset})")
            .replace("u64", random.pick(&["u8", "u16", "s16", "u32"])),
        7 => format!(
            "r{a} {}= {}",
            random.pick(&["+", "-", "&", "<<", ">>", "*", "/", "%"]),
            1 + random.below(31)
        ),
        8 => format!(
            "w{a} {}= {}",
            random.pick(&["+", "-", "&", "<<", ">>", "*", "/", "%"]),
            1 + random.below(31)
        ),
        _ => format!("r{a} = *(u32 *)(r10 - {})", random.pick(&[4, 8, 12, 16])),
    }
}

fn random_idiom(random: &mut Random, number_of_label: usize) -> Vec<String> {
    let (a, b, c) = (number(random), number(random), number(random));
    let r = random.pick(&["r", "w"]);
    let constant = random.below(100);
    match random.below(16) {
        15 => {
            let before = format!("r2 = *(u64 *)(r1 + {}); r2 += r{a}", constant % 56);
            vec![before, bucket(number_of_label), format!("r2 = {constant}"), "r3 = r4".into()]
        }
        10 => {
            let bits = if r == "r" { random.pick(&[56, 48, 24]) } else { random.pick(&[24, 16, 8]) };
            vec![format!("{r}{a} <<= {bits}"), format!("{r}{a} {}= {bits}", random.pick(&[">>", "s>>"]))]
        }
        11 => vec![
            format!("r{a} = *({} *)(r1 + {})", random.pick(&["u8", "u16", "u32", "s8"]), constant % 56),
            format!("{r}{b} = {r}{a}"),
            format!("{r}{a} {}= {}", random.pick(&[">>", "+", "&", "*"]), 1 + constant % 9),
            format!("{r}{} &= {}", random.pick(&[a, b]), random.pick(&["255", "65535", "-1", "127"])),
        ],
        12 => vec![
            format!("{r}{a} {}= {r}{b}", random.pick(&["+", "-", "&", "|", "^"])),
            format!("{}{a} {}= {}", r, random.pick(&["-", ">>", "<<", "&"]), 1 + constant % 31),
            format!(
                "if {}{a} {} 0 goto l{number_of_label}; r{c} = r{a}; l{number_of_label}:",
                random.pick(&["r", "w"]),
                random.pick(&["==", "!=", "s<", "s>", ">", "<=", "s>="]),
            ),
        ],
        13 => vec![format!(
            "if r{c} == 3 goto m{number_of_label}; r{a} = {}; if {r}{b} {} {constant} goto l{number_of_label}; \
             r{a} = {}; goto l{number_of_label}; m{number_of_label}:; r{a} += 7; l{number_of_label}:",
            random.below(2),
            random.pick(&[">", "==", "!=", "s<"]),
            random.below(3),
        )],
        14 => vec![format!(
            "r9 = 0; goto b{number_of_label}; h{number_of_label}:; r9 += 1; \
             if r9 {} {} goto o{number_of_label}; b{number_of_label}:; {r}{a} += {r}9; \
             if {r}{b} {} {constant} goto h{number_of_label}; r{a} ^= {constant}; goto h{number_of_label}; \
             o{number_of_label}:; r9 = 0",
            random.pick(&["==", ">"]),
            1 + random.below(3),
            random.pick(&[">", "==", "&", "s<"]),
        )],
        8 => vec![
            format!("r{a} = *(u32 *)(r1 + {constant})")
                .replace(&constant.to_string(), &(constant % 60).to_string()),
            format!("{r}{a} {}= r{c}", random.pick(&["+", "-", "|", "&", "^"]))
                .replace("= r", &format!("= {r}")),
            format!("*(u32 *)(r1 + {}) = r{a}; r{a} = 1", constant % 60),
        ],
        9 => vec![
            format!("{r}{b} &= {}", random.pick(&[31, 63, 127, 15])),
            format!("{}{a} {}= {}{b}", "r", random.pick(&["<<", ">>", "s>>"]), "r"),
        ],
        0 => random_bytes(random, a, b),
        1 => {
            let bits = 1 + random.below(31);
            let rest = if r == "r" { 64 } else { 32 } - bits;
            let (one, other) = if random.below(2) == 0 { ("<<", ">>") } else { (">>", "<<") };
            let (x, y) = if random.below(2) == 0 { (a, b) } else { (b, a) };
            vec![
                format!("{r}{b} = {r}{a}"),
                format!("{r}{b} {one}= {bits}"),
                format!("{r}{a} {other}= {rest}"),
                format!("{r}{x} {}= {r}{y}", random.pick(&["|", "+", "^"])),
            ]
        }
        2 => {
            let scale = random.below(3);
            let size = random.pick(&["u8", "u16", "u32", "s8", "u64"]);
            let mut lines = vec![
                format!("r{a} &= 3; r{b} = r{a}; r{b} <<= {scale}; r{b} &= 31; r8 = r1; r8 += r{b}"),
                format!("r{c} = *({size} *)(r8 + {})", random.below(20)),
            ];
            if random.below(2) == 0 {
                lines.push(format!("*(u16 *)(r8 + {}) = r{a}", random.below(20)));
            }
            // Not a number: it may not stay.
            lines.push("r8 = 0".into());
            vec![lines.join("; ")]
        }
        3 => vec![
            format!("r{a} <<= 32"),
            format!("r{a} {}= {}", random.pick(&[">>", "s>>"]), 32 + random.below(8)),
        ],
        4 => vec![
            format!("{r}{a} = {constant}"),
            format!(
                "if {r}{b} {} {} goto l{number_of_label}; {r}{a} = {}; l{number_of_label}:",
                random.pick(&[">", "==", "!=", "s<", "<=", "&"]),
                random.pick(&["0", "77", "-1", "65536"]),
                random.pick(&["0", "1", "-1", "77"]),
            ),
        ],
        5 => vec![
            format!("{r}{a} = {r}{b}"),
            format!("{r}{a} {}= {r}{c}", random.pick(&["+", "-", "*", "&", "<<"])),
        ],
        6 => {
            vec![format!("{r}{a} = {r}{b}"), format!("{r}{a} {}= {}", random.pick(&["/", "%"]), 3 + constant)]
        }
        _ => vec![random_line(random)],
    }
}

/// Bytes put together in `a`, in either order, sometimes with a wrong one.
fn random_bytes(random: &mut Random, a: u64, b: u64) -> Vec<String> {
    let count = random.pick(&[2, 4, 8]);
    let is_swapped = random.below(2) == 0;
    let (base, lowest) = if random.below(3) == 0 { ("r10", -16) } else { ("r1", random.below(50) as i64) };
    let mut lines = Vec::new();
    // The last byte may come over its own base.
    let over_base = random.below(3) == 0;
    for byte in 0..count {
        let wrong = i64::from(random.below(30) == 0);
        let at = lowest + wrong + if is_swapped { count - 1 - byte } else { byte };
        let at = if at < 0 { format!("- {}", -at) } else { format!("+ {at}") };
        let reg = if byte == 0 { a } else { b };
        if over_base && byte == count - 1 {
            lines.push(format!("r{reg} = {base}; r{reg} = *(u8 *)(r{reg} {at})"));
        } else {
            lines.push(format!("r{reg} = *(u8 *)({base} {at})"));
        }
        if byte > 0 {
            lines.push(format!("r{b} <<= {}", 8 * byte));
            let is_last = byte == count - 1 && over_base;
            lines.push(if is_last { format!("r{b} |= r{a}; r{a} = r{b}") } else { format!("r{a} |= r{b}") });
        }
    }
    lines
}
