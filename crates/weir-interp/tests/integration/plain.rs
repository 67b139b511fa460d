//! Maps in plain memory: what programs and their owner find in them, and that nothing else is reached.

use weir_ebpf::{MapKind, MapSpec, ProgramKind, asm};
use weir_interp::plain::{Errno, Maps, MapsError, Process};
use weir_interp::{Fault, plain};
use weir_memory::{Context, Frame, Violation};
use weir_verifier::{Limits, verify};

use crate::places;

const MAPS: &str = "map @a array key 4 value 16 entries 4\nmap @h hash key 8 value 8 entries 2\n\
                    map @p percpu_hash key 8 value 8 entries 2\nmap @q percpu_array key 4 value 8 entries 2\n\
                    map @r ringbuf key 0 value 0 entries 4096\nmap @l lru_hash key 8 value 8 entries 2\n\
                    map @t lpm_trie key 8 value 4 entries 3 flags 1\nmap @f queue key 0 value 8 entries 2\n\
                    map @s stack key 0 value 8 entries 2\nmap @b bloom_filter key 0 value 8 entries 8\n\
                    map @o array_of_maps key 4 value 4 entries 2 inner 1\nmap @j prog_array key 4 value 4 entries 2\n";
/// Indices among those.
const A: usize = 0;
const H: usize = 1;
const R: usize = 4;
const L: usize = 5;
const T: usize = 6;
const F: usize = 7;
const S: usize = 8;
const O: usize = 10;
const J: usize = 11;

const ENOENT: u32 = 2;
const E2BIG: u32 = 7;
const EEXIST: u32 = 17;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

fn maps() -> Maps {
    Maps::new(&places::object(MAPS, "exit").maps).expect("there are such maps")
}

fn run_in(maps: &mut Maps, lines: &str) -> Result<u64, Fault> {
    let object = places::object(MAPS, lines);
    let mut frame = Frame::default();
    plain::run_watched(&object.programs[0], &object.maps, maps, &mut frame, 10_000, &mut |_| {})
}

/// Stores a key at r10-8, points r2 at it and r1 at `map`.
fn with_key(map: &str, key: i32) -> String {
    format!("*(u64 *)(r10 - 0x8) = {key};;r2 = r10;;r2 += -0x8;;r1 = map[{map}] ll;;")
}

const UPDATE: &str = "*(u64 *)(r10 - 0x10) = 0x2a;;r3 = r10;;r3 += -0x10;;r4 = 0x0;;call map_update_elem;;";
const LOOKUP: &str = "call map_lookup_elem;;if r0 == 0x0 goto +0x1;;r0 = *(u64 *)(r0 + 0x0);;exit";

#[test]
fn update_lookup_delete() {
    for map in ["@h", "@p", "@l"] {
        let key = with_key(map, 5);
        let run = |lines: String| run_in(&mut maps(), &lines);
        assert_eq!(run(format!("{key}{UPDATE}exit")), Ok(0), "{map}");
        assert_eq!(run(format!("{key}{UPDATE}{key}{LOOKUP}")), Ok(42), "{map}");
        assert_eq!(run(format!("{key}{LOOKUP}")), Ok(0), "{map}");
        assert_eq!(run(format!("{key}{UPDATE}{key}call map_delete_elem;;{key}{LOOKUP}")), Ok(0), "{map}");
        assert_eq!(run(format!("{key}call map_delete_elem;;exit")), Ok(-2i64 as u64), "{map}");
    }
    assert_eq!(
        run_in(&mut maps(), &format!("{}call map_delete_elem;;exit", with_key("@a", 1))),
        Ok(-22i64 as u64)
    );
    assert_eq!(run_in(&mut maps(), &format!("{}call map_lookup_elem;;exit", with_key("@a", 4))), Ok(0));
}

