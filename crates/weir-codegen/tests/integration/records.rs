//! Records of whole events: of random events with random values, what a verified program leaves in the ring is what the fields come
//! to by weir-event's table, written here once more. Values are in registers, where memory counts as declared, or in memory.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weir_codegen::{Compiled, EVENT_BYTES, EVENT_CUT, EVENT_LOST, Options, compile_with};
use weir_ebpf::kfunc::Declared;
use weir_ebpf::pt_regs;
use weir_event::recorded::{Reader, SEQUENCE_BYTES_MAX, TEXT_BYTES_MAX, bytes, is_marked, refusal, slots};
use weir_event::schema::{Field, Form, Schema, Type};
use weir_interp::Environment;
use weir_ir::{
    ArgumentPlace, EventId, FoundArgument, Function, Inst, Module, Op, StaticSpec, Trigger, Value, record,
};
use weir_rt::executable::Frame;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Limits, verify};

/// All but the stack pointer: as many as an event has arguments, and more.
const REGISTERS: [u8; 15] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
/// Where the probe is.
const INSTRUCTION: u64 = 0x1234_5678_9abc;
/// Nothing is there.
const BAD_ADDRESS: u64 = 16;

/// What a field is given.
#[derive(Clone, Debug)]
enum Given {
    Number(u64),
    /// Memory, or none that can be read, and how many elements are in it.
    Memory(Option<Vec<u8>>, u64),
    Null,
}

fn number() -> impl Strategy<Value = Type> {
    prop_oneof![
        (prop::sample::select(&[1u8, 2, 4, 8][..]), any::<bool>())
            .prop_map(|(bytes, signed)| Type::Int { bytes, signed }),
        prop::sample::select(&[4u8, 8][..]).prop_map(|bytes| Type::Float { bytes }),
    ]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0usize..40, 2 => 1015usize..1030, 1 => 0usize..5000]
}

fn field() -> impl Strategy<Value = (Type, Given)> {
    let memory = |length: usize| prop::collection::vec(1u8..=255, length);
    let text = length().prop_flat_map(memory).prop_map(|mut text| {
        text.push(0);
        (Type::Text, Given::Memory(Some(text), 0))
    });
    let array = (number(), 0u32..20).prop_flat_map(move |(element, count)| {
        let ty = Type::Array { element: Box::new(element), count };
        memory(bytes(&ty).1 as usize).prop_map(move |memory| (ty.clone(), Given::Memory(Some(memory), 0)))
    });
    let sequence =
        (number(), prop_oneof![0usize..20, 0usize..1200]).prop_flat_map(move |(element, count)| {
            let size = bytes(&element).1 as usize;
            let ty = Type::Sequence { element: Box::new(element) };
            memory(size * count)
                .prop_map(move |memory| (ty.clone(), Given::Memory(Some(memory), count as u64)))
        });
    let members = prop::collection::vec((0u32..100, number()), 0..5);
    let structure = members.prop_flat_map(move |members| {
        let fields = members.into_iter().enumerate().map(|(n, (at, ty))| (format!("m{n}"), at, ty)).collect();
        let ty = Type::Struct { fields };
        memory(200).prop_map(move |memory| (ty.clone(), Given::Memory(Some(memory), 0)))
    });
    let three = Type::Array { element: Box::new(Type::Int { bytes: 4, signed: true }), count: 3 };
    let some = Type::Sequence { element: Box::new(Type::Float { bytes: 8 }) };
    let one = Type::Struct { fields: vec![("m".into(), 4, Type::Float { bytes: 8 })] };
    let bad = prop::sample::select(vec![
        (Type::Str, Given::Memory(None, 0)),
        (Type::Text, Given::Null),
        (three.clone(), Given::Null),
        (some.clone(), Given::Null),
        (one, Given::Null),
        (Type::Text, Given::Memory(None, 0)),
        (three, Given::Memory(None, 0)),
        (some, Given::Memory(None, 5)),
    ]);
    let numbers = (number(), any::<u64>()).prop_map(|(ty, value)| (ty, Given::Number(value)));
    prop_oneof![6 => numbers, 4 => text, 2 => array, 2 => sequence, 1 => structure, 1 => bad]
}

