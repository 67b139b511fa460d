//! Programs that use maps and rings, and what is caught in programs that nobody verified.

use weir_ebpf::{MapKind, MapSpec, Object, asm};
use weir_interp::{Environment, Fault, run_unverified};
use weir_rt::executable::Frame;
use weir_rt::memory::Violation;
use weir_rt::segment::{Identity, Segment, SegmentLayout};

use crate::places;

const MAPS: &str = "map @a array key 4 value 16 entries 4\nmap @h hash key 8 value 8 entries 2\n\
                    map @p percpu_hash key 8 value 8 entries 2\nmap @q percpu_array key 4 value 8 entries 2\n\
                    map @r ringbuf key 0 value 0 entries 4096\n\
                    map @l lru_hash key 8 value 8 entries 2\nmap @m lru_percpu_hash key 8 value 8 entries 2\n";

fn object(lines: &str) -> Object {
    let text = format!("{MAPS}program \"test\" probe\n{}\n", lines.replace(";;", "\n"));
    asm::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn segment(maps: &[MapSpec]) -> Segment {
    let layout = SegmentLayout::plan(maps, 2).expect("within bounds");
    Segment::create_local(layout, &Identity { session: 1, ..Identity::default() }).expect("a memfd")
}

fn run_in(segment: &Segment, lines: &str) -> Result<u64, Fault> {
    let object = object(lines);
    let environment = Environment { segment };
    run_unverified(&object.programs[0], &object.maps, &environment, &mut Frame::default(), 1000)
}

/// Runs `lines` over fresh maps.
fn run(lines: &str) -> Result<u64, Fault> {
    run_in(&segment(&object("exit").maps), lines)
}

/// Stores a key at r10-8, points r2 at it and r1 at `map`.
fn with_key(map: &str, key: i32) -> String {
    format!("*(u64 *)(r10 - 0x8) = {key};;r2 = r10;;r2 += -0x8;;r1 = map[{map}] ll;;")
}

#[test]
fn update_lookup_delete() {
    let update = "*(u64 *)(r10 - 0x10) = 0x2a;;r3 = r10;;r3 += -0x10;;r4 = 0x0;;call map_update_elem;;";
    let lookup = "call map_lookup_elem;;if r0 == 0x0 goto +0x1;;r0 = *(u64 *)(r0 + 0x0);;exit";
    for map in ["@h", "@p", "@l", "@m"] {
        let key = with_key(map, 5);
        assert_eq!(run(&format!("{key}{update}exit")), Ok(0), "{map}");
        assert_eq!(run(&format!("{key}{update}{key}{lookup}")), Ok(42), "{map}");
        assert_eq!(run(&format!("{key}{lookup}")), Ok(0), "{map}");
        assert_eq!(run(&format!("{key}{update}{key}call map_delete_elem;;{key}{lookup}")), Ok(0), "{map}");
        assert_eq!(run(&format!("{key}call map_delete_elem;;exit")), Ok(-2i64 as u64), "{map}");
    }
    assert_eq!(run(&format!("{}call map_delete_elem;;exit", with_key("@a", 1))), Ok(-22i64 as u64));
    assert_eq!(run(&format!("{}call map_lookup_elem;;exit", with_key("@a", 4))), Ok(0));
}

#[test]
fn per_cpu_values_are_changed_in_the_shared_lane() {
    let segment = segment(&object("exit").maps);
    let count = "call map_lookup_elem;;if r0 == 0x0 goto +0x2;;r1 = 0x1;;lock *(u64 *)(r0 + 0x0) += r1;;exit";
    for _ in 0..5 {
        run_in(&segment, &format!("{}{count}", with_key("@q", 1))).expect("no fault");
    }
    let map = segment.layout().maps[3].clone();
    assert_eq!(segment.map(3).lookup(&1u32.to_le_bytes()), Some(5u64.to_le_bytes().to_vec()));
    assert_eq!(map.lanes, 3);
    assert_eq!(run_in(&segment, "r1 = map[@q][0] + 0x8 ll;;r0 = *(u64 *)(r1 + 0x0);;exit"), Ok(5));
}

/// Elements of a hash are as long as its keys, and the next map begins behind the last of them.
#[test]
fn a_map_behind_long_keys_has_its_own_values() {
    let maps = "map @h hash key 1032 value 16 entries 8\nmap @a array key 4 value 16 entries 1\n";
    let lines = "r1 = map[@a][0] + 0x0 ll\n*(u64 *)(r1 + 0x8) = 7\nr0 = *(u64 *)(r1 + 0x8)\nexit\n";
    let object = asm::parse(&format!("{maps}program \"test\" probe\n{lines}")).expect("an object");
    let segment = segment(&object.maps);
    let environment = Environment { segment: &segment };
    let ran = run_unverified(&object.programs[0], &object.maps, &environment, &mut Frame::default(), 100);
    assert_eq!(ran, Ok(7));
}

#[test]
fn records_reach_their_reader() {
    let segment = segment(&object("exit").maps);
    let reserve = "r1 = map[@r] ll;;r2 = 0x10;;r3 = 0x0;;call ringbuf_reserve;;if r0 == 0x0 goto +0x5;;";
    let submit = "*(u64 *)(r0 + 0x8) = 0x7;;r1 = r0;;r2 = 0x0;;call ringbuf_submit;;r0 = 0x0;;exit";
    assert_eq!(run_in(&segment, &format!("{reserve}{submit}")), Ok(0));
    let record = segment.ring(4).next().expect("submitted");
    assert_eq!(record.bytes, [[0; 8], 7u64.to_le_bytes()].concat());
    let output = "*(u64 *)(r10 - 0x8) = 0x3;;r1 = map[@r] ll;;r2 = r10;;r2 += -0x8;;r3 = 0x8;;r4 = 0x0;;\
                  call ringbuf_output;;exit";
    assert_eq!(run_in(&segment, output), Ok(0));
    assert_eq!(segment.ring(4).next().expect("submitted").bytes, 3u64.to_le_bytes());
    let leak = run_in(&segment, &format!("{reserve}r0 = 0x0;;exit;;r0 = 0x0;;r0 = 0x0;;r0 = 0x0;;exit"));
    assert_eq!(leak, Err(Fault::End { violation: Violation::LeakedRecords { count: 1 } }));
    assert_eq!(segment.ring(4).next(), None, "a leaked record does not stop the reader");
}

/// `lines` fault at instruction `pc`.
fn check_fault(lines: &str, pc: usize) {
    let at = match run(lines) {
        Err(
            Fault::Memory { pc, .. }
            | Fault::Instruction { pc, .. }
            | Fault::Jump { pc, .. }
            | Fault::CallDepth { pc },
        ) => pc,
        other => panic!("{lines}: {other:?}"),
    };
    assert_eq!(at, pc, "{lines}");
}

#[test]
fn accesses_outside_are_faults() {
    check_fault("r0 = *(u64 *)(r10 + 0x0);;exit", 0);
    check_fault("r0 = *(u64 *)(r10 - 0x4);;exit", 0);
    check_fault("r0 = *(u64 *)(r1 + 0xe8);;exit", 0);
    check_fault("*(u64 *)(r1 + 0x70) = 0x1;;exit", 0);
    check_fault("r1 = 0x0;;r0 = *(u8 *)(r1 + 0x0);;exit", 1);
    check_fault("r1 = map[@a] ll;;r0 = *(u8 *)(r1 + 0x0);;exit", 2);
    check_fault("r1 = map[@a][0] + 0x3c ll;;r0 = *(u64 *)(r1 + 0x0);;exit", 2);
    check_fault("r1 = map[@a][0] + 0xc ll;;r0 = *(u64 *)(r1 + 0x0);;exit", 2);
    check_fault("r1 = map[@h][0] + 0x0 ll;;exit", 0);
    check_fault("r1 = r10;;lock *(u64 *)(r1 - 0xc) += r1;;exit", 1);
    check_fault(&format!("{}r2 += 0x8;;call map_lookup_elem;;exit", with_key("@h", 1)), 6);
    check_fault("r1 = 0x0;;r2 = r10;;call map_lookup_elem;;exit", 2);
    check_fault("call 0x63;;exit", 0);
}

#[test]
fn bad_flow_is_a_fault() {
    check_fault("r0 = 0x0", 1);
    check_fault("goto +0x5;;exit", 0);
    check_fault("goto -0x2;;exit", 0);
    check_fault("goto +0x1;;r0 = 0x1 ll;;exit", 2);
    check_fault("call pc-0x1;;exit", 0);
    check_fault("r10 = 0x1;;exit", 0);
    assert_eq!(run("goto -0x1"), Err(Fault::Steps { steps: 1000 }));
}

#[test]
fn other_maps_than_the_segments_are_refused() {
    let segment = segment(&[]);
    assert!(matches!(run_in(&segment, "exit"), Err(Fault::Maps { .. })));
}

/// Random slots: a result or a fault, nothing else; and no map but by its own operations.
#[test]
fn any_slots_end_in_a_result_or_a_fault() {
    let maps = object("exit").maps;
    let segment = segment(&maps);
    let base = object(&format!(
        "{}call map_lookup_elem;;if r0 == 0x0 goto +0x1;;r0 = *(u64 *)(r0 + 0x0);;exit",
        with_key("@a", 1)
    ));
    let environment = Environment { segment: &segment };
    places::any_slots(&base, |program| {
        run_unverified(program, &maps, &environment, &mut Frame::default(), 200).is_ok()
    });
    assert_eq!(segment.layout().maps[0].spec.kind, MapKind::Array);
}

#[test]
fn a_verified_program_runs() {
    let object = object(&format!(
        "{}*(u64 *)(r10 - 0x10) = 0x2a;;r3 = r10;;r3 += -0x10;;r4 = 0x0;;call map_update_elem;;r0 = 0x3;;exit",
        with_key("@h", 5)
    ));
    let program = weir_verifier::verify(&object.programs[0], &object.maps, &weir_verifier::Limits::default());
    let program = program.unwrap_or_else(|rejection| panic!("{rejection}"));
    let segment = segment(&object.maps);
    assert_eq!(weir_interp::run(&program, &Environment { segment: &segment }, &mut Frame::default()), Ok(3));
    assert_eq!(segment.map(1).entries(), [(5u64.to_le_bytes().to_vec(), 42u64.to_le_bytes().to_vec())]);
}
