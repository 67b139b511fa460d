//! Programs at uprobes of this very process, in each way that the kernel has.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use testkit::{kernel, skip};
use weir_ebpf::{Object, asm};
use weir_kernel::{Called, End, Features, KernelError, Maps, Place, Probe, Ring};
use weir_symbols::Binary;

/// Counts in the map at the number that is its cookie, and adds the second word of what it gets: the entry adds the first argument.
const COUNTS: &str = "map @a array key 4 value 16 entries 8
    program \"p\" probe
    r6 = *(u64 *)(r1 + 112)
    call get_attach_cookie
    *(u32 *)(r10 - 4) = r0
    r1 = map[@a] ll
    r2 = r10
    r2 += -4
    call map_lookup_elem
    if r0 == 0 goto out
    r1 = 1
    lock *(u64 *)(r0 + 0) += r1
    lock *(u64 *)(r0 + 8) += r6
out:
    r0 = 0
    exit";

/// Adds 1 at entries and 100 at returns.
const ENDS: &str = "map @a array key 4 value 16 entries 1
    program \"p\" probe
    call bpf_session_is_return
    r2 = 1
    if r0 == 0 goto add
    r2 = 100
add:
    r1 = map[@a][0] ll
    lock *(u64 *)(r1 + 0) += r2
    r0 = 0
    exit";

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn weir_kernel_first(number: u64) -> u64 {
    black_box(number + 1)
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn weir_kernel_second(number: u64) -> u64 {
    black_box(number * 3 + 2)
}

/// Calls of this process are counted: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// None, loudly, where bpf(2) is not to be had.
fn alone() -> Option<MutexGuard<'static, ()>> {
    kernel::available().map_err(|reason| skip::skip("weir-kernel", reason)).ok()?;
    Some(ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

fn object(text: &str) -> Object {
    asm::parse(text).expect("is assembly text")
}

fn place(binary: &Binary, name: &str, cookie: u64) -> Place {
    let function = binary.find(name).unwrap()[0];
    Place { offset: binary.file_offset(function.address).unwrap().0, semaphore: None, cookie }
}

/// This program, where its functions are, and this process.
fn own() -> (PathBuf, Binary, Option<i32>) {
    let path = std::env::current_exe().unwrap();
    let binary = Binary::open(&path).unwrap();
    (path, binary, Some(std::process::id() as i32))
}

/// What the kernel has, and what older ones have.
fn ways() -> Vec<Features> {
    let all = Features::of_kernel();
    let mut ways = vec![Features::default(), Features { session: None, ..all }, all];
    ways.dedup();
    ways
}

fn words(maps: &Maps, key: u32) -> [u64; 2] {
    let value = maps.lookup(0, &key.to_le_bytes()).unwrap().unwrap();
    [0, 8].map(|at| u64::from_le_bytes(value[at..at + 8].try_into().unwrap()))
}

fn call_both() {
    for number in 0..10 {
        black_box(weir_kernel_first(black_box(number)));
        black_box(weir_kernel_second(black_box(number)));
        black_box(weir_kernel_second(black_box(number)));
    }
}

#[test]
fn a_program_runs_at_each_of_its_places_and_knows_which_it_is() {
    let Some(_alone) = alone() else { return };
    let (path, binary, own) = own();
    for features in ways() {
        // Others may run this program too.
        for pid in [own, None] {
            let object = object(COUNTS);
            let maps = Maps::create(&object.maps).unwrap();
            let probe = Probe::load(&object.programs[0], &maps, End::Entry, features).unwrap();
            call_both();
            assert_eq!(words(&maps, 1), [0, 0]);
            let places = [place(&binary, "weir_kernel_first", 1), place(&binary, "weir_kernel_second", 2)];
            let link = probe.attach(&path, &places, pid).unwrap();
            call_both();
            drop(link);
            call_both();
            let (counted, wanted) = ([words(&maps, 1), words(&maps, 2)], [[10, 45], [20, 90]]);
            let is_more = (0..2).all(|at| counted[at][0] >= wanted[at][0]);
            assert!(counted == wanted || pid.is_none() && is_more, "{features:?} {pid:?}: {counted:?}");
            assert_eq!(probe.missed(), 0);
        }
    }
}

#[test]
fn which_end_of_a_call_it_is_is_known_in_each_way() {
    let Some(_alone) = alone() else { return };
    let (path, binary, own) = own();
    for features in ways() {
        for (end, wanted) in [(End::Entry, 10), (End::Return, 1000), (End::Both, 1010)] {
            let object = object(ENDS);
            let maps = Maps::create(&object.maps).unwrap();
            let loaded = Probe::load(&object.programs[0], &maps, end, features);
            if end == End::Both && features.session.is_none() {
                assert!(matches!(loaded, Err(KernelError::Kind { .. })), "{loaded:?}");
                continue;
            }
            let probe = loaded.unwrap();
            let link = probe.attach(&path, &[place(&binary, "weir_kernel_first", 0)], own);
            let link = link.unwrap();
            call_both();
            drop(link);
            assert_eq!(words(&maps, 0)[0], wanted, "{features:?} {end:?}");
        }
    }
}

#[test]
fn a_place_that_is_none_and_a_process_that_is_none_are_refused() {
    let Some(_alone) = alone() else { return };
    let (path, binary, own) = own();
    for features in ways() {
        let object = object(COUNTS);
        let maps = Maps::create(&object.maps).unwrap();
        let probe = Probe::load(&object.programs[0], &maps, End::Entry, features).unwrap();
        let good = place(&binary, "weir_kernel_first", 0);
        let check = |file: &Path, places: &[Place], pid| {
            let refused = probe.attach(file, places, pid).unwrap_err();
            assert!(matches!(&refused, KernelError::Attach { .. }), "{refused}");
        };
        check(Path::new("/nowhere/at/all"), &[good], own);
        check(&path, &[good], Some(1 << 22));
        check(&path, &[good, Place { offset: 1 << 40, ..good }], own);
        // All or none.
        call_both();
        assert_eq!(words(&maps, 0), [0, 0]);
    }
}

#[test]
fn records_come_in_order_over_many_turns_of_the_ring_and_those_without_room_are_refused() {
    let Some(_alone) = alone() else { return };
    // A number that counts up, in records of 8 to 64 bytes; r0 of ringbuf_output is summed up where it is not 0.
    let text = "map @ring ringbuf key 0 value 0 entries 4096
        map @n array key 4 value 96 entries 1
        program \"p\" controller
        r6 = map[@n][0] ll
        r7 = *(u64 *)(r6 + 0)
        r8 = r7
        r8 &= 7
        r8 += 1
        r8 <<= 3
        r1 = map[@ring] ll
        r2 = r6
        r3 = r8
        r4 = 0
        call ringbuf_output
        if r0 == 0 goto kept
        r1 = 1
        lock *(u64 *)(r6 + 8) += r1
kept:
        r7 += 1
        *(u64 *)(r6 + 0) = r7
        r0 = 0
        exit";
    let object = object(text);
    let maps = Maps::create(&object.maps).unwrap();
    let program = Called::load(&object.programs[0], &maps).unwrap();
    let mut ring = Ring::open(&maps, 0).unwrap();
    let refused = || u64::from_le_bytes(maps.lookup(1, &[0; 4]).unwrap().unwrap()[8..16].try_into().unwrap());
    let number = |record: &[u8]| u64::from_le_bytes(record[..8].try_into().unwrap());
    assert_eq!(ring.next(), None);
    for turn in 0..1000u64 {
        program.call().unwrap();
        let record = ring.next().unwrap();
        assert_eq!((number(&record), record.len() as u64), (turn, (turn % 8 + 1) * 8));
        assert_eq!(ring.next(), None);
    }
    (0..200).for_each(|_| program.call().unwrap());
    let kept: Vec<u64> = std::iter::from_fn(|| ring.next()).map(|record| number(&record)).collect();
    assert!(refused() > 0 && kept.len() as u64 + refused() == 200, "{} and {}", kept.len(), refused());
    assert!(kept[0] == 1000 && kept.is_sorted(), "{kept:?}");
}

#[test]
fn values_of_all_cpus_are_summed_and_maps_are_cleared() {
    let Some(_alone) = alone() else { return };
    let text = "map @h percpu_hash key 8 value 16 entries 4
        map @k hash key 8 value 8 entries 4
        program \"p\" controller
        r0 = 0
        exit";
    let object = object(text);
    let maps = Maps::create(&object.maps).unwrap();
    for key in 0..3u64 {
        maps.update(0, &key.to_le_bytes(), &[key.to_le_bytes(); 2].concat()).unwrap();
        maps.update(1, &key.to_le_bytes(), &key.to_le_bytes()).unwrap();
    }
    let value = maps.lookup(0, &2u64.to_le_bytes()).unwrap().unwrap();
    assert_eq!(value, [2u64.to_le_bytes(), 2u64.to_le_bytes()].concat());
    assert_eq!((maps.entries(0).unwrap().len(), maps.entries(1).unwrap().len()), (3, 3));
    maps.zero(0).unwrap();
    assert!(maps.entries(0).unwrap().iter().all(|(_, value)| *value == [0; 16]));
    for map in [0, 1] {
        maps.clear(map).unwrap();
        assert_eq!(maps.entries(map).unwrap(), Vec::new());
    }
}
