//! Files that are cut at each byte, and files with each byte changed: no panic, and memory that is bounded.
//!
//! Of a cut file, all that was whole is given, then an error that says that it is cut, unless the cut lies between two blocks.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use weir_pcapng::{Limits, Reader};

use crate::file::{File, ORDERS, Order};
use crate::listing::{listed, listed_of};

/// LIMIT: memory of this process, the stacks of the threads of tests in it. A reader's buffer has 256 KiB at first; the files are shorter.
const PROCESS_BYTES_MAX: u64 = 128 << 20;

fn classic(order: Order) -> Vec<u8> {
    let file = File::classic(order, 0xa1b2_3c4d).record(1, 2, &[1, 2, 3, 4, 5]);
    file.record(3, 4, &[]).record(5, 6, &[6; 20]).bytes
}

/// Packets of each kind, with options.
fn packets(order: Order) -> Vec<u8> {
    let number = |number| File::value(order, number);
    let file = File::new(order).section(&[(4, b"weir".to_vec())]);
    let file = file.interface(1, 8, &[(9, vec![0x8a]), (14, number(7))]);
    let file = file.enhanced(0, 99, &[1, 2, 3], &[(2, vec![1, 0, 0, 0]), (4, number(1)), (7, vec![1])]);
    file.simple(5, &[1, 2, 3, 4, 5]).obsolete(0, 1, &[9], &[(2, vec![0; 4]), (6, vec![0; 4])]).bytes
}

/// The other types of blocks.
fn others(order: Order) -> Vec<u8> {
    let number = |number| File::value(order, number);
    let file =
        File::new(order).section(&[]).interface(113, 0, &[(5, vec![1; 17]), (11, vec![0, b'i', b'p'])]);
    let file = file.statistics(0, 9, &[(4, number(3)), (1, b"end".to_vec())]);
    let file = file.block(4, |body| body.u16(1).u16(6).padded(b"\x7f\0\0\x01a\0").u32(0));
    let file = file.block(10, |body| body.u32(0x544c_534b).u32(1).padded(&[7]));
    file.block(0xbad, |body| body.u32(1)).block(77, |body| body.u32(2)).bytes
}

/// Ends of the whole parts of a file, the first of which is as short as a file may be.
fn ends(file: &[u8]) -> Vec<usize> {
    let mut reader = Reader::new(file).unwrap();
    let mut ends = Vec::new();
    while reader.next().unwrap().is_some() {
        ends.push(reader.offset() as usize);
    }
    ends
}

fn check_cuts(file: &[u8]) {
    let (all, ends) = (listed(file), ends(file));
    assert_eq!((all.len(), ends.last()), (ends.len(), Some(&file.len())));
    for cut in 0..file.len() {
        let mut lines = listed(&file[..cut]);
        if !ends.contains(&cut) {
            let error = lines.pop().unwrap();
            let begin = ends.iter().rfind(|end| **end < cut).unwrap_or(&0);
            assert_eq!(error, format!("Truncated at {begin}"), "cut at {cut}");
        }
        let whole = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(lines, all[..whole], "cut at {cut}");
    }
}

#[test]
fn all_that_is_whole_is_given_of_a_file_that_is_cut() {
    for order in ORDERS {
        check_cuts(&classic(order));
        check_cuts(&[packets(order), others(order), packets(order)].concat());
    }
}

/// Each byte of a file with each other value: what is before it stays what it was.
fn check_changes(file: &[u8]) {
    let (_, most) = getrlimit(Resource::RLIMIT_DATA).unwrap();
    setrlimit(Resource::RLIMIT_DATA, PROCESS_BYTES_MAX.min(most), most).unwrap();
    let (all, ends) = (listed(file), ends(file));
    let mut changed = file.to_vec();
    for at in 0..file.len() {
        let before = ends.iter().filter(|end| **end <= at).count();
        for difference in 1..=u8::MAX {
            changed[at] = file[at] ^ difference;
            let lines = listed_of(&changed[..], Limits::default());
            assert_eq!(lines[..before], all[..before], "byte {at} changed by {difference:#x}");
        }
        changed[at] = file[at];
    }
}

#[test]
fn no_changed_byte_of_a_classic_file_does_harm() {
    check_changes(&classic(Order::Big));
}

#[test]
fn no_changed_byte_of_packets_in_pcapng_does_harm() {
    check_changes(&packets(Order::Little));
}

#[test]
fn no_changed_byte_of_other_blocks_of_pcapng_does_harm() {
    check_changes(&others(Order::Big));
}
