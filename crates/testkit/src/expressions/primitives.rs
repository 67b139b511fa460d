//! Primitives without the relations, and what may be put before others.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::arithmetic::{self, number};
use super::{
    ARCNET, ATM, BROADCAST, CHAIN, Capabilities, FRAMES, GENEVE, ISO, LLC, MAC, MPLS, PFLOG, PPPOE, SS7,
    TYPES, V4, V6, VLAN, WLAN,
};
use crate::packets::pools;
use crate::random::Source;

/// A primitive of any kind that the link type has.
pub(super) fn primitive(source: &mut Source, has: Capabilities) -> String {
    // Kinds that a link type has alone come up as often as all others.
    if source.chance(40)
        && let Some(text) = special(source, has)
    {
        return text;
    }
    match source.below(20) {
        0..=3 if has.has_ip() => host(source, has),
        4 if has.has_ip() => net(source, has),
        5..=8 if has.has_ip() => port(source),
        9 | 10 if has.has_ip() => protocol(source, has),
        11 if has.has(MAC) => hardware(source),
        12 if has.has(TYPES) => ether_type(source),
        13 if has.has(ISO) => osi(source),
        14 if has.has(LLC) => llc(source),
        15 if has.has_ip() => inherited(source, has),
        16 => cast(source, has),
        17 => length(source),
        _ => arithmetic::relation(source, has),
    }
}

/// A primitive that few others exclude.
pub(super) fn mild(source: &mut Source, has: Capabilities) -> String {
    match source.below(5) {
        0 | 1 if has.has(V4) => format!("{}host {}", direction(source), ipv4(source)),
        2 if has.has_ip() => port(source),
        3 if has.has(MAC) => hardware(source),
        4 => arithmetic::relation(source, has),
        _ => length(source),
    }
}

fn special(source: &mut Source, has: Capabilities) -> Option<String> {
    if has.has(WLAN) {
        Some(wlan(source, has))
    } else if has.has(PFLOG) {
        Some(pflog(source))
    } else if has.has(ATM) {
        Some(atm(source))
    } else if has.has(SS7) {
        Some(ss7(source))
    } else if has.has(ARCNET) && source.chance(30) {
        Some(format!("ether {}host $0{}", direction(source), source.below(10)))
    } else {
        None
    }
}

/// The head, and what there is after it.
pub(super) fn encapsulation(source: &mut Source, has: Capabilities) -> Option<(String, Capabilities)> {
    let maybe = |source: &mut Source, value: String| {
        if source.chance(60) { format!(" {value}") } else { String::new() }
    };
    let inside = has.without(MAC | BROADCAST | VLAN | LLC | PPPOE | WLAN | ATM | ISO | TYPES);
    match source.below(5) {
        0 | 1 if has.has(VLAN) => {
            let value = source.pick(&pools::VLANS).to_string();
            Some((format!("vlan{}", maybe(source, value)), has.without(WLAN)))
        }
        2 if has.has(MPLS) => {
            let value = source.pick(&pools::LABELS).to_string();
            Some((format!("mpls{}", maybe(source, value)), inside.with(MPLS).without(GENEVE)))
        }
        3 if has.has(PPPOE) => {
            let value = format!("{:#x}", source.pick(&pools::SESSIONS));
            Some((format!("pppoes{}", maybe(source, value)), inside.without(CHAIN)))
        }
        4 if has.has(GENEVE) => {
            let value = format!("{:#x}", source.pick(&pools::VNIS));
            Some((
                format!("geneve{}", maybe(source, value)),
                has.without(CHAIN | WLAN | MPLS | VLAN | ATM | PFLOG),
            ))
        }
        _ => None,
    }
}

fn direction(source: &mut Source) -> &'static str {
    source.pick(&["", "", "", "src ", "dst ", "src or dst ", "src and dst ", "dst or src ", "dst and src "])
}

