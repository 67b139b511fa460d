//! StatsPages: what is put up is read back, whole or not at all, and any bytes at all are read without harm.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::Random;
use crate::abi::{self, line};
use crate::foreign;
use crate::limits::{STATS_PAGE_LINES_MAX, STATS_PAGE_NAME_BYTES_MAX};
use crate::segment::{Identity, Segment, SegmentLayout, StatsPage, StatsPageLine};

fn segment(probes: u32) -> Segment {
    let layout = SegmentLayout::of_target(3, probes).expect("within bounds");
    Segment::create_local(layout, &Identity::default()).expect("a memfd")
}

/// As another process reads it: from the file.
fn bytes(segment: &Segment) -> Vec<u8> {
    let file = std::fs::File::from(segment.fd().try_clone_to_owned().expect("dup"));
    let mut bytes = vec![0; abi::stats_page_bytes(segment.layout().stats_page_lines) as usize];
    file.read_exact_at(&mut bytes, segment.layout().stats_page_offset).expect("pread");
    bytes
}

fn read(segment: &Segment) -> Option<StatsPage> {
    foreign::parse_stats_page(&bytes(segment))
}

fn stats_page(names: &[&str]) -> StatsPage {
    let line = |(n, name): (usize, &&str)| StatsPageLine {
        probe: (*name).into(),
        millihits_per_s: (n > 0).then_some(1_234_567),
        ps_per_hit: (n > 0).then_some(4_200),
        cost_ns_per_s: Some(n as u64),
        hits: 1,
        hits_about: 2,
        missed: 3,
        missed_about: u64::MAX,
        armed: 4,
        sampled: 5,
        shut: 6,
        withdrawn: 7,
        one_in: 64,
    };
    let lines = names.iter().enumerate().map(line).collect();
    StatsPage { written_ns: 11, cpu_ns_per_s: Some(12), records_lost: 13, lines }
}

#[test]
fn a_stats_page_is_read_back() {
    let segment = segment(2);
    assert_eq!(read(&segment), None, "none was put up");
    for names in [&["uprobe:x:f", "uprobe:x:ä"][..], &[], &["f"]] {
        segment.publish(&stats_page(names));
        assert_eq!(read(&segment), Some(stats_page(names)));
    }
}

#[test]
fn it_lies_behind_everything_else_and_inside() {
    for (journal, probes) in [(0, 1), (3, 2), (1000, STATS_PAGE_LINES_MAX + 1)] {
        let layout = SegmentLayout::of_target(journal, probes).expect("within bounds");
        let meters_end = layout.meters_offset + u64::from(journal) * abi::METER_BYTES;
        assert!(meters_end <= layout.stats_page_offset && layout.stats_page_lines <= STATS_PAGE_LINES_MAX);
        assert!(layout.stats_page_offset + abi::stats_page_bytes(layout.stats_page_lines) <= layout.bytes);
    }
    let hash = |probes| SegmentLayout::of_target(3, probes).expect("within bounds").hash;
    assert_ne!(hash(1), hash(2));
}

#[test]
fn what_there_is_no_room_for_is_left_out() {
    let (none, one) = (segment(0), segment(1));
    none.publish(&stats_page(&["f"]));
    one.publish(&stats_page(&["f", "g"]));
    assert_eq!(read(&one), Some(stats_page(&["f"])));
    assert_eq!(read(&none), None);
}

#[test]
fn of_a_long_name_the_end_is_kept() {
    let segment = segment(1);
    for filler in ["a", "ä", "本"] {
        segment.publish(&stats_page(&[&format!("uprobe:/{}:function", filler.repeat(200))]));
        let name = &read(&segment).expect("whole").lines[0].probe;
        assert!(name.starts_with('…') && name.ends_with(":function"), "{name}");
        assert!(
            name.len() <= STATS_PAGE_NAME_BYTES_MAX && name.len() > STATS_PAGE_NAME_BYTES_MAX - 4,
            "{name}"
        );
    }
}

#[test]
fn names_lose_what_steers_a_terminal() {
    let segment = segment(1);
    segment.publish(&stats_page(&["a\x1b[2Jb\n"]));
    assert_eq!(read(&segment).expect("whole").lines[0].probe, "a\u{fffd}[2Jb\u{fffd}");
}

#[test]
fn one_that_is_being_written_is_not_taken() {
    let segment = segment(1);
    segment.publish(&stats_page(&["f"]));
    let mut bytes = bytes(&segment);
    assert!(foreign::parse_stats_page(&bytes).is_some());
    bytes[0] |= 1;
    assert_eq!(foreign::parse_stats_page(&bytes), None);
}

#[test]
fn who_finds_the_same_sequence_twice_has_a_whole_one() {
    let (segment, is_over) = (segment(8), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 1;
            while !is_over.load(Ordering::Relaxed) {
                let line = StatsPageLine { hits: n, probe: n.to_string(), ..StatsPageLine::default() };
                let lines = vec![line; 8];
                segment.publish(&StatsPage { written_ns: n, lines, ..StatsPage::default() });
                n += 1;
            }
        });
        let mut taken = 0;
        while taken < 2000 {
            let before = foreign::stats_page_sequence(&bytes(&segment));
            let (copy, after) = (bytes(&segment), foreign::stats_page_sequence(&bytes(&segment)));
            let Some(read) = foreign::parse_stats_page(&copy).filter(|_| before == after) else { continue };
            taken += 1;
            let name = read.written_ns.to_string();
            let is_whole = |line: &StatsPageLine| line.hits == read.written_ns && line.probe == name;
            assert!(read.lines.len() == 8 && read.lines.iter().all(is_whole), "{read:?}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn any_bytes_are_read_without_harm() {
    let segment = segment(4);
    segment.publish(&stats_page(&["f", "g", "h", "i"]));
    let (good, mut random) = (bytes(&segment), Random(7));
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..1 + random.below(16) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next() as u8;
        }
        bytes.truncate(bytes.len() - random.below(2) as usize * random.below(bytes.len() as u64) as usize);
        let Some(read) = foreign::parse_stats_page(&bytes) else { continue };
        assert!(read.lines.len() <= 4);
        assert!(!read.lines.iter().any(|line| line.probe.chars().any(char::is_control)));
    }
    let mut huge = good;
    huge[abi::STATS_PAGE_HEAD_BYTES + line::NAME_BYTES..][..4].copy_from_slice(&[0xff; 4]);
    huge[abi::stats_page::LINES..][..8].copy_from_slice(&[0xff; 8]);
    assert_eq!(foreign::parse_stats_page(&huge).expect("even").lines.len(), 4);
    // Spoiled by the target while weir goes on.
    segment.mapping().word(segment.layout().stats_page_offset).store(u64::MAX, Ordering::Relaxed);
    segment.publish(&stats_page(&["f"]));
    assert_eq!(read(&segment), Some(stats_page(&["f"])));
}
