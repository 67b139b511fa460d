//! What the running kernel has for uprobes. weir tries it once; it does not go by the version.
//!
//! In: nothing. Out: [`Features`]. A link of many uprobes on a folder is refused with EBADF where the kernel knows such links, and with EINVAL where
//! not; nothing is attached by that.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::OnceLock;

use nix::libc;
use weir_ebpf::insn::{NOTHING, class, jmp, pseudo};
use weir_ebpf::{Insn, kfunc};

use crate::functions;
use crate::program::{Code, load_probe};
use crate::syscall::{self, LinkUprobes};

/// Which kinds of uprobes there are, beside those of perf events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// Links of many uprobes at once (Linux 6.6).
    pub multi: bool,
    /// The same at both ends of a call, with a word that these share (Linux 6.13), and the functions that programs call for that.
    pub session: Option<SessionFunctions>,
}

/// BTF ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionFunctions {
    is_return: i32,
    cookie: i32,
}

impl SessionFunctions {
    /// The BTF id of one of weir's numbers of functions.
    pub(crate) fn id(&self, function: kfunc::KfuncId) -> Option<i32> {
        match function {
            kfunc::SESSION_IS_RETURN => Some(self.is_return),
            kfunc::SESSION_COOKIE => Some(self.cookie),
            _ => None,
        }
    }
}

/// Whether this process may have programs at probes.
pub fn may_probe() -> bool {
    load_probe(0, "asked", &Code::of(&NOTHING)).is_ok()
}

impl Features {
    /// Asks the running kernel by calls that can only fail: with which error says whether it knows them.
    pub fn of_kernel() -> Features {
        let multi = answers(syscall::TRACE_UPROBE_MULTI, 0, libc::EBADF)
            // Where they hold for a thread and not for its process, a number that is none is not looked at first.
            && answers(syscall::TRACE_UPROBE_MULTI, u32::MAX, libc::EINVAL);
        let has_sessions = || answers(syscall::TRACE_UPROBE_SESSION, 0, libc::EBADF);
        let session = (multi && has_sessions()).then(|| session_functions(syscall::TRACE_UPROBE_SESSION));
        Features { multi, session: session.flatten() }
    }
}

/// Those that programs of links of this type may call.
pub(crate) fn session_functions(attach_type: u32) -> Option<SessionFunctions> {
    // The kernel's types are ten megabytes, and stay what they are.
    static FUNCTIONS: OnceLock<Option<SessionFunctions>> = OnceLock::new();
    let functions = FUNCTIONS.get_or_init(|| {
        let [is_return, cookie] =
            [kfunc::SESSION_IS_RETURN, kfunc::SESSION_COOKIE].map(|id| kfunc::name(id).unwrap_or(""));
        let ids = functions::ids(&BTreeSet::from([is_return, cookie]))?;
        Some(SessionFunctions { is_return: *ids.get(is_return)?, cookie: *ids.get(cookie)? })
    });
    functions.filter(|functions| are_callable(attach_type, functions))
}

/// A program of this type may call them as the compiler has it: without arguments.
fn are_callable(attach_type: u32, functions: &SessionFunctions) -> bool {
    let call = |imm| Insn { opcode: class::JMP | jmp::CALL, src: pseudo::KERNEL, imm, ..Insn::default() };
    let [zero, exit] = NOTHING;
    let program = [call(functions.is_return), call(functions.cookie), zero, exit];
    load_probe(attach_type, "asked", &Code::of(&program)).is_ok()
}

/// Whether a link of this type on a folder, for the process `pid` or for all, is refused in this way.
fn answers(attach_type: u32, pid: u32, errno: i32) -> bool {
    let Ok(program) = load_probe(attach_type, "asked", &Code::of(&NOTHING)) else { return false };
    let offset = 0u64;
    let mut attributes = LinkUprobes {
        prog_fd: program.as_raw_fd() as u32,
        attach_type,
        path: c"/".as_ptr() as u64,
        offsets: std::ptr::from_ref(&offset) as u64,
        count: 1,
        pid,
        ..LinkUprobes::default()
    };
    // SAFETY: path and offset live over the call; the answer would be a descriptor.
    let answer = unsafe { syscall::open(syscall::LINK_CREATE, &mut attributes) };
    answer.is_err_and(|error: io::Error| error.raw_os_error() == Some(errno))
}
