//! Relations: `expr relop expr` over constants, lengths and bytes of packets.

use super::{Capabilities, RADIO, TYPES, V4, V6};
use crate::random::Source;

/// A relation that libpcap does not refuse as always false: a byte of the packet, or its length, is in it.
pub(super) fn relation(source: &mut Source, capabilities: Capabilities) -> String {
    let relation = source.pick(&["=", "==", "!=", "<", "<=", ">", ">="]);
    if source.chance(25)
        && let Some(named) = named(source, capabilities)
    {
        return named;
    }
    let depth = source.pick(&[0, 0, 0, 1, 1, 2]);
    let left = expression(source, capabilities, depth);
    let right = match source.below(6) {
        0 => expression(source, capabilities, 0),
        1 => format!("{} + {}", number(source, 300), small(source)),
        _ => constant(source),
    };
    match source.below(10) {
        0 => format!("{right} {relation} {left}"),
        1 => format!("({left}) {relation} ({right})"),
        2 => format!("{left}{relation}{right}"),
        _ => format!("{left} {relation} {right}"),
    }
}

/// With a field's offset or value by its name.
fn named(source: &mut Source, capabilities: Capabilities) -> Option<String> {
    let equal = source.pick(&["=", "==", "!="]);
    match source.below(5) {
        0 if capabilities.has(V4) => Some(format!("icmp[icmptype] {equal} {}", source.pick(&ICMP_TYPES))),
        1 if capabilities.has(V6) => Some(format!("icmp6[icmp6type] {equal} {}", source.pick(&ICMP6_TYPES))),
        2 if capabilities.has(V4) => {
            let flags = format!("({}|{})", source.pick(&TCP_FLAGS), source.pick(&TCP_FLAGS));
            Some(format!("tcp[tcpflags] & {flags} {equal} {}", source.pick(&TCP_FLAGS)))
        }
        3 if capabilities.has(V4) => Some(format!("tcp[tcpflags] & {} {equal} 0", source.pick(&TCP_FLAGS))),
        4 if capabilities.has(V4 | V6) => Some(format!(
            "{} {equal} {}",
            source.pick(&["icmp[icmpcode]", "icmp6[icmp6code]"]),
            small(source)
        )),
        _ => None,
    }
}

fn expression(source: &mut Source, capabilities: Capabilities, depth: usize) -> String {
    if depth == 0 {
        return if source.chance(15) { "len".into() } else { accessor(source, capabilities) };
    }
    let left = expression(source, capabilities, depth - 1);
    match source.below(14) {
        0 => format!("-{left}"),
        1 => format!("({left})"),
        2 => format!("{left} << {}", small(source)),
        3 => format!("{left} >> {}", source.pick(&["1", "4", "31", "0x8"])),
        4 => format!("{left} / {}", source.pick(&["2", "3", "0x10", "255"])),
        5 => format!("{left} % {}", source.pick(&["2", "7", "010"])),
        6 => format!("({left} {} {})", operator(source), constant(source)),
        7 => format!("{left} {} {}", operator(source), expression(source, capabilities, 0)),
        8 => format!(
            "{left} {} {} {} {}",
            operator(source),
            constant(source),
            operator(source),
            constant(source)
        ),
        9 => format!("{} {} {left}", constant(source), operator(source)),
        _ => format!("{left} {} {}", operator(source), constant(source)),
    }
}

fn operator(source: &mut Source) -> &'static str {
    source.pick(&["+", "-", "*", "&", "|", "^", "&", "|"])
}

/// `protocol[offset:size]`.
fn accessor(source: &mut Source, capabilities: Capabilities) -> String {
    let protocol = protocol(source, capabilities);
    let offset = match source.below(20) {
        0 => format!("{protocol}[0] & 0xf"),
        1 => format!("{protocol}[0] + 1"),
        2 => "len - 4".into(),
        3 => "2 + 3 * 2".into(),
        4 => "-2".into(),
        _ => number(source, 24),
    };
    let size = source.pick(&["", "", ":1", ":2", ":2", ":4", " : 4"]);
    let space = if source.chance(5) { " " } else { "" };
    format!("{protocol}{space}[{offset}{size}]")
}

fn protocol(source: &mut Source, capabilities: Capabilities) -> &'static str {
    match source.below(10) {
        0..=4 if capabilities.has(V4) => source.pick(&IP_PROTOCOLS),
        5 | 6 if capabilities.has(V6) => source.pick(&["ip6", "ip6", "icmp6"]),
        7 if capabilities.has(TYPES) => source.pick(&TYPE_PROTOCOLS),
        8 if capabilities.has(RADIO) => "radio",
        _ => source.pick(&["ether", "ether", "link", "link", "fddi", "tr", "wlan", "ppp", "slip"]),
    }
}

const IP_PROTOCOLS: [&str; 14] =
    ["ip", "ip", "ip", "tcp", "tcp", "tcp", "udp", "udp", "icmp", "igmp", "sctp", "pim", "vrrp", "igrp"];
const TYPE_PROTOCOLS: [&str; 7] = ["arp", "arp", "rarp", "decnet", "lat", "moprc", "sca"];

const TCP_FLAGS: [&str; 8] =
    ["tcp-fin", "tcp-syn", "tcp-rst", "tcp-push", "tcp-ack", "tcp-urg", "tcp-ece", "tcp-cwr"];
const ICMP_TYPES: [&str; 15] = [
    "icmp-echoreply",
    "icmp-unreach",
    "icmp-sourcequench",
    "icmp-redirect",
    "icmp-echo",
    "icmp-routeradvert",
    "icmp-routersolicit",
    "icmp-timxceed",
    "icmp-paramprob",
    "icmp-tstamp",
    "icmp-tstampreply",
    "icmp-ireq",
    "icmp-ireqreply",
    "icmp-maskreq",
    "icmp-maskreply",
];
const ICMP6_TYPES: [&str; 8] = [
    "icmp6-destinationunreach",
    "icmp6-packettoobig",
    "icmp6-timeexceeded",
    "icmp6-parameterproblem",
    "icmp6-echo",
    "icmp6-echoreply",
    "icmp6-neighborsolicit",
    "icmp6-routeradvert",
];

/// A value that bytes of packets have.
fn constant(source: &mut Source) -> String {
    match source.below(12) {
        0 => "0x45".into(),
        1 => "0x0a000001".into(),
        2 => "0xffffffff".into(),
        3 => "0x1fff".into(),
        4 => source.pick(&["0x0800", "0x86dd", "2048", "04000"]).into(),
        5 => source.pick(&["80", "443", "53", "0120"]).into(),
        6 => source.pick(&["tcp-syn", "icmp-echo", "tcp-ack"]).into(),
        7 => number(source, 70_000),
        8 => "0x80000000".into(),
        _ => number(source, 256),
    }
}

fn small(source: &mut Source) -> String {
    number(source, 32)
}

/// A number below `limit`: decimal, hexadecimal or octal.
pub(super) fn number(source: &mut Source, limit: usize) -> String {
    let value = source.below(limit);
    match source.below(6) {
        0 => format!("{value:#x}"),
        1 => format!("0x{value:04X}"),
        2 => format!("0{value:o}"),
        _ => value.to_string(),
    }
}