fn ipv4(source: &mut Source) -> String {
    let [a, b, c, d] = source.pick(&pools::IPV4);
    match source.below(20) {
        0 => format!("{a:03}.{b}.{c}.{d:02}"),
        1 => format!("{:#x}", u32::from_be_bytes([a, b, c, d])),
        2 => u32::from_be_bytes([a, b, c, d]).to_string(),
        3 => "localhost".into(),
        _ => format!("{a}.{b}.{c}.{d}"),
    }
}

/// A list of alternatives, or of what is excluded, that differ in an address or a port alone. Some are of the pools.
pub(super) fn list(source: &mut Source, members: usize) -> String {
    let is_port = source.chance(50);
    let (head, not) = (
        match is_port {
            true => format!("{}{}port", source.pick(&["", "", "tcp ", "udp "]), direction(source)),
            false => format!("{}{}host", source.pick(&["", "", "ip ", "arp "]), direction(source)),
        },
        source.chance(20),
    );
    let member = |source: &mut Source| match is_port {
        true if source.chance(20) => source.pick(&pools::PORTS).to_string(),
        true => source.below(65536).to_string(),
        false if source.chance(20) => source.pick(&pools::IPV4).map(|byte| byte.to_string()).join("."),
        false => format!("10.{}.{}.{}", source.below(3), source.byte(), source.byte()),
    };
    let all: Vec<String> = (0..members)
        .map(|at| match (not, at) {
            (true, _) => format!("not {head} {}", member(source)),
            (false, 0) => format!("{head} {}", member(source)),
            (false, _) if source.chance(50) => member(source),
            (false, _) => format!("{head} {}", member(source)),
        })
        .collect();
    all.join(if not { " and " } else { " or " })
}

fn ipv6(source: &mut Source) -> String {
    let words = source.pick(&pools::IPV6);
    if source.chance(15) {
        return words.map(|word| format!("{word:x}")).join(":");
    }
    Ipv6Addr::from(words).to_string()
}

fn host(source: &mut Source, has: Capabilities) -> String {
    if !has.has(V4) || has.has(V6) && source.chance(25) {
        return format!("{}{}host {}", source.pick(&["", "ip6 "]), direction(source), ipv6(source));
    }
    let family = if has.has(TYPES) && source.chance(25) {
        source.pick(&["arp ", "rarp "])
    } else {
        source.pick(&["", "", "ip "])
    };
    let direction = direction(source);
    // `host` may be left out after a direction or a protocol.
    let host = if (direction.is_empty() && family.is_empty()) || source.chance(70) { "host " } else { "" };
    format!("{family}{direction}{host}{}", ipv4(source))
}

fn net(source: &mut Source, has: Capabilities) -> String {
    let direction = direction(source);
    if !has.has(V4) || has.has(V6) && source.chance(25) {
        let net =
            source.pick(&["2001:db8::/32", "fe80::/10", "2001:db8:0:1::/64", "::/0", "ff00::/8", "::1/128"]);
        return format!("{}{direction}net {net}", source.pick(&["", "ip6 "]));
    }
    let family = source.pick(&["", "", "ip "]);
    if source.chance(40) {
        let [a, b, c, d] = source.pick(&pools::IPV4);
        let bits = source.pick(&[0_u32, 1, 7, 8, 12, 16, 24, 25, 31, 32]);
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        let net = Ipv4Addr::from(u32::from_be_bytes([a, b, c, d]) & mask);
        let mask = Ipv4Addr::from(mask);
        let behind = if source.chance(30) { format!(" mask {mask}") } else { format!("/{bits}") };
        return format!("{family}{direction}net {net}{behind}");
    }
    let net = source.pick(&[
        "10",
        "10.0",
        "10.0.0",
        "10.0.0.1",
        "192.168",
        "192.168.1",
        "172.16",
        "127",
        "0x0a",
        "1",
    ]);
    format!("{family}{direction}net {net}")
}

