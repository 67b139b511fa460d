//! The checker of traces: a good one in LTTng's style passes, and each of many that are wrong in one place is refused by the rule that
//! it breaks, of which every one is broken by some.

use std::collections::HashSet;

use testkit::ctf::{Counts, Fault, Place, Rule, check};
use testkit::random;

const GOOD: &str = include_str!("lttng.tsdl");

const UUID: [u8; 16] =
    [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];

/// Bytes of the header and the context of a packet.
const HEADER: usize = 84;

/// A packet of stream 0, instance 1.
fn packet(sequence: u64, times: [u64; 2], discarded: u64, events: &[u8]) -> Vec<u8> {
    let mut packet = 0xc1fc_1fc1u32.to_le_bytes().to_vec();
    packet.extend(UUID);
    packet.extend(0u32.to_le_bytes());
    packet.extend(1u64.to_le_bytes());
    let content = (HEADER + events.len()) as u64 * 8;
    for word in [times[0], times[1], content, content + 24, sequence, discarded] {
        packet.extend(word.to_le_bytes());
    }
    packet.extend(3u32.to_le_bytes());
    assert_eq!(packet.len(), HEADER);
    packet.extend(events);
    packet.extend([0xee; 3]);
    packet
}

/// An event 0: 36 bytes. `time`: its lowest 27 bits.
fn sale(time: u32) -> Vec<u8> {
    let mut event = (time << 5).to_le_bytes().to_vec();
    event.extend((-7i32).to_le_bytes());
    event.extend([0x34, 0x12]);
    event.extend(b"tea\0");
    event.extend([4, 1, 5, 0]);
    event.extend([1, 2]);
    event.extend([0x1f, 0x90]);
    event.extend(2.5f64.to_le_bytes());
    event.extend([8, 9]);
    event.extend(77u32.to_le_bytes());
    assert_eq!(event.len(), 36);
    event
}

/// An event 40, whose header is the long one: 19 bytes.
fn refund(time: u64) -> Vec<u8> {
    let mut event = vec![31];
    event.extend(40u32.to_le_bytes());
    event.extend(time.to_le_bytes());
    event.extend(9i32.to_le_bytes());
    event.extend([1, 2]);
    event
}

/// A packet of stream 7, which has no sizes: all of the file is in it.
fn idle() -> Vec<u8> {
    let mut packet = 0xc1fc_1fc1u32.to_le_bytes().to_vec();
    packet.extend(UUID);
    packet.extend(7u32.to_le_bytes());
    packet.extend(0u64.to_le_bytes());
    packet.extend(1u32.to_le_bytes());
    packet.extend([5, 6, 7]);
    packet
}

/// Where the second packet of [`first`] begins.
const SECOND: usize = HEADER + 36 + 19 + 3;

/// A file of three packets, the second of which counts lost events.
fn first() -> Vec<u8> {
    let mut file = packet(0, [1_000, 2_000], 0, &[sale(1_001), refund(2_000)].concat());
    assert_eq!(file.len(), SECOND);
    file.extend(packet(1, [2_000, 0x800_0005], 4, &[sale(2_000), sale(3)].concat()));
    file.extend(packet(4, [0x800_0005, 0x800_0005], 6, &[]));
    file
}

fn streams() -> Vec<(String, Vec<u8>)> {
    vec![("channel_0".to_owned(), first()), ("idle_0".to_owned(), idle())]
}

#[track_caller]
fn refused(metadata: &str, streams: &[(String, Vec<u8>)]) -> Fault {
    check(metadata.as_bytes(), streams).expect_err("a fault")
}

#[test]
fn a_good_trace_passes() {
    let counts = check(GOOD.as_bytes(), &streams()).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(counts, Counts { packets: 4, events: 7, discarded: 6, lost_packets: 2 });
}

#[test]
fn a_fault_names_its_place_and_its_rule() {
    let fault = refused(&GOOD.replace("size = 5;", "size = 65;"), &[]);
    assert_eq!(
        fault.to_string(),
        "metadata, line 8: 65 bits (4.1.5: integers have 1 or more bits; and at most 64, which readers have)"
    );
    let mut file = first();
    file[SECOND] ^= 1;
    let fault = refused(GOOD, &[("channel_0".to_owned(), file)]);
    assert_eq!(
        fault.to_string(),
        "channel_0, byte 142: 0xc1fc1fc0 (5: packets begin with 0xc1fc1fc1)"
            .replace("142", &SECOND.to_string())
    );
}