/// What the fields of the record are, and how often something is cut.
fn expected(fields: &[(Type, Given)]) -> (Vec<u8>, u64) {
    let (mut out, mut cut) = (Vec::new(), 0);
    for (ty, given) in fields {
        let size = bytes(ty).1 as usize;
        match (ty, given) {
            (_, Given::Number(value)) => out.extend(&value.to_le_bytes()[..size]),
            (Type::Str | Type::Text, Given::Null) => out.extend(b"(null)\0"),
            (Type::Str | Type::Text, Given::Memory(Some(text), _)) => {
                let most = TEXT_BYTES_MAX as usize - 1;
                cut += u64::from(text.len() - 1 > most);
                out.extend(&text[..(text.len() - 1).min(most)]);
                out.push(0);
            }
            (Type::Sequence { .. }, Given::Null) => out.extend(0u32.to_le_bytes()),
            (Type::Sequence { element }, Given::Memory(memory, count)) => {
                let element = bytes(element).1 as usize;
                let most = SEQUENCE_BYTES_MAX as usize / element;
                cut += u64::from(*count > most as u64);
                let count = memory.as_ref().map_or(0, |_| (*count as usize).min(most));
                out.extend((count as u32).to_le_bytes());
                out.extend(&memory.as_deref().unwrap_or_default()[..count * element]);
            }
            (Type::Struct { fields }, Given::Memory(Some(memory), _)) => {
                for (_, at, ty) in fields {
                    out.extend(&memory[*at as usize..][..bytes(ty).1 as usize]);
                }
            }
            (Type::Array { .. }, Given::Memory(Some(memory), _)) => out.extend(memory),
            // It cannot be read.
            (Type::Str | Type::Text, _) => out.push(0),
            (_, _) => out.extend(vec![0; size]),
        }
    }
    (out, cut)
}

/// Where the values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Registers,
    /// At the addresses that registers hold.
    Memory,
}

/// A module that records the event of these fields.
fn module(types: &[Type], place: Place) -> Module {
    let (mut fields, mut slot) = (Vec::new(), 0);
    for (n, ty) in types.iter().enumerate() {
        fields.push(Field { name: format!("f{n}"), ty: ty.clone(), slot, form: Form::Decimal });
        slot += slots(ty);
    }
    let argument = |&number: &u8| {
        let register = FoundArgument::register(number);
        let memory =
            ArgumentPlace::Memory { base: Some(number), index: None, displacement: 0, relative: false };
        match place {
            Place::Registers => register,
            Place::Memory => FoundArgument { place: Ok(memory), ..register },
        }
    };
    let arguments: Vec<FoundArgument> = REGISTERS[..usize::from(slot)].iter().map(argument).collect();
    let site = StaticSpec {
        binary: "b".into(),
        provider: "p".into(),
        name: "e".into(),
        address: 4096,
        semaphore: None,
        cookie: 0,
        by_pattern: false,
    };
    let mut function = Function {
        name: "usdt:b:p:e".into(),
        trigger: Trigger::Usdt { sites: vec![site] },
        types: Vec::new(),
        blocks: Vec::new(),
        span: Default::default(),
    };
    record::record(&mut function, EventId(0), &[], &arguments);
    let mut module = Module { functions: vec![function], max_map_keys: 16, ..Module::default() };
    module.schema.events = vec![Schema { provider: "p".into(), event: "e".into(), level: None, fields }];
    module.schema.sites = vec![Default::default()];
    module
}

/// The program, which the verifier accepts, run on the values so many times; the segment that it leaves.
fn run(types: &[Type], values: &[u64], place: Place, ring_bytes: u32, times: usize) -> (Compiled, Segment) {
    run_module(module(types, place), values, place, ring_bytes, times)
}

