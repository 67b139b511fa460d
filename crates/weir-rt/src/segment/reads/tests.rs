//! What is published, what is not, and what the C half makes of calls that take memory away, with this process as the target.

#![expect(clippy::single_range_in_vec_init, reason = "lists of ranges of memory")]

use super::*;
use crate::segment::{Identity, SegmentLayout};

unsafe extern "C" {
    fn weir_unmapping(reads: u64, registers: *const u64, number: u64);
    fn weir_unmapped(reads: u64, registers: *const u64);
    fn weir_withdraw_reads(reads: u64);
}

const MUNMAP: u64 = 11;
const MPROTECT: u64 = 10;
const BRK: u64 = 12;
const MMAP: u64 = 9;
const VFORK: u64 = 58;
const CLONE: u64 = 56;
const PKEY_ALLOC: u64 = 330;
const HEAP: Range<u64> = 0x10_000..0x20_000;
const OTHER: Range<u64> = 0x50_000..0x60_000;

struct Process {
    segment: Segment,
}

/// A call: its number, where its frame is, and rdi, rsi, rdx, r10, r8.
#[derive(Clone, Copy)]
struct Call(u64, u64, [u64; 5]);

impl Process {
    /// With a table of `HEAP` and `OTHER`.
    fn new() -> Process {
        const REGISTER_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 8;
        // SAFETY: says that threads of this process may be interrupted, and takes integers alone.
        let done =
            unsafe { nix::libc::syscall(nix::libc::SYS_membarrier, REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) };
        assert_eq!(done, 0, "membarrier");
        let layout = SegmentLayout::of_target(1, 0).expect("within bounds");
        let process =
            Process { segment: Segment::create_local(layout, &Identity::default()).expect("a memfd") };
        assert_eq!(process.reads().state(), ReadsState::Off);
        assert!(process.publish());
        process
    }

    fn reads(&self) -> Reads<'_> {
        self.segment.reads()
    }

    fn publish(&self) -> bool {
        let Some(known) = self.reads().look() else { return false };
        self.reads().publish(&known, &[HEAP, OTHER], HEAP.end)
    }

    fn words(&self) -> u64 {
        self.segment.mapping().base() + Reads::OFFSET
    }

    fn registers(call: Call, result: u64) -> [u64; 21] {
        let Call(_, stack, [di, si, dx, r10, r8]) = call;
        let mut registers = [0; 21];
        for (slot, value) in [(7, r10), (9, r8), (10, result), (12, dx), (13, si), (14, di), (19, stack)] {
            registers[slot] = value;
        }
        registers
    }

    fn begin(&self, call: Call) {
        let registers = Process::registers(call, call.0);
        // SAFETY: the segment and the registers live here.
        unsafe { weir_unmapping(self.words(), registers.as_ptr(), call.0) };
    }

    fn end(&self, call: Call, result: u64) {
        let registers = Process::registers(call, result);
        // SAFETY: as above.
        unsafe { weir_unmapped(self.words(), registers.as_ptr()) };
    }

    fn leaving(&self) -> Vec<Range<u64>> {
        self.reads().look().expect("it may be published").leaving
    }
}

fn unmap(range: Range<u64>) -> Call {
    Call(MUNMAP, 0x7000, [range.start, range.end - range.start, 0, 0, 0])
}

/// Whether the table goes with `call`, and what is noted until it has come back.
#[track_caller]
fn check(call: Call, goes: bool, leaving: &[Range<u64>]) {
    let process = Process::new();
    let known = process.reads().look().unwrap();
    process.begin(call);
    let state = if goes { ReadsState::Off } else { ReadsState::Valid };
    assert_eq!((process.reads().state(), &process.leaving()[..]), (state, leaving));
    // What was looked at before a call that may matter is not published behind it.
    assert_eq!(process.reads().publish(&known, &[HEAP, OTHER], HEAP.end), leaving.is_empty());
    process.end(call, 1);
    assert_eq!(process.leaving(), []);
    assert!(process.publish());
    assert_eq!(process.reads().state(), ReadsState::Valid);
}

#[test]
fn what_is_in_the_table_takes_it_away() {
    check(unmap(0x1f_000..0x30_000), true, &[0x1f_000..0x30_000]);
    check(unmap(0x00_000..0x10_001), true, &[0x00_000..0x10_001]);
    check(unmap(0x00_000..u64::MAX), true, &[0..u64::MAX]);
}

#[test]
fn what_is_not_in_the_table_leaves_it() {
    check(unmap(0x20_000..0x50_000), false, &[0x20_000..0x50_000]);
    check(unmap(0x60_000..0x70_000), false, &[0x60_000..0x70_000]);
}