/// What is replaced in the good text, by what, and the rule that then is broken.
const TEXTS: &[(Rule, &str, &str)] = &[
    (Rule::Signature, "/* CTF 1.8 */", "/* ctf 1.8 */"),
    (Rule::Signature, "/* CTF 1.8 */\n", "\n/* CTF 1.8 */"),
    (Rule::Encoding, "a comment of", "a \u{7} of"),
    (Rule::Comment, "Frequency, in Hz */", "Frequency, in Hz"),
    (Rule::Token, "major = 1;", "major = 1 @;"),
    (Rule::Token, "tracer_major", "tracer-mäjor"),
    (Rule::Constant, "align = 010", "align = 08"),
    (Rule::Constant, "4242u", "4242q"),
    (Rule::Constant, "0x20", "0x"),
    (Rule::Constant, "offset = 1326476837", "offset = 18446744073709551616"),
    (Rule::Literal, "\"Monotonic Clock\"", "\"Monotonic Clock"),
    (Rule::Literal, "\\x09", "\\q"),
    (Rule::Literal, "\\x09", "\\400"),
    (Rule::Literal, "\"Monotonic Clock\"", "\"Monotonic\nClock\""),
    (Rule::Keyword, "_number;", "event;"),
    (Rule::Keyword, ":= uint5_t", ":= stream"),
    (Rule::Keyword, "domain", "integer"),
    (Rule::Keyword, "BUSY, OTHER", "BUSY, string"),
    (Rule::Grammar, "byte_order = le;", "byte_order = le"),
    (Rule::Grammar, "align(8);", "align(8)"),
    (Rule::Grammar, "};\n\nenv {", "}\n\nenv {"),
    (Rule::Grammar, "minor = 8;", "minor := 8;"),
    (Rule::Grammar, "_flags[2]", "_flags[2"),
    (Rule::Grammar, "line = 39;\n\tip = 0x40096c;\n};", "line = 39;"),
    (Rule::Grammar, "variant <_state> {", "variant <> {"),
    (Rule::Unread, "_number;", "_number : 3;"),
    (Rule::Unread, "uint16_t _number;", "uint16_t *_number;"),
    (Rule::Unread, "\"Monotonic Clock\"", "L\"Monotonic Clock\""),
    (Rule::Unread, "uint16_t _number;", "uint64_clock_monotonic_t _number;"),
    (Rule::Unread, "[ __counts_length ]", "[ env.vpid ]"),
    (Rule::Block, "trace {", "env {"),
    (Rule::Block, "env {\n", "env { a = 1; };\nenv {\n"),
    (Rule::Attribute, "precision", "precison"),
    (Rule::Attribute, "precision = 1;", "freq = 1;"),
    (Rule::Attribute, "vpid", "domain"),
    (Rule::Attribute, "id = 0;\n\tevent.header", "id = 0;\n\tevent.headers"),
    (Rule::Attribute, "{ encoding = ASCII; }", "{ encoding = ASCII; size = 8; }"),
    (Rule::Missing, "size = 5; ", ""),
    (Rule::Missing, "\tbyte_order = le;\n", ""),
    (Rule::Missing, "\tmajor = 1;\n", ""),
    (Rule::Missing, "\tname = \"idle\";\n", ""),
    (Rule::Missing, "\tid = 40;\n", ""),
    (Rule::Missing, "\tstream_id = 7;\n", ""),
    (Rule::Missing, "\tid = 7;\n", ""),
    (Rule::Missing, "\tname = \"monotonic\";\n", ""),
    (Rule::Missing, "\tfields := struct {\n\t};\n", ""),
    (Rule::Missing, "exp_dig = 11; ", ""),
    (Rule::Value, "signed = 1;", "signed = 2;"),
    (Rule::Value, "base = 10;", "base = 7;"),
    (Rule::Value, "base = hex;", "base = hexa;"),
    (Rule::Value, "encoding = ASCII", "encoding = LATIN1"),
    (Rule::Value, "absolute = FALSE", "absolute = no"),
    (Rule::Value, "\"shop:refund\"", "refund"),
    (Rule::Value, "loglevel = 13", "loglevel = DEBUG"),
    (Rule::Value, "id = 40", "id = -40"),
    (Rule::Value, "\"ust\"", "ust"),
    (Rule::Version, "minor = 8", "minor = 9"),
    (Rule::Version, "major = 1;\n\tminor", "major = 2;\n\tminor"),
    (Rule::ByteOrder, "byte_order = le", "byte_order = native"),
    (Rule::ByteOrder, "byte_order = network", "byte_order = middle"),
    (Rule::Uuid, "00112233-4455", "001122334455"),
    (Rule::Uuid, "62189bee-", "62189beg-"),
    (Rule::Size, "size = 5;", "size = 0;"),
    (Rule::Size, "size = 5;", "size = 65;"),
    (Rule::Align, "align = 16", "align = 12"),
    (Rule::Align, "align(8)", "align(0)"),
    (Rule::Float, "mant_dig = 53", "mant_dig = 52"),
    (Rule::Map, "map = clock.monotonic.value;\n} := uint27", "map = clock.realtime.value;\n} := uint27"),
    (Rule::Map, "map = clock.monotonic.value;\n} := uint27", "map = clock.monotonic;\n} := uint27"),
    (Rule::Clock, "name = \"monotonic\"", "name = \"two words\""),
    (Rule::Clock, "freq = 1000000000", "freq = 0"),
    (Rule::Clock, "clock {\n", "clock { name = monotonic; };\nclock {\n"),
    (Rule::TypeName, ":= uint5_t", ":= uint4_t"),
    (Rule::TypeName, ":= unsigned long", ":= uint8_t"),
    (Rule::TypeName, "struct event_header_compact;", "struct event_header_large;"),
    (Rule::TypeName, "enum state : uint8_t", "enum state : uint9_t"),
    (Rule::Enumeration, "extended = 31", "extended = 32"),
    (Rule::Enumeration, "0 ... 3", "3 ... 0"),
    (Rule::Enumeration, "\"IDLE\" = 0 ... 3, BUSY, OTHER = 9,", ""),
    (Rule::Enumeration, "OTHER = 9", "OTHER = 256"),
    (Rule::FieldName, "_article;", "_number;"),
    (Rule::FieldName, "_article;", "number;"),
    (Rule::VariantPlace, "variant <_state> {", "variant {"),
    (Rule::Tag, "variant <_state>", "variant <_number>"),
    (Rule::Tag, "variant <_state>", "variant <_nothing>"),
    (Rule::Tag, "variant <_state>", "variant <_more>"),
    (Rule::Label, "uint8_t IDLE;", "uint8_t SLEEP;"),
    (Rule::Label, "BUSY, OTHER = 9", "BUSY, OTHER = 2"),
    (Rule::Length, "_counts[ __counts_length ]", "_counts[ _state ]"),
    (Rule::Length, "_counts[ __counts_length ]", "_counts[ _price ]"),
    (Rule::Length, "[ event.fields.__counts_length ]", "[ stream.event.context._vtid ]"),
    (Rule::Length, "[ event.fields.__counts_length ]", "[ event.fields.__flags_length ]"),
    (Rule::Length, "_flags[2]", "_flags[-2]"),
    (Rule::Scope, "event.header := struct event_header_compact;", "event.header := uint32_t;"),
    (Rule::MagicField, "uint32_t magic;", "uint32_t _first; uint32_t magic;"),
    (Rule::MagicField, "uint32_t magic;", "uint64_t magic;"),
    (Rule::MagicField, "uint32_t magic;", "int magic;"),
    (Rule::UuidField, "uuid[16]", "uuid[15]"),
    (Rule::UuidField, "\tuuid = \"00112233-4455-6677-8899-aabbccddeeff\";\n", ""),
    (Rule::StreamField, "uint32_t stream_id;", "int stream_id;"),
    (Rule::StreamField, "\t\tuint32_t stream_id;\n", ""),
    (Rule::ContextField, "uint64_t content_size;", "string content_size;"),
    (Rule::ContextField, "uint64_t packet_seq_num;", "int packet_seq_num;"),
    (Rule::ContextField, "uint64_clock_monotonic_t timestamp_begin;", "uint64_t timestamp_begin;"),
    (Rule::ContextField, "\tuint64_clock_monotonic_t timestamp_end;\n", ""),
    (Rule::HeaderField, "event.header := struct event_header_compact;\n", "\n"),
    (Rule::HeaderField, "uint32_t id;\n\t\t\tuint64_clock", "uint5_t id;\n\t\t\tuint64_clock"),
    (Rule::HeaderField, "uint32_t id;\n\t\t\tuint64_clock", "int id;\n\t\t\tuint64_clock"),
    (Rule::StreamNumber, "id = 7;\n\tpacket", "id = 0;\n\tpacket"),
    (Rule::StreamNumber, "stream_id = 7;", "stream_id = 8;"),
    (Rule::EventNumber, "id = 40;", "id = 0;"),
    (Rule::Option, "BUSY, OTHER", "BUSY = 5, OTHER"),
    (Rule::EventLength, "const uint8_t _x;", ""),
    (Rule::MixedOrder, "signed = false; } := uint5_t", "signed = false; byte_order = be; } := uint5_t"),
    (Rule::PacketStream, "uint32_t stream_id;", "integer { size = 32; byte_order = be; } stream_id;"),
];

