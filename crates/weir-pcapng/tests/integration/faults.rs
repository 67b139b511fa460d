//! What is against the format or more than a limit: the error's kind, its place and its words.

use weir_pcapng::{ErrorKind, Limits};

use crate::file::{File, ORDERS};
use crate::listing::{error_of, listed, listed_of};

/// In both byte orders: a file of one section and one interface with `more` after them. The place is counted from there.
fn check(more: impl Fn(File) -> File, kind: ErrorKind, at: u64, reason: &str) {
    check_limits(Limits::default(), more, kind, at, reason);
}

fn check_limits(limits: Limits, more: impl Fn(File) -> File, kind: ErrorKind, at: u64, reason: &str) {
    for order in ORDERS {
        let before = File::with_interface(order);
        let from = before.bytes.len() as u64;
        let error = error_of(&more(before).bytes, limits).unwrap_or_else(|| panic!("no error: {reason}"));
        assert_eq!((error.kind(), error.offset() - from), (kind, at), "{order:?} {error}");
        assert!(error.reason().contains(reason), "{error}");
        assert_eq!(error.to_string(), format!("byte {}: {}", error.offset(), error.reason()));
    }
}

use ErrorKind::{Limit, Malformed, Truncated, Unsupported};

#[test]
fn lengths_of_blocks_are_held_against_each_other_and_the_format() {
    check(|file| file.u32(9).u32(0).u32(0), Malformed, 4, "has 0 bytes, less than its type and lengths");
    check(|file| file.u32(9).u32(8).u32(8), Malformed, 4, "has 8 bytes, less than its type and lengths");
    check(|file| file.u32(9).u32(13).raw(&[0; 8]), Malformed, 4, "has 13 bytes, which is no multiple of 4");
    check(|file| file.u32(9).u32(u32::MAX).u32(0), Malformed, 4, "no multiple of 4");
    check(|file| file.u32(9).u32(12).u32(16), Malformed, 8, "12 bytes by its head and 16 by its end");
    check(|file| file.u32(9).u32(16).u32(0), Truncated, 0, "ends after 12 of the 16 bytes of a block");
    check(|file| file.u32(9), Truncated, 0, "ends after 4 of the 12 bytes of a block");
}

#[test]
fn blocks_have_at_least_what_their_type_needs() {
    let cases =
        [(0xa0d_0d0a, 28), (1, 20), (2, 32), (3, 16), (4, 16), (5, 24), (6, 32), (10, 20), (0xbad, 16)];
    for (kind, least) in cases {
        let reason = format!("has {} bytes; it has at least {least}", least - 4);
        let short = |file: File| {
            // What a section has after its length is looked at first.
            let body = File::new(file.order).u32(0x1a2b_3c4d).raw(&vec![0; least as usize]).bytes;
            file.block(kind, |block| block.raw(&body[..least as usize - 16]))
        };
        check(short, Malformed, 4, &reason);
    }
}

#[test]
fn packets_lie_in_their_block() {
    let enhanced = |captured: u32| {
        move |file: File| file.block(6, |body| body.u32(0).ticks(0).u32(captured).u32(60).raw(&[0; 8]))
    };
    check(enhanced(9), Malformed, 20, "claims 9 bytes of data, but has room for 8");
    check(enhanced(u32::MAX), Malformed, 20, "claims 4294967295 bytes of data, but has room for 8");
    check(|file| file.simple(9, &[0; 8]), Malformed, 8, "claims 9 bytes of data, but has room for 8");
    let secrets = |file: File| file.block(10, |body| body.u32(0).u32(1));
    check(secrets, Malformed, 12, "claims 1 bytes of data, but has room for 0");
}

#[test]
fn packets_are_of_an_interface_that_was_described_before() {
    check(
        |file| file.enhanced(1, 0, &[], &[]),
        Malformed,
        8,
        "of interface 1, but its section has described 1 before",
    );
    check(|file| file.obsolete(u16::MAX, 0, &[], &[]), Malformed, 8, "of interface 65535");
    check(|file| file.statistics(u32::MAX, 0, &[]), Malformed, 8, "of interface 4294967295");
    check(
        |file| file.section(&[]).simple(0, &[]),
        Malformed,
        28 + 8,
        "of interface 0, but its section has described 0",
    );
}

#[test]
fn options_lie_in_their_block() {
    let with = |bytes: &'static [u8], length: u16| {
        move |file: File| file.block(5, |body| body.u32(0).ticks(0).u16(9).u16(length).raw(bytes))
    };
    check(with(&[], 1), Malformed, 20, "option 9 has 1 bytes, but its block ends 0 bytes after its head");
    check(with(&[0; 4], 5), Malformed, 20, "option 9 has 5 bytes, but its block ends 4 bytes after its head");
    check(with(&[0; 4], u16::MAX), Malformed, 20, "option 9 has 65535 bytes");
}

