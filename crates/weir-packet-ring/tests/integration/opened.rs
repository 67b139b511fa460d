//! What another process has made is opened if it is whole, and refused otherwise with the reason.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use nix::sys::memfd::{MFdFlags, memfd_create};
use weir_packet_ring::limits::{RING_BYTES_MIN, RINGS_MAX};
use weir_packet_ring::{Drained, Plan, Segment};

use crate::{meta, plan, segment};

fn file_of(segment: &Segment) -> File {
    File::from(segment.fd().try_clone_to_owned().unwrap())
}

/// What is said of a segment whose header has this word at `at`.
fn refused_with(at: u64, word: u64) -> String {
    let segment = segment(2);
    let file = file_of(&segment);
    file.write_all_at(&word.to_le_bytes(), at).unwrap();
    Segment::open(OwnedFd::from(file)).unwrap_err().to_string()
}

#[test]
fn what_is_opened_has_the_plan_and_shares_the_rings() {
    let made = segment(2);
    let opened = Segment::open(made.fd().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!(opened.plan(), made.plan());
    let mut writer = opened.writer(1);
    writer.write(&meta(5), b"across");
    writer.publish(1, 0);
    let mut drained = Drained::default();
    assert!(made.reader(1).drain(&mut drained));
    assert_eq!(drained.next().unwrap().bytes, b"across");
    assert_eq!(made.counters(1).written, 1);
}

#[test]
fn a_file_that_could_shrink_is_refused() {
    let fd = memfd_create(c"other", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
    let refused = Segment::open(fd).unwrap_err().to_string();
    assert!(refused.contains("not sealed against shrinking"), "{refused}");
}

#[test]
fn a_file_that_is_no_segment_is_refused() {
    let refused = Segment::open(OwnedFd::from(File::open("/proc/self/exe").unwrap())).unwrap_err();
    assert!(refused.to_string().contains("seals of the segment's file"), "{refused}");
    assert!(refused_with(0, 1).contains("no segment of packets"));
}

#[test]
fn headers_that_cannot_be_are_refused() {
    for (at, word, words) in [
        (8, 99, "version 99"),
        (24, 0, "needs"),
        (24, RINGS_MAX as u64 + 1, "outside what segments have"),
        (24, u64::MAX, "outside what segments have"),
        (32, RING_BYTES_MIN * 2, "needs"),
        (32, 1 << 62, "outside what segments have"),
        (40, u64::MAX / 8, "outside what segments have"),
        (48, 0, "0 bytes of a packet"),
        (48, 1 << 40, "outside what segments have"),
        (64, 7 << 32, "direction 7"),
        (72, 3 | 1 << 32, "two rings for"),
    ] {
        let refused = refused_with(at, word);
        assert!(refused.contains(words), "{at}: {refused}");
    }
}

#[test]
fn plans_outside_the_limits_are_refused() {
    let refused = |plan: Plan| Segment::create(plan).unwrap_err().to_string();
    assert!(refused(plan(0)).contains("0 rings"));
    assert!(refused(Plan { ring_bytes: RING_BYTES_MIN + 8, ..plan(1) }).contains("power of two"));
    assert!(refused(Plan { snaplen: 1 << 20, ..plan(1) }).contains("can be kept"));
    assert!(refused(Plan { program: vec![[0; 8]; 1 << 17], ..plan(1) }).contains("131072 instructions"));
}
