//! What is written is read back the same, and taken by libbpf.

use crate::corpus;

use std::path::Path;
use std::process::Command;

use testkit::{bpf, paths};
use weir_ebpf::elf::{self, MapOrigin, ObjectFile};
use weir_ebpf::insn::pseudo;
use weir_ebpf::{MapSpec, Object, asm};

/// A map, but for its name, which becomes an identifier.
fn shape(map: &MapSpec) -> [u32; 6] {
    [map.kind as u32, map.key_bytes, map.value_bytes, map.max_entries, map.flags, map.extra as u32]
}

/// Instructions are the same, and name the same maps by whatever index.
fn check_same(name: &str, before: &ObjectFile, after: &ObjectFile) {
    let (old, new) = (&before.object, &after.object);
    assert_eq!(old.programs.len(), new.programs.len(), "{name}");
    for (old_program, new_program) in old.programs.iter().zip(&new.programs) {
        assert_eq!(old_program.insns.len(), new_program.insns.len(), "{name}");
        for (a, b) in old_program.insns.iter().zip(&new_program.insns) {
            if a.is_wide() && [pseudo::MAP_INDEX, pseudo::MAP_INDEX_VALUE].contains(&a.src) {
                assert_eq!((a.dst, a.src), (b.dst, b.src), "{name}");
                let (a, b) = (a.imm as usize, b.imm as usize);
                assert_eq!(shape(&old.maps[a]), shape(&new.maps[b]), "{name}");
                assert_eq!(before.maps[a].initial, after.maps[b].initial, "{name}");
            } else {
                assert_eq!(a, b, "{name}");
            }
        }
    }
    let slots = |file: &ObjectFile| {
        let name = |program: usize| file.object.programs[program].name.clone();
        let of_map = |map: &MapOrigin| {
            let slots = map.programs.iter().map(|(slot, program)| (*slot, name(*program)));
            slots.collect::<Vec<_>>()
        };
        file.maps.iter().flat_map(of_map).collect::<Vec<(u32, String)>>()
    };
    assert_eq!(slots(before), slots(after), "{name}");
    let sections = |file: &ObjectFile| file.programs.iter().map(|p| p.section.clone()).collect::<Vec<_>>();
    assert_eq!((sections(before), &before.license), (sections(after), &after.license), "{name}");
    // And what was read from our file comes out of the next one unchanged.
    let again = elf::read(&elf::write(after).unwrap()).unwrap();
    assert_eq!(&again, after, "{name}");
}

