//! The checks that need no path: every slot is an instruction of RFC 9669 that weir runs, or is refused.
//!
//! In: slots and map definitions. Out: one [`Op`] per slot, with absolute jump targets. Checked here:
//! - opcodes, widths and operations exist, and reserved fields are zero;
//! - registers are r0 to r10, and r10 is never written;
//! - a wide load has its second slot, and no jump goes there or outside;
//! - the last instruction is an exit or an unconditional jump;
//! - maps exist and are sensible; helpers are known.

use weir_ebpf::helper::{self, HelperProto};
use weir_ebpf::insn::{alu, atomic, class, jmp, mode, pseudo, size, source};
use weir_ebpf::kfunc::{self, KfuncId};
use weir_ebpf::map::{LPM_KEY_BYTES, RING_BYTES_MAX, RING_BYTES_MIN, flag};
use weir_ebpf::{HelperId, Insn, MapKind, MapSpec, ProgramKind};

use crate::limits::{KEY_BYTES_MAX, MEMORY_BYTES_MAX, STACK_DEPTH_MAX, VALUE_BYTES_MAX};
use crate::rejection::{Refusal, refuse, too_big, unsupported};
use crate::{Limits, scalar::Scalar};

/// One instruction, its fields checked. Registers are 0..=10, targets are slots of instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Arithmetic {
        operation: u8,
        off: i16,
        wide: bool,
        dst: u8,
        src: Operand,
    },
    ByteOrder {
        dst: u8,
        bits: u32,
        swap: bool,
    },
    Load {
        dst: u8,
        base: u8,
        off: i16,
        bytes: u32,
        sign_extend: bool,
    },
    Store {
        base: u8,
        off: i16,
        bytes: u32,
        value: Operand,
    },
    /// r0 = the big-endian number in the packet at `offset` plus what `index` holds; outside, the program ends with 0.
    PacketLoad {
        index: Option<u8>,
        bytes: u32,
    },
    /// A load that later accesses stay behind.
    LoadAcquire {
        dst: u8,
        base: u8,
        off: i16,
        bytes: u32,
    },
    /// A store that earlier accesses stay before.
    StoreRelease {
        base: u8,
        off: i16,
        bytes: u32,
        src: u8,
    },
    Atomic {
        base: u8,
        off: i16,
        bytes: u32,
        src: u8,
        operation: i32,
    },
    Constant {
        dst: u8,
        value: u64,
    },
    Map {
        dst: u8,
        index: u32,
    },
    MapValue {
        dst: u8,
        index: u32,
        offset: u32,
    },
    /// The address of a function of the program.
    Function {
        dst: u8,
        target: usize,
    },
    Jump {
        target: usize,
    },
    Branch {
        operation: u8,
        wide: bool,
        dst: u8,
        src: Operand,
        target: usize,
    },
    /// Goes to `target` when the run's rounds are used up, which nobody knows beforehand.
    MayGoto {
        target: usize,
    },
    Call {
        helper: &'static HelperProto,
    },
    /// A helper that nobody has. It may stand where no path leads, as behind a test of what a kernel has.
    CallUnknown {
        id: HelperId,
    },
    /// A kernel function that weir has.
    CallKernel {
        id: KfuncId,
    },
    /// A function of the program.
    CallLocal {
        target: usize,
    },
    Exit,
    /// The second slot of a wide load.
    Second,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    Register(u8),
    Immediate(i32),
}

impl Operand {
    pub(crate) fn register(self) -> Option<u8> {
        if let Operand::Register(register) = self { Some(register) } else { None }
    }

    /// The immediate as the operation sees it: sign-extended to 64 bits.
    pub(crate) fn immediate(value: i32) -> Scalar {
        Scalar::constant(i64::from(value) as u64)
    }
}

/// A refusal and the slot to blame.
pub(crate) type At<T> = Result<T, (Option<usize>, Refusal)>;

pub(crate) fn decode(kind: ProgramKind, insns: &[Insn], maps: &[MapSpec], limits: &Limits) -> At<Vec<Op>> {
    check_kind(kind)
        .and_then(|()| check_size(insns, limits))
        .and_then(|()| maps.iter().try_for_each(|map| check_map(map).and_then(|()| check_inner(map, maps))))
        .map_err(|refusal| (None, refusal))?;
    let mut ops = Vec::with_capacity(insns.len());
    while ops.len() < insns.len() {
        let at = ops.len();
        let op = decode_one(kind, insns, at, maps).map_err(|refusal| (Some(at), refusal))?;
        ops.push(op);
        if insns[at].is_wide() {
            ops.push(Op::Second);
        }
    }
    for (at, op) in ops.iter().enumerate() {
        if let Op::Jump { target }
        | Op::Branch { target, .. }
        | Op::MayGoto { target }
        | Op::CallLocal { target }
        | Op::Function { target, .. } = op
        {
            check_target(&ops, *target).map_err(|refusal| (Some(at), refusal))?;
        }
    }
    match ops.last() {
        Some(Op::Exit | Op::Jump { .. }) => Ok(ops),
        _ => {
            let at = insns.len() - 1 - usize::from(matches!(ops.last(), Some(Op::Second)));
            refuse("the program ends here without `exit` or `goto`").map_err(|refusal| (Some(at), refusal))
        }
    }
}

