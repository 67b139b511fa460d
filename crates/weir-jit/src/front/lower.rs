//! Bytecode to [`crate::front::lir`]: one operation per instruction slot, with what the verifier and
//! [`crate::front::values`] know put into its operands.
//!
//! - unreachable instructions and second slots become nothing; jumps that always go one way lose their compare;
//! - loads and stores through a known stack or context address name the place; known constants become
//!   immediates; fields of a packet's context are accessed where weir's slots have them;
//! - lookups in arrays become an address (constant key) or a bounds check; records in the ring of the CPU are reserved, or
//!   reserved and copied, in line, and all are submitted by a store; `get_current_pid_tgid` with a known
//!   place of the thread id, and `get_attach_cookie`, become loads; `loop` and `for_each_map_elem` are loops; every
//!   other helper is a call, of its part for the kind and key size of its map if those are known.
//!
//! A load that acquires and a store that releases are a plain load and store, which x86 keeps in that order.
//!
//! Refused: helpers that weir does not have.

use weir_ebpf::helper::{self, Arg};
use weir_ebpf::insn::{alu, atomic, class, jmp, mode, pseudo, size, source};
use weir_ebpf::kfunc::{self, KfuncId};
use weir_ebpf::{HelperId, Insn, MapKind, MapSpec};
use weir_rt::executable::{
    FRAME_IS_RETURN, FRAME_SESSION_COOKIE, LanePolicy, RuntimeFunction, SiteAbi, Symbol, TidSource,
};
use weir_verifier::{InsnFacts, VerifiedProgram};

use crate::JitError;
use crate::front::alignment;
use crate::front::lir::{
    AluOp, At, AtomicOp, Base, Bytes, Extend, InLane, Op, Operand, Over, Size, StackRange, Test, WHOLE_STACK,
};
use crate::front::places::MapPlace;
use crate::front::reservation::Reservation;
use crate::front::values::{self, Value, Values};

/// All operations of the program, by instruction slot.
pub(crate) fn lower(
    program: &VerifiedProgram,
    abi: &SiteAbi,
    places: &[MapPlace],
) -> Result<Vec<Op>, JitError> {
    let states = values::values(program, abi.pid);
    let claims = crate::front::lane_use::claims(program, abi);
    let context = Context { program, abi, places, claims };
    let mut ops = Vec::with_capacity(states.len());
    for (index, state) in states.iter().enumerate() {
        ops.push(match state {
            Some(state) if program.facts()[index].reachable => context.insn(index, state)?,
            _ => Op::Nothing,
        });
    }
    Ok(ops)
}

#[derive(Clone, Copy)]
struct Context<'a> {
    program: &'a VerifiedProgram,
    abi: &'a SiteAbi,
    places: &'a [MapPlace],
    /// Runs claim a lane.
    claims: bool,
}

