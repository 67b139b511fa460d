//! The filters of `cargo xtask bench pcap` give the same on all sides: weir's two engines, libpcap, and the kernel.

use testkit::{kernel, skip};
use vm_bench::packets::{self, Sides};

/// Packets of each trace: the bench compares them all.
const PACKETS: usize = 96;

#[test]
fn every_side_gives_the_same_for_every_packet() {
    if testkit::libpcap::Libpcap::load().is_none() {
        return skip::skip("vm-bench::libpcap", "libpcap.so.0.8 is not installed");
    }
    let in_kernel = kernel::available();
    if let Err(reason) = &in_kernel {
        skip::skip("vm-bench::kernel", reason);
    }
    let mut traces = packets::traces();
    traces.iter_mut().for_each(|trace| trace.packets.truncate(PACKETS));
    let mut kept = 0;
    for (name, text) in packets::filters() {
        // libpcap takes a second for 300 hosts, and compiles these to the same kinds of tests.
        let text = if name == "300 hosts" { packets::hosts(60) } else { text };
        let mut sides = Sides::of(&text).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        assert!(sides.missing.is_empty() || in_kernel.is_err(), "{name}: {:?}", sides.missing);
        for trace in &traces {
            packets::compare(&mut sides, trace)
                .unwrap_or_else(|error| panic!("{name}, {}: {error:#}", trace.name));
            let weir = &mut sides.all[0];
            kept += trace.packets.iter().filter(|packet| weir.once(packet).expect("runs") > 0).count();
        }
    }
    let all = packets::filters().len() * traces.len() * PACKETS;
    assert!(kept > all / 10 && kept < all, "{kept} of {all}");
}
