//! The checker of pcapng files: a right file passes, and every rule is found broken where it is broken.

use testkit::pcapng::{Rules, check};

type Opt<'a> = (u16, &'a [u8]);

/// Bytes in one byte order.
#[derive(Clone, Copy)]
struct Order(bool);

const LITTLE: Order = Order(false);
const BIG: Order = Order(true);

impl Order {
    fn n16(self, number: u16) -> Vec<u8> {
        if self.0 { number.to_be_bytes().into() } else { number.to_le_bytes().into() }
    }

    fn n32(self, number: u32) -> Vec<u8> {
        if self.0 { number.to_be_bytes().into() } else { number.to_le_bytes().into() }
    }

    fn n64(self, number: u64) -> Vec<u8> {
        if self.0 { number.to_be_bytes().into() } else { number.to_le_bytes().into() }
    }

    fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| self.n32(*word)).collect()
    }

    fn time(self, time: u64) -> Vec<u8> {
        self.words(&[(time >> 32) as u32, time as u32])
    }

    fn options(self, options: &[Opt<'_>]) -> Vec<u8> {
        let mut bytes = self.open_options(options);
        bytes.extend([0; 4]);
        bytes
    }

    fn open_options(self, options: &[Opt<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (code, value) in options {
            bytes.extend([self.n16(*code), self.n16(value.len() as u16)].concat());
            bytes.extend(padded(value));
        }
        bytes
    }

    fn block(self, kind: u32, body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        let length = self.n32(body.len() as u32 + 12);
        [&self.n32(kind)[..], &length, &body, &length].concat()
    }

    fn section(self, options: &[u8]) -> Vec<u8> {
        let head = [self.n32(0x1a2b_3c4d), self.n16(1), self.n16(0), self.n64(u64::MAX)].concat();
        self.block(0x0a0d_0d0a, &[&head, options])
    }

    fn interface(self, snaplen: u32, options: &[u8]) -> Vec<u8> {
        self.block(1, &[&self.n16(1), &self.n16(0), &self.n32(snaplen), options])
    }

    fn packet(self, interface: u32, time: u64, options: &[u8]) -> Vec<u8> {
        let head = [self.n32(interface), self.time(time), self.words(&[5, 60])].concat();
        self.block(6, &[&head, &padded(b"bytes"), options])
    }

    /// A section with one interface whose snapshot length is 8, then `rest`.
    fn file(self, rest: &[&[u8]]) -> Vec<u8> {
        [self.section(&[]), self.interface(8, &[]), rest.concat()].concat()
    }
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(4), 0);
    padded
}

/// Where blocks begin after [`Order::file`]'s two.
const REST: usize = 28 + 20;
/// Where a packet's options begin.
const OPTIONS: usize = REST + 28 + 8;

#[track_caller]
fn holds(file: &[u8]) {
    let found = check(file, Rules { is_monotone: true });
    assert!(found.is_empty(), "{found:?}");
}

/// The one violation is at `offset` and says `said`.
#[track_caller]
fn breaks(file: &[u8], offset: usize, said: &str) {
    let found = check(file, Rules { is_monotone: true });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].offset == offset && found[0].what.contains(said), "{}: {offset} {said}", found[0]);
}

