//! Machine code under construction: instructions, labels, jumps, relocations, and the account of what was
//! clobbered.
//!
//! In: instructions in order. Out ([`Assembler::finish`]): bytes with every jump in its shortest form, the
//! rseq descriptors behind them, relocations and origins at their final offsets. `clobbers` and
//! `clobbers_flags` follow from the rows of [`crate::isa::x86_64::encode`], not from what the emitter meant to do.
//!
//! Jumps are kept apart from the other bytes until the end: all start short, and those that do not reach grow,
//! until none grows (sizes only rise, so this ends).
//!
//! Not here: which instruction to choose.

use weir_rt::executable::{RelocKind, Relocation, Symbol};

use crate::isa::x86_64::encode::{self, Cond, Mem, Op, Plain, Reg, Rm, ShiftX, Width};
use crate::limits::{LINE_BYTES, LOOP_ALIGNMENT};

/// A place that jumps and addresses may refer to before it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label(usize);

/// A position in the code before jumps have sizes: bytes that are not jumps, and jumps, before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Point {
    bytes: usize,
    jumps: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JumpKind {
    Always,
    If(Cond),
    /// Jump if rcx is 0, changing no flag. It has a short form only.
    IfRcxZero,
    /// It has a long form only.
    Call,
    /// No jump: padding up to the next multiple of [`LOOP_ALIGNMENT`]; to one of [`LINE_BYTES`], if what stands from
    /// there to the target fits in between then, and not else.
    Align,
}

#[derive(Clone, Copy, Debug)]
struct Jump {
    at: Point,
    kind: JumpKind,
    target: Label,
}

/// One `struct rseq_cs` (Linux, include/uapi/linux/rseq.h).
#[derive(Clone, Copy, Debug)]
struct Section {
    start: Label,
    end: Label,
    abort: Label,
}

/// Names the descriptor of a restartable section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SectionId(usize);

/// Size and alignment of `struct rseq_cs`.
const DESCRIPTOR_BYTES: usize = 32;

/// What [`Assembler::finish`] makes.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) code: Vec<u8>,
    pub(crate) text_bytes: u32,
    pub(crate) relocations: Vec<Relocation>,
    pub(crate) origins: Vec<(u32, u32)>,
    pub(crate) clobbers: u16,
    pub(crate) clobbers_flags: bool,
}

/// A `jrcxz` whose target is more than 127 bytes away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OutOfReach;

#[derive(Debug, Default)]
pub(crate) struct Assembler {
    bytes: Vec<u8>,
    jumps: Vec<Jump>,
    labels: Vec<Option<Point>>,
    sections: Vec<Section>,
    /// Rel32 fields (at `Point`) that hold the distance to a descriptor.
    descriptor_uses: Vec<(Point, SectionId)>,
    relocations: Vec<(Point, RelocKind, Symbol, i64)>,
    origins: Vec<(Point, u32)>,
    clobbers: u16,
    clobbers_flags: bool,
    result: Option<FlagsOf>,
}

/// What the flags say, where the last instruction was arithmetic on a register.
#[derive(Clone, Copy, Debug)]
struct FlagsOf {
    reg: Reg,
    width: Width,
    /// They are the same as those of a comparison with 0; else only the zero flag is.
    is_comparison: bool,
    /// Behind it.
    end: Point,
}

impl Assembler {
    /// With room for the code of so many operations.
    pub(crate) fn with_room(ops: usize) -> Assembler {
        Assembler {
            bytes: Vec::with_capacity(16 * ops),
            jumps: Vec::with_capacity(4 * ops),
            labels: Vec::with_capacity(2 * ops),
            origins: Vec::with_capacity(2 * ops),
            ..Assembler::default()
        }
    }