#[test]
fn a_text_that_is_wrong_in_one_place_is_refused() {
    for (rule, good, wrong) in TEXTS {
        assert!(GOOD.contains(good), "{good:?} is not in the good text");
        let text = GOOD.replacen(good, wrong, 1);
        match check(text.as_bytes(), &streams()) {
            Ok(_) => panic!("{wrong:?} for {good:?} passes, and not {rule:?}"),
            Err(fault) => assert_eq!(fault.rule, *rule, "{wrong:?} for {good:?}: {fault}"),
        }
    }
}

/// Where bytes of the first file are replaced, by what, and the rule that then is broken.
const BYTES: &[(Rule, usize, &[u8])] = &[
    (Rule::PacketMagic, 0, &[0xc0]),
    (Rule::PacketMagic, SECOND, &[0, 0, 0, 0]),
    (Rule::PacketUuid, 19, &[0xfe]),
    (Rule::PacketStream, 20, &[1]),
    (Rule::PacketStream, SECOND + 24, &[2]),
    // The times, the content's size and the packet's are at 32, 40, 48 and 56.
    (Rule::PacketSize, 56, &[0x71]),
    (Rule::PacketSize, 56, &[0, 0]),
    (Rule::PacketSize, 56, &[0, 0, 1]),
    (Rule::ContentSize, 48, &[0, 1]),
    (Rule::ContentSize, 48, &[0x78, 4]),
    (Rule::PacketTimes, 41, &[0, 0]),
    (Rule::PacketTimes, SECOND + 32, &[0, 0]),
    (Rule::EventTimes, 40, &[0xcf, 7]),
    (Rule::EventTimes, SECOND + 40, &[0xff, 0xff, 0xff, 7]),
    (Rule::EventTimes, 32, &[0xea, 3]),
    (Rule::Sequence, SECOND + 64, &[0]),
    (Rule::Discarded, 72, &[5]),
    (Rule::Overrun, 48, &[0x50, 4]),
    (Rule::Overrun, 48, &[0x60, 4]),
    (Rule::Overrun, HEADER + 15, &[200]),
    (Rule::EventId, HEADER + 36 + 1, &[41]),
    (Rule::EventId, HEADER, &[0x21]),
    (Rule::Option, HEADER + 14, &[10]),
    (Rule::Text, HEADER + 10, &[0xff]),
];

