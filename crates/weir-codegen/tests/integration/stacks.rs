//! Stacks find a place in one of their tables, or are counted.

use weir_codegen::{Compiled, GLOBAL_NO_STACK, compile};
use weir_ebpf::{MapKind, pt_regs};
use weir_event::{STACK_TABLES, StackId};
use weir_interp::Environment;
use weir_ir::text;
use weir_rt::executable::Frame;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Limits, VerifiedProgram, verify};

const MODULE: &str = r#"max_map_keys 1
map @ plain ustack raw 4
map @s plain usym
site "p" "f"
fn "uprobe:a:f" uprobe {
b0:
  v0: ustack raw 4 = user_stack raw 4
  set @, v0
  v1: u64 = arg 0
  v2: usym = user_symbol v1
  set @s, v2
  return
}
"#;

struct Run {
    compiled: Compiled,
    program: VerifiedProgram,
    segment: Segment,
}

fn start() -> Run {
    of(MODULE)
}

fn of(source: &str) -> Run {
    let module = text::parse(source).unwrap_or_else(|error| panic!("{error}"));
    let compiled = compile(&module).unwrap();
    let object = &compiled.object;
    let program = verify(&object.programs[0], &object.maps, &Limits::default())
        .unwrap_or_else(|rejection| panic!("{rejection}\n{}", weir_ebpf::asm::print(object)));
    let layout = SegmentLayout::plan(&object.maps, 2).unwrap();
    let segment = Segment::create_local(layout, &Identity::default()).unwrap();
    Run { compiled, program, segment }
}

impl Run {
    fn word(&self, map: usize, at: usize) -> u64 {
        let value = self.segment.map(map).lookup(&[0; 4]).unwrap();
        u64::from_le_bytes(value[at..at + 8].try_into().unwrap())
    }

    /// The stack of a hit at this instruction.
    fn hit(&self, instruction: u64) -> Option<StackId> {
        let mut frame = Frame::default();
        frame.regs[pt_regs::REGISTERS[16] as usize / 8] = instruction;
        frame.regs[pt_regs::ARGUMENTS[0] as usize / 8] = instruction + 1;
        weir_interp::run(&self.program, &Environment { segment: &self.segment }, &mut frame).unwrap();
        StackId::of(self.word(0, 0))
    }

    fn first_address(&self, id: StackId) -> u64 {
        let (_, first) = self.compiled.stacks[0];
        let map = self.segment.map((first + id.table) as usize);
        u64::from_le_bytes(map.lookup(&id.number.to_le_bytes()).unwrap()[..8].try_into().unwrap())
    }
}

#[test]
fn a_stack_whose_place_is_taken_goes_to_the_next_table_and_the_last_is_counted() {
    // One place in each table.
    let run = start();
    for round in 0..2 {
        for n in 0..STACK_TABLES {
            let instruction = 0x1000 * u64::from(n + 1);
            let id = run.hit(instruction).unwrap();
            assert_eq!((id.pid, id.table), (std::process::id(), n));
            assert_eq!(run.first_address(id), instruction);
        }
        assert_eq!(run.hit(0x9000), None);
        assert_eq!(run.word(run.compiled.globals as usize, GLOBAL_NO_STACK as usize), round + 1);
    }
}

#[test]
fn a_symbol_is_the_address_and_the_process() {
    let run = start();
    run.hit(0x1000);
    assert_eq!((run.word(1, 0), run.word(1, 8)), (0x1001, u64::from(std::process::id())));
}

#[test]
fn each_depth_of_stacks_has_its_tables() {
    let source =
        MODULE.replace("  v1: u64 = arg 0\n", "  v3: ustack perf 9 = user_stack perf 9\n  v1: u64 = arg 0\n");
    let source =
        source.replace("  v2:", "  set @p, v3\n  v2:").replace("site", "map @p plain ustack perf 9\nsite");
    let compiled = compile(&text::parse(&source).unwrap()).unwrap();
    assert_eq!(compiled.stacks.iter().map(|(frames, _)| *frames).collect::<Vec<_>>(), [4, 9]);
    for (frames, first) in &compiled.stacks {
        for table in 0..STACK_TABLES {
            let map = &compiled.object.maps[(first + table) as usize];
            assert_eq!((map.kind, map.value_bytes), (MapKind::StackTrace, 8 * frames), "{}", map.name);
        }
    }
}

#[test]
fn the_length_of_a_stack_is_that_of_what_is_printed() {
    let source = MODULE.replace("map @s", "map @n plain i64\nmap @s");
    let source = source
        .replace("  v1: u64 = arg 0\n", "  v3: i64 = stack_length 4\n  set @n, v3\n  v1: u64 = arg 0\n");
    let run = of(&source);
    // No frame is behind it, and on the first page there is no code.
    for (instruction, length) in [(0x1000, 1), (0xfff, 0), ((1 << 47) - 1, 1), (1 << 47, 0)] {
        run.hit(instruction);
        assert_eq!(run.word(1, 0), length, "{instruction:#x}");
    }
}
