//! Generates what keeps the alignment check (EFLAGS.AC) away from programs that may access words at odd addresses.
//!
//! Linux lets threads have such accesses fault (SIGBUS) that set this flag by themselves; next to none do. Records of rings and texts
//! lie at any address, so the flag is off while programs run that touch such, and on again before the thread goes on. Only pushf(q) says
//! whether it is on, and only popf(q) changes it, which is slow: that stands behind the rest.
//!
//! ```text
//!         lahf; seto %al; mov %rax,256(%rsp)      ; as ever (crate::isa::x86_64::trampoline)
//!         pushfq; pop %rcx
//!         test  $0x40000,%ecx
//!         jne   on
//! 1:      call  program
//!         mov   256(%rsp),%rax
//!         add   $127,%al                          ; of 0 or 1: no carry
//!         jb    again
//! 2:      sahf
//!         …
//! on:     orb   $0x82,256(%rsp)
//!         and   $~0x40000,%ecx; push %rcx; popfq
//!         jmp   1b
//! again:  pushfq; orl $0x40000,(%rsp); popfq      ; what it changes besides, sahf and the next one put right
//!         add   $126,%al                          ; overflows as 127 would have before
//!         jmp   2b
//! ```
//!
//! What is read at first is written back, less the flag, so that a thread that somebody steps through is stepped on. A signal handler
//! that comes meanwhile finds the flag off.

use crate::isa::x86_64::emitter::Emitter;

/// Of EFLAGS.
const ALIGNMENT_CHECK: u32 = 1 << 18;
/// In the byte where `seto` has left 0 or 1: the check was on. With 127 it carries, and leaves 1 or 2.
const WAS_ON: u8 = 0x82;

const JNE: [u8; 2] = [0x0f, 0x85];
const JB: [u8; 2] = [0x0f, 0x82];

/// Behind where the flags are saved in `slot`. Uses rcx and the flags.
pub(crate) fn leave_unchecked(out: &mut Emitter, slot: i32) {
    out.bytes(&[0x9c, 0x59, 0xf7, 0xc1]); // pushfq; pop %rcx; test $…,%ecx
    out.bytes(&ALIGNMENT_CHECK.to_le_bytes());
    let mut on = vec![0x80, 0x8c, 0x24]; // orb $…,slot(%rsp)
    on.extend_from_slice(&slot.to_le_bytes());
    on.extend_from_slice(&[WAS_ON, 0x81, 0xe1]); // and $…,%ecx
    on.extend_from_slice(&(!ALIGNMENT_CHECK).to_le_bytes());
    on.extend_from_slice(&[0x51, 0x9d]); // push %rcx; popfq
    out.branch_cold(JNE, on);
}

/// Right behind the addition to what `seto` has left.
pub(crate) fn check_again(out: &mut Emitter) {
    let mut again = vec![0x9c, 0x81, 0x0c, 0x24]; // pushfq; orl $…,(%rsp)
    again.extend_from_slice(&ALIGNMENT_CHECK.to_le_bytes());
    again.extend_from_slice(&[0x9d, 0x04, 0x7e]); // popfq; add $126,%al
    out.branch_cold(JB, again);
}
