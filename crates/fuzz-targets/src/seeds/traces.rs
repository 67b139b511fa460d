//! Seeds of traces: metadata of both formats, each with a stream; and metadata of CTF 2 without its preamble, which the target adds.

use weir_event::schema::{Field, Form, Schema, Type};
use weir_trace::class::{ClockClass, TraceClass};
use weir_trace::write::{self, Format, layout, packet};

use crate::seeds::{Seed, seed};

/// Types by name, bits, and variants, which weir itself does not write.
const BY_HAND: &str = "/* CTF 1.8 */ typealias integer { size = 3; } := u3; typedef u3 pair[2];
trace { byte_order = be; packet.header := struct { integer { size = 32; } magic; }; };
stream { packet.context := struct { integer { size = 16; } content_size; }; };
event { name = e; fields := struct { u3 n; enum : u3 { A, B = 1 ... 7 } t; variant <t> { string A; pair B; } v; u3 s[n]; }; };";

/// Each class of fields that only CTF 2 has, with what it refers to.
const ONLY_IN_CTF_2: &str = r#"{"type":"field-class-alias","name":"u","field-class":{"type":"variable-length-unsigned-integer"}}
{"type":"clock-class","id":"c","frequency":10}
{"type":"data-stream-class","default-clock-class-id":"c","packet-context-field-class":{"type":"structure","member-classes":[
{"name":"l","field-class":{"type":"variable-length-unsigned-integer","roles":["packet-content-length"]}}]},
"event-record-header-field-class":{"type":"structure","member-classes":[
{"name":"t","field-class":{"type":"variable-length-unsigned-integer","roles":["default-clock-timestamp"]}}]}}
{"type":"event-record-class","name":"e","payload-field-class":{"type":"structure","minimum-alignment":8,"member-classes":[
{"name":"b","field-class":{"type":"fixed-length-boolean","length":3,"byte-order":"big-endian"}},
{"name":"m","field-class":{"type":"fixed-length-bit-map","length":5,"byte-order":"big-endian","bit-order":"first-to-last","flags":{"x":[[0,1],[4,4]]}}},
{"name":"n","field-class":"u"},
{"name":"o","field-class":{"type":"optional","selector-field-location":{"path":["b"]},"field-class":{"type":"variable-length-signed-integer","mappings":{"z":[[-4,4]]}}}},
{"name":"v","field-class":{"type":"variant","selector-field-location":{"path":["n"]},"options":[
{"selector-field-ranges":[[0,1]],"field-class":{"type":"structure","member-classes":[{"name":"i","field-class":"u"}]}},
{"name":"w","selector-field-ranges":[[2,9]],"field-class":{"type":"structure","member-classes":[{"name":"i","field-class":"u"},{"name":"f","field-class":{"type":"fixed-length-floating-point-number","length":16,"byte-order":"little-endian"}}]}}]}},
{"name":"s","field-class":{"type":"dynamic-length-string","encoding":"utf-16le","length-field-location":{"origin":"event-record-payload","path":["v","i"]}}},
{"name":"a","field-class":{"type":"static-length-array","length":2,"minimum-alignment":16,"element-field-class":{"type":"null-terminated-string","encoding":"utf-32be"}}},
{"name":"d","field-class":{"type":"dynamic-length-blob","length-field-location":{"path":["n"]}}}]}}"#;

fn class() -> TraceClass {
    let int = || Type::Int { bytes: 2, signed: true };
    let field = |name: &str, ty| Field { name: name.to_owned(), ty, slot: 0, form: Form::Decimal };
    let schema = Schema {
        provider: "a".to_owned(),
        event: "b".to_owned(),
        level: None,
        fields: vec![
            field("i", int()),
            field("s", Type::Text),
            field("q", Type::Sequence { element: Box::new(int()) }),
            field("t", Type::Struct { fields: vec![("f".to_owned(), 0, Type::Float { bytes: 4 })] }),
        ],
    };
    let mut stream = layout::stream(0, vec![layout::integer("vtid", 32, true)]);
    stream.events.push(layout::event(1, &schema));
    let mut class = layout::trace([1; 16], ClockClass::default(), Vec::new());
    class.streams.push(stream);
    class
}

fn stream() -> Vec<u8> {
    let mut bytes = Vec::new();
    for sequence in [0, 2] {
        let time = sequence * 5_000_000_000;
        packet::begin(&packet::Begin { uuid: [1; 16], class: 0, id: 0, cpu: 0, sequence, time }, &mut bytes);
        let begin = bytes.len() - packet::CONTEXT_BYTES;
        for round in 0..4 {
            packet::record_header(1, time + round, time, &mut bytes);
            bytes.extend([7, 0, 0, 0, 2, 0, b'x', 0, 1, 0, 0, 0, 9, 0, 0, 0, 128, 63]);
        }
        let packet_bytes = (bytes.len() - begin) as u64;
        packet::end(&packet::End { time: time + 4, discarded: sequence, packet_bytes }, &mut bytes[begin..]);
    }
    bytes
}

pub(crate) fn seeds() -> Vec<Seed> {
    let described = |format| write::metadata(&class(), format).unwrap_or_else(|error| panic!("{error}"));
    let by_hand = [0xc1, 0xfc, 0x1f, 0xc1, 0, 96, 0b0100_0001, b'y', 0, 0b0100_1011, 0x55, 0x55];
    let fragment =
        |line: &str| if line.starts_with("{\"type\"") { format!("\u{1e}{line}\n") } else { line.to_owned() };
    let only: String = ONLY_IN_CTF_2.lines().map(fragment).collect();
    let own = described(Format::Ctf2);
    let without = own.iter().skip(1).position(|byte| *byte == 0x1e).map_or(&own[..], |end| &own[end + 1..]);
    let events = [
        &[0xd8, 2, 5, 0, 0x50, 2, 3, 4, 0, 0x3c, b'a', 0, 0, 0, 0, 0, 0, b'b', 0, 0, 0, 0, 0, 0, 0, 0, 7, 8]
            [..],
        &[6, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
    ]
    .concat();
    let ctf1 = described(Format::Ctf1);
    let seeds = [
        ("trace", "ctf1", &ctf1[..], stream()),
        ("trace", "ctf2", &own, stream()),
        ("trace", "by-hand", BY_HAND.as_bytes(), by_hand.to_vec()),
        ("ctf2", "own", without, stream()),
        ("ctf2", "only", only.as_bytes(), events),
    ];
    let of = |(target, name, metadata, stream): (&'static str, &str, &[u8], Vec<u8>)| {
        let length = u16::try_from(metadata.len()).expect("a short text").to_le_bytes();
        seed(target, name, [&length[..], metadata, &stream].concat())
    };
    seeds.into_iter().map(of).collect()
}
