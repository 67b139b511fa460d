//! What is emitted does what the IR says: random modules are verified, run in the interpreter, and their maps and
//! records compared with those of the IR's own evaluator. They must also load in the kernel, where there is one.

use crate::model;

use model::evaluate::{self, State, Surroundings};
use model::generate::{ADDRESSES, Menu, module};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weir_codegen::{Compiled, compile};
use weir_ebpf::pt_regs;
use weir_event::{Field, MapSchema, Schema, Type};
use weir_interp::Environment;
use weir_ir::{Builtin, Module, Op, Trigger, text};
use weir_rt::executable::Frame;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Limits, VerifiedProgram, verify};

/// Mostly strings around the size from which memory is scratch and copies are loops; sometimes as long as `str()`'s.
fn menu(seed: u64) -> Menu {
    Menu { string_bytes: if seed.is_multiple_of(8) { 1024 } else { 128 }, clocks: false, sessions: true }
}

const COOKIE: u64 = 2;
/// Bits that the floating-point arguments have.
const FLOATS: [u64; 8] = [
    0,
    1 << 63,
    0x3ff8_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0x7ff8_0000_0000_0001,
    1,
    u64::MAX,
    0x4059_0000_0000_0000,
];
const STRINGS: [&str; 3] =
    ["", "exactly8", "a string that is longer than sixty-four bytes, which is long for one"];
/// Runs of each program, so that what one leaves in the maps is read by the next.
const RUNS: usize = 3;

/// Strings in this process's memory, at addresses that stay.
struct Memory {
    /// Each with zeros behind it, as many as the longest object has bytes.
    strings: Vec<Vec<u8>>,
}

impl Memory {
    fn new() -> Memory {
        Memory { strings: STRINGS.map(|text| [text.as_bytes(), &[0; 1024]].concat()).into() }
    }

    fn addresses(&self) -> Vec<u64> {
        self.strings.iter().map(|string| string.as_ptr() as u64).collect()
    }

    /// The module with the generator's addresses replaced by real ones, and `cpu`, which may change between the two
    /// runs, by `pid`.
    fn grounded(&self, mut module: Module) -> Module {
        for function in &mut module.functions {
            for inst in function.blocks.iter_mut().flat_map(|block| &mut block.insts) {
                match &mut inst.op {
                    Op::Int(value) => {
                        if let Some(n) = ADDRESSES.iter().position(|&address| address as i64 == *value) {
                            *value = self.addresses()[n] as i64;
                        }
                    }
                    Op::Builtin(builtin @ Builtin::Cpu) => *builtin = Builtin::Pid,
                    _ => {}
                }
            }
        }
        module
    }

    fn surroundings(&self, args: [u64; 6]) -> Surroundings {
        let comm = std::fs::read_to_string("/proc/thread-self/comm").expect("this thread's name");
        Surroundings {
            args,
            floats: FLOATS,
            pid: std::process::id(),
            tid: nix::unistd::gettid().as_raw() as u32,
            comm: comm.trim_end_matches('\n').into(),
            cookie: COOKIE,
            memory: self.addresses().into_iter().zip(STRINGS.map(String::from)).collect(),
            ..Surroundings::default()
        }
    }
}

fn verified(compiled: &Compiled) -> VerifiedProgram {
    let object = &compiled.object;
    verify(&object.programs[0], &object.maps, &Limits::default())
        .unwrap_or_else(|rejection| panic!("{rejection}\n{}", weir_ebpf::asm::print(object)))
}

fn segment(compiled: &Compiled) -> Segment {
    let layout = SegmentLayout::plan(&compiled.object.maps, 2).expect("the maps fit a segment");
    Segment::create_local(layout, &Identity::default()).expect("a memfd")
}

/// What the interpreter makes of it, in the evaluator's words.
fn execute(compiled: &Compiled, args: [u64; 6], is_return: bool) -> State {
    let program = verified(compiled);
    let segment = segment(compiled);
    let mut frame = Frame { cookie: COOKIE, ..Frame::default() };
    for (offset, arg) in pt_regs::ARGUMENTS.into_iter().zip(args) {
        frame.regs[offset as usize / 8] = arg;
    }
    frame.floats = FLOATS;
    frame.is_return = is_return.into();
    let mut session_cookie = 0;
    for _ in 0..RUNS {
        let environment = Environment { segment: &segment };
        let mut frame = frame;
        weir_interp::run(&program, &environment, &mut frame)
            .unwrap_or_else(|fault| panic!("{fault}\n{}", weir_ebpf::asm::print(&compiled.object)));
        session_cookie = frame.session_cookie;
    }
    let mut state = State { session_cookie, ..State::default() };
    for (index, map) in compiled.schema.maps.iter().enumerate() {
        for (key, value) in segment.map(map.map_index as usize).entries() {
            let key = if map.key.is_some() { key } else { Vec::new() };
            let words =
                value.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
            state.maps.insert((index as u32, key), words.collect());
        }
    }
    let mut ring = segment.ring(compiled.ring as usize);
    let whole = |record: Vec<u8>| with_all_of_its_string(&compiled.schema, record);
    state.records = std::iter::from_fn(|| ring.next()).map(|record| whole(record.bytes)).collect();
    state
}

