//! Generates what catches a return by another return address: for functions that are not proved to leave alone what
//! lies above it, so that nothing may be kept there.
//!
//! The trampoline is that of a call-through, which keeps a few words on the stack and calls ([`crate::isa::x86_64::through`]).
//! Here its call leads to [`enter`], which moves them from the stack into a *record*, puts the address of that record's
//! own *stub* where the return address is, and runs the function with its stack as ever. The stub moves everything back,
//! and goes on behind the trampoline's call as if it had been one:
//!
//! ```text
//!        trampoline                     enter                                   function
//! S      return address                 stub of the record                      the same: its caller is the stub
//! S-8    kept (K bytes)           ─▶    (moved into the record)           ─▶    its frame
//! S-K-8  back into the trampoline       (moved too)
//!
//!        leave (from the stub)          trampoline
//! S      return address           ─▶    return address
//! S-8    kept                           kept
//! S-K-8  back ◀─ stack pointer          ◀─ stack pointer, one word higher
//! ```
//!
//! A stub stands behind a call of its own, by which it comes to be the function's return address, so that the
//! processor expects every return that is made here (and a shadow stack of the kernel's would agree):
//!
//! ```text
//! stubs + 16 k:   call  go              ; pushes the address of the next instruction
//!                 jmp   leave
//! go:             jmp   *-8(%rsp)       ; the function's displaced instructions
//! ```
//!
//! | byte of a record | |
//! |---|---|
//! | 0 | S; with 1, a link of a chain; with 2, not filled in yet; 0: free |
//! | 8 | the return address |
//! | 16 | where the trampoline goes on |
//! | 24, 28 | the next link, 0 or its number + 1; how many there are |
//! | 32 | what is kept; byte 38 is its size in words, byte 39 how many programs want the return |
//!
//! - **Which record**: S chooses a set of four. One of the same S belongs to a call that is over, since the word at S is
//!   no stub; else a free one is claimed. Where there is none the return is a counted miss.
//! - **Tail calls**: where the word at S is a stub, its function has ended in a jump to this one. The record is taken
//!   over, and what it held goes into a link: the caller's return address stays where unwinders find it.
//! - **Signals**: a handler that interrupts this works on other places of the stack, so on other records. One that
//!   jumps out of here leaves a record that its S claims again, or that is swept.
//! - **Threads** play no part: a stack may go on, and return, on another one.
//! - **fork**: records are private memory, so each process has its own.
//!
//! Not here: programs that copy stacks elsewhere and use their place for others (Python's greenlet): the calls of one
//! would seem over when another runs. Those are refused (weir-probe).

use std::ops::Range;

use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, al, byte_ptr, dword_ptr, eax, ecx, edi, edx, ptr, qword_ptr, r8, r8b, r9, rax,
    rcx, rdi, rdx, rsi, rsp,
};
use iced_x86::{BlockEncoderOptions, IcedError};

use crate::isa::x86_64::emitter::{Emitter, RCX};
use crate::isa::x86_64::unwind::frames::{Caller, DW_OP_BREG7, Frame, Row, write_sleb};
use crate::limits::{RECORDS, RECORDS_PER_SET, TAIL_DEPTH_MAX};

/// Where records and stubs stand in a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    /// Address of the first record.
    pub records: u64,
    /// Address of the first stub.
    pub stubs: u64,
    /// A record has 2 to this power bytes.
    pub record_shift: u32,
    /// Addresses of the counters of missed returns.
    pub no_record: u64,
    pub tail_depth: u64,
}

/// Bytes of a record before what is kept.
const KEPT: i32 = 32;
/// In what is kept: how many words it has.
const KEPT_WORDS: i32 = 6;
/// And how many programs miss the return where there is no record.
const KEPT_WEIGHT: i32 = 7;
const SLOT: i32 = 0;
const RETURN: i32 = 8;
const BACK: i32 = 16;
const LINK: i32 = 24;
const DEPTH: i32 = 28;

/// Marks of a slot, beside the address.
const IS_LINK: i32 = 1;
const UNFINISHED: i32 = 2;

const STUB_SHIFT: u32 = 4;
const STUB_BYTES: u64 = 1 << STUB_SHIFT;
/// Bytes of the call before each stub.
const CALL_BYTES: u64 = 5;
/// 2⁶⁴ divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// The first record is never used: it says what the table is, for who takes it out after a killed weir.
const MARK: u64 = u64::from_le_bytes(*b"weir-ret");

