//! What a filter takes by itself, for the bench: `filter_alone EXPR` prints ns a packet, the median of 31 loops over a burst of
//! dpdk-testpmd's own packets (UDP, 64 bytes), which are in the cache.

use std::hint::black_box;
use std::time::Instant;

use weir_ebpf::Program;
use weir_pcap_filter::{LinkType, Mode, NoNames, Options, SNAPLEN_DEFAULT};
use weir_rt::local::{self, LocalProgram, PacketFields};
use weir_rt::segment::{Identity, Segment, SegmentLayout};

const LOOPS: usize = 31;
const BURSTS: u32 = 100_000;
const BURST: usize = 32;

fn main() {
    let expression = std::env::args().nth(1).expect("an expression is needed");
    let options =
        Options { link_type: LinkType::EN10MB, snaplen: SNAPLEN_DEFAULT, netmask: None, mode: Mode::Scoped };
    let filter = weir_pcap_filter::compile(&expression, &options, &NoNames).expect("it compiles");
    let program = native(&filter.program("filter").expect("it is short"));
    let packets = [packet(); BURST];
    let run = |_| {
        let began = Instant::now();
        for _ in 0..BURSTS {
            for packet in black_box(&packets) {
                black_box(program.classify(packet, 64, PacketFields::NONE));
            }
        }
        began.elapsed().as_nanos() as f64 / f64::from(BURSTS) / BURST as f64
    };
    let mut ns: Vec<f64> = (0..LOOPS).map(run).collect();
    ns.sort_by(f64::total_cmp);
    let text = format!("{:.3}\n", ns[LOOPS / 2]);
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).expect("standard output");
}

fn native(program: &Program) -> LocalProgram {
    let verified =
        weir_verifier::verify(program, &[], &weir_verifier::Limits::default()).expect("it is accepted");
    let layout = SegmentLayout::plan(&[], 1).expect("no maps");
    let segment = Segment::create_local(layout, &Identity::default()).expect("some memory");
    let executable = weir_jit::compile(&verified, &local::site(segment.layout())).expect("it has code");
    LocalProgram::load(&executable, &segment).expect("some memory")
}

/// Ethernet, IPv4, UDP from port 9 to 9.
fn packet() -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[12] = 8;
    bytes[14] = 0x45;
    bytes[17] = 50;
    bytes[22] = 64;
    bytes[23] = 17;
    (bytes[35], bytes[37], bytes[39]) = (9, 9, 30);
    bytes
}
