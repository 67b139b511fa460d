//! The installed libpcap as the oracle of packet filters: what pcap_compile(3PCAP) makes of an expression, and what
//! bpf_filter(3PCAP) says of a packet.
//!
//! The library is opened at run time, so that neither building nor the other tests need it; a machine without it is
//! `None`, for the test to [`skip`](crate::skip::skip). `pcap_compile` runs under a lock: the manual promises no more
//! than that one thread at a time may call it in every version. Everything libpcap allocates is freed before a call
//! returns. Programs are copied out as they are; nothing here judges them.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::libc;

/// `netmask` of [`Libpcap::compile`] where it is not known: then `ip broadcast` is refused.
pub const NETMASK_UNKNOWN: u32 = 0xffff_ffff;

/// One instruction of classic BPF: `struct bpf_insn` of libpcap, `struct sock_filter` of Linux.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RawInsn {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

/// A type of link layer that libpcap knows by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datalink {
    pub dlt: i32,
    /// Without `DLT_`, such as `EN10MB`.
    pub name: String,
    pub description: String,
}

/// The functions of the loaded library. They stay valid: it is never closed.
#[derive(Debug)]
pub struct Libpcap {
    open_dead: unsafe extern "C" fn(c_int, c_int) -> *mut Handle,
    close: unsafe extern "C" fn(*mut Handle),
    compile: unsafe extern "C" fn(*mut Handle, *mut Program, *const c_char, c_int, u32) -> c_int,
    free_code: unsafe extern "C" fn(*mut Program),
    error: unsafe extern "C" fn(*mut Handle) -> *const c_char,
    filter: unsafe extern "C" fn(*const RawInsn, *const u8, c_uint, c_uint) -> c_uint,
    validate: unsafe extern "C" fn(*const RawInsn, c_int) -> c_int,
    datalink_name: unsafe extern "C" fn(c_int) -> *const c_char,
    datalink_description: unsafe extern "C" fn(c_int) -> *const c_char,
    version: unsafe extern "C" fn() -> *const c_char,
    compiling: Mutex<()>,
}

/// A program that bpf_validate accepts.
#[derive(Clone, Copy, Debug)]
pub struct Valid<'p> {
    run: unsafe extern "C" fn(*const RawInsn, *const u8, c_uint, c_uint) -> c_uint,
    program: &'p [RawInsn],
}

impl Valid<'_> {
    /// As [`Libpcap::filter`].
    #[inline]
    pub fn filter(&self, packet: &[u8], wire_len: u32) -> u32 {
        // SAFETY: the program is valid; the packet has as many bytes as are said, and loads are held to them.
        unsafe { (self.run)(self.program.as_ptr(), packet.as_ptr(), wire_len, packet.len() as c_uint) }
    }
}

/// `pcap_t`, whose content is libpcap's own.
#[repr(C)]
struct Handle {
    _private: [u8; 0],
}

/// `struct bpf_program`.
#[repr(C)]
struct Program {
    len: c_uint,
    insns: *mut RawInsn,
}

/// The largest number of a link type that is asked for; libpcap 1.10.3 ends at 289.
const DLT_MAX: i32 = 400;

