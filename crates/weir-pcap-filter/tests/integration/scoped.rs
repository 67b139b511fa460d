//! Scoped filters: logic of `and`, `or` and `not`, layers, extension headers, and the same answer of every machine.

use testkit::expressions::{self, EXPRESSIONS, expression};
use testkit::packets::{self, LINKS};
use testkit::random::Source;
use weir_cbpf::Machine;
use weir_pcap_filter::{Facts, Filter, Mode, NoNames, compile, parse};
use weir_pcap_names::SystemNames;

use crate::engines::Ready;
use crate::machines::{compare, options};
use crate::oracle::{self, Unknown};

fn scoped(dlt: i32, text: &str) -> Option<Filter> {
    compile(text, &options(dlt, Mode::Scoped), &SystemNames::default()).ok()
}

/// How many packets were compared.
fn check(dlt: i32, expression: &str, packets_each: usize, random: &mut Source) -> usize {
    compare(dlt, expression, Mode::Scoped, packets_each, random)
}

/// An expression with what scoped expressions have more.
fn more(random: &mut Source, dlt: i32) -> String {
    let one = expression(random, dlt);
    let other = expression(random, dlt);
    let members = 6 + random.below(20);
    match random.below(9) {
        8 if dlt == 1 => expressions::listing(random, members),
        0 => format!("({one}) or ({other})"),
        1 => format!("not ({one})"),
        2 => format!("vxlan {} and ({one})", random.pick(&["", "11"])),
        3 => format!("geneve and ({one}) or ({other})"),
        4 => format!("(vlan or ({one})) and ({other})"),
        5 => format!("not ({one}) and not ({other})"),
        6 => format!("(mpls or pppoes or ip6) and not ({one})"),
        _ => one,
    }
}

#[test]
fn every_machine_says_the_same() {
    let mut random = Source::new(41);
    let mut compared = 0;
    for (index, text) in EXPRESSIONS.iter().enumerate() {
        for (at, link) in LINKS.iter().enumerate() {
            if (index + at).is_multiple_of(90) || link.dlt == 1 && index.is_multiple_of(4) {
                compared += check(link.dlt, text, 3, &mut random);
            }
        }
    }
    for link in LINKS {
        for _ in 0..4 * crate::libpcap::scale().1 {
            let text = more(&mut random, link.dlt);
            compared += check(link.dlt, &text, 3, &mut random);
        }
    }
    for _ in 0..40 * crate::libpcap::scale().1 {
        let text = more(&mut random, 1);
        compared += check(1, &text, 3, &mut random);
    }
    assert!(compared > 10_000, "{compared}");
}

/// Expressions for packets of Ethernet.
fn of_ethernet(random: &mut Source, count: usize) -> Vec<String> {
    let mut texts: Vec<String> = EXPRESSIONS.iter().map(|text| (*text).to_owned()).collect();
    texts.extend((0..count).map(|_| more(random, 1)));
    texts
}

#[test]
fn expressions_mean_what_their_trees_say() {
    let mut random = Source::new(42);
    let link = packets::link(1);
    let (mut expressions, mut kept, mut compared) = (0, 0, 0);
    for text in of_ethernet(&mut random, 1_500 * crate::libpcap::scale().1) {
        let Some(filter) = scoped(1, &text) else { continue };
        let Ok(Some(tree)) = parse(&text, Mode::Scoped) else { continue };
        let mut same = |bytes: &[u8], wire_len: u32| {
            let Ok(holds) = (oracle::Packet { bytes, wire_len }).holds(&tree) else { return Err(Unknown) };
            let found = filter.evaluate(bytes, wire_len) > 0;
            assert_eq!(found, holds, "`{text}` on {bytes:02x?} ({wire_len})\n{}", filter.graph);
            kept += usize::from(holds);
            compared += 1;
            Ok(())
        };
        for round in 0..6 {
            let packet = link.packet(&mut random);
            if same(&packet.bytes, packet.wire_len).is_err() {
                break;
            }
            if round == 0 {
                expressions += 1;
                for cut in packets::cut(&packet) {
                    _ = same(&cut.bytes, cut.wire_len);
                }
            }
        }
    }
    println!("counts: expressions={expressions} packets={compared} kept={kept}");
    assert!(expressions > 400 && compared > 20_000, "{expressions} {compared}");
    assert!(kept * 20 > compared && kept < compared, "{kept} of {compared}");
}

