//! What a stopped thread has in its registers.

use nix::libc::user_regs_struct;

use crate::process::isa::x86_64::restart;

/// Those of `PTRACE_GETREGS`.
#[derive(Clone, Copy)]
pub(crate) struct Registers(pub(super) user_regs_struct);

impl From<user_regs_struct> for Registers {
    fn from(registers: user_regs_struct) -> Registers {
        Registers(registers)
    }
}

impl From<Registers> for user_regs_struct {
    fn from(registers: Registers) -> user_regs_struct {
        registers.0
    }
}

impl Registers {
    /// Where the thread goes on.
    pub(crate) fn instruction_pointer(&self) -> u64 {
        self.0.rip
    }

    pub(crate) fn with_instruction_pointer(self, at: u64) -> Registers {
        Registers(user_regs_struct { rip: at, ..self.0 })
    }

    /// The number of the system call that it is in, and that begins again when it goes on.
    pub(crate) fn interrupted_call(&self) -> Option<i64> {
        let call = self.0.orig_rax as i64;
        (call >= 0 && restart::begins_again_as(self.0.rax as i64)).then_some(call)
    }

    pub(crate) fn stack_pointer(&self) -> u64 {
        self.0.rsp
    }

    /// Where its thread-local storage is; 0 before that is set up.
    pub(crate) fn thread_pointer(&self) -> u64 {
        self.0.fs_base
    }

    /// All general registers but the stack pointer.
    pub(crate) fn general(&self) -> [u64; 15] {
        let r = &self.0;
        [
            r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
            r.r15,
        ]
    }
}
