//! The x86-64 instructions that the compiler needs, and their encoding (Intel SDM volume 2, chapter 2 and the
//! opcode maps of appendix A).
//!
//! In: an [`Op`] with its operands. Out: bytes. Each operation is one row of [`Op::row`]: opcode, which operand
//! it writes, whether it changes flags. The rows are what [`crate::isa::x86_64::assembler`] derives clobbers from, so a wrong
//! row is a wrong program: a test decodes every row in every operand form with iced-x86 and compares text,
//! written registers and flags.
//!
//! Not here: jumps and calls to labels (the assembler sizes them), vector instructions, 16-bit arithmetic.

/// A general register, numbered as the hardware encodes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Reg {
    Rax = 0,
    Rcx = 1,
    Rdx = 2,
    Rbx = 3,
    Rsp = 4,
    #[cfg_attr(not(test), expect(dead_code, reason = "weir leaves rbp alone; the encoder's tests cover it"))]
    Rbp = 5,
    Rsi = 6,
    Rdi = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
    R12 = 12,
    R13 = 13,
    R14 = 14,
    R15 = 15,
}

/// Operand width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    W8,
    W16,
    W32,
    W64,
}

/// A memory operand: `disp(base, index << scale)`, or `%fs:disp` without a base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mem {
    pub(crate) base: Option<Reg>,
    /// Register (never rsp) and the power of two it is multiplied with, 0..=3.
    pub(crate) index: Option<(Reg, u8)>,
    pub(crate) disp: i32,
    /// Relative to the thread pointer.
    pub(crate) fs: bool,
}

impl Mem {
    pub(crate) fn base(base: Reg, disp: i32) -> Mem {
        Mem { base: Some(base), index: None, disp, fs: false }
    }

    pub(crate) fn indexed(base: Reg, index: Reg, scale: u8, disp: i32) -> Mem {
        Mem { base: Some(base), index: Some((index, scale)), disp, fs: false }
    }

    pub(crate) fn fs(disp: i32) -> Mem {
        Mem { base: None, index: None, disp, fs: true }
    }
}

/// The operand that the ModRM byte addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rm {
    Reg(Reg),
    Mem(Mem),
}

impl From<Reg> for Rm {
    fn from(reg: Reg) -> Rm {
        Rm::Reg(reg)
    }
}

impl From<Mem> for Rm {
    fn from(mem: Mem) -> Rm {
        Rm::Mem(mem)
    }
}

/// An operation with a ModRM byte. Names follow the AT&T operand order in comments, Intel's in arguments:
/// the destination comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    // rm, reg
    Store,
    Add,
    Or,
    And,
    Sub,
    Xor,
    Cmp,
    Test,
    Xchg,
    Xadd,
    Cmpxchg,
    // reg, rm
    Load,
    Lea,
    Movzx8,
    Movzx16,
    Movsx8,
    Movsx16,
    Movsxd,
    Imul,
    Bsf,
    Bsr,
    Lsl,
    // rm, imm
    MovImm,
    AddImm,
    OrImm,
    AndImm,
    SubImm,
    XorImm,
    CmpImm,
    TestImm,
    ShlImm,
    ShrImm,
    SarImm,
    RorImm,
    RolImm,
    // reg, rm, imm
    ImulImm,
    // rm
    Neg,
    Div,
    Idiv,
    ShlCl,
    ShrCl,
    SarCl,
    SetO,
    /// The line is wanted in the cache, to be written. A CPU that knows no such instruction does nothing.
    Prefetchw,
}

/// How the reg field of ModRM is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    /// A register operand.
    Reg,
    /// More opcode.
    Digit(u8),
}

/// Which immediate follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Imm {
    None,
    /// One byte.
    Byte,
    /// As wide as the operand, at most 4 bytes.
    Sized,
    /// As `Sized`, or with this opcode one sign-extended byte.
    Short(u8),
}

/// Which general registers an operation writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Writes {
    Nothing,
    Rm,
    Reg,
    RegAndRm,
    /// The memory or register operand and rax.
    RmAndRax,
    RaxAndRdx,
}

/// One row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// As in the manual; 0x0fxx for the second map.
    opcode: u16,
    field: Field,
    imm: Imm,
    writes: Writes,
    pub(crate) flags: bool,
}

