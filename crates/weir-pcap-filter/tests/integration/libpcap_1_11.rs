//! What libpcap 1.11 has more than 1.10 keeps the packets that it keeps there.
//!
//! `libpcap-1.11.txt` has what `tcpdump -y DLT -ddd EXPR` prints with libpcap 1.11.0 (Debian forky), an expression a line, for machines
//! that have an older one.

use testkit::packets;
use testkit::pcap_file::Packet;
use testkit::random::Source;
use weir_cbpf::{Machine, text};
use weir_pcap_filter::{LinkType, Mode, compile};
use weir_pcap_names::SystemNames;

use crate::libpcap::scale;
use crate::machines::{compare, options};

const RECORDED: &str = include_str!("libpcap-1.11.txt");
/// More than 1.10.3's test has of each expression: these are few.
const PACKETS_EACH: usize = 400;

/// Link type, expression, and the program or a word for that it is refused.
fn recorded() -> impl Iterator<Item = (i32, &'static str, &'static str)> {
    RECORDED.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut fields = line.split('|').map(str::trim);
        let mut next = || fields.next().expect("three fields");
        let link_type = LinkType::named(next()).expect("a link type");
        (i32::from(link_type.0), next(), next())
    })
}

#[test]
fn what_1_11_has_more_keeps_what_1_11_keeps() {
    let (seed, rounds) = scale();
    let mut random = Source::new(seed);
    let (mut kept, mut compared) = (0, 0);
    for (dlt, expression, program) in recorded() {
        let ours = compile(expression, &options(dlt, Mode::Compat), &SystemNames::default());
        if program == "refused" {
            assert!(ours.is_err(), "{dlt} `{expression}` is accepted");
            continue;
        }
        let ours = ours.unwrap_or_else(|faults| panic!("{dlt} `{expression}`: {}", faults[0].message));
        let insns = text::parse(program, text::Form::OneLine).expect("a program");
        let theirs = weir_cbpf::check(&insns, Machine::Userland).expect("libpcap's program");
        let link = packets::link(dlt);
        let mut kept_of_it = 0;
        for round in 0..PACKETS_EACH * rounds {
            let packet = link.packet(&mut random);
            let packet = if round % 3 == 2 { packets::mutated(&packet, &mut random) } else { packet };
            let mut check = |packet: &Packet| {
                let expected = weir_cbpf::run(&theirs, &packet.bytes, packet.wire_len, None).unwrap_or(0);
                let found = ours.evaluate(&packet.bytes, packet.wire_len);
                assert_eq!(found, expected, "{dlt} `{expression}` on {:02x?}\n{}", packet.bytes, ours.graph);
                kept_of_it += usize::from(found > 0);
                compared += 1;
            };
            check(&packet);
            if round % 40 == 0 {
                packets::cut(&packet).for_each(|cut| check(&cut));
            }
        }
        kept += usize::from(kept_of_it > 0);
        compare(dlt, expression, Mode::Compat, 3, &mut random);
    }
    println!("counts: packets={compared} expressions_that_keep_some={kept}");
    assert!(kept >= 25, "{kept}");
}