impl Context<'_> {
    fn insn(&self, index: usize, state: &Values) -> Result<Op, JitError> {
        let insn = self.program.insns()[index];
        let facts = &self.program.facts()[index];
        let unsupported = || JitError::Instruction { index, opcode: insn.opcode };
        let op = match insn.class() {
            class::LD if insn.is_wide() => self.wide(index).ok_or_else(unsupported)?,
            class::LD => packet_load(insn, state).ok_or_else(unsupported)?,
            class::LDX if let Some(value) = facts.constant => Op::Const { dst: insn.dst, value },
            class::LDX => load(insn, facts, self.lanes(facts), state).ok_or_else(unsupported)?,
            class::ST => store(insn, facts, self.lanes(facts), state).ok_or_else(unsupported)?,
            class::STX if insn.opcode & 0xe0 == mode::ATOMIC => {
                atomic(insn, self.lanes(facts), state).ok_or_else(unsupported)?
            }
            class::STX => store(insn, facts, self.lanes(facts), state).ok_or_else(unsupported)?,
            class::ALU | class::ALU64 => arithmetic(insn, state, self.abi.pid).ok_or_else(unsupported)?,
            class::JMP if insn.opcode & 0xf0 == jmp::EXIT => Op::Exit,
            class::JMP if insn.opcode & 0xf0 == jmp::CALL => match insn.src {
                pseudo::HELPER => self.call(index, insn.imm, state)?,
                pseudo::KERNEL if insn.imm == kfunc::TEXT_BEGINS => {
                    Op::Text { test: facts.text.ok_or_else(unsupported)? }
                }
                pseudo::KERNEL if insn.imm == kfunc::DECLARED_COPY => Op::Declared {
                    copy: facts.copy.ok_or_else(unsupported)?,
                    // As of a helper's memory: only where in the stack it writes may be unknown.
                    stack_reads: match state[1] {
                        Value::MaybeStack => vec![WHOLE_STACK],
                        _ => Vec::new(),
                    },
                },
                pseudo::KERNEL => kernel_call(insn.imm).ok_or_else(unsupported)?,
                pseudo::LOCAL => local_call(insn, index, state).ok_or_else(unsupported)?,
                _ => return Err(unsupported()),
            },
            class::JMP | class::JMP32 => jump(insn, facts, state, index).ok_or_else(unsupported)?,
            _ => return Err(unsupported()),
        };
        Ok(op)
    }

    fn wide(&self, index: usize) -> Option<Op> {
        let [low, high] = [self.program.insns()[index], *self.program.insns().get(index + 1)?];
        let dst = low.dst;
        Some(match low.src {
            pseudo::NONE => {
                let value = u64::from(high.imm as u32) << 32 | u64::from(low.imm as u32);
                Op::Const { dst, value }
            }
            pseudo::MAP_INDEX => Op::Symbol { dst, symbol: Symbol::Map(low.imm as u32), addend: 0 },
            pseudo::MAP_INDEX_VALUE if self.is_in_lane(low.imm as u32) => {
                Op::InLane { dst, map: low.imm as u32, addend: i64::from(high.imm) }
            }
            pseudo::MAP_INDEX_VALUE => {
                Op::Symbol { dst, symbol: Symbol::MapData(low.imm as u32), addend: i64::from(high.imm) }
            }
            // Only the helper that calls back gets it, which knows its callback from the verifier: the number stands
            // for an address that no program can see, and is not 0.
            pseudo::FUNCTION => Op::Const { dst, value: 1 },
            _ => return None,
        })
    }

    fn call(&self, index: usize, id: HelperId, state: &Values) -> Result<Op, JitError> {
        let (id, facts) = (helper::of_kind(id, self.program.kind()), &self.program.facts()[index]);
        match (id, facts.map_index) {
            (helper::MAP_LOOKUP_ELEM, Some(map)) if self.map(map)?.kind.is_array() => {
                return Ok(self.array_lookup(map, facts, state));
            }
            (helper::TAIL_CALL, map) => {
                return Ok(Op::TailCall { map: map.ok_or(JitError::Helper { index, id })? });
            }
            (helper::LOOP | helper::FOR_EACH_MAP_ELEM, _) => {
                let over = if id == helper::LOOP { Over::Numbers } else { Over::Elements };
                let callback = facts.callback.ok_or(JitError::Helper { index, id })?;
                let checks_flags = state[4] != Value::Const(0);
                return Ok(Op::Loop { over, callback, checks_flags, stack_escapes: stack_escapes(state) });
            }
            (helper::RINGBUF_RESERVE, Some(map)) => {
                if let Some(reservation) = self.reservation(map, state)? {
                    return Ok(Op::Reserve { reservation });
                }
            }
            (helper::RINGBUF_SUBMIT, _) => return Ok(Op::Finish { is_discard: false }),
            (helper::RINGBUF_DISCARD, _) => return Ok(Op::Finish { is_discard: true }),
            (helper::GET_ATTACH_COOKIE, _) => return Ok(Op::Cookie { context: place(state, 1, 0) }),
            (helper::GET_CURRENT_PID_TGID, _) => {
                if let TidSource::ThreadControlBlock { offset } = self.abi.tid {
                    return Ok(Op::PidTid { fs_offset: offset });
                }
            }
            _ => {}
        }
        let proto = helper::by_id(id).ok_or(JitError::Helper { index, id })?;
        let map = facts.map_index.map(|map| self.map(map)).transpose()?;
        let mut stack_reads = Vec::new();
        for (number, arg) in proto.args.iter().enumerate() {
            let bytes = match (arg, map) {
                (Arg::MapValueOut, Some(map)) if map.kind == MapKind::BloomFilter => Some(map.value_bytes),
                // What a helper only writes must be kept all the same if it is read later: not our business here.
                // Where in the stack it writes is not known: all of it counts as touched.
                (Arg::MemWrite | Arg::StringWrite | Arg::MapValueOut, _)
                    if state[number + 1] == Value::MaybeStack =>
                {
                    None
                }
                (Arg::MemWrite | Arg::StringWrite | Arg::MapValueOut, _) => continue,
                // It may hold addresses in the stack, which the helper reads at.
                (Arg::Words, _) => {
                    stack_reads.push(WHOLE_STACK);
                    continue;
                }
                (Arg::MapKey, Some(map)) => Some(map.key_bytes),
                (Arg::MapValue, Some(map)) => Some(map.value_bytes),
                (Arg::MemRead | Arg::MemUpdate, _) => state.get(number + 2).and_then(|size| match size {
                    Value::Const(size) => u32::try_from(*size).ok(),
                    _ => None,
                }),
                _ => None,
            };
            stack_reads.extend(stack_bytes(state[number + 1], bytes));
        }
        if let (helper::RINGBUF_OUTPUT, Some(map)) = (id, facts.map_index)
            && let Some(reservation) = self.output(map, state)?
        {
            let is_sized = reservation.is_sized();
            return Ok(Op::Output { reservation, is_sized, stack_reads });
        }
        let (symbol, in_lane) = self.function(id, facts.map_index, map);
        let (args, string_bytes) = (proto.args.len() as u8, facts.string_bytes);
        let is_aligned = alignment::call_is(id, map, [state[2], state[3]]);
        Ok(Op::Helper { id, symbol, args, string_bytes, stack_reads, in_lane, is_aligned })
    }

    /// Whether the run has claimed a lane, and the map's values are in it.
    fn is_in_lane(&self, map: u32) -> bool {
        self.claims && self.program.maps().get(map as usize).is_some_and(|map| map.kind.is_per_cpu())
    }

    /// The function to call: that of the helper, or the part of it for maps of this kind and key size.
    fn function(&self, id: HelperId, index: Option<u32>, map: Option<&MapSpec>) -> (Symbol, InLane) {
        use RuntimeFunction as Function;
        let hash = map.filter(|map| map.kind.is_hash());
        let is_in_lane = index.is_some_and(|index| self.is_in_lane(index));
        let lane = |register| match index {
            Some(index) if !is_in_lane => InLane::Always(register, self.places[index as usize].shared_lane),
            _ => InLane::Argument(register),
        };
        let function = match (id, hash) {
            (helper::MAP_LOOKUP_ELEM, Some(map)) => {
                let in_lane = index.filter(|_| is_in_lane).map_or(InLane::No, InLane::LookUp);
                return (Symbol::Runtime(Function::hash_lookup(map.key_bytes)), in_lane);
            }
            (helper::MAP_UPDATE_ELEM, Some(map)) => (Function::hash_update(map.key_bytes), lane(5)),
            (helper::MAP_DELETE_ELEM, Some(_)) => (Function::HashDelete, InLane::No),
            (helper::MAP_LOOKUP_ELEM, None) if self.claims && index.is_none() => {
                (Function::MapLookupLane, InLane::Argument(3))
            }
            (helper::MAP_UPDATE_ELEM, None) if self.claims && (is_in_lane || index.is_none()) => {
                (Function::MapUpdateLane, lane(5))
            }
            (helper::GET_SMP_PROCESSOR_ID, _) if self.claims => return (Symbol::Helper(id), InLane::Cpu),
            (helper::GET_SMP_PROCESSOR_ID, _) => {
                let of_thread = match self.abi.lanes {
                    LanePolicy::Rseq { offset, .. } => InLane::ThreadsCpu(offset),
                    _ => InLane::No,
                };
                return (Symbol::Helper(id), of_thread);
            }
            _ => return (Symbol::Helper(id), InLane::No),
        };
        (Symbol::Runtime(function.0), function.1)
    }

    /// The per-CPU map whose lane the access adds to its address.
    fn lanes(&self, facts: &InsnFacts) -> Option<u32> {
        if self.claims { None } else { facts.per_cpu_map }
    }

    fn array_lookup(&self, map: u32, facts: &InsnFacts, state: &Values) -> Op {
        match facts.constant_key {
            Some(key) => {
                let addend = i64::from(key) * self.places[map as usize].elem_stride as i64;
                if self.is_in_lane(map) {
                    return Op::InLane { dst: 0, map, addend };
                }
                Op::Symbol { dst: 0, symbol: Symbol::MapData(map), addend }
            }
            None => Op::Lookup { map, key: place(state, 2, 0), in_lane: self.is_in_lane(map) },
        }
    }

    /// A reservation that needs no helper: its size is known, and no flag is set.
    fn reservation(&self, map: u32, state: &Values) -> Result<Option<Reservation>, JitError> {
        let (Value::Const(size), Value::Const(0)) = (state[2], state[3]) else { return Ok(None) };
        Ok(Reservation::new(map, self.map(map)?, &self.places[map as usize], Some(size), self.abi))
    }

    /// The same for a record that is copied, of a size known or not.
    fn output(&self, map: u32, state: &Values) -> Result<Option<Reservation>, JitError> {
        let size = match state[3] {
            Value::Const(size) => Some(size),
            _ => None,
        };
        let Value::Const(0) = state[4] else { return Ok(None) };
        Ok(Reservation::new(map, self.map(map)?, &self.places[map as usize], size, self.abi))
    }

    fn map(&self, index: u32) -> Result<&weir_ebpf::MapSpec, JitError> {
        self.program.maps().get(index as usize).ok_or(JitError::Map { index })
    }
}

