//! The functions of DPDK that are used, as the application has them.
//!
//! They are looked up among all that the process shows to libraries (dlsym(3), RTLD_DEFAULT), so that the plugin is built without
//! DPDK and loaded by any release. One that the application does not have is named.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem;

use nix::libc;

use crate::mbuf::RteMbuf;

/// `telemetry_cb`.
pub(crate) type Command = unsafe extern "C" fn(*const c_char, *const c_char, *mut c_void) -> c_int;
/// `rte_rx_callback_fn`.
pub(crate) type OnRx = unsafe extern "C" fn(u16, u16, *mut *mut RteMbuf, u16, u16, *mut c_void) -> u16;
/// `rte_tx_callback_fn`.
pub(crate) type OnTx = unsafe extern "C" fn(u16, u16, *mut *mut RteMbuf, u16, *mut c_void) -> u16;
/// `rte_eal_alarm_callback`.
pub(crate) type OnAlarm = unsafe extern "C" fn(*mut c_void);
/// `struct rte_eth_rxtx_callback`.
pub(crate) type Callback = *const c_void;

/// `struct rte_mbuf_dynfield`.
#[repr(C)]
pub(crate) struct DynField {
    pub(crate) name: [u8; 64],
    pub(crate) size: usize,
    pub(crate) align: usize,
    pub(crate) flags: c_uint,
}

/// `struct rte_mbuf_dynflag`.
#[repr(C)]
pub(crate) struct DynFlag {
    pub(crate) name: [u8; 64],
    pub(crate) flags: c_uint,
}

const _: () = assert!(size_of::<DynField>() == 88 && size_of::<DynFlag>() == 68);

/// Declares a table of functions, each looked up by its name.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $($name:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $table {
            $(pub(crate) $name: $type,)*
        }

        impl $table {
            /// Looks them up, or says which is not there.
            pub(crate) fn find() -> Result<$table, String> {
                Ok($table {
                    $($name: {
                        let address = find(concat!(stringify!($name), "\0"))?;
                        // SAFETY: the address is that of DPDK's function of this name, whose type is the same in all releases that
                        // `mbuf` lists; a function's address and a pointer have one size here.
                        unsafe { mem::transmute::<*mut c_void, $type>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    /// What the commands need.
    Telemetry {
        rte_telemetry_register_cmd: unsafe extern "C" fn(*const c_char, Command, *const c_char) -> c_int,
        rte_tel_data_string: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
        rte_version: unsafe extern "C" fn() -> *const c_char,
    }
}

functions! {
    /// What capturing needs.
    Dpdk {
        rte_eth_add_first_rx_callback: unsafe extern "C" fn(u16, u16, OnRx, *mut c_void) -> Callback,
        rte_eth_add_tx_callback: unsafe extern "C" fn(u16, u16, OnTx, *mut c_void) -> Callback,
        rte_eth_remove_rx_callback: unsafe extern "C" fn(u16, u16, Callback) -> c_int,
        rte_eth_remove_tx_callback: unsafe extern "C" fn(u16, u16, Callback) -> c_int,
        rte_eal_alarm_set: unsafe extern "C" fn(u64, OnAlarm, *mut c_void) -> c_int,
        rte_free: unsafe extern "C" fn(*mut c_void),
        __rte_pktmbuf_read: unsafe extern "C" fn(*const RteMbuf, u32, u32, *mut c_void) -> *const c_void,
        rte_get_rx_ol_flag_name: unsafe extern "C" fn(u64) -> *const c_char,
        rte_get_tx_ol_flag_name: unsafe extern "C" fn(u64) -> *const c_char,
        rte_mbuf_dynfield_register: unsafe extern "C" fn(*const DynField) -> c_int,
        rte_mbuf_dynflag_register: unsafe extern "C" fn(*const DynFlag) -> c_int,
    }
}

impl Telemetry {
    /// Such as `DPDK 22.11.11`.
    pub(crate) fn version(&self) -> String {
        // SAFETY: it takes nothing, and returns a text that is always valid.
        unsafe { text((self.rte_version)()) }
    }
}

/// The text that DPDK names so.
///
/// # Safety
/// `text` is null or points to bytes with a NUL at their end, which are not changed until this returns.
pub(crate) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A function's address; `name` ends with a NUL.
fn find(name: &str) -> Result<*mut c_void, String> {
    // SAFETY: the name ends with a NUL; what is found stays loaded, being of the application or of what it was linked with.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr().cast()) };
    match address.is_null() {
        true => Err(format!(
            "the application shows no {}: it is linked statically, or without that part of DPDK",
            name.trim_end_matches('\0')
        )),
        false => Ok(address),
    }
}