#[test]
fn what_takes_nothing_away_is_not_noted() {
    const PROT_READ_WRITE: u64 = 3;
    const THREAD: u64 = 0x10_100;
    check(Call(MPROTECT, 0x7000, [HEAP.start, 0x1000, PROT_READ_WRITE, 0, 0]), false, &[]);
    check(Call(MMAP, 0x7000, [HEAP.start, 0x1000, PROT_READ_WRITE, 0x22, 0]), false, &[]);
    check(Call(CLONE, 0x7000, [THREAD, 0, 0, 0, 0]), false, &[]);
    check(Call(1, 0x7000, [HEAP.start, 0x1000, 0, 0, 0]), false, &[]);
}

#[test]
fn protection_and_maps_over_take_it_away() {
    check(Call(MPROTECT, 0x7000, [HEAP.start, 0x1000, 0, 0, 0]), true, &[0x10_000..0x11_000]);
    check(Call(MPROTECT, 0x7000, [0x1000, 0x1000, 5, 0, 0]), true, &[0..u64::MAX]);
    check(Call(MMAP, 0x7000, [OTHER.start, 0x1000, 3, 0x32, 0]), true, &[0x50_000..0x51_000]);
    check(Call(MMAP, 0x7000, [OTHER.start, 0x1000, 3, 0x10_0032, 0]), false, &[]);
    check(Call(MMAP, 0x7000, [0, 0x1000, 5, 0x22, 0]), true, &[0..u64::MAX]);
}

#[test]
fn the_heap_ends_where_it_is_told_to() {
    const ALL_ABOVE: u64 = u64::MAX - 1;
    check(Call(BRK, 0x7000, [0x18_000, 0, 0, 0, 0]), true, &[0x18_000..ALL_ABOVE]);
    check(Call(BRK, 0x7000, [0x30_000, 0, 0, 0, 0]), false, &[0x30_000..ALL_ABOVE]);
    check(Call(BRK, 0x7000, [0, 0, 0, 0, 0]), false, &[]);
}

#[test]
fn a_child_that_shares_the_memory_does_not_end_its_parents_call() {
    let process = Process::new();
    let call = Call(VFORK, 0x7000, [0; 5]);
    process.begin(call);
    assert_eq!((process.reads().state(), process.leaving()), (ReadsState::Off, vec![0..u64::MAX]));
    process.end(call, 0);
    assert_eq!(process.leaving(), vec![0..u64::MAX]);
    process.end(call, 1234);
    assert_eq!(process.leaving(), []);
}

#[test]
fn what_cannot_be_followed_closes_it_for_good() {
    for (call, why) in [
        (Call(PKEY_ALLOC, 0x7000, [0; 5]), "protection keys"),
        (Call(CLONE, 0x7000, [0x100, 0, 0, 0, 0]), "shares"),
    ] {
        let process = Process::new();
        process.begin(call);
        assert_eq!(process.reads().state(), ReadsState::Closed);
        assert!(process.reads().why().is_some_and(|said| said.contains(why)));
        assert!(process.reads().look().is_none() && !process.publish());
    }
}

#[test]
fn more_calls_than_can_be_noted_close_it() {
    let process = Process::new();
    for n in 0..reads::CALLS as u64 + 1 {
        process.begin(Call(MUNMAP, 0x7000 + n * 16, [0x80_000, 0x1000, 0, 0, 0]));
    }
    assert_eq!(process.reads().state(), ReadsState::Closed);
}

#[test]
fn a_call_that_was_left_by_a_jump_stays_noted_until_the_next_from_there() {
    let process = Process::new();
    process.begin(unmap(0x80_000..0x90_000));
    process.begin(unmap(0xa0_000..0xb0_000));
    assert_eq!(process.leaving(), vec![0xa0_000..0xb0_000]);
    process.end(unmap(0..0), 0);
    assert_eq!(process.leaving(), []);
}

#[test]
fn a_table_that_holds_is_followed_by_one_that_has_it_all() {
    let process = Process::new();
    let known = process.reads().look().unwrap();
    assert_eq!(process.reads().table(&known), vec![HEAP, OTHER]);
    assert!(!process.reads().publish(&known, &[HEAP], HEAP.end));
    assert!(process.reads().publish(&known, &[0x10_000..0x21_000, 0x40_000..0x60_000], 0x21_000));
    assert!(!process.reads().publish(&known, &[HEAP, OTHER], HEAP.end));
}

#[test]
fn libraries_withdraw_it() {
    let process = Process::new();
    // SAFETY: the segment lives here.
    unsafe { weir_withdraw_reads(process.words()) };
    assert_eq!((process.reads().state(), process.leaving()), (ReadsState::Off, vec![]));
    assert!(process.publish());
    process.reads().close();
    assert_eq!((process.reads().state(), process.publish()), (ReadsState::Closed, false));
}