/// The bytes of the stack that a helper may read through `value`; without a size, all above it.
fn stack_bytes(value: Value, bytes: Option<u32>) -> Option<StackRange> {
    match value {
        Value::Stack(from) => {
            let to = bytes.and_then(|bytes| from.checked_add_unsigned(bytes)).unwrap_or(0);
            Some(StackRange { from, to })
        }
        Value::MaybeStack => Some(WHOLE_STACK),
        Value::Const(_) | Value::Context(_) | Value::PidTid | Value::Other => None,
    }
}

/// `offset(reg)`, as a place if the register's address is known.
fn place(state: &Values, reg: u8, offset: i16) -> At {
    let offset = i32::from(offset);
    match state[usize::from(reg)] {
        Value::Stack(base) => At { base: Base::Stack, offset: base + offset },
        Value::Context(base) => At { base: Base::Context, offset: base + offset },
        value => At { base: Base::Reg { reg, may_be_stack: value == Value::MaybeStack }, offset },
    }
}

/// The source operand of an instruction whose X bit chooses between register and immediate. `wide`: the
/// operation uses all 64 bits of a constant in a register.
fn source(insn: Insn, state: &Values, wide: bool) -> Operand {
    if insn.opcode & source::X == 0 { Operand::Imm(insn.imm) } else { register(insn.src, state, wide) }
}

