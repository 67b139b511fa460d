//! The eBPF program of a filter does what its graph says, on every engine.

use testkit::expressions::{EXPRESSIONS, expression, listing};
use testkit::packets::{self, LINKS};
use testkit::random::Source;
use weir_cbpf::{Machine, text};
use weir_pcap_filter::{LinkType, Mode, Options, compile};

use crate::engines::{Ready, listing as lines_of};
use crate::libpcap::System;

/// Compares the engines on packets of a link type; how many were compared.
fn check(dlt: i32, expression: &str, packets_each: usize, random: &mut Source) -> usize {
    let options = Options {
        link_type: LinkType(dlt as u16),
        snaplen: 262_144,
        netmask: Some(0xffff_ff00),
        mode: Mode::Compat,
    };
    let Ok(filter) = compile(expression, &options, &System) else { return 0 };
    let program = filter.program("filter").unwrap_or_else(|error| panic!("{dlt} `{expression}`: {error}"));
    let classic = filter.classic().map(|insns| {
        weir_cbpf::check(&insns, Machine::Userland).unwrap_or_else(|refused| {
            panic!("{dlt} `{expression}`: {refused}\n{}", text::print(&insns, text::Form::Disassembly))
        })
    });
    let ready =
        Ready::of(&program).unwrap_or_else(|error| panic!("{dlt} `{expression}`: {error}\n{}", filter.graph));
    let link = packets::link(dlt);
    let mut compared = 0;
    for round in 0..packets_each {
        let packet = link.packet(random);
        let packet = if round % 3 == 2 { packets::mutated(&packet, random) } else { packet };
        let mut one = |bytes: &[u8], wire_len: u32, is_interpreted: bool| {
            let expected = filter.evaluate(bytes, wire_len);
            let show = || {
                format!(
                    "{dlt} `{expression}` on {bytes:02x?} ({wire_len})\n{}\n{}",
                    filter.graph,
                    lines_of(&program)
                )
            };
            assert_eq!(ready.native(bytes, wire_len), expected, "native: {}", show());
            if is_interpreted {
                assert_eq!(ready.interpreted(bytes, wire_len), expected, "interpreted: {}", show());
            }
            // The machine has 16 slots of memory, which some expressions have not enough of.
            if let Ok(classic) = &classic {
                let returned = weir_cbpf::run(classic, bytes, wire_len, None).unwrap_or(0);
                let listed = || text::print(classic.insns(), text::Form::Disassembly);
                assert_eq!(returned, expected, "classic: {}\n{}", show(), listed());
            }
            compared += 1;
        };
        one(&packet.bytes, packet.wire_len, true);
        if round == 0 {
            packets::cut(&packet).for_each(|cut| one(&cut.bytes, cut.wire_len, false));
        }
    }
    compared
}

#[test]
fn programs_do_what_their_graphs_say() {
    let mut random = Source::new(7);
    let mut compared = 0;
    for (index, text) in EXPRESSIONS.iter().enumerate() {
        for (at, link) in LINKS.iter().enumerate() {
            if (index + at).is_multiple_of(60) || link.dlt == 1 && index.is_multiple_of(3) {
                compared += check(link.dlt, text, 3, &mut random);
            }
        }
    }
    for link in LINKS {
        for _ in 0..6 * crate::libpcap::scale().1 {
            let text = expression(&mut random, link.dlt);
            compared += check(link.dlt, &text, 3, &mut random);
        }
    }
    for _ in 0..20 * crate::libpcap::scale().1 {
        let members = 6 + random.below(60);
        let text = listing(&mut random, members);
        compared += check(1, &text, 12, &mut random);
    }
    assert!(compared > 10_000, "{compared}");
}
