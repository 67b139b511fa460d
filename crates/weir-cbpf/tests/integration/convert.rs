//! Converted programs are accepted by the verifier, and return on weir's engines what the interpreter returns.

use std::time::Duration;

use testkit::random::{Cases, Daily};
use weir_cbpf::text::{self, Form};
use weir_cbpf::{
    FarOffsets, Insn, Machine, Metadata, Program, Target, ancillary, check, convert, opcode, run, run_for,
};
use weir_rt::Context;

use crate::engines::{Ready, context};
use crate::generate::{self, Random, Style};

/// Programs of a run of the suite, of each style. `WEIR_CBPF=SEED:COUNT` asks for others.
const DAILY: Daily = Daily { seed: 1, at_least: 100, at_most: 1_000, budget: Duration::from_secs(1) };
/// Packets that each is tried on.
const PACKETS: usize = 12;

fn program(text: &str) -> Program {
    let insns = text::parse(text, Form::Disassembly).unwrap_or_else(|error| panic!("{error}\n{text}"));
    check(&insns, Machine::Userland).unwrap_or_else(|refused| panic!("{refused}"))
}

fn metadata(random: &mut Random) -> Metadata {
    let mut any = || random.next();
    Metadata {
        protocol: any() & 0xffff,
        pkt_type: any() % 5,
        ifindex: any() % 9,
        mark: any(),
        queue: any() % 9,
        rxhash: any(),
        vlan_tag: any() & 0xffff,
        vlan_tag_present: any() % 2,
        vlan_tpid: any() & 0xffff,
        ..Metadata::default()
    }
}

#[test]
fn converted_programs_return_the_same() {
    let cases = Cases::of("WEIR_CBPF", DAILY);
    let mut random = Random::new(cases.seed());
    let (mut others, mut runs) = (0, 0);
    let mut seen = std::collections::BTreeSet::new();
    for _ in cases {
        for (style, far_offsets) in [(Style::Any, FarOffsets::Outside), (Style::Facts, FarOffsets::Ancillary)]
        {
            let insns = generate::program(&mut random, style);
            seen.extend(insns.iter().map(|insn| insn.code));
            let checked = check(&insns, Machine::Userland).expect("made to be accepted");
            let ready = Ready::of(&checked, far_offsets);
            for _ in 0..PACKETS {
                let length = random.below(40);
                let packet = generate::packet(&mut random, length);
                let wire_len = length + random.below(3) * 100;
                let facts = metadata(&mut random);
                let given = Some(&facts).filter(|_| far_offsets == FarOffsets::Ancillary);
                let expected = run(&checked, &packet, wire_len, given).expect("it goes forward");
                let found = ready.both(|| context(&packet, wire_len, &facts));
                assert_eq!(found, expected, "{}{packet:02x?}", text::print(&insns, Form::Disassembly));
                others += usize::from(expected != 0);
                runs += 1;
            }
        }
    }
    println!("counts: runs={runs} not_zero={others}");
    assert_eq!(seen.len(), opcode::ALL.len());
    assert!(others > runs / 5, "{others} of {runs} do not return 0");
}

/// Places where eBPF's meaning is another.
#[test]
fn corners_keep_userland_s_meaning() {
    let interesting = [0, 1, 2, 7, 8, 31, 32, 33, 0x7fff_ffff, 0x8000_0000, 0xffff_f000, 0xffff_ffff];
    let packet = [1, 2, 3, 4, 5, 6, 7, 8];
    for row in opcode::ALL {
        for k in interesting {
            let skips = if opcode::has_targets(row.code) { 1 } else { 0 };
            let tested = Insn { code: row.code, jt: skips, jf: 0, k };
            let end = [tested, Insn::alu(0xa0, 0x55), Insn::plain(0x02, 1), Insn::plain(0x87, 0)];
            let end = [&end[..], &[Insn::alu(0x20, 3), Insn::plain(0x07, 0), Insn::plain(0x60, 1)]].concat();
            for (a, x) in
                [(0xdead_beef, 0), (0x8000_0001, 31), (7, 32), (1, 0x7fff_ffff), (0xffff_ffff, 0xffff_fffe)]
            {
                let begin = [Insn::plain(0x01, x), Insn::plain(0x00, a)];
                let insns = [&begin[..], &end, &[Insn::alu(0x0c, 0), Insn::ret_a()]].concat();
                // Jumps out of the program, slots that do not exist, division by 0.
                let Ok(checked) = check(&insns, Machine::Userland) else { continue };
                // Backwards, without an end.
                if row.operand == opcode::Operand::Target && k > i32::MAX as u32 {
                    continue;
                }
                let ready = Ready::of(&checked, FarOffsets::Outside);
                let expected = run(&checked, &packet, 8, None).expect("it goes forward");
                let found = ready.both(|| context(&packet, 8, &Metadata::default()));
                assert_eq!(found, expected, "{}", text::print(&insns, Form::Disassembly));
            }
        }
    }
}

