//! A program as machine code of clang: a shared object that is opened, called, and closed again.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use nix::libc;

use crate::limits::MEMORY_BYTES_MAX;

/// An open shared object of a file of `tests/vm`.
#[derive(Debug)]
pub struct Native {
    handle: *mut c_void,
    run: Option<extern "C" fn(*mut u8) -> u64>,
    /// What every engine gets a copy of, before the first run.
    pub memory: Vec<u8>,
}

impl Native {
    /// Opens the object, and has it fill the memory.
    pub fn open(path: &Path) -> Result<Native> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a shared object of our own build; it has no constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        ensure!(!handle.is_null(), "dlopen {}: {}", path.display(), last_error());
        let mut native = Native { handle, run: None, memory: Vec::new() };
        let bytes = native.symbol(c"memory_bytes").context("memory_bytes")?.cast::<u32>();
        // SAFETY: `vm.h` defines it as a u32.
        let bytes = unsafe { bytes.read() };
        ensure!(bytes <= MEMORY_BYTES_MAX, "{} bytes of memory, the limit is {MEMORY_BYTES_MAX}", bytes);
        native.memory = vec![0; (bytes as usize).next_multiple_of(8)];
        let prepare = native.symbol(c"prepare").context("prepare")?;
        // SAFETY: `vm.h` declares it so; it fills `memory_bytes`.
        let prepare = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(*mut u8)>(prepare) };
        prepare(native.memory.as_mut_ptr());
        native.memory.truncate(bytes as usize);
        native.run = native.symbol(c"program").map(|run| {
            // SAFETY: `vm.h` declares it so.
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(*mut u8) -> u64>(run) }
        });
        Ok(native)
    }

    /// The program; none where only the other builds have it.
    pub fn function(&self) -> Option<extern "C" fn(*mut u8) -> u64> {
        self.run
    }

    fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open, and the name ends in a zero.
        let symbol = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!symbol.is_null()).then_some(symbol)
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, and nobody holds its functions any longer than this.
        unsafe { libc::dlclose(self.handle) };
    }
}

fn last_error() -> anyhow::Error {
    // SAFETY: after a failure, a string that stays until the next call of this thread.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return anyhow!("no reason given");
    }
    // SAFETY: as above; it ends in a zero.
    anyhow!(unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned())
}
