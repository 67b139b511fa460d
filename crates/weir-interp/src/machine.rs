//! The machine: eleven registers, a program counter, call frames, and a [`Memory`] that checks every access.

use weir_ebpf::insn::{LD_IMM64, MAY_GOTO, alu, atomic, class, jmp, mode, pseudo, size, source};
use weir_ebpf::{Insn, MapSpec, ProgramKind, helper};
use weir_memory::{AtomicOp, Memory, Violation, Width};

use crate::alu::{Swap, alu32, alu64, holds32, holds64, swap};
use crate::callback::{self, Rounds};
use crate::limits::MAY_GOTO_ROUNDS_MAX;
use crate::{Fault, Moment};

/// A program: its instructions, the maps of its object, and what it is run for.
#[derive(Clone, Copy)]
pub(crate) struct Code<'a> {
    pub(crate) kind: ProgramKind,
    pub(crate) insns: &'a [Insn],
    pub(crate) maps: &'a [MapSpec],
    /// What tail calls lead to, by number; no instructions where a number leads nowhere.
    pub(crate) others: &'a [&'a [Insn]],
    /// It may do what a verifier allows on demand alone.
    pub(crate) is_verified: bool,
    /// Every frame is zero when it begins.
    pub(crate) zeroes_frames: bool,
    /// Rounds of the run, and one, where they are limited.
    pub(crate) rounds_max: Option<u32>,
}

/// Runs `code` from the first instruction to the `EXIT` of the outermost function: r0, and what the memory says is left.
pub(crate) fn run<M: Memory>(
    code: Code<'_>,
    mut memory: M,
    steps: u64,
    watch: &mut dyn FnMut(Moment<'_, M>),
) -> Result<(u64, M::Left), Fault> {
    check_maps(&memory, code.maps)?;
    if code.is_verified {
        memory.allow_changes();
    }
    let mut machine = Machine {
        kind: code.kind,
        insns: code.insns,
        others: code.others,
        zeroes_frames: code.zeroes_frames,
        tail_calls: 0,
        registers: [0; 11],
        pc: 0,
        callers: Vec::new(),
        rounds_left: MAY_GOTO_ROUNDS_MAX,
        rounds_of_run: code.rounds_max,
        memory,
    };
    [machine.registers[1], machine.registers[2]] = machine.memory.arguments();
    machine.registers[10] = machine.memory.stack_top();
    for _ in 0..steps {
        watch(Moment {
            at: machine.pc,
            depth: machine.callers.len(),
            registers: &machine.registers,
            memory: &machine.memory,
        });
        if let Some(result) = machine.step()? {
            let left = machine.memory.finish().map_err(|violation| Fault::End { violation })?;
            if machine.rounds_of_run == Some(0) {
                return Err(Fault::Rounds);
            }
            return Ok((result, left));
        }
    }
    Err(Fault::Steps { steps })
}

pub(crate) struct Machine<'a, M: Memory> {
    kind: ProgramKind,
    insns: &'a [Insn],
    others: &'a [&'a [Insn]],
    zeroes_frames: bool,
    tail_calls: u32,
    pub(crate) registers: [u64; 11],
    pub(crate) pc: usize,
    callers: Vec<Caller<M::Cursor>>,
    /// Times that `may_goto` goes on, in the function at hand: each call has its own.
    rounds_left: u32,
    /// Those of all loops of a run that only helpers and `may_goto` bound, where they are limited.
    rounds_of_run: Option<u32>,
    pub(crate) memory: M,
}

/// What a local call saves.
struct Caller<C> {
    return_to: usize,
    /// r6 to r10.
    kept: [u64; 5],
    rounds_left: u32,
    /// The caller is a helper, which goes on when the function returns.
    rounds: Option<Rounds<C>>,
}

fn check_maps(memory: &impl Memory, maps: &[MapSpec]) -> Result<(), Fault> {
    let wrong = |what| Err(Fault::Maps { what });
    for (index, wanted) in maps.iter().enumerate() {
        match memory.spec(index) {
            Some(present) if present == wanted => {}
            Some(present) => return wrong(format!("{present:?} instead of {wanted:?}")),
            None => return wrong(format!("{index} instead of {}", maps.len())),
        }
    }
    if memory.spec(maps.len()).is_some() { wrong(format!("more than {}", maps.len())) } else { Ok(()) }
}

