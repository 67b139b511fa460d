//! The eBPF program of a filter does what its graph says, on every engine.

use testkit::expressions::{EXPRESSIONS, expression, listing};
use testkit::packets::LINKS;
use testkit::random::Source;
use weir_pcap_filter::Mode;

use crate::machines::compare;

/// How many packets were compared.
fn check(dlt: i32, expression: &str, packets_each: usize, random: &mut Source) -> usize {
    compare(dlt, expression, Mode::Compat, packets_each, random)
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