/// Long lists become sets; with a part between them that changes nothing they do not.
#[test]
fn lists_mean_what_their_members_mean() {
    let mut random = Source::new(46);
    let addresses = testkit::packets::pools::IPV4.iter().map(|[a, b, c, d]| format!("{a}.{b}.{c}.{d}"));
    let addresses: Vec<String> = addresses.chain((1..9).map(|at| format!("192.0.2.{at}"))).collect();
    let ports: Vec<String> = ["80", "443", "22"]
        .map(str::to_owned)
        .into_iter()
        .chain((1_000..1_008).map(|at| format!("{at}")))
        .collect();
    let mut kept = 0;
    for (of, members) in
        [("host", &addresses), ("ip src", &addresses), ("port", &ports), ("tcp dst port", &ports)]
    {
        for (before, joint, idle) in [("", "or", "1 = 2"), ("not ", "and", "1 = 1")] {
            for around in ["", "vlan and ", "(vlan or ip or ip6) and ", "geneve and ", "not vlan and "] {
                let each: Vec<String> =
                    members.iter().map(|member| format!("{before}{of} {member}")).collect();
                let list = format!("{around}({})", each.join(&format!(" {joint} ")));
                let apart = format!("{around}({})", each.join(&format!(" {joint} {idle} {joint} ")));
                let [list, apart] = [&list, &apart].map(|text| scoped(1, text).expect(text));
                for _ in 0..40 {
                    let packet = packets::link(1).packet(&mut random);
                    for packet in packets::cut(&packet).step_by(9).chain([packet.clone()]) {
                        let [one, other] =
                            [&list, &apart].map(|filter| filter.evaluate(&packet.bytes, packet.wire_len));
                        assert_eq!(one, other, "{around}{before}{of} on {:02x?}", packet.bytes);
                        kept += usize::from(one > 0);
                    }
                }
                assert!(list.graph.to_string().contains("any of"), "{}", list.graph);
            }
        }
    }
    assert!(kept > 500, "{kept}");
    for text in [
        addresses.iter().map(|address| format!("not host {address}")).collect::<Vec<_>>().join(" and "),
        format!("vlan and (port {})", ports.join(" or ")),
    ] {
        assert!(check(1, &text, 20, &mut random) > 20, "{text}");
    }
}

