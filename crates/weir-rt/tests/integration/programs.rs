//! Linking and running machine code in this process, and the checked memory of the interpreter.

use std::arch::asm;
use std::sync::atomic::{AtomicU8, Ordering};

use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec, helper};
use weir_rt::executable::{Executable, Frame, LaneUse, RelocKind, Relocation, Symbol};
use weir_rt::limits::{STACK_FRAME_BYTES, helper_stack_bytes};
use weir_rt::local::LocalProgram;
use weir_rt::memory::{AtomicOp, Memory as _, Space, Violation, Width};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_rt::{LinkError, link, runtime};

fn segment() -> Segment {
    let map = |kind: MapKind, key_bytes, value_bytes, max_entries| {
        MapSpec::new(format!("{kind:?}"), kind, key_bytes, value_bytes, max_entries)
    };
    let maps = [
        map(MapKind::Array, 4, 12, 3),
        map(MapKind::Hash, 8, 8, 4),
        map(MapKind::PerCpuArray, 4, 16, 2),
        map(MapKind::RingBuf, 0, 0, 4096),
        map(MapKind::StackTrace, 4, 80, 4),
    ];
    let layout = SegmentLayout::plan(&maps, 2).expect("within bounds");
    Segment::create_local(layout, &Identity { session: 9, ..Identity::default() }).expect("a memfd")
}

fn executable(code: &[u8], relocations: &[Relocation]) -> Executable {
    Executable {
        name: "test".into(),
        kind: weir_ebpf::ProgramKind::Probe,
        code: code.to_vec(),
        text_bytes: code.len() as u32,
        relocations: relocations.to_vec(),
        clobbers: !(1 << 4),
        clobbers_flags: true,
        may_misalign: true,
        context_reads: 0,
        reads_cookie: true,
        uses_session: false,
        lanes: LaneUse::None,
        writes_packet: false,
        tail_entry: 0,
        stack_bytes: 8,
        origins: Vec::new(),
    }
}

fn relocation(offset: u32, kind: RelocKind, symbol: Symbol, addend: i64) -> Relocation {
    Relocation { offset, kind, symbol, addend }
}

#[test]
fn links_every_kind_of_field() {
    let relocations = [
        relocation(0, RelocKind::Abs64, Symbol::Map(1), 2),
        relocation(8, RelocKind::Rel32, Symbol::Helper(5), -4),
        relocation(12, RelocKind::Rel32, Symbol::Code(0), -4),
    ];
    let resolve = |symbol| match symbol {
        Symbol::Map(1) => Some(0x7000_0000_0000),
        Symbol::Helper(5) => Some(0x2000),
        _ => None,
    };
    let linked = link(&executable(&[0; 16], &relocations), 0x1000, &resolve).expect("near enough");
    assert_eq!(linked[..8], 0x7000_0000_0002u64.to_le_bytes());
    assert_eq!(linked[8..12], (0x2000 - 4 - 0x1008i32).to_le_bytes());
    assert_eq!(linked[12..], (-4 - 12i32).to_le_bytes());
}

#[test]
fn refuses_what_cannot_be_linked() {
    let error = |relocation: Relocation, at: u64| {
        link(&executable(&[0; 8], &[relocation]), at, &|_| Some(0x1000)).expect_err("must be refused")
    };
    let far = error(relocation(0, RelocKind::Rel32, Symbol::Map(0), 0), 0x1_0000_0000);
    assert!(matches!(far, LinkError::TooFar { offset: 0, .. }), "{far}");
    let outside = error(relocation(5, RelocKind::Rel32, Symbol::Map(0), 0), 0);
    assert!(matches!(outside, LinkError::Outside { offset: 5, bytes: 8, .. }), "{outside}");
    let unresolved =
        link(&executable(&[0; 8], &[relocation(0, RelocKind::Abs64, Symbol::Helper(1), 0)]), 0, &|_| None);
    assert!(matches!(unresolved, Err(LinkError::Unresolved { symbol: Symbol::Helper(1), .. })));
}

