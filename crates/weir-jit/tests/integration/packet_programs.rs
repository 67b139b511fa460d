//! The C programs of `tests/bpf/packets`: the same result, packet, context and maps from the interpreter, from the JIT
//! for every kind of site, and from the kernel, on packets that are short, exact, long, and random.

use crate::engines;
use crate::wire;

use engines::Random;
use testkit::{bpf, paths};
use weir_ebpf::elf::{self, ObjectFile};
use weir_ebpf::{MapKind, ProgramKind, context};
use weir_interp::Environment;
use weir_interp::threaded::Threaded;
use weir_jit::Flags;
use weir_kernel::{Input, Maps};
use weir_rt::Context;
use weir_rt::local::LocalProgram;
use weir_rt::segment::Segment;
use weir_verifier::VerifiedProgram;

/// Bytes of the Ethernet header that a socket filter does not see.
const LINK: usize = 14;

/// An engine with maps of its own, which hold from packet to packet.
trait Engine {
    fn name(&self) -> String;
    fn run(&mut self, packet: &[u8]) -> Outcome;
    fn maps(&self) -> Vec<Vec<(Vec<u8>, Vec<u8>)>>;
}

/// What a run left: the lower half of r0, the packet, words of the context that the program may have written.
#[derive(PartialEq, Eq, Debug)]
struct Outcome {
    r0: u32,
    packet: Vec<u8>,
    words: Vec<u32>,
}

struct InProcess {
    program: VerifiedProgram,
    /// All programs of the object, if tail calls lead to some.
    others: Vec<VerifiedProgram>,
    segment: Segment,
    /// None: an interpreter.
    code: Option<(String, LocalProgram)>,
    /// The threaded one, where it has all that the program needs.
    is_threaded: bool,
}

impl Engine for InProcess {
    fn name(&self) -> String {
        let interpreter = if self.is_threaded { "threaded interpreter" } else { "interpreter" };
        self.code.as_ref().map_or_else(|| interpreter.to_owned(), |(name, _)| name.clone())
    }

    fn run(&mut self, packet: &[u8]) -> Outcome {
        let mut context = Context::received(self.program.kind(), packet).expect("a kind of packets");
        let r0 = match &self.code {
            Some((_, code)) => code.run(&mut context),
            None if self.is_threaded => {
                Threaded::of(&self.program, &self.segment).expect("it was asked before").run(&mut context)
            }
            None => {
                let others: Vec<&VerifiedProgram> = self.others.iter().collect();
                let environment = Environment { segment: &self.segment };
                weir_interp::run_among(&others, &self.program, &environment, &mut context).expect("verified")
            }
        };
        let before = if self.program.kind() == ProgramKind::SocketFilter { LINK } else { 0 };
        let packet = [context.bytes_before(before), context.bytes()].concat();
        let words =
            words(self.program.kind()).map(|offset| context.field(offset).expect("a field")).collect();
        Outcome { r0: r0 as u32, packet, words }
    }

    fn maps(&self) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut maps = engines::contents(&self.segment);
        // Which program is in a slot has another number in the kernel.
        let layouts = &self.segment.layout().maps;
        let of_programs = layouts.iter().map(|map| map.spec.kind == MapKind::ProgArray);
        maps.iter_mut()
            .zip(of_programs)
            .filter(|(_, of_programs)| *of_programs)
            .for_each(|(map, _)| map.clear());
        maps.iter_mut().for_each(|map| map.sort());
        maps
    }
}

struct InKernel {
    kind: ProgramKind,
    program: weir_kernel::Loaded,
    maps: Maps,
    kinds: Vec<MapKind>,
}

impl Engine for InKernel {
    fn name(&self) -> String {
        "kernel".into()
    }

    fn run(&mut self, packet: &[u8]) -> Outcome {
        // A context of zeros, which is what there is without one, so that one comes back.
        let context = match self.kind.is_sk_buff() {
            true => vec![0; context::SK_BUFF_BYTES as usize],
            false => Vec::new(),
        };
        let ran = self.program.run(Input { bytes: packet, context: &context }, 1).expect("runs");
        let word = |at: usize| u32::from_le_bytes(ran.context[at..at + 4].try_into().expect("4 bytes"));
        let words = words(self.kind).map(|offset| word(offset as usize)).collect();
        Outcome { r0: ran.r0 as u32, packet: ran.bytes, words }
    }

    fn maps(&self) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
        let entries = |map| {
            let mut keys = self.maps.keys(map).expect("keys");
            keys.sort();
            let value =
                |key: &[u8]| self.maps.lookup(map, key).expect("a look-up").expect("its key is there");
            keys.into_iter().map(|key| (key.clone(), value(&key))).collect()
        };
        let of_programs = |map: usize| self.kinds[map] == MapKind::ProgArray;
        (0..self.kinds.len()).map(|map| if of_programs(map) { Vec::new() } else { entries(map) }).collect()
    }
}

/// The offsets of `cb`, and of what the kernel gives back else that a classifier may write: `mark` and `priority`.
fn words(kind: ProgramKind) -> impl Iterator<Item = u32> {
    let words: &[u32] = match kind {
        ProgramKind::SocketFilter => &[48, 52, 56, 60, 64],
        ProgramKind::Classifier => &[48, 52, 56, 60, 64, 8, 32],
        _ => &[],
    };
    words.iter().copied()
}

