//! One filter on all of weir's machines: its native and interpreted eBPF program and its classic one keep what its graph says.

use testkit::packets;
use testkit::random::Source;
use weir_cbpf::{Machine, text};
use weir_pcap_filter::{LinkType, Mode, Options, compile};
use weir_pcap_names::SystemNames;

use crate::engines::{Ready, listing};

pub(crate) fn options(dlt: i32, mode: Mode) -> Options {
    Options { link_type: LinkType(dlt as u16), snaplen: 262_144, netmask: Some(0xffff_ff00), mode }
}

/// Compares the machines on packets of a link type, one of them cut at every length; how often. An expression that is refused: never.
pub(crate) fn compare(
    dlt: i32,
    expression: &str,
    mode: Mode,
    packets_each: usize,
    random: &mut Source,
) -> usize {
    let Ok(filter) = compile(expression, &options(dlt, mode), &SystemNames::default()) else { return 0 };
    let program = filter.program("filter").unwrap_or_else(|error| panic!("{dlt} `{expression}`: {error}"));
    let classic = filter.classic().map(|insns| {
        weir_cbpf::check(&insns, Machine::Userland).unwrap_or_else(|refused| {
            panic!("{dlt} `{expression}`: {refused}\n{}", text::print(&insns, text::Form::Disassembly))
        })
    });
    let ready =
        Ready::of(&program).unwrap_or_else(|error| panic!("{dlt} `{expression}`: {error}\n{}", filter.graph));
    // A classic program knows neither how much of a packet was captured nor its context.
    let is_known = |bytes: &[u8], wire_len: u32| {
        mode == Mode::Compat || wire_len as usize == bytes.len() && !filter.asks_context()
    };
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
            // The machine has 16 slots of memory, which some expressions have not enough of.
            if let Ok(classic) = &classic
                && is_known(bytes, wire_len)
            {
                let returned = weir_cbpf::run(classic, bytes, wire_len, None).unwrap_or(0);
                let listed = || text::print(classic.insns(), text::Form::Disassembly);
                assert_eq!(returned, expected, "classic: {}\n{}", show(), listed());
            }
            compared += 1;
        };
        one(&packet.bytes, packet.wire_len, true);
        if round == 0 {
            // What was captured short, and what was as short on the wire, which scoped filters tell apart.
            packets::cut(&packet).for_each(|cut| {
                one(&cut.bytes, cut.wire_len, false);
                if mode == Mode::Scoped {
                    one(&cut.bytes, cut.bytes.len() as u32, false);
                }
            });
        }
    }
    compared
}