#[test]
fn a_program_finds_its_frame_and_may_spoil_every_register() {
    // mov rax,[rsp+8+cookie]; add rax,[rsp+8+di]; xor ebx,ebx … r15d,r15d; ret
    #[rustfmt::skip]
    let code = [
        0x48, 0x8b, 0x84, 0x24, 0xf0, 0, 0, 0,
        0x48, 0x03, 0x44, 0x24, 0x78,
        0x31, 0xdb, 0x31, 0xed, 0x45, 0x31, 0xe4, 0x45, 0x31, 0xed, 0x45, 0x31, 0xf6, 0x45, 0x31, 0xff,
        0x31, 0xc9, 0x31, 0xd2, 0x31, 0xf6, 0x31, 0xff,
        0xc3,
    ];
    let mut frame = Frame { cookie: 40, ..Frame::default() };
    frame.regs[14] = 2;
    let program = LocalProgram::load(&executable(&code, &[]), &segment()).expect("it links");
    let kept = [1u64, 2, 3].map(std::hint::black_box);
    assert_eq!(program.run(&mut frame), 42);
    assert_eq!((kept, frame.cookie, frame.regs[14]), ([1, 2, 3], 40, 2));
}

#[test]
fn a_program_reaches_maps_and_helpers() {
    // push 1 (the key, 4 bytes used); mov rdi, map; mov rsi, rsp; call lookup; mov dword [rax], 77;
    // mov rcx, data; mov eax, [rcx+16]; pop rcx; ret
    #[rustfmt::skip]
    let code = [
        0x6a, 1,
        0x48, 0xbf, 0, 0, 0, 0, 0, 0, 0, 0,
        0x48, 0x89, 0xe6,
        0xe8, 0, 0, 0, 0,
        0xc7, 0x00, 77, 0, 0, 0,
        0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0,
        0x8b, 0x41, 16,
        0x59,
        0xc3,
    ];
    let relocations = [
        relocation(4, RelocKind::Abs64, Symbol::Map(0), 0),
        relocation(16, RelocKind::Rel32, Symbol::Helper(helper::MAP_LOOKUP_ELEM), -4),
        relocation(28, RelocKind::Abs64, Symbol::MapData(0), 0),
    ];
    let segment = segment();
    let program = LocalProgram::load(&executable(&code, &relocations), &segment).expect("it links");
    assert_eq!(program.run(&mut Frame::default()), 77);
    let mut value = vec![77, 0, 0, 0];
    value.resize(12, 0);
    assert_eq!(segment.map(0).lookup(&1u32.to_le_bytes()), Some(value));
}

#[test]
fn a_program_counts_its_slow_reads_in_its_segment() {
    // sub rsp,24; mov rdi,rsp; mov esi,8; xor edx,edx; call read; add rsp,24; ret
    #[rustfmt::skip]
    let code = [
        0x48, 0x83, 0xec, 24, 0x48, 0x89, 0xe7, 0xbe, 8, 0, 0, 0, 0x31, 0xd2, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 24,
        0xc3,
    ];
    let call = relocation(15, RelocKind::Rel32, Symbol::Helper(helper::PROBE_READ_USER), -4);
    let segment = segment();
    let program = LocalProgram::load(&executable(&code, &[call]), &segment).expect("it links");
    assert_eq!(program.run(&mut Frame::default()) as i64, -14);
    let counters = segment.counters();
    assert_eq!((counters.slow_reads, counters.read_faults, counters.reads_denied), (1, 1, 0));
}

/// Runs `body` on a stack of its own and tells how many bytes of it were touched.
fn stack_used(body: extern "C" fn()) -> usize {
    const BYTES: usize = 64 * 1024;
    let mut stack = vec![0xa5u8; BYTES];
    let top = (stack.as_mut_ptr() as usize + BYTES) & !15;
    // SAFETY: the body runs on the vector's memory and returns; r12, which it keeps, holds the stack pointer meanwhile.
    unsafe {
        asm!(
            "mov r12, rsp", "mov rsp, r13", "call r14", "mov rsp, r12",
            out("r12") _, in("r13") top, in("r14") body,
            clobber_abi("C"),
        );
    }
    BYTES - stack.iter().take_while(|byte| **byte == 0xa5).count()
}