/// An Ethernet frame with IPv6, extension headers of these kinds, and TCP to port 80 with SYN. A fragment header says `fragment`.
fn with_extensions(kinds: &[u8], fragment: u16) -> Vec<u8> {
    let next = |at: usize| kinds.get(at).copied().unwrap_or(6);
    let mut frame = [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, next(0), 64], &[1; 32]].concat();
    for (at, kind) in kinds.iter().enumerate() {
        let more = if *kind == 44 { 0 } else { at as u8 % 3 };
        let bytes = if *kind == 51 { 4 * (usize::from(more) + 2) } else { 8 * (usize::from(more) + 1) };
        let start = frame.len();
        frame.extend([next(at + 1), more]);
        frame.resize(start + bytes, 0);
        if *kind == 44 {
            frame[start + 2..start + 4].copy_from_slice(&fragment.to_be_bytes());
        }
    }
    frame.extend([0x12, 0x34, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
    frame
}

#[test]
fn extension_headers_are_seen_through() {
    const KINDS: [u8; 5] = [0, 43, 44, 51, 60];
    let machines = |text: &str| {
        let filter = scoped(1, text).expect(text);
        let ready = Ready::of(&filter.program("filter").expect("fits")).expect("verified");
        let classic =
            weir_cbpf::check(&filter.classic().expect("fits"), Machine::Userland).expect("a program");
        (text.to_owned(), filter, ready, classic)
    };
    let filters =
        ["tcp", "tcp port 80", "tcp[13] & 2 != 0", "ip6 proto 60", "udp or src port 80", "ip6 protochain 6"];
    let filters = filters.map(machines);
    let check = |kinds: &[u8], fragment: u16, expected: [bool; 6]| {
        let frame = with_extensions(kinds, fragment);
        for ((text, filter, ready, classic), expected) in filters.iter().zip(expected) {
            let length = frame.len() as u32;
            let kept = filter.evaluate(&frame, length);
            assert_eq!(kept > 0, expected, "{text} {kinds:?} {fragment:#x}");
            for length in 0..=length {
                let cut = &frame[..length as usize];
                let kept = filter.evaluate(cut, length);
                assert_eq!(ready.native(cut, length), kept, "{text} {kinds:?} of {length}");
                let returned = weir_cbpf::run(classic, cut, length, None).unwrap_or(0);
                assert_eq!(returned, kept, "classic: {text} {kinds:?} of {length}");
            }
        }
    };
    check(&[], 0, [true, true, true, false, false, true]);
    for one in KINDS {
        for other in KINDS {
            let has_60 = one == 60 || other == 60;
            check(&[one, other], 0x0001, [true, true, true, has_60, false, true]);
        }
        // What is after the header of a later fragment is no header.
        check(&[one, 44], 0x0008, [one != 44, false, false, one == 60, false, one != 44]);
        check(&[one, 43, 44], 0xfff8, [one != 44, false, false, one == 60, false, one != 44]);
    }
    check(&[0, 43, 60, 51, 44, 0, 43, 60], 0, [true, true, true, true, false, true]);
    // One more than are followed.
    check(&[0, 43, 0, 51, 44, 0, 43, 0, 60], 0, [false, false, false, false, false, false]);
}

/// What moves to other headers.
fn moves(text: &str) -> bool {
    ["vlan", "mpls", "pppoes", "geneve", "vxlan", "lane"].iter().any(|word| text.contains(word))
}

#[test]
fn and_or_and_not_behave_as_in_logic() {
    let mut random = Source::new(43);
    let mut laws = 0;
    for link in LINKS {
        for _ in 0..5 {
            let [a, b, c]: [String; 3] = std::array::from_fn(|_| expression(&mut random, link.dlt));
            let mut pairs = vec![
                (format!("({a}) or ({b})"), format!("({b}) or ({a})")),
                (format!("not (not ({a}))"), format!("({a})")),
                (format!("not (({a}) or ({b}))"), format!("not ({a}) and not ({b})")),
                (format!("(({a}) or ({b})) and ({c})"), format!("(({a}) and ({c})) or (({b}) and ({c}))")),
                (format!("({a}) and (({b}) or ({c}))"), format!("(({a}) and ({b})) or (({a}) and ({c}))")),
                (format!("({a}) and (({b}) and ({c}))"), format!("(({a}) and ({b})) and ({c})")),
                (format!("({a}) or not ({a})"), "greater 0".to_owned()),
            ];
            // What stands after these is about other headers.
            if !moves(&a) && !moves(&b) {
                pairs.push((format!("({a}) and ({b})"), format!("({b}) and ({a})")));
                pairs.push((format!("not (({a}) and ({b}))"), format!("not ({a}) or not ({b})")));
            }
            for (left, right) in pairs {
                let (Some(one), Some(other)) = (scoped(link.dlt, &left), scoped(link.dlt, &right)) else {
                    continue;
                };
                laws += 1;
                let packet = link.packet(&mut random);
                let same = |packet: &testkit::pcap_file::Packet| {
                    let [one, other] =
                        [&one, &other].map(|filter| filter.evaluate(&packet.bytes, packet.wire_len));
                    assert_eq!(one, other, "{} `{left}` and `{right}` on {:02x?}", link.dlt, packet.bytes);
                };
                same(&packet);
                packets::cut(&packet).step_by(7).for_each(|cut| same(&cut));
            }
        }
    }
    assert!(laws > 1_000, "{laws}");
}

/// Where no byte is missing and nothing moves, packets without IPv6 are those that libpcap keeps.
#[test]
fn whole_packets_of_plain_expressions_are_kept_as_in_compatible_mode() {
    let mut random = Source::new(44);
    let mut compared = 0;
    for link in LINKS {
        let is_ipv6 = compile("ip6", &options(link.dlt, Mode::Compat), &SystemNames::default()).ok();
        for _ in 0..30 {
            let text = expression(&mut random, link.dlt);
            // Bytes may be out of any packet, and numbers are read otherwise.
            let differs = moves(&text) || text.contains(['[', '%', '^', '$']);
            if differs || text.contains("protochain") || text.contains("!=") {
                continue;
            }
            let compat = compile(&text, &options(link.dlt, Mode::Compat), &SystemNames::default());
            let (Ok(compat), Some(scoped)) = (compat, scoped(link.dlt, &text)) else { continue };
            // libpcap's machine rejects where the kernel alone has the answer.
            if scoped.asks_context() {
                continue;
            }
            for _ in 0..4 {
                let mut packet = link.packet(&mut random);
                packet.bytes.resize(packet.bytes.len() + 2_000, 0);
                let evaluate = |filter: &Filter| filter.evaluate(&packet.bytes, packet.wire_len);
                if is_ipv6.as_ref().is_some_and(|is_ipv6| evaluate(is_ipv6) > 0) {
                    continue;
                }
                assert_eq!(
                    evaluate(&scoped),
                    evaluate(&compat),
                    "{} `{text}` on {:02x?}",
                    link.dlt,
                    packet.bytes
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 2_000, "{compared}");
}

fn graph(dlt: i32, text: &str) -> Result<String, (usize, usize, String)> {
    let filter = compile(text, &options(dlt, Mode::Scoped), &NoNames).map_err(|faults| {
        let fault = &faults[0];
        (fault.span.start as usize, fault.span.end as usize, fault.message.clone())
    })?;
    Ok(filter.graph.to_string())
}

/// Both keep the same packets.
#[track_caller]
fn check_same(left: &str, right: &str) {
    let [one, other] =
        [left, right].map(|text| scoped(1, text).unwrap_or_else(|| panic!("`{text}` is refused")));
    let (mut random, mut kept) = (Source::new(45), 0);
    for _ in 0..2_000 {
        let packet = packets::link(1).packet(&mut random);
        let [one, other] = [&one, &other].map(|filter| filter.evaluate(&packet.bytes, packet.wire_len));
        assert_eq!(one, other, "`{left}` and `{right}` on {:02x?}", packet.bytes);
        kept += usize::from(one > 0);
    }
    assert!(kept > 0 && kept < 2_000, "`{left}` keeps {kept}");
}

#[track_caller]
fn check_refused(dlt: i32, text: &str, part: &str, words: &str) {
    let (start, end, message) = graph(dlt, text).expect_err(text);
    assert_eq!(&text[start..end], part, "`{text}`: {message}");
    assert!(message.contains(words), "`{text}`: {message}");
}

#[test]
fn what_moves_binds_what_it_is_joined_with() {
    check_same("vlan 100 or vlan 200", "vlan 200 or vlan 100");
    check_same("(vlan 100 or vlan 200) and ip", "(vlan 100 and ip) or (vlan 200 and ip)");
    check_same("vlan and vlan", "vlan and (vlan)");
    check_same("(vlan or mpls) and tcp", "(vlan and tcp) or (mpls and tcp)");
    check_same("(vlan and ip) or arp", "arp or (vlan and ip)");
    check_same("not (vlan 100) and ip", "ip and not vlan 100");
    check_same("not not vlan and ip", "vlan and ip");
}

#[test]
fn operators_have_the_precedence_of_their_kind() {
    check_same("ip[0] & 7 ^ 1 = 4", "(ip[0] & 7) ^ 1 = 4");
    check_same("len % 3 * 2 = 4", "(len % 3) * 2 = 4");
    check_same("-len % 4 = 1", "(-len) % 4 = 1");
    check_same("ip or arp and len > 5", "(ip or arp) and len > 5");
    check_same("tcp dst port 80 or 443", "tcp dst port 80 or tcp dst port 443");
}

#[test]
fn what_no_packet_matches_is_refused_at_its_place() {
    check_refused(12, "arp", "arp", "no packet of link type RAW");
    check_refused(12, "len > 5 and arp", "arp", "no packet");
    check_refused(1, "mpls and arp", "arp", "no packet");
    check_refused(1, "1 = 2", "1 = 2", "no packet");
    check_refused(1, "mpls and vlan", "vlan", "no VLAN match after MPLS");
    check_refused(1, "vxlan 16777216", "vxlan 16777216", "greater than maximum");
    check_refused(1, "ifname nowhere", "ifname nowhere", "unknown interface");
    check_refused(1, "len / (2 - 2) = 1", "/", "division by zero");
    // The parts of these may hold.
    assert!(graph(12, "arp or ip").is_ok());
    assert!(graph(12, "not arp").is_ok());
    assert!(graph(1, "ip and ip6").is_ok_and(|graph| graph == "reject\n"));
}

#[test]
fn words_of_scoped_expressions_are_names_in_compatible_ones() {
    for text in ["queue 3", "hash & 7 = 1", "ifname eth0"] {
        assert!(compile(text, &options(1, Mode::Compat), &NoNames).is_err(), "{text}");
    }
    assert_eq!(graph(1, "queue 3"), graph(1, "queue = 3"));
}

#[test]
fn a_packets_context_is_asked() {
    let facts = Facts { packet_type: 4, ifindex: 7, queue_mapping: 4, hash: 0x8000_0001 };
    let received = Facts { packet_type: 1, ..facts };
    let unknown = Facts { packet_type: 255, queue_mapping: 0, ..facts };
    let check = |text: &str, expected: [bool; 3]| {
        let filter = compile(text, &options(1, Mode::Scoped), &NoNames).expect(text);
        let ready = Ready::of(&filter.program("filter").expect("fits")).expect("verified");
        for (facts, expected) in [facts, received, unknown].iter().zip(expected) {
            assert_eq!(filter.evaluate_with(&[0; 60], 60, facts) > 0, expected, "{text} {facts:?}");
            assert_eq!(ready.knowing(&[0; 60], 60, facts) > 0, expected, "{text} {facts:?}");
        }
    };
    check("outbound", [true, false, false]);
    check("inbound", [false, true, false]);
    check("ifindex 7", [true, true, true]);
    check("queue 3", [true, true, false]);
    check("queue < 3", [false, false, false]);
    check("hash & 3 = 1 and hash > 5", [true, true, true]);
    check("not (queue 3 or inbound)", [false, false, true]);
}

#[test]
fn long_expressions_are_compiled_in_time_that_grows_with_their_length() {
    let texts = [
        (0..20_000).map(|at| format!("tcp[0:4] = {at}")).collect::<Vec<_>>().join(" or "),
        (0..20_000).map(|at| format!("len != {at}")).collect::<Vec<_>>().join(" and "),
        (0..1_000).map(|at| format!("port {at}")).collect::<Vec<_>>().join(" or "),
    ];
    for text in &texts {
        assert!(graph(1, text).is_ok());
    }
    let many = vec!["(vlan or ip or geneve)"; 100].join(" and ");
    let (_, _, message) = graph(1, &many).expect_err("too many places");
    assert!(message.contains("too many combinations"), "{message}");
}
