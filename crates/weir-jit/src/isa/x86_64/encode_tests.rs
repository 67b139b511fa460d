//! Every row of the encoder, decoded by iced-x86: same instruction, same operands, same registers and flags
//! changed.

use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use super::{Cond, Field, Imm, Mem, Op, Plain, Reg, Rm, ShiftX, Width};

const REGS: [Reg; 16] = [
    Reg::Rax,
    Reg::Rcx,
    Reg::Rdx,
    Reg::Rbx,
    Reg::Rsp,
    Reg::Rbp,
    Reg::Rsi,
    Reg::Rdi,
    Reg::R8,
    Reg::R9,
    Reg::R10,
    Reg::R11,
    Reg::R12,
    Reg::R13,
    Reg::R14,
    Reg::R15,
];

const WIDTHS: [Width; 4] = [Width::W8, Width::W16, Width::W32, Width::W64];

const DISPLACEMENTS: [i32; 7] = [0, 1, -1, 127, -128, 128, i32::MIN];

const IMMEDIATES: [i32; 6] = [0, 1, -1, 127, 128, i32::MIN];

/// Operation, mnemonic, widths that it is used in.
#[rustfmt::skip]
const OPS: &[(Op, Mnemonic, &[Width])] = {
    use Width::{W8, W16, W32, W64};
    &[
        (Op::Store,    Mnemonic::Mov,     &WIDTHS),
        (Op::Add,      Mnemonic::Add,     &WIDTHS),
        (Op::Or,       Mnemonic::Or,      &WIDTHS),
        (Op::And,      Mnemonic::And,     &WIDTHS),
        (Op::Sub,      Mnemonic::Sub,     &WIDTHS),
        (Op::Xor,      Mnemonic::Xor,     &WIDTHS),
        (Op::Cmp,      Mnemonic::Cmp,     &WIDTHS),
        (Op::Test,     Mnemonic::Test,    &WIDTHS),
        (Op::Xchg,     Mnemonic::Xchg,    &WIDTHS),
        (Op::Xadd,     Mnemonic::Xadd,    &WIDTHS),
        (Op::Cmpxchg,  Mnemonic::Cmpxchg, &WIDTHS),
        (Op::Load,     Mnemonic::Mov,     &WIDTHS),
        (Op::Lea,      Mnemonic::Lea,     &[W32, W64]),
        (Op::Movzx8,   Mnemonic::Movzx,   &[W32, W64]),
        (Op::Movzx16,  Mnemonic::Movzx,   &[W32, W64]),
        (Op::Movsx8,   Mnemonic::Movsx,   &[W32, W64]),
        (Op::Movsx16,  Mnemonic::Movsx,   &[W32, W64]),
        (Op::Movsxd,   Mnemonic::Movsxd,  &[W64]),
        (Op::Imul,     Mnemonic::Imul,    &[W16, W32, W64]),
        (Op::Bsf,      Mnemonic::Bsf,     &[W32, W64]),
        (Op::Bsr,      Mnemonic::Bsr,     &[W32, W64]),
        (Op::Lsl,      Mnemonic::Lsl,     &[W32]),
        (Op::MovImm,   Mnemonic::Mov,     &WIDTHS),
        (Op::AddImm,   Mnemonic::Add,     &WIDTHS),
        (Op::OrImm,    Mnemonic::Or,      &WIDTHS),
        (Op::AndImm,   Mnemonic::And,     &WIDTHS),
        (Op::SubImm,   Mnemonic::Sub,     &WIDTHS),
        (Op::XorImm,   Mnemonic::Xor,     &WIDTHS),
        (Op::CmpImm,   Mnemonic::Cmp,     &WIDTHS),
        (Op::TestImm,  Mnemonic::Test,    &WIDTHS),
        (Op::ShlImm,   Mnemonic::Shl,     &WIDTHS),
        (Op::ShrImm,   Mnemonic::Shr,     &WIDTHS),
        (Op::SarImm,   Mnemonic::Sar,     &WIDTHS),
        (Op::RorImm,   Mnemonic::Ror,     &WIDTHS),
        (Op::RolImm,   Mnemonic::Rol,     &WIDTHS),
        (Op::ImulImm,  Mnemonic::Imul,    &[W16, W32, W64]),
        (Op::Neg,      Mnemonic::Neg,     &WIDTHS),
        (Op::Div,      Mnemonic::Div,     &[W32, W64]),
        (Op::Idiv,     Mnemonic::Idiv,    &[W32, W64]),
        (Op::ShlCl,    Mnemonic::Shl,     &WIDTHS),
        (Op::ShrCl,    Mnemonic::Shr,     &WIDTHS),
        (Op::SarCl,    Mnemonic::Sar,     &WIDTHS),
        (Op::SetO,     Mnemonic::Seto,    &[W8]),
        (Op::Prefetchw, Mnemonic::Prefetchw, &[W32]),
    ]
};