impl Op {
    #[rustfmt::skip]
    pub(crate) fn row(self) -> Row {
        use Field::{Digit, Reg};
        let row = |opcode, field, imm, writes, flags| Row { opcode, field, imm, writes, flags };
        match self {
            Op::Store    => row(0x89, Reg, Imm::None, Writes::Rm, false),
            Op::Add      => row(0x01, Reg, Imm::None, Writes::Rm, true),
            Op::Or       => row(0x09, Reg, Imm::None, Writes::Rm, true),
            Op::And      => row(0x21, Reg, Imm::None, Writes::Rm, true),
            Op::Sub      => row(0x29, Reg, Imm::None, Writes::Rm, true),
            Op::Xor      => row(0x31, Reg, Imm::None, Writes::Rm, true),
            Op::Cmp      => row(0x39, Reg, Imm::None, Writes::Nothing, true),
            Op::Test     => row(0x85, Reg, Imm::None, Writes::Nothing, true),
            Op::Xchg     => row(0x87, Reg, Imm::None, Writes::RegAndRm, false),
            Op::Xadd     => row(0x0fc1, Reg, Imm::None, Writes::RegAndRm, true),
            Op::Cmpxchg  => row(0x0fb1, Reg, Imm::None, Writes::RmAndRax, true),
            Op::Load     => row(0x8b, Reg, Imm::None, Writes::Reg, false),
            Op::Lea      => row(0x8d, Reg, Imm::None, Writes::Reg, false),
            Op::Movzx8   => row(0x0fb6, Reg, Imm::None, Writes::Reg, false),
            Op::Movzx16  => row(0x0fb7, Reg, Imm::None, Writes::Reg, false),
            Op::Movsx8   => row(0x0fbe, Reg, Imm::None, Writes::Reg, false),
            Op::Movsx16  => row(0x0fbf, Reg, Imm::None, Writes::Reg, false),
            Op::Movsxd   => row(0x63, Reg, Imm::None, Writes::Reg, false),
            Op::Imul     => row(0x0faf, Reg, Imm::None, Writes::Reg, true),
            Op::Bsf      => row(0x0fbc, Reg, Imm::None, Writes::Reg, true),
            Op::Bsr      => row(0x0fbd, Reg, Imm::None, Writes::Reg, true),
            Op::Lsl      => row(0x0f03, Reg, Imm::None, Writes::Reg, true),
            Op::MovImm   => row(0xc7, Digit(0), Imm::Sized, Writes::Rm, false),
            Op::AddImm   => row(0x81, Digit(0), Imm::Short(0x83), Writes::Rm, true),
            Op::OrImm    => row(0x81, Digit(1), Imm::Short(0x83), Writes::Rm, true),
            Op::AndImm   => row(0x81, Digit(4), Imm::Short(0x83), Writes::Rm, true),
            Op::SubImm   => row(0x81, Digit(5), Imm::Short(0x83), Writes::Rm, true),
            Op::XorImm   => row(0x81, Digit(6), Imm::Short(0x83), Writes::Rm, true),
            Op::CmpImm   => row(0x81, Digit(7), Imm::Short(0x83), Writes::Nothing, true),
            Op::TestImm  => row(0xf7, Digit(0), Imm::Sized, Writes::Nothing, true),
            Op::ShlImm   => row(0xc1, Digit(4), Imm::Byte, Writes::Rm, true),
            Op::ShrImm   => row(0xc1, Digit(5), Imm::Byte, Writes::Rm, true),
            Op::SarImm   => row(0xc1, Digit(7), Imm::Byte, Writes::Rm, true),
            Op::RorImm   => row(0xc1, Digit(1), Imm::Byte, Writes::Rm, true),
            Op::RolImm   => row(0xc1, Digit(0), Imm::Byte, Writes::Rm, true),
            Op::ImulImm  => row(0x69, Reg, Imm::Short(0x6b), Writes::Reg, true),
            Op::Neg      => row(0xf7, Digit(3), Imm::None, Writes::Rm, true),
            Op::Div      => row(0xf7, Digit(6), Imm::None, Writes::RaxAndRdx, true),
            Op::Idiv     => row(0xf7, Digit(7), Imm::None, Writes::RaxAndRdx, true),
            Op::ShlCl    => row(0xd3, Digit(4), Imm::None, Writes::Rm, true),
            Op::ShrCl    => row(0xd3, Digit(5), Imm::None, Writes::Rm, true),
            Op::SarCl    => row(0xd3, Digit(7), Imm::None, Writes::Rm, true),
            Op::SetO     => row(0x0f90, Digit(0), Imm::None, Writes::Rm, false),
            Op::Prefetchw => row(0x0f0d, Digit(1), Imm::None, Writes::Nothing, false),
        }
    }

