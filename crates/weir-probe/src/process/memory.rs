//! Another process's memory.
//!
//! In: a process that may be traced. Out: its memory, read and written past its page protections through `/proc/PID/mem`. That
//! file is its user's alone, and CAP_SYS_PTRACE opens no other user's files: without CAP_DAC_OVERRIDE the process is
//! asked to open its own, and weir takes the descriptor ([`crate::process::descriptors`]). What is needed for asking is done with
//! process_vm_readv(2) and process_vm_writev(2), which keep to page protections.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

/// The memory of one address space, as long as that is there.
#[derive(Debug)]
pub(crate) struct Memory {
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// `/proc/PID/mem`.
    File(File),
    /// By the process's number. `maps` shows whether it is still that address space.
    Calls { pid: Pid, maps: File },
}

impl Memory {
    pub(crate) fn open(pid: i32) -> io::Result<Memory> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"));
        match file {
            Err(refused) if refused.kind() == io::ErrorKind::PermissionDenied => {
                let pid = Pid::from_raw(pid);
                let is_readable = read_by_call(pid, 0, &mut [0]) == Err(Errno::EFAULT);
                // Where that is not allowed either, the first refusal says what it is about.
                let maps =
                    File::open(format!("/proc/{pid}/maps")).ok().filter(|_| is_readable).ok_or(refused)?;
                Ok(Memory { way: Way::Calls { pid, maps } })
            }
            opened => Ok(Memory { way: Way::File(opened?) }),
        }
    }

    /// Through a descriptor of its `/proc/PID/mem`.
    pub(crate) fn through(file: File) -> Memory {
        Memory { way: Way::File(file) }
    }

    /// It keeps to page protections: text cannot be written.
    pub(crate) fn is_confined(&self) -> bool {
        matches!(self.way, Way::Calls { .. })
    }

    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        match &self.way {
            Way::File(file) => file.read_exact_at(bytes, address),
            Way::Calls { pid, .. } => whole(bytes.len(), read_by_call(*pid, address, bytes)),
        }
    }

    /// As much as can be read from `address` on, up to the length of `bytes`.
    pub(crate) fn read_some(&self, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
        match &self.way {
            Way::File(file) => file.read_at(bytes, address),
            Way::Calls { pid, .. } => Ok(read_by_call(*pid, address, bytes)?),
        }
    }

    /// The address space is gone: its process has ended, or has executed another program.
    pub(crate) fn is_gone(&self) -> bool {
        match &self.way {
            // Address 0 is never mapped, so a living address space answers with an error, and a dead one with nothing.
            Way::File(file) => matches!(file.read_at(&mut [0], 0), Ok(0)),
            Way::Calls { maps, .. } => matches!(maps.read_at(&mut [0], 0), Ok(0)),
        }
    }

    pub(crate) fn read_u64(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// One write(2): within a page the kernel copies it without a point where this process could die in between.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.way {
            Way::File(file) => file.write_all_at(bytes, address),
            Way::Calls { pid, .. } => {
                let remote = [RemoteIoVec { base: address as usize, len: bytes.len() }];
                whole(bytes.len(), process_vm_writev(*pid, &[IoSlice::new(bytes)], &remote))
            }
        }
    }
}

fn read_by_call(pid: Pid, address: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
    let remote = [RemoteIoVec { base: address as usize, len: bytes.len() }];
    process_vm_readv(pid, &mut [IoSliceMut::new(bytes)], &remote)
}

fn whole(wanted: usize, done: Result<usize, Errno>) -> io::Result<()> {
    if done? == wanted { Ok(()) } else { Err(Errno::EFAULT.into()) }
}
