//! Both styles of plans on the same bytes, and traces that are damaged: nothing panics, and what is read is the same.

use std::time::Duration;

use testkit::random::{self, Cases, Daily};

use crate::class::{Scope, TraceClass};
use crate::read::folder;
use crate::read::merge::{Message, Reader};
use crate::read::plan::Style;

/// Fields of every class, at every kind of alignment.
const TYPES: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := uint8_t;
typealias integer { size = 32; align = 32; } := uint32_t;
typealias integer { size = 64; align = 64; } := uint64_t;
typealias integer { size = 16; align = 8; signed = true; } := packed16;
typealias integer { size = 32; align = 8; byte_order = be; signed = 1; base = x; } := be32;
typealias integer { size = 3; } := bits3;
typealias integer { size = 13; signed = true; } := bits13;
trace {
    major = 1; minor = 8; byte_order = le;
    packet.header := struct { uint32_t magic; uint8_t stream_id; };
};
clock { name = c; freq = 1000000000; offset_s = 5; };
stream {
    id = 0;
    packet.context := struct {
        integer { size = 64; map = clock.c.value; } timestamp_begin;
        integer { size = 64; map = clock.c.value; } timestamp_end;
        uint32_t content_size; uint32_t packet_size; uint8_t events_discarded; uint8_t cpu_id;
    };
    event.header := struct {
        enum : integer { size = 5; } { compact = 0 ... 30, extended } id;
        variant <id> {
            struct { integer { size = 27; map = clock.c.value; } timestamp; } compact;
            struct { uint32_t id; integer { size = 64; map = clock.c.value; } timestamp; } extended;
        } v;
    } align(8);
    event.context := struct { uint8_t _flags; };
};
"#;

/// Payloads of events.
const PAYLOADS: [(&str, &str); 4] = [
    (
        "numbers",
        "uint8_t a; uint32_t b; packed16 c; be32 d; uint64_t e; bits3 f; bits13 g; uint8_t h; bits3 i;
         floating_point { exp_dig = 8; mant_dig = 24; align = 32; } j;
         floating_point { exp_dig = 11; mant_dig = 53; byte_order = be; align = 8; } k;",
    ),
    (
        "texts",
        "string s; integer { size = 8; encoding = UTF8; } t[5]; bits3 _n; bits3 u[_n];
         packed16 v[_n]; struct { bits3 n; bits3 w[n]; string x; } y[2];
         enum : bits13 { LOW = -4096 ... -1, HIGH = 0 ... 4095 } e;
         variant <e> { uint32_t LOW; struct { } HIGH; } z; uint8_t end;",
    ),
    (
        "of_header",
        "bits3 n; uint32_t a[stream.event.context._flags]; struct { bits3 b; } c[n][2]; be32 d[n]; string e[2];",
    ),
    ("nothing", ""),
];

/// With events of each payload, for all short numbers and one that is longer.
fn metadata() -> String {
    let event = |id: usize| {
        let (name, fields) = PAYLOADS[id % PAYLOADS.len()];
        format!("event {{ name = {name}; id = {id}; fields := struct {{ {fields} }}; }};\n")
    };
    TYPES.to_owned() + &(0..31).chain([0x0101_0101]).map(event).collect::<String>()
}

/// Everything that a reader says, as text.
fn told(mut reader: Reader) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(message) = reader.next() {
        told.push(match message {
            Message::Event(event) => {
                let scopes =
                    [Scope::PacketContext, Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
                let values: Vec<_> = scopes.iter().map(|scope| event.scope(*scope)).collect();
                format!("{:?} {:?} {:?}", event.class.name, event.ns, values)
            }
            Message::Lost(loss, info) => format!("{loss:?} {}", info.id),
            Message::Damage(error) => error.to_string(),
        });
    }
    told
}

fn both(metadata: &str, stream: &[u8]) -> Vec<String> {
    let [fast, slow] = [Style::Fast, Style::Bitwise].map(|style| {
        let trace = folder::of_memory(metadata.as_bytes(), vec![stream.to_vec()], style);
        told(Reader::of(vec![trace.unwrap_or_else(|error| panic!("{error}"))]))
    });
    assert_eq!(fast, slow);
    fast
}

