//! Expressions of pcap-filter(7): a random one for a link type, and a list of some hundreds.
//!
//! [`expression`] is made from the grammar of the manual page: each qualifier, primitive, named constant, accessor,
//! operator and form of a number, joined with and without parentheses, with qualifiers that are inherited. It knows what a
//! link type offers ([`capabilities`]), so that libpcap accepts most of what comes out; some is refused, for a
//! compiler must refuse the same. Values are of [`pools`](crate::packets::pools). No name is asked of DNS:
//! names are of `/etc/services`, `/etc/protocols`, and `localhost`.

mod arithmetic;
mod list;
mod primitives;

use crate::random::Source;

pub use crate::expressions::list::{ACCEPTED, EXPRESSIONS, REFUSED};

/// What filters a link type has, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Capabilities(u32);

const V4: u32 = 1 << 0;
const V6: u32 = 1 << 1;
/// EtherTypes beside IP's: ARP, DECnet and so on.
const TYPES: u32 = 1 << 2;
const MAC: u32 = 1 << 3;
const BROADCAST: u32 = 1 << 4;
const VLAN: u32 = 1 << 5;
const ISO: u32 = 1 << 6;
const MPLS: u32 = 1 << 7;
const PPPOE: u32 = 1 << 8;
const LLC: u32 = 1 << 9;
/// `protochain`: only where headers have one length.
const CHAIN: u32 = 1 << 10;
const GENEVE: u32 = 1 << 11;
const WLAN: u32 = 1 << 12;
const RADIO: u32 = 1 << 13;
const ATM: u32 = 1 << 14;
const SS7: u32 = 1 << 15;
const PFLOG: u32 = 1 << 16;
/// Types and subtypes of 802.11 frames.
const FRAMES: u32 = 1 << 18;
/// Addresses of one byte.
const ARCNET: u32 = 1 << 17;

impl Capabilities {
    fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }

    fn has_ip(self) -> bool {
        self.0 & (V4 | V6) != 0
    }

    fn with(self, bits: u32) -> Capabilities {
        Capabilities(self.0 | bits)
    }

    fn without(self, bits: u32) -> Capabilities {
        Capabilities(self.0 & !bits)
    }
}

const IP: u32 = V4 | V6 | GENEVE;
const LAN: u32 = IP | TYPES | MAC | BROADCAST | ISO | PPPOE | LLC;
const WIRELESS: u32 = LAN | VLAN | WLAN;
const COOKED: u32 = IP | TYPES | ISO | PPPOE | CHAIN;
const JUNIPER: u32 = COOKED;

/// What libpcap 1.10.3 has for each link type, by groups: found by asking it.
const CAPABILITIES: &[(u32, &[i32])] = &[
    (LAN | VLAN | MPLS | CHAIN, &[1, 240, 241]),
    (LAN | CHAIN, &[6, 10, 122]),
    (IP | TYPES | BROADCAST | ARCNET | CHAIN, &[7, 129]),
    (COOKED | MPLS, &[9, 104, 112]),
    (COOKED | LLC, &[11]),
    (COOKED, &[16, 19, 50, 51, 99, 113, 138, 165, 166, 276]),
    (
        JUNIPER,
        &[
            130, 131, 132, 133, 134, 135, 136, 137, 164, 167, 168, 178, 179, 180, 181, 183, 194, 200, 232,
            233, 234, 238,
        ],
    ),
    (WIRELESS | FRAMES, &[105]),
    (LAN | WLAN, &[192]),
    (WIRELESS | FRAMES | RADIO, &[119, 127, 163]),
    (COOKED | LLC | ATM, &[123]),
    (IP | ISO | CHAIN, &[107]),
    (IP | PFLOG, &[117]),
    (IP | CHAIN, &[0, 8, 12, 15, 108, 109, 226]),
    (V4 | CHAIN, &[228]),
    (V6 | CHAIN, &[229]),
    (SS7, &[139, 140, 197]),
];

fn capabilities(dlt: i32) -> Capabilities {
    let group = CAPABILITIES.iter().find(|(_, dlts)| dlts.contains(&dlt));
    Capabilities(group.map_or(0, |(bits, _)| *bits))
}

/// A random expression for packets of the link type `dlt`.
pub fn expression(source: &mut Source, dlt: i32) -> String {
    let capabilities = capabilities(dlt);
    let depth = source.pick(&[0, 0, 0, 1, 1, 1, 1, 2, 2, 3]);
    if source.chance(3) {
        return primitives::refused(source);
    }
    if source.chance(15)
        && let Some(text) = encapsulated(source, capabilities, depth)
    {
        return text;
    }
    compound(source, capabilities, depth)
}

/// What changes the offsets of all that is after it, and an expression at these.
fn encapsulated(source: &mut Source, outer: Capabilities, depth: usize) -> Option<String> {
    let (head, inner) = primitives::encapsulation(source, outer)?;
    // Twice: a tag in a tag, a label under a label.
    let (head, inner) = match primitives::encapsulation(source, inner) {
        Some((second, innermost)) if source.chance(25) => (format!("{head} and {second}"), innermost),
        _ => (head, inner),
    };
    let before = if source.chance(15) {
        format!("{} {} ", compound(source, outer, 0), either(source))
    } else {
        String::new()
    };
    let (and, behind) = match source.below(10) {
        0 => return Some(format!("{before}{head}")),
        1 => ("or", compound(source, inner, depth)),
        2 => ("&&", format!("not {}", primitives::primitive(source, inner))),
        3 => ("and", format!("({})", compound(source, inner, depth))),
        _ => ("and", compound(source, inner, 0)),
    };
    Some(format!("{before}{head} {and} {behind}"))
}

