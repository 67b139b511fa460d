//! Expressions by hand: each primitive of pcap-filter(7), each trap, and what libpcap 1.10.3 refuses.
//!
//! Which link types have which of them differs: one that is [`ACCEPTED`] compiles, unoptimised, for one of EN10MB,
//! IEEE802_11_RADIO, PFLOG, SUNATM, MTP2, ARCNET and C_HDLC at the least; one that is [`REFUSED`] for none of these. Some
//! of the first are refused by the optimiser, as accepting nothing. The netmask is not known.

/// All of them: what is accepted, then what is refused.
pub const EXPRESSIONS: &[&str] = &concat::<{ ACCEPTED.len() + REFUSED.len() }>(&[ACCEPTED, REFUSED]);

/// What libpcap compiles for a link type.
pub const ACCEPTED: &[&str] = &concat::<
    { ADDRESSES.len() + PROTOCOLS.len() + RELATIONS.len() + LINK_LAYERS.len() + COMBINATIONS.len() },
>(&[ADDRESSES, PROTOCOLS, RELATIONS, LINK_LAYERS, COMBINATIONS]);

const fn concat<const COUNT: usize>(parts: &[&[&'static str]]) -> [&'static str; COUNT] {
    let mut all = [""; COUNT];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut nth = 0;
        while nth < parts[part].len() {
            all[at] = parts[part][nth];
            (nth, at) = (nth + 1, at + 1);
        }
        part += 1;
    }
    assert!(at == COUNT);
    all
}

/// Hosts, nets, ports and hardware addresses, in every form.
#[rustfmt::skip]
const ADDRESSES: &[&str] = &[
    "host 10.0.0.1", "src host 10.0.0.1", "dst host 10.0.0.1", "src 10.0.0.1", "dst 10.0.0.1",
    "src or dst host 10.0.0.1", "src and dst host 10.0.0.1", "dst or src host 10.0.0.1", "dst and src host 10.0.0.1",
    "src or dst 10.0.0.1", "ip host 10.0.0.1", "ip src 10.0.0.1", "ip dst host 10.0.0.1", "ip src and dst 10.0.0.1",
    "arp host 10.0.0.1", "arp src 10.0.0.1", "arp dst host 10.0.0.1", "rarp host 10.0.0.1", "rarp src 10.0.0.1",
    "rarp dst 10.0.0.1", "host 0", "host 10", "host 10.1", "host 10.1.2", "src 10.1", "host 0x0a000001",
    "host 167772161", "host 01.02.03.04", "host 010.0.0.1", "host 0.0.0.0", "host 255.255.255.255", "host localhost",
    "src host localhost", "arp host localhost", "host ::1", "host ::", "host 2001:db8::1",
    "host 2001:DB8:0:0:0:0:0:1", "host 2001:db8::10.0.0.1", "host ::ffff:1.2.3.4", "src host 2001:db8::1",
    "dst 2001:db8::1", "src and dst host fe80::1", "ip6 host fe80::1", "ip6 src fe80::1", "ip6 dst host ff02::1",
    "ip6 src or dst host fe80::1", "net 0", "net 10", "net 10.0", "net 10.0.0", "net 10.0.0.0", "net 10.0.0.1",
    "net 0x0a", "net 012", "net 127", "net 192.168", "net 192.168.1", "net 192.168.1.0/24", "net 10.0.0.0/8",
    "net 0.0.0.0/0", "net 128.0.0.0/1", "net 1.2.3.4/32", "net 1.2.3.4/31", "net 10.0.0.0 mask 255.0.0.0",
    "net 10.0.0.0 mask 255.0.255.0", "net 0.0.0.0 mask 0.0.0.0", "net 10.0.0.1 mask 255.255.255.255", "src net 10",
    "dst net 10.0", "src net 192.168.1.0/24", "dst net 192.168.1.0 mask 255.255.255.0",
    "src or dst net 172.16.0.0/12", "src and dst net 10.0.0.0/8", "ip net 10", "ip src net 10.0.0.0/8", "arp net 10",
    "arp src net 10.0.0.0/8", "rarp net 192.168.1", "net 2001:db8::/32", "net 2001:db8::", "net 2001:db8::1",
    "net ::/0", "net ::1/128", "net fe80::/10", "net 2001:db8::/31", "net 2001:db8::/33", "net 2001:db8:0:1::/64",
    "net 2001:db8:0:1::/65", "src net 2001:db8::/32", "dst net fe80::/10", "ip6 net 2001:db8::/32",
    "ip6 src net ff00::/8", "src and dst net fe80::/64", "port 80", "port 0", "port 65535", "port 0x50", "port 0120",
    "port http", "port ssh", "port domain", "port ftp-data", "port snmp", "port https", "src port 80", "dst port 80",
    "src or dst port 80", "src and dst port 80", "dst and src port 80", "dst or src port 80", "tcp port 80",
    "tcp src port 80", "tcp dst port 443", "tcp src and dst port 80", "tcp port domain", "tcp port ssh",
    "udp port 53", "udp src port 53", "udp dst port 4789", "udp port domain", "udp port snmp", "sctp port 80",
    "sctp src port 80", "sctp dst port 80", "dst port http", "src port ssh", "portrange 22-80", "portrange 80-22",
    "portrange 80-80", "portrange 80", "portrange 0-65535", "portrange http-https", "portrange ssh-domain",
    "src portrange 22-80", "dst portrange 1024-65535", "src and dst portrange 22-80", "src or dst portrange 22-80",
    "tcp portrange 20-25", "tcp dst portrange 20-25", "udp portrange 1024-4789", "sctp portrange 1-1024",
    "udp src portrange 53-53", "ether host 00:11:22:33:44:55", "ether src 00:11:22:33:44:55",
    "ether dst 00:11:22:33:44:55", "ether src host 00:11:22:33:44:55", "ether dst host 00:11:22:33:44:55",
    "ether src or dst 00:11:22:33:44:55", "ether src and dst 00:11:22:33:44:55", "ether host 0:11:22:33:44:55",
    "ether host 001122334455", "ether host 0011.2233.4455", "ether host 00-11-22-33-44-55",
    "ether host 00.11.22.33.44.55", "ether host AA:00:04:00:0A:04", "ether host aA:0:4:0:a:4",
    "ether dst ff:ff:ff:ff:ff:ff", "fddi host 00:11:22:33:44:55", "fddi src 00:11:22:33:44:55",
    "tr host 00:11:22:33:44:55", "tr dst 00:11:22:33:44:55", "wlan host 00:11:22:33:44:55",
    "wlan src 00:11:22:33:44:55", "wlan dst host 00:11:22:33:44:55", "decnet host 10.123", "decnet src 10.123",
    "decnet dst 10.123", "decnet src host 1.10", "decnet src or dst 63.1023", "decnet src and dst host 1.10",
    "ether host $05", "ether src $5", "ether dst $ff", "ether src and dst $01",
];

/// Protocols, and what else stands alone.
#[rustfmt::skip]
const PROTOCOLS: &[&str] = &[
    "ip", "ip6", "arp", "rarp", "atalk", "aarp", "decnet", "iso", "stp", "ipx", "netbeui", "lat", "moprc", "mopdl",
    "sca", "icmp", "icmp6", "igmp", "igrp", "pim", "vrrp", "carp", "ah", "esp", "tcp", "udp", "sctp", "clnp", "esis",
    "isis", "l1", "l2", "iih", "lsp", "snp", "csnp", "psnp", "broadcast", "multicast", "inbound", "outbound",
    "pppoed", "llc", "not ip", "not ip6", "not arp", "not tcp", "not udp", "not iso", "not ipx", "not netbeui",
    "not atalk", "not aarp", "not isis", "not l1", "not snp", "not broadcast", "not multicast", "not outbound",
    "not llc", "ip proto 6", "ip proto 17", "ip proto 0x11", "ip proto 021", "ip proto 255", "ip proto 256",
    "ip proto \\tcp", "ip proto \\udp", "ip proto \\sctp", "ip proto \\icmp", "ip proto \\igmp", "ip proto \\esp",
    "ip proto \\ah", "ip proto \\pim", "ip proto ospf", "ip proto gre", "ip proto ipv6-icmp", "ip proto eigrp",
    "ip6 proto 6", "ip6 proto 17", "ip6 proto 0x11", "ip6 proto 021", "ip6 proto 255", "ip6 proto 256",
    "ip6 proto \\tcp", "ip6 proto \\udp", "ip6 proto \\sctp", "ip6 proto \\icmp", "ip6 proto \\igmp",
    "ip6 proto \\esp", "ip6 proto \\ah", "ip6 proto \\pim", "ip6 proto ospf", "ip6 proto gre", "ip6 proto ipv6-icmp",
    "ip6 proto eigrp", "proto 6", "proto 17", "proto 0x11", "proto 021", "proto 255", "proto 256", "proto \\tcp",
    "proto \\udp", "proto \\sctp", "proto \\icmp", "proto \\igmp", "proto \\esp", "proto \\ah", "proto \\pim",
    "proto ospf", "proto gre", "proto ipv6-icmp", "proto eigrp", "ether proto \\ip", "ether proto \\ip6",
    "ether proto \\arp", "ether proto \\rarp", "ether proto \\atalk", "ether proto \\aarp", "ether proto \\decnet",
    "ether proto \\iso", "ether proto \\stp", "ether proto \\ipx", "ether proto \\netbeui", "ether proto \\lat",
    "ether proto \\moprc", "ether proto \\mopdl", "ether proto \\sca", "ether proto loopback", "ether proto 0x800",
    "ether proto 2048", "ether proto 04000", "ether proto 0x86dd", "ether proto 0x0806", "ether proto 0x8847",
    "ether proto 0x88a8", "ether proto 1500", "ether proto 1501", "ether proto 1536", "ether proto 5",
    "ether proto 0xfe", "ether proto 0x42", "ether proto 0xe0", "ether proto 0xf0", "ether proto 0xffff",
    "ether proto 70000", "ether proto 0x8137", "ether proto 0x809b", "ether proto 0x80f3", "fddi proto \\arp",
    "tr proto \\arp", "wlan proto \\arp", "fddi proto \\ip6", "tr proto \\ipx", "wlan proto 0x888e",
    "iso proto \\clnp", "iso proto \\esis", "iso proto \\isis", "iso proto 131", "iso proto 0x81", "isis proto 15",
    "isis proto 0x12", "protochain 6", "protochain \\tcp", "ip protochain 6", "ip protochain \\udp",
    "ip protochain 51", "ip6 protochain 6", "ip6 protochain \\tcp", "ip6 protochain 44", "ip6 protochain 58",
    "not ip6 protochain 6", "ip6 protochain 6 and tcp port 80", "ether broadcast", "ether multicast", "ip multicast",
    "ip6 multicast", "fddi broadcast", "fddi multicast", "tr broadcast", "tr multicast", "wlan broadcast",
    "wlan multicast", "less 0", "less 64", "less 0x40", "greater 0", "greater 64", "greater 0100", "byte 0 = 5",
    "byte 12 < 8", "byte 13 > 8", "byte 0 & 1", "byte 0 | 1", "ifindex 1", "ifindex 300", "llc i", "llc s", "llc u",
    "llc rr", "llc rnr", "llc rej", "llc ui", "llc ua", "llc disc", "llc sabme", "llc test", "llc xid", "llc frmr",
];

/// Relations.
#[rustfmt::skip]
const RELATIONS: &[&str] = &[
    "ip[0] = 5", "ip6[0] = 5", "tcp[0] = 5", "udp[0] = 5", "sctp[0] = 5", "icmp[0] = 5", "icmp6[0] = 5",
    "igmp[0] = 5", "igrp[0] = 5", "pim[0] = 5", "vrrp[0] = 5", "carp[0] = 5", "arp[0] = 5", "rarp[0] = 5",
    "decnet[0] = 5", "lat[0] = 5", "moprc[0] = 5", "mopdl[0] = 5", "sca[0] = 5", "atalk[0] = 5", "ether[0] = 5",
    "fddi[0] = 5", "tr[0] = 5", "wlan[0] = 5", "link[0] = 5", "ppp[0] = 5", "slip[0] = 5", "radio[0] = 5",
    "ip[4:2] != 0", "ip6[8:4] != 0", "tcp[13:1] != 0", "udp[4:2] != 0", "ether[12:2] != 0", "arp[6:2] != 0",
    "icmp[1] != 0", "link[0:4] != 0", "ip[2 + 4] != 0", "ip[ip[0]] != 0", "tcp[(tcp[12] & 0xf0) >> 2] != 0",
    "ip[(ip[0] & 0xf) << 2] != 0", "ip[len - 4] != 0", "ip[-1] != 0", "ip[-2] != 0", "ip[0xffffffff] != 0",
    "ip[0x10] != 0", "ip[010] != 0", "ether[len - 1] != 0", "ip6[ip6[6]] != 0", "ip[ 0 ] != 0", "ip[0 : 2] != 0",
    "ip[1:4] != 0", "ip6[3:4] != 0", "udp[udp[0]] != 0", "tcp[ip[0]] != 0", "icmp[icmptype] = icmp-echoreply",
    "icmp[icmptype] = icmp-unreach", "icmp[icmptype] = icmp-sourcequench", "icmp[icmptype] = icmp-redirect",
    "icmp[icmptype] = icmp-echo", "icmp[icmptype] = icmp-routeradvert", "icmp[icmptype] = icmp-routersolicit",
    "icmp[icmptype] = icmp-timxceed", "icmp[icmptype] = icmp-paramprob", "icmp[icmptype] = icmp-tstamp",
    "icmp[icmptype] = icmp-tstampreply", "icmp[icmptype] = icmp-ireq", "icmp[icmptype] = icmp-ireqreply",
    "icmp[icmptype] = icmp-maskreq", "icmp[icmptype] = icmp-maskreply", "icmp6[icmp6type] = icmp6-destinationunreach",
    "icmp6[icmp6type] = icmp6-packettoobig", "icmp6[icmp6type] = icmp6-timeexceeded",
    "icmp6[icmp6type] = icmp6-parameterproblem", "icmp6[icmp6type] = icmp6-echo",
    "icmp6[icmp6type] = icmp6-echoreply", "icmp6[icmp6type] = icmp6-multicastlistenerquery",
    "icmp6[icmp6type] = icmp6-multicastlistenerreportv1", "icmp6[icmp6type] = icmp6-multicastlistenerdone",
    "icmp6[icmp6type] = icmp6-routersolicit", "icmp6[icmp6type] = icmp6-routeradvert",
    "icmp6[icmp6type] = icmp6-neighborsolicit", "icmp6[icmp6type] = icmp6-neighboradvert",
    "icmp6[icmp6type] = icmp6-redirect", "icmp6[icmp6type] = icmp6-routerrenum",
    "icmp6[icmp6type] = icmp6-nodeinformationquery", "icmp6[icmp6type] = icmp6-nodeinformationresponse",
    "icmp6[icmp6type] = icmp6-ineighbordiscoverysolicit", "icmp6[icmp6type] = icmp6-ineighbordiscoveryadvert",
    "icmp6[icmp6type] = icmp6-multicastlistenerreportv2", "icmp6[icmp6type] = icmp6-homeagentdiscoveryrequest",
    "icmp6[icmp6type] = icmp6-homeagentdiscoveryreply", "icmp6[icmp6type] = icmp6-mobileprefixsolicit",
    "icmp6[icmp6type] = icmp6-mobileprefixadvert", "icmp6[icmp6type] = icmp6-certpathsolicit",
    "icmp6[icmp6type] = icmp6-certpathadvert", "icmp6[icmp6type] = icmp6-multicastrouteradvert",
    "icmp6[icmp6type] = icmp6-multicastroutersolicit", "icmp6[icmp6type] = icmp6-multicastrouterterm",
    "tcp[tcpflags] & tcp-fin != 0", "tcp[tcpflags] & tcp-syn != 0", "tcp[tcpflags] & tcp-rst != 0",
    "tcp[tcpflags] & tcp-push != 0", "tcp[tcpflags] & tcp-ack != 0", "tcp[tcpflags] & tcp-urg != 0",
    "tcp[tcpflags] & tcp-ece != 0", "tcp[tcpflags] & tcp-cwr != 0", "icmp[icmpcode] = 1", "icmp6[icmp6code] = 1",
    "icmp[icmptype] != icmp-echo and icmp[icmptype] != icmp-echoreply",
    "icmp6[icmp6type] != icmp6-echo and icmp6[icmp6type] != icmp6-echoreply",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0", "tcp[tcpflags] & (tcp-rst|tcp-ack) == (tcp-rst|tcp-ack)",
    "tcp[tcpflags] == tcp-syn | tcp-ack", "tcp[tcpflags] = 0x12", "tcp[13] & 2 = 2", "tcp[tcp-syn] = 1",
    "tcp-syn = 2", "icmptype = 0", "tcpflags = 13", "ether[0] & 1 != 0", "ip[0] & 0xf != 5", "ip[6:2] & 0x1fff = 0",
    "ip[12:4] = 0x0a000001", "ip[2:2] > 576", "ip[2:2] - ((ip[0] & 0xf) << 2) > 40",
    "ip[2:2] - (ip[0] & 0xf) * 4 >= 20", "(((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
    "ether[0] & 1 = 0 and ip[16] >= 224", "ip[8] < 64", "ip[8] <= 64", "ip[8] > 64", "ip[8] >= 64", "ip[8] == 64",
    "64 = ip[8]", "64 < ip[8]", "64 >= ip[8]", "ip[8] = ip[9]", "ip[8] > ip[9]", "ip[8] <= ip[9]", "ip[8] != tcp[13]",
    "ip[8] + ip[9] > 70", "ip[8] - ip[9] > 70", "ip[8] * ip[9] > 70", "ip[8] / ip[9] > 70", "ip[8] % ip[9] > 7",
    "ip[8] & ip[9] = 0", "ip[8] | ip[9] > 70", "ip[8] ^ ip[9] != 0", "ip[8] << ip[9] = 0", "ip[8] >> ip[9] = 0",
    "ip[8] + 1 * 2 = 66", "(ip[8] + 1) * 2 = 130", "ip[8] | 1 & 0 = 64", "ip[8] & 1 + 1 = 0", "ip[8] - 1 - 1 = 62",
    "ip[8] ^ 1 | 2 > 0", "ip[8] << 1 + 1 = 256", "ip[8] / 2 * 2 = 64", "ip[8] % 10 = 4", "ip[8] << 31 = 0",
    "ip[8] >> 31 = 0", "ip[8] * 0 = 0", "ip[8] & 0 = 0", "ip[8] | 0 = 64", "ip[8] / 1 = 64", "-ip[8] = 0xffffffc0",
    "-ip[8] > 0x80000000", "-(-ip[8]) = 64", "-1 = 0xffffffff", "- 1 = 0xffffffff", "1 = 1", "1 + 1 = 2", "010 = 8",
    "0x10 = 16", "0 < 0x80000000", "5 > 4", "2 * 3 + 4 = 10", "2 + 3 * 4 = 14", "1 - 2 = 0xffffffff",
    "0xffffffff + 1 = 0", "7 / 2 = 3", "7 % 4 = 3", "1 << 31 = 0x80000000", "6 & 3 = 2", "6 | 3 = 7", "6 ^ 3 = 5",
    "len > 100", "len >= 0x40", "len = 64", "len == 64", "len != 64", "len < 64", "64 < len", "len - 14 > 100",
    "len & 1 = 0", "len = len", "len > ip[2:2]", "len - 14 != ip[2:2]", "len / 2 > 30", "ip[0:4] = 0x45000028",
    "ip[0:4] > 0x80000000", "ip[0:4] = 4294967295", "ip6[6] = 6", "ip6[6] = 58 and ip6[40] = 128",
    "ip6[8:4] = 0x20010db8", "ip [ 0 ] = 0x45", "ip[0]=0x45", "(ip[0]) = (0x45)", "((ip[0])) = 0x45",
    "(ip[0] = 0x45)", "not ip[0] = 0x45", "! ip[0] = 0x45", "not (ip[0] = 0x45)",
    "ip[0] = 0x45 or ip6[0] & 0xf0 = 0x60", "udp[8:4] & 0xffffff = 1", "radio[2:2] > 8", "radio[0] = 0 and ip",
    "ether[12:2] = 0x800 || ether[12:2] = 0x86dd", "ether[6:4] = 0x00112233 and ether[10:2] = 0x4455",
];

/// What changes the offsets of what is after it, and what one link type alone has.
#[rustfmt::skip]
const LINK_LAYERS: &[&str] = &[
    "type mgt subtype assoc-req", "type mgt subtype assoc-resp", "type mgt subtype reassoc-req",
    "type mgt subtype reassoc-resp", "type mgt subtype probe-req", "type mgt subtype probe-resp",
    "type mgt subtype beacon", "type mgt subtype atim", "type mgt subtype disassoc", "type mgt subtype auth",
    "type mgt subtype deauth", "type ctl subtype ps-poll", "type ctl subtype rts", "type ctl subtype cts",
    "type ctl subtype ack", "type ctl subtype cf-end", "type ctl subtype cf-end-ack", "type data subtype data",
    "type data subtype data-cf-ack", "type data subtype data-cf-poll", "type data subtype data-cf-ack-poll",
    "type data subtype null", "type data subtype cf-ack", "type data subtype cf-poll",
    "type data subtype cf-ack-poll", "type data subtype qos-data", "type data subtype qos-data-cf-ack",
    "type data subtype qos-data-cf-poll", "type data subtype qos-data-cf-ack-poll", "type data subtype qos",
    "type data subtype qos-cf-poll", "type data subtype qos-cf-ack-poll", "subtype beacon", "subtype rts",
    "subtype ack", "subtype qos-data", "subtype null", "subtype deauth", "subtype qos", "subtype probe-resp",
    "wlan addr1 00:11:22:33:44:55", "wlan addr2 00:11:22:33:44:55", "wlan addr3 00:11:22:33:44:55",
    "wlan addr4 00:11:22:33:44:55", "wlan ra 00:11:22:33:44:55", "wlan ta 00:11:22:33:44:55",
    "wlan address1 00:11:22:33:44:55", "wlan address2 00:11:22:33:44:55", "wlan address3 00:11:22:33:44:55",
    "wlan address4 00:11:22:33:44:55", "type mgt", "type ctl", "type data", "type management", "type control",
    "type 0", "wlan type mgt", "wlan type data subtype qos", "type 0 subtype 0x80", "type mgt subtype 0x40",
    "wlan subtype beacon", "dir nods", "dir tods", "dir fromds", "dir dstods", "dir 0", "dir 3", "direction tods",
    "wlan dir fromds", "vpi 0", "vpi 255", "vpi = 1", "vpi > 1", "vpi <= 1", "vpi != 1", "vci 5", "vci 65535",
    "vci = 5", "vci > 5", "vci < 5", "vci (1 or 2)", "vpi (0 or 1)", "vpi 0 and vci 5", "lane", "lane and ip",
    "lane and tcp port 80", "lane and ether host 00:11:22:33:44:55", "ip or lane", "not lane", "oam", "oamf4",
    "oamf4sc", "oamf4ec", "metac", "bcc", "sc", "ilmic", "connectmsg", "metaconnect", "llc and lane", "fisu", "lssu",
    "msu", "hfisu", "hlssu", "hmsu", "lsu", "sio 3", "sio 0x83", "sio 255", "sio > 3", "hsio 3", "opc 5", "opc 0",
    "opc 16383", "opc = 5", "opc != 5", "opc > 5", "opc (1 or 300)", "hopc 5", "dpc 5", "dpc 16383", "dpc <= 300",
    "hdpc 300", "sls 3", "sls 15", "sls (1 or 2 or 3)", "hsls 3", "msu and opc 5 and dpc 300", "on en0", "ifname en0",
    "rnr 5", "rulenum 0", "srnr 7", "subrulenum 7", "reason match", "reason bad-offset", "reason fragment",
    "reason short", "reason normalize", "reason memory", "reason 3", "rset pflog0", "ruleset en0", "action pass",
    "action accept", "action block", "action drop", "action nat", "action rdr", "action binat", "action scrub",
    "action nonat", "on en0 and rnr 5 and action block", "inbound and ip", "vlan", "vlan 0", "vlan 100", "vlan 4095",
    "vlan 0x64", "vlan and ip", "vlan 100 and ip", "vlan 100 && vlan 200", "vlan and vlan 300 and ip",
    "vlan and vlan and vlan and ip", "vlan 100 and vlan 200 and vlan 1 and tcp port 80",
    "vlan and ether host 00:11:22:33:44:55", "vlan and ether[0] = 1", "vlan and ether[12:2] = 0x8100",
    "vlan and ether proto \\ip", "vlan and arp", "vlan and iso", "vlan and ip6 host fe80::1", "ip or vlan",
    "vlan or ip", "ip or vlan and ip", "(vlan and ip) or ip", "(ip) or (vlan and ip)",
    "tcp port 80 or (vlan and tcp port 80)", "not vlan", "not vlan and ip", "not (vlan and ip)", "vlan or vlan",
    "vlan 100 or vlan 200", "vlan and mpls", "vlan and pppoes", "vlan and mpls 1024 and ip",
    "vlan and pppoes 0x27 and ip", "mpls", "mpls 0", "mpls 100000", "mpls 1048575", "mpls and ip", "mpls and ip6",
    "mpls 100000 && mpls 1024", "mpls && mpls 1024 && host 192.9.200.1", "mpls and mpls and mpls",
    "mpls 16 and mpls 1024 and tcp port 80", "mpls and tcp[13] & 2 != 0", "mpls and ether[12:2] = 0x8847",
    "not mpls and ip", "ip or mpls and ip", "mpls or ip", "mpls and host 10.0.0.1", "mpls and icmp6", "pppoes",
    "pppoes 0x27", "pppoes 65535", "pppoes 0x27 && ip", "pppoes and ip", "pppoes and ip6", "pppoes and tcp port 80",
    "pppoes and pppoes", "pppoes 1 and host 10.0.0.1", "pppoes and ppp[0:2] = 0x21", "pppoes and mpls",
    "pppoes or ip", "ip or pppoes and ip", "not pppoes and ip", "pppoed or pppoes",
    "pppoed and ether host 00:11:22:33:44:55", "geneve", "geneve 0xb", "geneve 0xffffff", "geneve 0xb && ip",
    "geneve and ip", "geneve and ip6", "geneve and arp", "geneve and tcp port 80",
    "geneve and ether host 00:11:22:33:44:55", "geneve and host 10.0.0.1", "geneve and geneve",
    "geneve 1 and geneve 0xb", "geneve and vlan", "geneve and vlan 100 and ip", "geneve or ip", "ip or geneve and ip",
    "not geneve and ip", "not geneve", "vlan and geneve", "geneve and mpls", "geneve and pppoes",
    "geneve and ether[12:2] = 0x800", "geneve and tcp[13] & 2 != 0", "geneve and portrange 22-80", "geneve and icmp6",
    "udp port 4789",
];

/// How primitives are joined.
#[rustfmt::skip]
const COMBINATIONS: &[&str] = &[
    "tcp dst port ftp or ftp-data or domain", "tcp dst port 80 or 443", "tcp port 80 and not 443", "port 80 or 443",
    "port 80 || 443", "port (80 or 443)", "not port 80 or 443", "not (port 80 or 443)",
    "host 10.0.0.1 and port 80 or 443", "host 10.0.0.1 or port 80 or 443", "host 10.0.0.1 and (10.0.0.2 or 1.2.3.4)",
    "host 10.0.0.1 or 10.0.0.2", "host 10.0.0.1 and not 10.0.0.2", "not host 10.0.0.1 and 10.0.0.2",
    "not (host 10.0.0.1 or 10.0.0.2)", "src 10.0.0.1 or 10.0.0.2", "src host 10.0.0.1 or dst 10.0.0.2",
    "ip host 10.0.0.1 and not 10.0.0.2", "net 10 or 192.168 or 172.16.0.0/12", "net 10.0.0.0/8 or 192.168.0.0/16",
    "src net 10 and dst net 192.168", "host ::1 or 2001:db8::1", "host 10.0.0.1 or ::1", "ip proto 6 or 17",
    "ip proto \\sctp or \\udp", "ether proto 0x800 or 0x806", "ether host 1:2:3:4:5:6 or 7:8:9:a:b:c",
    "portrange 20-25 or 80-90", "src port 80 and dst 10.0.0.1", "src host 10.0.0.1 and port 80",
    "tcp src port 80 or dst port 443", "tcp dst port 1 or dst 2", "ip and tcp", "ip && tcp", "ip6 and tcp",
    "ip or arp", "ip || arp", "ip or arp or rarp", "ip or tcp and port 80", "ip or (tcp and port 80)",
    "tcp or udp and port 53", "(tcp or udp) and port 53", "tcp and port 80 or udp and port 53",
    "(tcp and port 80) or (udp and port 53)", "not ip or arp", "not (ip or arp)", "not ip and not arp", "! ip", "!ip",
    "!!ip", "not not ip", "not (not ip)", "!(!ip)", "not!ip", "((ip))", "(((tcp port 80)))", "( ip )", "ip   and tcp",
    "len >= 5 && len<=100", "ip or ip", "ip and ip", "ip or not ip", "tcp or not tcp", "arp and host 10.0.0.1",
    "arp and ether host 00:11:22:33:44:55", "arp[6:2] = 1 and arp host 10.0.0.1", "ip and not net 10.0.0.0/8",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src and dst net 10.0.0.0/8",
    "tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
    "host 10.0.0.1 and not (port 22 or port 80)", "(host 10.0.0.1 or host 10.0.0.2) and (port 22 or port 80)",
    "ether host 00:11:22:33:44:55 and ip host 10.0.0.1", "ether host 00:11:22:33:44:55 and not host 10.0.0.1",
    "ip6 and not icmp6", "icmp or icmp6", "tcp port 22 or tcp port 80 or tcp port 443 or udp port 53",
    "less 100 and greater 50", "greater 50 and not less 100 or arp", "broadcast or multicast",
    "ip multicast or ip6 multicast", "ip multicast and not ether multicast",
    "tcp and src port 80 and dst portrange 1024-65535", "host ::1/128", "type 4", "vpi 256", "vci 65536",
    "decnet host 10", "decnet src 64.1", "decnet host 10.1024",
];

/// What libpcap refuses for each of them.
#[rustfmt::skip]
pub const REFUSED: &[&str] = &[
    "ip and", "and ip", "or", "not", "()", "(ip", "ip)", "ip tcp", "ip & tcp", "ip | tcp", "tcp port", "port", "host",
    "net", "src", "dst", "ip src", "ether", "proto", "ip proto", "len", "len >", "> len", "= 5", "ip[0]", "ip[0",
    "ip[] = 1", "ip[0:] = 1", "ip[0:3] = 1", "ip[0:0] = 1", "ip[0:8] = 1", "ip = 5", "ip[0] = 'a'",
    "ip[0] = 10.0.0.1", "ip[0] => 5", "ip[0] <> 5", "ip[0] = 1 = 1", "0x = 1", "080 = 1", "ip[0] = 4294967296",
    "len[0] = 5", "ip[0] = 1 / 0", "ip[0] / 0 = 1", "ip[0] % 0 = 1", "ip[0] << 32 = 1", "ip[0] >> 33 = 1",
    "stp[0] = 1", "iso[0] = 1", "aarp[0] = 1", "ah[0] = 1", "esp[0] = 1", "ipx[0] = 1", "tcp[13] & 2",
    "ip[0] and tcp", "10.0.0.1", "10.1", "00:11:22:33:44:55", "::1", "host 10.0.0.0/8",
    "host 10.0.0.1 mask 255.0.0.0", "host 256.1.1.1", "host 1.2.3.256", "host 00:11:22:33:44:55", "host ip",
    "host 2001:db8::/32", "host 1:2:3", "host tcp", "ip host ::1", "ip6 host 10.0.0.1", "ip6 host localhost",
    "ip net 2001:db8::/32", "ip6 net 10.0.0.0/8", "net 10/8", "net 0/0", "net 10 mask 255.0.0.0", "net 10.0.0.1/8",
    "net 10.0.0.0/33", "net 10.0.0.1 mask 255.0.0.0", "net 2001:db8::1/32", "net 2001:db8::/129",
    "net ::1 mask ffff::", "net localhost", "tcp host 10.0.0.1", "udp net 10", "tcp src 10.0.0.1",
    "icmp host 10.0.0.1", "ether net 10", "ether port 80", "ether host 10.0.0.1", "ether 00:11:22:33:44:55",
    "ether host 00:11:22:33:44", "ether host 00:11:22:33:44:55:66", "ether host 0:1:2:3:4:g", "ether proto ip",
    "ether proto nosuch", "port 65536", "port -1", "port 80-90", "port nosuchservice", "udp port http",
    "tcp port snmp-nosuch", "ip port 80", "arp port 5", "icmp port 80", "portrange 1-65536", "portrange ftp-data-ftp",
    "portrange nosuch", "ip tcp port 80", "ip6 tcp port 80", "ip proto tcp", "ip proto udp or tcp", "ip proto nosuch",
    "ip6 proto tcp", "tcp proto 5", "udp proto 5", "icmp proto 5", "arp proto 5", "iso proto isis", "iso proto \\tcp",
    "isis l1", "protochain tcp", "tcp protochain 6", "ip broadcast", "arp broadcast", "tcp multicast",
    "arp multicast", "gateway localhost", "gateway 10.0.0.1", "vlan 4096", "vlan 100 or 200", "vlan -1", "vlan vlan",
    "mpls 1048576", "mpls and vlan", "mpls and pppoes", "pppoes 65536", "pppoes and vlan", "geneve 16777216", "vxlan",
    "vxlan 5", "vlan and mpls and pppoes and geneve", "llc 5", "llc foo", "byte 0 5", "less", "less -1",
    "greater foo", "type", "type foo", "type mgt subtype rts", "type ctl subtype beacon", "type data subtype ack",
    "subtype foo", "dir foo", "wlan addr5 00:11:22:33:44:55", "wlan addr1 10.0.0.1", "vpi", "sio 256", "opc 16384",
    "dpc 16384", "sls 16", "opc 1 or 2", "action foo", "reason foo", "rnr foo", "on", "decnet 1.2",
    "src or host 10.0.0.1", "src and 10.0.0.1", "src dst 10.0.0.1", "dst src host 10.0.0.1", "host host",
    "host src 10.0.0.1", "port src 80", "ip src port 80", "tcp-syn", "icmptype", "tcp[tcpflags] & tcp-foo != 0",
    "ip6 and 1.2.3.4", "not and ip", "ip and or tcp", "ip && && tcp", "ip ||", "\\", "ip @ tcp", "host \"10.0.0.1\"",
    "ip[2:2]=len-14", "type 1", "type 2", "type 3", "type 2 subtype 8", "subtype 8", "oamf4s", "oamf4e", "action 1",
];
