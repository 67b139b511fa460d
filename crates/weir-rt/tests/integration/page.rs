//! docs/segment.md says what the code does, and a foreign reader gets back what the controller wrote.

use std::collections::HashMap;

use weir_ebpf::{MapKind, MapSpec};
use weir_rt::abi::{self, control, header, journal, line, meter, reads, stats_page};
use weir_rt::foreign::{self, Corrupt, Owner};
use weir_rt::segment::{Identity, JournalEntry, JournalState, Place, Segment, SegmentKind, SegmentLayout};

const PAGE: &str = include_str!("../../../../docs/segment.md");

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
            LABEL CLAIMS_OFFSET CLAIM_LANES KIND PLACE_MAPS STATS_PAGE_OFFSET STATS_PAGE_LINES STATS_PAGE_LINE_BYTES PLACE_SEGMENT PLACE_GATE PLACE_ISLAND_COUNT PLACE_ISLANDS PLACE_STUBS PLACE_RESTORERS RANDOM CLOCK LEASE SHUT ANNOUNCE FILTER CGROUP FORKED READS_ALWAYS READS_NEVER READS_STATE READS_AREA COUNTERS PROBE_WORDS),
    );
}

#[test]
fn the_page_describes_a_journal_entry() {
    check("Journal entry", named!(journal: ADDRESS LEN STATE OLD NEW CHECK));
}

#[test]
fn the_page_describes_a_meter() {
    check("Meter", named!(meter: HOW UNTIL HITS TURNS TAKEN TIMED TICKS));
}

#[test]
fn the_page_describes_a_stats_page() {
    check("Stats page", named!(stats_page: SEQUENCE WRITTEN_NS CPU RECORDS_LOST LINES));
    check(
        "Line of the stats page",
        named!(line: NAME_BYTES ONE_IN RATE TIME COST HITS HITS_ABOUT MISSED MISSED_ABOUT ARMED SAMPLED SHUT WITHDRAWN NAME),
    );
}

#[test]
fn the_page_describes_what_is_known_of_memory() {
    check("Known memory", named!(reads: MISSED WHY HINTS KEYS CALL_RANGES TABLES));
}

#[test]
fn the_page_describes_the_control_block() {
    check(
        "Map area",
        named!(control: FREE_OR_PRODUCER SPARE_OR_CONSUMER TOP_PLACE OVERWRITTEN FRESH WRITER FRESH_SPARE TAIL CHANGES HAND FULL CONTENDED DROPPED CORRUPT EVICTED WITHHELD OUTGROWN WAITED),
    );
    assert_eq!(abi::ABI_VERSION, 5, "the page says so");
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
    let layout = SegmentLayout::plan(&[ring], 2).expect("within bounds");
    Segment::create_maps(layout, &identity()).expect("a memfd")
}

/// A target's own.
fn control() -> Segment {
    let layout = SegmentLayout::of_target(4, 2).expect("within bounds");
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
    let control = control();
    let (segment_address, maps_address, gate_address) = (0x7000, 0x7800, 0x8000);
    let place = Place {
        segment_address,
        maps_address,
        gate_address,
        islands: vec![(1, 2), (3, 4)],
        stubs: [5, 6, 7, 8],
        restorers: [9, 10],
    };
    control.set_place(&place);
    let read = foreign::parse_header(&bytes(&control)).expect("our own");
    assert_eq!((read.kind, read.identity, read.place), (SegmentKind::Target, identity(), place));
    assert_eq!(read.layout_hash, control.layout().hash);
    assert_eq!((read.segment_bytes, read.map_count), (control.layout().bytes, 0));
    assert_eq!((read.journal_offset, read.journal_capacity), (control.layout().journal_offset, 4));
    assert_eq!((read.stats_page_offset, read.stats_page_lines), (control.layout().stats_page_offset, 2));
    let maps = segment();
    let read = foreign::parse_header(&bytes(&maps)).expect("our own");
    assert_eq!((read.kind, read.segment_bytes), (SegmentKind::Maps, maps.layout().bytes));
    assert_eq!((read.map_count, read.cpus, read.journal_capacity), (1, 2, 0));
}

#[test]
fn of_another_version_nothing_is_read_but_who_traces_whom() {
    for version in [0, 1, abi::ABI_VERSION + 1, u32::MAX] {
        let mut bytes = bytes(&control());
        bytes[header::ABI_VERSION..header::ABI_VERSION + 4].copy_from_slice(&version.to_le_bytes());
        let owner = Owner { controller_pid: 11, controller_start: 12, target_pid: 15 };
        assert_eq!(foreign::parse_header(&bytes), Err(Corrupt::Version { version, owner }));
    }
}

