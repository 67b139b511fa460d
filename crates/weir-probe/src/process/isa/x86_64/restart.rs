//! System calls that a stop has interrupted: what the kernel does with each, and what makes it begin one again that would have failed.
//!
//! A thread that is interrupted in a call stops behind it, with what the call returns in `rax`; when it goes on, the kernel looks at `rax`
//! once more (arch/x86/kernel/signal.c). Most calls return a number that means "again, if no handler runs", of which nobody sees anything. Some
//! return EINTR at once, for signal(7)'s reasons, and programs see that a signal came where none did. These get a number of the former kind
//! ([`hidden`]): with it the call begins again, and is EINTR all the same where a handler runs.
//!
//! Not done: the time that a call has waited already is not taken off (the kernel does not say when it began), and what is done in part
//! (a write of half of its bytes) is returned as it is.

use std::fs;

use nix::libc::{self, user_regs_struct};

/// What the kernel keeps to itself (include/linux/errno.h), but for ptrace(2).
const ERESTARTSYS: i64 = -512;
const ERESTARTNOINTR: i64 = -513;
/// Again if no handler runs, else EINTR, also where it has SA_RESTART.
const ERESTARTNOHAND: i64 = -514;
/// Again by restart_syscall(2), which knows for how long.
const ERESTART_RESTARTBLOCK: i64 = -516;

const EINTR: i64 = -(libc::EINTR as i64);

/// User code of 64 bits (arch/x86/include/asm/segment.h): others number their calls in another way.
const USER_CS: u64 = 0x33;

/// With which registers a thread that has just stopped is to go on, if not with these: a call that fails with EINTR for the stop alone
/// begins again. With `is_filtered` restart_syscall(2) is not used, which its seccomp filter may kill it for.
pub(crate) fn hidden(tid: i32, registers: &user_regs_struct, is_filtered: bool) -> Option<user_regs_struct> {
    let number = registers.orig_rax as i64;
    if number < 0 || registers.cs != USER_CS {
        return None;
    }
    let is_seen = match registers.rax as i64 {
        EINTR => begins_again(number) || (moves_bytes(number) && is_socket(tid, registers.rdi)),
        ERESTART_RESTARTBLOCK => is_filtered,
        _ => false,
    };
    is_seen.then_some(user_regs_struct { rax: ERESTARTNOHAND as u64, ..*registers })
}

/// io_pgetevents(2), which libc does not name.
const SYS_IO_PGETEVENTS: i64 = 333;

/// Those that return EINTR and have done nothing then. By experiment: each was stopped and let go on so, with a timeout, a signal that is
/// ignored and one that is handled (`tests/integration/interrupts.rs`).
fn begins_again(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_io_getevents
            | SYS_IO_PGETEVENTS
            | libc::SYS_io_uring_enter
            | libc::SYS_semop
            | libc::SYS_semtimedop
            | libc::SYS_rt_sigtimedwait
            // With SO_RCVTIMEO or SO_SNDTIMEO (include/net/sock.h, sock_intr_errno); without, they return ERESTARTSYS.
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_connect
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
    )
}

/// Those that do the same on sockets with such a timeout. On other files it is the driver that knows what EINTR has left behind.
fn moves_bytes(number: i64) -> bool {
    matches!(number, libc::SYS_read | libc::SYS_readv | libc::SYS_write | libc::SYS_writev)
}

fn is_socket(tid: i32, descriptor: u64) -> bool {
    let link = fs::read_link(format!("/proc/{tid}/fd/{}", descriptor as u32));
    link.is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(b"socket:"))
}

/// Whether what an interrupted call returns means that it begins again.
pub(crate) fn begins_again_as(returned: i64) -> bool {
    matches!(returned, ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND | ERESTART_RESTARTBLOCK)
}

/// The registers with which an interrupted system call is started again, for a signal's frame: what the kernel itself does when a
/// thread goes on at the place where it was interrupted.
pub(crate) fn restarted(mut registers: user_regs_struct) -> user_regs_struct {
    if registers.orig_rax as i64 >= 0 {
        match registers.rax as i64 {
            ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND => {
                registers.rax = registers.orig_rax;
                registers.rip -= 2;
            }
            ERESTART_RESTARTBLOCK => {
                registers.rax = libc::SYS_restart_syscall as u64;
                registers.rip -= 2;
            }
            _ => {}
        }
    }
    registers.orig_rax = u64::MAX;
    registers
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn registers(orig_rax: i64, rax: i64) -> user_regs_struct {
        // SAFETY: all-zero registers are a valid value of this plain structure.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        (registers.orig_rax, registers.rax) = (orig_rax as u64, rax as u64);
        (registers.rip, registers.cs) = (0x1000, USER_CS);
        registers
    }

    fn after_restart(orig_rax: i64, rax: i64) -> (u64, u64) {
        let after = restarted(registers(orig_rax, rax));
        (after.rax, after.rip)
    }

    #[test]
    fn interrupted_calls_start_again() {
        assert_eq!(after_restart(7, -512), (7, 0xffe));
        assert_eq!(after_restart(7, -513), (7, 0xffe));
        assert_eq!(after_restart(7, -514), (7, 0xffe));
        assert_eq!(after_restart(35, -516), (219, 0xffe));
    }

    #[test]
    fn finished_calls_and_plain_code_are_left() {
        assert_eq!(after_restart(7, -4), ((-4i64) as u64, 0x1000));
        assert_eq!(after_restart(-1, -512), ((-512i64) as u64, 0x1000));
    }

    fn own(registers: &user_regs_struct, is_filtered: bool) -> Option<i64> {
        hidden(std::process::id() as i32, registers, is_filtered).map(|hidden| hidden.rax as i64)
    }

    #[test]
    fn a_call_that_returns_eintr_and_has_done_nothing_begins_again() {
        assert_eq!(own(&registers(libc::SYS_epoll_wait, EINTR), false), Some(ERESTARTNOHAND));
        for rax in [-512, -514, -516, 0, 1, -11] {
            assert_eq!(own(&registers(libc::SYS_epoll_wait, rax), false), None, "{rax}");
        }
        // close(2) has closed its descriptor; code that is in no call may have any number.
        assert_eq!(own(&registers(libc::SYS_close, EINTR), false), None);
        assert_eq!(own(&registers(-1, EINTR), false), None);
        // In code of 32 bits the number is another call's.
        let of_32_bits = user_regs_struct { cs: 0x23, ..registers(libc::SYS_epoll_wait, EINTR) };
        assert_eq!(own(&of_32_bits, false), None);
    }

    #[test]
    fn reads_and_writes_begin_again_on_sockets_alone() {
        let (socket, _peer) = UnixStream::pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        for (descriptor, begins) in [(socket.as_raw_fd(), true), (file.as_raw_fd(), false), (-1, false)] {
            let rdi = descriptor as u64;
            let registers = user_regs_struct { rdi, ..registers(libc::SYS_read, EINTR) };
            assert_eq!(own(&registers, false).is_some(), begins, "descriptor {descriptor}");
        }
    }

    #[test]
    fn restart_syscall_is_used_where_no_filter_can_see_it() {
        let sleeping = registers(libc::SYS_nanosleep, ERESTART_RESTARTBLOCK);
        assert_eq!(own(&sleeping, false), None);
        assert_eq!(own(&sleeping, true), Some(ERESTARTNOHAND));
    }
}
