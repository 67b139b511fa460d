//! One function of IR → instructions on virtual registers.
//!
//! In: a function that `check` accepted, the object's maps, and the size up to which memory objects go on the
//! stack. Out: a [`Code`]: instructions in the order of the IR's blocks, and the memory objects they use.
//!
//! What is decided here:
//! - constants are never held: they become immediates, or are made anew at each use
//! - a comparison whose one use is the branch of its block becomes that branch
//! - a question about a text whose one use is that branch is asked there
//! - `str()` and `comm` whose one use is in their own block are read straight into where they are used: a record's
//!   field, a key, a value. Nothing in between changes the target's memory, so that later is as good as sooner
//! - the key 0 of scalar per-CPU maps is stored once on each path
//! - scratch memory is claimed in the last block that every use of it, and every return after it, passes
//!
//! Files: [`build`] the words, [`string`] strings, [`search`] what looks for one in another, puts two together or goes over them byte by byte, [`map`] map operations, [`aggregate`] aggregations ([`series`] those by time), [`emit`]
//! records, [`record`] those of whole events, [`matching`] automata, [`signal`] signals, [`symbol`] addresses and stacks that are named later, [`hits`] what a probe's program counts before all else, [`scratch`] where scratch memory begins and ends.

mod aggregate;
mod build;
mod emit;
mod hits;
mod map;
pub(crate) mod matching;
pub(crate) mod record;
mod scratch;
mod search;
mod series;
mod signal;
mod string;
mod symbol;

use std::collections::HashSet;

use crate::lower::symbol::Side;
use weir_ebpf::insn::{alu, jmp, size};
use weir_ebpf::{HelperId, helper, kfunc, pt_regs};
use weir_ir::dominators::Dominators;
use weir_ir::{
    BinOp, Block, BlockId, Builtin, CmpOp, Effect, Function, Inst as IrInst, Module, Op, Terminator, Value,
};

use crate::CodegenError;
use crate::lir::{Inst, Label, Object, ObjectId, Place, R0, Reg, Src};
use crate::maps::{GLOBAL_COMMAND, GLOBAL_START, Maps};

/// A lowered function.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) insts: Vec<Inst>,
    pub(crate) objects: Vec<Object>,
    /// Virtual registers are 0..this.
    pub(crate) virtuals: u32,
    /// Labels are 0..this.
    pub(crate) labels: u32,
    /// Bytes of zeros that it needs in the `.zero` map; 0 if it does not need the map.
    pub(crate) zero_bytes: u32,
    /// Bytes of its slot of the `.scratch` map; 0 if it does not need the map.
    pub(crate) scratch_bytes: u32,
}

/// Lowers the function of this number. Objects of more than `stack_object_bytes` become scratch memory.
pub(crate) fn lower(
    module: &Module,
    program: usize,
    maps: &Maps,
    stack_object_bytes: u32,
) -> Result<Code, CodegenError> {
    let function = &module.functions[program];
    let mut lower = Lower::new(module, function, maps, stack_object_bytes);
    lower.prologue(program);
    let mut starts = Vec::with_capacity(function.blocks.len());
    for index in 0..function.blocks.len() {
        starts.push(lower.insts.len());
        if lower.dominators.is_reachable(BlockId(index as u32)) {
            lower.block(index)?;
        }
    }
    scratch::finish(lower, &starts)
}

struct Lower<'a> {
    module: &'a Module,
    function: &'a Function,
    maps: &'a Maps,
    stack_object_bytes: u32,
    dominators: Dominators,
    insts: Vec<Inst>,
    /// The one that is being lowered.
    block: usize,
    objects: Vec<Object>,
    virtuals: u32,
    labels: u32,
    /// By value: how it is held, once defined.
    held: Vec<Held<'a>>,
    uses: Vec<Uses>,
    /// The context, if some builtin wants it.
    context: Option<Reg>,
    /// Rounds that the run has left in all its loops, if it has some.
    rounds: Option<Reg>,
    /// The signal that is to be sent, if the function sends some: see [`signal`].
    signal: Option<Reg>,
    /// The 4-byte key 0 of scalar per-CPU maps.
    zero_key: Option<ObjectId>,
    /// By block: the key 0 is stored on every path to its end.
    zero_key_stored: Vec<bool>,
    /// Strings in objects that have zeros behind their ends, as maps have them: where they begin, and their bytes.
    padded: HashSet<(ObjectId, u32, u32)>,
    /// The longest value that is inserted from the `.zero` map.
    zero_bytes: u32,
    /// Bytes of its slot of scratch memory.
    scratch_bytes: u32,
}

