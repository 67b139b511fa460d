//! Memory for machine code: written first, executable then, never both, and near the code that calls it.
//!
//! A call and a return to code in other 4 GiB than the caller's take 0.8 ns more on Intel's Emerald Rapids: what its branch prediction
//! keeps of a target are the low 32 bits. A process's own code, and what it maps, are usually further apart.

use std::io;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::libc;

use crate::limits::{CODE_FURTHEST, CODE_NEAREST, CODE_STEP, CODE_TRIES};

/// A private mapping.
#[derive(Debug)]
pub(super) struct Code {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is the value's own, and after `seal` nobody writes to it.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// Zeros, which may be written.
    pub(super) fn new(bytes: usize) -> io::Result<Code> {
        // Where the next is tried, so that many are not tried in the same places.
        static NEXT: AtomicUsize = AtomicUsize::new(CODE_NEAREST);
        let here = Code::new as *const () as usize & !0xffff;
        for _ in 0..CODE_TRIES {
            let distance = NEXT.load(Ordering::Relaxed) + bytes.next_multiple_of(0x1_0000);
            let distance = if distance > CODE_FURTHEST { CODE_NEAREST } else { distance };
            let Some(hint) = here.checked_sub(distance) else { break };
            let code = map(hint, bytes)?;
            let is_near = code.at.addr().get().abs_diff(here) <= CODE_FURTHEST;
            NEXT.store(if is_near { distance } else { distance + CODE_STEP }, Ordering::Relaxed);
            if is_near {
                return Ok(code);
            }
        }
        map(0, bytes)
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: so many bytes are mapped for reading and writing, since `seal` takes the value; they live as long as it.
        unsafe { slice::from_raw_parts_mut(self.at.as_ptr(), self.bytes) }
    }

    /// From here on it can be executed, and not written.
    pub(super) fn seal(self) -> io::Result<SealedCode> {
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: the memory is this value's own, and nobody has borrowed it.
        let changed = unsafe { libc::mprotect(self.at.as_ptr().cast(), self.bytes, protection) };
        if changed != 0 { Err(io::Error::last_os_error()) } else { Ok(SealedCode(self)) }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and ends with it.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// Code that may be executed, and not written.
#[derive(Debug)]
pub(super) struct SealedCode(Code);

impl SealedCode {
    pub(super) fn at(&self, offset: usize) -> *const u8 {
        assert!(offset < self.0.bytes, "{offset} outside {} bytes of code", self.0.bytes);
        self.0.at.as_ptr().wrapping_add(offset)
    }
}

/// At `hint`, if nothing is there; anywhere else if something is.
fn map(hint: usize, bytes: usize) -> io::Result<Code> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: memory that nothing is mapped at: the address is no more than a hint.
    let at = unsafe { libc::mmap(ptr::without_provenance_mut(hint), bytes, protection, flags, -1, 0) };
    match NonNull::new(at.cast::<u8>()) {
        Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Code { at, bytes }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_near_what_calls_it() {
        let here = Code::new as *const () as usize;
        let all: Vec<Code> = (0..200).map(|_| Code::new(1 << 20).unwrap()).collect();
        let far = all.iter().filter(|code| code.at.addr().get().abs_diff(here) > 2 * CODE_FURTHEST).count();
        assert_eq!(far, 0, "of {}", all.len());
    }

    #[test]
    fn memory_is_writable_before_it_is_executable_and_goes_with_its_value() {
        let mut code = Code::new(5000).unwrap();
        assert!(code.bytes_mut().iter().all(|byte| *byte == 0));
        code.bytes_mut()[4999] = 0xc3;
        let code = code.seal().unwrap();
        // SAFETY: read-only memory that is mapped.
        assert_eq!(unsafe { *code.at(4999) }, 0xc3);
        let line = |at: *const u8| {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let line = maps.lines().find(|line| {
                let ends = line.split([' ', '-']).take(2).map(|end| usize::from_str_radix(end, 16).unwrap());
                matches!(ends.collect::<Vec<_>>()[..], [from, to] if (from..to).contains(&at.addr()))
            });
            line.map(|line| line.split(' ').nth(1).unwrap().to_owned())
        };
        assert_eq!(line(code.at(0)).as_deref(), Some("r-xp"));
    }
}