impl Libpcap {
    /// The library, once for the process; `None` where `libpcap.so.0.8` is not installed or lacks a function.
    pub fn load() -> Option<&'static Libpcap> {
        static LOADED: OnceLock<Option<Libpcap>> = OnceLock::new();
        LOADED.get_or_init(Libpcap::open).as_ref()
    }

    fn open() -> Option<Libpcap> {
        // SAFETY: a name with its zero; libpcap's constructors have no requirement.
        let library = unsafe { libc::dlopen(c"libpcap.so.0.8".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        // SAFETY: each type of a function below is the one that pcap.h and pcap/bpf.h of libpcap 1.10 declare.
        unsafe {
            Some(Libpcap {
                open_dead: symbol(library, c"pcap_open_dead")?,
                close: symbol(library, c"pcap_close")?,
                compile: symbol(library, c"pcap_compile")?,
                free_code: symbol(library, c"pcap_freecode")?,
                error: symbol(library, c"pcap_geterr")?,
                filter: symbol(library, c"bpf_filter")?,
                validate: symbol(library, c"bpf_validate")?,
                datalink_name: symbol(library, c"pcap_datalink_val_to_name")?,
                datalink_description: symbol(library, c"pcap_datalink_val_to_description")?,
                version: symbol(library, c"pcap_lib_version")?,
                compiling: Mutex::new(()),
            })
        }
    }

    /// The program of `expression` for packets of the link type `dlt`, of which at most `snaplen` bytes are wanted; or
    /// what pcap_geterr(3PCAP) says. `netmask`: in network byte order, or [`NETMASK_UNKNOWN`].
    pub fn compile(
        &self,
        dlt: i32,
        snaplen: u32,
        expression: &str,
        optimize: bool,
        netmask: u32,
    ) -> Result<Vec<RawInsn>, String> {
        let text = CString::new(expression).map_err(|e| format!("{expression:?}: {e}"))?;
        let snaplen = c_int::try_from(snaplen).map_err(|_| format!("snaplen {snaplen} is above 2^31 - 1"))?;
        let _one = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: any numbers; the result is checked.
        let handle = unsafe { (self.open_dead)(dlt, snaplen) };
        assert!(!handle.is_null(), "pcap_open_dead({dlt}, {snaplen}) has no memory");
        let mut program = Program { len: 0, insns: ptr::null_mut() };
        // SAFETY: an open handle, a program to be written, and a text with its zero, all of which outlive the call.
        let status = unsafe { (self.compile)(handle, &mut program, text.as_ptr(), optimize.into(), netmask) };
        let result = if status == 0 {
            // SAFETY: pcap_compile succeeded, so that `insns` has `len` instructions.
            Ok(unsafe { std::slice::from_raw_parts(program.insns, program.len as usize) }.to_vec())
        } else {
            // SAFETY: an open handle; its text is copied before the handle is closed.
            Err(unsafe { owned((self.error)(handle)) }.unwrap_or_default())
        };
        // SAFETY: the program is null, or pcap_compile's, and freed once.
        unsafe { (self.free_code)(&mut program) };
        // SAFETY: opened above, closed once.
        unsafe { (self.close)(handle) };
        result
    }

    /// Whether bpf_validate, an undocumented function of libpcap, accepts `program`: its jumps, and the slots of its
    /// memory, are then in bounds, it ends in a return and divides by no constant 0.
    pub fn is_valid(&self, program: &[RawInsn]) -> bool {
        // SAFETY: as many instructions as are said.
        !program.is_empty() && unsafe { (self.validate)(program.as_ptr(), program.len() as c_int) } != 0
    }

    /// How many bytes of `packet` the program wants, 0 for none; `wire_len` is the length that `len` has in it.
    ///
    /// Panics if `program` is not valid ([`Libpcap::is_valid`]). A program that jumps back can run for ever.
    pub fn filter(&self, program: &[RawInsn], packet: &[u8], wire_len: u32) -> u32 {
        self.valid(program).filter(packet, wire_len)
    }

    /// The program, to be run on many packets.
    ///
    /// Panics if `program` is not valid.
    pub fn valid<'p>(&self, program: &'p [RawInsn]) -> Valid<'p> {
        assert!(self.is_valid(program), "bpf_validate refuses {program:x?}");
        Valid { run: self.filter, program }
    }

    /// The link types that have a name, by their numbers.
    pub fn datalinks(&self) -> Vec<Datalink> {
        let named = |dlt| {
            // SAFETY: any number; the result is null or a constant text.
            let name = unsafe { owned((self.datalink_name)(dlt)) }?;
            // SAFETY: as above.
            let description = unsafe { owned((self.datalink_description)(dlt)) }.unwrap_or_default();
            Some(Datalink { dlt, name, description })
        };
        (0..=DLT_MAX).filter_map(named).collect()
    }

    /// Such as `libpcap version 1.10.3 (with TPACKET_V3)`.
    pub fn version(&self) -> String {
        // SAFETY: the result is a constant text.
        unsafe { owned((self.version)()) }.unwrap_or_default()
    }
}

/// The function `name` of `library`.
///
/// # Safety
///
/// `F` is the type of a pointer to that function.
unsafe fn symbol<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: an open library and a name with its zero.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller says that the address is of an `F`, which has the size of a pointer.
    Some(unsafe { std::mem::transmute_copy(&address) })
}

/// A copy of a text of C; `None` for null.
///
/// # Safety
///
/// `text` is null, or ends in a zero byte.
unsafe fn owned(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller says so.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::skip;

    const EN10MB: i32 = 1;

    #[test]
    fn compiles_filters_and_names_link_types() {
        let Some(pcap) = Libpcap::load() else {
            return skip("testkit::libpcap", "libpcap.so.0.8 is not installed");
        };
        let program = pcap.compile(EN10MB, 96, "ip", true, NETMASK_UNKNOWN).expect("ip compiles");
        let mut packet = [0; 60];
        assert_eq!(pcap.filter(&program, &packet, 60), 0);
        packet[12..14].copy_from_slice(&[8, 0]);
        assert_eq!(pcap.filter(&program, &packet, 60), 96, "the snaplen");
        assert_eq!(pcap.filter(&program, &packet[..13], 60), 0, "a load beyond the end");
        let longer = pcap.compile(EN10MB, 96, "greater 1000", true, NETMASK_UNKNOWN).expect("compiles");
        assert_eq!(pcap.filter(&longer, &packet, 1000), 96, "the wire length, not the packet's");
        let name = |dlt| pcap.datalinks().into_iter().find(|link| link.dlt == dlt).map(|link| link.name);
        assert_eq!(name(EN10MB).as_deref(), Some("EN10MB"));
        assert!(pcap.version().starts_with("libpcap version "), "{}", pcap.version());
    }

    #[test]
    fn what_is_refused_says_why() {
        let Some(pcap) = Libpcap::load() else {
            return skip("testkit::libpcap", "libpcap.so.0.8 is not installed");
        };
        let refused = |text| pcap.compile(EN10MB, 96, text, true, NETMASK_UNKNOWN).expect_err(text);
        assert_eq!(refused("tcp port"), "can't parse filter expression: syntax error");
        assert!(refused("ip broadcast").contains("netmask"), "{}", refused("ip broadcast"));
        assert!(refused("a\0b").contains("nul byte"));
        assert!(!pcap.is_valid(&[]));
        assert!(!pcap.is_valid(&[RawInsn { code: 5, jt: 0, jf: 0, k: 9 }]), "a jump out of the program");
    }
}