fn run_module(
    mut module: Module,
    values: &[u64],
    place: Place,
    ring_bytes: u32,
    times: usize,
) -> (Compiled, Segment) {
    weir_ir::pass::optimise(&mut module);
    let compiled = compile_with(&module, &Options { ring_bytes, counts_hits: false, ..Options::default() })
        .expect("compiles");
    let object = &compiled.object;
    assert!(place == Place::Registers || compiled.declared[0].is_empty(), "{:?}", compiled.declared);
    let limits = Limits::default().with_declared(&compiled.declared[0]);
    let program = verify(&object.programs[0], &object.maps, &limits)
        .unwrap_or_else(|rejection| panic!("{rejection}\n{}", weir_ebpf::asm::print(object)));
    let layout = SegmentLayout::plan(&object.maps, 2).expect("the maps fit a segment");
    let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
    let mut frame = Frame::default();
    frame.regs[pt_regs::IP as usize / 8] = INSTRUCTION;
    for (register, value) in REGISTERS.iter().zip(values) {
        frame.regs[pt_regs::REGISTERS[usize::from(*register)] as usize / 8] = match place {
            Place::Registers => *value,
            Place::Memory => std::ptr::from_ref(value) as u64,
        };
    }
    for _ in 0..times {
        let mut frame = frame;
        weir_interp::run(&program, &Environment { segment: &segment }, &mut frame)
            .unwrap_or_else(|fault| panic!("{fault}\n{}", weir_ebpf::asm::print(object)));
    }
    (compiled, segment)
}

fn count(compiled: &Compiled, segment: &Segment, what: i32) -> u64 {
    let map = compiled.events.expect("events are counted");
    let value = segment.map(map as usize).lookup(&0u32.to_le_bytes()).expect("an array's one value");
    assert_eq!(value.len(), EVENT_BYTES as usize);
    u64::from_le_bytes(value[what as usize..][..8].try_into().expect("a word"))
}

fn check(fields: &[(Type, Given)], place: Place) {
    let types: Vec<Type> = fields.iter().map(|(ty, _)| ty.clone()).collect();
    let mut values = Vec::new();
    for (ty, given) in fields {
        match given {
            Given::Number(value) => values.push(*value),
            Given::Memory(memory, count) => {
                values.push(memory.as_ref().map_or(BAD_ADDRESS, |memory| memory.as_ptr() as u64));
                values.extend((slots(ty) > 1).then_some(*count));
            }
            Given::Null => {
                values.push(0);
                values.extend((slots(ty) > 1).then_some(3));
            }
        }
    }
    let (compiled, segment) = run(&types, &values, place, 1 << 17, 2);
    let (want, cut) = expected(fields);
    let reader = Reader::new(&compiled.schema.events);
    let mut ring = segment.ring(compiled.ring as usize);
    for _ in 0..2 {
        let record = ring.next().expect("a record");
        assert_eq!(reader.fields(&record.bytes), Some((0, &want[..])), "{types:?}");
    }
    assert_eq!(ring.next(), None);
    let counts = [EVENT_LOST, EVENT_CUT].map(|what| count(&compiled, &segment, what));
    assert_eq!(counts, [0, 2 * cut]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, rng_seed: RngSeed::Fixed(0), ..ProptestConfig::default() })]

    #[test]
    fn records_are_what_the_fields_come_to(
        fields in prop::collection::vec(field(), 0..13),
        place in prop::sample::select(vec![Place::Registers, Place::Memory]),
    ) {
        let mut taken = 0;
        let mut all: Vec<(Type, Given)> = fields;
        // What is declared is there.
        let is_there = |given: &Given| place == Place::Memory || !matches!(given, Given::Memory(None, _));
        all.retain(|(ty, given)| {
            taken += slots(ty);
            taken <= 12 && (*ty == Type::Str || is_there(given))
        });
        let types: Vec<Type> = all.iter().map(|(ty, _)| ty.clone()).collect();
        prop_assume!(refusal(&module(&types, place).schema.events[0]).is_none());
        check(&all, place);
    }

    /// A traced process may write over its records: what is taken of them has the shape of the event, or nothing is.
    #[test]
    fn what_others_wrote_is_no_record_or_has_its_shape(
        types in prop::collection::vec(
            prop_oneof![6 => field().prop_map(|(ty, _)| ty), 1 => (1u32..=127).prop_map(|frames| Type::Stack { frames })],
            0..6,
        ),
        mut bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..200),
        used in 0u8..=200,
    ) {
        let events = module(&types, Place::Registers).schema.events;
        if let Some(head) = bytes.first_chunk_mut::<8>() {
            *head = [0, 0, 0, 0, used, 0, 0, 0];
        }
        if let Some((number, mut rest)) = Reader::new(&events).fields(&bytes) {
            prop_assert_eq!(number, 0);
            for ty in &types {
                let length = match ty {
                    Type::Str | Type::Text => rest.iter().take_while(|byte| **byte != 0).count() + 1,
                    Type::Sequence { element } => {
                        let count = u32::from_le_bytes(rest[..4].try_into().unwrap());
                        4 + count as usize * self::bytes(element).1 as usize
                    }
                    Type::Stack { frames } => {
                        let count = u32::from_le_bytes(rest[..4].try_into().unwrap());
                        prop_assert!(count <= *frames);
                        4 + 8 * count as usize
                    }
                    fixed => self::bytes(fixed).1 as usize,
                };
                rest = &rest[length..];
            }
            prop_assert!(rest.is_empty());
        }
    }
}