fn port(source: &mut Source) -> String {
    let transport = source.pick(&["", "", "", "tcp ", "udp ", "sctp "]);
    let direction = direction(source);
    if source.chance(25) {
        let (low, high) = (source.pick(&pools::PORTS), source.pick(&pools::PORTS));
        let (low, high) = if source.chance(85) { (low.min(high), low.max(high)) } else { (low, high) };
        return format!("{transport}{direction}portrange {low}-{high}");
    }
    let named = match transport {
        "" => source.pick(&["http", "ssh", "domain", "ftp-data", "https", "snmp"]),
        "tcp " => source.pick(&["http", "ssh", "domain", "ftp-data", "https"]),
        "udp " => source.pick(&["domain", "snmp", "ntp", "https"]),
        _ => "80",
    };
    match source.below(6) {
        0 => format!("{transport}{direction}port {named}"),
        1 => format!("{transport}{direction}port {:#x}", source.pick(&pools::PORTS)),
        _ => format!("{transport}{direction}port {}", source.pick(&pools::PORTS)),
    }
}

fn protocol(source: &mut Source, has: Capabilities) -> String {
    if has.has(CHAIN) && source.chance(8) {
        let value = source.pick(&["6", "\\tcp", "17", "44", "50", "58"]);
        let family = match (has.has(V4), has.has(V6)) {
            (true, true) => source.pick(&["ip6 ", "ip ", ""]),
            (true, false) => "ip ",
            _ => "ip6 ",
        };
        return format!("{family}protochain {value}");
    }
    let value =
        source.pick(&["6", "\\tcp", "\\udp", "17", "0x11", "132", "1", "58", "ospf", "gre", "\\ah", "255"]);
    match source.below(8) {
        0..=3 if has.has(V4) => {
            let names = [
                "ip", "ip", "tcp", "udp", "icmp", "igmp", "sctp", "ah", "esp", "pim", "vrrp", "igrp", "carp",
            ];
            source.pick(&names).into()
        }
        4 | 5 if has.has(V6) => source.pick(&["ip6", "ip6", "icmp6", "tcp", "udp", "sctp", "ah"]).into(),
        6 if has.has(V4) => format!("{}proto {value}", source.pick(&["ip ", "ip ", "", ""])),
        7 if has.has(V6) => format!("ip6 proto {value}"),
        _ => format!("proto {value}"),
    }
}

fn mac(source: &mut Source) -> String {
    let [a, b, c, d, e, f] = source.pick(&pools::MACS);
    match source.below(8) {
        0 => format!("{a:02x}-{b:02x}-{c:02x}-{d:02x}-{e:02x}-{f:02x}"),
        1 => format!("{a:02x}.{b:02x}.{c:02x}.{d:02x}.{e:02x}.{f:02x}"),
        2 => format!("{a:02x}{b:02x}.{c:02x}{d:02x}.{e:02x}{f:02x}"),
        3 => format!("{a:02X}{b:02X}{c:02X}{d:02X}{e:02X}{f:02X}"),
        4 => format!("{a:x}:{b:x}:{c:x}:{d:x}:{e:x}:{f:x}"),
        _ => format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"),
    }
}

fn hardware(source: &mut Source) -> String {
    let layer = source.pick(&["ether ", "ether ", "ether ", "fddi ", "tr ", "wlan "]);
    let direction = direction(source);
    let host = if direction.is_empty() || source.chance(60) { "host " } else { "" };
    format!("{layer}{direction}{host}{}", mac(source))
}

fn ether_type(source: &mut Source) -> String {
    match source.below(4) {
        0 => {
            let name =
                source.pick(&["\\ip", "\\ip6", "\\arp", "\\rarp", "\\lat", "\\mopdl", "\\moprc", "\\decnet"]);
            format!("{} proto {name}", source.pick(&["ether", "ether", "fddi", "tr", "wlan"]))
        }
        1 => {
            format!("ether proto {}", source.pick(&["0x800", "2054", "0x86dd", "0x6003", "0x8847", "0x9000"]))
        }
        2 => {
            let (area, node) = source.pick(&pools::DECNET);
            format!("decnet {}host {area}.{node}", source.pick(&["", "src ", "dst ", "src or dst "]))
        }
        _ => source
            .pick(&["arp", "arp", "rarp", "decnet", "lat", "moprc", "mopdl", "sca", "aarp", "atalk"])
            .into(),
    }
}

