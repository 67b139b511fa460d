//! The kernel's own maps through bpf(2), as the judge of what an operation answers.
//!
//! Where bpf(2) is not allowed, the tests go on with the model alone and say so.

use std::cell::RefCell;
use std::sync::Once;

use nix::libc;
use weir_ebpf::MapSpec;

/// A map in the kernel.
pub(super) struct KernelMap {
    fd: std::os::fd::OwnedFd,
    value: RefCell<Vec<u8>>,
}

/// `union bpf_attr` as far as map commands use it.
#[repr(C)]
struct ElementAttr {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

const MAP_CREATE: i32 = 0;
const MAP_LOOKUP_ELEM: i32 = 1;
const MAP_UPDATE_ELEM: i32 = 2;
const MAP_DELETE_ELEM: i32 = 3;

impl KernelMap {
    pub(super) fn create(spec: &MapSpec) -> Option<KernelMap> {
        let attr: [u32; 5] = [spec.kind as u32, spec.key_bytes, spec.value_bytes, spec.max_entries, 0];
        // SAFETY: the attribute is initialised and as long as said; the kernel zero-extends it.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, MAP_CREATE, attr.as_ptr(), size_of_val(&attr)) };
        if fd < 0 {
            static SAID: Once = Once::new();
            let error = std::io::Error::last_os_error();
            SAID.call_once(|| {
                testkit::skip::skip("maps against the kernel's", format!("bpf(BPF_MAP_CREATE): {error}"))
            });
            return None;
        }
        // SAFETY: the call above has just made this descriptor for us.
        let fd = unsafe { std::os::fd::FromRawFd::from_raw_fd(fd as i32) };
        Some(KernelMap { fd, value: RefCell::new(vec![0; spec.value_bytes as usize]) })
    }

    pub(super) fn update(&self, key: &[u8], value: &[u8], flags: u64) -> i64 {
        self.call(MAP_UPDATE_ELEM, key, value.as_ptr() as u64, flags)
    }

    pub(super) fn delete(&self, key: &[u8]) -> i64 {
        self.call(MAP_DELETE_ELEM, key, 0, 0)
    }

    pub(super) fn lookup(&self, key: &[u8]) -> Option<Vec<u8>> {
        let address = self.value.borrow_mut().as_mut_ptr() as u64;
        (self.call(MAP_LOOKUP_ELEM, key, address, 0) == 0).then(|| self.value.borrow().clone())
    }

    fn call(&self, command: i32, key: &[u8], value: u64, flags: u64) -> i64 {
        let map_fd = std::os::fd::AsRawFd::as_raw_fd(&self.fd) as u32;
        let attr = ElementAttr { map_fd, _pad: 0, key: key.as_ptr() as u64, value, flags };
        // SAFETY: the attribute is initialised; key and value have the sizes the map was made with.
        let done = unsafe { libc::syscall(libc::SYS_bpf, command, &attr, size_of::<ElementAttr>()) };
        if done < 0 { -i64::from(nix::errno::Errno::last_raw()) } else { 0 }
    }
}