/// A register as a source, or the constant that it holds.
fn register(reg: u8, state: &Values, wide: bool) -> Operand {
    match state[usize::from(reg)] {
        Value::Const(value) if !wide => Operand::Imm(value as i32),
        Value::Const(value) if i32::try_from(value as i64).is_ok() => Operand::Imm(value as i32),
        _ if reg == 10 => Operand::FramePointer,
        _ => Operand::Reg(reg),
    }
}

fn packet_load(insn: Insn, state: &Values) -> Option<Op> {
    let size = access_size(insn.opcode);
    let (index, offset) = match insn.opcode & 0xe0 {
        mode::ABS => (None, insn.imm),
        mode::IND => match state[usize::from(insn.src)] {
            Value::Const(value) => (None, (value as i32).wrapping_add(insn.imm)),
            _ => (Some(insn.src), insn.imm),
        },
        _ => return None,
    };
    Some(Op::PacketLoad { size, index, offset }).filter(|_| size != Size::Dw)
}

fn load(insn: Insn, facts: &InsnFacts, lanes: Option<u32>, state: &Values) -> Option<Op> {
    let signed = match insn.opcode & 0xe0 {
        mode::MEM => false,
        mode::MEMSX => true,
        _ => return None,
    };
    let size = access_size(insn.opcode);
    if signed && size == Size::Dw {
        return None;
    }
    let (offset, size) = field_place(insn, facts, size, false)?;
    let at = place(state, insn.src, offset);
    Some(Op::Load { dst: insn.dst, size, signed, at, lanes })
}

