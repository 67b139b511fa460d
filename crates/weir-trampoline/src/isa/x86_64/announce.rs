//! The program that runs at the dynamic linker's `r_brk`: it calls the runtime's `weir_announce` (`c/announce.c` of
//! weir-rt), which tells the controller, and waits for it.
//!
//! In: where the words of announcements are, and `r_state`. Out: an executable like any other, so that it is attached,
//! gated and taken out as probes are: it never runs in fork children, or after the controller.
//!
//! ```text
//! movabs $words,%rdi
//! movabs $state,%rsi           ; 0 where nothing is known of it
//! jmp    weir_announce
//! ```

use weir_rt::{Executable, RelocKind, Relocation, RuntimeFunction, Symbol};

/// rax, rcx, rdx, rsi, rdi and r8 to r11: what a C function may change.
pub const CLOBBERS: u16 = 0b1111_1100_0111;

pub fn executable(words: u64, state: Option<u64>) -> Executable {
    let mut code = vec![0x48, 0xbf];
    code.extend(words.to_le_bytes());
    code.extend([0x48, 0xbe]);
    code.extend(state.unwrap_or(0).to_le_bytes());
    code.push(0xe9);
    let offset = code.len() as u32;
    code.extend([0; 4]);
    let symbol = Symbol::Runtime(RuntimeFunction::Announce);
    let announce = Relocation { offset, kind: RelocKind::Rel32, symbol, addend: -4 };
    Executable::by_hand("announce", code, vec![announce], CLOBBERS)
}
