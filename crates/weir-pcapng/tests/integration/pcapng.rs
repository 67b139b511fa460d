//! pcapng: sections, interfaces, each kind of block, units and offsets of time, and faults that are let pass.

use weir_pcapng::Format;

use crate::file::{File, ORDERS, Opt, Order};
use crate::listing::listed;

/// In both byte orders: what a file is read as.
fn check(file: impl Fn(Order) -> File, lines: &[&str]) {
    for order in ORDERS {
        assert_eq!(listed(&file(order).bytes), lines, "{order:?}");
    }
}

/// The time of a packet at an interface with `options`.
fn check_time(options: impl Fn(Order) -> Vec<Opt>, ticks: u64, time: &str) {
    let file =
        |order| File::new(order).section(&[]).interface(1, 0, &options(order)).enhanced(0, ticks, &[], &[]);
    check(file, &["section", "interface 0 link 1 snaplen 0", &format!("packet 0 {time} [] of 0")]);
}

fn resolution(byte: u8) -> impl Fn(Order) -> Vec<Opt> {
    move |_| vec![(9, vec![byte])]
}

fn offset(byte: u8, s: i64) -> impl Fn(Order) -> Vec<Opt> {
    move |order| vec![(9, vec![byte]), (14, File::value(order, s as u64))]
}

#[test]
fn the_format_is_known_by_the_first_four_bytes() {
    for order in ORDERS {
        let file = File::new(order).section(&[]);
        assert_eq!(weir_pcapng::Reader::new(&file.bytes[..]).unwrap().format(), Format::Pcapng);
    }
}

#[test]
fn times_are_microseconds_where_the_interface_does_not_say() {
    check_time(|_| vec![], 1_700_000_000_123_456, "1700000000123456000");
}

#[test]
fn units_of_time_are_powers_of_ten_and_of_two() {
    check_time(resolution(9), 1_700_000_000_123_456_789, "1700000000123456789");
    check_time(resolution(6), 5, "5000");
    check_time(resolution(3), 5, "5000000");
    check_time(resolution(0), 5, "5000000000");
    check_time(resolution(12), 5_999, "5");
    check_time(resolution(0x80 | 1), 3, "1500000000");
    check_time(resolution(0x80 | 10), 1, "976562");
    check_time(resolution(0x80 | 32), u64::from(u32::MAX) + 1, "1000000000");
}

#[test]
fn the_interface_s_offset_is_added_to_times() {
    check_time(offset(9, 3), 1, "3000000001");
    check_time(offset(6, -1), 1_000_001, "1000");
    check_time(offset(0x81, 1), 1, "1500000000");
    check_time(offset(0, 1 << 30), 1, "1073741825000000000");
}

#[test]
fn a_time_before_1970_or_after_2554_is_none() {
    check_time(offset(6, -2), 1_000_000, "-");
    check_time(resolution(6), u64::MAX, "-");
    check_time(offset(9, i64::MAX), u64::MAX, "-");
    check_time(offset(9, i64::MIN), u64::MAX, "-");
}

#[test]
fn packets_are_of_the_interface_that_they_name() {
    let file = |order| {
        let file = File::new(order).section(&[]).interface(1, 0, &[]).interface(113, 96, &[(9, vec![9])]);
        let file = file.enhanced(1, 5, &[1, 2, 3, 4, 5], &[]).enhanced(0, 5, &[6], &[]);
        // Described between packets.
        file.interface(101, 7, &[(9, vec![0])]).enhanced(2, 1, &[], &[]).enhanced(1, 6, &[], &[])
    };
    let lines = [
        "section",
        "interface 0 link 1 snaplen 0",
        "interface 1 link 113 snaplen 96",
        "packet 1 5 [1, 2, 3, 4, 5] of 5",
        "packet 0 5000 [6] of 1",
        "interface 2 link 101 snaplen 7",
        "packet 2 1000000000 [] of 0",
        "packet 1 6 [] of 0",
    ];
    check(file, &lines);
}

#[test]
fn a_section_begins_with_no_interfaces_and_may_have_another_byte_order() {
    for (first, second) in [(Order::Little, Order::Big), (Order::Big, Order::Little)] {
        let one = File::with_interface(first).interface(2, 0, &[]).enhanced(1, 1, &[1], &[]);
        let two = File::new(second).section(&[]).interface(113, 0, &[(9, vec![9])]).enhanced(0, 1, &[2], &[]);
        let three = File::new(first).section(&[]).enhanced(0, 1, &[3], &[]);
        let lines = [
            "section",
            "interface 0 link 1 snaplen 0",
            "interface 1 link 2 snaplen 0",
            "packet 1 1000 [1] of 1",
            "section",
            "interface 0 link 113 snaplen 0",
            "packet 0 1 [2] of 1",
            "section",
        ];
        let error = format!("Malformed at {}", one.bytes.len() + two.bytes.len() + 28 + 8);
        let file = [one.bytes, two.bytes, three.bytes].concat();
        assert_eq!(listed(&file), [&lines[..], &[&error]].concat());
    }
}

#[test]
fn a_section_of_another_version_is_skipped() {
    let file = |order| {
        let file = File::with_interface(order).section_of(2, 0, &[]).interface(1, 0, &[]);
        let file = file.enhanced(77, 0, &[], &[]).section_of(1, 1, &[]).block(99, |body| body);
        file.section_of(1, 2, &[]).interface(3, 0, &[])
    };
    let lines = [
        "section",
        "interface 0 link 1 snaplen 0",
        "version 2.0",
        "version 1.1",
        "section",
        "interface 0 link 3 snaplen 0",
    ];
    check(file, &lines);
}

