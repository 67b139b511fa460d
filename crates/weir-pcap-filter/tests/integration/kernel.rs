//! The kernel's two machines say the same: the classic program on a socket, and the eBPF program at tc.

use testkit::expressions::{EXPRESSIONS, expression};
use testkit::packets;
use testkit::random::Source;
use testkit::skip::skip;
use testkit::socket_filter::Pair;
use weir_cbpf::Machine;
use weir_kernel::{Input, Maps};
use weir_pcap_filter::{Condition, LinkType, Mode, Options, compile};
use weir_pcap_names::SystemNames;

use crate::machines::options;

const DLT: i32 = 1;

/// Expressions on Ethernet, and packets for each.
fn cases(mode: Mode) -> Vec<(String, weir_pcap_filter::Filter, Vec<Vec<u8>>)> {
    let mut random = Source::new(3);
    let fixed = EXPRESSIONS.iter().step_by(7).map(|text| (*text).to_owned());
    let mut texts: Vec<String> = fixed.collect();
    texts.extend((0..100).map(|_| expression(&mut random, DLT)));
    let mut cases = Vec::new();
    for text in texts {
        // What the kernel knows of a packet beside its bytes is not in these.
        if text.contains("bound") || text.contains("ifindex") {
            continue;
        }
        let Ok(filter) = compile(&text, &options(DLT, mode), &SystemNames::default()) else { continue };
        let link = packets::link(DLT);
        let packets =
            (0..6).map(|_| link.packet(&mut random).bytes).filter(|bytes| bytes.len() >= 15).collect();
        cases.push((text, filter, packets));
    }
    cases
}

#[test]
fn sockets_receive_what_filters_keep() {
    let mut compared = 0;
    for (text, filter, packets) in [Mode::Compat, Mode::Scoped].into_iter().flat_map(cases) {
        let Ok(insns) = filter.classic() else { continue };
        // Chains of headers jump back, which the kernel does not take; offsets from 2^31 on mean something else there.
        let has_far = insns.iter().any(|insn| insn.class() < 2 && insn.k >= 0x8000_0000 && insn.mode() != 0);
        if has_far || weir_cbpf::check(&insns, Machine::Kernel).is_err() {
            continue;
        }
        let pair = Pair::new().expect("sockets");
        let bytes: Vec<[u8; 8]> = insns.iter().map(|insn| insn.to_bytes()).collect();
        pair.attach(&bytes).unwrap_or_else(|error| panic!("`{text}`: {error}"));
        for packet in packets {
            let kept = filter.evaluate(&packet, packet.len() as u32) > 0;
            let arrived = pair.deliver(&packet).expect("sent").is_some();
            assert_eq!(arrived, kept, "`{text}` on {packet:02x?}");
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn programs_at_tc_return_what_filters_keep() {
    if !nix::unistd::geteuid().is_root() {
        skip(
            "kernel::programs_at_tc_return_what_filters_keep",
            "loading programs into the kernel is for root",
        );
        return;
    }
    let maps = Maps::create(&[]).expect("no maps");
    // The kernel's test runs have packets of the loopback interface, of no queue and with no hash.
    let options = Options { link_type: LinkType::EN10MB, snaplen: 96, netmask: None, mode: Mode::Scoped };
    let text = "ifindex 1 and hash = 0 and not outbound and not queue 3 and queue > 3";
    let filter = compile(text, &options, &SystemNames::default()).expect(text);
    let loaded = weir_kernel::load(&filter.program("filter").expect("fits"), &maps).expect(text);
    let ran = loaded.run(Input { bytes: &[0; 60], context: &[] }, 1).expect("runs");
    assert_eq!(ran.r0 as u32, 96, "{text}");
    let mut compared = 0;
    for (text, filter, packets) in [Mode::Compat, Mode::Scoped].into_iter().flat_map(cases) {
        // That of compatible filters needs a newer kernel.
        if filter.graph.nodes.iter().any(|node| matches!(node.condition, Condition::Chain(_))) {
            continue;
        }
        let program = filter.program("filter").expect("fits");
        let loaded = weir_kernel::load(&program, &maps);
        let loaded =
            loaded.unwrap_or_else(|error| panic!("`{text}`: {error}\n{}", crate::engines::listing(&program)));
        for packet in packets {
            let expected = filter.evaluate(&packet, packet.len() as u32);
            let ran = loaded.run(Input { bytes: &packet, context: &[] }, 1).expect("runs");
            assert_eq!(ran.r0 as u32, expected, "`{text}` on {packet:02x?}");
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared}");
}
