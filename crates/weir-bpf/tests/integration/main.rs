//! weir-bpf from outside: objects, programs on each engine, maps, and what is refused.

use weir_bpf::{Engine, Error, MapKind, Object, ProgramKind, RejectionKind};
use weir_ebpf::elf::{self, ObjectFile};

const ENGINES: [Engine; 3] = [Engine::Jit, Engine::Interpreter, Engine::CheckingInterpreter];

/// An object file of assembly text.
fn object(text: &str) -> Object {
    let file = ObjectFile::of(weir_ebpf::asm::parse(text).unwrap());
    Object::read(&elf::write(&file).unwrap()).unwrap()
}

/// Counts packets by their first byte, and passes those that begin with 1.
const COUNTS: &str = "map \"counts\" hash key 4 value 8 entries 16
program \"count\" xdp
r6 = *(u32 *)(r1 + 0)
r7 = *(u32 *)(r1 + 4)
r2 = r6
r2 += 14
if r2 > r7 goto out
r6 = *(u8 *)(r6 + 0)
*(u32 *)(r10 - 4) = r6
r2 = r10
r2 += -4
r1 = map[counts] ll
call map_lookup_elem
if r0 == 0 goto first
r1 = 1
lock *(u64 *)(r0 + 0) += r1
goto decide
first:
*(u64 *)(r10 - 16) = 1
r2 = r10
r2 += -4
r3 = r10
r3 += -16
r4 = 0
r1 = map[counts] ll
call map_update_elem
decide:
r0 = 1
if r6 == 1 goto pass
exit
pass:
r0 = 2
exit
out:
r0 = 0
exit
";

#[test]
fn engines_give_the_same_results_and_share_the_object_s_maps() {
    let object = object(COUNTS);
    for (round, engine) in ENGINES.into_iter().enumerate() {
        let program = object.load("count", engine).unwrap();
        assert_eq!(program.kind(), ProgramKind::Xdp);
        let mut results = Vec::new();
        for first in [1, 1, 7] {
            let mut packet = [0; 60];
            packet[0] = first;
            results.push(program.run(&mut packet).unwrap());
        }
        results.push(program.run(&mut [0; 13]).unwrap());
        assert_eq!(results, [2, 2, 1, 0], "{engine:?}");
        let counts = object.map("counts").unwrap();
        let count = |first: u32| {
            u64::from_le_bytes(counts.get(&first.to_le_bytes()).unwrap().unwrap().try_into().unwrap())
        };
        assert_eq!([count(1), count(7)], [2 * (round as u64 + 1), round as u64 + 1]);
    }
}

#[test]
fn a_map_is_read_and_written_as_by_bpf() {
    let object = object(COUNTS);
    let map = object.map("counts").unwrap();
    assert_eq!((map.spec().kind, map.spec().key_bytes, map.lanes()), (MapKind::Hash, 4, 1));
    assert_eq!(map.get(&[0; 4]).unwrap(), None);
    map.update(&[1, 0, 0, 0], &[9; 8], 1).unwrap();
    assert_eq!(map.get(&[1, 0, 0, 0]).unwrap(), Some(vec![9; 8]));
    assert_eq!(map.update(&[1, 0, 0, 0], &[8; 8], 1).unwrap_err().to_string(), "the key exists (EEXIST)");
    assert_eq!(map.keys().collect::<Vec<_>>(), [vec![1, 0, 0, 0]]);
    map.delete(&[1, 0, 0, 0]).unwrap();
    assert_eq!(map.keys().count(), 0);
    assert!(matches!(map.next_record(), Err(Error::NoRing(name)) if name == "counts"));
    assert!(matches!(object.map(".data.count"), Err(Error::NoMap(_))));
}

