//! The running kernel as the other machine: what it accepts, and what programs return that both define in the same way.

use weir_cbpf::text::{self, Form};
use weir_cbpf::{FarOffsets, Insn, Machine, check, run};
use weir_kernel::{Input, Maps};

use testkit::socket_filter::Pair;

use crate::engines::converted;
use crate::generate::{self, Random, Style};

/// A pair whose receiver takes filters.
fn pair(test: &str) -> Option<Pair> {
    let pair = Pair::new().and_then(|pair| pair.attach(&[Insn::ret(0).to_bytes()]).map(|()| pair));
    pair.inspect_err(|error| testkit::skip::skip(test, format!("SO_ATTACH_FILTER: {error}"))).ok()
}

fn bytes(insns: &[Insn]) -> Vec<[u8; 8]> {
    insns.iter().map(|insn| insn.to_bytes()).collect()
}

#[test]
fn the_kernel_accepts_what_the_check_accepts() {
    let Some(pair) = pair("cbpf::accepts") else { return };
    let mut random = Random::new(2);
    let mut accepted = 0;
    const PROGRAMS: u32 = 20_000;
    for _ in 0..PROGRAMS {
        let style = if random.below(2) == 0 { Style::Any } else { Style::Both };
        let mut insns = generate::program(&mut random, style);
        for _ in 0..random.below(3) {
            let at = random.below(insns.len() as u32) as usize;
            match random.below(4) {
                0 => insns[at].code = random.below(256) as u16,
                1 => insns[at].k = random.next() >> random.below(32),
                2 => insns[at].jt = random.below(9) as u8,
                _ => drop(insns.remove(at)),
            }
            if insns.is_empty() {
                break;
            }
        }
        let found = pair.attach(&bytes(&insns)).is_ok();
        let expected = check(&insns, Machine::Kernel);
        assert_eq!(found, expected.is_ok(), "{expected:?}\n{}", text::print(&insns, Form::Disassembly));
        accepted += u32::from(found);
    }
    assert!((PROGRAMS / 5..PROGRAMS * 4 / 5).contains(&accepted), "{accepted} of {PROGRAMS}");
}

/// The end of a program that makes 8 bits of A, of which all matter, and a number of bytes that is not 0.
const FOLD: [(u16, u32); 9] =
    [(0x07, 0), (0x74, 16), (0xac, 0), (0x07, 0), (0x74, 8), (0xac, 0), (0x54, 0xff), (0x04, 1), (0x16, 0)];

#[test]
fn the_kernel_returns_the_same() {
    let Some(pair) = pair("cbpf::returns") else { return };
    let mut random = Random::new(3);
    let (mut dropped, mut runs) = (0, 0);
    for _ in 0..3_000 {
        let mut insns = generate::program(&mut random, Style::Both);
        insns.pop();
        insns.extend(FOLD.map(|(code, k)| Insn::plain(code, k)));
        let Ok(checked) = check(&insns, Machine::Kernel) else { continue };
        pair.attach(&bytes(&insns)).expect("it is accepted");
        for _ in 0..4 {
            // More than 256 bytes, so that they are not all that arrives.
            let length = 260 + random.below(40);
            let packet = generate::packet(&mut random, length);
            let expected = run(&checked, &packet, length, None).expect("it goes forward");
            let expected = Some(expected.min(length) as usize).filter(|bytes| *bytes != 0);
            let found = pair.deliver(&packet).expect("a socket");
            assert_eq!(found, expected, "{}{packet:02x?}", text::print(&insns, Form::Disassembly));
            dropped += u32::from(found.is_none());
            runs += 1;
        }
    }
    println!("counts: runs={runs} dropped={dropped}");
    assert!(runs > 2_000 && dropped > runs / 50 && dropped < runs / 2, "{dropped} of {runs} dropped");
}

#[test]
fn converted_programs_return_the_same_in_the_kernel() {
    if let Err(reason) = testkit::kernel::available() {
        testkit::skip::skip("cbpf::kernel", reason);
        return;
    }
    // What a test run puts before the packet that a socket filter sees.
    const LINK_BYTES: usize = 14;
    let mut random = Random::new(4);
    let maps = Maps::create(&[]).expect("no maps");
    for _ in 0..150 {
        let insns = generate::program(&mut random, Style::Any);
        let checked = check(&insns, Machine::Userland).expect("made to be accepted");
        let converted = converted(&checked, FarOffsets::Outside);
        let loaded = weir_kernel::load(&converted, &maps).unwrap_or_else(|error| panic!("{error}"));
        for _ in 0..4 {
            let length = 20 + random.below(30);
            let packet = generate::packet(&mut random, length);
            let frame = [&[0; LINK_BYTES][..], &packet].concat();
            let expected = run(&checked, &packet, length, None).expect("it goes forward");
            let found = loaded.run(Input { bytes: &frame, ..Input::default() }, 1).expect("it runs").r0;
            assert_eq!(found as u32, expected, "{}{packet:02x?}", text::print(&insns, Form::Disassembly));
        }
    }
}