fn check_kind(kind: ProgramKind) -> Result<(), Refusal> {
    match kind {
        ProgramKind::Memory { bytes } if bytes > MEMORY_BYTES_MAX => {
            too_big(format!("memory of {bytes} bytes; the limit is {MEMORY_BYTES_MAX}"))
        }
        _ => Ok(()),
    }
}

fn check_size(insns: &[Insn], limits: &Limits) -> Result<(), Refusal> {
    if insns.is_empty() {
        return refuse("the program is empty");
    }
    if insns.len() > limits.slots_max {
        return too_big(format!("{} instruction slots; the limit is {}", insns.len(), limits.slots_max));
    }
    Ok(())
}

/// A map that holds maps says which, and no other does.
fn check_inner(map: &MapSpec, maps: &[MapSpec]) -> Result<(), Refusal> {
    let name = &map.name;
    let inner = map.inner.map(|inner| maps.get(inner as usize));
    match (map.kind.holds_maps(), inner) {
        (false, None) => Ok(()),
        (false, Some(_)) => refuse(format!("map {name}: a {} holds no maps", map.kind.name())),
        (true, None) => refuse(format!("map {name}: which maps it holds is not said")),
        (true, Some(None)) => refuse(format!("map {name}: it holds maps like one that is not there")),
        (true, Some(Some(inner))) if inner.kind.holds_maps() => {
            refuse(format!("map {name}: maps that hold maps are not held by others"))
        }
        (true, Some(Some(inner))) if inner.kind.is_per_cpu() => {
            unsupported(format!("map {name}: it holds maps of kind {}", inner.kind.name()))
        }
        (true, Some(Some(_))) => Ok(()),
    }
}

fn check_map(map: &MapSpec) -> Result<(), Refusal> {
    let MapSpec { name, kind, key_bytes, value_bytes, max_entries, flags, extra, inner: _ } = map;
    let bad = |what: String| refuse(format!("map {name}: {what}"));
    if map.foreign_flags() != 0 {
        return bad(format!("flags {flags:#x}, which maps of kind {} do not take", kind.name()));
    }
    if [flag::RDONLY | flag::WRONLY, flag::RDONLY_PROG | flag::WRONLY_PROG]
        .into_iter()
        .any(|both| flags & both == both)
    {
        return bad(format!("flags {flags:#x}: read-only and write-only at once"));
    }
    if *extra > map.extra_max() {
        return bad(format!("an extra of {extra}; at most {} is possible for this kind", map.extra_max()));
    }
    match kind {
        MapKind::RingBuf => {
            if map.lacks_rings_to_overwrite() {
                return bad(format!(
                    "flags {flags:#x}: one ring does not overwrite, but a ring for each CPU (0x80000000) does"
                ));
            }
            if (*key_bytes, *value_bytes) != (0, 0) {
                return bad(format!(
                    "a ring has no key and no value, not {key_bytes} and {value_bytes} bytes"
                ));
            }
            let fits = (RING_BYTES_MIN..=RING_BYTES_MAX).contains(max_entries);
            if !fits || !max_entries.is_power_of_two() {
                return bad(format!(
                    "a ring of {max_entries} bytes; it must be a power of two from {RING_BYTES_MIN} to {RING_BYTES_MAX}"
                ));
            }
            return Ok(());
        }
        MapKind::Array | MapKind::PerCpuArray if *key_bytes != 4 => {
            return bad(format!("the key of an array is 4 bytes, not {key_bytes}"));
        }
        MapKind::HashOfMaps if *value_bytes != 4 => {
            return bad(format!("the value of a map that holds maps is 4 bytes, not {value_bytes}"));
        }
        MapKind::PerfEventArray
        | MapKind::CgroupArray
        | MapKind::ProgArray
        | MapKind::ArrayOfMaps
        | MapKind::XskMap => {
            if (*key_bytes, *value_bytes) != (4, 4) {
                return bad(format!(
                    "key and value of a {} are 4 bytes each, not {key_bytes} and {value_bytes}",
                    kind.name()
                ));
            }
            // As many as there are CPUs.
            if *kind == MapKind::PerfEventArray && *max_entries == 0 {
                return Ok(());
            }
        }
        MapKind::StackTrace => {
            let depth = value_bytes / 8;
            if *key_bytes != 4 || value_bytes % 8 != 0 || !(1..=STACK_DEPTH_MAX).contains(&depth) {
                return bad(format!(
                    "stacks have a key of 4 bytes, not {key_bytes}, and a value of 8 bytes for each of 1 to \
                     {STACK_DEPTH_MAX} addresses, not {value_bytes}"
                ));
            }
        }
        MapKind::Queue | MapKind::Stack | MapKind::BloomFilter if *key_bytes != 0 => {
            return bad(format!("a {} has no key, not one of {key_bytes} bytes", kind.name()));
        }
        _ => {}
    }
    if map.lacks_no_prealloc() {
        return bad("an LPM trie needs the flag BPF_F_NO_PREALLOC".into());
    }
    if *kind == MapKind::LpmTrie && !LPM_KEY_BYTES.contains(key_bytes) {
        let (least, most) = LPM_KEY_BYTES.into_inner();
        return bad(format!("a key of {key_bytes} bytes; the limits of an LPM trie are {least} and {most}"));
    }
    if (*key_bytes == 0 && kind.has_keys()) || *key_bytes > KEY_BYTES_MAX {
        return bad(format!("a key of {key_bytes} bytes; the limits are 1 and {KEY_BYTES_MAX}"));
    }
    if *value_bytes == 0 || *value_bytes > VALUE_BYTES_MAX {
        return bad(format!("a value of {value_bytes} bytes; the limits are 1 and {VALUE_BYTES_MAX}"));
    }
    if *max_entries == 0 {
        return bad("it has no entries".into());
    }
    Ok(())
}