    /// Whether the flags tell about the value that is left in the rm operand: true, if what a comparison of it with 0
    /// would; false, if only the zero flag does.
    pub(crate) fn sets_flags_of_result(self, imm: i32) -> Option<bool> {
        match self {
            Op::And | Op::Or | Op::Xor | Op::AndImm | Op::OrImm | Op::XorImm => Some(true),
            Op::Add | Op::Sub | Op::AddImm | Op::SubImm | Op::Neg => Some(false),
            // A shift by nothing leaves the flags as they were.
            Op::ShlImm | Op::ShrImm | Op::SarImm if (1..32).contains(&imm) => Some(false),
            _ => None,
        }
    }

    /// The rm operand is one byte whatever the width says.
    fn byte_rm(self, width: Width) -> bool {
        matches!(self, Op::Movzx8 | Op::Movsx8 | Op::SetO) || (width == Width::W8 && !self.fixed_opcode())
    }

    /// Bit 0 of the opcode does not select between 8 bits and more.
    fn fixed_opcode(self) -> bool {
        matches!(
            self,
            Op::Lea
                | Op::Movzx8
                | Op::Movzx16
                | Op::Movsx8
                | Op::Movsx16
                | Op::Movsxd
                | Op::Imul
                | Op::Bsf
                | Op::Bsr
                | Op::Lsl
                | Op::ImulImm
                | Op::SetO
                | Op::Prefetchw
        )
    }
}

/// The general registers that `op` with these operands writes: bit n is register n.
pub(crate) fn written(op: Op, reg: Reg, rm: Rm) -> u16 {
    let rm_bit = match rm {
        Rm::Reg(reg) => bit(reg),
        Rm::Mem(_) => 0,
    };
    match op.row().writes {
        Writes::Nothing => 0,
        Writes::Rm => rm_bit,
        Writes::Reg => bit(reg),
        Writes::RegAndRm => bit(reg) | rm_bit,
        Writes::RmAndRax => rm_bit | bit(Reg::Rax),
        Writes::RaxAndRdx => bit(Reg::Rax) | bit(Reg::Rdx),
    }
}

pub(crate) fn bit(reg: Reg) -> u16 {
    1 << reg as u16
}

/// Appends `op`. `reg` is ignored where the row has a digit, `imm` where it has no immediate; `lock` needs a
/// memory operand.
pub(crate) fn encode(out: &mut Vec<u8>, lock: bool, op: Op, width: Width, reg: Reg, rm: Rm, imm: i32) {
    let row = op.row();
    let (field, reg_is_operand) = match row.field {
        Field::Reg => (reg as u8, true),
        Field::Digit(digit) => (digit, false),
    };
    let mut opcode = row.opcode;
    let mut imm_bytes = match row.imm {
        Imm::None => 0,
        Imm::Byte => 1,
        Imm::Sized | Imm::Short(_) => sized_bytes(width),
    };
    if let Imm::Short(short) = row.imm
        && i8::try_from(imm).is_ok()
        && width != Width::W8
    {
        opcode = u16::from(short);
        imm_bytes = 1;
    }
    if width == Width::W8 && !op.fixed_opcode() {
        opcode &= !1;
    }
    let byte_reg = reg_is_operand && width == Width::W8 && !op.fixed_opcode();
    let needs_rex = (byte_reg && is_high_byte_name(reg))
        || matches!(rm, Rm::Reg(rm) if op.byte_rm(width) && is_high_byte_name(rm));

    prefixes(out, lock, width, rm);
    rex(out, width == Width::W64, field, rm, needs_rex);
    if opcode > 0xff {
        out.push(0x0f);
    }
    out.push(opcode as u8);
    modrm(out, field, rm);
    out.extend_from_slice(&imm.to_le_bytes()[..imm_bytes]);
}

fn sized_bytes(width: Width) -> usize {
    match width {
        Width::W8 => 1,
        Width::W16 => 2,
        Width::W32 | Width::W64 => 4,
    }
}

/// Encodings 4..=7 name ah, ch, dh, bh without a REX prefix and spl, bpl, sil, dil with one.
fn is_high_byte_name(reg: Reg) -> bool {
    (4..8).contains(&(reg as u8))
}