#[test]
fn a_segment_of_no_kind_is_corrupt() {
    let mut bytes = bytes(&control());
    bytes[header::KIND] = 3;
    assert_eq!(foreign::parse_header(&bytes), Err(Corrupt::Field { what: "the kind", value: 3 }));
}

#[test]
fn a_long_label_is_cut_at_a_character() {
    let layout = SegmentLayout::plan(&[], 1).expect("within bounds");
    let identity = Identity { label: "ä".repeat(60), ..identity() };
    let segment = Segment::create_local(layout, &identity).expect("a memfd");
    assert_eq!(foreign::parse_header(&bytes(&segment)).expect("our own").identity.label, "ä".repeat(47));
}

#[test]
fn a_journal_is_read_back_and_spoiled_entries_are_left_out() {
    let segment = control();
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
        is_own: false,
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
    let segment = control();
    let journal = segment.journal();
    journal.push(0x1000, &[1, 2], &[3, 4]).expect("room");
    let index = journal.push_counter(0x1000, 0xffff, 0).expect("room");
    journal.set_state(index, JournalState::Applied);
    let entries = journal.entries();
    assert_eq!(entries.iter().map(|entry| entry.is_counter).collect::<Vec<_>>(), [false, true]);
    let counter = &entries[1];
    assert_eq!((counter.len, counter.state), (2, JournalState::Applied));
    assert_eq!((counter.old.as_slice(), counter.new.as_slice()), (&[0xff, 0xff][..], &[0, 0][..]));
    journal.set_state(0, JournalState::Undone);
    journal.replace_counter(0, 0x2000, 7, 8);
    let again = &journal.entries()[0];
    assert!(again.is_counter && again.address == 0x2000 && again.new == [8, 0]);
}

#[test]
fn a_hook_of_weir_s_own_is_told_from_probes() {
    let segment = control();
    let journal = segment.journal();
    journal.push(0x1000, &[1; 5], &[2; 5]).expect("room");
    let index = journal.push_own(0x2000, &[1; 5], &[2; 5]).expect("room");
    journal.set_state(index, JournalState::Applied);
    let told = || {
        let entries = journal.entries();
        entries.iter().map(|entry| (entry.address, entry.is_own, entry.is_counter)).collect::<Vec<_>>()
    };
    assert_eq!(told(), [(0x1000, false, false), (0x2000, true, false)]);
    assert_eq!((journal.entries()[1].len, journal.entries()[1].state), (5, JournalState::Applied));
    journal.set_state(0, JournalState::Undone);
    journal.replace_own(0, 0x3000, &[3; 2], &[4; 2]);
    assert_eq!(told(), [(0x3000, true, false), (0x2000, true, false)]);
    // An entry is a counter's or a hook's.
    let mut spoiled = bytes(&segment);
    spoiled[segment.layout().journal_offset as usize + 9] |= 1;
    let start = segment.layout().journal_offset as usize;
    let parsed = foreign::parse_journal(&spoiled[start..start + 2 * foreign::JOURNAL_ENTRY_BYTES]);
    assert_eq!(parsed.iter().map(|entry| entry.address).collect::<Vec<_>>(), [0x2000]);
}

#[test]
fn any_bytes_give_a_header_or_an_error() {
    for good in [bytes(&segment()), bytes(&control())] {
        any_of(&good);
    }
}

fn any_of(good: &[u8]) {
    assert_eq!(foreign::parse_header(&good[..4095]), Err(Corrupt::Short { bytes: 4095 }));
    assert_eq!(foreign::parse_header(&[0; 4096]), Err(Corrupt::Magic { magic: 0 }));
    let mut random = 88172645463325252u64;
    for _ in 0..20_000 {
        let mut bytes = good.to_vec();
        for _ in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            bytes[8 + (random % 600) as usize] = (random >> 32) as u8;
        }
        if let Ok(header) = foreign::parse_header(&bytes) {
            let end = header.journal_offset + u64::from(header.journal_capacity) * 64;
            assert!(end <= header.segment_bytes && header.place.islands.len() <= 16);
            let end = header.stats_page_offset.saturating_add(header.stats_page_bytes());
            assert!(header.stats_page_lines == 0 || end <= header.segment_bytes);
            assert!(header.stats_page_lines <= 256);
        }
        foreign::parse_journal(&bytes);
        foreign::parse_stats_page(&bytes);
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
