//! Network interfaces: which there are, and what the kernel and their drivers say of one.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd as _, OwnedFd};

use nix::ifaddrs::getifaddrs;
use nix::libc;
use weir_pcapng::{Interface, Speed};

use crate::error::Error;
use crate::live::cooked;
use crate::live::ring::{u16_at, u32_at};
use crate::live::sys;

/// All interfaces together.
const ANY: &str = "any";

/// LINKTYPE_ values of headers that are captured as they are.
const ETHERNET: u16 = 1;
const RAW: u16 = 101;
const WIFI: u16 = 105;
const RADIOTAP: u16 = 127;

/// An interface of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// It is up.
    pub is_up: bool,
}

/// The interfaces of this machine, and `any` after them.
///
/// # Errors
/// If the kernel does not say.
pub fn list() -> io::Result<Vec<Listed>> {
    let mut listed: Vec<Listed> = Vec::new();
    for address in getifaddrs()? {
        let is_up = address.flags.contains(nix::net::if_::InterfaceFlags::IFF_UP);
        if listed.iter().all(|known| known.name != address.interface_name) {
            listed.push(Listed { name: address.interface_name, is_up });
        }
    }
    listed.push(Listed { name: ANY.to_owned(), is_up: true });
    Ok(listed)
}

/// The link type of packets of an interface: LINKTYPE_ of a file.
///
/// # Errors
/// If there is no such interface.
pub fn link_type(name: &str) -> Result<u16, Error> {
    Ok(Device::of(name)?.link_type())
}

/// The kernel's name and release, as files say them of sections and of interfaces.
pub fn os() -> Option<String> {
    let uname = nix::sys::utsname::uname().ok()?;
    Some(format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()))
}

/// An interface that is to be captured.
pub(super) struct Device {
    pub(super) name: String,
    /// 0: all of them.
    pub(super) index: i32,
    /// ARPHRD_; none of all of them.
    kind: Option<u16>,
    mac: Option<[u8; 6]>,
    questions: OwnedFd,
}

impl Device {
    pub(super) fn of(name: &str) -> Result<Device, Error> {
        let refused = |doing| move |error| Error::Interface { name: name.to_owned(), doing, error };
        let questions = sys::question_socket().map_err(refused("asking the kernel"))?;
        if name == ANY {
            return Ok(Device { name: name.to_owned(), index: 0, kind: None, mac: None, questions });
        }
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Err(Error::NoInterface { name: name.to_owned() });
        }
        let ask = |request| match sys::ask(questions.as_fd(), request, name) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                Err(Error::NoInterface { name: name.to_owned() })
            }
            other => other.map_err(refused("asking for its address")),
        };
        let index = u32_at(&ask(SIOCGIFINDEX)?, 16) as i32;
        let address = ask(SIOCGIFHWADDR)?;
        let kind = u16_at(&address, 16);
        let mac = [address[18], address[19], address[20], address[21], address[22], address[23]];
        let mac = (kind == libc::ARPHRD_ETHER).then_some(mac);
        Ok(Device { name: name.to_owned(), index, kind: Some(kind), mac, questions })
    }

    /// Its packets have a header that is made here.
    pub(super) fn is_cooked(&self) -> bool {
        self.link_type() == cooked::LINK_TYPE
    }

    pub(super) fn is_loopback(&self) -> bool {
        self.kind == Some(libc::ARPHRD_LOOPBACK)
    }

    /// LINKTYPE_ of a file.
    pub(super) fn link_type(&self) -> u16 {
        match self.kind {
            Some(libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) => ETHERNET,
            Some(libc::ARPHRD_NONE | ARPHRD_RAWIP) => RAW,
            Some(ARPHRD_IEEE80211) => WIFI,
            Some(ARPHRD_IEEE80211_RADIOTAP) => RADIOTAP,
            Some(_) | None => cooked::LINK_TYPE,
        }
    }

    /// What a file says of it.
    pub(super) fn described(&self) -> Interface {
        let mut of = Interface::new(self.link_type(), 0);
        of.name = Some(self.name.clone());
        of.os = os();
        if self.kind.is_none() {
            return of;
        }
        of.mac = self.mac;
        (of.ipv4, of.ipv6) = self.addresses();
        of.speed = self.speed();
        if let Some((driver, bus)) = self.driver() {
            of.description = Some(driver).filter(|driver| !driver.is_empty());
            of.hardware = Some(bus).filter(|bus| !bus.is_empty());
        }
        of
    }

    #[expect(clippy::type_complexity, reason = "as a file has them")]
    fn addresses(&self) -> (Vec<(Ipv4Addr, Ipv4Addr)>, Vec<(Ipv6Addr, u8)>) {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        let Ok(all) = getifaddrs() else { return (ipv4, ipv6) };
        for of in all.filter(|of| of.interface_name == self.name) {
            let (Some(address), Some(mask)) = (of.address, of.netmask) else { continue };
            if let (Some(address), Some(mask)) = (address.as_sockaddr_in(), mask.as_sockaddr_in()) {
                ipv4.push((address.ip(), mask.ip()));
            }
            if let (Some(address), Some(mask)) = (address.as_sockaddr_in6(), mask.as_sockaddr_in6()) {
                ipv6.push((address.ip(), u128::from(mask.ip()).leading_ones() as u8));
            }
        }
        (ipv4, ipv6)
    }

    /// Bits per second. ETHTOOL_GSET: `struct ethtool_cmd`, with megabits per second in two halves.
    fn speed(&self) -> Option<Speed> {
        let data = sys::ask_driver::<44>(self.questions.as_fd(), &self.name, ETHTOOL_GSET).ok()?;
        let megabits = u32::from(u16_at(&data, 28)) << 16 | u32::from(u16_at(&data, 12));
        // All bits: it is not known.
        let is_known = !matches!(megabits, 0 | 0xffff | u32::MAX);
        is_known.then(|| Speed::Both(u64::from(megabits) * 1_000_000))
    }

    /// The driver's name, and where the device is on its bus. ETHTOOL_GDRVINFO: `struct ethtool_drvinfo`.
    fn driver(&self) -> Option<(String, String)> {
        let data = sys::ask_driver::<196>(self.questions.as_fd(), &self.name, ETHTOOL_GDRVINFO).ok()?;
        let text = |at: usize| {
            let text = data[at..at + 32].split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        };
        // The kernel's words for none.
        let bus = if text(100) == "N/A" { String::new() } else { text(100) };
        Some((text(4), bus))
    }

    /// Hashes that the kernel says are the device's, by Toeplitz: the device hashes what it receives (ETH_FLAG_RXHASH), and by that function (ETHTOOL_GRSSH). Of
    /// others it would be the kernel's own hash, which files have no name for.
    pub(super) fn has_toeplitz(&self) -> bool {
        let fd = self.questions.as_fd();
        let Ok(flags) = sys::ask_driver::<8>(fd, &self.name, ETHTOOL_GFLAGS) else { return false };
        let Ok(hashing) = sys::ask_driver::<32>(fd, &self.name, ETHTOOL_GRSSH) else { return false };
        self.kind == Some(libc::ARPHRD_ETHER) && u32_at(&flags, 4) & 1 << 28 != 0 && hashing[16] == 1
    }
}

const SIOCGIFINDEX: libc::Ioctl = 0x8933;
const SIOCGIFHWADDR: libc::Ioctl = 0x8927;

const ARPHRD_RAWIP: u16 = 519;
const ARPHRD_IEEE80211: u16 = 801;
const ARPHRD_IEEE80211_RADIOTAP: u16 = 803;

const ETHTOOL_GSET: u32 = 0x01;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GRSSH: u32 = 0x46;
