//! The language's corners: equal meanings, and faults at their places.

use weir_pcap_filter::{LinkType, Mode, NoNames, Options, SNAPLEN_DEFAULT, compile};

fn graph(dlt: LinkType, text: &str) -> Result<String, (usize, usize, String)> {
    let options = Options { link_type: dlt, snaplen: SNAPLEN_DEFAULT, netmask: None, mode: Mode::Compat };
    let filter = compile(text, &options, &NoNames).map_err(|faults| {
        let fault = &faults[0];
        (fault.span.start as usize, fault.span.end as usize, fault.message.clone())
    })?;
    Ok(filter.graph.to_string())
}

/// Both mean the same.
fn check_same(left: &str, right: &str) {
    assert_eq!(graph(LinkType::EN10MB, left), graph(LinkType::EN10MB, right), "`{left}` and `{right}`");
    assert!(graph(LinkType::EN10MB, left).is_ok(), "`{left}`");
}

/// It is refused at `part` with a message that has `words`.
fn check_refused(dlt: LinkType, text: &str, part: &str, words: &str) {
    let (start, end, message) = graph(dlt, text).expect_err(text);
    assert_eq!(&text[start..end], part, "`{text}`: {message}");
    assert!(message.contains(words), "`{text}`: {message}");
}

#[test]
fn and_and_or_bind_alike_from_left_to_right() {
    check_same("ip or arp and len > 5", "(ip or arp) and len > 5");
    check_same("ip && arp[0] = 1 || rarp", "(ip and arp[0] = 1) or rarp");
}

#[test]
fn not_binds_tighter() {
    check_same("not ip and arp", "(not ip) and arp");
    check_same("! ! ip", "ip");
}

#[test]
fn a_bare_address_takes_the_qualifiers_before_it() {
    check_same("tcp dst port 80 or 443", "tcp dst port 80 or tcp dst port 443");
    check_same("host 1.2.3.4 and (1.2.3.5 or 1.2.3.6)", "host 1.2.3.4 and (host 1.2.3.5 or host 1.2.3.6)");
    check_same("not port 80 and 81", "not port 80 and port 81");
    check_same("src host (1.2.3.4 or not 1.2.3.5)", "src host 1.2.3.4 or not src host 1.2.3.5");
}

#[test]
fn operators_have_libpcaps_precedence() {
    check_same("len - 1 - 2 = 3", "(len - 1) - 2 = 3");
    check_same("ip[0] & 7 ^ 1 = 2", "ip[0] & (7 ^ 1) = 2");
    check_same("len % 3 * 2 = 4", "len % (3 * 2) = 4");
    check_same("len | 1 & 2 = 3", "len | (1 & 2) = 3");
    check_same("-len % 4 = 1", "-(len % 4) = 1");
}

#[test]
fn numbers_have_three_forms_and_names() {
    check_same("len = 0x10", "len = 16");
    check_same("len = 020", "len = 16");
    check_same("tcp[tcpflags] & tcp-syn != 0", "tcp[13] & 2 != 0");
    check_same("net 10", "net 10.0.0.0/8");
    check_same("net 10.1", "net 10.1.0.0 mask 255.255.0.0");
    check_same("ether host 0102.0304.0506", "ether host 1:2:3:4:5:6");
    check_same("ether host 010203040506", "ether host 1-2-3-4-5-6");
}

#[test]
fn vlan_moves_what_stands_after_it() {
    check_same("vlan 2 or vlan 3", "vlan 2 or vlan 3");
    assert_ne!(graph(LinkType::EN10MB, "vlan and ip"), graph(LinkType::EN10MB, "ip and vlan"));
}

#[test]
fn syntax_errors_name_their_place() {
    let check = |text, part, words| check_refused(LinkType::EN10MB, text, part, words);
    check("tcp prt 80", "prt", "syntax error");
    check("ip and", "", "something is missing");
    check("10.0.0.1", "10.0.0.1", "no qualifiers");
    check("ip or foo", "foo", "no qualifiers");
    check("len = 09", "09", "octal");
    check("len = 4294967296", "4294967296", "32 bits");
    check("net 10/8", "/", "syntax error");
    check("host 1.2.3.4 and (1.2.3.5 or tcp)", "tcp", "among bare addresses");
    check("ip @ 3", "@", "begins no word");
}

#[test]
fn faults_of_meaning_name_their_place() {
    let check = |text, part, words| check_refused(LinkType::EN10MB, text, part, words);
    check("ip or net 10.1.2.3/8", "10.1.2.3/8", "not of the network");
    check("ip[0] / 0 = 1", "/", "division by zero");
    check("ip[0] << 33 = 1", "<<", "shift by more than 31");
    check("ip[0:3] = 1", "ip[0:3]", "1, 2, or 4");
    check("arp or vlan 5000", "vlan 5000", "greater than maximum 4095");
    check("port 70000", "70000", "65535");
    check("atalk host 1.2.3.4", "1.2.3.4", "modifier");
    check("ip broadcast", "ip broadcast", "netmask");
    check("host nowhere", "nowhere", "unknown host");
    check("ip and ip6", "ip and ip6", "rejects all packets");
    check_refused(LinkType::RAW, "ether host 1:2:3:4:5:6", "1:2:3:4:5:6", "only on ethernet");
    check_refused(LinkType(147), "ip", "ip", "cannot be tested");
}

#[test]
fn hostile_expressions_end_in_errors() {
    let deep = |open: &str, close: &str| format!("{}ip{}", open.repeat(100_000), close.repeat(100_000));
    for text in
        [deep("(", ")"), deep("not (", ")"), format!("len = {}1", "-".repeat(100_000)), "(".repeat(9_999)]
    {
        graph(LinkType::EN10MB, &text).expect_err("too deep, or not ended");
    }
    // Many `not` in a row are no nesting.
    graph(LinkType::EN10MB, &format!("{}ip", "not ".repeat(100_000))).expect("the contrary of the contrary");
    let long = (0..20_000).map(|at| format!("len = {at}")).collect::<Vec<_>>().join(" or ");
    graph(LinkType::EN10MB, &long).expect("a long chain");
}
