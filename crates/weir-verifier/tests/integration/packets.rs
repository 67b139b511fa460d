//! Programs of packets and memory: what must be accepted and what refused. The kernel is asked about the same programs
//! of packets; memory is weir's own.

use crate::lent;
use crate::worlds;

use std::time::Duration;

use lent::{
    CGROUP_SKB, CGROUP_SOCK, FLOW_DISSECTOR, MEMORY, NOT_CGROUP_SKB, NOT_CGROUP_SOCK, NOT_CLASSIFIER_HERE,
    NOT_FLOW_DISSECTOR, NOT_MEMORY, NOT_SK_MSG, NOT_SOCKET, NOT_SOCKET_HERE, NOT_XDP, NOT_XDP_HERE, SK_MSG,
    SOCKET, XDP, XDP_HERE, object,
};
use testkit::random::{Cases, Daily};
use weir_ebpf::{Insn, Object, ProgramKind, asm};
use weir_interp::{Environment, Fault, run_unverified};
use weir_rt::Context;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Limits, Rejection, RejectionKind, verify};
use worlds::Random;

fn judge(object: &Object) -> Result<(), Rejection> {
    verify(&object.programs[0], &object.maps, &Limits::default()).map(drop)
}

fn accepts<T: AsRef<str>>(kind: &str, programs: &[(T, T)]) {
    for (before, text) in programs {
        let (before, text) = (before.as_ref(), text.as_ref());
        let object = object(kind, before, text);
        judge(&object).unwrap_or_else(|rejection| panic!("{rejection}\n{}", asm::print(&object)));
    }
}

fn refuses<T: AsRef<str>>(kind: &str, programs: &[(T, T, &str)]) {
    for (before, text, part) in programs {
        let (before, text) = (before.as_ref(), text.as_ref());
        let object = object(kind, before, text);
        let Err(rejection) = judge(&object) else { panic!("accepted:\n{}", asm::print(&object)) };
        let shown = rejection.to_string();
        assert!(shown.contains(part), "`{part}` is not in: {shown}\n{}", asm::print(&object));
        assert_ne!(rejection.kind, RejectionKind::TooBig, "{shown}");
    }
}

#[test]
fn programs_that_keep_inside_what_they_were_lent() {
    accepts("xdp", XDP);
    accepts("xdp", XDP_HERE);
    accepts("socket", SOCKET);
    accepts("classifier", &lent::classifiers());
    accepts("cgroup_skb", CGROUP_SKB);
    accepts("cgroup_sock", CGROUP_SOCK);
    accepts("sk_msg", SK_MSG);
    accepts("flow_dissector", FLOW_DISSECTOR);
    accepts("memory 16", MEMORY);
}

#[test]
fn programs_that_may_leave_what_they_were_lent() {
    refuses("xdp", NOT_XDP);
    refuses("xdp", NOT_XDP_HERE);
    refuses("socket", NOT_SOCKET);
    refuses("cgroup_skb", NOT_CGROUP_SKB);
    refuses("cgroup_sock", NOT_CGROUP_SOCK);
    refuses("sk_msg", NOT_SK_MSG);
    refuses("flow_dissector", NOT_FLOW_DISSECTOR);
    refuses("socket", NOT_SOCKET_HERE);
    refuses("classifier", &lent::not_classifiers());
    refuses("classifier", NOT_CLASSIFIER_HERE);
    refuses("memory 16", NOT_MEMORY);
}

#[test]
fn programs_that_write_to_packets_are_known() {
    let packet =
        "r7 = *(u32 *)(r1 + 76); r8 = *(u32 *)(r1 + 80); r0 = 0; r2 = r7; r2 += 8; if r2 > r8 goto no";
    for (text, writes) in [
        ("r0 = *(u8 *)(r7 + 0)", false),
        ("*(u8 *)(r7 + 0) = 1", true),
        ("*(u64 *)(r10 - 8) = r7; r3 = *(u64 *)(r10 - 8); *(u32 *)(r3 + 4) = r0", true),
        ("*(u32 *)(r1 + 48) = 1; *(u64 *)(r10 - 8) = r7", false),
        ("r1 = r7; r2 = 4; r3 = r10; call probe_read_user; r0 = 0", true),
        ("r1 = r10; r1 += -8; r2 = 4; r3 = r7; r0 = 0", false),
        (
            "r1 = map[@hash] ll; r2 = r7; call map_lookup_elem; if r0 == 0 goto no; *(u64 *)(r0 + 0) = 1",
            false,
        ),
        ("r1 = r7; call f; no: r0 = 0; exit; f: r0 = *(u8 *)(r1 + 7)", false),
        ("r1 = r7; call f; no: r0 = 0; exit; f: *(u8 *)(r1 + 7) = 0", true),
    ] {
        let end = if text.contains("no: ") { "r0 = 0; exit" } else { "no: r0 = 0; exit" };
        let object = object("classifier", packet, &format!("{text}; {end}"));
        let verified = verify(&object.programs[0], &object.maps, &Limits::default());
        let verified = verified.unwrap_or_else(|rejection| panic!("{rejection}"));
        assert_eq!(verified.writes_packet(), writes, "{text}");
    }
}