extern "C" fn read_a_string() {
    let read: extern "C" fn(*mut u8, u64, u64) -> i64 = helper_function(helper::PROBE_READ_USER_STR);
    // Not on the stack that is measured.
    static TO: [AtomicU8; 64] = [const { AtomicU8::new(0) }; 64];
    read(TO.as_ptr().cast_mut().cast(), 64, c"some string".as_ptr() as u64);
    assert_eq!(TO[10].load(Ordering::Relaxed), b'g');
}

extern "C" fn read_the_clock() {
    let clock: extern "C" fn() -> u64 = helper_function(helper::KTIME_GET_NS);
    assert!(clock() > 0);
}

extern "C" fn update_a_map() {
    let update: extern "C" fn(u64, u64, u64, u64) -> i64 = helper_function(helper::MAP_UPDATE_ELEM);
    let (map, value) = MAP_AND_VALUE.get().copied().expect("set by the test");
    assert_eq!(update(map, value, value, 0), 0);
}

extern "C" fn format_a_string() {
    type Print = extern "C" fn(*mut u8, u64, *const u8, *const u64, u64, u64) -> i64;
    let print: Print = helper_function(helper::SNPRINTF);
    let (mut to, format) = ([0u8; 64], b"%s %d %pI6\0");
    let words = [c"some string".as_ptr() as u64, 7, 0];
    assert_eq!(print(to.as_mut_ptr(), 64, format.as_ptr(), words.as_ptr(), 24, format.len() as u64), 54);
}

extern "C" fn number_a_stack() {
    let number: extern "C" fn(*const u64, u64, u64) -> i64 = helper_function(helper::GET_STACKID);
    let (stacks, frame) =
        (MAP_AND_VALUE.get().expect("set by the test").0 + 3 * weir_rt::segment::DESCRIPTOR_BYTES, [0u64, 7]);
    let mut registers = [0; 21];
    registers[4] = frame.as_ptr() as u64;
    assert_eq!(number(registers.as_ptr(), stacks, 1 << 8) >> 2, 0);
}

extern "C" fn print_a_string() {
    let print: extern "C" fn(*const u8, u64, u64, u64, u64) -> i64 = helper_function(helper::TRACE_PRINTK);
    assert_eq!(print(c"%s".as_ptr().cast(), 3, c"some string".as_ptr() as u64, 0, 0), 11);
}

/// A key of the most bytes, whose prefixes are searched for, added and deleted.
extern "C" fn route() {
    let look_up: extern "C" fn(u64, *const u8) -> u64 = helper_function(helper::MAP_LOOKUP_ELEM);
    let update: extern "C" fn(u64, *const u8, *const u8, u64) -> i64 =
        helper_function(helper::MAP_UPDATE_ELEM);
    let delete: extern "C" fn(u64, *const u8) -> i64 = helper_function(helper::MAP_DELETE_ELEM);
    let (map, mut key) = (TRIE.get().copied().expect("set by the test"), [7u8; 260]);
    key[..4].copy_from_slice(&2048u32.to_le_bytes());
    assert_eq!(update(map, key.as_ptr(), key.as_ptr(), 0), 0);
    assert_ne!(look_up(map, key.as_ptr()), 0);
    assert_eq!(delete(map, key.as_ptr()), 0);
}

static TRIE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
static MAP_AND_VALUE: std::sync::OnceLock<(u64, u64)> = std::sync::OnceLock::new();

fn helper_function<F: std::marker::Copy>(id: weir_ebpf::HelperId) -> F {
    let address = runtime::helper_address(id).expect("it has a function");
    assert_eq!(size_of::<F>(), size_of::<u64>());
    // SAFETY: the callers name the function's own type (c/weir.h).
    unsafe { std::mem::transmute_copy(&address) }
}

