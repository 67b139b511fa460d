//! Scoped filters: logic of `and`, `or` and `not`, layers, extension headers, and the same answer of every machine.

use testkit::expressions::{EXPRESSIONS, expression};
use testkit::packets::{self, LINKS};
use testkit::random::Source;
use weir_cbpf::{Machine, text};
use weir_pcap_filter::{Filter, LinkType, Mode, Options, compile};

use crate::engines::{Ready, listing};
use crate::libpcap::System;

fn options(dlt: i32, mode: Mode) -> Options {
    Options { link_type: LinkType(dlt as u16), snaplen: 262_144, netmask: Some(0xffff_ff00), mode }
}

fn scoped(dlt: i32, text: &str) -> Option<Filter> {
    compile(text, &options(dlt, Mode::Scoped), &System).ok()
}

/// Words that the kernel alone answers; libpcap's machine rejects where they are asked.
fn asks_context(text: &str) -> bool {
    ["bound", "ifindex", "queue", "hash"].iter().any(|word| text.contains(word))
}

/// Compares the machines on packets of a link type, cut at every length; how often.
fn check(dlt: i32, expression: &str, packets_each: usize, random: &mut Source) -> usize {
    let Some(filter) = scoped(dlt, expression) else { return 0 };
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
                    listing(&program)
                )
            };
            assert_eq!(ready.native(bytes, wire_len), expected, "native: {}", show());
            if is_interpreted {
                assert_eq!(ready.interpreted(bytes, wire_len), expected, "interpreted: {}", show());
            }
            if let Ok(classic) = &classic
                && wire_len as usize == bytes.len()
                && !asks_context(expression)
            {
                let returned = weir_cbpf::run(classic, bytes, wire_len, None).unwrap_or(0);
                let listed = || text::print(classic.insns(), text::Form::Disassembly);
                assert_eq!(returned, expected, "classic: {}\n{}", show(), listed());
            }
            compared += 1;
        };
        one(&packet.bytes, packet.wire_len, true);
        if round == 0 {
            // What was captured short, and what was as short on the wire.
            packets::cut(&packet).for_each(|cut| {
                one(&cut.bytes, cut.wire_len, false);
                one(&cut.bytes, cut.bytes.len() as u32, false);
            });
        }
    }
    compared
}

/// An expression with what scoped expressions have more.
fn more(random: &mut Source, dlt: i32) -> String {
    let one = expression(random, dlt);
    let other = expression(random, dlt);
    match random.below(8) {
        0 => format!("({one}) or ({other})"),
        1 => format!("not ({one})"),
        2 => format!("vxlan {} and ({one})", random.pick(&["", "11"])),
        3 => format!("geneve and ({one}) or ({other})"),
        4 => format!("(vlan or ({one})) and ({other})"),
        5 => format!("not ({one}) and not ({other})"),
        6 => format!("(mpls or pppoes or ip6) and not ({one})"),
        _ => one,
    }
}

#[test]
fn every_machine_says_the_same() {
    let mut random = Source::new(41);
    let mut compared = 0;
    for (index, text) in EXPRESSIONS.iter().enumerate() {
        for (at, link) in LINKS.iter().enumerate() {
            if (index + at).is_multiple_of(90) || link.dlt == 1 && index.is_multiple_of(4) {
                compared += check(link.dlt, text, 3, &mut random);
            }
        }
    }
    for link in LINKS {
        for _ in 0..4 * crate::libpcap::scale().1 {
            let text = more(&mut random, link.dlt);
            compared += check(link.dlt, &text, 3, &mut random);
        }
    }
    for _ in 0..40 * crate::libpcap::scale().1 {
        let text = more(&mut random, 1);
        compared += check(1, &text, 3, &mut random);
    }
    assert!(compared > 10_000, "{compared}");
}
