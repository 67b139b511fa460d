//! System calls of this process without libc.

use std::arch::asm;

use nix::libc;

/// A system call; its result, or the negated error. Does not set errno. Of the memory that its arguments lead to the caller is the owner.
pub(crate) fn call(number: libc::c_long, arguments: [usize; 5]) -> isize {
    let result: isize;
    let [a, b, c, d, e] = arguments;
    // SAFETY: the calls of those who use it write to no memory but to what their arguments point to, which the caller owns.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}