#[test]
fn bare_instructions_run_on_memory_of_the_size_that_they_were_verified_for() {
    // r0 = *(u8 *)(r1 + 2); exit
    let object = Object::of_instructions(&[0x71, 0x10, 2, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    for engine in ENGINES {
        let program = object.load_for("program", engine, 8).unwrap();
        assert_eq!(program.run(&mut [1, 2, 3, 4, 5, 6, 7, 8].to_vec()).unwrap(), 3);
        assert!(matches!(program.run(&mut [0; 16]), Err(Error::Data(_))), "{engine:?}");
    }
    let rejected = object.load_for("program", Engine::Jit, 2).unwrap_err();
    assert!(matches!(rejected, Error::Rejected { kind: RejectionKind::Unsafe, .. }), "{rejected}");
    assert!(matches!(Object::of_instructions(&[0; 9]), Err(Error::RaggedInstructions(9))));
}

#[test]
fn a_classifier_is_asked_about_packets_that_are_longer_on_the_wire() {
    // Keeps what is longer than 1,000 bytes on the wire.
    let text =
        "program \"long\" classifier\nr0 = *(u32 *)(r1 + 0)\nif r0 > 1000 goto keep\nr0 = 0\nkeep:\nexit\n";
    let object = object(text);
    for engine in ENGINES {
        let program = object.load("long", engine).unwrap();
        assert_eq!(program.classify(&[0; 60], 1500).unwrap(), 1500, "{engine:?}");
        assert_eq!(program.classify(&[0; 60], 60).unwrap(), 0, "{engine:?}");
    }
    let xdp = self::object(COUNTS).load("count", Engine::Jit).unwrap();
    assert_eq!(xdp.classify(&[0; 60], 60).unwrap_err().to_string(), "a program of kind xdp is no classifier");
}

#[test]
fn what_is_not_there_is_named() {
    let object = object(&format!("{COUNTS}program \"other\" xdp\nr0 = 2\nexit\n"));
    assert_eq!(object.programs().collect::<Vec<_>>(), ["count", "other"]);
    assert_eq!(object.only_program().unwrap_err().to_string(), "there are 2 programs; one must be named");
    assert_eq!(object.load("third", Engine::Jit).unwrap_err().to_string(), "no program is named `third`");
    let missing = Object::open("/no/file.bpf.o").unwrap_err().to_string();
    assert_eq!(missing, "/no/file.bpf.o: No such file or directory (os error 2)");
    assert!(Object::open("/etc/passwd").unwrap_err().to_string().starts_with("/etc/passwd: "));
}

#[test]
fn programs_run_in_threads_and_outlive_their_object() {
    let program = object(COUNTS).load("count", Engine::Jit).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    assert_eq!(program.run(&mut [1; 60]).unwrap(), 2);
                }
            });
        }
    });
}

/// Two kinds of programs, an array of programs of one of them, a map without a size, and an instruction that is not to be had.
const MIXED: &str = "
map jumps prog_array key 4 value 4 entries 4
holds jumps 1 second
map sized_by_its_tool array key 4 value 8 entries 0
map counts array key 4 value 8 entries 1
program \"first\" xdp
r2 = map[jumps] ll
r3 = 1
call tail_call
r0 = 7
exit
program \"probe\" probe
r0 = 3
exit
program \"uses\" xdp
r0 = map[sized_by_its_tool] ll
r0 = 0
exit
program \"second\" xdp
r1 = map[counts][0] ll
r0 = *(u64 *)(r1 + 0)
r0 += 5
exit
program \"other\" xdp
call 0xbad2310
exit
";

#[test]
fn programs_are_loaded_with_what_they_reach_and_nothing_else() {
    for engine in ENGINES {
        let object = Object::of_file(weir_ebpf::asm::parse_file(MIXED).unwrap()).unwrap();
        let counts = object.map("counts").unwrap();
        counts.update(&[0; 4], &37u64.to_le_bytes(), 0).unwrap();
        let run = |name: &str| object.load(name, engine).unwrap().run(&mut [0; 64]);
        assert_eq!(run("first").unwrap(), 42);
        assert_eq!(object.load("probe", engine).unwrap().run(&mut []).unwrap(), 3);
        let refused = object.load("uses", engine).unwrap_err().to_string();
        let reason = "the map `sized_by_its_tool`: max_entries is 0; it must be 1 to ";
        assert!(refused.contains(reason), "{refused}");
        assert!(object.load("other", engine).unwrap_err().to_string().contains("is not to be had"));
        let unusable: Vec<(&str, &str)> = object.unusable_maps().collect();
        assert!(
            unusable[0].0 == "sized_by_its_tool" && reason.contains(&unusable[0].1[..16]),
            "{unusable:?}"
        );
        assert_eq!(
            object.maps().map(|map| map.spec().name.as_str()).collect::<Vec<_>>(),
            ["jumps", "counts"]
        );
    }
}

#[test]
fn maps_that_hold_what_is_not_there_are_left_out() {
    let holder = weir_bpf::MapSpec {
        inner: Some(9),
        ..weir_bpf::MapSpec::new("outer", MapKind::ArrayOfMaps, 4, 4, 4)
    };
    let file = ObjectFile::of(weir_ebpf::Object { maps: vec![holder], programs: Vec::new() });
    let object = Object::of_file(file).unwrap();
    assert_eq!((object.maps().count(), object.unusable_maps().count()), (0, 1));
}

