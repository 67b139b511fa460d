//! System calls on packet sockets, each once. The only unsafe code of this crate, with `ring`'s.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use nix::libc::{self, c_int};
use weir_cbpf::Program;

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A packet socket that receives nothing yet: it is of no protocol. `is_cooked`: packets come without their link layer.
pub(super) fn packet_socket(is_cooked: bool) -> io::Result<OwnedFd> {
    let kind = if is_cooked { libc::SOCK_DGRAM } else { libc::SOCK_RAW };
    socket(libc::AF_PACKET, kind)
}

/// A socket for questions about interfaces.
pub(super) fn question_socket() -> io::Result<OwnedFd> {
    socket(libc::AF_INET, libc::SOCK_DGRAM)
}

fn socket(family: c_int, kind: c_int) -> io::Result<OwnedFd> {
    // SAFETY: a call without pointers.
    let fd = checked(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) })?;
    // SAFETY: the kernel has just given it to us, and to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option whose value is `value`, a structure of the kernel's without pointers.
pub(super) fn set<T: Copy>(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads so many bytes of `value`, which is borrowed.
    checked(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const *value).cast(), length) })?;
    Ok(())
}

/// The words that an option of packet sockets has, as many as there is room for.
pub(super) fn get<const WORDS: usize>(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
) -> io::Result<[u32; WORDS]> {
    let mut value = [0u32; WORDS];
    let mut length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which `value` has, and any bytes are numbers.
    checked(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &raw mut length)
    })?;
    Ok(value)
}

/// Has the socket filter what it receives.
pub(super) fn attach(fd: BorrowedFd<'_>, program: &Program) -> io::Result<()> {
    let mut insns: Vec<libc::sock_filter> = program
        .insns()
        .iter()
        .map(|insn| libc::sock_filter { code: insn.code, jt: insn.jt, jf: insn.jf, k: insn.k })
        .collect();
    let len = u16::try_from(insns.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = libc::sock_fprog { len, filter: insns.as_mut_ptr() };
    let length = size_of_val(&program) as libc::socklen_t;
    // SAFETY: the kernel reads `program` and the `len` instructions that it refers to; both are alive.
    checked(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            length,
        )
    })?;
    Ok(())
}

/// Receives all protocols of an interface from here on; of all interfaces for 0.
pub(super) fn bind(fd: BorrowedFd<'_>, ifindex: i32) -> io::Result<()> {
    // SAFETY: all of its fields are numbers, for which zeros are values.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = ifindex;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads so many bytes of `address`.
    checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(())
}

/// A request about an interface (`struct ifreq`): its name, then what depends on the request.
pub(super) type Request = [u8; 40];

/// Asks about an interface; the answer.
pub(super) fn ask(fd: BorrowedFd<'_>, request: libc::Ioctl, name: &str) -> io::Result<Request> {
    let mut asked = named(name);
    // SAFETY: requests of this kind read and write a `struct ifreq`, which has 40 bytes, and no pointer of it.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), request, asked.as_mut_ptr()) })?;
    Ok(asked)
}

/// Asks the driver (ethtool); `data` begins with the command, and has the answer afterwards.
pub(super) fn ask_driver<const BYTES: usize>(
    fd: BorrowedFd<'_>,
    name: &str,
    command: u32,
) -> io::Result<[u8; BYTES]> {
    let mut data = [0; BYTES];
    data[..4].copy_from_slice(&command.to_ne_bytes());
    let mut asked = named(name);
    let address = data.as_mut_ptr() as usize;
    asked[16..16 + size_of::<usize>()].copy_from_slice(&address.to_ne_bytes());
    // SAFETY: the kernel reads a `struct ifreq`, and reads and writes at the address in it the structure of the command, for which `data`
    // has room: its callers say its size.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, asked.as_mut_ptr()) })?;
    Ok(data)
}

/// Packets that an interface could not take for lack of room since it is there (`rx_fifo_errors` and `rx_missed_errors`); the counter goes round. `None` if the
/// kernel does not say.
pub(super) fn missed(name: &str) -> Option<u32> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the library writes the list's address, or says that it failed.
    checked(unsafe { libc::getifaddrs(&raw mut first) }).ok()?;
    let mut missed = None;
    let mut next = first;
    // SAFETY: null, or an entry of the list, which is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: each entry has a name that ends with a NUL.
        let is_it = unsafe { CStr::from_ptr(entry.ifa_name) }.to_bytes() == name.as_bytes();
        // SAFETY: null, or an address, which begins with its family.
        let family = unsafe { entry.ifa_addr.as_ref() }.map(|address| i32::from(address.sa_family));
        if is_it && family == Some(libc::AF_PACKET) && !entry.ifa_data.is_null() {
            // SAFETY: of this family the data are a `struct rtnl_link_stats`, which has at least 23 numbers of 32 bits.
            let counters = unsafe { std::slice::from_raw_parts(entry.ifa_data.cast::<u32>(), 16) };
            missed = Some(counters[14].wrapping_add(counters[15]));
        }
    }
    // SAFETY: the list of above, of which nothing is borrowed any more.
    unsafe { libc::freeifaddrs(first) };
    missed
}

/// Longer names are cut, and so are those of no interface.
fn named(name: &str) -> Request {
    let mut asked = [0; 40];
    let bytes = name.as_bytes();
    let length = bytes.len().min(libc::IFNAMSIZ - 1);
    asked[..length].copy_from_slice(&bytes[..length]);
    asked
}