fn osi(source: &mut Source) -> String {
    let names = [
        "iso", "clnp", "esis", "isis", "l1", "l2", "iih", "lsp", "snp", "csnp", "psnp", "stp", "ipx",
        "netbeui",
    ];
    match source.below(4) {
        0 => format!("iso proto {}", source.pick(&["\\clnp", "\\esis", "\\isis", "131", "0x81"])),
        _ => source.pick(&names[..]).into(),
    }
}

fn llc(source: &mut Source) -> String {
    let kinds = ["i", "s", "u", "rr", "rnr", "rej", "ui", "ua", "disc", "sabme", "test", "xid", "frmr"];
    if source.chance(20) { "llc".into() } else { format!("llc {}", source.pick(&kinds)) }
}

/// Broadcast, multicast, and the direction.
fn cast(source: &mut Source, has: Capabilities) -> String {
    match source.below(6) {
        0 if has.has(BROADCAST) => source.pick(&["broadcast", "ether broadcast"]).into(),
        1 if has.has(BROADCAST) => source.pick(&["multicast", "ether multicast"]).into(),
        2 if has.has(V4) => "ip multicast".into(),
        3 if has.has(V6) => "ip6 multicast".into(),
        4 if has.has(PPPOE | TYPES) => "pppoed".into(),
        _ => source.pick(&["inbound", "outbound", "ifindex 1", "outbound"]).into(),
    }
}

fn length(source: &mut Source) -> String {
    let limit = number(source, 200);
    match source.below(4) {
        0 => format!("less {limit}"),
        1 => format!("greater {limit}"),
        2 => format!(
            "byte {} {} {}",
            source.below(20),
            source.pick(&["=", "<", ">", "&", "|"]),
            source.below(255)
        ),
        _ => format!("len {} {limit}", source.pick(&["<", "<=", ">", ">=", "=", "!="])),
    }
}

/// Values that take the qualifiers before them.
fn inherited(source: &mut Source, has: Capabilities) -> String {
    let word = super::either(source);
    let or = source.pick(&["or", "||"]);
    let ports = |source: &mut Source| source.pick(&["80", "443", "22", "ssh", "53"]);
    match source.below(8) {
        0 => format!("tcp dst port {} {or} {}", ports(source), ports(source)),
        1 => format!("port {} {or} {} {word} not {}", ports(source), ports(source), ports(source)),
        2 => format!("port ({} {or} {})", ports(source), ports(source)),
        3 if has.has(V4) => format!("host {} {word} ({} {or} {})", ipv4(source), ipv4(source), ipv4(source)),
        4 if has.has(V4) => format!("net 10.0.0.0/8 {or} 192.168.0.0/16 {or} 172.16"),
        5 if has.has(V4) => format!("ip proto 6 {or} \\udp {or} 132"),
        6 if has.has(MAC) => format!("ether src {} {or} {}", mac(source), mac(source)),
        _ => format!("src port {} {or} {} {or} len > 100", ports(source), ports(source)),
    }
}

