//! Where a function's registers point on its own stack, followed through one instruction.
//!
//! In: a [`State`] (what is known of each general register) and an instruction. Out: the state behind it, or why it
//! cannot be proved that the instruction leaves everything at and above the function's return address alone.
//!
//! Positions on the stack are distances from the return address: at the function's entry the stack pointer is 0, its
//! stack arguments begin at 8, its own frame is below 0. Each is an interval, so that aligning the stack pointer and
//! dynamic allocation can be followed.
//!
//! Guaranteed of an instruction that is let through:
//! - no memory operand whose base is known to point into the stack reaches 0 or above it;
//! - no register but the stack pointer ever holds a position at or above 0, so none is stored, passed or returned.
//!
//! Taken for granted, as in every program that a compiler made: whoever has the address of an object of the frame stays
//! inside that object. An address, or an operand with an index, therefore may not lie where registers of the caller are
//! saved (between the frame's objects and the return address no other object begins), and memory that is reached
//! through a pointer of unknown origin is not the function's own return address. Called functions keep rbx, rbp and
//! r12 to r15.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

/// What is known of a register's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Value {
    #[default]
    Unknown,
    /// A position on the stack, at least `low` and at most `high`.
    Stack { low: i32, high: i32 },
    /// A link address.
    Address(u64),
    /// An entry of the table of 32-bit offsets at this link address.
    Offset(u64),
    /// That entry, added to the table's address.
    Target(u64),
    /// An entry of the table of addresses at this link address.
    Pointer(u64),
}

/// What is known at one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State {
    registers: [Value; 16],
}

/// What an instruction must leave alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// Everything from the return address on: it is not where it was.
    AllAbove,
    /// The return address alone: it is another one. Arguments on the stack may be used, and their addresses.
    ReturnAddress,
}

/// Bytes of the return address, which lies at 0.
const WORD: i32 = 8;

/// What makes a proof impossible.
pub(crate) type Doubt = &'static str;

pub(crate) const ABOVE: Doubt = "it reads or writes what lies at or above its return address";
pub(crate) const TAKES_ADDRESS: Doubt = "it takes the address of what lies at or above its return address";
pub(crate) const SAVED: Doubt = "it takes an address among the registers that it has saved";
pub(crate) const STACK_POINTER: Doubt = "it sets its stack pointer to what cannot be told";
pub(crate) const NOT_BACK: Doubt = "it returns with its stack pointer elsewhere";

/// Positions that no frame has: what lies below is as good as unlimited.
const FAR: i32 = i32::MIN / 2;
/// What an allocation of a size that only the running program knows takes at least: what the stack is aligned to.
const ALLOCATED_BYTES_MIN: i64 = 16;
const RSP: usize = 4;
const RBP: usize = 5;
const CALLEE_SAVED: [usize; 6] = [3, RBP, 12, 13, 14, 15];

impl State {
    /// At a function's entry.
    pub(crate) fn entry() -> State {
        let mut registers = [Value::Unknown; 16];
        registers[RSP] = Value::exact(0);
        State { registers }
    }

    pub(crate) fn stack_pointer(&self) -> Value {
        self.registers[RSP]
    }

    /// The stack pointer is what it was at the entry.
    pub(crate) fn is_level(&self) -> bool {
        self.registers[RSP] == Value::exact(0)
    }

    pub(crate) fn value(&self, register: Register) -> Value {
        slot(register).map_or(Value::Unknown, |slot| self.registers[slot])
    }

    /// What holds behind a call.
    pub(crate) fn after_call(&self) -> State {
        let mut after = State { registers: [Value::Unknown; 16] };
        for register in CALLEE_SAVED.into_iter().chain([RSP]) {
            after.registers[register] = self.registers[register];
        }
        after
    }

    /// What holds at a place that is reached from both; with `widens`, bounds that move are given up.
    pub(crate) fn join(&self, other: &State, widens: bool) -> State {
        let mut joined = *self;
        for (own, other) in joined.registers.iter_mut().zip(&other.registers) {
            *own = own.join(*other, widens);
        }
        joined
    }

    /// The stack pointer where a loop ends that has moved it up to `register`.
    pub(crate) fn stack_pointer_is(&mut self, register: Register) {
        if let value @ Value::Stack { low, high } = self.value(register)
            && low == high
        {
            self.registers[RSP] = value;
        }
    }
}

impl Value {
    fn exact(at: i32) -> Value {
        Value::Stack { low: at, high: at }
    }

    fn moved(self, by: i64) -> Value {
        let Value::Stack { low, high } = self else { return Value::Unknown };
        let low = if low == FAR { Some(FAR) } else { bounded(i64::from(low) + by) };
        match (low, bounded(i64::from(high) + by)) {
            (Some(low), Some(high)) => Value::Stack { low, high },
            _ => Value::Unknown,
        }
    }