/// How a value is held.
#[derive(Clone, Copy, Debug)]
enum Held<'a> {
    Undefined,
    Int(i64),
    Reg(Reg),
    /// A constant string.
    Text(&'a str),
    /// A string in memory, zero padded.
    Memory(ObjectId),
    /// Computed where it is used.
    Deferred(&'a Op),
}

/// What the function does with a value.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    count: u32,
    /// Block of the last use seen.
    block: usize,
    /// One use is the condition of that block's branch.
    condition: bool,
}

impl<'a> Lower<'a> {
    fn new(module: &'a Module, function: &'a Function, maps: &'a Maps, stack_object_bytes: u32) -> Lower<'a> {
        Lower {
            module,
            function,
            maps,
            stack_object_bytes,
            dominators: Dominators::of(function),
            insts: Vec::with_capacity(8 * function.types.len()),
            block: 0,
            objects: Vec::new(),
            virtuals: 0,
            labels: function.blocks.len() as u32 + scratch::LABELS,
            held: vec![Held::Undefined; function.types.len()],
            uses: uses(function),
            context: None,
            rounds: None,
            signal: None,
            zero_key: None,
            zero_key_stored: vec![true; function.blocks.len()],
            padded: HashSet::new(),
            zero_bytes: 0,
            scratch_bytes: 0,
        }
    }

    fn block(&mut self, index: usize) -> Result<(), CodegenError> {
        let function = self.function;
        let block = &function.blocks[index];
        self.block = index;
        self.zero_key_stored[index] = index > 0 && self.zero_key_stored[index] && self.zero_key.is_some();
        self.insts.push(Inst::Label(Label(index as u32)));
        for &param in &block.params {
            self.hold_param(param);
        }
        for inst in &block.insts {
            self.inst(inst)?;
        }
        self.end(block);
        for (to, _) in block.end.successors() {
            self.zero_key_stored[to.0 as usize] &= self.zero_key_stored[index];
        }
        Ok(())
    }

    /// Parameters are written at jumps, before their block: whoever comes first makes their place.
    fn hold_param(&mut self, param: Value) {
        if matches!(self.held[param.0 as usize], Held::Undefined) {
            self.held[param.0 as usize] = match self.function.ty(param) {
                ty if ty.is_in_memory() => Held::Memory(self.object(ty.bytes())),
                _ => Held::Reg(self.fresh()),
            };
        }
    }

    fn inst(&mut self, inst: &'a IrInst) -> Result<(), CodegenError> {
        let Some(result) = inst.result else { return self.effect(&inst.op) };
        let uses = self.uses[result.0 as usize];
        if uses.count == 0 && inst.op.effect() != Effect::Writes {
            return Ok(());
        }
        let in_this_block = uses.count == 1 && uses.block == self.block;
        let deferred = match &inst.op {
            Op::ReadStr { .. } | Op::ReadBytes { .. } | Op::Builtin(Builtin::Comm) => {
                in_this_block && !uses.condition
            }
            Op::Cmp(..) | Op::StrEq { .. } | Op::TextBegins { .. } | Op::MayLoop => {
                in_this_block && uses.condition
            }
            _ => false,
        };
        let held = if deferred { Held::Deferred(&inst.op) } else { self.compute(&inst.op, result)? };
        self.held[result.0 as usize] = held;
        Ok(())
    }

    fn effect(&mut self, op: &Op) -> Result<(), CodegenError> {
        match op {
            Op::MapSet { map, key, value } => self.map_set(*map, key, *value),
            Op::MapDelete { map, key } => self.map_delete(*map, key),
            Op::Aggregate { map, key, value } => self.aggregate(*map, key, *value),
            Op::SetSessionCookie { value } => {
                let value = self.src(*value);
                self.insts.push(Inst::CallKernel(kfunc::SESSION_COOKIE));
                self.store(Place::Reg(R0, 0), value);
            }
            Op::Signal { number, to_thread } => self.signal(*number, *to_thread),
            Op::Emit { action, args } => self.emit(*action, args),
            Op::Record { event, args, marked } => self.record(*event, args, *marked),
            other => unreachable!("{other:?} has a result"),
        }
        Ok(())
    }

    fn compute(&mut self, op: &'a Op, result: Value) -> Result<Held<'a>, CodegenError> {
        let ty = self.function.ty(result);
        Ok(match op {
            Op::Int(value) => Held::Int(*value),
            Op::Str(text) => Held::Text(text),
            Op::Builtin(Builtin::Comm) | Op::ReadStr { .. } | Op::ReadBytes { .. } => {
                let object = self.object(ty.bytes());
                self.produce_string(op, ty.bytes(), Place::Object(object, 0), ty.bytes());
                Held::Memory(object)
            }
            Op::Builtin(builtin) => Held::Reg(self.builtin(*builtin)),
            Op::Join(parts) => self.join(parts, ty.bytes()),
            Op::StrLen(text) => self.length(*text),
            Op::StrFind { text, part } => Held::Reg(self.find(*text, *part)),
            Op::StrCat { a, b } => self.cat(*a, *b, ty.bytes()),
            Op::MemCmp { a, b, bytes } => Held::Reg(self.compare_bytes(*a, *b, *bytes)),
            Op::ReadStrings { address, most, each } => {
                self.read_strings(*address, (*most, *each), ty.bytes())
            }
            Op::Part { of, offset, bytes } => self.part(*of, (*offset, *bytes), ty),
            Op::UserSymbol { address } => self.user_symbol(*address),
            Op::KernelSymbol { address } => self.kernel_symbol(*address),
            Op::StackLength(most) => Held::Reg(self.stack_length(*most)),
            Op::UserStack(form) => Held::Reg(self.stack(*form, Side::User)),
            Op::KernelStack(form) => Held::Reg(self.stack(*form, Side::Kernel)),
            Op::CallProgram => {
                let context = self.context();
                self.mov(Reg::Real(1), context);
                self.insts.push(Inst::CallProgram);
                // A program's result has 32 bits, as in Linux: compilers leave the others as they are.
                let result = self.fresh();
                self.insts.push(Inst::Mov32 { dst: result, src: Src::Reg(R0) });
                Held::Reg(result)
            }
            Op::ReadInt { address, bytes } => Held::Reg(self.read_int(*address, *bytes)),
            Op::Match { text, bytes_max, automaton } => Held::Reg(self.matches(*text, *bytes_max, automaton)),
            Op::Bin(op, a, b) => self.bin(*op, *a, *b),
            Op::Cmp(..) | Op::StrEq { .. } | Op::MayLoop => Held::Reg(self.truth(op)),
            Op::TextBegins { slot, text, ends } => {
                self.ask_text(*slot, text, *ends);
                let result = self.fresh();
                self.mov(result, R0);
                Held::Reg(result)
            }
            Op::MapGet { map, key } => self.map_get(*map, key, ty),
            Op::MapNext { .. } if self.maps.is_for_kernel => {
                let what = "`for` over a map, and `len`";
                return Err(CodegenError::NotInKernel { clause: self.function.name.clone(), what });
            }
            Op::MapNext { map, cursor } => self.map_next(*map, *cursor, ty.bytes()),
            Op::MapHas { map, key } => Held::Reg(self.map_has(*map, key)),
            Op::MapAdd { map, key, delta } => {
                let wanted = self.uses[result.0 as usize].count > 0;
                self.map_add(*map, key, *delta, wanted)
            }
            other => unreachable!("{other:?} has no result"),
        })
    }

    fn builtin(&mut self, builtin: Builtin) -> Reg {
        let result = self.fresh();
        match builtin {
            Builtin::Arg(n) => {
                let offset = pt_regs::ARGUMENTS[usize::from(n)] as i32;
                let from = Place::Reg(self.context(), offset);
                self.insts.push(Inst::Load { dst: result, from });
            }
            Builtin::Register(n) => {
                let offset = pt_regs::REGISTERS[usize::from(n)] as i32;
                let from = Place::Reg(self.context(), offset);
                self.insts.push(Inst::Load { dst: result, from });
            }
            Builtin::Slot(n) if kfunc::row_word(n).is_some() => self.row_word(n, result),
            Builtin::Slot(n) => {
                let from = Place::Reg(self.context(), 8 * i32::from(n));
                self.insts.push(Inst::Load { dst: result, from });
            }
            Builtin::Float(n) => {
                let offset = pt_regs::FLOATS[usize::from(n)] as i32;
                let from = Place::Reg(self.context(), offset);
                self.insts.push(Inst::Load { dst: result, from });
            }
            Builtin::Field { offset, bytes } => {
                let from = Place::Reg(self.context(), i32::from(offset));
                self.insts.push(match bytes {
                    1 => Inst::LoadPart { size: size::B, dst: result, from },
                    2 => Inst::LoadPart { size: size::H, dst: result, from },
                    4 => Inst::LoadPart { size: size::W, dst: result, from },
                    _ => Inst::Load { dst: result, from },
                });
                // The kernel's verifier refuses calculations with what it takes for a pointer to one of its types, and takes nothing for one that
                // has been negated.
                if self.is_typed() {
                    self.alu(alu::NEG, result, Src::Imm(0));
                    self.alu(alu::NEG, result, Src::Imm(0));
                }
            }
            Builtin::Context => {
                let context = self.context();
                self.mov(result, context);
            }
            Builtin::Task => self.answer(result, helper::GET_CURRENT_TASK),
            Builtin::IsReturn => {
                self.insts.push(Inst::CallKernel(kfunc::SESSION_IS_RETURN));
                self.mov(result, R0);
            }
            Builtin::SessionCookie => {
                self.insts.push(Inst::CallKernel(kfunc::SESSION_COOKIE));
                self.insts.push(Inst::Load { dst: result, from: Place::Reg(R0, 0) });
            }
            Builtin::Pid => self.high_half(result, helper::GET_CURRENT_PID_TGID),
            Builtin::Tid => self.low_half(result, helper::GET_CURRENT_PID_TGID),
            Builtin::Cpu => self.answer(result, helper::GET_SMP_PROCESSOR_ID),
            Builtin::Uid => self.low_half(result, helper::GET_CURRENT_UID_GID),
            Builtin::Gid => self.high_half(result, helper::GET_CURRENT_UID_GID),
            Builtin::Random => self.low_half(result, helper::GET_PRANDOM_U32),
            Builtin::Cgroup => self.answer(result, helper::GET_CURRENT_CGROUP_ID),
            Builtin::Nsecs => self.answer(result, helper::KTIME_GET_NS),
            Builtin::BootNsecs => self.answer(result, helper::KTIME_GET_BOOT_NS),
            Builtin::TaiNsecs => self.answer(result, helper::KTIME_GET_TAI_NS),
            Builtin::Jiffies => self.answer(result, helper::JIFFIES64),
            Builtin::NumaNode => self.answer(result, helper::GET_NUMA_NODE_ID),
            Builtin::Elapsed => {
                self.call(helper::KTIME_GET_NS, &[]);
                self.mov(result, R0);
                let start = self.fresh();
                self.insts.push(Inst::MapValue { dst: start, map: self.maps.globals });
                self.insts.push(Inst::Load { dst: start, from: Place::Reg(start, GLOBAL_START) });
                self.alu(alu::SUB, result, Src::Reg(start));
            }
            Builtin::Command => {
                self.insts.push(Inst::MapValue { dst: result, map: self.maps.globals });
                self.insts.push(Inst::Load { dst: result, from: Place::Reg(result, GLOBAL_COMMAND) });
            }
            Builtin::Probe | Builtin::Func => {
                let context = self.context();
                self.call(helper::GET_ATTACH_COOKIE, &[build::Arg::Reg(context)]);
                self.mov(result, R0);
            }
            Builtin::Comm => unreachable!("comm is a string"),
        }
        result
    }

    /// What a helper without arguments answers.
    fn answer(&mut self, result: Reg, helper: HelperId) {
        self.call(helper, &[]);
        self.mov(result, R0);
    }

    /// The upper 32 bits of what a helper without arguments answers.
    fn high_half(&mut self, result: Reg, helper: HelperId) {
        self.call(helper, &[]);
        self.mov(result, R0);
        self.alu(alu::RSH, result, Src::Imm(32));
    }

    /// The lower ones.
    fn low_half(&mut self, result: Reg, helper: HelperId) {
        self.call(helper, &[]);
        self.insts.push(Inst::Mov32 { dst: result, src: Src::Reg(R0) });
    }

    /// Reads into a word of zeros: integers are little endian, so that it is the zero-extended value.
    fn read_int(&mut self, address: Value, bytes: u8) -> Reg {
        let object = self.object(8);
        self.zero(Place::Object(object, 0), 8);
        let address = match self.src(address) {
            Src::Imm(imm) => build::Arg::Imm(imm),
            Src::Reg(reg) => build::Arg::Reg(reg),
        };
        let size = build::Arg::Imm(bytes.into());
        self.call(self.reads(), &[build::Arg::Object(object), size, address]);
        let result = self.fresh();
        self.insts.push(Inst::Load { dst: result, from: Place::Object(object, 0) });
        result
    }

    fn bin(&mut self, op: BinOp, a: Value, b: Value) -> Held<'a> {
        let row = BIN_OPS.iter().find(|row| row.0 == op);
        // SANITY: the table lists every operation.
        let &(_, code, signed) = row.expect("every operation has a row");
        let (a, b) = match (self.int(a), self.int(b)) {
            (Some(x), Some(y)) => return Held::Int(op.apply(x, y)),
            (Some(_), None) if op.is_commutative() => (b, a),
            _ => (a, b),
        };
        let result = self.fresh();
        match (op, self.int(b)) {
            // eBPF refuses a division by the immediate 0.
            (BinOp::UDiv | BinOp::SDiv, Some(0)) => return Held::Int(0),
            (BinOp::UMod | BinOp::SMod, Some(0)) => self.mov_value(result, a),
            (BinOp::Shl | BinOp::LShr | BinOp::AShr, Some(count)) => {
                self.mov_value(result, a);
                self.alu(code, result, Src::Imm((count & 63) as i32));
            }
            _ => {
                let b = self.src(b);
                self.mov_value(result, a);
                self.insts.push(Inst::Alu { op: code, signed, dst: result, src: b });
            }
        }
        Held::Reg(result)
    }

    /// 0 or 1.
    fn truth(&mut self, op: &Op) -> Reg {
        let result = self.fresh();
        let (no, done) = (self.label(), self.label());
        self.branch_unless(op, no);
        self.mov_imm(result, 1);
        self.insts.push(Inst::Jump(done));
        self.insts.push(Inst::Label(no));
        self.mov_imm(result, 0);
        self.insts.push(Inst::Label(done));
        result
    }

    /// Jumps to `no` if the comparison does not hold, else goes on.
    fn branch_unless(&mut self, op: &Op, no: Label) {
        match op {
            Op::Cmp(op, a, b) => {
                let (op, a, b) = if self.int(*a).is_some() { (op.swapped(), *b, *a) } else { (*op, *a, *b) };
                let code = cmp_code(op.negated());
                let (a, b) = (self.reg(a), self.src(b));
                self.insts.push(Inst::Branch { op: code, a, b, to: no });
            }
            Op::StrEq { a, b, negate, first } => {
                if *negate {
                    let yes = self.label();
                    self.branch_unless_equal(*a, *b, *first, yes);
                    self.insts.push(Inst::Jump(no));
                    self.insts.push(Inst::Label(yes));
                } else {
                    self.branch_unless_equal(*a, *b, *first, no);
                }
            }
            Op::TextBegins { slot, text, ends } => {
                self.ask_text(*slot, text, *ends);
                self.skip_if_null(no);
            }
            // The run's own count ends the loop; `may_goto`, which counts too, is what a verifier follows. The kernel's would follow the
            // count as well, each number of it, until it gives up.
            Op::MayLoop => {
                if !self.maps.is_for_kernel {
                    let fresh = self.rounds.unwrap_or_else(|| self.fresh());
                    let rounds = *self.rounds.get_or_insert(fresh);
                    self.branch(jmp::JEQ, rounds, Src::Imm(0), no);
                    self.alu(alu::SUB, rounds, Src::Imm(1));
                }
                self.insts.push(Inst::MayGoto(no));
            }
            other => unreachable!("{other:?} is no comparison"),
        }
    }

    fn end(&mut self, block: &Block) {
        match &block.end {
            Terminator::Return => self.insts.push(Inst::Jump(self.return_label())),
            Terminator::Accept => self.insts.push(Inst::Jump(self.accept_label())),
            Terminator::Jump { to, args } => {
                self.pass_args(*to, args);
                self.insts.push(Inst::Jump(Label(to.0)));
            }
            Terminator::Branch { condition, then, then_args, otherwise, otherwise_args } => {
                let no = if otherwise_args.is_empty() { Label(otherwise.0) } else { self.label() };
                match self.held[condition.0 as usize] {
                    Held::Deferred(op) => self.branch_unless(op, no),
                    Held::Int(0) => self.insts.push(Inst::Jump(no)),
                    Held::Int(_) => {}
                    _ => {
                        let a = self.reg(*condition);
                        self.insts.push(Inst::Branch { op: jmp::JEQ, a, b: Src::Imm(0), to: no });
                    }
                }
                self.pass_args(*then, then_args);
                self.insts.push(Inst::Jump(Label(then.0)));
                if !otherwise_args.is_empty() {
                    self.insts.push(Inst::Label(no));
                    self.pass_args(*otherwise, otherwise_args);
                    self.insts.push(Inst::Jump(Label(otherwise.0)));
                }
            }
        }
    }

    /// Writes a block's parameters. Going forward no argument is a parameter of the same block, so that the order does not matter. A
    /// jump back to a loop's head may give its parameters in another order, or what is computed of them: that is put by first.
    fn pass_args(&mut self, to: BlockId, args: &[Value]) {
        let function = self.function;
        let params = &function.blocks[to.0 as usize].params;
        params.iter().for_each(|&param| self.hold_param(param));
        let jumps_back = to.0 as usize <= self.block;
        let mut late = Vec::new();
        for (&param, &arg) in params.iter().zip(args).filter(|(param, arg)| param != arg) {
            if jumps_back && (params.contains(&arg) || matches!(self.held[arg.0 as usize], Held::Deferred(_)))
            {
                late.push((param, self.put_by(param, arg)));
            }
        }
        for (&param, &arg) in params.iter().zip(args).filter(|(param, arg)| param != arg) {
            if late.iter().any(|(of, _)| *of == param) {
                continue;
            }
            match self.held[param.0 as usize] {
                Held::Memory(object) => {
                    let bytes = function.ty(param).bytes();
                    self.write_string(arg, Place::Object(object, 0), bytes);
                }
                Held::Reg(reg) => self.mov_value(reg, arg),
                ref other => unreachable!("a parameter is never {other:?}"),
            }
        }
        for (param, from) in late {
            match (self.held[param.0 as usize], from) {
                (Held::Memory(object), Held::Memory(from)) => {
                    let bytes = function.ty(param).bytes();
                    self.copy(Place::Object(object, 0), Place::Object(from, 0), bytes);
                    self.touch(from);
                }
                (Held::Reg(reg), Held::Reg(from)) => self.mov(reg, from),
                (held, from) => unreachable!("a parameter that is {held:?} and a copy that is {from:?}"),
            }
        }
    }

    /// A copy of what is given for a parameter.
    fn put_by(&mut self, param: Value, arg: Value) -> Held<'a> {
        match self.held[param.0 as usize] {
            Held::Memory(_) => {
                let bytes = self.function.ty(param).bytes();
                let object = self.object(bytes);
                self.write_string(arg, Place::Object(object, 0), bytes);
                Held::Memory(object)
            }
            _ => Held::Reg(self.copy_of(arg)),
        }
    }
}