/// Offset and size of an access: in the slots of the context, if it is to a field of a packet's.
fn field_place(insn: Insn, facts: &InsnFacts, size: Size, is_write: bool) -> Option<(i16, Size)> {
    let Some(field) = facts.context_field else { return Some((insn.off, size)) };
    let offset = u32::try_from(insn.off).ok()?;
    let (at, bytes) = field.place(offset, size.bytes() as u32, is_write)?;
    let size = match bytes {
        8 => Size::Dw,
        2 => Size::H,
        _ => size,
    };
    Some((i16::try_from(at).ok()?, size))
}

fn store(insn: Insn, facts: &InsnFacts, lanes: Option<u32>, state: &Values) -> Option<Op> {
    if insn.opcode & 0xe0 != mode::MEM {
        return None;
    }
    let size = access_size(insn.opcode);
    let src = match insn.class() {
        class::ST => Operand::Imm(insn.imm),
        _ => register(insn.src, state, size == Size::Dw),
    };
    let (offset, size) = field_place(insn, facts, size, true)?;
    Some(Op::Store { size, at: place(state, insn.dst, offset), src, lanes })
}

/// What the frame above the return address has of the session.
fn kernel_call(id: KfuncId) -> Option<Op> {
    let at = |offset: u32| At { base: Base::Context, offset: offset as i32 };
    match id {
        kfunc::SESSION_IS_RETURN => {
            Some(Op::Load { dst: 0, size: Size::H, signed: false, at: at(FRAME_IS_RETURN), lanes: None })
        }
        kfunc::SESSION_COOKIE => Some(Op::Address { dst: 0, at: at(FRAME_SESSION_COOKIE) }),
        _ => None,
    }
}

/// What is read of the stack by the function is not known here.
fn local_call(insn: Insn, index: usize, state: &Values) -> Option<Op> {
    let target = values::jump_target(insn, index)?;
    Some(Op::LocalCall { target, stack_escapes: stack_escapes(state) })
}

/// A function that is called may have an address in the stack.
fn stack_escapes(state: &Values) -> bool {
    state[..10].iter().any(|value| matches!(value, Value::Stack(_) | Value::MaybeStack))
}

fn atomic(insn: Insn, lanes: Option<u32>, state: &Values) -> Option<Op> {
    let size = access_size(insn.opcode);
    match insn.imm {
        atomic::LOAD_ACQUIRE => {
            let at = place(state, insn.src, insn.off);
            return Some(Op::Load { dst: insn.dst, size, signed: false, at, lanes });
        }
        atomic::STORE_RELEASE => {
            let src = register(insn.src, state, size == Size::Dw);
            return Some(Op::Store { size, at: place(state, insn.dst, insn.off), src, lanes });
        }
        _ => {}
    }
    let wide = match size {
        Size::W => false,
        Size::Dw => true,
        Size::B | Size::H => return None,
    };
    let (op, fetch) = match insn.imm {
        atomic::XCHG => (AtomicOp::Xchg, true),
        atomic::CMPXCHG => (AtomicOp::Cmpxchg, true),
        imm => {
            let op = match imm & !atomic::FETCH {
                atomic::ADD => AtomicOp::Add,
                atomic::OR => AtomicOp::Or,
                atomic::AND => AtomicOp::And,
                atomic::XOR => AtomicOp::Xor,
                _ => return None,
            };
            (op, imm & atomic::FETCH != 0)
        }
    };
    // A fetch writes its source register, so it has to be one.
    let src = if fetch { Operand::Reg(insn.src) } else { register(insn.src, state, wide) };
    let at = place(state, insn.dst, insn.off);
    Some(Op::Atomic { op, fetch, wide, at, src, lanes })
}

fn access_size(opcode: u8) -> Size {
    match opcode & 0x18 {
        size::B => Size::B,
        size::H => Size::H,
        size::W => Size::W,
        _ => Size::Dw,
    }
}

