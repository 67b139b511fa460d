//! C that is compiled by gcc -O2 to a shared object, and opened.

use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;
use std::{fs, mem};

use anyhow::{Context, Result, ensure};
use nix::libc;

/// An open shared object; it stays open, for the addresses of its functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared(*mut c_void);

/// Hard-coded: runs the filter so many times over the event's fields; how many were kept.
pub(super) type Native = unsafe extern "C" fn(u64, *const *const i8) -> u64;
/// Machine code: the same with the program, which is called with the fields as slots above its return address.
pub(super) type Caller = unsafe extern "C" fn(u64, *const u8, *const *const i8) -> u64;

impl Shared {
    /// Compiles `source`, if it is not what was compiled there before.
    pub(super) fn of(source: &str, folder: &Path) -> Result<Shared> {
        let (text, object) = (folder.join("filters.c"), folder.join("filters.so"));
        if !object.exists() || fs::read_to_string(&text).ok().as_deref() != Some(source) {
            fs::create_dir_all(folder)?;
            fs::write(&text, source)?;
            let mut compile = Command::new("gcc");
            compile.args(["-O2", "-shared", "-fPIC", "-mmemcpy-strategy=unrolled_loop:-1:noalign", "-o"]);
            let status = compile.arg(&object).arg(&text).status().context("gcc")?;
            ensure!(status.success(), "gcc ended with {status}");
        }
        let path = CString::new(object.as_os_str().as_bytes())?;
        // SAFETY: a shared object of our own build; it has no constructors.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        ensure!(!handle.is_null(), "dlopen {}", object.display());
        Ok(Shared(handle))
    }

    pub(super) fn native(self, name: &str) -> Result<Native> {
        // SAFETY: the source declares functions of this name so.
        Ok(unsafe { mem::transmute::<*mut c_void, Native>(self.symbol(name)?) })
    }

    pub(super) fn caller(self, name: &str) -> Result<Caller> {
        // SAFETY: as for `native`.
        Ok(unsafe { mem::transmute::<*mut c_void, Caller>(self.symbol(name)?) })
    }

    fn symbol(self, name: &str) -> Result<*mut c_void> {
        let name = CString::new(name)?;
        // SAFETY: the object is open.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        ensure!(!symbol.is_null(), "no {name:?} in the compiled filters");
        Ok(symbol)
    }
}