#[test]
fn helpers_stay_within_their_stack() {
    let segment = segment();
    let descriptors = segment.descriptors(segment.base(), 0);
    let hash = descriptors.as_ptr() as u64 + 128;
    let trie = MapSpec { flags: flag::NO_PREALLOC, ..MapSpec::new("t", MapKind::LpmTrie, 260, 8, 4) };
    let layout = SegmentLayout::plan(&[trie], 2).expect("within bounds");
    let tries = Segment::create_local(layout, &Identity::default()).expect("a memfd");
    let trie = tries.descriptors(tries.base(), 0);
    TRIE.get_or_init(|| trie.as_ptr() as u64);
    MAP_AND_VALUE.get_or_init(|| (hash, [0u64; 8].as_ptr() as u64));
    for (name, id, has_tries, body) in [
        ("str", helper::PROBE_READ_USER_STR, false, read_a_string as extern "C" fn()),
        ("clock", helper::KTIME_GET_NS, false, read_the_clock),
        ("update", helper::MAP_UPDATE_ELEM, false, update_a_map),
        ("route", helper::MAP_UPDATE_ELEM, true, route),
        ("snprintf", helper::SNPRINTF, false, format_a_string),
        ("trace_printk", helper::TRACE_PRINTK, false, print_a_string),
        ("get_stackid", helper::GET_STACKID, false, number_a_stack),
    ] {
        // What the first use of a helper in a process prepares, it prepares on this stack.
        assert!(runtime::helper_address(id).is_some(), "{name}");
        // Each body's own frame is counted, too.
        let used = stack_used(body);
        assert!(used > 16 && used <= helper_stack_bytes(id, has_tries) as usize, "{name}: {used} bytes");
    }
}

/// Calls a helper with the memory of one run; pointers are into its stack.
fn call(space: &mut Space<'_>, id: i32, args: &[u64]) -> Result<i64, Violation> {
    let mut registers = [0; 5];
    registers[..args.len()].copy_from_slice(args);
    space.call(id, registers).map(|result| result as i64)
}

#[test]
fn helpers_answer_as_the_process_is() {
    let segment = segment();
    let mut space = Space::new(&segment, &Frame { cookie: 5, ..Frame::default() });
    let context = space.context();
    let id = call(&mut space, helper::GET_CURRENT_PID_TGID, &[]).expect("no argument") as u64;
    assert_eq!((id >> 32) as u32, std::process::id());
    assert_eq!(id as u32 as i32, nix::unistd::gettid().as_raw());
    let group = testkit::cgroup::number_of(std::process::id()).unwrap_or(0);
    assert_eq!(call(&mut space, helper::GET_CURRENT_CGROUP_ID, &[]), Ok(group as i64));
    assert_eq!(call(&mut space, helper::GET_ATTACH_COOKIE, &[context]), Ok(5));
    let this = nix::unistd::Pid::from_raw(0);
    let allowed = nix::sched::sched_getaffinity(this).expect("our own");
    for cpu in (0..64).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)) {
        let mut one = nix::sched::CpuSet::new();
        one.set(cpu).expect("in range");
        nix::sched::sched_setaffinity(this, &one).expect("an allowed one");
        assert_eq!(call(&mut space, helper::GET_SMP_PROCESSOR_ID, &[]), Ok(cpu as i64));
    }
    nix::sched::sched_setaffinity(this, &allowed).expect("as it was");
    let before = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("a clock");
    let now = call(&mut space, helper::KTIME_GET_NS, &[]).expect("no argument");
    let since = now - (before.tv_sec() * 1_000_000_000 + before.tv_nsec());
    assert!((0..1_000_000_000).contains(&since), "{since} ns");
    std::thread::scope(|scope| {
        let named = std::thread::Builder::new().name("a-thread".into());
        let comm = named.spawn_scoped(scope, || {
            let mut space = Space::new(&segment, &Frame::default());
            let at = space.stack_top() - 64;
            assert_eq!(call(&mut space, helper::GET_CURRENT_COMM, &[at, 5]), Ok(0));
            let cut = space.load(at, Width::B8).expect("written");
            assert_eq!(call(&mut space, helper::GET_CURRENT_COMM, &[at, 24]), Ok(0));
            (
                cut,
                space.load(at, Width::B8).expect("written"),
                space.load(at + 16, Width::B8).expect("written"),
            )
        });
        let (cut, comm, rest) = comm.expect("a thread").join().expect("no panic");
        assert_eq!((cut.to_le_bytes(), comm.to_le_bytes(), rest), (*b"a-th\0\0\0\0", *b"a-thread", 0));
    });
}

