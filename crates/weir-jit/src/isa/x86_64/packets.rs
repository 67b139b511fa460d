//! Packet loads: a bounds check and a load, in line; the way out of the program if the check fails, behind the rest.
//!
//! ```text
//!     lea  offset(index), %r11d
//!     mov  data(%rsp), %r10
//!     test %r11d, %r11d           a negative offset: r10 and r11 become those of a header
//!     jl   cold
//! check:
//!     mov  data_end(%rsp), %r9
//!     sub  %r10, %r9
//!     sub  $size, %r9
//!     cmp  %r11, %r9
//!     jl   outside                xor %eax, %eax; epilogue
//!     mov  (%r10, %r11), %eax
//!     bswap %eax
//! ```
//!
//! A packet has fewer than 2^28 bytes (`weir_rt::limits`), so that signed comparisons are right.

use weir_ebpf::context::packet::{DATA, DATA_END, LINK, LINK_FROM, NETWORK, NETWORK_FROM, load_base};

use crate::front::lir::{At, Base, Bytes, Size};
use crate::isa::x86_64::assembler::Label;
use crate::isa::x86_64::emitter::{Cold, ColdCode, Emitter, phys};
use crate::isa::x86_64::encode::{self, Cond, Mem, Reg, Width};

impl Emitter<'_> {
    pub(crate) fn packet_load(&mut self, size: Size, index: Option<u8>, offset: i32) {
        match index {
            None => self.packet_load_at(size, offset),
            Some(index) => self.packet_load_from(size, phys(index), offset),
        }
    }

    fn packet_load_at(&mut self, size: Size, offset: i32) {
        let outside = self.outside();
        let place =
            load_base(offset).and_then(|(base, from)| Some((base, from, from.checked_add(size.bytes())?)));
        let Some((base, from, to)) = place else { return self.asm.jump(outside) };
        self.context_word(Reg::R10, base);
        self.context_word(Reg::R9, DATA_END);
        self.asm.op(encode::Op::Sub, Width::W64, Reg::R10, Reg::R9);
        self.asm.op_imm(encode::Op::CmpImm, Width::W64, Reg::R9, to);
        self.asm.jump_if(Cond::Less, outside);
        self.big_endian(size, Mem::base(Reg::R10, from));
    }

    fn packet_load_from(&mut self, size: Size, index: Reg, offset: i32) {
        let outside = self.outside();
        let (cold, check) = (self.asm.label(), self.asm.label());
        self.asm.op(encode::Op::Lea, Width::W32, Reg::R11, Mem::base(index, offset));
        self.context_word(Reg::R10, DATA);
        self.asm.op(encode::Op::Test, Width::W32, Reg::R11, Reg::R11);
        self.asm.jump_if(Cond::Less, cold);
        self.cold.push(Cold { from: self.now, entry: cold, back: check, what: ColdCode::BeforePacket });
        self.asm.bind(check);
        self.context_word(Reg::R9, DATA_END);
        self.asm.op(encode::Op::Sub, Width::W64, Reg::R10, Reg::R9);
        self.asm.op_imm(encode::Op::SubImm, Width::W64, Reg::R9, size.bytes());
        self.asm.op(encode::Op::Cmp, Width::W64, Reg::R11, Reg::R9);
        self.asm.jump_if(Cond::Less, outside);
        self.big_endian(size, Mem::indexed(Reg::R10, Reg::R11, 0, 0));
    }

    /// The offset in r11 is negative: r10 = the header that it counts from, r11 = the distance from there. Both
    /// additions raise a negative number, so neither overflows.
    pub(crate) fn before_packet(&mut self, check: Label) {
        let outside = self.outside();
        self.context_word(Reg::R10, NETWORK);
        self.asm.op_imm(encode::Op::AddImm, Width::W32, Reg::R11, -NETWORK_FROM);
        self.asm.jump_if(Cond::GreaterOrEqual, check);
        self.context_word(Reg::R10, LINK);
        self.asm.op_imm(encode::Op::AddImm, Width::W32, Reg::R11, NETWORK_FROM - LINK_FROM);
        self.asm.jump_if(Cond::Less, outside);
    }

    fn big_endian(&mut self, size: Size, mem: Mem) {
        match size {
            Size::B => self.asm.op(encode::Op::Movzx8, Width::W32, Reg::Rax, mem),
            Size::H => {
                self.asm.op(encode::Op::Movzx16, Width::W32, Reg::Rax, mem);
                self.bytes(Bytes::Swap, 16, Reg::Rax);
            }
            Size::W | Size::Dw => {
                self.asm.op(encode::Op::Load, Width::W32, Reg::Rax, mem);
                self.bytes(Bytes::Swap, 32, Reg::Rax);
            }
        }
    }

    fn context_word(&mut self, dst: Reg, at: u32) {
        let mem = self.mem(At { base: Base::Context, offset: at as i32 });
        self.asm.op(encode::Op::Load, Width::W64, dst, mem);
    }

    fn outside(&mut self) -> Label {
        let made = self.no_packet.unwrap_or_else(|| self.asm.label());
        *self.no_packet.insert(made)
    }
}