impl<M: Memory> Machine<'_, M> {
    pub(crate) fn slots(&self) -> usize {
        self.insns.len()
    }

    /// One instruction; r0 if it ended the program.
    fn step(&mut self) -> Result<Option<u64>, Fault> {
        let insn = *self.insns.get(self.pc).ok_or(Fault::Jump { pc: self.pc, target: self.pc as i64 })?;
        if insn.dst > 10 || (insn.src > 10) {
            return Err(self.bad(insn));
        }
        match insn.class() {
            class::ALU | class::ALU64 => self.arithmetic(insn)?,
            class::LD if insn.is_wide() => self.wide_load(insn)?,
            class::LD => return self.packet_load(insn),
            class::LDX => self.load(insn)?,
            class::ST | class::STX => self.store(insn)?,
            _ => return self.jump(insn),
        }
        self.pc += 1;
        Ok(None)
    }

    fn arithmetic(&mut self, insn: Insn) -> Result<(), Fault> {
        let is_64 = insn.class() == class::ALU64;
        let op = insn.opcode & 0xf0;
        let dst = self.registers[insn.dst as usize];
        let result = if op == alu::END {
            let kind = match (is_64, insn.opcode & source::X) {
                (false, source::K) => Some(Swap::ToLittle),
                (false, _) | (true, source::K) => Some(Swap::Reverse),
                (true, _) => None,
            };
            kind.filter(|_| insn.off == 0 && insn.src == 0).and_then(|kind| swap(kind, insn.imm, dst))
        } else {
            let src = self.operand(insn);
            // Only a register can be moved with sign extension.
            let is_extending_constant = op == alu::MOV && insn.off != 0 && insn.opcode & source::X == 0;
            let compute = if is_64 { alu64 } else { alu32 };
            compute(op, insn.off, dst, src).filter(|_| !is_extending_constant)
        };
        let result = result.ok_or_else(|| self.bad(insn))?;
        self.set(insn, insn.dst, result)
    }

    fn wide_load(&mut self, insn: Insn) -> Result<(), Fault> {
        let second = self.insns.get(self.pc + 1).copied().unwrap_or_default();
        let is_sound = insn.opcode == LD_IMM64
            && insn.off == 0
            && self.pc + 1 < self.insns.len()
            && (second.opcode, second.dst, second.src, second.off) == (0, 0, 0, 0);
        if !is_sound {
            return Err(self.bad(insn));
        }
        let index = insn.imm as u32;
        let value = match insn.src {
            pseudo::NONE => u64::from(insn.imm as u32) | u64::from(second.imm as u32) << 32,
            pseudo::MAP_INDEX => self.checked(self.memory.map(index))?,
            pseudo::MAP_INDEX_VALUE => {
                self.checked(self.memory.map_value(index))?.wrapping_add(u64::from(second.imm as u32))
            }
            pseudo::FUNCTION if second.imm == 0 => callback::handle(self.target(insn.imm.into())?),
            _ => return Err(self.bad(insn)),
        };
        self.set(insn, insn.dst, value)?;
        self.pc += 1;
        Ok(())
    }

    /// Ends the program with 0 if the packet has no such bytes.
    fn packet_load(&mut self, insn: Insn) -> Result<Option<u64>, Fault> {
        let index = match insn.opcode & 0xe0 {
            mode::ABS if insn.src == 0 => 0,
            mode::IND => self.registers[insn.src as usize],
            _ => return Err(self.bad(insn)),
        };
        let width = width(insn);
        if !self.kind.has_packet_loads() || insn.dst != 0 || insn.off != 0 || width == Width::B8 {
            return Err(self.bad(insn));
        }
        if self.registers[6] != self.memory.context() {
            return Err(Fault::PacketLoad { pc: self.pc, r6: self.registers[6] });
        }
        let Some(value) = self.memory.packet_load((index as i32).wrapping_add(insn.imm), width) else {
            return Ok(Some(0));
        };
        self.registers[0] = value;
        self.pc += 1;
        Ok(None)
    }

    fn load(&mut self, insn: Insn) -> Result<(), Fault> {
        let width = width(insn);
        let address = self.registers[insn.src as usize].wrapping_add_signed(insn.off.into());
        let value = match insn.opcode & 0xe0 {
            mode::MEM => self.checked(self.memory.load(address, width))?,
            mode::MEMSX if width != Width::B8 => {
                let value = self.checked(self.memory.load(address, width))?;
                let unused = 64 - 8 * width.bytes();
                ((value << unused) as i64 >> unused) as u64
            }
            _ => return Err(self.bad(insn)),
        };
        self.set(insn, insn.dst, value)
    }

    fn store(&mut self, insn: Insn) -> Result<(), Fault> {
        let width = width(insn);
        let address = self.registers[insn.dst as usize].wrapping_add_signed(insn.off.into());
        match (insn.class(), insn.opcode & 0xe0) {
            (class::ST, mode::MEM) => {
                let done = self.memory.store(address, width, insn.imm as i64 as u64);
                self.checked(done)
            }
            (class::STX, mode::MEM) => {
                let done = self.memory.store(address, width, self.registers[insn.src as usize]);
                self.checked(done)
            }
            (class::STX, mode::ATOMIC) if insn.imm == atomic::LOAD_ACQUIRE => self.load_acquire(insn, width),
            (class::STX, mode::ATOMIC) if insn.imm == atomic::STORE_RELEASE => {
                let done = self.memory.store_release(address, width, self.registers[insn.src as usize]);
                self.checked(done)
            }
            (class::STX, mode::ATOMIC) if matches!(width, Width::B4 | Width::B8) => {
                self.atomic(insn, address, width)
            }
            _ => Err(self.bad(insn)),
        }
    }

    /// Unlike every other store-class instruction it reads through `src`.
    fn load_acquire(&mut self, insn: Insn, width: Width) -> Result<(), Fault> {
        let address = self.registers[insn.src as usize].wrapping_add_signed(insn.off.into());
        let value = self.checked(self.memory.load_acquire(address, width))?;
        self.set(insn, insn.dst, value)
    }

    fn atomic(&mut self, insn: Insn, address: u64, width: Width) -> Result<(), Fault> {
        let operand = self.registers[insn.src as usize];
        let op = match insn.imm {
            atomic::XCHG => AtomicOp::Exchange(operand),
            atomic::CMPXCHG => AtomicOp::CompareExchange { expected: self.registers[0], new: operand },
            imm => match imm & !atomic::FETCH {
                atomic::ADD => AtomicOp::Add(operand),
                atomic::OR => AtomicOp::Or(operand),
                atomic::AND => AtomicOp::And(operand),
                atomic::XOR => AtomicOp::Xor(operand),
                _ => return Err(self.bad(insn)),
            },
        };
        let done = self.memory.atomic(address, width, op);
        let old = self.checked(done)?;
        match insn.imm {
            atomic::CMPXCHG => self.set(insn, 0, old),
            imm if imm & atomic::FETCH != 0 => self.set(insn, insn.src, old),
            _ => Ok(()),
        }
    }

    fn jump(&mut self, insn: Insn) -> Result<Option<u64>, Fault> {
        let is_64 = insn.class() == class::JMP;
        let op = insn.opcode & 0xf0;
        let is_register = insn.opcode & source::X != 0;
        match op {
            jmp::JA if is_register => Err(self.bad(insn)),
            jmp::JA => self.go(if is_64 { insn.off.into() } else { insn.imm.into() }),
            jmp::CALL if is_64 && !is_register => self.call(insn),
            jmp::EXIT if is_64 && !is_register => self.exit(),
            _ if insn.opcode == MAY_GOTO => self.may_goto(insn),
            _ => {
                let dst = self.registers[insn.dst as usize];
                let compare = if is_64 { holds64 } else { holds32 };
                let holds = compare(op, dst, self.operand(insn)).ok_or_else(|| self.bad(insn))?;
                self.go(if holds { insn.off.into() } else { 0 })
            }
        }
    }

    /// One more round of the run, if any is left.
    pub(crate) fn takes_round(&mut self) -> bool {
        match &mut self.rounds_of_run {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    fn may_goto(&mut self, insn: Insn) -> Result<Option<u64>, Fault> {
        if !self.takes_round() {
            return self.go(insn.off.into());
        }
        match self.rounds_left.checked_sub(1) {
            Some(left) => {
                self.rounds_left = left;
                self.go(0)
            }
            None => self.go(insn.off.into()),
        }
    }

    fn call(&mut self, insn: Insn) -> Result<Option<u64>, Fault> {
        match insn.src {
            pseudo::HELPER if helper::by_id(insn.imm).is_some_and(|proto| proto.callback().is_some()) => {
                self.begin_rounds(insn.imm)
            }
            pseudo::HELPER if insn.imm == helper::TAIL_CALL => self.tail_call(insn),
            pseudo::HELPER => {
                let [_, r1, r2, r3, r4, r5, ..] = self.registers;
                let done = self.memory.call(insn.imm, [r1, r2, r3, r4, r5]);
                self.registers[0] = self.checked(done)?;
                self.pc += 1;
                Ok(None)
            }
            pseudo::KERNEL => {
                let [_, r1, r2, r3, r4, r5, ..] = self.registers;
                let done = self.memory.call_kernel(insn.imm, [r1, r2, r3, r4, r5]);
                self.registers[0] = self.checked(done)?.ok_or_else(|| self.bad(insn))?;
                self.pc += 1;
                Ok(None)
            }
            pseudo::LOCAL => {
                let target = self.target(insn.imm.into())?;
                self.enter(target, None)
            }
            _ => Err(self.bad(insn)),
        }
    }

    /// Another program begins, with this one's context and nothing else; or this one goes on.
    fn tail_call(&mut self, insn: Insn) -> Result<Option<u64>, Fault> {
        if !self.callers.is_empty() {
            return Err(self.bad(insn));
        }
        let [_, r1, r2, r3, ..] = self.registers;
        let found = self.checked(self.memory.tail_call([r1, r2, r3]))?;
        let found = found.and_then(|number| self.others.get(number as usize).copied());
        let found = found.filter(|insns| !insns.is_empty());
        match found.filter(|_| self.tail_calls < helper::TAIL_CALLS_MAX) {
            Some(insns) => {
                self.tail_calls += 1;
                if self.zeroes_frames {
                    self.memory.clear_frame();
                }
                (self.insns, self.pc, self.rounds_left) = (insns, 0, MAY_GOTO_ROUNDS_MAX);
            }
            None => self.pc += 1,
        }
        Ok(None)
    }

    /// Into a function; it returns behind the instruction at hand, or to the helper that is called there.
    pub(crate) fn enter(
        &mut self,
        target: usize,
        rounds: Option<Rounds<M::Cursor>>,
    ) -> Result<Option<u64>, Fault> {
        let frame = self.memory.enter().ok_or(Fault::CallDepth { pc: self.pc })?;
        if self.zeroes_frames {
            self.memory.clear_frame();
        }
        let [.., r6, r7, r8, r9, r10] = self.registers;
        let rounds_left = std::mem::replace(&mut self.rounds_left, MAY_GOTO_ROUNDS_MAX);
        let kept = [r6, r7, r8, r9, r10];
        self.callers.push(Caller { return_to: self.pc + 1, kept, rounds_left, rounds });
        self.registers[10] = frame;
        self.pc = target;
        Ok(None)
    }

    fn exit(&mut self) -> Result<Option<u64>, Fault> {
        let Some(caller) = self.callers.pop() else { return Ok(Some(self.registers[0])) };
        self.memory.leave();
        self.registers[6..].copy_from_slice(&caller.kept);
        self.rounds_left = caller.rounds_left;
        match caller.rounds {
            Some(rounds) => {
                let answer = self.registers[0];
                if answer > 1 {
                    return Err(Fault::Answer { pc: self.pc, value: answer });
                }
                self.pc = caller.return_to - 1;
                self.end_round(rounds, answer == 1)
            }
            None => {
                self.pc = caller.return_to;
                Ok(None)
            }
        }
    }

    /// Goes on `offset` instructions behind the next one.
    fn go(&mut self, offset: i64) -> Result<Option<u64>, Fault> {
        self.pc = self.target(offset)?;
        Ok(None)
    }

    /// The instruction `offset` behind the next one.
    fn target(&self, offset: i64) -> Result<usize, Fault> {
        let target = self.pc as i64 + 1 + offset;
        let index = usize::try_from(target).ok().filter(|index| *index < self.insns.len());
        index.ok_or(Fault::Jump { pc: self.pc, target })
    }

    fn operand(&self, insn: Insn) -> u64 {
        if insn.opcode & source::X != 0 { self.registers[insn.src as usize] } else { insn.imm as i64 as u64 }
    }

    /// r10 cannot be written.
    fn set(&mut self, insn: Insn, register: u8, value: u64) -> Result<(), Fault> {
        if register == 10 {
            return Err(self.bad(insn));
        }
        self.registers[register as usize] = value;
        Ok(())
    }

    pub(crate) fn checked<T>(&self, result: Result<T, Violation>) -> Result<T, Fault> {
        result.map_err(|violation| Fault::Memory { pc: self.pc, violation })
    }

    fn bad(&self, insn: Insn) -> Fault {
        Fault::Instruction { pc: self.pc, insn }
    }
}

fn width(insn: Insn) -> Width {
    match insn.opcode & 0x18 {
        size::B => Width::B1,
        size::H => Width::B2,
        size::W => Width::B4,
        _ => Width::B8,
    }
}