fn prefixes(out: &mut Vec<u8>, lock: bool, width: Width, rm: Rm) {
    if lock {
        out.push(0xf0);
    }
    if matches!(rm, Rm::Mem(Mem { fs: true, .. })) {
        out.push(0x64);
    }
    if width == Width::W16 {
        out.push(0x66);
    }
}

fn rex(out: &mut Vec<u8>, wide: bool, field: u8, rm: Rm, always: bool) {
    let (x, b) = extension_bits(rm);
    let rex = 0x40 | u8::from(wide) << 3 | (field >> 3) << 2 | x << 1 | b;
    if rex != 0x40 || always {
        out.push(rex);
    }
}

/// The top bits of the index and base (or rm) registers.
fn extension_bits(rm: Rm) -> (u8, u8) {
    match rm {
        Rm::Reg(reg) => (0, reg as u8 >> 3),
        Rm::Mem(mem) => {
            (mem.index.map_or(0, |(reg, _)| reg as u8 >> 3), mem.base.map_or(0, |reg| reg as u8 >> 3))
        }
    }
}

/// ModRM, SIB and displacement.
fn modrm(out: &mut Vec<u8>, field: u8, rm: Rm) {
    let field = (field & 7) << 3;
    let mem = match rm {
        Rm::Reg(reg) => return out.push(0xc0 | field | reg as u8 & 7),
        Rm::Mem(mem) => mem,
    };
    let index = mem.index.map_or(0x20, |(reg, scale)| {
        assert!(reg != Reg::Rsp && scale <= 3, "no encoding for this index");
        scale << 6 | (reg as u8 & 7) << 3
    });
    let Some(base) = mem.base else {
        // Mode 0 with SIB base 5: disp32 alone. (Without SIB the same bits mean RIP-relative.)
        out.extend_from_slice(&[field | 4, index | 5]);
        return out.extend_from_slice(&mem.disp.to_le_bytes());
    };
    let low = base as u8 & 7;
    let (mode, disp_bytes) = match mem.disp {
        // rbp and r13 as base have no form without displacement.
        0 if low != 5 => (0x00, 0),
        -128..=127 => (0x40, 1),
        _ => (0x80, 4),
    };
    // rsp and r12 as base need a SIB byte, and so does every index.
    if mem.index.is_some() || low == 4 {
        out.extend_from_slice(&[mode | field | 4, index | low]);
    } else {
        out.push(mode | field | low);
    }
    out.extend_from_slice(&mem.disp.to_le_bytes()[..disp_bytes]);
}

/// `mov $imm, r32`: the upper half becomes 0.
pub(crate) fn encode_mov_imm32(out: &mut Vec<u8>, dst: Reg, imm: u32) {
    rex(out, false, 0, Rm::Reg(dst), false);
    out.push(0xb8 | dst as u8 & 7);
    out.extend_from_slice(&imm.to_le_bytes());
}

/// `movabs $imm, r64`; the immediate is the last 8 bytes.
pub(crate) fn encode_mov_imm64(out: &mut Vec<u8>, dst: Reg, imm: u64) {
    rex(out, true, 0, Rm::Reg(dst), false);
    out.push(0xb8 | dst as u8 & 7);
    out.extend_from_slice(&imm.to_le_bytes());
}

/// `lea 0(%rip), r64`; the displacement is the last 4 bytes.
pub(crate) fn encode_lea_rip(out: &mut Vec<u8>, dst: Reg) {
    out.extend_from_slice(&[0x48 | (dst as u8 >> 3) << 2, 0x8d, (dst as u8 & 7) << 3 | 5, 0, 0, 0, 0]);
}

pub(crate) fn encode_push(out: &mut Vec<u8>, reg: Reg) {
    rex(out, false, 0, Rm::Reg(reg), false);
    out.push(0x50 | reg as u8 & 7);
}

pub(crate) fn encode_pop(out: &mut Vec<u8>, reg: Reg) {
    rex(out, false, 0, Rm::Reg(reg), false);
    out.push(0x58 | reg as u8 & 7);
}

pub(crate) fn encode_bswap(out: &mut Vec<u8>, wide: bool, reg: Reg) {
    rex(out, wide, 0, Rm::Reg(reg), false);
    out.extend_from_slice(&[0x0f, 0xc8 | reg as u8 & 7]);
}

/// BMI2 shifts: no flags, count in any register, masked as by `shl`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ShiftX {
    Shl,
    Shr,
    Sar,
}