#[test]
fn a_file_that_is_wrong_in_one_place_is_refused() {
    for (rule, at, bytes) in BYTES {
        let mut file = first();
        assert_ne!(&file[*at..][..bytes.len()], *bytes, "{rule:?} at {at} changes nothing");
        file[*at..][..bytes.len()].copy_from_slice(bytes);
        match check(GOOD.as_bytes(), &[("channel_0".to_owned(), file)]) {
            Ok(_) => panic!("{bytes:?} at {at} passes, and not {rule:?}"),
            Err(fault) => {
                assert_eq!(fault.rule, *rule, "{bytes:?} at {at}: {fault}");
                assert!(matches!(fault.place, Place::Stream { .. }), "{fault}");
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_is_refused_unless_a_packet_ends_there() {
    let file = first();
    let ends = [0, SECOND, SECOND + HEADER + 72 + 3];
    for length in 0..file.len() {
        let checked = check(GOOD.as_bytes(), &[("channel_0".to_owned(), file[..length].to_vec())]);
        assert_eq!(checked.is_ok(), ends.contains(&length), "{length} bytes: {checked:?}");
    }
}

/// The text in packets, as LTTng writes it.
fn packetized(parts: usize) -> Vec<u8> {
    let mut metadata = Vec::new();
    for part in GOOD.as_bytes().chunks(GOOD.len().div_ceil(parts)) {
        metadata.extend(0x75d1_1d57u32.to_le_bytes());
        metadata.extend(UUID);
        for word in [0, (37 + part.len() as u32) * 8, (37 + part.len() as u32 + 5) * 8] {
            metadata.extend(word.to_le_bytes());
        }
        metadata.extend([0, 0, 0, 1, 8]);
        metadata.extend(part);
        metadata.extend([0; 5]);
    }
    metadata
}

#[test]
fn metadata_in_packets_is_checked_with_its_headers() {
    let good = packetized(3);
    check(&good, &streams()).unwrap_or_else(|fault| panic!("{fault}"));
    for (at, byte) in [(24, 1), (28, 1), (31, 1), (32, 1), (35, 2), (36, 7)] {
        let mut wrong = good.clone();
        wrong[at] = byte;
        let fault = check(&wrong, &[]).expect_err("a fault");
        assert_eq!(fault.rule, Rule::Packetized, "byte {at}: {fault}");
    }
    let fault = check(&good[..good.len() - 1], &[]).expect_err("a fault");
    assert_eq!(fault.rule, Rule::Packetized, "{fault}");
}

#[test]
fn what_would_be_read_for_ever_is_refused() {
    let deep = GOOD.replacen("uint16_t _number;", &"struct { ".repeat(100_000), 1);
    assert_eq!(refused(&deep, &[]).rule, Rule::Limit);
    let brackets = GOOD.replacen("major = 1", &format!("major = {}1", "(".repeat(100_000)), 1);
    assert_eq!(refused(&brackets, &[]).rule, Rule::Limit);
    let mut doubled = "struct s0 { uint8_t a; };\n".to_owned();
    for level in 1..60 {
        let below = level - 1;
        doubled += &format!("struct s{level} {{ struct s{below} a; struct s{below} b; }};\n");
    }
    let doubled = GOOD.replacen("event {", &format!("{doubled}event {{"), 1);
    let doubled = doubled.replacen("uint16_t _number;", "struct s59 _number;", 1);
    assert_eq!(refused(&doubled, &[]).rule, Rule::Limit);
    let empty = GOOD.replacen("uint16_t _number;", "struct { } _number[0xffffffffffffffff];", 1);
    assert_eq!(refused(&empty, &streams()).rule, Rule::Limit);
}

/// A rule that nothing breaks checks nothing.
#[test]
fn every_rule_is_broken_by_a_test() {
    let mut broken: HashSet<Rule> = TEXTS.iter().map(|(rule, ..)| *rule).collect();
    broken.extend(BYTES.iter().map(|(rule, ..)| *rule));
    // Those of the two tests above.
    broken.extend([Rule::Packetized, Rule::Limit]);
    let missing: Vec<&Rule> = Rule::ALL.iter().filter(|rule| !broken.contains(*rule)).collect();
    assert_eq!(missing, Vec::<&Rule>::new());
}

#[test]
fn damage_is_a_fault_and_never_a_panic() {
    let (mut state, packets) = (99, packetized(2));
    let mut refused = 0;
    for round in 0..6_000 {
        let mut metadata = if round % 3 == 0 { packets.clone() } else { GOOD.as_bytes().to_vec() };
        let mut streams = streams();
        let hurts_streams = round % 2 == 0;
        let bytes = if hurts_streams { &mut streams[0].1 } else { &mut metadata };
        for _ in 0..1 + random::next(&mut state) % 4 {
            let (at, other) = (random::next(&mut state) as usize, random::next(&mut state) as usize);
            let (at, other) = (at % bytes.len(), other % bytes.len());
            match random::next(&mut state) % 4 {
                0 => bytes[at] ^= 1 << (other % 8),
                1 => bytes[at] = bytes[other],
                2 => {
                    bytes.remove(at);
                }
                _ => {
                    let (first, last) = (at.min(other), at.max(other).min(at.min(other) + 40));
                    let part = bytes[first..last].to_vec();
                    bytes.splice(other..other, part);
                }
            }
        }
        refused += u32::from(check(&metadata, &streams).is_err());
    }
    assert!((3_000..6_000).contains(&refused), "{refused} of 6000 are refused");
}
