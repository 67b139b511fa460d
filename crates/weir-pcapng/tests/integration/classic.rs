//! Classic pcap: byte orders, units of time, and what older files have that newer ones have not.

use weir_pcapng::{Format, Limits, Reader};

use crate::file::{File, ORDERS};
use crate::listing::{error_of, listed};

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

const INTERFACE: &str = "interface 0 link 1 snaplen 65535";

/// In both byte orders: what is after a header with `magic`, and what is read of it after the interface.
fn check(magic: u32, records: impl Fn(File) -> File, packets: &[&str]) {
    for order in ORDERS {
        let file = records(File::classic(order, magic));
        assert_eq!(listed(&file.bytes), [&[INTERFACE], packets].concat(), "{order:?}");
    }
}

#[test]
fn times_are_microseconds_or_nanoseconds_by_the_magic() {
    check(MICROSECONDS, |file| file.record(1, 2, &[9]), &["packet 0 1000002000 [9] of 1"]);
    check(NANOSECONDS, |file| file.record(1, 2, &[9]), &["packet 0 1000000002 [9] of 1"]);
    check(
        MICROSECONDS,
        |file| file.record(u32::MAX, 999_999, &[]),
        &["packet 0 4294967295999999000 [] of 0"],
    );
    check(NANOSECONDS, |file| file.record(1, u32::MAX, &[]), &["packet 0 5294967295 [] of 0"]);
}

#[test]
fn records_follow_each_other_without_padding() {
    let records = |file: File| file.record(0, 0, &[1]).record(1, 0, &[]).record(2, 0, &[2, 3, 4]);
    let packets =
        ["packet 0 0 [1] of 1", "packet 0 1000000000 [] of 0", "packet 0 2000000000 [2, 3, 4] of 3"];
    check(MICROSECONDS, records, &packets);
}

#[test]
fn eight_more_bytes_in_the_heads_of_modified_files_are_skipped() {
    let record = |file: File| file.u32(1).u32(2).u32(3).u32(60).u64(u64::MAX).raw(&[7, 8, 9]);
    check(MODIFIED, |file| record(record(file)), &["packet 0 1000002000 [7, 8, 9] of 60"; 2]);
    let file = File::classic(ORDERS[0], MODIFIED);
    assert_eq!(Reader::new(&file.bytes[..]).unwrap().format(), Format::Modified);
}

#[test]
fn the_smaller_length_is_what_was_captured_in_files_before_2_4() {
    for (minor, line) in [(3, "packet 0 0 [5] of 8"), (2, "packet 0 0 [5] of 8")] {
        let head = File::new(ORDERS[0]).u32(MICROSECONDS).u16(2).u16(minor).u32(0).u32(0).u32(65_535).u32(1);
        let file = head.u32(0).u32(0).u32(8).u32(1).raw(&[5]);
        assert_eq!(listed(&file.bytes), [INTERFACE, line]);
    }
    // In 2.4, the first is what was captured, even where less is said to have been on the wire.
    check(MICROSECONDS, |file| file.u32(0).u32(0).u32(2).u32(1).raw(&[5, 6]), &["packet 0 0 [5, 6] of 1"]);
}

#[test]
fn the_field_of_the_link_type_may_tell_the_check_sequence() {
    let cases = [
        (1, "interface 0 link 1 snaplen 9"),
        (0xffff, "interface 0 link 65535 snaplen 9"),
        (2 << 28 | 1 << 26 | 1, "interface 0 link 1 snaplen 9 fcs 32"),
        (2 << 28 | 1, "interface 0 link 1 snaplen 9"),
        (1 << 26 | 1, "interface 0 link 1 snaplen 9 fcs 0"),
        (1 << 16 | 1, "Malformed at 20"),
        (1 << 27 | 1, "Malformed at 20"),
    ];
    for (field, line) in cases {
        let file = File::new(ORDERS[1]).u32(NANOSECONDS).u16(2).u16(4).u32(0).u32(0).u32(9).u32(field);
        assert_eq!(listed(&file.bytes), [line], "{field:#x}");
    }
}

#[test]
fn versions_other_than_2_0_to_2_4_are_refused() {
    for (major, minor) in [(1, 4), (2, 5), (3, 0), (0, 0)] {
        let file = File::new(ORDERS[0]).u32(MICROSECONDS).u16(major).u16(minor).raw(&[0; 16]);
        let error = error_of(&file.bytes, Limits::default()).unwrap().to_string();
        let reason = format!("byte 4: version {major}.{minor} of classic pcap: 2.0 to 2.4 are read");
        assert_eq!(error, reason);
    }
}

#[test]
fn other_files_are_refused_by_what_they_are() {
    let cases: [(&[u8], &str); 8] = [
        (b"\x1f\x8b\x08\x00", "compressed by gzip: decompress it first"),
        (b"\x28\xb5\x2f\xfd", "compressed by zstd: decompress it first"),
        (b"\xfd7zXZ", "compressed by xz"),
        (b"BZh9", "compressed by bzip2"),
        (b"snoop\0", "a file of snoop"),
        (b"\n\r\n\n", "transferred as text"),
        (b"\x7fELF", "pcapng and classic pcap are read"),
        (&[0; 100], "begins with [00, 00, 00, 00]"),
    ];
    for (bytes, text) in cases {
        let error = error_of(bytes, Limits::default()).unwrap().to_string();
        assert!(error.starts_with("byte 0: no capture file") && error.contains(text), "{error}");
    }
}
