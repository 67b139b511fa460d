//! System calls made in the target, on one of its stopped threads, without a trace in it if this process dies.
//!
//! The thread is pointed at a `syscall; ret` of its own text, with a stack below its red zone that begins
//!
//! ```text
//! base + 0     address of the target's own `mov $15,%rax; syscall` (rt_sigreturn), where `ret` goes
//! base + 8     ucontext: every register as it was, restart codes rewritten; blocked signals; pointer to
//! ...          the extended state (XSAVE), as it was
//! ```
//!
//! so that whenever the tracer vanishes, the kernel lets the thread run on: it finishes the call, returns into
//! rt_sigreturn and is where it was. While the tracer lives it stops the thread at the call's exit, takes the
//! result, and puts the registers back itself. All signals are blocked during a call (the frame has the right
//! mask), so none is delivered on the borrowed stack.

use std::io;

use nix::libc::user_regs_struct;
use weir_symbols::maps::Mapping;

use crate::limits;
use crate::refusal::Error;
use crate::stop::Stopped;
use crate::sys::{self, Memory, SyscallStop};

/// Where the target's own text has the two instruction sequences that remote calls need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gadgets {
    /// `syscall; ret`
    syscall: u64,
    /// `mov $15,%rax` or `mov $15,%eax`, then `syscall`
    sigreturn: u64,
}

impl Gadgets {
    /// Searches the executable mappings of files (and the vDSO), ld.so and libc among them.
    pub(crate) fn find(pid: i32, memory: &Memory, mappings: &[Mapping]) -> Result<Gadgets, Error> {
        const SYSCALL_RET: &[u8] = &[0x0f, 0x05, 0xc3];
        const SIGRETURN: [&[u8]; 2] =
            [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];
        let (mut syscall, mut sigreturn) = (None, None);
        for mapping in mappings.iter().filter(|mapping| mapping.execute && mapping.path != "[vsyscall]") {
            let mut text = vec![0; (mapping.end.0 - mapping.start.0) as usize];
            let Ok(length) = memory.read_some(mapping.start.0, &mut text) else { continue };
            let find = |needle: &[u8]| {
                text[..length]
                    .windows(needle.len())
                    .position(|window| window == needle)
                    .map(|at| mapping.start.0 + at as u64)
            };
            syscall = syscall.or_else(|| find(SYSCALL_RET));
            sigreturn = sigreturn.or_else(|| SIGRETURN.iter().find_map(|needle| find(needle)));
            if let (Some(syscall), Some(sigreturn)) = (syscall, sigreturn) {
                return Ok(Gadgets { syscall, sigreturn });
            }
        }
        Err(Error::NoGadget { pid })
    }
}

/// One thread, borrowed for remote calls. The registers go back when this is finished or dropped.
#[derive(Debug)]
pub(crate) struct Borrowed<'a> {
    stopped: &'a mut Stopped,
    tid: i32,
    gadgets: Gadgets,
    base: u64,
    original: user_regs_struct,
    original_mask: u64,
}

/// `si_code`-less part of the kernel's `struct ucontext` for x86-64 (asm/ucontext.h, asm/sigcontext.h).
const UCONTEXT_BYTES: usize = 304;
/// Byte offset in the XSAVE area that the kernel's `struct _fpx_sw_bytes` takes over in a signal frame.
const FPX_SW_BYTES: usize = 464;
/// `UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS`.
const UC_FLAGS: u64 = 1 | 2 | 4;
const SS_DISABLE: u32 = 2;

impl<'a> Borrowed<'a> {
    /// Borrows the first thread that has the stack for it.
    pub(crate) fn new(
        stopped: &'a mut Stopped,
        memory: &Memory,
        gadgets: Gadgets,
        mappings: &[Mapping],
    ) -> Result<Borrowed<'a>, Error> {
        let pid = stopped.pid();
        let candidates: Vec<i32> = stopped.threads().collect();
        for tid in candidates {
            let original = restarted(stopped.registers(tid)?);
            let top = original.rsp.saturating_sub(128);
            let has_room = mappings.iter().any(|mapping| {
                mapping.write
                    && mapping.start.0 <= top.saturating_sub(limits::REMOTE_STACK_BYTES)
                    && top <= mapping.end.0
            });
            if !has_room {
                continue;
            }
            let original_mask =
                sys::signal_mask(tid).map_err(|source| Error::system("PTRACE_GETSIGMASK", source))?;
            let base = write_frame(tid, memory, gadgets, &original, original_mask)?;
            sys::set_signal_mask(tid, !0).map_err(|source| Error::system("PTRACE_SETSIGMASK", source))?;
            return Ok(Borrowed { stopped, tid, gadgets, base, original, original_mask });
        }
        Err(Error::NoStack { pid, bytes: limits::REMOTE_STACK_BYTES })
    }

    /// Makes system call `number` in the target. A result in -4095..0 is an error.
    pub(crate) fn call(
        &mut self,
        name: &'static str,
        number: i64,
        arguments: [u64; 6],
    ) -> Result<u64, Error> {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let registers = user_regs_struct {
            rip: self.gadgets.syscall,
            rsp: self.base,
            rax: number as u64,
            orig_rax: u64::MAX,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..self.original
        };
        self.stopped.set_registers(self.tid, registers)?;
        let result = loop {
            self.stopped.run_to_syscall(self.tid)?;
            let stop = sys::syscall_stop(self.tid)
                .map_err(|source| Error::system("PTRACE_GET_SYSCALL_INFO", source))?;
            if let SyscallStop::Exit { result } = stop {
                break result;
            }
        };
        if (-4095..0).contains(&result) {
            let source = io::Error::from_raw_os_error(-result as i32);
            return Err(Error::Remote { pid: self.stopped.pid(), call: name, source });
        }
        Ok(result as u64)
    }

    /// Bytes of the borrowed stack below the frame, for arguments in memory: their address.
    pub(crate) fn put(&self, memory: &Memory, bytes: &[u8]) -> Result<u64, Error> {
        let address = (self.base - 1024 - bytes.len() as u64) & !15;
        memory
            .write(address, bytes)
            .map_err(|source| Error::system("writing arguments of a remote call", source))?;
        Ok(address)
    }

    /// The thread is as it was before.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let result = self.put_back();
        std::mem::forget(self);
        result
    }

    fn put_back(&self) -> Result<(), Error> {
        self.stopped.set_registers(self.tid, self.original)?;
        sys::set_signal_mask(self.tid, self.original_mask)
            .map_err(|source| Error::system("PTRACE_SETSIGMASK", source))
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        // Fails only if the thread has ended.
        let _ = self.put_back();
    }
}