impl Table {
    /// The power of two that a record has bytes where at most `kept_bytes` are kept.
    pub fn record_shift(kept_bytes: u32) -> u32 {
        (KEPT as u32 + kept_bytes).next_power_of_two().ilog2().max(6)
    }

    pub fn records_bytes(&self) -> u64 {
        u64::from(RECORDS) << self.record_shift
    }

    /// What the segment's header has of it, by which code in the target finds return addresses.
    pub fn place(&self) -> [u64; 4] {
        [self.stubs, u64::from(RECORDS) << STUB_SHIFT, self.records, u64::from(self.record_shift)]
    }

    fn first_stub(&self) -> u64 {
        self.stubs + CALL_BYTES
    }

    fn kept_max(&self) -> i32 {
        (1 << self.record_shift) - KEPT
    }

    /// The first record.
    pub fn first_record(&self) -> Vec<u8> {
        [MARK, self.stubs, u64::from(self.record_shift)].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The table whose records stand at `records`, where `bytes` are mapped, as its first record has it. That memory is the
    /// target's own, and may say anything: nothing is believed but what makes sense.
    pub fn read(records: u64, first_record: &[u8; 24], bytes: u64) -> Option<Table> {
        let word = |at: usize| u64::from_le_bytes(first_record[at..at + 8].try_into().expect("eight bytes"));
        let shift = u32::try_from(word(16)).ok().filter(|shift| (6..=8).contains(shift))?;
        let table = Table { records, stubs: word(8), record_shift: shift, no_record: 0, tail_depth: 0 };
        (word(0) == MARK && table.records_bytes() <= bytes).then_some(table)
    }

    /// Of `records`, the bytes of all: the place of the return address and the stub of each that waits for one, by offset.
    pub fn waiting<'a>(&'a self, records: &'a [u8]) -> impl Iterator<Item = (usize, u64, u64)> + 'a {
        let word = |record: &[u8], at: usize| {
            u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
        };
        let each = records.chunks_exact(1 << self.record_shift).enumerate().skip(1);
        each.filter_map(move |(number, record)| {
            let slot = word(record, SLOT as usize);
            let is_head = slot != 0 && slot & (IS_LINK | UNFINISHED) as u64 == 0;
            is_head
                .then(|| (number << self.record_shift, slot, self.first_stub() + number as u64 * STUB_BYTES))
        })
    }

    /// Where the trampolines go on that wait in the chain of the record at an offset of `records`.
    pub fn backs<'a>(&'a self, records: &'a [u8], at: usize) -> impl Iterator<Item = u64> + 'a {
        let word = |at: usize| records.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        self.chain(records, at).filter_map(move |at| word(at + BACK as usize))
    }

    /// Offsets of the records in the chain of that at offset `at` of `records`, itself first.
    pub fn chain<'a>(&'a self, records: &'a [u8], at: usize) -> impl Iterator<Item = usize> + 'a {
        let head = |at: usize| records.get(at..at + KEPT as usize);
        let next = move |&at: &usize| {
            let link = head(at)?[LINK as usize..][..4].try_into().expect("four bytes");
            let number = u32::from_le_bytes(link).checked_sub(1).filter(|&number| number > 0)?;
            Some((number as usize) << self.record_shift)
        };
        // As long as tail calls nest; whatever the target has written there, it ends.
        let chain = std::iter::successors(Some(at), next).take(usize::from(TAIL_DEPTH_MAX) + 1);
        chain.take_while(move |&at| head(at).is_some())
    }

    /// The code behind the stubs, which frees records.
    pub fn leave(&self) -> Range<u64> {
        self.stubs + u64::from(RECORDS) * STUB_BYTES..self.records
    }

    /// Address of the record whose stub `word` is.
    pub fn record_of(&self, word: u64) -> Option<u64> {
        let offset = word.wrapping_sub(self.first_stub());
        let number = offset / STUB_BYTES;
        let is_stub = offset.is_multiple_of(STUB_BYTES) && (1..u64::from(RECORDS)).contains(&number);
        is_stub.then(|| self.records + (number << self.record_shift))
    }

    /// What a record holds, by its first bytes, if it is in use.
    pub fn held(&self, bytes: &[u8; HELD_RECORD_BYTES]) -> Option<Held> {
        let word = |at: i32| {
            u64::from_le_bytes(bytes[at as usize..at as usize + 8].try_into().expect("eight bytes"))
        };
        let slot = word(SLOT);
        let next = u64::from(word(LINK) as u32).checked_sub(1);
        let next = next.filter(|number| (1..u64::from(RECORDS)).contains(number));
        (slot != 0 && slot & UNFINISHED as u64 == 0).then(|| Held {
            slot: slot & !7,
            back: word(BACK),
            next: next.map(|number| self.records + (number << self.record_shift)),
            kept: bytes[KEPT as usize..].try_into().expect("the rest of it"),
        })
    }

    /// How much a record's number is shifted to that of a stub's byte.
    fn scale(&self) -> u32 {
        self.record_shift - STUB_SHIFT
    }
}

/// Bytes of what is kept that are read.
const HELD_BYTES: usize = 24;
/// And of the record, up to those.
pub const HELD_RECORD_BYTES: usize = KEPT as usize + HELD_BYTES;

/// What a record holds.
#[derive(Debug)]
pub struct Held {
    /// Where the return address was.
    pub slot: u64,
    /// Where the trampoline goes on.
    pub back: u64,
    /// Address of the record of the function that ended in a jump to this one.
    pub next: Option<u64>,
    /// The first bytes of what is kept.
    pub kept: [u8; HELD_BYTES],
}

/// Bytes of all stubs and of the code behind them.
pub const STUBS_BYTES_MAX: u64 = RECORDS as u64 * STUB_BYTES + 1024;

/// Descriptions of them for unwinders.
pub const FRAMES: usize = 3;

/// The stubs and what they lead to, for `table.stubs`; with how to unwind through them.
pub fn stubs(table: &Table) -> (Vec<u8>, Vec<Frame>) {
    assemble_stubs(table).expect("stubs can be encoded")
}

/// What a trampoline's call leads to, for address `at`, and then goes on at `function`; `common` is the address of
/// [`enter`] in the same island. No register and no flag is changed.
pub fn thunk(at: u64, function: u64, common: u64) -> Vec<u8> {
    let mut code = vec![0x51, 0x51]; // push %rcx, twice: the second one saves it
    let displacement = |length: usize, to: u64| {
        let next = at + length as u64 + 4;
        let distance = i32::try_from(to.wrapping_sub(next) as i64);
        distance.expect("an island lies within reach of its own parts").to_le_bytes()
    };
    code.extend_from_slice(&[0x48, 0x8d, 0x0d]); // lea function(%rip),%rcx
    code.extend_from_slice(&displacement(code.len(), function));
    code.extend_from_slice(&[0x48, 0x89, 0x4c, 0x24, 8, 0xe9]); // mov %rcx,8(%rsp); jmp common
    code.extend_from_slice(&displacement(code.len(), common));
    code
}

/// Puts into `slot` the return address that the stub there stands for, if it is one. Uses rax, rcx and the flags.
pub fn find_return(out: &mut Emitter, table: &Table, slot: i32) {
    out.load(RCX, slot);
    out.bytes(&[0x48, 0xb8]); // movabs $stubs,%rax
    out.bytes(&table.first_stub().to_le_bytes());
    out.bytes(&[0x48, 0x29, 0xc1]); // sub %rax,%rcx
    out.bytes(&[0x48, 0x81, 0xf9]); // cmp $bytes,%rcx
    out.bytes(&(RECORDS << STUB_SHIFT).to_le_bytes());
    let other = out.jae_ahead();
    out.bytes(&[0x48, 0xc1, 0xe1, table.scale() as u8]); // shl $scale,%rcx
    out.bytes(&[0x48, 0xb8]); // movabs $return,%rax
    out.bytes(&(table.records + RETURN as u64).to_le_bytes());
    out.bytes(&[0x48, 0x8b, 0x0c, 0x08]); // mov (%rax,%rcx),%rcx
    out.store(RCX, slot);
    out.land_near(other);
}

/// Bytes of the thunk of one site.
pub const THUNK_BYTES_MAX: usize = 32;
/// Bytes of the common part of an island.
pub const ENTER_BYTES_MAX: usize = 768;

/// The common part of an island, for address `at`.
pub fn enter(table: &Table, at: u64) -> Vec<u8> {
    let code = assemble_enter(table, at).expect("it can be encoded");
    assert!(code.len() <= ENTER_BYTES_MAX, "{} bytes", code.len());
    code
}

/// Registers and flags that `enter` saves, from the stack pointer on; above them what the thunk has pushed.
const SAVED: i32 = 56;
/// From the stack pointer of `enter`: rcx, where the function goes on, where the trampoline does, and what is kept.
const PUSHED_RCX: i32 = SAVED;
const FUNCTION: i32 = SAVED + 8;
const PUSHED_BACK: i32 = SAVED + 16;
const PUSHED_KEPT: i32 = SAVED + 24;

fn assemble_enter(table: &Table, at: u64) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let mut claim = a.create_label();
    let (mut chain, mut fill, mut too_deep, mut none, mut missed) =
        (a.create_label(), a.create_label(), a.create_label(), a.create_label(), a.create_label());
    a.lea(rsp, ptr(rsp - SAVED))?;
    a.mov(qword_ptr(rsp + 48), rax)?;
    a.lahf()?;
    a.seto(al)?;
    a.mov(qword_ptr(rsp + 40), rax)?;
    for (slot, register) in [(32, rdx), (24, rsi), (16, rdi), (8, r8), (0, r9)] {
        a.mov(qword_ptr(rsp + slot), register)?;
    }
    a.movzx(edx, byte_ptr(rsp + PUSHED_KEPT + KEPT_WORDS))?;
    a.lea(rsi, ptr(rsp + rdx * 8 + PUSHED_KEPT))?; // S
    a.mov(rax, qword_ptr(rsi))?;
    a.mov(rcx, table.first_stub())?;
    a.sub(rax, rcx)?;
    a.cmp(rax, (u64::from(RECORDS) << STUB_SHIFT) as i32)?;
    a.jb(chain)?;
    // A call: the record of its place, or a free one.
    a.lea(rdi, ptr(rsi + UNFINISHED))?;
    a.mov(rax, rsi)?;
    a.call(claim)?;
    a.test(rdi, rdi)?;
    a.jz(none)?;
    a.mov(rax, qword_ptr(rsi))?;
    a.mov(qword_ptr(rdi + RETURN), rax)?;
    a.mov(qword_ptr(rdi + LINK), 0)?;
    a.set_label(&mut fill)?;
    a.mov(rax, qword_ptr(rsp + PUSHED_BACK))?;
    a.mov(qword_ptr(rdi + BACK), rax)?;
    let mut word = a.create_label();
    a.set_label(&mut word)?;
    a.mov(rax, qword_ptr(rsp + rdx * 8 + PUSHED_KEPT - 8))?;
    a.mov(qword_ptr(rdi + rdx * 8 + KEPT - 8), rax)?;
    a.dec(edx)?;
    a.jnz(word)?;
    a.mov(rcx, rdi)?;
    a.mov(rax, table.records)?;
    a.sub(rcx, rax)?;
    a.shr(rcx, table.scale())?;
    a.mov(rax, table.stubs)?;
    a.add(rcx, rax)?;
    a.lea(rax, ptr(rcx + CALL_BYTES as i32))?;
    a.mov(qword_ptr(rsi), rax)?;
    a.mov(qword_ptr(rdi), rsi)?;
    // Below S nothing is in use any more; a signal leaves 128 bytes below the stack pointer alone.
    a.mov(rax, qword_ptr(rsp + FUNCTION))?;
    a.mov(qword_ptr(rsi - 8), rax)?;
    a.mov(qword_ptr(rsi - 16), rcx)?;
    a.lea(rax, ptr(rsi + 8))?;
    a.mov(qword_ptr(rsp + FUNCTION), rax)?;
    leave_enter(&mut a)?;
    a.jmp(qword_ptr(rsp - 24))?;

