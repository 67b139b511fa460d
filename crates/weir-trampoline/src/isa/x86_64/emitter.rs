//! The few instructions that trampolines consist of, as bytes.
//!
//! In: registers by their x86 encoding number and slots above the stack pointer. Out: code for one address. None of
//! them but comparisons changes a flag.

use weir_ebpf::pt_regs;

/// Byte offset in `pt_regs` of each general register, by x86 encoding number (asm/ptrace.h).
pub(crate) const SLOTS: [i32; 16] = {
    let (mut slots, mut number) = ([0; 16], 0);
    while number < slots.len() {
        slots[number] = pt_regs::REGISTERS[number] as i32;
        number += 1;
    }
    slots
};
pub(crate) const RAX: u8 = 0;
pub(crate) const RCX: u8 = 1;
pub(crate) const RSP: u8 = 4;

/// Writes the few instructions that a trampoline consists of.
#[derive(Debug)]
pub struct Emitter {
    pub code: Vec<u8>,
    /// Where the code will stand.
    pub at: u64,
    /// What the stack pointer is lowered by.
    pub frame_bytes: i32,
    /// What is to stand behind the rest.
    cold: Vec<Cold>,
}

/// Code that is branched to, where that branch ends, and what it does before it goes on behind the branch.
#[derive(Debug)]
struct Cold {
    from: usize,
    code: Vec<u8>,
}