    fn join(self, other: Value, widens: bool) -> Value {
        match (self, other) {
            (own, other) if own == other => own,
            (Value::Stack { low, high }, Value::Stack { low: other_low, high: other_high }) => {
                if widens && other_high > high {
                    return Value::Unknown;
                }
                let low = if widens && other_low < low { FAR } else { low.min(other_low) };
                Value::Stack { low, high: high.max(other_high) }
            }
            _ => Value::Unknown,
        }
    }
}

fn bounded(position: i64) -> Option<i32> {
    i32::try_from(position).ok().filter(|position| (FAR..-FAR).contains(position))
}

/// Follows instructions of one function.
pub(crate) struct Follower {
    kept: Kept,
    factory: InstructionInfoFactory,
    /// From here up to 0 lie the registers that the function saved first.
    saved_from: i32,
}

impl Follower {
    pub(crate) fn new(kept: Kept) -> Follower {
        Follower { kept, factory: InstructionInfoFactory::new(), saved_from: 0 }
    }

    /// The state behind `instruction`, which is neither a call nor leaves the function, except by `ret`.
    pub(crate) fn follow(&mut self, state: &mut State, instruction: &Instruction) -> Result<(), Doubt> {
        self.check_memory(state, instruction)?;
        self.check_copies(state, instruction)?;
        let next = self.registers_after(state, instruction)?;
        state.registers = next;
        let Value::Stack { high, .. } = state.registers[RSP] else { return Err(STACK_POINTER) };
        if high > 0 {
            return Err(STACK_POINTER);
        }
        let mut others = state.registers.iter().enumerate().filter(|&(register, _)| register != RSP);
        if others.any(|(_, value)| self.is_kept(*value, 1)) {
            return Err(TAKES_ADDRESS);
        }
        Ok(())
    }

    /// Whether an access of so many bytes at `value` may touch what is kept.
    fn is_kept(&self, value: Value, bytes: i64) -> bool {
        let Value::Stack { low, high } = value else { return false };
        i64::from(high) + bytes > 0 && (self.kept == Kept::AllAbove || low < WORD)
    }