    // A tail call: what the record holds goes into a link.
    a.set_label(&mut chain)?;
    a.shl(rax, table.scale())?;
    a.mov(r9, table.records)?;
    a.add(r9, rax)?;
    a.mov(eax, dword_ptr(r9 + DEPTH))?;
    a.cmp(eax, i32::from(TAIL_DEPTH_MAX))?;
    a.jae(too_deep)?;
    a.inc(eax)?;
    a.shl(eax, 6)?;
    a.add(rax, rsi)?;
    a.lea(rdi, ptr(rsi + (IS_LINK | UNFINISHED)))?;
    a.call(claim)?;
    a.test(rdi, rdi)?;
    a.jz(none)?;
    move_link(&mut a, r9, rdi)?;
    a.mov(rax, rdi)?;
    a.mov(rcx, table.records)?;
    a.sub(rax, rcx)?;
    a.shr(rax, table.record_shift)?;
    a.inc(eax)?;
    a.mov(dword_ptr(r9 + LINK), eax)?;
    a.inc(dword_ptr(r9 + DEPTH))?;
    a.lea(rax, ptr(rsi + IS_LINK))?;
    a.mov(qword_ptr(rdi), rax)?;
    a.mov(rdi, r9)?;
    a.jmp(fill)?;

    // The function runs as ever, and its return is missed.
    a.set_label(&mut too_deep)?;
    a.mov(rcx, table.tail_depth)?;
    a.jmp(missed)?;
    a.set_label(&mut none)?;
    a.mov(rcx, table.no_record)?;
    a.set_label(&mut missed)?;
    a.movzx(eax, byte_ptr(rsp + PUSHED_KEPT + KEPT_WEIGHT))?;
    a.lock().add(qword_ptr(rcx), rax)?;
    a.mov(rax, qword_ptr(rsp + FUNCTION))?;
    a.mov(qword_ptr(rsi - 8), rax)?;
    a.mov(qword_ptr(rsp + FUNCTION), rsi)?;
    leave_enter(&mut a)?;
    a.jmp(qword_ptr(rsp - 8))?;