fn check_target(ops: &[Op], target: usize) -> Result<(), Refusal> {
    match ops.get(target) {
        None => refuse(format!("jumps to {target}, outside the program of {} slots", ops.len())),
        Some(Op::Second) => refuse(format!("jumps to {target}, into the middle of a wide load")),
        Some(_) => Ok(()),
    }
}

fn decode_one(kind: ProgramKind, insns: &[Insn], at: usize, maps: &[MapSpec]) -> Result<Op, Refusal> {
    let insn = insns[at];
    match insn.class() {
        class::ALU | class::ALU64 => arithmetic(insn),
        class::JMP | class::JMP32 => jump(insn, at),
        class::LDX => load(insn),
        class::ST | class::STX => store(insn),
        _ if insn.is_wide() => wide(insn, insns.get(at + 1), at, maps),
        _ => match insn.opcode & 0xe0 {
            mode::ABS | mode::IND if !kind.has_packet_loads() => unsupported(format!(
                "packet loads are for socket filters and classifiers, not for programs of kind {}",
                kind.name()
            )),
            mode::ABS | mode::IND => packet_load(insn),
            _ => unknown_opcode(insn),
        },
    }
}

/// The offset in `imm` is any number: what it means is known when the packet is.
fn packet_load(insn: Insn) -> Result<Op, Refusal> {
    let bytes = bytes(insn);
    if bytes == 8 {
        return unknown_opcode(insn);
    }
    zero("destination register", insn.dst)?;
    zero("offset", insn.off)?;
    if insn.opcode & 0xe0 == mode::ABS {
        zero("source register", insn.src)?;
        return Ok(Op::PacketLoad { index: None, bytes });
    }
    Ok(Op::PacketLoad { index: Some(register(insn.src)?), bytes })
}

fn unknown_opcode<T>(insn: Insn) -> Result<T, Refusal> {
    refuse(format!("no instruction has the opcode {:#04x}", insn.opcode))
}