#[test]
fn every_operation_decodes_to_itself() {
    let mut checked = 0;
    for &(op, mnemonic, widths) in OPS {
        for &width in widths {
            for rm in operands(op) {
                for reg in registers(op) {
                    for imm in immediates(op) {
                        check(op, mnemonic, width, reg, rm, imm);
                        checked += 1;
                    }
                }
            }
        }
    }
    assert!(checked > 100_000, "only {checked} forms");
}

#[test]
fn lock_prefix_decodes() {
    for op in [Op::Add, Op::Or, Op::And, Op::Xor, Op::Xadd, Op::Cmpxchg] {
        let mut bytes = Vec::new();
        super::encode(&mut bytes, true, op, Width::W64, Reg::R8, Mem::base(Reg::R9, 8).into(), 0);
        assert!(decode(&bytes).has_lock_prefix(), "{op:?}");
    }
}

#[test]
fn thread_pointer_prefix_decodes() {
    let mut bytes = Vec::new();
    super::encode(&mut bytes, false, Op::MovImm, Width::W64, Reg::Rax, Mem::fs(-152).into(), 0);
    let instruction = decode(&bytes);
    assert_eq!(instruction.memory_segment(), Register::FS);
    assert_eq!(instruction.memory_base(), Register::None);
    assert_eq!(instruction.memory_displacement64() as i64, -152);
}

#[test]
fn forms_without_modrm_decode() {
    for reg in REGS {
        let form = |encode: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            encode(&mut bytes);
            decode(&bytes)
        };
        let mov32 = form(&|out| super::encode_mov_imm32(out, reg, 0x8000_0001));
        assert_eq!((mov32.code(), mov32.immediate32()), (Code::Mov_r32_imm32, 0x8000_0001));
        assert_eq!(mov32.op0_register(), iced(reg, Width::W32));
        let mov64 = form(&|out| super::encode_mov_imm64(out, reg, 0x1234_5678_9abc_def0));
        assert_eq!((mov64.code(), mov64.immediate64()), (Code::Mov_r64_imm64, 0x1234_5678_9abc_def0));
        assert_eq!(mov64.op0_register(), iced(reg, Width::W64));
        let lea = form(&|out| super::encode_lea_rip(out, reg));
        assert!(lea.is_ip_rel_memory_operand() && lea.op0_register() == iced(reg, Width::W64));
        let push = form(&|out| super::encode_push(out, reg));
        assert_eq!((push.mnemonic(), push.op0_register()), (Mnemonic::Push, iced(reg, Width::W64)));
        let pop = form(&|out| super::encode_pop(out, reg));
        assert_eq!((pop.mnemonic(), pop.op0_register()), (Mnemonic::Pop, iced(reg, Width::W64)));
        for (wide, width) in [(false, Width::W32), (true, Width::W64)] {
            let swap = form(&|out| super::encode_bswap(out, wide, reg));
            assert_eq!((swap.mnemonic(), swap.op0_register()), (Mnemonic::Bswap, iced(reg, width)));
        }
    }
}

