//! The shared segment under a hostile target: what it writes is the input, what weir does with it is all it can do.
//!
//! The input is a list of steps: a write of up to 8 bytes anywhere in the segment (through its file, as the other
//! process has it mapped), or one operation on a map or ring. At the end everything is read, as after a target's death.
//! No panic, no endless loop, no access outside of the segment (a page that is not mapped stands behind it).

#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weir_ebpf::{MapKind, MapSpec};
use weir_rt::foreign;
use weir_rt::segment::{Identity, Segment, SegmentLayout};

static MAPS: LazyLock<Vec<MapSpec>> = LazyLock::new(weir_fuzz::maps);

fuzz_target!(|bytes: &[u8]| {
    let _ = foreign::parse_header(bytes);
    let _ = foreign::parse_journal(bytes);
    let layout = SegmentLayout::plan(&MAPS, 2, 4).expect("small maps");
    let size = layout.bytes;
    let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
    let file = File::from(segment.fd().try_clone_to_owned().expect("a file descriptor"));
    let mut steps = bytes.chunks_exact(16);
    for step in &mut steps {
        let number = u64::from_le_bytes(step[..8].try_into().expect("eight bytes"));
        if step[15] & 1 == 0 {
            // Near the start of a map as often as anywhere: control blocks and links are there.
            let map = &segment.layout().maps[usize::from(step[14]) % MAPS.len()];
            let near = map.offset + u64::from(step[13]) * 8;
            let at =
                if step[15] & 2 == 0 { near } else { u64::from(step[13]) << 8 | u64::from(step[12]) * 8 };
            let at = at % (size - 8);
            file.write_all_at(&number.to_le_bytes()[..1 + usize::from(step[15] >> 2 & 7)], at)
                .expect("inside");
        } else {
            operate(&segment, usize::from(step[14]) % MAPS.len(), step[15] >> 1, number);
        }
    }
    let mut header = vec![0; 4096];
    file.read_exact_at(&mut header, 0).expect("a header");
    let _ = foreign::parse_header(&header);
    let _ = segment.journal().entries();
    let _ = segment.counters();
    for index in 0..MAPS.len() {
        everything(&segment, index);
    }
});

fn operate(segment: &Segment, index: usize, what: u8, number: u64) {
    let spec = &MAPS[index];
    if spec.kind == MapKind::RingBuf {
        let _ = segment.ring(index).next();
        return;
    }
    let view = segment.map(index);
    let mut key = vec![0; spec.key_bytes as usize];
    for (byte, part) in key.iter_mut().zip((number % 16).to_le_bytes()) {
        *byte = part;
    }
    let value = vec![number as u8; spec.value_bytes as usize];
    match what % 4 {
        0 => drop(view.update(&key, &value, number >> 8 & 3)),
        1 => drop(view.lookup(&key)),
        2 => drop(view.delete(&key)),
        _ => drop(view.entries()),
    }
}

fn everything(segment: &Segment, index: usize) {
    if MAPS[index].kind == MapKind::RingBuf {
        let mut ring = segment.ring(index);
        while ring.next().is_some() {}
        let _ = (ring.drain_dead(), ring.counters());
        return;
    }
    let entries = segment.map(index).entries();
    assert!(entries.len() <= MAPS[index].max_entries as usize, "more than fit");
}
