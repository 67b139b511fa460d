//! Seeds of packet filters and of classic BPF: expressions of each kind, and programs in each form.

use crate::seeds::{Seed, seed};

const EXPRESSIONS: [&str; 24] = [
    "\0tcp port 80 and not host 10.0.0.1",
    "\0host 1.2.3.4 or (1.2.3.5 and not 1.2.3.6)",
    "\0net 10.1.0.0/16 or net 10.2 mask 255.255.0.0",
    "\0ip6 host 2001:db8::1 and tcp portrange 22-80",
    "\0vlan 5 and vlan and mpls 3 and ip",
    "\0pppoes 3 and ip and geneve 7 and ether host 1:2:3:4:5:6",
    "\0ether[0:4] & 0xff00 == 0x1200 or ip[ip[0] & 0xf:2] % 3 ^ 5 > len - 4",
    "\0tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and icmp[icmptype] = icmp-echo",
    "\0ip6 protochain 6 or ip broadcast or ether multicast",
    "\0atalk or ipx or iso proto 0x83 or l1 or llc ui or stp",
    "\0decnet src 1.2 or less 80 or greater 100 or byte 3 > 5",
    "\x01wlan addr2 1:2:3:4:5:6 and type mgt subtype beacon",
    "\x01dir tods or tcp port 80 or radio[0] = 0",
    "\x02inbound or ether proto 0x42 or arp[6:2] = 1",
    "\x03ip and ip6 or ifindex 3",
    "\x04on eth0 and action pass and reason match and rnr 3",
    "\x04tcp port 80 and srnr 5 or rset abc",
    "\x05vpi 3 and vci (1 or 2) or lane and ip or metac",
    "\x05oamf4 or connectmsg or llc rr",
    "\x06fisu or opc > 5 and hsls (1 or 2)",
    "\x07iso or mpls or ip proto 132",
    "\0((((not (not ip)))))",
    "\0port 53 or 80 or 443 or 8080",
    "\0",
];

/// Scoped ones, on Ethernet.
const SCOPED: [&str; 6] = [
    "(vlan 2 or mpls and vlan) and tcp port 80 or not udp",
    "vxlan 7 and (geneve or ip6 proto 44) and icmp6[0] = 128",
    "tcp[13] & 2 != 0 and udp[0:2] % 3 ^ 5 > len - 4",
    "queue 3 and hash & 7 = 1 and inbound or ifindex 3",
    "ip protochain 6 or ip6 protochain 60 and not not vlan and ip",
    "(vlan or ip or geneve) and (pppoes or vlan or ip6) and not arp",
];

const PROGRAM: &str = "4\n40 0 0 12\n21 0 1 2048\n6 0 0 262144\n6 0 0 0\n";
const ONE_LINE: &str = "4,40 0 0 12,21 0 1 2048,6 0 0 262144,6 0 0 0";
const IN_C: &str = "{ 0x28, 0, 0, 0x0000000c },\n{ 0x15, 0, 1, 0x00000800 },\n{ 0x6, 0, 0, 0x00040000 },\n{ 0x6, 0, 0, 0x00000000 },\n";
const DISASSEMBLY: &str = "(000) ldxb     4*([14]&0xf)\n(001) ldh      [x + 14]\n(002) and      #0xfff\n\
    (003) jset     #0x50            jt 4\tjf 5\n(004) ret      #262144\n(005) ret      #0\n";

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds: Vec<Seed> = EXPRESSIONS
        .iter()
        .enumerate()
        .map(|(at, text)| seed("packet_filter", format!("{at}"), *text))
        .collect();
    seeds.extend(SCOPED.iter().enumerate().map(|(at, text)| {
        seed("packet_filter", format!("scoped-{at}"), [&[0x80], text.as_bytes()].concat())
    }));
    for (name, text) in
        [("decimal", PROGRAM), ("one-line", ONE_LINE), ("c", IN_C), ("disassembly", DISASSEMBLY)]
    {
        seeds.push(seed("cbpf", name, text));
        let form = weir_cbpf::text::guess(text);
        let insns = weir_cbpf::text::parse(text, form).expect("a program");
        seeds.push(seed("cbpf", format!("{name}-bytes"), weir_cbpf::text::to_bytes(&insns)));
    }
    seeds
}