/// A record may end with its last string's NUL; zeros follow then, up to the field's end.
fn with_all_of_its_string(schema: &Schema, mut record: Vec<u8>) -> Vec<u8> {
    let action = u32::from_le_bytes(record[..4].try_into().expect("4 bytes"));
    let fields = weir_ir::check::action_fields(&schema.actions[action as usize]);
    let last = fields.into_iter().max_by_key(|field| field.offset);
    if let Some(Field { offset, ty: ty @ Type::Str { .. } }) = last
        && record.last() == Some(&0)
        && record.len() > *offset as usize
    {
        record.resize((offset + ty.bytes()) as usize, 0);
    }
    record
}

/// What the evaluator makes of it; scalar maps that it never touched are zeros.
fn evaluated(module: &Module, mut around: Surroundings) -> State {
    let mut state = State::default();
    for _ in 0..RUNS {
        state.session_cookie = 0;
        evaluate::run(module, &module.functions[0], &mut around, &mut state);
    }
    for (index, map) in module.schema.maps.iter().enumerate().filter(|(_, map)| map.key.is_none()) {
        let words = map.value.words(true) as usize;
        state.maps.entry((index as u32, Vec::new())).or_insert_with(|| vec![0; words]);
    }
    state
}

fn check(module: &Module, memory: &Memory, args: [u64; 6]) {
    let compiled = compile(module).unwrap_or_else(|error| panic!("{error}\n{}", text::print(module)));
    // Of a function that returns alone, the run at the entry does nothing.
    let is_return = match module.functions[0].trigger {
        Trigger::Session { .. } => args[0] % 2 == 1,
        _ => true,
    };
    let want = evaluated(module, Surroundings { is_return, ..memory.surroundings(args) });
    let got = execute(&compiled, args, is_return);
    let differing: Vec<&MapSchema> = module
        .schema
        .maps
        .iter()
        .enumerate()
        .filter(|(index, _)| {
            let of = |state: &State| -> Vec<(Vec<u8>, Vec<u64>)> {
                let entries = state.maps.iter().filter(|((map, _), _)| *map as usize == *index);
                entries.map(|((_, key), words)| (key.clone(), words.clone())).collect()
            };
            of(&want) != of(&got)
        })
        .map(|(_, map)| map)
        .collect();
    assert!(
        want == got,
        "maps that differ: {differing:?}; records {:?} and {:?}\nargs {args:x?}\n{}\n{}",
        want.records,
        got.records,
        text::print(module),
        weir_ebpf::asm::print(&compiled.object)
    );
}

/// A fixed seed and 48 modules, or what `WEIR_EMISSION` asks for as `SEED:COUNT`.
fn asked() -> ProptestConfig {
    let (seed, count) = testkit::random::seed_and_count("WEIR_EMISSION", (0, 48));
    ProptestConfig { cases: count as u32, rng_seed: RngSeed::Fixed(seed), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(asked())]

    #[test]
    fn emitted_programs_do_what_the_ir_says(seed: u64, small in prop::array::uniform6(0u64..4), large: [u64; 6]) {
        let memory = Memory::new();
        let mut module = memory.grounded(module(seed, menu(seed)));
        check(&module, &memory, small);
        weir_ir::pass::optimise(&mut module);
        check(&module, &memory, large);
    }
}

#[test]
fn the_verifier_accepts_every_file() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files");
    let mut accepted = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of files") {
        let path = entry.expect("an entry of the folder").path();
        if path.extension().is_some_and(|extension| extension == "ir") {
            let module = text::parse(&std::fs::read_to_string(&path).expect("a file")).expect("parses");
            let Ok(compiled) = compile(&module) else { continue };
            for program in &compiled.object.programs {
                verify(program, &compiled.object.maps, &Limits::default())
                    .unwrap_or_else(|rejection| panic!("{}: {rejection}", path.display()));
                accepted += 1;
            }
        }
    }
    assert!(accepted >= 20, "only {accepted} programs");
}

/// One function over a map `@`; the words of `@` after three runs with this argument.
fn words(schema: &str, body: &str, arg: i64) -> Vec<u64> {
    let source = format!("max_map_keys 16\n{schema}\nfn \"f\" uprobe {{\nb0:\n{body}\nreturn\n}}\n");
    let module = text::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
    let compiled = compile(&module).unwrap_or_else(|error| panic!("{error}\n{source}"));
    let state = execute(&compiled, [arg as u64; 6], false);
    state.maps.into_iter().find(|((map, _), _)| *map == 0).map(|(_, words)| words).unwrap_or_default()
}