/// Primitives joined `depth` deep.
fn compound(source: &mut Source, capabilities: Capabilities, depth: usize) -> String {
    if depth == 0 {
        let primitive = primitives::primitive(source, capabilities);
        return match source.below(20) {
            0 => format!("not {primitive}"),
            1 => format!("! {primitive}"),
            2 => format!("!({primitive})"),
            3 => format!("({primitive})"),
            4 => format!("not not {primitive}"),
            _ => primitive,
        };
    }
    let left = compound(source, capabilities, depth - 1);
    let shallow = source.below(depth);
    let right = compound(source, capabilities, shallow);
    let right = if source.chance(15) { format!("not ({right})") } else { right };
    if source.chance(65) {
        let or = source.pick(&["or", "or", "||"]);
        return group(source, &left, or, &right);
    }
    let and = source.pick(&["and", "and", "&&"]);
    // Two that exclude each other are refused, as accepting nothing; what is negated seldom is.
    let right = match source.below(4) {
        0 => primitives::mild(source, capabilities),
        1 => right,
        _ => format!("not {}", primitives::mild(source, capabilities)),
    };
    group(source, &left, and, &right)
}

/// Both sides with parentheses or without: `and` and `or` bind alike, from the left.
fn group(source: &mut Source, left: &str, word: &str, right: &str) -> String {
    match source.below(5) {
        0 => format!("({left}) {word} ({right})"),
        1 => format!("{left} {word} ({right})"),
        2 => format!("({left} {word} {right})"),
        _ => format!("{left} {word} {right}"),
    }
}

/// An expression for Ethernet with a long list of addresses or ports in it, alone or with terms around it.
pub fn listing(source: &mut Source, members: usize) -> String {
    let capabilities = capabilities(1);
    let list = primitives::list(source, members);
    let around = |source: &mut Source| match source.below(4) {
        0 => primitives::list(source, members),
        1 => compound(source, capabilities, 1),
        2 => source
            .pick(&["tcp", "ip", "udp", "not arp", "ip6 or arp", "vlan", "greater 60", "icmp"])
            .to_owned(),
        _ => primitives::primitive(source, capabilities),
    };
    match source.below(10) {
        0 | 1 => list,
        2 => format!("not ({list})"),
        3 => format!("{} and ({list})", around(source)),
        4 => format!("{} or {list}", around(source)),
        5 => format!("({list}) and {}", around(source)),
        6 => format!("{list} or {}", around(source)),
        7 => format!("{} and not ({list})", around(source)),
        8 => format!("({list}) and not ({})", around(source)),
        _ => format!("{} and ({list}) or {}", around(source), around(source)),
    }
}

fn either(source: &mut Source) -> &'static str {
    source.pick(&["and", "or", "&&", "||"])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::libpcap::{Libpcap, NETMASK_UNKNOWN};
    use crate::packets::LINKS;
    use crate::skip::skip;

    const EN10MB: i32 = 1;

    /// How many of `count` random expressions compile, of 100; and those that do not, with the reasons.
    fn compiled(pcap: &Libpcap, dlt: i32, count: usize) -> (usize, Vec<String>) {
        let source = &mut Source::new(11);
        let mut refused = Vec::new();
        for _ in 0..count {
            let text = expression(source, dlt);
            if let Err(e) = pcap.compile(dlt, 65535, &text, true, NETMASK_UNKNOWN) {
                refused.push(format!("{text}: {e}"));
            }
        }
        ((count - refused.len()) * 100 / count, refused)
    }

    #[test]
    fn most_random_expressions_compile() {
        let Some(pcap) = Libpcap::load() else {
            return skip("testkit::expressions", "libpcap.so.0.8 is not installed");
        };
        let (percent, refused) = compiled(pcap, EN10MB, 2000);
        println!("EN10MB: {percent} %");
        assert!((85..100).contains(&percent), "{percent} %, {refused:#?}");
        for dlt in LINKS.iter().map(|link| link.dlt).chain([169, 195, 249]) {
            let (percent, refused) = compiled(pcap, dlt, 100);
            println!("DLT {dlt}: {percent} %");
            assert!(percent >= 60, "DLT {dlt}: {percent} %, {refused:#?}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_expressions_and_few_of_them_twice() {
        let drawn = || {
            let source = &mut Source::new(5);
            (0..1000).map(|_| expression(source, EN10MB)).collect::<Vec<String>>()
        };
        assert_eq!(drawn(), drawn());
        assert!(drawn().iter().collect::<BTreeSet<&String>>().len() > 900);
    }

    #[test]
    fn the_list_is_long_and_says_what_is_refused() {
        let Some(pcap) = Libpcap::load() else {
            return skip("testkit::expressions", "libpcap.so.0.8 is not installed");
        };
        let different: BTreeSet<&&str> = EXPRESSIONS.iter().collect();
        assert_eq!(different.len(), EXPRESSIONS.len(), "each expression once");
        assert!(EXPRESSIONS.len() >= 550 && REFUSED.len() >= 80, "{} {}", EXPRESSIONS.len(), REFUSED.len());
        let accepts = |text: &str, dlt: i32| pcap.compile(dlt, 65535, text, false, NETMASK_UNKNOWN).is_ok();
        // Ethernet, radiotap, PF's log, SunATM, MTP2, ARCNET, HDLC.
        let by_any = |text: &str| [1, 127, 117, 123, 140, 7, 104].iter().any(|dlt| accepts(text, *dlt));
        let wrongly: Vec<&&str> = ACCEPTED.iter().filter(|text| !by_any(text)).collect();
        assert!(wrongly.is_empty(), "refused: {wrongly:#?}");
        let wrongly: Vec<&&str> = REFUSED.iter().filter(|text| by_any(text)).collect();
        assert!(wrongly.is_empty(), "accepted: {wrongly:#?}");
    }
}