/// Events that are discarded before each of two packets, of counters of so many bits in three.
#[track_caller]
fn check_discarded(bits: u32, counters: [u64; 3], wanted: [Option<u64>; 2]) {
    let metadata = format!(
        "/* CTF 1.8 */ typealias integer {{ size = 32; align = 32; }} := uint32_t;
         trace {{ major = 1; minor = 8; byte_order = le; packet.header := struct {{ uint32_t magic; }}; }};
         stream {{
             packet.context := struct {{
                 uint32_t content_size; uint32_t packet_size; integer {{ size = {bits}; align = 64; }} events_discarded;
             }};
             event.header := struct {{ uint32_t id; }};
         }};
         event {{ name = e; id = 0; fields := struct {{ }}; }};"
    );
    let packet = |counter: u64| {
        let words = [0xc1fc_1fc1_u32, 0, 192, 192].map(u32::to_le_bytes).concat();
        [words, counter.to_le_bytes().to_vec()].concat()
    };
    let mut lost = both(&metadata, &counters.map(packet).concat());
    lost.retain(|told| told.starts_with("Loss"));
    let of_wanted = wanted.into_iter().flatten().map(|count| format!("count: Some({count})"));
    let of_wanted: Vec<String> = of_wanted.collect();
    assert_eq!(lost.len(), 1 + of_wanted.len(), "{lost:?}");
    assert!(lost[1..].iter().zip(&of_wanted).all(|(lost, wanted)| lost.contains(wanted)), "{lost:?}");
}

#[test]
fn counters_of_discarded_events_wrap_or_go_back() {
    check_discarded(64, [10, 14, 15], [Some(4), Some(1)]);
    check_discarded(64, [10, 4, 12], [None, Some(2)]);
    check_discarded(8, [250, 4, 5], [Some(10), Some(1)]);
}

/// A packet whose events are any bytes.
fn packet(state: &mut u64, content: usize, padding: usize) -> Vec<u8> {
    let mut bytes = vec![0xc1, 0x1f, 0xfc, 0xc1, 0, 0, 0, 0];
    let begin = random::next(state) >> 8;
    bytes.extend(begin.to_le_bytes());
    bytes.extend((begin + (1 << 30)).to_le_bytes());
    bytes.extend((content as u32 * 8).to_le_bytes());
    bytes.extend(((content + padding) as u32 * 8).to_le_bytes());
    bytes.extend([3, 1]);
    // Bits are rather 0, so that lengths are short and texts end.
    let mut byte = || random::next(state) as u8 & random::next(state) as u8;
    bytes.extend((bytes.len()..content).map(|_| byte()));
    bytes.truncate(content);
    bytes.resize(content + padding, 0);
    bytes
}

/// Without events.
fn empty_packet(begin: u64, end: u64) -> Vec<u8> {
    let mut bytes = packet(&mut 1, 34, 0);
    bytes[8..16].copy_from_slice(&begin.to_le_bytes());
    bytes[16..24].copy_from_slice(&end.to_le_bytes());
    // Nothing is discarded.
    bytes[32] = 0;
    bytes
}

#[test]
fn packets_with_impossible_times_are_damage() {
    let check = |packets: &[(u64, u64)], wanted: &[&str]| {
        let stream: Vec<u8> = packets.iter().flat_map(|&(begin, end)| empty_packet(begin, end)).collect();
        let told = both(&metadata(), &stream);
        assert_eq!(told.len(), wanted.len(), "{told:?}");
        assert!(told.iter().zip(wanted).all(|(told, wanted)| told.contains(wanted)), "{told:?}");
    };
    check(&[(5, 9), (9, 9), (12, 20)], &[]);
    check(&[(5, 4)], &["at byte 0: a packet that ends at 4, before it begins at 5"]);
    let overlap = "at byte 34: a packet that begins at 8, before the one before it ends at 9";
    check(&[(5, 9), (8, 12)], &[overlap]);
    // A tracer that crashed has not written when its last packet ended.
    check(&[(5, 9), (12, 0)], &[]);
}

#[test]
fn fast_and_bitwise_plans_read_the_same() {
    let metadata = metadata();
    let daily = Daily { seed: 20_250_715, at_least: 60, at_most: 600, budget: Duration::from_secs(2) };
    let mut cases = Cases::of("WEIR_PLANS", daily);
    let mut state = cases.seed();
    let (mut events, mut kinds) = (0, [0; 4]);
    for round in cases.by_ref() {
        let length = 60 + (random::next(&mut state) % 400) as usize;
        let stream = packet(&mut state, length, round as usize % 5);
        for line in both(&metadata, &stream) {
            events += u64::from(line.starts_with("Some"));
            for (kind, (name, _)) in PAYLOADS.iter().enumerate() {
                kinds[kind] += u64::from(line.starts_with(&format!("Some(\"{name}")));
            }
        }
    }
    let given = cases.given();
    assert!(
        2 * events > 5 * given && kinds.iter().all(|count| 6 * count > given),
        "{events} events: {kinds:?}"
    );
}

