//! docs/segment.md says what the code does, and a foreign reader gets back what the controller wrote.

use std::collections::HashMap;

use weir_ebpf::{MapKind, MapSpec};
use weir_rt::abi::{self, control, header, journal};
use weir_rt::foreign::{self, Corrupt};
use weir_rt::segment::{Identity, JournalEntry, JournalState, Place, Segment, SegmentLayout};

const PAGE: &str = include_str!("../../../docs/segment.md");

/// The rows `| offset | … | NAME | …` under the heading that starts with `title`.
fn rows(title: &str) -> HashMap<String, u64> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(title)).expect("the heading");
    let rows = section.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let offset = cells.get(1)?.parse().ok()?;
        let is_name =
            |cell: &&&str| !cell.is_empty() && cell.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        Some((cells.iter().skip(2).find(is_name)?.to_string(), offset))
    });
    rows.collect()
}

fn check(title: &str, constants: &[(&str, u64)]) {
    let expected: HashMap<String, u64> = constants.iter().map(|(name, at)| (name.to_string(), *at)).collect();
    assert_eq!(rows(title), expected, "{title}");
}

macro_rules! named {
    ($module:ident: $($name:ident)*) => { &[$((stringify!($name), $module::$name as u64)),*] };
}

#[test]
fn the_page_describes_the_header() {
    check(
        "Header",
        named!(header: MAGIC ABI_VERSION HEADER_BYTES SESSION LAYOUT_HASH SEGMENT_BYTES MAP_COUNT CPUS JOURNAL_OFFSET
            JOURNAL_CAPACITY JOURNAL_ENTRY_BYTES CONTROLLER_PID UID CONTROLLER_START STARTED_NS TARGET_PID LABEL_BYTES
            LABEL CLAIMS_OFFSET CLAIM_LANES PLACE_SEGMENT PLACE_GATE PLACE_ISLAND_COUNT PLACE_ISLANDS RANDOM CLOCK COUNTERS PROBE_WORDS),
    );
}

#[test]
fn the_page_describes_a_journal_entry() {
    check("Journal entry", named!(journal: ADDRESS LEN STATE OLD NEW CHECK));
}

#[test]
fn the_page_describes_the_control_block() {
    check(
        "Map area",
        named!(control: FREE_OR_PRODUCER SPARE_OR_CONSUMER TOP_PLACE FRESH FRESH_SPARE TAIL CHANGES HAND FULL CONTENDED DROPPED CORRUPT EVICTED),
    );
    assert_eq!(abi::ABI_VERSION, 1, "the page says so");
}

fn identity() -> Identity {
    Identity {
        session: 0x1234_5678_9abc_def0,
        controller_pid: 11,
        controller_start: 12,
        uid: 13,
        started_ns: 14,
        target_pid: 15,
        label: "uprobe:libc:malloc { @ = count() }".into(),
    }
}

fn segment() -> Segment {
    let ring = MapSpec::new("r", MapKind::RingBuf, 0, 0, 8192);
    let layout = SegmentLayout::plan(&[ring], 2, 4).expect("within bounds");
    Segment::create_local(layout, &identity()).expect("a memfd")
}

/// The first bytes of the segment, read as another process would: from its file.
fn bytes(segment: &Segment) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::from(segment.fd().try_clone_to_owned().expect("dup"));
    let mut bytes = vec![0; segment.layout().bytes as usize];
    file.read_exact_at(&mut bytes, 0).expect("pread");
    bytes
}

#[test]
fn a_header_is_read_back() {
    let segment = segment();
    let place = Place { segment_address: 0x7000, gate_address: 0x8000, islands: vec![(1, 2), (3, 4)] };
    segment.set_place(&place);
    let read = foreign::parse_header(&bytes(&segment)).expect("our own");
    assert_eq!((read.identity, read.place), (identity(), place));
    assert_eq!(read.layout_hash, segment.layout().hash);
    assert_eq!((read.segment_bytes, read.map_count, read.cpus), (segment.layout().bytes, 1, 2));
    assert_eq!((read.journal_offset, read.journal_capacity), (segment.layout().journal_offset, 4));
}