#[test]
fn bmi2_forms_decode() {
    let shifts =
        [(ShiftX::Shl, Mnemonic::Shlx), (ShiftX::Shr, Mnemonic::Shrx), (ShiftX::Sar, Mnemonic::Sarx)];
    for dst in REGS {
        for src in REGS {
            for count in REGS {
                for (op, mnemonic) in shifts {
                    for (wide, width) in [(false, Width::W32), (true, Width::W64)] {
                        let mut bytes = Vec::new();
                        super::encode_shiftx(&mut bytes, op, wide, dst, src, count);
                        let instruction = decode(&bytes);
                        assert_eq!(instruction.mnemonic(), mnemonic);
                        let registers = [0, 1, 2].map(|operand| instruction.op_register(operand));
                        assert_eq!(registers, [dst, src, count].map(|reg| iced(reg, width)));
                        assert!(!changes_flags(&instruction));
                    }
                }
            }
            for (wide, width) in [(false, Width::W32), (true, Width::W64)] {
                let mut bytes = Vec::new();
                super::encode_rorx(&mut bytes, wide, dst, src, 28);
                let instruction = decode(&bytes);
                assert_eq!((instruction.mnemonic(), instruction.immediate8()), (Mnemonic::Rorx, 28));
                assert_eq!(instruction.op0_register(), iced(dst, width));
                assert_eq!(instruction.op1_register(), iced(src, width));
                assert!(!changes_flags(&instruction));
            }
        }
    }
}

#[test]
fn products_of_128_bits_and_conditional_moves_decode() {
    let conds = [(Cond::Below, Mnemonic::Cmovb), (Cond::Greater, Mnemonic::Cmovg)];
    for dst in REGS {
        for (cond, mnemonic) in [(Cond::Below, Mnemonic::Setb), (Cond::Greater, Mnemonic::Setg)] {
            let mut bytes = Vec::new();
            super::encode_setcc(&mut bytes, cond, dst);
            let instruction = decode(&bytes);
            assert_eq!(
                (instruction.mnemonic(), instruction.op0_register()),
                (mnemonic, iced(dst, Width::W8))
            );
        }
        for src in REGS {
            for low in REGS {
                let mut bytes = Vec::new();
                super::encode_mulx(&mut bytes, dst, low, src);
                let instruction = decode(&bytes);
                assert_eq!(instruction.mnemonic(), Mnemonic::Mulx);
                let registers = [0, 1, 2].map(|operand| instruction.op_register(operand));
                assert_eq!(registers, [dst, low, src].map(|reg| iced(reg, Width::W64)));
                assert!(!changes_flags(&instruction));
            }
            for (cond, mnemonic) in conds {
                let mut bytes = Vec::new();
                super::encode_cmov(&mut bytes, cond, dst, src);
                let instruction = decode(&bytes);
                assert_eq!(instruction.mnemonic(), mnemonic);
                assert_eq!(instruction.op0_register(), iced(dst, Width::W64));
                assert_eq!(instruction.op1_register(), iced(src, Width::W64));
                assert!(!changes_flags(&instruction));
            }
        }
    }
}

#[test]
fn plain_instructions_decode() {
    let cases = [
        (Plain::Ret, Code::Retnq),
        (Plain::Cdq, Code::Cdq),
        (Plain::Cqo, Code::Cqo),
        (Plain::Lahf, Code::Lahf),
        (Plain::Sahf, Code::Sahf),
        (Plain::JumpRax, Code::Jmp_rm64),
    ];
    for (plain, code) in cases {
        let (bytes, writes, flags) = plain.row();
        let instruction = decode(bytes);
        assert_eq!(instruction.code(), code);
        assert_eq!(writes, written(&instruction) & !(1 << Reg::Rsp as u16), "{plain:?}");
        assert_eq!(flags, changes_flags(&instruction), "{plain:?}");
    }
}

fn check(op: Op, mnemonic: Mnemonic, width: Width, reg: Reg, rm: Rm, imm: i32) {
    let mut bytes = Vec::new();
    super::encode(&mut bytes, false, op, width, reg, rm, imm);
    let instruction = decode(&bytes);
    let what = || format!("{op:?} {width:?} {reg:?} {rm:?} {imm}: {bytes:02x?} is {instruction}");
    assert_eq!(instruction.mnemonic(), mnemonic, "{}", what());
    check_rm(op, width, rm, &instruction, &what);
    if op.row().field == Field::Reg {
        let width = if op.fixed_opcode() && width == Width::W8 { Width::W32 } else { width };
        let found = (0..instruction.op_count()).any(|operand| {
            instruction.op_kind(operand) == OpKind::Register
                && instruction.op_register(operand) == iced(reg, width)
        });
        assert!(found, "{}", what());
    }
    if op.row().imm != Imm::None {
        let last = instruction.op_count() - 1;
        let mask = match width {
            _ if op.row().imm == Imm::Byte => 0xff,
            Width::W8 => 0xff,
            Width::W16 => 0xffff,
            Width::W32 => 0xffff_ffff,
            Width::W64 => u64::MAX,
        };
        assert_eq!(instruction.immediate(last) & mask, imm as i64 as u64 & mask, "{}", what());
    }
    assert_eq!(super::written(op, reg, rm), written(&instruction), "{}", what());
    // A shift by the constant 0 changes no flag, whatever the row says; the emitter makes none.
    if !(op.row().imm == Imm::Byte && imm == 0) {
        assert_eq!(op.row().flags, changes_flags(&instruction), "{}", what());
    }
}