/// Whatever metadata becomes by a few wrong bytes, it is read or refused.
#[test]
fn damaged_metadata_is_refused_or_read() {
    let sound = metadata();
    let mut state = 99;
    let stream = packet(&mut state, 300, 0);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..1500 {
        let mut metadata = sound.as_bytes().to_vec();
        for _ in 0..1 + random::next(&mut state) % 3 {
            let at = (random::next(&mut state) % metadata.len() as u64) as usize;
            match random::next(&mut state) % 4 {
                0 => drop(metadata.remove(at)),
                1 => metadata[at] = b"{}[];:=<>.,0189\"_ax"[(random::next(&mut state) % 19) as usize],
                2 => metadata[at] ^= 1 << (random::next(&mut state) % 7),
                _ => metadata.truncate(metadata.len() - at % 40),
            }
        }
        match Reader::of_memory(&metadata, vec![stream.clone()]) {
            Ok(reader) => {
                read += 1;
                told(reader);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(read > 100 && refused > 500, "{read} read, {refused} refused");
}

fn class(fields: &str) -> Result<TraceClass, String> {
    let text = format!(
        "typealias integer {{ size = 8; }} := u8; typealias integer {{ size = 8; signed = 1; }} := i8;
         trace {{ byte_order = le; }}; stream {{ }}; event {{ fields := {fields}; }};"
    );
    super::metadata::parse("metadata".as_ref(), text.as_bytes()).map_err(|error| error.to_string())
}

#[track_caller]
fn check_refused(fields: &str, expected: &str) {
    let error = class(fields).expect_err(fields);
    assert!(error.contains(expected) && error.starts_with("metadata:"), "{fields}: {error}");
}

#[test]
fn types_that_cannot_be_are_refused_with_their_place() {
    check_refused("struct { u8 a; u8 a; }", "two members a");
    check_refused("struct { u8 s[n]; u8 n; }", "no field n is before");
    check_refused("struct { i8 n; u8 s[n]; }", "no unsigned integer");
    check_refused("struct { u8 n; variant <n> { u8 a; } v; }", "no enumeration");
    check_refused("struct { variant { u8 a; } v; }", "without a tag");
    check_refused("struct { u8 a : 3; }", "bit-fields of C are not read");
    check_refused("struct { u8 *a; }", "pointers are no fields");
    check_refused("struct { nosuch a; }", "no type is called nosuch");
    check_refused("struct { integer { size = 65; } a; }", "65 bits");
    check_refused("struct { integer { size = 8; align = 3; } a; }", "3 is no alignment");
    check_refused("struct { integer { size = 8; map = clock.c.value; } a; }", "no clock is called c");
    check_refused("struct { floating_point { exp_dig = 5; mant_dig = 11; } a; }", "8 and 24, or 11 and 53");
    check_refused("struct { enum : u8 { A = 3 ... 1 } a; }", "ends before it begins");
    check_refused("u8", "is no struct");
    check_refused("struct { u8 a", "a name is expected here, not the end");
    let deep = "struct { ".repeat(40) + "u8 a;" + &" } b; ".repeat(39) + "}";
    check_refused(&deep, "more than 32 deep");
}

#[test]
fn types_by_name_multiply_no_further_than_the_limit() {
    let mut text = "trace { byte_order = le; }; struct s0 { integer { size = 8; } a; };".to_owned();
    for level in 1..28 {
        let below = format!("struct s{}", level - 1);
        text += &format!("struct s{level} {{ {below} a; {below} b; {below} c; {below} d; }};");
    }
    text += "event { fields := struct s27; };";
    let error = super::metadata::parse("metadata".as_ref(), text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("more than 262144 fields"), "{error}");
}

#[test]
fn a_packet_that_never_ends_is_damage() {
    // An event without a bit.
    let nothing = "/* CTF 1.8 */ trace { byte_order = le; }; stream { }; event { name = e; };";
    let damage = both(nothing, &[0; 8]);
    assert_eq!(damage, ["stream_0: at byte 0: an event without a bit, of which there would be no end"]);
    // Elements without a bit.
    let elements = "trace { byte_order = le; }; stream { }; event { fields := struct {
        integer { size = 64; } n; struct { } a[n]; }; };";
    let damage = both(elements, &10_000u64.to_le_bytes());
    assert_eq!(damage, ["stream_0: at byte 0: more than 4096 elements without a bit in one event"]);
    let damage = both(elements, &[0xff; 8]);
    assert_eq!(damage, ["stream_0: at byte 0: more than 1048576 values in one event"]);
}

#[test]
fn an_event_may_be_larger_than_what_is_held() {
    let metadata = "trace { byte_order = le; }; stream { }; event { name = e; fields := struct {
        integer { size = 32; } n; integer { size = 16; align = 16; } a[n]; string s; }; };";
    let mut stream = Vec::new();
    for count in [3u32, 200_000, 1, 70_000, 400_000] {
        stream.resize(stream.len().next_multiple_of(2), 0);
        stream.extend(count.to_le_bytes());
        stream.extend((0..count).flat_map(|element| (element as u16).to_le_bytes()));
        stream.extend(vec![b'x'; count as usize / 3]);
        stream.push(0);
    }
    let lines = both(metadata, &stream);
    assert_eq!(lines.len(), 5, "{:?}", lines.iter().map(String::len).collect::<Vec<_>>());
}
