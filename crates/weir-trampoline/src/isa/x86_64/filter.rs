//! What runs at the entry of a C library's `prctl` and `syscall`: tells the process's own segment when the call is about to
//! install a system call filter.
//!
//! In: the address of the word in the target (docs/segment.md). Out: a program like those of scripts, so that it is gated
//! as probes are. It looks at what the function was called with, as the frame has it.
//!
//! ```text
//! movabs $word,%rdi
//! lea    8(%rsp),%rsi          ; pt_regs
//! mov    $is_syscall,%edx
//! jmp    weir_filter
//! ```

use weir_rt::{Executable, RelocKind, Relocation, RuntimeFunction, Symbol};

use crate::isa::x86_64::announce::CLOBBERS;

/// Slots of cx, dx, si and di, in which the arguments are passed.
const ARGUMENTS: u32 = 0b1111 << 11;

/// A function through which filters are installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    Prctl,
    Syscall,
}

impl Door {
    pub const ALL: [Door; 2] = [Door::Prctl, Door::Syscall];

    pub fn symbol(self) -> &'static str {
        match self {
            Door::Prctl => "prctl",
            Door::Syscall => "syscall",
        }
    }
}

pub fn executable(word: u64, door: Door) -> Executable {
    let mut code = vec![0x48, 0xbf];
    code.extend(word.to_le_bytes());
    code.extend([0x48, 0x8d, 0x74, 0x24, 0x08]);
    code.push(0xba);
    code.extend(u32::from(door == Door::Syscall).to_le_bytes());
    code.push(0xe9);
    let offset = code.len() as u32;
    code.extend([0; 4]);
    let symbol = Symbol::Runtime(RuntimeFunction::Filter);
    let filter = Relocation { offset, kind: RelocKind::Rel32, symbol, addend: -4 };
    Executable::by_hand("filter", code, vec![filter], CLOBBERS).reading(ARGUMENTS)
}