    /// What follows comes from this bpf instruction.
    pub(crate) fn origin(&mut self, insn: u32) {
        let here = self.here();
        self.origins.push((here, insn));
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub(crate) fn bind(&mut self, label: Label) {
        let here = self.here();
        let old = self.labels[label.0].replace(here);
        assert!(old.is_none(), "label bound twice");
        // Who jumps here brings other flags.
        self.result = None;
    }

    /// Whether the last instruction has set the flags that `test reg, reg` would: all that comparisons look at, or
    /// (`zero_only`) the zero flag.
    pub(crate) fn has_flags_of(&self, reg: Reg, width: Width, zero_only: bool) -> bool {
        let is_same = |result: FlagsOf| {
            (result.reg, result.width, result.end) == (reg, width, self.here())
                && (zero_only || result.is_comparison)
        };
        self.result.is_some_and(is_same)
    }

    pub(crate) fn jump(&mut self, target: Label) {
        self.push_jump(JumpKind::Always, target);
    }

    pub(crate) fn jump_if(&mut self, cond: Cond, target: Label) {
        self.push_jump(JumpKind::If(cond), target);
    }

    pub(crate) fn jump_if_rcx_zero(&mut self, target: Label) {
        self.push_jump(JumpKind::IfRcxZero, target);
    }

    /// Pads with instructions that do nothing, so that the loop that follows, up to `end`, begins a line of the
    /// decoder, and lies in one line of the cache, if it fits.
    pub(crate) fn align(&mut self, end: Label) {
        self.push_jump(JumpKind::Align, end);
    }

    /// Bytes so far, while there are no jumps, whose sizes are open.
    pub(crate) fn bytes_before_jumps(&self) -> u32 {
        assert!(self.jumps.is_empty(), "jumps have no sizes yet");
        self.bytes.len() as u32
    }

    /// Calls code of this assembler, which adds to the same clobbers.
    pub(crate) fn call(&mut self, target: Label) {
        self.push_jump(JumpKind::Call, target);
    }

    /// `op dst(reg), rm` or `op rm, reg`, as the row says.
    pub(crate) fn op(&mut self, op: Op, width: Width, reg: Reg, rm: impl Into<Rm>) {
        self.emit(false, op, width, reg, rm.into(), 0);
    }

    /// `op rm, imm`.
    pub(crate) fn op_imm(&mut self, op: Op, width: Width, rm: impl Into<Rm>, imm: i32) {
        self.emit(false, op, width, Reg::Rax, rm.into(), imm);
    }

    /// `op rm` where the row needs neither register nor immediate.
    pub(crate) fn op_one(&mut self, op: Op, width: Width, rm: impl Into<Rm>) {
        self.emit(false, op, width, Reg::Rax, rm.into(), 0);
    }

    pub(crate) fn imul_imm(&mut self, width: Width, dst: Reg, src: Reg, imm: i32) {
        self.emit(false, Op::ImulImm, width, dst, src.into(), imm);
    }

    pub(crate) fn lock_op(&mut self, op: Op, width: Width, reg: Reg, mem: Mem) {
        self.emit(true, op, width, reg, mem.into(), 0);
    }

    pub(crate) fn lock_op_imm(&mut self, op: Op, width: Width, mem: Mem, imm: i32) {
        self.emit(true, op, width, Reg::Rax, mem.into(), imm);
    }

    /// `dst = src`; nothing if they are the same and the whole register is meant.
    pub(crate) fn mov(&mut self, width: Width, dst: Reg, src: Reg) {
        if dst != src || width == Width::W32 {
            self.op(Op::Store, width, src, dst);
        }
    }

    /// `dst = value` without touching flags, in the shortest form.
    pub(crate) fn mov_value(&mut self, dst: Reg, value: u64) {
        self.clobbers |= encode::bit(dst);
        if let Ok(value) = u32::try_from(value) {
            encode::encode_mov_imm32(&mut self.bytes, dst, value);
        } else if let Ok(value) = i32::try_from(value as i64) {
            self.op_imm(Op::MovImm, Width::W64, dst, value);
        } else {
            encode::encode_mov_imm64(&mut self.bytes, dst, value);
        }
    }

    /// `dst = symbol + addend`.
    pub(crate) fn mov_symbol(&mut self, dst: Reg, symbol: Symbol, addend: i64) {
        self.clobbers |= encode::bit(dst);
        encode::encode_mov_imm64(&mut self.bytes, dst, 0);
        self.relocate_last(8, RelocKind::Abs64, symbol, addend);
    }

    /// `call symbol`. `clobbers` are the registers that the callee may change; it may change every flag.
    pub(crate) fn call_symbol(&mut self, symbol: Symbol, clobbers: u16) {
        self.clobbers |= clobbers;
        self.clobbers_flags = true;
        self.bytes.extend_from_slice(&[0xe8, 0, 0, 0, 0]);
        self.relocate_last(4, RelocKind::Rel32, symbol, -4);
    }

    /// Declares a restartable section from `start` to `end`, with its handler at `abort`.
    pub(crate) fn section(&mut self, start: Label, end: Label, abort: Label) -> SectionId {
        self.sections.push(Section { start, end, abort });
        SectionId(self.sections.len() - 1)
    }

    /// `dst = address of the section's descriptor`.
    pub(crate) fn lea_section(&mut self, dst: Reg, section: SectionId) {
        self.clobbers |= encode::bit(dst);
        encode::encode_lea_rip(&mut self.bytes, dst);
        let field = Point { bytes: self.bytes.len() - 4, jumps: self.jumps.len() };
        self.descriptor_uses.push((field, section));
    }

    /// `ud1` with the signature as its displacement: what must stand before an abort handler.
    pub(crate) fn signature(&mut self, signature: u32) {
        self.bytes.extend_from_slice(&[0x0f, 0xb9, 0x3d]);
        self.bytes.extend_from_slice(&signature.to_le_bytes());
    }

    pub(crate) fn push(&mut self, reg: Reg) {
        encode::encode_push(&mut self.bytes, reg);
    }

    pub(crate) fn pop(&mut self, reg: Reg) {
        self.clobbers |= encode::bit(reg);
        encode::encode_pop(&mut self.bytes, reg);
    }

    pub(crate) fn bswap(&mut self, wide: bool, reg: Reg) {
        self.clobbers |= encode::bit(reg);
        encode::encode_bswap(&mut self.bytes, wide, reg);
    }

    pub(crate) fn shiftx(&mut self, op: ShiftX, wide: bool, dst: Reg, src: Reg, count: Reg) {
        self.clobbers |= encode::bit(dst);
        encode::encode_shiftx(&mut self.bytes, op, wide, dst, src, count);
    }

    pub(crate) fn rorx(&mut self, wide: bool, dst: Reg, src: Reg, count: u8) {
        self.clobbers |= encode::bit(dst);
        encode::encode_rorx(&mut self.bytes, wide, dst, src, count);
    }

    pub(crate) fn mulx(&mut self, high: Reg, low: Reg, src: Reg) {
        self.clobbers |= encode::bit(high) | encode::bit(low);
        encode::encode_mulx(&mut self.bytes, high, low, src);
    }

    /// The lowest byte of `dst` = whether `cond` holds.
    pub(crate) fn setcc(&mut self, cond: Cond, dst: Reg) {
        self.clobbers |= encode::bit(dst);
        encode::encode_setcc(&mut self.bytes, cond, dst);
    }

    /// `if cond { dst = src }`, all 64 bits.
    pub(crate) fn cmov(&mut self, cond: Cond, dst: Reg, src: Reg) {
        self.clobbers |= encode::bit(dst);
        encode::encode_cmov(&mut self.bytes, cond, dst, src);
    }

    pub(crate) fn plain(&mut self, plain: Plain) {
        let (bytes, clobbers, flags) = plain.row();
        self.bytes.extend_from_slice(bytes);
        self.clobbers |= clobbers;
        self.clobbers_flags |= flags;
    }

    /// To code at the address in rax that may change these registers, and flags.
    pub(crate) fn jump_away(&mut self, clobbers: u16) {
        self.plain(Plain::JumpRax);
        self.clobbers |= clobbers;
        self.clobbers_flags = true;
    }

    /// Declares that the flags changed since the last `lahf` have their old values again.
    pub(crate) fn flags_restored(&mut self, clobbered_before: bool) {
        self.clobbers_flags = clobbered_before;
    }

    pub(crate) fn clobbers_flags(&self) -> bool {
        self.clobbers_flags
    }

    pub(crate) fn finish(self) -> Result<Assembled, OutOfReach> {
        let sizes = self.padded(self.relax()?);
        let starts = prefix_sums(&sizes);
        let offset = |point: Point| point.bytes + starts[point.jumps];
        let label = |label: Label| offset(self.bound(label));

        let mut code = Vec::with_capacity(self.bytes.len() + starts[self.jumps.len()]);
        let mut copied = 0;
        for (jump, &size) in self.jumps.iter().zip(&sizes) {
            code.extend_from_slice(&self.bytes[copied..jump.at.bytes]);
            copied = jump.at.bytes;
            let distance = label(jump.target) as i64 - (code.len() + size) as i64;
            encode_jump(&mut code, jump.kind, size, distance);
        }
        code.extend_from_slice(&self.bytes[copied..]);
        let text_bytes = code.len() as u32;

        let mut relocations: Vec<Relocation> = self
            .relocations
            .iter()
            .map(|&(at, kind, symbol, addend)| Relocation { offset: offset(at) as u32, kind, symbol, addend })
            .collect();
        if !self.sections.is_empty() {
            code.resize(code.len().next_multiple_of(DESCRIPTOR_BYTES), 0);
        }
        let data = code.len();
        for &(at, SectionId(id)) in &self.descriptor_uses {
            let at = offset(at);
            let distance = (data + id * DESCRIPTOR_BYTES) as i64 - (at + 4) as i64;
            code[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        for section in &self.sections {
            let [start, end, abort] = [section.start, section.end, section.abort].map(label);
            let here = code.len() as u32;
            // version and flags (0), start_ip, post_commit_offset, abort_ip.
            code.extend_from_slice(&[0; 16]);
            code.extend_from_slice(&((end - start) as u64).to_le_bytes());
            code.extend_from_slice(&[0; 8]);
            relocations.extend([(8, start), (24, abort)].map(|(field, target)| Relocation {
                offset: here + field,
                kind: RelocKind::Abs64,
                symbol: Symbol::Code(target as u32),
                addend: 0,
            }));
        }
        relocations.sort_by_key(|relocation| relocation.offset);
        let origins = self.origins.iter().map(|&(at, insn)| (offset(at) as u32, insn));
        Ok(Assembled {
            code,
            text_bytes,
            relocations,
            origins: without_empty(origins),
            clobbers: self.clobbers,
            clobbers_flags: self.clobbers_flags,
        })
    }

    /// The size of each jump.
    fn relax(&self) -> Result<Vec<usize>, OutOfReach> {
        let mut sizes: Vec<usize> =
            self.jumps.iter().enumerate().map(|(index, jump)| self.initial_size(index, jump)).collect();
        // What has grown stays long: only the others are looked at again.
        let mut short: Vec<usize> = (0..sizes.len()).filter(|&index| sizes[index] == 2).collect();
        loop {
            let starts = prefix_sums(&sizes);
            let reaches = |index: usize| {
                let jump = &self.jumps[index];
                let end = jump.at.bytes + starts[index] + 2;
                let target = self.bound(jump.target);
                let distance = (target.bytes + starts[target.jumps]) as i64 - end as i64;
                i8::try_from(distance).is_ok()
            };
            let looked_at = short.len();
            let mut is_out_of_reach = false;
            short.retain(|&index| {
                let stays = reaches(index);
                if !stays {
                    match long_size(self.jumps[index].kind) {
                        Some(size) => sizes[index] = size,
                        None => is_out_of_reach = true,
                    }
                }
                stays
            });
            if is_out_of_reach {
                return Err(OutOfReach);
            }
            if short.len() == looked_at {
                return Ok(sizes);
            }
        }
    }

    /// The sizes with what padding really needs, which is no more: every jump still reaches.
    fn padded(&self, mut sizes: Vec<usize>) -> Vec<usize> {
        let longest = prefix_sums(&sizes);
        let mut before = 0;
        for (index, jump) in self.jumps.iter().enumerate() {
            if jump.kind == JumpKind::Align {
                let here = jump.at.bytes + before;
                let end = self.bound(jump.target);
                // With loops inside, their padding counts in full: such a loop is seldom short anyway.
                let bytes = end.bytes + longest[end.jumps] - jump.at.bytes - longest[index + 1];
                let start = here.next_multiple_of(LOOP_ALIGNMENT);
                let crosses = start % LINE_BYTES + bytes > LINE_BYTES;
                let is_better = crosses && bytes <= LINE_BYTES;
                sizes[index] = if is_better { here.next_multiple_of(LINE_BYTES) } else { start } - here;
            }
            before += sizes[index];
        }
        sizes
    }

    /// 2, or 0 for a jump to what follows it anyway; the long form where what is no jump is too long already; 5 for a call;
    /// the most for padding.
    fn initial_size(&self, index: usize, jump: &Jump) -> usize {
        match jump.kind {
            JumpKind::Call => return 5,
            JumpKind::Align => return LINE_BYTES - 1,
            _ => {}
        }
        let (after, target) = (Point { bytes: jump.at.bytes, jumps: index + 1 }, self.bound(jump.target));
        if target == after {
            return 0;
        }
        let is_far = target.bytes.abs_diff(after.bytes) > i8::MAX as usize;
        long_size(jump.kind).filter(|_| is_far).unwrap_or(2)
    }

    fn emit(&mut self, lock: bool, op: Op, width: Width, reg: Reg, rm: Rm, imm: i32) {
        assert!(!lock || matches!(rm, Rm::Mem(_)), "lock needs memory");
        self.clobbers |= encode::written(op, reg, rm);
        self.clobbers_flags |= op.row().flags;
        encode::encode(&mut self.bytes, lock, op, width, reg, rm, imm);
        if let (Some(is_comparison), Rm::Reg(reg)) = (op.sets_flags_of_result(imm), rm) {
            self.result = Some(FlagsOf { reg, width, is_comparison, end: self.here() });
        }
    }

    fn push_jump(&mut self, kind: JumpKind, target: Label) {
        let at = self.here();
        self.jumps.push(Jump { at, kind, target });
    }

    fn relocate_last(&mut self, bytes: usize, kind: RelocKind, symbol: Symbol, addend: i64) {
        let field = Point { bytes: self.bytes.len() - bytes, jumps: self.jumps.len() };
        self.relocations.push((field, kind, symbol, addend));
    }

    fn here(&self) -> Point {
        Point { bytes: self.bytes.len(), jumps: self.jumps.len() }
    }

    fn bound(&self, label: Label) -> Point {
        // SANITY: the emitter binds each label that it makes before it finishes.
        self.labels[label.0].expect("unbound label")
    }
}

/// Of the form that reaches anything, where there is one.
fn long_size(kind: JumpKind) -> Option<usize> {
    match kind {
        JumpKind::Always | JumpKind::Call => Some(5),
        JumpKind::If(_) => Some(6),
        JumpKind::IfRcxZero | JumpKind::Align => None,
    }
}

/// Sum of the sizes before each index, and of all at the end.
fn prefix_sums(sizes: &[usize]) -> Vec<usize> {
    let mut sums = Vec::with_capacity(sizes.len() + 1);
    let mut sum = 0;
    sums.push(0);
    for size in sizes {
        sum += size;
        sums.push(sum);
    }
    sums
}

/// Origins that no code follows are dropped.
fn without_empty(origins: impl ExactSizeIterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let mut kept: Vec<(u32, u32)> = Vec::with_capacity(origins.len());
    for origin in origins {
        if kept.last().is_some_and(|last| last.0 == origin.0) {
            kept.pop();
        }
        kept.push(origin);
    }
    kept
}

/// `nop` of 1 to 8 bytes, as AMD's and Intel's optimisation manuals have them.
const NOPS: [&[u8]; 8] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];

fn encode_padding(code: &mut Vec<u8>, mut size: usize) {
    while size > 0 {
        let nop = NOPS[size.min(NOPS.len()) - 1];
        code.extend_from_slice(nop);
        size -= nop.len();
    }
}

fn encode_jump(code: &mut Vec<u8>, kind: JumpKind, size: usize, distance: i64) {
    if kind == JumpKind::Align {
        return encode_padding(code, size);
    }
    match (kind, size) {
        (_, 0) => return,
        (JumpKind::Always, 2) => code.push(0xeb),
        (JumpKind::If(cond), 2) => code.push(0x70 | cond as u8),
        (JumpKind::IfRcxZero, _) => code.push(0xe3),
        (JumpKind::Call, _) => code.push(0xe8),
        (JumpKind::Always, _) => code.push(0xe9),
        (JumpKind::If(cond), _) => code.extend_from_slice(&[0x0f, 0x80 | cond as u8]),
        (JumpKind::Align, _) => unreachable!("padding is no jump"),
    }
    if size == 2 {
        code.push(distance as i8 as u8);
    } else {
        code.extend_from_slice(&(distance as i32).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::{Assembler, Cond, LINE_BYTES, LOOP_ALIGNMENT, OutOfReach, Plain};

    /// Offsets and sizes of a jump forward over `gap` one-byte instructions.
    fn jump_over(gap: usize, conditional: bool) -> usize {
        let mut assembler = Assembler::default();
        let target = assembler.label();
        if conditional {
            assembler.jump_if(Cond::Equal, target);
        } else {
            assembler.jump(target);
        }
        for _ in 0..gap {
            assembler.plain(Plain::Ret);
        }
        assembler.bind(target);
        assembler.plain(Plain::Ret);
        assembler.finish().unwrap().code.len() - gap - 1
    }

    #[test]
    fn jump_takes_the_shortest_form_that_reaches() {
        assert_eq!(jump_over(0, false), 0);
        assert_eq!(jump_over(1, false), 2);
        assert_eq!(jump_over(127, false), 2);
        assert_eq!(jump_over(128, false), 5);
        assert_eq!(jump_over(127, true), 2);
        assert_eq!(jump_over(128, true), 6);
    }

    #[test]
    fn growing_one_jump_grows_the_one_around_it() {
        let mut assembler = Assembler::default();
        let (near, far) = (assembler.label(), assembler.label());
        assembler.jump(near);
        assembler.jump(far);
        for _ in 0..125 {
            assembler.plain(Plain::Ret);
        }
        assembler.bind(near);
        for _ in 0..10 {
            assembler.plain(Plain::Ret);
        }
        assembler.bind(far);
        assembler.plain(Plain::Ret);
        // The inner jump spans 135 bytes, so it takes 5; that pushes the outer one from 127 to 130.
        assert_eq!(assembler.finish().unwrap().code.len(), 5 + 5 + 136);
    }

    #[test]
    fn jrcxz_out_of_reach_is_an_error() {
        let mut assembler = Assembler::default();
        let target = assembler.label();
        assembler.jump_if_rcx_zero(target);
        for _ in 0..128 {
            assembler.plain(Plain::Ret);
        }
        assembler.bind(target);
        assert_eq!(assembler.finish().unwrap_err(), OutOfReach);
    }

    #[test]
    fn padding_ends_at_a_multiple_and_does_nothing() {
        for before in 0..2 * LOOP_ALIGNMENT {
            let mut assembler = Assembler::default();
            let top = assembler.label();
            (0..before).for_each(|_| assembler.plain(Plain::Ret));
            let end = assembler.label();
            assembler.align(end);
            assembler.bind(top);
            assembler.jump(top);
            assembler.bind(end);
            let code = assembler.finish().unwrap().code;
            let loop_at = before.next_multiple_of(LOOP_ALIGNMENT);
            assert_eq!(code[loop_at..], [0xeb, 0xfe], "{code:x?}");
            let padding = iced_x86::Decoder::new(64, &code[before..loop_at], 0);
            assert!(padding.into_iter().all(|one| one.mnemonic() == iced_x86::Mnemonic::Nop), "{code:x?}");
        }
    }

    #[test]
    fn short_loops_lie_in_one_line() {
        for before in 0..2 * LINE_BYTES {
            for inside in [4, 30, 62, 63] {
                let mut assembler = Assembler::default();
                let (top, end) = (assembler.label(), assembler.label());
                (0..before).for_each(|_| assembler.plain(Plain::Ret));
                assembler.align(end);
                assembler.bind(top);
                (0..inside).for_each(|_| assembler.plain(Plain::Ret));
                assembler.jump(top);
                assembler.bind(end);
                let code = assembler.finish().unwrap().code;
                let start = code.len() - inside - 2;
                let lines = (code.len() - 1) / LINE_BYTES - start / LINE_BYTES;
                assert_eq!((start % LOOP_ALIGNMENT, lines), (0, usize::from(inside + 2 > LINE_BYTES)));
            }
        }
    }

    #[test]
    fn jumps_over_padding_reach() {
        for gap in 80..140 {
            let mut assembler = Assembler::default();
            let end = assembler.label();
            assembler.jump(end);
            assembler.align(end);
            (0..gap).for_each(|_| assembler.plain(Plain::Ret));
            assembler.bind(end);
            let code = assembler.finish().unwrap().code;
            let reached = match code[0] {
                0xeb => 2 + code[1] as usize,
                _ => 5 + u32::from_le_bytes(code[1..5].try_into().unwrap()) as usize,
            };
            assert_eq!(reached, code.len());
        }
    }

    #[test]
    fn backward_jump_counts_its_own_size() {
        let mut assembler = Assembler::default();
        let top = assembler.label();
        assembler.bind(top);
        assembler.plain(Plain::Ret);
        assembler.jump(top);
        assert_eq!(assembler.finish().unwrap().code, [0xc3, 0xeb, 0xfd]);
    }
}
