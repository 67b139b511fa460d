//! Why the kernel does not let this process trace another one, and what would help.
//!
//! In: what `/proc` says of both, and of Yama. Out: a [`Forbidden`], in the order in which the kernel asks
//! (`__ptrace_may_access` in kernel/ptrace.c, security/yama/yama_lsm.c), but for Yama's 3, which nothing helps against. Deliberately
//! not done: trying. It is asked after a call has failed, and what it says is the most likely reason: policies
//! of other security modules cannot be read.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::libc;
use nix::unistd::{Uid, User};

/// `CAP_SYS_PTRACE` (linux/capability.h).
const CAP_SYS_PTRACE: u64 = 1 << 19;

/// Why a process may not be traced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Forbidden {
    /// Users by name and number.
    OtherUser { own: String, theirs: String },
    /// The users are the same, and the groups are not.
    OtherGroup { own: u32, theirs: u32 },
    /// It is of a file that changes its user, or has asked for it.
    NotDumpable,
    /// It may do what weir may not.
    MoreCapable,
    /// What kernel.yama.ptrace_scope says.
    Yama(u32),
    /// weir has the capability that all of these need.
    InSpiteOfPrivilege,
    /// Nothing of these.
    Unknown,
}

impl Forbidden {
    /// What stands between this process and process `pid`.
    pub fn of(pid: i32) -> Forbidden {
        let own = Credentials::of("self");
        let theirs = Credentials::of(&pid.to_string());
        let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
        judge(own.as_ref(), theirs.as_ref(), yama.and_then(|text| text.trim().parse().ok()).unwrap_or(0))
    }

    /// What would stand between the user of this process and process `pid` if this process had no capabilities; none if they could trace it
    /// with a program of their own. (Yama is about a user's own processes.)
    pub fn without_capabilities(pid: i32) -> Option<Forbidden> {
        let own = Credentials::of("self").map(|own| Credentials { may_have: 0, has: 0, ..own });
        let theirs = Credentials::of(&pid.to_string());
        let has_both = own.is_some() && theirs.is_some();
        let forbidden = judge(own.as_ref(), theirs.as_ref(), 0);
        (forbidden != Forbidden::Unknown || !has_both).then_some(forbidden)
    }
}

/// This process has privileges that its user lacks: its file has capabilities, or sets the user.
pub fn is_more_privileged_than_its_user() -> bool {
    // SAFETY: it takes a number and reads the process's own auxiliary vector.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) != 0 };
    is_secure && !nix::unistd::getuid().is_root()
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CAPABLE: &str = "run weir with CAP_SYS_PTRACE (sudo)";
        match self {
            Forbidden::OtherUser { own, theirs } => {
                write!(f, "it runs as user {theirs}, and weir as {own}: {CAPABLE}, or as that user")
            }
            Forbidden::OtherGroup { own, theirs } => {
                write!(f, "it runs in group {theirs}, and weir in {own}: {CAPABLE}, or in that group")
            }
            Forbidden::NotDumpable => write!(
                f,
                "it is not dumpable (it is setuid, or has called prctl(PR_SET_DUMPABLE)): {CAPABLE}"
            ),
            Forbidden::MoreCapable => write!(f, "it has capabilities that weir lacks: {CAPABLE}"),
            Forbidden::Yama(1) => write!(
                f,
                "kernel.yama.ptrace_scope is 1, which allows one's own children alone: {CAPABLE}, let weir start the \
                 program (-c), or allow it: sudo sysctl kernel.yama.ptrace_scope=0"
            ),
            Forbidden::Yama(2) => {
                write!(f, "kernel.yama.ptrace_scope is 2, which allows it to the privileged alone: {CAPABLE}")
            }
            Forbidden::Yama(scope) => write!(
                f,
                "kernel.yama.ptrace_scope is {scope}, which allows it to nobody until the machine is started with \
                 a lower one (/etc/sysctl.d)"
            ),
            Forbidden::InSpiteOfPrivilege => f.write_str(
                "weir has CAP_SYS_PTRACE: a security module (AppArmor, SELinux), the seccomp filter of a container or \
                 another user namespace forbids it; run weir outside of that",
            ),
            Forbidden::Unknown => {
                write!(f, "its user and Yama would allow it, something else does not (AppArmor, SELinux): {CAPABLE}")
            }
        }
    }
}

/// What the kernel compares.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Credentials {
    /// Real, effective and saved.
    uids: [u32; 3],
    gids: [u32; 3],
    /// Permitted, and effective.
    may_have: u64,
    has: u64,
    is_dumpable: bool,
}

