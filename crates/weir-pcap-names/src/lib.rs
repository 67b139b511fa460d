//! Names in packet filters, as the system has them: [`SystemNames`], which a filter's compiler asks.
//!
//! In: names, and files that the user gives in place of the system's. Out: addresses, networks, ports, numbers of protocols and of
//! interfaces, or nothing. Hosts are asked of the system's resolver, which may ask the network. The files are those of hosts(5), networks(5),
//! services(5), protocols(5) and ethers(5): a line an entry, fields between blanks, comments after `#`. Lines that are none are passed over, as the
//! C library does. A file is read when a name is first asked of it; one that the user named has to be there.
//!
//! Deliberately not here: the language of filters, and what is done where a name is not known.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

use std::cell::OnceCell;
use std::fs;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::Path;

use weir_pcap_filter::{Names, Transport};

/// What the system knows by name.
///
/// ```
/// use weir_pcap_filter::{Names as _, Transport};
/// use weir_pcap_names::SystemNames;
///
/// // Nothing where /etc/services does not have it.
/// let port = SystemNames::default().port("http", Transport::Tcp);
/// assert!(matches!(port, None | Some(80)));
/// ```
#[derive(Debug)]
pub struct SystemNames {
    /// None: the resolver is asked.
    hosts: Option<Table<IpAddr>>,
    ethers: Lazy<[u8; 6]>,
    networks: Lazy<u32>,
    services: Lazy<(u16, String)>,
    protocols: Lazy<u8>,
}

impl Default for SystemNames {
    fn default() -> SystemNames {
        SystemNames {
            hosts: None,
            ethers: Lazy::of("/etc/ethers", ether_line),
            networks: Lazy::of("/etc/networks", network_line),
            services: Lazy::of("/etc/services", service_line),
            protocols: Lazy::of("/etc/protocols", protocol_line),
        }
    }
}

impl SystemNames {
    /// Looks for names of hosts in this file alone, and asks no resolver.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn hosts(mut self, path: &Path) -> io::Result<SystemNames> {
        self.hosts = Some(Table::parse(&text(path)?, host_line));
        Ok(self)
    }

    /// Looks for names of hardware addresses in this file, not in `/etc/ethers`.
    ///
    /// # Errors
    /// As of [`SystemNames::hosts`].
    pub fn ethers(mut self, path: &Path) -> io::Result<SystemNames> {
        self.ethers.read(path)?;
        Ok(self)
    }

    /// Looks for names of networks in this file, not in `/etc/networks`.
    ///
    /// # Errors
    /// As of [`SystemNames::hosts`].
    pub fn networks(mut self, path: &Path) -> io::Result<SystemNames> {
        self.networks.read(path)?;
        Ok(self)
    }
}

impl SystemNames {
    /// Addresses of hosts with their names, as the file that was given has them, or `/etc/hosts`. No resolver is asked.
    pub fn listed_hosts(&self) -> Vec<(IpAddr, Vec<String>)> {
        match &self.hosts {
            Some(hosts) => hosts.entries.clone(),
            None => Lazy::of("/etc/hosts", host_line).table().entries.clone(),
        }
    }

    /// Hardware addresses with their names, of the file that was given, or of `/etc/ethers`.
    pub fn listed_ethers(&self) -> Vec<([u8; 6], Vec<String>)> {
        self.ethers.table().entries.clone()
    }
}

impl Names for SystemNames {
    fn host(&self, name: &str) -> Vec<IpAddr> {
        let mut found: Vec<IpAddr> = match &self.hosts {
            Some(hosts) => hosts.named(name, str::eq_ignore_ascii_case).copied().collect(),
            None => {
                let found = (name, 0).to_socket_addrs();
                found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
            }
        };
        let mut seen = Vec::new();
        found.retain(|address| {
            let is_new = !seen.contains(address);
            seen.push(*address);
            is_new
        });
        found
    }

    fn network(&self, name: &str) -> Option<u32> {
        self.networks.table().named(name, str::eq_ignore_ascii_case).next().copied()
    }

    fn port(&self, name: &str, transport: Transport) -> Option<u16> {
        let wanted = match transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
            Transport::Sctp => "sctp",
        };
        let mut found = self.services.table().named(name, |name, wanted| name == wanted);
        found.find(|(_, transport)| transport == wanted).map(|(port, _)| *port)
    }

    fn protocol(&self, name: &str) -> Option<u8> {
        self.protocols.table().named(name, |name, wanted| name == wanted).next().copied()
    }

    fn interface(&self, name: &str) -> Option<u32> {
        // A name that leads elsewhere is none.
        let is_name = !name.contains(['/', '\0']) && !matches!(name, "." | "..");
        let text = is_name.then(|| fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok())??;
        text.trim().parse().ok()
    }

    fn ether(&self, name: &str) -> Option<[u8; 6]> {
        self.ethers.table().named(name, str::eq_ignore_ascii_case).next().copied()
    }
}

/// A file's entries, in its order.
#[derive(Debug)]
struct Table<T> {
    entries: Vec<(T, Vec<String>)>,
}