#[test]
fn reads_of_any_address_are_values() {
    let segment = segment();
    let mut space = Space::new(&segment, &Frame::default());
    let to = space.stack_top() - 512;
    // Two pages, the second unreadable.
    let pages = memmap2::MmapMut::map_anon(8192).expect("pages");
    let start = pages.as_ptr() as u64;
    // SAFETY: the second page of a mapping that nothing else uses.
    let protected = unsafe { nix::libc::mprotect((start + 4096) as *mut _, 4096, nix::libc::PROT_NONE) };
    assert_eq!(protected, 0);
    let mut pages = pages;
    pages[4086..4096].copy_from_slice(b"0123456789");
    let end = start + 4096;
    let read = |space: &mut Space<'_>, size, from| call(space, helper::PROBE_READ_USER, &[to, size, from]);
    let text =
        |space: &mut Space<'_>, size, from| call(space, helper::PROBE_READ_USER_STR, &[to, size, from]);
    assert_eq!(read(&mut space, 10, end - 10), Ok(0));
    assert_eq!(space.load(to, Width::B8).map(u64::to_le_bytes), Ok(*b"01234567"));
    assert_eq!(read(&mut space, 11, end - 10), Ok(-14));
    assert_eq!(space.load(to, Width::B8), Ok(0), "zeros after a fault");
    assert_eq!(read(&mut space, 0, 0), Ok(0));
    for bad in [
        0,
        1,
        4095,
        end,
        end + 4095,
        0xffff_8000_0000_0000,
        u64::MAX,
        u64::MAX - 7,
        1 << 47,
        0x0000_8000_0000_0000,
    ] {
        assert_eq!(read(&mut space, 8, bad), Ok(-14), "{bad:#x}");
        assert_eq!(text(&mut space, 8, bad), Ok(-14), "{bad:#x}");
    }
    assert_eq!(text(&mut space, 64, end - 10), Ok(-14), "no NUL before the bad page");
    assert_eq!(text(&mut space, 11, end - 10), Ok(11), "cut before the bad page");
    assert_eq!(text(&mut space, 8, end - 10), Ok(8));
    assert_eq!(space.load(to, Width::B8).map(u64::to_le_bytes), Ok(*b"0123456\0"));
    pages[4090] = 0;
    space.store(to, Width::B8, u64::MAX).expect("the stack");
    assert_eq!(text(&mut space, 64, end - 10), Ok(5));
    assert_eq!(
        space.load(to, Width::B8).map(u64::to_le_bytes),
        Ok(*b"0123\0\xff\xff\xff"),
        "nothing behind the NUL"
    );
    assert_eq!(text(&mut space, 0, end - 10), Ok(0));
    pages[..4090].fill(b'x');
    assert_eq!(text(&mut space, 500, start), Ok(500), "longer than one piece");
    assert_eq!(text(&mut space, 500, start + 4000), Ok(91));
}

#[test]
fn accesses_stay_within_one_live_object() {
    let segment = segment();
    let mut space = Space::new(&segment, &Frame::default());
    let top = space.stack_top();
    let depth = u64::from(STACK_FRAME_BYTES);
    let context = space.context();
    let array = space.map_value(0).expect("an array");
    let per_cpu = space.map_value(2).expect("an array");
    let inside = |space: &Space<'_>, at: u64, width| space.load(at, width).is_ok();
    for (at, width, is_inside) in [
        (top - 8, Width::B8, true),
        (top - 7, Width::B8, false),
        (top, Width::B1, false),
        (top - depth, Width::B8, true),
        (top - depth - 1, Width::B1, false),
        (context, Width::B8, true),
        (context + 160, Width::B8, true),
        (context + 224, Width::B8, true),
        (context + 225, Width::B8, false),
        (array, Width::B8, true),
        (array + 8, Width::B4, true),
        (array + 9, Width::B4, false),
        (array + 12, Width::B1, false),
        (array + 16, Width::B8, true),
        (array + 3 * 16, Width::B1, false),
        (array - 1, Width::B1, false),
        (per_cpu + 24, Width::B8, true),
        (per_cpu + 32, Width::B1, false),
        (per_cpu + 64, Width::B8, false),
        (0, Width::B1, false),
        (u64::MAX, Width::B8, false),
    ] {
        assert_eq!(inside(&space, at, width), is_inside, "{:#x} {width:?}", at.wrapping_sub(array));
    }
    // Each call has a frame more, which goes when the call ends.
    for frame in 1..8 {
        assert_eq!(space.enter(), Some(top - frame * depth));
        assert!(inside(&space, top - (frame + 1) * depth, Width::B8));
        assert!(!inside(&space, top - (frame + 1) * depth - 1, Width::B1));
    }
    assert_eq!(space.enter(), None);
    (0..7).for_each(|_| space.leave());
    assert!(inside(&space, top - depth, Width::B8) && !inside(&space, top - depth - 1, Width::B1));
    assert!(
        space.load_acquire(top - 4, Width::B4).is_ok() && space.load_acquire(top - 6, Width::B4).is_err()
    );
    assert!(
        space.store_release(top - 6, Width::B4, 0).is_err()
            && space.store_release(context, Width::B8, 0).is_err()
    );
    assert!(space.store(context, Width::B8, 1).is_err(), "the context is read-only");
    assert!(space.atomic(top - 7, Width::B4, AtomicOp::Add(1)).is_err(), "misaligned");
    assert!(space.atomic(top - 8, Width::B2, AtomicOp::Add(1)).is_err(), "too narrow");
    // A per-CPU value is changed in the shared lane.
    assert_eq!(space.atomic(per_cpu + 8, Width::B8, AtomicOp::Add(6)), Ok(0));
    let shared = u64::from(segment.layout().maps[2].shared_lane()) * segment.layout().maps[2].lane_stride;
    assert!(shared > 0 && space.load(per_cpu + shared, Width::B8).is_err());
    let mut expected = vec![0; 16];
    expected[8] = 6;
    assert_eq!(segment.map(2).lookup(&0u32.to_le_bytes()), Some(expected));
}