impl Credentials {
    /// `who`: a folder of `/proc`.
    fn of(who: &str) -> Option<Credentials> {
        let path = format!("/proc/{who}/status");
        let text = fs::read_to_string(&path).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let ids = |name: &str| {
            let ids: Vec<u32> = field(name)?.split_whitespace().filter_map(|id| id.parse().ok()).collect();
            ids.get(..3)?.try_into().ok()
        };
        let set = |name: &str| u64::from_str_radix(field(name)?.trim(), 16).ok();
        let uids: [u32; 3] = ids("Uid")?;
        // Files of one that is not dumpable are root's, but for the folder (proc(5)).
        let is_dumpable = fs::metadata(&path).ok()?.uid() == uids[1];
        Some(Credentials {
            uids,
            gids: ids("Gid")?,
            may_have: set("CapPrm")?,
            has: set("CapEff")?,
            is_dumpable,
        })
    }
}

fn judge(own: Option<&Credentials>, theirs: Option<&Credentials>, yama: u32) -> Forbidden {
    let (Some(own), Some(theirs)) = (own, theirs) else { return Forbidden::Unknown };
    let (uid, gid) = (own.uids[0], own.gids[0]);
    let other = |own: u32, theirs: [u32; 3]| theirs.into_iter().find(|id| *id != own);
    match (other(uid, theirs.uids), other(gid, theirs.gids)) {
        _ if yama >= 3 => Forbidden::Yama(yama),
        _ if own.has & CAP_SYS_PTRACE != 0 => Forbidden::InSpiteOfPrivilege,
        (Some(theirs), _) => Forbidden::OtherUser { own: user(uid), theirs: user(theirs) },
        (None, Some(theirs)) => Forbidden::OtherGroup { own: gid, theirs },
        _ if !theirs.is_dumpable => Forbidden::NotDumpable,
        _ if theirs.may_have & !own.may_have != 0 => Forbidden::MoreCapable,
        _ if yama > 0 => Forbidden::Yama(yama),
        _ => Forbidden::Unknown,
    }
}

/// By name, where the number has one, and by number.
pub(crate) fn user(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => format!("{} ({uid})", user.name),
        _ => uid.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uid: u32) -> Credentials {
        Credentials { uids: [uid; 3], gids: [uid; 3], may_have: 0, has: 0, is_dumpable: true }
    }

    #[track_caller]
    fn check(own: &Credentials, theirs: &Credentials, yama: u32, part: &str) {
        let message = judge(Some(own), Some(theirs), yama).to_string();
        assert!(message.contains(part), "{part:?}: {message}");
    }

    #[test]
    fn each_reason_is_told_apart_with_its_remedy() {
        let (alice, bob) = (of(61_701), of(61_702));
        check(&alice, &bob, 0, "runs as user 61702, and weir as 61701: run weir with CAP_SYS_PTRACE");
        check(&alice, &of(0), 2, "runs as user root (0)");
        let setuid = Credentials { uids: [61_701, 0, 0], is_dumpable: false, ..of(61_701) };
        check(&alice, &setuid, 1, "runs as user root (0)");
        let setgid = Credentials { gids: [61_701, 8, 8], is_dumpable: false, ..of(61_701) };
        check(&alice, &setgid, 1, "runs in group 8, and weir in 61701");
        check(&alice, &Credentials { is_dumpable: false, ..of(61_701) }, 1, "not dumpable");
        check(&alice, &Credentials { may_have: 1, ..of(61_701) }, 1, "capabilities that weir lacks");
        check(&alice, &alice, 0, "something else does not");
    }

    #[test]
    fn each_value_of_yama_has_its_remedy() {
        let alice = of(61_701);
        check(&alice, &alice, 1, "let weir start the program (-c), or allow it: sudo sysctl kernel.yama");
        check(&alice, &alice, 2, "to the privileged alone: run weir with CAP_SYS_PTRACE");
        check(&alice, &alice, 3, "to nobody until the machine is started with a lower one");
        // It binds root, too.
        let root = Credentials { has: CAP_SYS_PTRACE, may_have: CAP_SYS_PTRACE, ..of(0) };
        check(&root, &alice, 3, "ptrace_scope is 3");
        check(&root, &alice, 2, "a security module");
    }

    #[test]
    fn this_process_is_read_as_it_is() {
        let own = Credentials::of("self").unwrap();
        assert_eq!(own.uids[..2], [nix::unistd::getuid().as_raw(), nix::unistd::geteuid().as_raw()]);
        assert!(own.is_dumpable);
        assert_eq!(Credentials::of("nobody"), None);
    }
}
