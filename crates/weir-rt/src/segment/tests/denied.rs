//! Where seccomp forbids a helper's system call, it is an error value, counted as denied.

use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};

use super::killed::child;
use crate::abi::counter;
use crate::executable::Frame;
use crate::runtime::linked;

/// From now on `calls` fail with EPERM in this process.
fn forbid(calls: &[i64]) {
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = vec![op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (n, call) in calls.iter().enumerate() {
        let to_refusal = (calls.len() - n) as u8;
        filter.push(op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, to_refusal, 0, *call as u32));
    }
    filter.push(op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    filter.push(op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter lives until the call returns; the kernel copies it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}

#[test]
fn forbidden_calls_are_errors_and_counted() {
    linked::prepare();
    let text = *b"some text";
    let pid = child(|| {
        let before = linked::counters();
        let mut to = [1; 9];
        let is_open = linked::probe_read_user(&mut to, text.as_ptr() as u64) == 0 && to == text;
        forbid(&[libc::SYS_process_vm_readv, libc::SYS_prctl]);
        let is_refused = linked::probe_read_user(&mut to, text.as_ptr() as u64) == -14
            && to == [0; 9]
            && linked::probe_read_user_str(&mut to, text.as_ptr() as u64) == -14
            && linked::current_comm(&mut to) == -22;
        // A frame pointer into memory that is there: without reads there is the instruction pointer alone.
        let words = [0u64, 7];
        let mut frame = Frame::default();
        (frame.regs[4], frame.regs[16]) = (words.as_ptr() as u64, 9);
        let is_refused = is_refused && linked::get_stack(&frame, &mut [0; 32], 1 << 8) == 8;
        let after = linked::counters();
        let rise = |n: usize| after[n] - before[n];
        let is_counted = rise(counter::SLOW_READS) == 3
            && (rise(counter::READ_FAULTS), rise(counter::READS_DENIED)) == (2, 3)
            && (rise(counter::COMM_CALLS), rise(counter::COMM_DENIED)) == (1, 1);
        // SAFETY: ends the process at once; which of the three failed is in its code.
        unsafe { libc::_exit(i32::from(is_open) | i32::from(is_refused) << 1 | i32::from(is_counted) << 2) };
    });
    assert_eq!(waitpid(pid, None), Ok(WaitStatus::Exited(pid, 7)));
}