/// `shlx count, src, dst` and kin.
pub(crate) fn encode_shiftx(out: &mut Vec<u8>, op: ShiftX, wide: bool, dst: Reg, src: Reg, count: Reg) {
    let prefix = match op {
        ShiftX::Shl => 1,
        ShiftX::Sar => 2,
        ShiftX::Shr => 3,
    };
    vex(out, 2, wide, prefix, dst, count as u8, src);
    out.extend_from_slice(&[0xf7, 0xc0 | (dst as u8 & 7) << 3 | src as u8 & 7]);
}

/// `rorx $count, src, dst` (BMI2, no flags).
pub(crate) fn encode_rorx(out: &mut Vec<u8>, wide: bool, dst: Reg, src: Reg, count: u8) {
    vex(out, 3, wide, 3, dst, 0, src);
    out.extend_from_slice(&[0xf0, 0xc0 | (dst as u8 & 7) << 3 | src as u8 & 7, count]);
}

/// `mulx src, low, high` (BMI2, no flags): the 128 bits of rdx × src. `low` and `high` differ.
pub(crate) fn encode_mulx(out: &mut Vec<u8>, high: Reg, low: Reg, src: Reg) {
    vex(out, 2, true, 3, high, low as u8, src);
    out.extend_from_slice(&[0xf6, 0xc0 | (high as u8 & 7) << 3 | src as u8 & 7]);
}

/// `cmovcc src, dst`. In 32 bits it clears the upper half of `dst` whether or not it moves, so this has 64.
pub(crate) fn encode_cmov(out: &mut Vec<u8>, cond: Cond, dst: Reg, src: Reg) {
    rex(out, true, dst as u8, Rm::Reg(src), false);
    out.extend_from_slice(&[0x0f, 0x40 | cond as u8]);
    modrm(out, dst as u8, Rm::Reg(src));
}

/// `setcc dst`: its lowest byte alone.
pub(crate) fn encode_setcc(out: &mut Vec<u8>, cond: Cond, dst: Reg) {
    rex(out, false, 0, Rm::Reg(dst), is_high_byte_name(dst));
    out.extend_from_slice(&[0x0f, 0x90 | cond as u8]);
    modrm(out, 0, Rm::Reg(dst));
}

/// Three-byte VEX prefix, vector length 0; `map` 2 is 0F38, 3 is 0F3A.
fn vex(out: &mut Vec<u8>, map: u8, wide: bool, prefix: u8, reg: Reg, second: u8, rm: Reg) {
    let not_r = !(reg as u8 >> 3) & 1;
    let not_b = !(rm as u8 >> 3) & 1;
    out.extend_from_slice(&[
        0xc4,
        not_r << 7 | 1 << 6 | not_b << 5 | map,
        u8::from(wide) << 7 | (!second & 0xf) << 3 | prefix,
    ]);
}

/// Instructions without operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plain {
    Ret,
    /// Sign of eax into edx.
    Cdq,
    /// Sign of rax into rdx.
    Cqo,
    /// Sign, zero, adjust, parity and carry flags into ah.
    Lahf,
    /// The way back.
    Sahf,
    /// To the address in rax.
    JumpRax,
    /// The time stamp counter, its lower half in eax, its upper half in edx.
    Rdtsc,
}

impl Plain {
    /// Bytes, registers written, flags changed.
    #[rustfmt::skip]
    pub(crate) fn row(self) -> (&'static [u8], u16, bool) {
        match self {
            Plain::Ret  => (&[0xc3], 0, false),
            Plain::Cdq  => (&[0x99], bit(Reg::Rdx), false),
            Plain::Cqo  => (&[0x48, 0x99], bit(Reg::Rdx), false),
            Plain::Lahf => (&[0x9f], bit(Reg::Rax), false),
            Plain::Sahf => (&[0x9e], 0, true),
            Plain::JumpRax => (&[0xff, 0xe0], 0, false),
            Plain::Rdtsc => (&[0x0f, 0x31], bit(Reg::Rax) | bit(Reg::Rdx), false),
        }
    }
}

/// Conditions of `jcc`, numbered as in the opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Cond {
    Below = 0x2,
    AboveOrEqual = 0x3,
    Equal = 0x4,
    NotEqual = 0x5,
    BelowOrEqual = 0x6,
    Above = 0x7,
    Less = 0xc,
    GreaterOrEqual = 0xd,
    LessOrEqual = 0xe,
    Greater = 0xf,
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
