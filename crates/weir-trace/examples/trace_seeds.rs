//! Writes seeds for the fuzz target of traces: `trace_seeds FOLDER` fills FOLDER/trace with metadata of both formats, each with a stream.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use weir_event::schema::{Field, Form, Schema, Type};
use weir_trace::class::{ClockClass, TraceClass};
use weir_trace::write::{self, Format, layout, packet};

/// Types by name, bits, and variants, which weir itself does not write.
const BY_HAND: &str = "/* CTF 1.8 */ typealias integer { size = 3; } := u3; typedef u3 pair[2];
trace { byte_order = be; packet.header := struct { integer { size = 32; } magic; }; };
stream { packet.context := struct { integer { size = 16; } content_size; }; };
event { name = e; fields := struct { u3 n; enum : u3 { A, B = 1 ... 7 } t; variant <t> { string A; pair B; } v; u3 s[n]; }; };";

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

fn main() {
    let folder =
        std::env::args_os().nth(1).map(PathBuf::from).expect("usage: trace_seeds FOLDER").join("trace");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let described = |format| write::metadata(&class(), format).unwrap_or_else(|error| panic!("{error}"));
    let by_hand = [0xc1, 0xfc, 0x1f, 0xc1, 0, 96, 0b0100_0001, b'y', 0, 0b0100_1011, 0x55, 0x55];
    let seeds = [
        ("ctf1", described(Format::Ctf1), stream()),
        ("ctf2", described(Format::Ctf2), stream()),
        ("by-hand", BY_HAND.as_bytes().to_vec(), by_hand.to_vec()),
    ];
    for (name, metadata, stream) in seeds {
        let length = u16::try_from(metadata.len()).expect("a short text").to_le_bytes();
        let path = folder.join(name);
        let bytes = [&length[..], &metadata, &stream].concat();
        std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
