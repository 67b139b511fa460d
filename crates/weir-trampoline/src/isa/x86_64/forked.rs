//! Generates what a hit of a forked child passes through, whose gates the kernel has wiped, and reads where a thread waits in it.
//!
//! In: where the child's own words are, behind the gates of an island, and the runtime's function that announces the child (`c/forked.c` of
//! weir-rt). Out: a routine that an island's trampolines call, and, of a thread that stands in its wait, the registers with which that
//! thread begins the hit again.
//!
//! ```text
//! child:   movabs $hit,%rcx              ; in the trampoline: where the jump is, and the bytes of the frame above bit 48
//!          call   routine
//! out:     …                             ; unprobed
//!
//! routine: save all that a C function may change, and flags
//! 1:       call   weir_forked            ; 0: run on unprobed
//!          futex(answered, WAIT, …, 20 ms)
//! waiting: jmp    1f; MARK               ; a thread that is stopped here has its registers at rbx
//! 1:       …
//! ```
//!
//! The controller never lets such a thread go on in here: it takes out what the child has inherited, and has the thread begin the hit
//! again in the function ([`registers_at_hit`]). Where it does not come, the routine returns, and the hit is not probed.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, eax, ecx, edx, ptr, qword_ptr, r8, r9, r10, r11, rax, rbx, rcx, rdi, rdx, rsi, rsp,
};
use nix::libc::{self, user_regs_struct};

use crate::isa::x86_64::emitter::{Emitter, RCX, SLOTS};
use crate::isa::x86_64::trampoline::Placement;

/// Bytes of a child's own words (`struct weir_forked` of `c/weir.h`).
pub const WORDS_BYTES: u64 = 32;

/// Bytes of the routine at most.
pub const ROUTINE_BYTES_MAX: usize = 160;

/// How long a thread sleeps at a time.
const SLEEP_NS: i32 = 20_000_000;

/// Behind the wait.
const MARK: u64 = 0x6b72_6f66_7269_6577;

/// From here up there are the bytes of the frame in the word that a trampoline hands over.
const FRAME_SHIFT: u32 = 48;

/// Words that the routine saves, from the last on; above them lie the hit's word and the return address.
const SAVED: [fn(&mut user_regs_struct) -> &mut u64; 10] = [
    |r| &mut r.rbx,
    |r| &mut r.r11,
    |r| &mut r.r10,
    |r| &mut r.r9,
    |r| &mut r.r8,
    |r| &mut r.rdi,
    |r| &mut r.rsi,
    |r| &mut r.rdx,
    |r| &mut r.rax,
    |r| &mut r.eflags,
];

/// What a trampoline does at a gate that is wiped, before it goes on unprobed. `kept`: bytes of the stack above its frame.
pub fn stub(out: &mut Emitter, placement: Placement, kept: i32) {
    out.movabs_rcx(placement.hit | ((out.frame_bytes + kept) as u64) << FRAME_SHIFT);
    out.call(placement.forked);
}

/// The routine. `words`: the child's own, `answered`: the word that a thread waits at, `function`: the runtime's.
pub fn routine(at: u64, words: u64, answered: u64, function: u64) -> Vec<u8> {
    let code = assemble(at, words, answered, function).expect("the routine can be encoded");
    assert!(code.len() <= ROUTINE_BYTES_MAX, "{} bytes", code.len());
    code
}

fn assemble(at: u64, words: u64, answered: u64, function: u64) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let (mut again, mut on, mut done) = (a.create_label(), a.create_label(), a.create_label());
    a.push(rcx)?;
    a.pushfq()?;
    a.cld()?;
    for register in [rax, rdx, rsi, rdi, r8, r9, r10, r11, rbx] {
        a.push(register)?;
    }
    a.mov(rbx, rsp)?;
    a.and(rsp, -16)?;
    a.sub(rsp, 16)?;
    a.set_label(&mut again)?;
    a.mov(rdi, words)?;
    a.call(function)?;
    a.mov(edx, eax)?;
    a.shr(rax, 32)?;
    a.jz(done)?;
    a.mov(qword_ptr(rsp), 0)?;
    a.mov(qword_ptr(rsp + 8), SLEEP_NS)?;
    a.mov(r10, rsp)?;
    a.mov(rdi, answered)?;
    a.xor(ecx, ecx)?;
    a.mov(rsi, rcx)?;
    a.mov(eax, libc::SYS_futex as i32)?;
    a.syscall()?;
    a.jmp(on)?;
    a.dq(&[MARK])?;
    a.set_label(&mut on)?;
    a.jmp(again)?;
    a.set_label(&mut done)?;
    a.mov(rsp, rbx)?;
    for register in [rbx, r11, r10, r9, r8, rdi, rsi, rdx, rax] {
        a.pop(register)?;
    }
    a.popfq()?;
    a.lea(rsp, ptr(rsp + 8))?;
    a.ret()?;
    a.assemble(at)
}

/// Bytes around a thread's program counter by which its wait is known: the call before it, and what stands behind.
const AROUND: [u8; 4] = [0x0f, 0x05, 0xeb, 0x08];

/// Of a stopped thread of a forked child that waits at a hit: its registers at the function, where the hit begins. `read` reads the process's memory.
pub fn registers_at_hit(
    registers: &user_regs_struct,
    read: &dyn Fn(u64, &mut [u8]) -> bool,
) -> Option<user_regs_struct> {
    let mut around = [0; AROUND.len() + 8];
    let is_waiting = read(registers.rip.checked_sub(2)?, &mut around)
        && around[..4] == AROUND
        && around[4..] == MARK.to_le_bytes();
    if !is_waiting {
        return None;
    }
    let mut at = registers.rbx;
    let mut word = || {
        let mut bytes = [0; 8];
        let is_read = read(at, &mut bytes);
        at = at.wrapping_add(8);
        is_read.then_some(u64::from_le_bytes(bytes))
    };
    let mut there = *registers;
    for register in SAVED {
        *register(&mut there) = word()?;
    }
    let (hit, _returns_to) = (word()?, word()?);
    let frame = at;
    let mut saved = [0; 8];
    if !read(frame.wrapping_add(SLOTS[RCX as usize] as u64), &mut saved) {
        return None;
    }
    there.rcx = u64::from_le_bytes(saved);
    there.rsp = frame.wrapping_add(hit >> FRAME_SHIFT);
    there.rip = hit & ((1 << FRAME_SHIFT) - 1);
    // The wait does not begin again there.
    there.orig_rax = u64::MAX;
    Some(there)
}
