//! Compatible filters keep the packets that libpcap's keep, and are refused where libpcap refuses.

use testkit::expressions::{EXPRESSIONS, expression, listing};
use testkit::libpcap::Libpcap;
use testkit::packets::{self, LINKS};
use testkit::pcap_file::{self, Packet};
use testkit::random::Source;
use weir_cbpf::{Insn, Machine};
use weir_pcap_filter::{Mode, compile};
use weir_pcap_names::SystemNames;

use crate::machines::options;

/// What is compared.
struct Comparison {
    libpcap: &'static Libpcap,
    packets_each: usize,
    /// Real packets of link types.
    recorded: [(i32, Vec<Packet>); 2],
    compared: usize,
    refused: usize,
    expressions: usize,
    faults: Vec<String>,
}

impl Comparison {
    fn expression(&mut self, dlt: i32, text: &str, random: &mut Source) {
        if is_not_followed(dlt, text) {
            return;
        }
        self.expressions += 1;
        let theirs = self.libpcap.compile(dlt, 262_144, text, true, 0xffff_ff00);
        let ours = compile(text, &options(dlt, Mode::Compat), &SystemNames::default());
        let (theirs, ours) = match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => (theirs, ours),
            (Err(_), Err(_)) => {
                self.refused += 1;
                return;
            }
            (Ok(_), Err(faults)) => {
                self.faults.push(format!("{dlt} `{text}`: refused: {}", faults[0].message));
                return;
            }
            (Err(message), Ok(_)) => {
                self.faults.push(format!("{dlt} `{text}`: accepted; libpcap: {message}"));
                return;
            }
        };
        let insns: Vec<Insn> =
            theirs.iter().map(|insn| Insn { code: insn.code, jt: insn.jt, jf: insn.jf, k: insn.k }).collect();
        // libpcap 1.10.3 does not set the memory to 0 first, as later versions and this machine do, and after `geneve` it may be read
        // without having been written.
        let reads_unset = text.contains("geneve");
        let goes_back = theirs.iter().any(|insn| insn.code == 0x05 && (insn.k as i32) < 0);
        let bounded = weir_cbpf::check(&insns, Machine::Userland).expect("libpcap's programs");
        let mut packets: Vec<Packet> = Vec::new();
        let link = packets::link(dlt);
        for round in 0..self.packets_each {
            let packet = link.packet(random);
            packets.push(if round % 3 == 2 { packets::mutated(&packet, random) } else { packet });
        }
        let recorded = self.recorded.iter().filter(|(of, _)| *of == dlt).flat_map(|(_, packets)| packets);
        for (round, packet) in packets.iter().chain(recorded).enumerate() {
            let mut check = |packet: &Packet| {
                // Chains of headers may lead back, and libpcap then never ends.
                let expected = match goes_back || reads_unset {
                    true => weir_cbpf::run(&bounded, &packet.bytes, packet.wire_len, None).unwrap_or(0),
                    false => self.libpcap.filter(&theirs, &packet.bytes, packet.wire_len),
                };
                let found = ours.evaluate(&packet.bytes, packet.wire_len);
                self.compared += 1;
                if expected != found {
                    let bytes: String = packet.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    self.faults.push(format!(
                        "{dlt} `{text}`: {found}, libpcap {expected}, on {bytes} ({})",
                        packet.wire_len
                    ));
                    return false;
                }
                true
            };
            if !check(packet) {
                return;
            }
            if round % 4 == 0 && round < self.packets_each && !packets::cut(packet).all(|cut| check(&cut)) {
                return;
            }
        }
    }
}

/// Faults of libpcap that depend on what its registers happen to hold: `byte N & V` and `byte N | V` do not load the byte, and
/// a relation may overwrite the length of a header that varies, which `geneve` and `pppoes` put into another register than it is read from. Others
/// show in what is refused alone: after `pppoes` and `geneve`, `inbound` and `outbound` ask for another of Linux's fields than before.
fn is_not_followed(dlt: i32, text: &str) -> bool {
    let words: Vec<&str> = text.split([' ', '(', ')', '!']).collect();
    let forgets_byte = words.windows(3).any(|words| words[0] == "byte" && matches!(words[2], "&" | "|"));
    let header_varies = matches!(dlt, 105 | 117 | 119 | 127 | 163 | 192);
    let (has_geneve, has_relation) = (text.contains("geneve"), text.contains(['=', '<', '>']));
    let moves_link = has_geneve || text.contains("pppoes");
    let asks_direction = text.matches("bound").count() + text.matches("ifindex").count();
    forgets_byte
        || is_of_1_11(dlt, text)
        || asks_direction > 1 && moves_link
        || (header_varies || has_geneve) && has_relation
        || header_varies && moves_link
}

/// What libpcap 1.10.3 refuses and 1.11 does not: `vxlan`, two subtypes of 802.11, and addresses of MS/TP ([`crate::libpcap_1_11`]).
fn is_of_1_11(dlt: i32, text: &str) -> bool {
    let mut words = text.split([' ', '(', ')', '!']);
    let is_ms_tp = dlt == 165 && (text.contains('$') || text.contains("broadcast"));
    is_ms_tp || words.any(|word| matches!(word, "vxlan" | "bar" | "ba"))
}

/// The seed, and how often 40 random expressions are made for a link type: of `WEIR_PCAP`, as `SEED:ROUNDS`.
pub(crate) fn scale() -> (u64, usize) {
    let asked = std::env::var("WEIR_PCAP").unwrap_or_default();
    let numbers =
        asked.split_once(':').and_then(|(seed, rounds)| Some((seed.parse().ok()?, rounds.parse().ok()?)));
    numbers.unwrap_or((24, 1))
}

#[test]
fn packets_are_kept_as_libpcap_keeps_them() {
    let Some(libpcap) = Libpcap::load() else {
        testkit::skip::skip("libpcap::packets_are_kept", "no libpcap.so.0.8");
        return;
    };
    if !libpcap.version().starts_with("libpcap version 1.10.") {
        testkit::skip::skip("libpcap::packets_are_kept", format!("{} is not 1.10", libpcap.version()));
        return;
    }
    let (seed, rounds) = scale();
    let mut comparison = Comparison {
        libpcap,
        packets_each: 12,
        recorded: ["veth.txt", "any.txt"].map(pcap_file::recorded),
        compared: 0,
        refused: 0,
        expressions: 0,
        faults: Vec::new(),
    };
    assert_eq!(
        comparison.recorded.each_ref().map(|(dlt, packets)| (*dlt, packets.len())),
        [(1, 105), (276, 131)]
    );
    let mut random = Source::new(seed);
    for (index, text) in EXPRESSIONS.iter().enumerate() {
        for (at, link) in LINKS.iter().enumerate() {
            // Of a short run one in ten of the link types has each, and Ethernet all.
            if link.dlt == 1 || rounds > 1 || (index + at).is_multiple_of(10) {
                comparison.expression(link.dlt, text, &mut random);
            }
        }
    }
    for link in LINKS {
        for _ in 0..40 * rounds {
            let text = expression(&mut random, link.dlt);
            comparison.expression(link.dlt, &text, &mut random);
        }
    }
    for _ in 0..60 * rounds {
        let members = 6 + random.below(30);
        let text = listing(&mut random, members);
        comparison.expression(1, &text, &mut random);
    }
    let Comparison { compared, refused, expressions, faults, .. } = comparison;
    println!("counts: expressions={expressions} refused={refused} packets={compared}");
    assert!(faults.is_empty(), "{}: {}", faults.len(), faults[..faults.len().min(30)].join("\n"));
}