#[test]
fn objects_are_compared_up_to_the_last_byte_of_the_longer_one() {
    for words_beyond in [1, 2, 40] {
        let parts = vec!["v0 8"; words_beyond].join(", ");
        let bytes = 8 * (words_beyond + 2);
        let body = format!(
            "v0: u64 = int 0\nv1: u64 = arg 0\nv2: obj8 of 0 = join (v0 8)\n\
             v3: obj{bytes} of 0 = join (v0 8, {parts}, v1 8)\nv4: u64 = streq v3, v2\nv5: u64 = strne v2, v3\n\
             v6: u64 = int 2\nv7: u64 = mul v5, v6\nv8: u64 = add v4, v7\nset @, v8"
        );
        assert_eq!(words("map @ plain u64", &body, 0)[0], 1, "{body}");
        assert_eq!(words("map @ plain u64", &body, 1)[0], 2, "{body}");
    }
}

#[test]
fn every_hist_bucket_is_hit_at_its_bounds() {
    let check = |value: i64, bucket: usize| {
        let words = words("map @ hist", "v0: i64 = arg 0\naggregate @, v0", value);
        let hit: Vec<usize> = (0..words.len()).filter(|&n| words[n] != 0).collect();
        assert_eq!((hit, words[bucket]), (vec![bucket], RUNS as u64), "hist of {value}");
    };
    check(i64::MIN, 0);
    check(-1, 0);
    check(0, 1);
    for n in 0..63 {
        check(1 << n, n + 2);
        check(((1u64 << (n + 1)) - 1) as i64, n + 2);
    }
}

#[test]
fn every_lhist_bucket_is_hit_at_its_bounds() {
    let check = |bounds: (i64, i64, i64), value: i64, bucket: usize| {
        let (min, max, step) = bounds;
        let schema = format!("map @ lhist {min} {max} {step}");
        let words = words(&schema, "v0: i64 = arg 0\naggregate @, v0", value);
        let hit: Vec<usize> = (0..words.len()).filter(|&n| words[n] != 0).collect();
        assert_eq!(hit, [bucket], "lhist{bounds:?} of {value}");
    };
    for bounds in [(0, 100, 10), (0, 64, 8), (-5, 5, 1)] {
        let (min, max, step) = bounds;
        check(bounds, i64::MIN, 0);
        check(bounds, min - 1, 0);
        check(bounds, min, 1);
        check(bounds, min + step - 1, 1);
        check(bounds, min + step, 2);
        check(bounds, max - 1, ((max - min) / step) as usize);
        check(bounds, max, 1 + ((max - min) / step) as usize);
        check(bounds, i64::MAX, 1 + ((max - min) / step) as usize);
    }
    // A last step that is cut short, and bounds whose difference does not fit a signed number.
    check((0, 95, 10), 94, 10);
    let wide = (-9_000_000_000_000_000_000, 9_000_000_000_000_000_000, 1_000_000_000_000_000_000);
    check(wide, 0, 10);
    check(wide, 8_999_999_999_999_999_999, 18);
}

#[test]
fn a_full_map_leaves_the_observation_out() {
    let source = "max_map_keys 1\nmap @[u64] count\nfn \"f\" uprobe {\nb0:\nv0: u64 = pid\naggregate @[v0]\n\
                  v1: u64 = int 7\naggregate @[v1]\nreturn\n}\n";
    let compiled = compile(&text::parse(source).expect("parses")).expect("compiles");
    let state = execute(&compiled, [0; 6], false);
    let key = u64::from(std::process::id()).to_le_bytes().to_vec();
    assert_eq!(state.maps.into_iter().collect::<Vec<_>>(), [((0, key), vec![RUNS as u64])]);
}

#[test]
fn a_full_ring_drops_records_and_goes_on() {
    let source = "max_map_keys 1\nmap @ count\naction printf \"%s\" (str1024 at 8)\nfn \"f\" uprobe {\nb0:\n\
                  v0: u64 = arg 0\nv1: str1024 = read_str v0\nemit 0(v1)\naggregate @\nreturn\n}\n";
    let options = weir_codegen::Options { ring_bytes: 4096, ..weir_codegen::Options::default() };
    let compiled =
        weir_codegen::compile_with(&text::parse(source).expect("parses"), &options).expect("compiles");
    let program = verified(&compiled);
    let segment = segment(&compiled);
    for _ in 0..200 {
        let environment = Environment { segment: &segment };
        weir_interp::run(&program, &environment, &mut Frame::default()).expect("no fault");
    }
    assert_eq!(segment.map(0).entries()[0].1, 200u64.to_le_bytes());
    let mut ring = segment.ring(compiled.ring as usize);
    let records = std::iter::from_fn(|| ring.next()).count();
    assert!((100..200).contains(&records), "{records} records in a ring of 4096 bytes");
}