fn engines_of(file: &ObjectFile, index: usize, in_kernel: bool) -> Vec<Box<dyn Engine>> {
    let (program, maps) = (&file.object.programs[index], &file.object.maps);
    let is_compared = |kind| matches!(kind, MapKind::Array | MapKind::Hash | MapKind::ProgArray);
    assert!(maps.iter().all(|map| is_compared(map.kind)), "kinds compared here");
    let verified = engines::verified(program, maps);
    let has_slots = file.maps.iter().any(|origin| !origin.programs.is_empty());
    let others = file.object.programs.iter().filter(|_| has_slots);
    let others: Vec<VerifiedProgram> = others.map(|other| engines::verified(other, maps)).collect();
    let segment = || {
        let segment = engines::segment(maps, engines::cpus());
        segment.fill(&file.maps).expect("what the file says fits");
        segment
    };
    let in_process = |segment, code| InProcess {
        program: verified.clone(),
        others: others.clone(),
        segment,
        code,
        is_threaded: false,
    };
    let mut all: Vec<Box<dyn Engine>> = vec![Box::new(in_process(segment(), None))];
    let for_threaded = segment();
    // Tail calls alone are left to the other.
    assert!(has_slots || Threaded::of(&verified, &for_threaded).is_some(), "{}", program.name);
    if !has_slots {
        all.push(Box::new(InProcess { is_threaded: true, ..in_process(for_threaded, None) }));
    }
    for abi in engines::abis() {
        for flags in [Flags::Change, Flags::KeepEach] {
            let segment = segment();
            let compiled = |program: &VerifiedProgram| engines::compiled(program, &abi, flags);
            let local = match has_slots {
                true => {
                    let codes: Vec<_> = others.iter().map(compiled).collect();
                    LocalProgram::load_all(&codes, &segment).expect("code fits").swap_remove(index)
                }
                false => LocalProgram::load(&compiled(&verified), &segment).expect("code fits"),
            };
            all.push(Box::new(in_process(segment, Some((format!("{abi:?} {flags:?}"), local)))));
        }
    }
    if in_kernel {
        let kernel_maps = Maps::create(maps).expect("maps");
        for (map, origin) in file.maps.iter().enumerate() {
            if let Some(initial) = &origin.initial {
                kernel_maps.update(map, &[0; 4], initial).expect("an array");
            }
        }
        let loaded = weir_kernel::load(program, &kernel_maps).unwrap_or_else(|error| panic!("{error}"));
        for (map, origin) in file.maps.iter().enumerate() {
            for (slot, other) in &origin.programs {
                let other = weir_kernel::load(&file.object.programs[*other], &kernel_maps);
                let other = other.unwrap_or_else(|error| panic!("{error}"));
                kernel_maps.set_program(map, *slot, &other).expect("the slot is there");
            }
        }
        let (kind, kinds) = (program.kind, maps.iter().map(|map| map.kind).collect());
        all.push(Box::new(InKernel { kind, program: loaded, maps: kernel_maps, kinds }));
    }
    all
}

/// Every whole packet, cut at every length that the kernel tests; and random changes of them.
fn packets() -> Vec<Vec<u8>> {
    let whole = wire::whole();
    let mut packets = Vec::new();
    for packet in &whole {
        packets.extend((LINK..packet.len().min(LINK + 70)).map(|bytes| packet[..bytes].to_vec()));
        packets.push(packet.clone());
    }
    let mut random = Random(11);
    for _ in 0..2_000 {
        let mut packet = whole[random.below(whole.len() as u64) as usize].clone();
        for _ in 0..random.below(6) {
            let at = random.below(packet.len() as u64) as usize;
            packet[at] = random.next() as u8;
        }
        packet.truncate(LINK + random.below(packet.len() as u64) as usize);
        packets.push(packet);
    }
    packets
}

fn objects() -> Vec<(String, ObjectFile)> {
    let sources = bpf::sources("tests/bpf/packets");
    assert!(sources.len() >= 10, "only {} programs", sources.len());
    let folder = paths::target().join("packet-programs");
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut objects = Vec::new();
    for source in sources {
        let name = source.file_stem().expect("a name").to_string_lossy().into_owned();
        let object = folder.join(format!("{name}.o"));
        if !bpf::compile(&source, &object) {
            return Vec::new();
        }
        let file = elf::read(&std::fs::read(&object).expect("an object"));
        objects.push((name, file.expect("an object of clang")));
    }
    objects
}

#[test]
fn programs_of_packets_do_the_same_everywhere() {
    testkit::cpu::stay_on_this();
    let kernel = testkit::kernel::available();
    if let Err(reason) = &kernel {
        testkit::skip::skip("weir-kernel", reason);
    }
    let packets = packets();
    for (name, file) in objects() {
        let mut answers = std::collections::BTreeSet::new();
        for index in 0..file.object.programs.len() {
            // Once without the kernel, on packets that are too short for it as well.
            for in_kernel in [false, true].into_iter().filter(|in_kernel| !in_kernel || kernel.is_ok()) {
                let kind = file.object.programs[index].kind;
                let fits =
                    |packet: &&Vec<u8>| !in_kernel || packet.len() >= weir_kernel::bytes_min(kind, packet);
                let mut engines = engines_of(&file, index, in_kernel);
                for packet in packets.iter().filter(fits) {
                    answers.insert(check(&name, &mut engines, packet));
                }
                let expected = engines[0].maps();
                for engine in &engines[1..] {
                    assert_eq!(engine.maps(), expected, "{name} in {}", engine.name());
                }
            }
        }
        assert!(answers.len() > 1, "{name} always says {answers:?}");
    }
}

/// All engines do the same; r0.
fn check(name: &str, engines: &mut [Box<dyn Engine>], packet: &[u8]) -> u32 {
    let mut outcomes = engines.iter_mut().map(|engine| (engine.run(packet), engine.name()));
    let (expected, _) = outcomes.next().expect("the interpreter");
    for (outcome, engine) in outcomes {
        assert_eq!(outcome, expected, "{name} in {engine}: {packet:02x?}");
    }
    expected.r0
}