fn arithmetic(insn: Insn, state: &Values, pid: u32) -> Option<Op> {
    let wide = insn.class() == class::ALU64;
    let dst = insn.dst;
    let signed = insn.off == 1;
    let op = match insn.opcode & 0xf0 {
        alu::MOV => return mov(insn, state, wide),
        alu::NEG => return Some(Op::Neg { wide, dst }),
        alu::END => return end(insn, wide),
        alu::ADD => AluOp::Add,
        alu::SUB => AluOp::Sub,
        alu::MUL => AluOp::Mul,
        alu::OR => AluOp::Or,
        alu::AND => AluOp::And,
        alu::XOR => AluOp::Xor,
        alu::LSH => AluOp::Lsh,
        alu::RSH => AluOp::Rsh,
        alu::ARSH => AluOp::Arsh,
        alu::DIV if signed => AluOp::Sdiv,
        alu::DIV => AluOp::Div,
        alu::MOD if signed => AluOp::Smod,
        alu::MOD => AluOp::Mod,
        _ => return None,
    };
    let src = source(insn, state, wide);
    // A known address moved by a constant is a known address, whatever computed it.
    if let (true, AluOp::Add | AluOp::Sub, Operand::Imm(by)) = (wide, op, src) {
        let by = if op == AluOp::Add { i64::from(by) } else { -i64::from(by) };
        let at = match state[usize::from(dst)] {
            Value::Stack(offset) => Some((Base::Stack, i64::from(offset) + by)),
            Value::Context(offset) => Some((Base::Context, i64::from(offset) + by)),
            _ => None,
        };
        if let Some((base, offset)) = at
            && let Ok(offset) = i32::try_from(offset)
        {
            return Some(Op::Address { dst, at: At { base, offset } });
        }
    }
    if (op, wide, src) == (AluOp::Rsh, true, Operand::Imm(32)) && state[usize::from(dst)] == Value::PidTid {
        return Some(Op::Const { dst, value: pid.into() });
    }
    Some(Op::Alu { op, wide, dst, src })
}

fn mov(insn: Insn, state: &Values, wide: bool) -> Option<Op> {
    let dst = insn.dst;
    if insn.opcode & source::X == 0 {
        let value = if wide { i64::from(insn.imm) as u64 } else { u64::from(insn.imm as u32) };
        return Some(Op::Const { dst, value });
    }
    let value = state[usize::from(insn.src)];
    let extend = match (insn.off, wide) {
        (0, true) => Extend::None,
        (0, false) | (32, false) => Extend::Zero32,
        (bits @ (8 | 16 | 32), wide) => Extend::Sign { bits: bits as u8, wide },
        _ => return None,
    };
    Some(match (value, extend) {
        (Value::Const(value), Extend::None) => Op::Const { dst, value },
        (Value::Const(value), Extend::Zero32) => Op::Const { dst, value: value & 0xffff_ffff },
        (Value::Stack(offset), Extend::None) => Op::Address { dst, at: At { base: Base::Stack, offset } },
        (Value::Context(offset), Extend::None) => Op::Address { dst, at: At { base: Base::Context, offset } },
        // Cutting the frame pointer to a part of itself: no verified program has a use for it.
        _ if insn.src == 10 => return None,
        _ => Op::Mov { dst, src: insn.src, extend },
    })
}

fn end(insn: Insn, wide: bool) -> Option<Op> {
    let bits = match insn.imm {
        16 => 16,
        32 => 32,
        64 => 64,
        _ => return None,
    };
    // ALU64: always swap. ALU: to little endian (which this machine is) without, to big endian with the X bit.
    let op = if wide || insn.opcode & source::X != 0 { Bytes::Swap } else { Bytes::Truncate };
    Some(Op::Bytes { op, bits, dst: insn.dst })
}

fn jump(insn: Insn, facts: &InsnFacts, state: &Values, index: usize) -> Option<Op> {
    let target = values::jump_target(insn, index)?;
    let test = match insn.opcode & 0xf0 {
        jmp::JA => return Some(Op::Jump { target }),
        jmp::JCOND => return Some(Op::MayGoto { target }),
        jmp::JEQ => Test::Eq,
        jmp::JNE => Test::Ne,
        jmp::JGT => Test::Gt,
        jmp::JGE => Test::Ge,
        jmp::JLT => Test::Lt,
        jmp::JLE => Test::Le,
        jmp::JSGT => Test::Sgt,
        jmp::JSGE => Test::Sge,
        jmp::JSLT => Test::Slt,
        jmp::JSLE => Test::Sle,
        jmp::JSET => Test::Set,
        _ => return None,
    };
    match facts.branch {
        Some(true) => return Some(Op::Jump { target }),
        Some(false) => return Some(Op::Nothing),
        None => {}
    }
    let wide = insn.class() == class::JMP;
    let left = if insn.dst == 10 { Operand::FramePointer } else { Operand::Reg(insn.dst) };
    Some(Op::Branch { test, wide, left, right: source(insn, state, wide), target })
}