fn arithmetic(insn: Insn) -> Result<Op, Refusal> {
    let Insn { off, imm, .. } = insn;
    let wide = insn.class() == class::ALU64;
    let operation = insn.opcode & 0xf0;
    let dst = destination(insn.dst)?;
    match operation {
        alu::END => {
            let big = insn.opcode & source::X != 0;
            if wide && big {
                return unknown_opcode(insn);
            }
            zero("source register", insn.src)?;
            zero("offset", off)?;
            let bits = match imm {
                16 | 32 | 64 => imm as u32,
                _ => return refuse(format!("a byte swap of {imm} bits; 16, 32 and 64 exist")),
            };
            Ok(Op::ByteOrder { dst, bits, swap: wide || big })
        }
        alu::NEG => {
            if insn.opcode & source::X != 0 {
                return unknown_opcode(insn);
            }
            zero("source register", insn.src)?;
            zero("offset", off)?;
            zero("immediate", imm)?;
            Ok(Op::Arithmetic { operation, off, wide, dst, src: Operand::Immediate(0) })
        }
        alu::MOV if wide && off == 1 && insn.opcode & source::X != 0 => {
            unsupported("address spaces (arenas) are not run by weir")
        }
        alu::ADD..=alu::ARSH => {
            let src = operand(insn)?;
            match (operation, off) {
                (_, 0) | (alu::DIV | alu::MOD, 1) => {}
                (alu::MOV, 8 | 16) if matches!(src, Operand::Register(_)) => {}
                (alu::MOV, 32) if matches!(src, Operand::Register(_)) && wide => {}
                _ => return refuse(format!("the offset {off} has no meaning in this operation")),
            }
            Ok(Op::Arithmetic { operation, off, wide, dst, src })
        }
        _ => unknown_opcode(insn),
    }
}

fn operand(insn: Insn) -> Result<Operand, Refusal> {
    if insn.opcode & source::X != 0 {
        zero("immediate", insn.imm)?;
        return Ok(Operand::Register(register(insn.src)?));
    }
    zero("source register", insn.src)?;
    Ok(Operand::Immediate(insn.imm))
}

fn jump(insn: Insn, at: usize) -> Result<Op, Refusal> {
    let Insn { dst, src, off, imm, opcode } = insn;
    let wide = insn.class() == class::JMP;
    let operation = opcode & 0xf0;
    let by_register = opcode & source::X != 0;
    match operation {
        jmp::JA if by_register => unknown_opcode(insn),
        jmp::JA => {
            zero("destination register", dst)?;
            zero("source register", src)?;
            if wide {
                zero("immediate", imm)?
            } else {
                zero("offset", off)?
            }
            let distance = if wide { i64::from(off) } else { i64::from(imm) };
            Ok(Op::Jump { target: target(at, distance)? })
        }
        jmp::CALL if wide => call(insn, at),
        jmp::EXIT if wide && !by_register => {
            zero("destination register", dst)?;
            zero("source register", src)?;
            zero("offset", off)?;
            zero("immediate", imm)?;
            Ok(Op::Exit)
        }
        jmp::JCOND if wide && !by_register => {
            zero("destination register", dst)?;
            zero("source register", src)?;
            zero("immediate", imm)?;
            Ok(Op::MayGoto { target: target(at, off.into())? })
        }
        jmp::JEQ..=jmp::JSGE | jmp::JLT..=jmp::JSLE => {
            let src = operand(insn)?;
            Ok(Op::Branch { operation, wide, dst: register(dst)?, src, target: target(at, off.into())? })
        }
        _ => unknown_opcode(insn),
    }
}

fn target(at: usize, distance: i64) -> Result<usize, Refusal> {
    let target = at as i64 + 1 + distance;
    usize::try_from(target).or_else(|_| refuse(format!("jumps to {target}, before the program")))
}

fn call(insn: Insn, at: usize) -> Result<Op, Refusal> {
    let Insn { dst, src, off, imm, opcode } = insn;
    if opcode & source::X != 0 {
        return unsupported("callx (opcode 0x8d), which calls through a register, is not in RFC 9669");
    }
    zero("destination register", dst)?;
    zero("offset", off)?;
    match src {
        pseudo::HELPER => match helper::by_id(imm) {
            Some(helper) => Ok(Op::Call { helper }),
            None => Ok(Op::CallUnknown { id: imm }),
        },
        pseudo::LOCAL => Ok(Op::CallLocal { target: target(at, imm.into())? }),
        pseudo::KERNEL if kfunc::name(imm).is_some() => Ok(Op::CallKernel { id: imm }),
        pseudo::KERNEL => unsupported("it calls a kernel function by BTF id, which is of one kernel"),
        _ => refuse(format!("source register field {src} has no meaning in a call")),
    }
}

fn load(insn: Insn) -> Result<Op, Refusal> {
    let sign_extend = match insn.opcode & 0xe0 {
        mode::MEM => false,
        mode::MEMSX if insn.opcode & 0x18 != size::DW => true,
        _ => return unknown_opcode(insn),
    };
    zero("immediate", insn.imm)?;
    let (dst, base) = (destination(insn.dst)?, register(insn.src)?);
    Ok(Op::Load { dst, base, off: insn.off, bytes: bytes(insn), sign_extend })
}

