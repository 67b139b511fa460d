//! What stands above the return address when a program is entered.

/// What stands above the return address when a program is entered: its context and weir's own words.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Frame {
    /// 21 slots: of a probe, `pt_regs` with the offsets in `weir_ebpf::pt_regs`; of other kinds those of
    /// `weir_ebpf::context`.
    pub regs: [u64; 21],
    /// Of a probe: the low 8 bytes of xmm0 to xmm7, at `weir_ebpf::pt_regs::FLOATS`.
    pub floats: [u64; 8],
    /// What `get_attach_cookie` answers.
    pub cookie: u64,
    /// Of a session (entry and return of one call): 8 bytes that the program at the return finds as the one at the
    /// entry left them. `bpf_session_cookie` answers their address.
    pub session_cookie: u64,
    /// What `bpf_session_is_return` answers: 0 or 1.
    pub is_return: u16,
    /// 1 at the first instruction of a function, where the word at the stack pointer is the return address.
    pub is_entry: u16,
    /// Tail calls of the run; machine code counts them by itself. Of code with a limit of rounds, which makes none, the rounds that
    /// are left.
    pub tail_calls: u32,
}