#[track_caller]
fn packet_breaks(options: &[Opt<'_>], at: usize, said: &str) {
    let packet = LITTLE.packet(0, 1, &LITTLE.options(options));
    breaks(&LITTLE.file(&[&packet]), OPTIONS + at, said);
}

#[track_caller]
fn interface_breaks(options: &[Opt<'_>], at: usize, said: &str) {
    let file = [LITTLE.section(&[]), LITTLE.interface(8, &LITTLE.options(options))].concat();
    breaks(&file, 28 + 16 + at, said);
}

#[track_caller]
fn block_breaks(kind: u32, body: &[&[u8]], at: usize, said: &str) {
    breaks(&LITTLE.file(&[&LITTLE.block(kind, body)]), REST + at, said);
}

#[test]
fn files_that_have_everything_pass_in_both_byte_orders() {
    for order in [LITTLE, BIG] {
        let texts =
            order.options(&[(1, b"a"), (1, b"b"), (2, b"x86"), (3, b"Linux"), (4, "weir \u{e9}".as_bytes())]);
        let ipv6 = [&[0; 16][..], &[128]].concat();
        let interface = order.options(&[
            (2, b"eth0"),
            (3, b"card"),
            (4, &[0; 8]),
            (4, &[1; 8]),
            (5, &ipv6),
            (6, &[1; 6]),
            (7, &[1; 8]),
            (16, &order.n64(1)),
            (17, &order.n64(2)),
            (9, &[9]),
            (11, b"\0tcp"),
            (12, b"Linux"),
            (13, &[4]),
            (14, &[0; 8]),
            (15, b"card"),
            (18, b"UTC"),
            (2988, &[0; 4]),
            (0x8001, &[1]),
        ]);
        let packet = order.options(&[
            (2, &order.n32(0x0a0e)),
            (3, &[5, 1, 2, 3, 4]),
            (3, &[2, 1, 2, 3, 4]),
            (4, &[0; 8]),
            (5, &[0; 8]),
            (6, &order.n32(7)),
            (7, &[0, 1]),
            (7, &[[1].as_slice(), &[0; 8]].concat()),
            (8, &[0; 8]),
            (1, b"comment"),
        ]);
        let counted = order.options(&[
            (2, &order.time(5)),
            (3, &order.time(1 << 33)),
            (4, &[0; 8]),
            (5, &[0; 8]),
            (6, &[0; 8]),
            (7, &[0; 8]),
            (8, &[0; 8]),
        ]);
        let record = [order.n16(1), order.n16(9), padded(b"\x0a\0\0\x01ab\0c\0"), order.n32(0)].concat();
        let server = order.options(&[(2, b"ns"), (3, &[0; 4]), (4, &[0; 16])]);
        let file = [
            order.section(&texts),
            order.interface(8, &interface),
            order.block(0x0a, &[&order.words(&[0x544c_534b, 3]), &padded(b"key")]),
            order.block(4, &[&record, &server]),
            order.packet(0, 1, &packet),
            order.packet(0, 0, &[]),
            order.block(3, &[&order.n32(60), b"12345678"]),
            order.block(5, &[&order.n32(0), &order.time(9), &counted]),
            order.block(0x0bad, &[&order.n32(1), b"any!"]),
            order.block(0x8000_0001, &[]),
            // Interfaces are counted from 0 again.
            BIG.section(&[]),
            BIG.interface(0, &[]),
            BIG.packet(0, 0, &[]),
        ];
        holds(&file.concat());
    }
    let length = LITTLE.n64(20);
    let head = [LITTLE.n32(0x1a2b_3c4d), LITTLE.n16(1), LITTLE.n16(2), length].concat();
    holds(&[LITTLE.block(0x0a0d_0d0a, &[&head]), LITTLE.interface(0, &[])].concat());
}

#[test]
fn blocks_have_their_lengths_at_both_ends() {
    breaks(&[], 0, "the file is empty");
    breaks(&LITTLE.interface(0, &[]), 0, "does not begin with a section header");
    let whole = LITTLE.file(&[]);
    breaks(&[&whole[..], &[0; 5]].concat(), REST, "5 bytes are left");
    breaks(&whole[..REST - 4], 28 + 4, "a block of 20 bytes, of which the file has 16");
    let with = |at: usize, byte: u8| {
        let mut file = whole.clone();
        file[at] = byte;
        file
    };
    breaks(&with(REST - 4, 24), REST - 4, "20 bytes by its head and 24 by its end");
    breaks(&with(28 + 4, 19), 28 + 4, "a block of 19 bytes");
    breaks(&with(28 + 4, 8), 28 + 4, "a block of 8 bytes");
    breaks(&with(28 + 7, 9), 28 + 4, "a block of 150994964 bytes");
    breaks(&with(8, 0), 8, "no byte-order magic");
    block_breaks(6, &[&[0; 12]], 4, "at least 32");
}

#[test]
fn sections_and_blocks_are_of_known_kinds() {
    let mut file = LITTLE.file(&[]);
    file[12] = 2;
    breaks(&file, 12, "version 2.0");
    let head = |length| {
        let head = [LITTLE.n32(0x1a2b_3c4d), LITTLE.n16(1), LITTLE.n16(0), LITTLE.n64(length)].concat();
        [LITTLE.block(0x0a0d_0d0a, &[&head]), LITTLE.interface(0, &[])].concat()
    };
    breaks(&head(24), 28, "claims 24 bytes and has 20");
    breaks(&[head(24), LITTLE.section(&[])].concat(), 28, "claims 24 bytes and has 20");
    let found = check(&head(21), Rules::default());
    assert_eq!((found.len(), found[0].offset), (2, 16), "{found:?}");
    let mut file = LITTLE.file(&[]);
    file[28 + 10] = 1;
    breaks(&file, 28 + 10, "a reserved field");
    block_breaks(7, &[], 0, "unknown type 0x7");
    block_breaks(2, &[&[0; 20]], 0, "obsolete");
}

#[test]
fn packets_are_of_known_interfaces_and_no_longer_than_they_can_be() {
    breaks(&LITTLE.file(&[&LITTLE.packet(1, 1, &[])]), REST + 8, "interface 1, but 1 were described");
    let packet = LITTLE.packet(0, 1, &[]);
    let again = LITTLE.section(&[]);
    breaks(&LITTLE.file(&[&again, &packet]), REST + 28 + 8, "interface 0, but 0 were described");
    let lengths =
        |captured, original| [LITTLE.words(&[0, 0, 1, captured, original]), padded(&[1; 9])].concat();
    block_breaks(6, &[&lengths(9, 60)], 20, "the snapshot length is 8");
    block_breaks(6, &[&LITTLE.words(&[0, 0, 1, 5, 4]), &padded(&[1; 5])], 20, "5 bytes were captured of 4");
    block_breaks(
        6,
        &[&LITTLE.words(&[0, 0, 1, 8, 60]), &[1; 4]],
        28,
        "8 bytes of data in a block with room for 4",
    );
    block_breaks(6, &[&LITTLE.words(&[0, 0, 1, 3, 60]), &[1; 4]], 31, "a fill has 0x01");
    block_breaks(3, &[&LITTLE.n32(60), &[1; 4]], 12, "8 bytes of data");
    block_breaks(3, &[&LITTLE.n32(3), &[1, 1, 1, 0, 0, 0, 0, 0]], 16, "no options");
    block_breaks(5, &[&LITTLE.n32(1), &LITTLE.time(1)], 8, "interface 1");
    breaks(&[LITTLE.section(&[]), LITTLE.block(3, &[&[0; 4]])].concat(), 28, "interface 0, but 0");
}

#[test]
fn options_end_and_fill_their_block() {
    let packet = |options: &[u8]| LITTLE.file(&[&LITTLE.packet(0, 1, options)]);
    let queue: Opt<'_> = (6, &[0; 4]);
    breaks(&packet(&LITTLE.open_options(&[queue])), OPTIONS + 8, "options without opt_endofopt");
    breaks(&packet(&[0; 4]), OPTIONS, "opt_endofopt without options");
    let open = LITTLE.open_options(&[queue]);
    breaks(&packet(&[&open[..], &[0, 0, 4, 0]].concat()), OPTIONS + 10, "opt_endofopt has 4 bytes");
    breaks(&packet(&[&open[..], &[0; 8]].concat()), OPTIONS + 12, "4 bytes after opt_endofopt");
    breaks(
        &packet(&[&[1, 0, 9, 0][..], &[0; 4]].concat()),
        OPTIONS + 2,
        "option 1 has 9 bytes, with room for 4",
    );
    let mut fill = LITTLE.options(&[(1, b"a")]);
    fill[6] = 1;
    breaks(&packet(&fill), OPTIONS + 6, "a fill has 0x01");
}

#[test]
fn options_are_known_and_there_once_and_have_their_lengths() {
    packet_breaks(&[(9, &[0; 4])], 0, "option 9 is none of this block");
    packet_breaks(&[(6, &[0; 4]), (6, &[0; 4])], 8, "epb_queue is there twice");
    packet_breaks(&[(2, &[0; 8])], 2, "epb_flags has 8 bytes");
    packet_breaks(&[(4, &[0; 4])], 2, "epb_dropcount has 4 bytes");
    packet_breaks(&[(3, &[])], 2, "epb_hash has 0 bytes");
    packet_breaks(&[(2989, &[0; 3])], 2, "opt_custom has 3 bytes");
    interface_breaks(&[(2, b"a"), (2, b"b")], 8, "if_name is there twice");
    interface_breaks(&[(9, &[9, 9])], 2, "if_tsresol has 2 bytes");
    interface_breaks(&[(11, &[])], 2, "if_filter has 0 bytes");
    interface_breaks(&[(5, &[0; 16])], 2, "if_IPv6addr has 16 bytes");
    let counted = LITTLE.options(&[(2, &[0; 4])]);
    block_breaks(5, &[&LITTLE.n32(0), &LITTLE.time(1), &counted], 22, "isb_starttime has 4 bytes");
}

#[test]
fn values_of_options_mean_something() {
    packet_breaks(&[(1, b"a\xff")], 5, "opt_comment is no UTF-8");
    packet_breaks(&[(1, b"a\0")], 5, "opt_comment has a NUL");
    packet_breaks(&[(2, &LITTLE.n32(0x1001))], 4, "reserved bits");
    packet_breaks(&[(2, &LITTLE.n32(3))], 4, "no direction");
    packet_breaks(&[(2, &LITTLE.n32(5 << 2))], 4, "no type of reception");
    packet_breaks(&[(2, &LITTLE.n32(3 << 9))], 4, "valid and not ready");
    packet_breaks(&[(3, &[5, 1, 2])], 4, "epb_hash of algorithm 5 has 2 bytes, not 4");
    packet_breaks(&[(3, &[6, 1, 2])], 4, "unknown algorithm 6");
    packet_breaks(&[(7, &[1, 2])], 4, "epb_verdict has 2 bytes, not 9");
    packet_breaks(&[(7, &[3, 2])], 4, "unknown type 3");
    interface_breaks(&[(9, &[20])], 4, "if_tsresol is 0x14");
    interface_breaks(&[(9, &[0xc0])], 4, "if_tsresol is 0xc0");
    interface_breaks(&[(11, b"\0\xff")], 5, "if_filter is no UTF-8");
    interface_breaks(&[(11, b"\x011234")], 4, "no whole instructions");
    let prefix = [&[0; 16][..], &[129]].concat();
    interface_breaks(&[(5, &prefix)], 20, "a prefix of 129 bits");
    interface_breaks(&[(8, &[0; 8]), (16, &[0; 8])], 4, "if_speed beside");
    interface_breaks(&[(16, &[1; 8]), (17, &[1; 8])], 4, "are the same");
    let counted = LITTLE.options(&[(2, &LITTLE.time(6)), (3, &LITTLE.time(5))]);
    block_breaks(5, &[&LITTLE.n32(0), &LITTLE.time(1), &counted], 36, "end before they begin");
}

#[test]
fn names_have_addresses_and_ends() {
    let record =
        |kind: u16, value: &[u8]| [LITTLE.n16(kind), LITTLE.n16(value.len() as u16), padded(value)].concat();
    let end = [0; 4];
    block_breaks(4, &[&record(1, b"\x0a\0\0\x01a\0")], 20, "no record that ends them");
    block_breaks(4, &[&record(9, b"\x0a\0\0\x01a\0"), &end], 8, "unknown type 9");
    block_breaks(4, &[&record(1, b"\x0a\0\0\x01ab"), &end], 12, "no name that ends with a NUL");
    block_breaks(4, &[&record(1, b"\x0a\0\0\x01"), &end], 12, "no name that ends with a NUL");
    block_breaks(4, &[&record(1, b"\x0a\0\0\x01a\0\0"), &end], 18, "a name is empty");
    block_breaks(4, &[&record(1, b"\x0a\0\0\x01\xff\0"), &end], 16, "a name is no UTF-8");
    block_breaks(4, &[&LITTLE.n16(0), &LITTLE.n16(4)], 10, "the record that ends names has 4 bytes");
    block_breaks(4, &[&LITTLE.n16(1), &LITTLE.n16(80), &end], 10, "80 bytes, with room for 4");
    let mut filled = record(1, b"\x0a\0\0\x01a\0");
    filled[11] = 1;
    block_breaks(4, &[&filled, &end], 8 + 11, "a fill has 0x01");
    block_breaks(0x0a, &[&LITTLE.words(&[1, 5]), &[0; 4]], 16, "5 bytes of data in a block with room for 4");
}

#[test]
fn times_of_an_interface_and_queue_do_not_go_back() {
    let queue = |number| LITTLE.options(&[(6, &LITTLE.n32(number))]);
    let at = |time, options: &[u8]| LITTLE.packet(0, time, options);
    let (first, second) = (queue(1), queue(2));
    let file = LITTLE.file(&[&at(5, &first), &at(4, &second), &at(5, &first)]);
    holds(&file);
    let file = LITTLE.file(&[&at(5, &first), &at(6, &second), &at(4, &first)]);
    let packet = at(5, &first).len();
    breaks(&file, REST + 2 * packet + 12, "the time goes back by 1");
    assert_eq!(check(&file, Rules::default()), []);
}