#[test]
fn names_have_addresses_texts_and_an_end() {
    let with = |kind: u16, value: &'static [u8]| {
        move |file: File| file.block(4, |body| body.u16(kind).u16(value.len() as u16).padded(value).u32(0))
    };
    check(with(1, &[1, 2, 3, 4]), Malformed, 8, "type 1, 4 bytes) is no address of 4 bytes and texts");
    check(with(1, b"\x01\x02\x03\x04a"), Malformed, 8, "texts that end with a NUL");
    check(with(2, b"\x01\x02\x03\x04a\0"), Malformed, 8, "no address of 16 bytes");
    check(|file| file.block(4, |body| body.u16(9).u16(0)), Malformed, 12, "no record that ends them");
    check(
        |file| file.block(4, |body| body.u16(9).u16(5).u32(0)),
        Malformed,
        8,
        "ends 4 bytes after its head",
    );
}

#[test]
fn a_section_has_a_byte_order_and_a_length() {
    let section = |magic: u32, length: u64| {
        move |file: File| file.block(0xa0d_0d0a, |body| body.u32(magic).u16(1).u16(0).u64(length))
    };
    check(section(0x1a2b_3c4e, u64::MAX), Malformed, 8, "in place of its byte-order magic, 1a2b3c4d");
    check(section(0x1a2b_3c4d, 5), Malformed, 16, "a length of 5: -1 (not known) or a multiple of 4");
    check(section(0x1a2b_3c4d, u64::MAX - 3), Malformed, 16, "a length of -4");
}

#[test]
fn units_of_time_that_64_bits_do_not_hold_are_not_read() {
    let with = |byte: u8| move |file: File| file.interface(1, 0, &[(9, vec![byte])]);
    check(
        with(20),
        Unsupported,
        0,
        "if_tsresol is 0x14: units of time are read down to 10^-19 and 2^-63 seconds",
    );
    check(with(0xc0), Unsupported, 0, "if_tsresol is 0xc0");
}

#[test]
fn limits_are_named_where_they_are_exceeded() {
    let limits =
        |block_bytes, interfaces, interface_bytes| Limits { block_bytes, interfaces, interface_bytes };
    let long = |file: File| file.u32(9).u32((16 << 20) + 4).u32(0);
    check(long, Limit, 4, "more than the limit (block_bytes) of 16777216");
    check_limits(limits(32, 9, 999), |file| file.enhanced(0, 0, &[1], &[]), Limit, 4, "(block_bytes) of 32");
    let two = |file: File| file.interface(1, 0, &[]).interface(1, 0, &[]);
    check_limits(limits(99, 2, 999), two, Limit, 20, "more interfaces than the limit (interfaces) of 2");
    check_limits(limits(99, 9, 59), two, Limit, 20, "the limit (interface_bytes) of 59");
    // Of each section alone.
    let file = two(File::with_interface(ORDERS[0]).section(&[]));
    assert_eq!(listed_of(&file.bytes[..], limits(99, 2, 40)).len(), 5);

    let classic = File::classic(ORDERS[0], 0xa1b2_c3d4).record(0, 0, &[0; 17]);
    let error = error_of(&classic.bytes, limits(32, 9, 999)).unwrap();
    assert_eq!((error.kind(), error.offset()), (Limit, 24));
    assert!(
        error.reason().contains("17 bytes of a packet; with its head, 32 is the limit (block_bytes)"),
        "{error}"
    );
    assert_eq!(listed_of(&classic.bytes[..], limits(33, 0, 0)).len(), 2);
}

#[test]
fn an_input_that_fails_is_told_with_its_cause() {
    struct Failing;
    impl std::io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    let begin = File::with_interface(ORDERS[0]);
    let input = std::io::Read::chain(&begin.bytes[..], Failing);
    let lines = ["section", "interface 0 link 1 snaplen 0", &format!("Io at {}", begin.bytes.len())];
    assert_eq!(listed_of(input, Limits::default()), lines);
    let error = weir_pcapng::Reader::new(Failing).unwrap_err();
    assert_eq!(error.to_string(), "byte 0: cannot read: the disk is gone");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "the disk is gone");
}

#[test]
fn an_empty_file_is_cut_short() {
    assert_eq!(listed(&[]), ["Truncated at 0"]);
    assert_eq!(error_of(&[], Limits::default()).unwrap().reason(), "the file is empty");
}