    /// Memory operands, those that the instruction does not name among them.
    pub(crate) fn check_memory(&mut self, state: &State, instruction: &Instruction) -> Result<(), Doubt> {
        if matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop | Mnemonic::Ret | Mnemonic::Enter) {
            return Ok(()); // What they do is followed below; nothing is read by the first two.
        }
        let saved_from = self.saved_from;
        let above = if self.kept == Kept::AllAbove { i32::MAX } else { WORD };
        for memory in self.factory.info(instruction).used_memory() {
            if memory.access() == OpAccess::NoMemAccess
                || matches!(memory.segment(), Register::FS | Register::GS)
            {
                continue;
            }
            let displacement = memory.displacement() as i64;
            let base = state.value(memory.base()).moved(displacement);
            let index = match memory.scale() {
                1 => state.value(memory.index()).moved(displacement),
                _ => Value::Unknown,
            };
            let bytes = (memory.memory_size().size() as i64).max(1);
            match (base, index) {
                (Value::Stack { .. }, Value::Stack { .. }) => Err(ABOVE),
                // Objects of the caller: arguments on the stack.
                (Value::Stack { low, .. }, _) | (_, Value::Stack { low, .. }) if low >= above => Ok(()),
                (Value::Stack { high, .. }, _) if memory.index() == Register::None => match high {
                    _ if i64::from(high) + bytes > 0 => Err(ABOVE),
                    _ => Ok(()),
                },
                (Value::Stack { high: 0.., .. }, _) | (_, Value::Stack { high: 0.., .. }) => Err(ABOVE),
                (Value::Stack { high, .. }, _) | (_, Value::Stack { high, .. }) if high >= saved_from => {
                    Err(SAVED)
                }
                _ => Ok(()),
            }?;
        }
        Ok(())
    }

    /// What a called function, or one that is jumped to, gets in registers.
    pub(crate) fn check_arguments(&self, state: &State) -> Result<(), Doubt> {
        let arguments = (0..16).filter(|register| *register != RSP && !CALLEE_SAVED.contains(register));
        arguments.map(|register| state.registers[register]).try_for_each(|value| self.check_escape(value))
    }

    /// Registers whose values go where they are not followed: into memory, and into sums.
    fn check_copies(&self, state: &State, instruction: &Instruction) -> Result<(), Doubt> {
        let operand = |n: u32| match instruction.op_count() > n && instruction.op_kind(n) == OpKind::Register
        {
            true => state.value(instruction.op_register(n)),
            false => Value::Unknown,
        };
        match instruction.mnemonic() {
            // The function's own frame may hold what it likes.
            Mnemonic::Mov if instruction.op0_kind() == OpKind::Memory => {
                let is_frame = matches!(state.value(instruction.memory_base()), Value::Stack { .. });
                match operand(1) {
                    Value::Stack { high: ..0, .. } if is_frame => Ok(()),
                    value => self.check_escape(value),
                }
            }
            Mnemonic::Push if instruction.op0_register() == Register::RSP => self.check_escape(operand(0)),
            Mnemonic::Mov
            | Mnemonic::Push
            | Mnemonic::Pop
            | Mnemonic::Lea
            | Mnemonic::Cmp
            | Mnemonic::Test
            | Mnemonic::Xchg => Ok(()),
            _ if calculated(state, instruction) != Value::Unknown => Ok(()),
            _ => (0..instruction.op_count()).try_for_each(|n| self.check_escape(operand(n))),
        }
    }

    fn check_escape(&self, value: Value) -> Result<(), Doubt> {
        match value {
            _ if self.is_kept(value, 1) => Err(TAKES_ADDRESS),
            Value::Stack { high, .. } if (self.saved_from..WORD).contains(&high) => Err(SAVED),
            _ => Ok(()),
        }
    }

    fn registers_after(&mut self, state: &State, instruction: &Instruction) -> Result<[Value; 16], Doubt> {
        let mut next = state.registers;
        let moves = i64::from(instruction.stack_pointer_increment());
        let first = instruction.op0_register();
        let result = match instruction.mnemonic() {
            Mnemonic::Leave => {
                next[RSP] = state.registers[RBP].moved(8);
                next[RBP] = Value::Unknown;
                return Ok(next);
            }
            Mnemonic::Enter if instruction.immediate8_2nd() == 0 => {
                next[RBP] = state.registers[RSP].moved(-8);
                next[RSP] = next[RBP].moved(-i64::from(instruction.immediate16()));
                return Ok(next);
            }
            Mnemonic::Enter => return Err(STACK_POINTER),
            Mnemonic::Push => {
                next[RSP] = next[RSP].moved(moves);
                self.note_saved(instruction, next[RSP]);
                return Ok(next);
            }
            // The destination is written last.
            Mnemonic::Pop => {
                next[RSP] = next[RSP].moved(moves);
                Value::Unknown
            }
            Mnemonic::Mov => self.moved(state, instruction),
            Mnemonic::Movsxd => table_entry(state, instruction),
            Mnemonic::Lea => self.address(state, instruction)?,
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec | Mnemonic::And => {
                calculated(state, instruction)
            }
            // An entry of a table stays one when its sign is extended.
            Mnemonic::Cdqe => match state.value(Register::RAX) {
                offset @ Value::Offset(_) => offset,
                _ => Value::Unknown,
            },
            Mnemonic::Xchg if is_wide(instruction) && instruction.op1_kind() == OpKind::Register => {
                let (one, other) = (first, instruction.op1_register());
                set(&mut next, one, state.value(other));
                set(&mut next, other, state.value(one));
                return Ok(next);
            }
            _ => {
                if moves != 0 {
                    next[RSP] = next[RSP].moved(moves);
                }
                Value::Unknown
            }
        };
        for used in self.factory.info(instruction).used_registers() {
            let register = used.register();
            let is_written = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            let is_stack_pointer = moves != 0 && register == Register::RSP && first != Register::RSP;
            if is_written && !is_stack_pointer {
                set(&mut next, register.full_register(), Value::Unknown);
            }
        }
        match instruction.mnemonic() {
            Mnemonic::Cdqe => set(&mut next, Register::RAX, result),
            _ if result == Value::Unknown || instruction.op0_kind() != OpKind::Register => {}
            _ if is_wide(instruction) || matches!(result, Value::Offset(_)) => {
                set(&mut next, first.full_register(), result);
            }
            _ => {}
        }
        Ok(next)
    }

    /// Registers of the caller, pushed one after the other from the return address on.
    fn note_saved(&mut self, instruction: &Instruction, stack_pointer: Value) {
        let is_saved = slot(instruction.op0_register()).is_some_and(|slot| CALLEE_SAVED.contains(&slot));
        if instruction.op0_kind() == OpKind::Register
            && is_saved
            && stack_pointer == Value::exact(self.saved_from - 8)
        {
            self.saved_from -= 8;
        }
    }

    fn moved(&self, state: &State, instruction: &Instruction) -> Value {
        if instruction.op1_kind() == OpKind::Register {
            return state.value(instruction.op1_register());
        }
        let entry = table_entry(state, instruction);
        if entry != Value::Unknown {
            return entry;
        }
        // The stack pointer comes back from where the function has put it: what it held was in the frame.
        let is_frame = |register| matches!(state.value(register), Value::Stack { .. });
        let is_stack_pointer = instruction.op0_register() == Register::RSP;
        if is_stack_pointer
            && instruction.op1_kind() == OpKind::Memory
            && is_frame(instruction.memory_base())
            && instruction.memory_index() == Register::None
        {
            return Value::Stack { low: FAR, high: self.saved_from.min(-8) };
        }
        Value::Unknown
    }

    fn address(&self, state: &State, instruction: &Instruction) -> Result<Value, Doubt> {
        if instruction.is_ip_rel_memory_operand() {
            return Ok(Value::Address(instruction.ip_rel_memory_address()));
        }
        let displacement = instruction.memory_displacement64() as i64;
        let base = state.value(instruction.memory_base()).moved(displacement);
        let index = match instruction.memory_index_scale() {
            1 => state.value(instruction.memory_index()).moved(displacement),
            _ => Value::Unknown,
        };
        match (base, index) {
            (Value::Stack { .. }, Value::Unknown) if instruction.memory_index() == Register::None => Ok(base),
            (value @ Value::Stack { high, .. }, _) | (_, value @ Value::Stack { high, .. }) => match high {
                _ if self.is_kept(value, 1) => Err(TAKES_ADDRESS),
                _ if (self.saved_from..WORD).contains(&high) => Err(SAVED),
                _ => Ok(Value::Unknown),
            },
            _ => Ok(Value::Unknown),
        }
    }
}