#[test]
fn no_memory_is_a_null_pointer() {
    accepts(
        "memory 0",
        &[("", "r0 = r1; r0 += r2; exit"), ("", "r0 = 7; if r1 == 0 goto +1; r0 = *(u8 *)(r1 + 0); exit")],
    );
    refuses("memory 0", &[("", "r0 = *(u8 *)(r1 + 0); exit", "a number (0x0), not a pointer to memory")]);
    refuses("memory 0", &[("", "*(u8 *)(r1 + 0) = 0; r0 = 0; exit", "not a pointer to memory")]);
}

#[test]
fn more_memory_than_can_be_lent_is_too_big() {
    let object = object("memory 268435457", "", "r0 = 0; exit");
    assert_eq!(judge(&object).expect_err("too big").kind, RejectionKind::TooBig);
}

#[test]
fn one_access_to_a_field_and_to_the_stack_is_unsupported() {
    let text = "r2 = r10; r2 += -16; *(u64 *)(r2 + 0) = 0; *(u64 *)(r2 + 8) = 0; r3 = *(u32 *)(r1 + 12); if r3 == 0 goto +1
        r2 = r1; r0 = *(u32 *)(r2 + 12); exit";
    assert_eq!(judge(&object("xdp", "", text)).expect_err("two places").kind, RejectionKind::Unsupported);
}

#[test]
fn the_kernel_judges_programs_of_packets_alike() {
    if let Err(reason) = testkit::kernel::available() {
        return testkit::skip::skip("verifier::kernel", reason);
    }
    let mut differ = Vec::new();
    let mut accepted = |kind: &str, before: &str, text: &str| {
        if let Err(error) = testkit::kernel::load(&object(kind, before, text)) {
            differ.push(format!("refused: {before}; {text}\n{error}"));
        }
    };
    XDP.iter().for_each(|(before, text)| accepted("xdp", before, text));
    SOCKET.iter().for_each(|(before, text)| accepted("socket", before, text));
    CGROUP_SKB.iter().for_each(|(before, text)| accepted("cgroup_skb", before, text));
    CGROUP_SOCK.iter().for_each(|(before, text)| accepted("cgroup_sock", before, text));
    SK_MSG.iter().for_each(|(before, text)| accepted("sk_msg", before, text));
    FLOW_DISSECTOR.iter().for_each(|(before, text)| accepted("flow_dissector", before, text));
    lent::classifiers().iter().for_each(|(before, text)| accepted("classifier", before, text));
    let mut refused = |kind: &str, before: &str, text: &str| {
        if testkit::kernel::load(&object(kind, before, text)).is_ok() {
            differ.push(format!("accepted: {before}; {text}"));
        }
    };
    NOT_XDP.iter().for_each(|(before, text, _)| refused("xdp", before, text));
    NOT_CGROUP_SKB.iter().for_each(|(before, text, _)| refused("cgroup_skb", before, text));
    NOT_CGROUP_SOCK.iter().for_each(|(before, text, _)| refused("cgroup_sock", before, text));
    NOT_SK_MSG.iter().for_each(|(before, text, _)| refused("sk_msg", before, text));
    NOT_FLOW_DISSECTOR.iter().for_each(|(before, text, _)| refused("flow_dissector", before, text));
    NOT_SOCKET.iter().for_each(|(before, text, _)| refused("socket", before, text));
    lent::not_classifiers().iter().for_each(|(before, text, _)| refused("classifier", before, text));
    assert!(differ.is_empty(), "{} differ\n{}", differ.len(), differ.join("\n"));
}

