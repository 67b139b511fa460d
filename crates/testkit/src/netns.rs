//! Network namespaces with a pair of interfaces, and frames that are sent there.
//!
//! What is sent at `v0` comes in at `v1`, and the other way round. The names of namespaces have the process's number; dropping one
//! removes it with its interfaces. Making one is for root, and needs iproute2: `Err` says what is missing.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::libc;
use nix::sched::{CloneFlags, setns};

/// A namespace; it is removed when this is dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// One with the interfaces `v0` and `v1`, which are up, and `lo`.
    ///
    /// # Errors
    /// Why this machine cannot have one.
    pub fn with_pair() -> Result<Namespace, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("weir-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &name])?;
        let namespace = Namespace { name };
        namespace.ip(&["link", "add", "v0", "type", "veth", "peer", "name", "v1"])?;
        for interface in ["v0", "v1"] {
            // No packets of the kernel's own for an address of IPv6. Where that is not built in there are none.
            let _ = namespace.ip(&["link", "set", interface, "addrgenmode", "none"]);
            namespace.ip(&["link", "set", interface, "up"])?;
        }
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// A program that runs in it. It is the child itself: its number is the child's.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs `ip` in it.
    ///
    /// # Errors
    /// What it says.
    pub fn ip(&self, arguments: &[&str]) -> Result<(), String> {
        ip(&[&["-n", self.name.as_str()][..], arguments].concat())
    }

    /// Sends at one of its interfaces.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn sender(&self, interface: &str) -> io::Result<Sender> {
        let namespace = File::open(format!("/run/netns/{}", self.name))?;
        let interface = interface.to_owned();
        // A thread of its own is in the namespace as long as it makes the socket.
        let made = std::thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            socket(&interface)
        });
        made.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked"))).map(Sender)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("ip: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

/// Sends frames at an interface.
#[derive(Debug)]
pub struct Sender(OwnedFd);

impl Sender {
    /// Sends a whole Ethernet frame.
    ///
    /// # Errors
    /// If the interface takes none.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        loop {
            // SAFETY: the kernel reads so many bytes of the frame.
            let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
            match io::Error::last_os_error() {
                _ if sent == frame.len() as isize => return Ok(()),
                // The queue is full for now.
                error if sent < 0 && error.raw_os_error() == Some(libc::ENOBUFS) => std::thread::yield_now(),
                error => return Err(error),
            }
        }
    }
}

fn socket(interface: &str) -> io::Result<OwnedFd> {
    let index = nix::net::if_::if_nametoindex(interface)?;
    // SAFETY: a call without pointers; of no protocol, it receives nothing.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it to us.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: numbers alone, for which zeros are values.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index as i32;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads so many bytes of the address.
    let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    if bound == 0 { Ok(fd) } else { Err(io::Error::last_os_error()) }
}