/// What the fields of a line say, and by which names; `None`: nothing.
type Line<T> = fn(&[&str]) -> Option<(T, Vec<String>)>;

impl<T> Table<T> {
    fn parse(text: &str, line: Line<T>) -> Table<T> {
        let fields = |text: &str| {
            let (text, _) = text.split_once('#').unwrap_or((text, ""));
            line(&text.split_whitespace().collect::<Vec<_>>())
        };
        Table { entries: text.lines().filter_map(fields).collect() }
    }

    fn named<'a>(&'a self, name: &'a str, is_same: fn(&str, &str) -> bool) -> impl Iterator<Item = &'a T> {
        let entries = self.entries.iter();
        entries.filter(move |(_, names)| names.iter().any(|own| is_same(own, name))).map(|(value, _)| value)
    }
}

/// A table that is read when it is needed.
#[derive(Debug)]
struct Lazy<T> {
    path: &'static str,
    line: Line<T>,
    table: OnceCell<Table<T>>,
}

impl<T> Lazy<T> {
    fn of(path: &'static str, line: Line<T>) -> Lazy<T> {
        Lazy { path, line, table: OnceCell::new() }
    }

    fn read(&mut self, path: &Path) -> io::Result<()> {
        self.table = OnceCell::from(Table::parse(&text(path)?, self.line));
        Ok(())
    }

    fn table(&self) -> &Table<T> {
        // A system without the file knows no names.
        let text = || fs::read(self.path).unwrap_or_default();
        self.table.get_or_init(|| Table::parse(&String::from_utf8_lossy(&text()), self.line))
    }
}

fn text(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// `192.0.2.1 host.example host`
fn host_line(fields: &[&str]) -> Option<(IpAddr, Vec<String>)> {
    let (address, names) = fields.split_first()?;
    Some((address.parse().ok()?, owned(names)))
}

/// `0:1:2:3:4:5 host`
fn ether_line(fields: &[&str]) -> Option<([u8; 6], Vec<String>)> {
    let (address, names) = fields.split_first()?;
    let bytes: Option<Vec<u8>> = address.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    Some((bytes?.try_into().ok()?, owned(names)))
}

/// `loopback 127.0.0.0 alias`: a number of fewer parts goes on with zeros, as in the C library.
fn network_line(fields: &[&str]) -> Option<(u32, Vec<String>)> {
    let (number, names) = with_aliases(fields)?;
    let mut parts: Vec<u8> = number.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    if parts.len() > 4 {
        return None;
    }
    parts.resize(4, 0);
    // SANITY: there are four.
    Some((u32::from_be_bytes(parts.try_into().expect("four")), names))
}

/// `http 80/tcp www`
fn service_line(fields: &[&str]) -> Option<((u16, String), Vec<String>)> {
    let (number, names) = with_aliases(fields)?;
    let (port, transport) = number.split_once('/')?;
    Some(((port.parse().ok()?, transport.to_owned()), names))
}

/// `tcp 6 TCP`
fn protocol_line(fields: &[&str]) -> Option<(u8, Vec<String>)> {
    let (number, names) = with_aliases(fields)?;
    Some((number.parse().ok()?, names))
}

/// A name, what it is of, and other names.
fn with_aliases<'a>(fields: &[&'a str]) -> Option<(&'a str, Vec<String>)> {
    let [name, value, aliases @ ..] = fields else { return None };
    let names = [name].into_iter().chain(aliases).map(|name| (*name).to_owned()).collect();
    Some((*value, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: PartialEq + std::fmt::Debug>(line: Line<T>, text: &str, name: &str, value: &[T]) {
        let table = Table::parse(text, line);
        let found: Vec<&T> = table.named(name, |own, name| own == name).collect();
        assert_eq!(found, value.iter().collect::<Vec<_>>(), "{text}: {name}");
    }

    #[test]
    fn lines_are_read_as_the_manual_pages_have_them() {
        check(protocol_line, "# none\nicmp\t1 ICMP  # aliases before\n", "ICMP", &[1]);
        check(protocol_line, "a 256\na\nb x", "a", &[]);
        check(
            service_line,
            "http 80/tcp www #web\nhttp 80/udp",
            "http",
            &[(80, "tcp".into()), (80, "udp".into())],
        );
        check(service_line, "http 80/tcp www#web", "web", &[]);
        check(network_line, "lo 127\nnet 10.1 ten\nlong 1.2.3.4.5", "ten", &[0x0a01_0000]);
        check(network_line, "lo 127\n", "lo", &[0x7f00_0000]);
        check(network_line, "long 1.2.3.4.5\nlong 256", "long", &[]);
        check(ether_line, "0:1A:2:3:4:ff host", "host", &[[0, 0x1a, 2, 3, 4, 0xff]]);
        check(ether_line, "0:1:2:3:4 host\n0:1:2:3:4:100 host", "host", &[]);
        check(
            host_line,
            "::1 a b\n192.0.2.1 b",
            "b",
            &["::1".parse().unwrap(), "192.0.2.1".parse().unwrap()],
        );
    }
}