#[test]
fn flags_and_errors_of_updates_are_the_kernel_s() {
    let (mut maps, one, two, three) = (maps(), [1u8; 8], [2; 8], [3; 8]);
    let update = |maps: &mut Maps, key: &[u8], flags| maps.update(H, key, &[9; 8], flags);
    assert_eq!(update(&mut maps, &one, 2), Err(Errno(ENOENT)));
    assert_eq!(update(&mut maps, &one, 1), Ok(()));
    assert_eq!(update(&mut maps, &one, 1), Err(Errno(EEXIST)));
    assert_eq!(update(&mut maps, &one, 2), Ok(()));
    assert_eq!(update(&mut maps, &one, 3), Err(Errno(EINVAL)));
    assert_eq!(update(&mut maps, &two, 0), Ok(()));
    assert_eq!(update(&mut maps, &three, 0), Err(Errno(E2BIG)));
    assert_eq!((maps.delete(H, &two), maps.delete(H, &two)), (Ok(()), Err(Errno(ENOENT))));
    assert_eq!(update(&mut maps, &three, 0), Ok(()));
    assert_eq!(maps.update(A, &3u32.to_le_bytes(), &[7; 16], 0), Ok(()));
    assert_eq!(maps.update(A, &4u32.to_le_bytes(), &[7; 16], 0), Err(Errno(E2BIG)));
    assert_eq!(maps.update(A, &3u32.to_le_bytes(), &[7; 16], 1), Err(Errno(EEXIST)));
    assert_eq!(maps.update(A, &3u32.to_le_bytes(), &[7; 15], 0), Err(Errno(EINVAL)));
    assert_eq!(maps.lookup(A, &3u32.to_le_bytes()), Some(vec![7; 16]));
    assert_eq!(maps.entries(A).len(), 4);
}

#[test]
fn what_was_not_used_lately_makes_room() {
    let mut maps = maps();
    for key in [1u8, 2] {
        assert_eq!(maps.update(L, &[key; 8], &[key; 8], 0), Ok(()));
    }
    assert_eq!(maps.lookup(L, &[1; 8]), Some(vec![1; 8]));
    assert_eq!(maps.update(L, &[3; 8], &[3; 8], 0), Ok(()));
    let mut keys: Vec<u8> = maps.entries(L).iter().map(|(key, _)| key[0]).collect();
    keys.sort_unstable();
    assert_eq!(keys, [1, 3]);
}

#[test]
fn the_longest_prefix_is_found() {
    let mut maps = maps();
    let key = |length: u32, bits: [u8; 4]| [length.to_le_bytes(), bits].concat();
    assert_eq!(maps.update(T, &key(8, [10, 9, 9, 9]), &[8; 4], 0), Ok(()));
    assert_eq!(maps.update(T, &key(20, [10, 1, 0xf7, 0]), &[20; 4], 0), Ok(()));
    assert_eq!(maps.lookup(T, &key(32, [10, 1, 0xff, 3])), Some(vec![20; 4]));
    assert_eq!(maps.lookup(T, &key(19, [10, 1, 0xff, 3])), Some(vec![8; 4]));
    assert_eq!(maps.lookup(T, &key(32, [10, 1, 0x0f, 3])), Some(vec![8; 4]));
    assert_eq!(maps.lookup(T, &key(32, [11, 1, 0xff, 3])), None);
    assert_eq!(maps.update(T, &key(33, [0; 4]), &[0; 4], 0), Err(Errno(EINVAL)));
    assert_eq!(maps.update(T, &key(0, [1; 4]), &[0; 4], 0), Ok(()));
    assert_eq!(maps.lookup(T, &key(32, [11, 1, 0xff, 3])), Some(vec![0; 4]));
    assert_eq!(maps.update(T, &key(1, [0x80; 4]), &[1; 4], 0), Err(Errno(ENOSPC)));
    assert_eq!(
        (maps.delete(T, &key(8, [10, 0, 0, 0])), maps.delete(T, &key(9, [10; 4]))),
        (Ok(()), Err(Errno(ENOENT)))
    );
}

