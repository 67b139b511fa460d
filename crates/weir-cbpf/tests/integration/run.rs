//! What programs return, where the machines of classic BPF may differ. Each case was tried with libpcap's `bpf_filter`,
//! but those that say otherwise.

use weir_cbpf::text::{self, Form};
use weir_cbpf::{Endless, Machine, Metadata, Program, check, run, run_for};

const PACKET: [u8; 8] = [0x45, 1, 2, 3, 0xff, 0xfe, 0xfd, 0xfc];

/// The lines of a disassembly, without their numbers.
fn program(lines: &str) -> Program {
    let numbered: Vec<String> =
        lines.split("; ").enumerate().map(|(at, line)| format!("({at:03}) {line}")).collect();
    let insns =
        text::parse(&numbered.join("\n"), Form::Disassembly).unwrap_or_else(|error| panic!("{error}"));
    check(&insns, Machine::Userland).unwrap_or_else(|refused| panic!("{refused}"))
}

#[track_caller]
fn returns(lines: &str, expected: u32) {
    assert_eq!(run(&program(lines), &PACKET, 100, None), Ok(expected), "{lines}");
}

#[test]
fn loads_are_big_endian_and_inside_the_captured_bytes() {
    returns("ld [4]; ret", 0xfffe_fdfc);
    returns("ldh [6]; ret", 0xfdfc);
    returns("ldb [7]; ret", 0xfc);
    returns("ld [5]; ret #1", 0);
    returns("ldh [7]; ret #1", 0);
    returns("ldb [8]; ret #1", 0);
    returns("ldb [-1]; ret #1", 0);
    returns("ldx #6; ldh [x + 0]; ret", 0xfdfc);
    returns("ldx #6; ldb [x + 2]; ret #1", 0);
    returns("ldx #-1; ldb [x + 1]; ret #1", 0);
    returns("ldx #-1; ldb [x + 2]; ret #1", 0);
    returns("ldxb 4*([0]&0xf); txa; ret", 20);
    returns("ldxb 4*([8]&0xf); ret #1", 0);
    returns("ld #pktlen; ret", 100);
    returns("unimp 0x81; txa; ret", 100);
}

#[test]
fn numbers_have_32_bits() {
    returns("ld #-1; add #2; ret", 1);
    returns("ld #1; sub #2; ret", u32::MAX);
    returns("ld #0x10000; mul #0x10001; ret", 0x10000);
    returns("ld #-2; div #2; ret", 0x7fff_ffff);
    returns("ld #-2; mod #7; ret", 0xffff_fffe % 7);
    returns("ld #5; neg; ret", -5_i32 as u32);
    returns("ld #12; ldx #10; and x; tax; ld #1; or x; xor #3; ret", 10);
    returns("ld #1; lsh #31; rsh #30; ret", 2);
}

#[test]
fn shifts_by_32_give_0() {
    returns("ld #-1; ldx #32; lsh x; ret", 0);
    returns("ld #-1; ldx #-1; rsh x; ret", 0);
    // libpcap's interpreter leaves these to the machine; its optimiser says 0.
    returns("ld #-1; lsh #32; ret", 0);
    returns("ld #-1; rsh #33; ret", 0);
}

#[test]
fn division_by_0_ends_the_program() {
    returns("ld #1; div x; ret #1", 0);
    returns("ld #1; mod x; ret #1", 0);
}

#[test]
fn jumps_compare_unsigned() {
    let jumps = |condition: &str, a: i64, expected| {
        returns(&format!("ldx #1; ld #{a}; {condition} jt 3 jf 4; ret #1; ret #2"), expected);
    };
    jumps("jgt #1", -1, 1);
    jumps("jgt x", 1, 2);
    jumps("jge #-2147483648", 0x7fff_ffff, 2);
    jumps("jge x", 1, 1);
    jumps("jeq #-1", -1, 1);
    jumps("jeq x", 2, 2);
    jumps("jset #-2147483648", -1, 1);
    jumps("jset x", 2, 2);
    returns("ja 2; ret #1; ret #2", 2);
}

#[test]
fn registers_and_memory_are_0_at_first() {
    returns("ret", 0);
    returns("txa; ret", 0);
    // libpcap leaves what was there in M[].
    returns("ld M[3]; ret", 0);
    returns("ld #7; st M[15]; ldx M[15]; stx M[0]; ld M[0]; ret", 7);
}

#[test]
fn ancillary_loads_need_metadata() {
    let metadata = Metadata { vlan_tag: 0x2005, vlan_tag_present: 1, ..Metadata::default() };
    let with = |lines: &str| run(&program(lines), &PACKET, 8, Some(&metadata)).unwrap();
    assert_eq!(with("ldh [vlan_tci]; ret"), 0x2005);
    assert_eq!(with("ldb [vlanp]; ret"), 1);
    assert_eq!(with("ld [mark]; ret"), 0);
    assert_eq!(with("ld #6; ldx #3; tax; ld #5; ld [xor_x]; ret"), 3);
    assert_eq!(with("ld [nla]; ret #1"), 0);
    assert_eq!(with("ldx #-4096; ldb [x + 48]; ret #1"), 0);
    returns("ldb [vlanp]; ret #1", 0);
}

#[test]
fn a_program_without_an_end_is_given_up() {
    let endless = program("ja 0; ret #1");
    assert_eq!(run(&endless, &PACKET, 8, None), Err(Endless { steps: 1 << 20 }));
    let counts = program("add #1; jeq #5 jt 3 jf 2; ja 0; ret");
    assert_eq!(run_for(&counts, &PACKET, 8, None, 15), Ok(5));
    assert_eq!(run_for(&counts, &PACKET, 8, None, 14), Err(Endless { steps: 14 }));
}