fn object(text: &str) -> Object {
    asm::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// An object with each kind of map, odd names, and contents.
fn sample() -> ObjectFile {
    let mut file = ObjectFile::of(object(
        "map @ percpu_hash key 16 value 8 entries 4096\nmap @a.b array key 4 value 8 entries 3\n\
         map a_b hash key 8 value 8 entries 16 flags 0x41\nmap @t percpu_array key 4 value 8 entries 1\n\
         map .ring ringbuf key 0 value 0 entries 4096\nmap .globals array key 4 value 24 entries 1\n\
         program \"BEGIN\" controller\nr1 = map[.globals][0] + 0x8 ll\n*(u64 *)(r1 + 0x0) = 0x5\n\
         r1 = 0x1122334455667788 ll\nr0 = 0x0\nexit\n\
         program \"uprobe:libc:malloc\" probe\n*(u64 *)(r10 - 0x8) = 0x1\nr2 = r10\nr2 += -0x8\n\
         r1 = map[a_b] ll\ncall map_lookup_elem\nr1 = map[.ring] ll\nr2 = 0x8\nr3 = 0x0\n\
         call ringbuf_reserve\nif r0 == 0x0 goto out\n*(u64 *)(r0 + 0x0) = 0x7\nr1 = r0\nr2 = 0x0\n\
         call ringbuf_submit\nout: r0 = 0x0\nexit\n",
    ));
    let contents = [7u64.to_le_bytes(), 8u64.to_le_bytes(), 9u64.to_le_bytes()].concat();
    file.maps[5] = MapOrigin { initial: Some(contents), ..MapOrigin::default() };
    file
}

#[test]
fn what_is_written_is_read_back() {
    let file = sample();
    let read = elf::read(&elf::write(&file).unwrap()).unwrap();
    check_same("sample", &file, &read);
    let names: Vec<&str> = read.object.maps.iter().map(|map| map.name.as_str()).collect();
    assert_eq!(names, ["m", "a_b", "a_b_2", "t", "ring", ".data.globals"]);
    let programs: Vec<&str> = read.object.programs.iter().map(|program| program.name.as_str()).collect();
    assert_eq!(programs, ["BEGIN", "uprobe_libc_malloc"]);
}

/// Maps that hold maps are read, and not written.
fn holds_maps(file: &ObjectFile) -> bool {
    file.object.maps.iter().any(|map| map.kind.holds_maps())
}

#[test]
fn objects_of_clang_are_written_and_read_back() {
    for (name, bytes) in corpus::objects("write") {
        let file = elf::read(bytes).unwrap();
        if holds_maps(&file) {
            continue;
        }
        let read = elf::read(&elf::write(&file).unwrap()).unwrap();
        check_same(name, &file, &read);
    }
}

#[test]
fn what_a_file_cannot_say_is_refused() {
    let check = |text: &str, part: &str| {
        let message = elf::write(&ObjectFile::of(object(text))).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    let array = |entries: u32| format!("map a array key 4 value 8 entries {entries}\nprogram \"p\" probe\n");
    check(&(array(2) + "r1 = map[a][0] + 0x0 ll\nexit\n"), "map `a`: its value is addressed directly");
    check(&(array(1) + "r1 = map[a][0] + 0x0 ll\nr1 = map[a] ll\nexit\n"), "named as a map and its value");
    check(&(array(1) + "r1 = map[#7] ll\nexit\n"), "program `p`, instruction 0: there is no such map");
    let holder = "map o array_of_maps key 4 value 4 entries 1 inner 1\n".to_owned() + &array(1);
    check(&holder, "map `o`: it holds maps");
    check("program \"p\" probe\ncall pc+0x9\nexit\n", "program `p`, instruction 0: a call of what is not in");
    check(
        "program \"p\" probe\ncall pc+0x2\ngoto +0x1\nexit\nexit\n",
        "instruction 1: a jump leaves its function",
    );
    check("program \"p\" probe\n", "program `p`, instruction 0: the program is empty");
}

/// Runs bpftool; its answer, or its message.
fn run(tool: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(tool).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn written(name: &str) -> String {
    let folder = paths::target().join("bpf-corpus");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.bpf.o"));
    std::fs::write(&path, elf::write(&sample()).unwrap()).unwrap();
    path.display().to_string()
}

#[test]
fn bpftool_reads_what_is_written() {
    let Some(tool) = bpf::tool() else { return };
    let path = written("bpftool-reads");
    let types = run(&tool, &["btf", "dump", "file", &path]).unwrap();
    assert!(types.contains("DATASEC '.maps' size=240 vlen=5"), "{types}");
    // libbpf's linker checks sections, symbols, relocations and BTF more strictly than its loader.
    let linked = format!("{path}.linked.o");
    run(&tool, &["gen", "object", &linked, &path]).unwrap();
    let file = elf::read(&std::fs::read(&linked).unwrap()).unwrap();
    assert_eq!(file.object.programs.len(), 2);
    let skeleton = run(&tool, &["gen", "skeleton", &path, "name", "sample"]).unwrap();
    assert!(skeleton.contains("struct bpf_program *uprobe_libc_malloc;"));
}

#[test]
fn bpftool_loads_what_is_written() {
    let Some(tool) = bpf::tool() else { return };
    let Some(loaded) = bpf::load(&tool, Path::new(&written("bpftool-loads"))) else { return };
    assert!(loaded.unwrap().contains(&"uprobe_libc_malloc".to_owned()));
}

#[test]
fn bpftool_loads_what_was_read_from_clang() {
    let Some(tool) = bpf::tool() else { return };
    for (name, bytes) in corpus::objects("write") {
        let file = elf::read(bytes).unwrap();
        if holds_maps(&file) {
            continue;
        }
        let written = elf::write(&file).unwrap();
        let path = paths::target().join(format!("bpf-corpus/write/{name}-again.o"));
        std::fs::write(&path, written).unwrap();
        match bpf::load(&tool, &path) {
            Some(loaded) => assert!(!loaded.unwrap_or_else(|error| panic!("{name}: {error}")).is_empty()),
            None => return,
        }
    }
}