    assemble_claim(&mut a, table, &mut claim)?;
    a.assemble(at)
}

/// Gives everything back that `enter` has saved, and takes the stack pointer from where the function was.
fn leave_enter(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, qword_ptr(rsp + 40))?;
    a.add(al, 127)?;
    a.sahf()?;
    for (slot, register) in [(48, rax), (32, rdx), (24, rsi), (16, rdi), (8, r8), (0, r9), (PUSHED_RCX, rcx)]
    {
        a.mov(register, qword_ptr(rsp + slot))?;
    }
    a.mov(rsp, qword_ptr(rsp + FUNCTION))
}

/// In: rdi, what the slot is to hold, and rax, what is hashed. Out: rdi, the record, or 0. Uses rax, rcx and r8.
fn assemble_claim(a: &mut CodeAssembler, table: &Table, claim: &mut CodeLabel) -> Result<(), IcedError> {
    let stride = 1 << table.record_shift;
    let all = RECORDS_PER_SET as i32 * stride;
    let sets_log2 = (RECORDS / RECORDS_PER_SET).ilog2();
    let (mut own, mut free, mut each_free, mut next_free, mut got) =
        (a.create_label(), a.create_label(), a.create_label(), a.create_label(), a.create_label());
    let (mut same, mut unlink) = (a.create_label(), a.create_label());
    a.set_label(claim)?;
    a.mov(r8, rdi)?;
    a.shr(rax, 3)?;
    a.mov(rcx, GOLDEN)?;
    a.imul_2(rax, rcx)?;
    a.shr(rax, 64 - sets_log2)?;
    a.shl(rax, table.record_shift + RECORDS_PER_SET.ilog2())?;
    a.mov(rdi, table.records)?;
    a.add(rdi, rax)?;
    a.test(r8b, IS_LINK)?;
    a.mov(ecx, RECORDS_PER_SET)?;
    a.jnz(each_free)?;
    a.set_label(&mut own)?;
    a.mov(rax, qword_ptr(rdi + SLOT))?;
    a.xor(rax, r8)?;
    a.test(rax, !UNFINISHED)?;
    a.jz(same)?;
    a.add(rdi, stride)?;
    a.dec(ecx)?;
    a.jnz(own)?;
    a.set_label(&mut free)?;
    a.sub(rdi, all)?;
    a.mov(ecx, RECORDS_PER_SET)?;
    a.set_label(&mut each_free)?;
    a.xor(eax, eax)?;
    a.cmp(qword_ptr(rdi + SLOT), 0)?;
    a.jne(next_free)?;
    a.lock().cmpxchg(qword_ptr(rdi + SLOT), r8)?;
    a.je(got)?;
    a.set_label(&mut next_free)?;
    a.add(rdi, stride)?;
    a.dec(ecx)?;
    a.jnz(each_free)?;
    a.xor(edi, edi)?;
    a.ret()?;
    // The call that had it is over, and so are those that led to it by tail calls.
    a.set_label(&mut same)?;
    a.mov(qword_ptr(rdi + SLOT), r8)?;
    a.mov(ecx, dword_ptr(rdi + LINK))?;
    a.set_label(&mut unlink)?;
    a.test(ecx, ecx)?;
    a.jz(got)?;
    a.dec(ecx)?;
    a.shl(rcx, table.record_shift)?;
    a.mov(rax, table.records)?;
    a.add(rax, rcx)?;
    a.mov(ecx, dword_ptr(rax + LINK))?;
    a.mov(qword_ptr(rax + SLOT), 0)?;
    a.jmp(unlink)?;
    a.set_label(&mut got)?;
    a.ret()
}

