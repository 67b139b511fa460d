//! What CTF2-SPEC-2.0 has and no trace of ours: each rule of its decoding procedures (6.1 to 6.4) on bytes by hand. Numbers of examples are
//! those of its text.

use weir_trace::class::Scope;
use weir_trace::{Message, Reader};

use crate::random::shown;

fn fragments(of: &[&str]) -> Vec<u8> {
    of.iter().flat_map(|fragment| format!("\u{1e}{fragment}\n").into_bytes()).collect()
}

const PREAMBLE: &str = r#"{"type":"preamble","version":2,"attributes":{"my.tracer":{"x":[1.5,null]}}}"#;

/// Everything that is said of a trace of one stream.
fn read(metadata: &[u8], stream: &[u8]) -> Vec<String> {
    let mut reader =
        Reader::of_memory(metadata, vec![stream.to_vec()]).unwrap_or_else(|error| panic!("{error}"));
    let mut told = Vec::new();
    while let Some(message) = reader.next() {
        told.push(match message {
            Message::Event(event) => {
                let scopes = [Scope::PacketContext, Scope::SpecificContext, Scope::Payload];
                let fields = scopes.iter().filter_map(|scope| event.scope(*scope));
                let fields: Vec<String> =
                    fields.map(|(class, mut values)| shown(class, &mut values)).collect();
                let time = event.info.clock.map(|_| format!("{} ", event.cycles)).unwrap_or_default();
                time + &fields.join(", ")
            }
            Message::Lost(loss, _) => format!("{loss:?}"),
            Message::Damage(error) => error.to_string(),
        });
    }
    told
}

