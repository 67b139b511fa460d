//! Functions of the kernel that programs call by BTF id (kfuncs), as far as weir has them.
//!
//! A BTF id is of one kernel. So an instruction here names such a function by a number of weir's own, below 0, which no
//! BTF id is; objects and assembly text name it by its name. Meanings are the kernel's.

/// A function's number, as in the `imm` of a `CALL` with `src` [`KERNEL`](crate::insn::pseudo::KERNEL).
pub type KfuncId = i32;

/// `bool bpf_session_is_return(void)`: the program runs at the return of the function that it watches.
pub const SESSION_IS_RETURN: KfuncId = i32::MIN;
/// `__u64 *bpf_session_cookie(void)`: 8 bytes that the runs at entry and return of one call share.
pub const SESSION_COOKIE: KfuncId = i32::MIN + 1;

/// Every one that weir knows: number, name.
pub const KFUNCS: &[(KfuncId, &str)] =
    &[(SESSION_IS_RETURN, "bpf_session_is_return"), (SESSION_COOKIE, "bpf_session_cookie")];

/// Bytes of a session's cookie.
pub const SESSION_COOKIE_BYTES: u32 = 8;

pub fn name(id: KfuncId) -> Option<&'static str> {
    KFUNCS.iter().find(|row| row.0 == id).map(|row| row.1)
}

pub fn by_name(name: &str) -> Option<KfuncId> {
    KFUNCS.iter().find(|row| row.1 == name).map(|row| row.0)
}