impl Emitter {
    pub fn new(at: u64, frame_bytes: i32) -> Emitter {
        Emitter { code: Vec::new(), at, frame_bytes, cold: Vec::new() }
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// `lea bytes(%rsp),%rsp`
    pub fn move_stack(&mut self, bytes: i32) {
        self.bytes(&[0x48, 0x8d, 0xa4, 0x24]);
        self.bytes(&bytes.to_le_bytes());
    }

    pub fn push(&mut self, register: u8) {
        self.stack(0x50, register);
    }

    pub fn pop(&mut self, register: u8) {
        self.stack(0x58, register);
    }

    fn stack(&mut self, opcode: u8, register: u8) {
        if register > 7 {
            self.bytes(&[0x41]);
        }
        self.bytes(&[opcode | register & 7]);
    }

    pub fn save(&mut self, register: u8) {
        self.store(register, SLOTS[register as usize]);
    }

    pub fn restore(&mut self, register: u8) {
        self.load(register, SLOTS[register as usize]);
    }

    /// `mov register,slot(%rsp)`
    pub fn store(&mut self, register: u8, slot: i32) {
        self.memory(0x89, register, slot);
    }

    /// `movq %xmmN,slot(%rsp)`, of xmm0 to xmm7: a store alone, which changes neither the register nor MXCSR.
    pub fn store_float(&mut self, number: u8, slot: i32) {
        self.bytes(&[0x66, 0x0f, 0xd6, 0x84 | number << 3, 0x24]);
        self.bytes(&slot.to_le_bytes());
    }

    /// `mov slot(%rsp),register`
    pub fn load(&mut self, register: u8, slot: i32) {
        self.memory(0x8b, register, slot);
    }

    pub fn memory(&mut self, opcode: u8, register: u8, slot: i32) {
        let rex = 0x48 | (register >> 3) << 2;
        let field = (register & 7) << 3 | 0b100;
        match i8::try_from(slot) {
            Ok(short) => self.bytes(&[rex, opcode, 0x40 | field, 0x24, short as u8]),
            Err(_) => {
                self.bytes(&[rex, opcode, 0x80 | field, 0x24]);
                self.bytes(&slot.to_le_bytes());
            }
        }
    }

    /// `movl $value,slot(%rsp)`
    pub fn store_constant_short(&mut self, slot: i32, value: u32) {
        self.bytes(&[0xc7, 0x84, 0x24]);
        self.bytes(&slot.to_le_bytes());
        self.bytes(&value.to_le_bytes());
    }

    /// `movb $value,slot(%rsp)`
    pub fn store_byte(&mut self, slot: i32, value: u8) {
        self.bytes(&[0xc6, 0x84, 0x24]);
        self.bytes(&slot.to_le_bytes());
        self.bytes(&[value]);
    }

    /// `movzbl slot(%rsp),%ecx`
    pub fn load_byte_rcx(&mut self, slot: i32) {
        self.bytes(&[0x0f, 0xb6, 0x8c, 0x24]);
        self.bytes(&slot.to_le_bytes());
    }

    /// `cmpb $value,slot(%rsp)`
    pub fn compare_byte(&mut self, slot: i32, value: u8) {
        self.bytes(&[0x80, 0xbc, 0x24]);
        self.bytes(&slot.to_le_bytes());
        self.bytes(&[value]);
    }

    /// `lea slot(%rsp),%rax`
    pub fn address_rax(&mut self, slot: i32) {
        self.bytes(&[0x48, 0x8d, 0x84, 0x24]);
        self.bytes(&slot.to_le_bytes());
    }

    /// `lea address(%rip),register`, of rax or rcx.
    pub fn take_rip(&mut self, register: u8, address: u64) {
        self.bytes(&[0x48, 0x8d, 0x05 | register << 3]);
        self.displacement(address);
    }

    /// `movq $value,slot(%rsp)`
    pub fn store_constant(&mut self, slot: i32, value: i32) {
        self.bytes(&[0x48, 0xc7, 0x84, 0x24]);
        self.bytes(&slot.to_le_bytes());
        self.bytes(&value.to_le_bytes());
    }

    /// `mov address(%rip),%rcx`
    pub fn load_rip_rcx(&mut self, address: u64) {
        self.bytes(&[0x48, 0x8b, 0x0d]);
        self.displacement(address);
    }

    /// `movabs $value,%rcx`
    pub fn movabs_rcx(&mut self, value: u64) {
        self.bytes(&[0x48, 0xb9]);
        self.bytes(&value.to_le_bytes());
    }

    /// `movzwl (%rcx),%ecx`
    pub fn load_half_rcx(&mut self) {
        self.bytes(&[0x0f, 0xb7, 0x09]);
    }

    pub fn call(&mut self, address: u64) {
        self.bytes(&[0xe8]);
        self.displacement(address);
    }

    pub fn jump(&mut self, address: u64) {
        self.bytes(&[0xe9]);
        self.displacement(address);
    }

    pub fn displacement(&mut self, address: u64) {
        let next = self.at + self.code.len() as u64 + 4;
        let displacement = address.wrapping_sub(next) as i64;
        let displacement =
            i32::try_from(displacement).expect("islands lie within 2 GiB of what they jump to");
        self.bytes(&displacement.to_le_bytes());
    }

    /// `jrcxz` to a place that comes later, at most 127 bytes on: to be given to [`Emitter::land`] there.
    pub fn jrcxz_ahead(&mut self) -> usize {
        self.bytes(&[0xe3, 0]);
        self.code.len()
    }

    /// The same for `jmp rel8`.
    pub fn jump_short_ahead(&mut self) -> usize {
        self.bytes(&[0xeb, 0]);
        self.code.len()
    }

    /// `jmp rel32` to a place that comes later: to be given to [`Emitter::land_near`] there.
    pub fn jump_ahead(&mut self) -> usize {
        self.bytes(&[0xe9, 0, 0, 0, 0]);
        self.code.len()
    }

    /// The same for `jae rel32`.
    pub fn jae_ahead(&mut self) -> usize {
        self.bytes(&[0x0f, 0x83, 0, 0, 0, 0]);
        self.code.len()
    }

    /// The near branch (of two bytes of opcode) leads to `code`, which stands behind the rest and goes on behind the branch.
    pub fn branch_cold(&mut self, opcode: [u8; 2], code: Vec<u8>) {
        self.bytes(&opcode);
        self.bytes(&[0; 4]);
        self.cold.push(Cold { from: self.code.len(), code });
    }

    /// What was put off.
    pub fn cold(&mut self) {
        for Cold { from, code } in std::mem::take(&mut self.cold) {
            self.land_near(from);
            self.bytes(&code);
            self.jump(self.at + from as u64);
        }
    }

    pub fn has_cold(&self) -> bool {
        !self.cold.is_empty()
    }

    /// Takes back what was written from the offset `to` on.
    pub fn truncate(&mut self, to: usize) {
        self.code.truncate(to);
        self.cold.retain(|cold| cold.from <= to);
    }

    /// The short branch that ends at `from` leads here. False if that is too far.
    pub fn land(&mut self, from: usize) -> bool {
        let distance = i8::try_from(self.code.len() - from);
        distance.map(|distance| self.code[from - 1] = distance as u8).is_ok()
    }

    /// The short branch that ends at `from` leads to the offset `to`. False if that is too far.
    pub fn land_at(&mut self, from: usize, to: usize) -> bool {
        let distance = i8::try_from(to as i64 - from as i64);
        distance.map(|distance| self.code[from - 1] = distance as u8).is_ok()
    }

    /// The near branch that ends at `from` leads here.
    pub fn land_near(&mut self, from: usize) {
        let distance = (self.code.len() - from) as u32;
        self.code[from - 4..from].copy_from_slice(&distance.to_le_bytes());
    }

    /// `jrcxz` back to the offset `to`. False if that is too far.
    pub fn jrcxz_to(&mut self, to: usize) -> bool {
        let displacement = i8::try_from(to as i64 - (self.code.len() as i64 + 2));
        self.bytes(&[0xe3, displacement.unwrap_or_default() as u8]);
        displacement.is_ok()
    }
}