#[test]
fn queues_give_the_oldest_and_stacks_the_newest() {
    let mut maps = maps();
    for map in [F, S] {
        for value in [1u8, 2] {
            assert_eq!(maps.push(map, &[value; 8], 0), Ok(()));
        }
        assert_eq!(maps.push(map, &[3; 8], 0), Err(Errno(E2BIG)));
        assert_eq!(maps.push(map, &[3; 8], 2), Ok(()), "the oldest makes room");
    }
    let peek = "r1 = map[@f] ll;;r2 = r10;;r2 += -0x8;;call map_peek_elem;;r0 = *(u64 *)(r10 - 0x8);;exit";
    assert_eq!(run_in(&mut maps, peek), Ok(0x0202_0202_0202_0202));
    assert_eq!([maps.pop(F), maps.pop(F), maps.pop(F)], [Some(vec![2; 8]), Some(vec![3; 8]), None]);
    assert_eq!([maps.pop(S), maps.pop(S), maps.pop(S)], [Some(vec![3; 8]), Some(vec![2; 8]), None]);
    let pop = "r1 = map[@s] ll;;r2 = r10;;r2 += -0x8;;call map_pop_elem;;exit";
    assert_eq!(run_in(&mut maps, pop), Ok(-2i64 as u64));
}

#[test]
fn filters_find_what_was_pushed() {
    let mut maps = maps();
    let ask = |key: u8| {
        format!(
            "*(u64 *)(r10 - 0x8) = {key};;r2 = r10;;r2 += -0x8;;r1 = map[@b] ll;;call map_peek_elem;;exit"
        )
    };
    let push =
        "*(u64 *)(r10 - 0x8) = 7;;r2 = r10;;r2 += -0x8;;r3 = 0;;r1 = map[@b] ll;;call map_push_elem;;exit";
    assert_eq!(run_in(&mut maps, push), Ok(0));
    assert_eq!((run_in(&mut maps, &ask(7)), run_in(&mut maps, &ask(8))), (Ok(0), Ok(-2i64 as u64)));
}

#[test]
fn records_reach_their_reader() {
    let mut maps = maps();
    let reserve = "r1 = map[@r] ll;;r2 = 0x10;;r3 = 0x0;;call ringbuf_reserve;;if r0 == 0x0 goto +0x5;;";
    let submit = "*(u64 *)(r0 + 0x8) = 0x7;;r1 = r0;;r2 = 0x0;;call ringbuf_submit;;r0 = 0x0;;exit";
    assert_eq!(run_in(&mut maps, &format!("{reserve}{submit}")), Ok(0));
    assert_eq!(maps.next_record(R), Some([[0; 8], 7u64.to_le_bytes()].concat()));
    let leak = run_in(&mut maps, &format!("{reserve}r0 = 0x0;;exit;;r0 = 0x0;;r0 = 0x0;;r0 = 0x0;;exit"));
    assert_eq!(leak, Err(Fault::End { violation: Violation::LeakedRecords { count: 1 } }));
    assert_eq!(maps.next_record(R), None, "a leaked record does not stop the reader");
    let fault = run_in(
        &mut maps,
        &format!("{reserve}r1 = 0x0;;r0 = *(u64 *)(r1 + 0x0);;exit;;r0 = 0x0;;r0 = 0x0;;exit"),
    );
    assert!(matches!(fault, Err(Fault::Memory { pc: 7, .. })), "{fault:?}");
    let used = run_in(
        &mut maps,
        &format!("{reserve}r6 = r0;;{}", submit.replace("r0 = 0x0", "r0 = *(u64 *)(r6 + 0x0)")),
    );
    assert!(matches!(used, Err(Fault::Memory { pc: 11, .. })), "{used:?}");
    assert_eq!(maps.next_record(R), Some([[0; 8], 7u64.to_le_bytes()].concat()));
}