/// The registers with which an interrupted system call is started again: what the kernel itself would do when the
/// thread goes on (arch/x86/kernel/signal.c), done here because other calls come in between.
fn restarted(mut registers: user_regs_struct) -> user_regs_struct {
    const ERESTARTSYS: i64 = -512;
    const ERESTARTNOINTR: i64 = -513;
    const ERESTARTNOHAND: i64 = -514;
    const ERESTART_RESTARTBLOCK: i64 = -516;
    const RESTART_SYSCALL: u64 = 219;
    if registers.orig_rax as i64 >= 0 {
        match registers.rax as i64 {
            ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND => {
                registers.rax = registers.orig_rax;
                registers.rip -= 2;
            }
            ERESTART_RESTARTBLOCK => {
                registers.rax = RESTART_SYSCALL;
                registers.rip -= 2;
            }
            _ => {}
        }
    }
    registers.orig_rax = u64::MAX;
    registers
}

/// Writes the frame described in the header; its address.
fn write_frame(
    tid: i32,
    memory: &Memory,
    gadgets: Gadgets,
    registers: &user_regs_struct,
    mask: u64,
) -> Result<u64, Error> {
    let state = signal_frame_state(
        sys::extended_state(tid).map_err(|source| Error::system("PTRACE_GETREGSET", source))?,
    );
    let state_at = (registers.rsp - 128 - state.len() as u64) & !63;
    // rt_sigreturn finds the frame at rsp - 8, after `ret` took the return address; `base` is 8 mod 16 as at any
    // function's entry.
    let base = ((state_at - 512) & !15) - 8;
    let mut frame = Vec::with_capacity(8 + UCONTEXT_BYTES);
    let mut word = |value: u64| frame.extend_from_slice(&value.to_le_bytes());
    word(gadgets.sigreturn);
    word(UC_FLAGS);
    word(0); // uc_link
    word(0); // uc_stack.ss_sp
    word(u64::from(SS_DISABLE));
    word(0); // uc_stack.ss_size
    let r = registers;
    for value in [r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx] {
        word(value);
    }
    for value in [r.rax, r.rcx, r.rsp, r.rip, r.eflags, r.cs | r.ss << 48, 0, 0, 0, 0] {
        word(value); // the last four: err, trapno, oldmask, cr2
    }
    word(state_at); // fpstate
    for _ in 0..8 {
        word(0); // reserved
    }
    word(mask);
    memory
        .write(state_at, &state)
        .map_err(|source| Error::system("writing the frame of a remote call", source))?;
    memory
        .write(base, &frame)
        .map_err(|source| Error::system("writing the frame of a remote call", source))?;
    Ok(base)
}

/// The XSAVE area as rt_sigreturn wants it: with its sizes and magic numbers filled in (asm/sigcontext.h).
fn signal_frame_state(mut state: Vec<u8>) -> Vec<u8> {
    const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
    const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
    let bytes = state.len() as u32;
    let mut put = |at: usize, value: &[u8]| state[at..at + value.len()].copy_from_slice(value);
    put(FPX_SW_BYTES, &FP_XSTATE_MAGIC1.to_le_bytes());
    put(FPX_SW_BYTES + 4, &(bytes + 4).to_le_bytes());
    put(FPX_SW_BYTES + 8, &sys::enabled_state_components().to_le_bytes());
    put(FPX_SW_BYTES + 16, &bytes.to_le_bytes());
    state.extend_from_slice(&FP_XSTATE_MAGIC2.to_le_bytes());
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(orig_rax: i64, rax: i64) -> (u64, u64) {
        // SAFETY: all-zero registers are a valid value of this plain structure.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        (registers.orig_rax, registers.rax, registers.rip) = (orig_rax as u64, rax as u64, 0x1000);
        let after = restarted(registers);
        (after.rax, after.rip)
    }

    #[test]
    fn interrupted_calls_start_again() {
        assert_eq!(registers(7, -512), (7, 0xffe));
        assert_eq!(registers(7, -513), (7, 0xffe));
        assert_eq!(registers(7, -514), (7, 0xffe));
        assert_eq!(registers(35, -516), (219, 0xffe));
    }

    #[test]
    fn finished_calls_and_plain_code_are_left() {
        assert_eq!(registers(7, -4), ((-4i64) as u64, 0x1000));
        assert_eq!(registers(-1, -512), ((-512i64) as u64, 0x1000));
    }
}