#[rustfmt::skip]
const BIN_OPS: [(BinOp, u8, bool); 13] = [
    (BinOp::Add, alu::ADD, false), (BinOp::Sub, alu::SUB, false), (BinOp::Mul, alu::MUL, false),
    (BinOp::UDiv, alu::DIV, false), (BinOp::SDiv, alu::DIV, true),
    (BinOp::UMod, alu::MOD, false), (BinOp::SMod, alu::MOD, true),
    (BinOp::And, alu::AND, false), (BinOp::Or, alu::OR, false), (BinOp::Xor, alu::XOR, false),
    (BinOp::Shl, alu::LSH, false), (BinOp::LShr, alu::RSH, false), (BinOp::AShr, alu::ARSH, false),
];

fn cmp_code(op: CmpOp) -> u8 {
    match op {
        CmpOp::Eq => jmp::JEQ,
        CmpOp::Ne => jmp::JNE,
        CmpOp::ULt => jmp::JLT,
        CmpOp::ULe => jmp::JLE,
        CmpOp::UGt => jmp::JGT,
        CmpOp::UGe => jmp::JGE,
        CmpOp::SLt => jmp::JSLT,
        CmpOp::SLe => jmp::JSLE,
        CmpOp::SGt => jmp::JSGT,
        CmpOp::SGe => jmp::JSGE,
    }
}

fn uses(function: &Function) -> Vec<Uses> {
    let mut uses = vec![Uses::default(); function.types.len()];
    for (index, block) in function.blocks.iter().enumerate() {
        let operands = block.insts.iter().flat_map(|inst| inst.op.operands()).chain(block.end.operands());
        for value in operands {
            let uses = &mut uses[value.0 as usize];
            uses.count += 1;
            uses.block = index;
        }
        if let Terminator::Branch { condition, .. } = &block.end {
            uses[condition.0 as usize].condition = true;
        }
    }
    uses
}