#[test]
fn dynptrs_have_records_of_any_size() {
    let mut maps = maps();
    let reserve = |bytes: u32| {
        format!(
            "r1 = map[@r] ll;;r2 = {bytes};;r3 = 0;;r4 = r10;;r4 += -0x10;;call ringbuf_reserve_dynptr;;r7 = r0;;"
        )
    };
    let write = "*(u64 *)(r10 - 0x18) = 0x7;;r1 = r10;;r1 += -0x10;;r2 = 0x4;;r3 = r10;;r3 += -0x18;;r4 = 0x8;;\
                 r5 = 0x0;;call dynptr_write;;r8 = r0;;";
    let end =
        |how: &str| format!("r1 = r10;;r1 += -0x10;;r2 = 0x0;;call ringbuf_{how}_dynptr;;r0 = r8;;exit");
    assert_eq!(run_in(&mut maps, &format!("{}{write}{}", reserve(13), end("submit"))), Ok(0));
    assert_eq!(maps.next_record(R), Some(vec![0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(run_in(&mut maps, &format!("{}{write}{}", reserve(11), end("submit"))), Ok(-7i64 as u64));
    assert_eq!(maps.next_record(R), Some(vec![0; 11]));
    assert_eq!(run_in(&mut maps, &format!("{}{write}{}", reserve(13), end("discard"))), Ok(0));
    assert_eq!(run_in(&mut maps, &format!("{}{write}{}", reserve(5000), end("submit"))), Ok(-22i64 as u64));
    assert_eq!(maps.next_record(R), None);
    let leak = run_in(&mut maps, &format!("{}r0 = r7;;exit", reserve(8)));
    assert_eq!(leak, Err(Fault::End { violation: Violation::LeakedRecords { count: 1 } }));
    let data =
        "r1 = r10;;r1 += -0x10;;r2 = 0x1;;r3 = 0x8;;call dynptr_data;;*(u64 *)(r0 + 0x0) = 0x9;;r8 = 0x0;;";
    assert_eq!(run_in(&mut maps, &format!("{}{data}{}", reserve(9), end("submit"))), Ok(0));
    assert_eq!(maps.next_record(R), Some(vec![0, 9, 0, 0, 0, 0, 0, 0, 0]));
    // Nobody verified what follows.
    let forged = format!("{}*(u64 *)(r10 - 0x8) = 0x20;;r8 = 0x0;;{}", reserve(8), end("submit"));
    assert!(matches!(run_in(&mut maps, &forged), Err(Fault::Memory { .. })));
}

#[test]
fn a_ring_that_is_full_takes_what_its_reader_makes_room_for() {
    let mut maps = maps();
    let output = "r1 = map[@r] ll;;*(u64 *)(r10 - 0x8) = 0x3;;r2 = r10;;r2 += -0x8;;r3 = 0x8;;r4 = 0x0;;\
                  call ringbuf_output;;exit";
    let query = "r1 = map[@r] ll;;r2 = 0x0;;call ringbuf_query;;exit";
    for _ in 0..256 {
        assert_eq!(run_in(&mut maps, output), Ok(0));
    }
    assert_eq!((run_in(&mut maps, output), run_in(&mut maps, query)), (Ok(-11i64 as u64), Ok(4096)));
    assert_eq!(maps.next_record(R), Some(3u64.to_le_bytes().to_vec()));
    assert_eq!((run_in(&mut maps, output), run_in(&mut maps, output)), (Ok(0), Ok(-11i64 as u64)));
    assert_eq!(std::iter::from_fn(|| maps.next_record(R)).count(), 256);
    assert_eq!(run_in(&mut maps, query), Ok(0));
}

#[test]
fn maps_in_maps_lead_to_what_they_hold() {
    let mut maps = maps();
    let lines = format!(
        "{}call map_lookup_elem;;if r0 == 0x0 goto +0x6;;r1 = r0;;*(u64 *)(r10 - 0x8) = 0x5;;r2 = r10;;\
         r2 += -0x8;;{LOOKUP}",
        with_key("@o", 1)
    );
    let lines = lines.replace("if r0 == 0x0 goto +0x6", "if r0 == 0x0 goto +0x7");
    assert_eq!(run_in(&mut maps, &lines), Ok(0));
    assert_eq!(maps.hold(O, &1u32.to_le_bytes(), H), Ok(()));
    assert_eq!(maps.hold(O, &1u32.to_le_bytes(), A), Err(Errno(EINVAL)), "it is not like the inner map");
    assert_eq!(maps.hold(O, &2u32.to_le_bytes(), H), Err(Errno(E2BIG)));
    assert_eq!(maps.update(H, &5u64.to_le_bytes(), &42u64.to_le_bytes(), 0), Ok(()));
    assert_eq!(run_in(&mut maps, &lines), Ok(42));
}

#[test]
fn tail_calls_lead_to_the_programs_of_their_numbers() {
    let first = "program \"first\" xdp\nr2 = map[@j] ll\nr3 = 1\ncall tail_call\nr0 = 1\nexit\n";
    let second = "program \"second\" xdp\nr0 = 2\nexit\n";
    let object = asm::parse(&format!("{MAPS}{first}{second}")).expect("is assembly text");
    let verified: Vec<_> = object
        .programs
        .iter()
        .map(|program| verify(program, &object.maps, &Limits::default()).expect("is safe"))
        .collect();
    let (mut maps, others) = (maps(), [None, Some(&verified[1])]);
    let run =
        |maps: &mut Maps| plain::run_numbered(&others, &verified[0], maps, &mut Context::xdp(&[], &[0; 14]));
    assert_eq!(run(&mut maps), Ok(1));
    assert_eq!((maps.set_program(J, 1, 0), run(&mut maps)), (Ok(()), Ok(1)), "number 0 is of no program");
    assert_eq!((maps.set_program(J, 1, 1), run(&mut maps)), (Ok(()), Ok(2)));
    assert_eq!(maps.set_program(J, 2, 1), Err(Errno(E2BIG)));
}

#[test]
fn callbacks_go_through_all_elements() {
    let mut maps = maps();
    for key in [1u8, 2] {
        assert_eq!(maps.update(H, &[key; 8], &u64::from(key).to_le_bytes(), 0), Ok(()));
    }
    let lines = "*(u64 *)(r10 - 0x8) = 0x0;;r1 = map[@h] ll;;r2 = each ll;;r3 = r10;;r3 += -0x8;;r4 = 0x0;;\
                 call for_each_map_elem;;r1 = *(u64 *)(r10 - 0x8);;r1 <<= 0x8;;r0 |= r1;;exit;;\
                 each:;;r5 = *(u64 *)(r3 + 0x0);;r6 = *(u64 *)(r2 + 0x0);;r6 &= 0xff;;r5 += r6;;r6 = *(u64 *)(r4 + 0x0);;\
                 r6 += r5;;*(u64 *)(r4 + 0x0) = r6;;r0 = 0x0;;exit";
    assert_eq!(run_in(&mut maps, lines), Ok(0x602));
}

#[test]
fn packets_are_read_written_and_moved() {
    let run = |lines: &str, context: &mut Context| {
        let object =
            asm::parse(&format!("program \"p\" xdp\n{}", lines.replace(";;", "\n"))).expect("is text");
        let mut maps = Maps::new(&[]).expect("none");
        plain::run_watched(&object.programs[0], &[], &mut maps, context, 100, &mut |_| {})
    };
    let mut context = Context::xdp(&[1, 2, 3, 4], &[5, 6, 7]);
    let packet = "r2 = *(u32 *)(r1 + 0);;r3 = *(u32 *)(r1 + 4);;";
    assert_eq!(run(&format!("{packet}r0 = r3;;r0 -= r2;;exit"), &mut context), Ok(3));
    assert_eq!(run(&format!("{packet}*(u8 *)(r2 + 1) = 9;;r0 = *(u8 *)(r2 - 1);;exit"), &mut context), Ok(4));
    assert_eq!((context.bytes(), context.bytes_before(4)), (vec![5, 9, 7], vec![1, 2, 3, 4]));
    let beyond = run(&format!("{packet}r0 = *(u8 *)(r2 + 3);;exit"), &mut context);
    assert!(matches!(beyond, Err(Fault::Memory { pc: 2, .. })), "{beyond:?}");
    let across = run(&format!("{packet}r0 = *(u16 *)(r2 - 1);;exit"), &mut context);
    assert!(matches!(across, Err(Fault::Memory { pc: 2, .. })), "{across:?}");
    let moved = "r6 = r1;;r7 = *(u32 *)(r1 + 0);;r2 = 0;;call xdp_adjust_head;;";
    assert_eq!(run(&format!("{moved}exit"), &mut context), Ok(-95i64 as u64));
    let gone = run(&format!("{moved}r0 = *(u8 *)(r7 + 0);;exit"), &mut context);
    assert!(matches!(gone, Err(Fault::Memory { pc: 4, .. })), "{gone:?}");
    assert_eq!(
        run(&format!("{moved}r7 = *(u32 *)(r6 + 0);;r0 = *(u8 *)(r7 + 1);;exit"), &mut context),
        Ok(9)
    );
}

#[test]
fn packet_loads_and_their_helpers_see_one_packet() {
    let run = |lines: &str| {
        let object =
            asm::parse(&format!("program \"p\" classifier\n{}", lines.replace(";;", "\n"))).expect("is text");
        let mut context = Context::classifier(&[], &(0..40).collect::<Vec<u8>>(), 40);
        let mut maps = Maps::new(&[]).expect("none");
        plain::run_watched(&object.programs[0], &[], &mut maps, &mut context, 100, &mut |_| {})
    };
    assert_eq!(run("r6 = r1;;r0 = *(u16 *)skb[12];;exit"), Ok(0x0c0d));
    assert_eq!(run("r6 = r1;;r0 = 5;;r0 = *(u32 *)skb[37];;exit"), Ok(0));
    let load = "r3 = r10;;r3 += -8;;r4 = 4;;*(u64 *)(r10 - 8) = -1;;";
    assert_eq!(
        run(&format!("{load}r2 = 36;;call skb_load_bytes;;r0 = *(u32 *)(r10 - 8);;exit")),
        Ok(0x2726_2524)
    );
    assert_eq!(run(&format!("{load}r2 = 37;;call skb_load_bytes;;exit")), Ok(-14i64 as u64));
    assert_eq!(
        run(&format!("{load}r2 = 0;;r5 = 1;;call skb_load_bytes_relative;;r0 = *(u32 *)(r10 - 8);;exit")),
        Ok(0x1110_0f0e)
    );
}

#[test]
fn programs_are_told_the_process_that_is_set() {
    let mut maps = maps();
    let comm = "r1 = r10;;r1 += -0x10;;r2 = 0x8;;call get_current_comm;;r0 = *(u64 *)(r10 - 0x10);;exit";
    assert_eq!(
        (run_in(&mut maps, "call get_current_pid_tgid;;exit"), run_in(&mut maps, comm)),
        (Ok(0), Ok(0))
    );
    maps.set_process(Process { pid: 7, tid: 8, uid: 9, gid: 10, comm: "somebody".into() });
    assert_eq!(run_in(&mut maps, "call get_current_pid_tgid;;exit"), Ok(7 << 32 | 8));
    assert_eq!(run_in(&mut maps, "call get_current_uid_gid;;exit"), Ok(10 << 32 | 9));
    assert_eq!(run_in(&mut maps, comm), Ok(u64::from_le_bytes(*b"somebod\0")));
    let read = "r1 = r10;;r1 += -0x8;;r2 = 0x8;;r3 = 0x1000;;call probe_read_user;;exit";
    assert_eq!(run_in(&mut maps, read), Ok(-14i64 as u64));
    let stack = run_in(&mut maps, "r2 = r10;;r2 += -0x8;;r3 = 0x8;;r4 = 0x0;;call get_stack;;exit");
    assert_eq!(stack, Err(Fault::Memory { pc: 4, violation: Violation::NotHere { helper: "get_stack" } }));
}

#[test]
fn accesses_outside_are_faults() {
    for (lines, pc) in [
        ("r0 = *(u64 *)(r10 + 0x0);;exit", 0),
        ("r0 = *(u64 *)(r10 - 0x4);;exit", 0),
        ("r0 = *(u64 *)(r10 - 0x208);;exit", 0),
        ("r0 = *(u64 *)(r1 + 0xe8);;exit", 0),
        ("*(u64 *)(r1 + 0x70) = 0x1;;exit", 0),
        ("r1 = 0x0;;r0 = *(u8 *)(r1 + 0x0);;exit", 1),
        ("r1 = map[@a] ll;;r0 = *(u8 *)(r1 + 0x0);;exit", 2),
        ("r1 = map[@a][0] + 0x3c ll;;r0 = *(u64 *)(r1 + 0x0);;exit", 2),
        ("r1 = map[@a][0] + 0xc ll;;r0 = *(u64 *)(r1 + 0x0);;exit", 2),
        ("r1 = map[@a][0] + 0x0 ll;;r0 = *(u64 *)(r1 - 0x8);;exit", 2),
        ("r1 = map[@h][0] + 0x0 ll;;exit", 0),
        ("r1 = r10;;lock *(u64 *)(r1 - 0xc) += r1;;exit", 1),
        ("r1 = 0x0;;r2 = r10;;call map_lookup_elem;;exit", 2),
        ("call 0x63;;exit", 0),
    ] {
        let ran = places::run(MAPS_OF_ALL, lines, &mut Frame::default(), 100);
        let at = match &ran {
            Err(Fault::Memory { pc, .. }) => Some(*pc),
            _ => None,
        };
        assert_eq!(at, Some(pc), "{lines}: {ran:?}");
    }
}

/// Maps that a segment has alike.
const MAPS_OF_ALL: &str = "map @a array key 4 value 16 entries 4\nmap @h hash key 8 value 8 entries 2\n";

/// Random slots: a result or a fault, nothing else.
#[test]
fn any_slots_end_in_a_result_or_a_fault() {
    let object = places::object(
        MAPS,
        &format!(
            "{}call map_lookup_elem;;if r0 == 0x0 goto +0x1;;r0 = *(u64 *)(r0 + 0x0);;exit",
            with_key("@a", 1)
        ),
    );
    let mut maps = maps();
    places::any_slots(&object, |program| {
        let mut frame = Frame::default();
        plain::run_watched(program, &object.maps, &mut maps, &mut frame, 200, &mut |_| {}).is_ok()
    });
}

#[test]
fn maps_that_are_too_large_are_refused() {
    let array = MapSpec::new("a", MapKind::Array, 4, 1 << 20, 1 << 13);
    assert_eq!(Maps::new(&[array]).err(), Some(MapsError::TooLarge { bytes: (1 << 33) + (4 << 13) }));
    let hash = MapSpec::new("h", MapKind::Hash, 8, 1 << 20, 100_000);
    assert!(matches!(Maps::new(&[hash]), Err(MapsError::TooLarge { .. })), "it could grow so large");
    let most = MapSpec::new("m", MapKind::Array, 4, u32::MAX, u32::MAX);
    assert!(matches!(Maps::new(&[most.clone(), most]), Err(MapsError::TooLarge { .. })));
    let mut ring = MapSpec::new("r", MapKind::RingBuf, 0, 0, 4096);
    ring.flags = weir_ebpf::map::flag::RING_PER_CPU;
    assert_eq!(Maps::new(&[ring]).err(), Some(MapsError::RingPerCpu { name: "r".into() }));
    let object = places::object("", "exit");
    let ran =
        plain::run_watched(&object.programs[0], &[], &mut maps(), &mut Frame::default(), 1, &mut |_| {});
    assert!(matches!(ran, Err(Fault::Maps { .. })), "{ran:?}");
    let other =
        plain::run_watched(&object.programs[0], &[], &mut maps(), &mut Context::memory(&[]), 1, &mut |_| {});
    assert_eq!(other, Err(Fault::Context { kind: ProgramKind::Probe }));
}