/// `tcpdump -y EN10MB -d 'ip6 protochain 6'`.
const PROTOCHAIN: &str = include_str!("protochain.txt");

#[test]
fn loops_end_where_the_original_s_do() {
    let checked = program(PROTOCHAIN);
    let ready = Ready::of(&checked, FarOffsets::Outside);
    let mut answers = Vec::new();
    // Hop-by-hop options, destination options, then TCP or UDP; and headers that lead outside the packet.
    for headers in [&[6][..], &[0, 60, 6], &[0, 60, 17], &[60, 60, 60, 60], &[51, 6], &[59]] {
        let mut packet = vec![0; 54];
        packet[12..14].copy_from_slice(&[0x86, 0xdd]);
        packet[20] = headers[0];
        for next in &headers[1..] {
            packet.extend([*next, 0, 0, 0, 0, 0, 0, 0]);
        }
        let expected = run(&checked, &packet, packet.len() as u32, None).expect("it ends");
        assert_eq!(ready.both(|| context(&packet, packet.len() as u32, &Metadata::default())), expected);
        answers.push(expected);
    }
    assert!(answers.contains(&0) && answers.contains(&262_144), "{answers:?}");
}

#[test]
fn a_program_without_an_end_returns_0() {
    let checked = program("(000) ld #1\n(001) ja 0\n(002) ret #1");
    let ready = Ready::of(&checked, FarOffsets::Outside);
    assert!(run_for(&checked, &[], 0, None, 100).is_err());
    assert_eq!(ready.compiled(context(&[], 0, &Metadata::default())), 0);
}

#[test]
fn the_kernel_s_far_offsets_reach_headers_and_wrap() {
    let answer = |text: &str| {
        let ready = Ready::of(&program(text), FarOffsets::Kernel);
        ready.both(|| Context::socket(&[0xa0, 0xa1, 0xa2], &[0xb0, 0xb1, 0xb2]))
    };
    assert_eq!(answer("(000) ldb [1]\n(001) ret"), 0xb1);
    assert_eq!(answer("(000) ldb [-1048575]\n(001) ret"), 0xb1);
    assert_eq!(answer("(000) ldh [-2097151]\n(001) ret"), 0xa1a2);
    assert_eq!(answer("(000) ldx #-1048576\n(001) ldb [x + 2]\n(002) ret"), 0xb2);
    assert_eq!(answer("(000) ldx #-1\n(001) ldb [x + 2]\n(002) ret"), 0xb1);
    assert_eq!(answer("(000) ldx #1\n(001) ld [xor_x]\n(002) ret"), 1);
    assert_eq!(answer("(000) ldxb 4*([-1048575]&0xf)\n(001) txa\n(002) ret"), 4);
}

#[test]
fn every_fact_is_converted_or_named() {
    let target = Target { name: "facts".into(), far_offsets: FarOffsets::Ancillary };
    let mut refused = Vec::new();
    for row in ancillary::ALL {
        let insns = [Insn::load(0, ancillary::BASE + row.offset), Insn::ret_a()];
        let checked = check(&insns, Machine::Kernel).expect("the kernel has it");
        match convert(&checked, &target) {
            Ok(_) => drop(Ready::of(&checked, FarOffsets::Ancillary)),
            Err(error) => refused.push(error.to_string()),
        }
    }
    assert_eq!(refused.len(), 4);
    let expected =
        "(000) ld [hatype]: the context of eBPF's socket filters has nothing that says HardwareType";
    assert_eq!(refused[2], expected);
}

/// A `ja` over more instructions than a jump's 16 bits say.
#[test]
fn long_ways_are_jumped() {
    let mut insns =
        vec![Insn::load(0x10, 0), Insn::jump(0x10, 1, 1, 0), Insn::always(0), Insn::plain(0x01, 3)];
    let divisions = 9_000;
    insns[2] = Insn::always(divisions + 1);
    insns.extend((0..divisions).map(|_| Insn::alu(0x3c, 0)));
    insns.push(Insn::ret_a());
    let checked = check(&insns, Machine::Userland).expect("it is a program");
    let ready = Ready::of(&checked, FarOffsets::Outside);
    for first in [1, 2] {
        let expected = run(&checked, &[first], 1, None).expect("it ends");
        assert_eq!(ready.both(|| context(&[first], 1, &Metadata::default())), expected);
    }
}