/// Reads and writes of every width at every offset of the context. The kernel has the socket besides.
#[test]
fn the_kernel_judges_accesses_to_fields_alike() {
    if let Err(reason) = testkit::kernel::available() {
        return testkit::skip::skip("verifier::kernel", reason);
    }
    let mut differ = Vec::new();
    for (kind, bytes) in [
        ("xdp", 20),
        ("socket", 200),
        ("classifier", 200),
        ("cgroup_skb", 200),
        ("cgroup_sock", 88),
        ("sk_msg", 72),
        ("flow_dissector", 200),
    ] {
        let offsets = (0..bytes).flat_map(|offset| [8, 16, 32, 64].map(|bits| (offset, bits)));
        for (offset, bits) in offsets.filter(|(offset, bits)| (*offset, *bits) != (168, 64)) {
            for access in
                [format!("r2 = *(u{bits} *)(r1 + {offset})"), format!("*(u{bits} *)(r1 + {offset}) = r0")]
            {
                // LIMIT: what the kernel takes from the socket of such a packet.
                if kind == "cgroup_skb" && (88..140).contains(&offset) {
                    continue;
                }
                // LIMIT: the second byte of a port.
                if kind == "cgroup_sock" && (offset, bits) == (49, 8) {
                    continue;
                }
                let text = format!("program \"p\" {kind}\nr0 = 0\n{access}\nexit\n");
                let object = asm::parse(&text).expect("is assembly text");
                let (ours, theirs) = (judge(&object).is_ok(), testkit::kernel::load(&object).is_ok());
                if ours != theirs {
                    differ.push(format!("{kind}: {access}: {ours} here, {theirs} in the kernel"));
                }
            }
        }
    }
    assert!(differ.is_empty(), "{} differ\n{}", differ.len(), differ.join("\n"));
}

/// The accepted programs with a few fields changed: what is accepted again never leaves its packet, whatever that is.
#[test]
fn accepted_mutants_keep_inside_what_they_were_lent() {
    let cases = Cases::of("WEIR_PACKET_MUTANTS", DAILY);
    let mut random = Random(cases.seed());
    let programs = lent::accepted();
    let layout = SegmentLayout::plan(&programs[0].maps, 2).expect("the maps have a layout");
    let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
    // A mutant may loop for long; what it does in a shorter proof is the same.
    let limits = Limits { explored_insns_max: 20_000, ..Limits::default() };
    let (mut accepted, mut ran) = (0, 0);
    for _ in cases {
        let mutant = loop {
            let mut mutant = programs[random.below(programs.len())].clone();
            for _ in 0..1 + random.below(3) {
                let insns = &mut mutant.programs[0].insns;
                let at = random.below(insns.len());
                insns[at] = changed(insns[at], &mut random);
            }
            if verify(&mutant.programs[0], &mutant.maps, &limits).is_ok() {
                break mutant;
            }
        };
        accepted += 1;
        for _ in 0..RUNS_OF_A_MUTANT {
            check_run(&mutant, &segment, &mut random);
            ran += 1;
        }
    }
    println!("{accepted} mutants, {ran} runs");
}

/// Accepted mutants.
const DAILY: Daily = Daily { seed: 17, at_least: 300, at_most: 3_000, budget: Duration::from_secs(2) };
/// Runs of each.
const RUNS_OF_A_MUTANT: usize = 12;
/// Steps of a run: more than the verifier follows.
const STEPS_MAX: u64 = 4_000_000;

/// The instruction with one field that is another, often one near it.
fn changed(insn: Insn, random: &mut Random) -> Insn {
    let register = random.below(11) as u8;
    match random.below(6) {
        0 => Insn { dst: register, ..insn },
        1 => Insn { src: register, ..insn },
        2 => Insn { off: insn.off.wrapping_add(random.below(9) as i16 - 4), ..insn },
        3 => Insn { imm: insn.imm.wrapping_add(random.number() as i32), ..insn },
        // Other comparisons, operations and widths of the same class.
        4 => Insn { opcode: insn.opcode & 0x0f | (random.below(16) as u8) << 4, ..insn },
        _ => Insn { opcode: insn.opcode ^ [0x08, 0x10, 0x18, 0x01, 0x03][random.below(5)], ..insn },
    }
}

fn check_run(object: &Object, segment: &Segment, random: &mut Random) {
    let program = &object.programs[0];
    let bytes: Vec<u8> = (0..random.below(72)).map(|_| random.number() as u8).collect();
    let mut context = match program.kind {
        ProgramKind::Xdp => Context::xdp(&bytes[..bytes.len().min(4 * random.below(4))], &bytes),
        ProgramKind::SocketFilter => Context::socket(&bytes[..bytes.len().min(14)], &bytes),
        ProgramKind::Classifier => Context::classifier(
            &bytes[..bytes.len().min(4 * random.below(4))],
            &bytes,
            random.number() as u32,
        ),
        _ => Context::memory(&[7; 16]),
    };
    let result = run_unverified(program, &object.maps, &Environment { segment }, &mut context, STEPS_MAX);
    if let Err(fault) = result {
        // Rounds of `may_goto` may go on for longer.
        let has_rounds = program.insns.iter().any(|insn| insn.opcode == weir_ebpf::insn::MAY_GOTO);
        assert!(
            has_rounds && matches!(fault, Fault::Steps { .. }),
            "accepted, but {fault}\n{}",
            asm::print(object)
        );
    }
}