#[test]
fn the_most_strings_and_sequences_are_verified() {
    let text = |n: usize| (Type::Text, Given::Memory(Some([vec![b'x'; n], vec![0]].concat()), 0));
    let sequence = Type::Sequence { element: Box::new(Type::Int { bytes: 8, signed: true }) };
    let given = |n: usize| (sequence.clone(), Given::Memory(Some(vec![7; 8 * n]), n as u64));
    for place in [Place::Registers, Place::Memory] {
        check(&(0..12).map(|n| text(n * 100)).collect::<Vec<_>>(), place);
        check(&(0..6).map(|n| given(n * 110)).collect::<Vec<_>>(), place);
    }
}

#[test]
fn what_the_ring_has_no_room_for_is_counted_by_event() {
    let long = Type::Int { bytes: 8, signed: true };
    for types in [vec![long.clone()], vec![long, Type::Text]] {
        let (compiled, segment) = run(&types, &[1, 0], Place::Registers, 1 << 12, 1000);
        let mut ring = segment.ring(compiled.ring as usize);
        let read = std::iter::from_fn(|| ring.next()).count() as u64;
        let lost = count(&compiled, &segment, EVENT_LOST);
        assert!(read > 0 && lost > 0, "{read} {lost}");
        assert_eq!((read + lost, ring.counters().dropped), (1000, lost));
    }
}

/// What stands before and behind it is where it belongs, however long the stack is; a chain that leads nowhere ends there.
#[test]
fn a_stack_is_the_chain_of_frames_at_the_probe() {
    let mut chain = [[0u64; 2]; 5];
    for n in 0..chain.len() {
        let next = chain.get(n + 1).map_or(BAD_ADDRESS, |next| next.as_ptr() as u64);
        chain[n] = [next, 0xf000 + n as u64];
    }
    let text = b"some text\0";
    let int = Type::Int { bytes: 8, signed: false };
    let check = |frames: u32, base: u64, callers: usize| {
        // rbp is the fifth register that is handed over.
        let types =
            [vec![Type::Stack { frames }], vec![int.clone(); 5], vec![Type::Text, Type::Stack { frames }]]
                .concat();
        let values = [1, 2, 3, 4, base, text.as_ptr() as u64];
        let (compiled, segment) = run(&types, &values, Place::Registers, 1 << 16, 2);
        let stack: Vec<u64> =
            [INSTRUCTION].into_iter().chain((0..callers as u64).map(|n| 0xf000 + n)).collect();
        let stack: Vec<u8> = stack.iter().flat_map(|address| address.to_le_bytes()).collect();
        let stack = [&(1 + callers as u32).to_le_bytes()[..], &stack].concat();
        let numbers: Vec<u8> = values[..5].iter().flat_map(|value| value.to_le_bytes()).collect();
        let wanted = [&stack[..], &numbers, text, &stack].concat();
        let mut ring = segment.ring(compiled.ring as usize);
        for _ in 0..2 {
            let record = ring.next().expect("a record");
            let fields = Reader::new(&compiled.schema.events);
            assert_eq!(fields.fields(&record.bytes), Some((0, &wanted[..])), "{frames} {callers}");
        }
    };
    let start = chain.as_ptr() as u64;
    check(1, start, 0);
    check(2, start, 1);
    check(4, start, 3);
    check(6, start, 5);
    check(127, start, 5);
    check(127, BAD_ADDRESS, 0);
    check(127, 0, 0);
    // One that leads back to itself is as long as it may be.
    let mut round = [0u64, 0xf000];
    round[0] = round.as_ptr() as u64;
    let (compiled, segment) = run(
        &[vec![int; 5], vec![Type::Stack { frames: 9 }]].concat(),
        &[0, 0, 0, 0, round[0]],
        Place::Registers,
        1 << 16,
        1,
    );
    let record = segment.ring(compiled.ring as usize).next().expect("a record");
    let (_, fields) = Reader::new(&compiled.schema.events).fields(&record.bytes).expect("an event");
    assert_eq!((fields.len(), fields[40]), (40 + 4 + 9 * 8, 9));
}