#[test]
fn a_long_label_is_cut_at_a_character() {
    let layout = SegmentLayout::plan(&[], 1, 0).expect("within bounds");
    let identity = Identity { label: "ä".repeat(60), ..identity() };
    let segment = Segment::create_local(layout, &identity).expect("a memfd");
    assert_eq!(foreign::parse_header(&bytes(&segment)).expect("our own").identity.label, "ä".repeat(47));
}

#[test]
fn a_journal_is_read_back_and_spoiled_entries_are_left_out() {
    let segment = segment();
    let journal = segment.journal();
    let index = journal.push(0x1000, &[1, 2, 3, 4, 5], &[6, 7, 8, 9, 10]).expect("room");
    journal.push(0x2000, &[1; 16], &[2; 16]).expect("room");
    journal.set_state(index, JournalState::Applied);
    let parse = |bytes: &[u8]| {
        let start = segment.layout().journal_offset as usize;
        foreign::parse_journal(&bytes[start..start + 4 * foreign::JOURNAL_ENTRY_BYTES])
    };
    let first = JournalEntry {
        address: 0x1000,
        len: 5,
        state: JournalState::Applied,
        old: vec![1, 2, 3, 4, 5],
        new: vec![6, 7, 8, 9, 10],
        is_counter: false,
    };
    let read = parse(&bytes(&segment));
    assert_eq!(read, journal.entries());
    assert_eq!((read.len(), &read[0], read[1].state), (2, &first, JournalState::Planned));
    let mut spoiled = bytes(&segment);
    spoiled[segment.layout().journal_offset as usize + 64 + 20] ^= 1;
    assert_eq!(parse(&spoiled), [first]);
    journal.push(0x3000, &[1], &[2]).expect("room");
    journal.push(0x4000, &[1], &[2]).expect("room");
    assert_eq!(journal.push(0x5000, &[1], &[2]).map_err(|full| full.capacity), Err(4));
}

#[test]
fn a_counter_is_told_from_text() {
    let segment = segment();
    let journal = segment.journal();
    journal.push(0x1000, &[1, 2], &[3, 4]).expect("room");
    let index = journal.push_counter(0x1000, 0xffff, 0).expect("room");
    journal.set_state(index, JournalState::Applied);
    let entries = journal.entries();
    assert_eq!(entries.iter().map(|entry| entry.is_counter).collect::<Vec<_>>(), [false, true]);
    let counter = &entries[1];
    assert_eq!((counter.len, counter.state), (2, JournalState::Applied));
    assert_eq!((counter.old.as_slice(), counter.new.as_slice()), (&[0xff, 0xff][..], &[0, 0][..]));
}

#[test]
fn any_bytes_give_a_header_or_an_error() {
    let good = bytes(&segment());
    assert_eq!(foreign::parse_header(&good[..4095]), Err(Corrupt::Short { bytes: 4095 }));
    assert_eq!(foreign::parse_header(&[0; 4096]), Err(Corrupt::Magic { magic: 0 }));
    let mut random = 88172645463325252u64;
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            bytes[8 + (random % 600) as usize] = (random >> 32) as u8;
        }
        if let Ok(header) = foreign::parse_header(&bytes) {
            let end = header.journal_offset + u64::from(header.journal_capacity) * 64;
            assert!(end <= header.segment_bytes && header.place.islands.len() <= 16);
        }
        foreign::parse_journal(&bytes);
    }
}

#[test]
fn the_segment_cannot_be_resized() {
    let segment = segment();
    let file = std::fs::File::from(segment.fd().try_clone_to_owned().expect("dup"));
    for bytes in [0, segment.layout().bytes - 4096, segment.layout().bytes + 4096] {
        assert!(file.set_len(bytes).is_err(), "{bytes}");
    }
}