type Register = iced_x86::code_asm::AsmRegister64;

/// Copies what belongs to one function from a record to another: where its trampoline goes on, what it keeps, and the
/// next link. Uses rax and rcx.
fn move_link(a: &mut CodeAssembler, from: Register, to: Register) -> Result<(), IcedError> {
    let mut word = a.create_label();
    a.mov(rax, qword_ptr(from + BACK))?;
    a.mov(qword_ptr(to + BACK), rax)?;
    a.mov(eax, dword_ptr(from + LINK))?;
    a.mov(dword_ptr(to + LINK), eax)?;
    a.movzx(ecx, byte_ptr(from + KEPT + KEPT_WORDS))?;
    a.set_label(&mut word)?;
    a.mov(rax, qword_ptr(from + rcx * 8 + KEPT - 8))?;
    a.mov(qword_ptr(to + rcx * 8 + KEPT - 8), rax)?;
    a.dec(ecx)?;
    a.jnz(word)
}

fn assemble_stubs(table: &Table) -> Result<(Vec<u8>, Vec<Frame>), IcedError> {
    let (leave, parts) = assemble_leave(table)?;
    let end = table.stubs + u64::from(RECORDS) * STUB_BYTES;
    let go = end + leave.len() as u64;
    let mut code = Vec::with_capacity(STUBS_BYTES_MAX as usize);
    for stub in (table.stubs..end).step_by(STUB_BYTES as usize) {
        code.push(0xe8);
        code.extend_from_slice(&((go - (stub + 5)) as u32).to_le_bytes());
        code.push(0xe9);
        code.extend_from_slice(&((end - (stub + 10)) as u32).to_le_bytes());
        code.resize(code.len() + STUB_BYTES as usize - 10, 0xcc);
    }
    code.extend_from_slice(&leave);
    code.extend_from_slice(&[0xff, 0x64, 0x24, 0xf8]); // go: jmp *-8(%rsp)
    let in_record =
        |above| Caller::InRecord { above_stack_pointer: above, address: address_of_return(table, above) };
    let [lowered, returned, last] = parts.map(u64::from);
    let room = room(table) as u32;
    let rows = vec![
        Row { offset: 0, above_stack_pointer: room - 8 },
        Row { offset: (last - returned) as u32, above_stack_pointer: 0 },
    ];
    let frames = vec![
        Frame { code: table.stubs..end + lowered, caller: in_record(0) },
        Frame { code: end + lowered..end + returned, caller: in_record(room) },
        Frame { code: end + returned..go, caller: Caller::OnStack(rows) },
    ];
    Ok((code, frames))
}