/// Registers lead to what their types say, where all of the value is in them; a string is vouched for by nobody.
#[test]
fn what_is_declared_is_what_the_schema_says() {
    let int = |bytes| Box::new(Type::Int { bytes, signed: true });
    let types = [
        Type::Str,
        Type::Text,
        Type::Array { element: int(2), count: 3 },
        Type::Sequence { element: int(4) },
        Type::Struct { fields: vec![("m".into(), 10, Type::Float { bytes: 8 })] },
        Type::Array { element: int(2), count: 0 },
        Type::Float { bytes: 8 },
    ];
    let compiled = |place| compile_with(&module(&types, place), &Options::default()).unwrap().declared;
    let slot = |at: usize| (pt_regs::REGISTERS[usize::from(REGISTERS[at])] / 8) as u8;
    let declared = [
        Declared::Text { slot: slot(1) },
        Declared::Bytes { slot: slot(2), bytes: 6 },
        Declared::Elements { slot: slot(3), count_slot: slot(4), shift: 2 },
        Declared::Bytes { slot: slot(5), bytes: 18 },
    ];
    assert_eq!(compiled(Place::Registers), [declared]);
    assert_eq!(compiled(Place::Memory), [[]]);
}

/// How many elements there are may be known when the program is compiled.
#[test]
fn a_constant_number_of_elements_is_declared_as_bytes() {
    let numbers: Vec<u32> = (0..2000).collect();
    for (count, elements, cut) in
        [(0, 0, 0), (1, 1, 0), (5, 5, 0), (1022, 1022, 0), (1023, 1022, 1), (-1, 0, 0)]
    {
        let ty = Type::Sequence { element: Box::new(Type::Int { bytes: 4, signed: false }) };
        let mut module = module(&[ty], Place::Registers);
        let address = FoundArgument::register(0);
        let constant = FoundArgument { place: Ok(ArgumentPlace::Constant(count)), ..address.clone() };
        let arguments = [address, constant];
        record::record(&mut module.functions[0], EventId(0), &[], &arguments);
        let (compiled, segment) =
            run_module(module, &[numbers.as_ptr() as u64], Place::Registers, 1 << 16, 1);
        let record = segment.ring(compiled.ring as usize).next().expect("a record");
        let number = elements as u32;
        let all = std::iter::once(&number).chain(&numbers[..elements]);
        let wanted: Vec<u8> = all.flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(Reader::new(&compiled.schema.events).fields(&record.bytes), Some((0, &wanted[..])));
        assert_eq!(self::count(&compiled, &segment, EVENT_CUT), cut, "{count}");
    }
}

/// Whether all of its events have one size or not.
#[test]
fn a_record_is_marked_as_a_value_says() {
    let text = c"text";
    for ty in [Type::Int { bytes: 8, signed: true }, Type::Text] {
        for is_wanted in [false, true] {
            let mut module = module(std::slice::from_ref(&ty), Place::Registers);
            let clause = &mut module.functions[0];
            let value = Value(clause.types.len() as u32);
            clause.types.push(weir_event::Type::U64);
            let insts = &mut clause.blocks[0].insts;
            for inst in insts.iter_mut() {
                if let Op::Record { marked, .. } = &mut inst.op {
                    *marked = Some(value);
                }
            }
            insts.insert(0, Inst { result: Some(value), op: Op::Int(is_wanted.into()) });
            let (compiled, segment) =
                run_module(module, &[text.as_ptr() as u64], Place::Registers, 1 << 16, 1);
            let record = segment.ring(compiled.ring as usize).next().expect("a record");
            let fields = Reader::new(&compiled.schema.events).fields(&record.bytes);
            assert_eq!((is_marked(&record.bytes), fields.map(|(event, _)| event)), (is_wanted, Some(0)));
        }
    }
}