fn store(insn: Insn) -> Result<Op, Refusal> {
    let Insn { dst, src, off, imm, opcode } = insn;
    let bytes = bytes(insn);
    match (insn.class(), opcode & 0xe0) {
        (class::ST, mode::MEM) => {
            zero("source register", src)?;
            Ok(Op::Store { base: register(dst)?, off, bytes, value: Operand::Immediate(imm) })
        }
        (class::STX, mode::MEM) => {
            zero("immediate", imm)?;
            Ok(Op::Store { base: register(dst)?, off, bytes, value: Operand::Register(register(src)?) })
        }
        (class::STX, mode::ATOMIC) => {
            match imm {
                atomic::LOAD_ACQUIRE => {
                    let (dst, base) = (destination(dst)?, register(src)?);
                    return Ok(Op::LoadAcquire { dst, base, off, bytes });
                }
                atomic::STORE_RELEASE => {
                    let (base, src) = (register(dst)?, register(src)?);
                    return Ok(Op::StoreRelease { base, off, bytes, src });
                }
                atomic::XCHG | atomic::CMPXCHG => {}
                _ if is_simple_atomic(imm) => {}
                _ => return refuse(format!("no atomic operation has the number {imm:#x}")),
            }
            if bytes < 4 {
                return refuse(format!("an atomic operation is 4 or 8 bytes wide, not {bytes}"));
            }
            let (base, src) = (register(dst)?, register(src)?);
            if imm & atomic::FETCH != 0 && imm != atomic::CMPXCHG {
                destination(src)?;
            }
            Ok(Op::Atomic { base, off, bytes, src, operation: imm })
        }
        _ => unknown_opcode(insn),
    }
}

fn is_simple_atomic(imm: i32) -> bool {
    matches!(imm & !atomic::FETCH, atomic::ADD | atomic::OR | atomic::AND | atomic::XOR)
}

fn bytes(insn: Insn) -> u32 {
    match insn.opcode & 0x18 {
        size::B => 1,
        size::H => 2,
        size::W => 4,
        _ => 8,
    }
}

fn wide(insn: Insn, second: Option<&Insn>, at: usize, maps: &[MapSpec]) -> Result<Op, Refusal> {
    let Some(second) = second else { return refuse("the wide load has no second slot") };
    if second.opcode != 0 || second.dst != 0 || second.src != 0 || second.off != 0 {
        return refuse("the second slot of the wide load holds more than the upper half of the value");
    }
    zero("offset", insn.off)?;
    let dst = destination(insn.dst)?;
    let upper = second.imm as u32;
    match insn.src {
        pseudo::NONE => Ok(Op::Constant { dst, value: u64::from(upper) << 32 | u64::from(insn.imm as u32) }),
        pseudo::MAP_INDEX => {
            zero("upper half of the value", upper)?;
            let (index, _) = map(insn.imm, maps)?;
            Ok(Op::Map { dst, index })
        }
        pseudo::MAP_INDEX_VALUE => {
            let (index, map) = map(insn.imm, maps)?;
            if !map.kind.is_array() {
                return refuse(format!(
                    "the values of a map of kind {} have no fixed address",
                    map.kind.name()
                ));
            }
            if upper >= map.value_bytes {
                return refuse(format!("offset {upper} into a value of {} bytes", map.value_bytes));
            }
            Ok(Op::MapValue { dst, index, offset: upper })
        }
        pseudo::FUNCTION => {
            zero("upper half of the value", upper)?;
            Ok(Op::Function { dst, target: target(at, insn.imm.into())? })
        }
        pseudo::MAP_FD | pseudo::MAP_FD_VALUE => unsupported(
            "it names a map by a descriptor of the process that wrote it; here maps are named by index (5 and 6)",
        ),
        pseudo::VARIABLE => unsupported("it names a variable of the kernel by BTF id"),
        other => refuse(format!("source register field {other} has no meaning in a wide load")),
    }
}

fn map(index: i32, maps: &[MapSpec]) -> Result<(u32, &MapSpec), Refusal> {
    let found = u32::try_from(index).ok().and_then(|number| Some((number, maps.get(number as usize)?)));
    found.map_or_else(|| refuse(format!("map number {index} of {}", maps.len())), Ok)
}

fn register(number: u8) -> Result<u8, Refusal> {
    if number <= 10 { Ok(number) } else { refuse(format!("there is no register r{number}")) }
}

fn destination(number: u8) -> Result<u8, Refusal> {
    match register(number)? {
        10 => refuse("r10 is the frame pointer and cannot be written"),
        number => Ok(number),
    }
}

fn zero<T: PartialEq + Default + std::fmt::Display>(field: &str, value: T) -> Result<(), Refusal> {
    if value == T::default() { Ok(()) } else { refuse(format!("the unused {field} is {value}, not 0")) }
}