fn wlan(source: &mut Source, has: Capabilities) -> String {
    let mgt = [
        "assoc-req",
        "assoc-resp",
        "reassoc-req",
        "probe-req",
        "probe-resp",
        "beacon",
        "atim",
        "disassoc",
        "auth",
        "deauth",
    ];
    let ctl = ["ps-poll", "rts", "cts", "ack", "cf-end", "cf-end-ack"];
    let data = [
        "data",
        "data-cf-ack",
        "data-cf-poll",
        "null",
        "cf-ack",
        "cf-poll",
        "qos-data",
        "qos",
        "qos-cf-poll",
    ];
    match if has.has(FRAMES) { source.below(9) } else { source.below(2) } {
        0 | 1 => {
            let address =
                source.pick(&["addr1", "addr2", "addr3", "addr4", "ra", "ta", "address1", "address4"]);
            format!("wlan {address} {}", mac(source))
        }
        2 => format!("type {}", source.pick(&["mgt", "ctl", "data", "0", "4", "8"])),
        3 => format!("type mgt subtype {}", source.pick(&mgt)),
        4 => format!("type ctl subtype {}", source.pick(&ctl)),
        5 => format!("wlan type data subtype {}", source.pick(&data)),
        6 => {
            let (mgt, ctl, data) = (source.pick(&mgt), source.pick(&ctl), source.pick(&data));
            format!("subtype {}", source.pick(&[mgt, ctl, data]))
        }
        7 => format!("type {} subtype {}", 4 * source.below(3), 16 * source.below(16)),
        _ => format!("dir {}", source.pick(&["nods", "tods", "fromds", "dstods", "0", "3"])),
    }
}

fn pflog(source: &mut Source) -> String {
    let interface = source.pick(&pools::INTERFACES);
    match source.below(8) {
        0 => format!("on {interface}"),
        1 => format!("ifname {interface}"),
        2 => format!("{} {}", source.pick(&["rnr", "rulenum"]), source.below(8)),
        3 => format!("{} {}", source.pick(&["srnr", "subrulenum"]), source.below(8)),
        4 => format!(
            "reason {}",
            source.pick(&["match", "bad-offset", "fragment", "short", "normalize", "memory"])
        ),
        5 => format!("{} {interface}", source.pick(&["rset", "ruleset"])),
        _ => format!(
            "action {}",
            source.pick(&["pass", "block", "nat", "rdr", "binat", "scrub", "accept", "drop"])
        ),
    }
}

fn atm(source: &mut Source) -> String {
    let names = [
        "lane",
        "oam",
        "oamf4",
        "oamf4sc",
        "oamf4ec",
        "metac",
        "bcc",
        "sc",
        "ilmic",
        "connectmsg",
        "metaconnect",
        "llc",
    ];
    let relation = source.pick(&["", "= ", "> ", "<= ", "!= "]);
    match source.below(4) {
        0 => format!("vpi {relation}{}", source.pick(&pools::VPIS)),
        1 => format!("vci {relation}{}", source.pick(&pools::VCIS)),
        2 => format!("vci ({} or {})", source.pick(&pools::VCIS), source.pick(&pools::VCIS)),
        _ => source.pick(&names).into(),
    }
}

fn ss7(source: &mut Source) -> String {
    let high = source.pick(&["", "", "h"]);
    let relation = source.pick(&["", "", "= ", "> ", "<= ", "!= "]);
    match source.below(7) {
        0 | 1 => format!("{high}{}", source.pick(&["fisu", "lssu", "msu"])),
        2 => format!("{high}sio {relation}{}", source.pick(&["3", "0x83", "133"])),
        3 => format!("{high}{} {relation}{}", source.pick(&["opc", "dpc"]), source.pick(&pools::POINT_CODES)),
        4 => format!("{high}sls {relation}{}", source.below(16)),
        5 => format!("opc ({} or {})", source.pick(&pools::POINT_CODES), source.pick(&pools::POINT_CODES)),
        _ => source.pick(&["lssu", "hlssu", "hmsu"]).into(),
    }
}

/// What no link type has.
pub(super) fn refused(source: &mut Source) -> String {
    let texts = [
        "tcp port",
        "port 65536",
        "host 10.0.0.0/8",
        "ip host ::1",
        "net 10.0.0.1/8",
        "vlan 4096",
        "ip proto tcp",
        "len",
        "ip[0:3] = 1",
        "ip tcp",
        "tcp host 10.0.0.1",
        "mpls 1048576",
        "()",
        "ip and",
        "host 256.1.1.1",
        "ether host 10.0.0.1",
        "portrange 1-65536",
        "gateway localhost",
        "ip[0] = 1 / 0",
        "ip[0] << 32 = 0",
    ];
    source.pick(&texts[..]).into()
}