fn check_rm(op: Op, width: Width, rm: Rm, instruction: &Instruction, what: &dyn Fn() -> String) {
    match rm {
        Rm::Mem(mem) => {
            let base = mem.base.map_or(Register::None, |reg| iced(reg, Width::W64));
            let (index, scale) =
                mem.index.map_or((Register::None, 1), |(reg, scale)| (iced(reg, Width::W64), 1 << scale));
            assert_eq!(instruction.memory_base(), base, "{}", what());
            assert_eq!(instruction.memory_index(), index, "{}", what());
            assert_eq!(instruction.memory_index_scale(), scale, "{}", what());
            assert_eq!(instruction.memory_displacement64() as i64, i64::from(mem.disp), "{}", what());
        }
        Rm::Reg(rm) => {
            let width = match op {
                Op::Movzx8 | Op::Movsx8 | Op::SetO => Width::W8,
                Op::Movzx16 | Op::Movsx16 => Width::W16,
                Op::Movsxd => Width::W32,
                _ => width,
            };
            let found = (0..instruction.op_count()).any(|operand| {
                instruction.op_kind(operand) == OpKind::Register
                    && instruction.op_register(operand) == iced(rm, width)
            });
            assert!(found, "{}", what());
        }
    }
}

/// All registers, and memory with every base, with indices and displacements where encodings differ.
fn operands(op: Op) -> Vec<Rm> {
    let mut operands: Vec<Rm> = Vec::new();
    if !matches!(op, Op::Lea | Op::Prefetchw) {
        operands.extend(REGS.map(Rm::Reg));
    }
    for base in REGS {
        operands.extend(DISPLACEMENTS.map(|disp| Rm::Mem(Mem::base(base, disp))));
        for index in [Reg::Rax, Reg::Rbp, Reg::R11, Reg::R12, Reg::R13] {
            operands.extend([0, 3].map(|scale| Rm::Mem(Mem::indexed(base, index, scale, 8))));
            operands.push(Rm::Mem(Mem::indexed(base, index, 1, 0)));
        }
    }
    operands.push(Rm::Mem(Mem { base: None, index: None, disp: 16, fs: true }));
    operands
}

fn registers(op: Op) -> Vec<Reg> {
    if op.row().field == Field::Reg { REGS.to_vec() } else { vec![Reg::Rax] }
}

fn immediates(op: Op) -> Vec<i32> {
    match op.row().imm {
        Imm::None => vec![0],
        Imm::Byte => vec![1, 7],
        // The widest operand takes them all; narrower ones take their low bytes.
        Imm::Sized | Imm::Short(_) => IMMEDIATES.to_vec(),
    }
}

fn decode(bytes: &[u8]) -> Instruction {
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let instruction = decoder.decode();
    assert!(!instruction.is_invalid(), "invalid: {bytes:02x?}");
    assert_eq!(instruction.len(), bytes.len(), "{bytes:02x?} is {instruction}");
    instruction
}

fn written(instruction: &Instruction) -> u16 {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let mut mask = 0;
    for used in info.used_registers() {
        let writes = matches!(
            used.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        let full = used.register().full_register();
        if writes && full.is_gpr64() {
            mask |= 1 << full.number();
        }
    }
    mask
}

fn changes_flags(instruction: &Instruction) -> bool {
    instruction.rflags_modified() != 0
}

fn iced(reg: Reg, width: Width) -> Register {
    let number = reg as u32;
    let first = match width {
        // iced numbers ah..bh between bl and spl.
        Width::W8 if number >= 4 => return Register::SPL + (number - 4),
        Width::W8 => Register::AL,
        Width::W16 => Register::AX,
        Width::W32 => Register::EAX,
        Width::W64 => Register::RAX,
    };
    first + number
}
