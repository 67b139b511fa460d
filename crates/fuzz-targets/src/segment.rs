//! The shared segment under a hostile target: what it writes is the input, what weir does with it is all it can do.
//!
//! The input is a kind of map, which stands beside a hash, and a list of steps: a write of up to 8 bytes anywhere in
//! the segment (through its file, as the other process has it mapped), or one operation on a map or ring. At the end
//! everything is read, as after a target's death.
//! No panic, no endless loop, no access outside of the segment (a page that is not mapped stands behind it).

use std::fs::File;
use std::os::unix::fs::FileExt;

use weir_ebpf::{MapKind, MapSpec};
use weir_rt::foreign;
use weir_rt::segment::{Identity, Segment, SegmentLayout, UserMap};

/// Changes a segment as the steps in `bytes` say, and reads all of it.
pub fn read(bytes: &[u8]) {
    let _ = foreign::parse_header(bytes);
    let _ = foreign::parse_journal(bytes);
    let _ = foreign::parse_stats_page(bytes);
    let Some((choice, steps)) = bytes.split_first() else { return };
    let maps = crate::maps::pair(*choice);
    let layout = SegmentLayout::plan(&maps, 2).expect("small maps");
    let size = layout.bytes;
    let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
    let file = File::from(segment.fd().try_clone_to_owned().expect("a file descriptor"));
    for step in steps.chunks_exact(16) {
        let number = u64::from_le_bytes(step[..8].try_into().expect("eight bytes"));
        if step[15] & 1 == 0 {
            // Near the start of a map as often as anywhere: control blocks and links are there.
            let map = &segment.layout().maps[usize::from(step[14]) % maps.len()];
            let near = map.offset + u64::from(step[13]) * 8;
            let at =
                if step[15] & 2 == 0 { near } else { (u64::from(step[13]) << 8) | (u64::from(step[12]) * 8) };
            let at = at % (size - 8);
            file.write_all_at(&number.to_le_bytes()[..1 + usize::from(step[15] >> 2 & 7)], at)
                .expect("inside");
        } else {
            let index = usize::from(step[14]) % maps.len();
            operate(&segment, &maps[index], index, step[15] >> 1, number);
        }
    }
    let mut header = vec![0; 4096];
    file.read_exact_at(&mut header, 0).expect("a header");
    let _ = foreign::parse_header(&header);
    let _ = segment.journal().entries();
    let _ = segment.counters();
    for (index, spec) in maps.iter().enumerate() {
        everything(&segment, spec, index);
    }
}

fn operate(segment: &Segment, spec: &MapSpec, index: usize, what: u8, number: u64) {
    if spec.overwrites() {
        drop(segment.flight(index).lane(what as usize % 3));
        return;
    }
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
    // As the kernel's commands are, with every check; and as the controller's own reads and writes.
    let user = segment.user_map(index);
    match what % 12 {
        0 => drop(view.update(&key, &value, number >> 8 & 3)),
        1 => drop(view.lookup(&key)),
        2 => drop(view.delete(&key)),
        3 => drop(view.entries()),
        4 => drop(user.update(&key, &value, number >> 8 & 3)),
        5 => drop(user.lookup(&key, number >> 8 & 7)),
        6 => drop(user.delete(&key)),
        7 => drop(user.lookup_and_delete(&key, 0)),
        8 => drop(user.contains(&value, 0)),
        9 => drop(user.lookup_lanes(&key, 0)),
        10 => drop(user.update_lanes(&key, &[value.clone(), value], 0)),
        _ => keys(&user, spec),
    }
}

/// Goes over all keys, which the other process may have linked to a ring.
fn keys(user: &UserMap<'_>, spec: &MapSpec) {
    let mut key = user.next_key(None);
    for _ in 0..2 * spec.max_entries {
        let Ok(last) = key else { return };
        key = user.next_key(Some(&last));
    }
}

fn everything(segment: &Segment, spec: &MapSpec, index: usize) {
    if spec.overwrites() {
        drop((segment.flight(index).snapshot(), segment.flight(index).counters()));
        return;
    }
    if spec.kind == MapKind::RingBuf {
        let mut ring = segment.ring(index);
        while ring.next().is_some() {}
        let _ = (ring.drain_dead(), ring.counters());
        return;
    }
    if spec.kind == MapKind::PerfEventArray {
        let mut rings = segment.perf(index);
        while rings.next().is_some() {}
        let _ = (rings.drain_dead(), rings.counters());
    }
    let entries = segment.map(index).entries();
    assert!(entries.len() <= spec.max_entries as usize, "more than fit");
}