#[test]
fn a_simple_packet_is_of_the_first_interface_and_has_no_time() {
    let file = |order| {
        let file = File::new(order).section(&[]).interface(1, 3, &[]).interface(2, 0, &[]);
        file.simple(2, &[1, 2]).simple(5, &[1, 2, 3]).simple(3, &[1, 2, 3])
    };
    let lines = [
        "section",
        "interface 0 link 1 snaplen 3",
        "interface 1 link 2 snaplen 0",
        "packet 0 - [1, 2] of 2",
        "packet 0 - [1, 2, 3] of 5",
        "packet 0 - [1, 2, 3] of 3",
    ];
    check(file, &lines);
    let unlimited = |order| File::with_interface(order).simple(5, &[1, 2, 3, 4, 5]);
    check(unlimited, &["section", "interface 0 link 1 snaplen 0", "packet 0 - [1, 2, 3, 4, 5] of 5"]);
}

#[test]
fn an_obsolete_packet_has_its_losses_in_its_head() {
    let file = |order| {
        let file = File::with_interface(order).obsolete(0, 3, &[1], &[]);
        file.obsolete(0, u16::MAX, &[2], &[(3, vec![2, 9])])
    };
    let lines = [
        "section",
        "interface 0 link 1 snaplen 0",
        "packet 0 7000000000 [1] of 1 lost 3",
        "packet 0 7000000000 [2] of 1 Crc32 [9]",
    ];
    check(file, &lines);
}

#[test]
fn blocks_of_unknown_types_are_given_as_they_are() {
    let file = |order| {
        let file = File::with_interface(order).block(0x7fff_ffff, |body| body.raw(&[1, 2, 3, 4]));
        file.block(99, |body| body)
            .block(0xbad, |body| body.u32(5).raw(&[1, 2, 3, 4]))
            .block(0x4000_0bad, |body| body.u32(6))
            .enhanced(0, 0, &[], &[])
    };
    let lines = [
        "section",
        "interface 0 link 1 snaplen 0",
        "other 0x7fffffff [1, 2, 3, 4]",
        "other 0x63 []",
        "custom 5 true [1, 2, 3, 4]",
        "custom 6 false []",
        "packet 0 0 [] of 0",
    ];
    check(file, &lines);
}

#[test]
fn secrets_have_a_kind_and_a_length() {
    let file = |order| {
        File::new(order).section(&[]).block(10, |body| {
            body.u32(0x544c_534b).u32(3).padded(&[1, 2, 3]).options(&[(1, b"note".to_vec())])
        })
    };
    check(file, &["section", "secrets 0x544c534b [1, 2, 3]"]);
    assert_eq!(weir_pcapng::secrets::TLS, 0x544c_534b);
}

#[test]
fn names_are_of_addresses_of_four_kinds() {
    let file = |order| {
        File::new(order).section(&[]).block(4, |body| {
            let record =
                |body: File, kind, value: &[u8]| body.u16(kind).u16(value.len() as u16).padded(value);
            let body = record(body, 1, b"\x7f\0\0\x01localhost\0lo\0");
            let body = record(body, 2, &[&[0; 15][..], &[1], b"six\0"].concat());
            let body = record(body, 3, b"\x01\x02\x03\x04\x05\x06m\0");
            let body = record(body, 99, b"skipped");
            let body = record(body, 4, b"\x01\x02\x03\x04\x05\x06\x07\x08e\0");
            let server = [(2, b"dns".to_vec()), (3, vec![9, 9, 9, 9]), (4, vec![0; 16]), (1, b"c".to_vec())];
            body.u32(0).options(&server)
        })
    };
    let line = "names Ipv4(127.0.0.1)[\"localhost\", \"lo\"] Ipv6(::1)[\"six\"] Eui48([1, 2, 3, 4, 5, 6])[\"m\"] \
        Eui64([1, 2, 3, 4, 5, 6, 7, 8])[\"e\"] by dns by 9.9.9.9 by :: \"c\"";
    check(file, &["section", line]);
    check(|order| File::new(order).section(&[]).block(4, |body| body.u32(0)), &["section", "names"]);
}

#[test]
fn what_readers_are_to_let_pass_says_nothing() {
    let file = |order| {
        // A section's length that is wrong, reserved bits, and paddings that are not 0.
        let file = File::new(order)
            .block(0x0a0d_0d0a, |body| body.u32(0x1a2b_3c4d).u16(1).u16(0).u64(4_000))
            .block(1, |body| body.u16(1).u16(0xffff).u32(0));
        let file = file.block(6, |body| body.u32(0).ticks(0).u32(1).u32(1).raw(&[1, 0xff, 0xff, 0xff]));
        // No end of options; and bytes after the end.
        let comment = |body: File| body.u32(0).ticks(0).u32(0).u32(0).u16(1).u16(1).raw(b"a\xff\xff\xff");
        file.block(6, comment).block(6, |body| comment(body).u16(0).u16(0).raw(&[0xff; 4]))
    };
    let lines = [
        "section",
        "interface 0 link 1 snaplen 0",
        "packet 0 0 [1] of 1",
        "packet 0 0 [] of 0 \"a\"",
        "packet 0 0 [] of 0 \"a\"",
    ];
    check(file, &lines);
}