#[test]
fn records_live_from_reserve_to_submit() {
    let segment = segment();
    let mut space = Space::new(&segment, &Frame::default());
    let ring = space.map(3).expect("a ring");
    let record = call(&mut space, helper::RINGBUF_RESERVE, &[ring, 12, 0]).expect("room") as u64;
    assert!(space.store(record + 8, Width::B4, 7).is_ok());
    assert!(space.store(record + 8, Width::B8, 7).is_err(), "12 bytes are not 16");
    assert!(call(&mut space, helper::RINGBUF_SUBMIT, &[record + 8, 0]).is_err());
    assert_eq!(call(&mut space, helper::RINGBUF_SUBMIT, &[record, 0]), Ok(0));
    assert!(space.store(record, Width::B4, 7).is_err(), "it is the reader's now");
    assert!(call(&mut space, helper::RINGBUF_SUBMIT, &[record, 0]).is_err(), "twice");
    assert_eq!(
        segment.ring(3).next().map(|record| record.bytes),
        Some(vec![0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0])
    );
    call(&mut space, helper::RINGBUF_RESERVE, &[ring, 8, 0]).expect("room");
    assert_eq!(space.finish(), Err(Violation::LeakedRecords { count: 1 }));
    assert_eq!(segment.ring(3).next(), None);
}

#[test]
fn arguments_of_helpers_are_checked() {
    let segment = segment();
    let mut space = Space::new(&segment, &Frame::default());
    let (array, ring) = (space.map(0).expect("a map"), space.map(3).expect("a map"));
    let at = space.stack_top() - 8;
    for (id, args) in [
        (helper::MAP_LOOKUP_ELEM, [ring, at, 0, 0]),
        (helper::MAP_LOOKUP_ELEM, [array + 8, at, 0, 0]),
        (helper::MAP_LOOKUP_ELEM, [array, at + 8, 0, 0]),
        (helper::MAP_UPDATE_ELEM, [array, at, at, 0]),
        (helper::RINGBUF_OUTPUT, [array, at, 8, 0]),
        (helper::RINGBUF_OUTPUT, [ring, at, 9, 0]),
        (helper::GET_CURRENT_COMM, [at, 0, 0, 0]),
        (helper::GET_CURRENT_COMM, [at, 9, 0, 0]),
        (helper::GET_ATTACH_COOKIE, [at, 0, 0, 0]),
        (99, [0, 0, 0, 0]),
    ] {
        assert!(call(&mut space, id, &args).is_err(), "{id} {args:x?}");
    }
    assert_eq!(
        call(&mut space, helper::MAP_LOOKUP_ELEM, &[array, at]),
        Ok(space.map_value(0).expect("one") as i64)
    );
}