/// What a load from `(table,index,4)`, or from `table(,index,8)` where addresses are absolute, gives.
fn table_entry(state: &State, instruction: &Instruction) -> Value {
    if instruction.op1_kind() != OpKind::Memory || instruction.memory_index() == Register::None {
        return Value::Unknown;
    }
    let (base, index) = (state.value(instruction.memory_base()), state.value(instruction.memory_index()));
    let displacement = instruction.memory_displacement64();
    let entry_bytes = instruction.memory_size().size();
    match (base, index, instruction.memory_index_scale()) {
        (Value::Address(table), _, 1 | 4) | (_, Value::Address(table), 1) if entry_bytes == 4 => {
            Value::Offset(table.wrapping_add(displacement))
        }
        _ if instruction.memory_base() == Register::None
            && instruction.memory_index_scale() == 8
            && entry_bytes == 8
            && !matches!(instruction.memory_segment(), Register::FS | Register::GS) =>
        {
            Value::Pointer(displacement)
        }
        _ => Value::Unknown,
    }
}

/// What an addition, subtraction or mask leaves in its first operand.
fn calculated(state: &State, instruction: &Instruction) -> Value {
    let is_register = instruction.op0_kind() == OpKind::Register;
    if !is_register || !is_wide(instruction) {
        return Value::Unknown;
    }
    let own = state.value(instruction.op0_register());
    let other = match instruction.op_count() {
        1 => None,
        _ if instruction.op1_kind() == OpKind::Register => Some(state.value(instruction.op1_register())),
        _ if instruction.op1_kind() == OpKind::Memory => Some(Value::Unknown),
        _ => None,
    };
    let immediate = match (instruction.op_count(), other) {
        (1, _) => 1,
        (_, None) => instruction.immediate(1) as i64,
        _ => 0,
    };
    match (instruction.mnemonic(), own, other) {
        (Mnemonic::Add | Mnemonic::Inc, Value::Stack { .. }, None) => own.moved(immediate),
        (Mnemonic::Sub | Mnemonic::Dec, Value::Stack { .. }, None) => own.moved(-immediate),
        (Mnemonic::Sub, Value::Stack { .. }, Some(Value::Unknown)) => match own.moved(-ALLOCATED_BYTES_MIN) {
            Value::Stack { high, .. } => Value::Stack { low: FAR, high },
            other => other,
        },
        (Mnemonic::And, Value::Stack { low, high }, None)
            if immediate < 0 && (-immediate).count_ones() == 1 && low != FAR =>
        {
            bounded(i64::from(low) + immediate + 1).map_or(Value::Unknown, |low| Value::Stack { low, high })
        }
        (Mnemonic::And, Value::Stack { high, .. }, None) if immediate < 0 => Value::Stack { low: FAR, high },
        (Mnemonic::Add, Value::Offset(table), Some(Value::Address(base)))
        | (Mnemonic::Add, Value::Address(base), Some(Value::Offset(table)))
            if base == table =>
        {
            Value::Target(table)
        }
        _ => Value::Unknown,
    }
}

/// It has a register of 8 bytes first.
fn is_wide(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register && instruction.op0_register().is_gpr64()
}

fn set(registers: &mut [Value; 16], register: Register, value: Value) {
    if let Some(slot) = slot(register) {
        registers[slot] = value;
    }
}

fn slot(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}