/// One event that has these members and bytes.
#[track_caller]
fn check(members: &[(&str, &str)], bytes: &[u8], expected: &str) {
    let members: Vec<String> =
        members.iter().map(|(name, class)| format!(r#"{{"name":"{name}","field-class":{class}}}"#)).collect();
    let event = format!(
        r#"{{"type":"event-record-class","payload-field-class":{{"type":"structure","member-classes":[{}]}}}}"#,
        members.join(",")
    );
    let alias = r#"{"type":"field-class-alias","name":"u8","field-class":{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian"}}"#;
    let again = r#"{"type":"field-class-alias","name":"byte","field-class":"u8"}"#;
    let stream = r#"{"type":"data-stream-class"}"#;
    let metadata = fragments(&[PREAMBLE, alias, again, stream, &event]);
    assert_eq!(read(&metadata, bytes), [expected], "{event}");
    // Described by this crate, it is the same.
    let class = weir_trace::read::metadata::parse("metadata".as_ref(), &metadata).unwrap();
    let again = weir_trace::write::metadata(&class, weir_trace::write::Format::Ctf2).unwrap();
    assert_eq!(read(&again, bytes), [expected], "{}", String::from_utf8_lossy(&again));
}

fn bits(kind: &str, length: u32, order: &str, more: &str) -> String {
    format!(r#"{{"type":"fixed-length-{kind}","length":{length},"byte-order":"{order}-endian"{more}}}"#)
}

#[test]
fn bits_are_taken_by_the_order_of_bytes_and_of_bits() {
    let lengths = [("green", 3), ("blue", 9), ("yellow", 14), ("red", 4), ("rest", 2)];
    let of = |order: &str, more: &str, expected: &str| {
        let classes = lengths.map(|(name, length)| (name, bits("bit-array", length, order, more)));
        let members: Vec<(&str, &str)> =
            classes.iter().map(|(name, class)| (*name, class.as_str())).collect();
        check(&members, &[0xa0, 0x1f, 0xff, 0x98], expected);
    };
    // As of examples 93 and 94, with other bytes.
    of("big", "", "{ green = 0x5, blue = 0x1, yellow = 0x3FFE, red = 0x6, rest = 0x0 }");
    of(
        "big",
        r#","bit-order":"first-to-last""#,
        "{ green = 0x5, blue = 0x100, yellow = 0x1FFF, red = 0x6, rest = 0x0 }",
    );
    of("little", "", "{ green = 0x0, blue = 0x1F4, yellow = 0xFF1, red = 0x6, rest = 0x2 }");
    of(
        "little",
        r#","bit-order":"last-to-first""#,
        "{ green = 0x0, blue = 0x5F, yellow = 0x23FC, red = 0x6, rest = 0x1 }",
    );
    let signed = bits("signed-integer", 4, "little", r#","bit-order":"last-to-first""#);
    check(&[("a", &signed), ("b", &signed)], &[0b0100_0001], "{ a = -8, b = 2 }");
}

#[test]
fn bits_have_names_and_booleans_are_true_with_any_bit() {
    // Example 97.
    let flags = r#","flags":{"RED":[[0,2],[4,4],[10,10]],"ORANGE":[[6,6]],"GREEN":[[7,7],[9,9],[11,11]],"YELLOW":[[9,9],[13,14]],"BLUE":[[15,15]]}"#;
    let map = bits("bit-map", 16, "big", flags);
    check(&[("m", &map)], &[0x02, 0x10], r#"{ m = 0x210 { "GREEN", "RED", "YELLOW" } }"#);
    check(&[("m", &map)], &[0, 0x08], "{ m = 0x8 }");
    // As of example 57: bits of an aligned number as flags.
    let boolean = bits("boolean", 1, "little", "");
    let array = format!(
        r#"{{"type":"static-length-array","length":4,"minimum-alignment":32,"element-field-class":{boolean}}}"#
    );
    let wide = bits("boolean", 16, "big", r#","alignment":16"#);
    let expected = "{ n = 7, a = [ [0] = true, [1] = false, [2] = true, [3] = false ], b = true, c = false }";
    check(
        &[("n", r#""byte""#), ("a", &array), ("b", &wide), ("c", &wide)],
        &[7, 9, 9, 9, 0xf5, 9, 1, 0, 0, 0],
        expected,
    );
}

#[test]
fn integers_may_have_as_many_bytes_as_they_need() {
    let unsigned = r#"{"type":"variable-length-unsigned-integer","mappings":{"z":[[2,5]],"a":[[0,3]]}}"#;
    let signed = r#"{"type":"variable-length-signed-integer","preferred-display-base":16}"#;
    // Examples 98 and 99; labels stand in their order.
    check(
        &[("u", unsigned), ("bit", &bits("bit-array", 1, "little", "")), ("s", signed), ("v", unsigned)],
        &[0xb4, 0xc7, 0x72, 1, 0xb4, 0xc7, 0x72, 2],
        r#"{ u = ( <unknown> : container = 1876916 ), bit = 0x1, s = 0xFFFFFFFFFFFCA3B4, v = ( "z", "a" : container = 2 ) }"#,
    );
}

#[test]
fn texts_have_encodings_and_floating_point_numbers_sizes() {
    let text = |kind: &str, more: &str| format!(r#"{{"type":"{kind}-string"{more}}}"#);
    let utf16 = text("null-terminated", r#","encoding":"utf-16le""#);
    check(
        &[("n", "\"u8\""), ("s", &utf16), ("m", "\"u8\"")],
        &[1, b'a', 0, 0x3d, 0xd8, 0, 0xde, 0, 0, 2],
        "{ n = 1, s = \"a\u{1f600}\", m = 2 }",
    );
    let utf32 = text("static-length", r#","length":13,"encoding":"utf-32be""#);
    check(
        &[("s", &utf32), ("m", "\"u8\"")],
        &[0, 0, 0, b'b', 0, 0, 0, 0, 9, 9, 9, 9, 9, 3],
        "{ s = \"b\", m = 3 }",
    );
    // As of example 102: what is behind the NUL is nothing.
    let utf8 = text("static-length", r#","length":6"#);
    check(&[("s", &utf8), ("m", "\"u8\"")], b"ab\0xyz\x04", "{ s = \"ab\0xyz\", m = 4 }");
    let dynamic = text("dynamic-length", r#","encoding":"utf-16be","length-field-location":{"path":["n"]}"#);
    check(&[("n", "\"u8\""), ("s", &dynamic)], &[4, 0, b'a', 0x20, 0xac], "{ n = 4, s = \"a€\" }");
    check(&[("n", "\"u8\""), ("s", &dynamic)], &[0], "{ n = 0, s = \"\" }");
    let float = |length, order, more| bits("floating-point-number", length, order, more);
    let turned = float(16, "big", r#","bit-order":"first-to-last""#);
    check(
        &[("a", &float(16, "little", "")), ("b", &turned), ("c", &float(32, "big", ""))],
        &[0, 0xc0, 0x00, 0x3c, 0x3f, 0x80, 0, 0],
        "{ a = -2, b = 1, c = 1 }",
    );
}

const STRING: &str = r#"{"type":"null-terminated-string"}"#;

fn structure(members: &[(&str, &str)]) -> String {
    let members: Vec<String> =
        members.iter().map(|(name, class)| format!(r#"{{"name":"{name}","field-class":{class}}}"#)).collect();
    format!(r#"{{"type":"structure","member-classes":[{}]}}"#, members.join(","))
}

fn strings(location: &str) -> String {
    format!(
        r#"{{"type":"dynamic-length-array","length-field-location":{location},"element-field-class":{STRING}}}"#
    )
}

fn variant(selector: &str, options: &[(&str, &str)]) -> String {
    let options: Vec<String> = options
        .iter()
        .map(|(ranges, class)| format!(r#"{{"selector-field-ranges":{ranges},"field-class":{class}}}"#))
        .collect();
    format!(
        r#"{{"type":"variant","selector-field-location":{{"path":["{selector}"]}},"options":[{}]}}"#,
        options.join(",")
    )
}

#[test]
fn fields_are_located_from_where_they_are_and_through_options() {
    // Example 88: in the same element of an array.
    let element = structure(&[("n", "\"u8\""), ("s", &strings(r#"{"path":["n"]}"#))]);
    let array = format!(r#"{{"type":"static-length-array","length":2,"element-field-class":{element}}}"#);
    check(
        &[("a", &array)],
        b"\x01x\0\x02y\0z\0",
        r#"{ a = [ [0] = { n = 1, s = [ [0] = "x" ] }, [1] = { n = 2, s = [ [0] = "y", [1] = "z" ] } ] }"#,
    );
    // Two structures further out.
    let inner = structure(&[("s", &strings(r#"{"path":[null,null,"n"]}"#))]);
    let outer = structure(&[("in", &inner)]);
    check(
        &[("n", "\"u8\""), ("out", &outer)],
        b"\x01x\0",
        r#"{ n = 1, out = { in = { s = [ [0] = "x" ] } } }"#,
    );
    // Example 89: the length is a member of the option, whose name stands in no path.
    let option = structure(&[
        ("lemon", "\"u8\""),
        ("s", &strings(r#"{"origin":"event-record-payload","path":["clinic","lemon"]}"#)),
    ]);
    let clinic = variant("lawyer", &[("[[0,0]]", STRING), ("[[1,4]]", &option)]);
    let members = [("lawyer", "\"u8\""), ("clinic", clinic.as_str())];
    check(&members, b"\x03\x01x\0", r#"{ lawyer = 3, clinic = { { lemon = 1, s = [ [0] = "x" ] } } }"#);
    check(&members, b"\x00x\0", r#"{ lawyer = 0, clinic = { "x" } }"#);
    // Example 90: the length is the option.
    let glass =
        variant("sel", &[("[[0,0]]", "\"u8\""), ("[[1,1]]", &bits("unsigned-integer", 16, "big", ""))]);
    let by_glass = strings(r#"{"path":["glass"]}"#);
    let members = [("sel", "\"u8\""), ("glass", glass.as_str()), ("s", by_glass.as_str())];
    check(&members, b"\x00\x01x\0", r#"{ sel = 0, glass = { 1 }, s = [ [0] = "x" ] }"#);
    check(&members, b"\x01\x00\x01x\0", r#"{ sel = 1, glass = { 1 }, s = [ [0] = "x" ] }"#);
    // Example 91: it is a member of whichever option there is, and of a blob in one of them too.
    let first = structure(&[("eagle", "\"u8\""), ("road", STRING)]);
    let blob = r#"{"type":"dynamic-length-blob","media-type":"image/tiff","length-field-location":{"origin":"event-record-payload","path":["glass","eagle"]}}"#;
    let second = structure(&[("eagle", r#"{"type":"variable-length-unsigned-integer"}"#), ("lock", blob)]);
    let glass = variant("sel", &[("[[0,0]]", &first), ("[[5,9]]", &second)]);
    let by_eagle = strings(r#"{"origin":"event-record-payload","path":["glass","eagle"]}"#);
    let members = [("sel", "\"u8\""), ("glass", glass.as_str()), ("s", by_eagle.as_str())];
    check(
        &members,
        b"\x00\x01r\0x\0",
        r#"{ sel = 0, glass = { { eagle = 1, road = "r" } }, s = [ [0] = "x" ] }"#,
    );
    check(
        &members,
        b"\x05\x02\xab\x0cx\0y\0",
        r#"{ sel = 5, glass = { { eagle = 2, lock = { ab 0c } } }, s = [ [0] = "x", [1] = "y" ] }"#,
    );
}

#[test]
fn optional_fields_are_there_by_a_boolean_or_by_ranges() {
    let boolean = bits("boolean", 8, "little", "");
    let by_boolean = format!(
        r#"{{"type":"optional","selector-field-location":{{"path":["has"]}},"field-class":{STRING}}}"#
    );
    let members = [("has", boolean.as_str()), ("s", by_boolean.as_str()), ("end", "\"u8\"")];
    check(&members, b"\x80x\0\x09", r#"{ has = true, s = { "x" }, end = 9 }"#);
    check(&members, b"\x00\x09", "{ has = false, s = <none>, end = 9 }");
    // Example 63: a variant in an optional field, by the same selector.
    let inner =
        variant("sel", &[("[[1,1]]", STRING), ("[[2,2]]", r#"{"type":"variable-length-signed-integer"}"#)]);
    let outer = format!(
        r#"{{"type":"optional","selector-field-location":{{"path":["sel"]}},"selector-field-ranges":[[1,255]],"field-class":{inner}}}"#
    );
    let members = [("sel", "\"u8\""), ("v", outer.as_str()), ("end", "\"u8\"")];
    check(&members, b"\x00\x09", "{ sel = 0, v = <none>, end = 9 }");
    check(&members, b"\x01x\0\x09", r#"{ sel = 1, v = { { "x" } }, end = 9 }"#);
    check(&members, b"\x02\x7f\x09", "{ sel = 2, v = { { -1 } }, end = 9 }");
    check(&members, b"\x03", "stream_0: at byte 0: no option of a variant is chosen by 3");
}

/// Roles of every kind in numbers of variable length, partial times (6.3), packets that say their content's length alone (6.1).
#[test]
fn roles_are_whatever_the_fields_are_called() {
    let role = |name: &str, role: &str| {
        format!(
            r#"{{"name":"{name}","field-class":{{"type":"variable-length-unsigned-integer","roles":["{role}"]}}}}"#
        )
    };
    let header = format!(
        r#"{{"type":"trace-class","packet-header-field-class":{{"type":"structure","member-classes":[
        {{"name":"the magic!","field-class":{{"type":"fixed-length-unsigned-integer","length":32,"byte-order":"big-endian","roles":["packet-magic-number"]}}}},
        {},{}]}}}}"#,
        role("class", "data-stream-class-id"),
        role("stream", "data-stream-id")
    );
    let clock = r#"{"type":"clock-class","id":"k","name":"hot","frequency":1000}"#;
    let stream = format!(
        r#"{{"type":"data-stream-class","id":3,"default-clock-class-id":"k",
        "packet-context-field-class":{{"type":"structure","member-classes":[{},{},{},{},{},{{"name":"user","field-class":{{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"big-endian"}}}}]}},
        "event-record-header-field-class":{{"type":"structure","member-classes":[{},{}]}}}}"#,
        role("begin", "default-clock-timestamp"),
        role("end", "packet-end-default-clock-timestamp"),
        role("length", "packet-content-length"),
        role("number", "packet-sequence-number"),
        role("lost", "discarded-event-record-counter-snapshot"),
        role("which", "event-record-class-id"),
        role("when", "default-clock-timestamp")
    );
    let event = r#"{"type":"event-record-class","data-stream-class-id":3,"id":200,"name":"e","payload-field-class":{"type":"structure","member-classes":[
        {"name":"n","field-class":{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"big-endian"}}]}}"#;
    let metadata = fragments(&[PREAMBLE, &header, clock, &stream, event]);
    let mut bytes = Vec::new();
    for (number, lost, begin) in [(0u8, 0u8, 1000u16), (2, 5, 2000)] {
        let two = |value: u16| [value as u8 | 0x80, (value >> 7) as u8];
        let mut packet = vec![0xc1, 0xfc, 0x1f, 0xc1, 3, 9];
        packet.extend(two(begin));
        packet.extend(two(begin + 300));
        let at = packet.len();
        packet.extend([0x80, 0, number, lost, 77]);
        // 1000 is 7 × 128 + 104: the lowest seven bits of the time are 110, then 2, which is 130 further on.
        let low = begin as u8 & 0x7f;
        packet.extend([0xc8, 1, low + 6, 1]);
        packet.extend([0xc8, 1, 2, 2]);
        packet.extend([0xc8, 1]);
        packet.extend(two(begin + 290));
        packet.push(3);
        let bits = two(packet.len() as u16 * 8);
        packet[at..at + 2].copy_from_slice(&bits);
        bytes.extend(packet);
    }
    let told = read(&metadata, &bytes);
    assert_eq!(
        told[..3],
        ["1006 { user = 77 }, { n = 1 }", "1026 { user = 77 }, { n = 2 }", "1290 { user = 77 }, { n = 3 }"]
    );
    let lost: Vec<&String> = told[3..].iter().filter(|line| line.starts_with("Loss")).collect();
    assert!(
        lost.len() == 2
            && lost[0].contains("Events, count: Some(5)")
            && lost[1].contains("Packets, count: Some(1)"),
        "{told:?}"
    );
    assert_eq!(told.len(), 8, "{told:?}");
}
