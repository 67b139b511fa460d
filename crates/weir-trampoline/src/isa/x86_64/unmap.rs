//! What runs around system calls that take memory away from the process, so that nothing of it is loaded any more when it goes.
//!
//! In: the address of the words of [`Reads`](weir_rt::segment::Reads) in the target. Out: programs like those of scripts: right
//! before such a call, where all registers but ax are as the kernel gets them; right behind it; and at `r_brk` of the dynamic
//! linker.
//!
//! ```text
//! movabs $words,%rdi
//! lea    8(%rsp),%rsi          ; pt_regs
//! mov    $number,%rdx          ; -1: ax has it
//! jmp    weir_unmapping        ; weir_unmapped, weir_withdraw_reads
//! ```

use weir_rt::{Executable, RelocKind, Relocation, RuntimeFunction, Symbol};

use crate::isa::x86_64::announce::CLOBBERS;

/// Slots of r10, r8, ax, dx, si, di and sp.
const ARGUMENTS: u32 = 1 << 7 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 19;
/// Of ax and sp.
const RESULT: u32 = 1 << 10 | 1 << 19;

/// Before a call; none: the number is in ax.
pub fn before(words: u64, number: Option<u32>) -> Executable {
    let number = number.map_or(-1, |number| number as i32);
    executable("unmapping", words, Some(number), RuntimeFunction::Unmapping).reading(ARGUMENTS)
}

pub fn behind(words: u64) -> Executable {
    executable("unmapped", words, None, RuntimeFunction::Unmapped).reading(RESULT)
}

/// Where libraries come and go.
pub fn at_loads(words: u64) -> Executable {
    executable("loading", words, None, RuntimeFunction::WithdrawReads)
}

fn executable(name: &str, words: u64, number: Option<i32>, function: RuntimeFunction) -> Executable {
    let mut code = vec![0x48, 0xbf];
    code.extend(words.to_le_bytes());
    code.extend([0x48, 0x8d, 0x74, 0x24, 0x08]);
    if let Some(number) = number {
        code.extend([0x48, 0xc7, 0xc2]);
        code.extend(number.to_le_bytes());
    }
    code.push(0xe9);
    let offset = code.len() as u32;
    code.extend([0; 4]);
    let symbol = Symbol::Runtime(function);
    let jump = Relocation { offset, kind: RelocKind::Rel32, symbol, addend: -4 };
    Executable::by_hand(name, code, vec![jump], CLOBBERS)
}
