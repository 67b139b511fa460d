//! Somebody else: commands run as another user, with the capabilities that are named and no other.
//!
//! Only root can become somebody else, with setpriv (util-linux). What they execute stands in a [`Folder`] that they may
//! enter, since a checkout may be in a home that they may not.

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::libc;
use nix::sys::statvfs::{FsFlags, statvfs};

const SETPRIV: &str = "/usr/bin/setpriv";

/// Users that no account of a Debian system has.
pub const ALICE: u32 = 61_701;
pub const BOB: u32 = 61_702;

/// Whether this process can become somebody else.
pub fn is_possible() -> bool {
    nix::unistd::geteuid().is_root() && Path::new(SETPRIV).exists()
}

/// `program` run by user `uid`, in a group of the same number and in `groups`, with `capabilities` (`sys_ptrace`).
pub fn command(uid: u32, groups: &[u32], capabilities: &[&str], program: &Path) -> Command {
    let set: String = ["-all".to_owned()]
        .into_iter()
        .chain(capabilities.iter().map(|name| format!("+{name}")))
        .collect::<Vec<_>>()
        .join(",");
    let mut command = Command::new(SETPRIV);
    command.args([format!("--reuid={uid}"), format!("--regid={uid}")]);
    match groups {
        [] => command.arg("--clear-groups"),
        groups => {
            let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
            command.arg(format!("--groups={}", groups.join(",")))
        }
    };
    command.args([format!("--inh-caps={set}"), format!("--ambient-caps={set}")]).arg(program);
    command.current_dir("/");
    command
}

/// Gives an executable file CAP_SYS_PTRACE, as `setcap cap_sys_ptrace+ep` does (struct vfs_cap_data of linux/capability.h). False where the file
/// system ignores that.
pub fn lend_sys_ptrace(program: &Path) -> bool {
    const REVISION_2_EFFECTIVE: u32 = 0x0200_0001;
    const SYS_PTRACE: u32 = 1 << 19;
    let words = [REVISION_2_EFFECTIVE, SYS_PTRACE, 0, 0, 0];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let path = CString::new(program.as_os_str().as_bytes()).unwrap();
    // SAFETY: both strings end in a NUL, and as many bytes are read as there are.
    let result = unsafe {
        libc::setxattr(path.as_ptr(), c"security.capability".as_ptr(), bytes.as_ptr().cast(), bytes.len(), 0)
    };
    let flags = statvfs(program).map(|mount| mount.flags());
    result == 0 && flags.is_ok_and(|flags| !flags.contains(FsFlags::ST_NOSUID))
}

/// A folder of root's that everybody may read, removed when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-stranger-{}-{count}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A copy of `program` that everybody may execute.
    pub fn copy(&self, program: &Path) -> PathBuf {
        let path = self.0.join(program.file_name().unwrap());
        crate::target::copy(program, &path);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A file of root's with this text, which everybody may read.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }
}

impl Default for Folder {
    fn default() -> Folder {
        Folder::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