/// Bytes that `leave` takes below the stack pointer of the caller: the return address, what is kept, where the trampoline
/// goes on, and what it saves.
fn room(table: &Table) -> i32 {
    8 + table.kept_max() + 8 + 64
}

/// The code behind the stubs, and offsets in it: where the stack pointer is lowered, where the return address is back in
/// its place, and the last instruction.
fn assemble_leave(table: &Table) -> Result<(Vec<u8>, [u32; 3]), IcedError> {
    const SAVED: [(i32, Register); 4] = [(16, rcx), (24, rdx), (32, rsi), (40, rdi)];
    const BACK_SLOT: i32 = 48;
    let at = table.stubs + u64::from(RECORDS) * STUB_BYTES;
    let room = room(table);
    let mut a = CodeAssembler::new(64)?;
    let (mut lowered, mut direct, mut returned, mut out, mut last) =
        (a.create_label(), a.create_label(), a.create_label(), a.create_label(), a.create_label());
    a.lea(rsp, ptr(rsp - room))?;
    a.set_label(&mut lowered)?;
    a.mov(qword_ptr(rsp), rax)?;
    a.lahf()?;
    a.seto(al)?;
    a.mov(qword_ptr(rsp + 8), rax)?;
    for (slot, register) in SAVED {
        a.mov(qword_ptr(rsp + slot), register)?;
    }
    a.lea(rsi, ptr(rsp + room - 8))?; // S, where `ret` has left the address of the stub
    a.mov(rdi, qword_ptr(rsi))?;
    a.mov(rax, table.first_stub())?;
    a.sub(rdi, rax)?;
    a.shl(rdi, table.scale())?;
    a.mov(rax, table.records)?;
    a.add(rdi, rax)?;
    a.movzx(edx, byte_ptr(rdi + KEPT + KEPT_WORDS))?;
    a.lea(rax, ptr(rdx * 8))?;
    a.mov(rcx, rsi)?;
    a.sub(rcx, rax)?;
    a.mov(rax, qword_ptr(rdi + BACK))?;
    a.mov(qword_ptr(rcx - 8), rax)?;
    a.lea(rax, ptr(rcx - 8))?;
    a.mov(qword_ptr(rsp + BACK_SLOT), rax)?;
    let mut word = a.create_label();
    a.set_label(&mut word)?;
    a.mov(rax, qword_ptr(rdi + rdx * 8 + KEPT - 8))?;
    a.mov(qword_ptr(rcx + rdx * 8 - 8), rax)?;
    a.dec(edx)?;
    a.jnz(word)?;
    a.mov(edx, dword_ptr(rdi + LINK))?;
    a.test(edx, edx)?;
    a.jz(direct)?;
    // The caller's trampoline returns to the stub once more, and that is then the one of the function before.
    a.dec(edx)?;
    a.shl(rdx, table.record_shift)?;
    a.mov(rax, table.records)?;
    a.add(rdx, rax)?;
    move_link(&mut a, rdx, rdi)?;
    a.dec(dword_ptr(rdi + DEPTH))?;
    a.mov(qword_ptr(rdx + SLOT), 0)?;
    a.jmp(out)?;
    a.set_label(&mut direct)?;
    a.mov(rax, qword_ptr(rdi + RETURN))?;
    a.mov(qword_ptr(rsi), rax)?;
    a.set_label(&mut returned)?;
    a.mov(qword_ptr(rdi + SLOT), 0)?;
    a.set_label(&mut out)?;
    a.mov(rax, qword_ptr(rsp + 8))?;
    a.add(al, 127)?;
    a.sahf()?;
    a.mov(rax, qword_ptr(rsp))?;
    for (slot, register) in SAVED {
        a.mov(register, qword_ptr(rsp + slot))?;
    }
    a.mov(rsp, qword_ptr(rsp + BACK_SLOT))?;
    a.set_label(&mut last)?;
    a.ret()?;
    let assembled = a.assemble_options(at, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS)?;
    let mut offsets = [0; 3];
    for (offset, label) in offsets.iter_mut().zip([&lowered, &returned, &last]) {
        *offset = (assembled.label_ip(label)? - at) as u32;
    }
    Ok((assembled.inner.code_buffer, offsets))
}

/// Where the return address is that the word right below the caller's stack pointer, a stub, stands for: the records lie
/// as the stubs do.
fn address_of_return(table: &Table, above_stack_pointer: u32) -> Vec<u8> {
    const DW_OP_CONST8U: u8 = 0x0e;
    const DW_OP_DEREF: u8 = 0x06;
    const DW_OP_MINUS: u8 = 0x1c;
    const DW_OP_PLUS: u8 = 0x22;
    const DW_OP_SHL: u8 = 0x24;
    const DW_OP_LIT0: u8 = 0x30;
    let mut out = vec![DW_OP_BREG7];
    write_sleb(&mut out, i64::from(above_stack_pointer) - 8);
    out.extend_from_slice(&[DW_OP_DEREF, DW_OP_CONST8U]);
    out.extend_from_slice(&table.first_stub().to_le_bytes());
    out.extend_from_slice(&[DW_OP_MINUS, DW_OP_LIT0 + table.scale() as u8, DW_OP_SHL, DW_OP_CONST8U]);
    out.extend_from_slice(&(table.records + RETURN as u64).to_le_bytes());
    out.push(DW_OP_PLUS);
    out
}

const _: () = assert!(RECORDS.is_power_of_two() && RECORDS_PER_SET.is_power_of_two());