/// `chosen` is the word of a map that has no size yet.
const SWITCHES: &str = "#include \"bpf_helpers.h\"
const volatile u32 chosen = 77;
const volatile u8 scale;
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __type(key, u32); __type(value, u32[4]); } words SEC(\".maps\");
SEC(\"xdp\") int pick(void *ctx)
{
	u32 key = 2, *found = bpf_map_lookup_elem(&words, &key);
	return found ? found[chosen] * scale : 0;
}
";

#[test]
fn maps_and_variables_are_changed_before_they_are_made() {
    let folder = testkit::paths::target().join("bpf-definitions");
    std::fs::create_dir_all(&folder).unwrap();
    let (source, file) = (folder.join("switches.c"), folder.join("switches.o"));
    std::fs::write(&source, SWITCHES).unwrap();
    if !testkit::bpf::compile(&source, &file) {
        return;
    }
    let refused = Object::open(&file).unwrap().load("pick", Engine::Jit).unwrap_err().to_string();
    assert!(refused.contains("max_entries is 0"), "{refused}");
    for engine in ENGINES {
        let object = Object::open_with(&file, None, |definitions| {
            definitions.set_max_entries("words", 3)?;
            definitions.set_variable("scale", &[10])?;
            definitions.set_variable("chosen", &3u32.to_le_bytes())
        });
        let object = object.unwrap();
        let values: Vec<u8> = [1u32, 2, 3, 4].into_iter().flat_map(u32::to_le_bytes).collect();
        object.map("words").unwrap().update(&2u32.to_le_bytes(), &values, 0).unwrap();
        assert_eq!(object.load("pick", engine).unwrap().run(&mut [0; 64]).unwrap(), 40);
        // From now on it is what it is.
        let constants = object.map(".rodata").unwrap();
        assert!(constants.update(&[0; 4], &constants.get(&[0; 4]).unwrap().unwrap(), 0).is_err());
    }
    let sized = |chosen: u32| {
        Object::open_with(&file, None, |definitions| {
            definitions.set_max_entries("words", 3)?;
            definitions.set_variable("chosen", &chosen.to_le_bytes())
        })
    };
    let outside = sized(4).unwrap().load("pick", Engine::Jit).unwrap_err().to_string();
    assert!(outside.contains("are not known to be inside its 16 bytes"), "{outside}");
    let wrong = |change: fn(&mut weir_bpf::Definitions<'_>) -> Result<(), Error>| {
        Object::open_with(&file, None, change).unwrap_err().to_string()
    };
    assert!(wrong(|it| it.set_variable("other", &[1])).contains("no variable is named `other`"));
    assert!(wrong(|it| it.set_variable("scale", &[1, 2])).contains("2 bytes for `scale`, which has 1"));
    assert!(wrong(|it| it.set_max_entries("other", 1)).contains("no map is named `other`"));
}

/// A count in a map of what functions do: `outer` times `inner` in rounds of rounds, each element of a map once, and `may_goto` in a
/// function that is called twice.
const ROUNDS: &str = "map \"count\" array key 4 value 8 entries 1
map \"few\" array key 4 value 8 entries 3
map \"values\" percpu_array key 4 value 8 entries 1
program \"nested\" probe
r1 = 5; r2 = outer ll; r3 = 0; r4 = 0; call loop; exit
outer: r1 = 3; r2 = inner ll; r3 = 0; r4 = 0; call loop; r0 = 0; exit
inner: r1 = map[count][0] ll; r2 = *(u64 *)(r1 + 0); r2 += 1; *(u64 *)(r1 + 0) = r2; r0 = 0; exit
program \"elements\" probe
r1 = map[few] ll; r2 = each ll; r3 = 0; r4 = 0; call for_each_map_elem; exit
each: r1 = map[count][0] ll; r2 = *(u64 *)(r1 + 0); r2 += 1; *(u64 *)(r1 + 0) = r2; r0 = 0; exit
program \"may\" probe
call f; r6 = r0; call f; r0 += r6; exit
f: r0 = 0; here: may_goto out; if r0 >= 8 goto out; r0 += 1; goto here; out: exit
program \"lanes\" probe
r1 = 4; r2 = more ll; r3 = 0; r4 = 0; call loop; exit
more: *(u32 *)(r10 - 4) = 0; r2 = r10; r2 += -4; r1 = map[values] ll; call map_lookup_elem; if r0 == 0 goto none
r1 = *(u64 *)(r0 + 0); r1 *= 3; r1 += 1; *(u64 *)(r0 + 0) = r1; none: r0 = 0; exit
program \"plain\" probe
r0 = 0; here: r0 += 1; if r0 != 1000 goto here; exit
";

#[test]
fn a_limit_of_rounds_ends_runs_and_leaves_shorter_ones_alone() {
    let text =
        ROUNDS.replace("; ", "\n").replace(": r", ":\nr").replace(": may", ":\nmay").replace(": *", ":\n*");
    // Rounds that a run needs, and what the map counts then.
    for (name, needed, answer, counted) in [
        ("nested", 20, 5, 15),
        ("elements", 4, 3, 3),
        ("may", 18, 16, 0),
        ("lanes", 4, 4, 0),
        ("plain", 0, 1000, 0),
    ] {
        for engine in ENGINES {
            let object = object(&text);
            // As files have arrays of a single value.
            let count = || object.map(".data.count").unwrap().lookup(&[0; 4]).unwrap()[0];
            let load = |rounds: u32| object.load_limited(name, engine, 0, rounds).unwrap();
            let answered = load(needed).run(&mut []);
            assert_eq!(answered.as_ref().ok(), Some(&answer), "{name} {engine:?}: {answered:?}");
            assert_eq!(count(), counted, "{name} {engine:?}");
            let longest = load(weir_bpf::ROUNDS_MAX);
            assert_eq!(longest.run(&mut []).unwrap(), answer, "{name} {engine:?}");
            if needed > 0 {
                for rounds in 0..needed {
                    let before = count();
                    let result = load(rounds).run(&mut []);
                    assert!(
                        matches!(result, Err(Error::Rounds(most)) if most == rounds),
                        "{name} {engine:?} {rounds}"
                    );
                    assert!(count() - before <= counted, "{name} {engine:?} {rounds}");
                }
            }
        }
    }
    let refused = object(&text).load_limited("may", Engine::Jit, 0, u32::MAX);
    assert!(matches!(refused, Err(Error::RoundsLimit(_))));
}

/// Billions of rounds, of which a limit leaves some: seconds become milliseconds.
#[test]
fn a_limit_of_rounds_holds_for_loops_in_loops_that_would_take_for_ever() {
    let text = "program \"p\" probe\nr1 = 8000000\nr2 = outer ll\nr3 = 0\nr4 = 0\ncall loop\nexit
        outer:\nr1 = 8000000\nr2 = inner ll\nr3 = 0\nr4 = 0\ncall loop\nr0 = 0\nexit\ninner:\nr0 = 0\nexit\n";
    for engine in ENGINES {
        let limited = object(text).load_limited("p", engine, 0, 100_000).unwrap();
        assert!(matches!(limited.run(&mut []), Err(Error::Rounds(100_000))), "{engine:?}");
    }
}

const VERSIONED: &str = "#include \"bpf_helpers.h\"
extern int LINUX_KERNEL_VERSION __attribute__((section(\".kconfig\")));
extern int CONFIG_HZ __attribute__((section(\".kconfig\")));
SEC(\"xdp\") int version(void *ctx)
{
	return LINUX_KERNEL_VERSION >= (3 << 16) ? 1 : *(volatile int *)0;
}
SEC(\"xdp\") int hertz(void *ctx)
{
	return CONFIG_HZ;
}
SEC(\"syscall\") int sums(unsigned char *ctx)
{
	return ctx[0] + ctx[3];
}
";

/// What is compared with the kernel's version is decided before anything is followed: code for older kernels need not be one that
/// weir can run.
#[test]
fn objects_know_the_kernels_version_and_syscall_programs_their_memory() {
    let folder = testkit::paths::target().join("bpf-versions");
    std::fs::create_dir_all(&folder).unwrap();
    let (source, file) = (folder.join("versions.c"), folder.join("versions.o"));
    std::fs::write(&source, VERSIONED).unwrap();
    if !testkit::bpf::compile(&source, &file) {
        return;
    }
    let object = Object::open(&file).unwrap();
    for engine in ENGINES {
        assert_eq!(object.load("version", engine).unwrap().run(&mut [0; 64]).unwrap(), 1);
        let sums = object.load_for("sums", engine, 4).unwrap();
        assert_eq!(sums.run(&mut [40, 0, 0, 2]).unwrap(), 42);
    }
    let refused = object.load("hertz", Engine::Jit).unwrap_err().to_string();
    assert!(refused.contains("`CONFIG_HZ` of the kernel's configuration"), "{refused}");
    let refused = object.load_for("sums", Engine::Jit, 3).unwrap_err().to_string();
    assert!(refused.contains("3 bytes of memory"), "{refused}");
    let older = |version: u32| {
        Object::open_with(&file, None, |it| it.set_variable("LINUX_KERNEL_VERSION", &version.to_le_bytes()))
    };
    assert!(older(2 << 16).unwrap().load("version", Engine::Jit).is_err());
}
